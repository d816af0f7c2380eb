//! A snapshot of a machine.

use serde::{Deserialize, Serialize};

use crate::chip::Chip;
use crate::frequency::Frequency;
use crate::limits::Limits;
use crate::macos;
use crate::memory_state::Memory;
use crate::power::Power;
use crate::pressure::Pressure;
use crate::processor::Processor;
use crate::reading::Reading;
use crate::source::{Nothing, Source, Unreadable, line, one_line, quoted};
use crate::thermal::Thermal;
use crate::virtualization::Virtualization;

/// The machine and what this process may use of it, when it was read. What could not be read says why.
///
/// What a report of an older version lacks reads back as not recorded.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct State {
    /// The operating system.
    pub os: OperatingSystem,
    /// The processor, its cores and caches.
    pub processor: Processor,
    /// How fast the cores may run.
    pub frequency: Frequency,
    /// What this process may use of the processor.
    pub limits: Limits,
    /// The memory.
    pub memory: Memory,
    /// Where the power comes from.
    pub power: Power,
    /// How hot the machine is.
    pub thermal: Thermal,
    /// How long work waited.
    pub pressure: Pressure,
    /// Hypervisor and container.
    pub virtualization: Virtualization,
}

/// The operating system.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct OperatingSystem {
    /// Its kind, as Rust names it: `linux`, `android`, `macos`, `windows`.
    pub family: String,
    /// Its name and version.
    pub name: Reading<String>,
    /// The release of its kernel.
    pub kernel: Reading<String>,
    /// How the kernel was built.
    pub kernel_build: Reading<String>,
    /// What programs for it are made of: `x86_64`, `aarch64`, `arm64`, ...
    pub architecture: Reading<String>,
}

impl State {
    /// Reads all of it. Takes a millisecond on a small machine, more where there are many CPUs or commands must be run.
    pub fn read(source: &dyn Source) -> Self {
        let nothing = |reason: &str| Self::read_files(&Nothing { os: source.os(), reason });
        match source.os() {
            "linux" | "android" => Self::read_files(source),
            "macos" => macos::read(source, nothing("macOS does not tell it, or duan does not read it there")),
            other => nothing(&format!("duan does not read it on {other}")),
        }
    }

    /// Reads it from the files of a Linux kernel.
    fn read_files(source: &dyn Source) -> Self {
        let limits = Limits::read(source);
        let affinity = limits.affinity.get().cloned().unwrap_or_default();
        Self {
            os: OperatingSystem::read(source),
            processor: Processor::read(source, &affinity),
            frequency: Frequency::read(source),
            limits,
            memory: Memory::read(source),
            power: Power::read(source),
            thermal: Thermal::read(source),
            pressure: Pressure::read(source),
            virtualization: Virtualization::read(source),
        }
    }

    /// What identifies the chip, so that measurements of equal ones are found.
    pub fn chip(&self) -> Chip {
        Chip::of(self)
    }
}

impl OperatingSystem {
    fn read(source: &dyn Source) -> Self {
        Self {
            family: source.os().to_owned(),
            name: name(source).into(),
            kernel: line(source, "proc/sys/kernel/osrelease").into(),
            kernel_build: line(source, "proc/sys/kernel/version").into(),
            architecture: architecture(source).into(),
        }
    }
}

fn name(source: &dyn Source) -> Result<String, Unreadable> {
    if source.os() == "android" {
        let release = source.run("getprop", &["ro.build.version.release"])?;
        let release = one_line(&release).ok_or_else(|| Unreadable::because("getprop says nothing of the release"))?;
        return Ok(format!("Android {release}"));
    }
    const PATH: &str = "etc/os-release";
    let text = match source.read(PATH) {
        Err(error) if error.is_absent() => source.read("usr/lib/os-release").map_err(|_| error)?,
        result => result?,
    };
    let name = text.lines().find_map(|line| line.strip_prefix("PRETTY_NAME="));
    let name = name.and_then(|name| one_line(name.trim().trim_matches(['"', '\''])));
    name.ok_or_else(|| Unreadable::unexpected(PATH, "names no system"))
}

/// What the kernel's programs are made of: a file since 6.1, a command before.
fn architecture(source: &dyn Source) -> Result<String, Unreadable> {
    let file = match line(source, "proc/sys/kernel/arch") {
        Err(error) if error.is_absent() => error,
        result => return result,
    };
    let text = source.run("uname", &["-m"]).map_err(|_| file)?;
    one_line(&text).ok_or_else(|| Unreadable::because(format!("uname -m says {}", quoted(&text))))
}

#[cfg(test)]
#[path = "state_tests.rs"]
mod tests;
