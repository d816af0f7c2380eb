//! Documents point at what is there: relative links, and paths written as code.

use crate::finding::Finding;
use crate::tree::Tree;

pub(crate) fn check(tree: &Tree) -> Vec<Finding> {
    let mut findings = Vec::new();
    for (path, text) in tree.texts(".md") {
        for (line, text) in prose(text) {
            let missing_links = links(text).filter(|link| !is_elsewhere(link) && !resolves(tree, path, link));
            for link in missing_links {
                findings.push(Finding::violation(
                    path,
                    line,
                    format!("the link {link} leads nowhere"),
                    "mend the path",
                ));
            }
            for code in paths(tree, text).filter(|code| !tree.has(code) && !tree.is_ignored(code)) {
                let what = format!("`{code}` is not there");
                findings.push(Finding::violation(path, line, what, "name the file that took its place"));
            }
        }
    }
    findings
}

/// Lines outside fenced blocks of code, with their numbers from 1.
fn prose(text: &str) -> impl Iterator<Item = (usize, &str)> {
    let mut is_fenced = false;
    (1..).zip(text.lines()).filter(move |(_, line)| {
        let is_fence = line.trim_start().starts_with("```");
        is_fenced ^= is_fence;
        !is_fenced && !is_fence
    })
}

/// Targets of `[text](target)`, of `[label]: target` and of pictures.
fn links(line: &str) -> impl Iterator<Item = &str> {
    let inline = line.match_indices("](").filter_map(|(at, mark)| line[at + mark.len()..].split([')', ' ']).next());
    let definition = line.strip_prefix('[').and_then(|rest| rest.split_once("]: ")).map(|(_, target)| target.trim());
    inline.chain(definition)
}

/// Whether a link leaves the repository, or stays on its page.
fn is_elsewhere(link: &str) -> bool {
    link.contains("://") || link.starts_with("mailto:") || link.starts_with('#')
}

/// Whether a link from the document at `path` leads to a file or a folder.
fn resolves(tree: &Tree, path: &str, link: &str) -> bool {
    let target = link.split('#').next().unwrap_or(link);
    let mut folders: Vec<&str> = path.split('/').collect();
    folders.pop();
    if target.is_empty() || target.starts_with('/') {
        return false;
    }
    for part in target.split('/') {
        match part {
            "" | "." => {}
            ".." if folders.pop().is_none() => return false,
            ".." => {}
            part => folders.push(part),
        }
    }
    tree.has(&folders.join("/"))
}

/// Paths written as code, `like/this.rs`: those that begin with a folder at the root, and stand for one path only.
fn paths<'a>(tree: &'a Tree, line: &'a str) -> impl Iterator<Item = &'a str> {
    line.split('`').skip(1).step_by(2).filter(|code| {
        let is_plain = code.chars().all(|c| c.is_ascii_alphanumeric() || "/._-".contains(c));
        let root = code.split_once('/').map(|(root, _)| root);
        is_plain
            && root.is_some_and(|root| {
                !root.is_empty() && !root.starts_with('.') && tree.has(root) && tree.text(root).is_none()
            })
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn found(path: &str, text: &str) -> Vec<String> {
        let tree = Tree::of(&[(path, text), ("docs/a.md", ""), ("src/x/main.rs", ""), ("LICENSE-MIT", "")]);
        check(&tree).into_iter().map(|found| format!("{}: {}", found.line, found.what)).collect()
    }

    #[test]
    fn links_lead_somewhere() {
        let good =
            "[a](docs/a.md) [b](src/x/) ![c](docs/a.md#part) [d](#here) [e](https://a.example/x)\n[f]: LICENSE-MIT\n";
        assert_eq!(found("README.md", good), [""; 0]);
        let bad = "x\n[a](docs/b.md) [b](../up.md) [c](/docs/a.md)\n[d]: gone\n";
        let expected = ["docs/b.md", "../up.md", "/docs/a.md"].map(|link| format!("2: the link {link} leads nowhere"));
        let mut expected = expected.to_vec();
        expected.push("3: the link gone leads nowhere".to_owned());
        assert_eq!(found("README.md", bad), expected);
    }

    #[test]
    fn links_start_at_their_document() {
        assert_eq!(found("docs/sub/b.md", "[a](../a.md) [b](../../src/x/main.rs)"), [""; 0]);
        assert_eq!(found("docs/sub/b.md", "[a](a.md)").len(), 1);
    }

    #[test]
    fn paths_in_code_are_there_and_other_code_is_left_alone() {
        assert_eq!(found("A.md", "`src/x/main.rs` `src/x` `tg/pp` `src/*/main.rs` `a` `src/out` `/help`"), [""; 0]);
        assert_eq!(found("A.md", "see `src/main.rs`"), ["1: `src/main.rs` is not there"]);
        assert_eq!(found("A.md", "```\n[a](gone) `src/gone`\n```\n`src/gone`"), ["4: `src/gone` is not there"]);
    }
}
