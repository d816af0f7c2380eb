//! What the keys say that most families have, under the names of the GGUF format document.

use duan_model::checkpoint::Checkpoint;
use duan_model::config::ModelConfig;
use duan_model::gguf::{Array, Value};

use super::{
    AttentionFacts, ConfigFacts, ConfigSource, ExpertsFacts, MlpFacts, NormFacts, RopeFacts, RopeScalingFacts,
};

/// More layers than any model has; what a damaged key may ask for is not listed.
const MOST_LAYERS: usize = 1 << 10;

/// The keys of one family's file.
struct Keys<'f> {
    file: &'f Checkpoint,
    prefix: &'f str,
}

impl<'f> Keys<'f> {
    fn of(file: &'f Checkpoint) -> Self {
        Self { file, prefix: file.metadata().string("general.architecture").ok().flatten().unwrap_or_default() }
    }

    fn value(&self, key: &str) -> Option<&'f Value> {
        self.file.metadata().get(&format!("{}.{key}", self.prefix))
    }

    /// A number that is not 0.
    fn count(&self, key: &str) -> Option<usize> {
        let number = self.value(key)?.as_integer()?;
        usize::try_from(number).ok().filter(|&number| number > 0)
    }

    /// The number of each layer: one for all, or one for each.
    fn counts(&self, key: &str, layers: usize) -> Option<Vec<usize>> {
        if let Some(count) = self.count(key) {
            return Some(vec![count; layers]);
        }
        let Some(Value::Array(array)) = self.value(key) else { return None };
        let counts: Vec<usize> = array.integers()?.map(|number| usize::try_from(number).unwrap_or(0)).collect();
        (counts.len() == layers).then_some(counts)
    }

    fn number(&self, key: &str) -> Option<f32> {
        let key = format!("{}.{key}", self.prefix);
        self.file.metadata().f32(&key).ok().flatten().filter(|number| number.is_finite())
    }

    fn text(&self, key: &str) -> Option<&'f str> {
        match self.value(key) {
            Some(Value::String(text)) => Some(text),
            _ => None,
        }
    }

    /// The layers that see a window only, as far as the keys say.
    fn windows(&self, layers: usize) -> Vec<Option<usize>> {
        let window = self.count("attention.sliding_window");
        let key = "attention.sliding_window_pattern";
        let pattern = match (self.value(key), self.count(key)) {
            (Some(Value::Array(Array::Bool(pattern))), _) if pattern.len() == layers => pattern.clone(),
            (_, Some(period)) => (1..=layers).map(|layer| !layer.is_multiple_of(period)).collect(),
            // Which layers have it is a rule of the family, which the keys do not tell.
            _ => vec![false; layers],
        };
        pattern.into_iter().map(|has_window| window.filter(|_| has_window)).collect()
    }
}

/// Positions the model was trained for before its context was stretched, where that is less than its context.
pub(super) fn original_context(file: &Checkpoint, config: &ModelConfig) -> Option<usize> {
    let long = config.ropes.iter().find_map(|rope| rope.long.as_ref()).map(|long| long.above);
    let original = Keys::of(file).count("rope.scaling.original_context_length").or(long);
    original.filter(|&original| original < config.context_length)
}

/// The factor of a scaling, as the file gives it.
pub(super) fn scaling_factor(file: &Checkpoint) -> Option<f32> {
    Keys::of(file).number("rope.scaling.factor")
}

