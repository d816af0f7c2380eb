//! Which CPUs each worker is held to.
//!
//! A worker on a slow core holds up all the others, so where there are two kinds of cores all are held to the good ones, and the
//! system chooses among them. To hold each to a core of its own would keep its caches warm, but a worker that somebody else pushes
//! from its core then waits where it could have moved: on a busy machine it costs more than it gives (`docs/performance.md`).

use std::fmt;
use std::str::FromStr;

use duan_system::Topology;

/// What threads are held to.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum Pinning {
    /// All together to the performance cores, where there are others.
    #[default]
    Class,
    /// Each to a core of its own, where every performance core has a thread; else as [`Pinning::Class`].
    Cores,
    /// Nothing: the system places them.
    Off,
}

impl Pinning {
    /// All of them.
    pub const ALL: [Self; 3] = [Self::Class, Self::Cores, Self::Off];

    /// The name as people type it.
    pub fn name(self) -> &'static str {
        match self {
            Self::Class => "class",
            Self::Cores => "cores",
            Self::Off => "off",
        }
    }
}

impl fmt::Display for Pinning {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

impl FromStr for Pinning {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let names = || Self::ALL.map(Self::name).join(", ");
        Self::ALL
            .into_iter()
            .find(|pinning| pinning.name() == text)
            .ok_or_else(|| format!("expected one of {}", names()))
    }
}

/// The CPUs of each worker, the caller first.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Placement(Vec<Vec<usize>>);

impl Placement {
    /// Nobody is held anywhere.
    pub(crate) fn free(workers: usize) -> Self {
        Self(vec![Vec::new(); workers])
    }

    /// For so many workers on these cores.
    pub(crate) fn new(topology: &Topology, workers: usize, pinning: Pinning) -> Self {
        let allowed = |cpu: &&usize| topology.allowed.binary_search(cpu).is_ok();
        let cores: Vec<Vec<usize>> = topology
            .usable_cores()
            .into_iter()
            .map(|core| core.cpus.iter().filter(allowed).copied().collect())
            .collect();
        let all = cores.concat();
        let others_exist = all.len() < topology.allowed.len();
        match pinning {
            // A caller that ran on a worker's core would keep the worker from it, so it has its own too while it works.
            Pinning::Cores if workers == cores.len() && topology.allowed.len() > 1 => Self(cores),
            Pinning::Class | Pinning::Cores if workers <= cores.len() && others_exist => Self(vec![all; workers]),
            Pinning::Class | Pinning::Cores | Pinning::Off => Self::free(workers),
        }
    }

    /// The CPUs of a worker; none means all.
    pub(crate) fn of(&self, worker: usize) -> &[usize] {
        &self.0[worker]
    }

    /// The same where there may be more threads than workers: those beyond may run on all.
    pub(crate) fn cpus(&self, thread: usize) -> &[usize] {
        self.0.get(thread).map_or(&[], Vec::as_slice)
    }

    /// How many workers there are.
    pub(crate) fn workers(&self) -> usize {
        self.0.len()
    }

    /// How many workers are held to some of the CPUs.
    pub(crate) fn held(&self) -> usize {
        self.0.iter().filter(|cpus| !cpus.is_empty()).count()
    }
}

/// Holds this thread to some CPUs while it lives.
#[derive(Debug)]
pub(crate) struct Held {
    #[cfg(any(target_os = "linux", target_os = "android"))]
    before: Option<rustix::thread::CpuSet>,
}

impl Held {
    /// A wish: a system that knows no such thing, or does not let it be done, places the thread itself.
    #[cfg(any(target_os = "linux", target_os = "android"))]
    pub(crate) fn to(cpus: &[usize]) -> Self {
        use rustix::thread::{CpuSet, sched_getaffinity, sched_setaffinity};
        let mut set = CpuSet::new();
        cpus.iter().filter(|&&cpu| cpu < CpuSet::MAX_CPU).for_each(|&cpu| set.set(cpu));
        let before = (set.count() > 0).then(|| sched_getaffinity(None).ok()).flatten();
        Self { before: before.filter(|_| sched_setaffinity(None, &set).is_ok()) }
    }

