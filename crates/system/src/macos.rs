//! What macOS tells by `sysctl` and `pmset`.
//!
//! Sources: the manual pages `sysctl(3)`, `sysctl(8)`, `pmset(1)`; Apple's "Determining system capabilities".

use std::str::FromStr;

use crate::power::{Battery, PowerSource};
use crate::processor::CoreState;
use crate::reading::Reading;
use crate::source::{Source, Unreadable, one_line, quoted};
use crate::state::State;
use crate::topology::CoreClass;

/// More cores are none of a Mac's.
const CORES_LIMIT: usize = 1024;

/// Reads what can be read into `state`, in which nothing is known yet.
pub(crate) fn read(source: &dyn Source, mut state: State) -> State {
    let text = |name: &str| Reading::from(sysctl(source, name));
    state.os.name = text("kern.osproductversion").map(|version| format!("macOS {version}"));
    state.os.kernel = text("kern.osrelease");
    state.os.architecture = text("hw.machine");
    state.processor.model = text("machdep.cpu.brand_string");
    state.processor.cores = cores(source).into();
    state.memory.total_bytes = sysctl_number(source, "hw.memsize").into();
    state.memory.page_bytes = sysctl_number(source, "hw.pagesize").into();
    state.memory.swap_total_bytes = swap_bytes(source, "total").into();
    state.memory.swap_free_bytes = swap_bytes(source, "free").into();
    state.pressure.memory_level = memory_level(source).into();
    let battery = source.run("pmset", &["-g", "batt"]);
    state.power.source = battery.as_ref().map_err(Clone::clone).and_then(|text| power_source(text)).into();
    state.power.batteries = battery.map(|text| batteries(&text)).into();
    state.power.low_power_mode = setting(source, "lowpowermode", &["-g"]).map(|mode: u32| mode != 0).into();
    state.thermal.speed_limit_percent = setting(source, "CPU_Speed_Limit", &["-g", "therm"]).into();
    state.virtualization.hypervisor =
        sysctl_number(source, "kern.hv_vmm_present").map(|is: u32| (is != 0).then(|| "unknown".to_owned())).into();
    state
}

fn sysctl(source: &dyn Source, name: &str) -> Result<String, Unreadable> {
    let text = source.run("sysctl", &["-n", name])?;
    one_line(&text).ok_or_else(|| Unreadable::because(format!("sysctl says nothing of {name}")))
}

fn sysctl_number<T: FromStr>(source: &dyn Source, name: &str) -> Result<T, Unreadable> {
    let text = sysctl(source, name)?;
    text.parse().map_err(|_| Unreadable::because(format!("sysctl {name}: {} is no number", quoted(&text))))
}

/// Level 0 has the performance cores; a Mac with one kind of cores has no levels.
fn cores(source: &dyn Source) -> Result<Vec<CoreState>, Unreadable> {
    let levels = sysctl_number::<usize>(source, "hw.nperflevels").unwrap_or(0);
    let counts: Vec<usize> = match levels {
        0 => vec![sysctl_number(source, "hw.physicalcpu")?],
        levels => (0..levels.min(CORES_LIMIT))
            .map(|level| sysctl_number(source, &format!("hw.perflevel{level}.physicalcpu")))
            .collect::<Result<_, _>>()?,
    };
    let unknown = |what: &str| Unreadable::because(format!("macOS does not tell {what}"));
    let core = |id, level| CoreState {
        id,
        cpus: Vec::new(),
        class: if level == 0 { CoreClass::Performance } else { CoreClass::Efficiency },
        package: Err(unknown("the package of a core")).into(),
        capacity: Err(unknown("what a core can do")).into(),
        max_khz: Err(unknown("the frequency of a core")).into(),
    };
    let levels = counts.iter().enumerate().flat_map(|(level, &count)| std::iter::repeat_n(level, count));
    Ok(levels.take(CORES_LIMIT).enumerate().map(|(id, level)| core(id, level)).collect())
}

/// A quantity of `total = 2048.00M  used = 1060.25M  free = 987.75M  (encrypted)`.
fn swap_bytes(source: &dyn Source, key: &str) -> Result<u64, Unreadable> {
    let text = sysctl(source, "vm.swapusage")?;
    let value = text.split_whitespace().skip_while(|word| *word != key).nth(2);
    let megabytes = value.and_then(|value| value.strip_suffix('M')?.parse::<f64>().ok());
    let megabytes = megabytes.filter(|megabytes| (0.0..1e12).contains(megabytes));
    let bytes = megabytes.map(|megabytes| (megabytes * (1 << 20) as f64) as u64);
    bytes.ok_or_else(|| Unreadable::because(format!("sysctl vm.swapusage says {}", quoted(&text))))
}

fn memory_level(source: &dyn Source) -> Result<String, Unreadable> {
    const NAME: &str = "kern.memorystatus_vm_pressure_level";
    let level = match sysctl(source, NAME)?.as_str() {
        "1" => "normal",
        "2" => "warn",
        "4" => "critical",
        other => return Err(Unreadable::because(format!("sysctl {NAME} says {}", quoted(other)))),
    };
    Ok(level.to_owned())
}

/// The first line is `Now drawing from 'AC Power'`.
fn power_source(text: &str) -> Result<PowerSource, Unreadable> {
    let line = one_line(text).unwrap_or_default();
    match line.split('\'').nth(1) {
        Some("AC Power") => Ok(PowerSource::Mains),
        Some("Battery Power") => Ok(PowerSource::Battery),
        _ => Err(Unreadable::because(format!("pmset -g batt says {}", quoted(&line)))),
    }
}

