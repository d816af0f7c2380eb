//! Cards of machines that nobody has.

use duan_measure::bench::Bandwidth;
use duan_measure::ceilings::Peak;
use duan_system::{
    Chip, CoreClass, CoreState, FrequencyPolicy, PiThrottling, PowerSource, Reading, Stall, StallShares, Throttling,
    made_up,
};

use super::*;

const GIB: u64 = 1 << 30;

fn formats(names: &[&str]) -> Vec<String> {
    names.iter().map(|name| (*name).to_owned()).collect()
}

/// Two threads that read 40 GB/s.
fn ceilings() -> Ceilings {
    let peak = |instruction: &str, names: &[&str], per_s: f64| Peak {
        isa: "avx512".into(),
        instruction: instruction.into(),
        formats: formats(names),
        threads: 2,
        per_s,
    };
    let read = |threads: usize, rate: f64| Bandwidth {
        bytes_per_s: rate,
        bytes: GIB,
        reads: 15,
        threads,
        pages: "large".into(),
        way: "some".into(),
    };
    Ceilings {
        measured_at: "2026-01-31T23:59:59Z".into(),
        duan_version: "1".into(),
        chip: Chip::default(),
        isa: "avx512".into(),
        pinning: "class".into(),
        threads: vec![1, 2],
        read: vec![read(1, 25e9), read(2, 40e9)],
        read_skipped: None,
        multiply_adds: vec![peak("vfmadd", &["F32"], 150e9), peak("vpdpbusd", &["Q4_0", "Q8_0"], 600e9)],
        clock: Vec::new(),
        clock_skipped: None,
        barriers: Vec::new(),
        state: State::default(),
    }
}

fn card(state: &State, ceilings: Option<&Ceilings>, isa: &str, memory_available_bytes: Option<u64>) -> Card {
    Card::of(&Known {
        state,
        ceilings,
        isa,
        kernel_formats: &formats(&["F32", "Q4_0"]),
        threads_decode: 2,
        threads_prefill: 2,
        memory_available_bytes,
        catalogue: duan_hub::catalogue(),
    })
}

fn problems(state: &State) -> Vec<ProblemKind> {
    card(state, None, "avx512", None).problems.into_iter().map(|problem| problem.kind).collect()
}

#[test]
fn every_typical_size_has_a_forecast() {
    let card = card(&State::default(), Some(&ceilings()), "avx512", Some(4 * GIB));
    assert_eq!(card.forecasts.iter().map(|forecast| forecast.size.as_str()).collect::<Vec<_>>(), ["1B", "3B", "7B"]);
    let [one, three, seven] = &card.forecasts[..] else { panic!("three sizes") };
    // 40 GB/s over 763 MB.
    let high = one.high_ts.unwrap();
    assert!((high - 40e9 / one.weights_bytes as f64).abs() < 1e-9 && (52.0..53.0).contains(&high), "{high}");
    assert!((one.low_ts.unwrap() / high - 0.6).abs() < 1e-9);
    assert!(three.high_ts < one.high_ts && seven.high_ts < three.high_ts);
    assert_eq!([one, three, seven].map(|forecast| forecast.fits), [Some(true), Some(true), Some(false)]);
    assert_eq!([one, three, seven].map(|forecast| forecast.turns_hold), [Some(true), Some(true), Some(false)]);
    let left = 4 * GIB - one.weights_bytes - (192 << 20);
    assert_eq!(one.largest_context, Some(left / one.kv_bytes_per_token));
    assert_eq!(seven.largest_context, Some(0));
    assert_eq!((card.read_bytes_per_s, card.knee_threads), (Some(40e9), Some(2)));
}

#[test]
fn a_context_is_no_longer_than_the_model_was_trained_for() {
    let card = card(&State::default(), None, "avx512", Some(1 << 40));
    assert_eq!(card.forecasts[0].largest_context, Some(131_072));
    assert_eq!(card.models.unwrap().too_large, [""; 0]);
}

#[test]
fn the_fastest_formats_come_first_and_only_those_with_kernels() {
    let native = card(&State::default(), Some(&ceilings()), "avx512", None).native;
    let told: Vec<_> = native.iter().map(|row| (row.instruction.as_deref().unwrap(), row.formats.clone())).collect();
    assert_eq!(told, [("vpdpbusd", formats(&["Q4_0"])), ("vfmadd", formats(&["F32"]))]);
    let native = card(&State::default(), None, "avx512", None).native;
    assert_eq!(
        native,
        [NativeFormats { instruction: None, formats: formats(&["F32", "Q4_0"]), multiply_adds_per_s: None }]
    );
}

#[test]
fn what_is_not_known_is_not_guessed() {
    let card = card(&State::default(), None, "avx512", None);
    assert_eq!((card.models, card.read_bytes_per_s, card.ceilings_measured_at), (None, None, None));
    for forecast in &card.forecasts {
        assert_eq!((forecast.low_ts, forecast.fits, forecast.turns_hold), (None, None, None));
    }
    assert_eq!(card.problems, []);
}

#[test]
fn the_best_model_is_the_largest_that_fits() {
    let of = |bytes| card(&State::default(), None, "avx512", Some(bytes)).models.unwrap();
    assert_eq!(of(8 * GIB).best, duan_hub::best_that_fits(8 * GIB).map(|entry| entry.name.to_owned()));
    let none = of(1 << 20);
    assert_eq!((none.best, none.fitting.len()), (None, 0));
    assert!(!none.too_large.is_empty());
}

