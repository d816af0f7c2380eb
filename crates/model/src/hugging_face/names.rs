//! What tensors are called by Hugging Face, and in GGUF.

/// What becomes of a tensor of a family.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum To {
    /// It gets this name.
    Name(&'static str),
    /// It is one of several below each other in the tensor of this name: of experts, or of heads.
    Stack(&'static str),
    /// Its upper half gets the first name, its lower half the second: gate and up; of each expert, where there are several.
    Halves(&'static str, &'static str),
}

/// How the tensors of a family are translated.
#[derive(Debug, Clone, Copy)]
pub struct Tensors {
    /// Parts of names that mean something else than in most families, or that only this one has.
    pub own: &'static [(&'static str, To)],
    /// Whether the rows of queries and keys are ordered so that those that are rotated together are adjacent, as GGUF has them
    /// for llama and those like it. Hugging Face has them half a head apart.
    pub pairs: bool,
    /// Whether the weights of norms lack the 1 that GGUF has in them.
    pub norms_plus_one: bool,
}

/// Most families.
pub const PLAIN: Tensors = Tensors { own: &[], pairs: false, norms_plus_one: false };

use To::{Halves, Name, Stack};

/// The names of a layer's tensors, below `model.layers.N.`; a `*` stands for a number.
const LAYER: &[(&str, To)] = &[
    ("input_layernorm", Name("attn_norm")),
    ("self_attn.q_proj", Name("attn_q")),
    ("self_attn.k_proj", Name("attn_k")),
    ("self_attn.v_proj", Name("attn_v")),
    ("self_attn.o_proj", Name("attn_output")),
    ("self_attn.q_norm", Name("attn_q_norm")),
    ("self_attn.k_norm", Name("attn_k_norm")),
    ("post_attention_layernorm", Name("ffn_norm")),
    ("mlp.gate_proj", Name("ffn_gate")),
    ("mlp.up_proj", Name("ffn_up")),
    ("mlp.down_proj", Name("ffn_down")),
    ("mlp.gate", Name("ffn_gate_inp")),
    ("mlp.experts.*.gate_proj", Stack("ffn_gate_exps")),
    ("mlp.experts.*.up_proj", Stack("ffn_up_exps")),
    ("mlp.experts.*.down_proj", Stack("ffn_down_exps")),
    ("mlp.experts.gate_up_proj", Halves("ffn_gate_exps", "ffn_up_exps")),
    ("mlp.experts.down_proj", Name("ffn_down_exps")),
];

/// The names of tensors that are no layer's, below `model.`.
const OUTER: &[(&str, To)] =
    &[("embed_tokens", Name("token_embd")), ("norm", Name("output_norm")), ("lm_head", Name("output"))];

/// A tensor's name, taken apart.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Parts<'n> {
    /// The layer; `None` for those that are no layer's.
    pub(super) layer: Option<u32>,
    /// What is left of the name, with `*` for the number of an expert or a head.
    pub(super) part: String,
    /// That number.
    pub(super) number: Option<u32>,
    /// `weight`, `bias`, ...
    pub(super) kind: &'n str,
}

impl<'n> Parts<'n> {
    /// Takes a name apart. Those of models that read more than text have a prefix, those of models without a head none.
    pub(super) fn of(name: &'n str) -> Self {
        let (stem, kind) = match name.rsplit_once('.') {
            Some((stem, kind @ ("weight" | "bias"))) => (stem, kind),
            // The experts' tensors of newer checkpoints have no ending.
            _ => (name, "weight"),
        };
        let stem = stem.strip_prefix("model.").unwrap_or(stem);
        let stem = stem.strip_prefix("language_model.").unwrap_or(stem);
        let stem = stem.strip_prefix("model.").unwrap_or(stem);
        let layered = stem.strip_prefix("layers.").and_then(|rest| rest.split_once('.'));
        let numbered = layered.and_then(|(layer, part)| Some((plain_number(layer)?, part)));
        let (layer, part) = match numbered {
            Some((layer, part)) => (Some(layer), part),
            None => (None, stem),
        };
        let mut number = None;
        let pieces: Vec<&str> = part
            .split('.')
            .map(|piece| match plain_number(piece) {
                Some(found) if number.is_none() && layer.is_some() => {
                    number = Some(found);
                    "*"
                }
                _ => piece,
            })
            .collect();
        Self { layer, part: pieces.join("."), number, kind }
    }
}

