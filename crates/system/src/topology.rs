//! The cores of this machine, which of them this process may use, and how many threads to run by default.
//!
//! Kernels wait for each other after every op, so a thread without a core of its own, or on a much slower one, holds up
//! all the others. The default is therefore one thread for each performance core that the process really has.
//!
//! What cannot be read is unknown, and cores of which nothing is known count as equal.
//! Sources: the kernel's documents `admin-guide/cputopology.rst`, `ABI/testing/sysfs-devices-system-cpu`,
//! `admin-guide/cgroup-v2.rst` and `scheduler/sched-bwc.rst`.

use std::collections::{BTreeMap, BTreeSet};

use serde::{Deserialize, Serialize};

use crate::groups::Groups;
use crate::limits;
use crate::source::{Local, Source, Unreadable, line, number, one_line, quoted};

/// Numbers of CPUs end here; the kernel can be built for no more.
const MAX_CPUS: usize = 8192;

/// Cores of at least this part of the best one's capacity are equals: two kinds of big cores, say.
const SIMILAR_CAPACITY: f64 = 0.6;

/// The same for the highest frequency, which differs less than the work done: a small core of 1.8 GHz may stand beside
/// a big one of 2.4 GHz (0.75) that does two and a half times its work.
const SIMILAR_FREQUENCY: f64 = 0.8;

/// What a core is made for.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum CoreClass {
    /// Fast; on a machine of equal cores, all of them.
    #[default]
    Performance,
    /// Small and frugal.
    Efficiency,
}

/// A physical core.
#[derive(Debug, Clone, PartialEq)]
pub struct Core {
    /// The lowest number among its CPUs.
    pub id: usize,
    /// Its CPUs as the system counts them, ascending: one, or several where hardware threads share the core (SMT).
    pub cpus: Vec<usize>,
    /// The package (socket) it is in.
    pub package: Option<u32>,
    /// The highest frequency it is built for, in kHz.
    pub max_frequency_khz: Option<u64>,
    /// The work it can do, relative to 1024 for the best core of the machine.
    pub capacity: Option<u64>,
    /// Performance or efficiency.
    pub class: CoreClass,
}

/// The cores of the machine and what this process may use of them.
#[derive(Debug, Clone, PartialEq)]
pub struct Topology {
    /// Every core that is online, by `id`.
    pub cores: Vec<Core>,
    /// The CPUs that this process may run on, ascending.
    pub allowed: Vec<usize>,
    /// CPU time that the control groups grant, in CPUs; `None` is no limit.
    pub quota: Option<f64>,
    /// What the CPU or the board calls itself.
    pub model: Option<String>,
}

/// A number of threads, and why it is not another.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ThreadChoice {
    /// At least 1.
    pub threads: usize,
    /// A sentence without a full stop, to stand after "4 threads: ".
    pub reason: String,
}

/// The CPUs that this process may run on; all that are online when the system does not say.
pub fn affinity() -> Vec<usize> {
    #[cfg(any(target_os = "linux", target_os = "android"))]
    if let Ok(set) = rustix::thread::sched_getaffinity(None) {
        return (0..rustix::thread::CpuSet::MAX_CPU).filter(|&cpu| set.is_set(cpu)).collect();
    }
    online(&Local::here())
        .unwrap_or_else(|_| (0..std::thread::available_parallelism().map_or(1, usize::from)).collect())
}

impl Topology {
    /// Reads it, for a process that may run on the CPUs `affinity` (empty: on all).
    pub fn read(source: &dyn Source, affinity: &[usize]) -> Self {
        let online = online(source).unwrap_or_default();
        let mut allowed: BTreeSet<usize> =
            if affinity.is_empty() { &online } else { affinity }.iter().copied().collect();
        if let Ok(cpuset) = cpuset(source) {
            let both: BTreeSet<usize> = cpuset.into_iter().filter(|cpu| allowed.contains(cpu)).collect();
            // The kernel keeps the affinity within the set, so nothing in common means that the set is not ours.
            if !both.is_empty() {
                allowed = both;
            }
        }
        // Some containers are shown a list that begins at 0, whatever CPUs they run on: it then says nothing about ours.
        let online: BTreeSet<usize> = online.into_iter().collect();
        let known = if allowed.is_subset(&online) { &online } else { &allowed };
        let mut cores = cores(source, known);
        classify(source, &mut cores);
        Self {
            cores,
            allowed: allowed.into_iter().collect(),
            quota: limits::quota_cpus(source).ok().flatten(),
            model: model(source).ok(),
        }
    }

    /// The default number of threads: performance cores that the process may use, no more than it gets time for.
    pub fn thread_choice(&self) -> ThreadChoice {
        let cores = self.usable_cores();
        let most = cores.len().max(1);
        if let Some(quota) = self.quota.filter(|&quota| (quota as usize) < most) {
            return ThreadChoice { threads: (quota as usize).max(1), reason: quota_reason(quota) };
        }
        ThreadChoice { threads: most, reason: self.cores_reason(&cores) }
    }

