//! Whether the machine was the same while a test ran, and if not, by what that is known.
//!
//! Looked at is before each round and after it: what happens in pauses and while a context is computed is nobody's matter. What moved
//! more than its limit makes a run doubtful: its numbers are told all the same, with the evidence, and whoever compares them knows.

use duan_system::{Counters, Movement, Reading, Source};
use serde::{Deserialize, Serialize};

use super::EarlierRuns;
use super::statistics::{Interval, range};

/// Time that the hypervisor may give to others, as a part of all processors' time.
const STEAL_SHARE: f64 = 0.01;
/// Processors that other programs may take beyond those that no thread of ours needs.
const NEIGHBOUR_CPUS: f64 = 0.1;
/// Ticks of the system's clock below which nothing is concluded from a share: one more or less is chance.
const LEAST_TICKS: f64 = 5.0;
/// Part of the effective clock that may be lost between two looks.
const CLOCK_PART: f64 = 0.05;
/// Warming that no processor has without heat becoming its matter, in thousandths of a degree.
const WARMER_MILLICELSIUS: i64 = 10_000;
/// Pages that may come from the disk: those of the program itself.
const DISK_PAGES: u64 = 8;
/// Fewer rounds have no interval.
const LEAST_ROUNDS: usize = 5;
/// How far the ends of an interval may be from its middle, as a part of the median.
const SPREAD_PART: f64 = 0.05;

/// What was seen of the machine at one moment.
#[derive(Debug, Clone, PartialEq)]
pub struct Sight {
    /// What the system counts.
    pub counters: Counters,
    /// The effective clock, in additions per second that wait for each other; `None` where it was not measured.
    pub clock_hz: Option<f64>,
}

impl Sight {
    /// Looks.
    pub fn take(source: &dyn Source, clock_hz: Option<f64>) -> Sight {
        Sight { counters: Counters::read(source), clock_hz }
    }
}

/// The machine before a round and after it.
#[derive(Debug, Clone, PartialEq)]
pub struct Window {
    /// Before.
    pub before: Sight,
    /// After.
    pub after: Sight,
}

impl Window {
    /// What moved in the round.
    pub fn movement(&self) -> Movement {
        Movement::between(&self.before.counters, &self.after.counters)
    }
}

/// Processors and threads of a test.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Share {
    /// Processors of the machine that are on.
    pub processors: usize,
    /// Threads of the test.
    pub threads: usize,
}

/// What a run is doubtful for.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
#[non_exhaustive]
pub enum DoubtKind {
    /// The hypervisor ran others.
    Steal,
    /// The control group's quota of CPU time was used up.
    Quota,
    /// Other programs wanted the processors.
    Neighbour,
    /// The processor did not count equally fast all the while.
    Clock,
    /// The highest frequency that is allowed was lowered.
    Frequency,
    /// The machine became much warmer.
    Temperature,
    /// Heat or power held the processor back.
    Throttled,
    /// Weights came from the disk again.
    Disk,
    /// The rounds differ from each other more than a number can be told by.
    Spread,
    /// Earlier runs with the same settings differ from each other more than a number can be told by.
    Runs,
    /// There were too few rounds to know how much they differ.
    FewRounds,
}

impl DoubtKind {
    /// What can be done about it, to stand behind a semicolon.
    pub fn remedy(self) -> &'static str {
        match self {
            Self::Steal => "ask for a machine whose processors nobody else uses, or run this again at another time",
            Self::Quota => "ask for fewer threads with -t, or give the control group more time",
            Self::Neighbour => "end other programs, or ask for fewer threads with -t, and run this again",
            Self::Clock | Self::Frequency => {
                "set the governor to performance, plug the power in, and give the device a minute of rest before"
            }
            Self::Temperature | Self::Throttled => {
                "let the device cool down, ask for longer pauses with --pause, or measure what lasts with more rounds"
            }
            Self::Disk => "free some memory, or choose a smaller model",
            Self::Spread => "end other programs and ask for more rounds with -r",
            Self::Runs => "set it beside a run of the same minute (--with), or take the median of several runs",
            Self::FewRounds => "ask for at least five with -r",
        }
    }
}

/// Why a run is doubtful.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Doubt {
    /// What for.
    pub kind: DoubtKind,
    /// What was seen, in one line.
    pub evidence: String,
}

/// The machine while a test ran.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Conditions {
    /// What moved from before the first round to after the last.
    pub movement: Movement,
    /// The effective clock at each look, in additions per second.
    pub clock_hz: Vec<f64>,
    /// What makes the run doubtful; nothing is best.
    pub doubts: Vec<Doubt>,
}

