//! What is said of files whose tensors do not fit: each fault has its own message, and nothing is read as what it is not.

use std::collections::BTreeSet;

use duan_model::Model;
use duan_model::gguf::GgufFile;
use duan_model::gguf::write::GgufWriter;
use duan_quant::{TypeStatus, format_by_name, gguf_type};

/// The width of everything, a whole block of every format.
const WIDTH: u64 = 256;

/// A llama of one layer. `change` may give a tensor another type or take it out; `extra` are the names of more tensors.
fn llama(change: impl Fn(&str) -> Option<u32>, extra: &[&str]) -> Vec<u8> {
    let mut writer = GgufWriter::new("m.gguf");
    writer.key("general.architecture", "llama").unwrap();
    let numbers = [
        ("embedding_length", WIDTH as u32),
        ("block_count", 1),
        ("context_length", 64),
        ("feed_forward_length", WIDTH as u32),
        ("attention.head_count", 4),
    ];
    for (key, number) in numbers {
        writer.key(&format!("llama.{key}"), number).unwrap();
    }
    writer.key("llama.attention.layer_norm_rms_epsilon", 1e-5f32).unwrap();
    let parts = ["attn_q", "attn_k", "attn_v", "attn_output", "ffn_gate", "ffn_up", "ffn_down"];
    let matrices = parts.iter().map(|part| format!("blk.0.{part}.weight")).chain(["token_embd.weight".into()]);
    for name in matrices.chain(extra.iter().map(|&name| name.to_owned())) {
        let Some(type_id) = change(&name) else { continue };
        // Types without a known size get some bytes, too few for F32.
        let bytes = gguf_type(type_id).block().map_or(64, |(weights, bytes)| WIDTH as usize / weights * bytes);
        writer.tensor(&name, &[WIDTH, WIDTH], type_id, vec![0u8; bytes * WIDTH as usize]).unwrap();
    }
    for name in ["output_norm.weight", "blk.0.attn_norm.weight", "blk.0.ffn_norm.weight"] {
        if change(name).is_none() {
            continue;
        }
        writer.tensor(name, &[WIDTH], 0, vec![0u8; 4 * WIDTH as usize]).unwrap();
    }
    writer.to_bytes()
}

fn open(bytes: Vec<u8>) -> GgufFile {
    GgufFile::from_bytes(bytes, "m.gguf").unwrap()
}

fn refused(bytes: Vec<u8>) -> String {
    let message = Model::from_gguf(&open(bytes)).unwrap_err().to_string();
    assert!(message.starts_with("m.gguf: ") && !message.contains('\n'), "{message}");
    message
}

/// Gives `blk.0.ffn_up.weight` a type, all other matrices F32.
fn up_as(type_id: u32) -> impl Fn(&str) -> Option<u32> {
    move |name| Some(if name == "blk.0.ffn_up.weight" { type_id } else { 0 })
}

#[test]
fn a_type_is_read_as_what_it_is_or_refused_by_its_name() {
    for type_id in (0..=45).chain([200, u32::MAX]) {
        let bytes = llama(up_as(type_id), &[]);
        let expected = match gguf_type(type_id) {
            TypeStatus::Supported(format) => {
                let model = Model::from_gguf(&open(bytes)).unwrap();
                let up = model.weights.matrices().iter().find(|matrix| matrix.name() == "blk.0.ffn_up.weight").unwrap();
                assert_eq!((up.format(), up.bytes()), (format, 256 * format.row_bytes(256).unwrap()));
                continue;
            }
            TypeStatus::Unsupported { name, .. } => format!("{name} (1 tensor, for example `blk.0.ffn_up.weight`)"),
            TypeStatus::Removed { name } => {
                format!("{name} (removed from GGUF, 1 tensor, for example `blk.0.ffn_up.weight`)")
            }
            TypeStatus::Unknown => format!("type {type_id} (unknown, 1 tensor, for example `blk.0.ffn_up.weight`)"),
        };
        let message = refused(bytes);
        assert!(message.contains(&format!("duan cannot read some of its tensors: {expected}; get the")), "{message}");
    }
}

