//! How a model is built, in words.

use duan::FileFacts;
use duan::facts::{AttentionFacts, ConfigFacts, ConfigSource, MlpFacts, RopeFacts, RopeScalingFacts};

use super::rows::{Group, joined, shown};
use crate::output::units::{counted, grouped};

/// The group about the model.
pub(super) fn group(facts: &FileFacts) -> Group {
    let config = &facts.config;
    let mut group = Group::new("MODEL");
    group.maybe("family", facts.architecture.as_deref().map(|name| family(name, facts.is_family_supported)));
    if facts.tensor_count > 0 {
        group.row("weights", weights(facts));
    }
    group.maybe("context", context(config));
    let width = config.hidden_size.map(|size| format!("{} wide", grouped(size as u64)));
    group.maybe("layers", config.layers.map(|layers| joined([Some(grouped(layers as u64)), width])));
    group.rows("attention", attention(config));
    group.maybe("window", window(config));
    group.rows("short conv", short_convs(config));
    group.rows("RoPE", config.ropes.iter().map(|rope| self::rope(rope, config)));
    group.maybe("", unrotated(config));
    group.maybe("norms", norms(config));
    let name = if config.mlps.iter().any(|mlp| mlp.experts.is_some()) { "experts" } else { "MLP" };
    group.rows(name, config.mlps.iter().map(|mlp| self::mlp(mlp, config)));
    let head = |is_tied: bool| if is_tied { "the embedding table (tied)" } else { "a matrix of its own" };
    let head = config.tied_head.map(|is_tied| joined([Some(head(is_tied).to_owned()), capped(config.logit_softcap)]));
    group.maybe("output head", head);
    group.maybe("factors", factors(config));
    group
}

fn family(name: &str, is_supported: bool) -> String {
    if is_supported { shown(name) } else { format!("{}, which this version does not run", shown(name)) }
}

fn weights(facts: &FileFacts) -> String {
    let active = facts.active_weights.map(|active| format!("{} of them used for each token", grouped(active)));
    let bits = facts.bits_per_weight.map(|bits| format!("{bits:.2} bits each"));
    let written = facts.about.file_type.as_ref().map(|name| format!("written as {name}"));
    let tensors = format!("{} in {}", grouped(facts.weights), counted(facts.tensor_count, "tensor"));
    joined([Some(tensors), active, bits, written])
}

fn context(config: &ConfigFacts) -> Option<String> {
    let context = counted(config.context_length?, "token");
    let original =
        config.original_context_length.map(|original| format!("{} before RoPE was scaled", grouped(original as u64)));
    Some(joined([Some(context), original]))
}

/// " in 5 of 16 layers", where not all layers have it.
fn in_layers(layers: &[usize], config: &ConfigFacts) -> String {
    let all = config.layers.unwrap_or(0);
    if layers.len() == all || layers.is_empty() {
        return String::new();
    }
    format!(" in {} of {}", grouped(layers.len() as u64), counted(all, "layer"))
}

/// Kinds of attention that differ in more than their windows.
fn attention(config: &ConfigFacts) -> Vec<String> {
    let mut kinds: Vec<AttentionFacts> = Vec::new();
    for facts in &config.attention {
        let alike = |kind: &&mut AttentionFacts| {
            let mut same = facts.clone();
            same.window = kind.window;
            same.layers.clone_from(&kind.layers);
            same == **kind
        };
        match kinds.iter_mut().find(alike) {
            Some(kind) => kind.layers.extend(&facts.layers),
            None => kinds.push(facts.clone()),
        }
    }
    kinds.iter().map(|kind| attention_text(kind, config)).collect()
}

fn attention_text(facts: &AttentionFacts, config: &ConfigFacts) -> String {
    let heads = counted(facts.heads, "head");
    let kv =
        if facts.kv_heads == facts.heads { String::new() } else { format!(", {} for keys and values", facts.kv_heads) };
    let wide = format!("{} wide", facts.key_dim);
    let values = (facts.value_dim != facts.key_dim).then(|| format!("values {} wide", facts.value_dim));
    let biases = match (facts.qkv_bias, facts.output_bias) {
        (true, true) => Some("biases".to_owned()),
        (true, false) => Some("biases on queries, keys and values".to_owned()),
        (false, true) => Some("a bias on the output".to_owned()),
        (false, false) => None,
    };
    let softcap = facts.softcap.map(|cap| format!("scores capped at {cap}"));
    let sinks = facts.sinks.then(|| "a sink for each head".to_owned());
    let temperature = facts.temperature.map(|it| format!("queries grow every {} tokens", grouped(it.length as u64)));
    let heads = format!("{heads}{kv}, {wide}{}", in_layers(&facts.layers, config));
    joined([Some(heads), values, biases, softcap, sinks, temperature])
}

/// How many layers see a window only, where any does.
fn window(config: &ConfigFacts) -> Option<String> {
    let mut windows: Vec<(usize, usize)> = Vec::new();
    let (mut windowed, mut all) = (0, 0);
    for facts in &config.attention {
        all += facts.layers.len();
        let Some(width) = facts.window else { continue };
        windowed += facts.layers.len();
        match windows.iter_mut().find(|row| row.0 == width) {
            Some(row) => row.1 += facts.layers.len(),
            None => windows.push((width, facts.layers.len())),
        }
    }
    let list: Vec<String> = windows
        .iter()
        .map(|(width, layers)| format!("{} see the last {}", counted(*layers, "layer"), counted(*width, "token")))
        .collect();
    let others = (windowed < all).then(|| format!("{} the whole context", grouped((all - windowed) as u64)));
    (!list.is_empty()).then(|| joined(list.into_iter().map(Some).chain([others])))
}

