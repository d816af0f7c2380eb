//! The merge loop that byte-pair and SentencePiece-style tokenizers share.
//!
//! A text starts as a chain of small symbols; the best pair of neighbours is joined until no pair is left. A heap holds the
//! candidates, so that n symbols take O(n log n) time: there are at most n - 1 candidates at the start and two more for each
//! of at most n - 1 joins, and each is taken from the heap once. A candidate that is out of date is noticed when it is taken
//! out and costs nothing more.

use std::cmp::Reverse;
use std::collections::BinaryHeap;

/// Stands for "no symbol" in the chain and for "no token" in a symbol.
pub(super) const NONE: u32 = u32::MAX;

/// A piece of the text that is being merged.
#[derive(Debug, Clone, Copy)]
pub(super) struct Symbol {
    /// Where it starts, in bytes from the start of the text.
    pub(super) start: u32,
    /// How long it is; 0 once it was joined to its left neighbour.
    pub(super) bytes: u32,
    /// The token that it is, or [`NONE`].
    pub(super) token: u32,
    previous: u32,
    next: u32,
}

/// Two neighbours that may be joined. The greatest candidate is the next one: the smallest priority, then the leftmost.
#[derive(Debug, PartialEq, Eq, PartialOrd, Ord)]
struct Candidate {
    /// Priority in the upper half, index of the left symbol in the lower half.
    order: Reverse<u64>,
    /// Bytes of both symbols together. Symbols only grow, so a candidate whose bytes still add up is still up to date.
    bytes: u32,
    token: u32,
}

/// What a join would give: how early it comes (smaller is earlier) and which token it makes.
pub(super) type Join = (u32, u32);

/// Buffers of the merge loop, kept from one piece of text to the next.
#[derive(Debug, Default)]
pub(super) struct Merger {
    symbols: Vec<Symbol>,
    heap: BinaryHeap<Candidate>,
    /// Candidates taken from the heap so far: the loop's cost, which tests hold to be linear.
    pub(super) steps: u64,
}

impl Merger {
    /// Forgets the symbols of the last text.
    pub(super) fn clear(&mut self) {
        self.symbols.clear();
        self.heap.clear();
    }

    /// Appends a symbol of `bytes` > 0 bytes that follows the last one.
    pub(super) fn push(&mut self, bytes: u32, token: u32) {
        let index = self.symbols.len() as u32;
        let (start, previous) = match self.symbols.last_mut() {
            Some(last) => {
                last.next = index;
                (last.start + last.bytes, index - 1)
            }
            None => (0, NONE),
        };
        self.symbols.push(Symbol { start, bytes, token, previous, next: NONE });
    }

    /// Joins neighbours as long as `join` allows it for some pair.
    pub(super) fn merge(&mut self, join: impl Fn(&Symbol, &Symbol) -> Option<Join>) {
        for left in 1..self.symbols.len() as u32 {
            self.consider(left - 1, left, &join);
        }
        while let Some(Candidate { order: Reverse(order), bytes, token }) = self.heap.pop() {
            self.steps += 1;
            let left = order as u32;
            let (left_symbol, right) = (self.symbols[left as usize], self.symbols[left as usize].next);
            if left_symbol.bytes == 0 || right == NONE {
                continue;
            }
            let right_symbol = self.symbols[right as usize];
            if left_symbol.bytes + right_symbol.bytes != bytes {
                continue;
            }
            self.symbols[right as usize].bytes = 0;
            if right_symbol.next != NONE {
                self.symbols[right_symbol.next as usize].previous = left;
            }
            let joined = &mut self.symbols[left as usize];
            (joined.bytes, joined.token, joined.next) = (bytes, token, right_symbol.next);
            self.consider(left_symbol.previous, left, &join);
            self.consider(left, right_symbol.next, &join);
        }
    }

    fn consider(&mut self, left: u32, right: u32, join: &impl Fn(&Symbol, &Symbol) -> Option<Join>) {
        if left == NONE || right == NONE {
            return;
        }
        let (left_symbol, right_symbol) = (&self.symbols[left as usize], &self.symbols[right as usize]);
        if let Some((priority, token)) = join(left_symbol, right_symbol) {
            let order = Reverse(u64::from(priority) << 32 | u64::from(left));
            self.heap.push(Candidate { order, bytes: left_symbol.bytes + right_symbol.bytes, token });
        }
    }

    /// The symbols that are left, in order.
    pub(super) fn symbols(&self) -> impl Iterator<Item = &Symbol> {
        self.symbols.iter().filter(|symbol| symbol.bytes > 0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Joins by a list of (left, right, joined) in order of priority, over one-letter tokens.
    fn run(text: &str, rules: &[(u32, u32, u32)]) -> (Vec<u32>, u64) {
        let mut merger = Merger::default();
        for byte in text.bytes() {
            merger.push(1, u32::from(byte - b'a'));
        }
        merger.merge(|left, right| {
            let index = rules.iter().position(|&(a, b, _)| (a, b) == (left.token, right.token))?;
            Some((index as u32, rules[index].2))
        });
        (merger.symbols().map(|symbol| symbol.token).collect(), merger.steps)
    }

    #[test]
    fn the_best_pair_goes_first_and_the_leftmost_of_equals() {
        // b+c before a+b: "abc" is a, bc.
        assert_eq!(run("abc", &[(1, 2, 10), (0, 1, 11)]).0, [0, 10]);
        // a+a leftmost: "aaa" is aa, a.
        assert_eq!(run("aaa", &[(0, 0, 10)]).0, [10, 0]);
        // A join makes new pairs, also with a better priority than what is still waiting.
        assert_eq!(run("abab", &[(10, 10, 11), (0, 1, 10)]).0, [11]);
    }

    #[test]
    fn the_number_of_steps_is_linear() {
        let rules = [(0, 0, 1), (1, 1, 2), (2, 2, 3), (3, 3, 4), (4, 4, 5)];
        for length in [1_000u64, 10_000, 100_000] {
            let (tokens, steps) = run(&"a".repeat(length as usize), &rules);
            assert!(steps < 3 * length, "{steps} steps for {length} symbols");
            assert_eq!(tokens.iter().filter(|&&token| token == 5).count() as u64, length / 32);
        }
    }
}
