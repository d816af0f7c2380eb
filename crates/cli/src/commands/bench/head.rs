//! What a benchmark ran on, before its first number.

use duan::bench::Setup;
use duan::state::{FrequencyPolicy, Reading, State, cpu_list};

use crate::output::style::on_one_line;
use crate::output::units::bytes_text;

/// Letters of a hash that tell files apart for people; `--json` has all.
const HASH_LETTERS: usize = 12;

/// A few lines of what decides about the numbers: the model, the machine, threads, and the state that changes from day to day.
pub(in crate::commands) fn head(setup: &Setup) -> String {
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

/// What changes from day to day, and then what of it nobody can read.
fn state(state: &State) -> String {
    let bytes = |reading: &Reading<u64>| reading.get().map(|bytes| bytes_text(*bytes));
    let free = bytes(&state.memory.usable_bytes).zip(bytes(&state.memory.total_bytes));
    let quota = state.limits.quota_cpus.get().map(|quota| match quota {
        None => "no quota".to_owned(),
        Some(quota) => format!("quota of {quota} CPUs"),
    });
    let affinity = state.limits.affinity.get().map(|cpus| format!("on CPUs {}", cpu_list(cpus)));
    let facts = [
        ("memory", free.map(|(free, all)| format!("memory {free} free of {all}"))),
        ("affinity", affinity),
        ("quota", quota),
        ("priority", state.limits.nice.get().map(|nice| format!("nice {nice}"))),
        (
            "governor",
            all_alike(state, |policy| policy.governor.get().map(|name| on_one_line(name)))
                .map(|name| format!("governor {name}")),
        ),
        ("highest frequency", all_alike(state, allowed).map(|hz| format!("up to {hz}"))),
        ("temperature", hottest(state)),
        ("power source", state.power.source.get().map(|source| format!("power from {}", source.name()))),
        (
            "steal",
            state.virtualization.steal_share.get().map(|share| format!("steal {:.1} % since the start", share * 100.0)),
        ),
    ];
    let (known, unknown): (Vec<_>, Vec<_>) = facts.into_iter().partition(|(_, fact)| fact.is_some());
    let known: Vec<String> = known.into_iter().filter_map(|(_, fact)| fact).collect();
    let unknown: Vec<&str> = unknown.into_iter().map(|(name, _)| name).collect();
    let unknown = if unknown.is_empty() {
        String::new()
    } else {
        format!("; not readable: {} (`duan devices` says why)", unknown.join(", "))
    };
    format!("state: {}{unknown}", known.join(", "))
}

fn allowed(policy: &FrequencyPolicy) -> Option<String> {
    policy.allowed_max_khz.get().map(|khz| format!("{:.2} GHz", *khz as f64 / 1e6))
}

/// Of all zones and sensors the hottest.
fn hottest(state: &State) -> Option<String> {
    let zones = state.thermal.zones.get().into_iter().flatten().filter_map(|zone| zone.millicelsius.get());
    let sensors = state.thermal.sensors.get().into_iter().flatten().filter_map(|sensor| sensor.millicelsius.get());
    zones.chain(sensors).max().map(|milli| format!("{:.0} °C at the hottest", *milli as f64 / 1e3))
}

/// What all groups of CPUs have in common, or the differing values; none where one of them is not readable.
fn all_alike(state: &State, of: impl Fn(&FrequencyPolicy) -> Option<String>) -> Option<String> {
    let mut said: Vec<String> = Vec::new();
    for policy in state.frequency.policies.get()? {
        let one = of(policy)?;
        if !said.contains(&one) {
            said.push(one);
        }
    }
    (!said.is_empty()).then(|| said.join(" and "))
}
