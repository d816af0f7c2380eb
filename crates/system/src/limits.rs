//! What this process may use of the processor: which CPUs, how much of their time, and who goes first.
//!
//! Sources: the kernel's documents `admin-guide/cgroup-v2.rst`, `scheduler/sched-bwc.rst`, `filesystems/proc.rst`; Android's
//! groups of foreground and background: `/dev/cpuset`, as its init makes it.

use serde::{Deserialize, Serialize};

use crate::groups::Groups;
use crate::process::{self, Stat, status};
use crate::reading::Reading;
use crate::source::{Source, Unreadable, line, number, quoted, stat_of};
use crate::topology::{cpu_list, cpuset, read_cpu_list};

/// What this process may use of the processor.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct Limits {
    /// The CPUs that the thread that asked may run on, ascending.
    pub affinity: Reading<Vec<usize>>,
    /// The CPUs that the innermost control group that says so may run on, ascending.
    pub cpuset: Reading<Vec<usize>>,
    /// CPU time that the control groups grant, in CPUs: the least of the process's group and all its parents. `None` is no limit.
    pub quota_cpus: Reading<Option<f64>>,
    /// How often the control groups held the process up.
    pub throttling: Reading<Throttling>,
    /// From -20, which goes first, to 19.
    pub nice: Reading<i32>,
    /// The scheduling class: `other` (the usual one), `batch`, `idle`, `fifo`, `rr`, `deadline`, `ext`.
    pub scheduling: Reading<String>,
    /// Android's group of the process: `/top-app` and `/foreground` get all cores, `/background` few.
    pub android_group: Reading<String>,
    /// The CPUs of that group.
    pub android_cpus: Reading<Vec<usize>>,
}

/// What the quota of a control group did, since it was made: of the process's group and all its parents that which held it up longest.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct Throttling {
    /// Periods in which the group wanted time.
    pub periods: u64,
    /// Those in which its time was used up before the end.
    pub throttled_periods: u64,
    /// How long it was held up, in microseconds.
    pub throttled_us: u64,
}

impl Limits {
    pub(crate) fn read(source: &dyn Source) -> Self {
        let stat = Stat::read(source);
        let stat = || stat.as_ref().map_err(Clone::clone);
        let group = android_group(source);
        Self {
            affinity: affinity(source).into(),
            cpuset: cpuset(source).into(),
            quota_cpus: quota_cpus(source).into(),
            throttling: throttling(source).into(),
            nice: stat().and_then(|stat| stat.field(process::NICE)).into(),
            scheduling: stat().and_then(|stat| stat.field(process::POLICY)).map(scheduling).into(),
            android_cpus: group
                .as_ref()
                .map_err(Clone::clone)
                .and_then(|group| read_cpu_list(source, &format!("dev/cpuset{}/cpus", group.trim_end_matches('/'))))
                .into(),
            android_group: group.into(),
        }
    }

    /// Whether Android keeps the process in the background, where it gets few and slow cores.
    pub fn is_background(&self) -> bool {
        let group = self.android_group.get().map_or("", String::as_str);
        ["/background", "/system-background", "/restricted"].iter().any(|name| group.starts_with(name))
    }
}

/// The CPUs that this thread may run on, or the process's first thread where the kernel tells of no other.
fn affinity(source: &dyn Source) -> Result<Vec<usize>, Unreadable> {
    let of = |path: &str| cpu_list(path, status(path, &source.read(path)?, "Cpus_allowed_list")?);
    match of("proc/thread-self/status") {
        Err(error) if error.is_absent() => of("proc/self/status"),
        result => result,
    }
}

/// The least quota of this process's group and all its parents, in CPUs.
pub(crate) fn quota_cpus(source: &dyn Source) -> Result<Option<f64>, Unreadable> {
    let groups = Groups::find(source, "cpu")?;
    let v2 = groups.v2.iter().map(|folder| quota_of_v2(source, folder));
    let v1 = groups.v1.iter().map(|folder| quota_of_v1(source, folder));
    groups.least(source, v2.chain(v1).collect(), f64::min)
}

fn quota_of_v2(source: &dyn Source, folder: &str) -> Result<Option<f64>, Unreadable> {
    let path = format!("{folder}/cpu.max");
    let text = source.read(&path)?;
    let text = text.trim();
    let quota = text.split_once(' ').and_then(|(quota, period)| {
        let period = period.parse().ok()?;
        if quota == "max" { Some(None) } else { cpus_of(quota.parse().ok()?, period).map(Some) }
    });
    quota.ok_or_else(|| Unreadable::unexpected(&path, format!("{} is no quota and period", quoted(text))))
}

fn quota_of_v1(source: &dyn Source, folder: &str) -> Result<Option<f64>, Unreadable> {
    let path = format!("{folder}/cpu.cfs_quota_us");
    let quota: i64 = number(source, &path)?;
    // Without a limit it is -1.
    let Ok(quota) = u64::try_from(quota) else { return Ok(None) };
    let cpus = cpus_of(quota, number(source, &format!("{folder}/cpu.cfs_period_us"))?);
    cpus.map(Some).ok_or_else(|| Unreadable::unexpected(&path, "is no quota of a period"))
}

fn cpus_of(quota_us: u64, period_us: u64) -> Option<f64> {
    (quota_us > 0 && period_us > 0).then(|| quota_us as f64 / period_us as f64)
}

