//! The sampler: options, a random stream and buffers that are kept from token to token.

use std::cmp::Ordering;
use std::collections::VecDeque;
use std::hash::{BuildHasher, RandomState};

use rand_chacha::ChaCha8Rng;
use rand_chacha::rand_core::{Rng, SeedableRng};

use super::options::SamplingOptions;
use crate::error::{Error, Result};

/// A token that can still be chosen.
#[derive(Debug, Clone, Copy, PartialEq)]
struct Candidate {
    token: u32,
    logit: f32,
}

/// The better candidate first; ties to the lowest id.
fn better_first(a: &Candidate, b: &Candidate) -> Ordering {
    b.logit.total_cmp(&a.logit).then(a.token.cmp(&b.token))
}

/// Chooses tokens of one answer.
///
/// The random stream is ChaCha8 with the seed's eight little-endian bytes as the start of its key and zeros after them:
/// a seed gives the same numbers on every machine and in every version.
#[derive(Debug, Clone)]
pub struct Sampler {
    options: SamplingOptions,
    seed: u64,
    random: ChaCha8Rng,
    vocab_size: usize,
    /// The last tokens, at most `penalty_window`.
    recent: VecDeque<u32>,
    /// How often each token is in `recent` `[vocab_size]`; empty without penalties.
    counts: Vec<u32>,
    /// Logits after the penalties `[vocab_size]`; empty without penalties.
    penalized: Vec<f32>,
    candidates: Vec<Candidate>,
    /// Of each candidate, in proportion: they need not add up to 1.
    weights: Vec<f64>,
}

impl Sampler {
    /// A sampler for a vocabulary, with all buffers it will ever need.
    ///
    /// # Errors
    /// When an option is out of its range.
    pub fn new(options: &SamplingOptions, vocab_size: usize) -> Result<Self> {
        options.validate()?;
        // The hasher's keys come from the system's random numbers, which is all the randomness a seed needs.
        let seed = options.seed.unwrap_or_else(|| RandomState::new().hash_one(0u64));
        let per_token = if options.has_penalties() { vocab_size } else { 0 };
        let most = if options.temperature == 0.0 {
            0
        } else if options.top_k == 0 {
            vocab_size
        } else {
            crowd(options.top_k).min(vocab_size)
        };
        Ok(Self {
            seed,
            random: random_stream(seed),
            vocab_size,
            recent: VecDeque::with_capacity(if options.has_penalties() { options.penalty_window } else { 0 }),
            counts: vec![0; per_token],
            penalized: vec![0.0; per_token],
            candidates: Vec::with_capacity(most),
            weights: Vec::with_capacity(most),
            options: options.clone(),
        })
    }

    /// The seed, chosen or given.
    pub fn seed(&self) -> u64 {
        self.seed
    }

    /// Notes a token as recent: of the prompt, or one that was chosen. Tokens outside of the vocabulary do not count.
    pub fn accept(&mut self, token: u32) {
        let Some(count) = self.counts.get_mut(token as usize) else { return };
        *count += 1;
        if self.recent.len() == self.options.penalty_window
            && let Some(oldest) = self.recent.pop_front()
        {
            self.counts[oldest as usize] -= 1;
        }
        self.recent.push_back(token);
    }

    /// Notes all tokens of a prompt.
    pub fn accept_all(&mut self, tokens: &[u32]) {
        let from = tokens.len().saturating_sub(self.options.penalty_window);
        tokens[from..].iter().for_each(|&token| self.accept(token));
    }

    /// Chooses from `logits` `[vocab_size]`. Does not note the token; see [`Sampler::accept`].
    ///
    /// # Errors
    /// When a logit is NaN or infinite, with the first such token. Panics when there are not `vocab_size` logits.
    pub fn sample(&mut self, logits: &[f32]) -> Result<u32> {
        assert_eq!(logits.len(), self.vocab_size, "one logit per token of the vocabulary");
        check_finite(logits)?;
        if !self.options.has_penalties() {
            return Ok(self.choose(logits));
        }
        // The buffer leaves `self` for a moment so that both can be borrowed; nothing is copied or allocated by that.
        let mut penalized = std::mem::take(&mut self.penalized);
        penalized.copy_from_slice(logits);
        self.penalize(logits, &mut penalized);
        let token = self.choose(&penalized);
        self.penalized = penalized;
        Ok(token)
    }

    /// Writes the penalized logit of each recent token; computed from the original one, so that a token that occurs
    /// several times is penalized once.
    fn penalize(&self, logits: &[f32], penalized: &mut [f32]) {
        let SamplingOptions { repetition_penalty, presence_penalty, frequency_penalty, .. } = self.options;
        for &token in &self.recent {
            let logit = logits[token as usize];
            let scaled = if logit > 0.0 { logit / repetition_penalty } else { logit * repetition_penalty };
            let taken_off = presence_penalty + frequency_penalty * self.counts[token as usize] as f32;
            penalized[token as usize] = (scaled - taken_off).clamp(f32::MIN, f32::MAX);
        }
    }

    fn choose(&mut self, logits: &[f32]) -> u32 {
        if self.options.temperature == 0.0 {
            return best(logits);
        }
        self.keep_top_k(logits);
        self.keep_top_p_and_min_p();
        self.draw()
    }

