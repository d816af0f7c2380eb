use std::cell::Cell;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;

use duan_measure::quality::{compare_rows, score_rows};

use super::*;

const CONTEXT: usize = 24;

fn fixture(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../backend/tests/fixtures").join(name).join("model.gguf")
}

fn options(model: &Path, folder: &Path) -> SensitivityOptions {
    let text = "the model and a text of it, again and again. ".repeat(12);
    SensitivityOptions {
        engine: EngineOptions { threads: Some(2), threads_prefill: Some(2), ..EngineOptions::default() },
        model: model.to_owned(),
        texts: vec![EvalText { label: "text".into(), text }],
        context: CONTEXT,
        windows: Some(2),
        keep: vec![KeepRule::parse("attn_output=q8_0").unwrap()],
        importance: None,
        file: None,
        cache_dir: folder.to_owned(),
        threads: 2,
    }
}

fn done(source: &Checkpoint, options: &SensitivityOptions) -> Measured {
    match measure(source, options, |_| {}).unwrap() {
        Outcome::Done(measured) => *measured,
        Outcome::Cancelled(_) => panic!("nobody cancelled it"),
    }
}

/// The divergence when the model is loaded with the matrices of one tensor perturbed, and reads the whole window.
fn by_loading(source: &Checkpoint, options: &SensitivityOptions, measured: &Measured, name: &str) -> f64 {
    let trials = Trials::new(source, &options.keep, Some(&measured.importance)).unwrap();
    let trial = trials.matrices().iter().find(|trial| trial.name == name).unwrap();
    let devices = Devices::open(&options.engine).unwrap();
    let scored = measured.sensitivities.with.scored;
    let logits = |is_perturbed: bool| {
        let mut engine = EngineOptions { context: Some(CONTEXT), ..options.engine.clone() };
        engine.logits_bytes = 1 << 30;
        let mut opening = Opening::of(source.clone(), &engine, &devices).unwrap();
        let tokens = windows(&opening, &trials, options).unwrap().remove(0);
        let weights = opening.model.weights.resident(|_| false).unwrap().with_matrices(|matrix| {
            if !is_perturbed || matrix.name() != name {
                return matrix;
            }
            let bytes = trials.perturbed(trial, &matrix, 1).unwrap();
            matrix.with_bytes(bytes.into())
        });
        opening.model.weights = Arc::new(weights);
        let mut running = opening.load(&engine, &devices, &mut |_| {}).unwrap();
        running.begin();
        running.pass(&tokens, scored).unwrap();
        running.executor.logits(scored).to_vec()
    };
    let (own, other) = (logits(false), logits(true));
    let [of_own, of_other] = [&own, &other].map(|logits| score_rows(logits, &vec![0; scored], 1).unwrap());
    let rows = compare_rows((&own, &of_own), (&other, &of_other), 1);
    rounded(rows.iter().map(|row| row.divergence).sum::<f64>() / rows.len() as f64)
}

/// That only what comes behind a matrix runs again, and in its place of the model, changes no bit. Tied tables, fused matrices, experts
/// and short convolutions.
#[test]
fn what_is_measured_is_what_a_model_with_that_matrix_does() {
    for (model, names) in [
        ("llama3", &["token_embd.weight", "blk.0.attn_k.weight", "blk.1.ffn_down.weight"][..]),
        ("phi3", &["blk.0.attn_qkv.weight", "blk.1.ffn_up.weight", "output.weight"]),
        ("granitemoe", &["blk.0.ffn_gate_exps.weight", "blk.1.ffn_up_exps.weight"]),
        ("lfm2", &["blk.0.shortconv.in_proj.weight", "blk.0.ffn_up.weight"]),
    ] {
        let folder = tempfile::tempdir().unwrap();
        let path = fixture(model);
        let source = Checkpoint::open(&path).unwrap();
        let options = options(&path, folder.path());
        let measured = done(&source, &options);
        assert!(!measured.sensitivities.tensors.keys().any(|name| name.contains("attn_output")), "{model}");
        for name in names {
            let Some(tensor) = measured.sensitivities.tensors.get(*name) else {
                panic!("{model} has no {name}: {:?}", measured.sensitivities.tensors.keys())
            };
            let expected = by_loading(&source, &options, &measured, name);
            assert!(tensor.divergences[0] == expected && expected > 0.0, "{model} {name}: {tensor:?}, {expected}");
        }
    }
}

#[test]
fn what_was_interrupted_goes_on_and_another_budget_measures_nothing() {
    let (folder, other) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    let path = fixture("llama3");
    let source = Checkpoint::open(&path).unwrap();
    let whole = done(&source, &options(&path, other.path()));
    let mut options = options(&path, folder.path());
    let mut kept = None;
    // Once while errors are summed up, and twice while divergences are measured.
    for (stage, after) in [(Stage::Errors, 3), (Stage::Divergences, 2), (Stage::Divergences, 9)] {
        options.engine.cancel = Arc::new(AtomicBool::new(false));
        let cancel = options.engine.cancel.clone();
        let (firsts, count) = (Cell::new(0), Cell::new(0));
        let outcome = measure(&source, &options, |event| {
            if let SensitivityEvent::Progress { stage: own, .. } = event {
                firsts.set(firsts.get() + usize::from(*own == Stage::Importance));
                count.set(count.get() + usize::from(*own == stage));
                if count.get() == after {
                    cancel.store(true, Ordering::Relaxed);
                }
            }
        });
        assert_eq!(firsts.get() == 0, kept.is_some(), "importance is gathered once");
        let Outcome::Cancelled(Some(file)) = outcome.unwrap() else { panic!("it was cancelled") };
        kept = Some(file);
    }
    options.engine.cancel = Arc::default();
    let rest = done(&source, &options);
    assert_eq!(rest.sensitivities, whole.sensitivities);
    assert_eq!(Some(&rest.file), kept.as_ref());
    assert_eq!(
        whole.steps,
        rest.steps + 3 + 2 + 9 + windows_of_importance(&whole) + left_errors(&whole, 3),
        "{rest:?}"
    );
    assert_eq!(done(&source, &options).steps, 0);

    // In the cache a damaged file is told of and made anew; one that was named is an error, as is that of another text.
    std::fs::write(&rest.file, "{").unwrap();
    let mut warnings = Vec::new();
    let outcome = measure(&source, &options, |event| {
        if let SensitivityEvent::Warning { message } = event {
            warnings.push(message.to_string());
        }
    });
    assert!(matches!(outcome.unwrap(), Outcome::Done(again) if again.sensitivities == whole.sensitivities));
    assert!(warnings.iter().any(|warning| warning.starts_with("measuring anew: ")), "{warnings:?}");
    options.file = Some(rest.file.clone());
    assert_eq!(done(&source, &options).steps, 0, "a name of one's own for the same");
    options.texts[0].text.push('x');
    let error = measure(&source, &options, |_| {}).unwrap_err().to_string();
    assert!(error.contains("was measured with another text"), "{error}");
    std::fs::write(&rest.file, "{").unwrap();
    let error = measure(&source, &options, |_| {}).unwrap_err().to_string();
    assert!(error.contains("this holds no sensitivities") && !error.contains('\n'), "{error}");
}

fn windows_of_importance(whole: &Measured) -> usize {
    whole.importance.chunk_count() as usize
}

/// Matrices whose errors were summed up in the second run, after `first` in the first one.
fn left_errors(whole: &Measured, first: usize) -> usize {
    whole.sensitivities.tensors.len() - first
}
