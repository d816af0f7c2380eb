//! Byte-pair encoding by a list of merges: GPT-2's form over bytes, and Gemma 4's over characters.

use super::byte_level;
use super::merge::{Join, Merger, NONE, Symbol};
use super::pre_tokenizers::{Form, PreTokenizer};
use super::split::Splitter;
use super::vocabulary::{Spelling, TokenKind, Vocabulary};
use crate::gguf::StringArray;

/// A byte-pair tokenizer, without its vocabulary.
#[derive(Debug)]
pub(super) struct Bpe {
    merges: Merges,
    splitter: Splitter,
    whole_pieces: bool,
    form: Form,
    smallest: Smallest,
    /// Stands for what no token covers; without it, such bytes are left out.
    unknown: Option<u32>,
}

/// What merging starts from.
#[derive(Debug)]
enum Smallest {
    /// Bytes, each with its token or [`NONE`].
    Bytes(Box<[u32; 256]>),
    /// Characters; one that is no token falls back to the tokens of its bytes, or [`NONE`].
    Characters(Box<[u32; 256]>),
}

impl Bpe {
    /// From the parts of a file.
    ///
    /// # Errors
    /// A message where a pattern of the row does not compile.
    pub(super) fn new(
        vocabulary: &Vocabulary,
        merges: Merges,
        row: &PreTokenizer,
        unknown: Option<u32>,
    ) -> Result<Bpe, String> {
        let smallest = match row.form {
            Form::Bytes => {
                Smallest::Bytes(Box::new(std::array::from_fn(|byte| vocabulary.find(&[byte as u8]).unwrap_or(NONE))))
            }
            Form::Characters | Form::Words => Smallest::Characters(byte_tokens(vocabulary)),
        };
        Ok(Bpe {
            merges,
            splitter: Splitter::new(row)?,
            whole_pieces: row.whole_pieces,
            form: row.form,
            smallest,
            unknown,
        })
    }

    /// Appends the tokens of `text`, whose spaces are written `▁` already where [`Bpe::escapes_spaces`].
    pub(super) fn encode(&self, vocabulary: &Vocabulary, text: &str, merger: &mut Merger, ids: &mut Vec<u32>) {
        self.splitter.split(text, |piece| self.encode_piece(vocabulary, piece, merger, ids));
    }

    fn encode_piece(&self, vocabulary: &Vocabulary, piece: &str, merger: &mut Merger, ids: &mut Vec<u32>) {
        if self.form == Form::Words && piece.starts_with(char::is_whitespace) {
            return;
        }
        // Some files have tokens for runs of newlines that no merges lead to.
        let is_whole = self.whole_pieces || self.form == Form::Characters && piece.bytes().all(|byte| byte == b'\n');
        if is_whole && let Some(id) = vocabulary.find(piece.as_bytes()) {
            ids.push(id);
            return;
        }
        merger.clear();
        match &self.smallest {
            Smallest::Bytes(tokens) => {
                // A byte that is left out does not keep its neighbours from merging, as in Hugging Face's `tokenizers`.
                let is_left_out = |token: u32| token == NONE && self.unknown.is_none();
                let tokens = piece.bytes().map(|byte| tokens[byte as usize]);
                tokens.filter(|&token| !is_left_out(token)).for_each(|token| merger.push(1, token));
            }
            Smallest::Characters(_) => {
                for (start, character) in piece.char_indices() {
                    let bytes = character.len_utf8();
                    let token = vocabulary.find(&piece.as_bytes()[start..start + bytes]).unwrap_or(NONE);
                    merger.push(bytes as u32, token);
                }
            }
        }
        merger.merge(|left, right| self.merges.join(left, right));
        for symbol in merger.symbols() {
            match &self.smallest {
                _ if symbol.token != NONE => ids.push(symbol.token),
                Smallest::Bytes(_) => ids.extend(self.unknown),
                Smallest::Characters(tokens) => {
                    let start = symbol.start as usize;
                    let bytes = &piece.as_bytes()[start..start + symbol.bytes as usize];
                    append_fallback(bytes, tokens, self.unknown, ids);
                }
            }
        }
    }

    /// Whether spaces of the text have to be written `▁`.
    pub(super) fn escapes_spaces(&self) -> bool {
        self.form == Form::Characters
    }
}

/// The tokens `<0x00>` to `<0xFF>` of a vocabulary, or [`NONE`].
pub(super) fn byte_tokens(vocabulary: &Vocabulary) -> Box<[u32; 256]> {
    let mut tokens = Box::new([NONE; 256]);
    for id in vocabulary.of_kind(TokenKind::Byte) {
        if let &[byte] = vocabulary.bytes(id)
            && tokens[byte as usize] == NONE
        {
            tokens[byte as usize] = id;
        }
    }
    tokens
}

/// Appends the byte tokens of a character that is no token. Where one of them is missing, the unknown token stands for the
/// whole character.
pub(super) fn append_fallback(bytes: &[u8], tokens: &[u32; 256], unknown: Option<u32>, ids: &mut Vec<u32>) {
    if !append_byte_tokens(bytes, tokens, ids) {
        ids.extend(unknown);
    }
}

