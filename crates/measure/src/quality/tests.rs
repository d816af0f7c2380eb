//! Figures against numbers computed by hand, and against NumPy's.

use serde::Deserialize;

use super::windows::{Step, scored, steps, window};
use super::*;

fn close(found: f64, expected: f64, what: &str) {
    assert!((found - expected).abs() <= 1e-12 * expected.abs().max(1.0), "{what}: {found}, expected {expected}");
}

fn are(found: Estimate, expected: [f64; 2], what: &str) {
    close(found.value, expected[0], what);
    close(found.error, expected[1], what);
}

/// Made by `tests/fixtures/generate.py`.
#[derive(Deserialize)]
struct Fixture {
    vocab_size: usize,
    reference: Vec<f32>,
    model: Vec<f32>,
    targets: Vec<u32>,
    log_probabilities: Vec<f64>,
    divergences: Vec<f64>,
    perplexity: [f64; 2],
    reference_perplexity: [f64; 2],
    perplexity_ratio: [f64; 2],
    kl_mean: [f64; 2],
    kl_median: [f64; 2],
    kl_p99: [f64; 2],
    top1_agreement: [f64; 2],
}

fn fixture() -> Fixture {
    serde_json::from_str(include_str!("../../tests/fixtures/figures.json")).unwrap()
}

fn tallies(fixture: &Fixture, threads: usize) -> [Tally; 2] {
    let scores = |logits: &[f32]| score_rows(logits, &fixture.targets, threads).unwrap();
    let (of_reference, of_model) = (scores(&fixture.reference), scores(&fixture.model));
    let comparisons = compare_rows((&fixture.reference, &of_reference), (&fixture.model, &of_model), threads);
    for (row, (score, comparison)) in of_model.iter().zip(&comparisons).enumerate() {
        close(score.log_probability, fixture.log_probabilities[row], "log-probability");
        close(comparison.divergence, fixture.divergences[row], "divergence");
    }
    let (mut reference, mut model) = (Tally::default(), Tally::default());
    reference.score(&of_reference);
    model.score(&of_model);
    model.compare(&comparisons);
    [reference, model]
}

#[test]
fn figures_are_those_of_numpy() {
    let fixture = fixture();
    for threads in [1, 3, 64] {
        let [reference, model] = tallies(&fixture, threads);
        assert_eq!(model.tokens(), fixture.targets.len());
        let figures = model.figures(Some(&reference));
        are(figures.perplexity, fixture.perplexity, "perplexity");
        let beside = figures.beside.unwrap();
        are(beside.perplexity, fixture.reference_perplexity, "the reference's");
        are(beside.perplexity_ratio, fixture.perplexity_ratio, "ratio");
        are(beside.kl_mean, fixture.kl_mean, "mean");
        are(beside.kl_median, fixture.kl_median, "median");
        are(beside.kl_p99, fixture.kl_p99, "99 %");
        are(beside.top1_agreement, fixture.top1_agreement, "agreement");
        assert!(model.figures(None).beside.is_none());
    }
}

#[test]
fn a_row_is_scored_as_by_hand() {
    // 1, 2 and 1 parts of 4.
    let logits = [5.0, 5.0 + std::f32::consts::LN_2, 5.0];
    let scored = score(&logits, 0).unwrap();
    assert!((scored.log_probability - 0.25f64.ln()).abs() < 1e-7);
    assert!((scored.log_sum - (5.0 + 4f64.ln())).abs() < 1e-6);
    assert_eq!(scored.top, 1);
    assert_eq!(score(&[1.0, 3.0, 3.0], 0).unwrap().top, 1, "the first of equals");
    // Far apart, nothing overflows and nothing is lost.
    let far = score(&[-3e38, 3e38], 1).unwrap();
    assert_eq!(far.log_probability, 0.0);
    assert!((score(&[0.0; 7], 3).unwrap().log_probability + 7f64.ln()).abs() < 1e-15);
}

#[test]
fn divergence_is_that_of_the_model_from_the_reference() {
    // 1/2 ln(1/2 / 1/4) + 1/2 ln(1/2 / 3/4), which is not what the other direction gives.
    let (p, q) = ([0.0f32, 0.0], [0.0, 3f32.ln()]);
    let (of_p, of_q) = (score(&p, 0).unwrap(), score(&q, 0).unwrap());
    let found = compare((&p, &of_p), (&q, &of_q));
    assert!((found.divergence - 0.5 * (4.0f64 / 3.0).ln()).abs() < 1e-7, "{found:?}");
    assert!(!found.same_top);
    assert_eq!(compare((&q, &of_q), (&q, &of_q)), Comparison { divergence: 0.0, same_top: true });
}

