//! Wrong, damaged and malicious GGUF files: each is refused in one line that names the place and the reason.

mod gguf_raw;

use std::collections::BTreeSet;
use std::io::Write;
use std::path::Path;

use duan_model::gguf::GgufFile;
use gguf_raw::{Raw, refused, refused_with};

fn alignment_file(type_id: u32, value: &[u8]) -> Vec<u8> {
    Raw::header(3, 0, 1).key("general.alignment", type_id).bytes(value).0
}

#[test]
fn zero_dims_are_named() {
    let file = Raw::header(3, 1, 0).tensor("t", &[4, 0], 0, 0).0;
    assert_eq!(file.len(), 65);
    refused_with(&file, &["tensor `t`", "dims that are not 0", "found 0 for dim 1"]);
}

#[test]
fn alignment_must_be_a_power_of_two_of_type_u32() {
    let zero = alignment_file(4, &0u32.to_le_bytes());
    assert_eq!(zero.len(), 57);
    let rule = "expected a u32 that is a power of two";
    refused_with(&zero, &["`general.alignment`", rule, "found 0;"]);
    for wrong in [3u32, 24, 1 << 31, u32::MAX] {
        let found = format!("found {wrong};");
        refused_with(&alignment_file(4, &wrong.to_le_bytes()), &["`general.alignment`", rule, &found]);
    }
    refused_with(&alignment_file(10, &32u64.to_le_bytes()), &[rule, "found type u64"]);
    refused_with(&alignment_file(5, &32i32.to_le_bytes()), &[rule, "found type i32"]);
    refused_with(&alignment_file(8, &[2, 0, 0, 0, 0, 0, 0, 0, b'3', b'2']), &[rule, "found type string"]);
    for right in [1u32, 8, 32, 4096, 1 << 24] {
        let file = GgufFile::from_bytes(alignment_file(4, &right.to_le_bytes()), "m.gguf").unwrap();
        assert_eq!(file.alignment(), right);
    }
}

#[test]
fn counts_and_sizes_that_wrap_have_their_own_errors() {
    let big = 1u64 << 42 | 1;
    let wrong = [
        (Raw::header(3, 1 << 60, 0), vec!["the header", "at most 0 tensors", "1152921504606846976"]),
        (Raw::header(3, 0, 1 << 63), vec!["the header", "at most 0 metadata entries", "9223372036854775808"]),
        (Raw::header(3, 0, 1).u64(1 << 63).u64(0), vec!["metadata entry 0", "needs 9223372036854775808 bytes"]),
        (Raw::header(3, 0, 1).key("k", 8).u64(1 << 63), vec!["metadata key `k`", "needs 9223372036854775808 bytes"]),
        (Raw::header(3, 0, 1).key("k", 9).u32(9).u64(1 << 61), vec!["key `k`", "at most 0 arrays"]),
        (Raw::header(3, 0, 1).key("k", 9).u32(8).u64(1 << 62), vec!["key `k`", "at most 0 strings"]),
        (Raw::header(3, 0, 1).key("k", 9).u32(10).u64(1 << 61).data(64), vec!["key `k`", "array items"]),
        (Raw::header(3, 1, 0).string("t").u32(u32::MAX).data(64), vec!["tensor `t`", "1 to 4 dims", "4294967295"]),
        (
            Raw::header(3, 1, 0).tensor("t", &[1152, big], 0, 0).data(64),
            vec!["tensor `t`", "needs 20266198323171840 bytes"],
        ),
        (
            Raw::header(3, 1, 0).tensor("t", &[1 << 32, 1 << 32], 0, 0),
            vec!["tensor `t`", "number of weights that fits"],
        ),
        (Raw::header(3, 1, 0).tensor("t", &[1 << 62], 0, 0), vec!["tensor `t`", "size in bytes that fits"]),
        (Raw::header(3, 1, 0).tensor("t", &[8], 0, u64::MAX - 31).data(32), vec!["tensor `t` at byte", "0 are left"]),
        (Raw::header(3, 1, 0).tensor("t", &[8], 0, u64::MAX - 15).data(32), vec!["tensor `t`", "multiple of 32"]),
    ];
    let messages: BTreeSet<String> = wrong.iter().map(|(raw, parts)| refused_with(&raw.0, parts)).collect();
    assert_eq!(messages.len(), wrong.len(), "each has its own error: {messages:#?}");
    if let Some(peak_bytes) = peak_memory_bytes() {
        assert!(peak_bytes < 50 << 20, "the tests of this file took {peak_bytes} bytes");
    }
}

