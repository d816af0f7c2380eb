//! The Python package index: which wheel carries a version, where it lies, its length and hash.
//!
//! Source: the JSON form of the simple repository API (PEP 503, 691, 700); file names of wheels (PEP 427).

use std::collections::BTreeMap;

use serde::Deserialize;
use ureq::ResponseExt;

use crate::address::{absolute, host_of, without_credentials};
use crate::error::{Error, ErrorKind, Result};
use crate::http::{Http, Request, is_web_page, network_error};
use crate::name::normal_package_name;
use crate::progress::{Progress, Sink};
use crate::retry::{Failure, Retry, pause_asked_for};
use crate::version::Version;

/// The index that is asked unless another one is named.
pub(crate) const DEFAULT_INDEX_URL: &str = "https://pypi.org/simple";

const JSON_TYPE: &str = "application/vnd.pypi.simple.v1+json";

/// Pages of the index longer than this are refused; the longest known are some ten megabytes.
const PAGE_LIMIT_BYTES: u64 = 64 << 20;

/// A wheel, found but not fetched.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Wheel {
    pub(crate) filename: String,
    pub(crate) version: String,
    pub(crate) url: String,
    pub(crate) bytes: Option<u64>,
    /// In lower-case hexadecimal.
    pub(crate) sha256: String,
}

#[derive(Deserialize)]
struct Page {
    files: Vec<File>,
}

#[derive(Deserialize)]
struct File {
    filename: String,
    url: String,
    #[serde(default)]
    hashes: BTreeMap<String, String>,
    #[serde(default)]
    size: Option<u64>,
    /// False, or true, or the reason as text.
    #[serde(default)]
    yanked: serde_json::Value,
}

/// Asks the index for the wheel of `version` of `package`, or of the newest release.
pub(crate) fn find_wheel(
    http: &Http,
    index_url: &str,
    package: &str,
    version: Option<&str>,
    retry: &mut Retry,
    progress: Sink<'_>,
) -> Result<Wheel> {
    let url = format!("{}/{package}/", index_url.trim_end_matches('/'));
    let (text, url) = loop {
        progress(Progress::Connecting { host: host_of(&url) });
        match read_page(http, &url) {
            Ok(answer) => break answer,
            Err(failure) => retry.pause_or_fail(failure, progress)?,
        }
    };
    let page: Page = serde_json::from_slice(&text).map_err(|error| {
        let shown = without_credentials(&url);
        let is_html = text.trim_ascii_start().first() == Some(&b'<');
        if is_html { no_json(&shown) } else { bad_page(&shown, &error.to_string()) }
    })?;
    choose(&page, &url, package, version)
}

/// The page, and where it lies after redirects: its links are relative to that.
fn read_page(http: &Http, url: &str) -> std::result::Result<(Vec<u8>, String), Failure> {
    let request = Request { url, accept: Some(JSON_TYPE), ..Request::default() };
    let mut response = http.get(&request)?;
    let status = response.status().as_u16();
    let shown = without_credentials(url);
    if status != 200 {
        return Err(Failure::of_status(Error::status(&shown, status), status, pause_asked_for(&response)));
    }
    if is_web_page(&response) {
        return Err(Failure::last(no_json(&shown)));
    }
    let final_url = response.get_uri().to_string();
    let body = response.body_mut().with_config().limit(PAGE_LIMIT_BYTES);
    match body.read_to_vec() {
        Ok(text) => Ok((text, final_url)),
        Err(ureq::Error::BodyExceedsLimit(limit)) => {
            Err(Failure::last(bad_page(&shown, &format!("longer than {limit} bytes"))))
        }
        Err(error) => Err(Failure::again(network_error(url, &host_of(url), error))),
    }
}

fn no_json(url: &str) -> Error {
    Error::new(
        ErrorKind::BadIndex,
        format!(
            "{url} answered with a web page instead of the JSON form of the simple API; name an index that speaks it \
             in PIP_INDEX_URL, or check whether a sign-in page of the network stands in between"
        ),
    )
}

fn bad_page(url: &str, reason: &str) -> Error {
    Error::new(
        ErrorKind::BadIndex,
        format!("{url} answered with something that is not a page of a package index ({reason}); try another index"),
    )
}

/// Picks the wheel: the version named, or the newest that was not yanked, releases before candidates; of several
/// wheels the one for every system.
fn choose(page: &Page, page_url: &str, package: &str, version: Option<&str>) -> Result<Wheel> {
    let wheels: Vec<(&File, &str, Version)> = page
        .files
        .iter()
        .filter_map(|file| {
            let version = wheel_version(&file.filename, package)?;
            Some((file, version, Version::parse(version)?))
        })
        .collect();
    let wanted = match version {
        Some(text) => Version::parse(text),
        None => wheels
            .iter()
            .filter(|(file, ..)| !is_yanked(file))
            .map(|(.., version)| version)
            .max_by_key(|version| (!version.is_prerelease(), *version))
            .cloned(),
    };
    let of_version = |candidate: &&(&File, &str, Version)| Some(&candidate.2) == wanted.as_ref();
    let (file, version, _) = wheels
        .iter()
        .filter(of_version)
        .min_by_key(|(file, ..)| (!file.filename.ends_with("-none-any.whl"), &file.filename))
        .ok_or_else(|| no_wheel(package, version, &wheels))?;
    let sha256 = file.hashes.get("sha256").map(|hash| hash.to_ascii_lowercase());
    let sha256 = sha256.filter(|hash| hash.len() == 64 && hash.bytes().all(|b| b.is_ascii_hexdigit()));
    Ok(Wheel {
        filename: file.filename.clone(),
        version: version.to_string(),
        url: absolute(page_url, &file.url),
        bytes: file.size,
        sha256: sha256.ok_or_else(|| {
            Error::new(
                ErrorKind::BadIndex,
                format!(
                    "{} gives no SHA-256 for {}, so it cannot be verified; name another index in PIP_INDEX_URL",
                    without_credentials(page_url),
                    file.filename
                ),
            )
        })?,
    })
}

