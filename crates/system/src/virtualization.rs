//! Whether the machine is a virtual one, whether this process is in a container, and how much time others took.
//!
//! Sources: the kernel's documents `filesystems/proc.rst`, `ABI/testing/sysfs-firmware-dmi`, `ABI/stable/sysfs-hypervisor-xen`; SMBIOS
//! names of makers; the marks that container managers leave: `/.dockerenv`, `/run/.containerenv`, `/run/systemd/container`.

use serde::{Deserialize, Serialize};

use crate::reading::Reading;
use crate::source::{Source, Unreadable, line, parse};

/// Whether the machine is a virtual one, and whether this process is in a container.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct Virtualization {
    /// What runs the machine: `KVM`, `VMware`, ..., or `unknown` where only that there is something is known. `None` is no hypervisor.
    pub hypervisor: Reading<Option<String>>,
    /// What runs the container: `docker`, `podman`, `kubernetes`, `lxc`, ... `None` is that no mark of one was found.
    pub container: Reading<Option<String>>,
    /// The share of all CPU time that the hypervisor gave to others, since the start of the system.
    pub steal_share: Reading<f64>,
}

/// Words in the names of maker and product of a virtual machine, and who is meant.
const MAKERS: &[(&str, &str)] = &[
    ("qemu", "QEMU"),
    ("kvm", "KVM"),
    ("vmware", "VMware"),
    ("virtualbox", "VirtualBox"),
    ("innotek", "VirtualBox"),
    ("parallels", "Parallels"),
    ("xen", "Xen"),
    ("bhyve", "bhyve"),
    ("amazon ec2", "Amazon EC2"),
    ("google compute engine", "Google Compute Engine"),
    ("openstack", "OpenStack"),
    ("apple virtualization", "Apple Virtualization"),
    ("microsoft corporation virtual machine", "Hyper-V"),
];

/// Words in the path of a control group, and who made it.
const GROUPS: &[(&str, &str)] = &[
    ("kubepods", "kubernetes"),
    ("docker", "docker"),
    ("libpod", "podman"),
    ("containerd", "containerd"),
    ("/lxc", "lxc"),
    ("machine.slice/systemd-nspawn", "systemd-nspawn"),
];

impl Virtualization {
    pub(crate) fn read(source: &dyn Source) -> Self {
        let steal = CpuTicks::read(source).map(CpuTicks::steal_share);
        Self { hypervisor: hypervisor(source).into(), container: container(source).into(), steal_share: steal.into() }
    }
}

fn hypervisor(source: &dyn Source) -> Result<Option<String>, Unreadable> {
    let release = line(source, "proc/sys/kernel/osrelease").unwrap_or_default().to_lowercase();
    if release.contains("microsoft") {
        return Ok(Some("WSL".to_owned()));
    }
    let maker = ["sys_vendor", "product_name"].map(|name| line(source, &format!("sys/class/dmi/id/{name}")));
    let has_maker = maker.iter().any(Result::is_ok);
    let maker = maker.map(Result::unwrap_or_default).join(" ").to_lowercase();
    if let Some((_, name)) = MAKERS.iter().find(|(word, _)| maker.contains(word)) {
        return Ok(Some((*name).to_owned()));
    }
    for (path, name) in [("sys/hypervisor/type", None), ("proc/device-tree/hypervisor/compatible", Some("device tree"))]
    {
        if let Ok(kind) = line(source, path) {
            return Ok(Some(name.map_or(kind.clone(), |name| format!("{kind} ({name})"))));
        }
    }
    // Processors of Intel's kind say whether a hypervisor is there; others do not.
    let flags = source.read("proc/cpuinfo")?;
    let flags = flags.lines().find(|line| line.starts_with("flags"));
    match flags {
        Some(flags) if flags.split_whitespace().any(|flag| flag == "hypervisor") => Ok(Some("unknown".to_owned())),
        Some(_) => Ok(None),
        None if has_maker => Ok(None),
        None => Err(Unreadable::because("neither the processor nor the firmware says whether there is a hypervisor")),
    }
}

fn container(source: &dyn Source) -> Result<Option<String>, Unreadable> {
    for (path, name) in [(".dockerenv", "docker"), ("run/.containerenv", "podman")] {
        if source.read(path).is_ok() {
            return Ok(Some(name.to_owned()));
        }
    }
    if let Ok(name) = line(source, "run/systemd/container") {
        return Ok(Some(name));
    }
    let groups = source.read("proc/self/cgroup")?;
    let found = GROUPS.iter().find(|(word, _)| groups.contains(word)).map(|(_, name)| (*name).to_owned());
    Ok(found)
}

