//! `duan quantize`: what it writes, refuses and tells, and that nothing half-written gets a name. What it does to weights is tested
//! in `duan-quantize`.

use duan::model::gguf::GgufFile;
use duan::model::gguf::write::GgufWriter;

use crate::common::{Home, fixture_path};

fn names(home: &Home) -> Vec<String> {
    let entries = std::fs::read_dir(home.path()).expect("the folder is read");
    let mut names: Vec<String> =
        entries.map(|entry| entry.expect("an entry").file_name().to_string_lossy().into_owned()).collect();
    names.sort();
    names
}

#[test]
fn a_model_gets_smaller_and_still_runs() {
    let home = Home::new();
    home.fixture("llama3");
    let ran = home.run(&["quantize", "tiny.gguf", "q8.gguf", "--format", "q8_0", "--table", "--threads", "2"]);
    insta::assert_snapshot!("quantize_table", ran.done());
    assert_eq!(ran.stderr, "");
    home.run(&["complete", "q8.gguf", "-p", "a", "-n", "2"]).done();
    let told = home.run(&["quantize", "tiny.gguf", "json.gguf", "--format", "Q8_0", "--json"]).json();
    let bytes = std::fs::read(home.path().join("json.gguf")).unwrap();
    assert_eq!(told["bytes"], bytes.len());
    assert!(bytes == std::fs::read(home.path().join("q8.gguf")).unwrap());
    assert!(told["bits_per_weight"].as_f64().is_some_and(|bits| (8.5..12.0).contains(&bits)), "{told}");
    let file = GgufFile::open(&home.path().join("json.gguf")).unwrap();
    assert_eq!(told["tensors"].as_array().unwrap().len(), file.tensors().len());
    let table =
        told["tensors"].as_array().unwrap().iter().find(|tensor| tensor["name"] == "token_embd.weight").unwrap();
    assert_eq!((&table["from"], &table["format"]), (&"F32".into(), &"Q8_0".into()));
    assert_eq!((&told["path"], &told["format"]), (&"json.gguf".into(), &"Q8_0".into()));
}

#[test]
fn rules_and_recipes_choose_formats() {
    let home = Home::new();
    home.fixture("llama3");
    let keep = ["--keep", "attn_v=f16", "--keep", "ffn_.*=q5_1"];
    let first =
        [&["quantize", "tiny.gguf", "a.gguf", "--format", "q8_0", "--save-recipe", "r.json"], &keep[..]].concat();
    home.run(&first).done();
    let recipe = std::fs::read_to_string(home.path().join("r.json")).unwrap();
    assert!(
        recipe.contains("\"blk.0.attn_v.weight\": \"F16\"") && recipe.contains("\"blk.0.ffn_up.weight\": \"Q5_1\"")
    );
    home.run(&["quantize", "tiny.gguf", "b.gguf", "--recipe", "r.json"]).done();
    let bytes = |name: &str| std::fs::read(home.path().join(name)).unwrap();
    assert!(bytes("a.gguf") == bytes("b.gguf"));
    let ran = home.run(&["quantize", "tiny.gguf", "c.gguf", "--format", "q8_0", "--keep", "atn_v=f16"]);
    assert!(ran.failed().contains("--keep atn_v=f16: it matches no tensor"), "{ran:?}");
    let again = home.run(&["quantize", "a.gguf", "d.gguf", "--format", "q4_0", "--keep", "embd=q5_0"]);
    again.done();
    assert!(again.stderr.contains("warning: from Q8_0, Q5_1: what was lost stays lost"), "{again:?}");
}

