//! Prefill and decode rates of the CPU backend, in llama-bench's meaning: tokens in batches, then tokens one
//! by one, without tokenizer and sampling.
//!
//! `cargo run --release -p duan-cpu --example speed -- MODEL.gguf [PREFILL] [DECODE] [ROUNDS] [THREADS] [DEPTH]`

use std::path::Path;
use std::time::Instant;

use duan_backend::{Backend, CompileJob, Compiled, KvFormat, Limits, PAGE_TOKENS, Packing, Pass, Span};
use duan_cpu::{Cpu, CpuOptions};
use duan_model::Model;
use duan_model::gguf::GgufFile;

const MAX_ROWS: usize = 256;

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let mut arguments = std::env::args().skip(1);
    let path = arguments.next().ok_or("usage: speed MODEL.gguf [PREFILL] [DECODE] [ROUNDS] [THREADS]")?;
    let mut number = |otherwise: usize| arguments.next().map_or(Ok(otherwise), |text| text.parse());
    let (prefill, decode, rounds, threads) = (number(512)?, number(128)?, number(5)?, number(2)?);
    let depth = number(0)?;

    let model = Model::from_gguf(&GgufFile::open(Path::new(&path))?)?;
    let isa = std::env::var("DUAN_ISA").ok();
    let cpu = Cpu::new(CpuOptions { threads_decode: Some(threads), isa, ..CpuOptions::default() })?;
    let pages: Vec<u32> = (0..(depth + prefill.max(decode)).div_ceil(PAGE_TOKENS) as u32).collect();
    let limits = Limits {
        max_rows: MAX_ROWS,
        max_wanted_rows: 1,
        pages: pages.len(),
        context: pages.len() * PAGE_TOKENS,
        kv_format: KvFormat::F16,
    };
    let all = 0..model.graph.nodes.len();
    let mut compiled = cpu.compile(&CompileJob {
        model: &model,
        ops: std::slice::from_ref(&all),
        limits,
        packing: Packing::InMemory,
    })?;
    println!("{}", cpu.description());

    run(&mut *compiled, &model, &pages, 0, 16, 16)?;
    run(&mut *compiled, &model, &pages, 0, 4, 1)?;
    if depth > 0 {
        println!("depth: {:.1} tokens/s", run(&mut *compiled, &model, &pages, 0, depth, MAX_ROWS)?);
    }
    let (mut prefills, mut decodes) = (Vec::new(), Vec::new());
    for _ in 0..rounds {
        prefills.push(run(&mut *compiled, &model, &pages, depth, prefill, MAX_ROWS)?);
        decodes.push(run(&mut *compiled, &model, &pages, depth, decode, 1)?);
    }
    for (name, mut rates) in [(format!("pp{prefill}"), prefills), (format!("tg{decode}"), decodes)] {
        rates.sort_by(f64::total_cmp);
        println!("{name}: median {:.1} tokens/s, {:.1} to {:.1}", rates[rounds / 2], rates[0], rates[rounds - 1]);
    }
    Ok(())
}

/// Tokens per second over `count` tokens in passes of at most `piece`.
fn run(
    compiled: &mut dyn Compiled,
    model: &Model,
    pages: &[u32],
    depth: usize,
    count: usize,
    piece: usize,
) -> Result<f64, duan_backend::Error> {
    let tokens: Vec<u32> = (0..count).map(|index| (index * 7919 % model.config.vocab_size) as u32).collect();
    let start = Instant::now();
    for (index, tokens) in tokens.chunks(piece).enumerate() {
        let wanted = usize::from((index + 1) * piece >= count || piece == 1);
        let spans = [Span { sequence: 0, start: depth + index * piece, count: tokens.len(), wanted, pages }];
        compiled.submit(&Pass { tokens, spans: &spans }, 0..model.graph.nodes.len())?;
        compiled.wait()?;
    }
    Ok(count as f64 / start.elapsed().as_secs_f64())
}