#[test]
fn all_types_that_cannot_be_read_are_listed_at_once() {
    let message = refused(llama(
        |name| match name {
            "blk.0.ffn_up.weight" | "blk.0.ffn_gate.weight" => Some(24),
            "token_embd.weight" => Some(31),
            "blk.0.attn_q.weight" => Some(200),
            _ => Some(0),
        },
        &[],
    ));
    let list = "I8 (2 tensors, for example `blk.0.ffn_gate.weight`), \
                Q4_0_4_4 (removed from GGUF, 1 tensor, for example `token_embd.weight`), \
                type 200 (unknown, 1 tensor, for example `blk.0.attn_q.weight`)";
    assert!(message.contains(list), "{message}");
}

#[test]
fn each_fault_has_its_own_message() {
    let mut messages = BTreeSet::new();
    messages.insert(refused(llama(up_as(200), &[])));

    let missing = refused(llama(|name| (name != "blk.0.ffn_up.weight").then_some(0), &[]));
    assert_eq!(
        missing,
        "m.gguf: tensor `blk.0.ffn_up.weight`: expected it, which this architecture needs, found no such tensor; the file is \
         incomplete; fetch or convert it again"
    );
    messages.insert(missing);

    let none = refused(llama(|_| None, &[]));
    assert!(none.contains("a vocabulary and no tensors"), "{none}");
    messages.insert(none);

    let whole = llama(up_as(0), &[]);
    let cut = whole[..whole.len() - 4096].to_vec();
    let cut = GgufFile::from_bytes(cut, "m.gguf").unwrap_err().to_string();
    assert!(cut.contains("tensor `") && cut.contains("the file is cut short, fetch it again"), "{cut}");
    messages.insert(cut);

    let factors = refused(llama(up_as(0), &["blk.0.ffn_up.scale", "blk.0.ffn_up.input_scale", "output.scale"]));
    assert_eq!(
        factors,
        "m.gguf: duan cannot apply a factor to a whole matrix: the file has one for 1 matrix (`blk.0.ffn_up.scale`); get the \
         model in another format, or quantized without such factors"
    );
    messages.insert(factors);

    // Too much is no fault: the model runs, and says what it left out.
    let model = Model::from_gguf(&open(llama(up_as(0), &["blk.0.attn_rel_b.weight", "nextn.weight"]))).unwrap();
    assert_eq!(model.unused_tensors, ["blk.0.attn_rel_b.weight", "nextn.weight"]);
    let model = Model::from_gguf(&open(whole)).unwrap();
    assert_eq!(model.unused_tensors, Vec::<String>::new());

    assert_eq!(messages.len(), 5, "{messages:#?}");
}

#[test]
fn rows_that_are_no_whole_blocks_are_refused_with_the_block() {
    let type_id = format_by_name("IQ4_XS").unwrap().gguf_id.unwrap();
    let mut writer = GgufWriter::new("m.gguf");
    let message = writer.tensor("t", &[576, 2], type_id, vec![0u8; 4]).unwrap_err().to_string();
    assert!(message.contains("whole blocks of 256 weights, as IQ4_XS has them, found dims [576, 2]"), "{message}");
}

#[test]
fn formats_that_gguf_does_not_know_are_refused_by_name() {
    let id = |name: &str| {
        let format = format_by_name(name).unwrap();
        duan_model::gguf::write::type_id("m.gguf", "t", format).map_err(|error| error.to_string())
    };
    assert_eq!(id("q4_0"), Ok(2));
    assert_eq!(
        id("int4-g64").unwrap_err(),
        "m.gguf: tensor `t`: expected a format of GGUF, found int4-g64, which GGUF files cannot hold; choose another one, such as \
         Q4_0 or Q4_K"
    );
}
