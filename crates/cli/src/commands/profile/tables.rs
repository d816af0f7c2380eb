//! A profile as tables for people.

use duan::Phase;
use duan::ceilings::Verdict;
use duan::profile::{KindFigures, LayerFigures, OpFigures, Overhead, PhaseProfile};

use crate::ceilings::verdict_text;
use crate::output::style::on_one_line;
use crate::output::units::{ByteUnit, counted, grouped, three_digits};
use crate::output::{Align, Table};

/// Everything of one phase: the sum, ops by kind, layers, and the `top` single ops that took longest.
pub(super) fn phase(phase: &PhaseProfile, top: usize) -> String {
    let view = View::of(phase);
    let mut text = view.summary();
    text += &format!("\n{}", view.kinds().text());
    text += &format!("\n{}", view.layers().text());
    if top > 0 {
        text += &format!("\n{}", view.top(top).text());
    }
    for line in [view.overhead(), view.allocations()].into_iter().flatten() {
        text += &format!("\n{line}\n");
    }
    text
}

/// What a phase is counted by: prompts or tokens.
struct View<'a> {
    phase: &'a PhaseProfile,
    /// Prompts, or tokens of decode, of all rounds.
    steps: f64,
    /// What one of them is called.
    step: &'static str,
    /// For bytes of one step.
    unit: ByteUnit,
}

