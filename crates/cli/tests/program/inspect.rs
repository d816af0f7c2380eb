//! `duan inspect`: what it says of files, in words and as JSON.

use serde_json::{Value as Json, json};

use crate::common::{Home, fixture_path};
use duan::model::gguf::write::GgufWriter;
use duan::model::gguf::{Array, GgufFile, StringArray, Value};

/// A template that shows every role, in the words that the tiny vocabulary knows.
const TEMPLATE: &str = "{% for message in messages %}{{ message.role }} {{ message.content }} {% endfor %}\
                        {% if add_generation_prompt %}assistant {% endif %}";

/// The lines of a page that begin with a name, and those that go on below it.
fn rows<'p>(page: &'p str, name: &str) -> Vec<&'p str> {
    let mut lines = page.lines().skip_while(|line| line.split("  ").next() != Some(name));
    let first = lines.next().map(|line| line[name.len()..].trim());
    let more = lines.take_while(|line| line.starts_with("   ")).map(str::trim);
    first.into_iter().chain(more).collect()
}

/// The verdict that a page begins with: its lines up to the first empty one.
fn verdict(page: &str) -> Vec<&str> {
    page.lines().take_while(|line| !line.is_empty()).collect()
}

#[test]
fn inspect_tells_what_is_in_the_file() {
    let home = Home::new();
    let model = home.fixture("gemma3");
    let json = home.run(&["inspect", model, "--json"]).json();
    assert_eq!(
        (&json["architecture"], &json["runs"], &json["chat_template"]),
        (&json!("gemma3"), &json!(true), &json!(false))
    );
    assert_eq!(json["config"]["layers"], 7);
    assert_eq!(json["types"][0]["type"], "F32");
    let total = json["types"].as_array().unwrap().iter().map(|row| row["tensors"].as_u64().unwrap()).sum::<u64>();
    assert_eq!(total as usize, json["tensors"].as_array().unwrap().len());
    let need = &json["need"];
    let parts = ["weights_bytes", "kv_bytes", "scratch_bytes"].map(|name| need[name].as_u64().unwrap());
    assert_eq!(need["total_bytes"].as_u64().unwrap(), parts.iter().sum::<u64>());
    assert_eq!(need["fits"], true);
    let page = home.run(&["inspect", model, "--metadata", "--tensors"]);
    assert!(page.done().contains("blk.0.attn_q.weight") && page.stdout.contains("gemma3.block_count"), "{page:?}");
    assert!(page.stdout.contains("runs: yes"), "{page:?}");
    assert!(page.stdout.lines().all(|line| line == line.trim_end()));
}

#[test]
fn inspect_says_what_a_template_is_worth() {
    let home = Home::new();
    for (template, is_ready, word) in [
        (TEMPLATE, true, "chat template  from tokenizer.chat_template, "),
        ("{% if %}", false, "chat template  cannot be used: tokenizer.chat_template: "),
        (" \n", false, "chat template  empty\n"),
    ] {
        let model = home.chat_fixture("smollm2", template);
        let page = home.run(&["inspect", model]);
        assert!(page.done().contains(word) && page.stdout.contains("runs: yes"), "{page:?}");
        let json = home.run(&["inspect", model, "--json"]).json();
        assert_eq!(json["chat_template"], is_ready);
        assert_eq!(json["chat_template_error"].is_string(), word.contains("cannot"), "{json}");
    }
}

#[test]
fn inspect_says_in_one_line_why_a_file_cannot_run() {
    const I32: u32 = 26;
    let home = Home::new();
    let missing = |name: &str| if name == "blk.0.attn_q.weight" { None } else { Some(0) };
    let odd = |name: &str| Some(if name == "blk.0.attn_norm.weight" { I32 } else { 0 });
    let cases = [
        (home.changed_fixture("missing.gguf", "smollm2", &[], missing), "blk.0.attn_q.weight"),
        (home.changed_fixture("type.gguf", "smollm2", &[], odd), "I32"),
        (
            home.changed_fixture("family.gguf", "smollm2", &[("general.architecture", "lhama".into())], |_| Some(0)),
            "lhama",
        ),
    ];
    for (model, word) in cases {
        let page = home.run(&["inspect", model]);
        let lines = verdict(page.done());
        assert!(lines.len() == 2 && lines[0] == "runs: no", "{page:?}");
        assert!(lines[1].starts_with("- ") && lines[1].contains(word), "{page:?}");
        assert!(home.run(&["complete", model, "-p", "a"]).failed().contains(word));
    }
}

