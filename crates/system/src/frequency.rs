//! How fast the cores may run, and who decides it.
//!
//! Sources: the kernel's documents `admin-guide/pm/cpufreq.rst`, `admin-guide/pm/intel_pstate.rst`, `ABI/testing/sysfs-devices-system-cpu`.

use serde::{Deserialize, Serialize};

use crate::reading::Reading;
use crate::source::{Source, Unreadable, line, number, quoted};

const FOLDER: &str = "sys/devices/system/cpu/cpufreq";

/// How fast the cores may run.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct Frequency {
    /// Groups of CPUs that change their frequency together.
    pub policies: Reading<Vec<FrequencyPolicy>>,
    /// Whether cores may go above their nominal frequency.
    pub boost: Reading<bool>,
}

/// CPUs that change their frequency together.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct FrequencyPolicy {
    /// The CPUs that are online, ascending.
    pub cpus: Reading<Vec<usize>>,
    /// What sets the frequency: `intel_pstate`, `acpi-cpufreq`, ...
    pub driver: Reading<String>,
    /// By which rule: `performance`, `powersave`, `schedutil`, ...
    pub governor: Reading<String>,
    /// What the processor is told to prefer, where it decides itself: `balance_performance`, ...
    pub energy_preference: Reading<String>,
    /// The lowest frequency it is built for.
    pub built_min_khz: Reading<u64>,
    /// The highest frequency it is built for.
    pub built_max_khz: Reading<u64>,
    /// The lowest frequency now allowed.
    pub allowed_min_khz: Reading<u64>,
    /// The highest frequency now allowed; below [`FrequencyPolicy::built_max_khz`] somebody holds it back: heat, power or a setting.
    pub allowed_max_khz: Reading<u64>,
    /// The frequency when it was read.
    pub current_khz: Reading<u64>,
}

impl FrequencyPolicy {
    /// Whether it is known to be held below what it is built for.
    pub fn is_capped(&self) -> bool {
        matches!((self.allowed_max_khz.get(), self.built_max_khz.get()), (Some(allowed), Some(built)) if allowed < built)
    }
}

impl Frequency {
    pub(crate) fn read(source: &dyn Source) -> Self {
        let policies = policies(source).map(|names| names.iter().map(|name| policy(source, name)).collect());
        Self { policies: policies.into(), boost: boost(source).into() }
    }
}

/// The folders of all policies, by number.
pub(crate) fn policies(source: &dyn Source) -> Result<Vec<String>, Unreadable> {
    let folders = numbered(source, FOLDER, "policy")?;
    if folders.is_empty() {
        return Err(Unreadable::unexpected(FOLDER, "has no policies: the system does not manage frequencies"));
    }
    Ok(folders)
}

/// The folders in `folder` that are called `prefix` and a number, by that number.
pub(crate) fn numbered(source: &dyn Source, folder: &str, prefix: &str) -> Result<Vec<String>, Unreadable> {
    let names = source.list(folder)?;
    let number = |name: &String| name.strip_prefix(prefix)?.parse::<u32>().ok();
    let mut found: Vec<(u32, String)> = names.into_iter().filter_map(|name| Some((number(&name)?, name))).collect();
    found.sort_unstable();
    Ok(found.into_iter().map(|(_, name)| format!("{folder}/{name}")).collect())
}

fn policy(source: &dyn Source, folder: &str) -> FrequencyPolicy {
    let path = |name: &str| format!("{folder}/{name}");
    let khz = |name: &str| Reading::from(frequency_khz(source, &path(name)));
    FrequencyPolicy {
        cpus: policy_cpus(source, folder).into(),
        driver: line(source, &path("scaling_driver")).into(),
        governor: line(source, &path("scaling_governor")).into(),
        energy_preference: line(source, &path("energy_performance_preference")).into(),
        built_min_khz: khz("cpuinfo_min_freq"),
        built_max_khz: khz("cpuinfo_max_freq"),
        allowed_min_khz: khz("scaling_min_freq"),
        allowed_max_khz: khz("scaling_max_freq"),
        current_khz: khz("scaling_cur_freq"),
    }
}

