//! `duan devices --ceilings`

use std::process::ExitCode;

use duan::Engine;
use duan::ceilings::{CeilingEvent, CeilingOptions, Ceilings, Clock, FoundCeilings, Peak, folder};
use duan::state::Reading;

use crate::args::Common;
use crate::ceilings::{busy_warning, refresh_text, refresh_warning, step_text};
use crate::interrupt::{INTERRUPTED, Interrupt};
use crate::output::style::on_one_line;
use crate::output::units::{counted, grouped, three_digits};
use crate::output::work::WorkBar;
use crate::output::{Align, Table, print, print_json, say, warn};

/// Thread counts that have a column of their own; of more only the fewest and the most are shown.
const MOST_COLUMNS: usize = 4;

/// Measures where that is needed, and prints tables.
pub(super) fn run(engine: &Engine, interrupt: &Interrupt, again: bool, common: &Common) -> anyhow::Result<ExitCode> {
    let Some(found) = find(engine, interrupt, again)? else {
        say("stopped");
        return Ok(ExitCode::from(INTERRUPTED));
    };
    if common.json {
        print_json(&found)?;
    } else {
        print(&text(&found))?;
    }
    Ok(ExitCode::SUCCESS)
}

/// The ceilings of this device, with talk about how they are found; nothing where Ctrl-C ended it.
pub(super) fn find(engine: &Engine, interrupt: &Interrupt, again: bool) -> anyhow::Result<Option<FoundCeilings>> {
    let folder = folder();
    let cancel = interrupt.flag();
    let options = CeilingOptions { folder: folder.as_deref(), again, cancel: &cancel };
    let _answering = interrupt.answer();
    let bar = WorkBar::new("measuring");
    let found = engine.ceilings(&options, |event| match event {
        CeilingEvent::Measuring { reason } => bar.talk(|| match refresh_warning(reason) {
            Some(warning) => warn(&warning),
            None => say(&format!("measuring what this machine can do: {}", refresh_text(reason))),
        }),
        CeilingEvent::Progress(progress) => {
            bar.show(progress.step as u64, progress.steps as u64, || step_text(&progress.what));
        }
        CeilingEvent::NotKept { reason } => bar.talk(|| {
            warn(&format!(
                "what was measured is not kept: {}; make the folder writable, or name another with DUAN_STATE",
                on_one_line(reason)
            ));
        }),
        _ => {}
    })?;
    drop(bar);
    if let Some(load_average) = found.as_ref().and_then(|found| found.load_of_others) {
        warn(&busy_warning(load_average));
    }
    Ok(found)
}

fn text(found: &FoundCeilings) -> String {
    let ceilings = &found.ceilings;
    let mut text = format!("{}\n\n{}", head(found), threads(ceilings).text());
    if let Some(reason) = &ceilings.read_skipped {
        text.push_str(&format!("memory was not read: {}; free some memory and run this again\n", on_one_line(reason)));
    }
    text.push_str(&format!("\n{}", multiplier(&ceilings.multiply_adds, &ceilings.threads).text()));
    text.push_str(&format!("\n{}", clocks(ceilings).text()));
    text
}

/// What was measured, with what, and when.
fn head(found: &FoundCeilings) -> String {
    let Ceilings { chip, isa, pinning, measured_at, .. } = &found.ceilings;
    let age = match (&found.refreshed, found.age_s) {
        (Some(_), _) => "just now".to_owned(),
        (None, Some(age_s)) => format!("{} ago", age_text(age_s)),
        (None, None) => "some time ago".to_owned(),
    };
    let chip = on_one_line(&chip.to_string());
    format!(
        "{chip}; {}; threads pinned: {}; measured {age} ({})",
        on_one_line(isa),
        on_one_line(pinning),
        on_one_line(measured_at)
    )
}

/// A time that has passed: "3 days", "5 hours", "2 minutes".
fn age_text(seconds: i64) -> String {
    let seconds = usize::try_from(seconds).unwrap_or(0);
    match seconds {
        0..120 => counted(seconds, "second"),
        120..7200 => counted(seconds / 60, "minute"),
        7200..172_800 => counted(seconds / 3600, "hour"),
        _ => counted(seconds / 86_400, "day"),
    }
}