#[test]
fn json_has_stable_names() {
    let home = Home::new();
    let json = home.run(&["inspect", home.fixture("llama3"), "--json"]).json();
    let names = |json: &Json| json.as_object().unwrap().keys().cloned().collect::<Vec<_>>().join(" ");
    assert_eq!(
        names(&json),
        "file verdict bytes pieces files container version alignment name architecture is_family_supported about \
         tensor_count weights active_weights bits_per_weight types disk_types config tokenizer template memory \
         unused_tensors problems odd chat_template chat_template_error need runs warnings metadata tensors"
    );
    assert_eq!(
        names(&json["config"]),
        "source context_length original_context_length vocab_size hidden_size layers heads kv_heads head_dim \
         intermediate_size tied_head attention short_convs ropes unrotated_layers mlps norm embedding_scale residual_scale \
         logit_scale logit_softcap"
    );
    assert_eq!(
        names(&json["need"]),
        "context weights_bytes kv_bytes scratch_bytes total_bytes fits is_chosen is_whole device available_bytes"
    );
    assert_eq!(
        names(&json["tokenizer"]),
        "supported model pre_tokenizer pre_tokenizer_used is_pre_tokenizer_recovered vocab_size merges control_tokens \
         unused_tokens bos eos adds_bos asks_for_eos adds_space_prefix end_of_turn special end_of_turn_tokens"
    );
    assert_eq!(names(&json["types"][0]), "type tensors weights bytes bits_per_weight supported status");
    assert_eq!(names(&json["tensors"][0]), "name type dims piece offset bytes");
}

#[test]
fn windows_and_rotary_embeddings_are_told_by_layers() {
    let home = Home::new();
    let model = home.fixture("gemma3");
    let config = &home.run(&["inspect", model, "--json"]).json()["config"];
    assert_eq!(config["attention"][0]["layers"], json!([0, 1, 2, 3, 4, 6]));
    assert_eq!((&config["attention"][0]["window"], &config["attention"][1]["window"]), (&json!(8), &Json::Null));
    assert_eq!(config["attention"][1]["layers"], json!([5]));
    assert_eq!(config["attention"][0]["qk_norm"], "per_head");
    let bases: Vec<(&Json, &Json)> =
        config["ropes"].as_array().unwrap().iter().map(|rope| (&rope["base"], &rope["layers"])).collect();
    assert_eq!(bases, [(&json!(1e6), &json!([5])), (&json!(1e4), &json!([0, 1, 2, 3, 4, 6]))]);
    assert_eq!((&config["norm"]["before"], &config["norm"]["after"]), (&json!(true), &json!(true)));
    assert_eq!(config["norm"]["epsilon"].to_string(), "1e-6");
    let page = home.run(&["inspect", model]);
    assert_eq!(rows(page.done(), "window"), ["6 layers see the last 8 tokens, 1 the whole context"]);
    assert_eq!(
        rows(&page.stdout, "RoPE"),
        [
            "base 1,000,000 in 1 of 7 layers, all 16 dimensions in split halves",
            "base 10,000 in 6 of 7 layers, all 16 dimensions in split halves"
        ]
    );
    assert_eq!(rows(&page.stdout, "output head"), ["the embedding table (tied)"]);
    assert_eq!(rows(&page.stdout, "tokenizer"), ["SentencePiece, by scores"]);
}

#[test]
fn short_convolutions_and_their_state_are_told() {
    let home = Home::new();
    let model = home.fixture("lfm2");
    let json = home.run(&["inspect", model, "--json"]).json();
    assert_eq!(json["config"]["short_convs"], json!([{ "taps": 4, "layers": [0, 1, 3] }]));
    assert_eq!(json["config"]["attention"][0]["layers"], json!([2, 4]));
    // Three layers keep three positions of 32 numbers; two have two heads of keys and of values, 8 wide, in 16 bits.
    assert_eq!(json["memory"]["state_bytes_per_page"], 3 * 3 * 32 * 4);
    assert_eq!(json["memory"]["kv_bytes_per_token"], 2 * 2 * 2 * 8 * 2);
    assert_eq!(json["need"]["kv_bytes"], 512 * 128 + 512 / 256 * 1152);
    let page = home.run(&["inspect", model]);
    assert_eq!(rows(page.done(), "attention"), ["4 heads, 2 for keys and values, 8 wide in 2 of 5 layers"]);
    assert_eq!(rows(&page.stdout, "short conv"), ["each token with the 3 before it in 3 of 5 layers"]);
    assert!(page.stdout.contains("128 bytes of KV cache, and short convolutions 1.15 kB for every 256\n"), "{page:?}");
}

