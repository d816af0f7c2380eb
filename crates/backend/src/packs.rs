//! Weights as a device lays them out, kept between starts: what the device asks of whoever keeps them.
//!
//! A *pack* is what one device made of one model's weights, as bytes that mean something to that device alone. Where packs lie,
//! how much room they may take and which file's they are is the store's matter; what is in one, and whether it is
//! whole, the device's.

use std::fmt::Debug;
use std::io;

use duan_model::bytes::SharedBytes;

/// What a device does about weights that it would rather have in another order.
#[derive(Debug, Clone, Copy, Default)]
pub enum Packing<'a> {
    /// They stay as in the file, and are laid out each time that they are used.
    AsInFile,
    /// They are laid out at each load, in memory.
    #[default]
    InMemory,
    /// They are laid out once; later loads get them from the store.
    Kept {
        /// The packs of the model that is loaded.
        store: &'a dyn PackStore,
        /// How a pack comes into memory.
        reading: PackReading,
    },
}

/// How a pack comes into memory.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum PackReading {
    /// It is copied into memory of the program, which may lie in large pages.
    #[default]
    Copy,
    /// Its file is mapped, and shared with other programs that do so.
    Map,
}

/// The packs of one model. A store never fails: what it cannot do it tells the user or its log, and the device goes on
/// without.
pub trait PackStore: Debug + Sync {
    /// The pack called `key`, where there is one.
    fn open(&self, key: &str) -> Option<Box<dyn PackReader>>;

    /// Throws away the pack called `key`, which cannot be used; `reason` is for people.
    fn discard(&self, key: &str, reason: &str);

    /// A place for a new pack called `key` of exactly `bytes`; none where it is not to be kept.
    fn create(&self, key: &str, bytes: u64) -> Option<Box<dyn PackWriter>>;
}

/// A pack that is there. It may have been damaged since it was written.
pub trait PackReader: Debug + Send + Sync {
    /// Length of the pack.
    fn bytes(&self) -> u64;

    /// Fills `bytes` from `offset`; several threads may read at once.
    ///
    /// # Errors
    /// Where the pack ends before, or cannot be read.
    fn read_at(&self, bytes: &mut [u8], offset: u64) -> io::Result<()>;

    /// The whole pack, mapped read-only; it may be longer than [`PackReader::bytes`].
    ///
    /// # Errors
    /// Where the system cannot map it.
    fn map(&self) -> io::Result<SharedBytes>;
}

/// A pack that is being made. Nobody sees it before [`PackWriter::finish`]; where it is dropped before, nothing is left of it.
pub trait PackWriter: Send {
    /// Appends `bytes`.
    ///
    /// # Errors
    /// Where they cannot be written. The store has noted why in its log then.
    fn write(&mut self, bytes: &[u8]) -> io::Result<()>;

    /// Gives the pack its name.
    ///
    /// # Errors
    /// Where it cannot get it. The store has noted why in its log then.
    fn finish(self: Box<Self>) -> io::Result<()>;
}
