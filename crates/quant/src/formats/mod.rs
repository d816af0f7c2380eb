//! The formats, one file each, listed once.

mod blocks;
mod float;
mod grids;
pub mod groups;
mod iq1_m;
mod iq1_s;
mod iq2_s;
mod iq2_xs;
mod iq2_xxs;
mod iq3_s;
mod iq3_xxs;
mod iq4_nl;
mod iq4_xs;
mod mxfp4;
mod nvfp4;
mod q2_k;
mod q3_k;
mod q4_0;
mod q4_1;
mod q4_k;
mod q5_0;
mod q5_1;
mod q5_k;
mod q6_k;
mod q8_0;
mod tq1_0;
mod tq2_0;

use crate::Format;

/// All formats: those of GGUF files by their id, then our own.
pub static FORMATS: &[&Format] = &[
    &float::F32,
    &float::F16,
    &q4_0::Q4_0,
    &q4_1::Q4_1,
    &q5_0::Q5_0,
    &q5_1::Q5_1,
    &q8_0::Q8_0,
    &q2_k::Q2_K,
    &q3_k::Q3_K,
    &q4_k::Q4_K,
    &q5_k::Q5_K,
    &q6_k::Q6_K,
    &iq2_xxs::IQ2_XXS,
    &iq2_xs::IQ2_XS,
    &iq3_xxs::IQ3_XXS,
    &iq1_s::IQ1_S,
    &iq4_nl::IQ4_NL,
    &iq3_s::IQ3_S,
    &iq2_s::IQ2_S,
    &iq4_xs::IQ4_XS,
    &iq1_m::IQ1_M,
    &float::BF16,
    &tq1_0::TQ1_0,
    &tq2_0::TQ2_0,
    &mxfp4::MXFP4,
    &nvfp4::NVFP4,
    &groups::format::<4, 32, { groups::SYMMETRIC }>("int4-g32"),
    &groups::format::<4, 64, { groups::SYMMETRIC }>("int4-g64"),
    &groups::format::<4, 128, { groups::SYMMETRIC }>("int4-g128"),
    &groups::format::<4, 256, { groups::SYMMETRIC }>("int4-g256"),
    &groups::format::<4, 32, { groups::ZERO_POINT }>("int4-g32-zp"),
    &groups::format::<4, 64, { groups::ZERO_POINT }>("int4-g64-zp"),
    &groups::format::<4, 128, { groups::ZERO_POINT }>("int4-g128-zp"),
    &groups::format::<4, 256, { groups::ZERO_POINT }>("int4-g256-zp"),
    &groups::format::<4, 32, { groups::BIAS }>("int4-g32-bias"),
    &groups::format::<4, 64, { groups::BIAS }>("int4-g64-bias"),
    &groups::format::<4, 128, { groups::BIAS }>("int4-g128-bias"),
    &groups::format::<8, 32, { groups::SYMMETRIC }>("int8-g32"),
    &groups::format::<8, 64, { groups::SYMMETRIC }>("int8-g64"),
    &groups::format::<8, 128, { groups::SYMMETRIC }>("int8-g128"),
    &groups::format::<8, 256, { groups::SYMMETRIC }>("int8-g256"),
    &groups::format::<8, 32, { groups::ZERO_POINT }>("int8-g32-zp"),
    &groups::format::<8, 64, { groups::ZERO_POINT }>("int8-g64-zp"),
    &groups::format::<8, 128, { groups::ZERO_POINT }>("int8-g128-zp"),
    &groups::format::<8, 256, { groups::ZERO_POINT }>("int8-g256-zp"),
    &groups::format::<8, 32, { groups::BIAS }>("int8-g32-bias"),
    &groups::format::<8, 64, { groups::BIAS }>("int8-g64-bias"),
    &groups::format::<8, 128, { groups::BIAS }>("int8-g128-bias"),
];

/// The format with this GGUF type id, or `None` where it cannot be read here (see [`crate::gguf_type`]).
pub fn format_by_gguf_id(id: u32) -> Option<&'static Format> {
    FORMATS.iter().copied().find(|format| format.gguf_id == Some(id))
}

/// The format with this name; case does not matter.
pub fn format_by_name(name: &str) -> Option<&'static Format> {
    FORMATS.iter().copied().find(|format| format.name.eq_ignore_ascii_case(name))
}
