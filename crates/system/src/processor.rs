//! What the processor is: its name, cores and caches.
//!
//! Sources: the kernel's documents `admin-guide/cputopology.rst`, `ABI/testing/sysfs-devices-system-cpu`, `filesystems/proc.rst`.

use std::collections::{BTreeMap, BTreeSet};

use serde::{Deserialize, Serialize};

use crate::frequency::{frequency_khz, numbered};
use crate::reading::Reading;
use crate::source::{Source, Unreadable, line, number, one_line, quoted};
use crate::topology::{Core, CoreClass, Topology, model, online, read_cpu_list};

/// What the processor is.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct Processor {
    /// What it, the chip or the board calls itself.
    pub model: Reading<String>,
    /// Version of its microcode.
    pub microcode: Reading<String>,
    /// The cores that are online, by id.
    pub cores: Reading<Vec<CoreState>>,
    /// Its caches, the nearest first.
    pub caches: Reading<Vec<Cache>>,
}

/// A physical core.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct CoreState {
    /// The lowest number among its CPUs; only counted where the system does not number them.
    pub id: usize,
    /// Its CPUs as the system counts them, ascending: several where hardware threads share the core; none where the system does
    /// not number them.
    pub cpus: Vec<usize>,
    /// Performance or efficiency.
    pub class: CoreClass,
    /// The package (socket) it is in.
    pub package: Reading<u32>,
    /// The work it can do, relative to 1024 for the best core of the machine.
    pub capacity: Reading<u64>,
    /// The highest frequency it is built for.
    pub max_khz: Reading<u64>,
}

/// Caches of one kind and size.
#[derive(Debug, Clone, Default, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(default)]
pub struct Cache {
    /// From 1, the nearest to the core.
    pub level: u32,
    /// `data`, `instruction` or `unified`.
    pub kind: String,
    /// Size of one.
    pub bytes: u64,
    /// How many CPUs share one.
    pub shared_by: usize,
    /// How many of them there are.
    pub count: usize,
}

impl Processor {
    pub(crate) fn read(source: &dyn Source, affinity: &[usize]) -> Self {
        Self {
            model: name(source).into(),
            microcode: microcode(source).into(),
            cores: cores(source, affinity).into(),
            caches: caches(source).into(),
        }
    }
}

/// The processor's name; a phone's may only be known as a property.
fn name(source: &dyn Source) -> Result<String, Unreadable> {
    let found = model(source);
    if found.is_ok() || source.os() != "android" {
        return found;
    }
    let property = |name: &str| one_line(&source.run("getprop", &[name]).ok()?);
    let Some(chip) = property("ro.soc.model") else { return found };
    Ok(property("ro.soc.manufacturer").map_or(chip.clone(), |maker| format!("{maker} {chip}")))
}

fn microcode(source: &dyn Source) -> Result<String, Unreadable> {
    const PATH: &str = "proc/cpuinfo";
    let text = source.read(PATH)?;
    let mut lines = text.lines().filter_map(|line| line.split_once(':'));
    let version = lines.find_map(|(key, value)| if key.trim_end() == "microcode" { one_line(value) } else { None });
    version.ok_or_else(|| Unreadable::unexpected(PATH, "names no microcode"))
}

fn cores(source: &dyn Source, affinity: &[usize]) -> Result<Vec<CoreState>, Unreadable> {
    let topology = Topology::read(source, affinity);
    if topology.cores.is_empty() {
        return online(source).map(|_| Vec::new());
    }
    Ok(topology.cores.into_iter().map(|core| core_state(source, core)).collect())
}

fn core_state(source: &dyn Source, core: Core) -> CoreState {
    let path = |name: &str| format!("sys/devices/system/cpu/cpu{}/{name}", core.id);
    CoreState {
        package: number(source, &path("topology/physical_package_id")).into(),
        capacity: number(source, &path("cpu_capacity")).into(),
        max_khz: frequency_khz(source, &path("cpufreq/cpuinfo_max_freq")).into(),
        id: core.id,
        cpus: core.cpus,
        class: core.class,
    }
}

