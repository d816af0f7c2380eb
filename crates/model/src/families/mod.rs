//! How the files of each family fill a [`ModelConfig`].
//!
//! A family made of known parts is one file here and one line in [`FAMILIES`]; what its files say is
//! read through [`ConfigReader`], so that every family gets the same checks and the same error lines.

mod gemma3;
mod llama;

use std::sync::Arc;

use crate::config::{AttentionConfig, ModelConfig, RopeConfig, RopeStyle};
use crate::error::{Error, Result, quoted};
use crate::gguf::{GgufFile, Value};
use crate::weights::read_vector;

/// One family of models.
pub struct Family {
    /// `general.architecture` of its GGUF files.
    pub name: &'static str,
    /// Fills the configuration from a file's keys and tensors.
    pub read: fn(&ConfigReader<'_>) -> Result<ModelConfig>,
}

/// Every family that is read here.
pub static FAMILIES: &[Family] = &[llama::FAMILY, gemma3::FAMILY];

/// The most layers, heads or numbers per row that a file may ask for: far above any model, far below
/// what would overflow a product of three of them.
const LIMIT: usize = 1 << 20;

/// Counts that some tools write once for each layer.
const PER_LAYER: [&str; 3] = ["attention.head_count", "attention.head_count_kv", "feed_forward_length"];

/// Reads the configuration of `file`.
///
/// # Errors
/// When the family is unknown, a key is missing, has another type or contradicts another.
pub fn read_config(file: &GgufFile) -> Result<ModelConfig> {
    const KEY: &str = "general.architecture";
    let name = file.metadata().string(KEY)?.ok_or_else(|| {
        Error::key(file.label(), KEY, "the family of the model", "no such key")
            .with_remedy("the file is incomplete; fetch or convert it again")
    })?;
    let family = FAMILIES.iter().find(|family| family.name == name).ok_or_else(|| {
        let known: Vec<_> = FAMILIES.iter().map(|family| family.name).collect();
        Error::key(file.label(), KEY, format!("one of {}", known.join(", ")), format!("{:?}", quoted(name)))
            .with_remedy("this version does not run that family")
    })?;
    let config = (family.read)(&ConfigReader { file, prefix: family.name })?;
    check(file, &config)?;
    Ok(config)
}

/// What every model must satisfy, whatever its family.
fn check(file: &GgufFile, config: &ModelConfig) -> Result<()> {
    let require = |holds: bool, key: &str, expected: &str, found: String| {
        let key = format!("{}.{key}", config.family);
        if holds { Ok(()) } else { Err(Error::key(file.label(), &key, expected, found)) }
    };
    for layer in &config.layers {
        let AttentionConfig { heads, kv_heads, key_dim, rope, .. } = layer.attention;
        let divides = kv_heads > 0 && heads % kv_heads == 0;
        require(divides, "attention.head_count_kv", "a divisor of the heads", format!("{kv_heads} for {heads} heads"))?;
        let dims = config.ropes[rope].dims;
        let rotates = dims.is_multiple_of(2) && dims <= key_dim;
        require(rotates, "rope.dimension_count", "an even number within a head", format!("{dims} of {key_dim}"))?;
    }
    Ok(())
}

/// A file seen from one family: keys without their prefix, with checks.
pub struct ConfigReader<'a> {
    file: &'a GgufFile,
    prefix: &'static str,
}

