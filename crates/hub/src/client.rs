//! What every source fetches with: the door to the network, how often and over how many connections.

use std::time::Duration;

use serde::de::DeserializeOwned;
use ureq::{ResponseExt as _, http};

use crate::address::{host_of, without_credentials};
use crate::asked::Asked;
use crate::error::{Error, ErrorKind, Result};
use crate::http::{Http, Request, Token, is_web_page, network_error};
use crate::progress::{Progress, Sink};
use crate::retry::{Failure, Retry, pause_asked_for};

/// An answer of a repository's server longer than this is none; a page lists a thousand files in a few hundred kB.
pub(crate) const ANSWER_LIMIT_BYTES: u64 = 16 << 20;

/// What a server said.
pub(crate) struct Said<T> {
    pub(crate) value: T,
    /// Where the next page of it lies.
    pub(crate) next: Option<String>,
    /// The length of the text.
    pub(crate) bytes: u64,
}

/// How large files are fetched.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Connections {
    /// How many at once; with 1 every file comes over one.
    pub count: usize,
    /// Files from this length on are fetched over several.
    pub from_bytes: u64,
    /// What one connection fetches before it takes the next piece.
    pub piece_bytes: u64,
}

impl Default for Connections {
    fn default() -> Connections {
        Connections { count: 4, from_bytes: 64 << 20, piece_bytes: 32 << 20 }
    }
}

/// Http with the manners of this hub.
pub(crate) struct Client {
    pub(crate) http: Http,
    pub(crate) retries: u32,
    pub(crate) first_pause: Duration,
    pub(crate) connections: Connections,
}

impl Client {
    pub(crate) fn retry(&self) -> Retry {
        Retry::new(self.retries, self.first_pause)
    }

    /// Asks for a JSON text of at most `limit_bytes`, and tries again where that makes sense.
    pub(crate) fn json<T: DeserializeOwned>(
        &self,
        url: &str,
        token: Option<&Token>,
        asked: &Asked,
        limit_bytes: u64,
        progress: Sink<'_>,
    ) -> Result<Said<T>> {
        let mut retry = self.retry();
        let (text, next) = loop {
            progress(Progress::Connecting { host: host_of(url) });
            match self.text(url, token, asked, limit_bytes) {
                Ok(answer) => break answer,
                Err(failure) => retry.pause_or_fail(failure, progress)?,
            }
        };
        match serde_json::from_slice(&text) {
            Ok(value) => Ok(Said { value, next, bytes: text.len() as u64 }),
            Err(_) if text.trim_ascii_start().first() == Some(&b'<') => Err(Error::web_page(&without_credentials(url))),
            Err(error) => Err(Error::new(
                ErrorKind::BadIndex,
                format!(
                    "{} answered with something that is not what this kind of server says ({error}); check the \
                     address of the server",
                    without_credentials(url)
                ),
            )),
        }
    }

    fn text(
        &self,
        url: &str,
        token: Option<&Token>,
        asked: &Asked,
        limit_bytes: u64,
    ) -> std::result::Result<(Vec<u8>, Option<String>), Failure> {
        let request = Request { url, token, accept: Some("application/json"), ..Request::default() };
        let mut response = self.http.get(&request)?;
        let status = response.status().as_u16();
        if status != 200 {
            return Err(Failure::of_status(asked.refused(url, &response), status, pause_asked_for(&response)));
        }
        if is_web_page(&response) {
            return Err(Failure::last(Error::web_page(&without_credentials(url))));
        }
        let page_url = response.get_uri().to_string();
        let next = next_page(response.headers(), &page_url);
        let body = response.body_mut().with_config().limit(limit_bytes);
        match body.read_to_vec() {
            Ok(text) => Ok((text, next)),
            Err(ureq::Error::BodyExceedsLimit(_)) => Err(Failure::last(too_long(&without_credentials(url)))),
            Err(error) => Err(Failure::again(network_error(url, &host_of(url), error))),
        }
    }
}

/// The error for a server that says more than there can be to say.
pub(crate) fn too_long(url: &str) -> Error {
    Error::new(
        ErrorKind::BadIndex,
        format!("{url} answered with more than any model has to list; check the name and the address of the server"),
    )
}

/// The address of `<ADDRESS>; rel="next"` in a `Link` header (RFC 8288).
fn next_page(headers: &http::HeaderMap, page_url: &str) -> Option<String> {
    let links = headers.get("Link")?.to_str().ok()?;
    let link = links.split(',').find(|link| link.contains("rel=\"next\""))?;
    let address = link.split_once('<')?.1.split_once('>')?.0;
    Some(crate::address::absolute(page_url, address))
}