/// The CPUs of a policy, which the kernel writes with blanks between them.
pub(crate) fn policy_cpus(source: &dyn Source, folder: &str) -> Result<Vec<usize>, Unreadable> {
    let path = format!("{folder}/affected_cpus");
    let text = source.read(&path)?;
    let cpus: Option<Vec<usize>> = text.split_whitespace().map(|cpu| cpu.parse().ok()).collect();
    cpus.ok_or_else(|| Unreadable::unexpected(&path, format!("{} is no list of CPUs", quoted(text.trim()))))
}

/// A frequency in kHz; some drivers say 0 where they do not know it.
pub(crate) fn frequency_khz(source: &dyn Source, path: &str) -> Result<u64, Unreadable> {
    match number(source, path)? {
        0 => Err(Unreadable::unexpected(path, "says 0, which is no frequency")),
        khz => Ok(khz),
    }
}

fn boost(source: &dyn Source) -> Result<bool, Unreadable> {
    let switch = |path: &str, on: &str, off: &str| {
        let text = line(source, path)?;
        let is_on = (text == on).then_some(true).or((text == off).then_some(false));
        is_on.ok_or_else(|| Unreadable::unexpected(path, format!("{} is neither 0 nor 1", quoted(&text))))
    };
    match switch("sys/devices/system/cpu/intel_pstate/no_turbo", "0", "1") {
        Err(error) if error.is_absent() => switch(&format!("{FOLDER}/boost"), "1", "0"),
        result => result,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::made_up::Tree;

    #[test]
    fn policies_come_by_number_and_say_who_is_capped() {
        let file = |tree: Tree, policy: usize, name: &str, text: &str| {
            tree.file(&format!("sys/devices/system/cpu/cpufreq/policy{policy}/{name}"), text)
        };
        let mut tree = Tree::new("linux").file("sys/devices/system/cpu/cpufreq/boost", "1\n");
        for (policy, cpus) in [(10, "10 11\n"), (2, "2\n")] {
            tree = file(tree, policy, "affected_cpus", cpus);
            tree = file(tree, policy, "cpuinfo_max_freq", "3000000\n");
        }
        tree = file(tree, 2, "scaling_max_freq", "2000000\n");
        tree = file(tree, 10, "scaling_max_freq", "3000000\n");
        tree = file(tree, 10, "scaling_cur_freq", "0\n");
        let frequency = Frequency::read(&tree);
        assert_eq!(frequency.boost, Reading::Known(true));
        let policies = frequency.policies.get().unwrap();
        assert_eq!(
            policies.iter().map(|policy| policy.cpus.clone()).collect::<Vec<_>>(),
            [Reading::Known(vec![2]), Reading::Known(vec![10, 11])]
        );
        assert_eq!((policies[0].is_capped(), policies[1].is_capped()), (true, false));
        let says = "/sys/devices/system/cpu/cpufreq/policy10/scaling_cur_freq: says 0, which is no frequency";
        assert_eq!(policies[1].current_khz.reason(), Some(says));
    }

    #[test]
    fn turbo_is_a_switch_the_other_way_round() {
        let with = |text: &str| boost(&Tree::new("linux").file("sys/devices/system/cpu/intel_pstate/no_turbo", text));
        assert_eq!((with("0\n"), with("1\n")), (Ok(true), Ok(false)));
        let says = "/sys/devices/system/cpu/intel_pstate/no_turbo: \"2\" is neither 0 nor 1";
        assert_eq!(with("2\n").unwrap_err().to_string(), says);
        let says = "/sys/devices/system/cpu/cpufreq/boost: no such file";
        assert_eq!(boost(&Tree::new("linux")).unwrap_err().to_string(), says);
    }
}
