//! How often memory is asked for: a wrapper around the system's allocator that counts while it is told to.
//!
//! Here because an allocator cannot be written without `unsafe`. A program that wants the count makes it its allocator:
//!
//! ```
//! #[global_allocator]
//! static ALLOCATOR: duan_cpu::CountingAllocator = duan_cpu::CountingAllocator;
//! # fn main() {}
//! ```
//!
//! While nobody counts, an allocation costs one look at a flag more.

use std::alloc::{GlobalAlloc, Layout, System};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

static IS_COUNTING: AtomicBool = AtomicBool::new(false);
static COUNT: AtomicU64 = AtomicU64::new(0);

/// The system's allocator, counted by [`Counting`].
#[derive(Debug, Clone, Copy, Default)]
pub struct CountingAllocator;

#[inline]
fn note() {
    if IS_COUNTING.load(Ordering::Relaxed) {
        COUNT.fetch_add(1, Ordering::Relaxed);
    }
}

// SAFETY: every call is handed on to the system's allocator as it came; counting neither allocates nor unwinds.
unsafe impl GlobalAlloc for CountingAllocator {
    /// # Safety
    /// As [`GlobalAlloc::alloc`] asks for.
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        note();
        // SAFETY: the caller's promises are those that the system's allocator asks for.
        unsafe { System.alloc(layout) }
    }

    /// # Safety
    /// As [`GlobalAlloc::alloc_zeroed`] asks for.
    unsafe fn alloc_zeroed(&self, layout: Layout) -> *mut u8 {
        note();
        // SAFETY: as above.
        unsafe { System.alloc_zeroed(layout) }
    }

    /// # Safety
    /// As [`GlobalAlloc::realloc`] asks for.
    unsafe fn realloc(&self, pointer: *mut u8, layout: Layout, new_size: usize) -> *mut u8 {
        note();
        // SAFETY: as above.
        unsafe { System.realloc(pointer, layout, new_size) }
    }

    /// # Safety
    /// As [`GlobalAlloc::dealloc`] asks for.
    unsafe fn dealloc(&self, pointer: *mut u8, layout: Layout) {
        // SAFETY: as above.
        unsafe { System.dealloc(pointer, layout) }
    }
}

/// While one lives, allocations of all threads are counted; one at a time.
#[derive(Debug)]
pub struct Counting(());

impl Counting {
    /// Begins to count. `None` where the program has another allocator, or counts already.
    pub fn begin() -> Option<Self> {
        if IS_COUNTING.swap(true, Ordering::Relaxed) {
            return None;
        }
        let counting = Counting(());
        let before = counting.count();
        drop(std::hint::black_box(Box::new(0u64)));
        (counting.count() > before).then_some(counting)
    }

    /// How often memory was asked for so far; only differences mean something.
    pub fn count(&self) -> u64 {
        COUNT.load(Ordering::Relaxed)
    }
}

impl Drop for Counting {
    fn drop(&mut self) {
        IS_COUNTING.store(false, Ordering::Relaxed);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_asked_for_is_counted_while_somebody_counts() {
        // The tests' own allocator is another one.
        assert!(Counting::begin().is_none());
        assert!(!IS_COUNTING.load(Ordering::Relaxed));
        let ask = || {
            let layout = Layout::new::<[u8; 16]>();
            let larger = Layout::new::<[u8; 64]>();
            // SAFETY: the layouts are not empty, and each piece is given back once, with the layout that it has then.
            unsafe {
                let first = CountingAllocator.alloc(layout);
                let first = CountingAllocator.realloc(first, layout, larger.size());
                let second = CountingAllocator.alloc_zeroed(layout);
                assert_eq!(*second, 0);
                let larger = Layout::from_size_align(larger.size(), layout.align()).unwrap();
                CountingAllocator.dealloc(first, larger);
                CountingAllocator.dealloc(second, layout);
            }
        };
        ask();
        assert_eq!(COUNT.load(Ordering::Relaxed), 0);
        IS_COUNTING.store(true, Ordering::Relaxed);
        let counting = Counting(());
        ask();
        assert_eq!(counting.count(), 3);
        drop(counting);
        ask();
        assert_eq!(COUNT.load(Ordering::Relaxed), 3);
    }
}
