//! The reference interpreter against Hugging Face `transformers` (see `fixtures/README.md`).

#[allow(unreachable_pub, reason = "shared with the tests of devices")]
mod common;

use duan_backend::{KvFormat, Precision, Reference};

#[test]
fn the_reference_agrees_with_transformers() {
    for fixture in common::fixtures() {
        for prompt in &fixture.prompts {
            let reference = Reference::new(Precision::Exact);
            let logits = common::logits(&reference, &fixture.model, &prompt.tokens, 64, KvFormat::F32);
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
        let tokens = &fixture.prompts[0].tokens[..24.min(fixture.prompts[0].tokens.len())];
        let cut =
            |piece| common::logits(&Reference::new(Precision::Coded), &fixture.model, tokens, piece, KvFormat::F16);
        let whole = cut(64);
        assert!(whole == cut(1) && whole == cut(7), "{}", fixture.name);
    }
}
