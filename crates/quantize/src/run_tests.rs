//! Files of small models, written and read back.

use std::fs;
use std::path::PathBuf;

use duan_model::gguf::GgufFile;
use duan_quant::format_by_name;

use super::*;
use crate::importance::{ImportanceData, ImportanceEntry};
use crate::testing::{Made, file, floats, random, values};
use crate::{Choice, KeepRule, Mix, PlanOptions};

struct Place {
    folder: tempfile::TempDir,
    source: GgufFile,
}

impl Place {
    fn new(tensors: &[Made]) -> Place {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("in.gguf");
        fs::write(&path, file(tensors)).unwrap();
        Place { folder, source: GgufFile::open(&path).unwrap() }
    }

    fn out(&self) -> PathBuf {
        self.folder.path().join("out.gguf")
    }

    fn plan(&self, mix: &str, keep: &[&str]) -> Plan {
        let keep: Vec<KeepRule> = keep.iter().map(|text| KeepRule::parse(text).unwrap()).collect();
        let choice = Choice::Mix(Mix::by_name(mix).unwrap());
        Plan::new(&self.source, &PlanOptions { choice, keep: &keep, has_importance: false }).unwrap()
    }

    fn run(&self, plan: &Plan, threads: usize, importance: Option<&Importance>) -> Result<Report> {
        let options = QuantizeOptions { importance, threads, force: true };
        let go_on = |_, _| ControlFlow::Continue(());
        quantize(&self.source, plan, &options, &self.out(), go_on).map(|report| report.unwrap())
    }

    fn names(&self) -> Vec<String> {
        let entries = fs::read_dir(self.folder.path()).unwrap();
        let mut names: Vec<String> = entries.map(|entry| entry.unwrap().file_name().into_string().unwrap()).collect();
        names.sort();
        names
    }
}

/// Rows of many kinds: shorter and longer than a piece, and longer than what is decoded at a time.
fn kinds() -> Vec<Made> {
    vec![
        random("token_embd.weight", &[64, 70], "F16"),
        random("output_norm.weight", &[64], "F32"),
        random("blk.0.attn_q.weight", &[96, 33], "F32"),
        random("blk.0.attn_k.weight", &[70_016, 3], "BF16"),
        random("blk.0.ffn_up_exps.weight", &[64, 5, 3], "Q8_0"),
        random("blk.0.ffn_gate_inp.weight", &[64, 3], "F32"),
        ("table".to_owned(), vec![5], 26, (0..20).collect()),
        random("blk.1.attn_q.weight", &[1_114_112, 1, 2], "F16"),
    ]
}

