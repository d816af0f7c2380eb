//! From the keys of `config.json` to those of GGUF: what most families share.

use serde_json::Value as Json;

use super::config::{Config, ROPE};
use super::names::Tensors;
use crate::error::Result;
use crate::gguf::{Array, Metadata, Value};

/// How checkpoints of Hugging Face of one family are translated to GGUF.
#[derive(Debug, Clone, Copy)]
pub struct Translation {
    /// `model_type` in `config.json`.
    pub model_types: &'static [&'static str],
    /// Writes the family's keys.
    pub keys: fn(&mut Keys<'_>) -> Result<()>,
    /// The names and rows of its tensors.
    pub tensors: Tensors,
    /// Whether the head is the embedding where `config.json` does not say.
    pub is_tied: bool,
}

/// The keys of one family that are being written, beside the configuration that they are read from.
pub struct Keys<'a> {
    /// What is translated.
    pub config: &'a Config,
    prefix: &'static str,
    metadata: &'a mut Metadata,
    /// The base of rotary embeddings where the configuration names none: the family's, which a family changes that has another
    /// than most.
    pub usual_rope_base: f64,
    /// Tensors that the configuration gives.
    pub(super) numbers: Vec<(&'static str, Vec<f32>)>,
}

/// The base of rotary embeddings that is meant where nothing is said, in configurations of most families and in GGUF.
const ROPE_BASE: f64 = 10_000.0;

/// A rotary embedding as `config.json` describes it, under its older or its newer names.
struct Rope<'c> {
    config: &'c Config,
    /// `rope_parameters`, or the part of it that is meant, or `rope_scaling`.
    values: Option<&'c serde_json::Map<String, Json>>,
}

impl<'c> Rope<'c> {
    fn get(&self, key: &str) -> Option<&'c Json> {
        self.config.note(format!("{ROPE}{key}"));
        self.values?.get(key).filter(|value| !value.is_null())
    }

    fn number(&self, key: &str) -> Result<Option<f64>> {
        self.get(key).map(|value| self.config.number_in(value, &format!("{ROPE}{key}"))).transpose()
    }

    fn required(&self, key: &str) -> Result<f64> {
        let missing = || self.config.wrong(&format!("{ROPE}{key}"), "a number", "nothing");
        self.number(key)?.ok_or_else(missing)
    }

    fn kind(&self) -> &'c str {
        let (kind, older) = (self.get("rope_type"), self.get("type"));
        kind.or(older).and_then(Json::as_str).unwrap_or("default")
    }
}

impl<'a> Keys<'a> {
    pub(super) fn new(config: &'a Config, prefix: &'static str, metadata: &'a mut Metadata) -> Self {
        Self { config, prefix, metadata, usual_rope_base: ROPE_BASE, numbers: Vec::new() }
    }

    /// Heads of queries, and of keys and values where that is one number for all layers, as the family wrote them.
    pub(super) fn heads(&self) -> Result<(u32, Option<u32>)> {
        let count = |name: &str| self.metadata.u32(&format!("{}.attention.{name}", self.prefix));
        let missing = || self.config.wrong("num_attention_heads", "the number of heads", "nothing");
        Ok((count("head_count")?.ok_or_else(missing)?, count("head_count_kv").unwrap_or(None)))
    }

    /// Writes a key of the family.
    ///
    /// # Errors
    /// When it is there already.
    pub fn put(&mut self, key: &str, value: impl Into<Value>) -> Result<()> {
        self.metadata.insert(format!("{}.{key}", self.prefix), value)
    }

    /// Layers, context, widths and heads, with the names that most families have them under.
    ///
    /// # Errors
    /// When one is missing or no positive number.
    pub fn sizes(&mut self) -> Result<()> {
        self.sizes_with(self.config.count("intermediate_size")?)
    }

    /// [`Keys::sizes`] with another width of the MLP.
    ///
    /// # Errors
    /// As there.
    pub fn sizes_with(&mut self, mlp_width: u32) -> Result<()> {
        let config = self.config;
        self.put("block_count", config.count("num_hidden_layers")?)?;
        self.put("context_length", self.context_length()?)?;
        self.put("embedding_length", config.count("hidden_size")?)?;
        self.put("feed_forward_length", mlp_width)?;
        self.put("attention.head_count", config.count("num_attention_heads")?)
    }