#[test]
fn what_is_not_known_is_refused_with_what_is() {
    let home = Home::new();
    home.fixture("llama3");
    let ran = home.run(&["quantize", "tiny.gguf", "a.gguf", "--format", "q9_0"]);
    assert!(ran.refused().contains("Q4_K_M") && ran.refused().contains("q9_0"), "{ran:?}");
    assert!(home.run(&["quantize", "tiny.gguf", "a.gguf"]).refused().contains("--format"));
    let both = home.run(&["quantize", "tiny.gguf", "a.gguf", "--format", "q8_0", "--recipe", "r.json"]);
    assert!(both.refused().contains("--recipe"), "{both:?}");
    let keep = home.run(&["quantize", "tiny.gguf", "a.gguf", "--format", "q8_0", "--keep", "attn"]);
    assert!(keep.refused().contains("there is no `=` in it"), "{keep:?}");
    let ran = home.run(&["quantize", "tiny.gguf", "a.gguf", "--format", "q8_0", "--importance", "tiny.gguf"]);
    assert!(ran.failed().contains("without importance"), "{ran:?}");
    home.file("r.json", b"{}");
    let ran = home.run(&["quantize", "tiny.gguf", "a.gguf", "--recipe", "r.json"]);
    assert!(ran.failed().contains("r.json: this is no recipe"), "{ran:?}");
    assert_eq!(names(&home), ["r.json", "tiny.gguf"]);
}

#[test]
fn what_is_there_stays_and_the_source_most_of_all() {
    let home = Home::new();
    home.fixture("llama3");
    home.file("a.gguf", b"mine");
    let ran = home.run(&["quantize", "tiny.gguf", "a.gguf", "--format", "q8_0"]);
    assert!(ran.failed().contains("a.gguf exists already") && ran.failed().contains("--force"), "{ran:?}");
    let ran = home.run(&["quantize", "tiny.gguf", "tiny.gguf", "--format", "q8_0", "--force"]);
    assert!(ran.failed().contains("tiny.gguf is read here, and was not changed"), "{ran:?}");
    let ran =
        home.run(&["quantize", "tiny.gguf", "b.gguf", "--format", "q8_0", "--save-recipe", "tiny.gguf", "--force"]);
    assert!(ran.failed().contains("tiny.gguf is read here, and was not changed"), "{ran:?}");
    let ran = home.run(&["quantize", "tiny.gguf", "b.gguf", "--format", "q8_0", "--save-recipe", "b.gguf"]);
    assert!(ran.failed().contains("b.gguf is to be the model and the recipe"), "{ran:?}");
    let read = |name: &str| std::fs::read(home.path().join(name)).unwrap();
    assert!(read("a.gguf") == b"mine" && read("tiny.gguf") == std::fs::read(fixture_path("llama3")).unwrap());
    home.run(&["quantize", "tiny.gguf", "a.gguf", "--format", "q8_0", "--force"]).done();
    assert_eq!(names(&home), ["a.gguf", "tiny.gguf"]);
}

/// What is measured is kept in the cache: another budget finds it there.
#[test]
fn formats_are_found_by_measuring_once_for_all_budgets() {
    let home = Home::new();
    home.fixture("llama3");
    home.file("text.txt", "the model and a text of it again and again ".repeat(12).as_bytes());
    let measured = ["--text", "text.txt", "--context", "16", "--chunks", "2", "--threads", "2"];
    let quantize =
        |out: &str, more: &[&str]| home.run(&[&["quantize", "tiny.gguf", out], &measured[..], more].concat());
    let ran = quantize("a.gguf", &["--bits-per-weight", "6.5", "--save-recipe", "r.json", "--json"]);
    let told = ran.json();
    assert!(ran.stderr.starts_with("15 tensors measured in 2 windows of 16 tokens, kept in "), "{ran:?}");
    assert!(told["bits_per_weight"].as_f64().is_some_and(|bits| (5.5..=6.5).contains(&bits)), "{told}");
    assert_eq!(told["measured"]["budget"]["bits_per_weight"], 6.5);
    assert!(told["measured"]["divergence"].as_f64().is_some_and(|divergence| divergence > 0.0), "{told}");
    let tensors = told["tensors"].as_array().unwrap();
    let of = |name: &str| tensors.iter().find(|tensor| tensor["name"] == name).unwrap();
    let table = of("token_embd.weight");
    assert_eq!((&table["chosen_by"], &table["format"]), (&"measured".into(), &"Q8_0".into()));
    assert!(table["sensitivity"].as_f64() > table["divergence"].as_f64(), "{table}");
    home.run(&["complete", "a.gguf", "-p", "a", "-n", "2"]).done();
    let again = home.run(&["quantize", "tiny.gguf", "b.gguf", "--recipe", "r.json", "--json"]).json();
    assert_eq!((&again["bits_per_weight"], &again["format"]), (&told["bits_per_weight"], &told["format"]));

    let length = std::fs::metadata(home.path().join("a.gguf")).unwrap().len();
    let ran = quantize("c.gguf", &["--size", &(length - 1000).to_string(), "--table"]);
    assert_eq!(ran.stderr, "", "nothing is measured");
    let c = std::fs::metadata(home.path().join("c.gguf")).unwrap().len();
    assert!(c <= length - 1000 && c > length - 3000, "{c} for {length}");
    assert!(ran.done().contains("SENSITIVITY") && ran.done().contains("Found by measuring, for at most "), "{ran:?}");
    let ran = quantize("d.gguf", &["--size", "1GB", "--dry-run"]);
    assert!(ran.done().contains("for at most 1.00 GB, which has room for the best format of every matrix"), "{ran:?}");
    assert_eq!(ran.stderr, "");

    let ran = quantize("d.gguf", &["--bits-per-weight", "2"]);
    assert!(ran.failed().contains("2 bits per weight are too few: the fewest possible are "), "{ran:?}");
    let ran = quantize("a.gguf", &["--bits-per-weight", "5.5"]);
    assert!(ran.failed().contains("a.gguf exists already"), "{ran:?}");
    let ran = quantize("d.gguf", &["--size", "1GB", "--sensitivity", "text.txt"]);
    assert!(ran.failed().contains("text.txt: this holds no sensitivities"), "{ran:?}");
    assert!(!home.path().join("d.gguf").exists());
}

