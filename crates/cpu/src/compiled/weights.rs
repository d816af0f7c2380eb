//! The matrices of a model as this device holds them.

use std::ops::Range;

use duan_model::Model;
use duan_model::graph::Op;
use duan_model::weights::{Matrix, MatrixId};

use crate::error::{Result, error};
use crate::kernels::{Place, Weights};
use crate::large_pages::LargePages;
use crate::panels::Layout;
use crate::pool::Pool;
use crate::self_test::{Picked, Picker};
use crate::shared::SharedSlice;
use crate::simd::PANEL_ROWS;

/// Bytes that one worker lays out at once, at least a panel.
const PIECE_BYTES: usize = 1 << 20;
/// Bytes of the file after which its pages are given back: what is held twice at most.
const ROUND_BYTES: usize = 32 << 20;

/// A matrix, or several of one shape below each other (experts).
struct Entry {
    matrix: Matrix,
    parts: usize,
    /// Of what is multiplied with; tables need none.
    kernel: Option<Picked>,
    place: Held,
}

/// Where the bytes of an entry are.
enum Held {
    /// In panels, in this range of what was laid out: each part by itself, its last panel filled up.
    Panels(&'static Layout, Range<usize>),
    /// In the file, to be laid out when it is used.
    File(&'static Layout),
    /// In the file: of a format without a layout, or only to look rows up.
    Rows,
}

/// Every matrix that this device reads.
pub(crate) struct DeviceWeights {
    entries: Vec<Option<Entry>>,
    panels: LargePages,
}

impl DeviceWeights {
    /// Takes the matrices that `ops` read, and lays them out. Those with fewer rows than a panel stay as they are: filled up they
    /// could be sixteen times as large as their file.
    ///
    /// # Errors
    /// When there is no memory for the panels, or no kernel for a format that is right on this CPU.
    pub(crate) fn new(model: &Model, ops: &[&Op], pool: &mut Pool, picker: &mut Picker<'_>) -> Result<Self> {
        let matrices = model.weights.matrices();
        let mut entries: Vec<Option<Entry>> = matrices.iter().map(|_| None).collect();
        let mut length = 0usize;
        // Tables come last: one that is multiplied with too is laid out, one of which only rows are looked up is not.
        let multiplied = ops.iter().flat_map(|op| multiplied(op)).map(|(id, parts)| (id, parts, true));
        let looked_up = ops.iter().filter_map(|op| looked_up(op)).map(|id| (id, 1, false));
        for (id, parts, is_multiplied) in multiplied.chain(looked_up) {
            let entry = &mut entries[id.0 as usize];
            if entry.is_some() {
                continue;
            }
            let matrix = model.weights.matrix(id).clone();
            let place = match Layout::of(matrix.format()).filter(|_| is_multiplied) {
                None => Held::Rows,
                Some(layout) if matrix.rows() / parts < PANEL_ROWS => Held::File(layout),
                Some(layout) => {
                    let bytes = parts * panels_bytes(matrix.rows() / parts, matrix.row_bytes());
                    let start = length;
                    length += bytes;
                    Held::Panels(layout, start..length)
                }
            };
            let kernel = is_multiplied.then(|| picker.pick(matrix.format())).transpose()?;
            *entry = Some(Entry { kernel, matrix, parts, place });
        }
        let panels = LargePages::new(length)
            .map_err(|cause| error(format!("no memory for {length} bytes of weights: {cause}")))?;
        let mut weights = Self { entries, panels };
        weights.lay_out(pool);
        Ok(weights)
    }

    fn lay_out(&mut self, pool: &mut Pool) {
        let workers = pool.workers();
        for entry in self.entries.iter().flatten() {
            let Held::Panels(layout, range) = &entry.place else { continue };
            let matrix = &entry.matrix;
            let (format, row_bytes) = (matrix.format(), matrix.row_bytes());
            let panel_bytes = PANEL_ROWS * row_bytes;
            let part_rows = matrix.rows() / entry.parts;
            let part_panels = part_rows.div_ceil(PANEL_ROWS);
            let panels = entry.parts * part_panels;
            let per_piece = (PIECE_BYTES / panel_bytes).max(1);
            let per_round = (ROUND_BYTES / panel_bytes).max(1);
            // The file's rows of a panel.
            let rows = |index: usize| {
                let (part, panel) = (index / part_panels, index % part_panels);
                let rows = panel * PANEL_ROWS..part_rows.min((panel + 1) * PANEL_ROWS);
                (part * part_rows + rows.start) * row_bytes..(part * part_rows + rows.end) * row_bytes
            };
            let out = SharedSlice::new(&mut self.panels[range.clone()]);
            for first in (0..panels).step_by(per_round) {
                let round = first..panels.min(first + per_round);
                pool.run(round.len().div_ceil(per_piece), workers, &|piece, _| {
                    let first = round.start + piece * per_piece;
                    for index in first..round.end.min(first + per_piece) {
                        // SAFETY: each panel is in one piece of one round.
                        let to = unsafe { out.part(index * panel_bytes..(index + 1) * panel_bytes) };
                        layout.pack(format, &matrix.bytes()[rows(index)], row_bytes, to);
                    }
                });
                let done = matrix.bytes().slice(rows(round.start).start..rows(round.end - 1).end);
                done.into_iter().for_each(|bytes| bytes.release_pages());
            }
        }
    }

    fn entry(&self, id: MatrixId) -> &Entry {
        self.entries[id.0 as usize].as_ref().expect("an op of this device reads the matrix")
    }

    /// A matrix that is one part.
    pub(crate) fn get(&self, id: MatrixId) -> Weights<'_> {
        self.part(id, 0)
    }

    /// One of the parts of a matrix.
    #[inline]
    pub(crate) fn part(&self, id: MatrixId, part: usize) -> Weights<'_> {
        let entry = self.entry(id);
        let matrix = &entry.matrix;
        let rows = matrix.rows() / entry.parts;
        let in_file = || &matrix.bytes()[part * rows * matrix.row_bytes()..(part + 1) * rows * matrix.row_bytes()];
        let place = match &entry.place {
            Held::Panels(layout, range) => {
                let bytes = range.len() / entry.parts;
                Place::Panels(layout, &self.panels[range.start + part * bytes..][..bytes])
            }
            Held::File(layout) => Place::File(layout, in_file()),
            Held::Rows => Place::Rows(in_file()),
        };
        Weights { format: matrix.format(), rows, columns: matrix.columns(), place }
    }

