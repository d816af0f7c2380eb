//! Each crate begins with a page: what it is, what it must never know, and where to start reading.

use crate::finding::Finding;
use crate::tree::Tree;

/// The fewest lines of a page that says something.
const LINES: usize = 8;

/// What a page must say, by a phrase that does so, in lower case.
const PHRASES: &[(&str, &str)] =
    &[("must never know", "say what this crate must never know"), ("start reading", "say where to start reading")];

pub(crate) fn check(tree: &Tree) -> Vec<Finding> {
    let folders: Vec<String> = tree.crates().map(|name| format!("crates/{name}")).collect();
    let xtask = tree.has("xtask/Cargo.toml").then(|| "xtask".to_owned());
    folders.into_iter().chain(xtask).flat_map(|folder| check_crate(tree, &folder)).collect()
}

fn check_crate(tree: &Tree, folder: &str) -> Vec<Finding> {
    let roots = ["lib.rs", "main.rs"].map(|file| format!("{folder}/src/{file}"));
    let Some((path, text)) = roots.iter().find_map(|path| Some((path, tree.text(path)?))) else {
        let what = "neither src/lib.rs nor src/main.rs";
        return vec![Finding::violation(&format!("{folder}/Cargo.toml"), 0, what, "add one, with a page of docs")];
    };
    let page: Vec<&str> = text.lines().map_while(|line| line.strip_prefix("//!")).collect();
    let lines = page.iter().filter(|line| !line.trim().is_empty()).count();
    let mut findings = Vec::new();
    if lines < LINES {
        let what = format!("the page of docs at the top has {lines} lines");
        findings.push(Finding::violation(path, 1, what, format!("write at least {LINES}: what the crate is, and why")));
    }
    // Phrases may run over the end of a line.
    let words = page.iter().flat_map(|line| line.split_whitespace()).collect::<Vec<_>>().join(" ").to_lowercase();
    for (phrase, remedy) in PHRASES {
        if !words.contains(phrase) {
            findings.push(Finding::violation(path, 1, format!("the page at the top has no \"{phrase}\""), *remedy));
        }
    }
    findings
}

#[cfg(test)]
mod tests {
    use super::*;

    fn found(text: &str) -> Vec<String> {
        let tree = Tree::of(&[("crates/quant/Cargo.toml", ""), ("crates/quant/src/lib.rs", text)]);
        check(&tree).iter().map(ToString::to_string).collect()
    }

    #[test]
    fn a_page_says_three_things() {
        let filler = "//! More.\n".repeat(5);
        let good =
            format!("//! Formats.\n{filler}//! It must never\n//! know files. Start reading at `a.rs`.\n\nmod a;\n");
        assert_eq!(found(&good), [""; 0]);
        let short = "//! Formats. It must never know files. Start reading at `a.rs`.\n\n//! Not of the page.\n";
        let lines = found(short);
        assert_eq!(lines.len(), 1);
        assert!(
            lines[0].starts_with("crates/quant/src/lib.rs:1: the page of docs at the top has 1 lines"),
            "{}",
            lines[0]
        );
        assert_eq!(found(&"//! Words.\n".repeat(20)).len(), 2);
        assert_eq!(found("mod a;\n").len(), 3);
    }

    #[test]
    fn a_crate_has_a_root() {
        let tree = Tree::of(&[("crates/quant/Cargo.toml", ""), ("xtask/Cargo.toml", ""), ("xtask/src/main.rs", "")]);
        let paths: Vec<String> = check(&tree).into_iter().map(|found| found.path).collect();
        assert_eq!(paths, ["crates/quant/Cargo.toml", "xtask/src/main.rs", "xtask/src/main.rs", "xtask/src/main.rs"]);
    }
}
