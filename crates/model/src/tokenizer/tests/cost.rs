//! Time is linear in the length of a text, whatever it is: steps are counted. The patterns that cut text are counted in
//! `split.rs`, the rest here.

use super::super::pre_tokenizers::PRE_TOKENIZERS;
use super::kinds::{rwkv, unigram};
use super::*;

const RUNS: [&str; 10] = ["A", " ", "\n", ".", "中", "a1", "\u{301}", "A ", "'s", "1"];

/// Steps for a run of about this many bytes.
fn steps(tokenizer: &Tokenizer, run: &str, bytes: usize) -> u64 {
    let text = run.repeat(bytes / run.len());
    let mut merger = Merger::default();
    let mut ids = Vec::new();
    tokenizer.append_text(&text, &mut merger, &mut ids);
    assert!(merger.steps <= 8 * text.len() as u64 + 8, "{run:?}: {} steps for {bytes} bytes", merger.steps);
    assert!(!ids.is_empty());
    merger.steps
}

fn takes_linear_steps(name: &str, tokenizer: &Tokenizer, bytes: usize) {
    for run in RUNS {
        let (once, twice) = (steps(tokenizer, run, bytes), steps(tokenizer, run, 2 * bytes));
        // Runs that merge into nothing take no steps, or a few at the border.
        assert!(twice * 10 <= once * 22 + 100, "{name}, {run:?}: {once} and {twice} steps");
    }
}

fn merging(pre: &str) -> Tokenizer {
    let merges = ["A A", "AA AA", "Ġ Ġ", "ĠĠ ĠĠ", ". .", "Ċ Ċ", "ĊĊ ĊĊ", "a 1", "a1 a1", "' s", "1 1", "Ġ A", "ĠA ĠA"];
    Recipe::byte_level(Some(pre), &merges).build()
}

#[test]
fn every_pre_tokenizer_takes_linear_steps() {
    for row in PRE_TOKENIZERS.iter().filter(|row| row.form == pre_tokenizers::Form::Bytes) {
        takes_linear_steps(row.names[0], &merging(row.names[0]), 50_000);
    }
}

fn characters(model: &str) -> Tokenizer {
    let mut recipe = Recipe::scores(&[]).set("model", model);
    for text in ["▁", "A", "\n", ".", "中", "▁▁", "AA", "\n\n", "..", "中中", "▁A", "▁▁▁▁", "AAAA"] {
        recipe = recipe.token(text, NORMAL);
    }
    recipe.merges = ["▁ ▁", "A A", "\n \n", ". .", "中 中", "▁ A", "▁▁ ▁▁", "AA AA"].map(str::to_owned).to_vec();
    recipe.build()
}

fn scores() -> Tokenizer {
    let tokens = [("▁", -1.0), ("A", -1.0), ("AA", -2.0), ("▁▁", -3.0), ("AAAA", -4.0), ("\n\n", -5.0), ("中中", -6.0)];
    Recipe::scores(&tokens).build()
}

/// All kinds but byte-level merges.
fn other_kinds() -> [(&'static str, Tokenizer); 5] {
    [
        ("gemma4", characters("gemma4")),
        ("whitespace", characters("whitespace")),
        ("llama", scores()),
        ("t5", unigram().set("remove_extra_whitespaces", false).build()),
        ("rwkv", rwkv()),
    ]
}

#[test]
fn every_kind_takes_linear_steps() {
    for (name, tokenizer) in other_kinds() {
        // A text of white space alone is nothing to the kind that drops it.
        let runs = RUNS.iter().filter(|run| name != "whitespace" || !run.trim().is_empty());
        for run in runs {
            let (once, twice) = (steps(&tokenizer, run, 50_000), steps(&tokenizer, run, 100_000));
            assert!(twice * 10 <= once * 22 + 100, "{name}, {run:?}: {once} and {twice} steps");
        }
    }
}

#[test]
#[ignore = "takes half a minute; run it with --release and --ignored"]
fn long_texts_take_linear_steps() {
    for name in ["gpt-2", "llama-bpe", "qwen2", "gpt-4o", "deepseek-llm", "jais-2"] {
        takes_linear_steps(name, &merging(name), 500_000);
    }
    for (name, tokenizer) in other_kinds().into_iter().filter(|kind| kind.0 != "whitespace") {
        takes_linear_steps(name, &tokenizer, 500_000);
    }
}

#[test]
fn long_texts_come_back() {
    for tokenizer in [merging("llama-bpe"), scores(), characters("gemma4"), rwkv()] {
        for run in RUNS {
            let text = run.repeat(100_000 / run.len());
            assert_eq!(tokenizer.decode(&tokenizer.encode(&text)), text, "{run:?}");
        }
    }
}
