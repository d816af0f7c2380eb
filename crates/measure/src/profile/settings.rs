//! The settings that stand beside a profile, named as benchmarks name them.

use duan_system::{Reading, State};
use serde::Serialize;

use crate::bench::{Setup, kv_name};
use crate::ceilings::CeilingsAt;

/// What ran, on what, and how.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Settings {
    /// What was built.
    pub build_commit: String,
    /// How it was built: `release` or `debug`.
    pub build_profile: &'static str,
    /// What the processor calls itself.
    pub cpu_info: String,
    /// The devices that ran it.
    pub backends: String,
    /// The instruction set that kernels used, where a device has several.
    pub isa: Option<String>,
    /// The model's file.
    pub model_filename: String,
    /// What its bytes are known by.
    pub model_sha256: Reading<String>,
    /// Family, size and format.
    pub model_type: String,
    /// Bytes of all tensors.
    pub model_size: u64,
    /// Weights of all tensors.
    pub model_n_params: u64,
    /// The most tokens of a pass.
    pub n_batch: usize,
    /// Threads of prefill.
    pub threads_prefill: usize,
    /// Threads of decode.
    pub threads_decode: usize,
    /// What threads are held to.
    pub pinning: String,
    /// Ops that run on another device than the preferred one, in words.
    pub fallbacks: Vec<String>,
    /// Combinations of ops that were not to run together.
    pub no_fuse: Vec<String>,
    /// What becomes of laid-out weights.
    pub packing: &'static str,
    /// Positions of the context.
    pub n_ctx: usize,
    /// How keys are kept.
    pub type_k: &'static str,
    /// How values are kept.
    pub type_v: &'static str,
    /// What the machine can do at most with these threads.
    pub ceilings: Option<CeilingsAt>,
    /// Why that was not measured.
    pub ceilings_skipped: Option<String>,
    /// The machine before anything was run.
    pub state: State,
}

impl Settings {
    /// Those of a run.
    pub fn of(setup: &Setup) -> Self {
        Self {
            build_commit: setup.build.clone(),
            build_profile: setup.build_profile,
            cpu_info: setup.cpu_info.clone(),
            backends: setup.backends.clone(),
            isa: setup.isa.clone(),
            model_filename: setup.model_filename.clone(),
            model_sha256: setup.model_sha256.clone(),
            model_type: setup.model_type.clone(),
            model_size: setup.model_bytes,
            model_n_params: setup.parameters,
            n_batch: setup.max_rows,
            threads_prefill: setup.threads_prefill,
            threads_decode: setup.threads_decode,
            pinning: setup.pinning.clone(),
            fallbacks: setup.fallbacks.clone(),
            no_fuse: setup.no_fuse.clone(),
            packing: setup.packing,
            n_ctx: setup.context,
            type_k: kv_name(setup.kv_format),
            type_v: kv_name(setup.kv_format),
            ceilings: setup.ceilings.as_ref().ok().cloned(),
            ceilings_skipped: setup.ceilings.as_ref().err().cloned(),
            state: setup.state.clone(),
        }
    }
}
