//! Nothing below the faces prints, and nothing that is committed is unfinished.

use crate::finding::Finding;
use crate::source::{code_only, line_of, words};
use crate::tree::Tree;

/// Macros that print. Only faces may: below them there are events and errors.
const PRINTING: &[&str] = &["print", "println", "eprint", "eprintln"];

/// Macros of code that is not done.
const UNFINISHED: &[&str] = &["todo", "unimplemented", "dbg"];

/// The crates whose sources may print.
const FACES: &[&str] = &["crates/cli/"];

pub(crate) fn check(tree: &Tree) -> Vec<Finding> {
    let mut findings = Vec::new();
    for (path, text) in tree.texts(".rs") {
        let code = code_only(text);
        let is_source = path.starts_with("crates/") && path.contains("/src/");
        if is_source && !FACES.iter().any(|face| path.starts_with(face)) {
            let remedy = "return an error or emit an event; faces print";
            findings.extend(uses(path, &code, PRINTING, remedy));
        }
        findings.extend(uses(path, &code, UNFINISHED, "finish it"));
    }
    findings
}

/// Calls of the macros called `names`.
fn uses<'a>(
    path: &'a str,
    code: &'a str,
    names: &'a [&str],
    remedy: &'a str,
) -> impl Iterator<Item = Finding> + use<'a> {
    names.iter().flat_map(move |name| {
        let calls = words(code, name).filter(move |at| code[at + name.len()..].starts_with('!'));
        calls.map(move |at| Finding::violation(path, line_of(code, at), format!("`{name}!`"), remedy))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn found(path: &str, text: &str) -> Vec<String> {
        let found = check(&Tree::of(&[(path, text)])).into_iter();
        found.map(|found| format!("{} {}", found.line, found.what)).collect()
    }

    #[test]
    fn only_faces_and_tests_print() {
        let text = "//! println!(x)\nprint(x);\nprintln!(x);\nstd::eprint!(x);\n";
        assert_eq!(found("crates/engine/src/a.rs", text), ["3 `println!`", "4 `eprint!`"]);
        for path in ["crates/cli/src/a.rs", "crates/engine/tests/a.rs", "crates/engine/examples/a.rs", "xtask/src/a.rs"]
        {
            assert_eq!(found(path, text), [""; 0], "{path}");
        }
    }

    #[test]
    fn unfinished_code_is_refused_everywhere() {
        assert_eq!(found("crates/cli/tests/a.rs", "let todo = 1;\ntodo!()\ndbg! (x)\n"), ["2 `todo!`", "3 `dbg!`"]);
        assert_eq!(found("fuzz/a.rs", "dbg!(x)"), ["1 `dbg!`"]);
    }
}
