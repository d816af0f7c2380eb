//! What formats lose of the matrices of a model, one matrix in one format at a time.

use std::collections::BTreeMap;
use std::sync::Mutex;
use std::sync::PoisonError;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};

use duan_model::quoted;
use duan_model::weights::Matrix;
use duan_quant::Format;

use super::sensitivities::rounded;
use crate::coding::{Coder, Loss, Scratch};
use crate::error::{Error, Result};
use crate::fallback::known;
use crate::importance::{Importance, Matched};
use crate::keep::{self, KeepRule};
use crate::pieces::{Cutter, Piece};
use crate::plan::{PlannedTensor, Reason, planned};
use crate::roles::{Role, is_matrix, role};
use crate::source::Source;

/// Formats that a matrix may get, as far as their blocks divide its rows.
pub const CANDIDATES: &[&str] =
    &["Q2_K", "Q3_K", "IQ4_XS", "Q4_K", "IQ4_NL", "Q4_0", "Q4_1", "Q5_0", "Q5_1", "Q5_K", "Q6_K", "Q8_0", "F16"];

/// The format in which the effect of each matrix is measured.
pub const PROBE: &str = "IQ4_NL";

/// A head, or a table that is the head too, has at least so many bits unless a rule asks for fewer.
const LEAST_HEAD_BITS: f64 = 6.0;
/// No more bits than these: a wider source is not copied.
const MOST_BITS: f64 = 16.0;
/// Weights of a piece that one thread codes at a time.
const PIECE_WEIGHTS: u64 = 1 << 16;
/// Of larger tensors so many pieces are looked at, evenly spread.
const PIECES: u64 = 48;
/// Rows that one thread perturbs at a time have about so many weights.
const PERTURBED_WEIGHTS: usize = 1 << 16;

/// A matrix of a model that no rule takes, and the formats that it may get.
#[derive(Debug, Clone)]
pub struct Trial {
    /// Its place among the source's tensors.
    pub(crate) tensor: usize,
    /// Its name.
    pub name: String,
    /// What it may be in; never empty.
    pub candidates: Vec<&'static Format>,
    /// The format it has, where it may keep it: nothing is lost then.
    pub own: Option<&'static Format>,
    /// Weights, and those of a row.
    weights: u64,
    columns: u64,
}

impl Trial {
    /// Weights of it.
    pub fn weights(&self) -> u64 {
        self.weights
    }

    pub(crate) fn columns(&self) -> u64 {
        self.columns
    }

    /// Whether there is something to measure: more than one format, and rows that the probe divides.
    pub fn is_open(&self) -> bool {
        self.candidates.len() > 1 && self.columns.is_multiple_of(known(PROBE).block_weights as u64)
    }
}

/// The matrices of a model, and what is needed to see what formats lose of them.
pub struct Trials<'a> {
    source: &'a dyn Source,
    matched: Vec<Option<Matched>>,
    /// Each tensor in each of [`CANDIDATES`].
    planned: Vec<(&'static Format, Vec<PlannedTensor>)>,
    matrices: Vec<Trial>,
}