/// A number as names have it: digits only, no more than six, no zero before others.
fn plain_number(text: &str) -> Option<u32> {
    let is_plain = !text.is_empty() && text.len() <= 6 && text.bytes().all(|byte| byte.is_ascii_digit());
    text.parse().ok().filter(|number: &u32| is_plain && number.to_string() == text)
}

impl Tensors {
    /// What becomes of the tensor of this name; `None` where GGUF has no place for it.
    pub(super) fn place(&self, parts: &Parts<'_>) -> Option<To> {
        let find = |names: &[(&str, To)]| names.iter().find(|name| name.0 == parts.part).map(|name| name.1);
        let common = if parts.layer.is_some() { LAYER } else { OUTER };
        let place = find(self.own).or_else(|| find(common))?;
        // Only what is stacked has numbers.
        let is_stacked = matches!(place, Stack(_));
        (is_stacked == parts.number.is_some()).then_some(place)
    }
}

/// Parts of names of tensors that no forward pass needs: what is computed anew, and the parts of models for images and sound.
const NOT_NEEDED: &[&str] = &["rotary_emb.inv_freq", ".attention.masked_bias", ".attention.bias", ".masked_bias"];
const NOT_TEXT: &[&str] = &[
    "vision_tower.",
    "vision_model.",
    "vision_encoder.",
    "multi_modal_projector.",
    "multimodal_projector.",
    "visual.",
    "audio_tower.",
    "patch_merger.",
    "image_newline",
];

/// Whether a tensor is computed anew wherever it is needed.
pub(super) fn is_not_needed(name: &str) -> bool {
    NOT_NEEDED.iter().any(|part| name.contains(part))
}

/// Whether a tensor is for images or sound.
pub(super) fn is_not_text(name: &str) -> bool {
    NOT_TEXT.iter().any(|part| name.contains(part))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parts(name: &str) -> (Option<u32>, String, Option<u32>, &str) {
        let Parts { layer, part, number, kind } = Parts::of(name);
        (layer, part, number, kind)
    }

    #[test]
    fn names_are_taken_apart() {
        for (name, layer, part, number, kind) in [
            ("model.layers.12.self_attn.q_proj.weight", Some(12), "self_attn.q_proj", None, "weight"),
            ("language_model.model.layers.3.mlp.up_proj.bias", Some(3), "mlp.up_proj", None, "bias"),
            ("model.language_model.layers.0.input_layernorm.weight", Some(0), "input_layernorm", None, "weight"),
            ("layers.1.mlp.experts.7.down_proj.weight", Some(1), "mlp.experts.*.down_proj", Some(7), "weight"),
            ("model.layers.1.mlp.experts.gate_up_proj", Some(1), "mlp.experts.gate_up_proj", None, "weight"),
            ("lm_head.weight", None, "lm_head", None, "weight"),
            ("language_model.lm_head.weight", None, "lm_head", None, "weight"),
            ("model.embed_tokens.weight", None, "embed_tokens", None, "weight"),
            ("norm.weight", None, "norm", None, "weight"),
            ("model.layers.01.mlp.gate.weight", None, "layers.01.mlp.gate", None, "weight"),
        ] {
            assert_eq!(parts(name), (layer, part.to_owned(), number, kind), "{name}");
        }
    }

    #[test]
    fn numbers_stand_only_where_tensors_are_stacked() {
        let place = |name: &str| PLAIN.place(&Parts::of(name));
        assert_eq!(place("model.layers.0.mlp.experts.3.up_proj.weight"), Some(Stack("ffn_up_exps")));
        assert_eq!(place("model.layers.0.mlp.3.up_proj.weight"), None);
        assert_eq!(place("model.layers.0.mlp.up_proj.weight"), Some(Name("ffn_up")));
        assert_eq!(place("model.lm_head.weight"), Some(Name("output")));
        assert_eq!(place("model.mlp.up_proj.weight"), None);
    }
}
