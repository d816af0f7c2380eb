//! What stands in a device's way, as its state shows it.

use duan_system::{CoreClass, FrequencyPolicy, PowerSource, State};
use serde::Serialize;

use super::{Forecast, Known};

/// Time that the host took, from here on.
const MOST_STEAL: f64 = 0.02;
/// Periods of the quota in which the process had to wait, from here on.
const MOST_THROTTLED: f64 = 0.01;
/// Waiting for memory in the last minute, from here on.
const MOST_PRESSURE_PERCENT: f64 = 1.0;
/// Part of the memory that was moved to swap, from here on.
const MOST_SWAPPED: f64 = 0.1;

/// Something that stands in the way, and what says so.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Problem {
    /// What it is.
    #[serde(flatten)]
    pub kind: ProblemKind,
    /// Where it was read.
    pub rests_on: &'static str,
}

/// What stands in the way.
#[derive(Debug, Clone, PartialEq, Serialize)]
#[serde(tag = "problem", rename_all = "snake_case")]
#[non_exhaustive]
pub enum ProblemKind {
    /// Android keeps the process in the background.
    Background,
    /// The control group grants less CPU time than there are cores.
    Quota {
        /// In CPUs.
        granted_cpus: f64,
        /// Cores that could be used.
        cores: usize,
    },
    /// The control group held the process up.
    Throttled {
        /// Part of the periods.
        share: f64,
    },
    /// Little memory: not even a model of one thousand million weights holds a conversation.
    LittleMemory {
        /// What is free.
        available_bytes: u64,
        /// What it takes.
        needed_bytes: u64,
    },
    /// Programs wait for memory.
    MemoryPressure {
        /// Part of the last minute.
        percent: f64,
    },
    /// Part of the memory lies on the disk.
    Swapped {
        /// How much.
        bytes: u64,
    },
    /// The host gives the virtual machine's time to others.
    Steal {
        /// Part of all time.
        share: f64,
    },
    /// The device saves power.
    PowerSaving {
        /// By what.
        setting: String,
    },
    /// Something holds cores below the frequency that they are built for.
    Capped {
        /// The highest that is allowed.
        allowed_khz: u64,
        /// The highest that they are built for.
        built_khz: u64,
    },
    /// It says of itself that it is held back: by heat or a weak supply.
    HeldBack {
        /// What it says.
        by: String,
    },
    /// No kernel of this device multiplies bytes and adds in one instruction.
    SlowInstructions {
        /// The instruction set.
        isa: String,
    },
    /// Small cores are left out, so not all cores count.
    SmallCores {
        /// Cores that are used.
        performance: usize,
        /// Cores that are not.
        efficiency: usize,
    },
    /// It runs from a battery.
    Battery,
    /// It is a virtual machine, whose neighbours nobody sees.
    Virtual {
        /// What runs it.
        hypervisor: String,
    },
}

/// All that are known, the worst first: what makes it stop, what makes it slow, what makes it vary.
pub(super) fn problems(known: &Known<'_>, smallest: Option<&Forecast>) -> Vec<Problem> {
    let state = known.state;
    [
        state.limits.is_background().then_some((ProblemKind::Background, "/proc/self/cpuset")),
        little_memory(known, smallest),
        quota(state),
        throttled(state),
        memory_pressure(state),
        swapped(state),
        steal(state),
        held_back(state),
        power_saving(state),
        capped(state),
        slow_instructions(known.isa),
        small_cores(state),
        battery(state),
        virtual_machine(state),
    ]
    .into_iter()
    .flatten()
    .map(|(kind, rests_on)| Problem { kind, rests_on })
    .collect()
}

