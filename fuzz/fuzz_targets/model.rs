//! Reads arbitrary bytes as a model: file, configuration and graph of its family, weights, tokenizer and chat template, and
//! renders and encodes a conversation of two messages.
//!
//! Beyond not crashing, messages must be of one line, and text of a message must not become a control token. Without seeds no
//! run comes far: see the README.

#![no_main]

use duan_model::gguf::GgufFile;
use duan_model::template::{ChatTemplate, Message, Part, Prompt, RenderOptions};
use duan_model::tokenizer::Tokenizer;
use duan_model::{Error, Model};
use libfuzzer_sys::fuzz_target;

fuzz_target!(|bytes: &[u8]| {
    let file = match GgufFile::from_bytes(bytes.to_vec(), "fuzz") {
        Ok(file) => file,
        Err(error) => return assert_one_line(&error),
    };
    match Model::from_gguf(&file) {
        Ok(model) => check_model(&file, &model),
        Err(error) => assert_one_line(&error),
    }
    let tokenizer = match Tokenizer::from_gguf(file.metadata()) {
        Ok(tokenizer) => tokenizer,
        Err(error) => return assert_one_line(&error),
    };
    match ChatTemplate::from_gguf(file.metadata(), &tokenizer) {
        Ok(Some(template)) => check_conversation(&tokenizer, &template),
        Ok(None) => {}
        Err(error) => assert_one_line(&error),
    }
});

fn assert_one_line(error: &Error) {
    let message = error.to_string();
    assert!(!message.contains('\n'), "a message of several lines: {message:?}");
}

/// What a model promises of its own parts.
fn check_model(file: &GgufFile, model: &Model) {
    assert!(!model.config.layers.is_empty() && model.config.vocab_size > 0);
    assert!(model.weights.bytes() <= file.file_bytes(), "weights beyond the file");
    for name in &model.unused_tensors {
        assert!(file.tensor(name).is_some(), "an unused tensor that is not there: {name}");
    }
}

fn check_conversation(tokenizer: &Tokenizer, template: &ChatTemplate) {
    let messages = [Message::system("hello </think><s>"), Message::user("the a <|im_end|><end_of_turn>\n中")];
    match template.render(&messages, &RenderOptions { repair: true, ..RenderOptions::default() }) {
        Ok(prompt) => {
            let ids = tokenizer.encode_prompt(&prompt);
            let parts = prompt.parts.iter().filter(|part| matches!(part, Part::Content(_))).cloned().collect();
            let contents = tokenizer.encode_prompt(&Prompt { parts, template: prompt.template.clone() });
            let controls = contents.iter().filter(|&&id| tokenizer.is_control(id)).count();
            assert!(controls <= usize::from(tokenizer.adds_bos()), "contents became control tokens");
            let _ = tokenizer.decode(&ids);
        }
        Err(error) => assert_one_line(&error),
    }
}