/// What the keys say of a family that is not known here, or whose file lacks what its family needs.
pub(super) fn of(file: &Checkpoint) -> ConfigFacts {
    let keys = Keys::of(file);
    let layers = keys.count("block_count");
    let listed = layers.filter(|&layers| layers <= MOST_LAYERS).unwrap_or(0);
    let (context_length, hidden_size) = (keys.count("context_length"), keys.count("embedding_length"));
    let table = file.tensor("token_embd.weight");
    let vocab_size = table.and_then(|table| usize::try_from(*table.dims.get(1)?).ok()).or(keys.count("vocab_size"));
    ConfigFacts {
        source: ConfigSource::Keys,
        context_length,
        original_context_length: keys
            .count("rope.scaling.original_context_length")
            .filter(|&original| context_length.is_some_and(|context| original < context)),
        vocab_size,
        hidden_size,
        layers,
        heads: keys.count("attention.head_count"),
        kv_heads: keys.count("attention.head_count_kv"),
        head_dim: keys.count("attention.key_length"),
        intermediate_size: keys.count("feed_forward_length"),
        tied_head: table.map(|_| file.tensor("output.weight").is_none()),
        attention: attention(&keys, listed, hidden_size),
        short_convs: Vec::new(),
        ropes: rope(&keys, listed).into_iter().collect(),
        unrotated_layers: Vec::new(),
        mlps: mlp(&keys, listed).into_iter().collect(),
        norm: norm(&keys),
        embedding_scale: keys.number("embedding_scale").unwrap_or(1.0),
        residual_scale: keys.number("residual_scale").unwrap_or(1.0),
        logit_scale: 1.0,
        logit_softcap: keys.number("final_logit_softcapping"),
    }
    .with_first_of_each()
}

fn attention(keys: &Keys<'_>, layers: usize, hidden_size: Option<usize>) -> Vec<AttentionFacts> {
    let Some(heads) = keys.counts("attention.head_count", layers) else { return Vec::new() };
    let kv_heads = keys.counts("attention.head_count_kv", layers).unwrap_or_else(|| heads.clone());
    let mut groups = Vec::new();
    for (layer, window) in keys.windows(layers).into_iter().enumerate() {
        let (heads, kv_heads) = (heads[layer], kv_heads[layer]);
        if heads == 0 || kv_heads == 0 {
            continue;
        }
        let fallback = hidden_size.filter(|size| size.is_multiple_of(heads)).map(|size| size / heads);
        let width = |key: &str| {
            let of_window = window.and_then(|_| keys.count(&format!("attention.{key}_swa")));
            of_window.or_else(|| keys.count(&format!("attention.{key}")))
        };
        let key_dim = width("key_length").or(fallback);
        let (Some(key_dim), Some(value_dim)) = (key_dim, width("value_length").or(key_dim)) else { continue };
        let facts = AttentionFacts {
            heads,
            kv_heads,
            key_dim,
            value_dim,
            window,
            qk_norm: None,
            fused_qkv: false,
            qkv_bias: false,
            output_bias: false,
            scale: None,
            softcap: keys.number("attn_logit_softcapping"),
            sinks: false,
            temperature: None,
            layers: Vec::new(),
        };
        super::group(&mut groups, facts, layer, |facts| &mut facts.layers);
    }
    groups
}

fn rope(keys: &Keys<'_>, layers: usize) -> Option<RopeFacts> {
    let kind = keys.text("rope.scaling.type").filter(|&kind| kind != "none");
    Some(RopeFacts {
        base: keys.number("rope.freq_base")?,
        dims: keys.count("rope.dimension_count"),
        head_dim: keys.count("attention.key_length"),
        pairing: None,
        scaling: kind.map(|kind| RopeScalingFacts {
            kind: kind.to_owned(),
            factor: keys.number("rope.scaling.factor"),
            long_list_above: None,
        }),
        magnitude: keys.number("rope.scaling.attn_factor").unwrap_or(1.0),
        layers: (0..layers).collect(),
    })
}

fn mlp(keys: &Keys<'_>, layers: usize) -> Option<MlpFacts> {
    let experts = keys.count("expert_count").map(|experts| ExpertsFacts {
        experts,
        used: keys.count("expert_used_count").unwrap_or(0),
        normalize: None,
        shared_intermediate_size: keys.count("expert_shared_feed_forward_length"),
    });
    let own = experts.and_then(|_| keys.count("expert_feed_forward_length"));
    Some(MlpFacts {
        intermediate_size: own.or_else(|| keys.count("feed_forward_length"))?,
        activation: None,
        fused_gate: false,
        bias: false,
        experts,
        layers: (0..layers).collect(),
    })
}

fn norm(keys: &Keys<'_>) -> Option<NormFacts> {
    let rms = keys.number("attention.layer_norm_rms_epsilon").map(|epsilon| ("rms", epsilon));
    let (kind, epsilon) = rms.or_else(|| Some(("layer", keys.number("attention.layer_norm_epsilon")?)))?;
    Some(NormFacts { kind, epsilon, before: None, after: None, parallel: None })
}
