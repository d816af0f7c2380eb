//! Pages of what was measured: where they are written, and that their numbers are those of the results.

use serde_json::Value;

use crate::common::{Home, Ran};

fn run(home: &Home, arguments: &[&str]) -> Ran {
    let mut command = home.command(arguments);
    crate::common::ran(command.env("DUAN_STATE", home.path().join("state")).output().expect("the program starts"))
}

/// Two tests on a tiny model, with whatever else is asked for.
fn bench(home: &Home, arguments: &[&str]) -> Ran {
    let fixed = ["bench", home.fixture("smollm2"), "-p", "5", "-n", "4", "-t", "2", "--no-warmup", "--pause", "0"];
    run(home, &[&fixed[..], arguments].concat())
}

/// A page and what it holds for programs.
fn page(home: &Home, file: &str) -> (String, Value) {
    let html = std::fs::read_to_string(home.path().join(file)).expect("the page is there");
    let (_, rest) = html.split_once(" id=\"data\">").expect("the data is there");
    let data = serde_json::from_str(rest.split_once("</script>").expect("it ends").0).expect("it is JSON");
    (html, data)
}

#[test]
fn a_benchmark_is_a_page_with_a_profile_and_earlier_records() {
    let home = Home::new();
    bench(&home, &["-r", "3"]).done();
    let ran = bench(&home, &["-r", "3", "--html", "page.html", "--json"]);
    assert!(ran.stderr.contains("page: page.html; any browser opens it"), "{ran:?}");
    let rows = ran.json();
    let (html, data) = page(&home, "page.html");
    for row in rows.as_array().unwrap() {
        let name = format!("{}.median_tokens_per_s", row["test"].as_str().unwrap());
        assert_eq!(data["figures"][&name], row["median_ts"], "{name}");
        let value = format!("data-figure=\"{name}\" data-value=\"{}\"", row["median_ts"]);
        assert!(html.contains(&value), "{value}");
    }
    assert_eq!(data["bench"], rows);
    let phases: Vec<_> = data["profile"]["phases"].as_array().unwrap().iter().map(|p| &p["tokens"]).collect();
    assert_eq!(phases, [15, 12], "three rounds of five and of four tokens");
    let records = &data["records"];
    assert_eq!((records["past"].as_array().unwrap().len(), &records["past"][0]["id"]), (1, &Value::from(1)));
    assert_eq!((&records["latest"], &records["now"]["id"]), (&Value::from("record 1"), &Value::from(2)));
    for id in ["headline", "bench", "memory", "ceilings", "profile", "records", "state"] {
        assert!(html.contains(&format!("<section id=\"{id}\">")), "{id}");
    }

    let shown = run(&home, &["records", "show", "2", "--html", "record.html"]);
    assert!(shown.done().contains("tg4"));
    let (_, record) = page(&home, "record.html");
    assert_eq!(record["figures"]["tg4.median_tokens_per_s"], data["figures"]["tg4.median_tokens_per_s"]);
    assert_eq!(record["records"]["past"].as_array().unwrap().len(), 1);

    run(&home, &["compare", "1", "2", "--html", "compare.html"]).done();
    let (_, compared) = page(&home, "compare.html");
    let tests = compared["comparison"]["tests"].as_array().unwrap();
    let test = tests.iter().find(|test| test["test"] == "tg4").unwrap();
    assert_eq!(compared["figures"]["compare.tg4.tokens_per_s.ratio"], test["ratio"]);
}

#[test]
fn a_profile_is_a_page() {
    let home = Home::new();
    let arguments =
        ["profile", home.fixture("smollm2"), "-p", "7", "-n", "3", "-r", "1", "-t", "2", "--html", "page.html"];
    let ran = run(&home, &[&arguments[..], &["--json"]].concat());
    let (html, data) = page(&home, "page.html");
    assert_eq!(data["profile"]["phases"], ran.json()["phases"]);
    let ns = &data["profile"]["phases"][1]["kinds"][0]["ns"];
    assert_eq!(data["figures"]["decode.kind1_ns"].as_f64(), ns.as_f64());
    assert!(html.contains("data-figure=\"decode.kind1_ns\""));
}

#[test]
fn nothing_is_written_over_unasked() {
    let home = Home::new();
    home.file("page.html", b"mine");
    let model = home.fixture("smollm2");
    let held = |arguments: &[&str]| {
        let ran = run(&home, arguments);
        assert!(ran.failed().contains("page.html exists already"), "{ran:?}");
        assert_eq!(std::fs::read(home.path().join("page.html")).unwrap(), b"mine");
    };
    held(&["bench", model, "--html", "page.html"]);
    held(&["profile", model, "--html", "page.html"]);
    held(&["compare", "1", "2", "--html", "page.html"]);
    held(&["records", "show", "1", "--html", "page.html"]);
    let over = run(&home, &["bench", model, "--html", model, "--force"]);
    assert!(over.failed().contains("is read here"), "{over:?}");
    bench(&home, &["-r", "1", "--html", "page.html", "--force"]).done();
    assert_eq!(page(&home, "page.html").1["bench"].as_array().unwrap().len(), 2);
    assert_eq!(run(&home, &["bench", model, "--force"]).code, Some(2), "--force is for the page");
}

#[test]
fn what_a_file_is_called_stays_text() {
    let home = Home::new();
    let model = std::fs::read(home.path().join(home.fixture("smollm2"))).unwrap();
    let name = "<img src=x onerror=alert(1)>'\"&.gguf";
    home.file(name, &model);
    let fixed = ["bench", name, "-p", "0", "-n", "2", "-r", "1", "-t", "1", "--no-warmup", "--html", "page.html"];
    run(&home, &fixed).done();
    let (html, data) = page(&home, "page.html");
    assert!(!html.contains("<img") && html.contains("&lt;img"));
    assert_eq!(data["bench"][0]["model_filename"], name);
}

#[cfg(target_os = "linux")]
#[test]
fn where_stdout_cannot_be_written_the_page_and_the_records_are() {
    let home = Home::new();
    let model = home.fixture("smollm2");
    for form in ["md", "json"] {
        let page = format!("{form}.html");
        let arguments = [
            "bench",
            model,
            "-p",
            "5",
            "-n",
            "4",
            "-r",
            "1",
            "--no-warmup",
            "--pause",
            "0",
            "-o",
            form,
            "--html",
            &page,
        ];
        let mut command = home.command(&arguments);
        let full = std::fs::File::options().write(true).open("/dev/full").expect("there is a full device");
        command.env("DUAN_STATE", home.path().join("state")).stdout(full).stderr(std::process::Stdio::piped());
        let ran = crate::common::ran(command.spawn().expect("the program starts").wait_with_output().expect("it ends"));
        assert_eq!(ran.code, Some(1), "{ran:?}");
        assert!(ran.stderr.contains("kept as record"), "{ran:?}");
        assert!(ran.stderr.lines().last().unwrap().starts_with("duan: error: "), "{ran:?}");
        let (_, data) = self::page(&home, &page);
        assert!(data["figures"]["tg4.median_tokens_per_s"].as_f64() > Some(0.0), "{ran:?}");
    }
}