    /// Positions that the model was trained for.
    ///
    /// # Errors
    /// When they are missing or no positive number.
    pub fn context_length(&self) -> Result<u32> {
        let key = "max_position_embeddings";
        self.config.optional_positions(key)?.ok_or_else(|| self.config.wrong(key, "a positive number", "nothing"))
    }

    /// Key and value heads: as many as heads where the configuration does not say.
    ///
    /// # Errors
    /// When there is no positive number.
    pub fn kv_heads(&self) -> Result<u32> {
        let config = self.config;
        let heads = config.optional_count("num_key_value_heads")?;
        heads.map_or_else(|| config.count("num_attention_heads"), Ok)
    }

    /// The heads of keys and values, and the width of a head where the configuration gives one.
    ///
    /// # Errors
    /// When one is no positive number.
    pub fn kv_and_head_width(&mut self) -> Result<()> {
        self.put("attention.head_count_kv", self.kv_heads()?)?;
        if let Some(width) = self.config.optional_count("head_dim")? {
            self.put_head_width(width)?;
        }
        Ok(())
    }

    /// The width of a head's keys and values.
    ///
    /// # Errors
    /// When it was written before.
    pub fn put_head_width(&mut self, width: u32) -> Result<()> {
        self.put("attention.key_length", width)?;
        self.put("attention.value_length", width)
    }

    /// The width of a head: the configuration's, else its share of `hidden_size`.
    ///
    /// # Errors
    /// When that is no whole number.
    pub fn head_width(&self) -> Result<u32> {
        let config = self.config;
        if let Some(width) = config.optional_count("head_dim")? {
            return Ok(width);
        }
        let (hidden_size, heads) = (config.count("hidden_size")?, config.count("num_attention_heads")?);
        if !hidden_size.is_multiple_of(heads) {
            let expected = format!("a divisor of hidden_size, {hidden_size}");
            return Err(config.wrong("num_attention_heads", &expected, &heads.to_string()));
        }
        Ok(hidden_size / heads)
    }

    /// What is added in RMS norms.
    ///
    /// # Errors
    /// When it is missing.
    pub fn rms_epsilon(&mut self) -> Result<()> {
        let epsilon = self.config.number("rms_norm_eps")?;
        self.put("attention.layer_norm_rms_epsilon", epsilon as f32)
    }

    /// How large the vocabulary is, and how many values of a head are rotated: what llama and those like it have besides.
    ///
    /// # Errors
    /// When there is no positive number.
    pub fn llama_like(&mut self) -> Result<()> {
        self.put("vocab_size", self.config.count_of(&["vocab_size"])?)?;
        let width = self.head_width()?;
        self.put("rope.dimension_count", width)
    }

    /// Fails unless the MLP uses one of these functions; a configuration that names none has the family's.
    ///
    /// # Errors
    /// When it names another one.
    pub fn activation(&self, allowed: &[&str]) -> Result<()> {
        let (first, second) = ("hidden_activation", "hidden_act");
        // Where both are there, the first counts.
        let (key, name) = match (self.config.optional_text(first)?, self.config.optional_text(second)?) {
            (Some(name), _) => (first, name),
            (None, Some(name)) => (second, name),
            (None, None) => return Ok(()),
        };
        if allowed.contains(&name) { Ok(()) } else { Err(self.config.unsupported(key)) }
    }

    /// The window of attention, where there is one; 0 is written for none only where `always`.
    ///
    /// # Errors
    /// When it is no number of positions.
    pub fn window(&mut self, always: bool) -> Result<Option<u32>> {
        let window = self.config.optional_positions("sliding_window")?;
        if always || window.is_some() {
            self.put("attention.sliding_window", window.unwrap_or(0))?;
        }
        Ok(window)
    }

