//! What moves while something runs.
//!
//! Sources: the kernel's documents `filesystems/proc.rst`, `power/powercap/powercap.rst`, `admin-guide/pm/cpufreq.rst`.

use serde::{Deserialize, Serialize};

use crate::frequency::{frequency_khz, policies, policy_cpus};
use crate::limits::{Throttling, throttling};
use crate::memory::kilobytes;
use crate::pressure::load_average;
use crate::process::{self, Stat, status};
use crate::reading::Reading;
use crate::source::{Nothing, Source, Unreadable, line, number, parse};
use crate::thermal::{CoolingDevice, ThrottleCounts, cooling, temperatures, throttle_counts};
use crate::virtualization::CpuTicks;

const POWERCAP: &str = "sys/class/powercap";

/// What moves while something runs, cheap to read. [`Movement`](crate::Movement) is the difference of two.
///
/// Ticks are the kernel's, a hundredth of a second nearly everywhere.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct Counters {
    /// CPU time of the whole machine, of all kinds.
    pub cpu_total_ticks: Reading<u64>,
    /// Of it, nothing was to be done, or only the disk was waited for.
    pub cpu_idle_ticks: Reading<u64>,
    /// Of it, the hypervisor ran others while something was to be done.
    pub cpu_steal_ticks: Reading<u64>,
    /// CPU time of this process, of all its threads.
    pub own_cpu_ticks: Reading<u64>,
    /// What the quotas of control groups did.
    pub throttling: Reading<Throttling>,
    /// Pages of this process that had to be read from the disk.
    pub major_faults: Reading<u64>,
    /// How often threads of this process waited for something; of the threads that run now.
    pub voluntary_switches: Reading<u64>,
    /// How often they were taken off their CPU while they had work; of the threads that run now.
    pub involuntary_switches: Reading<u64>,
    /// What this process made the disk read.
    pub read_bytes: Reading<u64>,
    /// Energy by domain.
    pub energy: Reading<Vec<Energy>>,
    /// Frequency by group of CPUs.
    pub frequency: Reading<Vec<FrequencyNow>>,
    /// Temperature by zone, and of the processor's own sensors.
    pub temperature: Reading<Vec<TemperatureNow>>,
    /// What the system cools with.
    pub cooling: Reading<Vec<CoolingDevice>>,
    /// How often Intel processors held themselves back.
    pub throttle_counts: Reading<ThrottleCounts>,
    /// How many programs wanted a processor in the last minute, on average.
    pub load_average: Reading<f64>,
    /// The most memory that this process ever held.
    pub peak_resident_bytes: Reading<u64>,
    /// The memory that it holds.
    pub resident_bytes: Reading<u64>,
}

/// Energy that one part of the machine used, since some time.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct Energy {
    /// The system's name for the part, with its place: `intel-rapl:0 package-0`.
    pub domain: String,
    /// The energy; it begins anew at [`Energy::range_uj`].
    pub energy_uj: Reading<u64>,
    /// Where it begins anew.
    pub range_uj: Reading<u64>,
}

/// The frequency of CPUs that change it together.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct FrequencyNow {
    /// The CPUs, ascending.
    pub cpus: Reading<Vec<usize>>,
    /// Their frequency.
    pub khz: Reading<u64>,
    /// The highest that is allowed, which heat may lower.
    pub allowed_max_khz: Reading<u64>,
}

/// The temperature of one zone.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct TemperatureNow {
    /// The system's name for the zone.
    pub zone: String,
    /// Its temperature.
    pub millicelsius: Reading<i64>,
}

impl Counters {
    /// Reads all of them.
    pub fn read(source: &dyn Source) -> Self {
        match source.os() {
            "linux" | "android" => Self::read_files(source),
            other => Self::read_files(&Nothing { os: other, reason: &format!("duan does not read it on {other}") }),
        }
    }

