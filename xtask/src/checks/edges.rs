//! Arrows between crates only point down, and only along the arrows of the map in ARCHITECTURE.md.
//!
//! Tests may use more than the code does, but nothing from the same level or above.

use crate::finding::Finding;
use crate::tree::Tree;

use super::manifests::{Section, dependencies};

/// A crate and what it may stand on.
struct Row {
    /// The folder below `crates`.
    name: &'static str,
    /// How far up the map it stands. Dependencies of tests must stand lower.
    level: usize,
    /// The crates that its code may depend on.
    may_use: &'static [&'static str],
}

/// The map. A new crate is a new line here and in ARCHITECTURE.md.
const MAP: &[Row] = &[
    Row { name: "files", level: 0, may_use: &[] },
    Row { name: "quant", level: 0, may_use: &[] },
    Row { name: "system", level: 0, may_use: &[] },
    Row { name: "model", level: 1, may_use: &["quant"] },
    Row { name: "backend", level: 2, may_use: &["model", "quant"] },
    Row { name: "cpu", level: 3, may_use: &["backend", "model", "quant", "system"] },
    Row { name: "engine", level: 4, may_use: &["backend", "model", "quant"] },
    Row { name: "hub", level: 4, may_use: &["files"] },
    Row { name: "quantize", level: 4, may_use: &["files", "model", "quant"] },
    Row { name: "measure", level: 5, may_use: &["backend", "engine", "files", "model", "quant", "system"] },
    Row { name: "page", level: 6, may_use: &["measure", "system"] },
    Row {
        name: "duan",
        level: 7,
        may_use: &[
            "backend", "cpu", "engine", "files", "hub", "measure", "model", "page", "quant", "quantize", "system",
        ],
    },
    Row { name: "cli", level: 8, may_use: &["duan"] },
];

/// Libraries that belong to some crates only, because what they do is what the other crates must never know.
const LIBRARIES: &[(&str, &[&str])] = &[
    ("clap", &["cli"]),
    ("comfy-table", &["cli"]),
    ("core_affinity", &["cpu"]),
    ("ctrlc", &["cli"]),
    ("indicatif", &["cli"]),
    ("memmap2", &["model"]),
    ("minijinja", &["model", "page"]),
    ("plotters", &["measure"]),
    ("rusqlite", &["measure"]),
    ("rustyline", &["cli"]),
    ("ureq", &["hub"]),
    ("zip", &["hub"]),
];

pub(crate) fn check(tree: &Tree) -> Vec<Finding> {
    tree.crates().flat_map(|name| check_crate(tree, name)).collect()
}

fn check_crate(tree: &Tree, name: &str) -> Vec<Finding> {
    let path = format!("crates/{name}/Cargo.toml");
    let Some(row) = row(name) else {
        let remedy = "add it to MAP in xtask/src/checks/edges.rs and to the map in ARCHITECTURE.md";
        return vec![Finding::violation(&path, 0, format!("crate {name} is not on the map"), remedy)];
    };
    let mut findings = Vec::new();
    for dependency in dependencies(tree, &path) {
        let complaint = match own(&dependency.package) {
            Some(target) => edge(row, target, dependency.section),
            None => library(row, &dependency.package),
        };
        if let Some((what, remedy)) = complaint {
            findings.push(Finding::violation(&path, dependency.line, what, remedy));
        }
    }
    findings
}

fn row(name: &str) -> Option<&'static Row> {
    MAP.iter().find(|row| row.name == name)
}

/// The short name of one of our packages.
fn own(package: &str) -> Option<&str> {
    package.strip_prefix("duan-").or((package == "duan").then_some("duan"))
}

/// What is wrong with an arrow, and the remedy.
fn edge(from: &Row, to: &str, section: Section) -> Option<(String, String)> {
    match section {
        Section::Tests => {
            let is_lower = row(to).is_some_and(|to| to.level < from.level);
            (!is_lower).then(|| {
                let what = format!("tests of {} depend on {to}, which does not stand below it", from.name);
                (what, "move the test up to a crate that may see both".to_owned())
            })
        }
        Section::Code => (!from.may_use.contains(&to)).then(|| {
            let allowed = if from.may_use.is_empty() { "nothing".to_owned() } else { from.may_use.join(", ") };
            let what = format!("{} depends on {to}", from.name);
            (what, format!("of our crates it may use {allowed}: move the code to where the arrow is not needed"))
        }),
    }
}

fn library(from: &Row, package: &str) -> Option<(String, String)> {
    let (_, owners) = LIBRARIES.iter().find(|(name, _)| *name == package)?;
    (!owners.contains(&from.name)).then(|| {
        let what = format!("{} depends on the library {package}", from.name);
        (what, format!("that is the matter of {}: ask that crate", owners.join(", ")))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn found(files: &[(&str, &str)]) -> Vec<String> {
        check(&Tree::of(files)).iter().map(ToString::to_string).collect()
    }

    #[test]
    fn arrows_of_the_map_pass() {
        let cpu = "[dependencies]\nduan-backend.workspace = true\nhalf = \"2\"\n[dev-dependencies]\nduan-quant = { path = \"x\" }\n";
        let engine = "[dependencies]\nduan-backend.workspace = true\n[dev-dependencies]\nduan-cpu.workspace = true\n";
        assert_eq!(found(&[("crates/cpu/Cargo.toml", cpu), ("crates/engine/Cargo.toml", engine)]), [""; 0]);
    }

    #[test]
    fn other_arrows_are_named_with_their_line() {
        let model =
            "[package]\nname = \"duan-model\"\n[dependencies]\nduan-quant.workspace = true\nduan-backend = \"1\"\n";
        let lines = found(&[("crates/model/Cargo.toml", model)]);
        assert_eq!(lines.len(), 1);
        assert!(lines[0].starts_with("crates/model/Cargo.toml:5: model depends on backend; "), "{}", lines[0]);
        let engine = "[target.'cfg(unix)'.dependencies.vendor]\npackage = \"duan-cpu\"\npath = \"../cpu\"\n";
        assert!(found(&[("crates/engine/Cargo.toml", engine)])[0].contains("engine depends on cpu"));
        let quant = "[build-dependencies]\nduan.workspace = true\n";
        assert!(
            found(&[("crates/quant/Cargo.toml", quant)])[0]
                .contains("quant depends on duan; of our crates it may use nothing")
        );
    }

    #[test]
    fn tests_may_not_look_up_or_sideways() {
        for (name, dependency) in
            [("backend", "duan-cpu"), ("engine", "duan-hub"), ("model", "duan-model"), ("duan", "duan-cli")]
        {
            let text = format!("[dev-dependencies]\n{dependency} = \"1\"\n");
            assert_eq!(found(&[(&format!("crates/{name}/Cargo.toml"), &text)]).len(), 1, "{name}");
        }
    }

    #[test]
    fn libraries_stay_with_their_crate_and_crates_must_be_known() {
        let lines = found(&[
            ("crates/engine/Cargo.toml", "[dependencies]\nclap.workspace = true\n"),
            ("crates/cli/Cargo.toml", "[dependencies]\nclap.workspace = true\n"),
            ("crates/gpu/Cargo.toml", ""),
        ]);
        assert_eq!(lines.len(), 2);
        assert!(lines[0].contains("engine depends on the library clap; that is the matter of cli"), "{}", lines[0]);
        assert!(lines[1].contains("crate gpu is not on the map"), "{}", lines[1]);
    }

    #[test]
    fn the_map_itself_only_points_down() {
        for from in MAP {
            for to in from.may_use {
                assert!(row(to).unwrap().level < from.level, "{} -> {to}", from.name);
            }
        }
    }
}
