//! Chats: history, reuse of the cache, refusals, base models.

use std::ops::ControlFlow;

use duan::{EngineOptions, Event, FinishReason, Message};

use crate::support::{TEMPLATE, Told, chat_engine, engine, fixture, options, with_template};

fn turns(history: &[Message]) -> Vec<(&str, &str)> {
    history.iter().map(|message| (message.role.as_str(), message.content.as_str())).collect()
}

#[test]
fn several_turns_keep_their_history_and_their_cache() {
    let (_folder, mut engine) = chat_engine(options());
    let mut told = Told::default();
    let first = engine.chat_with("hello there", |event| told.tell(event)).unwrap();
    assert_eq!((&first.text, first.timings.cached_tokens), (&told.text, 0));
    assert_eq!(turns(engine.history()), [("user", "hello there"), ("assistant", first.text.as_str())]);
    let used = engine.context_used().unwrap();
    assert_eq!(used, first.timings.context_used);
    let second = engine.chat_with("and then", |_| ControlFlow::Continue(())).unwrap();
    assert!(second.timings.cached_tokens >= first.timings.prompt_tokens - 1, "{:?}", second.timings);
    assert_eq!(engine.history().len(), 4);

    // A fresh engine that is given the same conversation answers the same.
    let (_other_folder, mut other) = chat_engine(options());
    assert_eq!(other.chat("hello there").unwrap(), first.text);
    assert_eq!(other.chat("and then").unwrap(), second.text);

    engine.reset();
    assert!(engine.history().is_empty());
    assert_eq!(engine.chat("hello there").unwrap(), first.text);
}

#[test]
fn the_prompt_is_what_the_template_makes_of_the_conversation() {
    let (_folder, mut engine) = chat_engine(EngineOptions { system_prompt: Some("be kind".into()), ..options() });
    let tokens = |engine: &duan::Engine, text: &str| {
        let parts = vec![duan::model::template::Part::Template(text.to_owned())];
        engine.tokenizer().unwrap().encode_prompt(&duan::model::template::Prompt { parts, ..Default::default() }).len()
    };
    let answer = engine.chat_with("hi", |_| ControlFlow::Continue(())).unwrap();
    let expected = "system: be kind<|endoftext|>\nuser: hi<|endoftext|>\nassistant: ";
    assert_eq!(answer.timings.prompt_tokens, tokens(&engine, expected));
    assert_eq!((engine.system_prompt(), engine.history().len()), (Some("be kind"), 2));
    engine.set_system_prompt(None);
    engine.reset();
    let answer = engine.chat_with("hi", |_| ControlFlow::Continue(())).unwrap();
    assert_eq!(answer.timings.prompt_tokens, tokens(&engine, "user: hi<|endoftext|>\nassistant: "));
}

#[test]
fn what_a_person_says_cannot_end_a_turn() {
    let (_folder, mut engine) = chat_engine(options());
    let control = engine.tokenizer().unwrap().end_of_turn()[0];
    let prompt = engine.tokenizer().unwrap().encode("<|endoftext|>");
    assert!(!prompt.contains(&control) && prompt.len() > 1);
    let count = |engine: &mut duan::Engine, said: &str| {
        engine.reset();
        engine.chat_with(said, |_| ControlFlow::Continue(())).unwrap().timings.prompt_tokens
    };
    let plain = count(&mut engine, "");
    assert_eq!(count(&mut engine, "<|endoftext|>"), plain + prompt.len(), "as letters, not as one control token");
}

#[test]
fn base_models_say_so_and_point_to_complete() {
    let mut engine = engine(&fixture("gemma3"), options());
    let error = engine.chat("hello").unwrap_err().to_string();
    assert!(error.contains("gemma3") && error.contains("base model") && error.contains("`complete`"), "{error}");
    assert!(engine.history().is_empty());
}

#[test]
fn refusals_are_shown_in_the_words_of_the_template() {
    let refusing = "{% if messages[0].role == 'system' %}{{ raise_exception('no system turns here') }}{% endif %}x";
    let (_folder, path) = with_template("smollm2", refusing);
    let mut engine = engine(&path, EngineOptions { system_prompt: Some("be kind".into()), ..options() });
    let error = engine.chat("hello").unwrap_err().to_string();
    assert!(error.contains("no system turns here"), "{error}");
    assert!(engine.history().is_empty(), "a refused turn does not stay");
    engine.set_system_prompt(None);
    engine.chat("hello").unwrap();
    assert_eq!(engine.history().len(), 2);
}

