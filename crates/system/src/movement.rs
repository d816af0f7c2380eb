//! What moved between two moments.

use serde::{Deserialize, Serialize};

use crate::counters::{Counters, Energy, FrequencyNow, TemperatureNow};
use crate::limits::Throttling;
use crate::reading::Reading;
use crate::thermal::{CoolingDevice, ThrottleCounts};

/// What moved between two [`Counters`]. A counter that went backwards says nothing, but that of energy, which begins anew at a known
/// value.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct Movement {
    /// CPU time of the whole machine, of all kinds: the CPUs times the time between.
    pub cpu_total_ticks: Reading<u64>,
    /// The share of it in which nothing was to be done, from 0 to 1.
    pub idle_share: Reading<f64>,
    /// The share of it that the hypervisor gave to others.
    pub steal_share: Reading<f64>,
    /// The share of it that this process used.
    pub own_share: Reading<f64>,
    /// The share of it that other programs of this machine, and the kernel for them, used.
    pub others_share: Reading<f64>,
    /// CPU time of this process.
    pub own_cpu_ticks: Reading<u64>,
    /// What the quotas of control groups did.
    pub throttling: Reading<Throttling>,
    /// Pages of this process that had to be read from the disk.
    pub major_faults: Reading<u64>,
    /// How often its threads waited for something.
    pub voluntary_switches: Reading<u64>,
    /// How often they were taken off their CPU while they had work.
    pub involuntary_switches: Reading<u64>,
    /// What this process made the disk read.
    pub read_bytes: Reading<u64>,
    /// Energy by domain.
    pub energy: Reading<Vec<EnergyUsed>>,
    /// Frequency by group of CPUs.
    pub frequency: Reading<Vec<FrequencyMoved>>,
    /// Temperature by zone.
    pub temperature: Reading<Vec<TemperatureMoved>>,
    /// What cooled before and after.
    pub cooling: Reading<Vec<CoolingMoved>>,
    /// How often Intel processors held themselves back.
    pub throttle_counts: Reading<ThrottleCounts>,
    /// The load before.
    pub load_average_before: Reading<f64>,
    /// The load after.
    pub load_average_after: Reading<f64>,
    /// By how much the most memory ever held grew.
    pub peak_resident_growth_bytes: Reading<u64>,
    /// By how much the memory held grew.
    pub resident_growth_bytes: Reading<i64>,
}

/// Energy that one part of the machine used.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct EnergyUsed {
    /// As in [`Energy`].
    pub domain: String,
    /// The energy. Where it began anew more than once, this is too little.
    pub energy_uj: Reading<u64>,
}

/// The frequency of CPUs that change it together.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct FrequencyMoved {
    /// The CPUs, ascending.
    pub cpus: Reading<Vec<usize>>,
    /// The frequency before.
    pub before_khz: Reading<u64>,
    /// The frequency after.
    pub after_khz: Reading<u64>,
    /// The highest that was allowed before.
    pub allowed_max_before_khz: Reading<u64>,
    /// The highest that is allowed after.
    pub allowed_max_after_khz: Reading<u64>,
}

/// The temperature of one zone.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct TemperatureMoved {
    /// The system's name for the zone.
    pub zone: String,
    /// The temperature before.
    pub before_millicelsius: Reading<i64>,
    /// The temperature after.
    pub after_millicelsius: Reading<i64>,
}

/// How much one device cools.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct CoolingMoved {
    /// The system's name for it.
    pub name: String,
    /// What it is.
    pub kind: Reading<String>,
    /// How much before.
    pub before: Reading<u64>,
    /// How much after.
    pub after: Reading<u64>,
}

