//! What else the machine is doing: a benchmark beside other programs measures them too.

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
