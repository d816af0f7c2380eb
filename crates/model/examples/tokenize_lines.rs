//! Reads texts, one JSON string a line, and writes the ids of each, one JSON array a line: for comparing many texts with
//! other tokenizers, see `scripts/ids.py`.
//!
//! ```text
//! tokenize_lines VOCABULARY [--control] [--pre NAME]
//! tokenize_lines VOCABULARY --keys
//! ```
//!
//! `VOCABULARY` is a GGUF file, or a folder with a `tokenizer.json`. `--keys` writes its metadata about the tokenizer and the
//! template, one `[key, value]` a line, and what is odd about it as the value of `notes`.
//!
//! `--control` reads texts as a template writes them: control tokens in them count. `--pre` puts another pre-tokenizer in
//! place of the file's. The first line of the output is an object: `bos`, the token that begins texts where one does, and
//! `control`, the ids of all control tokens.

use std::error::Error;
use std::io::{BufRead, BufWriter, Write};
use std::path::Path;

use duan_model::gguf::{Array, GgufFile, Metadata, Value};
use duan_model::hugging_face::tokenizer::{Files, translate};
use duan_model::template::{Part, Prompt};
use duan_model::tokenizer::Tokenizer;

const PRE: &str = "tokenizer.ggml.pre";

fn main() -> Result<(), Box<dyn Error>> {
    let mut arguments = std::env::args().skip(1);
    let path = arguments.next().ok_or("which vocabulary?")?;
    let (mut reads_control, mut pre, mut writes_keys) = (false, None, false);
    while let Some(argument) = arguments.next() {
        match argument.as_str() {
            "--control" => reads_control = true,
            "--keys" => writes_keys = true,
            "--pre" => pre = Some(arguments.next().ok_or("--pre needs a name")?),
            other => return Err(format!("unknown argument {other}").into()),
        }
    }
    let (mut metadata, notes) = read(Path::new(&path))?;
    if writes_keys {
        return write_keys(&metadata, &notes);
    }
    if let Some(pre) = pre {
        metadata = with_pre_tokenizer(&metadata, &pre)?;
    }
    let tokenizer = Tokenizer::from_gguf(&metadata)?;
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

/// Metadata of a file, or of a folder, and what is odd about that.
fn read(path: &Path) -> Result<(Metadata, Vec<String>), Box<dyn Error>> {
    if path.is_dir() {
        let translation = translate(&Files::read(path)?)?;
        return Ok((translation.metadata("folder")?, translation.notes));
    }
    Ok((GgufFile::open(path)?.metadata().clone(), Vec::new()))
}

fn write_keys(metadata: &Metadata, notes: &[String]) -> Result<(), Box<dyn Error>> {
    let mut out = BufWriter::new(std::io::stdout().lock());
    for (key, value) in metadata.iter().filter(|(key, _)| key.contains("token")) {
        serde_json::to_writer(&mut out, &(key, json(value)))?;
        out.write_all(b"\n")?;
    }
    serde_json::to_writer(&mut out, &("notes", notes))?;
    out.write_all(b"\n")?;
    Ok(out.flush()?)
}

fn json(value: &Value) -> serde_json::Value {
    match value {
        Value::String(text) => text.as_str().into(),
        Value::Bool(value) => (*value).into(),
        Value::F32(value) => (*value).into(),
        Value::Array(Array::String(strings)) => strings.iter().collect(),
        Value::Array(Array::F32(numbers)) => numbers.iter().copied().collect(),
        Value::Array(array) => {
            array.integers().map_or(serde_json::Value::Null, |numbers| numbers.map(|n| n as i64).collect())
        }
        other => other.as_integer().map_or(serde_json::Value::Null, |n| (n as i64).into()),
    }
}

fn with_pre_tokenizer(metadata: &Metadata, pre: &str) -> Result<Metadata, Box<dyn Error>> {
    let mut changed = Metadata::new(metadata.file());
    for (key, value) in metadata.iter().filter(|(key, _)| *key != PRE) {
        changed.insert(key, value.clone())?;
    }
    changed.insert(PRE, pre)?;
    Ok(changed)
}