    fn read_files(source: &dyn Source) -> Self {
        let ticks = CpuTicks::read(source);
        let of_cpu = |of: fn(&CpuTicks) -> u64| Reading::from(ticks.as_ref().map(of).map_err(Clone::clone));
        let stat = Stat::read(source);
        let stat = stat.as_ref().map_err(Clone::clone);
        let own = stat.clone().and_then(|stat| {
            let (user, system): (u64, u64) = (stat.field(process::USER_TICKS)?, stat.field(process::SYSTEM_TICKS)?);
            Ok(user.saturating_add(system))
        });
        let (voluntary_switches, involuntary_switches) = switches(source);
        let status = source.read(STATUS);
        let memory = |key| {
            let text = status.as_ref().map_err(Clone::clone);
            Reading::from(text.and_then(|text| kilobytes(STATUS, self::status(STATUS, text, key)?)))
        };
        Self {
            cpu_total_ticks: of_cpu(|ticks| ticks.total),
            cpu_idle_ticks: of_cpu(|ticks| ticks.idle),
            cpu_steal_ticks: of_cpu(|ticks| ticks.steal),
            own_cpu_ticks: own.into(),
            throttling: throttling(source).into(),
            major_faults: stat.and_then(|stat| stat.field(process::MAJOR_FAULTS)).into(),
            voluntary_switches,
            involuntary_switches,
            read_bytes: read_bytes(source).into(),
            energy: energy(source).into(),
            frequency: frequency(source).into(),
            temperature: temperatures(source).into(),
            cooling: cooling(source).into(),
            throttle_counts: throttle_counts(source).into(),
            load_average: load_average(source).into(),
            peak_resident_bytes: memory("VmHWM"),
            resident_bytes: memory("VmRSS"),
        }
    }
}

const STATUS: &str = "proc/self/status";

/// Waits and interruptions of all threads that run now: the file of the process counts those of its first thread only.
fn switches(source: &dyn Source) -> (Reading<u64>, Reading<u64>) {
    const TASKS: &str = "proc/self/task";
    let sums = source.list(TASKS).and_then(|tasks| {
        let (mut voluntary, mut involuntary, mut threads) = (0u64, 0u64, 0);
        for task in tasks {
            let path = format!("{TASKS}/{task}/status");
            // A thread may end between the two looks.
            let Ok(text) = source.read(&path) else { continue };
            let count = |key| parse::<u64>(&path, status(&path, &text, key)?);
            voluntary = voluntary.saturating_add(count("voluntary_ctxt_switches")?);
            involuntary = involuntary.saturating_add(count("nonvoluntary_ctxt_switches")?);
            threads += 1;
        }
        if threads == 0 {
            return Err(Unreadable::unexpected(TASKS, "tells of no thread"));
        }
        Ok((voluntary, involuntary))
    });
    let sums = Reading::from(sums);
    (sums.as_ref().map(|sums| sums.0), sums.map(|sums| sums.1))
}

fn read_bytes(source: &dyn Source) -> Result<u64, Unreadable> {
    const PATH: &str = "proc/self/io";
    let text = source.read(PATH)?;
    parse(PATH, status(PATH, &text, "read_bytes")?)
}

/// All domains and those in them; two packages have domains of the same name.
fn energy(source: &dyn Source) -> Result<Vec<Energy>, Unreadable> {
    let mut domains = Vec::new();
    for folder in source.list(POWERCAP)? {
        // Beside `intel-rapl:0:1` stands the same seen through memory-mapped registers, and the control types, which have no energy.
        if !folder.starts_with("intel-rapl:") {
            continue;
        }
        let path = |name: &str| format!("{POWERCAP}/{folder}/{name}");
        let name = line(source, &path("name"));
        domains.push(Energy {
            domain: name.map_or_else(|_| folder.clone(), |name| format!("{folder} {name}")),
            energy_uj: number(source, &path("energy_uj")).into(),
            range_uj: number(source, &path("max_energy_range_uj")).into(),
        });
    }
    if domains.is_empty() {
        return Err(Unreadable::unexpected(POWERCAP, "lists no domain that counts energy"));
    }
    Ok(domains)
}

fn frequency(source: &dyn Source) -> Result<Vec<FrequencyNow>, Unreadable> {
    let now = |folder: &String| FrequencyNow {
        cpus: policy_cpus(source, folder).into(),
        khz: frequency_khz(source, &format!("{folder}/scaling_cur_freq")).into(),
        allowed_max_khz: frequency_khz(source, &format!("{folder}/scaling_max_freq")).into(),
    };
    Ok(policies(source)?.iter().map(now).collect())
}

#[cfg(test)]
#[path = "counters_tests.rs"]
mod tests;