impl<'a> Trials<'a> {
    /// Looks at names and shapes; no weight is read yet.
    ///
    /// # Errors
    /// For a rule that matches nothing, and where the importance cannot be read.
    pub fn new(source: &'a dyn Source, keep: &[KeepRule], importance: Option<&Importance>) -> Result<Trials<'a>> {
        let infos = source.tensors();
        let mut matrices = matrices(source, keep)?;
        let mut matched: Vec<Option<Matched>> = infos.iter().map(|_| None).collect();
        let mut formats = Vec::with_capacity(CANDIDATES.len());
        for name in CANDIDATES {
            let format = known(name);
            let mut tensors = Vec::with_capacity(infos.len());
            for info in infos {
                // What it is not tried in stays as it is and is never asked for.
                let columns = info.dims.first().copied().unwrap_or(1);
                let fits = columns.is_multiple_of(format.block_weights as u64);
                tensors.push(planned(source.label(), info, Some(format).filter(|_| fits), Reason::Measured)?);
            }
            formats.push((format, tensors));
        }
        for matrix in &mut matrices {
            let tensor = &formats[0].1[matrix.tensor];
            if let Some(importance) = importance {
                matched[matrix.tensor] = importance.of_matrix(&matrix.name, tensor.columns(), tensor.stack().1)?;
            }
        }
        Ok(Trials { source, matched, planned: formats, matrices })
    }

    /// The matrices that no rule takes, in the source's order.
    pub fn matrices(&self) -> &[Trial] {
        &self.matrices
    }

    /// The squared errors of a matrix in each of its candidates and in the probe, weighted with the importance, by the format's name:
    /// those of the same pieces of it, which are all of a small one. One that cannot hold the weights is left out. None where it was cancelled.
    ///
    /// # Errors
    /// Where no format can hold a weight, which is named, and where the source cannot be read.
    pub fn errors(&self, trial: &Trial, threads: usize, cancel: &AtomicBool) -> Result<Option<BTreeMap<String, f64>>> {
        let pieces = pieces(trial.tensor, trial.weights, trial.columns);
        let is_tried = |format: &&'static Format| trial.candidates.contains(format) || format.name == PROBE;
        let formats: Vec<_> = self.planned.iter().filter(|(format, _)| is_tried(format)).collect();
        let jobs = formats.len() * pieces.len();
        let (next, results) = (AtomicUsize::new(0), Mutex::new(Vec::with_capacity(jobs)));
        let work = || {
            let mut scratch = Scratch::default();
            loop {
                let job = next.fetch_add(1, Ordering::Relaxed);
                if job >= jobs || cancel.load(Ordering::Relaxed) {
                    return;
                }
                let (format, piece) = (job / pieces.len(), pieces[job % pieces.len()]);
                let tensors = &formats[format].1;
                let coder = Coder {
                    source: self.source,
                    tensors,
                    importance: &self.matched,
                    shared: None,
                    checks_copies: true,
                };
                let loss = coder.code(piece, &mut scratch).map(|coded| coded.loss);
                results.lock().unwrap_or_else(PoisonError::into_inner).push((job, loss));
            }
        };
        std::thread::scope(|scope| {
            (1..threads.min(jobs)).for_each(|_| drop(scope.spawn(work)));
            work();
        });
        if cancel.load(Ordering::Relaxed) {
            return Ok(None);
        }
        let mut results = results.into_inner().unwrap_or_else(PoisonError::into_inner);
        // Sums in one order, however the threads shared the work.
        results.sort_by_key(|result| result.0);
        let mut results = results.into_iter();
        let (mut errors, mut first_error) = (BTreeMap::new(), None);
        for (format, _) in &formats {
            let losses = results.by_ref().take(pieces.len()).map(|(_, loss)| loss);
            let sum = losses.collect::<Result<Vec<Loss>>>();
            match sum {
                Ok(losses) => drop(errors.insert(
                    format.name.to_owned(),
                    rounded(losses.iter().map(|loss| loss.weighted_error).sum::<f64>()),
                )),
                Err(error @ Error::Weight { .. }) => drop(first_error.get_or_insert(error)),
                Err(error) => return Err(error),
            }
        }
        match first_error {
            Some(error) if errors.is_empty() => Err(error),
            _ => Ok(Some(errors)),
        }
    }

    /// The bytes [rows, row_bytes] of `matrix`, which is (a part of) the tensor of `trial`, with every weight as it would come back from
    /// the probe, in the matrix's own format.
    ///
    /// # Errors
    /// Where it cannot be read or coded.
    pub fn perturbed(&self, trial: &Trial, matrix: &Matrix, threads: usize) -> Result<Vec<u8>> {
        let probe = known(PROBE);
        let (format, columns, row_bytes) = (matrix.format(), matrix.columns(), matrix.row_bytes());
        let matched = self.matched[trial.tensor].as_ref();
        // A stack of experts is never cut into parts.
        let rows_per_slice = (matrix.rows() / matched.map_or(1, |matched| matched.slices() as usize).max(1)).max(1);
        let per_piece = (PERTURBED_WEIGHTS / columns.max(1)).max(1);
        let mut bytes = vec![0; matrix.bytes()];
        let pieces = Mutex::new(bytes.chunks_mut(per_piece * row_bytes).enumerate());
        let failed = Mutex::new(None);
        let work = || {
            let (mut values, mut coded) = (vec![0.0; columns], vec![0; probe.row_bytes(columns).unwrap_or(0)]);
            let mut slice = (usize::MAX, false, Vec::new());
            loop {
                let Some((piece, part)) = pieces.lock().unwrap_or_else(PoisonError::into_inner).next() else { return };
                let first = piece * per_piece;
                let mut row = |row: usize, bytes: &mut [u8]| -> Result<()> {
                    let wanted = row / rows_per_slice;
                    if let Some(matched) = matched.filter(|_| slice.0 != wanted) {
                        (slice.0, slice.1) = (wanted, matched.weights(wanted as u64, &mut slice.2));
                    }
                    let wrong = |error: duan_quant::Error| uncodable(matrix.name(), &error);
                    format.decode(bytes, &mut values).map_err(wrong)?;
                    let importance = Some(&slice.2[..]).filter(|_| slice.1);
                    probe.encode_best(&values, importance, &mut coded).map_err(wrong)?;
                    probe.decode(&coded, &mut values).map_err(wrong)?;
                    format.encode_best(&values, None, bytes).map_err(wrong)
                };
                let read = matrix.read_rows(first, part).map_err(Error::from);
                let mut rows = part.chunks_exact_mut(row_bytes.max(1)).enumerate();
                let done = read.and_then(|()| rows.try_for_each(|(at, bytes)| row(first + at, bytes)));
                if let Err(error) = done {
                    failed.lock().unwrap_or_else(PoisonError::into_inner).get_or_insert(error);
                    return;
                }
            }
        };
        std::thread::scope(|scope| {
            (1..threads).for_each(|_| drop(scope.spawn(work)));
            work();
        });
        match failed.into_inner().unwrap_or_else(PoisonError::into_inner) {
            Some(error) => Err(error),
            None => Ok(bytes),
        }
    }
}

fn uncodable(tensor: &str, error: &duan_quant::Error) -> Error {
    let what = format!("tensor `{}` cannot be coded as {PROBE}: {error}", quoted(tensor));
    let remedy = format!("keep it wider, as in --keep '^{}$=f16'", quoted(tensor).replace('.', "\\."));
    Error::Format { what, remedy }
}

/// The matrices that no rule takes.
fn matrices(source: &dyn Source, keep: &[KeepRule]) -> Result<Vec<Trial>> {
    let infos = source.tensors();
    let found: Vec<usize> =
        (0..infos.len()).filter(|&index| is_matrix(&infos[index].name, &infos[index].dims)).collect();
    let names: Vec<&str> = found.iter().map(|&index| &*infos[index].name).collect();
    let kept = keep::assign(keep, &names)?;
    let is_tied = !infos.iter().any(|info| info.name == "output.weight");
    let free = found.into_iter().zip(kept).filter(|(_, rule)| rule.is_none());
    let trial = free.map(|(tensor, _)| {
        let info = &infos[tensor];
        let columns = info.dims.first().copied().unwrap_or(1);
        let is_head = matches!(role(&info.name, is_tied), Role::Head | Role::TiedEmbedding);
        let least_bits = if is_head { LEAST_HEAD_BITS } else { 0.0 };
        let fits = |format: &Format| {
            columns.is_multiple_of(format.block_weights as u64) && format.bits_per_weight() >= least_bits
        };
        let own = info.format().filter(|own| own.gguf_id.is_some() && own.bits_per_weight() <= MOST_BITS && fits(own));
        let mut candidates: Vec<_> = CANDIDATES.iter().map(|name| known(name)).filter(|f| fits(f)).collect();
        if let Some(own) = own.filter(|own| !candidates.contains(own)) {
            candidates.push(own);
        }
        let (name, weights) = (info.name.clone(), info.elements());
        Trial { tensor, name, candidates, own, weights, columns }
    });
    Ok(trial.collect())
}

/// The pieces of a tensor that are looked at: all, or some of them evenly spread.
fn pieces(tensor: usize, weights: u64, columns: u64) -> Vec<Piece> {
    let all: Vec<Piece> =
        Cutter::new(vec![(weights, columns)], PIECE_WEIGHTS).map(|piece| Piece { tensor, ..piece }).collect();
    let step = (all.len() as u64).div_ceil(PIECES).max(1) as usize;
    all.into_iter().step_by(step).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn of_a_large_tensor_pieces_are_looked_at_that_are_spread_evenly() {
        let small = pieces(3, 576 * 1000, 576);
        assert_eq!(small.iter().map(|piece| piece.weights).sum::<u64>(), 576 * 1000);
        assert!(small.iter().all(|piece| piece.tensor == 3));
        let large = pieces(0, 1 << 30, 1 << 12);
        assert!(large.len() as u64 <= PIECES && large.len() as u64 > PIECES / 2, "{}", large.len());
        assert!(large.last().unwrap().first > (1 << 30) * 9 / 10);
    }
}
