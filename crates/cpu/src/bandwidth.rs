//! How fast the memory can be read: the ceiling over decode, whose every token reads all weights.
//!
//! A number of threads read a buffer that no cache holds, five times in each of two ways; the best counts, since whatever else happens on the
//! machine only slows a read down. Who is free takes the next piece, as in decode, so that a thread that another program holds
//! up does not hold up the rest. What is read is summed (or its bits are collected), 64 bytes at a time into sums
//! that do not wait for each other, so that the memory is the limit and not the instructions.

use std::alloc::{Layout, alloc_zeroed, dealloc};
use std::fmt;
use std::hint::black_box;
use std::ptr::NonNull;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Barrier, mpsc};
use std::thread;
use std::time::Instant;

use crate::isa::Isa;
use crate::simd::{Simd, Task};

/// Bytes that a read takes where memory allows it: more than any cache holds.
const WANTED_BYTES: u64 = (1 << 30) + (64 << 20);

/// Less than this would measure caches.
const LEAST_BYTES: u64 = 256 << 20;

/// Reads in each way; the best one counts.
const READS: usize = 5;

/// Parts of the buffer begin at multiples of this: a large page.
const ALIGNMENT_BYTES: usize = 2 << 20;

/// Numbers that a thread takes at a time: 1 MiB.
const PIECE: usize = (1 << 20) / size_of::<u64>();

/// Numbers of a cache line.
const LINE: usize = 64 / size_of::<u64>();

/// Bytes of a cache line.
const CACHE_LINE_BYTES: usize = 64;

/// How far ahead the cache is asked: 256 to 1024 made no difference where it was measured, but a quarter more than nothing.
const AHEAD_BYTES: usize = 512;

/// Streams that a thread reads side by side.
const STREAMS: usize = 4;

/// The kind of pages to read. How many bytes a page has decides how often addresses must be translated.
#[derive(Debug, Clone, Copy)]
pub enum Pages<'a> {
    /// Ordinary pages: large ones are declined where the system would give them by itself.
    Ordinary,
    /// Large pages, asked for with `madvise`. The system may not have them.
    Large,
    /// These bytes as they are mapped, for example a file's; at least 256 MiB.
    Mapped(&'a [u8]),
}

impl Pages<'_> {
    /// What they are called.
    pub fn name(&self) -> &'static str {
        match self {
            Pages::Ordinary => "ordinary",
            Pages::Large => "large",
            Pages::Mapped(_) => "mapped",
        }
    }
}

/// What the memory gave.
#[derive(Debug, Clone, PartialEq)]
pub struct ReadBandwidth {
    /// The best rate of the reads, all threads together.
    pub bytes_per_s: f64,
    /// Bytes of one read.
    pub bytes: u64,
    /// How many reads there were.
    pub reads: usize,
    /// Threads that read.
    pub threads: usize,
    /// The kind of pages.
    pub pages: &'static str,
}

/// Why nothing was measured.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Skipped(pub String);