impl ConfigReader<'_> {
    /// A count that must be there and positive.
    ///
    /// # Errors
    /// When the key is missing, of another type, zero or beyond every model.
    pub fn count(&self, key: &str) -> Result<usize> {
        self.optional_count(key)?.ok_or_else(|| self.key(key, "a positive number", "no such key"))
    }

    /// A count that may be missing. Those of [`PER_LAYER`] may be arrays, as some tools write them, of one number for each layer.
    ///
    /// # Errors
    /// As [`ConfigReader::count`], but for missing keys.
    pub fn optional_count(&self, key: &str) -> Result<Option<usize>> {
        if PER_LAYER.contains(&key)
            && let Some(Value::Array(_)) = self.file.metadata().get(&self.full(key))
        {
            return self.count_of_all_layers(key).map(Some);
        }
        match self.file.metadata().u32(&self.full(key))? {
            None => Ok(None),
            Some(value) if value >= 1 && value as usize <= LIMIT => Ok(Some(value as usize)),
            Some(value) => Err(self.key(key, format!("a number in 1..={LIMIT}"), value.to_string())),
        }
    }

    /// A count that the file gives for each layer, and that is the same for all of them.
    fn count_of_all_layers(&self, key: &str) -> Result<usize> {
        let layers = self.layers()?;
        let counts = self.file.metadata().u32s(&self.full(key))?.unwrap_or_default();
        if counts.len() != layers {
            return Err(self.key(
                key,
                format!("one number for each of {layers} layers"),
                format!("{} numbers", counts.len()),
            ));
        }
        let (least, most) = (counts.iter().min().copied().unwrap_or(0), counts.iter().max().copied().unwrap_or(0));
        if least != most {
            return Err(Error::unsupported(
                self.file.label(),
                format!("metadata key `{}`: layers of different sizes ({least} to {most})", self.full(key)),
                "this version runs models whose layers are all alike; use another model",
            ));
        }
        if least == 0 || least as usize > LIMIT {
            return Err(self.key(key, format!("numbers in 1..={LIMIT}"), least.to_string()));
        }
        Ok(least as usize)
    }

    /// A positive, finite number that may be missing.
    ///
    /// # Errors
    /// When it has another type or is not positive and finite.
    pub fn optional_positive(&self, key: &str) -> Result<Option<f32>> {
        match self.file.metadata().f32(&self.full(key))? {
            None => Ok(None),
            Some(value) if value.is_finite() && value > 0.0 => Ok(Some(value)),
            Some(value) => Err(self.key(key, "a positive number", value.to_string())),
        }
    }

    /// Positions that the model was trained for.
    ///
    /// # Errors
    /// When the key is missing, of another type or zero.
    pub fn context_length(&self) -> Result<usize> {
        let key = "context_length";
        match self.file.metadata().u32(&self.full(key))? {
            Some(value) if value > 0 => Ok(value as usize),
            found => {
                Err(self.key(key, "a positive number", found.map_or("no such key".into(), |value| value.to_string())))
            }
        }
    }

    /// The attention window; 0 and a missing key mean none.
    ///
    /// # Errors
    /// When the key is of another type.
    pub fn window(&self) -> Result<Option<usize>> {
        let window = self.file.metadata().u32(&self.full("attention.sliding_window"))?;
        Ok(window.filter(|&window| window > 0).map(|window| window as usize))
    }

    /// Refuses mixtures of experts for families that are read without them, so that nobody looks for missing tensors.
    ///
    /// # Errors
    /// When the file says that it has experts.
    pub fn refuse_experts(&self) -> Result<()> {
        match self.file.metadata().u32(&self.full("expert_count"))? {
            Some(experts) if experts > 0 => Err(Error::unsupported(
                self.file.label(),
                format!("a mixture of {experts} experts, which this version does not run"),
                "use a dense model",
            )),
            _ => Ok(()),
        }
    }

    /// How many layers there are.
    ///
    /// # Errors
    /// When the key is missing, or asks for more layers than the file has tensors.
    pub fn layers(&self) -> Result<usize> {
        let layers = self.count("block_count")?;
        if layers > self.file.tensors().len() {
            let expected = format!("at most one layer for each of {} tensors", self.file.tensors().len());
            return Err(self.key("block_count", expected, layers.to_string()));
        }
        Ok(layers)
    }

    /// The norms' epsilon.
    ///
    /// # Errors
    /// When it is missing.
    pub fn norm_epsilon(&self) -> Result<f32> {
        let key = "attention.layer_norm_rms_epsilon";
        self.optional_positive(key)?.ok_or_else(|| self.key(key, "a small positive number", "no such key"))
    }

    /// The model's name, when given.
    ///
    /// # Errors
    /// When the key is not a string.
    pub fn name(&self) -> Result<Option<String>> {
        Ok(self.file.metadata().string("general.name")?.map(str::to_owned))
    }

    /// Whether a tensor exists.
    pub fn has(&self, tensor: &str) -> bool {
        self.file.tensor(tensor).is_some()
    }

    /// Rows of the embedding table: the vocabulary's size as the weights have it.
    ///
    /// # Errors
    /// When the table is missing or not a matrix of `hidden_size` columns.
    pub fn vocab_size(&self, hidden_size: usize) -> Result<usize> {
        let name = "token_embd.weight";
        let label = self.file.label();
        let table = self.file.tensor(name).ok_or_else(|| {
            Error::tensor(label, name, "the embedding table", "no such tensor")
                .with_remedy("the file holds no weights; it may be a vocabulary only, or incomplete")
        })?;
        match table.dims[..] {
            [columns, rows] if columns == hidden_size as u64 && rows <= 1 << 26 => Ok(rows as usize),
            _ => Err(Error::tensor(label, name, format!("[{hidden_size}, vocabulary]"), format!("{:?}", table.dims))),
        }
    }

    /// Width of one head's keys and of its values: the file's keys, else `hidden_size / heads`.
    ///
    /// # Errors
    /// When neither gives a whole number.
    pub fn head_dims(&self, hidden_size: usize, heads: usize) -> Result<(usize, usize)> {
        let fallback = || {
            if hidden_size.is_multiple_of(heads) {
                return Ok(hidden_size / heads);
            }
            let found = format!("no such key, and {hidden_size} does not divide among {heads} heads");
            Err(self.key("attention.key_length", "the width of a head", found))
        };
        let key_dim = self.optional_count("attention.key_length")?.map_or_else(fallback, Ok)?;
        let value_dim = self.optional_count("attention.value_length")?.map_or_else(fallback, Ok)?;
        Ok((key_dim, value_dim))
    }

    /// The rotary embedding that the file's keys and `rope_freqs.weight` describe.
    ///
    /// # Errors
    /// When the scaling is of a kind that is not read here, or the divisors do not fit.
    pub fn rope(&self, style: RopeStyle, key_dim: usize) -> Result<RopeConfig> {
        let dims = self.optional_count("rope.dimension_count")?.unwrap_or(key_dim);
        let base = self.optional_positive("rope.freq_base")?.unwrap_or(10_000.0);
        Ok(RopeConfig {
            style,
            dims,
            base,
            position_divisor: self.linear_scaling()?,
            frequency_divisors: self.frequency_divisors(dims)?,
        })
    }

    /// The factor of linear scaling, 1 when there is none.
    fn linear_scaling(&self) -> Result<f32> {
        let key = self.full("rope.scaling.type");
        let factor = self.optional_positive("rope.scaling.factor")?;
        match self.file.metadata().string(&key)? {
            Some("linear") => {
                factor.ok_or_else(|| self.key("rope.scaling.factor", "the factor of linear scaling", "no such key"))
            }
            // Files from before the typed keys carry the linear factor alone.
            None => Ok(factor.or(self.optional_positive("rope.scale_linear")?).unwrap_or(1.0)),
            Some("none") => Ok(1.0),
            // Llama 3's scaling arrives as divisors in a tensor; the type is informative there.
            Some("llama3") if self.has("rope_freqs.weight") => Ok(1.0),
            Some(other) => Err(self
                .key("rope.scaling.type", "none, linear, or llama3 with its divisors", format!("{:?}", quoted(other)))
                .with_remedy("this version does not have that scaling, and without it the text would be wrong")),
        }
    }

    fn frequency_divisors(&self, dims: usize) -> Result<Option<Arc<[f32]>>> {
        let Some(info) = self.file.tensor("rope_freqs.weight") else { return Ok(None) };
        if info.dims != [(dims / 2) as u64] {
            let expected = format!("{} divisors", dims / 2);
            return Err(Error::tensor(self.file.label(), &info.name, expected, format!("{:?}", info.dims)));
        }
        let divisors = read_vector(self.file, info, dims / 2)?;
        if let Some(bad) = divisors.iter().find(|divisor| !(divisor.is_finite() && **divisor > 0.0)) {
            return Err(Error::tensor(self.file.label(), &info.name, "positive divisors", bad.to_string()));
        }
        Ok(Some(divisors.into()))
    }

    fn key(&self, key: &str, expected: impl Into<String>, found: impl Into<String>) -> Error {
        Error::key(self.file.label(), &self.full(key), expected, found)
    }

    fn full(&self, key: &str) -> String {
        format!("{}.{key}", self.prefix)
    }
}
