//! Evaluations of tiny models: the figures, both ways of comparing, and what is refused.

use std::ops::ControlFlow;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::AtomicBool;

use duan::EngineOptions;
use duan::eval::{EvalEvent, EvalOptions, EvalText, Evaluation, evaluate};
use duan::model::gguf::GgufFile;
use duan::model::gguf::write::GgufWriter;
use tempfile::TempDir;

use crate::support::{engine, fixture, options};

const WINDOW: usize = 16;

/// Letters that the made-up vocabularies cut into many tokens.
fn text(label: &str, words: usize) -> EvalText {
    let text = (0..words).map(|index| ["the ", "and a ", "model ", "is it ", "of "][index * index % 5]).collect();
    EvalText { label: label.into(), text }
}

fn options_for(models: &[PathBuf], against: Option<&Path>, together: Option<bool>, folder: &TempDir) -> EvalOptions {
    EvalOptions {
        engine: options(),
        models: models.to_vec(),
        against: against.map(Path::to_owned),
        texts: vec![text("first", 60), text("second", 40)],
        context: WINDOW,
        windows: Some(3),
        bench: false,
        together,
        folder: folder.path().join("eval"),
    }
}

fn run(options: &EvalOptions) -> Evaluation {
    evaluate(options, |_| {}).unwrap().unwrap()
}

/// The same model with a little noise in its matrices, as from a coarse format.
fn noisy(name: &str, folder: &TempDir) -> PathBuf {
    let file = GgufFile::open(&fixture(name)).unwrap();
    let mut writer = GgufWriter::new(name);
    for (key, value) in file.metadata().iter() {
        writer.key(key, value.clone()).unwrap();
    }
    for tensor in file.tensors() {
        let mut bytes = file.tensor_data(tensor).unwrap().to_vec();
        if tensor.type_id == 0 && tensor.dims.len() == 2 {
            for (index, number) in bytes.chunks_exact_mut(4).enumerate() {
                let value = f32::from_le_bytes(number.try_into().unwrap());
                number.copy_from_slice(&(value * (1.0 + 0.2 * (index as f32).sin())).to_le_bytes());
            }
        }
        writer.tensor(&tensor.name, &tensor.dims, tensor.type_id, bytes).unwrap();
    }
    let path = folder.path().join("noisy.gguf");
    std::fs::write(&path, writer.to_bytes()).unwrap();
    path
}

#[test]
fn perplexity_is_that_of_the_logits() {
    let folder = tempfile::tempdir().unwrap();
    for name in ["smollm2", "gemma3", "lfm2"] {
        let path = fixture(name);
        let options = options_for(std::slice::from_ref(&path), None, None, &folder);
        let rows = run(&options).rows;
        assert_eq!(rows.len(), 2);
        for (row, text) in rows.iter().zip(&options.texts) {
            let mut engine = engine(&path, EngineOptions { context: Some(WINDOW), ..crate::support::options() });
            let tokenizer = engine.tokenizer().unwrap();
            let bos = tokenizer.bos().filter(|_| tokenizer.adds_bos());
            let mut tokens: Vec<u32> = bos.into_iter().collect();
            tokens.extend(tokenizer.encode(&text.text));
            let mut surprises = Vec::new();
            for window in tokens.chunks_exact(WINDOW).take(3) {
                let mut window = window.to_vec();
                window[0] = bos.unwrap_or(window[0]);
                let each = |position: usize, logits: &[f32]| {
                    if (WINDOW / 2..WINDOW - 1).contains(&position) {
                        let sum: f64 = logits.iter().map(|&logit| f64::from(logit).exp()).sum();
                        surprises.push(sum.ln() - f64::from(logits[window[position + 1] as usize]));
                    }
                    ControlFlow::Continue(())
                };
                engine.logits(&window, each).unwrap();
            }
            assert_eq!((row.tokens, row.windows, row.text.as_str()), (21, 3, &*text.label));
            let mean = surprises.iter().sum::<f64>() / 21.0;
            assert!((row.perplexity / mean.exp() - 1.0).abs() < 1e-9, "{name}: {} and {}", row.perplexity, mean.exp());
            let variance = surprises.iter().map(|surprise| (surprise - mean).powi(2)).sum::<f64>() / 21.0;
            let error = (variance / 20.0).sqrt() * mean.exp();
            assert!((row.perplexity_error / error - 1.0).abs() < 1e-9);
            assert!(row.kl_mean.is_none() && row.reference.is_none() && row.decode_ts.is_none());
        }
    }
}

#[test]
fn a_model_is_no_distance_from_itself() {
    let folder = tempfile::tempdir().unwrap();
    let path = fixture("smollm2");
    for (together, most) in [(true, 0.0), (false, 1e-6)] {
        let options = options_for(std::slice::from_ref(&path), Some(&path), Some(together), &folder);
        for row in run(&options).rows {
            assert!(row.kl_mean.unwrap() <= most && row.kl_p99.unwrap() <= most, "{row:?}");
            assert_eq!((row.top1_agreement, row.perplexity_ratio), (Some(1.0), Some(1.0)));
            assert_eq!(row.reference_perplexity, Some(row.perplexity));
        }
    }
}

