use std::sync::atomic::AtomicBool;

use super::*;
use crate::mixed::{CANDIDATES, MeasuredWith};
use crate::testing::{floats, model, random, values};
use duan_model::gguf::GgufFile;

/// Two layers with rows of 512 and of 96 weights, a table that is the head too, a vector, and a matrix that no block divides.
fn made() -> GgufFile {
    let mut tensors = vec![random("token_embd.weight", &[96, 64], "F32"), random("output_norm.weight", &[96], "F32")];
    for layer in 0..2 {
        tensors.push(random(&format!("blk.{layer}.attn_q.weight"), &[96, 96], "F32"));
        tensors.push(random(&format!("blk.{layer}.ffn_down.weight"), &[512, 96], "F32"));
    }
    tensors.push(random("blk.0.ffn_up.weight", &[33, 8], "F32"));
    model(&tensors)
}

/// Errors that are measured, and effects that are made up: those of the first layer are larger.
fn measured(source: &GgufFile, keep: &[KeepRule]) -> Sensitivities {
    let with = MeasuredWith {
        model: String::new(),
        text: String::new(),
        context: 4,
        windows: 2,
        scored: 2,
        probe: PROBE.to_owned(),
        importance: String::new(),
    };
    let trials = Trials::new(source, keep, None).unwrap();
    let mut sensitivities = Sensitivities::new(with);
    for trial in trials.matrices().iter().filter(|trial| trial.is_open()) {
        let errors = trials.errors(trial, 2, &AtomicBool::new(false)).unwrap().unwrap();
        let divergence = if trial.name.contains("blk.0") { 1e-2 } else { 1e-4 };
        let tensor = TensorSensitivity { divergences: vec![divergence, divergence * 3.0], errors };
        sensitivities.tensors.insert(trial.name.clone(), tensor);
    }
    sensitivities
}

fn formats(mixture: &Mixture) -> Vec<(&str, &str)> {
    mixture.recipe.tensors.iter().map(|(name, format)| (&**name, format.name)).collect()
}

/// The plan of a mixture, and the length of its file.
fn file_of(source: &GgufFile, keep: &[KeepRule], mixture: &Mixture) -> (Plan, u64) {
    let plan =
        Plan::new(source, &PlanOptions { choice: Choice::Measured(mixture), keep, has_importance: false }).unwrap();
    let bytes = foresee(source, &plan, None).unwrap().bytes;
    (plan, bytes)
}

#[test]
fn errors_are_those_of_the_formats_and_fewer_bits_lose_more() {
    let source = made();
    let sensitivities = measured(&source, &[]);
    let errors = &sensitivities.tensors["blk.1.ffn_down.weight"].errors;
    assert_eq!(errors.len(), CANDIDATES.len());
    let order = ["Q2_K", "Q3_K", "Q4_K", "Q5_K", "Q6_K", "Q8_0", "F16"].map(|name| errors[name]);
    assert!(order.windows(2).all(|pair| pair[1] < pair[0] * 0.5), "{order:?}");
    // Rows of 96 have blocks of 32; a table that is the head too at least 6 bits, and the probe beside.
    assert!(!sensitivities.tensors["blk.0.attn_q.weight"].errors.contains_key("Q4_K"));
    let table: Vec<&String> = sensitivities.tensors["token_embd.weight"].errors.keys().collect();
    assert_eq!(table, ["F16", "IQ4_NL", "Q5_1", "Q8_0"]);
    assert!(!sensitivities.tensors.contains_key("blk.0.ffn_up.weight"), "no block divides rows of 33");
    // As often as it is asked, by however many threads.
    let trials = Trials::new(&source, &[], None).unwrap();
    let trial = trials.matrices().iter().find(|trial| trial.name == "blk.1.ffn_down.weight").unwrap();
    let again = trials.errors(trial, 1, &AtomicBool::new(false)).unwrap().unwrap();
    assert_eq!(&again, errors);
    assert_eq!(trials.errors(trial, 1, &AtomicBool::new(true)).unwrap(), None);
}

