//! What a measurement was made on: the machine, this program, and the model.
//!
//! The machine is [`duan_system::State`]; here stands beside it what duan settled on, and what is known of a model's file.

use duan_backend::KvFormat;
use duan_cpu::Pinning;
use duan_model::checkpoint::Checkpoint;
use duan_system::Local;
use serde::{Deserialize, Serialize};

pub use duan_system::{
    Battery, Cache, Chip, ChipCores, CoolingDevice, CoreClass, CoreState, Counters, Difference, Frequency,
    FrequencyPolicy, Limits, Memory, Movement, OperatingSystem, Power, PowerSource, Pressure, Processor, Reading,
    Sensor, Stall, State, Thermal, ThermalZone, Throttling, Virtualization, cpu_list, differences, made_up,
};

use crate::devices::CpuInfo;
use crate::engine::Engine;
use crate::facts::{TypeFacts, file_type, types_of};
use crate::options::EngineOptions;
use crate::packs::{self, Packing};

/// The machine, and what duan made of it.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct DeviceState {
    /// The machine as its system shows it.
    #[serde(flatten)]
    pub machine: State,
    /// This program, and what it settled on.
    pub duan: ProgramState,
}

/// This program, and what it settled on.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct ProgramState {
    /// Its version.
    pub version: String,
    /// How it was built: `release`, or `debug` where it checks itself while it runs, and is slower.
    pub build_profile: String,
    /// What it was compiled for.
    pub target: String,
    /// The instruction sets that kernels exist for and this processor has, the best last.
    pub isas_found: Vec<String>,
    /// The one that kernels use.
    pub isa_used: String,
    /// Threads while one token is computed.
    pub threads_decode: usize,
    /// Threads while a prompt is computed.
    pub threads_prefill: usize,
    /// Why decode has that many.
    pub thread_reason: String,
    /// What threads are to be held to.
    pub pinning: String,
    /// How many are.
    pub threads_held: usize,
}

/// What is known of a model's file.
#[derive(Debug, Clone, PartialEq, Serialize)]
#[non_exhaustive]
pub struct ModelState {
    /// The file or folder, as it was asked for.
    pub file: String,
    /// SHA-256 of the file; of several files, that of their hashes in their order.
    pub sha256: Reading<String>,
    /// Length of the file, or of all files.
    pub bytes: u64,
    /// What the file calls its mix of formats: `Q4_K_M`, ...
    pub file_type: Option<String>,
    /// The tensors by their formats, that of the most weights first.
    pub formats: Vec<TypeFacts>,
    /// Bits of all tensors per weight, where the sizes of all formats are known.
    pub bits_per_weight: Option<f64>,
    /// Weights of all tensors.
    pub parameters: u64,
    /// Positions that the model was made for.
    pub context_length: Option<usize>,
    /// Positions that are asked for; `None` is the model's own, up to a limit.
    pub context: Option<usize>,
    /// The most tokens of one pass over a prompt.
    pub max_rows: usize,
    /// How the KV cache keeps its numbers.
    pub kv_format: &'static str,
}

impl Engine {
    /// The machine as it is now, and what this engine settled on. Takes some ten milliseconds, and more where commands must be run.
    pub fn state(&self) -> DeviceState {
        let cpu = self.device_set().cpu();
        DeviceState { machine: State::read(&Local::here()), duan: ProgramState::of(cpu, self.options().pinning) }
    }
}

impl ProgramState {
    fn of(cpu: CpuInfo, pinning: Pinning) -> Self {
        Self {
            version: env!("CARGO_PKG_VERSION").to_owned(),
            build_profile: (if cfg!(debug_assertions) { "debug" } else { "release" }).to_owned(),
            target: format!("{}-{}", std::env::consts::ARCH, std::env::consts::OS),
            isas_found: cpu.isas_available,
            isa_used: cpu.isa,
            threads_decode: cpu.threads_decode,
            threads_prefill: cpu.threads_prefill,
            thread_reason: cpu.thread_reason,
            pinning: pinning.name().to_owned(),
            threads_held: cpu.threads_held,
        }
    }
}

impl ModelState {
    /// What is known of an open file. Its hash is looked up where packs of it are kept; otherwise the file is read for it, a second
    /// for each gigabyte or so.
    pub fn of(file: &Checkpoint, options: &EngineOptions) -> Self {
        let cache = match &options.packing {
            Packing::Kept(kept) => Some(kept.cache_dir.as_path()),
            _ => None,
        };
        let formats = types_of(file);
        let context_length = duan_model::Model::from_checkpoint(file).ok().map(|model| model.config.context_length);
        Self {
            file: file.label().to_owned(),
            sha256: match packs::model_id(file, cache) {
                Ok(Some(id)) => Reading::Known(id),
                Ok(None) => Reading::NotReadable("the model is in memory".to_owned()),
                Err(error) => Reading::NotReadable(error.to_string()),
            },
            bytes: file.file_bytes(),
            file_type: file_type(file.metadata()),
            bits_per_weight: crate::facts::bits_per_weight(&formats),
            parameters: formats.iter().map(|row| row.weights).fold(0, u64::saturating_add),
            formats,
            context_length,
            context: options.context,
            max_rows: options.prefill_rows,
            kv_format: match options.kv_format {
                KvFormat::F16 => "f16",
                KvFormat::F32 => "f32",
            },
        }
    }
}
