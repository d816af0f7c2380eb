//! Scales that more than a block shares: those of rows, and those of whole matrices.

use std::sync::OnceLock;
use std::sync::atomic::{AtomicBool, Ordering};

use duan_model::groups::write::Strategy;
use duan_quant::groups::Groups;
use duan_quant::integers::{Group, GroupSearch};

use super::plan::{FolderPlan, Kind};
use crate::coding::Coder;
use crate::error::Result;

/// Weights of a matrix that are looked at together in the search for its scale.
const PIECE_WEIGHTS: u64 = 1 << 18;

/// What shares a scale in each tensor of a plan, and the scales of whole matrices, each of which the first thread that needs it
/// searches. One that would wait for another thread's search goes ahead with the next matrix.
pub(crate) struct SharedScales {
    slots: Vec<Slot>,
}

struct Slot {
    shared: Option<(Groups, Strategy)>,
    is_taken: AtomicBool,
    /// None where the search failed.
    found: OnceLock<Option<Group>>,
}

/// What the blocks of a row have in common.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Shared {
    /// Its own scale.
    Row(Groups),
    /// The scale of its matrix.
    Matrix(Groups, Group),
}

impl SharedScales {
    pub(super) fn new(plan: &FolderPlan) -> SharedScales {
        let slot = |kind: &Kind| Slot {
            shared: match kind {
                Kind::Grouped(format, groups) if format.strategy() != Strategy::Group => {
                    Some((*groups, format.strategy()))
                }
                _ => None,
            },
            is_taken: AtomicBool::new(false),
            found: OnceLock::new(),
        };
        SharedScales { slots: plan.kinds.iter().map(slot).collect() }
    }

    /// What the blocks of tensor number `tensor` share; none where each has its own scale.
    ///
    /// # Errors
    /// Where the tensor cannot be read.
    pub(crate) fn of(&self, coder: &Coder<'_>, tensor: usize) -> Result<Option<Shared>> {
        let Some((groups, strategy)) = self.slots[tensor].shared else { return Ok(None) };
        if strategy != Strategy::Tensor {
            return Ok(Some(Shared::Row(groups)));
        }
        let mut next = tensor;
        loop {
            let slot = &self.slots[next];
            if let Some((own, Strategy::Tensor)) = slot.shared
                && !slot.is_taken.swap(true, Ordering::Relaxed)
            {
                let _settle = Settle(&slot.found);
                // An error is found again by whoever asks.
                let _ = slot.found.set(search(coder, next, own).ok());
            }
            if let Some(found) = self.slots[tensor].found.get() {
                let group = found.map_or_else(|| search(coder, tensor, groups), Ok)?;
                return Ok(Some(Shared::Matrix(groups, group)));
            }
            if next + 1 == self.slots.len() {
                self.slots[tensor].found.wait();
            } else {
                next += 1;
            }
        }
    }
}

/// However a search ends, nobody waits for it.
struct Settle<'a>(&'a OnceLock<Option<Group>>);

impl Drop for Settle<'_> {
    fn drop(&mut self) {
        let _ = self.0.set(None);
    }
}

impl Shared {
    /// Writes the codes of a row [columns], of which each weight counts as its `importance` [columns] says.
    pub(crate) fn encode(self, values: &[f32], importance: Option<&[f32]>, bytes: &mut [u8]) {
        let (groups, group) = match self {
            Shared::Row(groups) => (groups, groups.integers().search(values, importance)),
            Shared::Matrix(groups, group) => (groups, group),
        };
        for (values, block) in values.chunks_exact(groups.weights).zip(bytes.chunks_exact_mut(groups.block_bytes())) {
            groups.write_nearest(group, values, block);
        }
    }
}

/// The scale of a whole matrix. Pieces are looked at in their order, so that threads change nothing.
fn search(coder: &Coder<'_>, tensor: usize, groups: Groups) -> Result<Group> {
    let planned = &coder.tensors[tensor];
    let (all, columns) = (planned.source.elements(), planned.columns());
    let each = (PIECE_WEIGHTS / columns).max(1) * columns;
    let mut importance = Vec::new();
    let has_importance = coder.importance[tensor].as_ref().is_some_and(|matched| matched.weights(0, &mut importance));
    let importance = has_importance.then_some(&importance[..]);
    let mut search = GroupSearch::new(groups.integers());
    let mut values = Vec::new();
    for round in 0..=GroupSearch::ROUNDS {
        for first in (0..all).step_by(each as usize) {
            coder.values(tensor, first, each.min(all - first), &mut values)?;
            match round {
                0 => search.measure(&values),
                _ => search.add(&values, importance),
            }
        }
        if round > 0 {
            search.narrow();
        }
    }
    Ok(search.finish())
}
