//! Verdicts about machines that nobody has.

use super::super::SlowMount;
use super::*;

/// A healthy model on a healthy machine: everything fits.
fn healthy() -> Circumstances {
    let memory = MemoryNeeded {
        needed_bytes: 1_000,
        available_bytes: 5_000,
        context: Some(4096),
        largest_context: Some(8192),
        whole_context: Some(8192),
    };
    Circumstances {
        memory: Some(memory),
        fetch: Some((100, 101, "/cache".into())),
        packs: Some((800, 800, "/cache/packed".into())),
        ..Circumstances::default()
    }
}

fn slow_mount() -> SlowMount {
    SlowMount { point: "/mnt".into(), fs_type: "nfs4".to_owned(), is_network: true }
}

fn kinds(verdict: &Verdict) -> Vec<String> {
    let kind = |reason: &Reason| serde_json::to_value(reason).unwrap()["kind"].as_str().unwrap().to_owned();
    verdict.reasons.iter().map(kind).collect()
}

/// The answer, with the kinds of its reasons.
fn judged(known: &Circumstances) -> (CanRun, Vec<String>) {
    let verdict = Verdict::of(known);
    (verdict.answer, kinds(&verdict))
}

fn memory(needed_bytes: u64, largest: usize) -> MemoryNeeded {
    let healthy = healthy().memory.unwrap();
    MemoryNeeded { needed_bytes, largest_context: Some(largest), ..healthy }
}

#[test]
fn a_healthy_model_has_nothing_to_be_said() {
    assert_eq!(judged(&healthy()), (CanRun::Yes, vec![]));
    assert_eq!(judged(&Circumstances::default()), (CanRun::Yes, vec![]));
}

#[test]
fn each_stop_alone_is_a_no() {
    let problem = || "it is so".to_owned();
    for (stop, kind) in [
        (ReasonKind::Family { name: None }, "family"),
        (ReasonKind::Tensors { types: vec!["IQ2_KT".to_owned()], tensors: 3 }, "tensors"),
        (ReasonKind::Model { problem: problem() }, "model"),
        (ReasonKind::Operators { problem: problem() }, "operators"),
        (ReasonKind::Tokenizer { problem: problem() }, "tokenizer"),
        (ReasonKind::NoWeights { has_tokenizer: true }, "no_weights"),
    ] {
        let known = Circumstances { stops: vec![stop], ..healthy() };
        assert_eq!(judged(&known), (CanRun::No, vec![kind.to_owned()]));
    }
    let known = Circumstances { fetch: Some((102, 101, "/cache".into())), ..healthy() };
    assert_eq!(judged(&known), (CanRun::No, vec!["fetch_room".to_owned()]));
}

#[test]
fn memory_is_enough_to_the_byte() {
    let with = |needed: u64, largest: usize| Circumstances { memory: Some(memory(needed, largest)), ..healthy() };
    assert_eq!(judged(&with(5_000, 8192)), (CanRun::Yes, vec![]));
    assert_eq!(judged(&with(5_001, 0)), (CanRun::No, vec!["memory".to_owned()]));
    // A context of one token holds no answer.
    assert_eq!(judged(&with(5_001, 1)).0, CanRun::No);
}

#[test]
fn a_smaller_context_is_an_answer_unless_another_was_asked_for() {
    let known = Circumstances { memory: Some(memory(5_001, 1000)), ..healthy() };
    assert_eq!(judged(&known), (CanRun::YesBut, vec!["memory".to_owned()]));
    let asked = Circumstances { is_context_asked_for: true, ..known };
    assert_eq!(judged(&asked), (CanRun::No, vec!["memory".to_owned()]));
}

