//! How hot the machine is, and whether heat holds it back.
//!
//! Sources: the kernel's documents `driver-api/thermal/sysfs-api.rst`, `hwmon/sysfs-interface.rst`, `admin-guide/thermal/`; Raspberry
//! Pi's documentation of `vcgencmd get_throttled`.

use serde::{Deserialize, Serialize};

use crate::counters::TemperatureNow;
use crate::frequency::numbered;
use crate::reading::Reading;
use crate::source::{Source, Unreadable, line, number, quoted};
use crate::topology::online;

const THERMAL: &str = "sys/class/thermal";

/// No zone has more trip points.
const TRIPS_LIMIT: usize = 64;

/// How hot the machine is.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct Thermal {
    /// Zones that the system watches.
    pub zones: Reading<Vec<ThermalZone>>,
    /// Sensors beside the zones (hwmon).
    pub sensors: Reading<Vec<Sensor>>,
    /// What the system cools with: fans, and limits of frequency.
    pub cooling: Reading<Vec<CoolingDevice>>,
    /// How often Intel processors held themselves back.
    pub throttle_counts: Reading<ThrottleCounts>,
    /// What a Raspberry Pi says of its power and heat.
    pub raspberry_pi: Reading<PiThrottling>,
    /// The speed that heat leaves a Mac's processor; 100 is all.
    pub speed_limit_percent: Reading<u32>,
}

/// A zone that the system watches.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct ThermalZone {
    /// The system's name for it: `thermal_zone0`.
    pub name: String,
    /// What it is: `x86_pkg_temp`, `cpu-1-0-usr`, ...
    pub kind: Reading<String>,
    /// Its temperature.
    pub millicelsius: Reading<i64>,
    /// Temperatures at which something is done.
    pub trips: Vec<TripPoint>,
}

/// A temperature at which something is done.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct TripPoint {
    /// `passive` (slower), `active` (fans), `hot`, `critical` (off).
    pub kind: String,
    /// The temperature.
    pub millicelsius: Reading<i64>,
}

/// A sensor beside the zones.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct Sensor {
    /// The chip, and which of its sensors: `coretemp Package id 0`.
    pub name: String,
    /// Its temperature.
    pub millicelsius: Reading<i64>,
}

/// What the system cools with.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct CoolingDevice {
    /// The system's name for it: `cooling_device0`.
    pub name: String,
    /// What it is: `Fan`, `Processor`, `cpufreq-cpu4`, ...
    pub kind: Reading<String>,
    /// How much it cools; on one that lowers frequencies anything above 0 is throttling.
    pub state: Reading<u64>,
    /// The most it can.
    pub max_state: Reading<u64>,
}

/// How often Intel processors held themselves back, since the start of the system.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct ThrottleCounts {
    /// For their cores' heat, summed over the CPUs.
    pub core: u64,
    /// For the package's heat, of the package with the most.
    pub package: u64,
}

/// What a Raspberry Pi says of its power and heat.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct PiThrottling {
    /// The word as it is.
    pub bits: u64,
    /// What holds now: `under-voltage`, `frequency capped`, `throttled`, `soft temperature limit`.
    pub now: Vec<String>,
    /// What was so since the start.
    pub occurred: Vec<String>,
}

impl Thermal {
    pub(crate) fn read(source: &dyn Source) -> Self {
        let zones = numbered(source, THERMAL, "thermal_zone")
            .map(|folders| folders.iter().map(|folder| zone(source, folder)).collect());
        Self {
            zones: zones.into(),
            sensors: sensors(source).into(),
            cooling: cooling(source).into(),
            throttle_counts: throttle_counts(source).into(),
            raspberry_pi: raspberry_pi(source).into(),
            speed_limit_percent: Reading::from(Err(Unreadable::because("only macOS tells it"))),
        }
    }
}

/// The part of a path behind the last slash.
pub(crate) fn last(path: &str) -> String {
    path.rsplit('/').next().unwrap_or(path).to_owned()
}

fn zone(source: &dyn Source, folder: &str) -> ThermalZone {
    let trips = (0..TRIPS_LIMIT).map_while(|index| {
        let kind = line(source, &format!("{folder}/trip_point_{index}_type")).ok()?;
        Some(TripPoint { kind, millicelsius: temperature(source, &format!("{folder}/trip_point_{index}_temp")).into() })
    });
    ThermalZone {
        name: last(folder),
        kind: line(source, &format!("{folder}/type")).into(),
        millicelsius: temperature(source, &format!("{folder}/temp")).into(),
        trips: trips.collect(),
    }
}