impl Movement {
    /// From `before` to `after`.
    pub fn between(before: &Counters, after: &Counters) -> Self {
        let total = grown(&before.cpu_total_ticks, &after.cpu_total_ticks);
        let idle = share(&grown(&before.cpu_idle_ticks, &after.cpu_idle_ticks), &total);
        let steal = share(&grown(&before.cpu_steal_ticks, &after.cpu_steal_ticks), &total);
        let own_cpu_ticks = grown(&before.own_cpu_ticks, &after.own_cpu_ticks);
        let own = share(&own_cpu_ticks, &total);
        // The counters are read one after the other, so the rest may come out a little below nothing.
        let others = idle.zip_with(&steal, |idle, steal| 1.0 - idle - steal);
        Self {
            others_share: others.zip_with(&own, |rest, own| (rest - own).max(0.0)),
            idle_share: idle,
            steal_share: steal,
            own_share: own,
            cpu_total_ticks: total,
            own_cpu_ticks,
            throttling: throttling(&before.throttling, &after.throttling),
            major_faults: grown(&before.major_faults, &after.major_faults),
            voluntary_switches: grown(&before.voluntary_switches, &after.voluntary_switches),
            involuntary_switches: grown(&before.involuntary_switches, &after.involuntary_switches),
            read_bytes: grown(&before.read_bytes, &after.read_bytes),
            energy: pairs(&before.energy, &after.energy, |energy| &energy.domain, energy_used),
            frequency: pairs(&before.frequency, &after.frequency, |now| &now.cpus, frequency_moved),
            temperature: pairs(&before.temperature, &after.temperature, |now| &now.zone, temperature_moved),
            cooling: pairs(&before.cooling, &after.cooling, |device| &device.name, cooling_moved),
            throttle_counts: throttle_counts(&before.throttle_counts, &after.throttle_counts),
            load_average_before: before.load_average.clone(),
            load_average_after: after.load_average.clone(),
            peak_resident_growth_bytes: grown(&before.peak_resident_bytes, &after.peak_resident_bytes),
            resident_growth_bytes: growth(&before.resident_bytes, &after.resident_bytes),
        }
    }
}

const BACKWARDS: &str = "went backwards";

/// By how much a counter grew.
fn grown(before: &Reading<u64>, after: &Reading<u64>) -> Reading<u64> {
    match before.zip_with(after, |before, after| after.checked_sub(*before)) {
        Reading::Known(Some(grown)) => Reading::Known(grown),
        Reading::Known(None) => Reading::NotReadable(BACKWARDS.to_owned()),
        Reading::NotReadable(reason) => Reading::NotReadable(reason),
    }
}

/// By how much something grew that may shrink.
fn growth(before: &Reading<u64>, after: &Reading<u64>) -> Reading<i64> {
    let signed = |bytes: u64| i64::try_from(bytes).unwrap_or(i64::MAX);
    before.zip_with(after, |before, after| signed(*after) - signed(*before))
}

/// From 0 to 1; the process's ticks are counted at another moment than the machine's.
fn share(part: &Reading<u64>, total: &Reading<u64>) -> Reading<f64> {
    match part.zip_with(total, |part, total| (*total > 0).then(|| (*part as f64 / *total as f64).min(1.0))) {
        Reading::Known(Some(share)) => Reading::Known(share),
        Reading::Known(None) => Reading::NotReadable("no CPU time passed between".to_owned()),
        Reading::NotReadable(reason) => Reading::NotReadable(reason),
    }
}

fn throttling(before: &Reading<Throttling>, after: &Reading<Throttling>) -> Reading<Throttling> {
    counted(before, after, |before, after| {
        Some(Throttling {
            periods: after.periods.checked_sub(before.periods)?,
            throttled_periods: after.throttled_periods.checked_sub(before.throttled_periods)?,
            throttled_us: after.throttled_us.checked_sub(before.throttled_us)?,
        })
    })
}

fn throttle_counts(before: &Reading<ThrottleCounts>, after: &Reading<ThrottleCounts>) -> Reading<ThrottleCounts> {
    counted(before, after, |before, after| {
        Some(ThrottleCounts {
            core: after.core.checked_sub(before.core)?,
            package: after.package.checked_sub(before.package)?,
        })
    })
}

