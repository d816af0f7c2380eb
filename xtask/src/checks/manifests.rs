//! Manifests: each can be read, has our licence, and takes the workspace's lints.

use toml::{Table, Value};

use crate::finding::Finding;
use crate::source::line_of;
use crate::tree::Tree;

const LICENCE: &str = "MIT OR Apache-2.0";

/// Where a dependency stands.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Section {
    /// `[dependencies]` and `[build-dependencies]`, also those of a target.
    Code,
    /// `[dev-dependencies]`.
    Tests,
}

/// One dependency of a manifest.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Dependency {
    /// The package, also where the manifest gives it another name.
    pub(crate) package: String,
    pub(crate) section: Section,
    /// The line, from 1.
    pub(crate) line: usize,
}

/// The dependencies of the manifest at `path`; none where it cannot be read, which [`check`] says.
pub(crate) fn dependencies(tree: &Tree, path: &str) -> Vec<Dependency> {
    let text = tree.text(path).unwrap_or_default();
    let Ok(manifest) = text.parse::<Table>() else { return Vec::new() };
    let targets = manifest.get("target").and_then(Value::as_table).into_iter().flat_map(Table::values);
    let mut found: Vec<Dependency> = std::iter::once(&manifest)
        .chain(targets.filter_map(Value::as_table))
        .flat_map(|table| {
            [
                ("dependencies", Section::Code),
                ("build-dependencies", Section::Code),
                ("dev-dependencies", Section::Tests),
            ]
            .into_iter()
            .filter_map(|(key, section)| Some((table.get(key)?.as_table()?, key, section)))
        })
        .flat_map(|(table, key, section)| {
            table.iter().map(move |(name, value)| {
                let package = value.get("package").and_then(Value::as_str).unwrap_or(name);
                Dependency { package: package.to_owned(), section, line: line(text, key, name) }
            })
        })
        .collect();
    found.sort_by_key(|dependency| dependency.line);
    found
}

/// The line where `[section]` names a dependency, or the section's where it is written in another way.
fn line(text: &str, section: &str, name: &str) -> usize {
    let is_entry = |line: &str| {
        let rest = line.trim_start().strip_prefix(name);
        rest.is_some_and(|rest| rest.starts_with([' ', '.', '=']))
    };
    let mut is_inside = false;
    for (at, line) in text.lines().enumerate() {
        if line.starts_with('[') {
            let header = line.trim().trim_matches(['[', ']']);
            is_inside = header.rsplit('.').next() == Some(section);
            if header.ends_with(&format!("{section}.{name}")) {
                return at + 1;
            }
        } else if is_inside && is_entry(line) {
            return at + 1;
        }
    }
    0
}

pub(crate) fn check(tree: &Tree) -> Vec<Finding> {
    tree.texts("Cargo.toml").flat_map(|(path, text)| check_manifest(path, text)).collect()
}

fn check_manifest(path: &str, text: &str) -> Vec<Finding> {
    let manifest = match text.parse::<Table>() {
        Ok(manifest) => manifest,
        Err(error) => {
            let line = error.span().map_or(0, |span| line_of(text, span.start));
            let what = format!("cannot be read as TOML ({})", error.message().trim());
            return vec![Finding::violation(path, line, what, "mend it")];
        }
    };
    let mut findings = Vec::new();
    let at = |table: &str, key: &str| manifest.get(table).and_then(|table| table.get(key));
    let inherits =
        |value: Option<&Value>| value.and_then(|value| value.get("workspace")).and_then(Value::as_bool) == Some(true);
    if let Some(package) = manifest.get("package") {
        let licence = package.get("license");
        if !inherits(licence) && licence.and_then(Value::as_str) != Some(LICENCE) {
            let remedy = format!("write license.workspace = true, or license = \"{LICENCE}\" outside the workspace");
            findings.push(Finding::violation(path, 0, "the package does not have our licence", remedy));
        }
        let is_member = manifest.get("workspace").is_none();
        if is_member && at("lints", "workspace").and_then(Value::as_bool) != Some(true) {
            let remedy = "write [lints] and workspace = true";
            findings.push(Finding::violation(path, 0, "the package does not take the workspace's lints", remedy));
        }
    } else {
        let licence = manifest.get("workspace").and_then(|table| table.get("package")?.get("license")?.as_str());
        if licence != Some(LICENCE) {
            let remedy = format!("write license = \"{LICENCE}\" below [workspace.package]");
            findings.push(Finding::violation(path, 0, "the workspace does not have our licence", remedy));
        }
    }
    findings
}

#[cfg(test)]
mod tests {
    use super::*;

    const GOOD: &str = "[package]\nname = \"a\"\nlicense.workspace = true\n[lints]\nworkspace = true\n";

    fn found(text: &str) -> Vec<String> {
        check(&Tree::of(&[("Cargo.toml", text)])).iter().map(ToString::to_string).collect()
    }

    #[test]
    fn licence_and_lints_come_from_the_workspace() {
        assert_eq!(found(GOOD), [""; 0]);
        assert_eq!(found("[package]\nlicense = \"MIT OR Apache-2.0\"\n[workspace]\n"), [""; 0]);
        assert_eq!(found("[workspace.package]\nlicense = \"MIT OR Apache-2.0\"\n"), [""; 0]);
        assert!(
            found("[workspace.package]\nlicense = \"GPL\"\n")[0].contains("the workspace does not have our licence")
        );
        let bad = found("[package]\nlicense = \"MIT\"\n[lints.rust]\nunsafe_code = \"allow\"\n");
        assert_eq!(bad.len(), 2);
        assert!(bad[0].contains("does not have our licence") && bad[1].contains("lints"), "{bad:?}");
        assert!(found("[package]\nname = \n")[0].starts_with("Cargo.toml:2: cannot be read as TOML"));
    }

    #[test]
    fn dependencies_have_their_real_name_and_line() {
        let text = "[dev-dependencies]\nb = \"1\"\n[dependencies]\nab = \"1\"\nb.workspace = true\n\
            [target.'cfg(unix)'.dependencies]\nc = { package = \"d\", version = \"1\" }\n[build-dependencies.e]\nversion = \"1\"\n";
        let tree = Tree::of(&[("Cargo.toml", text)]);
        let found: Vec<(String, Section, usize)> = dependencies(&tree, "Cargo.toml")
            .into_iter()
            .map(|found| (found.package, found.section, found.line))
            .collect();
        let expected = [
            ("b", Section::Tests, 2),
            ("ab", Section::Code, 4),
            ("b", Section::Code, 5),
            ("d", Section::Code, 7),
            ("e", Section::Code, 8),
        ];
        assert_eq!(found, expected.map(|(name, section, line)| (name.to_owned(), section, line)));
    }
}