#[test]
fn both_ways_of_comparing_find_the_same() {
    let folder = tempfile::tempdir().unwrap();
    let models = [noisy("smollm2", &folder), fixture("smollm2")];
    let reference = fixture("smollm2");
    let [together, kept] = [true, false].map(|together| {
        let options = options_for(&models, Some(&reference), Some(together), &folder);
        let mut bytes = None;
        let mut last = None;
        let found = evaluate(&options, |event| match event {
            EvalEvent::LogitsKept { bytes: kept } => bytes = Some(*kept),
            EvalEvent::Progress { done, all, .. } => last = Some((*done, *all)),
            _ => {}
        });
        assert_eq!(bytes.is_some(), !together);
        assert_eq!(last, Some((18, 18)), "three windows of two texts and three models");
        found.unwrap().unwrap()
    });
    assert_eq!(together.reference, kept.reference);
    assert_eq!(together.rows.len(), 4);
    for (a, b) in together.rows.iter().zip(&kept.rows) {
        let figures = [(a.kl_mean, b.kl_mean), (a.kl_median, b.kl_median), (a.kl_p99, b.kl_p99)];
        // Of steps of a 65,535th of the range of logits.
        let is_near = |(a, b): &(Option<f64>, Option<f64>)| (a.unwrap() - b.unwrap()).abs() <= 1e-4 * a.unwrap() + 1e-6;
        assert!(figures.iter().all(is_near), "{a:?}\n{b:?}");
        assert_eq!(
            (a.perplexity, a.perplexity_ratio, a.top1_agreement),
            (b.perplexity, b.perplexity_ratio, b.top1_agreement)
        );
        assert_eq!((&a.model, &a.text), (&b.model, &b.text));
    }
    let noisy = &together.rows[0];
    assert!(noisy.kl_mean.unwrap() > 1e-4 && noisy.kl_mean_error.unwrap() > 0.0, "{noisy:?}");
    assert!(noisy.perplexity_ratio_error.unwrap() > 0.0);
    let left = std::fs::read_dir(folder.path().join("eval")).unwrap().count();
    assert_eq!(left, 0, "the reference's logits are gone");
}

#[test]
fn decode_is_timed_where_that_is_asked_for() {
    let folder = tempfile::tempdir().unwrap();
    let path = fixture("smollm2");
    for together in [true, false] {
        let options = options_for(std::slice::from_ref(&path), Some(&path), Some(together), &folder);
        let found = run(&EvalOptions { bench: true, ..options });
        assert!(found.rows.iter().chain(&found.reference).all(|row| row.decode_ts.is_some_and(|rate| rate > 0.0)));
    }
}

#[test]
fn what_cannot_be_judged_is_told_in_a_line() {
    let folder = tempfile::tempdir().unwrap();
    let path = fixture("smollm2");
    let models = std::slice::from_ref(&path);
    let plain = || options_for(models, None, None, &folder);
    let error = |options: EvalOptions| evaluate(&options, |_| {}).unwrap_err().to_string();
    let message = error(EvalOptions { texts: vec![text("short.txt", 2)], ..plain() });
    assert!(message.contains("short.txt: the text has ") && message.contains("a window has 16"), "{message}");
    let message = error(options_for(models, Some(&fixture("llama3")), None, &folder));
    assert!(message.contains("different vocabularies ("), "{message}");
    assert!(error(EvalOptions { context: 3, ..plain() }).contains("at least 4 tokens"));
    assert!(error(EvalOptions { context: 1 << 20, ..plain() }).contains("context"));

    let read = |name: &str, bytes: Option<&[u8]>| {
        let path = folder.path().join(name);
        if let Some(bytes) = bytes {
            std::fs::write(&path, bytes).unwrap();
        }
        EvalText::read(&path).map_err(|error| error.to_string())
    };
    assert!(read("none.txt", None).unwrap_err().contains("none.txt: cannot read the text"));
    assert!(read("empty.txt", Some(b"")).unwrap_err().contains("empty.txt: the text is empty"));
    assert!(read("latin.txt", Some(b"caf\xe9")).unwrap_err().contains("UTF-8, found another byte at offset 3"));
    assert_eq!(read("good.txt", Some("四字".as_bytes())).unwrap().text, "四字");
}

#[test]
fn a_cancelled_evaluation_gives_nothing() {
    let folder = tempfile::tempdir().unwrap();
    let path = fixture("smollm2");
    let cancel = Arc::new(AtomicBool::new(false));
    for together in [true, false] {
        let mut options = options_for(std::slice::from_ref(&path), Some(&path), Some(together), &folder);
        options.engine.cancel = cancel.clone();
        cancel.store(false, std::sync::atomic::Ordering::Relaxed);
        let mut windows = 0;
        let found = evaluate(&options, |event| {
            if matches!(event, EvalEvent::Progress { .. }) {
                windows += 1;
                cancel.store(true, std::sync::atomic::Ordering::Relaxed);
            }
        });
        assert_eq!(found.unwrap(), None);
        assert_eq!(windows, 1);
    }
}
