//! What happens while a model is made ready, as data. Nothing in this crate prints; faces show these events.

use std::path::PathBuf;

/// One step of making a model ready. Names of files are for people, not for opening.
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub enum Progress {
    /// Another process is fetching the same model; this one waits until it is done.
    Waiting {
        /// The model waited for.
        name: String,
    },
    /// A server is being asked.
    Connecting {
        /// The host, without credentials.
        host: String,
    },
    /// The connection was cut or the server busy; the same request follows after a pause.
    Retrying {
        /// Which try comes next, counted from 2.
        attempt: u32,
        /// The pause before it, in milliseconds.
        wait_ms: u64,
        /// Why, as one line.
        reason: String,
    },
    /// Bytes arrive. Sent at the start, then at most some ten times a second, and at the end.
    Downloading {
        /// The file on the server.
        file: String,
        /// Bytes of it that are on the disk, from this run and earlier ones.
        done_bytes: u64,
        /// Its whole length, where the source says it.
        total_bytes: Option<u64>,
        /// Bytes per second since this run began to receive the file; none before there is something to measure.
        rate_bytes_per_s: Option<f64>,
    },
    /// Bytes on the disk are hashed.
    Verifying {
        /// The file.
        file: String,
        /// Bytes hashed.
        done_bytes: u64,
        /// Bytes to hash.
        total_bytes: u64,
    },
    /// The model is unpacked from the file that carried it.
    Extracting {
        /// The file inside.
        file: String,
        /// Bytes written.
        done_bytes: u64,
        /// Bytes to write.
        total_bytes: u64,
    },
    /// The model is there, and verified where its source gives a hash.
    Done {
        /// Where it is.
        path: PathBuf,
        /// Its length.
        bytes: u64,
        /// Whether anything was downloaded for it in this call.
        downloaded: bool,
    },
}

/// The caller's view of progress, passed down through all steps.
pub(crate) type Sink<'a> = &'a mut dyn FnMut(Progress);
