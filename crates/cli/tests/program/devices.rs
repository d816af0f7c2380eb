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

/// The file that keeps ceilings; there is one device.
#[cfg(unix)]
fn kept_files(home: &Home) -> Vec<std::path::PathBuf> {
    let entries = std::fs::read_dir(home.path().join("state/ceilings")).into_iter().flatten().flatten();
    entries.map(|entry| entry.path()).collect()
}

#[cfg(unix)]
fn devices(home: &Home, arguments: &[&str]) -> crate::common::Ran {
    let mut command = home.command(&[&["devices"], arguments].concat());
    crate::common::ran(command.env("DUAN_STATE", home.path().join("state")).output().expect("the program runs"))
}

/// Measured once, kept, made into tables and a card, and measured again when they are damaged.
#[cfg(unix)]
#[test]
fn ceilings_are_measured_once_and_kept() {
    let home = Home::new();
    let measured = devices(&home, &["--ceilings", "--json"]).json();
    assert_eq!(measured["refreshed"]["reason"], "missing");
    let threads = measured["threads"].as_array().expect("a list").clone();
    assert_eq!(threads[0], 1);
    // Where memory is too short nothing is read, and the reason is there instead.
    let read = measured["read"].as_array().expect("a list");
    assert_eq!(read.len(), if measured["read_skipped"].is_null() { threads.len() } else { 0 });
    for figure in read {
        assert!(figure["bytes_per_s"].as_f64().is_some_and(|rate| rate > 0.0), "{figure}");
    }
    let peaks = measured["multiply_adds"].as_array().expect("a list");
    assert!(peaks.len() >= 2 * threads.len(), "floats and codes: {measured}");
    assert_eq!(measured["barriers"].as_array().map(Vec::len), Some(threads.len() - 1));
    assert!(measured["state"]["memory"].is_object(), "{measured}");
    let files = kept_files(&home);
    assert_eq!(files.len(), 1);
    if !measured["read_skipped"].is_null() {
        return;
    }

    // Where others used the machine and stopped meanwhile, it is worth another try.
    let kept = devices(&home, &["--ceilings", "--json"]).json();
    if kept["refreshed"]["reason"] == "busy" {
        return;
    }
    assert!(kept["refreshed"].is_null(), "{kept}");
    assert_eq!((&kept["read"], &kept["multiply_adds"]), (&measured["read"], &measured["multiply_adds"]));
    let page = devices(&home, &["--ceilings"]);
    let lines: Vec<&str> = page.done().lines().collect();
    assert!(lines[0].contains("; measured "), "{page:?}");
    assert!(lines[2].starts_with("THREADS  READ GB/s"), "{page:?}");
    assert!(page.stdout.contains("knee: ") && page.stdout.contains("one thread alone"), "{page:?}");

    let card = devices(&home, &["--card", "--json"]).json();
    assert!(card["ceilings_measured_at"].is_string(), "{card}");
    assert_eq!(card["forecasts"].as_array().map(Vec::len), Some(3));
    let page = devices(&home, &["--card"]);
    for row in ["runs natively", "models", "1B in Q4_0", "in its way"] {
        assert_eq!(page.done().lines().filter(|line| line.starts_with(row)).count(), 1, "{row}: {page:?}");
    }

    std::fs::write(&files[0], "{").expect("the file is written");
    let again = devices(&home, &["--ceilings", "--json"]);
    let told = again.stderr.lines().filter(|line| line.contains("is ignored and written anew"));
    assert_eq!(told.count(), 1, "{again:?}");
    assert_eq!(again.json()["refreshed"]["reason"], "damaged");
}

#[cfg(unix)]
#[test]
fn ctrl_c_ends_a_measurement_and_keeps_nothing() {
    use std::io::{BufRead as _, BufReader, Read as _};
    use std::process::{Command, Stdio};
    let home = Home::new();
    let mut command = home.command(&["devices", "--ceilings", "--json"]);
    command.env("DUAN_STATE", home.path().join("state")).stdout(Stdio::piped()).stderr(Stdio::piped());
    let mut child = command.spawn().expect("the program starts");
    let mut talk = BufReader::new(child.stderr.take().expect("stderr is piped"));
    let mut text = String::new();
    talk.read_line(&mut text).expect("the program talks");
    assert_eq!(text, "measuring what this machine can do: nothing was kept for this device\n");
    let killed = Command::new("kill").args(["-INT", &child.id().to_string()]).status().expect("kill runs");
    assert!(killed.success());
    talk.read_to_string(&mut text).expect("the program talks");
    let ran = crate::common::ran(child.wait_with_output().expect("the program ends"));
    assert_eq!((ran.code, ran.stdout.as_str()), (Some(130), ""), "{ran:?}");
    assert!(text.ends_with("\nstopped\n"), "{text}");
    assert_eq!(kept_files(&home).len(), 0);
}

#[test]
fn again_needs_something_to_measure() {
    let ran = Home::new().run(&["devices", "--again"]);
    assert!(ran.refused().contains("--again") || ran.refused().contains("--ceilings"), "{ran:?}");
    let ran = Home::new().run(&["devices", "--ceilings", "--kernels"]);
    assert!(ran.refused().contains("cannot be used with"), "{ran:?}");
}
