//! Files of every shape and mix are read back as what they were to be.

use std::collections::BTreeMap;

use duan_model::Model;
use duan_model::gguf::GgufFile;
use sha2::{Digest, Sha256};

use super::shapes::{TokenizerKind, VocabularyShape};
use super::*;

const GO_ON: fn(u64, u64) -> ControlFlow<()> = |_, _| ControlFlow::Continue(());

/// The widths of a layer that is quick to write.
static TINY: Shape = Shape {
    name: "tiny",
    layers: 2,
    hidden_size: 256,
    intermediate_size: 512,
    heads: 4,
    kv_heads: 2,
    head_dim: 64,
    rope_dims: 64,
    context_length: 512,
    rope_scaling: RopeScaling::None,
    vocabulary: VocabularyShape {
        kind: TokenizerKind::Merges { pre: "llama-bpe", merges: 60 },
        tokens: 300,
        reserved: 10,
        bos: "<s>",
        eos: "</s>",
        adds_bos: true,
    },
    ..SHAPES[0]
};

fn options(shape: &'static Shape, mix: &str) -> SynthOptions {
    SynthOptions { shape, mix: Mix::by_name(mix).unwrap(), seed: 0, force: false }
}

/// What would be written, without writing it.
fn planned(shape: &'static Shape, mix: &str) -> (Synthesized, u64) {
    let weights = Weights::new(0);
    let (writer, summary) = plan(&options(shape, mix), &weights).unwrap();
    (summary, writer.file_bytes())
}

fn megabytes(shape: &str, mix: &str) -> u64 {
    (planned(Shape::by_name(shape).unwrap(), mix).1 + 500_000) / 1_000_000
}

#[test]
fn sizes_are_those_that_are_compared() {
    assert_eq!(megabytes("llama-3.2-1b", "q4_0"), 771);
    assert_eq!(megabytes("llama-3.2-1b", "q4_k_m"), 808);
    assert_eq!(megabytes("llama-3.2-1b", "q8_0"), 1321);
}

#[test]
fn parameters_are_those_of_the_public_models() {
    let counts: Vec<(&str, u64)> =
        SHAPES.iter().map(|shape| (shape.name, planned(shape, "f16").0.parameters)).collect();
    // As published with the models; Llama 3.2 and Phi 4 mini have their divisors of frequencies beside them (32, 64, 96).
    let expected = [
        ("llama-3.2-1b", 1_235_814_400 + 32),
        ("llama-3.2-3b", 3_212_749_824 + 64),
        ("qwen2.5-0.5b", 494_032_768),
        ("qwen2.5-1.5b", 1_543_714_304),
        ("qwen2.5-7b", 7_615_616_512),
        ("llama-2-7b", 6_738_415_616),
        ("gemma-3-1b", 999_885_952),
        ("qwen3-4b", 4_022_468_096),
        ("phi-4-mini", 3_836_021_760 + 96),
    ];
    assert_eq!(counts, expected);
}

#[test]
fn needs_are_those_of_the_file() {
    let needs = |shape: &str| Shape::by_name(shape).unwrap().needs(Mix::by_name("q4_0").unwrap());
    let one = needs("llama-3.2-1b");
    assert_eq!(one.parameters, 1_235_814_400 + 32);
    // Of 16 layers 8 heads of 64, keys and values, two bytes each.
    assert_eq!(one.kv_bytes_per_token, 16 * 8 * 64 * 2 * 2);
    assert_eq!((one.weights_bytes + 500_000) / 1_000_000, 763, "the file without its vocabulary");
    assert_eq!(one.read_bytes, one.weights_bytes, "the table is the head, and is read whole");
    let seven = needs("qwen2.5-7b");
    let table = 152_064 * 3584 / 256 * 210;
    assert_eq!(seven.weights_bytes - seven.read_bytes, table, "of a table that is only looked up, next to nothing");
}

