//! `duan devices --kernels`

use std::ops::ControlFlow;
use std::process::ExitCode;

use duan::ceilings::Verdict;
use duan::quant::Format;
use duan::{Engine, KernelReport, KernelRow};

use crate::args::Common;
use crate::ceilings::verdict_text;
use crate::interrupt::{INTERRUPTED, Interrupt};
use crate::output::units::{counted, three_digits};
use crate::output::work::WorkBar;
use crate::output::{Align, Table, print, print_json, say, warn};

/// Measures, and prints a table.
pub(super) fn run(engine: &Engine, formats: &[&'static Format], common: &Common) -> anyhow::Result<ExitCode> {
    let interrupt = Interrupt::install()?;
    let report = {
        let _answering = interrupt.answer();
        let bar = WorkBar::new("measuring");
        engine.kernels(formats, |progress| {
            let what = || progress.format.unwrap_or("the memory's bandwidth").to_owned();
            bar.show(progress.step as u64, progress.steps as u64, what);
            if interrupt.was_pressed() { ControlFlow::Break(()) } else { ControlFlow::Continue(()) }
        })?
    };
    let Some(report) = report else {
        say("stopped");
        return Ok(ExitCode::from(INTERRUPTED));
    };
    if common.json {
        print_json(&report)?;
        return Ok(ExitCode::SUCCESS);
    }
    report.warnings.iter().for_each(|message| warn(message));
    if let Some(reason) = &report.bandwidth_skipped {
        warn(&format!(
            "the memory's bandwidth and decode were not measured: {reason}; free some memory and run this again"
        ));
    }
    too_fast(&report.kernels).iter().for_each(|message| warn(message));
    print(&format!("{}\n\n{}", facts(&report), table(&report.kernels).text()))?;
    Ok(ExitCode::SUCCESS)
}

/// A warning where a kernel is faster than its ceiling.
fn too_fast(rows: &[KernelRow]) -> Option<String> {
    let is_fault = |share: Option<f64>| share.is_some_and(|share| Verdict::of(share) == Verdict::Fault);
    let rows = rows.iter().filter(|row| is_fault(row.decode_share) || is_fault(row.prefill_share));
    let formats: Vec<&str> = rows.map(|row| row.format.as_str()).collect();
    let formats = (!formats.is_empty()).then(|| formats.join(", "))?;
    Some(format!("{formats} with a share above 100 %: {}; run this again", verdict_text(Verdict::Fault)))
}

/// What holds for all rows.
fn facts(report: &KernelReport) -> String {
    let threads = if report.threads_decode == report.threads_prefill {
        counted(report.threads_decode, "thread")
    } else {
        format!("{} for decode, {} for prefill", counted(report.threads_decode, "thread"), report.threads_prefill)
    };
    let bandwidth = report.bandwidth.as_ref().map_or("not measured".to_owned(), |read| {
        format!("{} GB/s in {} pages ({})", three_digits(read.bytes_per_s / 1e9), read.pages, read.way)
    });
    let mut peaks: Vec<(&str, f64)> = Vec::new();
    for row in &report.kernels {
        let Some(peak) = row.peak_multiply_adds_per_s else { continue };
        match peaks.iter_mut().find(|(instruction, _)| *instruction == row.instruction) {
            Some((_, most)) => *most = most.max(peak),
            None => peaks.push((&row.instruction, peak)),
        }
    }
    let peaks: Vec<String> =
        peaks.iter().map(|(name, peak)| format!("{} with {name}", three_digits(peak / 1e9))).collect();
    let peaks = if peaks.is_empty() { "not measured".to_owned() } else { peaks.join(", ") };
    let isa = &report.isa;
    format!("{isa}, {threads}; read bandwidth {bandwidth}; peak of thousand million multiply-adds a second: {peaks}")
}

fn table(rows: &[KernelRow]) -> Table {
    let mut table = Table::new(&[
        ("FORMAT", Align::Left),
        ("KERNEL", Align::Left),
        ("DECODE GB/s", Align::Right),
        ("SHARE", Align::Right),
        ("PREFILL G/s", Align::Right),
        ("SHARE", Align::Right),
        ("SELF-TEST", Align::Left),
        ("RUN ON", Align::Left),
    ]);
    for row in rows {
        table.row(cells(row));
    }
    table
}

fn cells(row: &KernelRow) -> [String; 8] {
    let rate = |rate: Option<f64>| rate.map_or("-".to_owned(), |rate| three_digits(rate / 1e9));
    let share = |share: Option<f64>| share.map_or("-".to_owned(), |share| format!("{:.0} %", share * 100.0));
    let kernel =
        if row.is_generic { format!("{} generic", row.isa) } else { format!("{} {}", row.isa, row.instruction) };
    [
        row.format.clone(),
        kernel,
        rate(row.decode_bytes_per_s),
        share(row.decode_share),
        rate(Some(row.prefill_multiply_adds_per_s)),
        share(row.prefill_share),
        if row.self_test_passed { "passed" } else { "failed" }.to_owned(),
        if row.was_run_on_silicon { "silicon" } else { "emulator only" }.to_owned(),
    ]
}

#[cfg(test)]
mod tests {
    use super::*;

    fn row(format: &str) -> KernelRow {
        KernelRow {
            format: format.into(),
            is_generic: false,
            isa: "avx512".into(),
            instruction: "vpdpbusd".into(),
            self_test_passed: true,
            was_run_on_silicon: true,
            decode_bytes_per_s: Some(24.6e9),
            decode_share: Some(0.823),
            prefill_multiply_adds_per_s: 301e9,
            peak_multiply_adds_per_s: Some(602e9),
            prefill_share: Some(0.5),
        }
    }

    #[test]
    fn a_row_for_each_format() {
        let emulated = KernelRow { self_test_passed: false, was_run_on_silicon: false, ..row("Q8_0") };
        let (decode_share, peak, prefill_share) = (None, None, None);
        let generic = KernelRow {
            is_generic: true,
            decode_bytes_per_s: None,
            decode_share,
            prefill_multiply_adds_per_s: 1.5e9,
            peak_multiply_adds_per_s: peak,
            prefill_share,
            ..row("IQ1_S")
        };
        let expected = "\
            FORMAT  KERNEL           DECODE GB/s  SHARE  PREFILL G/s  SHARE  SELF-TEST  RUN ON\n\
            Q4_0    avx512 vpdpbusd         24.6   82 %          301   50 %  passed     silicon\n\
            Q8_0    avx512 vpdpbusd         24.6   82 %          301   50 %  failed     emulator only\n\
            IQ1_S   avx512 generic             -      -         1.50      -  passed     silicon\n";
        assert_eq!(table(&[row("Q4_0"), emulated, generic]).text(), expected);
    }

    #[test]
    fn what_is_faster_than_its_ceiling_is_a_fault() {
        assert_eq!(too_fast(&[row("Q4_0")]), None);
        let fast = KernelRow { decode_share: Some(1.01), ..row("Q8_0") };
        let warning = too_fast(&[row("Q4_0"), fast]).unwrap();
        assert!(warning.starts_with("Q8_0 with a share above 100 %: fault: "), "{warning}");
    }

    #[test]
    fn one_line_says_what_holds_for_all() {
        let float = KernelRow { instruction: "vfmadd".into(), peak_multiply_adds_per_s: Some(150e9), ..row("F32") };
        let report = KernelReport {
            isa: "avx512".into(),
            threads_decode: 2,
            threads_prefill: 4,
            bandwidth: None,
            bandwidth_skipped: Some("only 5 bytes".into()),
            kernels: vec![float, row("Q4_0")],
            warnings: Vec::new(),
        };
        assert_eq!(
            facts(&report),
            "avx512, 2 threads for decode, 4 for prefill; read bandwidth not measured; peak of thousand million multiply-adds a \
             second: 150 with vfmadd, 602 with vpdpbusd"
        );
    }
}
