//! `duan devices --card`

use std::process::ExitCode;

use duan::Engine;
use duan::card::{Card, Forecast, NativeFormats, Problem, ProblemKind};

use super::format_names;
use crate::args::Common;
use crate::interrupt::{INTERRUPTED, Interrupt};
use crate::output::style::on_one_line;
use crate::output::units::{bytes_text, counted, grouped, three_digits};
use crate::output::{Align, Table, print, print_json, say};

/// Names of models that are told one by one.
const MOST_NAMES: usize = 4;

/// Prints the card, with ceilings that are measured where none were kept.
pub(super) fn run(engine: &Engine, interrupt: &Interrupt, again: bool, common: &Common) -> anyhow::Result<ExitCode> {
    let Some(found) = super::ceilings::find(engine, interrupt, again)? else {
        say("stopped");
        return Ok(ExitCode::from(INTERRUPTED));
    };
    let card = engine.card(Some(&found.ceilings));
    if common.json {
        print_json(&card)?;
    } else {
        print(&text(&card))?;
    }
    Ok(ExitCode::SUCCESS)
}

/// The card, with what its lines rest on below it.
fn text(card: &Card) -> String {
    let mut table = Table::new(&[("", Align::Left), ("THIS DEVICE", Align::Left), ("RESTS ON", Align::Left)]);
    let mut row = |what: &str, finding: String, rests_on: &str| {
        table.row([what.to_owned(), finding, rests_on.to_owned()]);
    };
    row("processor", format!("{}; {} used", on_one_line(&card.chip), on_one_line(&card.isa)), "state");
    for (index, native) in card.native.iter().enumerate() {
        let rests_on = if native.instruction.is_some() { "ceilings" } else { "kernels that there are" };
        row(if index == 0 { "runs natively" } else { "" }, native_text(native), rests_on);
    }
    row("reads", read_text(card), "ceilings");
    let memory = card.memory_available_bytes.map(|bytes| format!("{} free", bytes_text(bytes)));
    row("memory", memory.unwrap_or_else(|| "not readable".to_owned()), "state");
    row("models", models_text(card), "memory, catalogue");
    for forecast in &card.forecasts {
        let rests_on = format!("ceilings, memory, shape of {}", forecast.like);
        row(&format!("{} in {}", forecast.size, forecast.format), forecast_text(forecast), &rests_on);
    }
    for (index, problem) in card.problems.iter().enumerate() {
        row(if index == 0 { "in its way" } else { "" }, problem_text(problem), problem.rests_on);
    }
    if card.problems.is_empty() {
        row("in its way", "nothing that its state shows".to_owned(), "state");
    }
    let ceilings = match &card.ceilings_measured_at {
        Some(at) => format!("measured {}", on_one_line(at)),
        None => "not measured".to_owned(),
    };
    format!("{}\nceilings: {ceilings}; state and memory: read now; rates: 60 to 100 % of the ceiling\n", table.text())
}

fn native_text(native: &NativeFormats) -> String {
    let formats = format_names(&native.formats);
    match (&native.instruction, native.multiply_adds_per_s) {
        (Some(instruction), Some(rate)) => {
            format!(
                "{formats}: up to {} 10^9 multiply-adds a second, {}",
                three_digits(rate / 1e9),
                on_one_line(instruction)
            )
        }
        _ => formats,
    }
}

fn read_text(card: &Card) -> String {
    let Some(rate) = card.read_bytes_per_s else { return "not measured".to_owned() };
    let knee = match card.knee_threads {
        Some(knee) if knee < card.threads_decode => {
            let read = if knee == 1 { "reads" } else { "read" };
            format!("; {} {read} hardly less", counted(knee, "thread"))
        }
        _ => String::new(),
    };
    format!("{} GB/s with {}{knee}", three_digits(rate / 1e9), counted(card.threads_decode, "thread"))
}

