//! Shares of invented ceilings, and invented files of them.

use duan_system::{Chip, Reading, State};

use super::*;
use crate::machine;

fn read(threads: usize, gb_per_s: f64) -> Bandwidth {
    Bandwidth {
        bytes_per_s: gb_per_s * 1e9,
        bytes: 1 << 30,
        reads: 15,
        threads,
        pages: "large".into(),
        way: "1 stream a thread".into(),
    }
}

fn peak(instruction: &str, formats: &[&str], threads: usize, per_s: f64) -> Peak {
    let formats = formats.iter().map(|name| (*name).to_owned()).collect();
    Peak { isa: "avx2".into(), instruction: instruction.into(), formats, threads, per_s }
}

/// A machine of four cores whose memory two can use up.
fn ceilings() -> Ceilings {
    let peaks = [1, 2, 3, 4].into_iter().flat_map(|threads| {
        let times = threads as f64;
        [
            peak("vfmadd", &["F32", "F16"], threads, times * 100.0),
            peak("vpmaddubsw, 4-bit codes", &["Q4_0", "Q4_K"], threads, times * 400.0),
            peak("vpmaddubsw, 8-bit codes", &["Q8_0"], threads, times * 200.0),
        ]
    });
    let clock =
        |threads: usize, hz: f64| Clock { threads, best_hz: vec![hz; threads], median_hz: vec![hz / 2.0; threads] };
    Ceilings {
        measured_at: machine::utc_now(),
        duan_version: "1.2.3".into(),
        chip: Chip { model: Reading::Known("Some (R) CPU".into()), ..Chip::default() },
        isa: "avx2".into(),
        pinning: "class".into(),
        threads: vec![1, 2, 3, 4],
        read: vec![read(1, 20.0), read(2, 38.5), read(3, 40.0), read(4, 39.0)],
        read_skipped: None,
        multiply_adds: peaks.collect(),
        clock: vec![clock(1, 3e9), clock(4, 2e9)],
        clock_skipped: None,
        barriers: vec![Barrier { threads: 4, median_ns: 900, best_ns: 700 }],
        state: State::default(),
    }
}

#[test]
fn the_knee_is_where_more_threads_bring_nothing() {
    let mut ceilings = ceilings();
    assert_eq!((ceilings.knee(), ceilings.best_read().unwrap().threads), (Some(2), 3));
    ceilings.read.clear();
    assert_eq!(ceilings.knee(), None);
}

#[test]
fn decode_is_limited_by_what_its_threads_read() {
    let at = ceilings().at(1, 4);
    assert_eq!(at.decode_ceiling_ts(1_000_000_000), Some(20.0));
    assert_eq!((at.threads_decode, at.barrier), (1, None));
    assert_eq!(at.clock.unwrap().slowest_hz(), Some(3e9));
    let at = ceilings().at(4, 4);
    assert_eq!(at.barrier.unwrap().median_ns, 900);
    assert_eq!(ceilings().at(9, 9).decode_ceiling_ts(1), None, "nobody measured nine threads");
    let between = ceilings().at(3, 3).clock.unwrap();
    assert_eq!((between.threads, between.slowest_effective_hz()), (4, Some(1e9)));
}

#[test]
fn formats_count_for_as_long_as_they_take() {
    let at = ceilings().at(4, 2);
    let work = |matrices: &[(&str, u64)], attention: u64| MultiplyAdds {
        tokens: 10,
        matrices: matrices.iter().map(|(name, count)| ((*name).to_owned(), *count)).collect(),
        attention,
    };
    // Two threads: 200 a second of floats, 800 of 4-bit codes, 400 of 8-bit codes.
    assert_eq!(at.prefill_ceiling_ts(&work(&[("Q4_0", 800)], 0)), Some(10.0));
    // One second of 4-bit codes, two of 8-bit codes, one of attention.
    assert_eq!(at.prefill_ceiling_ts(&work(&[("Q4_K", 800), ("Q8_0", 800)], 200)), Some(2.5));
    // A format without a kernel is multiplied as floats.
    assert_eq!(at.prefill_ceiling_ts(&work(&[("IQ1_S", 400)], 0)), Some(5.0));
    assert_eq!(at.prefill_ceiling_ts(&work(&[], 0)), None);
    assert_eq!(ceilings().at(4, 9).prefill_ceiling_ts(&work(&[("Q4_0", 800)], 0)), None);
}

#[test]
fn json_reads_back() {
    let ceilings = ceilings();
    let text = serde_json::to_string(&ceilings).unwrap();
    assert_eq!(serde_json::from_str::<Ceilings>(&text).unwrap(), ceilings);
}

mod kept {
    use std::path::Path;

    use super::*;

