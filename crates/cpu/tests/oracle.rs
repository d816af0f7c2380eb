//! The CPU against Hugging Face `transformers`, with floats in the KV cache.

#[path = "../../backend/tests/common/mod.rs"]
#[allow(unreachable_pub, reason = "shared with the tests of the reference")]
mod common;

use std::path::Path;

use common::{Fixture, Prompt};
use duan_backend::{KvFormat, Precision, Reference};
use duan_cpu::{Cpu, CpuOptions};
use duan_model::Model;
use duan_model::checkpoint::Checkpoint;

#[test]
fn the_cpu_agrees_with_transformers_whatever_its_instruction_set() {
    // Of the first instruction set, for each prompt; the others give the same bits.
    let mut first: Vec<Vec<f32>> = Vec::new();
    for isa in Cpu::isas_available() {
        let cpu =
            Cpu::new(CpuOptions { threads_decode: Some(2), isa: Some(isa.into()), ..Default::default() }).unwrap();
        let mut earlier = std::mem::take(&mut first).into_iter();
        for fixture in common::fixtures() {
            for prompt in &fixture.prompts {
                let count = prompt.tokens.len();
                let logits = common::logits(&cpu, &fixture.model, prompt, count, 64, KvFormat::F32);
                if let Some(earlier) = earlier.next() {
                    assert!(logits == earlier, "{isa} {}: other bits than the instruction set before", fixture.name);
                }
                let error = common::error(prompt, &logits);
                println!("{isa} {}: {} tokens, error {error:.1e}", fixture.name, prompt.tokens.len());
                assert!(error <= 1e-4, "{isa} {}: error {error:e}", fixture.name);
                first.push(logits);
            }
        }
    }
}

/// Rows that are made while they are laid out are those of the file, as are rows that are quantized on the way.
#[test]
fn folders_give_the_bits_of_files() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).parent().unwrap().join("backend/tests/fixtures");
    let cpu = Cpu::new(CpuOptions { threads_decode: Some(2), ..Default::default() }).unwrap();
    let mut count = 0;
    for fixture in common::fixtures() {
        let place = root.join(&fixture.name);
        if !place.join("folder").exists() {
            continue;
        }
        count += 1;
        let open = |path: &str| Checkpoint::open(&place.join(path)).unwrap();
        let (file, folder) = (open("model.gguf"), open("folder"));
        let prompt = &fixture.prompts[0];
        for format in [None, duan_quant::format_by_name("Q8_0")] {
            let [expected, found] = [&file, &folder].map(|checkpoint| {
                let checkpoint = format.map_or_else(|| checkpoint.clone(), |f| checkpoint.in_format(f).unwrap());
                let model = Model::from_checkpoint(&checkpoint).unwrap();
                common::logits(&cpu, &model, prompt, prompt.tokens.len().min(24), 16, KvFormat::F16)
            });
            assert!(expected == found, "{} {format:?}", fixture.name);
        }
    }
    assert!(count >= 20, "the folders are missing");
}

#[test]
fn neither_cut_nor_threads_matter() {
    let isas = Cpu::isas_available();
    for isa in [isas[0], isas[isas.len() - 1]] {
        let with = |model: &Model, prompt: &Prompt, count: usize, threads: usize, piece: usize| {
            let options = CpuOptions { threads_decode: Some(threads), isa: Some(isa.into()), ..Default::default() };
            common::logits(&Cpu::new(options).unwrap(), model, prompt, count, piece, KvFormat::F16)
        };
        for Fixture { name, model, prompts } in common::fixtures() {
            for prompt in &prompts {
                let count = prompt.tokens.len();
                let whole = with(&model, prompt, count, 1, 512);
                assert!(whole == with(&model, prompt, count, 2, 64), "{isa} {name}: two threads, pieces of 64");
                let same = |threads, piece| {
                    let cut = with(&model, prompt, count.min(40), threads, piece);
                    assert!(whole[..cut.len()] == cut, "{isa} {name}: {threads} threads, pieces of {piece}");
                };
                same(1, 1);
                same(3, 7);
            }
        }
    }
}

/// Codes, scales, zero points and orders of columns of folders that are quantized already come through the panels: the rest is what a
/// code of an input that falls on the other side of a half makes.
#[test]
fn quantized_folders_are_what_they_are_to_the_reference() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).parent().unwrap().join("backend/tests/fixtures/quantized");
    let cpu = Cpu::new(CpuOptions { threads_decode: Some(2), ..Default::default() }).unwrap();
    let tokens: Vec<u32> = (0..24).map(|at| at * 7 % 64).collect();
    let prompt = |logits| Prompt { tokens: tokens.clone(), context: 24, positions: (0..24).collect(), logits };
    let mut count = 0;
    for folder in std::fs::read_dir(root).unwrap() {
        let folder = folder.unwrap().path();
        count += 1;
        let model = Model::from_checkpoint(&Checkpoint::open(&folder).unwrap()).unwrap();
        let reference = Reference::new(Precision::Coded);
        let expected = common::logits(&reference, &model, &prompt(Vec::new()), 24, 64, KvFormat::F32);
        let prompt = prompt(expected);
        let error = common::error(&prompt, &common::logits(&cpu, &model, &prompt, 24, 64, KvFormat::F32));
        println!("{}: error {error:.1e}", folder.display());
        assert!(error <= 1e-2, "{}: error {error:e}", folder.display());
    }
    assert_eq!(count, 16, "the folders are missing");
}
