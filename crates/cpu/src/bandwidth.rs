//! How fast the memory can be read: the ceiling over decode, whose every token reads all weights.
//!
//! A number of threads read a buffer that no cache holds, several times; the best counts, since whatever else happens on the
//! machine only slows a read down. Who is free takes the next piece, as in decode, so that a thread that another program holds
//! up does not hold up the rest. The bits of what is read are collected, in
//! vectors that do not wait for each other, so that the memory is the limit and not the instructions.
//!
//! How memory is read fastest depends on the machine: how many streams a thread reads side by side, and whether the caches are
//! asked ahead or the hardware guesses alone. A ceiling must be the fastest reader, so all of [`WAYS`] are tried. On a Xeon of
//! two cores one stream with the nearest cache asked 512 bytes ahead read 25 GB/s, with both caches asked as kernels do it 33, and two
//! streams side by side so 38.

use std::hint::black_box;
use std::sync::Barrier;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::thread;
use std::time::Instant;

use crate::isa::Isa;
use crate::large_pages::LargePages;
use crate::placement::Placement;
use crate::simd::{Simd, Task, read_ahead};
use crate::together::{Skipped, no_threads, together};

/// Bytes that a read takes where memory allows it: more than any cache holds.
const WANTED_BYTES: u64 = (1 << 30) + (64 << 20);

/// Less than this would measure caches.
const LEAST_BYTES: u64 = 256 << 20;

/// Reads in each way; the best of all counts.
const READS: usize = 3;

/// Numbers that a thread takes at a time: 2 MiB.
const PIECE: usize = (2 << 20) / size_of::<u64>();

/// Bytes of a cache line.
const CACHE_LINE_BYTES: usize = 64;

/// Cache lines of a stream that are read at once.
const LINES: usize = 8;

/// Numbers of them.
const BLOCK: usize = LINES * CACHE_LINE_BYTES / size_of::<u64>();

/// A way to read.
struct Way {
    name: &'static str,
    /// Reads all numbers and returns the bits that any of them has.
    read: fn(Isa, &[u64]) -> u64,
}

/// All ways that are tried.
static WAYS: [Way; 5] = [
    Way { name: "1 stream a thread", read: touch::<1, false> },
    Way { name: "2 streams a thread", read: touch::<2, false> },
    Way { name: "1 stream a thread, caches asked ahead", read: touch::<1, true> },
    Way { name: "2 streams a thread, caches asked ahead", read: touch::<2, true> },
    Way { name: "4 streams a thread, caches asked ahead", read: touch::<4, true> },
];

fn touch<const STREAMS: usize, const AHEAD: bool>(isa: Isa, numbers: &[u64]) -> u64 {
    isa.run(Touch::<STREAMS, AHEAD>(numbers))
}

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
    /// The way of reading that was fastest.
    pub way: &'static str,
}

/// Memory that is filled once, and read by any number of threads.
pub(crate) struct Buffer<'a> {
    memory: Memory<'a>,
    bytes: usize,
    pages: &'static str,
}

/// Whose memory it is.
enum Memory<'a> {
    Own(LargePages),
    Mapped(&'a [u8]),
}

impl<'a> Buffer<'a> {
    /// Takes memory, and writes it with `threads` threads. `available_bytes` is what memory can be taken, where that is known:
    /// half of it at most is used, so that nothing else must leave the memory.
    ///
    /// # Errors
    /// Where the memory is too short, or the system gives no threads.
    pub(crate) fn new(threads: usize, pages: Pages<'a>, available_bytes: Option<u64>) -> Result<Self, Skipped> {
        let bytes = buffer_bytes(&pages, available_bytes)?;
        let own = |memory: std::io::Result<LargePages>| {
            let mut memory = memory.map_err(|cause| Skipped(format!("the system gives no {bytes} bytes: {cause}")))?;
            // SAFETY: every bit pattern is a number.
            let (_, numbers, _) = unsafe { memory.align_to_mut::<u64>() };
            fill(threads.max(1), numbers)?;
            Ok::<_, Skipped>(Memory::Own(memory))
        };
        let memory = match pages {
            Pages::Mapped(bytes) => Memory::Mapped(bytes),
            Pages::Large => own(LargePages::new(bytes))?,
            Pages::Ordinary => own(LargePages::declined(bytes))?,
        };
        Ok(Self { memory, bytes, pages: pages.name() })
    }

