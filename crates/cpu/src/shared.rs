//! Memory that several workers write at once, each its own part.

use std::marker::PhantomData;
use std::ops::Range;

/// A slice whose parts are handed to different workers.
///
/// It carries the lifetime of the borrow it was made from, so nobody else reads or writes the slice while it
/// exists; who hands out parts promises that they do not overlap.
#[derive(Clone, Copy)]
pub(crate) struct SharedSlice<'a, T> {
    start: *mut T,
    length: usize,
    borrow: PhantomData<&'a mut [T]>,
}

// SAFETY: it is a `&mut [T]` cut into parts that do not overlap (see `part`), which may be sent where `T` may.
unsafe impl<T: Send> Send for SharedSlice<'_, T> {}
// SAFETY: as above; sharing it only lets workers take their own parts.
unsafe impl<T: Send> Sync for SharedSlice<'_, T> {}

impl<'a, T> SharedSlice<'a, T> {
    /// Takes the whole slice.
    pub(crate) fn new(slice: &'a mut [T]) -> Self {
        Self { start: slice.as_mut_ptr(), length: slice.len(), borrow: PhantomData }
    }

    /// The part `range`, to write. Panics when it is out of range.
    ///
    /// # Safety
    /// No two parts that are alive at the same time may overlap.
    #[allow(clippy::mut_from_ref, reason = "the caller promises that parts do not overlap")]
    pub(crate) unsafe fn part(&self, range: Range<usize>) -> &mut [T] {
        assert!(range.start <= range.end && range.end <= self.length, "part {range:?} of {}", self.length);
        // SAFETY: in range of a slice that is borrowed mutably for 'a; the caller keeps parts apart.
        unsafe { std::slice::from_raw_parts_mut(self.start.add(range.start), range.end - range.start) }
    }
}
