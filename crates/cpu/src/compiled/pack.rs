//! Panels as they are kept between starts: a *pack*.
//!
//! ```text
//! head       magic, version, length; what every panel is, one line for each matrix; zeros up to a whole 64 KiB
//! data       the panels, exactly as they lie in memory
//! checksums  XXH3 of each MiB of the data, 8 bytes each, little-endian
//! ```
//!
//! The head of the pack that is wanted is known before any is opened, so nothing in one is ever parsed: a pack whose head
//! is not that one, byte for byte, is another one. One pack serves every instruction set, as panels are the same for all.

use std::fmt::Write as _;
use std::ops::Range;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::JoinHandle;

use duan_backend::{PackReader, PackWriter};
use duan_model::bytes::SharedBytes;
use duan_model::weights::Matrix;
use xxhash_rust::xxh3::xxh3_64;

use crate::panels::{LAYOUT_VERSION, Layout};
use crate::pool::Pool;
use crate::shared::SharedSlice;
use crate::simd::PANEL_ROWS;

const MAGIC: &[u8; 8] = b"duanpack";
/// Magic, version, length of the head.
const START_BYTES: usize = 16;
/// What a checksum is for, and what is read and written at once.
const CHUNK_BYTES: usize = 1 << 20;
const CHECKSUM_BYTES: usize = size_of::<u64>();
/// Panels in a mapped pack begin with a page, whatever size pages have.
const ALIGNMENT: usize = 64 << 10;

/// Some parts of a matrix in panels, and where they lie in the data.
pub(super) struct Row<'a> {
    pub(super) matrix: &'a Matrix,
    pub(super) parts: usize,
    pub(super) layout: &'static Layout,
    pub(super) range: Range<usize>,
}

/// Everything about a pack but its panels.
#[derive(Debug)]
pub(super) struct Form {
    key: String,
    head: Vec<u8>,
    data_bytes: usize,
}

/// A pack that is being written by a thread of its own, while the model answers already. Who wants it waits for it: where this is
/// dropped before, the rest is left out, and nothing is kept.
#[derive(Debug)]
pub(super) struct Writing {
    thread: Option<JoinHandle<()>>,
    stop: Arc<AtomicBool>,
}

