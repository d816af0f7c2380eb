//! Mixtures of experts: which experts each row chose, who computes what, and the weighted sums.

use crate::simd::{Simd, Task};

/// Chooses the experts of one row: `chosen` gets their indices, then their weights, largest first. `scores` [experts],
/// `chosen` [2 * used].
pub(crate) fn route(scores: &[f32], normalize: bool, chosen: &mut [f32]) {
    let (indices, weights) = chosen.split_at_mut(chosen.len() / 2);
    let mut last: Option<usize> = None;
    for index in indices.iter_mut() {
        let best = next_best(scores, last);
        *index = best as f32;
        last = Some(best);
    }
    let largest = scores.iter().copied().fold(f32::NEG_INFINITY, f32::max);
    let exponential = |score: f32| f64::from(score - largest).exp();
    let total: f64 = if normalize {
        indices.iter().map(|&index| exponential(scores[index as usize])).sum()
    } else {
        scores.iter().map(|&score| exponential(score)).sum()
    };
    for (weight, index) in weights.iter_mut().zip(indices) {
        *weight = (exponential(scores[*index as usize]) / total) as f32;
    }
}

/// The largest score behind that of `last`; of equals the first.
fn next_best(scores: &[f32], last: Option<usize>) -> usize {
    let comes_before = |a: usize, b: usize| scores[a].total_cmp(&scores[b]).reverse().then(a.cmp(&b)).is_lt();
    let left = (0..scores.len()).filter(|&index| last.is_none_or(|last| comes_before(last, index)));
    left.reduce(|best, index| if comes_before(index, best) { index } else { best }).unwrap_or(0)
}

/// The choices of a pass, sorted by expert. Everything is sized at load.
#[derive(Debug)]
pub(crate) struct Assignment {
    /// Choices (row * used + place), those of an expert side by side, in order [rows * used].
    choices: Vec<u32>,
    /// Rows of the choices [rows * used].
    rows: Vec<u32>,
    /// Where each expert's choices begin [experts + 1].
    starts: Vec<u32>,
    /// Experts that were chosen at all.
    active: Vec<u32>,
}

impl Assignment {
    /// Room for `choices` choices among `experts`.
    pub(crate) fn new(choices: usize, experts: usize) -> Self {
        Self {
            choices: vec![0; choices],
            rows: vec![0; choices],
            starts: vec![0; experts + 1],
            active: Vec::with_capacity(experts),
        }
    }

    /// Bytes held.
    pub(crate) fn bytes(&self) -> usize {
        (self.choices.len() + self.rows.len() + self.starts.len() + self.active.capacity()) * size_of::<u32>()
    }

    /// Sorts the choices of `chosen` [rows, 2 * used] among `experts`.
    pub(crate) fn sort(&mut self, chosen: &[f32], used: usize, experts: usize) {
        let starts = &mut self.starts[..=experts];
        starts.fill(0);
        let expert_of = |index: f32| (index as usize).min(experts - 1);
        let indices = || chosen.chunks_exact(2 * used).flat_map(|row| &row[..used]).map(|&index| expert_of(index));
        indices().for_each(|expert| starts[expert + 1] += 1);
        self.active.clear();
        for expert in 0..experts {
            if starts[expert + 1] > 0 {
                self.active.push(expert as u32);
            }
            starts[expert + 1] += starts[expert];
        }
        // Each expert's start moves to its end while its choices are placed, which is the next one's start.
        for (choice, expert) in indices().enumerate() {
            let place = starts[expert] as usize;
            self.choices[place] = choice as u32;
            self.rows[place] = (choice / used) as u32;
            starts[expert] += 1;
        }
        starts.copy_within(..experts, 1);
        starts[0] = 0;
    }

    /// Experts that were chosen.
    pub(crate) fn active(&self) -> &[u32] {
        &self.active
    }

