//! How long work waited for processor, memory and disk, and how many wanted the processor.
//!
//! Sources: the kernel's documents `accounting/psi.rst`, `filesystems/proc.rst`.

use serde::{Deserialize, Serialize};

use crate::reading::Reading;
use crate::source::{Source, Unreadable, quoted};

/// How long work waited.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct Pressure {
    /// For a processor.
    pub cpu: Reading<Stall>,
    /// For memory.
    pub memory: Reading<Stall>,
    /// For a disk.
    pub io: Reading<Stall>,
    /// What macOS says of its memory: `normal`, `warn`, `critical`.
    pub memory_level: Reading<String>,
    /// How many programs wanted a processor in the last minute, on average.
    pub load_average: Reading<f64>,
}

/// How long work waited for one thing.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct Stall {
    /// Some work waited.
    pub some: StallShares,
    /// All work waited at the same time.
    pub full: Reading<StallShares>,
}

/// Shares of the time that was waited.
#[derive(Debug, Clone, Copy, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct StallShares {
    /// Of the last 10 s.
    pub last_10_s_percent: f64,
    /// Of the last minute.
    pub last_60_s_percent: f64,
    /// Of the last 5 minutes.
    pub last_300_s_percent: f64,
    /// Waited since the start of the system.
    pub total_us: u64,
}

impl Pressure {
    pub(crate) fn read(source: &dyn Source) -> Self {
        Self {
            cpu: stall(source, "cpu").into(),
            memory: stall(source, "memory").into(),
            io: stall(source, "io").into(),
            memory_level: Reading::from(Err(Unreadable::because("only macOS has such levels"))),
            load_average: load_average(source).into(),
        }
    }
}

fn stall(source: &dyn Source, of: &str) -> Result<Stall, Unreadable> {
    let path = format!("proc/pressure/{of}");
    let text = source.read(&path)?;
    // Kernels before 5.13 have no line of all work for the processor.
    Ok(Stall { some: shares(&path, &text, "some")?, full: shares(&path, &text, "full").into() })
}

/// Reads `some avg10=0.00 avg60=0.00 avg300=0.00 total=0`.
fn shares(path: &str, text: &str, name: &str) -> Result<StallShares, Unreadable> {
    let line = text.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(' '));
    let line = line.ok_or_else(|| Unreadable::unexpected(path, format!("has no line {name:?}")))?;
    let value = |key: &str| line.split(' ').find_map(|field| field.strip_prefix(key)?.strip_prefix('='));
    let percent = |key: &str| value(key)?.parse().ok().filter(|percent| (0.0..=100.0).contains(percent));
    let read = || {
        Some(StallShares {
            last_10_s_percent: percent("avg10")?,
            last_60_s_percent: percent("avg60")?,
            last_300_s_percent: percent("avg300")?,
            total_us: value("total")?.parse().ok()?,
        })
    };
    read().ok_or_else(|| Unreadable::unexpected(path, format!("{} is no such line", quoted(line))))
}

/// How many programs wanted a processor in the last minute, on average.
///
/// # Errors
/// Where the system does not say.
pub fn load_average(source: &dyn Source) -> Result<f64, Unreadable> {
    const PATH: &str = "proc/loadavg";
    let text = source.read(PATH)?;
    let first = text.split_whitespace().next().unwrap_or_default();
    let load = first.parse().ok().filter(|load: &f64| load.is_finite() && *load >= 0.0);
    load.ok_or_else(|| Unreadable::unexpected(PATH, format!("{} is no load", quoted(first))))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::made_up::Tree;

    #[test]
    fn lines_of_pressure() {
        let with = |text: &str| stall(&Tree::new("linux").file("proc/pressure/cpu", text), "cpu");
        let old = with("some avg10=4.03 avg60=2.48 avg300=2.86 total=38468793628\n").unwrap();
        let some = StallShares {
            last_10_s_percent: 4.03,
            last_60_s_percent: 2.48,
            last_300_s_percent: 2.86,
            total_us: 38_468_793_628,
        };
        assert_eq!(old.some, some);
        assert_eq!(old.full.reason(), Some("/proc/pressure/cpu: has no line \"full\""));
        for wrong in [
            "",
            "some\n",
            "some avg10=x avg60=1 avg300=1 total=1\n",
            "some avg10=-1 avg60=1 avg300=1 total=1\n",
            "some avg10=101 avg60=1 avg300=1 total=1\n",
            "some avg10=nan avg60=1 avg300=1 total=1\n",
            "some avg10=1 avg60=1 avg300=1 total=-1\n",
            "some avg10=1 avg60=1 avg300=1\n",
        ] {
            assert!(with(wrong).unwrap_err().to_string().starts_with("/proc/pressure/cpu: "), "{wrong:?}");
        }
    }

    #[test]
    fn the_load_is_the_first_number() {
        let with = |text: &str| load_average(&Tree::new("linux").file("proc/loadavg", text));
        assert_eq!(with("1.25 0.65 1.80 2/97 4130\n"), Ok(1.25));
        for text in ["", "x", "nan 1 1", "-1 0 0", "inf"] {
            assert!(with(text).is_err(), "{text:?}");
        }
        assert_eq!(load_average(&Tree::new("linux")).unwrap_err().to_string(), "/proc/loadavg: no such file");
    }
}
