use super::*;

/// A file of this header, with `data` bytes behind it.
fn file(header: &str, data: usize) -> Vec<u8> {
    let mut bytes = (header.len() as u64).to_le_bytes().to_vec();
    bytes.extend_from_slice(header.as_bytes());
    bytes.resize(bytes.len() + data, 7);
    bytes
}

fn error(bytes: Vec<u8>) -> String {
    let text = SafetensorsFile::from_bytes(bytes, "m.safetensors").unwrap_err().to_string();
    assert!(text.starts_with("m.safetensors: ") && !text.contains('\n'), "{text}");
    text
}

#[test]
fn tensors_are_where_the_header_says() {
    let header = r#"{"__metadata__":{"format":"pt"},"b":{"dtype":"BF16","shape":[2,3],"data_offsets":[4,16]},
        "a":{"dtype":"F32","shape":[],"data_offsets":[0,4]},"none":{"dtype":"I8","shape":[0,5],"data_offsets":[4,4]}}"#;
    let mut bytes = file(header, 16);
    let start = bytes.len() - 16;
    bytes[start + 4..].copy_from_slice(&[1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12]);
    let file = SafetensorsFile::from_bytes(bytes, "m").unwrap();
    let names: Vec<&str> = file.tensors().iter().map(|tensor| tensor.name.as_str()).collect();
    assert_eq!(names, ["b", "a", "none"]);
    let [b, a, none] = file.tensors() else { panic!() };
    assert_eq!((b.dtype, &b.shape[..], b.offset, b.bytes), (Dtype::BF16, &[2, 3][..], start as u64 + 4, 12));
    assert_eq!((a.bytes, none.bytes), (4, 0));
    assert_eq!(&*file.data(b).unwrap(), [1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12]);
}

#[test]
fn every_break_of_the_format_has_its_own_message() {
    let tensor =
        |offsets: &str, shape: &str| format!(r#"{{"t":{{"dtype":"F32","shape":{shape},"data_offsets":{offsets}}}}}"#);
    let mut long = file("{", 0);
    long[..8].copy_from_slice(&(1u64 << 63).to_le_bytes());
    let mut above = file("{", 0);
    above[..8].copy_from_slice(&100_000_001u64.to_le_bytes());
    let mut cut = file("{}", 0);
    cut[..8].copy_from_slice(&50u64.to_le_bytes());
    let twice =
        r#"{"t":{"dtype":"I8","shape":[1],"data_offsets":[0,1]},"t":{"dtype":"I8","shape":[1],"data_offsets":[1,2]}}"#;
    let entry = |number| format!(r#""{number}":{{"dtype":"I8","shape":[0],"data_offsets":[0,0]}}"#);
    let many = format!("{{{}}}", (0..=1 << 17).map(entry).collect::<Vec<_>>().join(","));
    let overlap =
        r#"{"a":{"dtype":"I8","shape":[4],"data_offsets":[0,4]},"b":{"dtype":"I8","shape":[4],"data_offsets":[3,7]}}"#;
    for (bytes, found) in [
        (Vec::new(), "the length of the header needs 8 bytes, and 0 are left"),
        (long, "expected a header of at most 100000000 bytes, found 9223372036854775808 bytes"),
        (above, "expected a header of at most 100000000 bytes, found 100000001 bytes"),
        (cut, "the header needs 50 bytes, and 2 are left"),
        (b"GGUF \0\0\0 more".to_vec(), "this is not a safetensors file"),
        (b"<!doctype html>".to_vec(), "this is an HTML page, not a safetensors file; the download got a web page"),
        (
            b"version https://git-lfs.github.com/spec/v1\n".to_vec(),
            "this is a Git LFS pointer, which only names the file",
        ),
        (file(r#"{"__metadata__":{},"__metadata__":{}}"#, 0), "a duplicate `__metadata__`"),
        (file(&many, 0), "more than 131072 tensors"),
        (file("{\"t\":3}", 0), "the header: expected an entry for each tensor"),
        (file(twice, 2), "tensor `t`: expected each tensor once, found a duplicate name"),
        (file(&tensor("[8,4]", "[1]"), 8), "offsets 8 to 4"),
        (file(&tensor("[0,8]", "[2]"), 7), "tensor `t` at byte 62 needs 8 bytes, and 7 are left"),
        (file(&tensor("[0,18446744073709551615]", "[2]"), 7), "needs 18446744073709551615 bytes"),
        (file(&tensor("[0,8]", "[3]"), 8), "expected 12 bytes for shape [3] of F32, found 8 bytes"),
        (file(&tensor("[0,8]", "[4398046511105,4194304]"), 8), "more than fit 64 bits"),
        (file(&tensor("[0,8]", "[1,1,1,1,1,1,1,1,2]"), 8), "at most 8 axes"),
        (file(r#"{"t":{"dtype":"F4","shape":[3],"data_offsets":[0,1]}}"#, 1), "no whole number"),
        (file(r#"{"t":{"dtype":"Q8","shape":[3],"data_offsets":[0,3]}}"#, 3), "expected one of F64, F32"),
        (file(overlap, 7), "tensor `b`: expected data after byte"),
    ] {
        let text = error(bytes);
        assert!(text.contains(found), "{text}\nlacks {found}");
    }
}

#[test]
fn a_file_cut_anywhere_is_refused() {
    let header = r#"{"a":{"dtype":"F16","shape":[3],"data_offsets":[0,6]},"b":{"dtype":"U8","shape":[5],"data_offsets":[6,11]}}"#;
    let whole = file(header, 11);
    SafetensorsFile::from_bytes(whole.clone(), "m").unwrap();
    for length in 0..whole.len() {
        error(whole[..length].to_vec());
    }
}

#[test]
fn an_index_names_plain_files() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("model.safetensors.index.json");
    let read = |text: &str| {
        std::fs::write(&path, text).unwrap();
        read_index(&path).map_err(|error| error.to_string())
    };
    let (files, tensors) =
        read(r#"{"metadata":{},"weight_map":{"x":"m-2.safetensors","a":"m-1.safetensors","b":"m-2.safetensors"}}"#)
            .unwrap();
    assert_eq!(files, ["m-1.safetensors", "m-2.safetensors"]);
    assert_eq!((tensors["x"], tensors["a"], tensors["b"]), (1, 0, 1));
    for name in ["../m.safetensors", "/m.safetensors", "a\\\\b.safetensors", "m.bin", ""] {
        let error = read(&format!(r#"{{"weight_map":{{"x":"{name}"}}}}"#)).unwrap_err();
        assert!(error.contains("for a file of weights"), "{error}");
    }
    assert!(read(r#"{"weight_map":{}}"#).unwrap_err().contains("0 files"));
    assert!(read("[1]").unwrap_err().contains("not the JSON"));
}