/// What the quotas did: each of the process's group and all its parents can hold it up, and that which did so longest is told.
pub(crate) fn throttling(source: &dyn Source) -> Result<Throttling, Unreadable> {
    let groups = Groups::find(source, "cpu")?;
    let v2 = groups.v2.iter().map(|folder| throttling_of(source, folder, "throttled_usec", 1));
    let v1 = groups.v1.iter().map(|folder| throttling_of(source, folder, "throttled_time", 1000));
    let (mut most, mut error) = (None::<Throttling>, None);
    for one in v2.chain(v1) {
        match one {
            Ok(one) if most.is_none_or(|most| one.throttled_us > most.throttled_us) => most = Some(one),
            Ok(_) => {}
            Err(one) => _ = error.get_or_insert(one),
        }
    }
    most.ok_or_else(|| error.unwrap_or_else(|| Unreadable::because("no control group counts CPU time")))
}

/// `time` is the line of the time held up, in so many parts of a microsecond.
fn throttling_of(source: &dyn Source, folder: &str, time: &str, parts: u64) -> Result<Throttling, Unreadable> {
    let path = format!("{folder}/cpu.stat");
    let text = source.read(&path)?;
    Ok(Throttling {
        periods: stat_of(&path, &text, "nr_periods")?,
        throttled_periods: stat_of(&path, &text, "nr_throttled")?,
        throttled_us: stat_of(&path, &text, time)? / parts,
    })
}

fn scheduling(policy: u32) -> String {
    match policy {
        0 => "other",
        1 => "fifo",
        2 => "rr",
        3 => "batch",
        5 => "idle",
        6 => "deadline",
        7 => "ext",
        other => return format!("policy {other}"),
    }
    .to_owned()
}

fn android_group(source: &dyn Source) -> Result<String, Unreadable> {
    if source.os() != "android" && source.read("dev/cpuset/top-app/cpus").is_err_and(|error| error.is_absent()) {
        return Err(Unreadable::because("only Android has groups of foreground and background"));
    }
    line(source, "proc/self/cpuset")
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::made_up::Tree;

    fn v2(group: &str) -> Tree {
        let mounts = "30 23 0:26 / /sys/fs/cgroup rw - cgroup2 cgroup2 rw\n";
        Tree::new("linux").file("proc/self/cgroup", format!("0::{group}\n")).file("proc/self/mountinfo", mounts)
    }

    fn reason<T: std::fmt::Debug>(result: Result<T, Unreadable>) -> String {
        result.unwrap_err().to_string()
    }

    #[test]
    fn a_quota_is_known_or_none_or_not_readable() {
        let with = |text: &str| quota_cpus(&v2("/a").file("sys/fs/cgroup/a/cpu.max", text));
        assert_eq!(with("50000 100000\n"), Ok(Some(0.5)));
        assert_eq!(with("max 100000\n"), Ok(None));
        assert_eq!(reason(with("4 0")), "/sys/fs/cgroup/a/cpu.max: \"4 0\" is no quota and period");
        assert_eq!(reason(with("-5 100000")), "/sys/fs/cgroup/a/cpu.max: \"-5 100000\" is no quota and period");
        // What one group says holds, whatever another hides.
        let half = v2("/a").file("sys/fs/cgroup/a/cpu.max", "?").file("sys/fs/cgroup/cpu.max", "200000 100000");
        assert_eq!(quota_cpus(&half), Ok(Some(2.0)));
        // A group without the controller has no such file.
        assert_eq!(quota_cpus(&v2("/").file("sys/fs/cgroup/cgroup.procs", "1\n")), Ok(None));
        assert_eq!(reason(quota_cpus(&v2("/"))), "/sys/fs/cgroup/cpu.max: no such file");
        assert_eq!(quota_cpus(&Tree::new("linux").file("proc/self/cgroup", "")), Ok(None), "a kernel without any");
        assert_eq!(reason(quota_cpus(&Tree::new("linux"))), "/proc/self/cgroup: no such file");
    }

    #[test]
    fn throttling_is_that_of_the_group_that_throttled_most_in_one_unit() {
        let stat = "usage_usec 9\nnr_periods 100\nnr_throttled 40\nthrottled_usec 7000\n";
        let outer = "nr_periods 150\nnr_throttled 2\nthrottled_usec 1\n";
        let tree = v2("/a/b").file("sys/fs/cgroup/a/b/cpu.stat", stat).file("sys/fs/cgroup/a/cpu.stat", outer);
        let tree = tree.file("sys/fs/cgroup/cpu.stat", "usage_usec 10\n");
        let expected = Throttling { periods: 100, throttled_periods: 40, throttled_us: 7000 };
        assert_eq!(throttling(&tree), Ok(expected));
        let v1 = Tree::new("linux")
            .file("proc/self/cgroup", "1:cpu:/\n")
            .file("sys/fs/cgroup/cpu/cpu.stat", "nr_periods 3\nnr_throttled 2\nthrottled_time 5000999\n");
        assert_eq!(throttling(&v1), Ok(Throttling { periods: 3, throttled_periods: 2, throttled_us: 5000 }));
        let none = v2("/").file("sys/fs/cgroup/cpu.stat", "usage_usec 10\n");
        assert_eq!(reason(throttling(&none)), "/sys/fs/cgroup/cpu.stat: says nothing of nr_periods");
    }

    #[test]
    fn background_is_told_from_foreground() {
        let with = |group: &str| {
            let tree = Tree::new("android").file("proc/self/cpuset", group).file("dev/cpuset/background/cpus", "0-2\n");
            Limits::read(&tree)
        };
        let limits = with("/background\n");
        assert!(limits.is_background());
        assert_eq!(limits.android_cpus, Reading::Known(vec![0, 1, 2]));
        assert!(!with("/top-app\n").is_background() && !with("/\n").is_background());
        let desktop = Limits::read(&Tree::new("linux").file("proc/self/cpuset", "/background\n"));
        assert!(!desktop.is_background());
        assert_eq!(desktop.android_group.reason(), Some("only Android has groups of foreground and background"));
    }
}
