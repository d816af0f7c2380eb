//! What this machine can do at most: measured when it must be, kept otherwise.
//!
//! Whoever needs ceilings asks [`crate::Engine::ceilings`]: they come from the file of this device where they still hold, and are measured and kept where
//! not, with the reason told before.

use std::path::{Path, PathBuf};
use std::sync::atomic::AtomicBool;

use duan_cpu::{CeilingRates, Cpu, Skipped, ThreadClock};
use duan_measure::machine;
use duan_system::State;
use serde::Serialize;

pub use duan_cpu::{CeilingProgress, CeilingStep};
pub use duan_measure::ceilings::{Barrier, Ceilings, CeilingsAt, Clock, Kept, Peak, Refresh, Verdict, Wanted};

use crate::bench;
use crate::devices::Devices;
use crate::error::Result;

/// The folder in which ceilings are kept: `ceilings` in `DUAN_STATE`, else in `duan` in the system's folder for state. None where there
/// is no home folder either.
pub fn folder() -> Option<PathBuf> {
    duan_measure::folder::state_folder(|name| std::env::var_os(name)).map(|folder| folder.join("ceilings"))
}

/// What is told meanwhile.
#[derive(Debug)]
#[non_exhaustive]
pub enum CeilingEvent<'a> {
    /// Ceilings are measured, for this reason. It takes some seconds.
    Measuring {
        /// Why.
        reason: &'a Refresh,
    },
    /// A step of that.
    Progress(&'a CeilingProgress),
    /// What was measured cannot be kept, so it is measured again next time.
    NotKept {
        /// Why, in one line.
        reason: &'a str,
    },
}

/// How ceilings are found.
#[derive(Debug, Clone, Copy)]
pub struct CeilingOptions<'a> {
    /// The folder in which they are kept; nothing is kept without one.
    pub folder: Option<&'a Path>,
    /// Whether they are measured anew though those that were kept still hold.
    pub again: bool,
    /// Ends the measurement at once when it is true.
    pub cancel: &'a AtomicBool,
}

/// Ceilings, and where they come from.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct FoundCeilings {
    /// The figures.
    #[serde(flatten)]
    pub ceilings: Ceilings,
    /// Why they were measured just now; none where they were kept.
    pub refreshed: Option<Refresh>,
    /// Seconds since they were measured.
    pub age_s: Option<i64>,
    /// The load average, where others used the machine then, so that the figures are too low.
    pub load_of_others: Option<f64>,
}

/// The ceilings of these devices: kept ones where they hold, else measured ones, which are kept then. Nothing where it was cancelled.
/// `state` is the machine before anything ran on it.
///
/// # Errors
/// When the system gives no threads to measure with.
pub(crate) fn find(
    devices: &Devices,
    state: &State,
    options: &CeilingOptions<'_>,
    on_event: &mut dyn FnMut(&CeilingEvent<'_>),
) -> Result<Option<FoundCeilings>> {
    let kept = options.folder.map(Kept::new);
    let cpu = devices.cpu_device();
    let reason = match kept_ones(cpu, state, kept.as_ref(), options.again) {
        Ok(ceilings) => return Ok(Some(FoundCeilings::new(ceilings, None))),
        Err(reason) => reason,
    };
    on_event(&CeilingEvent::Measuring { reason: &reason });
    let rates = cpu.ceilings(options.cancel, &mut |progress| on_event(&CeilingEvent::Progress(progress)))?;
    let Some(rates) = rates else { return Ok(None) };
    let ceilings = told(rates, cpu, state.clone());
    if let Some(Err(error)) = kept.map(|kept| kept.keep(&ceilings)) {
        on_event(&CeilingEvent::NotKept { reason: &error.to_string() });
    }
    Ok(Some(FoundCeilings::new(ceilings, Some(reason))))
}

impl FoundCeilings {
    fn new(ceilings: Ceilings, refreshed: Option<Refresh>) -> Self {
        Self { age_s: ceilings.age_s(), load_of_others: ceilings.load_of_others(), ceilings, refreshed }
    }
}

/// What was kept, or why it is not used.
fn kept_ones(cpu: &Cpu, state: &State, kept: Option<&Kept>, again: bool) -> std::result::Result<Ceilings, Refresh> {
    if again {
        return Err(Refresh::AskedFor);
    }
    let chip = state.chip();
    let wanted = Wanted {
        duan_version: env!("CARGO_PKG_VERSION"),
        chip: &chip,
        isa: cpu.isa(),
        pinning: cpu.pinning().name(),
        threads: &[cpu.threads_decode(), cpu.threads_prefill()],
        state,
    };
    kept.ok_or(Refresh::Missing)?.find(&wanted)
}

/// What the CPU measured, as data.
fn told(rates: CeilingRates, cpu: &Cpu, state: State) -> Ceilings {
    let CeilingRates { isa, read, peaks, clocks, barriers } = rates;
    let (read, read_skipped) = or_reason(read);
    let (clocks, clock_skipped) = or_reason(clocks);
    let peak = |peak: duan_cpu::Peak| Peak {
        isa: peak.isa.to_owned(),
        instruction: peak.instruction,
        formats: peak.formats.into_iter().map(str::to_owned).collect(),
        threads: peak.threads,
        per_s: peak.multiply_adds_per_s,
    };
    let clock = |threads: Vec<ThreadClock>| Clock {
        threads: threads.len(),
        best_hz: threads.iter().map(|thread| thread.best_hz).collect(),
        median_hz: threads.iter().map(|thread| thread.median_hz).collect(),
    };
    let barrier = |latency: duan_cpu::BarrierLatency| Barrier {
        threads: latency.threads,
        median_ns: latency.median_ns,
        best_ns: latency.best_ns,
    };
    Ceilings {
        measured_at: machine::utc_now(),
        duan_version: env!("CARGO_PKG_VERSION").to_owned(),
        chip: state.chip(),
        isa: isa.to_owned(),
        pinning: cpu.pinning().name().to_owned(),
        threads: cpu.ceiling_threads(),
        read: read.into_iter().map(bench::told).collect(),
        read_skipped,
        multiply_adds: peaks.into_iter().map(peak).collect(),
        clock: clocks.into_iter().map(clock).collect(),
        clock_skipped,
        barriers: barriers.into_iter().map(barrier).collect(),
        state,
    }
}

/// What was measured, and why not where it was not.
fn or_reason<T>(found: std::result::Result<Vec<T>, Skipped>) -> (Vec<T>, Option<String>) {
    match found {
        Ok(found) => (found, None),
        Err(skipped) => (Vec::new(), Some(skipped.to_string())),
    }
}