type Found = Option<(ProblemKind, &'static str)>;

fn little_memory(known: &Known<'_>, smallest: Option<&Forecast>) -> Found {
    let (smallest, available_bytes) = (smallest?, known.memory_available_bytes?);
    let needed_bytes =
        smallest.weights_bytes + super::BESIDE_BYTES + super::CONVERSATION_TOKENS * smallest.kv_bytes_per_token;
    let kind = ProblemKind::LittleMemory { available_bytes, needed_bytes };
    (smallest.turns_hold == Some(false)).then_some((kind, "/proc/meminfo and the memory limits of the control groups"))
}

fn quota(state: &State) -> Found {
    let granted_cpus = (*state.limits.quota_cpus.get()?)?;
    let cores = state.processor.cores.get()?.len();
    let kind = ProblemKind::Quota { granted_cpus, cores };
    (granted_cpus < cores as f64).then_some((kind, "the CPU quota of the control groups"))
}

fn throttled(state: &State) -> Found {
    let throttling = state.limits.throttling.get()?;
    let share = throttling.throttled_periods as f64 / throttling.periods.max(1) as f64;
    (share >= MOST_THROTTLED).then_some((ProblemKind::Throttled { share }, "cpu.stat of the control groups"))
}

fn memory_pressure(state: &State) -> Found {
    let percent = state.pressure.memory.get()?.some.last_60_s_percent;
    let kind = ProblemKind::MemoryPressure { percent };
    (percent >= MOST_PRESSURE_PERCENT).then_some((kind, "/proc/pressure/memory"))
}

fn swapped(state: &State) -> Found {
    let memory = &state.memory;
    let bytes = memory.swap_total_bytes.get()?.saturating_sub(*memory.swap_free_bytes.get()?);
    let is_much = bytes as f64 >= MOST_SWAPPED * *memory.total_bytes.get()? as f64;
    is_much.then_some((ProblemKind::Swapped { bytes }, "/proc/meminfo"))
}

fn steal(state: &State) -> Found {
    let share = *state.virtualization.steal_share.get()?;
    (share >= MOST_STEAL).then_some((ProblemKind::Steal { share }, "/proc/stat, since the start of the system"))
}

fn held_back(state: &State) -> Found {
    let pi = state.thermal.raspberry_pi.get()?;
    let kind = ProblemKind::HeldBack { by: pi.now.join(", ") };
    (!pi.now.is_empty()).then_some((kind, "vcgencmd get_throttled"))
}

fn power_saving(state: &State) -> Found {
    if state.power.low_power_mode.get() == Some(&true) {
        return Some((ProblemKind::PowerSaving { setting: "low power mode".into() }, "the system's power settings"));
    }
    if let Some(profile) = state.power.profile.get().filter(|profile| is_saving(profile)) {
        let setting = format!("profile {profile}");
        return Some((ProblemKind::PowerSaving { setting }, "the system's power profile"));
    }
    // Where the processor chooses by a preference, `powersave` is the usual governor and goes up to the highest frequency too.
    let is_saving = |policy: &FrequencyPolicy| {
        policy.governor.get().is_some_and(|name| name == "powersave") && !policy.energy_preference.is_known()
    };
    let found = state.frequency.policies.get()?.iter().any(is_saving);
    found.then(|| {
        (ProblemKind::PowerSaving { setting: "governor powersave".into() }, "cpufreq/policy*/scaling_governor")
    })
}

fn is_saving(profile: &str) -> bool {
    ["low-power", "power-saver", "quiet", "cool"].contains(&profile)
}

fn capped(state: &State) -> Found {
    let capped = state.frequency.policies.get()?.iter().filter(|policy| policy.is_capped());
    let both = |policy: &FrequencyPolicy| Some((*policy.allowed_max_khz.get()?, *policy.built_max_khz.get()?));
    // The fastest cores are those that compute.
    let (allowed_khz, built_khz) = capped.filter_map(both).max_by_key(|both| both.1)?;
    Some((ProblemKind::Capped { allowed_khz, built_khz }, "cpufreq/policy*/scaling_max_freq"))
}

fn slow_instructions(isa: &str) -> Found {
    let kind = ProblemKind::SlowInstructions { isa: isa.to_owned() };
    ["scalar", "avx2", "neon"].contains(&isa).then_some((kind, "the instruction sets that were found"))
}

fn small_cores(state: &State) -> Found {
    let cores = state.processor.cores.get()?;
    let performance = cores.iter().filter(|core| core.class == CoreClass::Performance).count();
    let efficiency = cores.len() - performance;
    let kind = ProblemKind::SmallCores { performance, efficiency };
    (efficiency > 0).then_some((kind, "the cores' capacities and frequencies"))
}

fn battery(state: &State) -> Found {
    let is_on_battery = state.power.source.get() == Some(&PowerSource::Battery);
    is_on_battery.then_some((ProblemKind::Battery, "/sys/class/power_supply"))
}

fn virtual_machine(state: &State) -> Found {
    let hypervisor = state.virtualization.hypervisor.get()?.clone()?;
    Some((ProblemKind::Virtual { hypervisor }, "the processor's flags and the names that the machine gives itself"))
}
