use duan_system::{CoolingDevice, FrequencyNow, Reading, TemperatureNow, ThrottleCounts, Throttling};

use super::*;

fn known<T>(value: T) -> Reading<T> {
    Reading::Known(value)
}

/// Counters of two processors after so many seconds, of which others used `others`, the hypervisor `steal` and we the rest.
fn counters(seconds: u64, others: u64, steal: u64) -> Counters {
    let total = 200 * seconds;
    Counters {
        cpu_total_ticks: known(total),
        cpu_idle_ticks: known(0),
        cpu_steal_ticks: known(steal),
        own_cpu_ticks: known(total - others - steal),
        major_faults: known(0),
        ..Counters::default()
    }
}

const BOTH: Share = Share { processors: 2, threads: 2 };

/// One round from each of these to the next.
fn windows(sights: &[Sight]) -> Vec<Window> {
    sights.windows(2).map(|both| Window { before: both[0].clone(), after: both[1].clone() }).collect()
}

/// The doubts but that of too few rounds, which has a test of its own.
fn doubts_of(sights: &[Sight], share: Share) -> Vec<(DoubtKind, String)> {
    let conditions = Conditions::judge(&windows(sights), share, 100.0, None);
    let doubts = conditions.doubts.into_iter().map(|doubt| (doubt.kind, doubt.evidence));
    doubts.filter(|(kind, _)| *kind != DoubtKind::FewRounds).collect()
}

fn between(before: Counters, after: Counters) -> Vec<(DoubtKind, String)> {
    let sight = |counters| Sight { counters, clock_hz: None };
    doubts_of(&[sight(before), sight(after)], BOTH)
}

fn said(kind: DoubtKind, evidence: &str) -> Vec<(DoubtKind, String)> {
    vec![(kind, evidence.to_owned())]
}

#[test]
fn a_quiet_machine_gives_no_doubt() {
    assert_eq!(between(counters(0, 0, 0), counters(10, 0, 0)), []);
    assert_eq!(between(counters(0, 0, 0), counters(10, 20, 19)), [], "a part of a hundred, and a tenth of a processor");
    assert_eq!(between(Counters::default(), Counters::default()), [], "nothing can be read");
    assert_eq!(doubts_of(&[], BOTH), []);
}

#[test]
fn neighbours_count_where_they_take_what_threads_need() {
    let busy = said(DoubtKind::Neighbour, "other programs used 0.50 processors of 2, beside 2 threads");
    assert_eq!(between(counters(0, 0, 0), counters(10, 500, 0)), busy);
    // A few ticks are chance, whatever part of a short run they are.
    assert_eq!(
        between(
            counters(0, 0, 0),
            Counters { cpu_total_ticks: known(10), own_cpu_ticks: known(6), ..counters(0, 0, 0) }
        ),
        []
    );
    let sight = |counters| Sight { counters, clock_hz: None };
    let both = [sight(counters(0, 0, 0)), sight(counters(10, 1000, 0))];
    assert_eq!(doubts_of(&both, Share { processors: 2, threads: 1 }), [], "the second processor was free");
    assert_eq!(doubts_of(&both, BOTH).len(), 1);
}

#[test]
fn time_that_was_taken_away_is_told() {
    let stolen = said(DoubtKind::Steal, "the hypervisor gave 2.0 % of the processors' time to others");
    assert_eq!(between(counters(0, 0, 0), counters(10, 0, 40)), stolen);
    let quota = |periods, throttled_periods, throttled_us| {
        let throttling = known(Throttling { periods, throttled_periods, throttled_us });
        Counters { throttling, ..counters(periods / 10, 0, 0) }
    };
    let used_up = "the control group's quota was used up in 7 of 100 periods, which cost 350 ms";
    assert_eq!(between(quota(10, 1, 0), quota(110, 8, 350_900)), said(DoubtKind::Quota, used_up));
    assert_eq!(between(quota(10, 1, 0), quota(110, 1, 0)), []);
}

#[test]
fn pauses_do_not_hide_a_neighbour() {
    // Two rounds of a second with half a processor taken, and a pause of 98 seconds between in which nothing happened.
    let counted = |seconds: u64, busy: u64, own: u64| Counters {
        cpu_total_ticks: known(200 * seconds),
        cpu_idle_ticks: known(200 * seconds - busy),
        cpu_steal_ticks: known(0),
        own_cpu_ticks: known(own),
        ..Counters::default()
    };
    let sight = |counters| Sight { counters, clock_hz: None };
    let rounds = [
        Window { before: sight(counted(0, 0, 0)), after: sight(counted(1, 200, 150)) },
        Window { before: sight(counted(99, 200, 150)), after: sight(counted(100, 400, 300)) },
    ];
    let doubts = Conditions::judge(&rounds, BOTH, 100.0, None).doubts;
    assert_eq!(doubts[0].evidence, "other programs used 0.50 processors of 2, beside 2 threads");
    // A tick too many in one round and too few in the next is nothing.
    let rounds = [
        Window { before: sight(counted(0, 0, 0)), after: sight(counted(1, 200, 190)) },
        Window { before: sight(counted(1, 200, 190)), after: sight(counted(2, 400, 400)) },
    ];
    assert_eq!(Conditions::judge(&rounds, BOTH, 100.0, None).doubts[0].kind, DoubtKind::FewRounds);
}

