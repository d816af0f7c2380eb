//! Completions: greedy text, streaming, seeds, begin-of-text, cancelling.

use std::ops::ControlFlow;
use std::sync::atomic::{AtomicBool, Ordering};

use duan::{CompleteOptions, EngineOptions, Event, FinishReason, SamplingOptions};

use crate::support::{Told, engine, fixture, options};

fn greedy(max_tokens: usize) -> CompleteOptions {
    CompleteOptions { max_tokens: Some(max_tokens), sampling: SamplingOptions::greedy(), bos: None }
}

/// The tokens that the best logits give, found without a session's cache.
fn by_hand(engine: &mut duan::Engine, prompt: &[u32], count: usize) -> Vec<u32> {
    let stops = engine.tokenizer().unwrap().end_of_turn().to_vec();
    let mut tokens = prompt.to_vec();
    while tokens.len() < prompt.len() + count {
        let mut best = 0;
        let last = tokens.len() - 1;
        let row = |position: usize, logits: &[f32]| {
            if position == last {
                best = (0..logits.len()).rev().max_by(|&a, &b| logits[a].total_cmp(&logits[b])).unwrap() as u32;
            }
            ControlFlow::Continue(())
        };
        engine.logits(&tokens, row).unwrap();
        if stops.contains(&best) {
            break;
        }
        tokens.push(best);
    }
    tokens[prompt.len()..].to_vec()
}

#[test]
fn greedy_text_is_that_of_the_best_logits() {
    for name in ["smollm2", "llama2", "gemma3"] {
        let mut engine = engine(&fixture(name), options());
        let mut told = Told::default();
        let answer = engine.complete_with("the quick fox", &greedy(20), |event| told.tell(event)).unwrap();
        let tokenizer = engine.tokenizer().unwrap();
        let mut prompt: Vec<u32> = tokenizer.bos().filter(|_| tokenizer.adds_bos()).into_iter().collect();
        prompt.extend(tokenizer.encode("the quick fox"));
        let all = [&prompt[..], &answer.tokens].concat();
        assert_eq!(
            format!("the quick fox{}", answer.text),
            tokenizer.decode(&all),
            "{name}: what goes on after the text"
        );
        assert_eq!(answer.text, told.text, "{name}: what was streamed is the answer");
        assert_eq!(answer.timings.prompt_tokens, prompt.len(), "{name}");
        assert_eq!(answer.tokens, by_hand(&mut engine, &prompt, 20), "{name}");
        let ended = usize::from(answer.timings.finish_reason == FinishReason::Stop);
        assert_eq!(answer.timings.generated_tokens, answer.tokens.len() + ended, "{name}");
        assert_eq!(answer.timings.decode_tokens + 1, answer.timings.generated_tokens, "{name}");
        let total = prompt.len();
        assert_eq!(told.words.first().unwrap(), &format!("prefill {total}/{total}, 0 cached"));
        assert_eq!(told.words.last().unwrap(), &format!("finished {}", answer.timings.finish_reason.name()));
    }
}

#[test]
fn what_is_cached_is_not_computed_again_and_changes_nothing() {
    let mut engine = engine(&fixture("smollm2"), options());
    let fresh = engine.complete("a b c d e f", &greedy(16)).unwrap();
    let again = engine.complete("a b c d e f", &greedy(16)).unwrap();
    assert_eq!((&again.text, &again.tokens), (&fresh.text, &fresh.tokens));
    assert_eq!(fresh.timings.cached_tokens, 0);
    assert_eq!(again.timings.cached_tokens, again.timings.prompt_tokens - 1);
}

#[test]
fn the_begin_of_text_token_comes_when_it_is_asked_for_and_never_twice() {
    let mut engine = engine(&fixture("gemma3"), options());
    let tokens = |bos| engine.complete("abc", &CompleteOptions { bos, ..greedy(1) }).unwrap().timings.prompt_tokens;
    let [as_the_file_says, with, without] = [None, Some(true), Some(false)].map(tokens);
    assert_eq!((as_the_file_says, with), (without + 1, without + 1));
    let mut engine = crate::support::engine(&fixture("smollm2"), options());
    let tokens = |bos| engine.complete("abc", &CompleteOptions { bos, ..greedy(1) }).unwrap().timings.prompt_tokens;
    let [as_the_file_says, with, without] = [None, Some(true), Some(false)].map(tokens);
    assert_eq!((as_the_file_says, with), (without, without + 1));
}