    /// Which layers have a window, where the configuration says so and it is not every layer but each `period`th, which goes
    /// without saying.
    ///
    /// # Errors
    /// When a layer is of another kind.
    pub fn windowed_layers(&mut self, period: usize) -> Result<()> {
        let layers = self.config.count("num_hidden_layers")?;
        let windowed = match self.config.layer_types(layers)? {
            Some(types) => self.are_windowed(&types)?,
            None => {
                let own = self.config.optional_count("sliding_window_pattern")?;
                let own = own.or(self.config.optional_count("_sliding_window_pattern")?);
                let period = own.map_or(period, |own| own as usize);
                (1..=layers as usize).map(|layer| !layer.is_multiple_of(period)).collect()
            }
        };
        let is_usual = windowed.iter().enumerate().all(|(index, &is)| is != (index + 1).is_multiple_of(period));
        if is_usual {
            Ok(())
        } else {
            self.put("attention.sliding_window_pattern", Value::Array(Array::Bool(windowed)))
        }
    }

    /// Which of these layers have a window.
    ///
    /// # Errors
    /// When a layer is of another kind than attention with or without a window.
    pub fn are_windowed(&self, types: &[&str]) -> Result<Vec<bool>> {
        let is_windowed = |kind: &&str| match *kind {
            "sliding_attention" => Ok(true),
            "full_attention" | "attention" => Ok(false),
            other => Err(self.config.unsupported_value("layer_types", other)),
        };
        types.iter().map(is_windowed).collect()
    }

    /// Fails where some layers have a window, or all.
    ///
    /// # Errors
    /// When the configuration says so.
    pub fn no_window(&self) -> Result<()> {
        let layers = self.config.count("num_hidden_layers")?;
        if self.config.flag("use_sliding_window", false)? {
            return Err(self.config.unsupported("use_sliding_window"));
        }
        // What follows has a meaning only where windows are used.
        self.config.get("sliding_window");
        self.config.get("max_window_layers");
        match self.config.layer_types(layers)? {
            Some(types) if self.are_windowed(&types)?.contains(&true) => Err(self.config.unsupported("layer_types")),
            _ => Ok(()),
        }
    }

    /// The experts: how many, and how many are used. Returns whether there are any.
    ///
    /// # Errors
    /// When a number makes no sense.
    pub fn experts(&mut self) -> Result<bool> {
        let config = self.config;
        let count = match config.get("num_local_experts").or_else(|| config.get("num_experts")) {
            Some(value) if value.as_u64() == Some(0) => None,
            Some(_) => Some(config.count_of(&["num_local_experts", "num_experts"])?),
            None => None,
        };
        let Some(count) = count else { return Ok(false) };
        self.put("expert_count", count)?;
        self.put("expert_used_count", config.count("num_experts_per_tok")?)?;
        Ok(true)
    }