#[test]
fn budgets_that_make_no_sense_are_refused() {
    let home = Home::new();
    home.fixture("llama3");
    home.file("text.txt", b"a");
    let refused = |more: &[&str], part: &str| {
        let ran = home.run(&[&["quantize", "tiny.gguf", "a.gguf"], more].concat());
        assert!(ran.refused().contains(part), "{ran:?}");
    };
    refused(&["--bits-per-weight", "4.5"], "--text");
    refused(&["--bits-per-weight", "4.5", "--format", "q4_0", "--text", "text.txt"], "--format");
    refused(&["--bits-per-weight", "4.5", "--size", "1GB", "--text", "text.txt"], "--size");
    refused(&["--bits-per-weight", "99", "--text", "text.txt"], "from 1 to 32");
    refused(&["--size", "3.5", "--text", "text.txt"], "3.5GiB or 800MB");
    refused(&["--format", "q8_0", "--text", "text.txt"], "--text");
    let ran = home.run(&["quantize", "tiny.gguf", "a.gguf", "--size", "1GB", "--text", "text.txt", "--context", "64"]);
    assert!(ran.failed().contains("text.txt: the text has "), "{ran:?}");
    assert_eq!(names(&home), ["text.txt", "tiny.gguf"]);
}

/// A model of one large matrix; `change` sees its weights.
fn large(home: &Home, change: impl Fn(&mut [f32])) -> &'static str {
    let mut weights: Vec<f32> =
        (0..4_194_304u32).map(|at| ((at % 1000 * 7919 % 1000) as f32 - 500.0) / 5000.0).collect();
    change(&mut weights);
    let mut writer = GgufWriter::new("large");
    writer.key("general.architecture", "llama").unwrap();
    let bytes: Vec<u8> = weights.iter().flat_map(|weight| weight.to_le_bytes()).collect();
    writer.tensor("blk.0.attn_q.weight", &[2048, 2048], 0, bytes).unwrap();
    home.file("large.gguf", &writer.to_bytes())
}

#[test]
fn a_weight_that_is_no_number_is_named() {
    let home = Home::new();
    let source = large(&home, |weights| weights[3_000_000] = f32::NAN);
    let ran = home.run(&["quantize", source, "a.gguf", "--format", "q4_k_m", "--save-recipe", "r.json"]);
    let part =
        "large.gguf: tensor `blk.0.attn_q.weight`: weight 3000000 (row 1464, column 1728) is NaN; nothing was written";
    assert!(ran.failed().contains(part), "{ran:?}");
    assert_eq!(names(&home), ["large.gguf"], "no recipe either");
}

