//! How a checkpoint says that it is quantized: `quantization_config`, or `quantization` as MLX writes it.

use std::collections::HashMap;

use serde_json::{Map, Value};

use super::super::config::Config;
use crate::error::{Error, Result, quoted};
use crate::groups::gptq;
use crate::safetensors::Dtype;

/// How the matrices of a checkpoint are written.
#[derive(Debug)]
pub(super) enum Scheme {
    /// As they are.
    Plain,
    /// GPTQ; bits and groups of single matrices may be others where `is_mixed`.
    Gptq { config: gptq::Config, is_mixed: bool },
    /// AWQ.
    Awq { group_size: Option<usize> },
    /// compressed-tensors, in one of these ways.
    CompressedTensors(Vec<Width>),
    /// MLX affine; some modules by name in another way.
    Mlx { width: MlxWidth, overrides: HashMap<String, MlxWidth> },
}

/// Bits of a code, and columns that share a scale; `None` for all of a row.
#[derive(Debug, Clone, Copy)]
pub(super) struct Width {
    pub(super) bits: usize,
    pub(super) group_size: Option<usize>,
}

/// Bits of a code, and columns of a group.
#[derive(Debug, Clone, Copy)]
pub(super) struct MlxWidth {
    pub(super) bits: usize,
    pub(super) group_size: usize,
}

/// Formats of compressed-tensors that are read: `mixed-precision` where each group of its configuration is one of the others.
const COMPRESSED: [&str; 4] = ["pack-quantized", "naive-quantized", "int-quantized", "mixed-precision"];

impl Scheme {
    /// # Errors
    /// When the checkpoint is quantized in a way that is not read here, which the message names.
    pub(super) fn of(config: &Config) -> Result<Self> {
        let object = |key: &str| config.get(key).and_then(Value::as_object);
        let is_mlx = |values: &Map<String, Value>| values.contains_key("bits") && values.contains_key("group_size");
        if let Some(values) = object("quantization").filter(|values| is_mlx(values)) {
            // MLX says the same again under the other key.
            let _ = config.get("quantization_config");
            return Reader { config, values }.mlx();
        }
        let Some(values) = object("quantization_config").or_else(|| object("compression_config")) else {
            return match config.get("quantization") {
                None => Ok(Self::Plain),
                Some(_) => Err(refused(config, "by a method without a name")),
            };
        };
        let reader = Reader { config, values };
        match values.get("quant_method").and_then(Value::as_str) {
            Some("gptq") => reader.gptq(),
            Some("awq") => reader.awq(),
            Some("compressed-tensors") => reader.compressed_tensors(),
            Some(other) => Err(refused(config, other)),
            None if is_mlx(values) => reader.mlx(),
            None => Err(refused(config, "by a method without a name")),
        }
    }

    /// The module that a tensor is a part of, and which part, where it is one of several that are a matrix.
    pub(super) fn part<'n>(&self, name: &'n str, dtype: Dtype) -> Option<(&'n str, &'n str)> {
        let (module, part) = name.rsplit_once('.')?;
        let is_part = match self {
            Self::Plain => false,
            Self::Gptq { .. } | Self::Awq { .. } => ["qweight", "qzeros", "scales", "g_idx"].contains(&part),
            Self::CompressedTensors(_) => match part {
                "weight" => dtype == Dtype::I8,
                _ => part.strip_prefix("weight_").is_some_and(|part| COMPRESSED_PARTS.contains(&part)),
            },
            Self::Mlx { .. } => part == "scales" || part == "biases" || (part == "weight" && dtype == Dtype::U32),
        };
        is_part.then_some((module, part))
    }
}

const COMPRESSED_PARTS: [&str; 5] = ["packed", "scale", "zero_point", "shape", "g_idx"];

fn refused(config: &Config, how: &str) -> Error {
    let what = format!("the checkpoint is quantized already ({}), which this version does not read", quoted(how));
    Error::unsupported(config.label(), what, "get the model unquantized, or as GGUF")
}

/// What says how, and the configuration that it stands in.
struct Reader<'c> {
    config: &'c Config,
    values: &'c Map<String, Value>,
}

