//! What would make measurements on two states of a machine differ.

use std::fmt::Display;

use serde::{Deserialize, Serialize};

use crate::frequency::FrequencyPolicy;
use crate::power::PowerSource;
use crate::reading::Reading;
use crate::state::State;

/// A setting that is another one.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct Difference {
    /// Which one: `governor`, `power source`, ...
    pub name: String,
    /// What it was; `not readable` where that could not be said.
    pub before: String,
    /// What it is.
    pub after: String,
}

/// A setting by its name, and what it is in a state.
type Setting = (&'static str, fn(&State) -> Option<String>);

/// What is compared. What moves all the time (temperature, load, free memory, present frequency) is not a setting.
const SETTINGS: &[Setting] = &[
    ("processor", |state| text(&state.processor.model)),
    ("cores", |state| state.processor.cores.get().map(|_| state.chip()).map(|chip| chip.to_string())),
    ("microcode", |state| text(&state.processor.microcode)),
    ("kernel", |state| text(&state.os.kernel)),
    ("governor", |state| policies(state, |policy| text(&policy.governor))),
    ("frequency limits", |state| policies(state, frequency_limits)),
    ("energy preference", |state| policies(state, |policy| text(&policy.energy_preference))),
    ("boost", |state| state.frequency.boost.get().map(|&on| on_or_off(on))),
    ("power source", |state| state.power.source.get().map(|&source| PowerSource::name(source).to_owned())),
    ("power profile", |state| text(&state.power.profile)),
    ("low power mode", |state| state.power.low_power_mode.get().map(|&on| on_or_off(on))),
    ("affinity", |state| state.limits.affinity.get().map(|cpus| list(cpus))),
    ("cpuset", |state| state.limits.cpuset.get().map(|cpus| list(cpus))),
    ("cgroup quota", |state| state.limits.quota_cpus.get().map(|quota| limit(quota, "CPUs"))),
    ("priority", |state| text(&state.limits.nice)),
    ("scheduling", |state| text(&state.limits.scheduling)),
    ("background group", |state| text(&state.limits.android_group)),
    ("memory", |state| state.memory.total_bytes.get().map(|bytes| format!("{bytes} bytes"))),
    ("memory limit", |state| state.memory.limit_bytes.get().map(|bytes| limit(bytes, "bytes"))),
    ("page size", |state| state.memory.page_bytes.get().map(|bytes| format!("{bytes} bytes"))),
    ("large pages", |state| text(&state.memory.large_pages)),
    ("hypervisor", |state| state.virtualization.hypervisor.get().map(named)),
    ("container", |state| state.virtualization.container.get().map(named)),
];

/// What differs between two states and would make a measurement differ.
pub fn differences(before: &State, after: &State) -> Vec<Difference> {
    let difference = |(name, of): &Setting| {
        let (before, after) = (of(before), of(after));
        let shown = |value: Option<String>| value.unwrap_or_else(|| "not readable".to_owned());
        (before != after).then(|| Difference { name: (*name).to_owned(), before: shown(before), after: shown(after) })
    };
    SETTINGS.iter().filter_map(difference).collect()
}

fn text<T: Display>(reading: &Reading<T>) -> Option<String> {
    reading.get().map(ToString::to_string)
}

fn on_or_off(on: bool) -> String {
    (if on { "on" } else { "off" }).to_owned()
}

fn named(name: &Option<String>) -> String {
    name.clone().unwrap_or_else(|| "none".to_owned())
}

fn limit<T: Display>(limit: &Option<T>, unit: &str) -> String {
    limit.as_ref().map_or_else(|| "no limit".to_owned(), |limit| format!("{limit} {unit}"))
}

fn frequency_limits(policy: &FrequencyPolicy) -> Option<String> {
    let (min, max) = (policy.allowed_min_khz.get(), policy.allowed_max_khz.get()?);
    Some(min.map_or_else(|| format!("to {max} kHz"), |min| format!("{min} to {max} kHz")))
}

/// What all policies say: once where all say the same.
fn policies(state: &State, of: impl Fn(&FrequencyPolicy) -> Option<String>) -> Option<String> {
    let policies = state.frequency.policies.get()?;
    let said: Vec<String> =
        policies.iter().map(|policy| of(policy).unwrap_or_else(|| "not readable".to_owned())).collect();
    let first = said.first()?;
    if said.iter().all(|one| one == first) { Some(first.clone()) } else { Some(said.join(", ")) }
}

/// CPUs as the kernel lists them: `0-3,8`.
pub(crate) fn list(cpus: &[usize]) -> String {
    let mut ranges: Vec<(usize, usize)> = Vec::new();
    for &cpu in cpus {
        match ranges.last_mut() {
            Some((_, last)) if last.checked_add(1) == Some(cpu) => *last = cpu,
            _ => ranges.push((cpu, cpu)),
        }
    }
    let range = |&(first, last): &(usize, usize)| {
        if first == last { first.to_string() } else { format!("{first}-{last}") }
    };
    ranges.iter().map(range).collect::<Vec<_>>().join(",")
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::made_up;
    use crate::thermal::ThermalZone;

    #[test]
    fn settings_that_differ_are_named_with_both_values() {
        let before = State::read(&made_up::laptop());
        let mut after = before.clone();
        assert_eq!(differences(&before, &after), []);
        // What moves all the time does not count.
        after.memory.available_bytes = Reading::Known(1);
        after.thermal.zones = Reading::Known(vec![ThermalZone::default()]);
        after.pressure.load_average = Reading::Known(7.0);
        assert_eq!(differences(&before, &after), []);
        after.power.source = Reading::Known(PowerSource::Battery);
        after.limits.affinity = Reading::Known(vec![0, 1, 2, 5]);
        after.limits.quota_cpus = Reading::Known(Some(0.5));
        after.memory.large_pages = Reading::NotReadable("x".to_owned());
        if let Reading::Known(policies) = &mut after.frequency.policies {
            policies[0].governor = Reading::Known("performance".to_owned());
        }
        let found = differences(&before, &after);
        let names: Vec<&str> = found.iter().map(|difference| difference.name.as_str()).collect();
        assert_eq!(names, ["governor", "power source", "affinity", "cgroup quota", "large pages"]);
        assert!(found[0].after.starts_with("performance, powersave, "), "{}", found[0].after);
        assert_eq!((found[1].before.as_str(), found[1].after.as_str()), ("mains", "battery"));
        assert_eq!((found[2].before.as_str(), found[2].after.as_str()), ("0-19", "0-2,5"));
        assert_eq!((found[3].before.as_str(), found[3].after.as_str()), ("no limit", "0.5 CPUs"));
        assert_eq!((found[4].before.as_str(), found[4].after.as_str()), ("madvise", "not readable"));
    }

    #[test]
    fn lists_are_written_as_they_are_read() {
        for text in ["0", "0-3", "0-1,3,5-7"] {
            assert_eq!(list(&crate::topology::cpu_list("", text).unwrap()), text);
        }
        assert_eq!(list(&[]), "");
        assert_eq!(list(&[usize::MAX, 0]), format!("{},0", usize::MAX));
    }
}
