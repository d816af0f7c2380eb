//! The matrices of a model as this device holds them.

use std::ops::{Deref, Range};
use std::sync::Arc;

use duan_backend::{PackReading, PackStore, Packing};
use duan_model::Model;
use duan_model::bytes::SharedBytes;
use duan_model::graph::Op;
use duan_model::weights::{Matrix, MatrixId};

use super::pack::{FirstError, Form, Row, Writing};
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
    /// The matrix as it was loaded, while another is in its place.
    own: Option<(Matrix, Held)>,
}

/// Where the bytes of an entry are.
enum Held {
    /// In panels, in this range of what was laid out: each part by itself, its last panel filled up.
    Panels(&'static Layout, Range<usize>),
    /// In the file, to be laid out when it is used. Rows that no file has were made at load.
    File(&'static Layout),
    /// In the file: of a format without a layout, or only to look rows up. Rows that no file has were made at load.
    Rows,
}

/// Where the panels of all matrices are.
#[derive(Debug)]
pub(super) enum Panels {
    /// In memory of the program.
    Own(LargePages),
    /// In a file that is kept.
    Mapped(SharedBytes),
}

impl Deref for Panels {
    type Target = [u8];

    #[inline]
    fn deref(&self) -> &[u8] {
        match self {
            Self::Own(pages) => pages,
            Self::Mapped(bytes) => bytes,
        }
    }
}

/// Every matrix that this device reads.
pub(crate) struct DeviceWeights {
    entries: Vec<Option<Entry>>,
    /// Shared with the thread that keeps them.
    panels: Arc<Panels>,
    /// Its end is waited for when the weights are dropped.
    writing: Option<Writing>,
}

impl DeviceWeights {
    /// Takes the matrices that `ops` read, and lays them out where `packing` says so. Those with fewer rows than a panel stay as
    /// they are: filled up they could be sixteen times as large as their file.
    ///
    /// # Errors
    /// When there is no memory for the panels, no kernel for a format that is right on this CPU, or a weight that cannot be written
    /// in the format that is wanted.
    pub(crate) fn new(
        model: &Model,
        ops: &[&Op],
        packing: Packing<'_>,
        pool: &mut Pool,
        picker: &mut Picker<'_>,
    ) -> Result<Self> {
        let matrices = model.weights.matrices();
        let mut entries: Vec<Option<Entry>> = matrices.iter().map(|_| None).collect();
        let is_in_file = matches!(packing, Packing::AsInFile);
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
                Some(layout) if is_in_file || matrix.rows() / parts < PANEL_ROWS => Held::File(layout),
                Some(layout) => {
                    let bytes = parts * panels_bytes(matrix.rows() / parts, matrix.row_bytes());
                    let start = length;
                    length += bytes;
                    Held::Panels(layout, start..length)
                }
            };
            let matrix = if matches!(place, Held::Panels(..)) { matrix } else { resident(matrix, pool)? };
            let kernel = is_multiplied.then(|| picker.pick(matrix.format())).transpose()?;
            *entry = Some(Entry { kernel, matrix, parts, place, own: None });
        }
        let (panels, writing) = match packing {
            Packing::Kept { store, reading } if length > 0 => kept(&entries, length, store, reading, pool)?,
            Packing::Kept { .. } | Packing::InMemory | Packing::AsInFile => {
                let mut pages = large_pages(length)?;
                lay_out(&entries, &mut pages, pool)?;
                (Arc::new(Panels::Own(pages)), None)
            }
        };
        Ok(Self { entries, panels, writing })
    }

    /// Puts `bytes` in the place of a matrix's own, to be laid out when they are used, or puts its own back. The bytes of a panel, for
    /// which whoever computes needs room now.
    ///
    /// # Errors
    /// When no op of this device reads the matrix. Panics where the bytes have another length than its own.
    pub(crate) fn replace(&mut self, id: MatrixId, bytes: Option<SharedBytes>) -> Result<usize> {
        let Some(entry) = self.entries.get_mut(id.0 as usize).and_then(Option::as_mut) else {
            return Err(error(format!("no op here reads matrix {}", id.0)));
        };
        if let Some((matrix, place)) = entry.own.take() {
            (entry.matrix, entry.place) = (matrix, place);
        }
        let Some(bytes) = bytes else { return Ok(0) };
        let place = match &entry.place {
            Held::Panels(layout, _) | Held::File(layout) => Held::File(layout),
            Held::Rows => Held::Rows,
        };
        let matrix = entry.matrix.with_bytes(bytes);
        let panel_bytes = PANEL_ROWS * matrix.row_bytes();
        entry.own = Some((std::mem::replace(&mut entry.matrix, matrix), std::mem::replace(&mut entry.place, place)));
        Ok(panel_bytes)
    }

    /// Waits until the panels are kept that are to be.
    pub(crate) fn settle(&mut self) {
        if let Some(mut writing) = self.writing.take() {
            writing.wait();
        }
    }

