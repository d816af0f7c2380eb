//! Sessions on a scripted device: what is fed, kept, announced and ended.

use duan_backend::PAGE_TOKENS;

use super::*;
use crate::memory::{MemoryNeed, Sizes};
use crate::sampling::SamplingOptions;
use crate::testing::{NextToken, Scripted, VOCAB, scripted_model};

static NO_CANCEL: AtomicBool = AtomicBool::new(false);

/// The next token mixes the whole history.
const MIX: NextToken = |history| history.iter().fold(7u32, |hash, &token| hash.wrapping_mul(31) ^ token) % VOCAB as u32;

/// Counts up, so that the answer is known: after token t comes t + 1.
const COUNT: NextToken = |history| history.last().map_or(0, |last| (last + 1) % VOCAB as u32);

/// An answer with all that was told on the way, in short.
struct Told {
    tokens: Vec<u32>,
    events: Vec<String>,
    timings: Timings,
}

fn ask(
    session: &mut Session,
    executor: &mut Executor,
    prompt: &[u32],
    max_tokens: Option<usize>,
    stop: &[u32],
) -> Told {
    let until = Until { max_tokens, stop_tokens: stop, cancel: &NO_CANCEL };
    ask_until(session, executor, prompt, &until, |_| ControlFlow::Continue(()))
}

