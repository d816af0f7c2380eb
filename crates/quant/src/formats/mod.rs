//! The formats, one file each, listed once.

mod blocks;
mod float;
mod q4_0;
mod q4_1;
mod q4_k;
mod q5_0;
mod q6_k;
mod q8_0;

use crate::Format;

/// All formats that can be read, by GGUF id.
pub static FORMATS: &[&Format] = &[
    &float::F32,
    &float::F16,
    &q4_0::Q4_0,
    &q4_1::Q4_1,
    &q5_0::Q5_0,
    &q8_0::Q8_0,
    &q4_k::Q4_K,
    &q6_k::Q6_K,
    &float::BF16,
];

/// The format with this GGUF type id, or `None` where it cannot be read here (see [`crate::gguf_type`]).
pub fn format_by_gguf_id(id: u32) -> Option<&'static Format> {
    FORMATS.iter().copied().find(|format| format.gguf_id == id)
}

/// The format with this name; case does not matter.
pub fn format_by_name(name: &str) -> Option<&'static Format> {
    FORMATS.iter().copied().find(|format| format.name.eq_ignore_ascii_case(name))
}
