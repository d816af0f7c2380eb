//! Read-only memory maps of model files: the only `unsafe` code of this crate.
//!
//! # Why this is sound, and where it ends
//!
//! A map is shown as `&[u8]`, which promises that the bytes do not change while the reference lives. The map is
//! read-only, so nothing in this program changes them. Another program that writes *into* the file could; no
//! operating system that duan runs on lets a reader rule that out, and by the letter of the language such a
//! write is undefined behaviour. What duan does about it: every number and every string of a header is copied
//! out of the map first and checked on the copy, so that a change cannot make a checked value unchecked; and of
//! weights every bit pattern is valid, so that a change gives wrong numbers, not wrong memory accesses.
//! Downloads go to another name and are renamed when complete, so duan itself never writes into a file that may
//! be mapped.
//!
//! If the file is *cut* while it is mapped, touching a page beyond the new end raises `SIGBUS` on Unix and ends
//! the process (Windows refuses to cut a mapped file). A map holds its file open, so deleting or replacing the
//! file by name is harmless. [`Map::current_bytes`] asks for the length anew; tensors are checked against it
//! each time their bytes are handed out, which finds a file that was cut between opening and loading, and the
//! engine asks before each answer (`FileLength`). A cut in the middle of an answer is the one case left open; `GgufFile::read` (which copies the file to memory) is the way out
//! where files change.
#![allow(unsafe_code)]

use std::fs::File;
use std::io;
use std::ops::{Deref, Range};

use memmap2::Mmap;

/// A multiple of every page size in use (4, 16 and 64 KiB), so that whole pages can be named without asking the system.
#[cfg(unix)]
const PAGE_BYTES: usize = 64 << 10;

/// A file mapped read-only, as long as it was when it was opened.
#[derive(Debug)]
pub(crate) struct Map {
    bytes: Mmap,
    file: File,
}

impl Map {
    /// Maps the whole of `file`. Reads nothing yet: pages come in when they are touched.
    pub(crate) fn new(file: File) -> io::Result<Map> {
        // SAFETY: The map is read-only and lives in `Map` together with the open file. That no one else changes
        // the bytes cannot be known; the module's documentation says why a change gives wrong numbers and not
        // undefined accesses.
        let bytes = unsafe { Mmap::map(&file)? };
        Ok(Map { bytes, file })
    }

    /// The file that is mapped.
    pub(crate) fn file(&self) -> &File {
        &self.file
    }

    /// Length of the file now, in bytes; it can differ from that of the map.
    pub(crate) fn current_bytes(&self) -> io::Result<u64> {
        Ok(self.file.metadata()?.len())
    }

    /// Which part of the map is in the memory, from 0 to 1, whoever brought it there: 1 of an empty one.
    ///
    /// # Errors
    /// Where the system does not tell.
    #[cfg(any(target_os = "linux", target_os = "android"))]
    pub(crate) fn resident_share(&self) -> io::Result<f64> {
        let page_bytes = page_bytes()?;
        let pages = self.bytes.len().div_ceil(page_bytes);
        if pages == 0 {
            return Ok(1.0);
        }
        let mut states = vec![0u8; pages];
        // SAFETY: The map begins on a page, as every map does, and is `bytes.len()` long; `states` has a byte for each of its pages,
        // and nothing else is written.
        let result =
            unsafe { libc::mincore(self.bytes.as_ptr().cast_mut().cast(), self.bytes.len(), states.as_mut_ptr()) };
        if result != 0 {
            return Err(io::Error::last_os_error());
        }
        // The lowest bit says it; the others are reserved.
        let resident = states.iter().filter(|&state| state & 1 == 1).count();
        Ok(resident as f64 / pages as f64)
    }

    /// Tells the system that the pages of `range` will be read soon. A hint: failures do not matter.
    pub(crate) fn will_need(&self, range: Range<usize>) {
        #[cfg(unix)]
        {
            let range = range.start.min(self.bytes.len())..range.end.min(self.bytes.len());
            let _ = self.bytes.advise_range(memmap2::Advice::WillNeed, range.start, range.len());
        }
        #[cfg(not(unix))]
        let _ = range;
    }

    /// Gives back the memory of the pages that lie wholly inside `range`; touching them reads the file again.
    /// A hint: failures do not matter.
    pub(crate) fn release_pages(&self, range: Range<usize>) {
        #[cfg(unix)]
        {
            let start = range.start.next_multiple_of(PAGE_BYTES);
            let end = range.end.min(self.bytes.len()) / PAGE_BYTES * PAGE_BYTES;
            if start < end {
                // SAFETY: The map is shared, read-only and backed by the file, so pages that are dropped come
                // back with the file's bytes; no data can be lost, and the advised range lies inside the map.
                let _ = unsafe {
                    self.bytes.unchecked_advise_range(memmap2::UncheckedAdvice::DontNeed, start, end - start)
                };
            }
        }
        #[cfg(not(unix))]
        let _ = range;
    }
}

/// Bytes of a page.
#[cfg(any(target_os = "linux", target_os = "android"))]
fn page_bytes() -> io::Result<usize> {
    // SAFETY: It reads a constant of the system.
    let bytes = unsafe { libc::sysconf(libc::_SC_PAGESIZE) };
    usize::try_from(bytes).ok().filter(|&bytes| bytes > 0).ok_or_else(io::Error::last_os_error)
}

impl Deref for Map {
    type Target = [u8];

    fn deref(&self) -> &[u8] {
        &self.bytes
    }
}