/// What grows with the number of threads: how much is read, and how long they wait for each other.
fn threads(ceilings: &Ceilings) -> Table {
    let mut table = Table::new(&[
        ("THREADS", Align::Right),
        ("READ GB/s", Align::Right),
        ("OF BEST", Align::Right),
        ("BARRIER ns", Align::Right),
        ("BEST ns", Align::Right),
        ("", Align::Left),
    ]);
    let best = ceilings.best_read().map(|read| read.bytes_per_s);
    let knee = ceilings.knee();
    for &threads in &ceilings.threads {
        let read = ceilings.read_by(threads).map(|read| read.bytes_per_s);
        let barrier = ceilings.barriers.iter().find(|barrier| barrier.threads == threads);
        let or_none = |cell: Option<String>| cell.unwrap_or_else(|| "-".to_owned());
        table.row([
            threads.to_string(),
            or_none(read.map(|rate| three_digits(rate / 1e9))),
            or_none(read.zip(best).map(|(rate, best)| format!("{:.0} %", rate / best * 100.0))),
            or_none(barrier.map(|barrier| grouped(barrier.median_ns))),
            or_none(barrier.map(|barrier| grouped(barrier.best_ns))),
            if knee == Some(threads) { "knee: more threads read hardly more".to_owned() } else { String::new() },
        ]);
    }
    table
}

/// What each sequence of instructions multiplies.
fn multiplier(peaks: &[Peak], threads: &[usize]) -> Table {
    let shown: Vec<usize> = match threads {
        [first, .., last] if threads.len() > MOST_COLUMNS => vec![*first, *last],
        all => all.to_vec(),
    };
    let names: Vec<String> = shown.iter().map(|&threads| counted(threads, "THREAD").to_uppercase()).collect();
    let mut head = vec![("10^9 MULTIPLY-ADDS A SECOND", Align::Left)];
    head.extend(names.iter().map(|name| (name.as_str(), Align::Right)));
    head.push(("FORMATS", Align::Left));
    let mut table = Table::new(&head);
    let first = threads.first();
    for sequence in peaks.iter().filter(|peak| Some(&peak.threads) == first) {
        let of = |threads: usize| {
            let same = |peak: &&Peak| peak.threads == threads && peak.instruction == sequence.instruction;
            peaks.iter().find(same).map_or("-".to_owned(), |peak| three_digits(peak.per_s / 1e9))
        };
        let mut row = vec![on_one_line(&sequence.instruction)];
        row.extend(shown.iter().map(|&threads| of(threads)));
        row.push(super::format_names(&sequence.formats));
        table.row(row);
    }
    table
}

/// What the cores run at.
fn clocks(ceilings: &Ceilings) -> Table {
    let mut table = Table::new(&[("CLOCK", Align::Left), ("", Align::Left)]);
    for clock in &ceilings.clock {
        let name = match clock.threads {
            1 => "one thread alone".to_owned(),
            threads => format!("slowest of {threads} at once"),
        };
        table.row([name, clock_text(clock)]);
    }
    if let Some(reason) = &ceilings.clock_skipped {
        table.row(["not measured".to_owned(), on_one_line(reason)]);
    }
    table.row(["built for".to_owned(), built_for(ceilings)]);
    table
}

/// What a core ran at, and what was left of it where somebody took it away.
fn clock_text(clock: &Clock) -> String {
    let (Some(best), Some(effective)) = (clock.slowest_hz(), clock.slowest_effective_hz()) else {
        return "-".to_owned();
    };
    format!("{} GHz, of which the thread got {}", three_digits(best / 1e9), three_digits(effective / 1e9))
}

/// The highest frequency that any core is built for, as the system tells it.
fn built_for(ceilings: &Ceilings) -> String {
    match &ceilings.state.frequency.policies {
        Reading::NotReadable(reason) => format!("not readable: {}", on_one_line(reason)),
        Reading::Known(policies) => {
            let khz = policies.iter().filter_map(|policy| policy.built_max_khz.get().copied()).max();
            khz.map_or("not readable".to_owned(), |khz| format!("{} GHz", three_digits(khz as f64 / 1e6)))
        }
    }
}

#[cfg(test)]
mod tests {
    use duan::ceilings::Barrier;
    use duan::state::{Chip, FrequencyPolicy, State};

    use super::*;

