//! What a partial file belongs to, and which of its bytes are there.

use std::collections::VecDeque;
use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};

use super::Remote;
use crate::address::without_credentials;
use crate::error::Result;
use crate::files::{new_name, remove_file, write_json_alone};

/// Where a download is kept until it is complete.
pub(crate) struct Partial {
    pub(crate) file: PathBuf,
    pub(crate) note: PathBuf,
}

impl Partial {
    /// `NAME.part` and `NAME.part.json` in `folder`.
    pub(crate) fn new(folder: &Path, name: &str) -> Partial {
        Partial { file: folder.join(format!("{name}.part")), note: folder.join(format!("{name}.part.json")) }
    }

    /// The one whose file is `part`.
    pub(crate) fn at(part: &Path) -> Partial {
        Partial { file: part.to_path_buf(), note: part.with_added_extension("json") }
    }

    /// Removes both files.
    pub(crate) fn discard(&self) -> Result<()> {
        remove_file(&self.file)?;
        remove_file(&new_name(&self.note))?;
        remove_file(&self.note)
    }
}

/// What a partial file belongs to.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(super) struct Note {
    /// The address, without user and password.
    pub(super) url: String,
    pub(super) bytes: Option<u64>,
    /// The announced hash; empty if there was none.
    pub(super) checksum: String,
    /// A strong validator, if the server gave one.
    pub(super) etag: Option<String>,
    /// Which bytes are there, where the file was fetched in pieces; none where it simply grows.
    pub(super) spans: Option<Spans>,
}

impl Note {
    /// The note of an earlier run, if what it left may be continued.
    pub(super) fn read(remote: &Remote, partial: &Partial) -> Option<Note> {
        let mut note = duan_files::read_json::<Note>(&partial.note)?;
        let is_same_length = remote.bytes.is_none() || note.bytes == remote.bytes;
        if note.checksum != remote.checksum.text() || !is_same_length || !note.spans.iter().all(Spans::is_sound) {
            return None;
        }
        // A validator means something only to the server that gave it.
        note.etag = note.etag.filter(|_| note.url == without_credentials(&remote.url));
        // Where no hash has the last word, only the validator tells that it is still the same file.
        (remote.checksum.is_known() || note.etag.is_some()).then_some(note)
    }

    pub(super) fn write(&self, partial: &Partial) -> Result<()> {
        write_json_alone(&partial.note, self)
    }
}

/// Ranges of bytes, each from its first to one behind its last, in order and never touching each other.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct Spans(Vec<(u64, u64)>);

impl Spans {
    /// The first `bytes` of a file.
    pub(super) fn prefix(bytes: u64) -> Spans {
        Spans(if bytes == 0 { Vec::new() } else { vec![(0, bytes)] })
    }

    /// Whether it is what this type promises, for one that came from a file.
    fn is_sound(&self) -> bool {
        self.0.iter().all(|(start, end)| start < end) && self.0.windows(2).all(|pair| pair[0].1 < pair[1].0)
    }

    /// Adds a range, which may overlap what is there.
    pub(super) fn add(&mut self, start: u64, end: u64) {
        if start >= end {
            return;
        }
        let first = self.0.partition_point(|span| span.1 < start);
        let behind = self.0.partition_point(|span| span.0 <= end);
        let start = self.0.get(first).filter(|_| first < behind).map_or(start, |span| span.0.min(start));
        let end = self.0[first..behind].last().map_or(end, |span| span.1.max(end));
        self.0.splice(first..behind, [(start, end)]);
    }

    pub(super) fn bytes(&self) -> u64 {
        self.0.iter().map(|(start, end)| end - start).sum()
    }

    /// One behind the last byte of all.
    pub(super) fn end(&self) -> u64 {
        self.0.last().map_or(0, |span| span.1)
    }

    /// How many bytes are there from the beginning of the file without a gap.
    pub(super) fn prefix_bytes(&self) -> u64 {
        self.0.first().filter(|span| span.0 == 0).map_or(0, |span| span.1)
    }

