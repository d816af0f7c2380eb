//! Between two tokens of an answer nothing is allocated, by no thread: everything was sized when the model was loaded.
//!
//! A program of its own, because it counts what all of it allocates.

use std::ops::ControlFlow;
use std::path::Path;

use duan::{CompleteOptions, Engine, EngineOptions, Event, SamplingOptions};

#[global_allocator]
static ALLOCATOR: dhat::Alloc = dhat::Alloc;

/// Tokens of an answer: more than a page of the KV cache holds.
const TOKENS: usize = 300;
/// Tokens after which nothing is new: the first pass of decode, and buffers that grow with the first texts.
const FIRST: usize = 4;

/// What the program had allocated in all, at each token of one answer.
fn blocks_at_tokens(model: &str, sampling: SamplingOptions) -> Vec<u64> {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../backend/tests/fixtures").join(model).join("model.gguf");
    let mut engine = Engine::new(EngineOptions { threads: Some(2), ..EngineOptions::default() }).unwrap();
    engine.load_model(path).unwrap();
    let options = CompleteOptions { max_tokens: Some(TOKENS), sampling, bos: None };
    let mut blocks = Vec::with_capacity(TOKENS);
    let on_event = |event: &Event<'_>| {
        if let Event::Token { .. } = event {
            blocks.push(dhat::HeapStats::get().total_blocks);
        }
        ControlFlow::Continue(())
    };
    engine.complete_with("the quick fox", &options, on_event).unwrap();
    blocks
}

#[test]
fn nothing_is_allocated_between_tokens() {
    let _profiler = dhat::Profiler::builder().testing().build();
    let warm = SamplingOptions { repetition_penalty: 1.1, seed: Some(1), ..SamplingOptions::default() };
    // Dense, with a window and norms of heads, with experts, with states beside the cache.
    for model in ["smollm2", "gemma3", "olmoe", "lfm2"] {
        for sampling in [SamplingOptions::greedy(), warm.clone()] {
            let blocks = blocks_at_tokens(model, sampling.clone());
            assert!(blocks.len() > 2 * FIRST, "{model}: an answer of {} tokens", blocks.len());
            let more: Vec<u64> = blocks[FIRST..].windows(2).map(|pair| pair[1] - pair[0]).collect();
            assert!(more.iter().all(|&more| more == 0), "{model}, {sampling:?}: {more:?}");
        }
    }
}
