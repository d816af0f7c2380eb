//! Which CPUs each worker is held to.
//!
//! A worker that the system moves finds its caches empty, and on a slow core it holds up all the others. So where every core has
//! a worker, each is held to its own; where there are fewer workers than cores, or other programs would be shut out, they are held
//! to the good cores together and the system chooses among them.

use crate::topology::Topology;

/// The CPUs of each worker, the caller first.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Placement(Vec<Vec<usize>>);

impl Placement {
    /// Nobody is held anywhere.
    pub(crate) fn free(workers: usize) -> Self {
        Self(vec![Vec::new(); workers])
    }

    /// For so many workers on these cores.
    pub(crate) fn new(topology: &Topology, workers: usize) -> Self {
        let allowed = |cpu: &&usize| topology.allowed.binary_search(cpu).is_ok();
        let cores: Vec<Vec<usize>> = topology
            .usable_cores()
            .into_iter()
            .map(|core| core.cpus.iter().filter(allowed).copied().collect())
            .collect();
        let all = cores.concat();
        let is_all_there_is = all.len() == topology.allowed.len();
        let together = if is_all_there_is { Vec::new() } else { all };
        if workers > cores.len() {
            return Self::free(workers);
        }
        let own = workers == cores.len();
        // The caller's thread belongs to somebody else. It may go wherever the workers are, and finds the core that is left.
        let caller = together.clone();
        let others = cores.into_iter().skip(1).take(workers.saturating_sub(1));
        let others = others.map(|core| if own { core } else { together.clone() });
        Self(std::iter::once(caller).chain(others).collect())
    }

    /// The CPUs of a worker; none means all.
    pub(crate) fn of(&self, worker: usize) -> &[usize] {
        &self.0[worker]
    }

    /// How many workers there are.
    pub(crate) fn workers(&self) -> usize {
        self.0.len()
    }

    /// How many workers are held to a core of their own.
    pub(crate) fn held(&self) -> usize {
        self.0[1..]
            .iter()
            .filter(|cpus| !cpus.is_empty() && self.0.iter().filter(|other| other == cpus).count() == 1)
            .count()
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
    use crate::topology::{Core, CoreClass};

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

    fn placed(topology: &Topology, workers: usize) -> Vec<Vec<usize>> {
        Placement::new(topology, workers).0
    }

    use CoreClass::{Efficiency, Performance};

    #[test]
    fn a_worker_for_each_core_is_held_to_it() {
        let equal = machine(&[(Performance, 1); 3]);
        assert_eq!(placed(&equal, 3), [vec![], vec![1], vec![2]]);
        assert_eq!(Placement::new(&equal, 3).held(), 2);
        let threaded = machine(&[(Performance, 2); 2]);
        assert_eq!(placed(&threaded, 2), [vec![], vec![2, 3]], "the system chooses among the threads of a core");
    }

    #[test]
    fn on_two_kinds_of_cores_all_are_kept_to_the_good_ones() {
        let hybrid = machine(&[(Performance, 2), (Performance, 2), (Efficiency, 1), (Efficiency, 1)]);
        assert_eq!(placed(&hybrid, 2), [vec![0, 1, 2, 3], vec![2, 3]]);
        assert_eq!(placed(&hybrid, 1), [vec![0, 1, 2, 3]]);
        assert_eq!(Placement::new(&hybrid, 1).held(), 0);
    }

    #[test]
    fn fewer_workers_than_cores_may_go_to_any_of_them_and_more_are_left_alone() {
        let equal = machine(&[(Performance, 1); 4]);
        assert_eq!(placed(&equal, 2), Placement::free(2).0);
        assert_eq!(placed(&equal, 5), Placement::free(5).0);
        let mut kept = machine(&[(Performance, 1), (Performance, 1), (Efficiency, 1), (Efficiency, 1)]);
        kept.allowed = vec![1, 3];
        assert_eq!(placed(&kept, 1), [vec![1]], "of the two that the process may use one is good");
    }

    #[cfg(any(target_os = "linux", target_os = "android"))]
    #[test]
    fn a_thread_goes_back_to_where_it_may_run() {
        let before = crate::topology::affinity();
        let last = *before.last().unwrap();
        let held = Held::to(&[last]);
        assert_eq!(crate::topology::affinity(), [last]);
        drop(held);
        assert_eq!(crate::topology::affinity(), before);
        drop(Held::to(&[]));
        drop(Held::to(&[usize::MAX]));
        assert_eq!(crate::topology::affinity(), before);
    }
}
