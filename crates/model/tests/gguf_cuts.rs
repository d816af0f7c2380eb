//! Files cut at every byte, damaged files, and files that come back as they were written.

use duan_model::Error;
use duan_model::gguf::write::GgufWriter;
use duan_model::gguf::{Array, GgufFile, StringArray, Value};
use proptest::prelude::*;

/// A small file with every type of value and several tensors.
fn sample() -> GgufWriter<'static> {
    let mut writer = GgufWriter::new("sample");
    let strings: StringArray = ["", "a", "字", "<|end|>"].iter().collect();
    let entries: Vec<(&str, Value)> = vec![
        ("a.u8", 200u8.into()),
        ("a.i8", (-100i8).into()),
        ("a.u16", 60_000u16.into()),
        ("a.i16", (-30_000i16).into()),
        ("a.u32", 4_000_000_000u32.into()),
        ("a.i32", (-2_000_000_000i32).into()),
        ("a.f32", 1.5f32.into()),
        ("a.bool", true.into()),
        ("a.string", "naïve 字".into()),
        ("a.u64", u64::MAX.into()),
        ("a.i64", i64::MIN.into()),
        ("a.f64", 0.1f64.into()),
        ("b.u8", Array::U8(vec![1, 2]).into()),
        ("b.i8", Array::I8(vec![-1]).into()),
        ("b.u16", Array::U16(vec![]).into()),
        ("b.i16", Array::I16(vec![-2, 3]).into()),
        ("b.u32", Array::U32(vec![7]).into()),
        ("b.i32", Array::I32(vec![-7, 8]).into()),
        ("b.f32", Array::F32(vec![0.25, -0.0]).into()),
        ("b.bool", Array::Bool(vec![true, false]).into()),
        ("b.string", strings.into()),
        ("b.nested", Array::Nested(vec![Array::U8(vec![1]), Array::Nested(vec![Array::F64(vec![2.0])])]).into()),
        ("b.u64", Array::U64(vec![1 << 63]).into()),
        ("b.i64", Array::I64(vec![-1]).into()),
        ("b.f64", Array::F64(vec![1e300]).into()),
    ];
    for (key, value) in entries {
        writer.key(key, value).unwrap();
    }
    writer.tensor("first", &[4, 2], 0, numbers(32)).unwrap();
    writer.tensor("second", &[64, 3], 2, numbers(6 * 18)).unwrap();
    writer.tensor("third", &[5], 1, numbers(10)).unwrap();
    writer
}

fn numbers(count: usize) -> Vec<u8> {
    (0..count).map(|i| (i * 37 + 11) as u8).collect()
}

/// Reads all that a file says, so that nothing of it is left unchecked.
fn walk(file: &GgufFile) -> usize {
    let metadata: usize = file.metadata().iter().map(|(key, value)| key.len() + format!("{value:?}").len()).sum();
    let data = file.tensors().iter().filter_map(|tensor| file.tensor_data(tensor).ok());
    metadata + data.map(|bytes| bytes.iter().map(|&byte| usize::from(byte)).sum::<usize>()).sum::<usize>()
}

/// Where the data of the last tensor ends: what follows is padding.
fn data_end(file: &GgufFile) -> u64 {
    let ends = file.tensors().iter().map(|tensor| tensor.offset + tensor.bytes.unwrap_or(0));
    ends.max().unwrap_or(0)
}

/// Checks each cut of a whole file: refused, or nothing was lost.
fn check_all_cuts(whole: &[u8]) {
    let file = GgufFile::from_bytes(whole.to_vec(), "m.gguf").unwrap();
    let end = data_end(&file);
    for cut in 0..whole.len() {
        match GgufFile::from_bytes(whole[..cut].to_vec(), "m.gguf") {
            Ok(shorter) => {
                assert!(cut as u64 >= end, "cut at {cut} of {end}");
                assert_eq!(shorter.tensors(), file.tensors());
                assert_eq!(walk(&shorter), walk(&file));
            }
            Err(error) => {
                let message = error.to_string();
                assert!((cut as u64) < end.max(file.data_start()), "cut at {cut}: {message}");
                assert!(message.starts_with("m.gguf: ") && !message.contains('\n'), "{message}");
                if cut as u64 >= file.data_start() {
                    assert!(matches!(error, Error::Truncated { .. }), "cut at {cut}: {message}");
                    assert!(message.contains("tensor `"), "cut at {cut}: {message}");
                }
            }
        }
    }
}

#[test]
fn every_cut_of_the_sample_is_noticed() {
    let whole = sample().to_bytes();
    check_all_cuts(&whole);
    let file = GgufFile::from_bytes(whole.clone(), "m.gguf").unwrap();
    let last = file.tensor("third").unwrap();
    for lost in 1..=10 {
        let cut = last.offset as usize + 10 - lost;
        let message = GgufFile::from_bytes(whole[..cut].to_vec(), "m.gguf").unwrap_err().to_string();
        let expected = format!("tensor `third` at byte {} needs 10 bytes, and {} are left", last.offset, 10 - lost);
        assert!(message.contains(&expected), "{message}");
    }
}

