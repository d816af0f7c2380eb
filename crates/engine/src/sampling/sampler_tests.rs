//! Tests of the sampler: worked examples, and properties against a naive sampler.

use proptest::prelude::*;

use super::*;

fn sampler(options: SamplingOptions, vocab_size: usize) -> Sampler {
    Sampler::new(&SamplingOptions { seed: Some(7), ..options }, vocab_size).unwrap()
}

/// Everything off but the temperature.
fn plain() -> SamplingOptions {
    SamplingOptions { temperature: 1.0, top_k: 0, top_p: 1.0, min_p: 0.0, ..SamplingOptions::default() }
}

#[test]
fn greedy_takes_the_largest_and_the_lowest_id_among_equals() {
    let mut greedy = sampler(SamplingOptions::greedy(), 5);
    assert_eq!(greedy.sample(&[0.0, 3.0, -1.0, 3.0, 2.0]).unwrap(), 1);
    assert_eq!(greedy.sample(&[-5.0, -4.0, -3.0, -2.0, -1.0]).unwrap(), 4);
    assert_eq!(greedy.sample(&[f32::MIN; 5]).unwrap(), 0);
    assert_eq!(greedy.sample(&[-0.0, 0.0, -0.0, 0.0, -1.0]).unwrap(), 0);
}

#[test]
fn logits_that_are_no_numbers_are_an_error_wherever_they_stand() {
    for options in [SamplingOptions::greedy(), SamplingOptions::default(), plain()] {
        let mut sampler = sampler(SamplingOptions { repetition_penalty: 1.1, ..options }, 9);
        for bad in [f32::NAN, f32::INFINITY, f32::NEG_INFINITY] {
            for place in [0, 4, 8] {
                let mut logits = [0.5; 9];
                logits[place] = bad;
                match sampler.sample(&logits) {
                    Err(Error::NonFiniteLogit { token, value }) => {
                        assert_eq!((token, value.to_bits()), (place, bad.to_bits()));
                    }
                    other => panic!("{other:?}"),
                }
            }
        }
        assert!(matches!(sampler.sample(&[f32::NEG_INFINITY; 9]), Err(Error::NonFiniteLogit { token: 0, .. })));
        // The next request is answered.
        assert!(sampler.sample(&[0.5; 9]).unwrap() < 9);
    }
}

#[test]
fn penalties_follow_their_formulas() {
    let options = SamplingOptions {
        repetition_penalty: 2.0,
        presence_penalty: 0.5,
        frequency_penalty: 0.25,
        penalty_window: 3,
        ..SamplingOptions::greedy()
    };
    let mut sampler = sampler(options, 4);
    sampler.accept_all(&[0, 0, 1, 2, 1]); // The window holds 1, 2, 1.
    let logits = [1.0, 4.0, -1.0, 0.0];
    let mut penalized = logits;
    sampler.penalize(&logits, &mut penalized);
    assert_eq!(penalized, [1.0, 4.0 / 2.0 - 0.5 - 0.5, -2.0 - 0.5 - 0.25, 0.0]);
    assert_eq!(sampler.sample(&logits).unwrap(), 0, "ties with token 1, lowest id");
    sampler.accept(3); // Now 2, 1, 3: token 1 counts once.
    assert_eq!(sampler.sample(&logits).unwrap(), 1);
}

#[test]
fn top_p_and_min_p_look_at_probabilities_before_the_temperature() {
    // Probabilities 0.5, 0.25, 0.125, 0.125.
    let logits = [0.5f32, 0.25, 0.125, 0.125].map(f32::ln);
    let kept = |options: SamplingOptions| {
        let mut sampler = sampler(SamplingOptions { temperature: 50.0, ..options }, 4);
        sampler.keep_top_k(&logits);
        sampler.keep_top_p_and_min_p();
        let mut tokens: Vec<u32> = sampler.candidates.iter().map(|candidate| candidate.token).collect();
        tokens.sort_unstable();
        tokens
    };
    assert_eq!(kept(SamplingOptions { top_p: 0.4, ..plain() }), [0]);
    assert_eq!(kept(SamplingOptions { top_p: 0.0, ..plain() }), [0]);
    assert_eq!(kept(SamplingOptions { top_p: 0.7, ..plain() }), [0, 1]);
    assert_eq!(kept(SamplingOptions { top_p: 0.8, ..plain() }), [0, 1, 2]);
    assert_eq!(kept(SamplingOptions { min_p: 0.4, ..plain() }), [0, 1]);
    assert_eq!(kept(SamplingOptions { min_p: 1.0, ..plain() }), [0]);
    assert_eq!(kept(SamplingOptions { min_p: 0.2, ..plain() }), [0, 1, 2, 3]);
    assert_eq!(kept(SamplingOptions { top_k: 3, ..plain() }), [0, 1, 2]);
    // Top-k comes first: of 0.5 and 0.25, two thirds belong to the best.
    assert_eq!(kept(SamplingOptions { top_k: 2, top_p: 0.6, ..plain() }), [0]);
    assert_eq!(kept(plain()), [0, 1, 2, 3]);
}

