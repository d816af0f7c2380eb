//! What else the machine is doing: a benchmark beside other programs measures them too.

use std::fs::File;
use std::io::Read;
use std::path::Path;

/// More than any line of `/proc/loadavg` has.
const READ_LIMIT_BYTES: u64 = 4096;

/// How many programs wanted a processor in the last minute, on average, or `None` where the system does not say.
///
/// Source: the kernel's document `filesystems/proc.rst`. Everything is read below `root`, which is `/` outside of tests.
pub fn load_average(root: &Path) -> Option<f64> {
    let mut text = String::new();
    File::open(root.join("proc/loadavg")).ok()?.take(READ_LIMIT_BYTES).read_to_string(&mut text).ok()?;
    text.split_whitespace().next()?.parse().ok().filter(|load: &f64| load.is_finite() && *load >= 0.0)
}

/// The time in UTC, as reports write it: `2026-01-31T23:59:59Z`.
pub fn utc_now() -> String {
    jiff::Timestamp::now().strftime("%Y-%m-%dT%H:%M:%SZ").to_string()
}

/// Whether others want processors that `threads` of ours need: the load is above what is left of `processors`. Half a
/// processor is allowed, since some program always does something.
pub fn is_shared(load_average: f64, processors: usize, threads: usize) -> bool {
    load_average > processors.saturating_sub(threads) as f64 + 0.5
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_load_is_the_first_number() {
        let root = tempfile::tempdir().unwrap();
        assert_eq!(load_average(root.path()), None);
        std::fs::create_dir(root.path().join("proc")).unwrap();
        let load = |text: &str| {
            std::fs::write(root.path().join("proc/loadavg"), text).unwrap();
            load_average(root.path())
        };
        assert_eq!(load("1.25 0.65 1.80 2/97 4130\n"), Some(1.25));
        for text in ["", "x", "nan 1 1", "-1 0 0"] {
            assert_eq!(load(text), None, "{text:?}");
        }
    }

    #[test]
    fn times_are_written_to_the_second() {
        let now = utc_now();
        assert_eq!((now.len(), now.parse::<jiff::Timestamp>().unwrap().subsec_nanosecond()), (20, 0), "{now}");
    }

    #[test]
    fn shared_is_what_leaves_too_few_processors() {
        assert!(!is_shared(0.5, 2, 2));
        assert!(is_shared(0.6, 2, 2));
        assert!(!is_shared(6.4, 8, 2));
        assert!(is_shared(6.6, 8, 2));
        assert!(is_shared(1.0, 2, 4), "more threads than processors");
    }
}
