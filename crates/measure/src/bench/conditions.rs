//! Whether the machine was the same while a test ran, and if not, by what that is known.
//!
//! Looked at is before the first round and after each. What moved more than its limit makes a run doubtful: its numbers are
//! told all the same, with the evidence, and whoever compares them knows.

use duan_system::{Counters, Movement, Source};
use serde::{Deserialize, Serialize};

use super::statistics::{Interval, range};

/// Time that the hypervisor may give to others, as a part of all processors' time.
const STEAL_SHARE: f64 = 0.01;
/// Processors that other programs may take beyond those that no thread of ours needs.
const NEIGHBOUR_CPUS: f64 = 0.1;
/// Ticks of the system's clock below which nothing is concluded from a share: one more or less is chance.
const LEAST_TICKS: f64 = 5.0;
/// Part of the effective clock that may be lost between two looks.
const CLOCK_PART: f64 = 0.05;
/// The same of the frequency that the system shows.
const FREQUENCY_PART: f64 = 0.1;
/// Warming that no processor has without heat becoming its matter, in thousandths of a degree.
const WARMER_MILLICELSIUS: i64 = 10_000;
/// Pages that may come from the disk: those of the program itself.
const DISK_PAGES: u64 = 8;
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
    /// The frequency that the system shows, or its limit, changed.
    Frequency,
    /// The machine became much warmer.
    Temperature,
    /// Heat or power held the processor back.
    Throttled,
    /// Weights came from the disk again.
    Disk,
    /// The rounds differ from each other more than a number can be told by.
    Spread,
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
    /// Judges what was seen before the first round and after each. `median` and `interval` are those of the rates; `None`
    /// where there were too few rounds to know.
    pub fn judge(sights: &[Sight], share: Share, median: f64, interval: Option<&Interval>) -> Conditions {
        let movement = match sights {
            [first, .., last] => Movement::between(&first.counters, &last.counters),
            _ => Movement::default(),
        };
        let clock_hz: Vec<f64> = sights.iter().filter_map(|sight| sight.clock_hz).collect();
        let found = [
            (DoubtKind::Steal, steal(&movement)),
            (DoubtKind::Quota, quota(&movement)),
            (DoubtKind::Neighbour, neighbour(&movement, share)),
            (DoubtKind::Clock, clock(&clock_hz)),
            (DoubtKind::Frequency, frequency(sights)),
            (DoubtKind::Temperature, temperature(&movement)),
            (DoubtKind::Throttled, throttled(&movement)),
            (DoubtKind::Disk, disk(&movement)),
            (DoubtKind::Spread, spread(median, interval)),
        ];
        let doubt = |(kind, evidence): (DoubtKind, Option<String>)| Some(Doubt { kind, evidence: evidence? });
        Conditions { movement, clock_hz, doubts: found.into_iter().filter_map(doubt).collect() }
    }
}

/// Part of the processors' time, where it is more than chance.
fn notable(movement: &Movement, share: Option<&f64>, limit: f64) -> Option<f64> {
    let total = *movement.cpu_total_ticks.get()? as f64;
    share.copied().filter(|&share| share > limit && share * total >= LEAST_TICKS)
}

fn steal(movement: &Movement) -> Option<String> {
    let share = notable(movement, movement.steal_share.get(), STEAL_SHARE)?;
    Some(format!("the hypervisor gave {:.1} % of the processors' time to others", share * 100.0))
}

fn quota(movement: &Movement) -> Option<String> {
    let throttling = movement.throttling.get().filter(|throttling| throttling.throttled_periods > 0)?;
    let (held, periods, us) = (throttling.throttled_periods, throttling.periods, throttling.throttled_us);
    let ms = us / 1000;
    Some(format!("the control group's quota was used up in {held} of {periods} periods, which cost {ms} ms"))
}

fn neighbour(movement: &Movement, share: Share) -> Option<String> {
    let processors = share.processors.max(1) as f64;
    let free = share.processors.saturating_sub(share.threads) as f64;
    let others = notable(movement, movement.others_share.get(), (free + NEIGHBOUR_CPUS) / processors)?;
    Some(format!(
        "other programs used {:.2} processors of {}, beside {} threads",
        others * processors,
        share.processors,
        share.threads
    ))
}

fn clock(clock_hz: &[f64]) -> Option<String> {
    let (low, high) = range(clock_hz);
    moved_down(low, high, CLOCK_PART)
        .then(|| format!("the effective clock went from {:.2} GHz to {:.2} between rounds", high / 1e9, low / 1e9))
}

fn moved_down(low: f64, high: f64, part: f64) -> bool {
    high > 0.0 && (high - low) / high > part
}

/// Compared are the looks after rounds: before the first, nothing had run.
fn frequency(sights: &[Sight]) -> Option<String> {
    let first = sights.get(1)?.counters.frequency.get()?;
    for (index, policy) in first.iter().enumerate() {
        let of = |value: fn(&duan_system::FrequencyNow) -> Option<u64>| {
            let values = sights[1..].iter().filter_map(|sight| value(sight.counters.frequency.get()?.get(index)?));
            range(&values.map(|khz| khz as f64).collect::<Vec<_>>())
        };
        let cpus = policy.cpus.get().map_or(String::new(), |cpus| {
            let list: Vec<String> = cpus.iter().map(usize::to_string).collect();
            format!(" of CPU {}", list.join(","))
        });
        let limit = of(|now| now.allowed_max_khz.get().copied());
        if moved_down(limit.0, limit.1, 0.0) {
            return Some(format!(
                "the highest frequency allowed{cpus} went from {:.0} MHz to {:.0}",
                limit.1 / 1e3,
                limit.0 / 1e3
            ));
        }
        let now = of(|now| now.khz.get().copied());
        if moved_down(now.0, now.1, FREQUENCY_PART) {
            return Some(format!(
                "the frequency{cpus} was {:.0} MHz after one round and {:.0} after another",
                now.1 / 1e3,
                now.0 / 1e3
            ));
        }
    }
    None
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
    if let Some(counts) = movement.throttle_counts.get().filter(|counts| counts.core + counts.package > 0) {
        return Some(format!(
            "the processor held itself back {} times for heat",
            counts.core.saturating_add(counts.package)
        ));
    }
    let more = movement.cooling.get()?.iter().find(|device| {
        let before_and_after = device.before.get().zip(device.after.get());
        before_and_after.is_some_and(|(before, after)| after > before)
    })?;
    let kind = more.kind.get().map_or(more.name.as_str(), String::as_str);
    Some(format!(
        "the system cools more than before: {kind} went from step {} to {}",
        more.before.get()?,
        more.after.get()?
    ))
}

fn disk(movement: &Movement) -> Option<String> {
    let pages = movement.major_faults.get().filter(|&&pages| pages > DISK_PAGES)?;
    Some(format!("{pages} pages had to be read from the disk while rounds ran (major faults)"))
}

fn spread(median: f64, interval: Option<&Interval>) -> Option<String> {
    let part = interval?.half_width(median);
    (part > SPREAD_PART)
        .then(|| format!("rounds differ so much that the median is known to ±{:.0} % only", part * 100.0))
}

#[cfg(test)]
#[path = "conditions_tests.rs"]
mod tests;