#[test]
fn the_random_stream_is_that_of_chacha8_and_does_not_change() {
    // The first numbers of the keystream are part of what a seed promises.
    let mut stream = random_stream(0);
    assert_eq!(stream.next_u64(), 0xd640_5f89_2fef_003e, "the known first bytes of ChaCha8 with a zero key");
    let options = SamplingOptions { seed: Some(42), ..plain() };
    let draw = || {
        let mut sampler = Sampler::new(&options, 1000).unwrap();
        (0..6).map(|_| sampler.sample(&[0.0; 1000]).unwrap()).collect::<Vec<_>>()
    };
    assert_eq!(draw(), draw());
    assert_eq!(draw(), FIRST_OF_SEED_42);
}

/// Uniform tokens of 1000 with seed 42, computed with a ChaCha8 written in another language.
const FIRST_OF_SEED_42: [u32; 6] = [348, 285, 493, 367, 825, 67];

#[test]
fn seeds_are_chosen_and_reported_when_none_is_given() {
    let one = Sampler::new(&plain(), 10).unwrap().seed();
    let two = Sampler::new(&plain(), 10).unwrap().seed();
    assert_ne!(one, two);
    assert_eq!(sampler(plain(), 10).seed(), 7);
}

#[test]
fn frequencies_follow_the_probabilities() {
    let mut sampler = sampler(SamplingOptions { temperature: 0.5, ..plain() }, 2);
    // At temperature 0.5 a difference of ln 2 becomes one of ln 4: 80 % to 20 %.
    let logits = [2f32.ln(), 0.0];
    let first = (0..10_000).filter(|_| sampler.sample(&logits).unwrap() == 0).count();
    assert!((7_800..8_200).contains(&first), "{first}");
}

#[test]
fn a_tiny_temperature_is_nearly_greedy_and_never_fails() {
    let mut sampler = sampler(SamplingOptions { temperature: f32::MIN_POSITIVE, ..plain() }, 4);
    assert_eq!(sampler.sample(&[1.0, 1.0001, f32::MIN, -1.0]).unwrap(), 1);
    assert_eq!(sampler.sample(&[f32::MIN, f32::MAX, 0.0, f32::MIN]).unwrap(), 1);
}

#[test]
fn buffers_do_not_grow_while_sampling() {
    let options = SamplingOptions { frequency_penalty: 0.1, penalty_window: 8, ..SamplingOptions::default() };
    for options in [options.clone(), SamplingOptions { top_k: 0, ..options }] {
        let mut sampler = sampler(options, 3000);
        let before = (sampler.candidates.capacity(), sampler.weights.capacity(), sampler.recent.capacity());
        let logits: Vec<f32> = (0..3000).map(|token| (token * 7919 % 3000) as f32 / 300.0).collect();
        for _ in 0..50 {
            let token = sampler.sample(&logits).unwrap();
            sampler.accept(token);
        }
        let after = (sampler.candidates.capacity(), sampler.weights.capacity(), sampler.recent.capacity());
        assert_eq!(before, after);
    }
}