#[test]
fn lists_for_long_contexts_are_told_with_where_they_begin() {
    let home = Home::new();
    let model = home.fixture("phi3");
    let config = &home.run(&["inspect", model, "--json"]).json()["config"];
    assert_eq!(
        config["ropes"][0]["scaling"],
        json!({ "kind": "longrope", "factor": 8.0, "long_list_above": 64 }),
        "{config}"
    );
    assert_eq!((&config["context_length"], &config["original_context_length"]), (&json!(512), &json!(64)));
    assert_eq!((&config["attention"][0]["fused_qkv"], &config["mlps"][0]["fused_gate"]), (&json!(true), &json!(true)));
    let page = home.run(&["inspect", model]);
    assert_eq!(rows(page.done(), "context"), ["512 tokens, 64 before RoPE was scaled"]);
    assert_eq!(
        rows(&page.stdout, "RoPE"),
        ["base 10,000, all 8 dimensions in split halves, LongRoPE × 8 (other frequencies for contexts above 64), \
          magnitude × 1.225"]
    );
    let part = home.run(&["inspect", home.fixture("phi3-partial"), "--json"]).json();
    let rope = &part["config"]["ropes"][0];
    assert!(rope["dims"].as_u64() < rope["head_dim"].as_u64(), "{rope}");
}

#[test]
fn scalings_are_told_by_kind() {
    let home = Home::new();
    for (fixture, kind) in [
        ("qwen3-yarn", json!("yarn")),
        ("llama-rope-linear", json!("linear")),
        ("mistral3", json!("yarn")),
        ("llama3", json!("llama3")),
        ("smollm2", Json::Null),
    ] {
        let json = home.run(&["inspect", home.fixture(fixture), "--json"]).json();
        assert_eq!(json["config"]["ropes"][0]["scaling"].get("kind").unwrap_or(&Json::Null), &kind, "{fixture}");
    }
    let page = home.run(&["inspect", home.fixture("smollm3")]);
    assert_eq!(rows(page.done(), "RoPE").last(), Some(&"no rotation in 1 of 5 layers"), "{page:?}");
}

#[test]
fn experts_are_counted_with_what_a_token_uses() {
    let home = Home::new();
    let model = home.fixture("qwen3moe");
    let json = home.run(&["inspect", model, "--json"]).json();
    let experts = &json["config"]["mlps"][0]["experts"];
    assert_eq!((&experts["experts"], &experts["used"], &experts["normalize"]), (&json!(8), &json!(3), &json!(true)));
    // Three matrices of 32 x 16 for each of 8 experts in two layers, of which 5 are not used.
    let all = json["weights"].as_u64().unwrap();
    assert_eq!(json["active_weights"], all - 2 * 5 * 3 * 32 * 16);
    let page = home.run(&["inspect", model]);
    assert_eq!(rows(page.done(), "experts"), ["8, 3 used for each token, 16 wide, gated by SiLU"]);
    assert!(rows(&page.stdout, "weights")[0].contains(", 26,336 of them used for each token, "), "{page:?}");
    let shared = home.run(&["inspect", home.fixture("granitemoe-shared")]);
    assert!(rows(shared.done(), "experts")[0].contains("one more 24 wide always used"), "{shared:?}");
    assert_eq!(rows(&shared.stdout, "factors"), ["embeddings × 6, residuals × 0.5, logits × 0.333"]);
    assert_eq!(home.run(&["inspect", home.fixture("llama3"), "--json"]).json()["active_weights"], Json::Null);
}