#[test]
fn every_row_is_what_the_format_makes_of_it_however_many_threads() {
    let place = Place::new(&kinds());
    let plan = place.plan("q4_0", &["attn_k=q5_1"]);
    let report = place.run(&plan, 1, None).unwrap();
    let bytes = fs::read(place.out()).unwrap();
    assert_eq!(report.bytes, bytes.len() as u64);
    let foreseen = foresee(&place.source, &plan, None).unwrap();
    assert_eq!((foreseen.bytes, foreseen.bits_per_weight), (report.bytes, report.bits_per_weight));
    for threads in [2, 7] {
        assert_eq!(place.run(&plan, threads, None).unwrap(), report);
        assert!(fs::read(place.out()).unwrap() == bytes, "{threads} threads");
    }
    let written = GgufFile::open(&place.out()).unwrap();
    for (planned, told) in plan.tensors.iter().zip(&report.tensors) {
        let (old, new) = (&planned.source, written.tensor(&planned.source.name).unwrap());
        assert_eq!((&old.dims, planned.bytes, &*told.format), (&new.dims, new.bytes.unwrap(), &*new.type_name()));
        let (before, after) = (place.source.tensor_data(old).unwrap(), written.tensor_data(new).unwrap());
        if planned.target == crate::Target::Copy {
            assert!(before[..] == after[..], "{}", old.name);
            assert_eq!((told.error, told.weighted_error), (0.0, None));
            continue;
        }
        let (from, to) = (format_by_name(&told.from).unwrap(), format_by_name(&told.format).unwrap());
        let mut weights = vec![0.0; old.elements() as usize];
        from.decode(&before, &mut weights).unwrap();
        let mut coded = vec![0; after.len()];
        let columns = old.dims[0] as usize;
        for (row, coded) in weights.chunks(columns).zip(coded.chunks_mut(to.row_bytes(columns).unwrap())) {
            to.encode_best(row, None, coded).unwrap();
        }
        assert!(coded[..] == after[..], "{}", old.name);
        let mut back = weights.clone();
        to.decode(&coded, &mut back).unwrap();
        let square = |x: f32| f64::from(x) * f64::from(x);
        let error: f64 = weights.iter().zip(&back).map(|(a, b)| square(a - b)).sum();
        let expected = (error / weights.iter().map(|x| square(*x)).sum::<f64>()).sqrt();
        assert!((told.error - expected).abs() < 1e-6 * expected, "{} {expected}", told.error);
    }
    assert_eq!(report.requantized_from, ["Q8_0"]);
    assert_eq!(report.by_format().iter().map(|row| row.tensors).sum::<usize>(), report.tensors.len());
    let layers: Vec<Option<u32>> = report.by_layer().iter().map(|row| row.layer).collect();
    assert_eq!(layers, [None, None, None, Some(0), Some(1)]);
    assert_eq!(report.by_layer()[3].formats[0].0, "Q4_0");
}

#[test]
fn keys_say_how_the_file_was_made() {
    let place = Place::new(&kinds());
    place.run(&place.plan("q8_0", &[]), 2, None).unwrap();
    let written = GgufFile::open(&place.out()).unwrap();
    let metadata = written.metadata();
    assert_eq!(metadata.u32("general.file_type").unwrap(), Some(7));
    assert_eq!(metadata.u32("general.quantization_version").unwrap(), Some(2));
    assert_eq!(metadata.string("general.architecture").unwrap(), Some("llama"));
    assert!(metadata.get("split.count").is_none() && metadata.get("quantize.imatrix.file").is_none());
}

#[test]
fn a_weight_that_is_no_number_is_named_and_nothing_is_written() {
    for (value, mix, part) in [
        (f32::NAN, "q4_0", "weight 131075 (row 2048, column 3) is NaN; nothing was written"),
        (f32::INFINITY, "f16", "weight 131075 (row 2048, column 3) is infinite"),
        (9e6, "q8_0", "holds at most"),
        (f32::NEG_INFINITY, "f32", "(row 2048, column 3) is infinite"),
    ] {
        let mut weights = values(64 * 4096, 3);
        weights[131_075] = value;
        // Another one later, which a faster thread may see first.
        weights[200_000] = f32::NAN;
        let place = Place::new(&[random("a.weight", &[64, 2], "F32"), floats("b.weight", &[64, 4096], &weights)]);
        let error = place.run(&place.plan(mix, &[]), 3, None).unwrap_err().to_string();
        assert!(error.contains("in.gguf: tensor `b.weight`: ") && error.contains(part), "{error}");
        assert_eq!(place.names(), ["in.gguf"]);
    }
}

#[test]
fn the_source_is_never_written_to() {
    let place = Place::new(&kinds());
    let plan = place.plan("q8_0", &[]);
    let options = QuantizeOptions { importance: None, threads: 1, force: true };
    let link = place.folder.path().join("link.gguf");
    fs::hard_link(place.folder.path().join("in.gguf"), &link).unwrap();
    for path in [place.folder.path().join("in.gguf"), place.folder.path().join("./in.gguf"), link] {
        let result = quantize(&place.source, &plan, &options, &path, |_, _| ControlFlow::Continue(()));
        assert!(matches!(result, Err(Error::OverSource { .. })), "{result:?}");
    }
    assert!(fs::read(place.folder.path().join("in.gguf")).unwrap() == file(&kinds()));
    fs::write(place.out(), "mine").unwrap();
    let options = QuantizeOptions { force: false, ..options };
    let result = quantize(&place.source, &plan, &options, &place.out(), |_, _| ControlFlow::Continue(()));
    assert!(result.unwrap_err().to_string().contains("exists already"));
    assert_eq!(fs::read(place.out()).unwrap(), b"mine");
}