impl View<'_> {
    fn of(phase: &PhaseProfile) -> View<'_> {
        let (steps, step) = match phase.phase {
            Phase::Prefill => (phase.rounds, "PROMPT"),
            Phase::Decode => (phase.tokens, "TOKEN"),
        };
        let steps = steps.max(1) as f64;
        let bytes = phase.kinds.iter().map(|kind| (kind.bytes as f64 / steps) as u64);
        View { phase, steps, step, unit: ByteUnit::for_largest(bytes) }
    }

    fn summary(&self) -> String {
        let PhaseProfile { phase, rounds, tokens, n_depth, ns, share, .. } = self.phase;
        let (each, rate) = (self.ms(*ns), three_digits(*tokens as f64 * 1e9 / (*ns).max(1) as f64));
        let what = match phase {
            Phase::Prefill => {
                format!("prefill: {} a prompt of {}", ms_text(&each), counted(tokens / rounds.max(&1), "token"))
            }
            Phase::Decode => format!("decode: {} a token", ms_text(&each)),
        };
        let behind = format!("{} behind {n_depth} positions", counted(*rounds, "round"));
        let share = share.map_or_else(
            || ", ceiling unknown".to_owned(),
            |share| format!(", {} of the ceiling ({})", percent(share), verdict_text(Verdict::of(share))),
        );
        format!("{what}, {rate} t/s, {behind}{share}\n")
    }

    /// Milliseconds of one step.
    fn ms(&self, ns: u64) -> String {
        let ms = ns as f64 / self.steps / 1e6;
        if ms < 0.995 { format!("{ms:.3}") } else { three_digits(ms) }
    }

    fn of_time(&self, ns: u64) -> String {
        percent(ns as f64 / self.phase.ns.max(1) as f64)
    }

    /// What is read or multiplied, and how fast.
    fn work(&self, what: &KindFigures) -> [String; 2] {
        let none = || ["".to_owned(), "".to_owned()];
        match self.phase.phase {
            Phase::Decode if what.bytes == 0 => none(),
            Phase::Decode => {
                let bytes = (what.bytes as f64 / self.steps) as u64;
                [self.unit.number(bytes), three_digits(what.bytes as f64 / what.ns.max(1) as f64)]
            }
            Phase::Prefill if what.multiply_adds == 0 => none(),
            Phase::Prefill => {
                let billions = what.multiply_adds as f64 / self.steps / 1e9;
                [three_digits(billions), three_digits(what.multiply_adds as f64 / what.ns.max(1) as f64)]
            }
        }
    }

    fn work_names(&self) -> [String; 2] {
        match self.phase.phase {
            Phase::Decode => [self.unit.name().to_owned(), "GB/S".to_owned()],
            Phase::Prefill => ["10^9 MULTIPLY-ADDS".to_owned(), "10^9/S".to_owned()],
        }
    }

    fn kinds(&self) -> Table {
        let ([work, rate], ms) = (self.work_names(), format!("MS/{}", self.step));
        let mut table = Table::new(&[
            ("OP", Align::Left),
            ("WEIGHTS", Align::Left),
            ("DEVICE", Align::Left),
            ("KERNEL", Align::Left),
            ("CALLS", Align::Right),
            (&ms, Align::Right),
            ("TIME", Align::Right),
            (&work, Align::Right),
            (&rate, Align::Right),
            ("SHARE", Align::Right),
        ]);
        for kind in &self.phase.kinds {
            let KindFigures { op, weights, device, kernel, calls, ns, share, .. } = kind;
            let ([work, rate], calls) = (self.work(kind), per_step(*calls, self.steps));
            let names = [op, weights, device, kernel].map(|name| on_one_line(name));
            let numbers = [calls, self.ms(*ns), self.of_time(*ns), work, rate, share_text(*share)];
            table.row(names.into_iter().chain(numbers));
        }
        for rest in &self.phase.rest {
            let bytes = rest.bytes.filter(|_| self.phase.phase == Phase::Decode);
            let bytes = bytes.map_or_else(String::new, |bytes| self.unit.number((bytes as f64 / self.steps) as u64));
            let blank = String::new;
            let what = format!("({})", rest.what);
            table.row([
                what,
                blank(),
                blank(),
                blank(),
                blank(),
                self.ms(rest.ns),
                self.of_time(rest.ns),
                bytes,
                blank(),
                blank(),
            ]);
        }
        table
    }

    fn layers(&self) -> Table {
        let (ms, slowest) = (format!("MS/{}", self.step), "SLOWEST LAYER");
        let mut table = Table::new(&[
            ("LAYERS", Align::Left),
            ("OPS EACH", Align::Right),
            (&ms, Align::Right),
            ("TIME", Align::Right),
            ("MS EACH", Align::Right),
            (slowest, Align::Left),
            ("SHARE", Align::Right),
        ]);
        for row in &self.phase.layers {
            let LayerFigures { layers, outside, ops, ns, most_layer_ns, most_layer, share, .. } = row;
            let name = outside.as_ref().map_or_else(|| ranges(layers), |outside| on_one_line(outside));
            let slowest =
                most_layer.map_or_else(String::new, |layer| format!("{layer} ({} ms)", self.ms(*most_layer_ns)));
            let each = self.ms(ns / layers.len().max(1) as u64);
            table.row([name, ops.to_string(), self.ms(*ns), self.of_time(*ns), each, slowest, share_text(*share)]);
        }
        table
    }

    fn top(&self, top: usize) -> Table {
        let ([_, rate], ms) = (self.work_names(), format!("MS/{}", self.step));
        let mut table = Table::new(&[
            ("LAYER", Align::Right),
            ("OP", Align::Left),
            ("WEIGHTS", Align::Left),
            ("KERNEL", Align::Left),
            (&ms, Align::Right),
            ("TIME", Align::Right),
            (&rate, Align::Right),
            ("SHARE", Align::Right),
        ]);
        let mut ops: Vec<&OpFigures> = self.phase.ops.iter().collect();
        ops.sort_by_key(|op| std::cmp::Reverse(op.what.ns));
        for OpFigures { layer, what, .. } in ops.into_iter().take(top) {
            let [_, rate] = self.work(what);
            table.row([
                layer.map_or_else(|| "-".to_owned(), |layer| layer.to_string()),
                on_one_line(&what.op),
                on_one_line(&what.weights),
                on_one_line(&what.kernel),
                self.ms(what.ns),
                self.of_time(what.ns),
                rate,
                share_text(what.share),
            ]);
        }
        table
    }

    fn overhead(&self) -> Option<String> {
        let Overhead { part, interval } = self.phase.overhead?;
        let signed = |part: f64| format!("{:+.1} %", part * 100.0);
        let interval = interval.map_or_else(
            || ", of too few rounds to say how sure that is".to_owned(),
            |(low, high)| format!(" (90 % interval {} to {})", signed(low), signed(high)),
        );
        Some(format!("timing the ops cost {} of the time{interval}", signed(part)))
    }

    fn allocations(&self) -> Option<String> {
        let count = self.phase.allocations?;
        let tokens = counted(self.phase.tokens, "token");
        Some(format!("memory was allocated {} times in {tokens}", grouped(count)))
    }
}

fn ms_text(number: &str) -> String {
    format!("{number} ms")
}