    /// The cores to run on, by `id`: performance cores on which the process may run, or all on which it may run when
    /// it was kept to efficiency cores.
    pub fn usable_cores(&self) -> Vec<&Core> {
        let usable = |core: &&Core| core.cpus.iter().any(|cpu| self.allowed.binary_search(cpu).is_ok());
        let usable: Vec<&Core> = self.cores.iter().filter(usable).collect();
        let performance: Vec<&Core> = usable.iter().copied().filter(|core| core.is_performance()).collect();
        if performance.is_empty() { usable } else { performance }
    }

    fn cores_reason(&self, usable: &[&Core]) -> String {
        let performance = self.cores.iter().filter(|core| core.is_performance()).count();
        let efficiency = self.cores.len() - performance;
        let cpus: usize = self.cores.iter().map(|core| core.cpus.len()).sum();
        let kind = match usable.first() {
            Some(core) if !core.is_performance() => "efficiency core",
            Some(_) if efficiency > 0 => "performance core",
            _ => "core",
        };
        let count = counted(usable.len().max(1), kind);
        if usable.iter().filter(|core| core.is_performance()).count() < performance {
            let limit = format!("the process may run on {} of {}", self.allowed.len(), counted(cpus, "CPU"));
            let one_to_one = usable.len() == self.allowed.len() && kind == "core";
            return if one_to_one { limit } else { format!("{limit}, which gives it {count}") };
        }
        if efficiency > 0 {
            format!("the machine has {count}; {} are left out", counted(efficiency, "efficiency core"))
        } else if cpus > self.cores.len() {
            format!("the machine has {count}, shown as {}", counted(cpus, "CPU"))
        } else {
            format!("the machine has {count}")
        }
    }
}

impl Core {
    fn is_performance(&self) -> bool {
        self.class == CoreClass::Performance
    }
}

fn quota_reason(quota: f64) -> String {
    let rounded = (quota * 100.0).round() / 100.0;
    let note = match quota {
        _ if quota < 1.0 => ", and one thread is the least",
        _ if quota.fract() > 0.0 => ", rounded down",
        _ => "",
    };
    format!("the cgroup grants the time of {rounded} {}{note}", if quota == 1.0 { "CPU" } else { "CPUs" })
}

fn counted(count: usize, what: &str) -> String {
    format!("{count} {what}{}", if count == 1 { "" } else { "s" })
}

/// The CPUs of a list like `0-3,8,10-11`, ascending; `None` when it is something else or names none.
fn parse_cpu_list(text: &str) -> Option<Vec<usize>> {
    let mut cpus = BTreeSet::new();
    for range in text.trim().split(',') {
        let (first, last) = range.split_once('-').unwrap_or((range, range));
        let (first, last) = (first.parse::<usize>().ok()?, last.parse::<usize>().ok()?);
        if first > last || last >= MAX_CPUS {
            return None;
        }
        cpus.extend(first..=last);
    }
    Some(cpus.into_iter().collect())
}

/// The CPUs of a list in a file.
pub(crate) fn read_cpu_list(source: &dyn Source, path: &str) -> Result<Vec<usize>, Unreadable> {
    cpu_list(path, &source.read(path)?)
}

/// The CPUs of a list that the file at `path` says.
pub(crate) fn cpu_list(path: &str, text: &str) -> Result<Vec<usize>, Unreadable> {
    parse_cpu_list(text)
        .ok_or_else(|| Unreadable::unexpected(path, format!("{} is no list of CPUs", quoted(text.trim()))))
}

/// The CPUs that are online, ascending.
pub(crate) fn online(source: &dyn Source) -> Result<Vec<usize>, Unreadable> {
    read_cpu_list(source, "sys/devices/system/cpu/online")
}

/// The CPUs that the innermost control group that says so may run on.
pub(crate) fn cpuset(source: &dyn Source) -> Result<Vec<usize>, Unreadable> {
    let groups = Groups::find(source, "cpuset")?;
    let v2 = groups.v2.iter().map(|folder| format!("{folder}/cpuset.cpus.effective"));
    let v1 = groups.v1.iter().map(|folder| format!("{folder}/cpuset.effective_cpus"));
    let mut first = None;
    for path in v2.chain(v1) {
        match read_cpu_list(source, &path) {
            Ok(cpus) => return Ok(cpus),
            Err(error) => first.get_or_insert(error),
        };
    }
    Err(first.unwrap_or_else(|| Unreadable::unexpected("proc/self/cgroup", "names no control group")))
}