impl fmt::Display for Skipped {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl std::error::Error for Skipped {}

/// Measures with `threads` threads. `available_bytes` is what memory can be taken, where that is known: half of it at
/// most is used, so that nothing else must leave the memory.
pub(crate) fn read_bandwidth(
    isa: Isa,
    threads: usize,
    pages: Pages<'_>,
    available_bytes: Option<u64>,
) -> Result<ReadBandwidth, Skipped> {
    let threads = threads.max(1);
    let bytes = buffer_bytes(&pages, available_bytes)?;
    let rates = if let Pages::Mapped(bytes) = pages {
        // SAFETY: every bit pattern is a number.
        let (_, numbers, _) = unsafe { bytes.align_to::<u64>() };
        rates(isa, threads, numbers)?
    } else {
        let mut buffer = Buffer::new(bytes).ok_or_else(|| Skipped(format!("the system gives no {bytes} bytes")))?;
        buffer.advise(matches!(pages, Pages::Large));
        fill(threads, buffer.numbers_mut())?;
        rates(isa, threads, buffer.numbers_mut())?
    };
    let bytes_per_s = rates.iter().copied().fold(0.0, f64::max);
    Ok(ReadBandwidth { bytes_per_s, bytes: bytes as u64, reads: rates.len(), threads, pages: pages.name() })
}

/// Bytes to read: as many as wanted, or as memory allows.
fn buffer_bytes(pages: &Pages<'_>, available_bytes: Option<u64>) -> Result<usize, Skipped> {
    let (bytes, what) = match pages {
        Pages::Mapped(bytes) => (bytes.len() as u64, "bytes are mapped"),
        _ => (available_bytes.map_or(WANTED_BYTES, |available| WANTED_BYTES.min(available / 2)), "bytes may be taken"),
    };
    if bytes < LEAST_BYTES {
        return Err(Skipped(format!("only {bytes} {what}, and less than {LEAST_BYTES} would measure caches")));
    }
    usize::try_from(bytes).map_err(|_| Skipped(format!("{bytes} bytes do not fit the address space")))
}

/// Writes all numbers, in parts: memory that was never written is one page of zeros, and with several memories a page lies near to
/// who writes it first.
fn fill(threads: usize, numbers: &mut [u64]) -> Result<(), Skipped> {
    let part = numbers.len().div_ceil(threads).max(1);
    thread::scope(|scope| {
        for part in numbers.chunks_mut(part) {
            thread::Builder::new().spawn_scoped(scope, || part.fill(1)).map_err(|error| no_threads(threads, &error))?;
        }
        Ok(())
    })
}

fn no_threads(threads: usize, error: &std::io::Error) -> Skipped {
    Skipped(format!("{threads} threads were asked for: {error}"))
}

/// The rates of all reads by so many threads, in bytes per second.
fn rates(isa: Isa, threads: usize, numbers: &[u64]) -> Result<Vec<f64>, Skipped> {
    let barrier = Barrier::new(threads);
    // The next piece of each read.
    let next: [AtomicUsize; 2 * READS + 1] = Default::default();
    let results: Vec<Vec<Read>> = thread::scope(|scope| {
        let mut readers = Vec::with_capacity(threads);
        for _ in 0..threads {
            // Nobody begins before all are there: without a word on the channel, a thread ends.
            let (begin, begins) = mpsc::channel();
            let (barrier, next) = (&barrier, &next);
            let run = move || {
                if begins.recv().is_err() {
                    return Vec::new();
                }
                let way = |index: usize| if index.is_multiple_of(2) { Way::Ahead } else { Way::Streams };
                next.iter().enumerate().map(|(index, next)| read(isa, numbers, way(index), next, barrier)).collect()
            };
            let reader = thread::Builder::new().spawn_scoped(scope, run);
            readers.push((begin, reader.map_err(|error| no_threads(threads, &error))?));
        }
        for (begin, _) in &readers {
            // The other end waits for it.
            let _ = begin.send(());
        }
        // A reader does nothing that panics.
        Ok(readers.into_iter().filter_map(|(_, reader)| reader.join().ok()).collect())
    })?;
    let rate = |index: usize| {
        let reads = || results.iter().filter_map(|reads| reads.get(index));
        let (start, end) = (reads().map(|read| read.start).min()?, reads().map(|read| read.end).max()?);
        let bytes: usize = reads().map(|read| read.bytes).sum();
        Some(bytes as f64 / end.duration_since(start).as_secs_f64().max(1e-9))
    };
    // The first read brings pages and addresses in, and does not count.
    Ok((1..=2 * READS).filter_map(rate).collect())
}

/// One thread's part of one read.
struct Read {
    start: Instant,
    end: Instant,
    bytes: usize,
}

/// Takes pieces of a read that all threads begin together, until none is left.
fn read(isa: Isa, numbers: &[u64], way: Way, next: &AtomicUsize, barrier: &Barrier) -> Read {
    let mut bytes = 0;
    barrier.wait();
    let start = Instant::now();
    loop {
        let first = next.fetch_add(1, Ordering::Relaxed).saturating_mul(PIECE);
        let Some(piece) = numbers.get(first..(first + PIECE).min(numbers.len())).filter(|piece| !piece.is_empty())
        else {
            break;
        };
        black_box(isa.run(Touch { numbers: black_box(piece), way }));
        bytes += size_of_val(piece);
    }
    Read { start, end: Instant::now(), bytes }
}

/// Reads all numbers in one of two ways and returns something that depends on each of them. Which way is the faster one
/// depends on the machine, so both are tried.
struct Touch<'a> {
    numbers: &'a [u64],
    way: Way,
}

