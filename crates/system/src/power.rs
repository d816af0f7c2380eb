//! Where the power comes from, and what the person chose to do with it.
//!
//! Sources: the kernel's documents `ABI/testing/sysfs-class-power`, `ABI/testing/sysfs-platform_profile`.

use serde::{Deserialize, Serialize};

use crate::reading::Reading;
use crate::source::{Source, Unreadable, line, number, one_line, quoted};

const SUPPLIES: &str = "sys/class/power_supply";

/// Where the power comes from.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct Power {
    /// The wall or the battery.
    pub source: Reading<PowerSource>,
    /// The machine's batteries.
    pub batteries: Reading<Vec<Battery>>,
    /// The profile that the person chose: `balanced`, `low-power`, `performance`, ...
    pub profile: Reading<String>,
    /// Whether the system saves power (Android, macOS).
    pub low_power_mode: Reading<bool>,
}

/// Where the power comes from now.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum PowerSource {
    /// The wall, a charger or a dock.
    Mains,
    /// A battery.
    Battery,
}

impl PowerSource {
    /// The name as in JSON.
    pub fn name(self) -> &'static str {
        match self {
            Self::Mains => "mains",
            Self::Battery => "battery",
        }
    }
}

/// A battery of the machine.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct Battery {
    /// The system's name for it.
    pub name: String,
    /// `Charging`, `Discharging`, `Full`, `Not charging`.
    pub status: Reading<String>,
    /// How full it is.
    pub charge_percent: Reading<u32>,
    /// Current; whether charging is positive differs between makers.
    pub current_ua: Reading<i64>,
    /// Voltage.
    pub voltage_uv: Reading<i64>,
    /// Power; whether charging is positive differs between makers.
    pub power_uw: Reading<i64>,
    /// Its temperature.
    pub millicelsius: Reading<i64>,
}

/// A supply: its name, type, and the folder of its files.
struct Supply {
    name: String,
    kind: String,
    folder: String,
}

impl Power {
    pub(crate) fn read(source: &dyn Source) -> Self {
        let supplies = supplies(source);
        let batteries = supplies.as_ref().map_err(Clone::clone).map(|supplies| {
            supplies.iter().filter(|supply| supply.is_battery()).map(|supply| battery(source, supply)).collect()
        });
        Self {
            source: supplies.and_then(|supplies| power_source(source, &supplies)).into(),
            batteries: batteries.into(),
            profile: profile(source).into(),
            low_power_mode: low_power_mode(source).into(),
        }
    }
}

impl Supply {
    fn is_battery(&self) -> bool {
        self.kind == "Battery"
    }
}

/// All supplies of the machine; those of a mouse or a pen say that they are a device's.
fn supplies(source: &dyn Source) -> Result<Vec<Supply>, Unreadable> {
    let mut found = Vec::new();
    for name in source.list(SUPPLIES)? {
        let folder = format!("{SUPPLIES}/{name}");
        let scope = line(source, &format!("{folder}/scope"));
        if scope.is_ok_and(|scope| scope == "Device") {
            continue;
        }
        if let Ok(kind) = line(source, &format!("{folder}/type")) {
            found.push(Supply { name, kind, folder });
        }
    }
    if found.is_empty() {
        return Err(Unreadable::unexpected(SUPPLIES, "lists no supply, as on machines that have no battery"));
    }
    Ok(found)
}

fn power_source(source: &dyn Source, supplies: &[Supply]) -> Result<PowerSource, Unreadable> {
    let is_online = |supply: &&Supply| number(source, &format!("{}/online", supply.folder)).is_ok_and(|on: u32| on > 0);
    if supplies.iter().filter(|supply| !supply.is_battery()).any(|supply| is_online(&supply)) {
        return Ok(PowerSource::Mains);
    }
    let mut said = Vec::new();
    for battery in supplies.iter().filter(|supply| supply.is_battery()) {
        match line(source, &format!("{}/status", battery.folder))?.as_str() {
            "Discharging" => return Ok(PowerSource::Battery),
            "Charging" | "Full" | "Not charging" => return Ok(PowerSource::Mains),
            other => said.push(format!("{} says {}", battery.name, quoted(other))),
        }
    }
    let said =
        if said.is_empty() { "no supply is online, and there is no battery".to_owned() } else { said.join(", ") };
    Err(Unreadable::unexpected(SUPPLIES, said))
}

fn battery(source: &dyn Source, supply: &Supply) -> Battery {
    let path = |name: &str| format!("{}/{name}", supply.folder);
    let quantity = |name: &str| Reading::from(number::<i64>(source, &path(name)));
    Battery {
        name: supply.name.clone(),
        status: line(source, &path("status")).into(),
        charge_percent: charge_percent(source, &path("capacity")).into(),
        current_ua: quantity("current_now"),
        voltage_uv: quantity("voltage_now"),
        power_uw: quantity("power_now"),
        millicelsius: battery_millicelsius(source, &path("temp")).into(),
    }
}

fn charge_percent(source: &dyn Source, path: &str) -> Result<u32, Unreadable> {
    let percent = number(source, path)?;
    let says = || Unreadable::unexpected(path, format!("says {percent} %"));
    (percent <= 100).then_some(percent).ok_or_else(says)
}