/// CPU time of the whole machine since its start, in ticks of the kernel (a hundredth of a second nearly everywhere).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct CpuTicks {
    /// Of all kinds; time of guests is in that of users.
    pub(crate) total: u64,
    /// Nothing was to be done, or only the disk was waited for.
    pub(crate) idle: u64,
    /// Something was to be done, and the hypervisor ran others.
    pub(crate) steal: u64,
}

impl CpuTicks {
    /// Reads the first line of `/proc/stat`: user, nice, system, idle, iowait, irq, softirq, steal, and guests, who are in user.
    ///
    /// # Errors
    /// Where the system does not say.
    pub(crate) fn read(source: &dyn Source) -> Result<Self, Unreadable> {
        const PATH: &str = "proc/stat";
        let text = source.read(PATH)?;
        let fields = text.lines().next().and_then(|line| line.strip_prefix("cpu "));
        let fields = fields.ok_or_else(|| Unreadable::unexpected(PATH, "does not begin with all CPUs"))?;
        let ticks: Result<Vec<u64>, Unreadable> =
            fields.split_whitespace().take(8).map(|field| parse(PATH, field)).collect();
        let ticks = ticks?;
        let &[_, _, _, idle, wait, _, _, steal] = &ticks[..] else {
            return Err(Unreadable::unexpected(PATH, "counts fewer kinds of time than expected"));
        };
        let total = ticks.iter().fold(0u64, |sum, ticks| sum.saturating_add(*ticks));
        Ok(Self { total, idle: idle.saturating_add(wait), steal })
    }

    /// From 0 to 1.
    fn steal_share(self) -> f64 {
        self.steal as f64 / self.total.max(1) as f64
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::made_up::Tree;

    #[test]
    fn hypervisors_by_name_or_by_mark() {
        let dmi = |vendor: &str, product: &str| {
            let tree = Tree::new("linux").file("sys/class/dmi/id/sys_vendor", vendor);
            hypervisor(&tree.file("sys/class/dmi/id/product_name", product).file("proc/cpuinfo", "flags\t\t: fpu\n"))
        };
        let known = |name: &str| Ok(Some(name.to_owned()));
        assert_eq!(dmi("QEMU\n", "Standard PC\n"), known("QEMU"));
        assert_eq!(dmi("Microsoft Corporation\n", "Virtual Machine\n"), known("Hyper-V"));
        assert_eq!(dmi("Microsoft Corporation\n", "Surface\n"), Ok(None));
        assert_eq!(dmi("A Maker\n", "A Laptop\n"), Ok(None));
        let flags = |text: &str| hypervisor(&Tree::new("linux").file("proc/cpuinfo", text));
        assert_eq!(flags("flags\t\t: fpu hypervisor sse\n"), known("unknown"));
        assert_eq!(flags("flags\t\t: fpu sse\n"), Ok(None));
        assert!(flags("Features\t: asimd\n").unwrap_err().to_string().starts_with("neither the processor"));
        let wsl = Tree::new("linux").file("proc/sys/kernel/osrelease", "5.15.0-microsoft-standard-WSL2\n");
        assert_eq!(hypervisor(&wsl), known("WSL"));
        let xen = Tree::new("linux").file("sys/hypervisor/type", "xen\n");
        assert_eq!(hypervisor(&xen), known("xen"));
        assert_eq!(hypervisor(&Tree::new("linux")).unwrap_err().to_string(), "/proc/cpuinfo: no such file");
    }

    #[test]
    fn containers_by_their_marks() {
        let known = |name: &str| Ok(Some(name.to_owned()));
        assert_eq!(container(&Tree::new("linux").file(".dockerenv", "")), known("docker"));
        assert_eq!(container(&Tree::new("linux").file("run/.containerenv", "")), known("podman"));
        let group = |text: &str| container(&Tree::new("linux").file("proc/self/cgroup", text));
        assert_eq!(group("0::/kubepods/burstable/pod1/cri-containerd-2\n"), known("kubernetes"));
        assert_eq!(group("0::/user.slice\n"), Ok(None));
        assert_eq!(container(&Tree::new("linux")).unwrap_err().to_string(), "/proc/self/cgroup: no such file");
    }

    #[test]
    fn time_of_guests_is_not_counted_twice() {
        let with = |text: &str| CpuTicks::read(&Tree::new("linux").file("proc/stat", text));
        let ticks = with("cpu  10 20 30 40 5 1 2 12 7 8\ncpu0 1\n").unwrap();
        assert_eq!(ticks, CpuTicks { total: 120, idle: 45, steal: 12 });
        assert_eq!(ticks.steal_share(), 0.1);
        assert_eq!(with("cpu  0 0 0 0 0 0 0 0\n").unwrap().steal_share(), 0.0);
        for wrong in ["", "cpu0 1 2 3 4 5 6 7 8\n", "cpu  1 2 3\n", "cpu  1 2 3 4 5 6 7 -8\n"] {
            assert!(with(wrong).is_err(), "{wrong:?}");
        }
    }
}