fn models_text(card: &Card) -> String {
    let Some(models) = &card.models else { return "not known, since the memory is not".to_owned() };
    let all = models.fitting.len() + models.too_large.len();
    let Some(best) = &models.best else { return format!("none of the {all} of the catalogue fits") };
    let fit = if models.too_large.is_empty() {
        format!("all {all} of the catalogue fit")
    } else {
        let names: Vec<&str> = models.too_large.iter().take(MOST_NAMES).map(String::as_str).collect();
        let more = models.too_large.len() - names.len();
        let more = if more > 0 { format!(" and {more} more") } else { String::new() };
        format!("{} of {all} of the catalogue fit, not {}{more}", models.fitting.len(), names.join(", "))
    };
    format!("{best} answers best; {fit}")
}

fn forecast_text(forecast: &Forecast) -> String {
    let weights = bytes_text(forecast.weights_bytes);
    let rate = match forecast.low_ts.zip(forecast.high_ts) {
        Some((low, high)) => format!("{} to {} tokens a second", three_digits(low), three_digits(high)),
        None => "rate not known".to_owned(),
    };
    match (forecast.fits, forecast.largest_context) {
        (Some(false), _) => format!("does not fit: {weights} of weights"),
        (Some(true), Some(context)) => {
            let turns = if forecast.turns_hold == Some(true) { "several turns hold" } else { "few turns hold" };
            format!("{rate}; {turns}: context up to {} beside {weights} of weights", grouped(context))
        }
        _ => format!("{rate}; whether {weights} of weights fit is not known"),
    }
}