/// How numbers are read.
#[derive(Debug, Clone, Copy, PartialEq)]
enum Way {
    /// From the first to the last, with the cache asked ahead.
    Ahead,
    /// Several streams side by side: one alone keeps too few cache lines on their way where nobody asks ahead.
    Streams,
}

impl Task for Touch<'_> {
    type Output = u64;

    #[inline(always)]
    fn run<S: Simd>(self, s: S) -> u64 {
        match self.way {
            Way::Ahead => ahead(s, self.numbers),
            Way::Streams => streams(self.numbers),
        }
    }
}

/// The bits that any number has.
#[inline(always)]
fn ahead<S: Simd>(s: S, numbers: &[u64]) -> u64 {
    let (blocks, rest) = numbers.as_chunks::<{ STREAMS * LINE }>();
    let mut bits = [s.zeros(); STREAMS * LINE * size_of::<u64>() / 32];
    for block in blocks {
        // SAFETY: every bit pattern is a byte, and there are eight in a number.
        let (_, bytes, _) = unsafe { block.align_to::<u8>() };
        for (index, vector) in bytes.chunks_exact(4 * S::ROWS).enumerate() {
            if (index * 4 * S::ROWS).is_multiple_of(CACHE_LINE_BYTES) {
                s.prefetch(vector, AHEAD_BYTES);
            }
            bits[index] = s.either(bits[index], s.words(vector));
        }
    }
    let mut all = rest.iter().fold(0, |all, number| all | number);
    for bits in bits {
        let mut bytes = [0; CACHE_LINE_BYTES];
        s.put_words(bits, &mut bytes);
        all = bytes.as_chunks().0.iter().fold(all, |all, bytes| all | u64::from_ne_bytes(*bytes));
    }
    all
}

/// The wrapping sum, each stream with sums of its own.
#[inline(always)]
fn streams(numbers: &[u64]) -> u64 {
    let (lines, rest) = numbers.as_chunks::<LINE>();
    let stream = lines.len() / STREAMS;
    let mut sums = [[0u64; LINE]; STREAMS];
    for index in 0..stream {
        for (number, sums) in sums.iter_mut().enumerate() {
            let line = &lines[number * stream + index];
            for (sum, number) in sums.iter_mut().zip(line) {
                *sum = sum.wrapping_add(*number);
            }
        }
    }
    let left = lines[STREAMS * stream..].iter().flatten().chain(rest);
    sums.iter().flatten().chain(left).fold(0, |sum, number| sum.wrapping_add(*number))
}

/// Zeroed memory that begins at a large page; the system gives it when it is written.
struct Buffer {
    start: NonNull<u64>,
    layout: Layout,
}

impl Buffer {
    /// `bytes` of memory, or `None` where the system has none.
    fn new(bytes: usize) -> Option<Buffer> {
        let layout = Layout::from_size_align(bytes.next_multiple_of(ALIGNMENT_BYTES), ALIGNMENT_BYTES).ok()?;
        // SAFETY: the layout is not empty, as `bytes` is not 0 (see `buffer_bytes`; an empty one is refused here).
        let start = if layout.size() == 0 { return None } else { unsafe { alloc_zeroed(layout) } };
        NonNull::new(start.cast()).map(|start| Buffer { start, layout })
    }

    fn len(&self) -> usize {
        self.layout.size() / size_of::<u64>()
    }

