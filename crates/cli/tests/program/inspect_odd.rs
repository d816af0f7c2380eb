//! `duan inspect`: what it says that is odd about a file.

use duan::model::gguf::{Array, StringArray, Value};
use serde_json::Value as Json;

use crate::common::Home;

/// The tokens of the tiny byte-level fixtures, some of them replaced by control tokens.
fn with_control_tokens(replaced: &[(usize, &str)]) -> Vec<(&'static str, Value)> {
    let file = duan::model::gguf::GgufFile::open(&crate::common::fixture_path("smollm2")).unwrap();
    let tokens = file.metadata().strings("tokenizer.ggml.tokens").unwrap().unwrap();
    let mut texts: Vec<&str> = tokens.iter().collect();
    let mut kinds = vec![1; texts.len()];
    kinds[0] = 3;
    for &(id, text) in replaced {
        (texts[id], kinds[id]) = (text, 3);
    }
    vec![
        ("tokenizer.ggml.tokens", texts.iter().collect::<StringArray>().into()),
        ("tokenizer.ggml.token_type", Array::I32(kinds).into()),
    ]
}

/// The sentence about an oddity, where there is one.
fn odd(json: &Json, kind: &str) -> Option<String> {
    let odd = json["odd"].as_array().unwrap().iter().find(|odd| odd["kind"] == kind)?;
    let text = odd["text"].as_str().unwrap().to_owned();
    assert!(json["warnings"].as_array().unwrap().iter().any(|warning| *warning == text), "{json}");
    Some(text)
}

fn inspected(home: &Home, fixture: &str, keys: &[(&str, Value)]) -> Json {
    let model = home.changed_fixture("odd.gguf", fixture, keys, |_| Some(0));
    home.run(&["inspect", model, "--json"]).json()
}

#[test]
fn tensors_that_are_not_used_are_listed() {
    let home = Home::new();
    // Two layers are there, and the file says that it has one.
    let model = home.changed_fixture("short.gguf", "smollm2", &[("llama.block_count", 1u32.into())], |_| Some(0));
    let json = home.run(&["inspect", model, "--json"]).json();
    let unused: Vec<&str> =
        json["unused_tensors"].as_array().unwrap().iter().map(|name| name.as_str().unwrap()).collect();
    assert!(unused.len() >= 9 && unused.iter().all(|name| !name.starts_with("blk.0.")), "{unused:?}");
    let page = home.run(&["inspect", model]);
    let line = page.done().lines().find(|line| line.contains("tensors are not used")).unwrap();
    let beginning = format!("-  {} tensors are not used (`{}`, ", unused.len(), unused[0]);
    assert!(line.starts_with(&beginning) && line.contains(", ...)") && line.contains("--tensors"), "{line}");
    assert!(page.stdout.contains("runs: yes"), "{page:?}");
}

