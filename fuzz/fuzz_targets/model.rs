//! Reads arbitrary bytes as a model: file, configuration and graph of its family, weights, tokenizer and chat template;
//! renders and encodes a conversation of two messages; and runs three tokens on the reference and on the CPU.
//!
//! Beyond not crashing, messages must be of one line, and text of a message must not become a control token. Without seeds no
//! run comes far: see the README.

#![no_main]

use std::sync::LazyLock;

use duan_backend::{Backend, CompileJob, KvFormat, Limits, Packing, Pass, Precision, Reference, Span};
use duan_cpu::{Cpu, CpuOptions};
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
        Ok(model) => {
            check_model(&file, &model);
            run(&Reference::new(Precision::Coded), &model);
            run(&*CPU, &model);
        }
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

static CPU: LazyLock<Cpu> = LazyLock::new(|| {
    Cpu::new(CpuOptions { threads_decode: Some(1), ..CpuOptions::default() }).expect("one thread can be had")
});

/// Two tokens, then one: whatever the numbers are, there is a logit for each token of the vocabulary.
fn run(backend: &dyn Backend, model: &Model) {
    let limits = Limits { max_rows: 2, max_wanted_rows: 2, pages: 1, context: 256, kv_format: KvFormat::F16 };
    let all = 0..model.graph.nodes.len();
    let job = CompileJob { model, ops: std::slice::from_ref(&all), limits, packing: Packing::InMemory };
    let mut compiled = backend.compile(&job).expect("a model that could be read can be compiled");
    let last = model.config.vocab_size as u32 - 1;
    for (start, tokens) in [(0, &[0, last][..]), (2, &[last])] {
        let spans = [Span { sequence: 0, start, count: tokens.len(), wanted: 1, pages: &[0] }];
        compiled.submit(&Pass { tokens, spans: &spans }, all.clone()).expect("the pass is within its limits");
        compiled.wait().expect("nothing fails");
        assert_eq!(compiled.value(model.graph.logits, model.config.vocab_size).len(), model.config.vocab_size);
    }
}

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