    fn rope_of(&self, part: Option<&str>) -> Result<Rope<'a>> {
        let config = self.config;
        let value = config.get("rope_parameters").or_else(|| config.get("rope_scaling"));
        let object = |value: &'a Json| {
            value.as_object().ok_or_else(|| config.wrong("rope_parameters", "an object", &value.to_string()))
        };
        let values = value.map(object).transpose()?;
        let inner = part.and_then(|part| values?.get(part)).map(object).transpose()?;
        Ok(Rope { config, values: inner.or(values) })
    }

    /// The base of the rotary embedding's frequencies.
    ///
    /// # Errors
    /// When it is no number.
    pub fn rope_base(&self) -> Result<Option<f64>> {
        match self.rope_of(Some("full_attention"))?.number("rope_theta")? {
            Some(base) => Ok(Some(base)),
            None => self.config.optional_number("rope_theta"),
        }
    }

    /// How much of a head is rotated, 1 for all; `usual` where the configuration does not say.
    ///
    /// # Errors
    /// When it is no number in 0..=1.
    pub fn rotated_part(&self, usual: f64) -> Result<f64> {
        let key = "partial_rotary_factor";
        let own = self.config.optional_number(key)?.or(self.config.optional_number("rope_pct")?);
        let part = self.rope_of(Some("full_attention"))?.number(key)?.or(own).unwrap_or(usual);
        if part > 0.0 && part <= 1.0 { Ok(part) } else { Err(self.config.wrong(key, "a part of 1", &part.to_string())) }
    }

    /// The rotary embedding of layers without a window: its base, and how it is scaled. LongRoPE is [`Keys::long_rope`].
    ///
    /// # Errors
    /// When the scaling is one that this version does not have.
    pub fn rope(&mut self) -> Result<()> {
        let rope = self.rope_of(Some("full_attention"))?;
        let given = self.rope_base()?;
        if given.is_some() || self.usual_rope_base != ROPE_BASE {
            self.put("rope.freq_base", given.unwrap_or(self.usual_rope_base) as f32)?;
        }
        if let Some(local) = self.local_base()? {
            self.put("rope.freq_base_swa", local as f32)?;
        }
        match rope.kind() {
            "default" => Ok(()),
            "linear" => {
                self.put("rope.scaling.type", "linear")?;
                self.put("rope.scaling.factor", rope.required("factor")? as f32)
            }
            "yarn" => self.yarn(&rope),
            "llama3" => self.llama3(&rope),
            other => Err(self.config.unsupported_value("rope_scaling.rope_type", other)),
        }
    }

    /// The base of layers with a window, where it is a number of its own.
    fn local_base(&self) -> Result<Option<f64>> {
        let value = self.config.get("rope_parameters").and_then(|value| value.get("sliding_attention"));
        if let Some(rope) = value {
            let kind = rope.get("rope_type").and_then(Json::as_str).unwrap_or("default");
            if kind != "default" {
                return Err(self.config.unsupported_value("rope_parameters.sliding_attention.rope_type", kind));
            }
            let base = rope.get("rope_theta").filter(|base| !base.is_null());
            let key = "rope_parameters.sliding_attention.rope_theta";
            return base.map(|base| self.config.number_in(base, key)).transpose();
        }
        self.config.optional_number("rope_local_base_freq")
    }

    fn yarn(&mut self, rope: &Rope<'_>) -> Result<()> {
        self.put("rope.scaling.type", "yarn")?;
        self.put("rope.scaling.factor", rope.required("factor")? as f32)?;
        let own = self.config.optional_positions("original_max_position_embeddings")?;
        let original = match rope.number("original_max_position_embeddings")? {
            Some(original) => original as u32,
            None => own.map_or_else(|| self.context_length(), Ok)?,
        };
        self.put("rope.scaling.original_context_length", original)?;
        let factor = rope.number("attention_factor")?.or(rope.number("attn_factor")?);
        for (key, value) in [
            ("rope.scaling.yarn_ext_factor", rope.number("extrapolation_factor")?),
            ("rope.scaling.yarn_attn_factor", factor),
            ("rope.scaling.yarn_beta_fast", rope.number("beta_fast")?),
            ("rope.scaling.yarn_beta_slow", rope.number("beta_slow")?),
        ] {
            if let Some(value) = value {
                self.put(key, value as f32)?;
            }
        }
        // One of them alone counts for nothing; of both together what Ministral has is computed, see `yarn_of_ministral`.
        let (scale, of_all) = (rope.number("mscale")?, rope.number("mscale_all_dim")?);
        let is_ministral = rope.get("llama_4_scaling_beta").is_some();
        if let (Some(scale), Some(_)) = (scale, of_all)
            && !(is_ministral && scale == 1.0)
        {
            return Err(self.config.unsupported_value("rope_scaling.mscale", &scale.to_string()));
        }
        if rope.get("truncate").is_some_and(|truncate| truncate.as_bool() == Some(false)) {
            return Err(self.config.unsupported_value("rope_scaling.truncate", "false"));
        }
        Ok(())
    }

    /// What Ministral 3 adds to YaRN.
    ///
    /// # Errors
    /// When a number is missing.
    pub fn yarn_of_ministral(&mut self) -> Result<()> {
        let rope = self.rope_of(None)?;
        self.put("rope.scaling.yarn_log_multiplier", rope.required("mscale_all_dim")? as f32)?;
        self.put("attention.temperature_scale", rope.required("llama_4_scaling_beta")? as f32)
    }

    /// Llama 3's scaling as GGUF has it: a divisor for each frequency. Waves longer than the original context over `low` are
    /// divided by the factor, those shorter than it over `high` stay, between them the two are blended.
    fn llama3(&mut self, rope: &Rope<'_>) -> Result<()> {
        let base = self.rope_base()?.unwrap_or(self.usual_rope_base);
        let factor = rope.number("factor")?.unwrap_or(8.0);
        let low = rope.number("low_freq_factor")?.unwrap_or(1.0);
        let high = rope.number("high_freq_factor")?.unwrap_or(4.0);
        let original = rope.number("original_max_position_embeddings")?.unwrap_or(8192.0);
        if high <= low || factor <= 0.0 {
            return Err(self.config.unsupported_value("rope_scaling", "llama3 with factors that make no sense"));
        }
        let dims = self.head_width()?;
        let divisor = |pair: u32| {
            let frequency = base.powf(-f64::from(2 * pair) / f64::from(dims));
            let turns = original * frequency / (2.0 * std::f64::consts::PI);
            let kept = ((turns - low) / (high - low)).clamp(0.0, 1.0);
            (1.0 / (kept + (1.0 - kept) / factor)) as f32
        };
        self.numbers.push(("rope_freqs.weight", (0..dims / 2).map(divisor).collect()));
        Ok(())
    }

    /// LongRoPE as GGUF has it for Phi: the two lists as tensors, and what rotated values are multiplied by. Nothing is written
    /// for an unscaled embedding.
    ///
    /// # Errors
    /// When the scaling is another one, or a list has not one divisor for each of `dims / 2` pairs.
    pub fn long_rope(&mut self, dims: u32) -> Result<()> {
        let rope = self.rope_of(None)?;
        let own = self.config.optional_positions("original_max_position_embeddings")?;
        let original = match (rope.number("original_max_position_embeddings")?, own) {
            (_, Some(own)) => own,
            (Some(original), None) => original as u32,
            (None, None) => self.context_length()?,
        };
        self.put("rope.scaling.original_context_length", original)?;
        match rope.kind() {
            "default" => return Ok(()),
            "longrope" | "su" => {}
            other => return Err(self.config.unsupported_value("rope_scaling.rope_type", other)),
        }
        let length = f64::from(self.context_length()?);
        let growth = length / f64::from(original);
        let computed = if growth > 1.0 { (1.0 + growth.ln() / f64::from(original).ln()).sqrt() } else { 1.0 };
        let factor = rope.number("attention_factor")?.unwrap_or(computed);
        self.put("rope.scaling.attn_factor", factor as f32)?;
        for (key, name) in [("long_factor", "rope_factors_long.weight"), ("short_factor", "rope_factors_short.weight")]
        {
            let expected = format!("{} numbers, one for each rotated pair", dims / 2);
            let path = format!("rope_scaling.{key}");
            let list = rope.get(key).and_then(Json::as_array).filter(|list| list.len() == (dims / 2) as usize);
            let list = list.ok_or_else(|| self.config.wrong(&path, &expected, "something else"))?;
            let numbers: Vec<f32> = list
                .iter()
                .map(|value| self.config.number_in(value, &path).map(|value| value as f32))
                .collect::<Result<_>>()?;
            self.numbers.push((name, numbers));
        }
        Ok(())
    }

    /// Fails unless `query_pre_attn_scalar` is what readers of GGUF take it for, which does not carry it: the width of a head, or
    /// that of the stream over the heads where there are `wide_layers` layers.
    ///
    /// # Errors
    /// When it is another one.
    pub fn score_width(&self, head_width: u32, wide_layers: u32) -> Result<()> {
        let config = self.config;
        let key = "query_pre_attn_scalar";
        let expected = if config.count("num_hidden_layers")? == wide_layers {
            config.count("hidden_size")? / config.count("num_attention_heads")?
        } else {
            head_width
        };
        match config.optional_number(key)? {
            Some(width) if width != f64::from(expected) => Err(config.unsupported(key)),
            _ => Ok(()),
        }
    }
}