fn problem_text(problem: &Problem) -> String {
    let percent = |share: f64| format!("{:.0} %", share * 100.0);
    let ghz = |khz: u64| format!("{} GHz", three_digits(khz as f64 / 1e6));
    match &problem.kind {
        ProblemKind::Background => {
            "kept in the background, on few and slow cores: bring it to the foreground".to_owned()
        }
        ProblemKind::Quota { granted_cpus, cores } => format!(
            "a quota of {} CPUs for {}: threads wait for each other when it is used up",
            three_digits(*granted_cpus),
            counted(*cores, "core")
        ),
        ProblemKind::Throttled { share } => format!("held up by its quota in {} of the periods", percent(*share)),
        ProblemKind::LittleMemory { available_bytes, needed_bytes } => format!(
            "little memory: {} free, and a conversation with 1B takes {}; close other programs",
            bytes_text(*available_bytes),
            bytes_text(*needed_bytes)
        ),
        ProblemKind::MemoryPressure { percent } => {
            format!("programs waited for memory in {percent:.0} % of the last minute; close some")
        }
        ProblemKind::Swapped { bytes } => {
            format!(
                "{} of memory lie on the disk: weights that go there too are slow; close other programs",
                bytes_text(*bytes)
            )
        }
        ProblemKind::Steal { share } => {
            format!("the host gave {} of this machine's time to others: rates vary", percent(*share))
        }
        ProblemKind::PowerSaving { setting } => format!("saves power: {}; choose performance", on_one_line(setting)),
        ProblemKind::Capped { allowed_khz, built_khz } => format!(
            "cores are held at {} of the {} they are built for: by heat, power or a setting",
            ghz(*allowed_khz),
            ghz(*built_khz)
        ),
        ProblemKind::HeldBack { by } => format!("holds itself back: {}", on_one_line(by)),
        ProblemKind::SlowInstructions { isa } => {
            format!("{} has no instruction that multiplies bytes and adds: prefill is slow", on_one_line(isa))
        }
        ProblemKind::SmallCores { performance, efficiency } => format!(
            "{} beside {}: more threads than the former are slower, not faster",
            counted(*performance, "fast core"),
            counted(*efficiency, "small one")
        ),
        ProblemKind::Battery => "runs from a battery, where many devices are slower".to_owned(),
        ProblemKind::Virtual { hypervisor } => {
            let name = if hypervisor == "unknown" { String::new() } else { format!(" ({})", on_one_line(hypervisor)) };
            format!("a virtual machine{name}: neighbours take bandwidth, and nobody sees them")
        }
        _ => "something that this version has no words for".to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use duan::card::Models;

    use super::*;

    fn forecast(size: &str, high_ts: Option<f64>, largest_context: Option<u64>) -> Forecast {
        Forecast {
            size: size.into(),
            like: "llama-3.2-1b".into(),
            format: "Q4_0".into(),
            weights_bytes: 763_000_000,
            read_bytes_per_token: 763_000_000,
            kv_bytes_per_token: 32_768,
            low_ts: high_ts.map(|rate| rate * 0.6),
            high_ts,
            fits: largest_context.map(|tokens| tokens >= 512),
            largest_context,
            turns_hold: largest_context.map(|tokens| tokens >= 4096),
        }
    }

    fn card() -> Card {
        let names = |names: &[&str]| names.iter().map(|name| (*name).to_owned()).collect::<Vec<_>>();
        Card {
            chip: "Some CPU, 2 cores, x86_64".into(),
            isa: "avx512".into(),
            threads_decode: 2,
            threads_prefill: 2,
            ceilings_measured_at: Some("2026-01-31T23:59:59Z".into()),
            native: vec![NativeFormats {
                instruction: Some("vpdpbusd".into()),
                formats: names(&["Q4_0", "Q8_0"]),
                multiply_adds_per_s: Some(600e9),
            }],
            read_bytes_per_s: Some(40e9),
            knee_threads: Some(1),
            memory_available_bytes: Some(4_000_000_000),
            models: Some(Models { best: Some("b".into()), fitting: names(&["a", "b"]), too_large: names(&["c"]) }),
            forecasts: vec![
                forecast("1B", Some(50.0), Some(90_000)),
                forecast("3B", Some(20.0), Some(1000)),
                forecast("7B", Some(9.0), Some(0)),
            ],
            problems: vec![Problem { kind: ProblemKind::Virtual { hypervisor: "KVM".into() }, rests_on: "state" }],
        }
    }

    #[test]
    fn every_line_says_what_it_rests_on() {
        let expected = [
            "THIS DEVICE RESTS ON",
            "processor Some CPU, 2 cores, x86_64; avx512 used state",
            "runs natively Q4_0, Q8_0: up to 600 10^9 multiply-adds a second, vpdpbusd ceilings",
            "reads 40.0 GB/s with 2 threads; 1 thread reads hardly less ceilings",
            "memory 4.00 GB free state",
            "models b answers best; 2 of 3 of the catalogue fit, not c memory, catalogue",
            "1B in Q4_0 30.0 to 50.0 tokens a second; several turns hold: context up to 90,000 beside 763.0 MB of weights ceilings, memory, shape of llama-3.2-1b",
        ];
        let text = text(&card());
        let lines: Vec<String> =
            text.lines().map(|line| line.split_whitespace().collect::<Vec<_>>().join(" ")).collect();
        assert_eq!(lines[..7], expected);
        assert!(text.contains("12.0 to 20.0 tokens a second; few turns hold: context up to 1,000 beside"), "{text}");
        assert!(text.contains("does not fit: 763.0 MB of weights"), "{text}");
        assert!(text.contains("in its way     a virtual machine (KVM): "), "{text}");
        assert!(text.ends_with("\nceilings: measured 2026-01-31T23:59:59Z; state and memory: read now; rates: 60 to 100 % of the ceiling\n"), "{text}");
    }

    #[test]
    fn what_is_not_known_says_so() {
        let blank = Card {
            ceilings_measured_at: None,
            read_bytes_per_s: None,
            memory_available_bytes: None,
            models: None,
            forecasts: vec![forecast("1B", None, None)],
            problems: Vec::new(),
            ..card()
        };
        let text = text(&blank);
        for line in [
            "reads          not measured",
            "memory         not readable",
            "models         not known",
            "rate not known; whether",
        ] {
            assert!(text.contains(line), "{line}: {text}");
        }
        assert!(text.contains("nothing that its state shows") && text.contains("ceilings: not measured"), "{text}");
    }
}