#[test]
fn memory_is_told_at_the_usual_contexts() {
    let home = Home::new();
    let model = home.changed_fixture("far.gguf", "llama3", &[("llama.context_length", 8192u32.into())], |_| Some(0));
    let of = |arguments: &[&str]| {
        let json = home.run(&[&["inspect", model, "--json"], arguments].concat()).json();
        let rows = json["memory"]["rows"].as_array().unwrap().clone();
        let per_token = json["memory"]["kv_bytes_per_token"].as_u64().unwrap();
        for row in &rows {
            assert_eq!(
                row["kv_bytes"].as_u64(),
                Some(row["context"].as_u64().unwrap().div_ceil(256) * 256 * per_token)
            );
        }
        let chosen: Vec<Json> =
            rows.iter().filter(|row| row["is_chosen"] == true).map(|row| row["context"].clone()).collect();
        assert_eq!(chosen, [json["need"]["context"].clone()]);
        assert_eq!(rows.last().unwrap()["is_whole"], true);
        assert_eq!(json["memory"]["largest_context"], 8192);
        rows.iter().map(|row| row["context"].as_u64().unwrap()).collect::<Vec<_>>()
    };
    assert_eq!(of(&[]), [512, 2048, 4096, 8192]);
    assert_eq!(of(&["--context", "1000"]), [512, 1000, 2048, 8192]);
    let page = home.run(&["inspect", model]);
    let remarks: Vec<&str> =
        page.done().lines().filter_map(|line| line.split_once("  fits")).map(|row| row.1).collect();
    assert_eq!(remarks, ["", "", ", the default", ", the whole context"], "{page:?}");
    assert!(home.run(&["inspect", model, "--context", "9000"]).failed().contains("8192"));
}

#[test]
fn a_context_that_no_memory_holds_is_told_with_what_fits() {
    let home = Home::new();
    let model = home.changed_fixture("long.gguf", "llama3", &[("llama.context_length", u32::MAX.into())], |_| Some(0));
    let json = home.run(&["inspect", model, "--json"]).json();
    assert_eq!((&json["runs"], &json["need"]["fits"]), (&json!(true), &json!(true)));
    let (largest, available) = (&json["memory"]["largest_context"], json["need"]["available_bytes"].as_u64().unwrap());
    let largest = largest.as_u64().unwrap();
    let per_token = json["memory"]["kv_bytes_per_token"].as_u64().unwrap();
    assert!(largest * per_token <= available && (largest + 256) * per_token + 100_000_000 > available, "{largest}");
    let odd = json["odd"].as_array().unwrap().iter().find(|odd| odd["kind"] == "large_context").unwrap();
    assert!(odd["text"].as_str().unwrap().contains(&format!("at most {largest} tokens")), "{odd}");
    let page = home.run(&["inspect", model, "--context", &u32::MAX.to_string()]);
    assert!(page.done().contains("does not fit, as asked for, the whole context"), "{page:?}");
    let lines = verdict(&page.stdout);
    assert_eq!(lines[0], "runs: no");
    let sentence = lines[1];
    assert!(
        sentence.contains(" for a context of 4,294,967,295 tokens, and ") && sentence.contains(" choose "),
        "{sentence}"
    );
}

#[test]
fn whose_it_is_and_where_from() {
    let home = Home::new();
    let keys: &[(&str, Value)] = &[
        ("general.type", "model".into()),
        ("general.author", "Ada".into()),
        ("general.organization", "Engines".into()),
        ("general.quantized_by", "Charles".into()),
        ("general.license", "other".into()),
        ("general.license.name", "engine-1".into()),
        ("general.license.link", "https://example.org/licence".into()),
        ("general.url", "https://example.org".into()),
        ("general.file_type", 15u32.into()),
        ("general.languages", ["en", "zh"][..].into()),
        ("general.base_model.count", 2u32.into()),
        ("general.base_model.0.name", "Loom".into()),
        ("general.base_model.0.organization", "Jacquard".into()),
        ("general.base_model.1.name", "Abacus".into()),
        ("general.base_model.1.repo_url", "https://example.org/abacus".into()),
    ];
    let model = home.changed_fixture("about.gguf", "llama3", keys, |_| Some(0));
    let page = home.run(&["inspect", model]);
    assert_eq!(rows(page.done(), "made by"), ["Ada, Engines, quantized by Charles"]);
    assert_eq!(rows(&page.stdout, "made from"), ["Loom by Jacquard", "Abacus, https://example.org/abacus"]);
    assert_eq!(rows(&page.stdout, "page"), ["https://example.org"]);
    assert_eq!(rows(&page.stdout, "licence"), ["other, engine-1, https://example.org/licence"]);
    assert_eq!(rows(&page.stdout, "languages"), ["en, zh"]);
    assert!(rows(&page.stdout, "weights")[0].ends_with(", written as Q4_K_M"), "{page:?}");
    let about = &home.run(&["inspect", model, "--json"]).json()["about"];
    assert_eq!((&about["kind"], &about["license_name"]), (&json!("model"), &json!("engine-1")));
    assert_eq!(about["base_models"][1]["name"], "Abacus");
    assert!(!page.stdout.contains("under which licence"), "{page:?}");
}

