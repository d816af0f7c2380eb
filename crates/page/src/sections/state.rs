//! The machine and the model, with all that is known of them and what of it could not be read.

use serde::Serialize;
use serde_json::Value;

use crate::facts::{Group, groups, value_text};
use crate::page::Section;
use crate::test::Test;

#[derive(Serialize)]
struct View {
    model: Vec<(String, String)>,
    groups: Vec<Group>,
    not_readable: usize,
}

/// The section; none where nothing is known. `model` has names and values of the model and of how it ran.
pub(crate) fn section(model: Vec<(String, String)>, state: &Value) -> Option<Section> {
    let groups = groups(state);
    let not_readable = groups.iter().map(|group| group.not_readable).sum();
    let view = View { model, groups, not_readable };
    let is_there = !view.model.is_empty() || !view.groups.is_empty();
    is_there.then(|| Section::new("state", "State of model and machine", view, Vec::new()))
}

/// What a test says of its model.
pub(crate) fn model_of(test: &Test) -> Vec<(String, String)> {
    let number =
        |name: &str, value: Option<u64>| value.map(|value| value_text(name, &Value::from(value))).unwrap_or_default();
    let list = |list: &[String]| if list.is_empty() { "none".to_owned() } else { list.join("; ") };
    let all = [
        ("file", test.model_filename.clone()),
        (
            "SHA-256",
            match test.model_sha256.reason() {
                Some(reason) => format!("not readable: {reason}"),
                None => test.model_sha256.get().cloned().unwrap_or_default(),
            },
        ),
        ("kind", test.model_type.clone()),
        ("size of all tensors", number("model_size_bytes", test.model_size)),
        ("weights", number("model_n_params", test.model_n_params)),
        ("bits for each weight", test.bits_per_weight.map(|bits| format!("{bits:.2}")).unwrap_or_default()),
        ("positions of the context", number("n_ctx", test.n_ctx)),
        ("keys and values", [&*test.type_k, &*test.type_v].join(" and ")),
        ("most tokens of a pass", number("n_batch", test.n_batch)),
        ("backend", test.backends.clone()),
        ("instruction set", test.isa.clone().unwrap_or_default()),
        ("fallbacks", list(&test.fallbacks)),
        ("not fused", list(&test.no_fuse)),
        ("laid-out weights", test.packing.clone()),
        ("threads of prefill", number("threads", test.threads_prefill)),
        ("threads of decode", number("threads", test.threads_decode)),
        ("pinning", test.pinning.clone()),
        ("rounds that do not count", number("rounds", test.warm_ups)),
        ("pause before a round", test.pause_ms.map(|ms| format!("{ms} ms")).unwrap_or_default()),
        ("built", [&*test.build_commit, &*test.build_profile].join(" ")),
    ];
    all.into_iter().filter(|(_, value)| !value.is_empty()).map(|(name, value)| (name.to_owned(), value)).collect()
}
