//! `unsafe` stands only where intrinsics, threads and memory maps need it, and each use says why it is sound.

use crate::finding::Finding;
use crate::source::{code_only, line_of, words};
use crate::tree::Tree;

/// Where `unsafe` may stand: a folder (ending in `/`) or a file.
const ALLOWED: &[&str] = &["crates/cpu/", "crates/model/src/map.rs"];

/// How many lines above a use its reason may begin.
const NEAR_LINES: usize = 12;

pub(crate) fn check(tree: &Tree) -> Vec<Finding> {
    let mut findings = Vec::new();
    for (path, text) in tree.texts(".rs") {
        let code = code_only(text);
        let is_allowed =
            ALLOWED.iter().any(|allowed| path == *allowed || allowed.ends_with('/') && path.starts_with(allowed));
        for at in words(&code, "unsafe") {
            let line = line_of(text, at);
            if !is_allowed {
                let remedy = format!("write it without, or move it to {}", ALLOWED.join(" or "));
                findings.push(Finding::violation(path, line, "`unsafe`", remedy));
            } else if let Some(mark) = reason_needed(&code[at + "unsafe".len()..])
                && !has_near(text, line, mark)
            {
                let remedy = format!("say above it, after `{mark}`, why it is sound");
                findings.push(Finding::violation(path, line, "`unsafe` without a reason", remedy));
            }
        }
    }
    findings
}

/// How the reason of a use begins, by what follows the word; `None` where the word is only part of a type.
fn reason_needed(rest: &str) -> Option<&'static str> {
    let rest = rest.trim_start();
    let is_function_type = rest.strip_prefix("fn").is_some_and(|rest| rest.trim_start().starts_with('('));
    if rest.starts_with('{') || rest.starts_with("impl") {
        Some("SAFETY:")
    } else if (rest.starts_with("fn") && !is_function_type) || rest.starts_with("trait") {
        Some("# Safety")
    } else {
        None
    }
}

fn has_near(text: &str, line: usize, mark: &str) -> bool {
    let above = line.saturating_sub(1 + NEAR_LINES);
    text.lines().skip(above).take(line - above).any(|line| line.contains(mark))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn found(path: &str, text: &str) -> Vec<(usize, String)> {
        check(&Tree::of(&[(path, text)])).into_iter().map(|found| (found.line, found.what)).collect()
    }

    #[test]
    fn it_is_refused_outside_its_places() {
        let text = "// unsafe\nlet word = \"unsafe\";\n#![allow(unsafe_code)]\nunsafe { f() }\n";
        assert_eq!(found("crates/engine/src/a.rs", text), [(4, "`unsafe`".to_owned())]);
        assert_eq!(found("crates/model/src/map.rs.rs", "unsafe fn f() {}").len(), 1);
        assert_eq!(found("crates/cpuid/src/a.rs", "unsafe fn f() {}").len(), 1);
    }

    #[test]
    fn it_needs_a_reason_in_its_places() {
        let good = "// SAFETY: it is.\nlet x = unsafe { f() };\n/// # Safety\n/// Never.\nunsafe fn f() {}\ntype F = unsafe fn(u8);\n";
        assert_eq!(found("crates/cpu/src/a.rs", good), []);
        let lines = "\n".repeat(NEAR_LINES + 1);
        let bad = format!(
            "// SAFETY: too far away{lines}unsafe {{ f() }}\nunsafe impl Send for X {{}}\nunsafe fn f() {{}}\n"
        );
        let found: Vec<usize> = found("crates/model/src/map.rs", &bad).into_iter().map(|(line, _)| line).collect();
        assert_eq!(found, [NEAR_LINES + 2, NEAR_LINES + 3, NEAR_LINES + 4]);
    }
}