impl Reader<'_> {
    fn gptq(&self) -> Result<Scheme> {
        let version = match self.text("checkpoint_format")? {
            None | Some("gptq") => gptq::Version::V1,
            Some("gptq_v2") => gptq::Version::V2,
            Some(other) => return Err(refused(self.config, &format!("gptq, as {other}"))),
        };
        let bits = self.count(self.values, &["bits"])?;
        let group_size = self.group_size(self.values, &["group_size"])?;
        let symmetric = self.values.get("sym").and_then(Value::as_bool).unwrap_or(false);
        let is_mixed =
            self.values.get("dynamic").and_then(Value::as_object).is_some_and(|overrides| !overrides.is_empty());
        Ok(Scheme::Gptq { config: gptq::Config { bits, group_size, version, symmetric }, is_mixed })
    }

    fn awq(&self) -> Result<Scheme> {
        if let Some(version) = self.text("version")?.filter(|version| !version.eq_ignore_ascii_case("gemm")) {
            return Err(refused(self.config, &format!("awq, version {version}")));
        }
        let bits = self.count(self.values, &["bits", "w_bit"])?;
        if bits != 4 {
            return Err(refused(self.config, &format!("awq of {bits} bits")));
        }
        Ok(Scheme::Awq { group_size: self.group_size(self.values, &["group_size", "q_group_size"])? })
    }

    fn compressed_tensors(&self) -> Result<Scheme> {
        let refused = |how: String| refused(self.config, &format!("compressed-tensors, {how}"));
        let known = |format: &str| COMPRESSED.contains(&format);
        if let Some(format) = self.text("format")?.filter(|format| !known(format)) {
            return Err(refused(format.to_owned()));
        }
        // Turned weights are of no use without the turns, and sparse ones are not packed as others are.
        let is_set = |value: &Value| match value {
            Value::Object(values) => {
                values.get("format").and_then(Value::as_str) != Some("dense") && !values.is_empty()
            }
            other => !other.is_null(),
        };
        for key in ["transform_config", "sparsity_config"] {
            if self.values.get(key).is_some_and(is_set) {
                return Err(refused(format!("with a {key}")));
            }
        }
        let mut widths = Vec::new();
        for group in self.values.get("config_groups").and_then(Value::as_object).into_iter().flat_map(Map::values) {
            if let Some(format) = group.get("format").and_then(Value::as_str).filter(|format| !known(format)) {
                return Err(refused(format.to_owned()));
            }
            let Some(weights) = group.get("weights").and_then(Value::as_object) else { continue };
            let text = |key: &str| weights.get(key).and_then(Value::as_str);
            if let Some(kind) = text("type").filter(|&kind| kind != "int") {
                return Err(refused(format!("weights of {kind}")));
            }
            let group_size = match text("strategy") {
                None | Some("group") => self.group_size(weights, &["group_size"])?,
                Some("channel" | "tensor") => None,
                Some(other) => return Err(refused(format!("a scale for each {other}"))),
            };
            widths.push(Width { bits: self.count(weights, &["num_bits"])?, group_size });
        }
        if widths.is_empty() {
            return Err(refused("without config_groups for weights".to_owned()));
        }
        Ok(Scheme::CompressedTensors(widths))
    }

    fn mlx(&self) -> Result<Scheme> {
        let width = |values: &Map<String, Value>| -> Result<MlxWidth> {
            if let Some(mode) = values.get("mode").and_then(Value::as_str).filter(|&mode| mode != "affine") {
                return Err(refused(self.config, &format!("MLX {mode}")));
            }
            let [bits, group_size] = [self.count(values, &["bits"])?, self.count(values, &["group_size"])?];
            Ok(MlxWidth { bits, group_size })
        };
        let mut overrides = HashMap::new();
        for (module, value) in self.values {
            if let Value::Object(values) = value {
                overrides.insert(module.clone(), width(values)?);
            }
        }
        Ok(Scheme::Mlx { width: width(self.values)?, overrides })
    }

    fn text(&self, key: &str) -> Result<Option<&str>> {
        match self.values.get(key) {
            None | Some(Value::Null) => Ok(None),
            Some(Value::String(text)) => Ok(Some(text)),
            Some(other) => Err(self.wrong(key, "a text", other)),
        }
    }

    /// The first of some keys, in 1..=1048576.
    fn count(&self, values: &Map<String, Value>, keys: &[&str]) -> Result<usize> {
        let value = keys.iter().find_map(|key| values.get(*key)).unwrap_or(&Value::Null);
        let count = value.as_u64().filter(|count| (1..=1 << 20).contains(count));
        count.map(|count| count as usize).ok_or_else(|| self.wrong(keys[0], "a number in 1..=1048576", value))
    }

    /// The same, where -1 or nothing stands for the whole row.
    fn group_size(&self, values: &Map<String, Value>, keys: &[&str]) -> Result<Option<usize>> {
        let value = keys.iter().find_map(|key| values.get(*key)).filter(|value| !value.is_null());
        match value {
            None => Ok(None),
            Some(value) if value.as_i64() == Some(-1) => Ok(None),
            Some(_) => self.count(values, keys).map(Some),
        }
    }

    fn wrong(&self, key: &str, expected: &str, found: &Value) -> Error {
        self.config.wrong(&format!("quantization_config.{key}"), expected, &quoted(&found.to_string()))
    }
}