#[test]
fn each_thing_to_know_alone_is_a_yes_with_it() {
    let base = healthy();
    for (known, kind) in [
        (Circumstances { talks: Talks::Base, ..base.clone() }, "base"),
        (Circumstances { talks: Talks::BrokenTemplate, ..base.clone() }, "broken_template"),
        (Circumstances { talks: Talks::NoText("an adapter".to_owned()), ..base.clone() }, "no_text_model"),
        (Circumstances { slow_ops: 1, ..base.clone() }, "slow_operators"),
        (Circumstances { slow_formats: vec![("IQ1_S".to_owned(), 0.01)], ..base.clone() }, "slow_formats"),
        (Circumstances { mount: Some(slow_mount()), ..base.clone() }, "slow_mount"),
        (Circumstances { packs: Some((801, 800, "/cache".into())), ..base.clone() }, "pack_room"),
        (Circumstances { unwritable_cache: Some("/cache".into()), ..base.clone() }, "cache_not_writable"),
        (Circumstances { memory: Some(memory(1_000, 8191)), ..base.clone() }, "context"),
    ] {
        let verdict = Verdict::of(&known);
        assert_eq!((verdict.answer, kinds(&verdict), verdict.left_out), (CanRun::YesBut, vec![kind.to_owned()], 0));
        assert!(!verdict.reasons[0].is_blocking);
    }
    // A norm in an odd format costs nothing.
    let known = Circumstances { slow_formats: vec![("F64".to_owned(), 0.009)], ..base };
    assert_eq!(judged(&known), (CanRun::Yes, vec![]));
}

#[test]
fn slow_formats_are_named_with_their_share_of_all() {
    let slow_formats = vec![("IQ1_S".to_owned(), 0.5), ("IQ2_S".to_owned(), 0.25)];
    let verdict = Verdict::of(&Circumstances { slow_formats, ..healthy() });
    let kind = ReasonKind::SlowFormats { formats: vec!["IQ1_S".to_owned(), "IQ2_S".to_owned()], share: 0.75 };
    assert_eq!(verdict.reasons, [Reason { kind, is_blocking: false }]);
}

#[test]
fn three_reasons_are_told_the_most_important_first() {
    let known = Circumstances {
        memory: Some(memory(5_001, 1000)),
        talks: Talks::Base,
        slow_ops: 4,
        slow_formats: vec![("IQ1_S".to_owned(), 1.0)],
        mount: Some(slow_mount()),
        packs: Some((801, 800, "/cache".into())),
        unwritable_cache: Some("/cache".into()),
        ..Circumstances::default()
    };
    let verdict = Verdict::of(&known);
    assert_eq!(
        (verdict.answer, kinds(&verdict)),
        (CanRun::YesBut, ["memory", "base", "slow_operators"].map(String::from).into())
    );
    assert_eq!(verdict.left_out, 4);
    // With one less each time, the next ones follow.
    let next = Circumstances { memory: None, talks: Talks::Chat, slow_ops: 0, ..known.clone() };
    assert_eq!(judged(&next).1, ["slow_formats", "slow_mount", "cache_not_writable"]);
    let last = Circumstances { slow_formats: vec![], mount: None, memory: Some(memory(1, 9)), ..next };
    assert_eq!(judged(&last).1, ["cache_not_writable", "pack_room", "context"]);
    // What stops it stands alone.
    let stops = vec![ReasonKind::Family { name: None }, ReasonKind::NoWeights { has_tokenizer: false }];
    let stopped = Circumstances { stops, is_context_asked_for: true, ..known };
    assert_eq!(judged(&stopped), (CanRun::No, ["family", "no_weights", "memory"].map(String::from).into()));
}

#[test]
fn what_is_not_known_is_said_and_not_guessed() {
    let unknown = vec![Unknown::Kernels, Unknown::Operators, Unknown::Disk];
    let verdict = Verdict::of(&Circumstances { unknown: unknown.clone(), ..healthy() });
    assert_eq!((verdict.answer, &verdict.unknown), (CanRun::Yes, &unknown));
    // Of a model that is not here something is known by the catalogue, or nothing at all.
    let unknown = vec![Unknown::Model];
    assert_eq!(judged(&Circumstances { unknown: unknown.clone(), ..healthy() }).0, CanRun::Yes);
    assert_eq!(judged(&Circumstances { unknown, ..Circumstances::default() }).0, CanRun::NotKnown);
    assert_eq!(Verdict::of_nothing().answer, CanRun::NotKnown);
}

#[test]
fn json_says_the_kind_with_its_data_on_one_level() {
    let known = Circumstances { memory: Some(memory(5_001, 1000)), unknown: vec![Unknown::Disk], ..healthy() };
    let json = serde_json::to_value(Verdict::of(&known)).unwrap();
    assert_eq!(
        json,
        serde_json::json!({
            "answer": "yes_but",
            "reasons": [{
                "kind": "memory", "needed_bytes": 5_001, "available_bytes": 5_000, "context": 4096, "largest_context": 1000,
                "whole_context": 8192, "is_blocking": false,
            }],
            "left_out": 0,
            "unknown": ["disk"],
        })
    );
}