fn ask_until(
    session: &mut Session,
    executor: &mut Executor,
    prompt: &[u32],
    until: &Until<'_>,
    mut flow: impl FnMut(&Event<'_>) -> ControlFlow<()>,
) -> Told {
    let mut sampler = Sampler::new(&SamplingOptions::greedy(), VOCAB).unwrap();
    let (mut tokens, mut events) = (Vec::new(), Vec::new());
    let timings = session.answer(executor, prompt, &mut sampler, until, &mut |event| {
        match event {
            Event::Token { id, ends_turn } => {
                tokens.push(*id);
                events.push(if *ends_turn { format!("end {id}") } else { format!("token {id}") });
            }
            Event::PrefillProgress { done, total, cached } => events.push(format!("{done}/{total} cached {cached}")),
            Event::ContextNearlyFull { used, context } => events.push(format!("nearly full {used}/{context}")),
            other => panic!("{other:?}"),
        }
        flow(event)
    });
    Told { tokens, events, timings: timings.unwrap() }
}

#[test]
fn what_a_device_has_to_say_is_passed_on_with_its_name() {
    let executor = Scripted::new(COUNT).load(100, 4);
    assert_eq!(executor.warnings(), [("scripted".to_owned(), "it is only a script".to_owned())]);
}

#[test]
fn an_answer_is_fed_in_pieces_and_ends_at_a_stop_token() {
    let scripted = Scripted::new(COUNT);
    let mut executor = scripted.load(100, 4);
    let mut session = Session::open(&mut executor);
    let told = ask(&mut session, &mut executor, &[9, 8, 7, 6, 5, 4, 3, 2, 1, 10], None, &[50, 13]);
    assert_eq!(told.tokens, [11, 12, 13]);
    assert_eq!(told.events, ["4/10 cached 0", "8/10 cached 0", "10/10 cached 0", "token 11", "token 12", "end 13"]);
    let passes = scripted.passes.lock().unwrap().clone();
    let expected =
        [(0, vec![9, 8, 7, 6], 0), (4, vec![5, 4, 3, 2], 0), (8, vec![1, 10], 1), (10, vec![11], 1), (11, vec![12], 1)];
    assert_eq!(passes, expected, "logits are asked for once per token, and not behind the last one");
    let Timings { prompt_tokens, cached_tokens, generated_tokens, decode_tokens, context_used, .. } = told.timings;
    assert_eq!((prompt_tokens, cached_tokens, generated_tokens, decode_tokens, context_used), (10, 0, 3, 2, 12));
    assert_eq!(told.timings.finish_reason, FinishReason::Stop);
    assert_eq!(session.tokens(&executor), [9, 8, 7, 6, 5, 4, 3, 2, 1, 10, 11, 12]);
}

#[test]
fn length_ends_an_answer_without_a_needless_pass() {
    let scripted = Scripted::new(COUNT);
    let mut executor = scripted.load(100, 4);
    let mut session = Session::open(&mut executor);
    let told = ask(&mut session, &mut executor, &[1], Some(3), &[]);
    assert_eq!((told.tokens, told.timings.finish_reason), (vec![2, 3, 4], FinishReason::Length));
    assert_eq!(scripted.passes.lock().unwrap().len(), 3);
    let told = ask(&mut session, &mut executor, &[1, 2], Some(0), &[]);
    assert_eq!((told.tokens, told.timings.finish_reason), (vec![], FinishReason::Length));
    assert_eq!(told.timings.cached_tokens, 1, "the last token is fed again for its logits");
}

#[test]
fn the_longest_common_prefix_stays_and_the_answer_is_that_of_a_fresh_session() {
    let scripted = Scripted::new(MIX);
    let mut executor = scripted.load(2000, 64);
    let mut session = Session::open(&mut executor);
    let first: Vec<u32> = (0..300).map(|index| index % 60).collect();
    let answer = ask(&mut session, &mut executor, &first, Some(20), &[]).tokens;
    // The next turn has prompt and answer but for its last token, then something new.
    let mut second = first.clone();
    second.extend(&answer[..18]);
    second.extend([1, 2, 3]);
    scripted.passes.lock().unwrap().clear();
    let cached = ask(&mut session, &mut executor, &second, Some(30), &[]);
    assert_eq!(cached.timings.cached_tokens, 318);
    assert_eq!(scripted.passes.lock().unwrap()[0], (318, vec![1, 2, 3], 1));
    // A question that differs early goes back behind a page border.
    let mut third = first[..100].to_vec();
    third.push(61);
    let turned = ask(&mut session, &mut executor, &third, Some(30), &[]);
    assert_eq!(turned.timings.cached_tokens, 100);
    for (prompt, told) in [(second, cached), (third, turned)] {
        let mut executor = Scripted::new(MIX).load(2000, 7);
        let mut fresh = Session::open(&mut executor);
        let fresh = ask(&mut fresh, &mut executor, &prompt, Some(30), &[]);
        assert_eq!((fresh.timings.cached_tokens, fresh.tokens), (0, told.tokens));
    }
}

#[test]
fn forks_go_their_own_ways() {
    let scripted = Scripted::new(MIX);
    let mut executor = scripted.load(1024, 64);
    let mut session = Session::open(&mut executor);
    let prompt: Vec<u32> = (0..PAGE_TOKENS as u32 + 20).map(|index| index % 50).collect();
    ask(&mut session, &mut executor, &prompt, Some(1), &[]);
    assert_eq!(executor.ledger().pages_free(), 2);
    let mut fork = session.fork(&mut executor);
    assert_eq!(executor.ledger().pages_free(), 2);
    let with = |token: u32| [&prompt[..], &[token]].concat();
    let left = ask(&mut fork, &mut executor, &with(60), Some(20), &[]);
    let right = ask(&mut session, &mut executor, &with(61), Some(20), &[]);
    assert_eq!((left.timings.cached_tokens, right.timings.cached_tokens), (prompt.len(), prompt.len()));
    assert_ne!(left.tokens, right.tokens);
    assert_eq!(executor.ledger().pages_free(), 1, "the tail was copied once");
    for (token, told) in [(60, left), (61, right)] {
        let mut executor = Scripted::new(MIX).load(1024, 64);
        let mut fresh = Session::open(&mut executor);
        assert_eq!(ask(&mut fresh, &mut executor, &with(token), Some(20), &[]).tokens, told.tokens);
    }
    fork.close(&mut executor);
    session.close(&mut executor);
    assert_eq!(executor.ledger().pages_free(), 4);
}

#[test]
fn the_end_of_the_context_is_announced_and_is_a_reason() {
    let mut executor = Scripted::new(COUNT).load(16, 8);
    let mut session = Session::open(&mut executor);
    let told = ask(&mut session, &mut executor, &[1; 11], None, &[]);
    // 11 of the prompt, 5 fed, and one that has no position of its own.
    assert_eq!(told.tokens, [2, 3, 4, 5, 6, 7]);
    assert_eq!((told.timings.finish_reason, told.timings.context_used), (FinishReason::Context, 16));
    let expected = [
        "8/11 cached 0",
        "11/11 cached 0",
        "token 2",
        "token 3",
        "token 4",
        "nearly full 14/16",
        "token 5",
        "token 6",
        "token 7",
    ];
    assert_eq!(told.events, expected);
    // A stop token that comes last is a stop, and enough tokens are enough.
    assert_eq!(ask(&mut session, &mut executor, &[1; 11], None, &[7]).timings.finish_reason, FinishReason::Stop);
    assert_eq!(ask(&mut session, &mut executor, &[1; 11], Some(6), &[]).timings.finish_reason, FinishReason::Length);
    // A prompt that nearly fills the context says so before the answer.
    let told = ask(&mut session, &mut executor, &[1; 15], None, &[]);
    assert_eq!(told.events, ["15/15 cached 11", "nearly full 15/16", "token 2", "token 3"]);
}

#[test]
fn prompts_that_cannot_be_answered_are_errors_with_the_numbers() {
    let mut executor = Scripted::new(COUNT).load(16, 8);
    let mut session = Session::open(&mut executor);
    let mut sampler = Sampler::new(&SamplingOptions::greedy(), VOCAB).unwrap();
    let until = Until { max_tokens: None, stop_tokens: &[], cancel: &NO_CANCEL };
    let mut ask_for = |executor: &mut Executor, prompt: &[u32]| {
        session.answer(executor, prompt, &mut sampler, &until, &mut |_| ControlFlow::Continue(())).map(|_| ())
    };
    ask_for(&mut executor, &[1, 2, 3]).unwrap();
    let message = ask_for(&mut executor, &[1; 16]).unwrap_err().to_string();
    assert!(message.contains("16 tokens") && message.contains("context holds 16"), "{message}");
    assert!(matches!(ask_for(&mut executor, &[]), Err(Error::EmptyPrompt)));
    let message = ask_for(&mut executor, &[1, 64]).unwrap_err().to_string();
    assert_eq!(message, "token 64 is not in the vocabulary of 64 tokens");
    // The session still answers.
    ask_for(&mut executor, &[1, 2]).unwrap();
}

#[test]
fn a_device_that_fails_leaves_the_session_usable() {
    let scripted = Scripted { failing_pass: Some(2), ..Scripted::new(COUNT) };
    let mut executor = scripted.load(600, 4);
    let mut session = Session::open(&mut executor);
    let mut sampler = Sampler::new(&SamplingOptions::greedy(), VOCAB).unwrap();
    let until = Until { max_tokens: Some(2), stop_tokens: &[], cancel: &NO_CANCEL };
    let error = session.answer(&mut executor, &[1; 10], &mut sampler, &until, &mut |_| ControlFlow::Continue(()));
    assert_eq!(error.unwrap_err().to_string(), "scripted: unplugged");
    assert_eq!(session.tokens(&executor), [1; 8]);
    let told = ask(&mut session, &mut executor, &[1; 10], Some(2), &[]);
    assert_eq!((told.timings.cached_tokens, told.tokens), (8, vec![2, 3]));
}

#[test]
fn logits_that_are_no_numbers_end_the_answer_and_not_the_session() {
    let mut executor = Scripted::new(|history| if history.len() == 5 { VOCAB as u32 } else { 9 }).load(64, 8);
    let mut session = Session::open(&mut executor);
    let mut sampler = Sampler::new(&SamplingOptions::greedy(), VOCAB).unwrap();
    let until = Until { max_tokens: Some(8), stop_tokens: &[], cancel: &NO_CANCEL };
    let error = session.answer(&mut executor, &[1; 3], &mut sampler, &until, &mut |_| ControlFlow::Continue(()));
    assert!(matches!(error, Err(Error::NonFiniteLogit { token: 5, .. })), "{error:?}");
    assert_eq!(ask(&mut session, &mut executor, &[1; 6], Some(2), &[]).tokens, [9, 9]);
}

#[test]
fn answers_can_be_cancelled_between_pieces_and_between_tokens() {
    let scripted = Scripted::new(COUNT);
    let mut executor = scripted.load(100, 4);
    let mut session = Session::open(&mut executor);
    let cancel = AtomicBool::new(false);
    let until = Until { max_tokens: None, stop_tokens: &[], cancel: &cancel };
    // The flag, set while the second piece runs.
    let told = ask_until(&mut session, &mut executor, &[1; 10], &until, |event| {
        cancel.store(matches!(event, Event::PrefillProgress { done: 8, .. }), Ordering::Relaxed);
        ControlFlow::Continue(())
    });
    assert_eq!((told.timings.finish_reason, told.timings.context_used), (FinishReason::Cancelled, 8));
    // A flag that is still set ends the next answer before it begins: only its owner clears it.
    let told = ask_until(&mut session, &mut executor, &[1; 10], &until, |_| ControlFlow::Continue(()));
    assert_eq!((told.events.len(), told.timings.finish_reason), (0, FinishReason::Cancelled));
    cancel.store(false, Ordering::Relaxed);
    let told = ask_until(&mut session, &mut executor, &[1; 10], &until, |event| {
        cancel.store(matches!(event, Event::Token { id: 4, .. }), Ordering::Relaxed);
        ControlFlow::Continue(())
    });
    assert_eq!((told.tokens, told.timings.finish_reason), (vec![2, 3, 4], FinishReason::Cancelled));
    cancel.store(false, Ordering::Relaxed);
    // A break in place of the flag.
    let told = ask_until(&mut session, &mut executor, &[1; 10], &until, |event| {
        if matches!(event, Event::Token { id: 3, .. }) { ControlFlow::Break(()) } else { ControlFlow::Continue(()) }
    });
    assert_eq!((told.tokens, told.timings.finish_reason), (vec![2, 3], FinishReason::Cancelled));
    let told = ask_until(&mut session, &mut executor, &[5; 10], &until, |_| ControlFlow::Break(()));
    assert_eq!((told.events.len(), told.timings.context_used), (1, 4));
}

#[test]
fn the_penalty_window_sees_prompt_and_answer() {
    // Every token is as good as the other but for penalties: the lowest that was not seen lately wins.
    let mut executor = Scripted::new(|_| 0).load(100, 8);
    let mut session = Session::open(&mut executor);
    let options = SamplingOptions { frequency_penalty: 10.0, ..SamplingOptions::greedy() };
    let mut sampler = Sampler::new(&options, VOCAB).unwrap();
    let until = Until { max_tokens: Some(4), stop_tokens: &[], cancel: &NO_CANCEL };
    let mut tokens = Vec::new();
    let mut on_event = |event: &Event<'_>| {
        if let Event::Token { id, .. } = event {
            tokens.push(*id);
        }
        ControlFlow::Continue(())
    };
    session.answer(&mut executor, &[0, 2], &mut sampler, &until, &mut on_event).unwrap();
    assert_eq!(tokens, [1, 3, 4, 5]);
}

