//! Translates arbitrary files of a folder, and makes a tokenizer and a template of what comes out.
//!
//! Whatever `tokenizer.json`, `tokenizer.model` and the files beside them say, there is an error of one line or a tokenizer whose
//! ids are within its vocabulary.

#![no_main]

use duan_model::hugging_face::tokenizer::{Files, translate};
use duan_model::template::ChatTemplate;
use duan_model::tokenizer::Tokenizer;
use libfuzzer_sys::fuzz_target;

// The first byte says which files there are; they stand one after the other, with a zero byte between them.
fuzz_target!(|data: &[u8]| {
    let Some((&which, data)) = data.split_first() else { return };
    let mut parts = data.split(|&byte| byte == 0).map(<[u8]>::to_vec);
    let mut next = |bit: u8| if which >> bit & 1 == 1 { parts.next() } else { None };
    let mut files = Files { folder: "fuzz".to_owned(), ..Files::default() };
    if which & 1 == 1 {
        files.sentencepiece = Some(data.to_vec());
    } else {
        files.tokenizer = next(1);
        files.tokenizer_config = next(2);
        files.config = next(3);
        files.generation_config = next(4);
        files.special_tokens_map = next(5);
        files.added_tokens = next(6);
        files.chat_template_json = next(7);
    }
    match translate(&files) {
        Ok(translation) => {
            let metadata = translation.metadata("fuzz").expect("each key stands there once");
            let Ok(tokenizer) = Tokenizer::from_gguf(&metadata) else { return };
            let _ = ChatTemplate::from_gguf(&metadata, &tokenizer);
            for text in ["", "a b  c\n\n", "\u{2581}é中 12345 <0x0A>"] {
                assert!(tokenizer.encode(text).iter().all(|&id| (id as usize) < tokenizer.vocab_size()));
            }
        }
        Err(error) => assert!(!error.to_string().contains('\n'), "a message of several lines: {error}"),
    }
});