#[test]
fn every_budget_is_kept_and_more_of_it_moves_the_output_less() {
    let source = made();
    let sensitivities = measured(&source, &[]);
    let choose = |budget| choose(&source, &[], None, &sensitivities, budget);
    let error = choose(Budget::FileBytes(10)).unwrap_err().to_string();
    assert!(error.contains("a file of 10 bytes is too small: the smallest possible has "), "{error}");
    let number = error.split("possible has ").nth(1).unwrap().split(' ').next().unwrap();
    let least: u64 = number.parse().unwrap();
    // The same is known before anything is measured.
    let early = |budget| check_budget(&source, &[], budget).unwrap_err().to_string();
    assert_eq!(early(Budget::FileBytes(10)), error);
    assert_eq!(early(Budget::FileBytes(least - 1)), choose(Budget::FileBytes(least - 1)).unwrap_err().to_string());
    check_budget(&source, &[], Budget::FileBytes(least)).unwrap();
    let mut before = f64::INFINITY;
    let mut seen = Vec::new();
    for step in 0..60 {
        let limit = least + step * 4001;
        let mixture = choose(Budget::FileBytes(limit)).unwrap();
        let (_, bytes) = file_of(&source, &[], &mixture);
        assert!(bytes <= limit, "{bytes} of {limit}");
        assert!(step > 0 || bytes == least, "{bytes} in place of {least}");
        // The search is not always the best, so that a little more budget may be used a little worse.
        assert!(mixture.divergence <= before * 1.02, "{} after {before}", mixture.divergence);
        before = mixture.divergence;
        seen.push(mixture.has_room);
    }
    assert!(!seen[0] && seen[59], "the largest budget has room for all");
    let bits = 5.25;
    let mixture = choose(Budget::BitsPerWeight(bits)).unwrap();
    let (plan, _) = file_of(&source, &[], &mixture);
    let found = plan.bytes() as f64 * 8.0 / plan.weights() as f64;
    assert!(found <= bits && found > bits - 0.6, "{found}");
    assert!(plan.tensors.iter().any(|tensor| tensor.reason == crate::Reason::Measured));
    // What matters more has more bits.
    let of = |name: &str| formats(&mixture).iter().find(|row| row.0 == name).map(|row| known(row.1).bits_per_weight());
    assert!(of("blk.0.ffn_down.weight") > of("blk.1.ffn_down.weight"), "{mixture:?}");
    assert_eq!(of("blk.0.ffn_up.weight"), Some(16.0));
    let error = choose(Budget::BitsPerWeight(1.5)).unwrap_err().to_string();
    assert!(error.starts_with("1.5 bits per weight are too few: the fewest possible are "), "{error}");
    assert_eq!(early(Budget::BitsPerWeight(1.5)), error);
    let fewest: f64 = error.split("possible are ").nth(1).unwrap().split(';').next().unwrap().parse().unwrap();
    assert!(choose(Budget::BitsPerWeight(fewest)).is_ok());
}

#[test]
fn rules_come_first_and_count() {
    let source = made();
    let keep = [KeepRule::parse("^token_embd=q4_0").unwrap(), KeepRule::parse("blk.1.*q.weight=f16").unwrap()];
    let sensitivities = measured(&source, &keep);
    assert!(!sensitivities.tensors.contains_key("token_embd.weight"), "what is kept is not measured");
    let limit = 80_000;
    let mixture = choose(&source, &keep, None, &sensitivities, Budget::FileBytes(limit)).unwrap();
    let (plan, bytes) = file_of(&source, &keep, &mixture);
    assert!(bytes <= limit && bytes > limit - 6000, "{bytes}");
    let format = |name: &str| plan.tensors.iter().find(|tensor| tensor.source.name == name).unwrap().format().unwrap();
    assert_eq!((format("token_embd.weight").name, format("blk.1.attn_q.weight").name), ("Q4_0", "F16"));
    // Without the rule the table was to be measured.
    let error = choose(&source, &[], None, &sensitivities, Budget::FileBytes(limit)).unwrap_err().to_string();
    assert!(error.starts_with("tensor `token_embd.weight` was not measured"), "{error}");
}

#[test]
fn the_recipe_gives_the_same_file() {
    let source = made();
    let sensitivities = measured(&source, &[]);
    let mixture = choose(&source, &[], None, &sensitivities, Budget::BitsPerWeight(6.0)).unwrap();
    let (plan, bytes) = file_of(&source, &[], &mixture);
    let recipe = Recipe::parse(plan.recipe().to_json().as_bytes(), "r").unwrap();
    let choice = Choice::Recipe(&recipe);
    let again = Plan::new(&source, &PlanOptions { choice, keep: &[], has_importance: false }).unwrap();
    assert_eq!((again.file_type, foresee(&source, &again, None).unwrap().bytes), (plan.file_type, bytes));
    assert!(plan.file_type.is_some() && crate::MIXES.iter().any(|mix| mix.name == plan.format), "{}", plan.format);
    assert_eq!((mix_of("Q4_K"), mix_of("IQ4_NL"), mix_of("Q2_K"), mix_of("F16")), ("Q4_K_M", "IQ4_NL", "Q2_K", "F16"));
}

#[test]
fn what_holds_no_number_is_named_and_what_a_format_cannot_hold_is_left_out() {
    let mut weights = values(512 * 64, 7);
    weights[1000] = 1e6;
    let source = model(&[floats("blk.0.attn_q.weight", &[512, 64], &weights)]);
    let sensitivities = measured(&source, &[]);
    let errors = &sensitivities.tensors["blk.0.attn_q.weight"].errors;
    assert!(!errors.contains_key("F16") && errors.contains_key("Q4_K"), "{errors:?}");
    choose(&source, &[], None, &sensitivities, Budget::BitsPerWeight(16.0)).unwrap();
    weights[1000] = f32::NAN;
    let source = model(&[floats("blk.0.attn_q.weight", &[512, 64], &weights)]);
    let trials = Trials::new(&source, &[], None).unwrap();
    let error = trials.errors(&trials.matrices()[0], 2, &AtomicBool::new(false)).unwrap_err().to_string();
    assert!(error.contains("tensor `blk.0.attn_q.weight`: weight 1000 (row 1, column 488) is NaN"), "{error}");
}