impl Form {
    /// The form of the pack of these matrices, whose panels have `data_bytes` in all.
    pub(super) fn new<'a>(rows: impl Iterator<Item = Row<'a>>, data_bytes: usize) -> Self {
        let mut table = String::new();
        let mut layouts = String::new();
        for Row { matrix, parts, layout, range } in rows {
            let (name, format) = (matrix.name(), matrix.format().name);
            let (rows, columns) = (matrix.rows(), matrix.columns());
            // Writing to a string cannot fail.
            let _ = write!(table, "{name:?} {format} {rows} {columns} {parts} {}..{}", range.start, range.end);
            // The same files may be translated in another way, by another version or for another format.
            let _ = matrix.recipe().map(|recipe| write!(table, " made: {recipe}"));
            table.push('\n');
            let _ = writeln!(layouts, "{layout:?}");
        }
        // Packs of other parts of a model lie beside each other; one in older layouts makes room for the newer one.
        let key = format!("cpu-{:016x}", xxh3_64(table.as_bytes()));
        let text = format!(
            "{PANEL_ROWS} rows in a panel, for every instruction set\n{CHUNK_BYTES} bytes to a checksum\n{data_bytes} bytes\n\
             {table}{layouts}"
        );
        let head_bytes = (START_BYTES + text.len()).next_multiple_of(ALIGNMENT);
        let mut head = Vec::with_capacity(head_bytes);
        head.extend_from_slice(MAGIC);
        head.extend_from_slice(&LAYOUT_VERSION.to_le_bytes());
        head.extend_from_slice(&(head_bytes as u32).to_le_bytes());
        head.extend_from_slice(text.as_bytes());
        head.resize(head_bytes, 0);
        Self { key, head, data_bytes }
    }

    /// What the store calls it by.
    pub(super) fn key(&self) -> &str {
        &self.key
    }

    fn chunks(&self) -> usize {
        self.data_bytes.div_ceil(CHUNK_BYTES)
    }

    fn chunk(&self, index: usize) -> Range<usize> {
        index * CHUNK_BYTES..self.data_bytes.min((index + 1) * CHUNK_BYTES)
    }

    /// Length of the whole pack.
    pub(super) fn bytes(&self) -> u64 {
        (self.head.len() + self.data_bytes + self.chunks() * CHECKSUM_BYTES) as u64
    }

    /// Compares all but the panels with what is wanted, and gives the checksums of these.
    fn check(&self, pack: &dyn PackReader) -> Result<Vec<u64>, String> {
        let mut start = [0; START_BYTES];
        pack.read_at(&mut start, 0).map_err(unreadable)?;
        if &start[..8] != MAGIC {
            return Err("it is no pack".to_owned());
        }
        if start[8..12] != LAYOUT_VERSION.to_le_bytes() {
            return Err("another version of duan made it".to_owned());
        }
        if pack.bytes() != self.bytes() {
            return Err(format!("it has {} bytes instead of {}", pack.bytes(), self.bytes()));
        }
        let mut head = vec![0; self.head.len()];
        pack.read_at(&mut head, 0).map_err(unreadable)?;
        if head != self.head {
            return Err("it is of other matrices or layouts".to_owned());
        }
        let mut checksums = vec![0; self.chunks() * CHECKSUM_BYTES];
        pack.read_at(&mut checksums, (self.head.len() + self.data_bytes) as u64).map_err(unreadable)?;
        Ok(checksums.as_chunks().0.iter().map(|bytes| u64::from_le_bytes(*bytes)).collect())
    }

    /// Copies the panels of `pack` into `data` [data_bytes], by all workers, and verifies them on the way: each chunk is still in
    /// the core's cache when it is summed. After an error the data are of no use.
    pub(super) fn read(&self, pack: &dyn PackReader, pool: &mut Pool, data: &mut [u8]) -> Result<(), String> {
        let checksums = self.check(pack)?;
        let (workers, first_error) = (pool.workers(), FirstError::default());
        let data = SharedSlice::new(&mut data[..self.data_bytes]);
        pool.run(self.chunks(), workers, &|index, _| {
            if first_error.happened() {
                return;
            }
            let range = self.chunk(index);
            // SAFETY: each chunk is one piece of work.
            let chunk = unsafe { data.part(range.clone()) };
            match pack.read_at(chunk, (self.head.len() + range.start) as u64) {
                Err(error) => first_error.set(unreadable(error)),
                Ok(()) if xxh3_64(chunk) != checksums[index] => first_error.set(damaged(index)),
                Ok(()) => {}
            }
        });
        first_error.into_result()
    }

    /// Maps the panels of `pack` [data_bytes], and verifies them, which reads them once from end to end.
    pub(super) fn map(&self, pack: &dyn PackReader, pool: &mut Pool) -> Result<SharedBytes, String> {
        let checksums = self.check(pack)?;
        let map = pack.map().map_err(unreadable)?;
        let data = map.slice(self.head.len()..self.head.len() + self.data_bytes);
        let data = data.ok_or_else(|| "it was cut while it was opened".to_owned())?;
        let (workers, first_error) = (pool.workers(), FirstError::default());
        pool.run(self.chunks(), workers, &|index, _| {
            if !first_error.happened() && xxh3_64(&data[self.chunk(index)]) != checksums[index] {
                first_error.set(damaged(index));
            }
        });
        first_error.into_result().map(|()| data)
    }

    /// Writes a pack from end to end, unless it is to stop.
    fn write(&self, data: &[u8], pack: &mut dyn PackWriter, stop: &AtomicBool) -> std::io::Result<()> {
        pack.write(&self.head)?;
        let mut checksums = Vec::with_capacity(self.chunks() * CHECKSUM_BYTES);
        for index in 0..self.chunks() {
            if stop.load(Ordering::Relaxed) {
                return Err(std::io::Error::other("nobody waits for it any more"));
            }
            let chunk = &data[self.chunk(index)];
            checksums.extend_from_slice(&xxh3_64(chunk).to_le_bytes());
            pack.write(chunk)?;
        }
        pack.write(&checksums)
    }

    /// Writes the panels `data` [data_bytes] as `pack`, in a thread of its own: neither the start nor an answer waits for the disk.
    pub(super) fn write_aside(self, data: Arc<super::weights::Panels>, mut pack: Box<dyn PackWriter>) -> Writing {
        let stop = Arc::new(AtomicBool::new(false));
        let stopped = stop.clone();
        let write = move || {
            // The store has noted in its log what went wrong, and a pack that is not finished is none.
            if self.write(&data, &mut *pack, &stopped).is_ok() && !stopped.load(Ordering::Relaxed) {
                let _ = pack.finish();
            }
        };
        // Without a thread there is no pack this time.
        Writing { thread: std::thread::Builder::new().name("duan-pack".to_owned()).spawn(write).ok(), stop }
    }
}

