//! `config.json`: typed reading, and a note of what nobody read.

use std::cell::RefCell;
use std::collections::BTreeSet;
use std::path::Path;

use serde_json::{Map, Value};

use crate::error::{Error, Result, file_label, quoted};
use crate::safetensors::{parse_json, read_json};

/// Far longer than any configuration.
const LIMIT_BYTES: u64 = 16 << 20;

/// The most that a count may be: as for keys of GGUF.
const LIMIT: u64 = 1 << 20;

/// How the weights are quantized.
const QUANTIZATION: &str = "quantization_config";
const QUANTIZATION_FILE: &str = "quantize_config.json";

/// Stands before the keys of a rotary embedding's description, under whichever name that is given.
pub(super) const ROPE: &str = "rope_parameters.";

/// Keys that say nothing about what is computed, or what is read elsewhere (tokens that end a text: by the tokenizer).
const HARMLESS: &[&str] = &[
    "_attn_implementation",
    "_attn_implementation_autoset",
    "_name_or_path",
    "add_cross_attention",
    "architectures",
    "attention_dropout",
    "attn_implementation",
    "auto_map",
    "begin_suppress_tokens",
    "bos_token_id",
    "cache_implementation",
    "chunk_size_feed_forward",
    "decoder_start_token_id",
    "diversity_penalty",
    "do_sample",
    "dtype",
    "early_stopping",
    "embd_pdrop",
    "encoder_no_repeat_ngram_size",
    "eos_token_id",
    "expert_capacity",
    "full_attn_mod",
    "gradient_checkpointing",
    "hidden_dropout",
    "id2label",
    "initializer_range",
    "interpolate_factor",
    "is_decoder",
    "is_encoder_decoder",
    "is_llama_config",
    "label2id",
    "layer_norm_elementwise_affine",
    "length_penalty",
    "max_length",
    "min_length",
    "model_type",
    "no_repeat_ngram_size",
    "num_beam_groups",
    "num_beams",
    "num_return_sequences",
    "output_attentions",
    "output_hidden_states",
    "output_router_logits",
    "pad_token_id",
    "pretraining_tp",
    "problem_type",
    "repetition_penalty",
    "resid_pdrop",
    "return_dict",
    "router_aux_loss_coef",
    "router_jitter_noise",
    "sep_token_id",
    "task_specific_params",
    "temperature",
    "tokenizer_class",
    "top_k",
    "top_p",
    "torch_dtype",
    "transformers.js_config",
    "transformers_version",
    "typical_p",
    "unsloth_fixed",
    "unsloth_version",
    "use_bfloat16",
    "use_cache",
    "use_flash_attn",
    "vocab_size",
];

/// A model's `config.json`; where it has a part for text, that part stands above the rest.
#[derive(Debug)]
pub struct Config {
    label: String,
    values: Map<String, Value>,
    model_type: String,
    /// The keys of the part for text, where there is one: the others are for images or sound.
    of_text: Option<BTreeSet<String>>,
    read: RefCell<BTreeSet<String>>,
}

impl Config {
    pub(crate) fn open(path: &Path) -> Result<Self> {
        Self::of(file_label(path), read_json(path, LIMIT_BYTES)?)
    }

    /// Adds what early GPTQ checkpoints have in a file of its own, where the configuration itself does not say it.
    pub(crate) fn add_quantization(&mut self, folder: &Path) -> Result<()> {
        let path = folder.join(QUANTIZATION_FILE);
        if !self.values.contains_key(QUANTIZATION) && path.is_file() {
            let mut values: Map<String, Value> = read_json(&path, LIMIT_BYTES)?;
            values.entry("quant_method").or_insert_with(|| "gptq".into());
            self.values.insert(QUANTIZATION.to_owned(), Value::Object(values));
        }
        Ok(())
    }

    /// The text of a `config.json`; `label` is what messages call it.
    ///
    /// # Errors
    /// When it is not a JSON object with `model_type`.
    pub fn parse(label: &str, text: &[u8]) -> Result<Self> {
        Self::of(label.to_owned(), parse_json(label, text)?)
    }

