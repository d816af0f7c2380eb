//! Made-up models for the tests of this crate.

use duan_model::gguf::GgufFile;
use duan_model::gguf::write::GgufWriter;

/// A tensor of a made-up model: name, dims, GGUF type, bytes.
pub(crate) type Made = (String, Vec<u64>, u32, Vec<u8>);

/// Values that look like weights: around zero, a few of them large. The same seed gives the same.
pub(crate) fn values(count: usize, seed: u64) -> Vec<f32> {
    let mut state = seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1;
    let mut uniform = || {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        (state >> 40) as f32 / (1 << 24) as f32 - 0.5
    };
    (0..count).map(|_| (uniform() + uniform() + uniform()) * 0.05).collect()
}

/// A tensor of F32 values.
pub(crate) fn floats(name: &str, dims: &[u64], values: &[f32]) -> Made {
    (name.to_owned(), dims.to_vec(), 0, values.iter().flat_map(|value| value.to_le_bytes()).collect())
}

/// A tensor of random values in the format of this name.
pub(crate) fn random(name: &str, dims: &[u64], format: &str) -> Made {
    let format = duan_quant::format_by_name(format).unwrap();
    let count: u64 = dims.iter().product();
    let values = values(count as usize, count + name.len() as u64);
    let mut bytes = vec![0; format.row_bytes(values.len()).unwrap()];
    format.encode(&values, &mut bytes).unwrap();
    (name.to_owned(), dims.to_vec(), format.gguf_id.unwrap(), bytes)
}

/// The file as bytes.
pub(crate) fn file(tensors: &[Made]) -> Vec<u8> {
    let mut writer = GgufWriter::new("made");
    writer.key("general.architecture", "llama").unwrap().key("general.file_type", 1u32).unwrap();
    writer.key("split.no", 0u16).unwrap().key("split.count", 1u16).unwrap();
    writer.key("split.tensors.count", tensors.len() as i32).unwrap().key("llama.block_count", 2u32).unwrap();
    writer.key("llama.attention.head_count", 4u32).unwrap().key("llama.attention.head_count_kv", 1u32).unwrap();
    for (name, dims, type_id, bytes) in tensors {
        writer.tensor(name, dims, *type_id, bytes.clone()).unwrap();
    }
    writer.to_bytes()
}

/// The same, opened.
pub(crate) fn model(tensors: &[Made]) -> GgufFile {
    GgufFile::from_bytes(file(tensors), "made.gguf").unwrap()
}
