//! Counters of made-up machines, and of this one.

use super::*;
use crate::made_up::{self, Tree};
use crate::movement::Movement;
use crate::source::Local;

#[test]
fn switches_are_summed_over_threads_that_are_still_there() {
    let counters = Counters::read(&made_up::laptop());
    assert_eq!((counters.voluntary_switches, counters.involuntary_switches), (Reading::Known(42), Reading::Known(6)));
    let one_ended = made_up::laptop().without("proc/self/task/101/status").folder("proc/self/task/101");
    assert_eq!(Counters::read(&one_ended).voluntary_switches, Reading::Known(40));
    let none = made_up::laptop().without("proc/self/task").folder("proc/self/task/100");
    let says = "/proc/self/task: tells of no thread";
    assert_eq!(Counters::read(&none).voluntary_switches.reason(), Some(says));
}

#[test]
fn what_a_laptop_counts() {
    let counters = Counters::read(&made_up::laptop());
    assert_eq!((counters.cpu_total_ticks, counters.cpu_idle_ticks), (Reading::Known(13_100), Reading::Known(8060)));
    assert_eq!((counters.own_cpu_ticks, counters.major_faults), (Reading::Known(300), Reading::Known(12)));
    assert_eq!(counters.read_bytes, Reading::Known(4_096_000));
    assert_eq!(counters.peak_resident_bytes, Reading::Known(250_000 * 1024));
    assert_eq!(counters.throttle_counts, Reading::Known(ThrottleCounts { core: 0, package: 12 }));
    assert_eq!(counters.frequency.get().unwrap().len(), 20);
    assert_eq!(counters.load_average, Reading::Known(0.42));
    let energy = counters.energy.get().unwrap();
    assert_eq!((energy.len(), energy[0].domain.as_str()), (1, "intel-rapl:0 package-0"));
    let says = "/sys/class/powercap/intel-rapl:0/energy_uj: permission denied";
    assert_eq!(energy[0].energy_uj.reason(), Some(says));
}

#[test]
fn files_that_vanish_between_leave_the_rest() {
    let before = Counters::read(&made_up::laptop());
    let zone = "sys/class/thermal/thermal_zone0";
    let after = made_up::laptop().without(zone).without("proc/self/io").without("proc/stat");
    let moved = Movement::between(&before, &Counters::read(&after));
    let zones = moved.temperature.get().unwrap();
    assert_eq!((zones[0].zone.as_str(), zones[0].after_millicelsius.reason()), ("thermal_zone0", Some("is gone")));
    assert_eq!(zones[1].after_millicelsius, Reading::Known(52_000));
    assert_eq!(moved.read_bytes.reason(), Some("/proc/self/io: no such file"));
    assert_eq!(moved.others_share.reason(), Some("/proc/stat: no such file"));
    assert_eq!(moved.major_faults, Reading::Known(0));
}

#[test]
fn other_systems_say_that_they_are_not_read() {
    let counters = Counters::read(&Tree::new("windows").file("proc/stat", "cpu  1 1 1 1 1 1 1 1\n"));
    assert_eq!(counters.cpu_total_ticks.reason(), Some("duan does not read it on windows"));
    assert_eq!(counters.energy.reason(), Some("duan does not read it on windows"));
}

#[cfg(target_os = "linux")]
#[test]
fn this_machine_moves_forwards() {
    let local = Local::here();
    let before = Counters::read(&local);
    let mut sum = 0u64;
    let has_moved =
        |now: Counters| now.own_cpu_ticks != before.own_cpu_ticks && now.cpu_total_ticks != before.cpu_total_ticks;
    while !has_moved(Counters::read(&local)) {
        sum = (0..1_000_000u64).fold(sum, |sum, number| std::hint::black_box(sum ^ number));
    }
    let moved = Movement::between(&before, &Counters::read(&local));
    assert!(moved.own_cpu_ticks.get().is_some_and(|&ticks| ticks > 0), "{moved:?}");
    assert!(moved.cpu_total_ticks.get().is_some_and(|&ticks| ticks > 0), "{moved:?}");
    assert!(before.resident_bytes.get() <= before.peak_resident_bytes.get(), "{before:?}");
}

#[test]
fn a_processor_without_a_zone_has_its_own_sensor() {
    let tree = Tree::new("linux")
        .file("sys/class/hwmon/hwmon0/name", "nvme\n")
        .file("sys/class/hwmon/hwmon0/temp1_input", "41000\n")
        .file("sys/class/hwmon/hwmon1/name", "k10temp\n")
        .file("sys/class/hwmon/hwmon1/temp1_input", "62000\n")
        .file("sys/class/hwmon/hwmon1/temp1_label", "Tctl\n");
    let found = Counters::read(&tree).temperature;
    let expected = TemperatureNow { zone: "k10temp Tctl".to_owned(), millicelsius: Reading::Known(62_000) };
    assert_eq!(found, Reading::Known(vec![expected]));
}
