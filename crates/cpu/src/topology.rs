//! The cores of this machine, which of them this process may use, and how many threads to run by default.
//!
//! Kernels wait for each other after every op, so a thread without a core of its own, or on a much slower one, holds up
//! all the others. The default is therefore one thread for each performance core that the process really has.
//!
//! Everything is read below a root folder that is given, so that tests can hand in a made-up tree; it is `/` otherwise.
//! What cannot be read is unknown, and cores of which nothing is known count as equal.
//! Sources: the kernel's documents `admin-guide/cputopology.rst`, `ABI/testing/sysfs-devices-system-cpu`,
//! `admin-guide/cgroup-v2.rst` and `scheduler/sched-bwc.rst`.

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;

use crate::memory::{Groups, read_text, read_value};

/// Numbers of CPUs end here; the kernel can be built for no more.
const MAX_CPUS: usize = 8192;

/// Cores of at least this part of the best one's capacity are equals: two kinds of big cores, say.
const SIMILAR_CAPACITY: f64 = 0.6;

/// The same for the highest frequency, which differs less than the work done: a small core of 1.8 GHz may stand beside
/// a big one of 2.4 GHz (0.75) that does two and a half times its work.
const SIMILAR_FREQUENCY: f64 = 0.8;

/// What a core is made for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum CoreClass {
    /// Fast; on a machine of equal cores, all of them.
    Performance,
    /// Small and frugal.
    Efficiency,
}

/// A physical core.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Core {
    /// The lowest number among its CPUs.
    pub(crate) id: usize,
    /// Its CPUs as the system counts them, ascending: one, or several where hardware threads share the core (SMT).
    pub(crate) cpus: Vec<usize>,
    /// The package (socket) it is in.
    pub(crate) package: Option<u32>,
    /// The highest frequency it is built for, in kHz.
    pub(crate) max_frequency_khz: Option<u64>,
    /// The work it can do, relative to 1024 for the best core of the machine.
    pub(crate) capacity: Option<u64>,
    /// Performance or efficiency.
    pub(crate) class: CoreClass,
}

/// The cores of the machine and what this process may use of them.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Topology {
    /// Every core that is online, by `id`.
    pub(crate) cores: Vec<Core>,
    /// The CPUs that this process may run on, ascending.
    pub(crate) allowed: Vec<usize>,
    /// CPU time that the control groups grant, in CPUs; `None` is no limit.
    pub(crate) quota: Option<f64>,
    /// What the CPU or the board calls itself.
    pub(crate) model: Option<String>,
}

/// A number of threads, and why it is not another.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct ThreadChoice {
    /// At least 1.
    pub(crate) threads: usize,
    /// A sentence without a full stop, to stand after "4 threads: ".
    pub(crate) reason: String,
}

/// The CPUs that this process may run on; all that are online when the system does not say.
pub(crate) fn affinity() -> Vec<usize> {
    #[cfg(any(target_os = "linux", target_os = "android"))]
    if let Ok(set) = rustix::thread::sched_getaffinity(None) {
        return (0..rustix::thread::CpuSet::MAX_CPU).filter(|&cpu| set.is_set(cpu)).collect();
    }
    online(Path::new("/")).unwrap_or_else(|| (0..std::thread::available_parallelism().map_or(1, usize::from)).collect())
}

impl Topology {
    /// Reads it below `root`, for a process that may run on the CPUs `affinity` (empty: on all).
    pub(crate) fn read(root: &Path, affinity: &[usize]) -> Self {
        let online = online(root).unwrap_or_default();
        let mut allowed: BTreeSet<usize> =
            if affinity.is_empty() { &online } else { affinity }.iter().copied().collect();
        if let Some(cpuset) = cpuset(root) {
            let both: BTreeSet<usize> = cpuset.into_iter().filter(|cpu| allowed.contains(cpu)).collect();
            // The kernel keeps the affinity within the set, so nothing in common means that the set is not ours.
            if !both.is_empty() {
                allowed = both;
            }
        }
        // Some containers are shown a list that begins at 0, whatever CPUs they run on: it then says nothing about ours.
        let online: BTreeSet<usize> = online.into_iter().collect();
        let known = if allowed.is_subset(&online) { &online } else { &allowed };
        let mut cores = cores(root, known);
        classify(root, &mut cores);
        Self { cores, allowed: allowed.into_iter().collect(), quota: quota(root), model: model(root) }
    }

