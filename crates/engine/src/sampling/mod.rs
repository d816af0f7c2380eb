//! From logits to the next token.
//!
//! The steps, in this order (that of llama.cpp's default chain): penalties, top-k, top-p, min-p, temperature, draw.
//! Top-p and min-p therefore look at the probabilities before the temperature, so that a high temperature does not let
//! nonsense in. A temperature of 0 takes the largest logit after the penalties.
//!
//! Ties go to the lowest token id, so that an answer depends on nothing but logits, options and seed.

mod options;
mod sampler;

pub use options::SamplingOptions;
pub use sampler::Sampler;
