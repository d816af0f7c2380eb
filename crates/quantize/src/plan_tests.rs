//! Formats of small models, by mix, rule and recipe.

use super::*;
use crate::testing::{Made, model, random};

/// Two layers, 64 wide.
fn small(more: &[Made]) -> duan_model::gguf::GgufFile {
    let mut tensors = vec![random("token_embd.weight", &[64, 10], "F16"), random("output_norm.weight", &[64], "F32")];
    for layer in 0..2 {
        let name = |part: &str| format!("blk.{layer}.{part}.weight");
        tensors.push(random(&name("attn_norm"), &[64], "F32"));
        tensors.push(random(&name("attn_v"), &[64, 16], "F16"));
        tensors.push(random(&name("ffn_down"), &[33, 64], "F16"));
        tensors.push(random(&name("ffn_gate_inp"), &[64, 4], "F32"));
        tensors.push(random(&name("ffn_up_exps"), &[64, 32, 4], "F16"));
    }
    tensors.extend_from_slice(more);
    model(&tensors)
}

fn plan_of(source: &dyn Source, mix: &str, keep: &[&str]) -> Result<Plan> {
    let keep: Vec<KeepRule> = keep.iter().map(|text| KeepRule::parse(text).unwrap()).collect();
    let choice = Choice::Mix(Mix::by_name(mix).unwrap());
    Plan::new(source, &PlanOptions { choice, keep: &keep, has_importance: false })
}

fn format_of(plan: &Plan, name: &str) -> &'static str {
    plan.tensors.iter().find(|tensor| tensor.source.name == name).unwrap().format().unwrap().name
}

#[test]
fn a_tied_embedding_has_eight_bits_and_vectors_and_routers_stay() {
    let plan = plan_of(&small(&[]), "q4_0", &[]).unwrap();
    assert_eq!((&*plan.format, plan.file_type), ("Q4_0", Some(2)));
    for (name, format) in [
        ("token_embd.weight", "Q8_0"),
        ("output_norm.weight", "F32"),
        ("blk.0.attn_v.weight", "Q4_0"),
        ("blk.0.ffn_down.weight", "F16"),
        ("blk.1.ffn_gate_inp.weight", "F32"),
        ("blk.1.ffn_up_exps.weight", "Q4_0"),
    ] {
        assert_eq!(format_of(&plan, name), format, "{name}");
    }
    let down = plan.tensors.iter().find(|tensor| tensor.source.name == "blk.0.ffn_down.weight").unwrap();
    assert_eq!((down.target, down.fallback_from.unwrap().name), (Target::Copy, "Q4_0"), "F16 already");
    assert_eq!(plan.bytes(), plan.tensors.iter().map(|tensor| tensor.bytes).sum::<u64>());
}

#[test]
fn a_head_of_its_own_keeps_six_bits_and_frees_the_embedding() {
    let plan = plan_of(&small(&[random("output.weight", &[64, 10], "F16")]), "q4_0", &[]).unwrap();
    // Rows of 64 do not divide into the blocks of Q6_K.
    assert_eq!([format_of(&plan, "output.weight"), format_of(&plan, "token_embd.weight")], ["Q8_0", "Q4_0"]);
    let plan = plan_of(&small(&[]), "q4_0", &["token_embd=q4_1"]).unwrap();
    assert_eq!(format_of(&plan, "token_embd.weight"), "Q4_1", "where asked for");
}

#[test]
fn rules_come_before_the_mix_and_must_match() {
    let source = small(&[]);
    let plan = plan_of(&source, "q4_0", &["blk.0\\.=f16", "attn_.*=q8_0"]).unwrap();
    assert_eq!(format_of(&plan, "blk.0.attn_v.weight"), "F16");
    assert_eq!(format_of(&plan, "blk.0.attn_norm.weight"), "F32", "no rule is for vectors");
    assert_eq!(format_of(&plan, "blk.1.attn_v.weight"), "Q8_0");
    assert_eq!(plan.tensors[3].reason, Reason::Keep("blk.0\\.=f16".to_owned()));
    let error = plan_of(&source, "q4_0", &["attn_norm=f16"]).unwrap_err().to_string();
    assert!(error.starts_with("--keep attn_norm=f16: it matches no tensor that can be quantized"), "{error}");
    let error = plan_of(&source, "q4_0", &["attn_v=iq1_s"]).unwrap_err().to_string();
    assert!(error.contains("choose one of"), "{error}");
}

#[test]
fn a_recipe_gives_the_same_plan_and_is_held_to_the_model() {
    let source = small(&[]);
    let plan = plan_of(&source, "q4_0", &["blk.1\\.=q5_1"]).unwrap();
    let recipe = plan.recipe();
    assert_eq!(recipe.tensors.len(), 7);
    let by_recipe = |recipe: &Recipe, keep: &[KeepRule]| {
        Plan::new(&source, &PlanOptions { choice: Choice::Recipe(recipe), keep, has_importance: false })
    };
    let again = by_recipe(&recipe, &[]).unwrap();
    assert_eq!((&*again.format, again.file_type), ("Q4_0", Some(2)));
    for (one, other) in plan.tensors.iter().zip(&again.tensors) {
        assert_eq!((one.target, one.bytes), (other.target, other.bytes), "{}", one.source.name);
    }
    let mut short = recipe.clone();
    let (lost, _) = short.tensors.remove(2);
    let error = by_recipe(&short, &[]).unwrap_err().to_string();
    assert!(error.contains(&format!("no line for tensor `{lost}` of made.gguf")), "{error}");
    let rule = KeepRule::parse("blk=q8_0").unwrap();
    assert!(by_recipe(&short, &[rule]).is_ok(), "a rule takes its place");
    let mut strange = recipe;
    strange.tensors.push(("blk.7.attn_v.weight".to_owned(), duan_quant::format_by_name("F16").unwrap()));
    let error = by_recipe(&strange, &[]).unwrap_err().to_string();
    assert!(error.contains("tensor `blk.7.attn_v.weight` is no matrix of made.gguf"), "{error}");
}

#[test]
fn what_cannot_be_quantized_is_said() {
    let error = plan_of(&model(&[random("a_norm.weight", &[64], "F32")]), "q8_0", &[]).unwrap_err().to_string();
    assert!(error.contains("there are no matrices in it"), "{error}");
    let strange = ("blk.0.attn_q.weight".to_owned(), vec![128, 2], 41, vec![0; 36]);
    let error = plan_of(&model(&[strange]), "q8_0", &[]).unwrap_err().to_string();
    assert!(error.contains("tensor `blk.0.attn_q.weight`") && error.contains("Q1_0"), "{error}");
    let plan = plan_of(&model(&[random("blk.0.attn_q.weight", &[64, 2], "Q4_0")]), "q8_0", &[]).unwrap();
    assert_eq!(plan.requantized_from().iter().map(|format| format.name).collect::<Vec<_>>(), ["Q4_0"]);
}
