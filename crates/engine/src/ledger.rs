//! Which tokens the KV cache holds: pages, counted; sequences, each a list of tokens and pages.
//!
//! Devices keep the bytes and know pages by number only. Here is decided which page a position lies in. Sequences
//! that share a beginning share its pages; a shared page that would be written is copied first, and only what is valid
//! of it.

use duan_backend::{PAGE_TOKENS, PageId};

use crate::error::{Error, Result};

/// A sequence of the ledger. Ids are used again after [`Ledger::close`].
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct SequenceId(pub u32);

/// A page that every device must copy before the next pass.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct PageCopy {
    /// The shared page.
    pub from: PageId,
    /// The new page.
    pub to: PageId,
    /// How many of its positions are valid.
    pub count: usize,
}

#[derive(Debug, Default)]
struct Sequence {
    tokens: Vec<u32>,
    pages: Vec<PageId>,
}

/// All pages and sequences of one loaded model. An id that is not open is a bug and panics.
#[derive(Debug)]
pub struct Ledger {
    /// How many sequences hold each page `[pages]`.
    holders: Vec<u32>,
    /// Pages that nobody holds; the next one is taken from the end.
    free: Vec<PageId>,
    sequences: Vec<Option<Sequence>>,
    /// The most positions of a sequence: what the buffers of a new one are sized for.
    context: usize,
    /// Sequences can go back to multiples of this.
    rewind_step: usize,
}

impl Ledger {
    /// A ledger over `pages` free pages, for sequences of at most `context` tokens.
    pub fn new(pages: usize, context: usize) -> Self {
        let free = (0..pages as PageId).rev().collect();
        Self { holders: vec![0; pages], free, sequences: Vec::new(), context, rewind_step: 1 }
    }

    /// The same for a model that keeps state beside keys and values. Of that there is one for each page, so a sequence can go
    /// back to the end of a full page only.
    pub fn with_states(self, has_states: bool) -> Self {
        Self { rewind_step: if has_states { PAGE_TOKENS } else { 1 }, ..self }
    }

    /// Pages that a context needs.
    pub fn pages_for(context: usize) -> usize {
        context.div_ceil(PAGE_TOKENS)
    }

    /// All pages.
    pub fn pages_total(&self) -> usize {
        self.holders.len()
    }

    /// Pages that no sequence holds.
    pub fn pages_free(&self) -> usize {
        self.free.len()
    }

    /// Opens an empty sequence.
    pub fn open(&mut self) -> SequenceId {
        let pages = Self::pages_for(self.context);
        self.insert(Sequence { tokens: Vec::with_capacity(self.context), pages: Vec::with_capacity(pages) })
    }

    /// Opens a sequence with the tokens of `id`; both share all pages until one of them writes.
    pub fn fork(&mut self, id: SequenceId) -> SequenceId {
        let mut fork = Sequence::default();
        fork.tokens.reserve_exact(self.context);
        fork.pages.reserve_exact(Self::pages_for(self.context));
        let original = self.sequence(id);
        fork.tokens.extend_from_slice(&original.tokens);
        // Pages that were only reserved stay with the one who reserved them.
        fork.pages.extend_from_slice(&original.pages[..Self::pages_for(original.tokens.len())]);
        fork.pages.iter().for_each(|&page| self.holders[page as usize] += 1);
        self.insert(fork)
    }

    /// Closes a sequence; pages that nobody else holds become free.
    pub fn close(&mut self, id: SequenceId) {
        self.truncate(id, 0);
        self.sequences[id.0 as usize] = None;
    }

    /// The tokens whose keys and values are in the cache.
    pub fn tokens(&self, id: SequenceId) -> &[u32] {
        &self.sequence(id).tokens
    }

    /// The pages of a sequence: position `p` lies in page `p / PAGE_TOKENS`.
    pub fn pages(&self, id: SequenceId) -> &[PageId] {
        &self.sequence(id).pages
    }

    /// How many of `tokens` the sequence begins with.
    pub fn common_prefix(&self, id: SequenceId, tokens: &[u32]) -> usize {
        self.tokens(id).iter().zip(tokens).take_while(|(cached, new)| cached == new).count()
    }

