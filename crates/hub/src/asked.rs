//! Who is asked, and what a refusal of theirs means: the same status has another remedy at each kind of server.

use ureq::{Body, http};

use crate::address::without_credentials;
use crate::error::{Error, ErrorKind};

/// The kind of server that a request goes to.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Asked {
    /// A package index and the files it points to.
    Index,
    /// Hugging Face or a mirror of it, for a repository, with or without a token.
    HuggingFace { repo: String, has_token: bool },
    /// ModelScope, for a repository.
    ModelScope { repo: String },
    /// An address that the user typed.
    Address,
}

impl Asked {
    /// The error for an answer whose status is none.
    pub(crate) fn refused(&self, url: &str, response: &http::Response<Body>) -> Error {
        let header = |name| response.headers().get(name).and_then(|value| value.to_str().ok()).unwrap_or_default();
        let url = without_credentials(url);
        self.refused_with(&url, response.status().as_u16(), header("X-Error-Code"))
    }

    /// `code` is what Hugging Face calls the reason, in a header of the answer; empty from others.
    fn refused_with(&self, url: &str, status: u16, code: &str) -> Error {
        match self {
            Asked::HuggingFace { repo, has_token } => hugging_face(url, status, code, repo, *has_token),
            Asked::ModelScope { repo } => match status {
                401 | 403 => Error::new(
                    ErrorKind::Denied,
                    format!(
                        "ModelScope refuses access to {repo} (status {status}); models that ask for a login are \
                         fetched with ModelScope's own program, and duan then finds them in its cache"
                    ),
                ),
                404 | 410 => not_there("ModelScope", url, repo, status),
                _ => Error::status(url, status),
            },
            Asked::Address => match status {
                401 | 403 | 407 => Error::new(
                    ErrorKind::Denied,
                    format!(
                        "{url} refuses access (status {status}); sign in with a browser, save the file and give its \
                         path, or check the address and the proxy"
                    ),
                ),
                404 | 410 => Error::new(
                    ErrorKind::NotFound,
                    format!("{url} does not exist (status {status}); check the address"),
                ),
                _ => Error::status(url, status),
            },
            Asked::Index => Error::status(url, status),
        }
    }
}

fn hugging_face(url: &str, status: u16, code: &str, repo: &str, has_token: bool) -> Error {
    let denied = |reason: String| Error::new(ErrorKind::Denied, format!("{repo}: {reason} (status {status})"));
    match (status, code) {
        (401 | 403, "GatedRepo") if has_token => denied(
            "this model is given only to those who accepted its licence, and the account of the token in HF_TOKEN has \
             not; accept it on the model's page on Hugging Face, or check which account the token is of"
                .to_string(),
        ),
        (401 | 403, "GatedRepo") => denied(
            "this model is given only to those who accept its licence; accept it on the model's page on Hugging Face, \
             make a token under Settings and set it as HF_TOKEN"
                .to_string(),
        ),
        (401, _) if !has_token => denied(
            "there is no such model on Hugging Face, or it is private; check the name, or set HF_TOKEN to a token of \
             an account that may read it"
                .to_string(),
        ),
        (401, _) => denied(
            "there is no such model on Hugging Face that the token in HF_TOKEN may read; check the name and whether \
             the token is still valid"
                .to_string(),
        ),
        (403, _) => denied("Hugging Face refuses access; check HF_TOKEN and the proxy".to_string()),
        (404, "RevisionNotFound") => Error::new(
            ErrorKind::NotFound,
            format!("{repo} has no such branch, tag or commit (status {status}); leave @REVISION out for the main one"),
        ),
        (404 | 410, _) => not_there("Hugging Face", url, repo, status),
        _ => Error::status(url, status),
    }
}

fn not_there(site: &str, url: &str, repo: &str, status: u16) -> Error {
    Error::new(
        ErrorKind::NotFound,
        format!("{site} has no {repo}, or not this part of it ({url}, status {status}); check the name of the model"),
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_refusal_has_its_remedy() {
        let hf = |has_token| Asked::HuggingFace { repo: "o/n".into(), has_token };
        let ms = Asked::ModelScope { repo: "o/n".into() };
        for (asked, status, code, kind, text) in [
            (hf(false), 401, "GatedRepo", ErrorKind::Denied, "set it as HF_TOKEN"),
            (hf(true), 403, "GatedRepo", ErrorKind::Denied, "has not; accept it"),
            (hf(false), 401, "RepoNotFound", ErrorKind::Denied, "no such model"),
            (hf(true), 401, "", ErrorKind::Denied, "still valid"),
            (hf(false), 404, "RevisionNotFound", ErrorKind::NotFound, "no such branch"),
            (hf(false), 404, "EntryNotFound", ErrorKind::NotFound, "check the name"),
            (hf(false), 429, "", ErrorKind::TooManyRequests, "wait"),
            (ms.clone(), 403, "", ErrorKind::Denied, "ModelScope's own program"),
            (ms, 404, "", ErrorKind::NotFound, "ModelScope has no o/n"),
            (Asked::Address, 403, "", ErrorKind::Denied, "browser"),
            (Asked::Address, 404, "", ErrorKind::NotFound, "check the address"),
            (Asked::Index, 404, "", ErrorKind::NotFound, "package"),
        ] {
            let error = asked.refused_with("http://host/x", status, code);
            assert_eq!(error.kind(), kind, "{error}");
            assert!(error.to_string().contains(text), "{error}");
            assert!(error.to_string().contains(&status.to_string()), "{error}");
        }
    }
}