/// Tenths of a degree, by the interface.
fn battery_millicelsius(source: &dyn Source, path: &str) -> Result<i64, Unreadable> {
    let tenths: i64 = number(source, path)?;
    let says = || Unreadable::unexpected(path, format!("says {tenths} tenths of a degree"));
    (-500..=1500).contains(&tenths).then(|| tenths * 100).ok_or_else(says)
}

/// The profile, as the firmware's interface says it, or the service that desktops have for it.
fn profile(source: &dyn Source) -> Result<String, Unreadable> {
    let firmware = match line(source, "sys/firmware/acpi/platform_profile") {
        Err(error) if error.is_absent() => error,
        result => return result,
    };
    let service = match source.run("powerprofilesctl", &["get"]) {
        Ok(text) => one_line(&text).ok_or_else(|| Unreadable::because("powerprofilesctl says nothing")),
        Err(error) => Err(error),
    };
    service.map_err(|service| Unreadable::because(format!("{firmware}; {service}")))
}

fn low_power_mode(source: &dyn Source) -> Result<bool, Unreadable> {
    if source.os() != "android" {
        return Err(Unreadable::because(format!("{} has no such mode; see the power profile", source.os())));
    }
    let words = ["get", "global", "low_power"];
    match source.run("settings", &words)?.trim() {
        "1" => Ok(true),
        // Where nobody ever switched it, it is not there.
        "0" | "null" => Ok(false),
        other => Err(Unreadable::because(format!("settings says {}", quoted(other)))),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::made_up::Tree;

    fn with(supplies: &[(&str, &[(&str, &str)])]) -> Power {
        let mut tree = Tree::new("linux");
        for (name, files) in supplies {
            for (file, text) in *files {
                tree = tree.file(&format!("{SUPPLIES}/{name}/{file}"), text);
            }
        }
        Power::read(&tree)
    }

    #[test]
    fn the_wall_goes_before_the_battery() {
        let battery: &[(&str, &str)] = &[("type", "Battery\n"), ("status", "Discharging\n")];
        let power = with(&[("AC", &[("type", "Mains\n"), ("online", "1\n")]), ("BAT0", battery)]);
        assert_eq!(power.source, Reading::Known(PowerSource::Mains));
        let power = with(&[("AC", &[("type", "Mains\n"), ("online", "0\n")]), ("BAT0", battery)]);
        assert_eq!(power.source, Reading::Known(PowerSource::Battery));
        let power = with(&[("BAT0", &[("type", "Battery\n"), ("status", "Charging\n")])]);
        assert_eq!(power.source, Reading::Known(PowerSource::Mains));
        let power = with(&[("BAT0", &[("type", "Battery\n"), ("status", "Unknown\n")])]);
        assert_eq!(power.source.reason(), Some("/sys/class/power_supply: BAT0 says \"Unknown\""));
    }

    #[test]
    fn the_battery_of_a_mouse_is_not_the_machines() {
        let mouse: &[(&str, &str)] = &[("type", "Battery\n"), ("scope", "Device\n"), ("status", "Discharging\n")];
        let says = "/sys/class/power_supply: lists no supply, as on machines that have no battery";
        assert_eq!(with(&[("hid", mouse)]).source.reason(), Some(says));
        let empty = Power::read(&Tree::new("linux"));
        assert_eq!(empty.batteries.reason(), Some("/sys/class/power_supply: no such file"));
    }

    #[test]
    fn numbers_that_cannot_be_are_not_believed() {
        let files: &[(&str, &str)] = &[
            ("type", "Battery\n"),
            ("capacity", "101\n"),
            ("temp", "31000\n"),
            ("current_now", "-1200000\n"),
            ("voltage_now", "9223372036854775808\n"),
        ];
        let power = with(&[("BAT0", files)]);
        let battery = &power.batteries.get().unwrap()[0];
        assert_eq!(battery.charge_percent.reason(), Some("/sys/class/power_supply/BAT0/capacity: says 101 %"));
        let says = "/sys/class/power_supply/BAT0/temp: says 31000 tenths of a degree";
        assert_eq!(battery.millicelsius.reason(), Some(says));
        assert_eq!(battery.current_ua, Reading::Known(-1_200_000));
        assert!(!battery.voltage_uv.is_known());
    }

    #[test]
    fn the_profile_is_the_firmwares_or_the_services() {
        let tree = Tree::new("linux").prints("powerprofilesctl get", "balanced\n");
        assert_eq!(profile(&tree).as_deref(), Ok("balanced"));
        let tree = tree.file("sys/firmware/acpi/platform_profile", "low-power\n");
        assert_eq!(profile(&tree).as_deref(), Ok("low-power"));
        let says = "/sys/firmware/acpi/platform_profile: no such file; powerprofilesctl get: no such program";
        assert_eq!(profile(&Tree::new("linux")).unwrap_err().to_string(), says);
    }

    #[test]
    fn a_phone_says_whether_it_saves_power() {
        let with = |text: &str| low_power_mode(&Tree::new("android").prints("settings get global low_power", text));
        assert_eq!((with("1\n"), with("0\n"), with("null\n")), (Ok(true), Ok(false), Ok(false)));
        assert_eq!(with("yes\n").unwrap_err().to_string(), "settings says \"yes\"");
    }
}