#[test]
fn text_of_a_file_cannot_command_the_terminal_or_fill_it() {
    let home = Home::new();
    let wild = format!("\u{1b}[31mred\u{7}\r\n\u{202e}{}", "long ".repeat(4000));
    let text = || Value::from(wild.as_str());
    let names = ["name", "author", "license", "description", "url", "license.link", "organization"];
    let mut keys: Vec<(String, Value)> = names.iter().map(|name| (format!("general.{name}"), text())).collect();
    keys.push(("general.base_model.count".into(), u32::MAX.into()));
    keys.push(("general.base_model.0.name".into(), text()));
    keys.push(("general.architecture".into(), text()));
    keys.push(("tokenizer.ggml.model".into(), text()));
    keys.push(("tokenizer.ggml.pre".into(), text()));
    keys.push(("tokenizer.chat_template".into(), Value::from(format!("{{% {wild}").as_str())));
    keys.push((format!("odd.{wild}"), "".into()));
    keys.push(("tokenizer.ggml.tokens".into(), vec![wild.as_str(); 96][..].into()));
    let keys: Vec<(&str, Value)> = keys.iter().map(|(key, value)| (key.as_str(), value.clone())).collect();
    let model = home.changed_fixture("wild.gguf", "llama3", &keys, |_| Some(0));
    let page = home.run(&["inspect", model, "--metadata", "--tensors"]);
    assert!(page.done().chars().all(|c| c == '\n' || !(c.is_control() || c == '\u{202e}')), "{page:?}");
    assert!(page.stdout.lines().all(|line| line.chars().count() < 600), "{page:?}");
    assert!(page.stdout.contains("\\u{1b}[31mred\\u{7}"), "{page:?}");
}

#[test]
fn an_unknown_family_is_told_by_the_usual_keys() {
    let home = Home::new();
    let mut keys: Vec<(&str, Value)> = vec![("general.architecture", "lhama".into())];
    let numbers: &[(&str, u32)] = &[
        ("lhama.block_count", 4),
        ("lhama.context_length", 4096),
        ("lhama.embedding_length", 32),
        ("lhama.attention.head_count", 4),
        ("lhama.attention.key_length", 16),
        ("lhama.attention.sliding_window", 128),
        ("lhama.expert_count", 8),
        ("lhama.expert_used_count", 2),
        ("lhama.expert_feed_forward_length", 24),
        ("lhama.rope.scaling.original_context_length", 1024),
    ];
    keys.extend(numbers.iter().map(|&(key, number)| (key, number.into())));
    keys.push(("lhama.attention.head_count_kv", Array::U32(vec![2, 2, 0, 1]).into()));
    keys.push(("lhama.attention.sliding_window_pattern", Array::Bool(vec![true, false, true, true]).into()));
    keys.push(("lhama.rope.freq_base", 5e5f32.into()));
    keys.push(("lhama.rope.scaling.type", "spiral".into()));
    let model = home.changed_fixture("lhama.gguf", "llama3", &keys, |_| Some(0));
    let page = home.run(&["inspect", model]);
    assert_eq!(rows(page.done(), "family"), ["lhama, which this version does not run"]);
    assert_eq!(rows(&page.stdout, "context"), ["4,096 tokens, 1,024 before RoPE was scaled"]);
    assert_eq!(
        rows(&page.stdout, "attention"),
        [
            "4 heads, 2 for keys and values, 16 wide in 2 of 4 layers",
            "4 heads, 1 for keys and values, 16 wide in 1 of 4 layers"
        ]
    );
    assert_eq!(rows(&page.stdout, "window"), ["2 layers see the last 128 tokens, 1 the whole context"]);
    assert_eq!(rows(&page.stdout, "experts"), ["8, 2 used for each token, 24 wide"]);
    assert_eq!(rows(&page.stdout, "RoPE"), ["base 500,000, scaling \"spiral\""]);
    let json = home.run(&["inspect", model, "--json"]).json();
    assert_eq!((&json["config"]["source"], &json["is_family_supported"]), (&json!("keys"), &json!(false)));
    assert_eq!((&json["memory"], &json["tokenizer"]["supported"]), (&Json::Null, &json!(true)));
}

