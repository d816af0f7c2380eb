//! What a benchmark ran on, before its first number.

use duan::bench::Setup;
use duan::state::{FrequencyPolicy, Reading, State};

use crate::output::style::on_one_line;
use crate::output::units::bytes_text;

/// Letters of a hash that tell files apart for people; `--json` has all.
const HASH_LETTERS: usize = 12;

/// A few lines of what decides about the numbers: the model, the machine, threads, and the state that changes from day to day.
pub(super) fn head(setup: &Setup) -> String {
    [model(setup), machine(setup), threads(setup), state(&setup.state)].map(|line| format!("{line}\n")).concat() + "\n"
}

fn known<T: ToString>(reading: &Reading<T>) -> String {
    reading.get().map_or_else(|| "not readable".to_owned(), |value| on_one_line(&value.to_string()))
}

fn model(setup: &Setup) -> String {
    let hash = match &setup.model_sha256 {
        Reading::Known(hash) => format!("SHA-256 {}...", hash.chars().take(HASH_LETTERS).collect::<String>()),
        Reading::NotReadable(reason) => format!("hash not readable: {}", on_one_line(reason)),
    };
    let bits = setup.model_bytes as f64 * 8.0 / setup.parameters.max(1) as f64;
    let (kind, bytes) = (on_one_line(&setup.model_type), bytes_text(setup.model_bytes));
    format!("model: {}, {kind}, {bytes}, {bits:.2} bits a weight, {hash}", on_one_line(&setup.model_filename))
}

fn machine(setup: &Setup) -> String {
    let State { os, virtualization, .. } = &setup.state;
    let inside = |what: &str, name: &Reading<Option<String>>| match name {
        Reading::Known(None) => String::new(),
        Reading::Known(Some(name)) => format!(", {what} {}", on_one_line(name)),
        Reading::NotReadable(_) => format!(", {what} not readable"),
    };
    let isa = setup.isa.as_deref().map_or_else(String::new, |isa| format!(", {isa} used"));
    let name =
        if setup.cpu_info.is_empty() { "processor not readable".to_owned() } else { on_one_line(&setup.cpu_info) };
    let hypervisor = inside("hypervisor", &virtualization.hypervisor);
    let container = inside("container", &virtualization.container);
    format!(
        "machine: {name}, {} of {} CPUs{isa}, kernel {}{hypervisor}{container}",
        setup.processors,
        setup.processors_on,
        known(&os.kernel)
    )
}

fn threads(setup: &Setup) -> String {
    let threads = match (setup.threads_prefill, setup.threads_decode) {
        (prefill, decode) if prefill == decode => format!("{decode}"),
        (prefill, decode) => format!("{prefill} for prefill, {decode} for decode"),
    };
    let fallbacks = match setup.fallbacks.len() {
        0 => "no fallbacks".to_owned(),
        count => format!("{count} pieces of the model fall back"),
    };
    let unfused =
        if setup.no_fuse.is_empty() { String::new() } else { format!(", not fused: {}", setup.no_fuse.join(" ")) };
    let debug = if setup.build_profile == "release" { "" } else { " (debug build: slow)" };
    format!(
        "threads: {threads}, pinning {}; {} with {fallbacks}, weights {}, KV cache {}, context {}{unfused}; {}{debug}",
        setup.pinning,
        setup.backends,
        setup.packing,
        duan::bench::kv_name(setup.kv_format),
        setup.context,
        setup.build,
    )
}

fn state(state: &State) -> String {
    let governor = all_alike(state, |policy| known(&policy.governor));
    let allowed = all_alike(state, |policy| {
        policy.allowed_max_khz.get().map_or_else(unreadable, |khz| format!("{:.2} GHz", *khz as f64 / 1e6))
    });
    let hottest = state.thermal.zones.get().and_then(|zones| {
        let zones = zones.iter().filter_map(|zone| zone.millicelsius.get());
        zones.max().map(|milli| format!("{:.0} °C", *milli as f64 / 1e3))
    });
    let quota = match &state.limits.quota_cpus {
        Reading::Known(None) => "no quota".to_owned(),
        Reading::Known(Some(quota)) => format!("quota of {quota} CPUs"),
        Reading::NotReadable(_) => "quota not readable".to_owned(),
    };
    let power = state.power.source.get().map_or_else(unreadable, |source| source.name().to_owned());
    let bytes = |reading: &Reading<u64>| reading.get().map_or_else(unreadable, |bytes| bytes_text(*bytes));
    format!(
        "state: memory {} free of {}, {quota}, governor {governor}, up to {allowed}, temperature {}, power {power}",
        bytes(&state.memory.usable_bytes),
        bytes(&state.memory.total_bytes),
        hottest.unwrap_or_else(unreadable),
    )
}

fn unreadable() -> String {
    "not readable".to_owned()
}

/// What all groups of CPUs have in common, or the differing values.
fn all_alike(state: &State, of: impl Fn(&FrequencyPolicy) -> String) -> String {
    let Some(policies) = state.frequency.policies.get() else { return unreadable() };
    let mut said: Vec<String> = Vec::new();
    for one in policies.iter().map(of) {
        if !said.contains(&one) {
            said.push(one);
        }
    }
    if said.is_empty() { unreadable() } else { said.join(" and ") }
}