    /// Reads all of it with `threads` threads, in all ways. What comes of a read that was cancelled means nothing.
    ///
    /// # Errors
    /// Where the system gives no threads.
    pub(crate) fn read(
        &self,
        isa: Isa,
        threads: usize,
        placement: &Placement,
        cancel: &AtomicBool,
    ) -> Result<ReadBandwidth, Skipped> {
        let threads = threads.max(1);
        let bytes: &[u8] = match &self.memory {
            Memory::Own(memory) => &memory[..],
            Memory::Mapped(bytes) => bytes,
        };
        // SAFETY: every bit pattern is a number.
        let (_, numbers, _) = unsafe { bytes.align_to::<u64>() };
        let rates = rates(isa, threads, placement, numbers, cancel)?;
        let best = rates.iter().copied().max_by(|a, b| a.1.total_cmp(&b.1));
        let (way, bytes_per_s) = best.ok_or_else(|| Skipped("no thread came to an end".into()))?;
        let bytes = self.bytes as u64;
        Ok(ReadBandwidth { bytes_per_s, bytes, reads: rates.len(), threads, pages: self.pages, way })
    }
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

/// The way and the rate of all reads by so many threads, in bytes per second.
fn rates(
    isa: Isa,
    threads: usize,
    placement: &Placement,
    numbers: &[u64],
    cancel: &AtomicBool,
) -> Result<Vec<(&'static str, f64)>, Skipped> {
    let barrier = Barrier::new(threads);
    // The way and the next piece of each read. The first read brings pages and addresses in, and does not count.
    let ways = WAYS.iter().flat_map(|way| std::iter::repeat_n(way, READS));
    let reads: Vec<(&Way, AtomicUsize)> =
        std::iter::once(&WAYS[0]).chain(ways).map(|way| (way, AtomicUsize::new(0))).collect();
    let run = || reads.iter().map(|(way, next)| read(isa, way, numbers, next, &barrier, cancel)).collect::<Vec<Read>>();
    let results = together(threads, placement, &run)?;
    let rate = |index: usize| {
        let parts = || results.iter().filter_map(|parts| parts.get(index));
        let (start, end) = (parts().map(|part| part.start).min()?, parts().map(|part| part.end).max()?);
        let bytes: usize = parts().map(|part| part.bytes).sum();
        Some((reads.get(index)?.0.name, bytes as f64 / end.duration_since(start).as_secs_f64().max(1e-9)))
    };
    Ok((1..reads.len()).filter_map(rate).collect())
}

/// One thread's part of one read.
struct Read {
    start: Instant,
    end: Instant,
    bytes: usize,
}

/// Takes pieces of a read that all threads begin together, until none is left or it is cancelled.
fn read(isa: Isa, way: &Way, numbers: &[u64], next: &AtomicUsize, barrier: &Barrier, cancel: &AtomicBool) -> Read {
    let mut bytes = 0;
    barrier.wait();
    let start = Instant::now();
    while !cancel.load(Ordering::Relaxed) {
        let first = next.fetch_add(1, Ordering::Relaxed).saturating_mul(PIECE);
        let Some(piece) = numbers.get(first..(first + PIECE).min(numbers.len())).filter(|piece| !piece.is_empty())
        else {
            break;
        };
        black_box((way.read)(isa, black_box(piece)));
        bytes += size_of_val(piece);
    }
    Read { start, end: Instant::now(), bytes }
}

/// Reads all numbers in `STREAMS` streams side by side, with the caches asked ahead as kernels do it or not, and returns the bits
/// that any of them has.
struct Touch<'a, const STREAMS: usize, const AHEAD: bool>(&'a [u64]);

