//! What all tests of the program share: running it in a clean environment, tiny models, and the real one.

use std::io::Write as _;
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};

use duan::hub::{DEFAULT_MODEL, ErrorKind, Hub, HubOptions, ModelName};
use duan::model::gguf::write::GgufWriter;
use duan::model::gguf::{GgufFile, Value};
use tempfile::TempDir;

/// A folder with an empty cache, and the program that lives in it.
pub(crate) struct Home {
    folder: TempDir,
}

/// What one run of the program left.
#[derive(Debug)]
pub(crate) struct Ran {
    pub(crate) code: Option<i32>,
    pub(crate) stdout: String,
    pub(crate) stderr: String,
}

impl Home {
    pub(crate) fn new() -> Home {
        Home { folder: tempfile::tempdir().expect("a temporary folder") }
    }

    pub(crate) fn path(&self) -> &Path {
        self.folder.path()
    }

    /// What is in the folder, in the order of names.
    pub(crate) fn names(&self) -> Vec<String> {
        let entries = std::fs::read_dir(self.path()).expect("the folder is read");
        let mut names: Vec<String> =
            entries.map(|entry| entry.expect("an entry").file_name().to_string_lossy().into_owned()).collect();
        names.sort();
        names
    }

    /// The program, with nothing of the caller's environment that could change what it says, and without network.
    pub(crate) fn command(&self, arguments: &[&str]) -> Command {
        let mut command = Command::new(env!("CARGO_BIN_EXE_duan"));
        for (name, _) in std::env::vars_os() {
            let is_ours = name.to_str().is_some_and(|name| {
                ["DUAN_", "XDG_", "RUST_", "CLICOLOR", "HF_", "HUGGING", "TRANSFORMERS_", "MODELSCOPE_"]
                    .iter()
                    .any(|prefix| name.starts_with(prefix))
                    || matches!(name, "NO_COLOR" | "PIP_INDEX_URL" | "COLUMNS")
            });
            if is_ours {
                command.env_remove(name);
            }
        }
        command.env("HOME", self.path()).env("DUAN_CACHE", self.path().join("cache")).env("DUAN_OFFLINE", "1");
        command.current_dir(self.path()).args(arguments).stdin(Stdio::null());
        command
    }

    pub(crate) fn run(&self, arguments: &[&str]) -> Ran {
        ran(self.command(arguments).output().expect("the program starts"))
    }

    /// The same with `input` on stdin.
    pub(crate) fn run_with_input(&self, arguments: &[&str], input: &[u8]) -> Ran {
        let mut command = self.command(arguments);
        command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
        let mut child = command.spawn().expect("the program starts");
        // A program that refuses its arguments does not read to the end.
        let _ = child.stdin.take().expect("stdin is piped").write_all(input);
        ran(child.wait_with_output().expect("the program ends"))
    }

    /// Writes a file into the folder and gives its name, which is how the program is told of it.
    pub(crate) fn file(&self, name: &'static str, bytes: &[u8]) -> &'static str {
        std::fs::write(self.path().join(name), bytes).expect("the file is written");
        name
    }

    /// A tiny random model without a template, by the name of its fixture.
    pub(crate) fn fixture(&self, fixture: &str) -> &'static str {
        let bytes = std::fs::read(fixture_path(fixture)).expect("the fixture is there");
        self.file("tiny.gguf", &bytes)
    }

    /// The same with a template and a context of 64 tokens. It talks nonsense.
    pub(crate) fn chat_fixture(&self, fixture: &str, template: &str) -> &'static str {
        self.changed_fixture("chat.gguf", fixture, &[("tokenizer.chat_template", template.into())], |_| Some(0))
    }

    /// A tiny model with other keys. `change` gives the type that a tensor gets: 0 for its own, `None` where it is left out.
    pub(crate) fn changed_fixture(
        &self,
        name: &'static str,
        fixture: &str,
        keys: &[(&str, Value)],
        change: impl Fn(&str) -> Option<u32>,
    ) -> &'static str {
        let file = GgufFile::open(&fixture_path(fixture)).expect("the fixture is read");
        let mut writer = GgufWriter::new(name);
        for (key, value) in file.metadata().iter().filter(|(key, _)| !keys.iter().any(|other| other.0 == *key)) {
            writer.key(key, value.clone()).expect("the key is written");
        }
        for (key, value) in keys {
            writer.key(key, value.clone()).expect("the key is written");
        }
        for tensor in file.tensors() {
            let Some(type_id) = change(&tensor.name) else { continue };
            let type_id = if type_id == 0 { tensor.type_id } else { type_id };
            let bytes = file.tensor_data(tensor).expect("the tensor is read").to_vec();
            writer.tensor(&tensor.name, &tensor.dims, type_id, bytes).expect("the tensor is written");
        }
        self.file(name, &writer.to_bytes())
    }
}