#[test]
fn what_a_template_does_with_conversations_is_tried() {
    let home = Home::new();
    let template = "{{ bos_token }}{% if messages[0].role == 'system' %}{{ raise_exception('no') }}{% endif %}\
                    {% for message in messages %}{{ message.content }}<over>{% endfor %}";
    let mut keys = with_control_tokens(&[(95, "<over>")]);
    keys.push(("tokenizer.chat_template", template.into()));
    keys.push(("tokenizer.chat_template.rag", "{{ documents }}".into()));
    let json = inspected(&home, "smollm2", &keys);
    let facts = &json["template"];
    assert_eq!((&facts["status"], &facts["source"]), (&"ready".into(), &"tokenizer.chat_template".into()));
    assert_eq!(facts["unused_sources"], serde_json::json!(["tokenizer.chat_template.rag"]));
    assert_eq!((&facts["takes_system"], &facts["takes_tools"]), (&false.into(), &false.into()));
    assert_eq!((&facts["writes_bos"], &facts["doubles_bos"]), (&true.into(), &false.into()));
    assert_eq!((&facts["turn_end"]["id"], &facts["turn_end"]["text"]), (&95.into(), &"<over>".into()));
    assert!(odd(&json, "no_system_messages").is_some());
    // The token is a control token, and nothing says that it ends an answer.
    let text = odd(&json, "unknown_turn_end").unwrap();
    assert!(text.contains("<over>") && text.contains("run on"), "{text}");
    let page = home.run(&["inspect", "odd.gguf"]);
    assert!(page.done().contains("no system messages, no tools\n"), "{page:?}");
    assert!(page.stdout.contains("others, not used: rag\n") && page.stdout.contains("; -n limits them\n"), "{page:?}");
    assert!(page.stdout.contains("<|endoftext|> (0), the template begins with it, other texts do not\n"), "{page:?}");
    // Once the file says so, all is well, but for programs that know EOS alone.
    keys.push(("tokenizer.ggml.eot_token_id", 95u32.into()));
    let json = inspected(&home, "smollm2", &keys);
    assert!(odd(&json, "unknown_turn_end").is_none());
    let text = odd(&json, "other_turn_end").unwrap();
    assert!(text.contains("<over>") && text.contains("<|endoftext|>"), "{text}");
    keys.push(("tokenizer.ggml.eos_token_id", 95u32.into()));
    assert!(odd(&inspected(&home, "smollm2", &keys), "other_turn_end").is_none());
}

#[test]
fn tools_and_switches_of_templates_are_found() {
    let home = Home::new();
    let template = "{% for tool in tools or [] %}{{ tool.function.name }}{% endfor %}{% for m in messages %}{{ m.content }}\
                    {% endfor %}{% if enable_thinking %}<think>{% endif %}";
    let json = inspected(&home, "smollm2", &[("tokenizer.chat_template", template.into())]);
    let facts = &json["template"];
    assert_eq!((&facts["takes_tools"], &facts["switches_thinking"]), (&true.into(), &true.into()));
    assert_eq!((&facts["takes_system"], &facts["turn_end"]), (&true.into(), &Json::Null));
    let page = home.run(&["inspect", "odd.gguf"]);
    assert!(page.done().contains("takes system messages, tools, thinking can be switched\n"), "{page:?}");
    // One for tools that wants them in another form.
    let json = inspected(
        &home,
        "smollm2",
        &[
            ("tokenizer.chat_template", "{{ messages[0].content }}".into()),
            ("tokenizer.chat_template.tool_use", "{% for tool in tools %}{{ tool.name + 'x' }}{% endfor %}".into()),
        ],
    );
    assert_eq!(json["template"]["tool_use_source"], "tokenizer.chat_template.tool_use");
    assert!(odd(&json, "other_tool_form").unwrap().starts_with("`tokenizer.chat_template.tool_use` "));
}

#[test]
fn templates_that_go_wrong_are_told() {
    let home = Home::new();
    let of = |template: &str| inspected(&home, "smollm2", &[("tokenizer.chat_template", template.into())]);
    let doubled = of("{{ bos_token }}{{ bos_token }}{{ messages[0].content }}");
    assert!(odd(&doubled, "doubled_bos").unwrap().contains("<|endoftext|> twice"));
    let failing = of("{{ 'a' + nothing }}");
    assert!(odd(&failing, "failing_template").unwrap().contains("tokenizer.chat_template: "));
    let broken = of("{% if %}");
    assert!(odd(&broken, "broken_template").unwrap().contains("cannot be used"));
    let blank = of(" ");
    assert!(odd(&blank, "no_template").unwrap().contains("only an empty chat template"));
    assert!(odd(&blank, "blank_keys").unwrap().contains("1 key has no value or no name (`tokenizer.chat_template`)"));
    assert!(odd(&inspected(&home, "smollm2", &[]), "no_template").unwrap().contains("base model"));
}

