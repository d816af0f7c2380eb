//! Everything between the matrices.

pub(crate) mod attention;
pub(crate) mod elementwise;
pub(crate) mod experts;
pub(crate) mod norm;
pub(crate) mod pass_attention;
pub(crate) mod rope;
pub(crate) mod short_conv;
