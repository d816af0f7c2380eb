//! `duan eval`: names, forms and errors. The figures are tested where they are computed.

use serde_json::Value;

use crate::common::Home;

const TEXT: &str = "the model and a text of it, again and again. ";

fn home() -> Home {
    let home = Home::new();
    home.file("text.txt", TEXT.repeat(20).as_bytes());
    home.file("other.txt", "四 个 字 the end of it. ".repeat(40).as_bytes());
    home
}

#[test]
fn rows_have_the_names_that_scripts_rely_on() {
    let home = home();
    let model = home.fixture("smollm2");
    let arguments = ["eval", model, "--text", "text.txt", "--text", "other.txt", "--context", "16", "--chunks", "2"];
    let rows = home.run(&[&arguments[..], &["--json"]].concat()).json();
    assert_eq!(rows.as_array().map(Vec::len), Some(2));
    assert!(rows[0]["perplexity"].as_f64().is_some_and(|perplexity| perplexity > 1.0), "{rows}");
    assert!(rows[0]["perplexity_error"].as_f64().is_some_and(|error| error > 0.0), "{rows}");
    assert_eq!(
        (&rows[1]["text"], &rows[1]["windows"], &rows[1]["tokens"]),
        (&"other.txt".into(), &2.into(), &14.into())
    );
    for name in ["kl_mean", "kl_median", "kl_p99", "top1_agreement", "decode_ts", "reference"] {
        assert_eq!(rows[0].get(name), Some(&Value::Null), "{name}");
    }

    let rows = home.run(&[&arguments[..], &["--against", model, "--json"]].concat()).json();
    for name in ["kl_mean", "kl_median", "kl_p99"] {
        assert_eq!(rows[0][name].as_f64(), Some(0.0), "{name}");
    }
    assert_eq!(rows[0]["top1_agreement"].as_f64(), Some(1.0));
    assert_eq!(rows[0]["reference"].as_str(), Some(model));
}

#[test]
fn people_get_a_table_and_a_picture() {
    let home = home();
    let model = home.fixture("smollm2");
    let arguments = ["eval", model, "--text", "text.txt", "--context", "16", "--tokens", "20", "--against", model];
    let ran = home.run(&[&arguments[..], &["--svg", "chart.svg", "--bench"]].concat());
    let lines: Vec<&str> = ran.done().lines().collect();
    assert_eq!(lines[0], "text.txt: 14 tokens scored in 2 windows of 16");
    let head: Vec<&str> = lines[1].split("  ").map(str::trim).filter(|cell| !cell.is_empty()).collect();
    let expected =
        ["MODEL", "kB", "BITS", "PERPLEXITY", "RATIO", "KL MEAN", "KL MEDIAN", "KL 99 %", "SAME TOP", "TOKENS/S"];
    assert_eq!(head, expected);
    assert_eq!(lines.len(), 4, "the reference, then the model: {ran:?}");
    assert!(lines[3].contains("1.0000 ± 0.0000") && lines[3].contains("100.0000 ± 0.0000 %"), "{ran:?}");
    let picture = std::fs::read_to_string(home.path().join("chart.svg")).unwrap();
    assert!(picture.starts_with("<svg") && picture.matches("<circle").count() == 2, "{picture}");
}

#[test]
fn what_cannot_be_judged_is_one_line() {
    let home = home();
    let model = home.fixture("smollm2");
    home.file("empty.txt", b"");
    home.file("latin.txt", b"caf\xe9");
    home.file("short.txt", b"it");
    let failed = |arguments: &[&str]| home.run(&[&["eval", model], arguments].concat()).failed().to_owned();
    assert!(failed(&["--text", "none.txt"]).contains("none.txt: cannot read the text"));
    assert!(failed(&["--text", "empty.txt"]).contains("empty.txt: the text is empty"));
    assert!(failed(&["--text", "latin.txt"]).contains("UTF-8"));
    assert!(failed(&["--text", "short.txt", "--context", "16"]).contains("short.txt: the text has "));
    assert!(failed(&["--text", "text.txt", "--context", "1000000"]).contains("context"));
    let ran = home.run(&["eval", model]);
    assert!(ran.refused().contains("--text"), "{ran:?}");
    let ran = home.run(&["eval", model, "--text", "text.txt", "--chunks", "1", "--tokens", "3"]);
    assert!(ran.refused().contains("--tokens"), "{ran:?}");
}
