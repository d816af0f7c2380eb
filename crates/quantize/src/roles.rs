//! What a tensor is for, by its name in GGUF, as far as its format depends on that.

/// What a matrix is for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Role {
    /// The head, a tensor of its own.
    Head,
    /// The embedding table, which is the head too.
    TiedEmbedding,
    /// The embedding table of a model with a head of its own.
    Embedding,
    /// A second table that every layer looks up in.
    LayerEmbedding,
    /// Queries.
    Query,
    /// Keys.
    Key,
    /// Values, also where queries and keys are in the same matrix: what is lost here goes straight to the output.
    Value,
    /// What follows attention.
    AttentionOutput,
    /// The MLP's way down.
    Down,
    /// Every other matrix.
    Other,
}

/// Part of a name, and what it means; the first match counts.
const ROLES: &[(&str, Role)] = &[
    ("attn_qkv.weight", Role::Value),
    ("attn_kv_b.weight", Role::Value),
    ("attn_v.weight", Role::Value),
    ("attn_k.weight", Role::Key),
    ("attn_q.weight", Role::Query),
    ("attn_output.weight", Role::AttentionOutput),
    ("ffn_down", Role::Down),
];

/// The role of the matrix called `name`; `is_tied` says whether the model has no head of its own.
pub(crate) fn role(name: &str, is_tied: bool) -> Role {
    match name {
        "output.weight" => Role::Head,
        "token_embd.weight" if is_tied => Role::TiedEmbedding,
        "token_embd.weight" => Role::Embedding,
        "per_layer_token_embd.weight" if is_tied => Role::LayerEmbedding,
        "per_layer_token_embd.weight" => Role::Embedding,
        _ => ROLES.iter().find(|row| name.contains(row.0)).map_or(Role::Other, |row| row.1),
    }
}

/// Parts of the names of tensors that stay as they are though they have two dims: routers, whose small errors send a token to
/// another expert, and tensors so small that nothing is gained.
const UNTOUCHED: &[&str] = &[
    "_norm.weight",
    "ffn_gate_inp.weight",
    "ffn_gate_tid2eid.weight",
    "altup",
    "laurel",
    "per_layer_model_proj",
    "ssm_conv1d",
    "shortconv.conv.weight",
    "time_mix_first.weight",
    "time_mix_w0.weight",
    "time_mix_w1.weight",
    "time_mix_w2.weight",
    "time_mix_v0.weight",
    "time_mix_v1.weight",
    "time_mix_v2.weight",
    "time_mix_a0.weight",
    "time_mix_a1.weight",
    "time_mix_a2.weight",
    "time_mix_g1.weight",
    "time_mix_g2.weight",
    "time_mix_decay_w1.weight",
    "time_mix_decay_w2.weight",
    "time_mix_lerp_fused.weight",
    "attn_rel_b.weight",
    "position_embd",
    "token_types.weight",
    "indexer.k_proj.weight",
    "indexer.q_proj.weight",
];

/// Whether the tensor is a matrix (or a stack of them) that formats are chosen for. Others are copied as they are.
pub(crate) fn is_matrix(name: &str, dims: &[u64]) -> bool {
    // Dims of 1 at the end are no dims: a vector may be written as a matrix of one row.
    let has_rows = dims.iter().skip(1).any(|&dim| dim > 1);
    has_rows && name.ends_with("weight") && !UNTOUCHED.iter().any(|part| name.contains(part))
}

/// The layer in a name that begins with `blk.N.`, or has `layers.N.` in it, as the names of folders.
pub(crate) fn layer(name: &str) -> Option<u32> {
    let rest = name.strip_prefix("blk.").or_else(|| Some(name.split_once("layers.")?.1))?;
    rest.split_once('.')?.0.parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_say_what_a_tensor_is_for() {
        assert_eq!(role("output.weight", false), Role::Head);
        assert_eq!(role("token_embd.weight", true), Role::TiedEmbedding);
        assert_eq!(role("token_embd.weight", false), Role::Embedding);
        assert_eq!(role("blk.3.attn_qkv.weight", false), Role::Value);
        assert_eq!(role("blk.3.attn_k.weight", true), Role::Key);
        assert_eq!(role("blk.3.ffn_down_exps.weight", true), Role::Down);
        assert_eq!(role("blk.3.ffn_up.weight", true), Role::Other);
        assert_eq!([layer("blk.12.ffn_up.weight"), layer("blk.x.y"), layer("output.weight")], [Some(12), None, None]);
        assert_eq!([layer("model.layers.3.mlp.up_proj.weight"), layer("model.layers.norm")], [Some(3), None]);
    }

    #[test]
    fn vectors_norms_and_routers_are_no_matrices() {
        assert!(is_matrix("blk.0.attn_q.weight", &[64, 64]));
        assert!(is_matrix("blk.0.ffn_up_exps.weight", &[64, 32, 4]));
        for (name, dims) in [
            ("output_norm.weight", &[64][..]),
            ("blk.0.attn_q.bias", &[64, 2]),
            ("blk.0.attn_q.weight", &[64, 1]),
            ("blk.0.attn_q_norm.weight", &[64, 4]),
            ("blk.0.ffn_gate_inp.weight", &[64, 8]),
            ("blk.0.shortconv.conv.weight", &[3, 64]),
        ] {
            assert!(!is_matrix(name, dims), "{name}");
        }
    }
}