fn counted<T>(before: &Reading<T>, after: &Reading<T>, of: impl Fn(&T, &T) -> Option<T>) -> Reading<T> {
    match before.zip_with(after, of) {
        Reading::Known(Some(counted)) => Reading::Known(counted),
        Reading::Known(None) => Reading::NotReadable(BACKWARDS.to_owned()),
        Reading::NotReadable(reason) => Reading::NotReadable(reason),
    }
}

/// What becomes of each thing of `before` with that of the same key in `after`; what is gone counts as not readable, and what is new
/// has no before.
fn pairs<T: Default, K: PartialEq, V>(
    before: &Reading<Vec<T>>,
    after: &Reading<Vec<T>>,
    key: impl Fn(&T) -> &K,
    of: impl Fn(&T, Option<&T>) -> V,
) -> Reading<Vec<V>> {
    before.zip_with(after, |before, after| {
        before.iter().map(|one| of(one, after.iter().find(|other| key(other) == key(one)))).collect()
    })
}

/// A reading of something that is not there any more.
fn gone<T>() -> Reading<T> {
    Reading::NotReadable("is gone".to_owned())
}

fn energy_used(before: &Energy, after: Option<&Energy>) -> EnergyUsed {
    let energy_uj = after.map_or_else(gone, |after| {
        let used = grown(&before.energy_uj, &after.energy_uj);
        match (used, before.energy_uj.get(), after.energy_uj.get()) {
            (Reading::NotReadable(_), Some(&from), Some(&to)) => match before.range_uj.get() {
                Some(&range) if from <= range => Reading::Known((range - from).saturating_add(to)),
                _ => Reading::NotReadable("went backwards, and where it begins anew is not known".to_owned()),
            },
            (used, _, _) => used,
        }
    });
    EnergyUsed { domain: before.domain.clone(), energy_uj }
}

fn frequency_moved(before: &FrequencyNow, after: Option<&FrequencyNow>) -> FrequencyMoved {
    FrequencyMoved {
        cpus: before.cpus.clone(),
        before_khz: before.khz.clone(),
        after_khz: after.map_or_else(gone, |after| after.khz.clone()),
        allowed_max_before_khz: before.allowed_max_khz.clone(),
        allowed_max_after_khz: after.map_or_else(gone, |after| after.allowed_max_khz.clone()),
    }
}

fn temperature_moved(before: &TemperatureNow, after: Option<&TemperatureNow>) -> TemperatureMoved {
    TemperatureMoved {
        zone: before.zone.clone(),
        before_millicelsius: before.millicelsius.clone(),
        after_millicelsius: after.map_or_else(gone, |after| after.millicelsius.clone()),
    }
}