#[test]
fn what_was_written_is_read() {
    for version in [2, 3] {
        let mut writer = sample();
        writer.version(version).unwrap();
        let bytes = writer.to_bytes();
        let file = GgufFile::from_bytes(bytes.clone(), "m.gguf").unwrap();
        assert_eq!((file.version(), file.alignment(), file.file_bytes()), (version, 32, bytes.len() as u64));
        assert_eq!(file.metadata().len(), 25);
        assert_eq!(file.metadata().string("a.string").unwrap(), Some("naïve 字"));
        assert_eq!(file.metadata().get("a.i64"), Some(&Value::I64(i64::MIN)));
        let strings: Vec<&str> = file.metadata().strings("b.string").unwrap().unwrap().iter().collect();
        assert_eq!(strings, ["", "a", "字", "<|end|>"]);
        let nested = Array::Nested(vec![Array::U8(vec![1]), Array::Nested(vec![Array::F64(vec![2.0])])]);
        assert_eq!(file.metadata().get("b.nested"), Some(&Value::Array(nested)));
        let second = file.tensor("second").unwrap();
        assert_eq!((second.dims.as_slice(), second.type_id, second.bytes), (&[64, 3][..], 2, Some(108)));
        assert_eq!((second.offset % 32, second.elements(), second.type_name()), (0, 192, "Q4_0".into()));
        assert_eq!(*file.tensor_data(second).unwrap(), numbers(108));
        assert_eq!(*file.tensor_data(file.tensor("third").unwrap()).unwrap(), numbers(10));
        assert!(file.tensor("fourth").is_none());
        assert!(file.check_types().is_ok());
    }
}

#[test]
fn the_written_bytes_are_those_of_the_format() {
    let mut writer = GgufWriter::new("m");
    writer.key("k", 7u32).unwrap();
    writer.tensor("t", &[2], 0, vec![1, 2, 3, 4, 5, 6, 7, 8]).unwrap();
    let mut expected = b"GGUF\x03\0\0\0\x01\0\0\0\0\0\0\0\x01\0\0\0\0\0\0\0".to_vec();
    expected.extend(b"\x01\0\0\0\0\0\0\0k\x04\0\0\0\x07\0\0\0");
    expected.extend(b"\x01\0\0\0\0\0\0\0t\x01\0\0\0\x02\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0");
    expected.resize(96, 0);
    expected.extend([1, 2, 3, 4, 5, 6, 7, 8]);
    expected.resize(128, 0);
    assert_eq!(writer.to_bytes(), expected);
    let mut out = Vec::new();
    assert_eq!(writer.write(&mut out).unwrap(), 128);
    assert_eq!(out, expected);
}

#[test]
fn mapped_and_copied_files_are_alike() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("sample.gguf");
    std::fs::write(&path, sample().to_bytes()).unwrap();
    let (mapped, copied) = (GgufFile::open(&path).unwrap(), GgufFile::read(&path).unwrap());
    assert_eq!((mapped.path(), mapped.tensors()), (path.as_path(), copied.tensors()));
    for tensor in mapped.tensors() {
        let (a, b) = (mapped.tensor_data(tensor).unwrap(), copied.tensor_data(tensor).unwrap());
        assert!(a.is_mapped() && !b.is_mapped());
        assert_eq!(*a, *b);
    }
    // The bytes outlive the file object, and the name on disk.
    let data = mapped.tensor_data(&mapped.tensors()[1]).unwrap();
    drop(mapped);
    if cfg!(unix) {
        std::fs::remove_file(&path).unwrap();
    }
    assert_eq!(*data, numbers(108));
}

#[test]
fn alignment_moves_the_data() {
    for alignment in [1u32, 8, 64, 4096] {
        let mut writer = GgufWriter::new("m");
        writer.key("general.alignment", alignment).unwrap();
        writer.tensor("a", &[3], 24, vec![1, 2, 3]).unwrap();
        writer.tensor("b", &[2], 24, vec![4, 5]).unwrap();
        let file = GgufFile::from_bytes(writer.to_bytes(), "m").unwrap();
        assert_eq!(file.alignment(), alignment);
        let b = file.tensor("b").unwrap();
        assert_eq!(b.offset % u64::from(alignment), 0);
        assert_eq!(b.offset - file.data_start(), 3u64.next_multiple_of(alignment.into()));
        assert_eq!(*file.tensor_data(b).unwrap(), [4, 5]);
    }
}

