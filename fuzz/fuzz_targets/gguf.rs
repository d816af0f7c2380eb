//! Parses arbitrary bytes as a GGUF file, and reads everything that an accepted file says.
//!
//! Beyond not crashing, an accepted file must keep its promises: each tensor's bytes are there, and a header
//! written anew from what was read is read as the same.

#![no_main]

use duan_model::gguf::write::GgufWriter;
use duan_model::gguf::{GgufFile, Metadata};
use libfuzzer_sys::fuzz_target;

fuzz_target!(|bytes: &[u8]| {
    match GgufFile::from_bytes(bytes.to_vec(), "fuzz") {
        Ok(file) => {
            check_tensors(&file, bytes.len());
            read_keys(file.metadata());
            check_written_anew(&file);
            let _ = file.check_types().map_err(|error| assert_one_line(&error.to_string()));
        }
        Err(error) => assert_one_line(&error.to_string()),
    }
});

fn assert_one_line(message: &str) {
    assert!(!message.contains('\n'), "a message of several lines: {message:?}");
}

fn check_tensors(file: &GgufFile, file_bytes: usize) {
    for tensor in file.tensors() {
        assert_eq!(file.tensor(&tensor.name), Some(tensor));
        match (tensor.bytes, file.tensor_data(tensor)) {
            (Some(bytes), Ok(data)) => assert!(data.len() as u64 == bytes && data.len() <= file_bytes),
            (Some(_), Err(error)) => panic!("an accepted tensor cannot be read: {error}"),
            (None, data) => assert!(data.is_err()),
        }
    }
}

/// Every reader on every key: they may refuse, and may not crash.
fn read_keys(metadata: &Metadata) {
    for (key, value) in metadata.iter() {
        assert_eq!(metadata.get(key).map(|value| value.type_name()), Some(value.type_name()));
        let errors = [
            metadata.string(key).err(),
            metadata.bool(key).err(),
            metadata.f32(key).err(),
            metadata.u32(key).err(),
            metadata.u64(key).err(),
            metadata.f32s(key).err(),
            metadata.i32s(key).err(),
            metadata.u32s(key).err(),
            metadata.bools(key).err(),
        ];
        errors.iter().flatten().for_each(|error| assert_one_line(&error.to_string()));
        if let Ok(Some(strings)) = metadata.strings(key) {
            assert_eq!(strings.iter().map(str::len).sum::<usize>(), strings.text_bytes());
        }
    }
}

/// Metadata that were read and written are read as the same. Compared as text, in which NaN equals NaN.
fn check_written_anew(file: &GgufFile) {
    let mut writer = GgufWriter::new("fuzz");
    for (key, value) in file.metadata().iter() {
        if let Err(error) = writer.key(key, value.clone()) {
            panic!("what was read cannot be written: {error}");
        }
    }
    match GgufFile::from_bytes(writer.to_bytes(), "again") {
        Ok(again) => {
            let text = |metadata: &Metadata| metadata.iter().map(|entry| format!("{entry:?}")).collect::<Vec<_>>();
            assert_eq!(text(again.metadata()), text(file.metadata()));
        }
        Err(error) => panic!("what was written cannot be read: {error}"),
    }
}
