//! The answer, on the first screen: how fast, how sure, how far from the limit, and whether anything speaks against it.

use duan_measure::profile::{PhaseProfile, Profile};
use serde::Serialize;

use super::Share;
use crate::figure::Figure;
use crate::page::Section;
use crate::test::Test;

#[derive(Serialize)]
struct View<'a> {
    facts: Vec<(&'static str, String)>,
    cards: Vec<Card<'a>>,
    warnings: Vec<&'a str>,
}

/// A test.
#[derive(Serialize)]
struct Card<'a> {
    test: &'a str,
    threads: Option<u64>,
    what: &'a str,
    rate: Option<Figure>,
    unit: &'a str,
    low: Option<Figure>,
    high: Option<Figure>,
    level_percent: u32,
    rounds: usize,
    ceiling: Option<Figure>,
    share: Option<Share>,
    /// Whether the machine was the same; nobody knows it where nobody looked.
    doubtful: Option<bool>,
    doubts: Vec<(&'a str, Option<&'static str>)>,
    outliers: Vec<String>,
}

/// Of a benchmark.
pub(crate) fn of_tests(tests: &[Test]) -> Option<Section> {
    let first = tests.first()?;
    let mut warnings: Vec<&str> = Vec::new();
    for warning in tests.iter().flat_map(|test| &test.warnings) {
        if !warnings.contains(&warning.as_str()) {
            warnings.push(warning);
        }
    }
    let cards: Vec<Card> = tests.iter().map(card).collect();
    let figures = cards.iter().flat_map(figures).collect();
    Some(Section::new("headline", "", View { facts: facts(first), cards, warnings }, figures))
}

/// A file without its folders: those stand with the state.
pub(crate) fn file_name(path: &str) -> &str {
    path.rsplit(['/', '\\']).next().unwrap_or_default()
}

/// What a reader wants to know first of what ran.
pub(crate) fn facts(test: &Test) -> Vec<(&'static str, String)> {
    let threads = match (test.threads_prefill, test.threads_decode) {
        (Some(prefill), Some(decode)) if prefill != decode => format!("{prefill} for prefill, {decode} for decode"),
        (_, Some(decode)) => decode.to_string(),
        _ => String::new(),
    };
    let backend = match &test.isa {
        Some(isa) if isa != "none" => format!("{} ({isa})", test.backends),
        _ => test.backends.clone(),
    };
    let debug = if test.build_profile == "debug" { " (debug build: slow)" } else { "" };
    let all = [
        ("model", file_name(&test.model_filename).to_owned()),
        ("kind", test.model_type.clone()),
        ("device", test.cpu_info.clone()),
        ("backend", backend),
        ("threads", threads),
        ("date", test.test_time.clone()),
        ("built", format!("{}{debug}", test.build_commit)),
    ];
    all.into_iter().filter(|(_, value)| !value.is_empty()).collect()
}

fn card(test: &Test) -> Card<'_> {
    let unit = if test.unit.is_empty() { "tokens/s" } else { "" };
    let interval = test.interval;
    let outlier = |outlier: &duan_measure::bench::Outlier| {
        let rate = crate::numbers::three_digits(outlier.ts);
        format!("round {} had {rate} {}, far from the others", outlier.round.saturating_add(1), test.unit_text())
    };
    Card {
        test: &test.test,
        threads: test.n_threads,
        what: test.what(),
        rate: Figure::new(test.figure_name("median"), test.median_ts, unit),
        unit: test.unit_text(),
        low: Figure::new(test.figure_name("low"), interval.map(|interval| interval.low), ""),
        high: Figure::new(test.figure_name("high"), interval.map(|interval| interval.high), ""),
        level_percent: 90,
        rounds: test.samples_ts.len(),
        ceiling: Figure::new(test.figure_name("ceiling"), test.ceiling_ts, "tokens/s"),
        share: Share::of(test.figure_name("share").replace("_tokens_per_s", ""), test.share),
        doubtful: test.doubtful,
        doubts: test.doubts.iter().map(|doubt| (doubt.evidence.as_str(), doubt.remedy())).collect(),
        outliers: test.outliers.iter().map(outlier).collect(),
    }
}