#[test]
fn a_seed_gives_the_same_text_and_is_reported() {
    let mut engine = engine(&fixture("smollm2"), options());
    let mut with = |seed| {
        let sampling = SamplingOptions { temperature: 2.0, top_k: 0, min_p: 0.0, seed, ..SamplingOptions::default() };
        engine.complete("abc", &CompleteOptions { max_tokens: Some(40), sampling, bos: None }).unwrap()
    };
    let random = with(None);
    let same = with(Some(random.timings.seed));
    assert_eq!((&random.tokens, random.timings.seed), (&same.tokens, same.timings.seed));
    assert_ne!(with(Some(1)).tokens, with(Some(2)).tokens);
}

#[test]
fn empty_and_unknown_prompts_are_errors() {
    let mut engine = engine(&fixture("smollm2"), options());
    let error = engine.complete("", &greedy(1)).unwrap_err().to_string();
    assert_eq!(error, "no tokens to start from; give a prompt of at least one token");
    let error = engine.complete_tokens_with(&[1, 96], &greedy(1), |_| ControlFlow::Continue(())).unwrap_err();
    assert_eq!(error.to_string(), "token 96 is not in the vocabulary of 96 tokens");
    let sampling = SamplingOptions { top_p: f32::NAN, ..SamplingOptions::default() };
    let error = engine.complete("abc", &CompleteOptions { sampling, ..greedy(1) }).unwrap_err().to_string();
    assert_eq!(error, "top_p: expected a number from 0 to 1, found NaN");
    assert_eq!(engine.complete("abc", &greedy(3)).unwrap().tokens.len(), 3);
}

#[test]
fn the_context_ends_an_answer_and_a_longer_prompt_is_an_error_with_both_numbers() {
    let mut engine = engine(&fixture("smollm2"), EngineOptions { context: Some(32), ..options() });
    let mut told = Told::default();
    let endless = CompleteOptions { max_tokens: None, ..greedy(0) };
    let answer = engine.complete_tokens_with(&[9; 26], &endless, |event| told.tell(event)).unwrap();
    assert_eq!((answer.timings.finish_reason, answer.timings.context_used), (FinishReason::Context, 32));
    assert_eq!(answer.tokens.len(), 7, "6 positions, and one token that has none");
    assert_eq!(told.words.iter().filter(|word| *word == "nearly full 28/32").count(), 1);
    assert_eq!(engine.context_used().unwrap(), 32);
    let error = engine.complete_tokens_with(&[9; 32], &endless, |_| ControlFlow::Continue(())).unwrap_err();
    let expected = "the prompt has 32 tokens, and the context holds 32";
    assert!(error.to_string().starts_with(expected), "{error}");
}

#[test]
fn the_flag_and_a_break_end_an_answer() {
    let cancel = std::sync::Arc::new(AtomicBool::new(false));
    let mut engine = engine(&fixture("smollm2"), EngineOptions { cancel: cancel.clone(), ..options() });
    let mut tokens = 0;
    let mut count = |event: &Event<'_>| tokens += usize::from(matches!(event, Event::Token { .. }));
    let answer = engine.complete_with("abc", &greedy(30), |event| {
        count(event);
        cancel.store(matches!(event, Event::Text { .. }), Ordering::SeqCst);
        ControlFlow::Continue(())
    });
    let answer = answer.unwrap();
    assert_eq!((answer.timings.finish_reason, answer.tokens.len()), (FinishReason::Cancelled, 1));
    cancel.store(false, Ordering::SeqCst);
    let answer = engine.complete_with("abc", &greedy(30), |event| match event {
        Event::Text { .. } => ControlFlow::Break(()),
        _ => ControlFlow::Continue(()),
    });
    assert_eq!(answer.unwrap().timings.finish_reason, FinishReason::Cancelled);
    assert_eq!(tokens, 1);
    assert_eq!(engine.complete("abc", &greedy(5)).unwrap().tokens.len(), 5, "the engine still answers");
}