#[test]
fn windows_of_unknown_families_are_told_as_far_as_the_keys_do() {
    let home = Home::new();
    let window = |name: &'static str, pattern: Option<u32>| {
        let mut keys: Vec<(&str, Value)> = vec![
            ("general.architecture", "lhama".into()),
            ("lhama.block_count", Value::U32(6)),
            ("lhama.embedding_length", Value::U32(32)),
            ("lhama.attention.head_count", Value::U32(4)),
            ("lhama.attention.sliding_window", Value::U32(128)),
        ];
        keys.extend(pattern.map(|period| ("lhama.attention.sliding_window_pattern", Value::U32(period))));
        let page = home.run(&["inspect", home.changed_fixture(name, "llama3", &keys, |_| Some(0))]);
        rows(page.done(), "window").join(" ")
    };
    assert_eq!(window("period.gguf", Some(3)), "4 layers see the last 128 tokens, 2 the whole context");
    // Without a pattern the rule is the family's, and nothing is claimed.
    assert_eq!(window("rule.gguf", None), "");
}

#[test]
fn types_that_are_not_read_are_told_beside_the_rest() {
    const Q8_1: u32 = 9;
    const Q4_2: u32 = 4;
    const NOBODYS: u32 = 777;
    let home = Home::new();
    let file = GgufFile::open(&fixture_path("llama3")).unwrap();
    let mut writer = GgufWriter::new("types");
    for (key, value) in file.metadata().iter() {
        writer.key(key, value.clone()).unwrap();
    }
    for tensor in file.tensors() {
        let type_id = match tensor.name.as_str() {
            "blk.0.attn_q.weight" => Q8_1,
            "blk.0.attn_k.weight" => Q4_2,
            "blk.0.attn_v.weight" => NOBODYS,
            _ => tensor.type_id,
        };
        let bytes = match type_id {
            Q8_1 => vec![0; usize::try_from(tensor.elements()).unwrap() / 32 * 36],
            _ => file.tensor_data(tensor).unwrap().to_vec(),
        };
        writer.tensor(&tensor.name, &tensor.dims, type_id, bytes).unwrap();
    }
    let model = home.file("types.gguf", &writer.to_bytes());
    let json = home.run(&["inspect", model, "--json"]).json();
    let statuses: Vec<(&str, &str, bool)> = json["types"]
        .as_array()
        .unwrap()
        .iter()
        .map(|row| (row["type"].as_str().unwrap(), row["status"].as_str().unwrap(), row["supported"] == true))
        .collect();
    for row in [
        ("F32", "supported", true),
        ("Q8_1", "unsupported", false),
        ("Q4_2", "removed", false),
        ("type 777", "unknown", false),
    ] {
        assert!(statuses.contains(&row), "{statuses:?}");
    }
    assert_eq!((&json["bits_per_weight"], &json["config"]["source"]), (&Json::Null, &json!("model")));
    let page = home.run(&["inspect", model]);
    let remark = |name: &str| page.stdout.lines().find(|line| line.starts_with(name)).unwrap_or_default().to_owned();
    assert!(remark("Q8_1 ").ends_with("9.00  not read by this version"), "{page:?}");
    assert!(remark("Q4_2 ").ends_with("?  removed from GGUF, not read by this version"), "{page:?}");
    assert!(remark("type 777").ends_with("?  unknown, not read by this version"), "{page:?}");
    assert_eq!(rows(&page.stdout, "attention"), ["4 heads, 2 for keys and values, 16 wide"]);
}

#[test]
fn a_vocabulary_without_weights_is_told_as_one() {
    let home = Home::new();
    let model = home.changed_fixture("words.gguf", "llama3", &[], |_| None);
    let page = home.run(&["inspect", model]);
    assert_eq!(
        verdict(page.done()),
        [
            "runs: no",
            "- the file has no weights, only a vocabulary, which can be used to cut text into tokens (`duan tokenize`)"
        ]
    );
    assert!(!page.stdout.contains("BITS/WEIGHT") && !page.stdout.contains("WORTH KNOWING"), "{page:?}");
    assert_eq!(rows(&page.stdout, "vocabulary"), ["64 tokens, 2 merges, 1 for control"]);
    assert_eq!(rows(&page.stdout, "layers"), ["2, 64 wide"]);
    // One whose tokenizer is not known either.
    let model = home.changed_fixture("words.gguf", "llama3", &[("tokenizer.ggml.model", "bert".into())], |_| None);
    let page = home.run(&["inspect", model]);
    assert_eq!(rows(page.done(), "tokenizer"), ["WordPiece, pre-tokenizer gpt-2, not supported by this version"]);
    let lines = verdict(&page.stdout);
    assert_eq!(lines[..2], ["runs: no", "- the file has no weights, only a vocabulary; get a file with the model"]);
    assert_eq!(lines.len(), 3, "{page:?}");
}

