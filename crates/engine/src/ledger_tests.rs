//! The ledger: worked examples, and a property test against a naive model of what pages hold.

use std::collections::HashMap;

use proptest::prelude::*;

use super::*;

fn tokens(count: usize) -> Vec<u32> {
    (0..count as u32).collect()
}

#[test]
fn pages_are_taken_as_positions_need_them_and_given_back() {
    let mut ledger = Ledger::new(4, 4 * PAGE_TOKENS);
    let id = ledger.open();
    assert_eq!(ledger.reserve(id, 0).unwrap(), None);
    assert_eq!((ledger.pages(id), ledger.pages_free()), (&[][..], 4));
    assert_eq!(ledger.reserve(id, PAGE_TOKENS).unwrap(), None);
    assert_eq!((ledger.pages(id), ledger.pages_free()), (&[0][..], 3));
    ledger.append(id, &tokens(PAGE_TOKENS));
    ledger.reserve(id, 1).unwrap();
    assert_eq!(ledger.pages(id), [0, 1]);
    ledger.append(id, &[9]);
    // What is reserved and not used goes with the next rewind.
    ledger.reserve(id, 2 * PAGE_TOKENS).unwrap();
    assert_eq!(ledger.pages_free(), 0);
    ledger.rewind(id, usize::MAX);
    assert_eq!((ledger.pages(id).len(), ledger.pages_free(), ledger.tokens(id).len()), (2, 2, PAGE_TOKENS + 1));
    ledger.rewind(id, PAGE_TOKENS);
    assert_eq!((ledger.pages(id), ledger.pages_free()), (&[0][..], 3));
    ledger.close(id);
    assert_eq!(ledger.pages_free(), 4);
}

#[test]
fn forks_share_pages_and_the_first_writer_copies_the_tail() {
    let mut ledger = Ledger::new(4, 4 * PAGE_TOKENS);
    let original = ledger.open();
    ledger.reserve(original, PAGE_TOKENS + 10).unwrap();
    ledger.append(original, &tokens(PAGE_TOKENS + 10));
    let fork = ledger.fork(original);
    assert_eq!(ledger.pages(fork), ledger.pages(original));
    assert_eq!(ledger.pages_free(), 2);
    assert_eq!(ledger.reserve(fork, 1).unwrap(), Some(PageCopy { from: 1, to: 2, count: 10 }));
    ledger.append(fork, &[7]);
    assert_eq!((ledger.pages(original), ledger.pages(fork)), (&[0, 1][..], &[0, 2][..]));
    // The tail of the original is its own again.
    assert_eq!(ledger.reserve(original, 1).unwrap(), None);
    ledger.close(original);
    assert_eq!(ledger.pages_free(), 2, "page 1 is free, page 0 is still the fork's");
    assert_eq!(ledger.tokens(fork).len(), PAGE_TOKENS + 11);
}

#[test]
fn a_full_shared_page_is_never_copied() {
    let mut ledger = Ledger::new(3, 3 * PAGE_TOKENS);
    let original = ledger.open();
    ledger.reserve(original, PAGE_TOKENS).unwrap();
    ledger.append(original, &tokens(PAGE_TOKENS));
    let fork = ledger.fork(original);
    assert_eq!(ledger.reserve(fork, 1).unwrap(), None);
    // Rewinding into the shared page makes it a shared tail.
    ledger.rewind(fork, 100);
    assert_eq!(ledger.reserve(fork, 1).unwrap(), Some(PageCopy { from: 0, to: 1, count: 100 }));
}

#[test]
fn errors_change_nothing_and_say_the_numbers() {
    let mut ledger = Ledger::new(2, 3 * PAGE_TOKENS);
    let id = ledger.open();
    ledger.reserve(id, 10).unwrap();
    ledger.append(id, &tokens(10));
    let error = ledger.reserve(id, 3 * PAGE_TOKENS).unwrap_err();
    assert!(matches!(error, Error::ContextFull { tokens: 768, used: 10, context: 768 }), "{error:?}");
    let error = ledger.reserve(id, usize::MAX).unwrap_err();
    assert!(matches!(error, Error::ContextFull { .. }), "{error:?}");
    let error = ledger.reserve(id, 2 * PAGE_TOKENS).unwrap_err();
    assert!(matches!(error, Error::OutOfPages { needed: 2, free: 1, pages: 2 }), "{error:?}");
    let fork = ledger.fork(id);
    ledger.reserve(id, 1).unwrap();
    let error = ledger.reserve(fork, PAGE_TOKENS).unwrap_err();
    assert!(matches!(error, Error::OutOfPages { needed: 1, free: 0, pages: 2 }), "{error:?}");
    assert_eq!((ledger.pages_free(), ledger.pages(fork).len(), ledger.tokens(fork).len()), (0, 1, 10));
}

#[test]
fn common_prefixes_end_at_the_first_difference() {
    let mut ledger = Ledger::new(1, 8);
    let id = ledger.open();
    ledger.reserve(id, 3).unwrap();
    ledger.append(id, &[5, 6, 7]);
    assert_eq!(ledger.common_prefix(id, &[5, 6, 9, 7]), 2);
    assert_eq!(ledger.common_prefix(id, &[5, 6, 7, 8]), 3);
    assert_eq!(ledger.common_prefix(id, &[5, 6]), 2);
    assert_eq!(ledger.common_prefix(id, &[]), 0);
}

