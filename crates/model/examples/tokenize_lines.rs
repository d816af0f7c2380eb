//! Reads texts, one JSON string a line, and writes the ids of each, one JSON array a line: for comparing many texts with
//! other tokenizers, see `scripts/ids.py`.
//!
//! ```text
//! tokenize_lines VOCABULARY.gguf [--control] [--pre NAME]
//! ```
//!
//! `--control` reads texts as a template writes them: control tokens in them count. `--pre` puts another pre-tokenizer in
//! place of the file's. The first line of the output is an object: `bos`, the token that begins texts where one does, and
//! `control`, the ids of all control tokens.

use std::error::Error;
use std::io::{BufRead, BufWriter, Write};
use std::path::Path;

use duan_model::gguf::{GgufFile, Metadata};
use duan_model::template::{Part, Prompt};
use duan_model::tokenizer::Tokenizer;

const PRE: &str = "tokenizer.ggml.pre";

fn main() -> Result<(), Box<dyn Error>> {
    let mut arguments = std::env::args().skip(1);
    let path = arguments.next().ok_or("which vocabulary?")?;
    let (mut reads_control, mut pre) = (false, None);
    while let Some(argument) = arguments.next() {
        match argument.as_str() {
            "--control" => reads_control = true,
            "--pre" => pre = Some(arguments.next().ok_or("--pre needs a name")?),
            other => return Err(format!("unknown argument {other}").into()),
        }
    }
    let file = GgufFile::open(Path::new(&path))?;
    let tokenizer = match pre {
        Some(pre) => Tokenizer::from_gguf(&with_pre_tokenizer(file.metadata(), &pre)?)?,
        None => Tokenizer::from_gguf(file.metadata())?,
    };
    let mut out = BufWriter::new(std::io::stdout().lock());
    let control: Vec<u32> = (0..tokenizer.vocab_size() as u32).filter(|&id| tokenizer.is_control(id)).collect();
    let bos = tokenizer.bos().filter(|_| tokenizer.adds_bos());
    writeln!(out, "{}", serde_json::json!({ "bos": bos, "control": control }))?;
    for line in std::io::stdin().lock().lines() {
        let text: String = serde_json::from_str(&line?)?;
        let ids = if reads_control {
            tokenizer.encode_prompt(&Prompt { parts: vec![Part::Template(text)], ..Prompt::default() })
        } else {
            tokenizer.encode(&text)
        };
        serde_json::to_writer(&mut out, &ids)?;
        out.write_all(b"\n")?;
    }
    Ok(out.flush()?)
}

fn with_pre_tokenizer(metadata: &Metadata, pre: &str) -> Result<Metadata, Box<dyn Error>> {
    let mut changed = Metadata::new(metadata.file());
    for (key, value) in metadata.iter().filter(|(key, _)| *key != PRE) {
        changed.insert(key, value.clone())?;
    }
    changed.insert(PRE, pre)?;
    Ok(changed)
}
