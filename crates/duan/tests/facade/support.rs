//! Tiny models, engines and what they tell.

use std::fs;
use std::ops::ControlFlow;
use std::path::{Path, PathBuf};

use duan::model::gguf::GgufFile;
use duan::model::gguf::write::GgufWriter;
use duan::{Engine, EngineOptions, Event, SamplingOptions};
use tempfile::TempDir;

/// Every turn ends with the token that ends a text, as in most templates.
pub(crate) const TEMPLATE: &str = "{% for m in messages %}{{ m.role }}: {{ m.content }}<|endoftext|>\n{% endfor %}\
                            {% if add_generation_prompt %}assistant: {% endif %}";

pub(crate) fn fixtures() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../backend/tests/fixtures")
}

/// The file of a fixture.
pub(crate) fn fixture(name: &str) -> PathBuf {
    fixtures().join(name).join("model.gguf")
}

/// A copy of a fixture with a chat template; the folder lives as long as the first part.
pub(crate) fn with_template(name: &str, template: &str) -> (TempDir, PathBuf) {
    let file = GgufFile::open(&fixture(name)).unwrap();
    let mut writer = GgufWriter::new(name);
    for (key, value) in file.metadata().iter() {
        writer.key(key, value.clone()).unwrap();
    }
    writer.key("tokenizer.chat_template", template).unwrap();
    for tensor in file.tensors() {
        let bytes = file.tensor_data(tensor).unwrap().to_vec();
        writer.tensor(&tensor.name, &tensor.dims, tensor.type_id, bytes).unwrap();
    }
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("chat.gguf");
    fs::write(&path, writer.to_bytes()).unwrap();
    (folder, path)
}

/// Two threads whatever the machine has, greedy, 12 tokens per answer.
pub(crate) fn options() -> EngineOptions {
    EngineOptions {
        threads: Some(2),
        sampling: SamplingOptions::greedy(),
        max_tokens: Some(12),
        ..EngineOptions::default()
    }
}

pub(crate) fn engine(path: &Path, options: EngineOptions) -> Engine {
    let mut engine = Engine::new(options).unwrap();
    engine.load_model(path).unwrap();
    engine
}

/// An engine on a fixture with [`TEMPLATE`].
pub(crate) fn chat_engine(options: EngineOptions) -> (TempDir, Engine) {
    let (folder, path) = with_template("smollm2", TEMPLATE);
    let engine = engine(&path, options);
    (folder, engine)
}

/// What was told, one word each, and all text.
#[derive(Debug, Default)]
pub(crate) struct Told {
    pub(crate) words: Vec<String>,
    pub(crate) text: String,
}

impl Told {
    /// Notes an event of an answer, and goes on.
    pub(crate) fn tell(&mut self, event: &Event<'_>) -> ControlFlow<()> {
        self.note(event);
        ControlFlow::Continue(())
    }

    pub(crate) fn note(&mut self, event: &Event<'_>) {
        self.words.push(match event {
            Event::LoadStarted { .. } => "load".into(),
            Event::Warning { message } => format!("warning {message}"),
            Event::Planned { plan } => format!("planned {}", plan.has_fallback()),
            Event::Loaded { context, .. } => format!("loaded {context}"),
            Event::WarmedUp { .. } => "warm".into(),
            Event::PrefillProgress { done, total, cached } => format!("prefill {done}/{total}, {cached} cached"),
            Event::Token { ends_turn, .. } => if *ends_turn { "end" } else { "token" }.into(),
            Event::Text { text } => {
                assert!(!text.is_empty());
                self.text.push_str(text);
                "text".into()
            }
            Event::ContextNearlyFull { used, context } => format!("nearly full {used}/{context}"),
            Event::Finished { timings } => format!("finished {}", timings.finish_reason.name()),
            other => format!("{other:?}"),
        });
    }
}