    /// An expert's choices, and their rows.
    pub(crate) fn of(&self, expert: usize) -> (&[u32], &[u32]) {
        let range = self.starts[expert] as usize..self.starts[expert + 1] as usize;
        (&self.choices[range.clone()], &self.rows[range])
    }
}

/// Weighted sums of the experts' results.
pub(crate) struct Mix<'a> {
    /// [rows, used, width]
    pub(crate) input: &'a [f32],
    /// [rows, 2 * used]
    pub(crate) chosen: &'a [f32],
    pub(crate) used: usize,
    pub(crate) width: usize,
    /// [rows, width]
    pub(crate) out: &'a mut [f32],
}

impl Task for Mix<'_> {
    type Output = ();

    #[inline(always)]
    fn run<S: Simd>(self, _: S) {
        let Self { input, chosen, used, width, out } = self;
        let rows = out.chunks_exact_mut(width).zip(input.chunks_exact(used * width)).zip(chosen.chunks_exact(2 * used));
        for ((out, input), chosen) in rows {
            out.fill(0.0);
            for (input, weight) in input.chunks_exact(width).zip(&chosen[used..]) {
                out.iter_mut().zip(input).for_each(|(out, x)| *out += weight * x);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_largest_are_chosen_and_the_first_of_equals() {
        let mut chosen = [0.0; 6];
        route(&[1.0, 3.0, 3.0, -1.0, 3.0], true, &mut chosen);
        assert_eq!(chosen[..3], [1.0, 2.0, 4.0]);
        assert!((chosen[3] - 1.0 / 3.0).abs() < 1e-6 && chosen[3] == chosen[5]);
        route(&[0.0; 5], false, &mut chosen);
        assert_eq!(chosen, [0.0, 1.0, 2.0, 0.2, 0.2, 0.2]);
        // Nothing that a model computes leads out of range.
        route(&[f32::NAN, 1.0, f32::NEG_INFINITY], true, &mut chosen[..4]);
        assert!(chosen[..2].iter().all(|&index| index < 3.0));
    }

    #[test]
    fn choices_are_sorted_by_expert() {
        let mut assignment = Assignment::new(6, 4);
        assignment.sort(&[2.0, 0.0, 0.5, 0.5, 0.0, 3.0, 0.5, 0.5, 2.0, 0.0, 0.5, 0.5], 2, 4);
        assert_eq!(assignment.active(), [0, 2, 3]);
        assert_eq!(assignment.of(0), (&[1, 2, 5][..], &[0, 1, 2][..]));
        assert_eq!(assignment.of(1), (&[][..], &[][..]));
        assert_eq!(assignment.of(2), (&[0, 4][..], &[0, 2][..]));
        assert_eq!(assignment.of(3), (&[3][..], &[1][..]));
    }

    proptest::proptest! {
        /// Kernels write the results of each choice without looking, so each must stand in the lists once.
        #[test]
        fn every_choice_is_in_one_list_once(chosen in proptest::collection::vec(-2.0f32..12.0, 1..120)) {
            let (used, experts) = (3, 8);
            let rows = chosen.len() / used;
            let weights = [0.5, f32::NAN, 0.1];
            let chosen: Vec<f32> = chosen.chunks_exact(used).flat_map(|row| row.iter().chain(&weights)).copied().collect();
            let mut assignment = Assignment::new(rows * used, experts);
            assignment.sort(&chosen, used, experts);
            let lists = assignment.active().iter().map(|&expert| assignment.of(expert as usize));
            let mut all: Vec<u32> = lists.clone().flat_map(|(choices, _)| choices.to_vec()).collect();
            all.sort_unstable();
            proptest::prop_assert_eq!(all, (0..(rows * used) as u32).collect::<Vec<_>>());
            for (choices, rows) in lists {
                proptest::prop_assert!(choices.iter().zip(rows).all(|(choice, row)| choice / used as u32 == *row));
            }
        }
    }
}
