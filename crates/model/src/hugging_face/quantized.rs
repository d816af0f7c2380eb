//! Checkpoints whose matrices are quantized already: the one place where they will become tensors like any other.
//!
//! GPTQ, AWQ, compressed-tensors and MLX write a matrix as several tensors (codes, scales, zero points, orders of columns).
//! [`logical`] puts such together: what it returns are the tensors of the unquantized model, by the names that it has them
//! under, and everything after it (names, order of rows, stacking) is the same for all. This version reads unquantized ones only.

use super::config::Config;
use super::tensors::Logical;
use crate::error::{Error, Result, quoted};
use crate::safetensors::{Dtype, SafetensorsFile};

/// The tensors of the model as it was before it was quantized.
///
/// # Errors
/// When the checkpoint is quantized in a way that is not read here, or has numbers of a type that no weight has.
pub(super) fn logical(config: &Config, files: &[SafetensorsFile]) -> Result<Vec<Logical>> {
    if let Some(method) = method(config) {
        let what =
            format!("the checkpoint is quantized already ({}), which this version does not read", quoted(&method));
        return Err(Error::unsupported(config.label(), what, "get the model unquantized, or as GGUF"));
    }
    let mut tensors = Vec::new();
    for (piece, file) in files.iter().enumerate() {
        for entry in file.tensors() {
            tensors.push(Logical {
                name: entry.name.clone(),
                dtype: entry.dtype,
                shape: entry.shape.clone(),
                piece,
                offset: entry.offset,
                bytes: entry.bytes,
            });
        }
    }
    Ok(tensors)
}

/// How the checkpoint is quantized, as it says itself.
fn method(config: &Config) -> Option<String> {
    let text = |value: &serde_json::Value, key: &str| value.get(key)?.as_str().map(str::to_owned);
    if let Some(quantization) = config.get("quantization_config").or_else(|| config.get("compression_config")) {
        return Some(text(quantization, "quant_method").unwrap_or_else(|| "by a method without a name".to_owned()));
    }
    let quantization = config.get("quantization")?;
    Some(text(quantization, "mode").map_or_else(|| "MLX".to_owned(), |mode| format!("MLX {mode}")))
}

/// Refuses a tensor that is used and has numbers of a type that is none of plain weights.
///
/// # Errors
/// [`Error::Tensor`].
pub(super) fn check_dtype(label: &str, tensor: &Logical) -> Result<()> {
    match tensor.dtype {
        Dtype::F64 | Dtype::F32 | Dtype::F16 | Dtype::BF16 => Ok(()),
        other => Err(Error::tensor(label, &tensor.name, "numbers of F32, F16, BF16 or F64", other.name())
            .with_remedy("this version reads unquantized checkpoints; get the model unquantized, or as GGUF")),
    }
}