/// Peak memory of this process, where the system tells it in /proc.
fn peak_memory_bytes() -> Option<u64> {
    let status = std::fs::read_to_string("/proc/self/status").ok()?;
    let line = status.lines().find_map(|line| line.strip_prefix("VmHWM:"))?;
    Some(line.trim().strip_suffix(" kB")?.parse::<u64>().ok()? << 10)
}

#[test]
fn dim_counts_are_one_to_four() {
    for wrong in [0u32, 5, 1 << 31] {
        let file = Raw::header(3, 1, 0).string("t").u32(wrong).data(128).0;
        refused_with(&file, &["tensor `t`", "expected 1 to 4 dims", &format!("found {wrong};")]);
    }
    for dims in [&[8u64][..], &[8, 1], &[8, 1, 1], &[8, 1, 1, 1]] {
        let file = Raw::header(3, 1, 0).tensor("t", dims, 0, 0).data(32).0;
        assert_eq!(GgufFile::from_bytes(file, "m").unwrap().tensors()[0].dims, dims);
    }
}

#[test]
fn rows_must_be_whole_blocks() {
    let file = Raw::header(3, 1, 0).tensor("t", &[48, 2], 2, 0).data(64).0;
    refused_with(&file, &["tensor `t`", "whole blocks of 32 weights, as Q4_0", "dims [48, 2]"]);
}

#[test]
fn duplicates_are_called_duplicates() {
    let file = Raw::header(3, 0, 2).key("k", 0).bytes(&[1]).key("k", 0).bytes(&[1]).0;
    refused_with(&file, &["metadata key `k`", "duplicate"]);
    let file = Raw::header(3, 2, 0).tensor("t", &[8], 0, 0).tensor("t", &[8], 0, 32).data(64).0;
    refused_with(&file, &["tensor `t`", "duplicate"]);
}

#[test]
fn tensors_may_not_overlap() {
    let file = |second: u64| Raw::header(3, 2, 0).tensor("b", &[8], 0, second).tensor("a", &[16], 0, 0).data(96).0;
    refused_with(&file(32), &["tensor `b`", "where tensor `a` ends", "overlap"]);
    refused_with(&file(0), &["overlap"]);
    let apart = GgufFile::from_bytes(file(64), "m").unwrap();
    assert_eq!(apart.tensor("b").unwrap().offset, apart.data_start() + 64);
}

#[test]
fn nested_arrays_have_a_limit() {
    let nested = |depth: usize| {
        let raw = Raw::header(3, 0, 1).key("k", 9);
        (1..depth).fold(raw, |raw, _| raw.u32(9).u64(1)).u32(0).u64(1).bytes(&[7]).0
    };
    assert!(GgufFile::from_bytes(nested(4), "m").is_ok());
    refused_with(&nested(5), &["metadata key `k`", "nested at most 4 deep"]);
    refused_with(&nested(100_000), &["metadata key `k`", "nested at most 4 deep"]);
}

#[test]
fn values_of_no_type_are_refused() {
    refused_with(&Raw::header(3, 0, 1).key("k", 13).u64(0).0, &["key `k`", "value type from 0 to 12", "type 13"]);
    refused_with(&Raw::header(3, 0, 1).key("k", 9).u32(13).u64(0).0, &["key `k`", "array type from 0 to 12"]);
    refused_with(&Raw::header(3, 0, 1).key("k", 7).bytes(&[2]).0, &["key `k`", "a bool, 0 or 1", "found 2"]);
    refused_with(&Raw::header(3, 0, 1).key("k", 9).u32(7).u64(2).bytes(&[1, 9]).0, &["a bool", "found 9"]);
}

#[test]
fn text_must_be_utf_8() {
    let bad = b"ab\xff";
    let key = Raw::header(3, 0, 1).u64(3).bytes(bad).u32(0).bytes(&[0, 0, 0]).0;
    refused_with(&key, &["metadata entry 0", "UTF-8", "at byte 2 of 3"]);
    let value = Raw::header(3, 0, 1).key("k", 8).u64(3).bytes(bad).0;
    refused_with(&value, &["metadata key `k`", "UTF-8"]);
    let name = Raw::header(3, 1, 0).u64(3).bytes(bad).data(64).0;
    refused_with(&name, &["the entry of tensor 0", "UTF-8"]);
    let strings = Raw::header(3, 0, 1).key("k", 9).u32(8).u64(3);
    let broken = strings.clone().string("ok").u64(3).bytes(bad).string("ok").0;
    refused_with(&broken, &["key `k`", "UTF-8", "in string 1"]);
    // Two halves of one character are text only together.
    let halves = strings.string("ok").u64(1).bytes(b"\xc3").u64(1).bytes(b"\xa9").0;
    refused_with(&halves, &["key `k`", "UTF-8", "in string 1"]);
}

