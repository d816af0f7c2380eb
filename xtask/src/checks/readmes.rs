//! The READMEs, in every language, show every command that the program has.

use crate::finding::Finding;
use crate::source::code_only;
use crate::tree::Tree;

/// Where the commands are listed in code: the variants of an enum.
const COMMANDS: &str = "crates/cli/src/commands/mod.rs";
const ENUM: &str = "enum Command {";

const READMES: &[&str] = &["README.md", "README.zh-CN.md"];

pub(crate) fn check(tree: &Tree) -> Vec<Finding> {
    let Some(commands) = tree.text(COMMANDS) else { return Vec::new() };
    let names = names(commands);
    if names.is_empty() {
        let what = format!("no commands found after `{ENUM}`");
        return vec![Finding::violation(
            COMMANDS,
            0,
            what,
            "tell xtask/src/checks/readmes.rs where they are listed now",
        )];
    }
    let mut findings = Vec::new();
    for readme in READMES {
        // A README that is missing is the finding of another check.
        let Some(text) = tree.text(readme) else { continue };
        for name in names.iter().filter(|name| !mentions(text, name)) {
            let what = format!("`duan {name}` is not mentioned");
            findings.push(Finding::violation(readme, 0, what, "say what the command does"));
        }
    }
    findings
}

/// Whether `duan NAME` stands in the text, and does not go on as another name.
fn mentions(text: &str, name: &str) -> bool {
    let command = format!("duan {name}");
    text.match_indices(&command).any(|(at, _)| {
        let next = text[at + command.len()..].chars().next();
        !next.is_some_and(|next| next.is_ascii_alphanumeric() || next == '-')
    })
}

/// The commands as they are typed: variants of the enum, in lower case with dashes.
fn names(source: &str) -> Vec<String> {
    let code = code_only(source);
    let Some(start) = code.find(ENUM) else { return Vec::new() };
    let body = &code[start + ENUM.len()..];
    let body = &body[..body.find('}').unwrap_or(body.len())];
    body.lines()
        .map(str::trim)
        .filter(|line| line.starts_with(|c: char| c.is_ascii_uppercase()))
        .map(|line| kebab(line.split(|c: char| !c.is_ascii_alphanumeric()).next().unwrap_or_default()))
        .collect()
}

fn kebab(variant: &str) -> String {
    let mut name = String::new();
    for (at, letter) in variant.chars().enumerate() {
        if letter.is_ascii_uppercase() && at > 0 {
            name.push('-');
        }
        name.push(letter.to_ascii_lowercase());
    }
    name
}

#[cfg(test)]
mod tests {
    use super::*;

    const SOURCE: &str = "/// enum Command { No }\npub(crate) enum Command {\n    /// Talk\n    Chat(chat::Args),\n    #[command(hide = true)]\n    DryRun,\n}\nenum Other {\n    Gone,\n}\n";

    #[test]
    fn commands_are_the_variants() {
        assert_eq!(names(SOURCE), ["chat", "dry-run"]);
    }

    #[test]
    fn every_readme_shows_every_command() {
        let tree = Tree::of(&[
            (COMMANDS, SOURCE),
            ("README.md", "`duan chat` and `duan dry-run x`"),
            ("README.zh-CN.md", "duan chats, `duan dry-run`"),
        ]);
        let found: Vec<String> = check(&tree).iter().map(ToString::to_string).collect();
        assert_eq!(found, ["README.zh-CN.md: `duan chat` is not mentioned; say what the command does"]);
    }

    #[test]
    fn a_list_that_moved_is_noticed() {
        assert_eq!(check(&Tree::of(&[(COMMANDS, "struct Command;")])).len(), 1);
    }
}