    fn ceilings() -> Ceilings {
        let read = |threads: usize, rate: f64| duan::bench::Bandwidth {
            bytes_per_s: rate,
            bytes: 1 << 30,
            reads: 15,
            threads,
            pages: "large".into(),
            way: "some".into(),
        };
        let peak = |instruction: &str, formats: &[&str], threads: usize| Peak {
            isa: "avx2".into(),
            instruction: instruction.into(),
            formats: formats.iter().map(|name| (*name).to_owned()).collect(),
            threads,
            per_s: 61e9 * threads as f64,
        };
        let mut state = State::default();
        let policy = FrequencyPolicy { built_max_khz: Reading::Known(3_200_000), ..FrequencyPolicy::default() };
        state.frequency.policies = Reading::Known(vec![policy]);
        Ceilings {
            measured_at: "2026-01-31T23:59:59Z".into(),
            duan_version: "1".into(),
            chip: Chip { model: Reading::Known("Some CPU".into()), ..Chip::default() },
            isa: "avx2".into(),
            pinning: "class".into(),
            threads: vec![1, 2, 3],
            read: vec![read(1, 20e9), read(2, 39e9), read(3, 40e9)],
            read_skipped: None,
            multiply_adds: (1..=3)
                .flat_map(|threads| {
                    [peak("vfmadd", &["F32", "F16"], threads), peak("vpmaddubsw, 4-bit codes", &["Q4_0"], threads)]
                })
                .collect(),
            clock: vec![
                Clock { threads: 1, best_hz: vec![3.1e9], median_hz: vec![3.09e9] },
                Clock { threads: 3, best_hz: vec![3e9, 2.9e9, 3e9], median_hz: vec![3e9, 2.8e9, 1.5e9] },
            ],
            clock_skipped: None,
            barriers: vec![
                Barrier { threads: 2, median_ns: 800, best_ns: 600 },
                Barrier { threads: 3, median_ns: 1200, best_ns: 900 },
            ],
            state,
        }
    }

    #[test]
    fn one_page_says_it_all() {
        let found = FoundCeilings { ceilings: ceilings(), refreshed: None, age_s: Some(7300), load_of_others: None };
        let expected = "\
            Some CPU; avx2; threads pinned: class; measured 2 hours ago (2026-01-31T23:59:59Z)\n\
            \n\
            THREADS  READ GB/s  OF BEST  BARRIER ns  BEST ns\n      \
                  1       20.0     50 %           -        -\n      \
                  2       39.0     98 %         800      600  knee: more threads read hardly more\n      \
                  3       40.0    100 %       1,200      900\n\
            \n\
            10^9 MULTIPLY-ADDS A SECOND  1 THREAD  2 THREADS  3 THREADS  FORMATS\n\
            vfmadd                           61.0        122        183  F32, F16\n\
            vpmaddubsw, 4-bit codes          61.0        122        183  Q4_0\n\
            \n\
            CLOCK\n\
            one thread alone      3.10 GHz, of which the thread got 3.09\n\
            slowest of 3 at once  2.90 GHz, of which the thread got 1.50\n\
            built for             3.20 GHz\n";
        assert_eq!(text(&found), expected);
    }

    #[test]
    fn of_many_threads_the_fewest_and_the_most_have_columns() {
        let all = multiplier(&ceilings().multiply_adds, &[1, 2, 3, 4, 5]).text();
        assert!(all.starts_with("10^9 MULTIPLY-ADDS A SECOND  1 THREAD  5 THREADS  FORMATS\n"), "{all}");
        let missing = Ceilings { read: Vec::new(), read_skipped: Some("only 5 bytes".into()), ..ceilings() };
        let page = text(&FoundCeilings { ceilings: missing, refreshed: None, age_s: None, load_of_others: None });
        assert!(page.contains("memory was not read: only 5 bytes; free some memory"), "{page}");
    }

    #[test]
    fn ages_are_told_in_whole_units() {
        assert_eq!(
            [0, 1, 119, 120, 7199, 7200, 172_799, 172_800, -5].map(age_text),
            [
                "0 seconds",
                "1 second",
                "119 seconds",
                "2 minutes",
                "119 minutes",
                "2 hours",
                "47 hours",
                "2 days",
                "0 seconds"
            ]
        );
    }
}