fn figures(card: &Card<'_>) -> Vec<Figure> {
    let share = card.share.as_ref().map(|share| share.figure.clone());
    [card.rate.clone(), card.low.clone(), card.high.clone(), card.ceiling.clone(), share]
        .into_iter()
        .flatten()
        .collect()
}

#[derive(Serialize)]
struct PhasesView {
    facts: Vec<(&'static str, String)>,
    cards: Vec<PhaseCard>,
}

/// A phase of a profile.
#[derive(Serialize)]
struct PhaseCard {
    phase: &'static str,
    rate: Option<Figure>,
    each: Option<Figure>,
    tokens: u64,
    rounds: usize,
    share: Option<Share>,
    explained: Option<Figure>,
    overhead: Option<Figure>,
}

/// Of a profile.
pub(crate) fn of_profile(facts: Vec<(&'static str, String)>, profile: &Profile) -> Section {
    let cards: Vec<PhaseCard> = profile.phases.iter().map(phase_card).collect();
    let figures = cards.iter().flat_map(|card| {
        let PhaseCard { rate, each, share, explained, overhead, .. } = card;
        let share = share.as_ref().map(|share| share.figure.clone());
        [rate.clone(), each.clone(), share, explained.clone(), overhead.clone()].into_iter().flatten()
    });
    let figures = figures.collect();
    let mut section = Section::new("headline", "", PhasesView { facts, cards }, figures);
    section.template = "phases";
    section
}

fn phase_card(phase: &PhaseProfile) -> PhaseCard {
    let name = super::profile::phase_name(phase.phase);
    let ns_of_token = (phase.tokens > 0).then(|| phase.ns as f64 / phase.tokens as f64);
    let rate = ns_of_token.filter(|ns| *ns > 0.0).map(|ns| 1e9 / ns);
    let explained = (phase.ns > 0).then(|| phase.ops_ns as f64 / phase.ns as f64);
    PhaseCard {
        phase: name,
        rate: Figure::new(format!("{name}.tokens_per_s"), rate, "tokens/s"),
        each: Figure::scaled(format!("{name}.token_ns"), ns_of_token, "ms", 1e6),
        tokens: phase.tokens as u64,
        rounds: phase.rounds,
        share: Share::of(format!("{name}.share"), phase.share),
        explained: Figure::share(format!("{name}.explained"), explained),
        overhead: Figure::share(format!("{name}.overhead"), phase.overhead.map(|overhead| overhead.part)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_not_known_is_not_told() {
        assert!(of_tests(&[]).is_none());
        let nothing = Test { test: "tg8".to_owned(), median_ts: f64::NAN, share: Some(f64::NAN), ..Test::default() };
        let section = of_tests(&[nothing]).unwrap();
        assert_eq!(section.figures, []);
    }

    #[test]
    fn the_answer_is_in_figures() {
        let test = Test {
            test: "tg128 @ d64".to_owned(),
            key: "tg128@d64".to_owned(),
            n_gen: 128,
            median_ts: 71.25,
            ceiling_ts: Some(142.5),
            share: Some(0.5),
            ..Test::default()
        };
        let section = of_tests(&[test]).unwrap();
        let all: Vec<_> = section.figures.iter().map(|f| (f.name.as_str(), f.value, f.text.as_str())).collect();
        let expected = [
            ("tg128@d64.median_tokens_per_s", 71.25, "71.2"),
            ("tg128@d64.ceiling_tokens_per_s", 142.5, "142"),
            ("tg128@d64.share", 0.5, "50 %"),
        ];
        assert_eq!(all, expected);
    }
}