fn short_convs(config: &ConfigFacts) -> Vec<String> {
    let text = |taps: usize, layers: &[usize]| {
        format!("each token with the {} before it{}", taps.saturating_sub(1), in_layers(layers, config))
    };
    config.short_convs.iter().map(|conv| text(conv.taps, &conv.layers)).collect()
}

fn rope(facts: &RopeFacts, config: &ConfigFacts) -> String {
    let base = if facts.base.fract() == 0.0 && facts.base < 1e15 {
        grouped(facts.base as u64)
    } else {
        facts.base.to_string()
    };
    let base = format!("base {base}{}", in_layers(&facts.layers, config));
    let dims = match (facts.dims, facts.head_dim) {
        (Some(dims), Some(head)) if dims < head => Some(format!("{dims} of {head} dimensions")),
        (Some(dims), _) => Some(format!("all {dims} dimensions")).filter(|_| facts.head_dim.is_some()),
        (None, _) => None,
    };
    let pairing = facts.pairing.map(|pairing| match pairing {
        "adjacent" => "in adjacent pairs".to_owned(),
        _ => "in split halves".to_owned(),
    });
    let magnitude = (facts.magnitude != 1.0).then(|| format!("magnitude × {}", short(facts.magnitude)));
    let dims = match (dims, pairing) {
        (Some(dims), Some(pairing)) => Some(format!("{dims} {pairing}")),
        (dims, pairing) => dims.or(pairing),
    };
    joined([Some(base), dims, facts.scaling.as_ref().map(scaling), magnitude])
}

fn scaling(facts: &RopeScalingFacts) -> String {
    let kind = match facts.kind.as_str() {
        "linear" => "linear scaling".to_owned(),
        "yarn" => "YaRN".to_owned(),
        "llama3" => "scaling as Llama 3".to_owned(),
        "longrope" => "LongRoPE".to_owned(),
        other => format!("scaling \"{}\"", shown(other)),
    };
    let factor = facts.factor.map(|factor| format!(" × {}", short(factor))).unwrap_or_default();
    let lists =
        facts.long_list_above.map(|above| format!(" (other frequencies for contexts above {})", grouped(above as u64)));
    kind + &factor + &lists.unwrap_or_default()
}

fn unrotated(config: &ConfigFacts) -> Option<String> {
    let layers = &config.unrotated_layers;
    (!layers.is_empty()).then(|| format!("no rotation{}", in_layers_or_all(layers, config)))
}

fn in_layers_or_all(layers: &[usize], config: &ConfigFacts) -> String {
    match in_layers(layers, config) {
        text if text.is_empty() => " in any layer".to_owned(),
        text => text,
    }
}

fn norms(config: &ConfigFacts) -> Option<String> {
    let norm = config.norm.as_ref()?;
    let kind = if norm.kind == "rms" { "RMS" } else { "layer norms" };
    let place = match (norm.before, norm.after) {
        (Some(true), Some(true)) => Some("before and after attention and MLP"),
        (Some(true), _) => Some("before attention and MLP"),
        (_, Some(true)) => Some("after attention and MLP"),
        _ => None,
    };
    let place = if config.short_convs.is_empty() {
        place.map(str::to_owned)
    } else {
        place.map(|place| place.replace("attention", "attention, convolution"))
    };
    let parallel = (norm.parallel == Some(true)).then(|| "attention and MLP side by side".to_owned());
    let qk = config.attention.iter().find_map(|attention| attention.qk_norm).map(|qk| match qk {
        "whole" => "on all queries and all keys".to_owned(),
        "own_per_head" => "on each head of queries and keys, each with its weight".to_owned(),
        _ => "on each head of queries and keys".to_owned(),
    });
    let epsilon = Some(format!("epsilon {:e}", norm.epsilon));
    Some(joined([Some(kind.to_owned()), place, qk, parallel, epsilon]))
}

fn mlp(facts: &MlpFacts, config: &ConfigFacts) -> String {
    let gate = facts.activation.map(|activation| match activation {
        "silu" => "gated by SiLU".to_owned(),
        _ => "gated by GELU".to_owned(),
    });
    let bias = facts.bias.then(|| "biases".to_owned());
    let wide = format!("{} wide", grouped(facts.intermediate_size as u64));
    let layers = in_layers(&facts.layers, config);
    let Some(experts) = facts.experts else { return joined([Some(wide + &layers), gate, bias]) };
    let used = (experts.used > 0).then(|| format!("{} used for each token", experts.used));
    let shared =
        experts.shared_intermediate_size.map(|width| format!("one more {} wide always used", grouped(width as u64)));
    joined([Some(format!("{}{layers}", experts.experts)), used, Some(wide), shared, gate, bias])
}

fn capped(cap: Option<f32>) -> Option<String> {
    cap.map(|cap| format!("logits capped at {cap}"))
}

/// Factors that most families do not have.
fn factors(config: &ConfigFacts) -> Option<String> {
    if config.source == ConfigSource::Keys {
        return None;
    }
    let factor = |name: &str, value: f32| (value != 1.0).then(|| format!("{name} × {}", short(value)));
    let text = joined([
        factor("embeddings", config.embedding_scale),
        factor("residuals", config.residual_scale),
        factor("logits", config.logit_scale),
    ]);
    (!text.is_empty()).then_some(text)
}

/// A factor with as many digits as mean something to people.
fn short(value: f32) -> String {
    let text = format!("{value:.3}");
    text.trim_end_matches('0').trim_end_matches('.').to_owned()
}
