//! `duan devices --kernels`: what is measured, and in which form it comes. No rate is looked at.

use crate::common::Home;

const KERNELS: &str = "--kernels=q4_0,IQ1_S";

#[test]
fn kernels_as_json_have_a_row_for_each_format_that_was_asked_for() {
    let report = Home::new().run(&["devices", KERNELS, "--json"]).json();
    let rows = report["kernels"].as_array().expect("a list");
    assert_eq!(rows.iter().map(|row| row["format"].as_str().unwrap()).collect::<Vec<_>>(), ["Q4_0", "IQ1_S"]);
    assert_eq!((&rows[0]["is_generic"], &rows[1]["is_generic"]), (&false.into(), &true.into()));
    for row in rows {
        assert_eq!((&row["isa"], &row["self_test_passed"]), (&report["isa"], &true.into()));
        assert!(row["instruction"].is_string() && row["was_run_on_silicon"].is_boolean(), "{row}");
        assert!(row["prefill_multiply_adds_per_s"].as_f64().is_some_and(|rate| rate > 0.0), "{row}");
        // Where memory is too short for the bandwidth, there is no rate of decode either.
        assert_eq!(row["decode_share"].is_number(), report["bandwidth"].is_object(), "{row}");
    }
    assert!(rows[0]["prefill_share"].is_number() && rows[1]["prefill_share"].is_null());
    assert!(report["bandwidth"]["way"].is_string() || report["bandwidth_skipped"].is_string(), "{report}");
    assert_eq!(report["warnings"].as_array().map(Vec::len), Some(0));
}

#[test]
fn kernels_in_a_pipe_are_one_line_and_a_table() {
    let home = Home::new();
    let mut command = home.command(&["devices", KERNELS]);
    let ran = crate::common::ran(command.env("DUAN_ISA", "scalar").output().expect("the program runs"));
    let lines: Vec<&str> = ran.done().lines().collect();
    assert_eq!(lines.len(), 5, "{ran:?}");
    assert!(lines[0].starts_with("scalar, ") && lines[0].contains("read bandwidth"), "{ran:?}");
    assert!(lines[2].starts_with("FORMAT  KERNEL"), "{ran:?}");
    assert!(lines[3].starts_with("Q4_0    scalar plain code") && lines[3].contains("passed"), "{ran:?}");
    assert!(lines[4].starts_with("IQ1_S   scalar generic"), "{ran:?}");
}

#[test]
fn the_state_of_the_machine_stands_beside_the_devices() {
    let home = Home::new();
    let report = home.run(&["devices", "--json"]).json();
    let (state, cpu) = (&report["state"], &report["devices"][0]["cpu"]);
    for part in ["os", "processor", "frequency", "limits", "memory", "power", "thermal", "pressure", "virtualization"] {
        assert!(state[part].is_object(), "{part}: {state}");
    }
    let duan = &state["duan"];
    assert_eq!((&duan["isa_used"], &duan["isas_found"]), (&cpu["isa"], &cpu["isas_available"]));
    assert_eq!((&duan["threads_decode"], &duan["thread_reason"]), (&cpu["threads_decode"], &cpu["thread_reason"]));
    assert_eq!((&duan["pinning"], &duan["version"]), (&"class".into(), &env!("CARGO_PKG_VERSION").into()));
    // Each value is there, or says why it is not.
    let quota = &state["limits"]["quota_cpus"];
    assert!(quota.is_null() || quota.is_number() || quota["not_readable"].is_string(), "{quota}");
    let ran = home.run(&["devices"]);
    let sections: Vec<&str> = ran.done().lines().filter(|line| line.chars().all(char::is_uppercase)).collect();
    let sections: Vec<&str> = sections.into_iter().filter(|line| !line.is_empty()).collect();
    assert_eq!(sections, ["CPU", "SYSTEM", "CORES", "FREQUENCY", "LIMITS", "MEMORY", "POWER", "HEAT", "LOAD"]);
}

#[test]
fn unknown_formats_are_wrong_usage() {
    let ran = Home::new().run(&["devices", "--kernels=q4_9"]);
    assert!(ran.refused().contains("q4_9") && ran.refused().contains("Q4_K"), "{ran:?}");
}