#[test]
fn a_model_that_cannot_end_its_turn_is_told() {
    let home = Home::new();
    let mut keys = with_control_tokens(&[(0, "<begin>")]);
    keys.push(("tokenizer.ggml.eos_token_id", 5000u32.into()));
    keys.push(("tokenizer.chat_template", "{{ messages[0].content }}".into()));
    let json = inspected(&home, "smollm2", &keys);
    assert!(odd(&json, "no_end_of_turn").unwrap().contains("run on"), "{json}");
    let page = home.run(&["inspect", "odd.gguf"]);
    assert!(page.done().contains("\nend of turn    none known\n"), "{page:?}");
    assert!(page.stdout.contains("\nEOS            5000, which is beyond the vocabulary\n"), "{page:?}");
}

#[test]
fn padding_of_the_vocabulary_is_told() {
    let home = Home::new();
    let tokens = |count: usize| -> Vec<(&str, Value)> {
        let texts: StringArray = (0..count).map(|id| format!("t{id}")).collect();
        vec![
            ("tokenizer.ggml.tokens", texts.into()),
            ("tokenizer.ggml.token_type", Array::I32(vec![1; count]).into()),
            ("tokenizer.ggml.merges", StringArray::new().into()),
        ]
    };
    let padded = odd(&inspected(&home, "smollm2", &tokens(90)), "padded_vocabulary").unwrap();
    assert!(padded.contains("96 rows for 90 tokens; the last 6 "), "{padded}");
    let short = odd(&inspected(&home, "smollm2", &tokens(100)), "short_vocabulary").unwrap();
    assert!(short.contains("100 tokens") && short.contains("96 rows"), "{short}");
    let equal = inspected(&home, "smollm2", &tokens(96));
    assert!(odd(&equal, "padded_vocabulary").is_none() && odd(&equal, "short_vocabulary").is_none());
}

#[test]
fn other_things_that_are_odd() {
    let home = Home::new();
    let plain = inspected(&home, "smollm2", &[]);
    assert!(odd(&plain, "tied_head").is_some() && odd(&plain, "no_licence").is_some());
    assert!(odd(&inspected(&home, "qwen2-head", &[]), "tied_head").is_none());
    let keys: &[(&str, Value)] = &[
        ("general.license", "mit".into()),
        ("general.author", "".into()),
        ("tokenizer.ggml.add_eos_token", true.into()),
        ("llama.attention.causal", false.into()),
    ];
    let json = inspected(&home, "smollm2", keys);
    assert!(odd(&json, "no_licence").is_none());
    assert!(odd(&json, "blank_keys").unwrap().contains("`general.author`"));
    assert!(odd(&json, "added_eos").unwrap().contains("<|endoftext|>"));
    assert!(odd(&json, "no_text_model").unwrap().contains("embeddings"));
    assert!(odd(&json, "no_template").is_none(), "such a model has no use for one");
    for (kind, word) in [("adapter", "LoRA"), ("mmproj", "images"), ("imatrix", "statistics"), ("poem", "\"poem\"")] {
        let json = inspected(&home, "smollm2", &[("general.type", kind.into())]);
        assert!(odd(&json, "no_text_model").unwrap().contains(word), "{json}");
    }
}

#[test]
fn remarks_on_tokens_do_not_fill_the_page() {
    let home = Home::new();
    // Names of turns that the file calls text, over and over.
    let texts =
        ["<|im_start|>", "<|im_end|>", "<|eot_id|>", "<|start_header_id|>", "<|end_header_id|>", "<start_of_turn>"];
    let mut keys = with_control_tokens(&texts.iter().enumerate().map(|(n, text)| (90 + n, *text)).collect::<Vec<_>>());
    let Value::Array(Array::I32(kinds)) = &mut keys[1].1 else { panic!("the kinds are numbers") };
    kinds[90..96].fill(1);
    let json = inspected(&home, "smollm2", &keys);
    let remarks = json["odd"].as_array().unwrap().iter().filter(|odd| odd["kind"] == "tokenizer").count();
    assert!(remarks >= 6, "{json}");
    let page = home.run(&["inspect", "odd.gguf"]);
    assert_eq!(page.done().matches("is not marked as a control token").count(), 3, "{page:?}");
    assert!(page.stdout.contains(&format!("-  {} more remarks of the tokenizer; --json has them all\n", remarks - 3)));
}
