//! Finding all tokens with which a text begins.

use super::vocabulary::Vocabulary;

/// Tokens by their bytes, sorted, so that those with which a text begins are found by narrowing a range byte by byte.
#[derive(Debug)]
pub(super) struct Prefixes {
    /// Ids in order of their bytes; of equal tokens only the first.
    ids: Vec<u32>,
    /// Where the tokens of each first byte begin; one more at the end.
    starts: [u32; 257],
}

impl Prefixes {
    /// For the tokens of `ids`, which are ascending; those without bytes are left out.
    pub(super) fn new(vocabulary: &Vocabulary, ids: impl Iterator<Item = u32>) -> Prefixes {
        let mut ids: Vec<u32> = ids.filter(|&id| !vocabulary.key(id).is_empty()).collect();
        ids.sort_by_key(|&id| vocabulary.key(id));
        ids.dedup_by_key(|id| vocabulary.key(*id));
        let mut starts = [ids.len() as u32; 257];
        for (index, &id) in ids.iter().enumerate().rev() {
            starts[vocabulary.key(id)[0] as usize] = index as u32;
        }
        for byte in (0..256).rev() {
            starts[byte] = starts[byte].min(starts[byte + 1]);
        }
        Prefixes { ids, starts }
    }

    /// Calls `found` with each token with which `text` begins and its length in bytes, shortest first. The result is the
    /// number of bytes that were looked at: at most one more than the longest token has.
    pub(super) fn find(&self, vocabulary: &Vocabulary, text: &[u8], mut found: impl FnMut(u32, usize)) -> u64 {
        let Some(&first) = text.first() else { return 0 };
        let mut range = &self.ids[self.starts[first as usize] as usize..self.starts[first as usize + 1] as usize];
        let mut depth = 1;
        // All tokens of the range begin with the first `depth` bytes of the text; the shortest stands first.
        while let Some(&id) = range.first() {
            if vocabulary.key(id).len() == depth {
                found(id, depth);
                range = &range[1..];
            }
            let Some(&next) = text.get(depth) else { break };
            let from = range.partition_point(|&id| vocabulary.key(id)[depth] < next);
            range = &range[from..];
            range = &range[..range.partition_point(|&id| vocabulary.key(id)[depth] == next)];
            depth += 1;
        }
        depth as u64
    }
}

#[cfg(test)]
mod tests {
    use super::super::vocabulary::{Spelling, TokenKind};
    use super::*;

    #[test]
    fn all_beginnings_are_found() {
        let tokens = ["abc", "a", "ab", "b", "", "a", "ac", "abd", "é"];
        let kinds = vec![TokenKind::Normal; tokens.len()];
        let vocabulary = Vocabulary::new(tokens.iter().collect(), kinds, Spelling::Metaspace);
        let prefixes = Prefixes::new(&vocabulary, 0..tokens.len() as u32);
        let find = |text: &str| {
            let mut found = Vec::new();
            let steps = prefixes.find(&vocabulary, text.as_bytes(), |id, bytes| found.push((id, bytes)));
            (found, steps)
        };
        assert_eq!(find("abcabc"), (vec![(1, 1), (2, 2), (0, 3)], 4));
        assert_eq!(find("abd"), (vec![(1, 1), (2, 2), (7, 3)], 3));
        assert_eq!(find("ax"), (vec![(1, 1)], 2));
        assert_eq!(find("é"), (vec![(8, 2)], 2));
        assert_eq!(find("x"), (vec![], 1));
        assert_eq!(find(""), (vec![], 0));
    }
}