impl Conditions {
    /// Judges what was seen before and after each round. `median` and `interval` are those of the rates; `None` where there were
    /// too few rounds to know.
    pub fn judge(windows: &[Window], share: Share, median: f64, interval: Option<&Interval>) -> Conditions {
        let movement = match windows {
            [first, .., last] | [first @ last] => Movement::between(&first.before.counters, &last.after.counters),
            [] => Movement::default(),
        };
        let time = Time::of(windows);
        let found = [
            (DoubtKind::Steal, time.as_ref().and_then(steal)),
            (DoubtKind::Quota, quota(windows)),
            (DoubtKind::Neighbour, time.as_ref().and_then(|time| neighbour(time, share))),
            (DoubtKind::Clock, clock(windows)),
            (DoubtKind::Frequency, frequency(windows)),
            (DoubtKind::Temperature, temperature(&movement)),
            (DoubtKind::Throttled, throttled(&movement)),
            (DoubtKind::Disk, disk(windows)),
            (DoubtKind::Spread, spread(median, interval)),
            (DoubtKind::FewRounds, few_rounds(windows.len())),
        ];
        let doubt = |(kind, evidence): (DoubtKind, Option<String>)| Some(Doubt { kind, evidence: evidence? });
        let doubts = found.into_iter().filter_map(doubt).collect();
        let clock_hz = windows.iter().flat_map(|window| [window.before.clock_hz, window.after.clock_hz]).flatten();
        Conditions { movement, clock_hz: clock_hz.collect(), doubts }
    }
}

/// Who had the processors while rounds ran, in ticks of the system's clock.
struct Time {
    total: f64,
    steal: f64,
    others: f64,
}

impl Time {
    /// Summed up before anything is concluded: of one short round a tick more or less is chance, to both sides.
    fn of(windows: &[Window]) -> Option<Time> {
        let mut time = Time { total: 0.0, steal: 0.0, others: 0.0 };
        for Window { before, after } in windows {
            let (before, after) = (&before.counters, &after.counters);
            let passed =
                |of: fn(&Counters) -> &Reading<u64>| Some(*of(after).get()? as f64 - *of(before).get()? as f64);
            let (total, idle) = (passed(|all| &all.cpu_total_ticks)?, passed(|all| &all.cpu_idle_ticks)?);
            let (steal, own) = (passed(|all| &all.cpu_steal_ticks)?, passed(|all| &all.own_cpu_ticks)?);
            time.total += total;
            time.steal += steal;
            time.others += total - idle - steal - own;
        }
        (time.total > 0.0).then_some(time)
    }

    /// A part of the time, where it is more than its limit and more than chance.
    fn notable(&self, ticks: f64, limit: f64) -> Option<f64> {
        (ticks >= LEAST_TICKS && ticks / self.total > limit).then_some(ticks / self.total)
    }
}

/// A counter's growth over all rounds; what went backwards says nothing.
fn grown(windows: &[Window], of: impl Fn(&Counters) -> Option<u64>) -> Option<u64> {
    let grown = |window: &Window| of(&window.after.counters)?.checked_sub(of(&window.before.counters)?);
    windows.iter().map(grown).try_fold(0u64, |sum, one| Some(sum.saturating_add(one?)))
}

fn steal(time: &Time) -> Option<String> {
    let share = time.notable(time.steal, STEAL_SHARE)?;
    Some(format!("the hypervisor gave {:.1} % of the processors' time to others", share * 100.0))
}

fn quota(windows: &[Window]) -> Option<String> {
    let held = grown(windows, |all| Some(all.throttling.get()?.throttled_periods)).filter(|&held| held > 0)?;
    let periods = grown(windows, |all| Some(all.throttling.get()?.periods))?;
    let ms = grown(windows, |all| Some(all.throttling.get()?.throttled_us))? / 1000;
    Some(format!("the control group's quota was used up in {held} of {periods} periods, which cost {ms} ms"))
}

fn neighbour(time: &Time, share: Share) -> Option<String> {
    let processors = share.processors.max(1) as f64;
    let free = share.processors.saturating_sub(share.threads) as f64;
    let others = time.notable(time.others, (free + NEIGHBOUR_CPUS) / processors)?;
    Some(format!(
        "other programs used {:.2} processors of {}, beside {} threads",
        others * processors,
        share.processors,
        share.threads
    ))
}

