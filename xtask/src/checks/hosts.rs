//! Addresses of servers stand in `crates/hub` and in lock files, nowhere else.
//!
//! Two rules: outside these no web address names a real host, and no text names a host that hub's code talks to.

use std::collections::BTreeSet;

use crate::finding::Finding;
use crate::source::line_of;
use crate::tree::Tree;

/// Where addresses may stand: a folder (ending in `/`), or the name of a file in any folder.
const ALLOWED: &[&str] = &["crates/hub/", "Cargo.lock", "LICENSE-APACHE", "LICENSE-MIT"];

/// Beginnings of addresses that are marks inside files, not places to go to.
const MARKS: &[&str] = &["git-lfs.github.com/spec/"];

/// Hosts that are nobody's, by their last part, and hosts that are this machine.
const RESERVED: &[&str] =
    &["example", "example.com", "example.net", "example.org", "invalid", "test", "localhost", "127.0.0.1"];

pub(crate) fn check(tree: &Tree) -> Vec<Finding> {
    let known: BTreeSet<&str> = tree
        .texts(".rs")
        .filter(|(path, _)| path.starts_with("crates/hub/src/"))
        .flat_map(|(_, text)| addresses(text))
        .map(|(_, address)| host(address))
        .filter(|host| is_real(host))
        .collect();
    let mut findings = Vec::new();
    for (path, text) in tree.texts("").filter(|(path, _)| !is_allowed(path)) {
        let named = known.iter().flat_map(|host| text.match_indices(host)).map(|(at, host)| (at, host.to_owned()));
        let linked = addresses(text)
            .filter(|(_, address)| is_real(host(address)) && !MARKS.iter().any(|mark| address.starts_with(mark)))
            .map(|(at, address)| (at, host(address).to_owned()));
        let lines: BTreeSet<(usize, String)> =
            named.chain(linked).map(|(at, host)| (line_of(text, at), host)).collect();
        for (line, host) in lines {
            let remedy = "addresses of servers stand in crates/hub alone: name the thing, not its address";
            findings.push(Finding::violation(path, line, format!("the host {host}"), remedy));
        }
    }
    findings
}

fn is_allowed(path: &str) -> bool {
    let name = path.rsplit('/').next().unwrap_or(path);
    ALLOWED.iter().any(|allowed| *allowed == name || allowed.ends_with('/') && path.starts_with(allowed))
}

/// Every web address: where it begins, and what follows the scheme.
fn addresses(text: &str) -> impl Iterator<Item = (usize, &str)> {
    text.match_indices("://")
        .filter(|(at, _)| text[..*at].ends_with("http") || text[..*at].ends_with("https"))
        .map(|(at, scheme)| (at, &text[at + scheme.len()..]))
}

/// The host that an address begins with: what stands before a path, a port or the end of the word. Credentials are skipped.
fn host(address: &str) -> &str {
    let end = address.find(|c: char| !(c.is_ascii_alphanumeric() || "-._@:%".contains(c))).unwrap_or(address.len());
    let authority = &address[..end];
    let host = authority.rsplit('@').next().unwrap_or(authority);
    host.split(':').next().unwrap_or(host).trim_end_matches('.')
}

/// Whether a host could be somebody's: it has a dot, and is not reserved for examples.
fn is_real(host: &str) -> bool {
    let is_reserved = RESERVED.iter().any(|name| host == *name || host.ends_with(&format!(".{name}")));
    let is_number = host.split('.').all(|part| part.parse::<u8>().is_ok());
    host.contains('.') && !is_reserved && !is_number
}

#[cfg(test)]
mod tests {
    use super::*;

    fn found(files: &[(&str, &str)]) -> Vec<String> {
        let files = check(&Tree::of(files)).into_iter();
        files.map(|found| format!("{}:{} {}", found.path, found.line, found.what)).collect()
    }

    #[test]
    fn addresses_stand_in_hub_alone() {
        // Put together here, so that this file keeps the rule it checks.
        let address = format!("x\nsee {}://index.registry.io/simple.\n", "https");
        let files = [
            ("crates/hub/src/a.rs", &*address),
            ("Cargo.lock", &address),
            ("README.md", &address),
            ("scripts/a.py", &address),
        ];
        assert_eq!(
            found(&files),
            ["README.md:2 the host index.registry.io", "scripts/a.py:2 the host index.registry.io"]
        );
    }

    #[test]
    fn a_host_that_hub_talks_to_is_found_without_a_scheme_too() {
        let hub = format!("const URL: &str = \"{}://registry.io/simple\";", "https");
        let files = [("crates/hub/src/a.rs", &*hub), ("docs/a.md", "fetched from registry.io")];
        assert_eq!(found(&files), ["docs/a.md:1 the host registry.io"]);
        assert_eq!(
            found(&[("docs/a.md", "fetched from registry.io")]),
            [""; 0],
            "a host that nobody talks to is a word"
        );
    }

    #[test]
    fn examples_and_marks_are_no_hosts() {
        let text = [
            "http://host/x",
            "https://a.example/x",
            "https://index.example:81/x",
            "http://127.0.0.1:99/x",
            "http://10.0.0.1/x",
            "https://me:pw@x.invalid/",
            "version https://git-lfs.github.com/spec/v1",
            "https://{host}/",
            "ftp://",
            "://",
        ]
        .join("\n");
        assert_eq!(found(&[("a.rs", &text)]), [""; 0]);
        assert_eq!(host("me:pw@host.a.b:81/x"), "host.a.b");
    }
}