#[test]
fn a_split_model_is_told_as_a_whole() {
    let home = Home::new();
    let file = GgufFile::open(&fixture_path("llama3")).unwrap();
    let all = file.tensors().len();
    let piece = |number: u16| {
        let mut writer = GgufWriter::new("piece");
        if number == 0 {
            for (key, value) in file.metadata().iter() {
                writer.key(key, value.clone()).unwrap();
            }
        }
        writer.key("split.no", number).unwrap();
        writer.key("split.count", 2u16).unwrap();
        writer.key("split.tensors.count", all as i32).unwrap();
        let tensors = if number == 0 { &file.tensors()[..5] } else { &file.tensors()[5..] };
        for tensor in tensors {
            let bytes = file.tensor_data(tensor).unwrap().to_vec();
            writer.tensor(&tensor.name, &tensor.dims, tensor.type_id, bytes).unwrap();
        }
        writer.to_bytes()
    };
    let (first, second) = (piece(0), piece(1));
    let model = home.file("tiny-00001-of-00002.gguf", &first);
    home.file("tiny-00002-of-00002.gguf", &second);
    let json = home.run(&["inspect", model, "--json"]).json();
    assert_eq!((&json["pieces"], &json["bytes"]), (&json!(2), &json!(first.len() + second.len())));
    assert_eq!((&json["tensor_count"], &json["tensors"][5]["piece"]), (&json!(all), &json!(1)));
    assert_eq!(json["runs"], true);
    let page = home.run(&["inspect", model]);
    assert!(rows(page.done(), "format")[0].ends_with(", split into 2 files"), "{page:?}");
}

#[test]
fn a_pre_tokenizer_that_was_recognized_is_told_as_such() {
    let home = Home::new();
    let mut tokens: Vec<String> = (0..128_256).map(|id| format!("t{id}")).collect();
    for (id, text) in [
        (128_000, "<|begin_of_text|>"),
        (128_001, "<|end_of_text|>"),
        (128_006, "<|start_header_id|>"),
        (128_007, "<|end_header_id|>"),
        (128_009, "<|eot_id|>"),
    ] {
        tokens[id] = text.to_owned();
    }
    let kinds = (0..128_256).map(|id| if id < 128_000 { 1 } else { 3 }).collect();
    let mut writer = GgufWriter::new("old");
    writer.key("general.architecture", "llama").unwrap();
    writer.key("tokenizer.ggml.model", "gpt2").unwrap();
    writer.key("tokenizer.ggml.tokens", tokens.iter().collect::<StringArray>()).unwrap();
    writer.key("tokenizer.ggml.token_type", Array::I32(kinds)).unwrap();
    writer.key("tokenizer.ggml.merges", StringArray::new()).unwrap();
    writer.key("tokenizer.ggml.bos_token_id", 128_000u32).unwrap();
    writer.key("tokenizer.ggml.eos_token_id", 128_001u32).unwrap();
    let model = home.file("old.gguf", &writer.to_bytes());
    let json = home.run(&["inspect", model, "--json"]).json();
    let tokenizer = &json["tokenizer"];
    assert_eq!((&tokenizer["pre_tokenizer"], &tokenizer["pre_tokenizer_used"]), (&Json::Null, &json!("llama-bpe")));
    assert_eq!(tokenizer["is_pre_tokenizer_recovered"], true);
    assert_eq!(json["odd"][0]["kind"], "tokenizer");
    let page = home.run(&["inspect", model]);
    assert_eq!(
        rows(page.done(), "tokenizer"),
        ["byte-level BPE, pre-tokenizer llama-bpe (not named in the file, known by the tokens)"]
    );
    assert_eq!(rows(&page.stdout, "BOS"), ["<|begin_of_text|> (128000), begins texts"]);
    assert_eq!(rows(&page.stdout, "end of turn"), ["<|end_of_text|> (128001), <|eot_id|> (128009)"]);
}
