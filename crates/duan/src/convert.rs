//! Writing a model as a GGUF file: whatever it is read from, each tensor as it is or in another format.
//!
//! Rows are made by several threads, piece by piece, and written in their order; only a few pieces are in memory at once.

use std::collections::BTreeMap;
use std::io::{self, Write};
use std::ops::ControlFlow;
use std::path::Path;
use std::sync::{Condvar, Mutex, MutexGuard, PoisonError};

use duan_model::checkpoint::Checkpoint;
use duan_model::gguf::write::GgufWriter;
use duan_model::weights::TensorData;
use duan_quant::Format;
use serde::Serialize;

use crate::error::{Error, Result};

/// Bytes that one thread makes at once, at least a row.
const PIECE_BYTES: usize = 1 << 20;
/// Pieces that may wait to be written, for each thread.
const PIECES_PER_THREAD: usize = 3;

/// How a model is written.
#[derive(Debug, Clone, Copy)]
pub struct ConvertOptions {
    /// The format of its matrices, as [`Checkpoint::in_format`] has it; `None` leaves all as they are that GGUF
    /// can hold, see [`Checkpoint::for_gguf`].
    pub format: Option<&'static Format>,
    /// Threads that make rows; `None` takes as many as the machine runs at once.
    pub threads: Option<usize>,
    /// Whether a file that is there is replaced.
    pub force: bool,
}

/// What was written.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Converted {
    /// Length of the file.
    pub bytes: u64,
    /// The family of the model.
    pub family: String,
    /// Every tensor.
    pub tensors: Vec<ConvertedTensor>,
    /// Tensors that GGUF has no place for.
    pub left_out: Vec<String>,
    /// What is odd about the source and can be lived with.
    pub warnings: Vec<String>,
}

/// What became of one tensor.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct ConvertedTensor {
    /// Its name in GGUF.
    pub name: String,
    /// The format that it was in.
    pub from: String,
    /// The format that it is in now.
    pub to: String,
    /// Whether every weight is what it was. Otherwise it was requantized, or rounded to a shorter float.
    pub is_lossless: bool,
}

/// Writes the model as GGUF to `out`, which appears whole or not at all. `on_progress` is told how many bytes are written, and of
/// how many; a break ends it and gives `None`.
///
/// # Errors
/// Where the formats do not fit, a weight cannot be written in its format, the source cannot be read, the disk has no room or
/// `out` is there already.
pub fn write(
    source: &Checkpoint,
    out: &Path,
    options: &ConvertOptions,
    on_progress: &mut dyn FnMut(u64, u64) -> ControlFlow<()>,
) -> Result<Option<Converted>> {
    let checkpoint = source.for_gguf(options.format)?;
    if let Some(files) = source.disk_files()?
        && files.iter().any(|(_, file)| out.exists() && duan_files::is_at(file, out))
    {
        return Err(Error::SameFile { file: out.display().to_string() });
    }
    let jobs = jobs(&checkpoint)?;
    let threads = options.threads.or_else(|| std::thread::available_parallelism().ok().map(Into::into)).unwrap_or(1);
    let pipeline = Pipeline::new(&jobs, threads);
    let mut writer = GgufWriter::new(&out.display().to_string());
    for (key, value) in checkpoint.metadata().iter().filter(|(key, _)| !key.starts_with("split.")) {
        writer.key(key, value.clone())?;
    }
    let pipeline = &pipeline;
    for (tensor, job) in checkpoint.tensors().iter().zip(&jobs) {
        writer.tensor_with(&tensor.name, &tensor.dims, tensor.type_id, move |out| pipeline.write(job, out))?;
    }
    let bytes = writer.file_bytes();
    let mut told = |done: u64| on_progress(done, bytes);
    let written = std::thread::scope(|scope| {
        // However this ends, the workers end with it.
        let _stop = StopOnDrop(pipeline);
        for _ in 0..threads {
            std::thread::Builder::new().name("duan-convert".to_owned()).spawn_scoped(scope, || pipeline.work())?;
        }
        duan_files::write_whole(out, bytes, options.force, &mut told, |mut out| writer.write(&mut out).map(|_| ()))
            .map_err(io::Error::other)
    });
    if let Some(error) = pipeline.take_error() {
        return Err(error);
    }
    let written = written.map_err(|error| match error.downcast::<duan_files::WriteError>() {
        Ok(error) => Error::Write(error),
        Err(source) => Error::Write(duan_files::WriteError::Io { path: out.to_owned(), source }),
    })?;
    if !written {
        return Ok(None);
    }
    let family = checkpoint.metadata().string("general.architecture").ok().flatten().unwrap_or_default().to_owned();
    let tensors = checkpoint.tensors().iter().map(|tensor| {
        let (from, is_lossless) = source.origin_of(tensor);
        ConvertedTensor { name: tensor.name.clone(), from, to: tensor.type_name().into_owned(), is_lossless }
    });
    Ok(Some(Converted {
        bytes,
        family,
        tensors: tensors.collect(),
        left_out: source.left_out().to_vec(),
        warnings: source.warnings().to_vec(),
    }))
}

/// A tensor to be written, and where its pieces stand among all.
struct Job {
    data: TensorData,
    row_bytes: usize,
    rows: usize,
    /// Rows of a piece; 0 where nothing has to be made.
    piece_rows: usize,
    first_piece: usize,
}

