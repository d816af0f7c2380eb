//! A source file is about one thing, and can be read in one sitting.

use crate::finding::Finding;
use crate::tree::Tree;

/// Lines above which a file is worth a look.
const MANY_LINES: usize = 700;
/// Lines above which it is too long.
const TOO_MANY_LINES: usize = 1000;

pub(crate) fn check(tree: &Tree) -> Vec<Finding> {
    let sizes = tree.texts(".rs").map(|(path, text)| (path, text.lines().count()));
    sizes
        .filter(|(_, lines)| *lines > MANY_LINES)
        .map(|(path, lines)| {
            let what = format!("{lines} lines");
            if lines > TOO_MANY_LINES {
                Finding::violation(path, 0, what, format!("split it: the limit is {TOO_MANY_LINES}"))
            } else {
                Finding::note(path, 0, what, format!("is it one thing? The limit is {TOO_MANY_LINES}"))
            }
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn long_files_are_noted_and_longer_ones_refused() {
        let text = |lines: usize| "x\n".repeat(lines);
        let tree = Tree::of(&[
            ("a.rs", &text(700)),
            ("b.rs", &text(701)),
            ("c.rs", &text(1000)),
            ("d.rs", &text(1001)),
            ("e.json", &text(5000)),
        ]);
        let found: Vec<(String, bool)> = check(&tree).into_iter().map(|found| (found.path, found.is_note)).collect();
        assert_eq!(found, [("b.rs".to_owned(), true), ("c.rs".to_owned(), true), ("d.rs".to_owned(), false)]);
    }
}