/// Lines like, with a tab before the percentage, ` -InternalBattery-0 (id=1234567) 95%; discharging; 3:10 remaining present: true`.
fn batteries(text: &str) -> Vec<Battery> {
    let unknown = || Unreadable::because("pmset does not tell it");
    let battery = |line: &str| {
        let (name, rest) = line.trim_start().strip_prefix('-')?.split_once(' ')?;
        let (_, rest) = rest.split_once('\t').unwrap_or(("", rest));
        let mut fields = rest.split(';').map(str::trim);
        let percent = fields.next()?.strip_suffix('%')?.parse().ok().filter(|&percent: &u32| percent <= 100);
        Some(Battery {
            name: name.to_owned(),
            charge_percent: percent.ok_or_else(unknown).into(),
            status: fields.next().and_then(one_line).ok_or_else(unknown).into(),
            current_ua: Err(unknown()).into(),
            voltage_uv: Err(unknown()).into(),
            power_uw: Err(unknown()).into(),
            millicelsius: Err(unknown()).into(),
        })
    };
    text.lines().filter_map(battery).collect()
}

/// The number after a word, or after a word and `=`, on a line of what `pmset` prints.
fn setting(source: &dyn Source, key: &str, arguments: &[&str]) -> Result<u32, Unreadable> {
    let text = source.run("pmset", arguments)?;
    let value =
        text.lines().find_map(|line| line.trim().strip_prefix(key)?.trim().trim_start_matches('=').trim().parse().ok());
    value.ok_or_else(|| Unreadable::because(format!("pmset {} says nothing of {key}", arguments.join(" "))))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::made_up::Tree;

    fn mac() -> Tree {
        Tree::new("macos")
            .prints("sysctl -n kern.osproductversion", "14.5\n")
            .prints("sysctl -n kern.osrelease", "23.5.0\n")
            .prints("sysctl -n hw.machine", "arm64\n")
            .prints("sysctl -n machdep.cpu.brand_string", "A Chip\n")
            .prints("sysctl -n hw.nperflevels", "2\n")
            .prints("sysctl -n hw.perflevel0.physicalcpu", "4\n")
            .prints("sysctl -n hw.perflevel1.physicalcpu", "6\n")
            .prints("sysctl -n hw.memsize", "17179869184\n")
            .prints("sysctl -n hw.pagesize", "16384\n")
            .prints("sysctl -n vm.swapusage", "total = 2048.00M  used = 1060.25M  free = 987.75M  (encrypted)\n")
            .prints("sysctl -n kern.memorystatus_vm_pressure_level", "1\n")
            .prints("pmset -g", "System-wide power settings:\n lowpowermode         1\n")
            .prints("pmset -g therm", "Note: No thermal warning\n\tCPU_Speed_Limit \t= 80\n")
            .prints(
                "pmset -g batt",
                "Now drawing from 'Battery Power'\n -InternalBattery-0 (id=1)\t95%; discharging; 3:10 remaining present: true\n",
            )
    }

    #[test]
    fn what_a_mac_tells() {
        let state = State::read(&mac());
        assert_eq!(state.os.name, Reading::Known("macOS 14.5".to_owned()));
        let classes: Vec<CoreClass> = state.processor.cores.get().unwrap().iter().map(|core| core.class).collect();
        assert_eq!(classes, [[CoreClass::Performance].repeat(4), [CoreClass::Efficiency].repeat(6)].concat());
        assert_eq!(state.memory.page_bytes, Reading::Known(16_384));
        assert_eq!(state.memory.swap_free_bytes, Reading::Known(1_035_730_944));
        assert_eq!(state.pressure.memory_level, Reading::Known("normal".to_owned()));
        assert_eq!(state.power.source, Reading::Known(PowerSource::Battery));
        let battery = &state.power.batteries.get().unwrap()[0];
        assert_eq!((battery.name.as_str(), battery.charge_percent.get()), ("InternalBattery-0", Some(&95)));
        assert_eq!(battery.status, Reading::Known("discharging".to_owned()));
        assert_eq!(state.power.low_power_mode, Reading::Known(true));
        assert_eq!(state.thermal.speed_limit_percent, Reading::Known(80));
        assert_eq!(
            state.virtualization.hypervisor.reason(),
            Some("sysctl -n kern.hv_vmm_present: no such program"),
            "this made-up one has no such value"
        );
        let never = "macOS does not tell it, or duan does not read it there";
        assert_eq!(state.limits.affinity.reason(), Some(never));
        assert_eq!(state.virtualization.container.reason(), Some(never));
    }

    #[test]
    fn a_mac_of_one_kind_of_cores_and_nonsense() {
        let tree = Tree::new("macos").prints("sysctl -n hw.physicalcpu", "4\n");
        assert_eq!(cores(&tree).unwrap().len(), 4);
        let tree = Tree::new("macos").prints("sysctl -n hw.physicalcpu", "18446744073709551615\n");
        assert_eq!(cores(&tree).unwrap().len(), CORES_LIMIT);
        let tree = Tree::new("macos").prints("sysctl -n hw.physicalcpu", "-4\n");
        assert_eq!(cores(&tree).unwrap_err().to_string(), "sysctl hw.physicalcpu: \"-4\" is no number");
        assert!(batteries("Now drawing from 'AC Power'\n - \n -B\n -B 200\n -B (id)\t200%; x\n").len() == 1);
        for wrong in ["", "total = 1e400M", "total = -1.0M", "total = xM", "total"] {
            let tree = Tree::new("macos").prints("sysctl -n vm.swapusage", wrong);
            assert!(swap_bytes(&tree, "total").is_err(), "{wrong:?}");
        }
    }
}
