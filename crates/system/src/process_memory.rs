//! The memory that this process holds.
//!
//! Source: the kernel's document `filesystems/proc.rst`; there too what is written to `clear_refs`.

use serde::{Deserialize, Serialize};

use crate::memory::kilobytes;
use crate::process::status;
use crate::reading::Reading;
use crate::source::{Source, Unreadable};

const STATUS: &str = "proc/self/status";
const ROLLUP: &str = "proc/self/smaps_rollup";

/// What this process holds, in bytes.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct ProcessMemory {
    /// The most that was ever resident, mapped files included (`VmHWM`).
    pub peak_resident_bytes: Reading<u64>,
    /// What is resident, where a page that several processes have counts in part (`Pss`).
    pub proportional_bytes: Reading<u64>,
    /// Of it, pages without a file behind them.
    pub proportional_anonymous_bytes: Reading<u64>,
    /// Of it, pages of files, which can leave the memory without being written.
    pub proportional_file_bytes: Reading<u64>,
    /// What lies in the swap.
    pub swapped_bytes: Reading<u64>,
}

impl ProcessMemory {
    /// Reads it. The kernel goes through all pages for it: some milliseconds for a large model.
    pub fn read(source: &dyn Source) -> Self {
        let (status, rollup) = (source.read(STATUS), source.read(ROLLUP));
        let of = |path, text: &Result<String, Unreadable>, key| {
            let text = text.as_ref().map_err(Clone::clone);
            Reading::from(text.and_then(|text| kilobytes(path, self::status(path, text, key)?)))
        };
        Self {
            peak_resident_bytes: of(STATUS, &status, "VmHWM"),
            proportional_bytes: of(ROLLUP, &rollup, "Pss"),
            proportional_anonymous_bytes: of(ROLLUP, &rollup, "Pss_Anon"),
            proportional_file_bytes: of(ROLLUP, &rollup, "Pss_File"),
            swapped_bytes: of(ROLLUP, &rollup, "SwapPss"),
        }
    }

    /// What is resident now (`VmRSS`), quickly; `None` where it is not known.
    pub fn resident_bytes(source: &dyn Source) -> Option<u64> {
        let text = source.read(STATUS).ok()?;
        kilobytes(STATUS, status(STATUS, &text, "VmRSS").ok()?).ok()
    }
}

/// Has the system count the most that this process ever held ([`ProcessMemory::peak_resident_bytes`]) from now on.
///
/// # Errors
/// Where it cannot: it is no Linux, or writing there is not allowed.
pub fn reset_peak_resident() -> std::io::Result<()> {
    std::fs::write("/proc/self/clear_refs", "5")
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::made_up::Tree;

    #[test]
    fn numbers_come_from_their_lines() {
        let tree = Tree::new("linux")
            .file("proc/self/status", "Name:\tduan\nVmHWM:\t  2048 kB\nVmRSS:\t  1024 kB\n")
            .file(
                "proc/self/smaps_rollup",
                "0-f ---p 00000000 00:00 0 [rollup]\nRss: 9 kB\nPss: 700 kB\nPss_Anon: 300 kB\nPss_File: 400 kB\nSwapPss: 1 kB\n",
            );
        let memory = ProcessMemory::read(&tree);
        let kb = |count: u64| Reading::Known(count * 1024);
        assert_eq!(memory.peak_resident_bytes, kb(2048));
        assert_eq!((memory.proportional_bytes, memory.proportional_anonymous_bytes), (kb(700), kb(300)));
        assert_eq!((memory.proportional_file_bytes, memory.swapped_bytes), (kb(400), kb(1)));
        assert_eq!(ProcessMemory::resident_bytes(&tree), Some(1024 * 1024));
    }

    #[test]
    fn what_is_not_there_says_so() {
        let memory = ProcessMemory::read(&Tree::new("linux").file("proc/self/status", "VmHWM: many kB\n"));
        assert!(memory.peak_resident_bytes.reason().is_some_and(|reason| reason.contains("is no number")));
        assert_eq!(memory.proportional_bytes.reason(), Some("/proc/self/smaps_rollup: no such file"));
        assert_eq!(ProcessMemory::resident_bytes(&Tree::new("linux")), None);
    }

    #[cfg(target_os = "linux")]
    #[test]
    fn a_peak_begins_anew() {
        let here = crate::Local::here();
        let peak = || *ProcessMemory::read(&here).peak_resident_bytes.get().unwrap();
        let many = vec![1u8; 64 << 20];
        let before = peak();
        assert!(std::hint::black_box(&many).len() == 64 << 20 && before >= 64 << 20);
        drop(many);
        // Some sandboxes do not let it be written.
        if reset_peak_resident().is_ok() {
            assert!(peak() < before, "{before}");
        }
    }
}