#[test]
fn a_break_leaves_nothing() {
    let place = Place::new(&kinds());
    let options = QuantizeOptions { importance: None, threads: 3, force: true };
    let mut all = 0;
    let stop = |done, file_bytes| {
        all = file_bytes;
        if done > 0 { ControlFlow::Break(()) } else { ControlFlow::Continue(()) }
    };
    assert_eq!(quantize(&place.source, &place.plan("f32", &[]), &options, &place.out(), stop).unwrap(), None);
    assert!(all > 4 * 2_000_000);
    assert_eq!(place.names(), ["in.gguf"]);
}

fn importance(entries: &[(&str, Vec<f32>, Vec<u64>)]) -> Importance {
    let entries = entries.iter().map(|(name, sums, counts)| {
        ((*name).to_owned(), ImportanceEntry { sums: sums.clone(), counts: counts.clone() })
    });
    let data = ImportanceData { chunk_count: 4, chunk_size: 8, entries: entries.collect(), datasets: vec!["t".into()] };
    Importance::from_bytes(data.to_bytes().unwrap(), "i.gguf").unwrap()
}

#[test]
fn importance_that_says_nothing_changes_nothing_and_is_told_of() {
    let place = Place::new(&kinds());
    let plan = place.plan("q4_0", &[]);
    place.run(&plan, 2, None).unwrap();
    let plain = GgufFile::open(&place.out()).unwrap();
    let q = plain.tensor("blk.0.attn_q.weight").map(|tensor| plain.tensor_data(tensor).unwrap().to_vec());
    let zeros = importance(&[
        ("blk.0.attn_q.weight", vec![0.0; 96], vec![9]),
        ("blk.0.attn_k.weight", vec![1.0; 70_015], vec![9]),
        ("blk.0.ffn_up_exps.weight", [vec![1.0; 64], vec![0.0; 64], vec![f32::NAN; 64]].concat(), vec![4, 0, 5]),
    ]);
    let report = place.run(&plan, 2, Some(&zeros)).unwrap();
    let told = report.importance.unwrap();
    assert_eq!((&*told.file, told.slices, told.used), ("i.gguf", 5, 1));
    assert_eq!(told.missing, ["token_embd.weight", "blk.1.attn_q.weight"]);
    assert_eq!(
        told.faults,
        [
            "blk.0.attn_q.weight: all sums are 0",
            "blk.0.attn_k.weight: expected 1 times 70016 sums, found 70015",
            "blk.0.ffn_up_exps.weight: expert 1: the expert was never used (2 of 3 experts cannot be used)",
        ]
    );
    let written = GgufFile::open(&place.out()).unwrap();
    let same = written.tensor("blk.0.attn_q.weight").map(|tensor| written.tensor_data(tensor).unwrap().to_vec());
    assert!(same == q && same.is_some());
    let metadata = written.metadata();
    assert_eq!(metadata.string("quantize.imatrix.file").unwrap(), Some("i.gguf"));
    assert_eq!(metadata.u32("quantize.imatrix.entries_count").unwrap(), Some(3));
    assert_eq!(metadata.u32("quantize.imatrix.chunks_count").unwrap(), Some(4));
    let strange = importance(&[("blk.9.attn_q.weight", vec![1.0; 96], vec![9])]);
    let error = place.run(&plan, 2, Some(&strange)).unwrap_err().to_string();
    assert!(error.contains("i.gguf: it has no entry for any tensor that is quantized"), "{error}");
}