#[test]
fn a_logit_that_is_no_number_is_told_with_its_row() {
    for wrong in [f32::NAN, f32::INFINITY, f32::NEG_INFINITY] {
        assert_eq!(score(&[0.0, wrong], 0), None);
        let logits = [0.0, 1.0, 0.0, wrong, wrong, 0.0];
        assert_eq!(score_rows(&logits, &[0, 0, 0], 2), Err(NotFinite { row: 1 }));
    }
    assert_eq!(score_rows(&[], &[], 2), Ok(Vec::new()));
}

#[test]
fn errors_are_those_of_the_books() {
    // Deviation 1 (divided by the number), over the root of one less than two.
    assert_eq!(mean([1.0, 3.0].into_iter()), Estimate { value: 2.0, error: 1.0 });
    assert_eq!(mean([4.0].into_iter()), Estimate { value: 4.0, error: 0.0 });
    assert_eq!(mean([].into_iter()), Estimate { value: 0.0, error: 0.0 });
    assert_eq!(share(1, 2), Estimate { value: 0.5, error: 0.5 });
    assert_eq!(share(3, 3), Estimate { value: 1.0, error: 0.0 });
    assert_eq!(share(0, 0), Estimate { value: 0.0, error: 0.0 });
    // Five samples: the median is the third, its share has an error of 0.5 / sqrt(5), so of 0.894 samples.
    let median = quantile(&[1.0, 2.0, 4.0, 8.0, 16.0], 0.5);
    assert_eq!(median.value, 4.0);
    let aside = 4.0 * 0.5 / 5f64.sqrt();
    assert!((median.error - ((4.0 + 4.0 * aside) - (4.0 - 2.0 * aside)) / 2.0).abs() < 1e-12);
    assert_eq!(quantile(&[], 0.5).value, 0.0);
    assert_eq!(quantile(&[7.0], 0.99), Estimate { value: 7.0, error: 0.0 });
}

#[test]
fn a_kept_row_is_nearly_as_it_was() {
    let fixture = fixture();
    for (row, logits) in fixture.reference.chunks_exact(fixture.vocab_size).enumerate() {
        let before = score(logits, fixture.targets[row]).unwrap();
        let mut bytes = vec![0xAA];
        compact::write(logits, before.top, &mut bytes);
        assert_eq!(bytes.len(), 1 + compact::row_bytes(logits.len()));
        let mut kept = vec![0.0; logits.len()];
        assert_eq!(compact::read(&bytes[1..], &mut kept), before.top);
        let after = Score { top: before.top, ..score(&kept, fixture.targets[row]).unwrap() };
        let comparison = compare((&kept, &after), (logits, &before));
        assert!(comparison.divergence < 1e-7 && comparison.same_top, "{comparison:?}");
    }
    // Equal logits, and the widest distance that there is.
    for logits in [[2.5f32; 3], [f32::MIN, 0.0, f32::MAX]] {
        let (mut bytes, mut kept) = (Vec::new(), [0.0; 3]);
        compact::write(&logits, 2, &mut bytes);
        assert_eq!(compact::read(&bytes, &mut kept), 2);
        assert!(
            kept.iter().zip(logits).all(|(kept, logit)| (kept / 2.0 - logit / 2.0).abs() <= f32::MAX / 65535.0),
            "{kept:?}"
        );
    }
}

#[test]
fn windows_stand_one_behind_the_other() {
    let tokens: Vec<u32> = (0..11).collect();
    assert_eq!(window(&tokens, 0, 4, None), Some(vec![0, 1, 2, 3]));
    assert_eq!(window(&tokens, 1, 4, Some(99)), Some(vec![99, 5, 6, 7]));
    assert_eq!(window(&tokens, 2, 4, None), None, "what is left is no window");
    assert_eq!(window(&tokens, usize::MAX, 4, None), None);
    // Of 512 positions 256 to 510 are scored: 255 tokens, as llama-perplexity counts them.
    assert_eq!(scored(512), 256..511);
    assert_eq!(scored(2), 1..1);
}

#[test]
fn steps_go_through_a_window_once() {
    let step = |positions, wanted| Step { positions, wanted };
    assert_eq!(steps(512, 512, 300), [step(0..511, 255)]);
    assert_eq!(steps(512, 512, 200), [step(0..456, 200), step(456..511, 55)]);
    assert_eq!(steps(16, 5, 2), [step(0..5, 0), step(5..10, 2), step(10..12, 2), step(12..14, 2), step(14..15, 1)]);
    for (length, max_rows, max_wanted) in [(512, 7, 3), (513, 512, 8), (33, 100, 1), (4, 1, 1)] {
        let steps = steps(length, max_rows, max_wanted);
        let mut next = 0;
        for step in &steps {
            assert_eq!(step.positions.start, next);
            assert!(step.positions.len() <= max_rows && step.wanted <= max_wanted.min(step.positions.len()));
            next = step.positions.end;
        }
        assert_eq!(next, length - 1);
        assert_eq!(steps.iter().map(|step| step.wanted).sum::<usize>(), scored(length).len());
    }
}