/// Drivers of sensors that sit in a processor: some systems have no zone for those.
const PROCESSOR_SENSORS: [&str; 4] = ["coretemp", "k10temp", "zenpower", "cpu_thermal"];

/// The temperatures of all zones and of the processor's sensors: all that changes in them.
pub(crate) fn temperatures(source: &dyn Source) -> Result<Vec<TemperatureNow>, Unreadable> {
    let zone = |folder: &String| TemperatureNow {
        zone: last(folder),
        millicelsius: temperature(source, &format!("{folder}/temp")).into(),
    };
    let zones = numbered(source, THERMAL, "thermal_zone").map(|folders| folders.iter().map(zone).collect::<Vec<_>>());
    let of_processor = |sensor: &Sensor| PROCESSOR_SENSORS.iter().any(|driver| sensor.name.starts_with(driver));
    let sensors = sensors(source).unwrap_or_default().into_iter().filter(of_processor);
    let sensors: Vec<TemperatureNow> =
        sensors.map(|sensor| TemperatureNow { zone: sensor.name, millicelsius: sensor.millicelsius }).collect();
    match zones {
        Err(error) if sensors.is_empty() => Err(error),
        zones => Ok(zones.unwrap_or_default().into_iter().chain(sensors).collect()),
    }
}

/// All cooling devices.
pub(crate) fn cooling(source: &dyn Source) -> Result<Vec<CoolingDevice>, Unreadable> {
    let device = |folder: &String| CoolingDevice {
        name: last(folder),
        kind: line(source, &format!("{folder}/type")).into(),
        state: number(source, &format!("{folder}/cur_state")).into(),
        max_state: number(source, &format!("{folder}/max_state")).into(),
    };
    Ok(numbered(source, THERMAL, "cooling_device")?.iter().map(device).collect())
}

/// The temperature in a file.
fn temperature(source: &dyn Source, path: &str) -> Result<i64, Unreadable> {
    millicelsius(number(source, path)?).map_err(|what| Unreadable::unexpected(path, what))
}

/// Thousandths of a degree of a number that should be some. There are makers who write degrees, or tenths, so a number is taken for
/// what makes it a temperature of a machine that runs; where two are possible, none is taken.
pub(crate) fn millicelsius(number: i64) -> Result<i64, String> {
    match number {
        0 => Err("says 0, as sensors do that are off".to_owned()),
        1..=150 => Ok(number * 1000),
        151..=999 => Ok(number * 100),
        1000..=1500 => Err(format!("says {number}, which is tenths or thousandths of a degree")),
        1501..=150_000 | -50_000..=-1000 => Ok(number),
        _ => Err(format!("says {number}, which is no temperature")),
    }
}

fn sensors(source: &dyn Source) -> Result<Vec<Sensor>, Unreadable> {
    let mut found = Vec::new();
    for folder in numbered(source, "sys/class/hwmon", "hwmon")? {
        let chip = line(source, &format!("{folder}/name")).unwrap_or_else(|_| last(&folder));
        let inputs = source.list(&folder).unwrap_or_default();
        let mut inputs: Vec<u32> =
            inputs.iter().filter_map(|name| name.strip_prefix("temp")?.strip_suffix("_input")?.parse().ok()).collect();
        inputs.sort_unstable();
        for input in inputs {
            let label = line(source, &format!("{folder}/temp{input}_label"));
            let name = format!("{chip} {}", label.unwrap_or_else(|_| format!("temp{input}")));
            found.push(Sensor {
                name,
                millicelsius: temperature(source, &format!("{folder}/temp{input}_input")).into(),
            });
        }
    }
    Ok(found)
}

/// The counts of all CPUs together.
pub(crate) fn throttle_counts(source: &dyn Source) -> Result<ThrottleCounts, Unreadable> {
    let mut counts = ThrottleCounts::default();
    for cpu in online(source)? {
        let count = |name: &str| {
            number::<u64>(source, &format!("sys/devices/system/cpu/cpu{cpu}/thermal_throttle/{name}_throttle_count"))
        };
        counts.core = counts.core.saturating_add(count("core")?);
        counts.package = counts.package.max(count("package")?);
    }
    Ok(counts)
}

