//! The checks, one file each.

mod edges;
mod hosts;
mod licences;
mod links;
mod macros;
mod manifests;
mod pages;
mod readmes;
mod sizes;
mod unsafe_code;

use crate::finding::Finding;
use crate::tree::Tree;

/// What a check is.
type Check = fn(&Tree) -> Vec<Finding>;

/// Every check.
pub(crate) const ALL: &[Check] = &[
    edges::check,
    hosts::check,
    licences::check,
    links::check,
    macros::check,
    manifests::check,
    pages::check,
    readmes::check,
    sizes::check,
    unsafe_code::check,
];

/// What all checks find, by path and line.
pub(crate) fn run(tree: &Tree) -> Vec<Finding> {
    let mut findings: Vec<Finding> = ALL.iter().flat_map(|check| check(tree)).collect();
    findings.sort();
    findings
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn findings_of_all_checks_come_in_the_order_of_paths() {
        let findings = run(&Tree::of(&[("z.md", "[a](gone.md)"), ("a.md", "[a](gone.md)")]));
        let paths: Vec<&str> = findings.iter().map(|finding| finding.path.as_str()).collect();
        assert!(paths.is_sorted() && paths.contains(&"a.md") && paths.contains(&"z.md"), "{paths:?}");
        assert!(paths.contains(&"LICENSE-MIT"), "{paths:?}");
    }
}
