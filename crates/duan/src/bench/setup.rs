//! The settings that stand beside every number.

use duan_cpu::ReadBandwidth;
use duan_engine::{Phase, Plan};
use duan_measure::bench::{Bandwidth, Setup};
use duan_measure::ceilings::CeilingsAt;
use duan_model::Model;
use duan_model::checkpoint::Checkpoint;
use duan_system::State;

use super::BenchOptions;
use crate::devices::Devices;
use crate::facts::{TypeFacts, file_type, types_of};
use crate::options::EngineOptions;
use crate::packs::Packing;
use crate::state::ModelState;

/// What is known of one run.
pub(crate) struct Known<'a> {
    pub(crate) file: &'a Checkpoint,
    pub(crate) model: &'a Model,
    pub(crate) devices: &'a Devices,
    pub(crate) plan: &'a Plan,
    pub(crate) engine: &'a EngineOptions,
    pub(crate) options: &'a BenchOptions,
}

impl Known<'_> {
    /// All of it, with what was measured before.
    pub(crate) fn setup(
        &self,
        max_rows: usize,
        context: usize,
        state: State,
        load_average: Option<f64>,
        (ceilings, ceilings_load_of_others): (Result<CeilingsAt, String>, Option<f64>),
    ) -> Setup {
        let Known { file, model, devices, plan, engine, options } = *self;
        let cpu = devices.cpu();
        let tensors = file.tensors();
        let parameters = tensors.iter().map(|tensor| tensor.dims.iter().product::<u64>()).fold(0, u64::saturating_add);
        let used: Vec<&str> = (0..plan.devices.len())
            .filter(|&device| !plan.ops_of(device).is_empty())
            .map(|device| plan.devices[device].as_str())
            .collect();
        let cpus = state.processor.cores.get().map(|cores| cores.iter().map(|core| core.cpus.len()).sum());
        Setup {
            build: format!("duan-{}", env!("CARGO_PKG_VERSION")),
            build_profile: if cfg!(debug_assertions) { "debug" } else { "release" },
            state,
            cpu_info: cpu.model.unwrap_or_default(),
            isa: used.contains(&"cpu").then_some(cpu.isa),
            backends: used.join(","),
            model_filename: file.label().to_owned(),
            model_sha256: ModelState::of(file, engine).sha256,
            model_type: model_type(file, model, parameters),
            model_bytes: tensors.iter().filter_map(|tensor| tensor.bytes).fold(0, u64::saturating_add),
            parameters,
            max_rows,
            threads_prefill: cpu.threads_prefill,
            threads_decode: cpu.threads_decode,
            pinning: engine.pinning.name().to_owned(),
            fallbacks: fallbacks(plan),
            no_fuse: engine.no_fuse.iter().map(|fusion| fusion.name().to_owned()).collect(),
            packing: packing(&engine.packing),
            context,
            warm_ups: options.warm_ups,
            pause: options.pause,
            kv_format: engine.kv_format,
            processors_on: cpus.unwrap_or(cpu.processors),
            processors: cpu.processors,
            load_average,
            ceilings,
            ceilings_load_of_others,
        }
    }
}

/// Ops of decode that do not run where they should, a line for each piece of the graph.
fn fallbacks(plan: &Plan) -> Vec<String> {
    let of_decode = plan.fallbacks().into_iter().filter(|segment| segment.phase == Phase::Decode);
    of_decode
        .map(|segment| format!("{} ops on {}: {}", segment.ops, segment.device, segment.kinds.join(", ")))
        .collect()
}

fn packing(packing: &Packing) -> &'static str {
    match packing {
        Packing::AsInFile => "as in file",
        Packing::InMemory => "in memory",
        Packing::Kept(_) => "kept",
    }
}

/// What was read, as data.
pub(crate) fn told(read: ReadBandwidth) -> Bandwidth {
    let ReadBandwidth { bytes_per_s, bytes, reads, threads, pages, way } = read;
    Bandwidth { bytes_per_s, bytes, reads, threads, pages: pages.to_owned(), way: way.to_owned() }
}

/// Family, size and format: "llama 1.24B Q4_0".
fn model_type(file: &Checkpoint, model: &Model, parameters: u64) -> String {
    // Files that do not say it are called by the type of most of their bytes.
    let most_bytes = || {
        let bytes = |row: &TypeFacts| row.bytes.unwrap_or(0);
        let largest = types_of(file).into_iter().max_by_key(bytes);
        largest.map_or_else(|| "?".to_owned(), |row| row.name)
    };
    let format = file_type(file.metadata()).unwrap_or_else(most_bytes);
    format!("{} {} {format}", model.config.family, size_label(parameters))
}

/// So many weights, in three digits: "135M", "1.24B".
fn size_label(parameters: u64) -> String {
    match parameters {
        0..999_500 => format!("{:.0}K", parameters as f64 / 1e3),
        999_500..999_500_000 => format!("{:.0}M", parameters as f64 / 1e6),
        _ => format!("{:.2}B", parameters as f64 / 1e9),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sizes_change_their_unit_before_they_have_four_digits() {
        let counts = [33_264, 999_499, 999_500, 134_515_008, 999_499_999, 999_885_952, 7_615_616_512];
        assert_eq!(counts.map(size_label), ["33K", "999K", "1M", "135M", "999M", "1.00B", "7.62B"]);
    }
}
