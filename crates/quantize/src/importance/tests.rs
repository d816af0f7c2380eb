//! What is written is read, and what is odd falls back.

use super::*;
use crate::error::Error;

fn entry(sums: &[f32], counts: &[u64]) -> ImportanceEntry {
    ImportanceEntry { sums: sums.to_vec(), counts: counts.to_vec() }
}

fn data(entries: &[(&str, ImportanceEntry)]) -> ImportanceData {
    ImportanceData {
        datasets: vec!["text.txt".to_owned(), "文.txt".to_owned()],
        chunk_count: 3,
        chunk_size: 512,
        entries: entries.iter().map(|(name, entry)| ((*name).to_owned(), entry.clone())).collect(),
    }
}

fn read(data: &ImportanceData) -> Importance {
    Importance::from_bytes(data.to_bytes().unwrap(), "imatrix.gguf").unwrap()
}

#[test]
fn what_is_written_is_read() {
    let importance =
        read(&data(&[("b.weight", entry(&[1.0, 3.0], &[5])), ("a", entry(&[1.0, 2.0, 4.0, 2.0], &[1, 2]))]));
    assert_eq!(importance.names(), ["a", "b.weight"]);
    assert_eq!((importance.chunk_count(), importance.chunk_size(), importance.len()), (3, 512, 2));
    assert_eq!(importance.datasets(), ["text.txt", "文.txt"]);
    let mut weights = Vec::new();
    let b = importance.of_matrix("b.weight", 2, 1).unwrap().unwrap();
    assert!(b.weights(0, &mut weights));
    assert_eq!(weights, [0.5, 1.5]);
    let a = importance.of_matrix("a", 2, 2).unwrap().unwrap();
    assert!(a.weights(1, &mut weights));
    assert_eq!((weights, a.slices(), a.good_slices(), a.first_fault()), (vec![4.0 / 3.0, 2.0 / 3.0], 2, 2, None));
    assert!(importance.of_matrix("c", 2, 1).unwrap().is_none());
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("imatrix.gguf");
    data(&[("a", entry(&[1.0], &[1]))]).write(&path, false).unwrap();
    assert_eq!(Importance::open(&path).unwrap().file_name(), "imatrix.gguf");
}

#[test]
fn a_slice_that_is_odd_falls_back() {
    let ones = [1.0f32; 4];
    let with = |at: usize, value: f32| {
        let mut sums = ones;
        sums[at] = value;
        sums
    };
    for (sums, count, fault) in [
        ([0.0; 4], 7, Some("all sums are 0")),
        (with(2, f32::NAN), 7, Some("the sum of column 2 is not finite")),
        (with(1, f32::INFINITY), 7, Some("the sum of column 1 is not finite")),
        (with(3, -1.0), 7, Some("the sum of column 3 is negative")),
        (ones, 0, Some("the expert was never used")),
        ([1e-30; 4], 7, None),
        (with(0, f32::MAX), 7, None),
        (with(0, 0.0), 7, None),
    ] {
        let importance = read(&data(&[("a", entry(&sums, &[count]))]));
        let matched = importance.of_matrix("a", 4, 1).unwrap().unwrap();
        assert_eq!(matched.first_fault().as_deref(), fault);
        let mut weights = vec![9.0];
        assert_eq!(matched.weights(0, &mut weights), fault.is_none());
        assert_eq!(weights.len(), if fault.is_none() { 4 } else { 0 });
        assert!(weights.iter().all(|weight| weight.is_finite() && *weight > 0.0), "{weights:?}");
        assert!(!matched.weights(1, &mut weights), "there is one slice");
    }
    // One length is off: no slice of the matrix can be used.
    let importance = read(&data(&[("a", entry(&ones, &[2]))]));
    let matched = importance.of_matrix("a", 5, 1).unwrap().unwrap();
    assert_eq!((matched.good_slices(), matched.first_fault().unwrap()), (0, "expected 1 times 5 sums, found 4".into()));
    let matched = importance.of_matrix("a", u64::MAX, 1).unwrap().unwrap();
    assert!(!matched.weights(0, &mut Vec::new()));
}

#[test]
fn one_expert_without_data_does_not_spoil_the_others() {
    let importance = read(&data(&[("a", entry(&[1.0, 1.0, 0.0, 0.0, 2.0, 6.0], &[4, 0, 4]))]));
    let matched = importance.of_matrix("a", 2, 3).unwrap().unwrap();
    assert_eq!((matched.slices(), matched.good_slices()), (3, 2));
    assert_eq!(matched.first_fault().unwrap(), "expert 1: the expert was never used (1 of 3 experts cannot be used)");
    let mut weights = Vec::new();
    assert!(matched.weights(2, &mut weights));
    assert_eq!(weights, [0.5, 1.5]);
}

#[test]
fn what_is_no_importance_is_refused_in_one_line() {
    let refused = |result: crate::Result<Importance>| {
        let message = result.unwrap_err().to_string();
        assert!(!message.contains('\n'), "{message}");
        message
    };
    let mut writer = duan_model::gguf::write::GgufWriter::new("x");
    writer.tensor("a.weight", &[1], 0, vec![0; 4]).unwrap();
    assert!(refused(Importance::from_bytes(writer.to_bytes(), "m.gguf")).contains("without importance"));
    writer.tensor("a.in_sum2", &[2], 0, vec![0; 8]).unwrap();
    assert!(refused(Importance::from_bytes(writer.to_bytes(), "m.gguf")).contains("no counts for `a`"));
    let mut both = writer.clone();
    both.tensor("a.counts", &[1, 3], 0, vec![0; 12]).unwrap();
    assert!(refused(Importance::from_bytes(both.to_bytes(), "m.gguf")).contains("2 sums for 3 counts"));
    let mut halves = writer.clone();
    halves.tensor("a.counts", &[1], 1, vec![0; 2]).unwrap();
    assert!(refused(Importance::from_bytes(halves.to_bytes(), "m.gguf")).contains("not both F32"));
    let mut more = writer;
    more.tensor("a.counts", &[1], 0, vec![0; 4]).unwrap().tensor("b.counts", &[1], 0, vec![0; 4]).unwrap();
    assert!(refused(Importance::from_bytes(more.to_bytes(), "m.gguf")).contains("counts without sums"));

    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("old.dat");
    let name = b"blk.0.attn_q.weight";
    let mut old = [1i32.to_le_bytes(), (name.len() as i32).to_le_bytes()].concat();
    old.extend_from_slice(name);
    old.extend([0; 12]);
    std::fs::write(&path, &old).unwrap();
    assert!(refused(Importance::open(&path)).contains("older format (.dat); convert it: llama-imatrix"));
    std::fs::write(&path, b"<!DOCTYPE html>").unwrap();
    assert!(matches!(Importance::open(&path).unwrap_err(), Error::Model(_)));
    assert!(ImportanceData::default().to_bytes().unwrap_err().to_string().contains("nothing to write"));
    let uneven = data(&[("a", entry(&[1.0; 3], &[1, 1]))]);
    assert!(uneven.to_bytes().unwrap_err().to_string().contains("3 sums for 2 counts"));
}