    /// Asks for large pages, or declines them. A wish: where the system has none, pages are as they are.
    fn advise(&mut self, large: bool) {
        #[cfg(target_os = "linux")]
        {
            use rustix::mm::{Advice, madvise};
            let advice = if large { Advice::LinuxHugepage } else { Advice::LinuxNoHugepage };
            // SAFETY: the range is this buffer's own, and neither advice changes what it holds.
            let _ = unsafe { madvise(self.start.as_ptr().cast(), self.layout.size(), advice) };
        }
        #[cfg(not(target_os = "linux"))]
        let _ = large;
    }

    fn numbers_mut(&mut self) -> &mut [u64] {
        // SAFETY: the memory is this buffer's own, aligned, as long as the layout says, zeroed when it was taken, and borrowed
        // alone.
        unsafe { std::slice::from_raw_parts_mut(self.start.as_ptr(), self.len()) }
    }
}

impl Drop for Buffer {
    fn drop(&mut self) {
        // SAFETY: taken with this layout in `new`, and given back once.
        unsafe { dealloc(self.start.as_ptr().cast(), self.layout) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_number_is_read_once() {
        for isa in Isa::available() {
            for length in [0, 1, 31, 32, 33, 64, 1000] {
                let numbers: Vec<u64> = (1..=length).collect();
                let sum = isa.run(Touch { numbers: &numbers, way: Way::Streams });
                assert_eq!(sum, length * (length + 1) / 2, "{} {length}", isa.name());
                for place in 0..length as usize {
                    let mut one = vec![0; length as usize];
                    one[place] = 1 << (place % 64);
                    let bits = isa.run(Touch { numbers: &one, way: Way::Ahead });
                    assert_eq!(bits, 1 << (place % 64), "{} {length} {place}", isa.name());
                }
            }
            assert_eq!(isa.run(Touch { numbers: &[u64::MAX, 2], way: Way::Streams }), 1);
        }
    }

    #[test]
    fn every_piece_is_read_once() {
        let isa = Isa::best(None).unwrap();
        for length in [0, 5, PIECE, 3 * PIECE + 7] {
            let (next, barrier) = (AtomicUsize::new(0), Barrier::new(1));
            let numbers = vec![1; length];
            assert_eq!(read(isa, &numbers, Way::Ahead, &next, &barrier).bytes, length * 8);
            assert_eq!(read(isa, &numbers, Way::Ahead, &next, &barrier).bytes, 0, "nothing is left");
        }
        for threads in [1, 2, 7] {
            let rates = rates(isa, threads, &vec![1; 2 * PIECE + 1]).unwrap();
            assert_eq!(rates.len(), 2 * READS, "{threads}");
            assert!(rates.iter().all(|rate| rate.is_finite() && *rate > 0.0), "{threads}: {rates:?}");
        }
    }

    #[test]
    fn a_buffer_is_written_to_its_end() {
        for large in [false, true] {
            let mut buffer = Buffer::new(3 << 20).unwrap();
            assert_eq!(buffer.len() * 8, 4 << 20);
            buffer.advise(large);
            assert_eq!(buffer.numbers_mut().as_ptr() as usize % ALIGNMENT_BYTES, 0);
            fill(3, buffer.numbers_mut()).unwrap();
            assert!(buffer.numbers_mut().iter().all(|&number| number == 1));
        }
        assert!(Buffer::new(0).is_none());
    }

    #[test]
    fn short_memory_is_left_alone() {
        assert_eq!(buffer_bytes(&Pages::Ordinary, None).unwrap() as u64, WANTED_BYTES);
        assert_eq!(buffer_bytes(&Pages::Large, Some(1 << 40)).unwrap() as u64, WANTED_BYTES);
        assert_eq!(buffer_bytes(&Pages::Ordinary, Some(1 << 30)).unwrap(), 512 << 20);
        let skipped = buffer_bytes(&Pages::Ordinary, Some(100)).unwrap_err();
        assert!(skipped.to_string().starts_with("only 50 bytes may be taken"), "{skipped}");
        let skipped = read_bandwidth(Isa::best(None).unwrap(), 1, Pages::Mapped(&[0; 64]), None).unwrap_err();
        assert!(skipped.to_string().starts_with("only 64 bytes are mapped"), "{skipped}");
    }
}