#[test]
fn wild_importance_gives_finite_scales() {
    let place = Place::new(&kinds());
    let plan = place.plan("q5_1", &[]);
    let mut huge = vec![1.0f32; 96];
    huge[5] = f32::MAX;
    for sums in [vec![1e-30; 96], huge, (0..96).map(|at| (at % 2) as f32).collect()] {
        let wild = importance(&[("blk.0.attn_q.weight", sums, vec![1])]);
        // Every weight is decoded again and must be finite, else this is an error.
        let report = place.run(&plan, 2, Some(&wild)).unwrap();
        let row = report.tensors.iter().find(|tensor| tensor.name == "blk.0.attn_q.weight").unwrap();
        assert!(row.error < 0.05 && row.weighted_error.unwrap() < 0.1, "{row:?}");
    }
}

#[test]
fn a_copy_has_every_tensor_and_key_as_it_was_whatever_the_weights_are() {
    let mut weights = values(64 * 40, 5);
    weights[70] = f32::NAN;
    let mut tensors = kinds();
    tensors.push(floats("b.weight", &[64, 40], &weights));
    let place = Place::new(&tensors);
    let source = Checkpoint::from(&place.source);
    let mut go_on = |_, _| ControlFlow::Continue(());
    for threads in [1, 3] {
        let bytes = copy(&source, threads, true, &place.out(), &mut go_on).unwrap();
        assert_eq!(bytes, Some(fs::metadata(place.out()).unwrap().len()));
        let written = GgufFile::open(&place.out()).unwrap();
        for (old, new) in place.source.tensors().iter().zip(written.tensors()) {
            assert_eq!((&old.name, &old.dims, old.type_id), (&new.name, &new.dims, new.type_id));
            assert!(
                place.source.tensor_data(old).unwrap()[..] == written.tensor_data(new).unwrap()[..],
                "{}",
                old.name
            );
        }
        assert_eq!(place.source.tensors().len(), written.tensors().len());
        let keys = |file: &GgufFile| file.metadata().iter().map(|(key, _)| key.to_owned()).collect::<Vec<_>>();
        let kept: Vec<String> = keys(&place.source).into_iter().filter(|key| !key.starts_with("split.")).collect();
        assert_eq!(keys(&written), kept);
    }
    // Rows that are made, in another format, are the same as if they were read at once.
    let coded = source.in_format(format_by_name("Q8_0").unwrap()).unwrap();
    let tensor = coded.tensor("token_embd.weight").unwrap();
    let error = copy(&coded, 2, true, &place.out(), &mut go_on).unwrap_err().to_string();
    assert!(error.contains("b.weight") && error.contains("NaN at index 70"), "{error}");
    let coded = coded.in_formats(|info| (info.name == tensor.name).then(|| tensor.format()).flatten()).unwrap();
    copy(&coded, 2, true, &place.out(), &mut go_on).unwrap();
    let written = GgufFile::open(&place.out()).unwrap();
    let mut bytes = vec![0; tensor.bytes.unwrap() as usize];
    coded.data(tensor).unwrap().read_rows(0, 68, &mut bytes).unwrap();
    assert!(written.tensor_data(written.tensor(&tensor.name).unwrap()).unwrap()[..] == bytes);
    assert!(matches!(copy(&source, 1, true, place.source.path(), &mut go_on), Err(Error::OverSource { .. })));
    assert!(copy(&source, 1, false, &place.out(), &mut go_on).unwrap_err().to_string().contains("exists already"));
    let mut stop = |_, _| ControlFlow::Break(());
    fs::remove_file(place.out()).unwrap();
    assert_eq!(copy(&source, 2, false, &place.out(), &mut stop).unwrap(), None);
    assert_eq!(place.names(), ["in.gguf"]);
}
