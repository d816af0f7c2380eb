//! Anonymous memory that the system is asked to give in large pages.
//!
//! Weights are read from end to end for every token. With pages of 4 KiB that costs a walk through the page table every
//! 4096 bytes, and the hardware's prefetch stops at each; pages of 2 MiB cost a 512th of that.

use std::ops::{Deref, DerefMut};

/// Zeroed bytes, in large pages where the system has them.
#[derive(Debug)]
pub(crate) struct LargePages(inner::Memory);

impl LargePages {
    /// Memory of `length` bytes. The system gives it when it is first written.
    ///
    /// # Errors
    /// When the system promises no more memory.
    pub(crate) fn new(length: usize) -> std::io::Result<Self> {
        inner::Memory::new(length, true).map(Self)
    }

    /// The same in ordinary pages, to be compared.
    ///
    /// # Errors
    /// As [`LargePages::new`].
    pub(crate) fn declined(length: usize) -> std::io::Result<Self> {
        inner::Memory::new(length, false).map(Self)
    }
}

impl Deref for LargePages {
    type Target = [u8];

    fn deref(&self) -> &[u8] {
        self.0.bytes()
    }
}

impl DerefMut for LargePages {
    fn deref_mut(&mut self) -> &mut [u8] {
        self.0.bytes_mut()
    }
}

#[cfg(target_os = "linux")]
mod inner {
    use std::ffi::c_void;
    use std::io;
    use std::ptr::{self, NonNull};

    use rustix::mm::{Advice, MapFlags, ProtFlags, madvise, mmap_anonymous, munmap};

    /// The size of a large page on every system that duan runs on; more alignment than needed does no harm.
    const LARGE_PAGE_BYTES: usize = 2 << 20;

    #[derive(Debug)]
    pub(super) struct Memory {
        map: NonNull<c_void>,
        map_length: usize,
        start: NonNull<u8>,
        length: usize,
    }

    // SAFETY: the memory belongs to this value alone, like that of a `Vec<u8>`.
    unsafe impl Send for Memory {}
    // SAFETY: as above; shared references only read.
    unsafe impl Sync for Memory {}

    impl Memory {
        pub(super) fn new(length: usize, large: bool) -> io::Result<Self> {
            let map_length = length.max(1).checked_add(LARGE_PAGE_BYTES).ok_or(io::ErrorKind::OutOfMemory)?;
            // SAFETY: a new anonymous map at an address that the system chooses touches no memory of anybody.
            let map = unsafe {
                mmap_anonymous(ptr::null_mut(), map_length, ProtFlags::READ | ProtFlags::WRITE, MapFlags::PRIVATE)
            }?;
            let before = map.cast::<u8>().align_offset(LARGE_PAGE_BYTES);
            // SAFETY: the map is one large page longer than what is used of it, so the aligned start lies within it.
            let start = unsafe { map.cast::<u8>().add(before) };
            // A wish: where the system has no large pages, ordinary ones do.
            let advice = if large { Advice::LinuxHugepage } else { Advice::LinuxNoHugepage };
            // SAFETY: the range lies within the map made above, and neither advice changes what is in it.
            let _ = unsafe { madvise(start.cast(), length, advice) };
            let map = NonNull::new(map).ok_or(io::ErrorKind::OutOfMemory)?;
            let start = NonNull::new(start).ok_or(io::ErrorKind::OutOfMemory)?;
            Ok(Self { map, map_length, start, length })
        }

        pub(super) fn bytes(&self) -> &[u8] {
            // SAFETY: within a readable map that lives as long as this value, zeroed by the system; writers need `&mut`.
            unsafe { std::slice::from_raw_parts(self.start.as_ptr(), self.length) }
        }

        pub(super) fn bytes_mut(&mut self) -> &mut [u8] {
            // SAFETY: as above, and the borrow is exclusive.
            unsafe { std::slice::from_raw_parts_mut(self.start.as_ptr(), self.length) }
        }
    }

    impl Drop for Memory {
        fn drop(&mut self) {
            // A failure would leave the memory to the end of the process.
            // SAFETY: this map was made in `new`, and no reference into it outlives this value.
            let _ = unsafe { munmap(self.map.as_ptr(), self.map_length) };
        }
    }
}

#[cfg(not(target_os = "linux"))]
mod inner {
    use std::io;

    #[derive(Debug)]
    pub(super) struct Memory(Vec<u8>);

    impl Memory {
        pub(super) fn new(length: usize, _large: bool) -> io::Result<Self> {
            Ok(Self(vec![0; length]))
        }

        pub(super) fn bytes(&self) -> &[u8] {
            &self.0
        }

        pub(super) fn bytes_mut(&mut self) -> &mut [u8] {
            &mut self.0
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn memory_is_zeroed_and_as_long_as_asked_for() {
        for length in [0, 1, 4096, (2 << 20) + 1] {
            let mut memory = LargePages::new(length).unwrap();
            assert_eq!(memory.len(), length);
            assert!(memory.iter().all(|&byte| byte == 0));
            memory.fill(7);
            assert!(memory.iter().all(|&byte| byte == 7));
            assert_eq!(LargePages::declined(length).unwrap().len(), length);
        }
        assert!(LargePages::new(usize::MAX).is_err());
    }
}