fn caches(source: &dyn Source) -> Result<Vec<Cache>, Unreadable> {
    // What identifies one cache, by what it is; a cache is seen from each CPU that shares it.
    let mut found: BTreeMap<Cache, BTreeSet<Vec<usize>>> = BTreeMap::new();
    let mut first = None;
    for cpu in online(source)? {
        match numbered(source, &format!("sys/devices/system/cpu/cpu{cpu}/cache"), "index") {
            Ok(folders) => {
                for folder in folders {
                    let (cache, cpus) = cache(source, &folder)?;
                    found.entry(cache).or_default().insert(cpus);
                }
            }
            Err(error) => _ = first.get_or_insert(error),
        }
    }
    match first {
        Some(error) if found.is_empty() => Err(error),
        _ => Ok(found.into_iter().map(|(cache, all)| Cache { count: all.len(), ..cache }).collect()),
    }
}

/// A cache and the CPUs that share it.
fn cache(source: &dyn Source, folder: &str) -> Result<(Cache, Vec<usize>), Unreadable> {
    let path = |name: &str| format!("{folder}/{name}");
    let cpus = read_cpu_list(source, &path("shared_cpu_list"))?;
    let (size_path, size) = (path("size"), line(source, &path("size"))?);
    let bytes =
        size_bytes(&size).ok_or_else(|| Unreadable::unexpected(&size_path, format!("{} is no size", quoted(&size))))?;
    let kind = line(source, &path("type"))?.to_lowercase();
    Ok((Cache { level: number(source, &path("level"))?, kind, bytes, shared_by: cpus.len(), count: 0 }, cpus))
}

/// Bytes of `48K`, `2M` or a plain number.
fn size_bytes(text: &str) -> Option<u64> {
    let (digits, unit) = match text.strip_suffix(['K', 'M', 'G']) {
        Some(digits) => (digits, 1024u64.checked_pow(1 + "KMG".find(&text[digits.len()..])? as u32)?),
        None => (text, 1),
    };
    digits.parse::<u64>().ok()?.checked_mul(unit)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::made_up::Tree;

    #[test]
    fn sizes_of_caches() {
        let sizes = ["48K", "491520K", "2M", "1G", "64", "K", "-1K", "18446744073709551615G", "12é", ""];
        let bytes = sizes.map(size_bytes);
        let expected = [Some(48 << 10), Some(480 << 20), Some(2 << 20), Some(1 << 30), Some(64)];
        assert_eq!(bytes[..5], expected);
        assert_eq!(bytes[5..], [None; 5]);
    }

    #[test]
    fn caches_are_counted_once_however_many_cpus_see_them() {
        let mut tree = Tree::new("linux").file("sys/devices/system/cpu/online", "0-3\n");
        for cpu in 0..4 {
            let pair = if cpu < 2 { "0-1" } else { "2-3" };
            for (index, (level, kind, size, cpus)) in [
                ("1", "Data", "32K", cpu.to_string().as_str()),
                ("2", "Unified", "1M", pair),
                ("3", "Unified", "8M", "0-3"),
            ]
            .into_iter()
            .enumerate()
            {
                let path = |name: &str| format!("sys/devices/system/cpu/cpu{cpu}/cache/index{index}/{name}");
                tree = tree.file(&path("level"), level).file(&path("type"), kind).file(&path("size"), size);
                tree = tree.file(&path("shared_cpu_list"), cpus);
            }
        }
        let counts: Vec<(u32, u64, usize, usize)> = caches(&tree)
            .unwrap()
            .iter()
            .map(|cache| (cache.level, cache.bytes, cache.shared_by, cache.count))
            .collect();
        assert_eq!(counts, [(1, 32 << 10, 1, 4), (2, 1 << 20, 2, 2), (3, 8 << 20, 4, 1)]);
        let odd = tree.file("sys/devices/system/cpu/cpu3/cache/index1/size", "big\n");
        let says = "/sys/devices/system/cpu/cpu3/cache/index1/size: \"big\" is no size";
        assert_eq!(caches(&odd).unwrap_err().to_string(), says);
    }

    #[test]
    fn a_phone_is_named_by_its_properties_where_its_files_name_nothing() {
        let tree = Tree::new("android").file("proc/cpuinfo", "processor\t: 0\nCPU part\t: 0xd05\n");
        let says = "/proc/cpuinfo: names no processor";
        assert_eq!(name(&tree).unwrap_err().to_string(), says);
        let tree = tree.prints("getprop ro.soc.model", "SM0000\n").prints("getprop ro.soc.manufacturer", "Maker\n");
        assert_eq!(name(&tree).as_deref(), Ok("Maker SM0000"));
    }
}
