//! Checks of the repository itself: `cargo xtask check`.
//!
//! A rule that nobody checks is a wish. The rules that a compiler and a linter cannot know are held here: which crate may
//! depend on which, where `unsafe` may stand, how long a file may be, that each crate begins with a page that explains it,
//! that documents do not point at files which are gone.
//!
//! [`checks::ALL`] lists the checks; each is one small file in `checks/`, a function from a [`Tree`] to findings. A tree
//! can be made up, so each check is tested on trees that break its rule. A finding is one line: where, what, and the remedy.
//!
//! This crate must never know what the other crates do: it reads them as text. Start reading at `checks/mod.rs`, then
//! `checks/sizes.rs`, the shortest check.
//!
//! **Adding a check** takes a file in `checks/` and one line in `checks/mod.rs`.

mod checks;
mod finding;
mod source;
mod tree;

use std::path::Path;
use std::process::ExitCode;

use anyhow::Context as _;

use crate::tree::Tree;

const USAGE: &str = "usage: cargo xtask check    the repository's own checks; 0 all hold, 1 some do not, 2 wrong usage";

fn main() -> anyhow::Result<ExitCode> {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    match arguments.iter().map(String::as_str).collect::<Vec<_>>()[..] {
        ["check"] => check(),
        ["--help" | "-h" | "help"] => {
            println!("{USAGE}");
            Ok(ExitCode::SUCCESS)
        }
        _ => {
            eprintln!("{USAGE}");
            Ok(ExitCode::from(2))
        }
    }
}

/// Runs every check on the repository that this program was built from, and prints what they find.
fn check() -> anyhow::Result<ExitCode> {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).parent().context("xtask lies in a folder of the repository")?;
    let tree = Tree::read(root)?;
    let findings = checks::run(&tree);
    for finding in &findings {
        println!("{finding}");
    }
    let violations = findings.iter().filter(|finding| !finding.is_note).count();
    let notes = findings.len() - violations;
    eprintln!("{} checks on {} files: {violations} violations, {notes} notes", checks::ALL.len(), tree.paths().count());
    Ok(if violations == 0 { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}
