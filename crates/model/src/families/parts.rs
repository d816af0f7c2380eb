//! The parts that most families share, filled from the keys and tensors that exist.

use super::ConfigReader;
use crate::config::{
    ActivationFunction, AttentionConfig, ExpertsConfig, LayerConfig, Mixer, Mlp, MlpConfig, ModelConfig, NormConfig,
    NormKind, QkNorm, RopeConfig, RopeStyle,
};
use crate::error::{Error, Result};

impl ConfigReader<'_> {
    /// A model of these layers: RMS norms, embeddings and logits as they are, everything else as the file says.
    ///
    /// # Errors
    /// When a key is missing, of another type or makes no sense.
    pub fn model(&self, ropes: Vec<RopeConfig>, layers: Vec<LayerConfig>) -> Result<ModelConfig> {
        self.model_with(self.norm(NormKind::Rms)?, ropes, layers)
    }

    /// [`ConfigReader::model`] with other norms.
    ///
    /// # Errors
    /// As there.
    pub fn model_with(
        &self,
        norm: NormConfig,
        ropes: Vec<RopeConfig>,
        layers: Vec<LayerConfig>,
    ) -> Result<ModelConfig> {
        let hidden_size = self.hidden_size()?;
        Ok(ModelConfig {
            family: self.prefix,
            name: self.name()?,
            vocab_size: self.vocab_size(hidden_size)?,
            hidden_size,
            context_length: self.context_length()?,
            embedding_scale: 1.0,
            norm,
            ropes,
            layers,
            final_norm: "output_norm",
            tied_head: !self.has("output.weight"),
            logit_scale: 1.0,
            logit_softcap: self.optional_factor("final_logit_softcapping")?,
        })
    }

    /// A model whose layers all have this attention and this MLP.
    ///
    /// # Errors
    /// As [`ConfigReader::model`] and [`ConfigReader::rope`].
    pub fn uniform(&self, style: RopeStyle, attention: AttentionConfig, mlp: Mlp) -> Result<ModelConfig> {
        let rope = self.rope(style, attention.key_dim)?;
        let layer = LayerConfig::new(Mixer::Attention(attention), mlp);
        self.model(vec![rope], vec![layer; self.layers()?])
    }

    /// Width of the residual stream.
    ///
    /// # Errors
    /// When the key is missing or makes no sense.
    pub fn hidden_size(&self) -> Result<usize> {
        self.count("embedding_length")
    }

    /// Norms of a kind, with the file's epsilon.
    ///
    /// # Errors
    /// When the key is missing or makes no sense.
    pub fn norm(&self, kind: NormKind) -> Result<NormConfig> {
        let key = match kind {
            NormKind::Rms => "attention.layer_norm_rms_epsilon",
            NormKind::Layer => "attention.layer_norm_epsilon",
        };
        Ok(NormConfig { kind, epsilon: self.positive(key)? })
    }

    /// The attention of a layer as its keys and tensors say: rotated by the first rotary embedding, without a window,
    /// scores over the root of the key's width.
    ///
    /// # Errors
    /// When a key is missing, of another type or makes no sense.
    pub fn attention(&self, layer: usize) -> Result<AttentionConfig> {
        let heads = self.count("attention.head_count")?;
        let kv_heads = self.optional_count("attention.head_count_kv")?.unwrap_or(heads);
        self.attention_of(layer, heads, kv_heads)
    }

    /// [`ConfigReader::attention`] of a layer that has so many heads.
    ///
    /// # Errors
    /// As there.
    pub fn attention_of(&self, layer: usize, heads: usize, kv_heads: usize) -> Result<AttentionConfig> {
        let (key_dim, value_dim) = self.head_dims(self.hidden_size()?, heads)?;
        let has = |part: &str| self.has(&format!("blk.{layer}.{part}"));
        Ok(AttentionConfig {
            heads,
            kv_heads,
            key_dim,
            value_dim,
            rope: Some(0),
            window: None,
            qk_norm: self.qk_norm(&format!("blk.{layer}.attn_q_norm.weight"), heads, key_dim)?,
            fused_qkv: has("attn_qkv.weight"),
            qkv_bias: has("attn_q.bias") || has("attn_qkv.bias"),
            output_bias: has("attn_output.bias"),
            scale: 1.0 / (key_dim as f32).sqrt(),
            softcap: None,
            sinks: has("attn_sinks.weight"),
            temperature: None,
        })
    }

    /// How queries and keys are normalized, from the shape of the queries' weight.
    fn qk_norm(&self, tensor: &str, heads: usize, key_dim: usize) -> Result<Option<QkNorm>> {
        let Some(info) = self.file.tensor(tensor) else { return Ok(None) };
        let (heads, key_dim) = (heads as u64, key_dim as u64);
        match info.dims[..] {
            [width] if width == key_dim => Ok(Some(QkNorm::PerHead)),
            [width, rows] if width == key_dim && rows == heads => Ok(Some(QkNorm::OwnPerHead)),
            [width] if width == heads * key_dim => Ok(Some(QkNorm::Whole)),
            _ => {
                let expected = format!("[{key_dim}], [{key_dim}, {heads}] or [{}]", heads * key_dim);
                Err(Error::tensor(self.file.label(), tensor, expected, format!("{:?}", info.dims)))
            }
        }
    }

    /// The one gated MLP of every layer.
    ///
    /// # Errors
    /// When a key is missing, or the file says that it has experts.
    pub fn gated(&self, activation: ActivationFunction) -> Result<Mlp> {
        let experts = self.expert_count()?;
        if experts > 0 {
            return Err(Error::unsupported(
                self.file.label(),
                format!("a mixture of {experts} experts, which this version does not run for this family"),
                "use a dense model",
            ));
        }
        let has = |part: &str| self.has(&format!("blk.0.{part}"));
        Ok(Mlp::Gated(MlpConfig {
            intermediate_size: self.count("feed_forward_length")?,
            activation,
            fused_gate: !has("ffn_gate.weight") && has("ffn_up.weight"),
            bias: has("ffn_up.bias"),
        }))
    }

    /// The mixture of experts of every layer; `normalize` makes the weights of the chosen add up to 1.
    ///
    /// # Errors
    /// When a key is missing or makes no sense.
    pub fn experts(&self, activation: ActivationFunction, normalize: bool) -> Result<Mlp> {
        self.check_expert_layout()?;
        // Files of models without such an expert may say that it is 0 wide.
        let has_shared = self.has("blk.0.ffn_up_shexp.weight");
        let shared = has_shared.then(|| self.count("expert_shared_feed_forward_length")).transpose()?;
        let own_width = self.optional_count("expert_feed_forward_length")?;
        Ok(Mlp::Experts(ExpertsConfig {
            experts: self.count("expert_count")?,
            used: self.count("expert_used_count")?,
            intermediate_size: own_width.map_or_else(|| self.count("feed_forward_length"), Ok)?,
            activation,
            normalize,
            shared: shared.map(|width| MlpConfig::new(width, activation)),
        }))
    }

    /// What the file says that it has: one gated MLP, or experts whose weights add up to 1.
    ///
    /// # Errors
    /// As [`ConfigReader::gated`] and [`ConfigReader::experts`].
    pub fn gated_or_experts(&self, activation: ActivationFunction) -> Result<Mlp> {
        if self.expert_count()? > 0 { self.experts(activation, true) } else { self.gated(activation) }
    }

    /// Tells files whose experts are laid out otherwise from files that lack something.
    fn check_expert_layout(&self) -> Result<()> {
        let unsupported = |what: &str, remedy: &str| {
            Err(Error::unsupported(
                self.file.label(),
                format!("experts {what}, which this version does not read"),
                remedy,
            ))
        };
        if self.has("blk.0.ffn_gate.0.weight") {
            let what = "in a tensor each (`blk.0.ffn_gate.0.weight`), as files of early 2024 have them";
            return unsupported(what, "get a newer file of the model, or convert it again");
        }
        if self.has("blk.0.ffn_gate_up_exps.weight") {
            let what = "whose gate and up matrices are one tensor (`blk.0.ffn_gate_up_exps.weight`)";
            return unsupported(what, "convert the model again without fusing them, or get another file");
        }
        Ok(())
    }

    fn expert_count(&self) -> Result<u32> {
        Ok(self.file.metadata().u32(&self.full("expert_count"))?.unwrap_or(0))
    }
}