impl Writing {
    /// Waits until the pack is written, or has failed.
    pub(super) fn wait(&mut self) {
        if let Some(thread) = self.thread.take() {
            // Its panic was told where it happened; the model does not depend on the pack.
            let _ = thread.join();
        }
    }
}

impl Drop for Writing {
    fn drop(&mut self) {
        self.stop.store(true, Ordering::Relaxed);
        // It ends with the piece that it is at, and removes what it has written.
        self.wait();
    }
}

/// The first of several workers' errors.
#[derive(Default)]
pub(super) struct FirstError {
    happened: AtomicBool,
    text: Mutex<Option<String>>,
}

impl FirstError {
    pub(super) fn happened(&self) -> bool {
        self.happened.load(Ordering::Relaxed)
    }

    pub(super) fn set(&self, text: String) {
        self.text.lock().unwrap_or_else(PoisonError::into_inner).get_or_insert(text);
        self.happened.store(true, Ordering::Relaxed);
    }

    pub(super) fn into_result(self) -> Result<(), String> {
        self.text.into_inner().unwrap_or_else(PoisonError::into_inner).map_or(Ok(()), Err)
    }
}

fn unreadable(error: std::io::Error) -> String {
    format!("it cannot be read: {error}")
}

fn damaged(chunk: usize) -> String {
    format!("it is damaged near byte {} of its panels", chunk * CHUNK_BYTES)
}

#[cfg(test)]
#[path = "pack_tests.rs"]
mod tests;

#[cfg(test)]
mod stop_tests {
    use std::sync::mpsc::{Receiver, Sender, channel};

    use super::*;
    use crate::compiled::weights::Panels;

    /// A disk that takes one piece for each word of permission.
    struct Slow {
        may: Receiver<()>,
        told: Sender<&'static str>,
    }

    impl PackWriter for Slow {
        fn write(&mut self, _: &[u8]) -> std::io::Result<()> {
            self.told.send("write").unwrap();
            self.may.recv().map_err(std::io::Error::other)
        }

        fn finish(self: Box<Self>) -> std::io::Result<()> {
            self.told.send("finish").unwrap();
            Ok(())
        }
    }

    impl Drop for Slow {
        fn drop(&mut self) {
            self.told.send("drop").unwrap();
        }
    }

    /// A pack of three pieces that is being written, with what lets it go on, and what was asked of the disk.
    fn writing() -> (Writing, Sender<()>, Receiver<&'static str>) {
        let ((allow, may), (told, heard)) = (channel(), channel());
        let form = Form::new(std::iter::empty(), 3 * CHUNK_BYTES);
        let data = Panels::Mapped(SharedBytes::from(vec![1; 3 * CHUNK_BYTES]));
        (form.write_aside(Arc::new(data), Box::new(Slow { may, told })), allow, heard)
    }

    #[test]
    fn who_waits_gets_a_whole_pack() {
        let (mut writing, allow, heard) = writing();
        // Head, pieces, checksums.
        (0..5).for_each(|_| allow.send(()).unwrap());
        writing.wait();
        drop(writing);
        assert_eq!(heard.iter().collect::<Vec<_>>(), ["write", "write", "write", "write", "write", "finish", "drop"]);
    }

    #[test]
    fn who_does_not_wait_waits_for_one_piece_at_most() {
        let (writing, allow, heard) = writing();
        let stop = writing.stop.clone();
        assert_eq!(heard.recv(), Ok("write"));
        let dropping = std::thread::spawn(move || drop(writing));
        while !stop.load(Ordering::Relaxed) {
            std::thread::yield_now();
        }
        allow.send(()).unwrap();
        dropping.join().unwrap();
        assert_eq!(heard.iter().collect::<Vec<_>>(), ["drop"], "neither another piece nor a name");
    }
}