    /// The kernel of a matrix.
    pub(crate) fn kernel(&self, id: MatrixId) -> Picked {
        self.entry(id).kernel.expect("an op multiplies with the matrix")
    }

    /// Every matrix, each by its first part.
    pub(crate) fn all(&self) -> impl Iterator<Item = Weights<'_>> + Clone {
        let held = self.entries.iter().enumerate().filter(|(_, entry)| entry.is_some());
        held.map(|(index, _)| self.get(MatrixId(index as u32)))
    }

    /// Bytes of all matrices, as they are held.
    pub(crate) fn bytes(&self) -> usize {
        let unpacked = self.entries.iter().flatten().filter(|entry| !matches!(entry.place, Held::Panels(..)));
        self.panels.len() + unpacked.map(|entry| entry.matrix.bytes().len()).sum::<usize>()
    }
}

fn panels_bytes(rows: usize, row_bytes: usize) -> usize {
    rows.next_multiple_of(PANEL_ROWS) * row_bytes
}

/// The matrices that an op multiplies with, and in how many parts.
fn multiplied(op: &Op) -> Vec<(MatrixId, usize)> {
    match op {
        Op::Linear { parts, .. } => parts.iter().map(|part| (part.matrix, 1)).collect(),
        Op::ExpertLinear { parts, experts, .. } => parts.iter().map(|part| (part.matrix, *experts)).collect(),
        _ => Vec::new(),
    }
}

/// The table of which an op looks rows up.
fn looked_up(op: &Op) -> Option<MatrixId> {
    match op {
        Op::Embed { table, .. } => Some(*table),
        _ => None,
    }
}
