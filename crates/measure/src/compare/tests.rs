//! The questions, and what a difference says.

use duan_system::{Reading, State};

use super::*;
use crate::records::tests::{decode, head, prefill};

fn side(results: Vec<Measured>, change: impl FnOnce(&mut Head)) -> Side {
    let mut head =
        Head { temperature_before_millicelsius: Some(40_000), temperature_after_millicelsius: Some(42_000), ..head() };
    change(&mut head);
    Side { name: "1".into(), id: Some(1), head, results, state: state(|_| ()) }
}

/// A machine with some settings, as a report has it.
fn state(change: impl FnOnce(&mut State)) -> Value {
    let mut state = State::default();
    state.processor.model = Reading::Known("A Processor".into());
    state.power.profile = Reading::Known("balanced".into());
    change(&mut state);
    serde_json::to_value(state).unwrap()
}

fn figures() -> Vec<Measured> {
    vec![prefill(&[400.0, 402.0, 401.0, 399.0, 400.5]), decode(&[70.0, 71.0, 70.5, 69.5, 70.2])]
}

fn same() -> Side {
    side(figures(), |_| ())
}

/// The answers to the five questions, for a side that differs from another in one thing.
fn answers(change: impl FnOnce(&mut Head)) -> [Answer; 5] {
    let found = compare(&same(), &side(figures(), change));
    let answers: Vec<Answer> = found.questions.iter().map(|question| question.answer).collect();
    assert_eq!(found.comparable, Answer::of_all(answers.iter().copied()));
    answers.try_into().unwrap()
}

use Answer::{No, Unknown, Yes};

#[test]
fn five_questions_each_have_their_answer() {
    let names: Vec<&str> = compare(&same(), &same()).questions.iter().map(|question| question.name).collect();
    assert_eq!(names, ["model", "threads", "backend", "warm", "metric"]);
    assert_eq!(answers(|_| ()), [Yes; 5]);
    // The name of the file says nothing where its hash is known.
    assert_eq!(answers(|head| head.model_type = "x".into()), [Yes; 5]);
    assert_eq!(answers(|head| head.model_sha256 = Some("cd".repeat(32))), [No, Yes, Yes, Yes, Yes]);
    assert_eq!(answers(|head| head.model_sha256 = None), [Unknown, Yes, Yes, Yes, Yes]);
    assert_eq!(answers(|head| head.type_k = "q8_0".into()), [No, Yes, Yes, Yes, Yes]);
    assert_eq!(answers(|head| head.type_k = "F16".into()), [Yes; 5]);
    assert_eq!(answers(|head| head.n_ctx = Some(1)), [No, Yes, Yes, Yes, Yes]);
    assert_eq!(answers(|head| head.threads_decode = Some(3)), [Yes, No, Yes, Yes, Yes]);
    assert_eq!(answers(|head| head.threads_prefill = None), [Yes, Unknown, Yes, Yes, Yes]);
    assert_eq!(answers(|head| head.pinning = Some("fast cores".into())), [Yes, No, Yes, Yes, Yes]);
    assert_eq!(answers(|head| head.doubtful = Some(vec!["steal".into()])), [Yes, No, Yes, Yes, Yes]);
    assert_eq!(answers(|head| head.doubtful = None), [Yes, Unknown, Yes, Yes, Yes]);
    assert_eq!(answers(|head| head.backend = "reference".into()), [Yes, Yes, No, Yes, Yes]);
    assert_eq!(answers(|head| head.fallbacks = Some(vec!["rope".into()])), [Yes, Yes, No, Yes, Yes]);
    assert_eq!(answers(|head| head.isa = Some("avx512".into())), [Yes, Yes, No, Yes, Yes]);
    assert_eq!(answers(|head| head.warm_up_runs = Some(0)), [Yes, Yes, Yes, No, Yes]);
    assert_eq!(answers(|head| head.temperature_after_millicelsius = Some(45_001)), [Yes, Yes, Yes, No, Yes]);
    assert_eq!(answers(|head| head.temperature_after_millicelsius = Some(45_000)), [Yes; 5]);
    assert_eq!(answers(|head| head.temperature_before_millicelsius = None), [Yes, Yes, Yes, Unknown, Yes]);
}

