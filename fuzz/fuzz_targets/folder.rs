//! Reads arbitrary bytes as a folder of Hugging Face: the text of config.json, a zero byte, a safetensors file. What is translated is
//! read as a model, as it is and brought into Q8_0, and every row is made.
//!
//! Seeds are the folders of the tiny models: see the README.

#![no_main]

use duan_model::Model;
use duan_model::checkpoint::Checkpoint;
use libfuzzer_sys::fuzz_target;

fuzz_target!(|bytes: &[u8]| {
    let Some(end) = bytes.iter().position(|&byte| byte == 0) else { return };
    let (config, weights) = (bytes[..end].to_vec(), bytes[end + 1..].to_vec());
    match Checkpoint::from_folder("fuzz", config, vec![("model.safetensors".to_owned(), weights)]) {
        Ok(checkpoint) => check(&checkpoint),
        Err(error) => assert_one_line(&error),
    }
});

fn check(checkpoint: &Checkpoint) {
    make_rows(checkpoint);
    if let Err(error) = Model::from_checkpoint(checkpoint) {
        assert_one_line(&error);
    }
    let format = duan_quant::format_by_name("Q8_0").expect("it is a format");
    match checkpoint.in_format(format) {
        Ok(quantized) => make_rows(&quantized),
        Err(error) => assert_one_line(&error),
    }
}

fn make_rows(checkpoint: &Checkpoint) {
    for tensor in checkpoint.tensors() {
        let data = checkpoint.data(tensor).expect("a translated tensor has its rows");
        let rows = tensor.dims[1..].iter().product::<u64>() as usize;
        let row_bytes = tensor.bytes.expect("the size of a translated tensor is known") as usize / rows;
        let mut row = vec![0; row_bytes];
        for index in 0..rows {
            if let Err(error) = data.read_rows(index, row_bytes, &mut row) {
                return assert_one_line(&error);
            }
        }
    }
}

fn assert_one_line(error: &duan_model::Error) {
    assert!(!error.to_string().contains('\n'), "{error}");
}