    /// All panels.
    #[cfg(test)]
    pub(super) fn panels(&self) -> &[u8] {
        &self.panels
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
        let in_file = || {
            let all = matrix.shared().expect("rows that are not laid out were made at load");
            &all[part * rows * matrix.row_bytes()..(part + 1) * rows * matrix.row_bytes()]
        };
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

    /// The order in which a matrix reads its input, where that is not the input's own.
    pub(crate) fn order(&self, id: MatrixId) -> Option<&[u32]> {
        self.entry(id).matrix.column_order()
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
        self.panels.len() + unpacked.map(|entry| entry.matrix.bytes()).sum::<usize>()
    }
}

fn large_pages(length: usize) -> Result<LargePages> {
    LargePages::new(length).map_err(|cause| error(format!("no memory for {length} bytes of weights: {cause}")))
}

/// Panels from the pack in `store`, where there is one that can be used; else laid out now, and being kept.
fn kept(
    entries: &[Option<Entry>],
    length: usize,
    store: &dyn PackStore,
    reading: PackReading,
    pool: &mut Pool,
) -> Result<(Arc<Panels>, Option<Writing>)> {
    let rows = entries.iter().flatten().filter_map(|entry| match &entry.place {
        Held::Panels(layout, range) => {
            Some(Row { matrix: &entry.matrix, parts: entry.parts, layout, range: range.clone() })
        }
        Held::File(_) | Held::Rows => None,
    });
    let form = Form::new(rows, length);
    let mut pages: Option<LargePages> = None;
    if let Some(pack) = store.open(form.key()) {
        let read = match reading {
            PackReading::Map => form.map(&*pack, pool).map(|map| Some(Panels::Mapped(map))),
            PackReading::Copy => form.read(&*pack, pool, pages.insert(large_pages(length)?)).map(|()| None),
        };
        match read {
            Ok(map) => {
                let panels = map.or(pages.map(Panels::Own)).expect("the pack is mapped, or copied to pages");
                return Ok((Arc::new(panels), None));
            }
            Err(reason) => store.discard(form.key(), &reason),
        }
    }
    // Memory into which a damaged pack was copied serves again: never is there a second copy.
    let mut pages = match pages {
        Some(pages) => pages,
        None => large_pages(length)?,
    };
    lay_out(entries, &mut pages, pool)?;
    let panels = Arc::new(Panels::Own(pages));
    let place = store.create(form.key(), form.bytes());
    let writing = place.map(|pack| form.write_aside(panels.clone(), pack));
    Ok((panels, writing))
}

/// The matrix with bytes that are there: rows that no file has are made now, by all workers.
fn resident(matrix: Matrix, pool: &mut Pool) -> Result<Matrix> {
    if matrix.shared().is_some() || matrix.rows() == 0 {
        return Ok(matrix);
    }
    let row_bytes = matrix.row_bytes();
    let per_piece = (PIECE_BYTES / row_bytes).max(1);
    let mut bytes = vec![0; matrix.bytes()];
    let out = SharedSlice::new(&mut bytes);
    let first_error = FirstError::default();
    let workers = pool.workers();
    pool.run(matrix.rows().div_ceil(per_piece), workers, &|piece, _| {
        let rows = piece * per_piece..matrix.rows().min((piece + 1) * per_piece);
        // SAFETY: each row is in one piece.
        let to = unsafe { out.part(rows.start * row_bytes..rows.end * row_bytes) };
        if let Err(error) = matrix.read_rows(rows.start, to) {
            first_error.set(error.to_string());
        }
        matrix.release_pages(rows);
    });
    first_error.into_result().map_err(error)?;
    Ok(matrix.with_bytes(bytes.into()))
}

/// Lays the matrices out, round by round, and gives the file's pages back after each. Rows that no file has are made on the way.
fn lay_out(entries: &[Option<Entry>], panels: &mut [u8], pool: &mut Pool) -> Result<()> {
    let workers = pool.workers();
    let first_error = FirstError::default();
    for entry in entries.iter().flatten() {
        let Held::Panels(layout, range) = &entry.place else { continue };
        let matrix = &entry.matrix;
        let (format, row_bytes) = (matrix.format(), matrix.row_bytes());
        let panel_bytes = PANEL_ROWS * row_bytes;
        let part_rows = matrix.rows() / entry.parts;
        let part_panels = part_rows.div_ceil(PANEL_ROWS);
        let count = entry.parts * part_panels;
        let per_piece = (PIECE_BYTES / panel_bytes).max(1);
        let per_round = (ROUND_BYTES / panel_bytes).max(1);
        // The rows of a panel.
        let rows = |index: usize| {
            let (part, panel) = (index / part_panels, index % part_panels);
            let rows = panel * PANEL_ROWS..part_rows.min((panel + 1) * PANEL_ROWS);
            part * part_rows + rows.start..part * part_rows + rows.end
        };
        let out = SharedSlice::new(&mut panels[range.clone()]);
        for first in (0..count).step_by(per_round) {
            let round = first..count.min(first + per_round);
            pool.run(round.len().div_ceil(per_piece), workers, &|piece, _| {
                let first = round.start + piece * per_piece;
                let mut made = Vec::new();
                for index in first..round.end.min(first + per_piece) {
                    // SAFETY: each panel is in one piece of one round.
                    let to = unsafe { out.part(index * panel_bytes..(index + 1) * panel_bytes) };
                    let rows = rows(index);
                    let from = match matrix.shared() {
                        Some(all) => &all[rows.start * row_bytes..rows.end * row_bytes],
                        None => {
                            made.resize(rows.len() * row_bytes, 0);
                            if let Err(error) = matrix.read_rows(rows.start, &mut made) {
                                return first_error.set(error.to_string());
                            }
                            &made
                        }
                    };
                    layout.pack(format, from, row_bytes, to);
                }
            });
            matrix.release_pages(rows(round.start).start..rows(round.end - 1).end);
            if first_error.happened() {
                return first_error.into_result().map_err(error);
            }
        }
    }
    Ok(())
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