    fn of(label: String, mut values: Map<String, Value>) -> Result<Self> {
        let read = RefCell::default();
        let mut config = Self { label, values: Map::new(), model_type: String::new(), of_text: None, read };
        let model_type = values.get("model_type").and_then(Value::as_str).map(str::to_owned);
        config.model_type =
            model_type.ok_or_else(|| config.wrong("model_type", "the family of the model", "nothing"))?;
        if let Some(Value::Object(text)) = values.remove("text_config") {
            config.of_text = Some(text.keys().cloned().collect());
            values.extend(text);
        }
        config.values = values;
        Ok(config)
    }

    /// The file as messages show it.
    pub fn label(&self) -> &str {
        &self.label
    }

    /// The family's name as Hugging Face has it; with a mark where one name stands for two families.
    pub(crate) fn family(&self) -> String {
        let has_experts = self.values.get("num_local_experts").and_then(Value::as_u64).is_some_and(|count| count > 0);
        match self.model_type.as_str() {
            "granitemoehybrid" if has_experts => "granitemoehybrid with experts".to_owned(),
            name => name.to_owned(),
        }
    }

    /// The value of a key; null counts as nothing.
    pub fn get(&self, key: &str) -> Option<&Value> {
        self.note(key.to_owned());
        self.values.get(key).filter(|value| !value.is_null())
    }

    /// Takes down that a key was read; of those within the rotary embedding's description with [`ROPE`] before it.
    pub(super) fn note(&self, key: String) {
        self.read.borrow_mut().insert(key);
    }

    /// A count in 1..=1048576 that may be missing.
    ///
    /// # Errors
    /// When there is something else.
    pub fn optional_count(&self, key: &str) -> Result<Option<u32>> {
        let Some(value) = self.get(key) else { return Ok(None) };
        match value.as_u64() {
            Some(count) if (1..=LIMIT).contains(&count) => Ok(Some(count as u32)),
            _ => Err(self.wrong(key, &format!("a number in 1..={LIMIT}"), &shown(value))),
        }
    }

    /// A count that must be there.
    ///
    /// # Errors
    /// As [`Config::optional_count`], and where it is missing.
    pub fn count(&self, key: &str) -> Result<u32> {
        self.optional_count(key)?.ok_or_else(|| self.wrong(key, &format!("a number in 1..={LIMIT}"), "nothing"))
    }

    /// The count at the first key that is there.
    ///
    /// # Errors
    /// As [`Config::count`].
    pub fn count_of(&self, keys: &[&str]) -> Result<u32> {
        for key in keys {
            if let Some(count) = self.optional_count(key)? {
                return Ok(count);
            }
        }
        self.count(keys.first().copied().unwrap_or_default())
    }

    /// A positive count of positions that may be missing, however large.
    ///
    /// # Errors
    /// When there is something else.
    pub fn optional_positions(&self, key: &str) -> Result<Option<u32>> {
        let Some(value) = self.get(key) else { return Ok(None) };
        let count = value.as_u64().and_then(|count| u32::try_from(count).ok()).filter(|&count| count > 0);
        count.map(Some).ok_or_else(|| self.wrong(key, "a positive number", &shown(value)))
    }

    /// A finite number that may be missing.
    ///
    /// # Errors
    /// When there is something else.
    pub fn optional_number(&self, key: &str) -> Result<Option<f64>> {
        self.get(key).map(|value| self.number_in(value, key)).transpose()
    }

    /// A finite number that must be there.
    ///
    /// # Errors
    /// As [`Config::optional_number`], and where it is missing.
    pub fn number(&self, key: &str) -> Result<f64> {
        self.optional_number(key)?.ok_or_else(|| self.wrong(key, "a number", "nothing"))
    }

    pub(crate) fn number_in(&self, value: &Value, key: &str) -> Result<f64> {
        let number = value.as_f64().filter(|number| number.is_finite());
        number.ok_or_else(|| self.wrong(key, "a number", &shown(value)))
    }

    /// A truth; `default` where it is missing.
    ///
    /// # Errors
    /// When there is something else.
    pub fn flag(&self, key: &str, default: bool) -> Result<bool> {
        self.optional_flag(key).map(|flag| flag.unwrap_or(default))
    }

    /// A truth that may be missing.
    ///
    /// # Errors
    /// When there is something else.
    pub fn optional_flag(&self, key: &str) -> Result<Option<bool>> {
        let Some(value) = self.get(key) else { return Ok(None) };
        value.as_bool().map(Some).ok_or_else(|| self.wrong(key, "true or false", &shown(value)))
    }