    /// The default number of threads: performance cores that the process may use, no more than it gets time for.
    pub(crate) fn thread_choice(&self) -> ThreadChoice {
        let cores = self.usable_cores();
        let most = cores.len().max(1);
        if let Some(quota) = self.quota.filter(|&quota| (quota as usize) < most) {
            return ThreadChoice { threads: (quota as usize).max(1), reason: quota_reason(quota) };
        }
        ThreadChoice { threads: most, reason: self.cores_reason(&cores) }
    }

    /// The cores to run on, by `id`: performance cores on which the process may run, or all on which it may run when
    /// it was kept to efficiency cores.
    pub(crate) fn usable_cores(&self) -> Vec<&Core> {
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

fn read_cpu_list(path: &Path) -> Option<Vec<usize>> {
    parse_cpu_list(&read_text(path)?)
}

fn online(root: &Path) -> Option<Vec<usize>> {
    read_cpu_list(&root.join("sys/devices/system/cpu/online"))
}

/// The CPUs that the innermost control group that says so may run on.
fn cpuset(root: &Path) -> Option<Vec<usize>> {
    let groups = Groups::read(root, "cpuset");
    let v2 = groups.v2.iter().find_map(|folder| read_cpu_list(&folder.join("cpuset.cpus.effective")));
    v2.or_else(|| groups.v1.iter().find_map(|folder| read_cpu_list(&folder.join("cpuset.effective_cpus"))))
}

/// Puts the CPUs `known` together to cores.
fn cores(root: &Path, known: &BTreeSet<usize>) -> Vec<Core> {
    let folder = |cpu: usize| root.join(format!("sys/devices/system/cpu/cpu{cpu}"));
    // Core numbers would not do: on ARM they begin anew in each cluster.
    let siblings: BTreeMap<usize, Vec<usize>> = known
        .iter()
        .map(|&cpu| {
            let topology = folder(cpu).join("topology");
            let list = read_cpu_list(&topology.join("thread_siblings_list"))
                .or_else(|| read_cpu_list(&topology.join("core_cpus_list")));
            (cpu, list.filter(|list| list.contains(&cpu)).unwrap_or_else(|| vec![cpu]))
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
            cores.push(Core {
                id,
                cpus,
                package: read_value(&folder.join("topology/physical_package_id")),
                max_frequency_khz: read_value(&folder.join("cpufreq/cpuinfo_max_freq")).filter(|&khz| khz > 0),
                capacity: read_value(&folder.join("cpu_capacity")).filter(|&capacity| capacity > 0),
                class: CoreClass::Performance,
            });
        }
    }
    cores
}

/// Tells performance from efficiency cores: by their type where the system names it, else by capacity, else by frequency.
fn classify(root: &Path, cores: &mut [Core]) {
    // Hybrid x86 only; efficiency cores are in `cpu_atom` or `cpu_lowpower`.
    if let Some(performance) = read_cpu_list(&root.join("sys/devices/cpu_core/cpus")) {
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

/// The CPU time that the control groups grant, in CPUs: the least of this process's group and all its parents.
fn quota(root: &Path) -> Option<f64> {
    let groups = Groups::read(root, "cpu");
    let v2 = groups.v2.iter().filter_map(|folder| {
        let text = read_text(&folder.join("cpu.max"))?;
        let (quota, period) = text.trim().split_once(' ')?;
        cpus_of(quota.parse().ok()?, period.parse().ok()?)
    });
    let v1 = groups.v1.iter().filter_map(|folder| {
        // Without a limit the quota is -1, which is no unsigned number.
        let quota = read_value(&folder.join("cpu.cfs_quota_us"))?;
        cpus_of(quota, read_value(&folder.join("cpu.cfs_period_us"))?)
    });
    v2.chain(v1).reduce(f64::min)
}

fn cpus_of(quota_us: u64, period_us: u64) -> Option<f64> {
    (quota_us > 0 && period_us > 0).then(|| quota_us as f64 / period_us as f64)
}

/// The name of the CPU (x86, some ARM), or else of the chip or the board.
fn model(root: &Path) -> Option<String> {
    let text = read_text(&root.join("proc/cpuinfo")).unwrap_or_default();
    let value = |key: &str| {
        let mut lines = text.lines().filter_map(|line| line.split_once(':'));
        lines
            .find(|(name, value)| name.trim_end() == key && !value.trim().is_empty())
            .map(|(_, value)| value.to_owned())
    };
    let name = ["model name", "Hardware", "cpu model", "Model"].into_iter().find_map(value);
    let name = name.or_else(|| read_text(&root.join("proc/device-tree/model")))?;
    let name = name.trim_matches(|letter: char| letter == '\0' || letter.is_whitespace());
    (!name.is_empty()).then(|| name.to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::memory::tests::Tree;

    /// A CPU of a made-up machine.
    #[derive(Default, Clone)]
    struct Cpu {
        siblings: Option<&'static str>,
        khz: Option<u64>,
        capacity: Option<u64>,
    }

    fn khz(khz: u64) -> Cpu {
        Cpu { khz: Some(khz), ..Cpu::default() }
    }

    fn capacity(capacity: u64) -> Cpu {
        Cpu { capacity: Some(capacity), ..Cpu::default() }
    }

    fn machine(groups: &[(usize, Cpu)]) -> Tree {
        let cpus: Vec<&Cpu> = groups.iter().flat_map(|(count, cpu)| std::iter::repeat_n(cpu, *count)).collect();
        let mut tree = Tree::new().file("sys/devices/system/cpu/online", format!("0-{}\n", cpus.len() - 1));
        for (number, cpu) in cpus.into_iter().enumerate() {
            let folder = format!("sys/devices/system/cpu/cpu{number}");
            let own = number.to_string();
            tree = tree.file(&format!("{folder}/topology/physical_package_id"), "0\n");
            tree = tree.file(&format!("{folder}/topology/thread_siblings_list"), cpu.siblings.unwrap_or(&own));
            if let Some(khz) = cpu.khz {
                tree = tree.file(&format!("{folder}/cpufreq/cpuinfo_max_freq"), format!("{khz}\n"));
            }
            if let Some(capacity) = cpu.capacity {
                tree = tree.file(&format!("{folder}/cpu_capacity"), format!("{capacity}\n"));
            }
        }
        tree
    }

    /// The same two CPUs for each of `pairs`, which are one core.
    fn smt(pairs: &[&'static str]) -> Vec<(usize, Cpu)> {
        pairs.iter().map(|pair| (2, Cpu { siblings: Some(pair), ..khz(5_000_000) })).collect()
    }

    const EIGHT_PAIRS: [&str; 8] = ["0-1", "2-3", "4-5", "6-7", "8-9", "10-11", "12-13", "14-15"];

    fn choice(tree: &Tree, affinity: &[usize]) -> (usize, String) {
        let ThreadChoice { threads, reason } = Topology::read(tree.root(), affinity).thread_choice();
        (threads, reason)
    }

    fn all(tree: &Tree) -> (usize, String) {
        choice(tree, &[])
    }

    fn range(cpus: std::ops::Range<usize>) -> Vec<usize> {
        cpus.collect()
    }

    fn said(threads: usize, reason: &str) -> (usize, String) {
        (threads, reason.to_owned())
    }

    /// A host of 16 equal cores with control groups of version 2, this process in `/a/b`.
    fn host() -> Tree {
        let mounts = "30 23 0:26 / /sys/fs/cgroup rw - cgroup2 cgroup2 rw\n";
        machine(&[(16, khz(3_000_000))]).file("proc/self/cgroup", "0::/a/b\n").file("proc/self/mountinfo", mounts)
    }

    #[test]
    fn quota_of_the_control_group() {
        let with = |text: &str| all(&host().file("sys/fs/cgroup/a/b/cpu.max", text));
        assert_eq!(with("400000 100000\n"), said(4, "the cgroup grants the time of 4 CPUs"));
        assert_eq!(with("max 100000\n"), said(16, "the machine has 16 cores"));
        assert_eq!(
            with("50000 100000\n"),
            said(1, "the cgroup grants the time of 0.5 CPUs, and one thread is the least")
        );
        assert_eq!(with("100000 100000\n"), said(1, "the cgroup grants the time of 1 CPU"));
        assert_eq!(with("765000 100000\n"), said(7, "the cgroup grants the time of 7.65 CPUs, rounded down"));
        assert_eq!(with("1650000 100000\n"), said(16, "the machine has 16 cores"));
        for unreadable in ["", "4", "4 0", "0 100000", "many 100000", "400000 100000 1"] {
            assert_eq!(with(unreadable).0, 16, "{unreadable:?}");
        }
    }

    #[test]
    fn quota_is_the_least_of_all_parents() {
        let tree = host()
            .file("sys/fs/cgroup/a/b/cpu.max", "800000 100000\n")
            .file("sys/fs/cgroup/a/cpu.max", "150000 50000\n")
            .file("sys/fs/cgroup/cpu.max", "max 100000\n");
        assert_eq!(Topology::read(tree.root(), &[]).quota, Some(3.0));
        assert_eq!(all(&tree).0, 3);
    }

    #[test]
    fn quota_of_version_1() {
        let with = |quota: &str| {
            machine(&[(16, khz(3_000_000))])
                .file("proc/self/cgroup", "3:cpu,cpuacct:/docker/abc/in\n0::/\n")
                .file(
                    "proc/self/mountinfo",
                    "41 39 0:30 /docker/abc /sys/fs/cgroup/cpu,cpuacct ro - cgroup cgroup rw,cpu,cpuacct\n",
                )
                .file("sys/fs/cgroup/cpu,cpuacct/cpu.cfs_quota_us", quota)
                .file("sys/fs/cgroup/cpu,cpuacct/cpu.cfs_period_us", "100000\n")
        };
        assert_eq!(all(&with("400000\n")).0, 4);
        assert_eq!(all(&with("-1\n")).0, 16);
        assert_eq!(all(&with("50000\n")).0, 1);
        let inner = "sys/fs/cgroup/cpu,cpuacct/in";
        let nested = with("400000\n")
            .file(&format!("{inner}/cpu.cfs_quota_us"), "20000\n")
            .file(&format!("{inner}/cpu.cfs_period_us"), "10000\n");
        assert_eq!(all(&nested).0, 2);
    }

    #[test]
    fn affinity_and_cpuset_on_a_large_host() {
        let large = || machine(&[(96, khz(3_000_000))]);
        assert_eq!(choice(&large(), &range(0..4)), said(4, "the process may run on 4 of 96 CPUs"));
        let mut tree = large().file("proc/self/cgroup", "0::/box\n");
        tree = tree.file("sys/fs/cgroup/box/cpuset.cpus.effective", "0-3\n");
        assert_eq!(choice(&tree, &range(0..96)), said(4, "the process may run on 4 of 96 CPUs"));
        // A set that has nothing to do with the affinity is not this process's.
        assert_eq!(choice(&tree, &range(8..16)).0, 8);
        let v1 = large().file("proc/self/cgroup", "2:cpuset:/box\n");
        let v1 = v1.file("sys/fs/cgroup/cpuset/cpuset.effective_cpus", "0-3\n");
        assert_eq!(Topology::read(v1.root(), &[]).allowed, range(0..4));
    }

    #[test]
    fn affinity_counts_cores_and_not_their_hardware_threads() {
        let tree = machine(&smt(&EIGHT_PAIRS));
        assert_eq!(choice(&tree, &range(0..4)), said(2, "the process may run on 4 of 16 CPUs, which gives it 2 cores"));
        assert_eq!(choice(&tree, &[1]), said(1, "the process may run on 1 of 16 CPUs"));
        // One hardware thread of each core is all that is needed.
        let one_of_each: Vec<usize> = (0..16).step_by(2).collect();
        assert_eq!(choice(&tree, &one_of_each).0, 8);
    }

    #[test]
    fn hybrid_without_hardware_threads_by_type() {
        // 0.84 of the frequency: without the type these would pass as equals.
        let tree = machine(&[(8, khz(5_500_000)), (12, khz(4_600_000))])
            .file("sys/devices/cpu_core/cpus", "0-7\n")
            .file("sys/devices/cpu_atom/cpus", "8-19\n");
        assert_eq!(all(&tree), said(8, "the machine has 8 performance cores; 12 efficiency cores are left out"));
        let topology = Topology::read(tree.root(), &[]);
        assert_eq!(topology.cores.len(), 20);
        assert_eq!((topology.cores[7].class, topology.cores[8].class), (CoreClass::Performance, CoreClass::Efficiency));
        // Kept to efficiency cores, the process still uses all that it has.
        let kept = said(12, "the process may run on 12 of 20 CPUs, which gives it 12 efficiency cores");
        assert_eq!(choice(&tree, &range(8..20)), kept);
        let mixed = said(2, "the process may run on 14 of 20 CPUs, which gives it 2 performance cores");
        assert_eq!(choice(&tree, &range(6..20)), mixed);
    }

    #[test]
    fn hybrid_without_hardware_threads_by_frequency() {
        // Two favoured cores are faster than their equals.
        assert_eq!(all(&machine(&[(2, khz(5_800_000)), (6, khz(5_500_000)), (12, khz(4_300_000))])).0, 8);
    }

    #[test]
    fn hardware_threads_are_counted_once() {
        let tree = machine(&smt(&EIGHT_PAIRS));
        assert_eq!(all(&tree), said(8, "the machine has 8 cores, shown as 16 CPUs"));
        let core = &Topology::read(tree.root(), &[]).cores[1];
        let expected = Core {
            id: 2,
            cpus: vec![2, 3],
            package: Some(0),
            max_frequency_khz: Some(5_000_000),
            capacity: None,
            class: CoreClass::Performance,
        };
        assert_eq!(core, &expected);
        let mut hybrid = smt(&EIGHT_PAIRS);
        hybrid.push((8, khz(3_900_000)));
        let hybrid = machine(&hybrid).file("sys/devices/cpu_core/cpus", "0-15\n");
        assert_eq!(all(&hybrid), said(8, "the machine has 8 performance cores; 8 efficiency cores are left out"));
    }

    #[test]
    fn sibling_lists_that_contradict_each_other_are_not_believed() {
        let odd = Cpu { siblings: Some("0-3"), ..Cpu::default() };
        assert_eq!(all(&machine(&[(3, odd.clone()), (1, Cpu::default())])).0, 4);
        let foreign = Cpu { siblings: Some("6-7"), ..Cpu::default() };
        assert_eq!(all(&machine(&[(4, foreign)])).0, 4);
    }

    #[test]
    fn four_and_four() {
        assert_eq!(all(&machine(&[(4, capacity(414)), (4, capacity(1024))])).0, 4);
        let reason = "the machine has 4 performance cores; 4 efficiency cores are left out";
        assert_eq!(all(&machine(&[(4, khz(1_800_000)), (2, khz(2_352_000)), (2, khz(2_400_000))])), said(4, reason));
        // Capacities that nobody measured: the frequency tells.
        let unmeasured = |khz| Cpu { khz: Some(khz), capacity: Some(1024), siblings: None };
        assert_eq!(all(&machine(&[(4, unmeasured(1_800_000)), (4, unmeasured(2_400_000))])).0, 4);
    }

    #[test]
    fn one_and_three_and_four() {
        let by_capacity = machine(&[(4, capacity(325)), (3, capacity(828)), (1, capacity(1024))]);
        assert_eq!(all(&by_capacity).0, 4);
        assert_eq!(all(&machine(&[(4, khz(1_804_800)), (3, khz(2_419_200)), (1, khz(2_841_600))])).0, 4);
        // Middle cores far below the largest are still far above the small ones.
        assert_eq!(all(&machine(&[(4, capacity(124)), (2, capacity(427)), (2, capacity(1024))])).0, 4);
        assert_eq!(choice(&by_capacity, &range(0..4)).0, 4);
        assert_eq!(choice(&by_capacity, &range(0..6)).0, 2);
    }

    #[test]
    fn equal_cores() {
        assert_eq!(all(&machine(&[(6, khz(3_600_000))])), said(6, "the machine has 6 cores"));
        assert_eq!(all(&machine(&[(6, capacity(1024))])).0, 6);
        assert_eq!(all(&machine(&[(1, Cpu::default())])), said(1, "the machine has 1 core"));
        // Two kinds of large cores, and two dies of different speed.
        assert_eq!(all(&machine(&[(6, capacity(780)), (2, capacity(1024))])).0, 8);
        assert_eq!(all(&machine(&[(8, khz(5_250_000)), (8, khz(5_750_000))])).0, 16);
    }

    #[test]
    fn without_files() {
        let empty = Tree::new();
        let topology = Topology::read(empty.root(), &range(0..6));
        assert_eq!(topology.thread_choice(), ThreadChoice { threads: 6, reason: "the machine has 6 cores".to_owned() });
        assert_eq!((topology.quota, topology.model), (None, None));
        assert_eq!(choice(&empty, &[]).0, 1);
        // The frequency of one core is missing: nothing can be compared.
        assert_eq!(all(&machine(&[(4, khz(1_000_000)), (3, khz(2_000_000)), (1, Cpu::default())])).0, 8);
        // A container that is shown CPUs from 0 on, and runs on others.
        let shown = Tree::new().file("sys/devices/system/cpu/online", "0-1\n");
        assert_eq!(Topology::read(shown.root(), &[9, 5]).allowed, [5, 9]);
        assert_eq!(choice(&shown, &[5, 9]), said(2, "the machine has 2 cores"));
    }

    #[test]
    fn lists_of_cpus() {
        assert_eq!(parse_cpu_list("0-3,8,10-11\n"), Some(vec![0, 1, 2, 3, 8, 10, 11]));
        assert_eq!(parse_cpu_list("5,1-2,2"), Some(vec![1, 2, 5]));
        for wrong in ["", "\n", "3-1", "1,", "-", "a", "0-8192", "0-18446744073709551616", "1-2-3"] {
            assert_eq!(parse_cpu_list(wrong), None, "{wrong:?}");
        }
    }

    #[test]
    fn names() {
        let named = |text: &str| model(Tree::new().file("proc/cpuinfo", text).root());
        let x86 = "processor\t: 0\nvendor_id\t: X\nmodel\t\t: 85\nmodel name\t: Some CPU @ 2.0GHz\n";
        assert_eq!(named(x86).as_deref(), Some("Some CPU @ 2.0GHz"));
        let phone = "processor\t: 0\nCPU part\t: 0xd05\n\nHardware\t: Vendor Chip\n";
        assert_eq!(named(phone).as_deref(), Some("Vendor Chip"));
        assert_eq!(named("processor : 0\nModel\t\t: A Board Rev 1\n").as_deref(), Some("A Board Rev 1"));
        assert_eq!(named("processor : 0\nmodel name :  \n"), None);
        let board = Tree::new().file("proc/device-tree/model", "A Board\0");
        assert_eq!(model(board.root()).as_deref(), Some("A Board"));
    }

    #[test]
    fn this_machine() {
        let affinity = affinity();
        assert!(!affinity.is_empty());
        let topology = Topology::read(Path::new("/"), &affinity);
        let choice = topology.thread_choice();
        assert!((1..=affinity.len()).contains(&choice.threads), "{choice:?} of {affinity:?}");
        assert!(topology.allowed.iter().all(|cpu| affinity.contains(cpu)));
        assert_eq!(topology.allowed.is_empty(), topology.usable_cores().is_empty());
    }
}