pub(crate) fn ran(output: Output) -> Ran {
    let text = |bytes: Vec<u8>| String::from_utf8(bytes).expect("the program writes UTF-8");
    Ran { code: output.status.code(), stdout: text(output.stdout), stderr: text(output.stderr) }
}

impl Ran {
    /// Asserts that it is done, and gives stdout.
    #[track_caller]
    pub(crate) fn done(&self) -> &str {
        assert_eq!(self.code, Some(0), "{self:?}");
        &self.stdout
    }

    /// Asserts that it is done, and gives stdout as JSON.
    #[track_caller]
    pub(crate) fn json(&self) -> serde_json::Value {
        serde_json::from_str(self.done()).expect("stdout is one JSON document")
    }

    /// Asserts that it failed with one line on stderr and nothing on stdout, and gives the line.
    #[track_caller]
    pub(crate) fn failed(&self) -> &str {
        assert_eq!(self.code, Some(1), "{self:?}");
        assert_eq!(self.stdout, "", "{self:?}");
        assert_eq!(self.stderr.lines().count(), 1, "{self:?}");
        let line = self.stderr.trim_end();
        assert!(line.starts_with("duan: error: "), "{self:?}");
        line
    }

    /// Asserts that the command line was refused, and gives what was said.
    #[track_caller]
    pub(crate) fn refused(&self) -> &str {
        assert_eq!(self.code, Some(2), "{self:?}");
        assert_eq!(self.stdout, "", "{self:?}");
        &self.stderr
    }
}

pub(crate) fn fixture_path(fixture: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../backend/tests/fixtures").join(fixture).join("model.gguf")
}

/// The default model, from the ordinary cache or fetched into it. Without a network there is none, and the test that asks
/// is skipped, saying so; with `DUAN_REQUIRE_MODEL=1` it fails instead.
pub(crate) fn real_model() -> Option<PathBuf> {
    let hub = Hub::new(HubOptions { retries: 1, ..HubOptions::default() }).expect("there is a cache");
    let name = ModelName::parse(DEFAULT_MODEL).expect("the default model has a name");
    match hub.resolve(&name, &mut |_| {}) {
        Ok(file) => Some(file.path),
        Err(error) if is_for_want_of_a_network(error.kind()) => {
            let required = std::env::var("DUAN_REQUIRE_MODEL").is_ok_and(|value| !matches!(&*value, "" | "0"));
            assert!(!required, "DUAN_REQUIRE_MODEL is set, and the model is not here: {error}");
            // Not captured by the harness, so that a skip is seen.
            let _ = writeln!(std::io::stderr(), "skipped, as {DEFAULT_MODEL} is not here: {error}");
            None
        }
        Err(error) => panic!("{error}"),
    }
}

/// Whether a model is missing because no network could be reached. What a server says of the model itself (that it does not
/// exist, is another one, or is not for us) is a failure: a model that was withdrawn must not be skipped in silence.
fn is_for_want_of_a_network(kind: ErrorKind) -> bool {
    matches!(kind, ErrorKind::Offline | ErrorKind::Network | ErrorKind::Timeout | ErrorKind::Server)
}

#[test]
fn only_a_missing_network_skips_tests() {
    for kind in [ErrorKind::Offline, ErrorKind::Network, ErrorKind::Timeout, ErrorKind::Server] {
        assert!(is_for_want_of_a_network(kind), "{kind:?}");
    }
    for kind in
        [ErrorKind::NotFound, ErrorKind::Denied, ErrorKind::WrongHash, ErrorKind::WebPage, ErrorKind::UnknownName]
    {
        assert!(!is_for_want_of_a_network(kind), "{kind:?}");
    }
}