/// What the sampler must be able to choose, written as plainly as possible: token ids in order.
fn naive_choices(logits: &[f32], options: &SamplingOptions) -> Vec<u32> {
    let mut sorted: Vec<(u32, f32)> = logits.iter().enumerate().map(|(token, &logit)| (token as u32, logit)).collect();
    sorted.sort_by(|a, b| b.1.partial_cmp(&a.1).unwrap().then(a.0.cmp(&b.0)));
    if options.top_k > 0 {
        sorted.truncate(options.top_k);
    }
    let weights: Vec<f64> = sorted.iter().map(|(_, logit)| f64::from(logit - sorted[0].1).exp()).collect();
    let total: f64 = weights.iter().sum();
    let mut sum = 0.0;
    let mut kept = Vec::new();
    for ((token, _), weight) in sorted.iter().zip(&weights) {
        // A token is kept while the ones before it have not reached top_p yet, and the best one always.
        let needed = kept.is_empty() || options.top_p >= 1.0 || sum < f64::from(options.top_p) * total;
        if needed && *weight >= f64::from(options.min_p) {
            kept.push(*token);
        }
        sum += weight;
    }
    kept.sort_unstable();
    kept
}

proptest! {
    #[test]
    fn candidates_are_those_of_a_naive_sampler(
        // Quarters make ties common and the sums of both sides equal to the bit often enough.
        quarters in proptest::collection::vec(-20i32..20, 1..300),
        top_k in 0usize..100,
        top_p in 0.0f32..=1.0,
        min_p in prop_oneof![Just(0.0f32), 0.0f32..=1.0],
    ) {
        let logits: Vec<f32> = quarters.iter().map(|&q| q as f32 / 4.0).collect();
        let options = SamplingOptions { top_k, top_p, min_p, ..plain() };
        let mut sampler = sampler(options.clone(), logits.len());
        sampler.keep_top_k(&logits);
        let mut top: Vec<u32> = sampler.candidates.iter().map(|candidate| candidate.token).collect();
        top.sort_unstable();
        prop_assert_eq!(top, naive_choices(&logits, &SamplingOptions { top_k, ..plain() }));
        sampler.keep_top_p_and_min_p();
        let filters = top_k > 0 || top_p < 1.0 || min_p > 0.0;
        prop_assert!(!filters || sampler.candidates.is_sorted_by(|a, b| better_first(a, b).is_lt()));
        let mut tokens: Vec<u32> = sampler.candidates.iter().map(|candidate| candidate.token).collect();
        tokens.sort_unstable();
        let naive = naive_choices(&logits, &options);
        // Sums in another order may put the border one token further.
        let difference = tokens.len().abs_diff(naive.len());
        prop_assert!(difference <= 1, "{:?} {:?}", tokens, naive);
        prop_assert!(tokens.iter().all(|token| naive.contains(token)) || naive.iter().all(|token| tokens.contains(token)));
        prop_assert!(tokens.contains(&sampler.draw()));
    }

    #[test]
    fn any_finite_logits_and_valid_options_give_a_token(
        logits in proptest::collection::vec(proptest::num::f32::NORMAL | proptest::num::f32::ZERO, 1..80),
        temperature in 0.0f32..=100.0,
        top_k in 0usize..100,
        top_p in 0.0f32..=1.0,
        min_p in 0.0f32..=1.0,
        repetition_penalty in 0.1f32..=10.0,
        presence_penalty in -100.0f32..=100.0,
        frequency_penalty in -100.0f32..=100.0,
        penalty_window in 0usize..20,
    ) {
        let options = SamplingOptions {
            temperature, top_k, top_p, min_p, repetition_penalty, presence_penalty, frequency_penalty, penalty_window,
            seed: Some(1),
        };
        let mut sampler = Sampler::new(&options, logits.len()).unwrap();
        for _ in 0..5 {
            let token = sampler.sample(&logits).unwrap();
            prop_assert!((token as usize) < logits.len());
            sampler.accept(token);
        }
    }

    #[test]
    fn counts_are_those_of_the_window(tokens in proptest::collection::vec(0u32..12, 0..60), window in 1usize..10) {
        let options = SamplingOptions { frequency_penalty: 1.0, penalty_window: window, ..plain() };
        let mut sampler = sampler(options, 10);
        tokens.iter().for_each(|&token| sampler.accept(token));
        let known: Vec<u32> = tokens.into_iter().filter(|&token| token < 10).collect();
        let last = &known[known.len().saturating_sub(window)..];
        for token in 0..10u32 {
            let count = last.iter().filter(|&&other| other == token).count();
            prop_assert_eq!(sampler.counts[token as usize] as usize, count);
        }
    }
}