#[test]
fn every_row_is_evaluated_in_order_and_in_bounded_pieces() {
    let scripted = Scripted::new(MIX);
    let mut executor = scripted.load(600, 32);
    let mut session = Session::open(&mut executor);
    ask(&mut session, &mut executor, &[3; 40], Some(3), &[]);
    scripted.passes.lock().unwrap().clear();
    let tokens: Vec<u32> = (0..500).map(|index| index * 11 % 64).collect();
    let mut positions = Vec::new();
    session
        .evaluate(&mut executor, &tokens, &NO_CANCEL, |position, logits| {
            positions.push(position);
            let best = logits.iter().position(|&logit| logit == 1.0).unwrap() as u32;
            assert_eq!(best, MIX(&tokens[..=position]));
            ControlFlow::Continue(())
        })
        .unwrap();
    assert_eq!(positions, (0..500).collect::<Vec<_>>());
    let most = executor.limits().max_wanted_rows;
    let passes = scripted.passes.lock().unwrap().clone();
    assert!(passes.iter().all(|(_, tokens, wanted)| tokens.len() == *wanted && *wanted <= most));
    let mut rows = 0;
    session
        .evaluate(&mut executor, &tokens, &NO_CANCEL, |_, _| {
            rows += 1;
            if rows == 5 { ControlFlow::Break(()) } else { ControlFlow::Continue(()) }
        })
        .unwrap();
    assert_eq!(rows, 5);
    let error = session.evaluate(&mut executor, &[1; 601], &NO_CANCEL, |_, _| ControlFlow::Continue(())).unwrap_err();
    assert!(matches!(error, Error::ContextFull { tokens: 601, used: 0, context: 600 }), "{error:?}");
}