impl<const STREAMS: usize, const AHEAD: bool> Task for Touch<'_, STREAMS, AHEAD> {
    type Output = u64;

    #[inline(always)]
    fn run<S: Simd>(self, s: S) -> u64 {
        let blocks = self.0.len() / BLOCK / STREAMS;
        let (whole, rest) = self.0.split_at(blocks * BLOCK * STREAMS);
        let mut bits = [s.zeros(); LINES];
        for index in 0..blocks {
            for stream in 0..STREAMS {
                let block = &whole[(stream * blocks + index) * BLOCK..][..BLOCK];
                // SAFETY: every bit pattern is a byte, and there are eight in a number.
                let (_, bytes, _) = unsafe { block.align_to::<u8>() };
                for (line, bytes) in bytes.chunks_exact(CACHE_LINE_BYTES).enumerate() {
                    if AHEAD {
                        read_ahead(s, bytes, 0, CACHE_LINE_BYTES);
                    }
                    for vector in bytes.chunks_exact(4 * S::ROWS) {
                        bits[line] = s.either(bits[line], s.words(vector));
                    }
                }
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
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_number_is_read_once() {
        for isa in Isa::available() {
            for (way, length) in
                WAYS.iter().flat_map(|way| [0usize, 1, 63, 64, 65, 128, 1000].map(|length| (way, length)))
            {
                for place in 0..length {
                    let mut one = vec![0; length];
                    one[place] = 1 << (place % 64);
                    let bits = (way.read)(isa, &one);
                    assert_eq!(bits, 1 << (place % 64), "{} {} {length} {place}", isa.name(), way.name);
                }
            }
        }
    }

    #[test]
    fn every_piece_is_read_once() {
        let isa = Isa::best(None).unwrap();
        for length in [0, 5, PIECE, 3 * PIECE + 7] {
            let (next, barrier) = (AtomicUsize::new(0), Barrier::new(1));
            let numbers = vec![1; length];
            let read = |cancel| read(isa, &WAYS[3], &numbers, &next, &barrier, &AtomicBool::new(cancel)).bytes;
            assert_eq!(read(true), 0, "cancelled");
            assert_eq!(read(false), length * 8);
            assert_eq!(read(false), 0, "nothing is left");
        }
        for threads in [1, 2, 7] {
            let numbers = vec![1; 2 * PIECE + 1];
            let rates = rates(isa, threads, &Placement::free(2), &numbers, &AtomicBool::new(false)).unwrap();
            assert_eq!(rates.len(), READS * WAYS.len(), "{threads}");
            assert!(rates.iter().all(|(_, rate)| rate.is_finite() && *rate > 0.0), "{threads}: {rates:?}");
            assert!(WAYS.iter().all(|way| rates.iter().filter(|rate| rate.0 == way.name).count() == READS));
        }
    }

    #[test]
    fn short_memory_is_left_alone() {
        assert_eq!(buffer_bytes(&Pages::Ordinary, None).unwrap() as u64, WANTED_BYTES);
        assert_eq!(buffer_bytes(&Pages::Large, Some(1 << 40)).unwrap() as u64, WANTED_BYTES);
        assert_eq!(buffer_bytes(&Pages::Ordinary, Some(1 << 30)).unwrap(), 512 << 20);
        let skipped = buffer_bytes(&Pages::Ordinary, Some(100)).unwrap_err();
        assert!(skipped.to_string().starts_with("only 50 bytes may be taken"), "{skipped}");
        let skipped = Buffer::new(1, Pages::Mapped(&[0; 64]), None).map(|buffer| buffer.bytes).unwrap_err();
        assert!(skipped.to_string().starts_with("only 64 bytes are mapped"), "{skipped}");
    }

    #[test]
    fn one_buffer_serves_every_number_of_threads() {
        let isa = Isa::best(None).unwrap();
        let mapped = vec![0; LEAST_BYTES as usize];
        let buffer = Buffer::new(1, Pages::Mapped(&mapped), None).unwrap();
        for threads in [1, 2] {
            let read = buffer.read(isa, threads, &Placement::free(1), &AtomicBool::new(false)).unwrap();
            assert_eq!((read.threads, read.bytes, read.pages), (threads, LEAST_BYTES, "mapped"));
            assert!(read.bytes_per_s.is_finite() && read.bytes_per_s > 0.0);
        }
    }
}