    /// A wish that this system cannot be told.
    #[cfg(not(any(target_os = "linux", target_os = "android")))]
    pub(crate) fn to(_: &[usize]) -> Self {
        Self {}
    }
}

#[cfg(any(target_os = "linux", target_os = "android"))]
impl Drop for Held {
    fn drop(&mut self) {
        if let Some(before) = &self.before {
            // If its CPUs are gone meanwhile, the thread stays where it is.
            let _ = rustix::thread::sched_setaffinity(None, before);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use duan_system::{Core, CoreClass, affinity};

    /// Cores of these classes, each with so many CPUs, all of which may be used.
    fn machine(cores: &[(CoreClass, usize)]) -> Topology {
        let mut next = 0;
        let cores: Vec<Core> = cores
            .iter()
            .map(|&(class, cpus)| {
                let id = next;
                next += cpus;
                let cpus = (id..next).collect();
                Core { id, cpus, package: None, max_frequency_khz: None, capacity: None, class }
            })
            .collect();
        Topology { cores, allowed: (0..next).collect(), quota: None, model: None }
    }

    fn placed(topology: &Topology, workers: usize, pinning: Pinning) -> Vec<Vec<usize>> {
        Placement::new(topology, workers, pinning).0
    }

    use CoreClass::{Efficiency, Performance};

    #[test]
    fn on_two_kinds_of_cores_all_are_kept_to_the_good_ones() {
        let hybrid = machine(&[(Performance, 2), (Performance, 2), (Efficiency, 1), (Efficiency, 1)]);
        let good = vec![0, 1, 2, 3];
        assert_eq!(placed(&hybrid, 2, Pinning::Class), [good.clone(), good.clone()]);
        assert_eq!(placed(&hybrid, 1, Pinning::Cores), [good], "fewer workers than cores: the system chooses");
        assert_eq!(placed(&hybrid, 2, Pinning::Cores), [vec![0, 1], vec![2, 3]]);
        assert_eq!(placed(&hybrid, 2, Pinning::Off), Placement::free(2).0);
        assert_eq!(
            placed(&hybrid, 3, Pinning::Class),
            Placement::free(3).0,
            "more workers than good cores need the others"
        );
        assert_eq!(Placement::new(&hybrid, 2, Pinning::Class).held(), 2);
        let mut kept = machine(&[(Performance, 1), (Performance, 1), (Efficiency, 1), (Efficiency, 1)]);
        kept.allowed = vec![1, 3];
        assert_eq!(placed(&kept, 1, Pinning::Class), [vec![1]], "of the two that the process may use one is good");
    }

    #[test]
    fn equal_cores_are_left_to_the_system_unless_asked() {
        let equal = machine(&[(Performance, 1); 3]);
        assert_eq!(placed(&equal, 3, Pinning::Class), Placement::free(3).0);
        assert_eq!(placed(&equal, 3, Pinning::Cores), [[0], [1], [2]]);
        assert_eq!(placed(&equal, 2, Pinning::Cores), Placement::free(2).0);
        assert_eq!(placed(&machine(&[(Performance, 1)]), 1, Pinning::Cores), Placement::free(1).0);
    }

    #[test]
    fn names_are_read_as_they_are_written() {
        for pinning in Pinning::ALL {
            assert_eq!(pinning.name().parse(), Ok(pinning));
        }
        assert_eq!("core".parse::<Pinning>(), Err("expected one of class, cores, off".to_owned()));
    }

    #[cfg(any(target_os = "linux", target_os = "android"))]
    #[test]
    fn a_thread_goes_back_to_where_it_may_run() {
        let before = affinity();
        let last = *before.last().unwrap();
        let held = Held::to(&[last]);
        assert_eq!(affinity(), [last]);
        drop(held);
        assert_eq!(affinity(), before);
        drop(Held::to(&[]));
        drop(Held::to(&[usize::MAX]));
        assert_eq!(affinity(), before);
    }
}
