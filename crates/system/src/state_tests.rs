//! States of made-up machines and of hostile ones.

use proptest::prelude::*;

use super::*;
use crate::command::NoCommands;
use crate::made_up::{self, Tree};
use crate::source::Local;
use crate::topology::CoreClass;

type Machine = (&'static str, fn() -> Tree);

const MACHINES: &[Machine] = &[
    ("phone", made_up::phone),
    ("laptop", made_up::laptop),
    ("container", made_up::container),
    ("raspberry_pi", made_up::raspberry_pi),
    ("virtual_machine", made_up::virtual_machine),
];

#[test]
fn states_of_made_up_machines() {
    for (name, machine) in MACHINES {
        let state = State::read(&machine());
        insta::assert_snapshot!(*name, serde_json::to_string_pretty(&state).unwrap());
        insta::assert_snapshot!(format!("{name}_chip"), state.chip().to_string());
    }
}

#[test]
fn json_there_and_back() {
    for (name, machine) in MACHINES {
        let state = State::read(&machine());
        let json = serde_json::to_string(&state).unwrap();
        assert_eq!(serde_json::from_str::<State>(&json).unwrap(), state, "{name}");
    }
    let empty: State = serde_json::from_str("{}").unwrap();
    assert_eq!(empty.power.source.reason(), Some("not recorded"));
    let newer: State = serde_json::from_str(r#"{"os": {"family": "linux", "more": 1}, "more": []}"#).unwrap();
    assert_eq!(newer.os.family, "linux");
}

/// A tree on the disk.
#[cfg(unix)]
fn written(tree: &Tree) -> tempfile::TempDir {
    use std::os::unix::fs::PermissionsExt as _;
    let folder = tempfile::tempdir().unwrap();
    for (path, bytes) in tree.iter() {
        let path = folder.path().join(path);
        std::fs::create_dir_all(path.parent().unwrap()).unwrap();
        std::fs::write(&path, bytes.unwrap_or_default()).unwrap();
        if bytes.is_none() {
            std::fs::set_permissions(&path, std::fs::Permissions::from_mode(0o0)).unwrap();
        }
    }
    for path in tree.empty_folders() {
        std::fs::create_dir_all(folder.path().join(path)).unwrap();
    }
    folder
}

#[cfg(unix)]
#[test]
fn a_tree_on_the_disk_is_the_same_machine() {
    // These have no commands and no file that is denied, which the superuser could read.
    let tree = made_up::virtual_machine();
    let folder = written(&tree);
    let local = Local::new(folder.path(), "linux", NoCommands);
    assert_eq!(State::read(&local), State::read(&tree));
}

#[test]
fn what_the_made_up_machines_are_for() {
    let phone = State::read(&made_up::phone());
    assert!(phone.limits.is_background());
    let policies = phone.frequency.policies.get().unwrap();
    assert_eq!(policies.iter().map(|policy| policy.is_capped()).collect::<Vec<_>>(), [false, true, true]);
    let counts = |state: &State| -> Vec<(CoreClass, usize)> {
        state.chip().cores.get().unwrap().iter().map(|kind| (kind.class, kind.count)).collect()
    };
    let (performance, efficiency) = (CoreClass::Performance, CoreClass::Efficiency);
    assert_eq!(counts(&phone), [(performance, 1), (performance, 3), (efficiency, 4)]);
    assert_eq!(counts(&State::read(&made_up::laptop())), [(performance, 8), (efficiency, 12)]);
    assert_eq!(State::read(&made_up::container()).limits.quota_cpus, Reading::Known(Some(0.5)));
    let pi = State::read(&made_up::raspberry_pi());
    assert_eq!(pi.thermal.raspberry_pi.get().unwrap().now, ["under-voltage", "throttled"]);
    let machine = State::read(&made_up::virtual_machine());
    assert_eq!(machine.virtualization.hypervisor, Reading::Known(Some("unknown".to_owned())));
}

#[test]
fn a_windows_and_an_unknown_system_say_that_they_are_not_read() {
    let state = State::read(&Tree::new("windows").file("proc/meminfo", "MemTotal: 1 kB\n").file(".dockerenv", ""));
    let says = Some("duan does not read it on windows");
    assert_eq!(state.os.family, "windows");
    let json = serde_json::to_value(&state).unwrap();
    for (part, value) in json.as_object().unwrap().iter().flat_map(|(_, part)| part.as_object().unwrap()) {
        let is_special = [
            "family",
            "raspberry_pi",
            "speed_limit_percent",
            "memory_level",
            "low_power_mode",
            "android_group",
            "android_cpus",
        ];
        if !is_special.contains(&part.as_str()) {
            assert_eq!(value["not_readable"].as_str(), says, "{part}: {value}");
        }
    }
}

#[cfg(target_os = "linux")]
#[test]
fn this_machine_says_something() {
    let state = State::read(&Local::here());
    assert!(state.memory.total_bytes.is_known() && state.memory.page_bytes.is_known(), "{state:?}");
    assert!(state.limits.affinity.get().is_some_and(|cpus| !cpus.is_empty()), "{state:?}");
    assert!(state.os.kernel.is_known() && state.os.architecture.is_known(), "{state:?}");
}

/// Values that no file should have.
const NONSENSE: &[&[u8]] = &[
    b"",
    b"\n",
    b"-1\n",
    b"18446744073709551616\n",
    b"9223372036854775807\n",
    b"-9223372036854775808\n",
    b"1e309\n",
    b"nan\n",
    b"\xff\xfe\x00",
    b"0-18446744073709551615\n",
    b"cpu  18446744073709551615 18446744073709551615 1 18446744073709551615 1 1 1 18446744073709551615\n",
    b"VmHWM: 18446744073709551615 kB\nMemAvailable: 99999999999999999999 kB\n",
    b"0::/../../..\n1:cpu:/\\040\n",
    b"\x1b[2J\x07",
];

/// The paths of all files, but of those that each CPU has only those of the first two.
fn different_paths(tree: &Tree) -> Vec<&str> {
    let is_later = |part: &str| {
        let number = ["cpu", "policy"].iter().find_map(|name| part.strip_prefix(name)?.parse().ok());
        number.is_some_and(|number: usize| number > 1)
    };
    tree.iter().map(|(path, _)| path).filter(|path| !path.split('/').any(is_later)).collect()
}

#[test]
fn every_file_may_hold_nonsense() {
    for (name, machine) in MACHINES {
        let tree = machine();
        for path in different_paths(&tree) {
            for text in NONSENSE {
                let state = State::read(&tree.clone().file(path, text));
                // It can be written down and shown, whatever it says.
                assert!(serde_json::to_string(&state).is_ok(), "{name} {path}");
            }
        }
    }
}

#[test]
fn every_file_may_be_missing_denied_or_a_folder() {
    for (name, machine) in MACHINES {
        let tree = machine();
        for path in different_paths(&tree) {
            for tree in [
                tree.clone().without(path),
                tree.clone().denied(path),
                tree.clone().without(path).file(&format!("{path}/inside"), "1\n"),
            ] {
                let state = State::read(&tree);
                let json = serde_json::to_string(&state).unwrap();
                assert_eq!(serde_json::from_str::<State>(&json).unwrap(), state, "{name} {path}");
            }
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]
    #[test]
    fn any_bytes_in_any_file(machine in 0..MACHINES.len(), file in any::<prop::sample::Index>(), bytes in prop::collection::vec(any::<u8>(), 0..64)) {
        let tree = MACHINES[machine].1();
        let paths: Vec<String> = tree.iter().map(|(path, _)| path.to_owned()).collect();
        let state = State::read(&tree.file(&paths[file.index(paths.len())], &bytes));
        prop_assert!(serde_json::to_string(&state).is_ok());
    }
}
