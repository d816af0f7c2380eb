//! GGUF files of random weights with the true shapes of public models.
//!
//! Speed does not depend on the values of weights, so that a model can be timed without a download. Everything that
//! costs time is true: layers and widths, heads, windows, formats, the size of the vocabulary and of its list of merges. What
//! the model writes is nonsense. The same seed gives the same bytes.
//!
//! Start reading at [`write`]; `shapes.rs` is the table of models, `mix.rs` says which matrix gets which format,
//! `weights.rs` makes the bytes.

mod error;
mod mix;
mod needs;
mod shapes;
mod tensors;
mod vocabulary;
mod weights;

use std::io::Write;
use std::ops::ControlFlow;
use std::path::Path;

use duan_model::gguf::write::GgufWriter;
use serde::Serialize;

pub use error::Error;
pub use mix::{MIXES, Mix};
pub use needs::ShapeNeeds;
pub use shapes::{SHAPES, Shape};

use shapes::RopeScaling;
use tensors::{Content, tensors};
use weights::Weights;

/// What is to be written.
#[derive(Debug, Clone, Copy)]
pub struct SynthOptions {
    /// The model's shape.
    pub shape: &'static Shape,
    /// The formats of its matrices.
    pub mix: &'static Mix,
    /// The same seed gives the same bytes.
    pub seed: u64,
    /// Whether a file that is there is replaced.
    pub force: bool,
}

/// What was written.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Synthesized {
    /// The shape's name.
    pub shape: &'static str,
    /// The mix's name.
    pub format: &'static str,
    /// Length of the file.
    pub bytes: u64,
    /// How many tensors.
    pub tensors: usize,
    /// Weights in all tensors.
    pub parameters: u64,
    /// Tokens of the vocabulary.
    pub vocab_size: usize,
    /// The seed.
    pub seed: u64,
}

/// Writes the file `path`, streamed: little memory is used, whatever the model's size. `on_progress` is told of bytes done and
/// bytes in all; a break ends it, which gives `None`. The file appears whole or not at all.
///
/// # Errors
/// When a file is there already (but for `force`), the disk has too little room, or writing fails.
pub fn write(
    options: &SynthOptions,
    path: &Path,
    mut on_progress: impl FnMut(u64, u64) -> ControlFlow<()>,
) -> Result<Option<Synthesized>, Error> {
    let weights = Weights::new(options.seed);
    let (writer, mut summary) = plan(options, &weights)?;
    summary.bytes = writer.file_bytes();
    let mut on_bytes = |done| on_progress(done, summary.bytes);
    let is_done = duan_files::write_whole(path, summary.bytes, options.force, &mut on_bytes, |mut out| {
        writer.write(&mut out).map(|_| ())
    })?;
    Ok(is_done.then_some(summary))
}

/// The file as it will be, with its header's data; weights are made when it is written.
fn plan<'a>(options: &SynthOptions, weights: &'a Weights) -> Result<(GgufWriter<'a>, Synthesized), Error> {
    let SynthOptions { shape, mix, seed, .. } = *options;
    let mut writer = GgufWriter::new(shape.name);
    keys(shape, mix, &mut writer)?;
    vocabulary::write(&shape.vocabulary, &mut writer)?;
    let list = tensors(shape, mix);
    let (count, mut parameters) = (list.len(), 0);
    for (index, tensor) in list.into_iter().enumerate() {
        let numbers: u64 = tensor.dims.iter().product();
        parameters += numbers;
        let id = tensor.format.gguf_id.expect("the tables name formats of GGUF");
        match tensor.content {
            Content::Floats(values) => {
                let bytes: Vec<u8> = values.iter().flat_map(|value| value.to_le_bytes()).collect();
                writer.tensor(&tensor.name, &tensor.dims, id, bytes)?;
            }
            Content::Random => {
                let write = move |out: &mut dyn Write| weights.write(tensor.format, numbers, index as u64, out);
                writer.tensor_with(&tensor.name, &tensor.dims, id, write)?;
            }
        }
    }
    let vocab_size = shape.vocabulary.tokens;
    let (shape, format) = (shape.name, mix.name);
    Ok((writer, Synthesized { shape, format, bytes: 0, tensors: count, parameters, vocab_size, seed }))
}

/// The keys of the model, as the family's files have them.
fn keys(shape: &Shape, mix: &Mix, writer: &mut GgufWriter<'_>) -> Result<(), Error> {
    writer.key("general.architecture", shape.family)?;
    writer.key("general.name", format!("synthetic {}", shape.name))?;
    writer.key("general.file_type", mix.file_type)?.key("general.quantization_version", 2u32)?;
    let own = |name: &str| format!("{}.{name}", shape.family);
    let counts = [
        ("block_count", shape.layers),
        ("context_length", shape.context_length),
        ("embedding_length", shape.hidden_size),
        ("feed_forward_length", shape.intermediate_size),
        ("attention.head_count", shape.heads),
        ("attention.head_count_kv", shape.kv_heads),
        ("attention.key_length", shape.head_dim),
        ("attention.value_length", shape.head_dim),
        ("rope.dimension_count", shape.rope_dims),
        ("vocab_size", shape.vocabulary.tokens),
    ];
    for (name, count) in counts {
        writer.key(&own(name), count as u32)?;
    }
    writer.key(&own("attention.layer_norm_rms_epsilon"), shape.epsilon)?;
    writer.key(&own("rope.freq_base"), shape.rope_base)?;
    if let Some(window) = shape.window {
        writer.key(&own("attention.sliding_window"), window as u32)?;
    }
    if let RopeScaling::LongRope { original_context, .. } = shape.rope_scaling {
        writer.key(&own("rope.scaling.original_context_length"), original_context as u32)?;
        // Sines and cosines grow with the logarithm of how much longer the context became (Ding et al. 2024).
        let longer = shape.context_length as f64 / original_context as f64;
        let factor = (1.0 + longer.ln() / (original_context as f64).ln()).sqrt();
        writer.key(&own("rope.scaling.attn_factor"), factor as f32)?;
    }
    Ok(())
}

#[cfg(test)]
mod tests;
