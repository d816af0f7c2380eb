//! The reference interpreter against Hugging Face `transformers` (see `fixtures/README.md`).

#[allow(unreachable_pub, reason = "shared with the tests of devices")]
mod common;
#[path = "common/folders.rs"]
mod folders;
#[path = "common/quantized.rs"]
mod quantized;

use duan_backend::{KvFormat, Precision, Reference};

#[test]
fn the_reference_agrees_with_transformers() {
    for fixture in common::fixtures() {
        for prompt in &fixture.prompts {
            let reference = Reference::new(Precision::Exact);
            let count = prompt.tokens.len();
            let logits = common::logits(&reference, &fixture.model, prompt, count, 64, KvFormat::F32);
            let error = common::error(prompt, &logits);
            println!("{}: {} tokens, error {error:.1e}", fixture.name, prompt.tokens.len());
            assert!(error <= 1e-4, "{}: error {error:e}", fixture.name);
            assert_eq!(fixture.model.unused_tensors, Vec::<String>::new(), "{}", fixture.name);
        }
    }
}

#[test]
fn the_cut_of_a_prompt_does_not_matter() {
    for fixture in common::fixtures() {
        let reference = Reference::new(Precision::Coded);
        let prompt = &fixture.prompts[0];
        let count = prompt.tokens.len().min(24);
        let cut = |piece| common::logits(&reference, &fixture.model, prompt, count, piece, KvFormat::F16);
        let whole = cut(64);
        assert!(whole == cut(1) && whole == cut(7), "{}", fixture.name);
    }
}