#[test]
fn vocabularies_without_tensors_are_read() {
    let mut writer = GgufWriter::new("vocabulary");
    writer.key("tokenizer.ggml.tokens", (0..1000).map(|i| format!("token {i}")).collect::<StringArray>()).unwrap();
    let file = GgufFile::from_bytes(writer.to_bytes(), "vocabulary").unwrap();
    assert!(file.tensors().is_empty() && file.unsupported_types().is_empty());
    assert_eq!(file.metadata().strings("tokenizer.ggml.tokens").unwrap().unwrap().get(999), Some("token 999"));
}

#[test]
fn the_writer_refuses_what_the_reader_would() {
    let mut writer = sample();
    let message = |result: Result<&mut GgufWriter, Error>| result.map(|_| ()).unwrap_err().to_string();
    assert!(message(writer.key("a.u8", 1u8)).contains("duplicate"));
    assert!(message(writer.key("general.alignment", 24u32)).contains("power of two"));
    assert!(message(writer.key("general.alignment", 32u64)).contains("power of two"));
    assert!(message(writer.tensor("first", &[1], 24, vec![0])).contains("duplicate"));
    assert!(message(writer.tensor("t", &[], 0, vec![])).contains("1 to 4 dims"));
    assert!(message(writer.tensor("t", &[1, 0], 0, vec![])).contains("not 0"));
    assert!(message(writer.tensor("t", &[16], 2, vec![0; 9])).contains("whole blocks"));
    assert!(message(writer.tensor("t", &[32], 2, vec![0; 17])).contains("18 bytes"));
    assert!(message(writer.version(1)).contains("version 1"));
    writer.key("general.alignment", 32u32).unwrap();
    assert!(message(writer.key("general.alignment", 64u32)).contains("duplicate"));
    let mut same = sample();
    same.key("general.alignment", 32u32).unwrap();
    assert_eq!(writer.to_bytes(), same.to_bytes(), "refused, and kept all the same");
}

fn any_value() -> impl Strategy<Value = Value> {
    prop_oneof![
        any::<u8>().prop_map(Value::from),
        any::<i32>().prop_map(Value::from),
        any::<u64>().prop_map(Value::from),
        any::<bool>().prop_map(Value::from),
        "\\PC{0,6}".prop_map(Value::from),
        prop::collection::vec("\\PC{0,3}", 0..4)
            .prop_map(|strings| Value::from(strings.iter().collect::<StringArray>())),
        prop::collection::vec(any::<i16>(), 0..4).prop_map(|items| Value::from(Array::I16(items))),
        prop::collection::vec(any::<u64>(), 0..3).prop_map(|items| Array::Nested(vec![Array::U64(items)]).into()),
    ]
}

/// A small file: keys, values, and for each tensor its dims and type.
fn any_file() -> impl Strategy<Value = Vec<u8>> {
    let entries = prop::collection::btree_map("[a-z]{1,5}", any_value(), 0..5);
    let tensor = (prop::collection::vec(1u64..4, 1..5), prop_oneof![Just(0u32), Just(2), Just(24), Just(30)]);
    let tensors = prop::collection::vec(tensor, 0..4);
    (entries, tensors, 0u32..8).prop_map(|(entries, tensors, alignment)| {
        let mut writer = GgufWriter::new("m");
        writer.key("general.alignment", 1u32 << alignment).unwrap();
        for (key, value) in entries {
            writer.key(&key, value).unwrap();
        }
        for (index, (mut dims, type_id)) in tensors.into_iter().enumerate() {
            let (block_weights, block_bytes) = duan_quant::gguf_type(type_id).block().unwrap();
            dims[0] *= block_weights as u64;
            let bytes = dims.iter().product::<u64>() as usize / block_weights * block_bytes;
            writer.tensor(&format!("t{index}"), &dims, type_id, numbers(bytes)).unwrap();
        }
        writer.to_bytes()
    })
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(48))]

    #[test]
    fn every_cut_of_any_file_is_noticed(whole in any_file()) {
        check_all_cuts(&whole);
    }

    #[test]
    fn damaged_files_do_no_harm(
        whole in any_file(),
        damage in prop::collection::vec((any::<prop::sample::Index>(), any::<u8>()), 1..6),
    ) {
        let mut bytes = whole;
        for (at, byte) in damage {
            let at = at.index(bytes.len());
            bytes[at] = byte;
        }
        if let Ok(file) = GgufFile::from_bytes(bytes, "m.gguf") {
            walk(&file);
        }
    }

    #[test]
    fn swapped_counts_do_no_harm(whole in any_file(), at in any::<prop::sample::Index>(), count in any::<u64>()) {
        let mut bytes = whole;
        let at = at.index(bytes.len().saturating_sub(8).max(1));
        for (slot, byte) in bytes[at..].iter_mut().zip(count.to_le_bytes()) {
            *slot = byte;
        }
        if let Ok(file) = GgufFile::from_bytes(bytes, "m.gguf") {
            walk(&file);
        }
    }
}