/// What may happen to a ledger; numbers choose among the open sequences.
#[derive(Debug, Clone)]
enum Step {
    Open,
    Fork(usize),
    Append(usize, usize),
    Rewind(usize, usize),
    Close(usize),
}

fn step() -> impl Strategy<Value = Step> {
    prop_oneof![
        1 => Just(Step::Open),
        2 => (0usize..8).prop_map(Step::Fork),
        6 => (0usize..8, 0usize..400).prop_map(|(which, count)| Step::Append(which, count)),
        3 => (0usize..8, 0usize..1200).prop_map(|(which, length)| Step::Rewind(which, length)),
        1 => (0usize..8).prop_map(Step::Close),
    ]
}

/// A device's pages and, apart from them, what each sequence should hold.
struct Naive {
    pages: Vec<Vec<Option<u32>>>,
    /// The state of each page: here, the token that was written last.
    states: Vec<Option<u32>>,
    sequences: Vec<(SequenceId, Vec<u32>)>,
    next_token: u32,
}

impl Naive {
    fn append(&mut self, ledger: &mut Ledger, which: usize, count: usize) -> std::result::Result<(), TestCaseError> {
        let (id, expected) = &mut self.sequences[which];
        let free = ledger.pages_free();
        let copy = match ledger.reserve(*id, count) {
            Ok(copy) => copy,
            Err(_) => {
                prop_assert_eq!(ledger.pages_free(), free, "an error changes nothing");
                return Ok(());
            }
        };
        if let Some(PageCopy { from, to, count }) = copy {
            let valid = self.pages[from as usize][..count].to_vec();
            self.pages[to as usize] = vec![None; PAGE_TOKENS];
            self.pages[to as usize][..count].copy_from_slice(&valid);
            self.states[to as usize] = self.states[from as usize];
        }
        if let (true, Some((&last, before))) = (ledger.rewind_step > 1, expected.split_last()) {
            let page = ledger.pages(*id)[before.len() / PAGE_TOKENS];
            prop_assert_eq!(self.states[page as usize], Some(last), "the state is that of the position before");
        }
        let new: Vec<u32> = (0..count as u32).map(|index| self.next_token + index).collect();
        self.next_token += count as u32;
        for (index, &token) in new.iter().enumerate() {
            let position = expected.len() + index;
            let page = ledger.pages(*id)[position / PAGE_TOKENS];
            self.pages[page as usize][position % PAGE_TOKENS] = Some(token);
            self.states[page as usize] = Some(token);
        }
        ledger.append(*id, &new);
        expected.extend(new);
        Ok(())
    }

    /// Every sequence reads what it wrote, and every page is accounted for.
    fn check(&self, ledger: &Ledger) -> std::result::Result<(), TestCaseError> {
        let mut holders: HashMap<PageId, u32> = HashMap::new();
        for (id, expected) in &self.sequences {
            prop_assert_eq!(ledger.tokens(*id), &expected[..]);
            prop_assert!(ledger.pages(*id).len() >= Ledger::pages_for(expected.len()));
            for (position, &token) in expected.iter().enumerate() {
                let page = ledger.pages(*id)[position / PAGE_TOKENS];
                prop_assert_eq!(self.pages[page as usize][position % PAGE_TOKENS], Some(token));
            }
            ledger.pages(*id).iter().for_each(|&page| *holders.entry(page).or_default() += 1);
        }
        prop_assert_eq!(ledger.pages_free() + holders.len(), ledger.pages_total());
        for (page, &count) in ledger.holders.iter().enumerate() {
            prop_assert_eq!(count, holders.get(&(page as PageId)).copied().unwrap_or(0));
            prop_assert_eq!(ledger.free.contains(&(page as PageId)), count == 0);
        }
        Ok(())
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 64, ..ProptestConfig::default() })]

    #[test]
    fn sequences_always_read_what_they_wrote(
        steps in proptest::collection::vec(step(), 1..60),
        pages in 1usize..12,
        has_states: bool,
    ) {
        let mut ledger = Ledger::new(pages, 1100).with_states(has_states);
        let empty = vec![vec![None; PAGE_TOKENS]; pages];
        let mut naive = Naive { pages: empty, states: vec![None; pages], sequences: Vec::new(), next_token: 0 };
        for step in steps {
            let open = naive.sequences.len();
            match step {
                Step::Open => {
                    let id = ledger.open();
                    naive.sequences.push((id, Vec::new()));
                }
                _ if open == 0 => {}
                Step::Fork(which) => {
                    let (id, tokens) = naive.sequences[which % open].clone();
                    let fork = ledger.fork(id);
                    naive.sequences.push((fork, tokens));
                }
                Step::Append(which, count) => naive.append(&mut ledger, which % open, count)?,
                Step::Rewind(which, length) => {
                    let (id, tokens) = &mut naive.sequences[which % open];
                    let held = tokens.len();
                    tokens.truncate(ledger.rewind(*id, length));
                    let nearest = if has_states { length / PAGE_TOKENS * PAGE_TOKENS } else { length };
                    prop_assert_eq!(tokens.len(), if length < held { nearest } else { held });
                }
                Step::Close(which) => {
                    let (id, _) = naive.sequences.swap_remove(which % open);
                    ledger.close(id);
                }
            }
            naive.check(&ledger)?;
        }
        naive.sequences.iter().for_each(|(id, _)| ledger.close(*id));
        prop_assert_eq!(ledger.pages_free(), pages);
    }
}