#[test]
fn warming_up_runs_both_phases_and_leaves_nothing() {
    let scripted = Scripted::new(COUNT);
    let mut executor = scripted.load(16, 8);
    executor.warm_up().unwrap();
    assert_eq!(*scripted.passes.lock().unwrap(), [(0, vec![0, 0], 1), (2, vec![0], 1)]);
    assert_eq!(executor.ledger().pages_free(), executor.ledger().pages_total());
    Scripted::new(COUNT).load(2, 1).warm_up().unwrap();
}

#[test]
fn a_model_that_does_not_fit_is_refused_with_all_numbers_before_it_is_compiled() {
    let scripted = Scripted { memory_available_bytes: Some(1000), ..Scripted::new(COUNT) };
    let model = scripted_model();
    let error = Executor::load(&model, &[&scripted], &scripted.plan(), &Sizes::default()).unwrap_err();
    // 512 rows of 64 floats twice.
    assert!(matches!(error, Error::OutOfMemory { needed_bytes: 262_144, available_bytes: 1000, .. }), "{error:?}");
    let message = error.to_string();
    assert!(
        message.starts_with("the model needs 262 kB and scripted has 1.00 kB available (0.00 kB of weights"),
        "{message}"
    );
    assert!(message.ends_with("load it with a smaller context, close other programs, or use a smaller quantization"));
    let enough = Scripted { memory_available_bytes: Some(262_144), ..Scripted::new(COUNT) };
    Executor::load(&model, &[&enough], &enough.plan(), &Sizes::default()).unwrap();
}