    /// Fills the candidates with the `top_k` best tokens, or with all in the order of their ids.
    fn keep_top_k(&mut self, logits: &[f32]) {
        let all = logits.iter().enumerate();
        // Adding 0 turns -0 into 0: the two are the same logit, and the total order must not tell them apart.
        let all = all.map(|(token, logit)| Candidate { token: token as u32, logit: logit + 0.0 });
        self.candidates.clear();
        let k = self.options.top_k;
        if k == 0 || k >= logits.len() {
            self.candidates.extend(all);
            return;
        }
        let mut floor = f32::NEG_INFINITY;
        for candidate in all {
            // What merely equals the floor comes later and so loses the tie.
            if candidate.logit <= floor {
                continue;
            }
            self.candidates.push(candidate);
            if self.candidates.len() == crowd(k) {
                floor = keep_best(&mut self.candidates, k);
            }
        }
        if self.candidates.len() > k {
            keep_best(&mut self.candidates, k);
        }
    }

    /// Keeps the best candidates up to `top_p`, and of these the ones that `min_p` allows.
    ///
    /// Both keep a head of the sorted list, so the order of the two does not matter as long as top-p counts the
    /// probability of all; min-p goes first here, because less is left to sort then.
    fn keep_top_p_and_min_p(&mut self) {
        let SamplingOptions { top_k, top_p, min_p, .. } = self.options;
        if top_k == 0 && top_p >= 1.0 && min_p == 0.0 {
            return;
        }
        let largest = self.candidates.iter().map(|candidate| candidate.logit).fold(f32::NEG_INFINITY, f32::max);
        let weight = |candidate: &Candidate| (f64::from(candidate.logit) - f64::from(largest)).exp();
        let total: f64 = if top_p < 1.0 { self.candidates.iter().map(weight).sum() } else { 0.0 };
        if min_p > 0.0 {
            self.candidates.retain(|candidate| weight(candidate) >= f64::from(min_p));
        }
        if top_p < 1.0 {
            let enough = f64::from(top_p) * total;
            let kept = sort_until(&mut self.candidates, enough, weight);
            self.candidates.truncate(kept);
        } else {
            self.candidates.sort_unstable_by(better_first);
        }
    }

    /// Draws one of the candidates by its probability at the temperature.
    fn draw(&mut self) -> u32 {
        let largest = self.candidates.iter().map(|candidate| candidate.logit).fold(f32::NEG_INFINITY, f32::max);
        let temperature = f64::from(self.options.temperature);
        let weight = |candidate: &Candidate| ((f64::from(candidate.logit) - f64::from(largest)) / temperature).exp();
        self.weights.clear();
        self.weights.extend(self.candidates.iter().map(weight));
        let total: f64 = self.weights.iter().sum();
        let mut left = unit_interval(&mut self.random) * total;
        for (candidate, weight) in self.candidates.iter().zip(&self.weights) {
            left -= weight;
            if left < 0.0 {
                return candidate.token;
            }
        }
        // Rounding may leave a rest; it belongs to the best candidate, which always has a weight of 1.
        self.candidates.iter().copied().min_by(better_first).map_or(0, |candidate| candidate.token)
    }
}

/// How many candidates gather before the best `k` of them are picked.
fn crowd(k: usize) -> usize {
    k.saturating_mul(2).max(64)
}

/// Keeps the best `k` candidates in any order, and returns the logit of the last of them. There are more than `k`.
fn keep_best(candidates: &mut Vec<Candidate>, k: usize) -> f32 {
    let (_, last, _) = candidates.select_nth_unstable_by(k - 1, better_first);
    let floor = last.logit;
    candidates.truncate(k);
    floor
}

/// Sorts the best candidates, and only as many as it takes until their weights reach `enough`, and returns how many these
/// are: at least one. Most of a large vocabulary is never sorted that way.
fn sort_until(candidates: &mut [Candidate], enough: f64, weight: impl Fn(&Candidate) -> f64) -> usize {
    let mut sum = 0.0;
    let mut sorted = 0;
    while sorted < candidates.len() {
        let rest = &mut candidates[sorted..];
        let count = rest.len().min(sorted.max(64));
        if count < rest.len() {
            rest.select_nth_unstable_by(count - 1, better_first);
        }
        rest[..count].sort_unstable_by(better_first);
        for (index, candidate) in rest[..count].iter().enumerate() {
            sum += weight(candidate);
            if sum >= enough {
                return sorted + index + 1;
            }
        }
        sorted += count;
    }
    sorted
}

/// The token of the largest logit, the lowest id among equals.
fn best(logits: &[f32]) -> u32 {
    let mut best = 0;
    for (token, &logit) in logits.iter().enumerate() {
        if logit > logits[best] {
            best = token;
        }
    }
    best as u32
}

fn check_finite(logits: &[f32]) -> Result<()> {
    // Without an early exit this runs at the speed of memory; the place is looked for only where there is one.
    if logits.iter().fold(true, |all, logit| all & logit.is_finite()) {
        return Ok(());
    }
    let token = logits.iter().position(|logit| !logit.is_finite()).unwrap_or(0);
    Err(Error::NonFiniteLogit { token, value: logits[token] })
}

fn random_stream(seed: u64) -> ChaCha8Rng {
    let mut key = [0; 32];
    key[..8].copy_from_slice(&seed.to_le_bytes());
    ChaCha8Rng::from_seed(key)
}

/// A number in 0..1 with 53 random bits.
fn unit_interval(random: &mut ChaCha8Rng) -> f64 {
    (random.next_u64() >> 11) as f64 / (1u64 << 53) as f64
}

#[cfg(test)]
#[path = "sampler_tests.rs"]
mod tests;