/// Ended at any moment, by a signal that nobody can catch: the source stays, and what has the final name is whole.
#[cfg(unix)]
#[test]
fn killed_at_any_moment_it_leaves_no_half_file() {
    use std::time::{Duration, Instant};

    let home = Home::new();
    let source = large(&home, |_| {});
    let before = std::fs::read(home.path().join(source)).unwrap();
    let out = home.path().join("out.gguf");
    let arguments = ["quantize", source, "out.gguf", "--format", "q4_k_m", "--force", "--threads", "2"];
    let start = Instant::now();
    home.run(&arguments).done();
    let whole_time = start.elapsed();
    let whole = std::fs::read(&out).unwrap();
    std::fs::remove_file(&out).unwrap();
    for share in [0, 3, 6, 9] {
        let mut child =
            home.command(&arguments).stdout(std::process::Stdio::null()).spawn().expect("the program starts");
        std::thread::sleep((whole_time * share / 10).max(Duration::from_millis(1)));
        child.kill().expect("it can be killed");
        child.wait().expect("it ends");
        assert!(std::fs::read(home.path().join(source)).unwrap() == before);
        assert!(std::fs::read(&out).map_or(true, |found| found == whole), "after {share}/10 of the time");
        for name in names(&home) {
            let is_known =
                name == source || name == "out.gguf" || (name.starts_with(".duan-") && name.ends_with(".part"));
            assert!(is_known, "{name}");
        }
    }
    home.run(&arguments).done();
    assert!(std::fs::read(&out).unwrap() == whole, "and it can be done again");
}

/// The folder of a fixture, as transformers saved it.
fn fixture_folder(name: &str) -> String {
    let path = fixture_path(name).with_file_name("folder");
    path.to_str().expect("a path in UTF-8").to_owned()
}

#[test]
fn integers_in_groups_are_a_folder_that_every_command_takes() {
    let home = Home::new();
    let source = fixture_folder("llama3");
    let told = home.run(&["quantize", &source, "int4", "--format", "INT4-G64", "--json"]).json();
    assert_eq!((&told["path"], &told["format"]), (&"int4".into(), &"int4-g64".into()));
    let fell = &told["fallbacks"][0];
    assert_eq!((&fell["from"], &fell["to"], &fell["columns"]), (&"int4-g64".into(), &"int4-g32".into(), &32.into()));
    let bytes = std::fs::metadata(home.path().join("int4/model.safetensors")).unwrap().len();
    assert_eq!(told["bytes"], bytes);
    home.run(&["quantize", &source, "channel", "--format", "int8-channel-zp"]).done();
    home.file("text.txt", "the model and a text of it, again and again. ".repeat(20).as_bytes());
    for folder in ["int4", "channel"] {
        let first = home.run(&["complete", folder, "-p", "a", "-n", "4", "--temp", "0"]).done().to_owned();
        let slow = ["complete", folder, "-p", "a", "-n", "4", "--temp", "0", "--device", "reference"];
        assert_eq!(home.run(&slow).done(), first, "{folder}");
        let plan = home.run(&["plan", folder]);
        assert!(plan.done().contains("cpu"), "{plan:?}");
        let facts = home.run(&["inspect", folder, "--json"]).done().to_owned();
        assert!(facts.contains(if folder == "int4" { "int4-g64" } else { "int8-g64-zp" }), "{facts}");
        let arguments =
            ["eval", folder, "--text", "text.txt", "--context", "16", "--chunks", "2", "--against", &source];
        let rows = home.run(&[&arguments[..], &["--json"]].concat()).json();
        assert!(rows[0]["kl_mean"].as_f64().is_some_and(|kl| kl > 0.0 && kl < 0.5), "{rows}");
        let bench = home.run(&["bench", folder, "-p", "4", "-n", "2", "-r", "1", "--json"]).json();
        assert_eq!(bench.as_array().map(Vec::len), Some(2));
    }
    // Dividing what stands there is no matter of the source: it is a folder as before.
    let again = home.run(&["quantize", "int4", "again", "--format", "int8-g32", "--json"]);
    assert!(again.stderr.contains("warning: from int4-g32, int4-g64: what was lost stays lost"), "{again:?}");
    assert_eq!(again.json()["requantized_from"], serde_json::json!(["int4-g32", "int4-g64"]));
    let dry = home.run(&["quantize", &source, "none", "--format", "int4-tensor", "--dry-run", "--table"]);
    assert!(dry.done().contains("int4-tensor"), "{dry:?}");
    assert!(!home.path().join("none").exists());
}

