//! Is every rate what it should be? A device with known delays, on the system's clock: what is measured beside what must come out.
//!
//! `cargo run --release -p duan-measure --example rigged`
//!
//! The model is a tiny one of the tests, whose own time is part of the delays.
#![allow(missing_docs)]

use std::ops::ControlFlow;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use std::time::{Duration, Instant};

use duan_backend::Backend as _;
use duan_engine::{Executor, Offer, Sampler, SamplingOptions, Session, Sizes, Timings, Until, make_plan};
use duan_measure::bench::{Job, Monotonic, Outcome, Round, Test, median, run};
use duan_model::Model;
use duan_model::gguf::GgufFile;

#[path = "../src/bench/rigged.rs"]
mod rigged;

use rigged::{Delays, Rigged};

const MS: u64 = 1_000_000;
const DELAYS: Delays =
    Delays { load_ns: 200 * MS, batch_ns: 20 * MS, batch_token_ns: MS, token_ns: 15 * MS, position_ns: 0 };
/// Tokens of a pass.
const ROWS: usize = 16;

fn main() {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../backend/tests/fixtures/smollm2/model.gguf");
    let model = Model::from_gguf(&GgufFile::open(&path).expect("the model of the tests")).expect("a model");
    // Busily: a thread that sleeps is woken late.
    let wait = |start: Instant, ns: u64| while start.elapsed() < Duration::from_nanos(ns) {};
    let device = Rigged::new(DELAYS, Arc::new(wait));
    let offer = Offer { device: device.name().to_owned(), refusals: device.refusals(&model), last_resort: false };
    let plan = make_plan(&model.graph, &[offer], true).expect("a plan");
    let sizes = Sizes { context: Some(60), max_rows: ROWS, ..Sizes::default() };
    let start = Instant::now();
    let mut executor = Executor::load(&model, &[&device], &plan, &sizes).expect("it fits");
    println!("{:<44} {:>10} {:>10} {:>8}", "", "expected", "measured", "off by");
    line("load, ms", 200.0, start.elapsed().as_secs_f64() * 1e3);
    for outcome in outcomes(&mut executor) {
        tell(&outcome);
    }
    answers(&mut executor);
}

/// What delays make of a prompt, in milliseconds.
fn prompt_ms(tokens: usize) -> f64 {
    let pass = |tokens: usize| if tokens == 1 { 15.0 } else { 20.0 + tokens as f64 };
    let (whole, rest) = (tokens / ROWS, tokens % ROWS);
    whole as f64 * pass(ROWS) + if rest > 0 { pass(rest) } else { 0.0 }
}

fn outcomes(executor: &mut Executor) -> Vec<Outcome> {
    let tests = Test::all(&[40, 20, 3, 1], &[8, 1], &[0, 20]);
    let cancel = AtomicBool::new(false);
    let (pause, time) = (Duration::from_millis(10), Monotonic::new());
    let job =
        Job { tests: &tests, repetitions: 5, warm_ups: 2, pause, warm_each_round: false, time: &time, cancel: &cancel };
    let mut outcomes = Vec::new();
    run(executor, &job, |_| (), |outcome| outcomes.push(outcome.clone())).expect("it runs");
    outcomes
}

fn tell(outcome: &Outcome) {
    let Test { prompt, generate, .. } = outcome.test;
    let middle = |of: &dyn Fn(&Round) -> f64| median(&outcome.rounds.iter().map(of).collect::<Vec<_>>());
    let rate = middle(&|round| outcome.test.tokens() as f64 * 1e9 / round.ns as f64);
    let ms = if prompt > 0 { prompt_ms(prompt) } else { generate as f64 * 15.0 };
    let name = outcome.test.name();
    line(&format!("{name}, tokens/s"), outcome.test.tokens() as f64 * 1e3 / ms, rate);
    if prompt > 0 {
        let first = middle(&|round| round.first_token_ns.unwrap_or(0) as f64 / 1e6);
        line(&format!("{name}, ms to the first token"), ms, first);
    } else {
        line(&format!("{name}, ms a token"), 15.0, middle(&|round| round.token_ns[0] as f64 / 1e6));
    }
}

/// What `complete` and `chat` tell: the same delays through a session.
fn answers(executor: &mut Executor) {
    let mut session = Session::open(executor);
    let prompt: Vec<u32> = (1..=20).collect();
    let fresh = answer(executor, &mut session, &prompt, 6);
    line("answer: prefill of 20, tokens/s", 20e3 / prompt_ms(20), fresh.prefill_tokens_per_s().unwrap_or(0.0));
    line("answer: ms to the first token", prompt_ms(20), fresh.first_token_ns as f64 / 1e6);
    line("answer: decode, tokens/s", 1e3 / 15.0, fresh.decode_tokens_per_s().unwrap_or(0.0));
    let cached = answer(executor, &mut session, &prompt, 6);
    println!("answer: of the same prompt {} of 20 tokens were cached", cached.cached_tokens);
    line("answer: prefill of the last token, tokens/s", 1e3 / 15.0, cached.prefill_tokens_per_s().unwrap_or(0.0));
    line("answer: ms to the first token", 15.0, cached.first_token_ns as f64 / 1e6);
    line("answer: decode, tokens/s", 1e3 / 15.0, cached.decode_tokens_per_s().unwrap_or(0.0));
    let single = answer(executor, &mut session, &[9, 8, 7], 1);
    println!("answer: one token, decode {:?}: it came out of the prefill", single.decode_tokens_per_s());
    line("answer: prefill of 3, tokens/s", 3e3 / prompt_ms(3), single.prefill_tokens_per_s().unwrap_or(0.0));
    session.close(executor);
}

fn answer(executor: &mut Executor, session: &mut Session, prompt: &[u32], tokens: usize) -> Timings {
    let options = SamplingOptions { temperature: 0.0, ..SamplingOptions::default() };
    let mut sampler = Sampler::new(&options, executor.vocab_size()).expect("options that are right");
    let cancel = AtomicBool::new(false);
    let until = Until { max_tokens: Some(tokens), stop_tokens: &[], cancel: &cancel };
    let mut tell_nobody = |_: &duan_engine::Event<'_>| ControlFlow::Continue(());
    session.answer(executor, prompt, &mut sampler, &until, &mut tell_nobody).expect("it answers")
}

fn line(what: &str, expected: f64, measured: f64) {
    let off = (measured / expected - 1.0) * 100.0;
    println!("{what:<44} {expected:>10.3} {measured:>10.3} {off:>7.2} %");
}