fn cooling_moved(before: &CoolingDevice, after: Option<&CoolingDevice>) -> CoolingMoved {
    CoolingMoved {
        name: before.name.clone(),
        kind: before.kind.clone(),
        before: before.state.clone(),
        after: after.map_or_else(gone, |after| after.state.clone()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn known<T>(value: T) -> Reading<T> {
        Reading::Known(value)
    }

    fn energy(domain: &str, uj: u64, range: Option<u64>) -> Energy {
        let range_uj = range.map_or_else(Reading::default, Reading::Known);
        Energy { domain: domain.to_owned(), energy_uj: known(uj), range_uj }
    }

    fn used(before: Energy, after: Energy) -> Reading<u64> {
        energy_used(&before, Some(&after)).energy_uj
    }

    #[test]
    fn energy_begins_anew_at_its_range() {
        assert_eq!(used(energy("a", 100, Some(1000)), energy("a", 400, Some(1000))), known(300));
        assert_eq!(used(energy("a", 900, Some(1000)), energy("a", 50, Some(1000))), known(150));
        assert_eq!(used(energy("a", 1000, Some(1000)), energy("a", 0, Some(1000))), known(0));
        let unknown = Reading::NotReadable("went backwards, and where it begins anew is not known".to_owned());
        assert_eq!(used(energy("a", 900, None), energy("a", 50, None)), unknown);
        // A range below the value is nonsense.
        assert_eq!(used(energy("a", 900, Some(800)), energy("a", 50, Some(800))), unknown);
        assert_eq!(used(energy("a", 0, Some(u64::MAX)), energy("a", u64::MAX, Some(u64::MAX))), known(u64::MAX));
    }

    #[test]
    fn shares_add_up_and_others_are_the_rest() {
        let counters = |total, idle, steal, own| Counters {
            cpu_total_ticks: known(total),
            cpu_idle_ticks: known(idle),
            cpu_steal_ticks: known(steal),
            own_cpu_ticks: known(own),
            ..Counters::default()
        };
        let moved = Movement::between(&counters(1000, 100, 10, 50), &counters(1200, 120, 20, 150));
        assert_eq!(moved.cpu_total_ticks, known(200));
        assert_eq!((moved.idle_share, moved.steal_share, moved.own_share), (known(0.1), known(0.05), known(0.5)));
        assert!(moved.others_share.get().is_some_and(|share| (share - 0.35).abs() < 1e-9), "{:?}", moved.others_share);
        let still = Movement::between(&counters(5, 1, 1, 1), &counters(5, 1, 1, 2));
        assert_eq!(still.own_share.reason(), Some("no CPU time passed between"));
        // The process was looked at later than the machine.
        let late = Movement::between(&counters(0, 0, 0, 0), &counters(10, 0, 0, 11));
        assert_eq!((late.own_share, late.others_share), (known(1.0), known(0.0)));
    }

    #[test]
    fn what_goes_backwards_says_so() {
        let before = Counters { major_faults: known(5), voluntary_switches: known(9), ..Counters::default() };
        let after = Counters { major_faults: known(7), voluntary_switches: known(8), ..Counters::default() };
        let moved = Movement::between(&before, &after);
        assert_eq!(moved.major_faults, known(2));
        assert_eq!(moved.voluntary_switches.reason(), Some("went backwards"));
        assert_eq!(moved.read_bytes.reason(), Some("not recorded"));
        let of = |throttled_periods| known(Throttling { periods: 10, throttled_periods, throttled_us: 3 });
        assert_eq!(throttling(&of(4), &of(3)).reason(), Some("went backwards"));
        assert_eq!(throttling(&of(4), &of(6)).get().unwrap().throttled_periods, 2);
        assert_eq!(growth(&known(7), &known(3)), known(-4));
    }

    #[test]
    fn what_vanishes_between_is_gone_and_the_rest_is_there() {
        let zone =
            |zone: &str, millicelsius| TemperatureNow { zone: zone.to_owned(), millicelsius: known(millicelsius) };
        let before = Counters { temperature: known(vec![zone("a", 1), zone("b", 2)]), ..Counters::default() };
        let after = Counters { temperature: known(vec![zone("c", 4), zone("b", 3)]), ..Counters::default() };
        let moved = Movement::between(&before, &after).temperature;
        let moved = moved.get().unwrap();
        assert_eq!(moved.len(), 2);
        assert_eq!(moved[0].after_millicelsius.reason(), Some("is gone"));
        assert_eq!((&moved[1].before_millicelsius, &moved[1].after_millicelsius), (&known(2), &known(3)));
        let nothing = Movement::between(&before, &Counters::default());
        assert_eq!(nothing.temperature.reason(), Some("not recorded"));
    }

    #[test]
    fn json_there_and_back() {
        let before =
            Counters { energy: known(vec![energy("a", 1, None)]), major_faults: known(1), ..Counters::default() };
        let moved = Movement::between(&before, &before);
        let json = serde_json::to_string(&moved).unwrap();
        assert_eq!(serde_json::from_str::<Movement>(&json).unwrap(), moved);
        assert_eq!(serde_json::from_str::<Movement>("{}").unwrap(), Movement::default());
    }
}
