//! Distributions: the rounds of each test, the time to the first token, and the time of each token.

use duan_measure::bench::Quantiles;
use serde::Serialize;

use crate::chart::{Axis, Chart, Dot};
use crate::figure::Figure;
use crate::numbers::{counted, three_digits};
use crate::page::Section;
use crate::test::Test;

const MS: f64 = 1e6;

#[derive(Serialize)]
struct View {
    tests: Vec<TestView>,
}

#[derive(Serialize)]
struct TestView {
    test: String,
    threads: Option<u64>,
    what: &'static str,
    unit: String,
    /// Each round: which, its value, whether it is far from the others.
    rounds: Vec<(usize, String, bool)>,
    rounds_chart: String,
    token: Option<Times>,
    token_charts: Vec<(&'static str, String)>,
    first_token: Option<Times>,
    first_token_chart: String,
    more: Vec<Figure>,
}

/// Times of something that happened often.
#[derive(Serialize)]
struct Times {
    all: Vec<(&'static str, Figure)>,
    count: usize,
}

/// The section; none where there are no tests.
pub(crate) fn section(tests: &[Test]) -> Option<Section> {
    let tests: Vec<TestView> = tests.iter().map(view).collect();
    let of = |test: &TestView| {
        let times = test.token.iter().chain(&test.first_token).flat_map(|times| times.all.clone());
        times.map(|(_, figure)| figure).chain(test.more.clone()).collect::<Vec<_>>()
    };
    let figures = tests.iter().flat_map(of).collect();
    (!tests.is_empty()).then(|| Section::new("bench", "Rounds and tokens", View { tests }, figures))
}

fn view(test: &Test) -> TestView {
    let is_outlier = |round: usize| test.outliers.iter().any(|outlier| outlier.round == round);
    let rounds = test.samples_ts.iter().enumerate();
    let name = |what: &str| format!("{}.{what}", test.key);
    let more = [
        Figure::scaled(name("read_bytes_per_s"), test.read_bytes_per_s, "GB/s read", 1e9),
        Figure::new(name("energy_j_per_token"), test.energy_j_per_token.get().copied(), "J a token"),
        Figure::count(name("major_faults"), test.major_faults.get().copied(), "pages from the disk"),
        Figure::count(
            name("involuntary_switches"),
            test.involuntary_switches.get().copied(),
            "times a thread was taken off its processor",
        ),
    ];
    TestView {
        test: test.test.clone(),
        threads: test.n_threads,
        what: test.what(),
        unit: test.unit_text().to_owned(),
        rounds: rounds.map(|(index, &rate)| (index + 1, three_digits(rate), is_outlier(index))).collect(),
        rounds_chart: rounds_chart(test),
        token: test.token_ns.and_then(|times| quantiles(&name("token"), times)),
        token_charts: token_charts(test),
        first_token: test.first_token_ns.and_then(|times| quantiles(&name("first_token"), times)),
        first_token_chart: first_token_chart(test),
        more: more.into_iter().flatten().collect(),
    }
}

fn quantiles(name: &str, times: Quantiles) -> Option<Times> {
    let of = |text: &'static str, what: &str, ns: Option<f64>| {
        Some((text, Figure::scaled(format!("{name}.{what}_ns"), ns, "ms", MS)?))
    };
    let all = [
        of("median (P50)", "p50", Some(times.p50)),
        of("P95", "p95", times.p95),
        of("P99", "p99", times.p99),
        of("longest", "longest", Some(times.longest)),
    ];
    let all: Vec<_> = all.into_iter().flatten().collect();
    (!all.is_empty()).then_some(Times { all, count: times.count })
}

/// Rounds as points, with the median and its interval.
fn rounds_chart(test: &Test) -> String {
    let (samples, unit) = (&test.samples_ts, test.unit_text());
    if samples.is_empty() {
        return String::new();
    }
    let ends = test.interval.iter().flat_map(|interval| [interval.low, interval.high]);
    let y = Axis::around(samples.iter().copied().chain(ends), unit);
    let median = three_digits(test.median_ts);
    let title = format!("{}: {} of each round", test.test, if test.unit.is_empty() { "rate" } else { "value" });
    let interval = test.interval.map(|interval| {
        format!("90 % interval of the median: {} to {}", three_digits(interval.low), three_digits(interval.high))
    });
    let description = format!(
        "{} around a median of {median} {unit}. {}",
        counted(samples.len(), "round"),
        interval.clone().unwrap_or_else(|| "Too few rounds for an interval.".to_owned())
    );
    let mut chart = Chart::new(
        &format!("rounds-{}-{unit}", test.key),
        &title,
        description,
        Axis::counting(samples.len(), "round"),
        y,
    );
    if let (Some(interval), Some(text)) = (test.interval, interval) {
        chart = chart.band(interval.low, interval.high, &text);
    }
    if test.median_ts.is_finite() {
        chart = chart.level(test.median_ts, &format!("median {median}"));
    }
    chart.dots(&dots(samples, unit, |round| test.outliers.iter().any(|outlier| outlier.round == round))).svg()
}

fn dots(samples: &[f64], unit: &str, is_outlier: impl Fn(usize) -> bool) -> Vec<Dot> {
    let dot = |(index, &y): (usize, &f64)| Dot {
        x: (index + 1) as f64,
        y,
        interval: None,
        text: format!("round {}: {} {unit}", index + 1, three_digits(y)),
        class: if is_outlier(index) { "outlier" } else { "" },
    };
    samples.iter().enumerate().map(dot).collect()
}

fn first_token_chart(test: &Test) -> String {
    let ms: Vec<f64> = test.first_token_samples_ns.iter().map(|&ns| ns as f64 / MS).collect();
    if ms.is_empty() {
        return String::new();
    }
    let title = format!("{}: time to the first token", test.test);
    let description = format!("{}, in milliseconds.", counted(ms.len(), "round"));
    let median = test.first_token_ns.map(|times| times.p50 / MS).filter(|median| median.is_finite());
    let y = Axis::around(ms.iter().copied().chain(median), "ms");
    let chart = Chart::new(&format!("first-{}", test.key), &title, description, Axis::counting(ms.len(), "round"), y);
    let chart = match median {
        Some(median) => chart.level(median, &format!("median {}", three_digits(median))),
        None => chart,
    };
    chart.dots(&dots(&ms, "ms", |_| false)).svg()
}

/// How times of tokens are distributed, and how they went over the run.
fn token_charts(test: &Test) -> Vec<(&'static str, String)> {
    let rounds: Vec<Vec<f64>> =
        test.token_samples_ns.iter().map(|round| round.iter().map(|&ns| ns as f64 / MS).collect()).collect();
    let mut sorted: Vec<f64> = rounds.iter().flatten().copied().collect();
    sorted.sort_by(f64::total_cmp);
    match sorted.len() {
        0 => Vec::new(),
        _ => vec![
            ("Which part of all tokens took no longer", distribution(test, &sorted)),
            ("One token after the other, all rounds", over_the_run(test, &rounds)),
        ],
    }
}

/// `sorted` has a value at least.
fn distribution(test: &Test, sorted: &[f64]) -> String {
    let count = sorted.len();
    let (least, longest) = (sorted[0], sorted[count - 1]);
    let of = |ns: Option<f64>| ns.map(|ns| ns / MS).filter(|ms| ms.is_finite());
    let times = test.token_ns;
    let (p50, p95, p99) = (
        of(times.map(|times| times.p50)),
        of(times.and_then(|times| times.p95)),
        of(times.and_then(|times| times.p99)),
    );
    // One token that waited for something else must not press all others against the left side.
    let most = p99.or(p95).or(p50).map_or(longest, |quantile| quantile + (quantile - least).max(0.2 * quantile));
    let end = if longest > most { most } else { longest };
    let beyond = sorted.iter().filter(|ms| **ms > end).count();
    let more = if beyond == 0 {
        String::new()
    } else {
        format!(" {} took longer than the axis is, {} ms at most.", counted(beyond, "token"), three_digits(longest))
    };
    let description =
        format!("{}, from {} to {} ms.{more}", counted(count, "token"), three_digits(least), three_digits(longest));
    let room = ((end - least) * 0.05).max(end * 0.01).max(1e-9);
    let x = Axis::between((least - room).max(0.0), end + room, "ms");
    let title = format!("{}: distribution of the time of a token", test.test);
    let mut points = vec![(least, 0.0)];
    let step = count.div_ceil(390).max(1);
    let shown = (0..count).step_by(step).chain([count - 1]).filter(|&index| sorted[index] <= end);
    points.extend(shown.map(|index| (sorted[index], (index + 1) as f64 * 100.0 / count as f64)));
    points.push((end, (count - beyond) as f64 * 100.0 / count as f64));
    let mut chart = Chart::new(
        &format!("distribution-{}", test.key),
        &title,
        description,
        x,
        Axis::between(0.0, 100.0, "% of tokens"),
    );
    chart = chart.line(&points, "");
    for (row, (name, value)) in [("P50", p50), ("P95", p95), ("P99", p99)].into_iter().enumerate() {
        if let Some(value) = value {
            chart = chart.mark(value, &format!("{name} {}", three_digits(value)), row + 2);
        }
    }
    chart.svg()
}

fn over_the_run(test: &Test, rounds: &[Vec<f64>]) -> String {
    let all: Vec<(f64, f64)> =
        rounds.iter().flatten().enumerate().map(|(index, &ms)| ((index + 1) as f64, ms)).collect();
    let title = format!("{}: time of each token over the run", test.test);
    let description = format!(
        "{} of {}; thin lines stand between rounds. Of many tokens the shortest and the longest of each stretch are drawn.",
        counted(all.len(), "token"),
        counted(rounds.len(), "round")
    );
    let x = Axis::between(0.0, all.len() as f64, "token");
    let y = Axis::from_zero(all.iter().map(|(_, ms)| *ms), "ms");
    let mut chart = Chart::new(&format!("tokens-{}", test.key), &title, description, x, y).line(&all, "");
    let mut before = 0;
    for round in &rounds[..rounds.len().saturating_sub(1).min(100)] {
        before += round.len();
        chart = chart.border(before as f64);
    }
    chart.svg()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn empty_lists_make_no_charts() {
        let section = section(&[Test { test: "tg8".to_owned(), ..Test::default() }]).unwrap();
        assert_eq!(section.figures, []);
        assert!(super::section(&[]).is_none());
        assert_eq!(rounds_chart(&Test::default()), "");
        assert_eq!(token_charts(&Test { token_samples_ns: vec![vec![]], ..Test::default() }).len(), 0);
    }

    #[test]
    fn one_slow_token_does_not_press_the_others_together() {
        let mut round = vec![10_000_000; 199];
        round.push(900_000_000);
        let times = Quantiles { p50: 1e7, p95: Some(1e7), p99: Some(1e7), longest: 9e8, count: 200 };
        let test = Test {
            test: "tg200".to_owned(),
            key: "tg200".to_owned(),
            token_samples_ns: vec![round],
            token_ns: Some(times),
            ..Test::default()
        };
        let charts = token_charts(&test);
        assert!(charts[0].1.contains("1 token took longer than the axis is, 900 ms at most."), "{}", charts[0].1);
        assert!(charts[0].1.contains("P99 10.0"));
        let names: Vec<String> = section(&[test]).unwrap().figures.into_iter().map(|figure| figure.name).collect();
        assert_eq!(names, ["tg200.token.p50_ns", "tg200.token.p95_ns", "tg200.token.p99_ns", "tg200.token.longest_ns"]);
    }

    #[test]
    fn every_round_is_a_point() {
        let outliers = vec![duan_measure::bench::Outlier { round: 2, ts: 20.0 }];
        let test = Test { samples_ts: vec![70.0, 71.0, 20.0], median_ts: 70.0, outliers, ..Test::default() };
        let svg = rounds_chart(&test);
        assert_eq!((svg.matches("<circle").count(), svg.matches("dot outlier").count()), (3, 1));
    }
}