fn raspberry_pi(source: &dyn Source) -> Result<PiThrottling, Unreadable> {
    let board = line(source, "proc/device-tree/model");
    if !board.is_ok_and(|board| board.contains("Raspberry Pi")) {
        return Err(Unreadable::because("this is no Raspberry Pi"));
    }
    let firmware = "sys/devices/platform/soc/soc:firmware/get_throttled";
    let text = line(source, firmware).or_else(|_| source.run("vcgencmd", &["get_throttled"]))?;
    let digits = text.trim().trim_start_matches("throttled=").trim_start_matches("0x");
    let bits = u64::from_str_radix(digits, 16)
        .map_err(|_| Unreadable::because(format!("get_throttled: {} is no number", quoted(text.trim()))))?;
    Ok(pi_throttling(bits))
}

fn pi_throttling(bits: u64) -> PiThrottling {
    const NAMES: [&str; 4] = ["under-voltage", "frequency capped", "throttled", "soft temperature limit"];
    let set = |first: usize| {
        let names = NAMES.iter().enumerate().filter(|(index, _)| bits >> (first + index) & 1 == 1);
        names.map(|(_, name)| (*name).to_owned()).collect()
    };
    PiThrottling { bits, now: set(0), occurred: set(16) }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::made_up::Tree;

    #[test]
    fn degrees_tenths_and_thousandths_are_told_apart() {
        for (number, expected) in [
            (45, 45_000),
            (150, 150_000),
            (151, 15_100),
            (453, 45_300),
            (999, 99_900),
            (1501, 1501),
            (45_300, 45_300),
            (150_000, 150_000),
            (-5000, -5000),
        ] {
            assert_eq!(millicelsius(number), Ok(expected), "{number}");
        }
        for wrong in [0, 1000, 1500, 150_001, -1, -999, -50_001, -274_000, i64::MAX, i64::MIN] {
            let reason = millicelsius(wrong).unwrap_err();
            assert!(reason.starts_with(&format!("says {wrong}, ")), "{reason}");
        }
    }

    #[test]
    fn bits_of_a_raspberry_pi() {
        let with = |text: &str| {
            let tree = Tree::new("linux").file("proc/device-tree/model", "Raspberry Pi 5 Model B Rev 1.0\0");
            raspberry_pi(&tree.prints("vcgencmd get_throttled", text))
        };
        let throttling = with("throttled=0x50005\n").unwrap();
        assert_eq!((throttling.bits, throttling.now.len()), (0x50005, 2));
        assert_eq!(throttling.now, ["under-voltage", "throttled"]);
        assert_eq!(throttling.occurred, ["under-voltage", "throttled"]);
        assert_eq!(with("throttled=0xe0008\n").unwrap().now, ["soft temperature limit"]);
        assert_eq!(with("throttled=0x0\n").unwrap(), PiThrottling::default());
        assert_eq!(with("VCHI failed\n").unwrap_err().to_string(), "get_throttled: \"VCHI failed\" is no number");
        let other = raspberry_pi(&Tree::new("linux")).unwrap_err();
        assert_eq!(other.to_string(), "this is no Raspberry Pi");
    }

    #[test]
    fn counts_are_summed_over_cpus_of_one_package() {
        let mut tree = Tree::new("linux").file("sys/devices/system/cpu/online", "0-2\n");
        for cpu in 0..3 {
            let folder = format!("sys/devices/system/cpu/cpu{cpu}/thermal_throttle");
            tree = tree.file(&format!("{folder}/core_throttle_count"), format!("{cpu}\n"));
            tree = tree.file(&format!("{folder}/package_throttle_count"), "7\n");
        }
        assert_eq!(throttle_counts(&tree), Ok(ThrottleCounts { core: 3, package: 7 }));
    }

    #[test]
    fn sensors_have_the_name_of_their_chip_and_their_own() {
        let tree = Tree::new("linux")
            .file("sys/class/hwmon/hwmon2/name", "coretemp\n")
            .file("sys/class/hwmon/hwmon2/temp1_input", "52000\n")
            .file("sys/class/hwmon/hwmon2/temp1_label", "Package id 0\n")
            .file("sys/class/hwmon/hwmon2/temp10_input", "hot\n")
            .file("sys/class/hwmon/hwmon2/fan1_input", "1200\n");
        let sensors = sensors(&tree).unwrap();
        assert_eq!(
            sensors.iter().map(|sensor| &sensor.name).collect::<Vec<_>>(),
            ["coretemp Package id 0", "coretemp temp10"]
        );
        assert_eq!(sensors[0].millicelsius, Reading::Known(52_000));
        let says = "/sys/class/hwmon/hwmon2/temp10_input: \"hot\" is no number of the kind expected";
        assert_eq!(sensors[1].millicelsius.reason(), Some(says));
    }
}