fn is_yanked(file: &File) -> bool {
    !matches!(file.yanked, serde_json::Value::Null | serde_json::Value::Bool(false))
}

/// The version in `package-version[-build]-python-abi-platform.whl`; none for other files and other packages.
fn wheel_version<'a>(filename: &'a str, package: &str) -> Option<&'a str> {
    let stem = filename.strip_suffix(".whl")?;
    // The name becomes part of a path on this machine.
    if filename.contains(['/', '\\', ':']) || filename.chars().any(char::is_control) {
        return None;
    }
    let parts: Vec<&str> = stem.split('-').collect();
    let is_ours = (5..=6).contains(&parts.len()) && normal_package_name(parts[0]) == package;
    is_ours.then(|| parts[1])
}

fn no_wheel(package: &str, version: Option<&str>, wheels: &[(&File, &str, Version)]) -> Error {
    let mut versions: Vec<(&Version, &str)> = wheels.iter().map(|(_, text, version)| (version, *text)).collect();
    versions.sort();
    versions.dedup_by(|a, b| a.0 == b.0);
    let newest: Vec<&str> = versions.iter().rev().take(10).map(|(_, text)| *text).collect();
    match version {
        _ if newest.is_empty() => Error::new(
            ErrorKind::NotAWheel,
            format!("the package {package} has no wheel; only files inside wheels can be fetched"),
        ),
        Some(version) => Error::new(
            ErrorKind::NotFound,
            format!("the package {package} has no wheel of version {version}; there is: {}", newest.join(", ")),
        ),
        None => Error::new(
            ErrorKind::NotFound,
            format!(
                "every version of the package {package} was withdrawn by its authors; to have one all the same, \
                 name it: pypi:{package}=={}",
                newest[0]
            ),
        ),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const PAGE_URL: &str = "https://index.example/simple/a-b/";

    fn page(files: &[(&str, serde_json::Value)]) -> Page {
        let files: Vec<serde_json::Value> = files
            .iter()
            .map(|(filename, yanked)| {
                serde_json::json!({"filename": filename, "url": format!("../../files/{filename}#sha256=x"),
                    "hashes": {"sha256": "AB".repeat(32)}, "size": 7, "yanked": yanked})
            })
            .collect();
        serde_json::from_value(serde_json::json!({"meta": {"api-version": "1.0"}, "files": files})).unwrap()
    }

    #[test]
    fn the_newest_release_that_was_not_withdrawn_is_chosen() {
        let page = page(&[
            ("a_b-1.9-py3-none-any.whl", false.into()),
            ("a_b-1.10-cp311-cp311-linux_x86_64.whl", false.into()),
            ("a_b-1.10-py3-none-any.whl", serde_json::Value::Null),
            ("A.b-1.11-py3-none-any.whl", "broken".into()),
            ("a_b-2.0rc1-py3-none-any.whl", false.into()),
            ("a_b-3.0.tar.gz", false.into()),
            ("other-9.0-py3-none-any.whl", false.into()),
        ]);
        let wheel = choose(&page, PAGE_URL, "a-b", None).unwrap();
        assert_eq!(wheel.filename, "a_b-1.10-py3-none-any.whl");
        assert_eq!(wheel.url, "https://index.example/files/a_b-1.10-py3-none-any.whl");
        assert_eq!((wheel.bytes, wheel.sha256), (Some(7), "ab".repeat(32)));
        let named = |version| choose(&page, PAGE_URL, "a-b", Some(version));
        assert_eq!(named("1.9.0").unwrap().version, "1.9");
        assert_eq!(named("1.11").unwrap().version, "1.11");
        let error = named("4").unwrap_err();
        assert_eq!(error.kind(), ErrorKind::NotFound);
        assert!(error.to_string().ends_with("there is: 2.0rc1, 1.11, 1.10, 1.9"), "{error}");
    }

    #[test]
    fn packages_without_a_wheel_or_with_withdrawn_ones_say_so() {
        let error = choose(&page(&[("a_b-3.0.tar.gz", false.into())]), PAGE_URL, "a-b", None).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::NotAWheel);
        let withdrawn = page(&[("a_b-1-py3-none-any.whl", true.into())]);
        let error = choose(&withdrawn, PAGE_URL, "a-b", None).unwrap_err();
        assert!(error.to_string().contains("pypi:a-b==1"), "{error}");
        let tricky = page(&[("a_b-1-py3-none-../../any.whl", false.into())]);
        assert_eq!(choose(&tricky, PAGE_URL, "a-b", None).unwrap_err().kind(), ErrorKind::NotAWheel);
    }

    #[test]
    fn a_wheel_without_hash_is_refused() {
        let mut page = page(&[("a_b-1-py3-none-any.whl", false.into())]);
        for hash in ["", "zz", &"g".repeat(64)] {
            page.files[0].hashes = BTreeMap::from([("sha256".to_string(), hash.to_string())]);
            assert_eq!(choose(&page, PAGE_URL, "a-b", None).unwrap_err().kind(), ErrorKind::BadIndex);
        }
    }
}