#[test]
fn a_container_with_half_a_processor_is_held_up() {
    let mut state = State::default();
    state.processor.cores = Reading::Known(vec![CoreState::default(); 4]);
    state.limits.quota_cpus = Reading::Known(Some(0.5));
    state.limits.throttling = Reading::Known(Throttling { periods: 100, throttled_periods: 40, throttled_us: 1 });
    assert_eq!(
        problems(&state),
        [ProblemKind::Quota { granted_cpus: 0.5, cores: 4 }, ProblemKind::Throttled { share: 0.4 },]
    );
    state.limits.quota_cpus = Reading::Known(None);
    state.limits.throttling = Reading::NotReadable("x".into());
    assert_eq!(problems(&state), []);
}

#[test]
fn a_laptop_on_its_battery_saves_power() {
    let mut state = State::default();
    let small = CoreState { class: CoreClass::Efficiency, ..CoreState::default() };
    state.processor.cores = Reading::Known(vec![CoreState::default(), small.clone(), small]);
    state.power.source = Reading::Known(PowerSource::Battery);
    state.power.profile = Reading::Known("power-saver".into());
    let policy = FrequencyPolicy {
        energy_preference: Reading::Known("power".into()),
        governor: Reading::Known("powersave".into()),
        allowed_max_khz: Reading::Known(2_000_000),
        built_max_khz: Reading::Known(5_000_000),
        ..FrequencyPolicy::default()
    };
    state.frequency.policies = Reading::Known(vec![policy]);
    assert_eq!(
        problems(&state),
        [
            ProblemKind::PowerSaving { setting: "profile power-saver".into() },
            ProblemKind::Capped { allowed_khz: 2_000_000, built_khz: 5_000_000 },
            ProblemKind::SmallCores { performance: 1, efficiency: 2 },
            ProblemKind::Battery,
        ]
    );
    state.power.profile = Reading::Known("balanced".into());
    assert!(!problems(&state).iter().any(|kind| matches!(kind, ProblemKind::PowerSaving { .. })), "the usual governor");
}

#[test]
fn a_board_says_that_it_is_too_hot_and_has_a_slow_unit() {
    let mut state = State::default();
    let pi = PiThrottling { now: formats(&["under-voltage", "throttled"]), ..PiThrottling::default() };
    state.thermal.raspberry_pi = Reading::Known(pi);
    let card = card(&state, None, "neon", Some(700 << 20));
    let kinds: Vec<ProblemKind> = card.problems.iter().map(|problem| problem.kind.clone()).collect();
    assert!(matches!(kinds[0], ProblemKind::LittleMemory { available_bytes: 734_003_200, .. }), "{kinds:?}");
    assert_eq!(
        kinds[1..],
        [
            ProblemKind::HeldBack { by: "under-voltage, throttled".into() },
            ProblemKind::SlowInstructions { isa: "neon".into() },
        ]
    );
    assert!(card.problems.iter().all(|problem| !problem.rests_on.is_empty()));
}

#[test]
fn a_virtual_machine_loses_time_and_memory() {
    let mut state = State::default();
    state.virtualization.hypervisor = Reading::Known(Some("KVM".into()));
    state.virtualization.steal_share = Reading::Known(0.05);
    state.memory.total_bytes = Reading::Known(8 * GIB);
    state.memory.swap_total_bytes = Reading::Known(4 * GIB);
    state.memory.swap_free_bytes = Reading::Known(2 * GIB);
    let some = StallShares { last_60_s_percent: 7.0, ..StallShares::default() };
    state.pressure.memory = Reading::Known(Stall { some, ..Stall::default() });
    assert_eq!(
        problems(&state),
        [
            ProblemKind::MemoryPressure { percent: 7.0 },
            ProblemKind::Swapped { bytes: 2 * GIB },
            ProblemKind::Steal { share: 0.05 },
            ProblemKind::Virtual { hypervisor: "KVM".into() },
        ]
    );
}

#[test]
fn every_made_up_machine_has_its_typical_problem() {
    let of = |tree: &made_up::Tree| problems(&State::read(tree));
    let phone = of(&made_up::phone());
    assert_eq!(phone[0], ProblemKind::Background);
    for kind in [
        ProblemKind::PowerSaving { setting: "low power mode".into() },
        ProblemKind::Capped { allowed_khz: 2_073_600, built_khz: 3_187_200 },
        ProblemKind::SmallCores { performance: 4, efficiency: 4 },
        ProblemKind::Battery,
    ] {
        assert!(phone.contains(&kind), "{kind:?} in {phone:?}");
    }
    assert_eq!(of(&made_up::laptop()), [ProblemKind::SmallCores { performance: 8, efficiency: 12 }]);
    assert_eq!(
        of(&made_up::container()),
        [ProblemKind::Quota { granted_cpus: 0.5, cores: 32 }, ProblemKind::Throttled { share: 0.775 },]
    );
    assert_eq!(
        of(&made_up::raspberry_pi()),
        [
            ProblemKind::HeldBack { by: "under-voltage, throttled".into() },
            ProblemKind::Capped { allowed_khz: 1_800_000, built_khz: 2_400_000 },
        ]
    );
    assert!(matches!(&of(&made_up::virtual_machine())[..], [ProblemKind::Virtual { .. }]));
}