    /// Makes the next `count` positions of a sequence writable. Returns the copy that every device must make first, if any:
    /// of the last page, where that is shared and partly filled. Nothing changes on an error.
    ///
    /// # Errors
    /// [`Error::ContextFull`] beyond the context, [`Error::OutOfPages`] when too few pages are free.
    pub fn reserve(&mut self, id: SequenceId, count: usize) -> Result<Option<PageCopy>> {
        let Sequence { tokens, pages } = self.sequence(id);
        let (used, held) = (tokens.len(), pages.len());
        let end = used.checked_add(count).filter(|&end| end <= self.context);
        let end = end.ok_or(Error::ContextFull { tokens: count, used, context: self.context })?;
        let filled = used % PAGE_TOKENS;
        let tail = (count > 0 && filled > 0).then(|| pages[used / PAGE_TOKENS]);
        let shared = tail.filter(|&page| self.holders[page as usize] > 1);
        let needed = Self::pages_for(end).saturating_sub(held) + usize::from(shared.is_some());
        if needed > self.free.len() {
            return Err(Error::OutOfPages { needed, free: self.free.len(), pages: self.holders.len() });
        }
        let copy = shared.map(|from| {
            let to = self.take_page();
            self.holders[from as usize] -= 1;
            self.sequence_mut(id).pages[used / PAGE_TOKENS] = to;
            PageCopy { from, to, count: filled }
        });
        for _ in held..Self::pages_for(end) {
            let page = self.take_page();
            self.sequence_mut(id).pages.push(page);
        }
        Ok(copy)
    }

    /// Notes that the keys and values of `tokens` are in the cache now. Panics when they were not reserved.
    pub fn append(&mut self, id: SequenceId, tokens: &[u32]) {
        let sequence = self.sequence_mut(id);
        sequence.tokens.extend_from_slice(tokens);
        assert!(sequence.tokens.len() <= sequence.pages.len() * PAGE_TOKENS, "tokens are appended to reserved pages");
    }

    /// Forgets what is behind the first `length` tokens, and pages that were reserved and not used. Returns how many tokens
    /// are left: `length`, or the nearest number below it that the sequence can go back to.
    pub fn rewind(&mut self, id: SequenceId, length: usize) -> usize {
        let held = self.tokens(id).len();
        self.truncate(id, if length < held { length - length % self.rewind_step } else { held })
    }

    /// Takes a pass back that began behind the first `start` tokens and may have written something. Returns how many tokens
    /// are left, as [`Ledger::rewind`] does.
    pub fn take_back(&mut self, id: SequenceId, start: usize) -> usize {
        self.truncate(id, start - start % self.rewind_step)
    }

    fn truncate(&mut self, id: SequenceId, length: usize) -> usize {
        let sequence = self.sequence_mut(id);
        sequence.tokens.truncate(length);
        let keep = Self::pages_for(sequence.tokens.len());
        while self.sequence(id).pages.len() > keep {
            if let Some(page) = self.sequence_mut(id).pages.pop() {
                self.release_page(page);
            }
        }
        length
    }

    fn insert(&mut self, sequence: Sequence) -> SequenceId {
        let index = self.sequences.iter().position(Option::is_none).unwrap_or(self.sequences.len());
        if index == self.sequences.len() {
            self.sequences.push(None);
        }
        self.sequences[index] = Some(sequence);
        SequenceId(index as u32)
    }

    /// Callers have checked that one is free.
    fn take_page(&mut self) -> PageId {
        let page = self.free.pop().expect("the number of free pages was checked");
        self.holders[page as usize] = 1;
        page
    }

    fn release_page(&mut self, page: PageId) {
        let holders = &mut self.holders[page as usize];
        *holders -= 1;
        if *holders == 0 {
            self.free.push(page);
        }
    }

    fn sequence(&self, id: SequenceId) -> &Sequence {
        self.sequences[id.0 as usize].as_ref().expect("the sequence is open")
    }

    fn sequence_mut(&mut self, id: SequenceId) -> &mut Sequence {
        self.sequences[id.0 as usize].as_mut().expect("the sequence is open")
    }
}

#[cfg(test)]
#[path = "ledger_tests.rs"]
mod tests;
