//! The state of the machine in sections, for people.

use duan::state::{
    Battery, Cache, Chip, CoolingDevice, CoreClass, Frequency, FrequencyPolicy, Limits, Memory, OperatingSystem, Power,
    Pressure, Processor, Reading, Stall, State, Thermal, ThermalZone, Throttling, Virtualization, cpu_list,
};

use crate::output::style::on_one_line;
use crate::output::units::{bytes_text, counted, grouped};
use crate::output::{Align, Table};

/// Names stand in a column as wide in all sections.
const NAME_COLUMNS: usize = 20;

/// Names and values of a section.
type Rows = Vec<(&'static str, String)>;

/// All sections.
pub(super) fn text(state: &State) -> String {
    let sections: [(&str, Rows); 8] = [
        ("SYSTEM", system(&state.os, &state.virtualization)),
        ("CORES", cores(&state.processor, &state.chip())),
        ("FREQUENCY", frequency(&state.frequency)),
        ("LIMITS", limits(&state.limits)),
        ("MEMORY", memory(&state.memory)),
        ("POWER", power(&state.power)),
        ("HEAT", heat(&state.thermal)),
        ("LOAD", load(&state.pressure, &state.virtualization)),
    ];
    sections.iter().map(|(name, rows)| format!("\n{}", section(name, rows))).collect()
}

fn section(name: &str, rows: &Rows) -> String {
    let mut table = Table::new(&[(&format!("{name:<NAME_COLUMNS$}"), Align::Left), ("", Align::Left)]);
    for (name, value) in rows {
        table.row([(*name).to_owned(), on_one_line(value)]);
    }
    table.text()
}

/// What was read, or why it was not.
fn shown<T>(reading: &Reading<T>, of: impl FnOnce(&T) -> String) -> String {
    match reading {
        Reading::Known(value) => of(value),
        Reading::NotReadable(reason) => format!("not readable: {reason}"),
    }
}

fn word<T: ToString>(reading: &Reading<T>) -> String {
    shown(reading, ToString::to_string)
}

fn system(os: &OperatingSystem, virtualization: &Virtualization) -> Rows {
    let named = |name: &Option<String>| name.clone().unwrap_or_else(|| "none found".to_owned());
    let kernel = match os.kernel_build.get() {
        Some(build) => format!("{}, {build}", word(&os.kernel)),
        None => word(&os.kernel),
    };
    let hypervisor = |name: &Option<String>| match name.as_deref() {
        Some("unknown") => "one that does not say its name".to_owned(),
        _ => named(name),
    };
    vec![
        ("name", word(&os.name)),
        ("kernel", kernel),
        ("architecture", word(&os.architecture)),
        ("hypervisor", shown(&virtualization.hypervisor, hypervisor)),
        ("container", shown(&virtualization.container, named)),
    ]
}

fn cores(processor: &Processor, chip: &Chip) -> Rows {
    let mut rows = Vec::new();
    match (&chip.cores, &processor.cores) {
        (Reading::Known(kinds), Reading::Known(cores)) => {
            let is_mixed = kinds.iter().any(|kind| kind.class == CoreClass::Efficiency);
            for kind in kinds {
                let is_same = |core: &&duan::state::CoreState| {
                    (core.class, core.capacity.get(), core.max_khz.get())
                        == (kind.class, kind.capacity.as_ref(), kind.max_khz.as_ref())
                };
                let mut cpus: Vec<usize> = cores.iter().filter(is_same).flat_map(|core| core.cpus.clone()).collect();
                cpus.sort_unstable();
                let name = match kind.class {
                    CoreClass::Efficiency => "efficiency cores",
                    CoreClass::Performance if is_mixed => "performance cores",
                    CoreClass::Performance => "cores",
                };
                let mut text = kind.count.to_string();
                if !cpus.is_empty() {
                    text += &format!(": CPUs {}", cpu_list(&cpus));
                }
                if let Some(khz) = kind.max_khz {
                    text += &format!(", up to {}", ghz(khz));
                }
                if let Some(capacity) = kind.capacity.filter(|_| kinds.len() > 1) {
                    text += &format!(", capacity {capacity} of 1024");
                }
                rows.push((name, text));
            }
        }
        (_, cores) => rows.push(("cores", shown(cores, |cores| cores.len().to_string()))),
    }
    rows.push(("microcode", word(&processor.microcode)));
    match &processor.caches {
        Reading::Known(caches) => rows.extend(caches.iter().map(cache)),
        Reading::NotReadable(reason) => rows.push(("caches", format!("not readable: {reason}"))),
    }
    rows
}

fn cache(cache: &Cache) -> (&'static str, String) {
    let name = match (cache.level, cache.kind.as_str()) {
        (1, "data") => "L1 data cache",
        (1, "instruction") => "L1 code cache",
        (1, _) => "L1 cache",
        (2, _) => "L2 cache",
        (3, _) => "L3 cache",
        _ => "cache",
    };
    let size = match cache.bytes {
        bytes if bytes.is_multiple_of(1 << 20) => format!("{} MiB", bytes >> 20),
        bytes => format!("{} KiB", bytes >> 10),
    };
    let shared = if cache.shared_by == 1 { "for each CPU".to_owned() } else { format!("for {} CPUs", cache.shared_by) };
    (name, format!("{} of {size}, {shared}", cache.count))
}

fn frequency(frequency: &Frequency) -> Rows {
    let mut rows = Vec::new();
    match &frequency.policies {
        Reading::NotReadable(reason) => rows.push(("frequencies", format!("not readable: {reason}"))),
        Reading::Known(policies) => {
            let mut rest = policies.as_slice();
            // Policies of neighbours are mostly the same but for the present frequency.
            while let Some(first) = rest.first() {
                let count = rest.iter().take_while(|policy| settings(policy) == settings(first)).count();
                let (same, others) = rest.split_at(count);
                rows.extend(policy_rows(same));
                rest = others;
            }
        }
    }
    rows.push(("boost", shown(&frequency.boost, |&on| on_or_off(on))));
    rows
}

fn settings(policy: &FrequencyPolicy) -> impl PartialEq + use<> {
    let policy = policy.clone();
    (
        (policy.driver.get().cloned(), policy.governor.get().cloned(), policy.energy_preference.get().cloned()),
        (policy.built_max_khz.get().copied(), policy.allowed_max_khz.get().copied()),
    )
}

/// What policies of the same settings say.
fn policy_rows(same: &[FrequencyPolicy]) -> Rows {
    let Some(first) = same.first() else { return Vec::new() };
    let mut cpus: Vec<usize> = same.iter().filter_map(|policy| policy.cpus.get()).flatten().copied().collect();
    cpus.sort_unstable();
    let now: Vec<u64> = same.iter().filter_map(|policy| policy.current_khz.get().copied()).collect();
    let now = match (now.iter().min(), now.iter().max()) {
        (Some(least), Some(most)) if least < most => format!("{} to {}", ghz(*least), ghz(*most)),
        (Some(least), _) => ghz(*least),
        _ => word(&first.current_khz),
    };
    let capped = if first.is_capped() { " (held back)" } else { "" };
    let limits = match (first.allowed_max_khz.get(), first.built_max_khz.get()) {
        (Some(&allowed), Some(&built)) => format!("{} of {}{capped}", ghz(allowed), ghz(built)),
        _ => shown(&first.allowed_max_khz, |&khz| ghz(khz)),
    };
    let mut governor = word(&first.governor);
    if let Some(driver) = first.driver.get() {
        governor += &format!(" by {driver}");
    }
    let mut rows = vec![
        ("CPUs", if cpus.is_empty() { word(&first.cpus.as_ref().map(|cpus| cpu_list(cpus))) } else { cpu_list(&cpus) }),
        ("  governor", governor),
        ("  allowed", limits),
        ("  now", now),
    ];
    if first.energy_preference.is_known() {
        rows.push(("  preference", word(&first.energy_preference)));
    }
    rows
}

fn limits(limits: &Limits) -> Rows {
    let quota = |quota: &Option<f64>| match quota {
        Some(cpus) => format!("the time of {} {}", hundredths(*cpus), if *cpus == 1.0 { "CPU" } else { "CPUs" }),
        None => "no limit".to_owned(),
    };
    let throttling = |throttling: &Throttling| {
        format!(
            "{} of {}, {} s in all",
            grouped(throttling.throttled_periods),
            counted(throttling.periods as usize, "period"),
            hundredths(throttling.throttled_us as f64 / 1e6)
        )
    };
    let priority = limits.nice.get().map_or_else(|| word(&limits.nice), |nice| format!("nice {nice}"));
    let class = limits.scheduling.get().map_or_else(String::new, |class| format!(", class {class}"));
    let mut rows = vec![
        ("affinity", shown(&limits.affinity, |cpus| format!("CPUs {}", cpu_list(cpus)))),
        ("cpuset", shown(&limits.cpuset, |cpus| format!("CPUs {}", cpu_list(cpus)))),
        ("cgroup quota", shown(&limits.quota_cpus, quota)),
        ("held up by quota", shown(&limits.throttling, throttling)),
        ("priority", priority + &class),
    ];
    if let Some(group) = limits.android_group.get() {
        let cpus = limits.android_cpus.get().map_or_else(String::new, |cpus| format!(", CPUs {}", cpu_list(cpus)));
        rows.push(("Android's group", format!("{group}{cpus}")));
    }
    rows
}

fn memory(memory: &Memory) -> Rows {
    let bytes = |reading: &Reading<u64>| shown(reading, |&bytes| bytes_text(bytes));
    let limit = |reading: &Reading<Option<u64>>| {
        shown(reading, |limit| limit.map_or_else(|| "no limit".to_owned(), bytes_text))
    };
    let swap = match (memory.swap_total_bytes.get(), memory.swap_free_bytes.get()) {
        (Some(0), _) => "none".to_owned(),
        (Some(&total), Some(&free)) => format!("{} free of {}", bytes_text(free), bytes_text(total)),
        _ => bytes(&memory.swap_total_bytes),
    };
    let size = memory.large_page_bytes.get().map_or_else(String::new, |bytes| format!(" ({} KiB)", bytes >> 10));
    let mut rows = vec![
        ("in all", bytes(&memory.total_bytes)),
        ("available", bytes(&memory.available_bytes)),
        ("usable here", bytes(&memory.usable_bytes)),
        ("cgroup limit", limit(&memory.limit_bytes)),
        ("swap", swap),
        ("page", shown(&memory.page_bytes, |bytes| format!("{} KiB", bytes >> 10))),
        ("large pages", word(&memory.large_pages) + &size),
    ];
    if let Some(Some(high)) = memory.high_bytes.get() {
        rows.insert(4, ("slowed down from", bytes_text(*high)));
    }
    rows
}

fn power(power: &Power) -> Rows {
    let mut rows = vec![("source", shown(&power.source, |source| source.name().to_owned()))];
    rows.extend(power.batteries.get().into_iter().flatten().map(|one| ("battery", battery(one))));
    rows.push(("profile", word(&power.profile)));
    if let Some(&on) = power.low_power_mode.get() {
        rows.push(("low power mode", on_or_off(on)));
    }
    rows
}

fn battery(battery: &Battery) -> String {
    let mut said = vec![format!("{} {}", battery.name, word(&battery.status))];
    said.extend(battery.charge_percent.get().map(|percent| format!("{percent} %")));
    let product = |uv: i64, ua: i64| uv as f64 * ua as f64 / 1e12;
    let watts = match (battery.power_uw.get(), battery.voltage_uv.get(), battery.current_ua.get()) {
        (Some(&uw), _, _) => Some(uw as f64 / 1e6),
        (None, Some(&uv), Some(&ua)) => Some(product(uv, ua)),
        _ => None,
    };
    said.extend(watts.map(|watts| format!("{} W", hundredths(watts.abs()))));
    said.extend(battery.millicelsius.get().map(|&millicelsius| degrees(millicelsius)));
    said.join(", ")
}

fn heat(thermal: &Thermal) -> Rows {
    let mut rows = Vec::new();
    match &thermal.zones {
        Reading::Known(zones) if zones.is_empty() => {
            rows.push(("temperatures", "the system lists no zones".to_owned()))
        }
        Reading::Known(zones) => rows.extend(zones.iter().map(|one| ("temperature", zone(one)))),
        Reading::NotReadable(reason) => rows.push(("temperatures", format!("not readable: {reason}"))),
    }
    let sensors = thermal.sensors.get().into_iter().flatten();
    rows.extend(sensors.map(|one| ("sensor", format!("{} {}", one.name, shown(&one.millicelsius, |&m| degrees(m))))));
    match &thermal.cooling {
        Reading::Known(devices) => rows.extend(devices.iter().map(|one| ("cooling", cooling(one)))),
        Reading::NotReadable(reason) => rows.push(("cooling", format!("not readable: {reason}"))),
    }
    let counts = shown(&thermal.throttle_counts, |counts| {
        format!("{} for a core's heat, {} for the package's", grouped(counts.core), grouped(counts.package))
    });
    rows.push(("throttled", counts));
    if let Some(pi) = thermal.raspberry_pi.get() {
        let said = |what: &[String]| if what.is_empty() { "nothing".to_owned() } else { what.join(", ") };
        rows.push(("Raspberry Pi", format!("now {}; since the start {}", said(&pi.now), said(&pi.occurred))));
    }
    if let Some(percent) = thermal.speed_limit_percent.get() {
        rows.push(("speed limit", format!("{percent} %")));
    }
    rows
}

fn zone(zone: &ThermalZone) -> String {
    let mut text = format!("{} {}", zone.kind.get().unwrap_or(&zone.name), shown(&zone.millicelsius, |&m| degrees(m)));
    for trip in zone.trips.iter().filter(|trip| ["passive", "critical"].contains(&trip.kind.as_str())) {
        if let Some(&millicelsius) = trip.millicelsius.get() {
            text += &format!(", {} from {}", trip.kind, degrees(millicelsius));
        }
    }
    text
}

fn cooling(device: &CoolingDevice) -> String {
    let most = device.max_state.get().map_or_else(String::new, |most| format!(" of {most}"));
    format!("{} {}{most}", device.kind.get().unwrap_or(&device.name), word(&device.state))
}

fn load(pressure: &Pressure, virtualization: &Virtualization) -> Rows {
    let stall = |stall: &Stall| {
        format!(
            "{} % of the last 10 s, {} % of the last 5 min",
            stall.some.last_10_s_percent, stall.some.last_300_s_percent
        )
    };
    let mut rows = vec![
        ("load average", word(&pressure.load_average)),
        ("waited for CPU", shown(&pressure.cpu, stall)),
        ("waited for memory", shown(&pressure.memory, stall)),
        ("waited for disk", shown(&pressure.io, stall)),
        (
            "stolen time",
            shown(&virtualization.steal_share, |share| format!("{} % since the start", hundredths(share * 100.0))),
        ),
    ];
    if let Some(level) = pressure.memory_level.get() {
        rows.push(("memory level", level.clone()));
    }
    rows
}

fn ghz(khz: u64) -> String {
    format!("{:.2} GHz", khz as f64 / 1e6)
}

fn degrees(millicelsius: i64) -> String {
    format!("{:.1} °C", millicelsius as f64 / 1000.0)
}

fn on_or_off(on: bool) -> String {
    (if on { "on" } else { "off" }).to_owned()
}

/// A number with as many digits after the point as it has, two at most.
fn hundredths(number: f64) -> String {
    ((number * 100.0).round() / 100.0).to_string()
}

#[cfg(test)]
mod tests {
    use duan::state::made_up;

    use super::*;

    #[test]
    fn sections_of_made_up_machines() {
        let machines: [(&str, made_up::Tree); 5] = [
            ("phone", made_up::phone()),
            ("laptop", made_up::laptop()),
            ("container", made_up::container()),
            ("raspberry_pi", made_up::raspberry_pi()),
            ("virtual_machine", made_up::virtual_machine()),
        ];
        for (name, machine) in machines {
            insta::assert_snapshot!(format!("devices_{name}"), text(&State::read(&machine)));
        }
    }

    #[test]
    fn what_a_file_says_cannot_command_the_terminal() {
        let machine = made_up::laptop().file("sys/firmware/acpi/platform_profile", "\u{1b}[2J\n");
        let text = text(&State::read(&machine));
        assert!(text.contains("\\u{1b}[2J") && !text.contains('\u{1b}'), "{text}");
    }
}
