//! Weights as the kernels read them: sixteen rows side by side.
//!
//! A *panel* holds [`PANEL_ROWS`](crate::simd::PANEL_ROWS) rows of a matrix. Block after block, the same piece of each of the sixteen rows lies next to
//! the other fifteen: first all rows' first word of codes, then their second one, ... then their scales. So one vector
//! register takes four columns of many rows, nothing is summed across its lanes, and a panel is read from its first byte to
//! its last. Laying out is a permutation of the file's bits and can be undone ([`Layout::unpack_row`]); a panel has as many
//! bytes as its rows have in the file. The last panel of a matrix is filled up with zeros.

mod layout;

pub(crate) use layout::{LAYOUT_VERSION, Layout};