#[test]
fn names_from_the_file_cannot_break_the_message() {
    let long = "\u{1b}[31m\n".repeat(500);
    let message = refused(&Raw::header(3, 0, 1).key(&long, 13).u64(0).0);
    assert!(message.contains("\\u{1b}[31m\\n") && message.contains("(3000 bytes)"), "{message}");
}

#[test]
fn each_wrong_file_is_told_apart() {
    let swapped =
        |version: u32| Raw(b"GGUF".to_vec()).bytes(&version.to_be_bytes()).bytes(&[0, 0, 0, 0, 0, 0, 0, 1]).data(64).0;
    let lfs = b"version https://git-lfs.github.com/spec/v1\noid sha256:0123\nsize 98362432\n";
    let safetensors = [&64u64.to_le_bytes()[..], b"{\"weight\":{\"dtype\":\"F32\",\"shape\":[2]}}"].concat();
    let wrong: Vec<(Vec<u8>, &str)> = vec![
        (vec![], "this file is empty"),
        (b"GGU".to_vec(), "this file has 3 bytes, too few"),
        (b"GGUF".to_vec(), "needs 24 bytes, and 4 are left"),
        (Raw::header(3, 0, 0).0[..20].to_vec(), "the header at byte 16 needs 8 bytes, and 4 are left"),
        (Raw::header(0, 0, 0).0, "version 0, which does not exist"),
        (Raw::header(1, 0, 0).0, "version 1, which was replaced"),
        (Raw::header(4, 0, 0).0, "version 4, and duan reads versions 2 and 3; update duan"),
        (Raw::header(1 << 31, 0, 0).0, "version 2147483648, which does not exist; its header is damaged"),
        (swapped(3), "this is a big-endian model (GGUF version 3)"),
        (swapped(2), "this is a big-endian model (GGUF version 2)"),
        (lfs.to_vec(), "this is a Git LFS pointer"),
        (b"\xef\xbb\xbf\n <!DOCTYPE html><html lang=en>".to_vec(), "this is an HTML page"),
        (b"PK\x03\x04\x14\x00\x00\x00".to_vec(), "this is a zip archive"),
        (b"\x1f\x8b\x08\x00\x00".to_vec(), "this is a gzip archive"),
        (b"\x28\xb5\x2f\xfd\x00".to_vec(), "this is a zstd archive"),
        (b"\xfd7zXZ\x00\x00".to_vec(), "this is an xz archive"),
        (safetensors, "this is a safetensors file"),
        (b"lmgg\x01\x00\x00\x00".to_vec(), "in the old GGML format"),
        (b"fmgg\x01\x00\x00\x00".to_vec(), "in the old GGMF format"),
        (b"tjgg\x03\x00\x00\x00".to_vec(), "in the old GGJT format"),
        (b"algg\x01\x00\x00\x00".to_vec(), "in the old GGLA format"),
        (b"FUGG\x00\x00\x00\x03".to_vec(), "this is a big-endian model, not"),
        (vec![0; 10_000], "begins with zeros"),
        (
            b"{\"error\":\"Repository not found\"}".to_vec(),
            "a text that begins with \"{\"error\":\"Repository not found\"}\"",
        ),
        (b"\x80\x02}q\x00\xff".to_vec(), "begins with the bytes [80, 02, 7d, 71]"),
    ];
    let messages: BTreeSet<String> = wrong.iter().map(|(bytes, part)| refused_with(bytes, &[part])).collect();
    assert_eq!(messages.len(), wrong.len());
    refused_with(b"<HTML><body>404", &["HTML"]);
}

#[test]
fn a_model_behind_other_bytes_is_refused_with_its_place() {
    let model = Raw::header(3, 1, 0).tensor("t", &[8], 0, 0).data(32).0;
    assert!(GgufFile::from_bytes(model.clone(), "m").is_ok());
    let behind = [&b"7 bytes"[..], &model].concat();
    refused_with(&behind, &["a GGUF model begins at byte 7", "cut off what stands before it"]);
}

#[test]
fn places_that_are_no_files_are_named() {
    let folder = tempfile::tempdir().unwrap();
    let message = GgufFile::open(folder.path()).unwrap_err().to_string();
    assert!(message.contains("this is a folder"), "{message}");
    let missing = folder.path().join("missing.gguf");
    let message = GgufFile::open(&missing).unwrap_err().to_string();
    assert!(message.contains("missing.gguf: cannot open it: "), "{message}");
    if cfg!(unix) {
        let message = GgufFile::open(Path::new("/dev/null")).unwrap_err().to_string();
        assert!(message.contains("/dev/null: this is a device or a pipe"), "{message}");
    }
    let empty = folder.path().join("empty.gguf");
    std::fs::write(&empty, b"").unwrap();
    let message = GgufFile::open(&empty).unwrap_err().to_string();
    assert!(message.contains("this file is empty"), "{message}");
    assert_eq!(GgufFile::read(&empty).unwrap_err().to_string(), message);
}