    /// What is missing of a file of `total` bytes, in pieces of at most `piece_bytes`.
    pub(super) fn missing(&self, total: u64, piece_bytes: u64) -> Missing {
        let mut gaps = VecDeque::new();
        let mut at = 0;
        for (start, end) in self.0.iter().copied().chain([(total, total)]) {
            if at < start {
                gaps.push_back((at, start));
            }
            at = at.max(end);
        }
        Missing { gaps, piece_bytes: piece_bytes.max(1) }
    }
}

/// What is missing of a file. Pieces are cut off when they are taken: how many there are is for the server to say, and it may
/// say anything.
#[derive(Debug)]
pub(super) struct Missing {
    gaps: VecDeque<(u64, u64)>,
    piece_bytes: u64,
}

impl Missing {
    pub(super) fn is_empty(&self) -> bool {
        self.gaps.is_empty()
    }

    /// How many pieces wait.
    pub(super) fn pieces(&self) -> u64 {
        self.gaps.iter().map(|(start, end)| (end - start).div_ceil(self.piece_bytes)).fold(0, u64::saturating_add)
    }

    /// The next piece, in order.
    pub(super) fn take(&mut self) -> Option<(u64, u64)> {
        let (start, end) = self.gaps.pop_front()?;
        let behind = end.min(start.saturating_add(self.piece_bytes));
        if behind < end {
            self.gaps.push_front((behind, end));
        }
        Some((start, behind))
    }

    /// Puts back what was taken and did not come.
    pub(super) fn give_back(&mut self, start: u64, end: u64) {
        if start < end {
            self.gaps.push_front((start, end));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn spans_agree_with_a_map_of_bytes() {
        // Ranges made up by a small generator, against one flag for each byte.
        let mut state: u64 = 7;
        let mut next = |below: u64| {
            state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
            (state >> 33) % below
        };
        for _ in 0..200 {
            let (mut spans, mut flags) = (Spans::default(), [false; 64]);
            for _ in 0..12 {
                let start = next(64);
                let end = (start + next(16)).min(64);
                spans.add(start, end);
                flags[start as usize..end as usize].fill(true);
                assert!(spans.is_sound(), "{spans:?}");
                assert_eq!(spans.bytes(), flags.iter().filter(|flag| **flag).count() as u64, "{spans:?}");
                let prefix = flags.iter().take_while(|flag| **flag).count() as u64;
                assert_eq!(spans.prefix_bytes(), prefix, "{spans:?}");
                let mut missing = spans.missing(64, 5);
                let count = missing.pieces();
                let gaps: Vec<(u64, u64)> = std::iter::from_fn(|| missing.take()).collect();
                assert!(gaps.len() as u64 == count && missing.is_empty());
                assert!(gaps.iter().all(|(start, end)| start < end && end - start <= 5), "{gaps:?}");
                let mut whole = spans.clone();
                for (start, end) in gaps {
                    assert!(flags[start as usize..end as usize].iter().all(|flag| !flag));
                    whole.add(start, end);
                }
                assert_eq!(whole, Spans::prefix(64));
            }
        }
    }

    #[test]
    fn what_is_missing_of_the_largest_file_costs_no_memory() {
        let mut missing = Spans(vec![(10, 20)]).missing(u64::MAX, 8);
        assert_eq!(missing.gaps.len(), 2);
        assert_eq!((missing.take(), missing.take(), missing.take()), (Some((0, 8)), Some((8, 10)), Some((20, 28))));
        missing.give_back(22, 28);
        missing.give_back(5, 5);
        assert_eq!((missing.take(), missing.take()), (Some((22, 28)), Some((28, 36))));
        assert_eq!(missing.pieces(), (u64::MAX - 36).div_ceil(8));
    }

    #[test]
    fn spans_out_of_order_are_not_believed() {
        assert!(Spans(vec![(0, 1), (3, 9)]).is_sound() && Spans::default().is_sound());
        for spans in [vec![(1, 1)], vec![(2, 1)], vec![(0, 2), (2, 3)], vec![(4, 5), (0, 1)]] {
            assert!(!Spans(spans).is_sound());
        }
    }
}