fn percent(part: f64) -> String {
    format!("{:.1} %", part * 100.0)
}

fn share_text(share: Option<f64>) -> String {
    share.map_or_else(String::new, percent)
}

/// Calls of one step: a whole number but where passes differ.
fn per_step(calls: u64, steps: f64) -> String {
    let each = calls as f64 / steps;
    if each.fract() == 0.0 { format!("{each:.0}") } else { format!("{each:.1}") }
}

/// Ascending numbers as people write them: `0-4, 6`.
fn ranges(numbers: &[usize]) -> String {
    let runs = numbers.chunk_by(|a, b| a + 1 == *b).map(|run| match run {
        [one] => one.to_string(),
        [first, .., last] => format!("{first}-{last}"),
        [] => String::new(),
    });
    runs.collect::<Vec<_>>().join(", ")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn layers_are_told_in_ranges() {
        assert_eq!(ranges(&[0, 1, 2, 4, 6, 7]), "0-2, 4, 6-7");
        assert_eq!(ranges(&[]), "");
    }

    #[test]
    fn calls_are_whole_where_they_can_be() {
        assert_eq!([per_step(60, 2.0), per_step(61, 2.0)], ["30", "30.5"]);
    }

    #[test]
    fn times_and_shares_of_one_token_stand_in_the_tables() {
        let kind = |op: &str, ns: u64, bytes: u64, share: Option<f64>| KindFigures {
            op: op.to_owned(),
            weights: if bytes > 0 { "ffn_up".to_owned() } else { String::new() },
            device: "cpu".to_owned(),
            kernel: if bytes > 0 { "Q4_0 avx2".to_owned() } else { String::new() },
            calls: 8,
            ns,
            bytes,
            multiply_adds: 0,
            least_ns: share.map(|share| share * ns as f64),
            share,
            verdict: share.map(Verdict::of),
        };
        let kinds = vec![kind("linear+add", 8_000_000, 64_000_000, Some(0.8)), kind("norm", 1_000_000, 0, None)];
        let op = |layer, what: &KindFigures| OpFigures { layer, first: 0, count: 1, what: what.clone() };
        let phase = PhaseProfile {
            phase: Phase::Decode,
            rounds: 2,
            tokens: 4,
            n_depth: 3,
            ns: 10_000_000,
            ops_ns: 9_000_000,
            least_ns: Some(6_400_000.0),
            share: Some(0.64),
            ops: vec![op(Some(1), &kinds[0]), op(None, &kinds[1])],
            kinds: kinds.clone(),
            layers: vec![LayerFigures {
                layers: vec![0, 1],
                outside: None,
                ops: 1,
                ns: 9_000_000,
                least_layer_ns: 4_000_000,
                most_layer_ns: 5_000_000,
                most_layer: Some(1),
                bytes: 64_000_000,
                least_ns: None,
                share: None,
            }],
            rest: vec![duan::profile::RestFigures { what: "choosing the token", ns: 1_000_000, bytes: None }],
            allocations: Some(0),
            overhead: Some(Overhead { part: 0.012, interval: Some((-0.001, 0.02)) }),
        };
        let expected = "\
decode: 2.50 ms a token, 400 t/s, 2 rounds behind 3 positions, 64.0 % of the ceiling (good: most of what this machine can do is used)

OP                    WEIGHTS  DEVICE  KERNEL     CALLS  MS/TOKEN    TIME    MB  GB/S   SHARE
linear+add            ffn_up   cpu     Q4_0 avx2      2      2.00  80.0 %  16.0  8.00  80.0 %
norm                           cpu                    2     0.250  10.0 %
(choosing the token)                                        0.250  10.0 %

LAYERS  OPS EACH  MS/TOKEN    TIME  MS EACH  SLOWEST LAYER  SHARE
0-1            1      2.25  90.0 %     1.12  1 (1.25 ms)

LAYER  OP          WEIGHTS  KERNEL     MS/TOKEN    TIME  GB/S   SHARE
    1  linear+add  ffn_up   Q4_0 avx2      2.00  80.0 %  8.00  80.0 %

timing the ops cost +1.2 % of the time (90 % interval -0.1 % to +2.0 %)

memory was allocated 0 times in 4 tokens
";
        assert_eq!(super::phase(&phase, 1), expected);
    }
}
