//! Everything between the matrices.

pub(crate) mod attention;
pub(crate) mod elementwise;
pub(crate) mod norm;
pub(crate) mod pass_attention;
pub(crate) mod rope;
