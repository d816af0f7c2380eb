//! The source of plain web addresses. Length and hash are asked for first, where the server says them: Hugging Face does, also
//! for an address that was copied out of a browser.

use ureq::{Body, http};

use crate::address::{host_of, without_credentials};
use crate::asked::Asked;
use crate::cache::FetchNote;
use crate::checksum::Checksum;
use crate::download::{Partial, Remote, download};
use crate::error::{Error, Result};
use crate::files::{create_folder, write_json};
use crate::http::{Request, is_web_page};
use crate::job::{Fetched, Job, final_name};
use crate::name::AddressName;
use crate::progress::{Progress, Sink};

/// Fetches the file at an address.
pub(crate) fn fetch(job: &Job<'_>, name: &AddressName, progress: Sink<'_>) -> Result<Fetched> {
    create_folder(&job.folder)?;
    write_json(&job.note_path, &FetchNote { name: job.name.clone(), ..FetchNote::default() })?;
    let shown = without_credentials(&name.url);
    let (bytes, announced) = announced(job, name, progress)?;
    let checksum = match (&name.sha256, announced) {
        (Some(expected), Checksum::Sha256(announced)) if *expected != announced => {
            return Err(Error::other_hash(&shown, expected, &announced));
        }
        (Some(expected), _) => Checksum::Sha256(expected.clone()),
        (None, announced) => announced,
    };
    let filename = name.file();
    let (asked, url) = (Asked::Address, name.url.clone());
    let is_compared = checksum.is_known();
    let remote = Remote { url, filename: filename.clone(), bytes, checksum, token: None, asked };
    let partial = Partial::new(&job.folder, "model");
    let sha256 = download(job.client, &remote, &partial, 0, &mut job.client.retry(), progress)?;
    let metadata = std::fs::metadata(&partial.file).map_err(|error| Error::io("read", &partial.file, &error))?;
    let file = final_name(&filename);
    Ok(Fetched { part: partial.file, file, bytes: metadata.len(), sha256, source: shown, is_compared })
}

/// What the server says of the file before it sends it. One that does not answer such questions is no reason to fail: what
/// is wrong shows when the file is asked for.
fn announced(job: &Job<'_>, name: &AddressName, progress: Sink<'_>) -> Result<(Option<u64>, Checksum)> {
    progress(Progress::Connecting { host: host_of(&name.url) });
    let request = Request { url: &name.url, is_head: true, ..Request::default() };
    let response = match job.client.http.get(&request) {
        Ok(response) => response,
        Err(failure) => {
            job.client.retry().pause_or_fail(failure, progress)?;
            return Ok((None, Checksum::Unknown));
        }
    };
    if response.status() != 200 {
        return Ok((None, Checksum::Unknown));
    }
    if is_web_page(&response) {
        return Err(Error::web_page(&without_credentials(&name.url)));
    }
    let bytes = header(&response, "X-Linked-Size").or_else(|| header(&response, "Content-Length"));
    let checksum = header(&response, "X-Linked-Etag").map_or(Checksum::Unknown, Checksum::sha256);
    Ok((bytes.and_then(|text| text.trim().parse().ok()).filter(|bytes| *bytes > 0), checksum))
}

fn header<'a>(response: &'a http::Response<Body>, name: &str) -> Option<&'a str> {
    response.headers().get(name).and_then(|value| value.to_str().ok())
}