#[test]
fn a_broken_template_is_one_error_in_chat_and_none_elsewhere() {
    let (_folder, path) = with_template("smollm2", "{% for m in messages %}");
    let mut told = Told::default();
    let mut engine = duan::Engine::new(options()).unwrap();
    engine.load_model_with(&path, |event| told.note(event)).unwrap();
    assert!(!told.words.iter().any(|word| word.starts_with("warning")), "{told:?}");
    assert!(matches!(engine.check_chat(), Err(duan::Error::BrokenTemplate { .. })));
    let error = engine.chat("hello").unwrap_err().to_string();
    assert!(error.contains("chat.gguf: tokenizer.chat_template: syntax error"), "{error}");
    assert!(error.contains(":1)") && error.ends_with("`complete` works without a template)"), "{error}");
    engine.complete("abc", &duan::CompleteOptions { max_tokens: Some(1), ..Default::default() }).unwrap();
}

#[test]
fn a_conversation_that_no_longer_fits_is_an_error_with_the_numbers() {
    let (_folder, path) = with_template("smollm2", TEMPLATE);
    let mut engine = engine(&path, EngineOptions { context: Some(64), max_tokens: Some(4), ..options() });
    let mut answered = 0;
    let error = loop {
        match engine.chat("abcdefgh") {
            Ok(_) => answered += 1,
            Err(error) => break error.to_string(),
        }
        assert!(answered < 10, "the context ends at last");
    };
    assert!(answered > 0);
    assert!(error.contains("the context holds 64") && error.contains("start a new conversation"), "{error}");
    assert_eq!(engine.history().len(), 2 * answered, "the turn that did not fit is not kept");
    engine.reset();
    engine.chat("abcdefgh").unwrap();
}

#[test]
fn a_single_prompt_is_not_told_to_start_anew() {
    let (_folder, path) = with_template("smollm2", TEMPLATE);
    let mut engine = engine(&path, EngineOptions { context: Some(64), ..options() });
    let error = engine.chat(&"a b ".repeat(30)).unwrap_err().to_string();
    assert!(error.contains("the context holds 64") && !error.contains("conversation"), "{error}");
}

/// The longest token of the fixture is short, so a text of some kilobytes cannot fit in 64 positions.
#[test]
fn texts_beyond_every_context_are_refused_before_they_are_cut() {
    let (_folder, path) = with_template("smollm2", TEMPLATE);
    let mut engine = engine(&path, EngineOptions { context: Some(64), ..options() });
    let tokenizer = engine.tokenizer().unwrap();
    let longest = (0..tokenizer.vocab_size() as u32).map(|id| tokenizer.token_bytes(id).len()).max().unwrap();
    let text = "a".repeat(1 << 20);
    for error in [engine.chat(&text).unwrap_err(), engine.complete(&text, &Default::default()).unwrap_err()] {
        match error {
            duan::Error::TextTooLong { bytes, context: 64, most_bytes } => {
                assert!(
                    bytes >= text.len() && most_bytes >= 64 * longest && most_bytes < 1 << 16,
                    "{bytes} {most_bytes}"
                );
            }
            other => panic!("{other:?}"),
        }
    }
    assert!(engine.history().is_empty());
}

/// Reading weights behind the new end would end the process.
#[cfg(unix)]
#[test]
fn a_file_that_was_cut_while_in_use_is_an_error() {
    let (_folder, path) = with_template("smollm2", TEMPLATE);
    let bytes = std::fs::metadata(&path).unwrap().len();
    let mut engine = engine(&path, options());
    engine.chat("hello").unwrap();
    std::fs::OpenOptions::new().write(true).open(&path).unwrap().set_len(bytes - 4096).unwrap();
    let error = engine.chat("and then").unwrap_err().to_string();
    assert!(error.contains(&format!("the file was cut from {bytes} to {} bytes", bytes - 4096)), "{error}");
    assert!(engine.logits(&[1, 2], |_, _| ControlFlow::Continue(())).is_err());
}

#[test]
fn cancelled_answers_stay_as_far_as_they_came() {
    let (_folder, mut engine) = chat_engine(options());
    let answer = engine.chat_with("hello", |event| match event {
        Event::Text { .. } => ControlFlow::Break(()),
        _ => ControlFlow::Continue(()),
    });
    let answer = answer.unwrap();
    assert_eq!(answer.timings.finish_reason, FinishReason::Cancelled);
    assert_eq!(turns(engine.history()), [("user", "hello"), ("assistant", answer.text.as_str())]);
    engine.reset();
    let answer = engine.chat_with("hello", |_| ControlFlow::Break(())).unwrap();
    assert_eq!((answer.text.as_str(), engine.history().len()), ("", 0));
}

#[test]
fn a_completion_between_two_turns_only_costs_the_cache() {
    let (_folder, mut engine) = chat_engine(options());
    engine.chat("hello there").unwrap();
    engine.complete("z", &duan::CompleteOptions { max_tokens: Some(2), ..Default::default() }).unwrap();
    let second = engine.chat_with("and then", |_| ControlFlow::Continue(())).unwrap();
    assert_eq!(second.timings.cached_tokens, 0);
    let (_other_folder, mut other) = chat_engine(options());
    other.chat("hello there").unwrap();
    assert_eq!(other.chat("and then").unwrap(), second.text);
}
