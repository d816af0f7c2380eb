//! Words for ceilings: why they are measured, and what a share of one means.

use duan::ceilings::{CeilingStep, Refresh, Verdict};
use duan::state::Difference;

use crate::output::style::on_one_line;
use crate::output::units::counted;

/// Why ceilings are measured, to stand after "measuring: ".
pub(crate) fn refresh_text(reason: &Refresh) -> String {
    match reason {
        Refresh::Missing => "nothing was kept for this device".to_owned(),
        Refresh::AskedFor => "asked for".to_owned(),
        Refresh::Damaged { path } => format!("{} is damaged or no such file", on_one_line(&path.to_string_lossy())),
        Refresh::Version { before } => format!("duan {} measured before", on_one_line(before)),
        Refresh::Chip { before } => format!("another chip was measured before: {}", on_one_line(before)),
        Refresh::Isa { before } => format!("the instruction set was {} before", on_one_line(before)),
        Refresh::Pinning { before } => format!("threads were pinned otherwise before: {}", on_one_line(before)),
        Refresh::Threads { lacking } => {
            let counts: Vec<String> = lacking.iter().map(usize::to_string).collect();
            format!(
                "figures for {} {} were not kept",
                counts.join(", "),
                if lacking == &[1] { "thread" } else { "threads" }
            )
        }
        Refresh::Incomplete { because } => format!("memory was not read before: {}", on_one_line(because)),
        Refresh::State { differences } => {
            let told = differences.iter().map(|Difference { name, before, after }| {
                format!("{} was {}, is {}", on_one_line(name), on_one_line(before), on_one_line(after))
            });
            format!("the machine has changed: {}", told.collect::<Vec<_>>().join("; "))
        }
        Refresh::Busy { load_average } => {
            format!("others used this machine when it was measured before (load average {load_average:.2})")
        }
        Refresh::Age { measured_at } => {
            format!("the kept figures are of {}, which is not within the last week", on_one_line(measured_at))
        }
        _ => "what was kept does not hold".to_owned(),
    }
}

/// Whether that is worth a warning, and what to do.
pub(crate) fn refresh_warning(reason: &Refresh) -> Option<String> {
    let Refresh::Damaged { path } = reason else { return None };
    let path = on_one_line(&path.to_string_lossy());
    Some(format!("{path} is damaged, or is no file of ceilings: it is ignored and written anew"))
}

/// What to say of ceilings that were measured beside others.
pub(crate) fn busy_warning(load_average: f64) -> String {
    format!(
        "others used this machine while its ceilings were measured, or a moment before (load average {load_average:.2}), so they \
         are too low; they are measured again when it is quiet, or with `duan devices --ceilings --again`"
    )
}

/// What a share means, in a sentence.
pub(crate) fn verdict_text(verdict: Verdict) -> &'static str {
    match verdict {
        Verdict::Good => "good: most of what this machine can do is used",
        Verdict::Room => {
            "room: the machine can do up to five times as much, so kernels, threads or formats are worth a look"
        }
        Verdict::Setting => {
            "setting: so little points to how it was set up, such as threads, a fallback, swapping or a debug build"
        }
        Verdict::Fault => "fault: nothing is faster than its ceiling, so the rate or the ceiling was measured wrongly",
    }
}

/// What is being measured, on a line of its own or beside a bar.
pub(crate) fn step_text(step: &CeilingStep) -> String {
    match step {
        CeilingStep::Filling => "memory: filling".to_owned(),
        CeilingStep::Read { threads } => format!("memory: {}", counted(*threads, "thread")),
        CeilingStep::Peak { instruction, threads } => format!("{instruction}: {}", counted(*threads, "thread")),
        CeilingStep::Clock { threads } => format!("clock: {}", counted(*threads, "thread")),
        CeilingStep::Barriers => "barriers".to_owned(),
        _ => "other figures".to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_reason_is_one_line() {
        let before = "x\ny".to_owned();
        let reasons = [
            Refresh::Missing,
            Refresh::AskedFor,
            Refresh::Damaged { path: "/a\nb".into() },
            Refresh::Version { before: before.clone() },
            Refresh::Isa { before: before.clone() },
            Refresh::Pinning { before: before.clone() },
            Refresh::Threads { lacking: vec![2, 4] },
            Refresh::Incomplete { because: before.clone() },
            Refresh::Busy { load_average: 1.25 },
            Refresh::Chip { before: before.clone() },
            Refresh::State { differences: vec![Difference { name: "governor".into(), ..Difference::default() }] },
            Refresh::Age { measured_at: before },
        ];
        for reason in reasons {
            let text = refresh_text(&reason);
            assert!(!text.is_empty() && !text.contains('\n'), "{text}");
            assert_eq!(refresh_warning(&reason).is_some(), matches!(reason, Refresh::Damaged { .. }));
        }
        assert_eq!(refresh_text(&Refresh::Threads { lacking: vec![2, 4] }), "figures for 2, 4 threads were not kept");
    }

    #[test]
    fn a_verdict_says_its_name_first() {
        for verdict in [Verdict::Good, Verdict::Room, Verdict::Setting, Verdict::Fault] {
            assert!(verdict_text(verdict).starts_with(&format!("{}: ", verdict.name())));
        }
    }
}