#[test]
fn settings_of_the_machine_belong_to_the_question_of_limits() {
    let part = |state: Value| {
        let found = compare(&same(), &Side { state, ..same() });
        let part = found.questions[1].parts.iter().find(|part| part.name == "state of the machine").unwrap().clone();
        assert_eq!(found.questions[1].answer, part.answer);
        (part.answer, part.a, part.b)
    };
    let some = |text: &str| Some(text.to_owned());
    assert_eq!(part(state(|_| ())), (Yes, some("no setting differs"), some("no setting differs")));
    let saver = state(|state| state.power.profile = Reading::Known("power-saver".into()));
    assert_eq!(part(saver), (No, some("power profile balanced"), some("power profile power-saver")));
    let unread = state(|state| state.power.profile = Reading::NotReadable("denied".into()));
    assert_eq!(part(unread), (Unknown, some("power profile balanced"), some("power profile not readable")));
    // A report of an older duan, or of another engine.
    for none in [Value::Null, serde_json::json!({}), serde_json::json!([]), serde_json::json!("x")] {
        assert_eq!(part(none), (Unknown, None, None));
    }
}

#[test]
fn without_a_hash_other_sizes_are_another_model() {
    let other = |head: &mut Head| {
        head.model_sha256 = None;
        head.model_size = Some(1);
    };
    assert_eq!(answers(other)[0], No);
    // Engines name types in their own ways.
    let foreign = |head: &mut Head| {
        head.engine = "llama.cpp".into();
        head.model_sha256 = None;
        head.model_type = "llama ?B Q4_1".into();
        head.isa = None;
    };
    assert_eq!(answers(foreign), [Unknown, Yes, Yes, Yes, Yes]);
}

#[test]
fn a_decode_rate_is_not_compared_with_a_time() {
    let first_token = Measured::new("first token", [0; 3], "ms", vec![35.0; 3]);
    let found = compare(&same(), &side(vec![first_token.clone()], |_| ()));
    assert_eq!(found.questions[4].answer, No);
    assert_eq!((found.tests.len(), &*found.only_b), (0, &["first token".to_owned()][..]));
    assert_eq!(found.only_a, ["pp512", "tg128"]);
    let part = &found.questions[4].parts[0];
    assert_eq!(part.a.as_deref(), Some("pp512 in tokens/s, tg128 in tokens/s"));
    // The same name in another unit is another figure.
    let in_ms = Measured { unit: "ms".into(), ..decode(&[1.0]) };
    assert_eq!(compare(&same(), &side(vec![in_ms], |_| ())).questions[4].answer, No);
    // Two of prefill alone are the same metric, two of different decodes are not.
    let only_prefill = compare(&same(), &side(vec![prefill(&[1.0; 3])], |_| ()));
    assert_eq!((only_prefill.questions[4].answer, &*only_prefill.only_a), (Yes, &["tg128".to_owned()][..]));
    let deeper = Measured { test: "tg128 @ d4096".into(), n_depth: 4096, ..decode(&[1.0; 3]) };
    let deeper = compare(&same(), &side(vec![prefill(&[1.0; 3]), deeper], |_| ()));
    assert_eq!((deeper.questions[4].answer, deeper.tests.len()), (No, 1));
}

#[test]
fn a_difference_is_better_worse_or_noise() {
    let verdict = |a: Measured, b: Measured| {
        let found = compare(&side(vec![a], |_| ()), &side(vec![b], |_| ()));
        (found.tests[0].verdict, found.tests[0].low.is_some())
    };
    let fast = || decode(&[80.0, 81.0, 79.0, 80.5, 80.1]);
    let slow = || decode(&[70.0, 71.0, 70.5, 69.5, 70.2]);
    assert_eq!(verdict(slow(), fast()), (Verdict::Better, true));
    assert_eq!(verdict(fast(), slow()), (Verdict::Worse, true));
    assert_eq!(verdict(fast(), fast()), (Verdict::WithinNoise, true));
    assert_eq!(verdict(decode(&[70.0]), fast()), (Verdict::TooFewSamples, false));
    assert_eq!(verdict(decode(&[0.0; 5]), fast()), (Verdict::NoRatio, false));
    // Of a time less is better.
    let ms = |figure: Measured| Measured { unit: "ms".into(), ..figure };
    assert_eq!(verdict(ms(slow()), ms(fast())), (Verdict::Worse, true));
    assert_eq!(verdict(ms(fast()), ms(slow())), (Verdict::Better, true));
    let found = compare(&side(vec![slow()], |_| ()), &side(vec![fast()], |_| ()));
    let test = &found.tests[0];
    assert!((test.ratio.unwrap() - 80.1 / 70.2).abs() < 0.01, "{test:?}");
    assert_eq!((test.a, test.b, test.samples_a, test.samples_b), (70.2, 80.1, 5, 5));
}

#[test]
fn several_answers_are_one() {
    assert_eq!(Answer::of_all([]), Yes);
    assert_eq!(Answer::of_all([Yes, Unknown]), Unknown);
    assert_eq!(Answer::of_all([Unknown, No, Yes]), No);
}