/// Puts the CPUs `known` together to cores.
fn cores(source: &dyn Source, known: &BTreeSet<usize>) -> Vec<Core> {
    let folder = |cpu: usize| format!("sys/devices/system/cpu/cpu{cpu}");
    // Core numbers would not do: on ARM they begin anew in each cluster.
    let siblings: BTreeMap<usize, Vec<usize>> = known
        .iter()
        .map(|&cpu| {
            let read = |name: &str| read_cpu_list(source, &format!("{}/topology/{name}", folder(cpu)));
            let list = read("thread_siblings_list").or_else(|_| read("core_cpus_list"));
            (cpu, list.ok().filter(|list| list.contains(&cpu)).unwrap_or_else(|| vec![cpu]))
        })
        .collect();
    let mut cores = Vec::new();
    for (&id, list) in &siblings {
        let mut cpus: Vec<usize> = list.iter().copied().filter(|cpu| known.contains(cpu)).collect();
        // Lists that contradict each other are not believed.
        if cpus.iter().any(|cpu| siblings.get(cpu) != Some(list)) {
            cpus = vec![id];
        }
        if cpus.first() == Some(&id) {
            let folder = folder(id);
            let positive =
                |name: &str| number(source, &format!("{folder}/{name}")).ok().filter(|&value: &u64| value > 0);
            cores.push(Core {
                id,
                cpus,
                package: number(source, &format!("{folder}/topology/physical_package_id")).ok(),
                max_frequency_khz: positive("cpufreq/cpuinfo_max_freq"),
                capacity: positive("cpu_capacity"),
                class: CoreClass::Performance,
            });
        }
    }
    cores
}

/// Tells performance from efficiency cores: by their type where the system names it, else by capacity, else by frequency.
fn classify(source: &dyn Source, cores: &mut [Core]) {
    // Hybrid x86 only; efficiency cores are in `cpu_atom` or `cpu_lowpower`.
    if let Ok(performance) = read_cpu_list(source, "sys/devices/cpu_core/cpus") {
        let is_performance = |core: &Core| core.cpus.iter().any(|cpu| performance.contains(cpu));
        if cores.iter().any(is_performance) {
            return set_classes(cores, is_performance);
        }
    }
    // Capacities that are all equal may only mean that nobody measured them.
    let capacities: Option<Vec<u64>> = cores.iter().map(|core| core.capacity).collect();
    if let Some(capacities) = capacities.filter(|all| all.iter().any(|&capacity| capacity != all[0])) {
        let least = least_of_best(capacities, SIMILAR_CAPACITY);
        return set_classes(cores, |core| core.capacity >= Some(least));
    }
    let frequencies: Option<Vec<u64>> = cores.iter().map(|core| core.max_frequency_khz).collect();
    if let Some(frequencies) = frequencies {
        let least = least_of_best(frequencies, SIMILAR_FREQUENCY);
        set_classes(cores, |core| core.max_frequency_khz >= Some(least));
    }
}

fn set_classes(cores: &mut [Core], is_performance: impl Fn(&Core) -> bool) {
    for core in cores {
        core.class = if is_performance(core) { CoreClass::Performance } else { CoreClass::Efficiency };
    }
}

/// The least score in the better of two groups: those above and below the widest gap, by ratio, between neighbours.
/// All are in it when even the worst has at least the part `similar` of the best.
///
/// A fixed part of the best alone would not do: a phone with one very large core has middle ones at 0.42 of it and small
/// ones at 0.12, where a board with two kinds of cores has its small ones at 0.4.
fn least_of_best(mut scores: Vec<u64>, similar: f64) -> u64 {
    scores.sort_unstable();
    let (Some(&worst), Some(&best)) = (scores.first(), scores.last()) else { return 0 };
    if worst as f64 >= similar * best as f64 {
        return worst;
    }
    let ratio = |pair: &[u64]| pair[1] as f64 / pair[0] as f64;
    let widest = scores.windows(2).reduce(|widest, pair| if ratio(pair) > ratio(widest) { pair } else { widest });
    widest.map_or(worst, |pair| pair[1])
}

/// The name of the CPU (x86, some ARM), or else of the chip or the board.
pub(crate) fn model(source: &dyn Source) -> Result<String, Unreadable> {
    const PATH: &str = "proc/cpuinfo";
    let text = source.read(PATH);
    let value = |key: &str| {
        let mut lines = text.as_ref().ok()?.lines().filter_map(|line| line.split_once(':'));
        lines.find_map(|(name, value)| if name.trim_end() == key { one_line(value) } else { None })
    };
    if let Some(name) = ["model name", "Hardware", "cpu model", "Model"].into_iter().find_map(value) {
        return Ok(name);
    }
    // What the first file lacks is said, not that the second is not there either.
    let no_name = text.err().unwrap_or_else(|| Unreadable::unexpected(PATH, "names no processor"));
    line(source, "proc/device-tree/model").map_err(|_| no_name)
}

#[cfg(test)]
#[path = "topology_tests.rs"]
mod tests;
