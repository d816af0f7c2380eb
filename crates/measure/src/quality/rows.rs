//! One row of logits: what it says of the token that came, and how far it is from the reference's row.

use std::thread;

/// A row of logits has a number that is none.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("row {row} has a logit that is not finite")]
pub struct NotFinite {
    /// Index of the row.
    pub row: usize,
}

/// What a row of logits says of the token that came.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Score {
    /// Natural logarithm of the token's probability.
    pub log_probability: f64,
    /// `ln(sum(exp(logit)))`: what a logit is above its log-probability.
    pub log_sum: f64,
    /// The likeliest token, of equals the first.
    pub top: u32,
}

/// How far a row is from the reference's.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Comparison {
    /// Kullback-Leibler divergence of the model from the reference, in nats: `sum(p * (ln p - ln q))` with the reference's `p`.
    pub divergence: f64,
    /// Whether both find the same token the likeliest.
    pub same_top: bool,
}

/// Scores a row of logits [vocab_size] with the token that came. None where a logit is not finite. Panics where the token is not in
/// the row.
pub fn score(logits: &[f32], target: u32) -> Option<Score> {
    let (mut top, mut is_finite) = (0, true);
    for (token, &logit) in logits.iter().enumerate() {
        is_finite &= logit.is_finite();
        if logit > logits[top] {
            top = token;
        }
    }
    let target = f64::from(logits[target as usize]);
    if !is_finite {
        return None;
    }
    // Beside the largest logit every exponential is at most 1.
    let largest = f64::from(logits[top]);
    let sum: f64 = logits.iter().map(|&logit| (f64::from(logit) - largest).exp()).sum();
    let log_sum = largest + sum.ln();
    Some(Score { log_probability: target - log_sum, log_sum, top: top as u32 })
}

/// Compares a row of logits [vocab_size] with the reference's, both with their scores.
pub fn compare(reference: (&[f32], &Score), model: (&[f32], &Score)) -> Comparison {
    let ((p, of_p), (q, of_q)) = (reference, model);
    let terms = p.iter().zip(q).map(|(&p, &q)| {
        let ln_p = f64::from(p) - of_p.log_sum;
        ln_p.exp() * (ln_p - (f64::from(q) - of_q.log_sum))
    });
    // Never below 0 but for rounding.
    Comparison { divergence: terms.sum::<f64>().max(0.0), same_top: of_p.top == of_q.top }
}

/// [`score`] for rows of logits [targets, vocab_size], on so many threads.
///
/// # Errors
/// The first row with a logit that is not finite.
pub fn score_rows(logits: &[f32], targets: &[u32], threads: usize) -> Result<Vec<Score>, NotFinite> {
    let width = logits.len() / targets.len().max(1);
    let row = |row: usize| score(&logits[row * width..(row + 1) * width], targets[row]);
    let scores = in_parallel(targets.len(), threads, row).into_iter().enumerate();
    scores.map(|(row, score)| score.ok_or(NotFinite { row })).collect()
}

/// [`compare`] for rows of logits [scores, vocab_size], on so many threads.
pub fn compare_rows(reference: (&[f32], &[Score]), model: (&[f32], &[Score]), threads: usize) -> Vec<Comparison> {
    let ((p, of_p), (q, of_q)) = (reference, model);
    let width = p.len() / of_p.len().max(1);
    in_parallel(of_p.len(), threads, |row| {
        let place = row * width..(row + 1) * width;
        compare((&p[place.clone()], &of_p[row]), (&q[place], &of_q[row]))
    })
}

/// `work` of each index, in order.
fn in_parallel<T: Send>(count: usize, threads: usize, work: impl Fn(usize) -> T + Sync) -> Vec<T> {
    let each = count.div_ceil(threads.max(1)).max(1);
    let work = &work;
    let parts: Vec<Vec<T>> = thread::scope(|scope| {
        // The caller's thread does the first part itself.
        let others: Vec<_> = (each..count)
            .step_by(each)
            .map(|first| scope.spawn(move || (first..count.min(first + each)).map(work).collect()))
            .collect();
        let first = (0..count.min(each)).map(work).collect();
        let others =
            others.into_iter().map(|other| other.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic)));
        std::iter::once(first).chain(others).collect()
    });
    parts.into_iter().flatten().collect()
}