fn jobs(checkpoint: &Checkpoint) -> Result<Vec<Job>> {
    let mut jobs = Vec::with_capacity(checkpoint.tensors().len());
    let mut pieces = 0;
    for tensor in checkpoint.tensors() {
        let data = checkpoint.data(tensor)?;
        let (rows, row_bytes, piece_rows) = match &data {
            // Of types that are not read here too, as nothing is done with them.
            TensorData::Shared(bytes) => (1, bytes.len(), 0),
            TensorData::Made(_) => {
                let rows: u64 = tensor.dims.iter().skip(1).product();
                let rows = usize::try_from(rows).unwrap_or(usize::MAX).max(1);
                let bytes = tensor.bytes.and_then(|bytes| usize::try_from(bytes).ok()).unwrap_or(usize::MAX);
                let row_bytes = bytes / rows;
                (rows, row_bytes, (PIECE_BYTES / row_bytes.max(1)).max(1))
            }
        };
        jobs.push(Job { data, row_bytes, rows, piece_rows, first_piece: pieces });
        pieces += rows.checked_div(piece_rows).map_or(0, |_| rows.div_ceil(piece_rows));
    }
    Ok(jobs)
}

/// Pieces that are made by several threads and taken in their order by one.
struct Pipeline<'j> {
    jobs: &'j [Job],
    pieces: usize,
    window: usize,
    state: Mutex<State>,
    changed: Condvar,
}

#[derive(Default)]
struct State {
    /// The next piece that a worker takes, and the next one to be written.
    next: usize,
    written: usize,
    done: BTreeMap<usize, Vec<u8>>,
    /// Buffers to be used again.
    free: Vec<Vec<u8>>,
    error: Option<Error>,
    is_stopped: bool,
}

struct StopOnDrop<'p, 'j>(&'p Pipeline<'j>);

impl Drop for StopOnDrop<'_, '_> {
    fn drop(&mut self) {
        self.0.lock().is_stopped = true;
        self.0.changed.notify_all();
    }
}

impl<'j> Pipeline<'j> {
    fn new(jobs: &'j [Job], threads: usize) -> Self {
        let last = jobs.last();
        let of_last =
            last.map_or(0, |job| job.rows.checked_div(job.piece_rows).map_or(0, |_| job.rows.div_ceil(job.piece_rows)));
        let pieces = last.map_or(0, |job| job.first_piece) + of_last;
        let window = threads.saturating_mul(PIECES_PER_THREAD).max(2);
        Self { jobs, pieces, window, state: Mutex::default(), changed: Condvar::new() }
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn wait<'s>(&self, state: MutexGuard<'s, State>) -> MutexGuard<'s, State> {
        self.changed.wait(state).unwrap_or_else(PoisonError::into_inner)
    }

    /// What a worker does: makes pieces until there are no more.
    fn work(&self) {
        loop {
            let mut state = self.lock();
            while !state.is_stopped && state.next < self.pieces && state.next >= state.written + self.window {
                state = self.wait(state);
            }
            if state.is_stopped || state.next >= self.pieces {
                return;
            }
            let index = state.next;
            state.next += 1;
            let mut buffer = state.free.pop().unwrap_or_default();
            drop(state);
            let made = self.make(index, &mut buffer);
            let mut state = self.lock();
            match made {
                Ok(()) => drop(state.done.insert(index, buffer)),
                Err(error) => {
                    state.error.get_or_insert(error);
                    state.is_stopped = true;
                }
            }
            self.changed.notify_all();
        }
    }

    fn make(&self, index: usize, buffer: &mut Vec<u8>) -> Result<()> {
        // The last job that begins at or before the piece: those without pieces begin where the next one does.
        let job = &self.jobs[self.jobs.partition_point(|job| job.first_piece <= index) - 1];
        let first = (index - job.first_piece) * job.piece_rows;
        let rows = job.piece_rows.min(job.rows - first);
        buffer.resize(rows * job.row_bytes, 0);
        job.data.read_rows(first, job.row_bytes, buffer)?;
        job.data.release_pages(first..first + rows, job.row_bytes);
        Ok(())
    }

    /// Writes one tensor, whose turn it is.
    fn write(&self, job: &Job, out: &mut dyn Write) -> io::Result<()> {
        if let TensorData::Shared(bytes) = &job.data {
            for start in (0..bytes.len()).step_by(PIECE_BYTES) {
                let part = bytes.slice(start..bytes.len().min(start + PIECE_BYTES));
                let part = part.ok_or_else(|| io::Error::other("a part within its tensor"))?;
                out.write_all(&part)?;
                part.release_pages();
            }
            return Ok(());
        }
        for _ in 0..job.rows.div_ceil(job.piece_rows) {
            let mut state = self.lock();
            let piece = loop {
                let written = state.written;
                if let Some(piece) = state.done.remove(&written) {
                    break piece;
                }
                if state.is_stopped {
                    return Err(io::Error::other("a tensor could not be made"));
                }
                state = self.wait(state);
            };
            state.written += 1;
            drop(state);
            self.changed.notify_all();
            out.write_all(&piece)?;
            self.lock().free.push(piece);
        }
        Ok(())
    }

    fn take_error(&self) -> Option<Error> {
        self.lock().error.take()
    }
}