#[test]
fn sizes_are_checked_and_have_defaults() {
    let config = &scripted_model().config;
    assert_eq!(Sizes::default().context_for(config).unwrap(), 4096);
    let short = duan_model::config::ModelConfig { context_length: 512, ..(**config).clone() };
    assert_eq!(Sizes::default().context_for(&short).unwrap(), 512);
    let long = duan_model::config::ModelConfig { context_length: 131_072, ..(**config).clone() };
    assert_eq!(Sizes::default().context_for(&long).unwrap(), 4096);
    for context in [0, 1, 513] {
        let sizes = Sizes { context: Some(context), ..Sizes::default() };
        let message = sizes.context_for(&short).unwrap_err().to_string();
        assert!(message.starts_with("context: ") && message.contains("512"), "{message}");
    }
    for max_rows in [0, 1 << 17] {
        let message = Sizes { max_rows, ..Sizes::default() }.limits_for(config).unwrap_err().to_string();
        assert!(message.starts_with("prefill_rows: "), "{message}");
    }
    // Logits of all rows fit in 8 MiB; a wide vocabulary gets few rows, and never none.
    let limits = Sizes::default().limits_for(config).unwrap();
    assert_eq!((limits.max_rows, limits.max_wanted_rows, limits.pages), (512, 512, 16));
    let wide = duan_model::config::ModelConfig { vocab_size: 262_144, ..(**config).clone() };
    assert_eq!(Sizes::default().limits_for(&wide).unwrap().max_wanted_rows, 8);
    let widest = duan_model::config::ModelConfig { vocab_size: 1 << 23, ..(**config).clone() };
    assert_eq!(Sizes::default().limits_for(&widest).unwrap().max_wanted_rows, 1);
    let need = MemoryNeed::of(&scripted_model(), 4096, &limits);
    assert_eq!(need.total_bytes, need.weights_bytes + need.kv_bytes + need.scratch_bytes);
}

#[test]
fn a_model_with_state_goes_back_to_the_end_of_a_page() {
    let scripted = Scripted::new(MIX);
    let mut executor = scripted.load_with_state(1024, 64);
    let mut session = Session::open(&mut executor);
    let prompt: Vec<u32> = (0..300).map(|token| token % VOCAB as u32).collect();
    let first = ask(&mut session, &mut executor, &prompt, Some(3), &[]);
    // What follows on what is cached needs no way back.
    let mut longer = session.tokens(&executor).to_vec();
    longer.extend([1, 2, 3]);
    assert_eq!(longer.len(), 305);
    let second = ask(&mut session, &mut executor, &longer, Some(1), &[]);
    assert_eq!(second.timings.cached_tokens, 302);
    // Another continuation, and the same prompt again, begin at the last full page.
    let again = ask(&mut session, &mut executor, &prompt, Some(3), &[]);
    assert_eq!(again.timings.cached_tokens, PAGE_TOKENS);
    assert_eq!(again.tokens, first.tokens);
    assert_eq!(session.rewind(&mut executor, 255), 0);
}

#[test]
fn a_failed_pass_leaves_no_half_written_state() {
    let scripted = Scripted { failing_pass: Some(5), ..Scripted::new(MIX) };
    let mut executor = scripted.load_with_state(1024, 64);
    let mut session = Session::open(&mut executor);
    let prompt: Vec<u32> = (0..330).map(|token| token % VOCAB as u32).collect();
    let error = session.feed(&mut executor, &prompt, |_| ControlFlow::Continue(())).unwrap_err();
    assert!(error.to_string().contains("unplugged"), "{error}");
    // Five passes of 64 made 320; the pass behind them may have written to the second page.
    assert_eq!(session.tokens(&executor).len(), PAGE_TOKENS);
}
