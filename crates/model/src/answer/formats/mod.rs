//! The formats, one file each. The first whose signs a template has is taken, so those that say more stand first.

mod apertus;
mod apriel;
mod cohere;
mod command_r_plus;
mod deepseek;
mod deepseek_dsml;
mod firefunction;
mod functionary_v3_1;
mod functionary_v3_2;
mod gemma_4;
mod gigachat;
mod glm;
mod granite_3;
mod harmony;
mod hermes;
mod hunyuan_3;
mod kimi_k2;
mod kimi_k3;
mod lfm2;
mod llama_3;
mod minicpm_5;
mod minimax_m1;
mod minimax_m2;
mod minimax_m3;
mod mistral;
mod mistral_list;
mod muse;
mod nemotron;
mod plain;
mod qwen_coder;
mod seed;
mod solar;

use super::format::Format;
pub(super) use plain::PLAIN;

/// All formats with calls.
pub(super) static FORMATS: &[&Format] = &[
    &harmony::FORMAT,
    &muse::FORMAT,
    &kimi_k3::FORMAT,
    &solar::FORMAT,
    &gemma_4::FORMAT,
    &minimax_m3::FORMAT,
    &minimax_m2::FORMAT,
    &apriel::FORMAT,
    &minimax_m1::FORMAT,
    &deepseek_dsml::FORMAT,
    &deepseek::FORMAT,
    &kimi_k2::FORMAT,
    &seed::FORMAT,
    &hunyuan_3::FORMAT,
    &glm::FORMAT,
    &minicpm_5::FORMAT,
    &cohere::FORMAT,
    &command_r_plus::FORMAT,
    &apertus::FORMAT,
    &lfm2::FORMAT,
    &mistral::FORMAT,
    &mistral_list::FORMAT,
    &nemotron::FORMAT,
    &qwen_coder::FORMAT,
    &functionary_v3_1::FORMAT,
    &functionary_v3_2::FORMAT,
    &firefunction::FORMAT,
    &granite_3::FORMAT,
    &gigachat::FORMAT,
    &hermes::FORMAT,
    &llama_3::FORMAT,
];