#[test]
fn clocks_are_compared_after_rounds_and_limits_with_the_first() {
    let sight = |hz: f64| Sight { counters: Counters::default(), clock_hz: Some(hz) };
    assert_eq!(
        doubts_of(&[sight(1.0e9), sight(2.95e9), sight(2.9e9)], BOTH),
        [],
        "before the first round cores rested"
    );
    let moved = "after rounds the effective clock was between 2.10 and 3.00 GHz";
    assert_eq!(doubts_of(&[sight(3.0e9), sight(2.1e9), sight(3.0e9)], BOTH), said(DoubtKind::Clock, moved));

    let at = |khz: u64, allowed: u64| {
        let now = FrequencyNow { cpus: known(vec![4, 5]), khz: known(khz), allowed_max_khz: known(allowed) };
        Sight { counters: Counters { frequency: known(vec![now]), ..Counters::default() }, clock_hz: None }
    };
    let quiet = [at(800_000, 2_000_000), at(2_000_000, 2_000_000), at(300_000, 2_000_000)];
    assert_eq!(doubts_of(&quiet, BOTH), [], "a core that rests already runs slowly");
    let found = doubts_of(&[at(0, 2_000_000), at(0, 2_000_000), at(0, 1_900_000)], BOTH);
    let lowered = "the highest frequency allowed of CPUs 4-5 went from 2000 MHz to 1900";
    assert_eq!(found, said(DoubtKind::Frequency, lowered));
    assert_eq!(doubts_of(&[at(0, 1_900_000), at(0, 2_000_000)], BOTH), [], "more is no harm");
}

#[test]
fn heat_is_told() {
    let zone = |zone: &str, millicelsius| TemperatureNow { zone: zone.to_owned(), millicelsius: known(millicelsius) };
    let hot = |a, b| Counters { temperature: known(vec![zone("skin", a), zone("cpu", b)]), ..Counters::default() };
    assert_eq!(between(hot(30_000, 40_000), hot(35_000, 49_000)), []);
    let warmer = said(DoubtKind::Temperature, "cpu went from 40 to 71 °C");
    assert_eq!(between(hot(30_000, 40_000), hot(45_000, 71_000)), warmer);

    let counts =
        |core, package| Counters { throttle_counts: known(ThrottleCounts { core, package }), ..Counters::default() };
    let held = said(DoubtKind::Throttled, "the processor held itself back 3 times for heat");
    assert_eq!(between(counts(5, 1), counts(7, 2)), held);
    let cooling = |state| {
        let device = CoolingDevice {
            name: "cooling_device0".to_owned(),
            kind: known("cpufreq-cpu4".to_owned()),
            ..CoolingDevice::default()
        };
        Counters { cooling: known(vec![CoolingDevice { state: known(state), ..device }]), ..Counters::default() }
    };
    let more = said(DoubtKind::Throttled, "the system cools more than before: cpufreq-cpu4 went from step 0 to 3");
    assert_eq!(between(cooling(0), cooling(3)), more);
    assert_eq!(between(cooling(3), cooling(3)), []);
}

#[test]
fn pages_from_the_disk_are_told() {
    let faults = |count| Counters { major_faults: known(count), ..Counters::default() };
    assert_eq!(between(faults(100), faults(108)), []);
    let read = "400 pages had to be read from the disk while rounds ran (major faults)";
    assert_eq!(between(faults(100), faults(500)), said(DoubtKind::Disk, read));
}

#[test]
fn rounds_that_differ_are_told() {
    let judge = |low, high| {
        let interval = Interval { low, high, level: 0.94 };
        Conditions::judge(&[], BOTH, 100.0, Some(&interval)).doubts
    };
    assert_eq!(judge(96.0, 104.0), []);
    let [doubt] = &judge(90.0, 104.0)[..] else { panic!("one doubt was expected") };
    assert_eq!(
        (doubt.kind, doubt.evidence.as_str()),
        (DoubtKind::Spread, "rounds differ so much that the median is known to ±7 % only")
    );
    assert!(doubt.kind.remedy().contains("-r"));
}

#[test]
fn a_sight_is_what_the_system_counts() {
    let sight = Sight::take(&duan_system::made_up::laptop(), Some(1.0));
    assert!(sight.counters.cpu_total_ticks.is_known() && sight.clock_hz == Some(1.0));
}

#[test]
fn few_rounds_are_told() {
    let sight = Sight { counters: Counters::default(), clock_hz: None };
    let judge = |rounds: usize| Conditions::judge(&windows(&vec![sight.clone(); rounds + 1]), BOTH, 1.0, None).doubts;
    let evidence = |rounds| judge(rounds).first().map(|doubt| doubt.evidence.clone());
    assert_eq!(evidence(1).as_deref(), Some("of 1 round nobody knows how far the median is off"));
    assert_eq!(evidence(4).as_deref(), Some("of 4 rounds nobody knows how far the median is off"));
    assert_eq!(evidence(5), None);
}