#[test]
fn what_cannot_be_such_a_folder_is_refused_in_one_line() {
    let home = Home::new();
    let source = fixture_folder("llama3");
    home.fixture("llama3");
    let failed = |arguments: &[&str]| home.run(&[&["quantize"], arguments].concat()).failed().to_owned();
    let line = failed(&["tiny.gguf", "a", "--format", "int4-g64"]);
    assert!(line.contains("this is no folder, and int4-g64 is written as a folder"), "{line}");
    let line = failed(&[&source, "tiny.gguf", "--format", "int4-g64", "--force"]);
    assert!(line.contains("tiny.gguf exists already and was not changed; name another folder"), "{line}");
    let line = failed(&[&source, "a", "--format", "int4-g64", "--keep", "mlp=q4_0"]);
    assert!(line.contains("Q4_0 has no place in a folder of integers in groups"), "{line}");
    let line = failed(&[&source, "a", "--format", "int4-g64", "--save-recipe", "r.json"]);
    assert!(line.contains("--save-recipe is for GGUF files"), "{line}");
    let ran = home.run(&["convert", &source, "a.gguf", "--format", "int4-g64"]);
    assert!(ran.failed().contains("GGUF files cannot hold int4-g64"), "{ran:?}");
    assert_eq!(names(&home), ["tiny.gguf"]);
}

#[test]
fn float_models_become_integers_in_groups_while_they_are_loaded() {
    let home = Home::new();
    let model = home.fixture("llama3");
    let sizes = |arguments: &[&str]| {
        let bench = ["bench", model, "-p", "4", "-n", "2", "-r", "1", "--json"];
        home.run(&[&bench[..], arguments].concat()).json()[0]["model_size"].as_u64().expect("a size")
    };
    let plain = sizes(&[]);
    for format in ["int4-g32", "INT8-G64-ZP"] {
        let arguments = ["complete", model, "-p", "a", "-n", "4", "--temp", "0", "--format", format];
        let fast = home.run(&arguments).done().to_owned();
        assert_eq!(home.run(&[&arguments[..], &["--device", "reference"]].concat()).done(), fast, "{format}");
        assert!(sizes(&["--format", format]) < plain / 2, "{format}");
    }
    assert!(home.run(&["bench", model, "--format", "int4-g48"]).refused().contains("int4-g64-zp"));
}

#[test]
fn what_is_converted_says_what_it_lost_and_never_takes_the_place_of_its_source() {
    let home = Home::new();
    let source = fixture_folder("llama3");
    let plain = home.run(&["convert", &source, "a.gguf", "--json"]).json();
    assert!(plain["tensors"].as_array().unwrap().iter().all(|tensor| tensor["is_lossless"] == true), "{plain}");
    let told = home.run(&["convert", &source, "b.gguf", "--format", "q8_0", "--threads", "2", "--json"]).json();
    assert_eq!((&told["path"], &told["family"]), (&"b.gguf".into(), &"llama".into()));
    let size = std::fs::metadata(home.path().join("b.gguf")).unwrap().len();
    assert_eq!(told["bytes"], size);
    let named = |name: &str| {
        let tensors = told["tensors"].as_array().unwrap();
        tensors.iter().find(|tensor| tensor["name"] == name).unwrap().clone()
    };
    let (matrix, norm) = (named("blk.0.attn_q.weight"), named("output_norm.weight"));
    assert_eq!(
        (&matrix["from"], &matrix["to"], &matrix["is_lossless"]),
        (&"F32".into(), &"Q8_0".into(), &false.into())
    );
    assert_eq!(norm["is_lossless"], true);
    let ran = home.run(&["convert", &source, "c.gguf", "--format", "q8_0"]);
    assert_eq!(ran.done(), "c.gguf\n");
    let bytes = |name: &str| std::fs::read(home.path().join(name)).unwrap();
    assert!(bytes("c.gguf") == bytes("b.gguf"));
    home.run(&["complete", "c.gguf", "-p", "a", "-n", "2"]).done();
    let ran = home.run(&["convert", "c.gguf", "./c.gguf", "--force"]);
    assert!(ran.failed().contains("c.gguf is the source itself"), "{ran:?}");
    assert!(bytes("c.gguf") == bytes("b.gguf"));
}
