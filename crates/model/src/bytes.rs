//! Bytes that several owners share: a part of a mapped file, or of a heap buffer.

use std::fmt;
use std::fs::File;
use std::io;
use std::ops::{Bound, Deref, RangeBounds};
use std::sync::Arc;

use crate::map::Map;

/// A range of shared bytes. Clones and slices are cheap, and keep the map or buffer alive.
#[derive(Clone)]
pub struct SharedBytes {
    source: Source,
    start: usize,
    end: usize,
}

#[derive(Clone)]
enum Source {
    Map(Arc<Map>),
    Heap(Arc<Vec<u8>>),
}

impl SharedBytes {
    /// Maps the whole of `file`, read-only.
    ///
    /// # Errors
    /// Where the system cannot map it.
    pub fn map(file: File) -> io::Result<SharedBytes> {
        let map = Map::new(file)?;
        let end = map.len();
        Ok(SharedBytes { source: Source::Map(Arc::new(map)), start: 0, end })
    }

    /// The part `range` of these bytes, or `None` where it does not lie inside them.
    pub fn slice(&self, range: impl RangeBounds<usize>) -> Option<SharedBytes> {
        let from = match range.start_bound() {
            Bound::Included(&start) => start,
            Bound::Excluded(&start) => start.checked_add(1)?,
            Bound::Unbounded => 0,
        };
        let to = match range.end_bound() {
            Bound::Included(&end) => end.checked_add(1)?,
            Bound::Excluded(&end) => end,
            Bound::Unbounded => self.len(),
        };
        if from > to || to > self.len() {
            return None;
        }
        Some(SharedBytes { source: self.source.clone(), start: self.start + from, end: self.start + to })
    }

    /// Whether the bytes are those of a mapped file.
    pub fn is_mapped(&self) -> bool {
        matches!(self.source, Source::Map(_))
    }

    /// Hint that the bytes will be read soon, so that the system may begin to read them. Does nothing for heap bytes.
    pub fn will_need(&self) {
        if let Source::Map(map) = &self.source {
            map.will_need(self.start..self.end);
        }
    }

    /// Hint that the bytes will not be needed soon: gives back the memory of the pages wholly inside them. Reading
    /// them again stays possible and reads the file again. Does nothing for heap bytes.
    pub fn release_pages(&self) {
        if let Source::Map(map) = &self.source {
            map.release_pages(self.start..self.end);
        }
    }

    /// Another handle of the file behind a map; none for heap bytes.
    pub(crate) fn source_file(&self) -> io::Result<Option<File>> {
        match &self.source {
            Source::Map(map) => map.file().try_clone().map(Some),
            Source::Heap(_) => Ok(None),
        }
    }

    /// Length of the file behind a map as it is now, or of the heap buffer; in bytes.
    pub(crate) fn current_source_bytes(&self) -> io::Result<u64> {
        match &self.source {
            Source::Map(map) => map.current_bytes(),
            Source::Heap(bytes) => Ok(bytes.len() as u64),
        }
    }
}

impl Deref for SharedBytes {
    type Target = [u8];

    fn deref(&self) -> &[u8] {
        match &self.source {
            Source::Map(map) => &map[self.start..self.end],
            Source::Heap(bytes) => &bytes[self.start..self.end],
        }
    }
}

impl AsRef<[u8]> for SharedBytes {
    fn as_ref(&self) -> &[u8] {
        self
    }
}

impl From<Vec<u8>> for SharedBytes {
    fn from(bytes: Vec<u8>) -> SharedBytes {
        let end = bytes.len();
        SharedBytes { source: Source::Heap(Arc::new(bytes)), start: 0, end }
    }
}

impl fmt::Debug for SharedBytes {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let kind = if self.is_mapped() { "mapped" } else { "heap" };
        write!(f, "SharedBytes({kind}, {}..{})", self.start, self.end)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::Write;

    #[test]
    fn slices_stay_inside() {
        let bytes = SharedBytes::from(vec![1, 2, 3, 4, 5]);
        let middle = bytes.slice(1..4).unwrap();
        assert_eq!(&*middle, [2, 3, 4]);
        assert_eq!(&*middle.slice(1..).unwrap(), [3, 4]);
        assert_eq!(&*middle.slice(..=1).unwrap(), [2, 3]);
        assert!(middle.slice(1..4).is_none(), "would reach into the rest of the buffer");
        assert!(middle.slice(4..).is_none());
        #[expect(clippy::reversed_empty_ranges, reason = "the case under test")]
        let reversed = middle.slice(2..1);
        assert!(reversed.is_none());
        assert!(middle.slice(..=usize::MAX).is_none());
        assert!(middle.slice(3..3).is_some_and(|empty| empty.is_empty()));
    }

    #[test]
    fn maps_read_the_same_after_their_pages_were_released() {
        let mut file = tempfile::NamedTempFile::new().unwrap();
        let content: Vec<u8> = (0..400_000u32).map(|i| (i * 7 % 251) as u8).collect();
        file.write_all(&content).unwrap();
        let bytes = SharedBytes::map(file.reopen().unwrap()).unwrap();
        assert!(bytes.is_mapped());
        let part = bytes.slice(100..390_000).unwrap();
        drop(bytes);
        part.will_need();
        assert_eq!(&*part, &content[100..390_000]);
        part.release_pages();
        assert_eq!(&*part, &content[100..390_000]);
        assert_eq!(part.current_source_bytes().unwrap(), 400_000);
        file.as_file().set_len(395_000).unwrap();
        assert_eq!(part.current_source_bytes().unwrap(), 395_000);
    }
}