    /// Asks for two threads of the device that `ceilings()` were measured on.
    fn find(folder: &Path, change: impl FnOnce(&mut Wanted<'_>)) -> Result<Ceilings, Refresh> {
        let Ceilings { chip, state, .. } = ceilings();
        let mut wanted =
            Wanted { duan_version: "1.2.3", chip: &chip, isa: "avx2", pinning: "class", threads: &[2], state: &state };
        change(&mut wanted);
        Kept::new(folder).find(&wanted)
    }

    #[test]
    fn what_holds_is_used_and_what_does_not_says_why() {
        let folder = tempfile::tempdir().unwrap();
        let folder = folder.path().join("not/there/yet");
        assert_eq!(find(&folder, |_| ()), Err(Refresh::Missing));
        let before = ceilings();
        let path = Kept::new(&folder).keep(&before).unwrap();
        assert_eq!(path.file_name().unwrap(), "some-r-cpu.json");
        assert_eq!(find(&folder, |_| ()), Ok(before));
        let version = Refresh::Version { before: "1.2.3".into() };
        assert_eq!(find(&folder, |wanted| wanted.duan_version = "1.2.4"), Err(version));
        assert_eq!(find(&folder, |wanted| wanted.isa = "avx512"), Err(Refresh::Isa { before: "avx2".into() }));
        assert_eq!(find(&folder, |wanted| wanted.pinning = "off"), Err(Refresh::Pinning { before: "class".into() }));
        let lacking = Refresh::Threads { lacking: vec![5, 7] };
        assert_eq!(find(&folder, |wanted| wanted.threads = &[4, 5, 5, 7]), Err(lacking));
    }

    #[test]
    fn another_state_is_named() {
        let folder = tempfile::tempdir().unwrap();
        Kept::new(folder.path()).keep(&ceilings()).unwrap();
        let mut state = ceilings().state;
        state.limits.quota_cpus = Reading::Known(Some(0.5));
        let Ceilings { chip, .. } = ceilings();
        let wanted =
            Wanted { duan_version: "1.2.3", chip: &chip, isa: "avx2", pinning: "class", threads: &[2], state: &state };
        let Err(Refresh::State { differences }) = Kept::new(folder.path()).find(&wanted) else { panic!("kept") };
        assert_eq!(differences.len(), 1);
        assert_eq!((differences[0].name.as_str(), differences[0].after.as_str()), ("cgroup quota", "0.5 CPUs"));
    }

    #[test]
    fn what_others_disturbed_is_measured_again_when_they_are_gone() {
        let folder = tempfile::tempdir().unwrap();
        let state = |load: f64| {
            let mut state = State::default();
            state.limits.affinity = Reading::Known(vec![0, 1, 2, 3]);
            state.pressure.load_average = Reading::Known(load);
            state
        };
        let disturbed = Ceilings { state: state(1.5), ..ceilings() };
        assert_eq!((disturbed.load_of_others(), ceilings().load_of_others()), (Some(1.5), None));
        Kept::new(folder.path()).keep(&disturbed).unwrap();
        let find = |load: f64| {
            let (chip, state) = (ceilings().chip, state(load));
            let wanted = Wanted {
                duan_version: "1.2.3",
                chip: &chip,
                isa: "avx2",
                pinning: "class",
                threads: &[2],
                state: &state,
            };
            Kept::new(folder.path()).find(&wanted)
        };
        assert_eq!(find(0.6), Ok(disturbed), "they are still there");
        assert_eq!(find(0.4), Err(Refresh::Busy { load_average: 1.5 }));
    }

    #[test]
    fn a_week_is_the_most_and_the_future_does_not_count() {
        let folder = tempfile::tempdir().unwrap();
        let now = jiff::Timestamp::now();
        let hours =
            |hours: i64| (now + jiff::SignedDuration::from_hours(hours)).strftime("%Y-%m-%dT%H:%M:%SZ").to_string();
        for (measured_at, holds) in [
            (hours(-24 * 7 + 1), true),
            (hours(-24 * 7 - 1), false),
            (hours(2), false),
            ("yesterday".to_owned(), false),
        ] {
            let ceilings = Ceilings { measured_at: measured_at.clone(), ..ceilings() };
            Kept::new(folder.path()).keep(&ceilings).unwrap();
            let found = find(folder.path(), |_| ());
            assert_eq!(found, if holds { Ok(ceilings) } else { Err(Refresh::Age { measured_at }) });
        }
    }

    #[test]
    fn what_is_damaged_or_foreign_is_told_and_replaced() {
        let folder = tempfile::tempdir().unwrap();
        let kept = Kept::new(folder.path());
        let path = kept.keep(&ceilings()).unwrap();
        let text = std::fs::read_to_string(&path).unwrap();
        let damaged = Err(Refresh::Damaged { path: path.clone() });
        let rate_of_nothing = text.replacen("38500000000.0", "-1.0", 1);
        assert_ne!(rate_of_nothing, text);
        for text in
            ["", "{}", "[1]", &text[..text.len() / 2], &text.replacen("duan-ceilings", "other", 1), &rate_of_nothing]
        {
            std::fs::write(&path, text).unwrap();
            assert_eq!(find(folder.path(), |_| ()), damaged, "{text:.40}");
        }
        std::fs::remove_file(&path).unwrap();
        std::fs::create_dir(&path).unwrap();
        assert_eq!(find(folder.path(), |_| ()), damaged, "a folder");
        std::fs::remove_dir(&path).unwrap();
        kept.keep(&ceilings()).unwrap();
        assert!(find(folder.path(), |_| ()).is_ok());
    }

    #[test]
    fn what_lacks_memory_is_measured_when_there_is_some() {
        let folder = tempfile::tempdir().unwrap();
        let because = "only 5 bytes".to_owned();
        let short = Ceilings { read: Vec::new(), read_skipped: Some(because.clone()), ..ceilings() };
        Kept::new(folder.path()).keep(&short).unwrap();
        assert_eq!(find(folder.path(), |_| ()), Err(Refresh::Incomplete { because }));
    }

    #[test]
    fn another_chip_of_the_same_name_is_another() {
        let folder = tempfile::tempdir().unwrap();
        Kept::new(folder.path()).keep(&ceilings()).unwrap();
        let chip = Chip { model: Reading::Known("some r cpu".into()), ..Chip::default() };
        let state = State::default();
        let wanted =
            Wanted { duan_version: "1.2.3", chip: &chip, isa: "avx2", pinning: "class", threads: &[2], state: &state };
        assert_eq!(Kept::new(folder.path()).find(&wanted), Err(Refresh::Chip { before: "Some (R) CPU".into() }));
    }
}
