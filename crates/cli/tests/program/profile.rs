//! `duan profile`: what is counted, and its trace. No time is looked at.

use serde_json::Value;

use crate::common::{Home, Ran};

fn profile(home: &Home, arguments: &[&str]) -> Ran {
    home.run(&[&["profile", home.fixture("smollm2"), "-t", "2", "-r", "1"], arguments].concat())
}

/// The sum of a field of all rows.
fn sum(rows: &Value, field: &str) -> u64 {
    rows.as_array().expect("rows").iter().map(|row| row[field].as_u64().expect("a number")).sum()
}

#[test]
fn json_explains_all_of_the_time_and_the_trace_has_every_op() {
    let home = Home::new();
    let found = profile(&home, &["-p", "7", "-n", "5", "-d", "3", "--trace", "trace.json", "--json"]).json();
    assert_eq!((&found["threads_decode"], &found["backends"]), (&Value::from(2), &Value::from("cpu")));
    assert!(found["state"]["memory"].is_object() && found["model_sha256"].is_string());
    let phases = found["phases"].as_array().expect("phases");
    let named: Vec<_> = phases
        .iter()
        .map(|phase| (phase["phase"].as_str(), phase["tokens"].as_u64(), phase["n_depth"].as_u64()))
        .collect();
    assert_eq!(named, [(Some("prefill"), Some(7), Some(3)), (Some("decode"), Some(5), Some(10))]);
    let mut ops = 0;
    for phase in phases {
        assert_eq!(phase["ns"].as_u64().unwrap(), sum(&phase["ops"], "ns") + sum(&phase["rest"], "ns"));
        assert_eq!(sum(&phase["kinds"], "ns"), sum(&phase["ops"], "ns"));
        assert!(phase["overhead"]["part"].is_number());
        for op in phase["ops"].as_array().unwrap() {
            assert_eq!(op["device"], "cpu");
            let has_weights = op["weights"] != "" && op["weights"] != "token_embd";
            assert!(!has_weights || op["kernel"] != "", "{op}");
        }
        ops = sum(&phase["ops"], "count");
    }
    assert!(ops > 0 && sum(&phases[0]["ops"], "count") == ops);
    let decode = &phases[1];
    assert_eq!(decode["allocations"], 0, "nothing is allocated between tokens");
    assert!(sum(&decode["ops"], "bytes") > 0);
    let trace: Value = serde_json::from_slice(&std::fs::read(home.path().join("trace.json")).unwrap()).unwrap();
    let events = trace["traceEvents"].as_array().unwrap();
    let told: u64 = events
        .iter()
        .filter(|event| event["args"]["first_op"].is_u64())
        .map(|event| event["args"]["ops"].as_u64().unwrap())
        .sum();
    // One pass of the prompt and five of a token.
    assert_eq!(told, 6 * ops);
    // A layer's ops are told together where they run together.
    let together =
        |ran: &Value| ran["phases"][0]["kinds"].as_array().unwrap().iter().any(|kind| kind["op"] == "linear+add");
    assert!(together(&found));
}

#[test]
fn tables_name_ops_layers_and_the_rest() {
    let home = Home::new();
    let ran = profile(&home, &["-p", "0", "-n", "3", "--no-fuse", "--top", "2"]);
    let text = ran.done();
    for word in
        ["decode: ", "linear", "attn_q, attn_k, attn_v", "(choosing the token)", "LAYERS", "LAYER", "timing the ops"]
    {
        assert!(text.contains(word), "{word}: {ran:?}");
    }
    assert!(!text.contains("prefill: ") && !text.contains("linear+"), "{ran:?}");
    assert!(text.contains("memory was allocated 0 times in 3 tokens"), "{ran:?}");
}

#[test]
fn what_cannot_be_is_said_at_once() {
    let home = Home::new();
    assert_eq!(profile(&home, &["-p", "0", "-n", "0"]).code, Some(2));
    assert_eq!(profile(&home, &["--force"]).code, Some(2), "nothing to replace");
    std::fs::write(home.path().join("there.json"), "kept").unwrap();
    let ran = profile(&home, &["--trace", "there.json"]);
    assert!(ran.code == Some(1) && ran.stderr.contains("there.json"), "{ran:?}");
    assert_eq!(std::fs::read_to_string(home.path().join("there.json")).unwrap(), "kept");
    let ran = profile(&home, &["-p", "100000", "-n", "1"]);
    assert!(ran.code == Some(1) && ran.stderr.contains("positions"), "{ran:?}");
}
