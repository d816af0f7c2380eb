//! Cores, threads and limits of made-up machines.

use super::*;
use crate::made_up::Tree;

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
    let mut tree = Tree::new("linux").file("sys/devices/system/cpu/online", format!("0-{}\n", cpus.len() - 1));
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
    let ThreadChoice { threads, reason } = Topology::read(tree, affinity).thread_choice();
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
    assert_eq!(with("50000 100000\n"), said(1, "the cgroup grants the time of 0.5 CPUs, and one thread is the least"));
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
    assert_eq!(Topology::read(&tree, &[]).quota, Some(3.0));
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
    assert_eq!(Topology::read(&v1, &[]).allowed, range(0..4));
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
    let topology = Topology::read(&tree, &[]);
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
    let core = &Topology::read(&tree, &[]).cores[1];
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
    let empty = Tree::new("linux");
    let topology = Topology::read(&empty, &range(0..6));
    assert_eq!(topology.thread_choice(), ThreadChoice { threads: 6, reason: "the machine has 6 cores".to_owned() });
    assert_eq!((topology.quota, topology.model), (None, None));
    assert_eq!(choice(&empty, &[]).0, 1);
    // The frequency of one core is missing: nothing can be compared.
    assert_eq!(all(&machine(&[(4, khz(1_000_000)), (3, khz(2_000_000)), (1, Cpu::default())])).0, 8);
    // A container that is shown CPUs from 0 on, and runs on others.
    let shown = Tree::new("linux").file("sys/devices/system/cpu/online", "0-1\n");
    assert_eq!(Topology::read(&shown, &[9, 5]).allowed, [5, 9]);
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
    let named = |text: &str| model(&Tree::new("linux").file("proc/cpuinfo", text)).ok();
    let x86 = "processor\t: 0\nvendor_id\t: X\nmodel\t\t: 85\nmodel name\t: Some CPU @ 2.0GHz\n";
    assert_eq!(named(x86).as_deref(), Some("Some CPU @ 2.0GHz"));
    let phone = "processor\t: 0\nCPU part\t: 0xd05\n\nHardware\t: Vendor Chip\n";
    assert_eq!(named(phone).as_deref(), Some("Vendor Chip"));
    assert_eq!(named("processor : 0\nModel\t\t: A Board Rev 1\n").as_deref(), Some("A Board Rev 1"));
    assert_eq!(named("processor : 0\nmodel name :  \n"), None);
    let board = Tree::new("linux").file("proc/device-tree/model", "A Board\0");
    assert_eq!(model(&board).as_deref(), Ok("A Board"));
}

#[test]
fn this_machine() {
    let affinity = affinity();
    assert!(!affinity.is_empty());
    let topology = Topology::read(&Local::here(), &affinity);
    let choice = topology.thread_choice();
    assert!((1..=affinity.len()).contains(&choice.threads), "{choice:?} of {affinity:?}");
    assert!(topology.allowed.iter().all(|cpu| affinity.contains(cpu)));
    assert_eq!(topology.allowed.is_empty(), topology.usable_cores().is_empty());
}