    /// A string that may be missing.
    ///
    /// # Errors
    /// When there is something else.
    pub fn optional_text(&self, key: &str) -> Result<Option<&str>> {
        let Some(value) = self.get(key) else { return Ok(None) };
        value.as_str().map(Some).ok_or_else(|| self.wrong(key, "a string", &shown(value)))
    }

    /// What `layer_types` says of each layer, where it is there.
    ///
    /// # Errors
    /// When it is no list of one string for each of `layers`.
    pub fn layer_types(&self, layers: u32) -> Result<Option<Vec<&str>>> {
        let key = "layer_types";
        let Some(value) = self.get(key) else { return Ok(None) };
        let types: Option<Vec<&str>> = value.as_array().and_then(|types| types.iter().map(Value::as_str).collect());
        match types {
            Some(types) if types.len() == layers as usize => Ok(Some(types)),
            Some(types) => Err(self.wrong(key, &format!("one for each of {layers} layers"), &types.len().to_string())),
            None => Err(self.wrong(key, "a list of strings", &shown(value))),
        }
    }

    /// An error about a key.
    pub fn wrong(&self, key: &str, expected: &str, found: &str) -> Error {
        Error::Malformed {
            file: self.label.clone(),
            place: format!("key `{}`", quoted(key)),
            expected: expected.to_owned(),
            found: quoted(found),
            remedy: "the file is damaged or incomplete; get it again, from where the model is published".to_owned(),
        }
    }

    /// The error for a key whose value asks for something that this version does not compute.
    pub fn unsupported(&self, key: &str) -> Error {
        let value = self.values.get(key).map_or_else(|| "missing".to_owned(), shown);
        self.unsupported_value(key, &value)
    }

    pub(crate) fn unsupported_value(&self, key: &str, value: &str) -> Error {
        let what =
            format!("key `{}` is {}, which this version does not run for this family", quoted(key), quoted(value));
        Error::unsupported(&self.label, what, "without it the text would be wrong; use another model")
    }

    /// Fails where a flag is set that stands for something that this version does not compute.
    ///
    /// # Errors
    /// [`Error::Unsupported`].
    pub fn refuse_flags(&self, keys: &[&str]) -> Result<()> {
        for key in keys {
            if self.flag(key, false)? {
                return Err(self.unsupported(key));
            }
        }
        Ok(())
    }

    /// Fails where a key is there with any value.
    ///
    /// # Errors
    /// [`Error::Unsupported`].
    pub fn refuse(&self, keys: &[&str]) -> Result<()> {
        match keys.iter().find(|key| self.get(key).is_some()) {
            Some(key) => Err(self.unsupported(key)),
            None => Ok(()),
        }
    }

    /// Keys that nobody read and that may mean something, in the order of the alphabet.
    pub(crate) fn unread(&self) -> Vec<String> {
        let read = self.read.borrow();
        let means_nothing = |value: &Value| match value {
            Value::Null | Value::Bool(false) => true,
            Value::Array(items) => items.is_empty(),
            Value::Object(items) => items.is_empty(),
            _ => false,
        };
        let is_of_images = |key: &str| self.of_text.as_ref().is_some_and(|of_text| !of_text.contains(key));
        let outer = self.values.iter().filter(|(key, _)| !is_of_images(key)).map(|(key, value)| (key.clone(), value));
        let parts = ["rope_parameters", "rope_scaling"].iter().filter_map(|key| self.values.get(*key)?.as_object());
        // Kinds of layers can have a description each.
        let inner = parts.flatten().flat_map(|(key, value)| match value {
            Value::Object(part) => part.iter().collect(),
            _ => vec![(key, value)],
        });
        let inner = inner.map(|(key, value)| (format!("{ROPE}{key}"), value));
        let mut unread: Vec<String> = outer
            .chain(inner)
            .filter(|(key, value)| !read.contains(key) && !HARMLESS.contains(&key.as_str()) && !means_nothing(value))
            .filter(|(key, _)| !key.starts_with('_'))
            .map(|(key, _)| key)
            .collect();
        unread.sort();
        unread.dedup();
        unread
    }
}

/// A value as messages show it.
fn shown(value: &Value) -> String {
    value.to_string()
}