/// Appends the byte tokens of a character; nothing, and the result is false, where one of them is missing.
pub(super) fn append_byte_tokens(bytes: &[u8], tokens: &[u32; 256], ids: &mut Vec<u32>) -> bool {
    let all_there = bytes.iter().all(|&byte| tokens[byte as usize] != NONE);
    if all_there {
        ids.extend(bytes.iter().map(|&byte| tokens[byte as usize]));
    }
    all_there
}

/// Which two tokens join to which, and how early.
///
/// Entries stand sorted by left and then right token, with the place where each left token's entries begin, so that a
/// look-up is a binary search among a few neighbours, and no file can make it slower than that.
#[derive(Debug)]
pub(super) struct Merges {
    /// Where the entries of each left token begin; one more at the end.
    starts: Vec<u32>,
    entries: Vec<Entry>,
}

#[derive(Debug, Clone, Copy)]
struct Entry {
    right: u32,
    rank: u32,
    joined: u32,
}

impl Merges {
    /// From the file's list, best merge first, each "LEFT RIGHT". Also gives the number of merges that were left out because
    /// one of their three tokens is missing or no text.
    pub(super) fn new(list: &StringArray, vocabulary: &Vocabulary, spelling: Spelling) -> (Merges, usize) {
        let mut parser = MergeParser { vocabulary, spelling, left: Vec::new(), right: Vec::new(), next: 0 };
        let mut merges = Vec::with_capacity(list.len());
        for (rank, merge) in list.iter().enumerate() {
            if let Some((left, right, joined)) = parser.parse(merge) {
                merges.push((left, Entry { right, rank: rank as u32, joined }));
            }
        }
        let left_out = list.len() - merges.len();
        (Merges::sorted(&merges, vocabulary.len()), left_out)
    }

    /// Sorts entries by their left token, counting, and then the few of each by their right one.
    fn sorted(merges: &[(u32, Entry)], tokens: usize) -> Merges {
        let mut starts = vec![0u32; tokens + 1];
        for (left, _) in merges {
            starts[*left as usize + 1] += 1;
        }
        for index in 1..starts.len() {
            starts[index] += starts[index - 1];
        }
        let mut next = starts.clone();
        let mut entries = vec![Entry { right: 0, rank: 0, joined: 0 }; merges.len()];
        for (left, entry) in merges {
            entries[next[*left as usize] as usize] = *entry;
            next[*left as usize] += 1;
        }
        for range in starts.windows(2) {
            entries[range[0] as usize..range[1] as usize].sort_unstable_by_key(|entry| (entry.right, entry.rank));
        }
        Merges { starts, entries }
    }

    fn join(&self, left: &Symbol, right: &Symbol) -> Option<Join> {
        if left.token == NONE || right.token == NONE {
            return None;
        }
        let range = self.starts[left.token as usize] as usize..self.starts[left.token as usize + 1] as usize;
        let candidates = &self.entries[range];
        // Of equal pairs the first one counts, which has the best rank.
        let first = candidates.partition_point(|entry| entry.right < right.token);
        let entry = candidates.get(first).filter(|entry| entry.right == right.token)?;
        Some((entry.rank, entry.joined))
    }
}

/// Turns "LEFT RIGHT" into three token ids.
struct MergeParser<'v> {
    vocabulary: &'v Vocabulary,
    spelling: Spelling,
    left: Vec<u8>,
    right: Vec<u8>,
    /// Vocabularies list what merges make in the order of the merges, so this token is most likely the next one made.
    next: u32,
}

impl MergeParser<'_> {
    /// A side of a merge may contain spaces itself; the first division into two tokens that join to a third counts.
    fn parse(&mut self, merge: &str) -> Option<(u32, u32, u32)> {
        let spaces = merge.match_indices(' ').map(|(index, _)| index).filter(|&index| index > 0);
        // More than a few spaces are no merge, and trying them all would take quadratic time.
        spaces.take(8).find_map(|space| self.ids(&merge[..space], &merge[space + 1..]))
    }

    fn ids(&mut self, left: &str, right: &str) -> Option<(u32, u32, u32)> {
        self.left.clear();
        self.right.clear();
        match self.spelling {
            Spelling::ByteLevel => {
                if !byte_level::append_bytes(left, &mut self.left) || !byte_level::append_bytes(right, &mut self.right)
                {
                    return None;
                }
            }
            Spelling::Metaspace | Spelling::Escaped => {
                self.left.extend_from_slice(left.as_bytes());
                self.right.extend_from_slice(right.as_bytes());
            }
        }
        let (left_id, right_id) = (self.vocabulary.find(&self.left)?, self.vocabulary.find(&self.right)?);
        self.left.extend_from_slice(&self.right);
        let joined = self.vocabulary.find_near(&self.left, self.next)?;
        self.next = joined + 1;
        Some((left_id, right_id, joined))
    }
}
