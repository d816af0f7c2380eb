//! Reads arbitrary bytes as a safetensors file: what it accepts lies inside the file, has the bytes of its shape and overlaps nothing.

#![no_main]

use duan_model::safetensors::SafetensorsFile;
use libfuzzer_sys::fuzz_target;

fuzz_target!(|bytes: &[u8]| {
    let file = match SafetensorsFile::from_bytes(bytes.to_vec(), "fuzz") {
        Ok(file) => file,
        Err(error) => return assert!(!error.to_string().contains('\n'), "{error}"),
    };
    let mut ranges: Vec<(u64, u64)> = Vec::new();
    for tensor in file.tensors() {
        let data = file.data(tensor).expect("an accepted tensor has its bytes");
        assert_eq!(data.len() as u64, tensor.bytes);
        let bits =
            tensor.shape.iter().map(|&axis| u128::from(axis)).product::<u128>() * u128::from(tensor.dtype.bits());
        assert_eq!(bits, u128::from(tensor.bytes) * 8);
        if tensor.bytes > 0 {
            ranges.push((tensor.offset, tensor.offset + tensor.bytes));
        }
    }
    ranges.sort_unstable();
    assert!(ranges.windows(2).all(|pair| pair[0].1 <= pair[1].0));
});