#[test]
fn every_mix_runs_through_the_reader() {
    for mix in MIXES {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("tiny.gguf");
        let written = write(&options(&TINY, mix.name), &path, GO_ON).unwrap().unwrap();
        assert_eq!(written.bytes, path.metadata().unwrap().len(), "{}", mix.name);
        let file = GgufFile::open(&path).unwrap();
        let model = Model::from_gguf(&file).unwrap();
        assert_eq!(model.unused_tensors, [""; 0], "{}", mix.name);
        assert_eq!(model.config.vocab_size, 300);
        assert_eq!(written.tensors, file.tensors().len());
    }
}

/// The configurations as the reader of each family understands them, on two layers of the true widths.
#[test]
fn families_read_their_shapes() {
    let mut found = BTreeMap::new();
    for shape in SHAPES {
        let small: &'static Shape = Box::leak(Box::new(Shape { layers: 7, ..small_vocabulary(shape) }));
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("m.gguf");
        write(&options(small, "q2_k"), &path, GO_ON).unwrap().unwrap();
        let model = Model::from_gguf(&GgufFile::open(&path).unwrap()).unwrap();
        assert_eq!(model.unused_tensors, [""; 0], "{}", shape.name);
        let config = &model.config;
        let attention = config.layers[0].attention().unwrap();
        let windows = config.layers.iter().filter(|layer| layer.attention().unwrap().window.is_some()).count();
        let rope = &config.ropes[attention.rope.unwrap()];
        let line = format!(
            "{} {}x{} heads {}/{}x{} mlp {} rope {} base {} {:?} windows {windows} tied {} bias {} qk {:?} after {} fused {}",
            config.family,
            config.layers.len(),
            config.hidden_size,
            attention.heads,
            attention.kv_heads,
            attention.key_dim,
            config.layers[0].mlp.intermediate_size(),
            rope.dims,
            rope.base,
            rope.scaling,
            config.tied_head,
            attention.qkv_bias,
            attention.qk_norm,
            config.layers[0].norm_after,
            attention.fused_qkv,
        );
        found.insert(shape.name, line);
    }
    insta::assert_snapshot!(found.iter().map(|(name, line)| format!("{name}: {line}\n")).collect::<String>());
}

fn small_vocabulary(shape: &Shape) -> Shape {
    let kind = match shape.vocabulary.kind {
        TokenizerKind::Merges { pre, .. } => TokenizerKind::Merges { pre, merges: 10 },
        TokenizerKind::Scores => TokenizerKind::Scores,
    };
    let reserved = shape.vocabulary.reserved.min(4);
    Shape { vocabulary: VocabularyShape { kind, tokens: 320, reserved, ..shape.vocabulary }, ..*shape }
}

#[test]
fn the_same_seed_gives_the_same_bytes() {
    let folder = tempfile::tempdir().unwrap();
    let hash = |seed: u64, mix: &str| {
        let path = folder.path().join("tiny.gguf");
        write(&SynthOptions { seed, force: true, ..options(&TINY, mix) }, &path, GO_ON).unwrap().unwrap();
        let hash = Sha256::digest(std::fs::read(&path).unwrap());
        hash.iter().map(|byte| format!("{byte:02x}")).collect::<String>()
    };
    let once = hash(7, "q4_k_m");
    assert_eq!(once, hash(7, "q4_k_m"));
    assert_ne!(once, hash(8, "q4_k_m"));
    insta::assert_snapshot!(format!("q4_k_m {once}\nbf16 {}", hash(7, "bf16")));
}

#[test]
fn a_break_leaves_nothing() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("tiny.gguf");
    let result = write(&options(&TINY, "f32"), &path, |done, all| {
        assert!(done <= all);
        ControlFlow::Break(())
    });
    assert_eq!(result.unwrap(), None);
    assert_eq!(std::fs::read_dir(folder.path()).unwrap().count(), 0);
}
