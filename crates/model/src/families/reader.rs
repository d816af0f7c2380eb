//! A file seen from one family: keys without their prefix, with checks.

use crate::checkpoint::Checkpoint;
use crate::error::{Error, Result};
use crate::gguf::{Array, Value};

/// The most layers, heads or numbers per row that a file may ask for: far above any model, far below
/// what would overflow a product of three of them.
const LIMIT: usize = 1 << 20;

/// Counts that some tools write once for each layer.
const PER_LAYER: [&str; 3] = ["attention.head_count", "attention.head_count_kv", "feed_forward_length"];

/// A file seen from one family: keys without their prefix, with checks.
pub struct ConfigReader<'a> {
    pub(super) file: &'a Checkpoint,
    pub(super) prefix: &'static str,
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
        let counts = self.counts_of_layers(key)?;
        let (least, most) = (counts.iter().min().copied().unwrap_or(0), counts.iter().max().copied().unwrap_or(0));
        if least != most {
            return Err(Error::unsupported(
                self.file.label(),
                format!("metadata key `{}`: layers of different sizes ({least} to {most})", self.full(key)),
                "this version runs models of this family whose layers are all alike; use another model",
            ));
        }
        if least == 0 {
            return Err(self.key(key, format!("numbers in 1..={LIMIT}"), least.to_string()));
        }
        Ok(least)
    }

    /// A number for each layer, which may be 0.
    ///
    /// # Errors
    /// When the key is missing, no array of one number for each layer, or a number is beyond every model.
    pub fn counts_of_layers(&self, key: &str) -> Result<Vec<usize>> {
        let layers = self.layers()?;
        let expected = || format!("one number for each of {layers} layers");
        let counts = self.file.metadata().u32s(&self.full(key))?;
        let counts = counts.ok_or_else(|| self.key(key, expected(), "no such key"))?;
        if counts.len() != layers {
            return Err(self.key(key, expected(), format!("{} numbers", counts.len())));
        }
        let counts: Vec<usize> = counts.iter().map(|&count| count as usize).collect();
        match counts.iter().find(|&&count| count > LIMIT) {
            Some(count) => Err(self.key(key, format!("numbers in 0..={LIMIT}"), count.to_string())),
            None => Ok(counts),
        }
    }

    /// A positive, finite number that must be there.
    ///
    /// # Errors
    /// When it is missing, has another type or is not positive and finite.
    pub fn positive(&self, key: &str) -> Result<f32> {
        self.optional_positive(key)?.ok_or_else(|| self.key(key, "a positive number", "no such key"))
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

    /// A positive, finite number that may be missing, or 0, which some tools write for none.
    ///
    /// # Errors
    /// When it has another type, or is negative or not finite.
    pub fn optional_factor(&self, key: &str) -> Result<Option<f32>> {
        let is_zero = self.file.metadata().f32(&self.full(key))? == Some(0.0);
        if is_zero { Ok(None) } else { self.optional_positive(key) }
    }

    /// A truth that may be missing.
    ///
    /// # Errors
    /// When it has another type.
    pub fn flag(&self, key: &str) -> Result<Option<bool>> {
        self.file.metadata().bool(&self.full(key))
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

    /// Which layers have the window: the key `attention.sliding_window_pattern` as a truth for each layer, or as a period
    /// whose last layer sees everything; `period` where the key is missing.
    ///
    /// # Errors
    /// When the key has another type, or not one truth for each layer.
    pub fn windowed_layers(&self, period: usize) -> Result<Vec<bool>> {
        let key = "attention.sliding_window_pattern";
        let layers = self.layers()?;
        let period = match self.file.metadata().get(&self.full(key)) {
            Some(Value::Array(Array::Bool(pattern))) if pattern.len() == layers => return Ok(pattern.clone()),
            Some(Value::Array(Array::Bool(pattern))) => {
                let expected = format!("one truth for each of {layers} layers");
                return Err(self.key(key, expected, format!("{} of them", pattern.len())));
            }
            Some(Value::Array(_)) => {
                return Ok(self.counts_of_layers(key)?.iter().map(|&windowed| windowed != 0).collect());
            }
            _ => self.optional_count(key)?.unwrap_or(period),
        };
        Ok((1..=layers).map(|layer| !layer.is_multiple_of(period)).collect())
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
        let width = |key: &str| match self.optional_count(key)? {
            Some(width) => Ok(width),
            None if hidden_size.is_multiple_of(heads) => Ok(hidden_size / heads),
            None => {
                let found = format!("no such key, and {hidden_size} does not divide among {heads} heads");
                Err(self.key(key, "the width of a head", found))
            }
        };
        Ok((width("attention.key_length")?, width("attention.value_length")?))
    }

    pub(super) fn key(&self, key: &str, expected: impl Into<String>, found: impl Into<String>) -> Error {
        Error::key(self.file.label(), &self.full(key), expected, found)
    }

    pub(super) fn full(&self, key: &str) -> String {
        format!("{}.{key}", self.prefix)
    }
}
