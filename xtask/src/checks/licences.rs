//! The texts that a stranger looks for first are there.

use crate::finding::Finding;
use crate::tree::Tree;

/// Each file and a phrase that it must contain.
const FILES: &[(&str, &str)] = &[
    ("LICENSE-MIT", "Permission is hereby granted, free of charge"),
    ("LICENSE-MIT", "The duan authors"),
    ("LICENSE-APACHE", "Version 2.0, January 2004"),
    ("LICENSE-APACHE", "END OF TERMS AND CONDITIONS"),
    ("README.md", "cargo test --workspace"),
    ("README.md", "cargo run --release -- chat"),
    ("README.md", "LICENSE-APACHE"),
    ("README.zh-CN.md", "cargo test --workspace"),
    ("README.zh-CN.md", "cargo run --release -- chat"),
    ("README.zh-CN.md", "LICENSE-APACHE"),
    ("ARCHITECTURE.md", ""),
    ("CONTRIBUTING.md", ""),
    ("CHANGELOG.md", "Unreleased"),
];

pub(crate) fn check(tree: &Tree) -> Vec<Finding> {
    let mut findings: Vec<Finding> = Vec::new();
    for (path, phrase) in FILES {
        match tree.text(path) {
            Some(text) if text.contains(phrase) => {}
            Some(_) => findings.push(Finding::violation(path, 0, format!("\"{phrase}\" is not in it"), "put it back")),
            // Once for a file, not once for a phrase.
            None if findings.iter().any(|found| found.path == *path) => {}
            None => findings.push(Finding::violation(path, 0, "the file is missing", "write it")),
        }
    }
    findings
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn missing_files_and_phrases_are_named_once() {
        let found = check(&Tree::of(&[
            ("LICENSE-MIT", "Permission is hereby granted, free of charge"),
            ("CONTRIBUTING.md", "x"),
        ]));
        let paths: Vec<&str> = found.iter().map(|found| found.path.as_str()).collect();
        assert_eq!(
            paths,
            ["LICENSE-MIT", "LICENSE-APACHE", "README.md", "README.zh-CN.md", "ARCHITECTURE.md", "CHANGELOG.md"]
        );
        assert!(found[0].what.contains("The duan authors"));
    }

    #[test]
    fn all_files_with_their_phrases_pass() {
        let mut texts: std::collections::BTreeMap<&str, String> = std::collections::BTreeMap::new();
        for (path, phrase) in FILES {
            let text = texts.entry(path).or_default();
            text.push_str(phrase);
            text.push('\n');
        }
        let files: Vec<(&str, &str)> = texts.iter().map(|(path, text)| (*path, text.as_str())).collect();
        assert_eq!(check(&Tree::of(&files)), []);
    }
}