#[test]
fn types_that_cannot_be_read_are_listed_and_never_decoded() {
    let rows: Vec<(u32, &str)> = vec![
        (24, "I8 (2 tensors, for example `first`)"),
        (31, "Q4_0_4_4 (removed from GGUF, 1 tensor, for example `packed`)"),
        (200, "type 200 (unknown, 1 tensor, for example `odd`)"),
        (u32::MAX, "type 4294967295 (unknown, 1 tensor, for example `last`)"),
    ];
    let file = Raw::header(3, 6, 0)
        .tensor("last", &[32], u32::MAX, 0)
        .tensor("first", &[32], 24, 32)
        .tensor("good", &[8], 0, 64)
        .tensor("odd", &[33], 200, 96)
        .tensor("second", &[32], 24, 128)
        .tensor("packed", &[32], 31, 160)
        .data(192)
        .0;
    let file = GgufFile::from_bytes(file, "m.gguf").unwrap();
    let found = file.unsupported_types();
    let summary: Vec<(u32, usize)> = found.iter().map(|row| (row.type_id, row.count)).collect();
    assert_eq!(summary, [(24, 2), (31, 1), (200, 1), (u32::MAX, 1)]);
    let message = file.check_types().unwrap_err().to_string();
    for (_, part) in rows {
        assert!(message.contains(part), "{part} is not in: {message}");
    }
    assert!(message.contains("get the model in one of F32, F16, Q4_0"), "{message}");
    assert!(!message.contains('\n') && !message.contains("good"));

    assert_eq!(file.tensor("good").unwrap().bytes, Some(32));
    assert_eq!(file.tensor("first").unwrap().bytes, Some(32));
    let odd = file.tensor("odd").unwrap();
    assert_eq!(odd.bytes, None);
    let message = file.tensor_data(odd).unwrap_err().to_string();
    assert!(message.contains("tensor `odd`") && message.contains("type 200"), "{message}");
}

#[test]
fn every_type_without_a_codec_is_reported() {
    for type_id in (0..=45).chain([200, u32::MAX]) {
        // 256 weights are whole blocks of every type; the data is more than any of them needs.
        let bytes = Raw::header(3, 1, 0).tensor("t", &[256], type_id, 0).data(2048).0;
        let file = GgufFile::from_bytes(bytes, "m.gguf").unwrap();
        let is_readable = duan_quant::format_by_gguf_id(type_id).is_some();
        assert_eq!(file.check_types().is_ok(), is_readable, "type {type_id}");
        assert_eq!(file.unsupported_types().len(), usize::from(!is_readable), "type {type_id}");
    }
}

#[test]
fn a_file_that_shrinks_while_open_is_noticed() {
    let model = Raw::header(3, 2, 0).tensor("a", &[8], 0, 0).tensor("b", &[16], 0, 32).data(96).0;
    let mut on_disk = tempfile::NamedTempFile::new().unwrap();
    on_disk.write_all(&model).unwrap();
    let file = GgufFile::open(on_disk.path()).unwrap();
    let copy = GgufFile::read(on_disk.path()).unwrap();
    assert_eq!(file.tensor_data(&file.tensors()[1]).unwrap().len(), 64);
    on_disk.as_file().set_len(file.file_bytes() - 10).unwrap();
    assert_eq!(file.tensor_data(&file.tensors()[0]).unwrap().len(), 32);
    let message = file.tensor_data(&file.tensors()[1]).unwrap_err().to_string();
    assert!(message.contains("tensor `b`") && message.contains("needs 64 bytes, and 54 are left"), "{message}");
    assert_eq!(copy.tensor_data(&copy.tensors()[1]).unwrap().len(), 64, "a copy in memory stays whole");
}

#[test]
fn foreign_tensor_entries_cannot_reach_beyond_the_file() {
    let file = GgufFile::from_bytes(Raw::header(3, 1, 0).tensor("t", &[8], 0, 0).data(32).0, "m.gguf").unwrap();
    let mut other = file.tensors()[0].clone();
    other.offset = u64::MAX;
    assert!(file.tensor_data(&other).is_err());
    other.offset = file.file_bytes() - 31;
    assert!(file.tensor_data(&other).unwrap_err().to_string().contains("needs 32 bytes, and 31 are left"));
}
