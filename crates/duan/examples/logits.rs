//! The logits behind every token of a text, for comparisons with other engines (`scripts/agreement.py`).
//!
//! `cargo run --release -p duan --example logits -- MODEL.gguf TOKENS.txt OUT.f32 [DEVICE] [f16|f32]`
//!
//! `TOKENS.txt` has one token id a line, read as one sequence from position 0; `OUT.f32` becomes f32 little-endian
//! [tokens, vocab_size]. `DEVICE` is `cpu` (default) or `reference`; the last argument is how the KV cache keeps numbers.

use std::fs::File;
use std::io::{BufWriter, Write as _};
use std::ops::ControlFlow;

use anyhow::{Context as _, bail};
use duan::{Engine, EngineOptions, KvFormat};

fn main() -> anyhow::Result<()> {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let [model, tokens, out, rest @ ..] = &arguments[..] else {
        bail!("usage: logits MODEL.gguf TOKENS.txt OUT.f32 [DEVICE] [f16|f32]");
    };
    let text = std::fs::read_to_string(tokens).with_context(|| format!("cannot read {tokens}"))?;
    let tokens: Vec<u32> = text.split_whitespace().map(str::parse).collect::<Result<_, _>>().context("token ids")?;
    let kv_format = match rest.get(1).map(String::as_str) {
        None | Some("f16") => KvFormat::F16,
        Some("f32") => KvFormat::F32,
        Some(other) => bail!("{other}: the KV cache keeps f16 or f32"),
    };
    let (device, isa) = (rest.first().cloned(), std::env::var("DUAN_ISA").ok());
    let context = Some(tokens.len());
    let mut engine = Engine::new(EngineOptions { device, isa, context, kv_format, ..EngineOptions::default() })?;
    engine.load_model(model)?;

    let mut file = BufWriter::new(File::create(out).with_context(|| format!("cannot write {out}"))?);
    let mut written = Ok(());
    engine.logits(&tokens, |_, row| {
        written = row.iter().try_for_each(|logit| file.write_all(&logit.to_le_bytes()));
        if written.is_ok() { ControlFlow::Continue(()) } else { ControlFlow::Break(()) }
    })?;
    written.and_then(|()| file.flush()).with_context(|| format!("cannot write {out}"))
}