/// Compared are the looks after rounds: before them cores may have rested.
fn clock(windows: &[Window]) -> Option<String> {
    let after: Vec<f64> = windows.iter().filter_map(|window| window.after.clock_hz).collect();
    let (low, high) = range(&after);
    let moved = high > 0.0 && (high - low) / high > CLOCK_PART;
    moved.then(|| format!("after rounds the effective clock was between {:.2} and {:.2} GHz", low / 1e9, high / 1e9))
}

/// What the system allowed at most before the first round, and less of it later. (The present frequency says little: it is that of cores that
/// rest already.)
fn frequency(windows: &[Window]) -> Option<String> {
    let first = windows.first()?.before.counters.frequency.get()?;
    first.iter().enumerate().find_map(|(index, policy)| {
        let before = *policy.allowed_max_khz.get()?;
        let later = windows.iter().filter_map(|window| {
            let now = window.after.counters.frequency.get()?.get(index)?;
            now.allowed_max_khz.get().copied()
        });
        let least = later.min().filter(|&least| least < before)?;
        let cpus = policy.cpus.get().map_or(String::new(), |cpus| format!(" of CPUs {}", duan_system::cpu_list(cpus)));
        let mhz = |khz: u64| khz as f64 / 1e3;
        Some(format!("the highest frequency allowed{cpus} went from {:.0} MHz to {:.0}", mhz(before), mhz(least)))
    })
}

fn temperature(movement: &Movement) -> Option<String> {
    let zones = movement.temperature.get()?.iter().filter_map(|zone| {
        let (before, after) = (*zone.before_millicelsius.get()?, *zone.after_millicelsius.get()?);
        Some((after.saturating_sub(before), before, after, &zone.zone))
    });
    let (_, before, after, zone) = zones.filter(|zone| zone.0 >= WARMER_MILLICELSIUS).max_by_key(|zone| zone.0)?;
    let degrees = |milli: i64| milli as f64 / 1e3;
    Some(format!("{zone} went from {:.0} to {:.0} °C", degrees(before), degrees(after)))
}

fn throttled(movement: &Movement) -> Option<String> {
    let times = movement.throttle_counts.get().map_or(0, |counts| counts.core.saturating_add(counts.package));
    if times > 0 {
        return Some(format!("the processor held itself back {times} times for heat"));
    }
    let more = movement.cooling.get()?.iter().find(|device| {
        let before_and_after = device.before.get().zip(device.after.get());
        holds_back(device.kind.get()) && before_and_after.is_some_and(|(before, after)| after > before)
    })?;
    let kind = more.kind.get().map_or(more.name.as_str(), String::as_str);
    Some(format!(
        "the system cools more than before: {kind} went from step {} to {}",
        more.before.get()?,
        more.after.get()?
    ))
}

/// Whether a device cools by slowing something down, and not by a fan.
fn holds_back(kind: Option<&String>) -> bool {
    let slow = ["processor", "cpu", "powerclamp", "devfreq", "gpu"];
    kind.is_some_and(|kind| slow.iter().any(|word| kind.to_lowercase().contains(word)))
}

fn disk(windows: &[Window]) -> Option<String> {
    let pages = grown(windows, |all| all.major_faults.get().copied()).filter(|&pages| pages > DISK_PAGES)?;
    Some(format!("{pages} pages had to be read from the disk while rounds ran (major faults)"))
}

fn spread(median: f64, interval: Option<&Interval>) -> Option<String> {
    let part = interval?.half_width(median);
    (part > SPREAD_PART)
        .then(|| format!("rounds differ so much that the median is known to ±{:.0} % only", part * 100.0))
}

/// What medians of earlier runs say against a number whose interval they have widened.
pub(super) fn runs(earlier: &EarlierRuns, median: f64, interval: &Interval) -> Option<Doubt> {
    let part = interval.half_width(median);
    let EarlierRuns { runs, low_ts, high_ts, .. } = *earlier;
    let evidence = format!(
        "after the last {runs} runs with these settings, nine of ten lie between {low_ts:.2} and {high_ts:.2} t/s, so that one run is \
         known to ±{:.0} % only",
        part * 100.0
    );
    (part > SPREAD_PART).then_some(Doubt { kind: DoubtKind::Runs, evidence })
}

fn few_rounds(rounds: usize) -> Option<String> {
    let plural = if rounds == 1 { "" } else { "s" };
    (1..LEAST_ROUNDS)
        .contains(&rounds)
        .then(|| format!("of {rounds} round{plural} nobody knows how far the median is off"))
}

#[cfg(test)]
#[path = "conditions_tests.rs"]
mod tests;
