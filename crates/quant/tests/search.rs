//! What the searches find: never worse than the plain encoders, finite whatever they are given, the same each time.

use duan_quant::integers::{Group, GroupSearch, Integers, Stored};
use duan_quant::{Error, FORMATS, Format, format_by_name, importance};
use proptest::prelude::*;

/// The formats with a search.
fn searched() -> impl Iterator<Item = &'static Format> {
    FORMATS.iter().copied().filter(|format| format.search.is_some())
}

fn search(format: &Format, values: &[f32], importance: Option<&[f32]>) -> (Vec<u8>, Vec<f32>) {
    let mut bytes = vec![0xaa; format.row_bytes(values.len()).unwrap()];
    format.search.unwrap()(values, importance, &mut bytes);
    let decoded = decode(format, &bytes);
    (bytes, decoded)
}

fn decode(format: &Format, bytes: &[u8]) -> Vec<f32> {
    let mut values = vec![f32::NAN; bytes.len() / format.block_bytes * format.block_weights];
    format.decode(bytes, &mut values).unwrap();
    values
}

fn error(values: &[f32], decoded: &[f32], importance: Option<&[f32]>) -> f64 {
    let off = values.iter().zip(decoded).map(|(&x, &y)| (f64::from(x) - f64::from(y)).powi(2));
    match importance {
        None => off.sum(),
        Some(importance) => off.zip(importance).map(|(off, &w)| off * f64::from(w)).sum(),
    }
}

/// Numbers between 0 and 1, the same for the same seed.
fn uniform(seed: u64) -> impl Iterator<Item = f32> {
    let mut state = seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1;
    std::iter::repeat_with(move || {
        state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        ((state >> 40) as f32 + 0.5) / (1u64 << 24) as f32
    })
}

/// Weights of standard deviation 0.02; with `tails`, about one in fifty is some times as large.
fn weights(seed: u64, count: usize, tails: bool) -> Vec<f32> {
    let mut random = uniform(seed);
    let mut next = || random.next().unwrap();
    let gaussian = |a: f32, b: f32| (-2.0 * a.ln()).sqrt() * (std::f32::consts::TAU * b).cos() * 0.02;
    (0..count)
        .map(|_| gaussian(next(), next()) * if tails && next() < 0.02 { 1.0 / next().max(0.05) } else { 1.0 })
        .collect()
}

/// What checkpoints have: most columns alike, a few far more important.
fn columns(seed: u64, count: usize) -> Vec<f32> {
    uniform(seed).take(count).map(|u| if u < 0.02 { 100.0 } else { 1.0 / u }).collect()
}

#[test]
fn a_search_is_never_worse_than_the_plain_encoder() {
    let mut compared = 0;
    for format in searched() {
        let Some(quantize) = format.quantize else { continue };
        for (seed, tails) in [(1, false), (2, true)] {
            let values = weights(seed, 4096, tails);
            let given = columns(seed, 4096);
            let mut bytes = vec![0; format.row_bytes(values.len()).unwrap()];
            quantize(&values, &mut bytes);
            let plain = decode(format, &bytes);
            for importance in [None, Some(&given[..])] {
                let (_, decoded) = search(format, &values, importance);
                let (ours, theirs) = (error(&values, &decoded, importance), error(&values, &plain, importance));
                // Scales of MXFP4 are powers of two: there are three to choose from.
                // Long groups with a scale alone gain little where nothing stands out.
                let least = if format.name == "MXFP4" || format.gguf_id.is_none() { 1.0 } else { 0.97 };
                assert!(ours < theirs * least, "{} {tails} {}: {ours:e} {theirs:e}", format.name, importance.is_some());
                // Block by block too, not only in sum.
                let size = format.block_weights;
                for (index, (x, (ours, plain))) in
                    values.chunks(size).zip(decoded.chunks(size).zip(plain.chunks(size))).enumerate()
                {
                    let w = importance.map(|importance| &importance[size * index..][..size]);
                    assert!(error(x, ours, w) <= error(x, plain, w) * 1.0001 + 1e-15, "{} block {index}", format.name);
                }
                compared += 1;
            }
        }
    }
    assert_eq!(
        compared,
        (6 + 16) * 4,
        "Q4_0, Q4_1, Q5_0, Q5_1, Q8_0, MXFP4, int4 and int8 in groups of four sizes with and without -zp"
    );
}

/// Bounds that a change which breaks a search would pass: the mean squared error of Gaussian weights by the square of their
/// deviation, without and with importance.
#[test]
fn errors_are_as_small_as_they_were() {
    let known = [
        ("Q4_0", 0.0078, 0.0065),
        ("Q4_1", 0.0068, 0.0056),
        ("Q5_0", 0.0020, 0.0016),
        ("Q5_1", 0.0016, 0.0013),
        ("Q8_0", 0.000030, 0.000017),
        ("Q2_K", 0.085, 0.064),
        ("Q3_K", 0.028, 0.021),
        ("Q4_K", 0.0063, 0.0048),
        ("Q5_K", 0.0015, 0.0010),
        ("Q6_K", 0.00043, 0.00030),
        ("IQ4_NL", 0.0066, 0.0056),
        ("IQ4_XS", 0.0066, 0.0055),
        ("MXFP4", 0.015, 0.015),
    ];
    let values = weights(3, 16384, false);
    let given = columns(3, 16384);
    let energy: f64 = error(&values, &vec![0.0; values.len()], None);
    let weighted_energy: f64 = error(&values, &vec![0.0; values.len()], Some(&given));
    for format in searched().filter(|format| format.gguf_id.is_some()) {
        let &(_, plain, weighted) = known.iter().find(|row| row.0 == format.name).unwrap();
        let ours = error(&values, &search(format, &values, None).1, None) / energy;
        let ours_weighted = error(&values, &search(format, &values, Some(&given)).1, Some(&given)) / weighted_energy;
        assert!(ours < plain && ours_weighted < weighted, "{}: {ours:.6} {ours_weighted:.6}", format.name);
    }
    assert_eq!(searched().filter(|format| format.gguf_id.is_some()).count(), known.len());
}

#[test]
fn importance_lowers_the_weighted_error() {
    for format in searched().filter(|format| format.name != "MXFP4") {
        let values = weights(4, 4096, true);
        let given = columns(4, 4096);
        let (_, with) = search(format, &values, Some(&given));
        let (_, without) = search(format, &values, None);
        let (with, without) = (error(&values, &with, Some(&given)), error(&values, &without, Some(&given)));
        let least = if format.gguf_id.is_some() { 0.9 } else { 0.96 };
        assert!(with < without * least, "{}: {with:e} {without:e}", format.name);
    }
}

/// A row whose first 32 weights are the block, the others small: also a group among others is met.
fn row_with(block: &[f32; 32], others: f32) -> Vec<f32> {
    let mut row = vec![others; 256];
    row[..32].copy_from_slice(block);
    row
}

#[test]
fn extreme_values_give_finite_scales() {
    let mut one_tiny = [0.0f32; 32];
    one_tiny[5] = 1e-45;
    let blocks =
        [[0.0f32; 32], [-0.0; 32], [1e-40; 32], [3e-6; 32], [-3e-6; 32], one_tiny, [9e6; 32], [-9e6; 32], [6e5; 32]];
    for format in searched() {
        for block in &blocks {
            for others in [0.0, block[0], 0.02] {
                let values = row_with(block, others);
                let (_, decoded) = search(format, &values, None);
                let largest = values.iter().fold(0.0f32, |acc, x| acc.max(x.abs()));
                for (x, y) in values.iter().zip(&decoded) {
                    assert!(y.is_finite(), "{}: {x:e} became {y:e}", format.name);
                    assert!(y.abs() <= largest * 1.2, "{}: {x:e} became {y:e}", format.name);
                }
                if largest <= format.largest && others == block[0] {
                    // Alike values come back to within a half of the scale, which is above 5.9e-8 as an f16.
                    let bound = largest * 0.15 + 3e-8;
                    assert!(
                        (decoded[0] - values[0]).abs() <= bound,
                        "{}: {:e} {:e}",
                        format.name,
                        values[0],
                        decoded[0]
                    );
                }
            }
        }
        for bad in [f32::NAN, f32::INFINITY, f32::NEG_INFINITY, f32::MAX, f32::MIN] {
            let mut values = row_with(&[0.5; 32], 0.25);
            values[3] = bad;
            for importance in [None, Some(&vec![1.0; 256][..])] {
                let (_, decoded) = search(format, &values, importance);
                assert!(decoded.iter().all(|y| y.is_finite()), "{} {bad}", format.name);
            }
            let mut bytes = vec![0x55; format.row_bytes(256).unwrap()];
            let refused = format.encode_best(&values, None, &mut bytes).unwrap_err();
            match refused {
                Error::NotFinite { index: 3, .. } => assert!(!bad.is_finite()),
                Error::TooLarge { index: 3, .. } => assert!(bad.is_finite()),
                other => panic!("{} {bad}: {other}", format.name),
            }
            assert!(bytes.iter().all(|&byte| byte == 0x55), "{}: refused, and written all the same", format.name);
        }
    }
}

#[test]
fn zeros_become_zeros() {
    for format in searched() {
        for zero in [0.0, -0.0] {
            let (_, decoded) = search(format, &[zero; 512], None);
            assert!(decoded.iter().all(|&y| y == 0.0), "{}", format.name);
            let (_, decoded) = search(format, &[zero; 512], Some(&columns(1, 512)));
            assert!(decoded.iter().all(|&y| y == 0.0), "{}", format.name);
        }
    }
}

#[test]
fn codes_come_from_the_stored_scale() {
    // 3e-6 / 127 is 2.4e-8, which as an f16 is 0 or the smallest subnormal, 2^-24.
    let (bytes, decoded) = search(format_by_name("Q8_0").unwrap(), &[3e-6; 32], None);
    assert_eq!((&bytes[..2], bytes[2]), (&[1, 0][..], 50));
    assert!(decoded.iter().all(|&x| (x - 3e-6).abs() < 2e-8));
}

#[test]
fn the_largest_magnitudes_fit() {
    for format in searched() {
        for sign in [1.0, -1.0] {
            let mut values = vec![0.0f32; 256];
            values[7] = sign * format.largest;
            for others in [0.0, 1.0, sign * format.largest] {
                values[8..].fill(others);
                let mut bytes = vec![0; format.row_bytes(256).unwrap()];
                format.encode_best(&values, None, &mut bytes).unwrap();
                let y = decode(format, &bytes)[7];
                assert!((y / values[7] - 1.0).abs() < 0.13, "{} {sign} {others}: {y:e}", format.name);
            }
        }
    }
}

#[test]
fn importance_that_says_nothing_counts_as_none() {
    let values = weights(5, 512, true);
    let mut nan = vec![1.0; 512];
    nan[17] = f32::NAN;
    let mut infinite = vec![1.0; 512];
    infinite[17] = f32::INFINITY;
    let mut negative = vec![1.0; 512];
    negative[17] = -1.0;
    for format in searched() {
        let (none, _) = search(format, &values, None);
        for given in [&vec![0.0; 512], &vec![-0.0; 512], &nan, &infinite, &negative] {
            assert_eq!(search(format, &values, Some(given)).0, none, "{}", format.name);
        }
        let mut bytes = none.clone();
        let error = format.encode_best(&values, Some(&nan[..511]), &mut bytes).unwrap_err();
        assert_eq!(error, Error::Importance { values: 512, importance: 511 });
        assert_eq!(bytes, none);
    }
}

#[test]
fn importance_of_any_magnitude_is_relative() {
    let values = weights(6, 512, false);
    let given = columns(6, 512);
    for format in searched() {
        let (bytes, _) = search(format, &values, Some(&given));
        for factor in [2f32.powi(-90), 2f32.powi(110)] {
            let scaled: Vec<f32> = given.iter().map(|w| w * factor).collect();
            assert_eq!(search(format, &values, Some(&scaled)).0, bytes, "{} {factor:e}", format.name);
        }
        // All 1e-30 is all alike, as far as errors go; one huge entry must not drown the rest in infinities.
        let alike = error(&values, &search(format, &values, Some(&[1e-30; 512])).1, None);
        let none = error(&values, &search(format, &values, None).1, None);
        assert!(alike <= none * 1.05, "{}: {alike:e} {none:e}", format.name);
        let mut huge = vec![1.0; 512];
        huge[33] = 3e38;
        let (_, decoded) = search(format, &values, Some(&huge));
        assert!((decoded[33] - values[33]).abs() <= values[33].abs() * 0.02 + 1e-5, "{}", format.name);
        let rest = error(&values, &decoded, None);
        // Longer groups, or those with a scale alone, have less to meet that one weight and the others with.
        let most = if format.gguf_id.is_some() { none * 3.0 } else { error(&values, &[0.0; 512], None) * 0.5 };
        assert!(rest < most, "{}: {rest:e} {none:e}", format.name);
        // A subnormal entry beside zeros is a weight like any other.
        let mut tiny = vec![0.0; 512];
        tiny[40] = 1e-45;
        assert!(search(format, &values, Some(&tiny)).1.iter().all(|y| y.is_finite()));
    }
}

#[test]
fn blocks_do_not_depend_on_their_neighbours() {
    // Eight blocks are searched at a time; a row of any number of them gives the same bytes.
    let values = weights(7, 256 * 5, true);
    let given = columns(7, 256 * 5);
    for format in searched() {
        for importance in [None, Some(&given[..])] {
            let (whole, _) = search(format, &values, importance);
            for blocks in [1, 3, 5] {
                let pieces = values.chunks(format.block_weights * blocks).enumerate().map(|(index, values)| {
                    let first = index * format.block_weights * blocks;
                    search(format, values, importance.map(|importance| &importance[first..][..values.len()])).0
                });
                assert_eq!(pieces.collect::<Vec<_>>().concat(), whole, "{} {blocks}", format.name);
            }
        }
    }
}

#[test]
fn bad_slices_of_importance_are_replaced_and_counted() {
    let mut given = vec![2.0; 4 * 8 + 3];
    given[3] = f32::NAN;
    given[8..16].fill(0.0);
    given[25] = f32::INFINITY;
    assert_eq!(importance::clean(&mut given, 8), 4, "three of four slices, and the rest of three entries");
    let mut expected = vec![1.0; 4 * 8 + 3];
    expected[16..24].fill(2.0);
    assert_eq!(given, expected);
    assert_eq!(importance::clean(&mut given, 0), 0);
    let mut some_zeros = [0.0, 1.0, 0.0, 3.0];
    assert_eq!(importance::clean(&mut some_zeros, 4), 0);
    assert_eq!(some_zeros, [0.0, 1.0, 0.0, 3.0]);
}

proptest! {
    #[test]
    fn any_bits_give_finite_values(
        bits in prop::collection::vec(any::<u32>(), 256),
        importance_bits in prop::collection::vec(any::<u32>(), 256),
        format in prop::sample::select(searched().collect::<Vec<_>>()),
    ) {
        let values: Vec<f32> = bits.iter().map(|&bits| f32::from_bits(bits)).collect();
        // Without the sign and the top bit of the exponent: finite, of all magnitudes.
        let given: Vec<f32> = importance_bits.iter().map(|&bits| f32::from_bits(bits & 0x3fff_ffff)).collect();
        for importance in [None, Some(&given[..])] {
            let (bytes, decoded) = search(format, &values, importance);
            prop_assert!(decoded.iter().all(|y| y.is_finite()), "{}", format.name);
            prop_assert_eq!(&search(format, &values, importance).0, &bytes);
        }
    }

    #[test]
    fn never_worse_than_plain_for_any_magnitudes(
        values in prop::collection::vec((-1e3f32..1e3, -9i32..3).prop_map(|(x, e)| x * 10f32.powi(e)), 256),
        importance in prop::option::of(prop::collection::vec(1e-3f32..1e3, 256)),
        format in prop::sample::select(searched().filter(|format| format.quantize.is_some()).collect::<Vec<_>>()),
    ) {
        let importance = importance.as_deref();
        let (_, decoded) = search(format, &values, importance);
        let mut bytes = vec![0; format.row_bytes(256).unwrap()];
        format.quantize.unwrap()(&values, &mut bytes);
        let plain = decode(format, &bytes);
        let size = format.block_weights;
        for (index, (x, (ours, plain))) in values.chunks(size).zip(decoded.chunks(size).zip(plain.chunks(size))).enumerate() {
            let w = importance.map(|importance| &importance[size * index..][..size]);
            let energy = error(x, &vec![0.0; size], w);
            let (ours, plain) = (error(x, ours, w), error(x, plain, w));
            prop_assert!(ours <= plain * 1.001 + energy * 1e-12, "{}: {ours:e} {plain:e}", format.name);
        }
    }
}

/// The squared error of a group.
fn group_error(integers: Integers, group: Group, values: &[f32], importance: Option<&[f32]>) -> f64 {
    let mut codes = vec![0; values.len()];
    integers.codes(group, values, &mut codes);
    let decoded: Vec<f32> = codes.iter().map(|&code| (i32::from(code) - group.zero) as f32 * group.scale).collect();
    assert!(codes.iter().all(|&code| (integers.lowest..=integers.highest).contains(&i32::from(code))));
    let off = values.iter().zip(&decoded).map(|(&x, &y)| (f64::from(x) - f64::from(y)).powi(2));
    off.enumerate().map(|(i, off)| off * importance.map_or(1.0, |w| f64::from(w[i % w.len()]))).sum()
}

/// The group whose codes reach the outermost weights.
fn plain_group(integers: Integers, values: &[f32]) -> Group {
    let low = values.iter().fold(0.0f32, |acc, &x| acc.min(x));
    let high = values.iter().fold(0.0f32, |acc, &x| acc.max(x));
    if integers.zero_point {
        let scale = integers.stored.round((high - low) / (integers.highest - integers.lowest) as f32);
        let zero = (integers.lowest as f32 - low / scale).round() as i32;
        return Group { scale, zero: zero.clamp(integers.lowest, integers.highest) };
    }
    Group { scale: integers.stored.round(high.max(-low) / (integers.highest as f32 + 0.5)), zero: 0 }
}

#[test]
fn groups_are_better_than_their_range() {
    for stored in [Stored::F16, Stored::BF16, Stored::F32] {
        for zero_point in [false, true] {
            for integers in [Integers::four_bits(zero_point, stored), Integers::eight_bits(zero_point, stored)] {
                for (size, tails, least) in
                    [(32, false, 0.97), (128, false, 0.95), (128, true, 0.95), (4096, true, 0.6)]
                {
                    let values = weights(8, 8192, tails);
                    let given = columns(8, size);
                    for importance in [None, Some(&given[..])] {
                        let (mut ours, mut plain) = (0.0, 0.0);
                        for values in values.chunks(size) {
                            ours += group_error(integers, integers.search(values, importance), values, importance);
                            plain += group_error(integers, plain_group(integers, values), values, importance);
                        }
                        let least = if integers.highest > 7 { 1.0 } else { least };
                        assert!(ours <= plain * least, "{integers:?} {size} {tails}: {ours:e} {plain:e}");
                    }
                }
            }
        }
    }
}

#[test]
fn a_group_in_pieces_is_the_same_group() {
    let values = weights(9, 64 * 40, true);
    let given = columns(9, 64);
    let integers = Integers::four_bits(true, Stored::F16);
    let whole = integers.search(&values, Some(&given));
    let mut search = GroupSearch::new(integers);
    values.chunks(64 * 7).for_each(|values| search.measure(values));
    for _ in 0..GroupSearch::ROUNDS {
        values.chunks(64 * 7).for_each(|values| search.add(values, Some(&given)));
        search.narrow();
    }
    assert_eq!(search.finish(), whole);
    assert_eq!(GroupSearch::new(integers).finish(), Group { scale: 0.0, zero: 0 }, "a group of nothing");
}

#[test]
fn extreme_groups_stay_finite() {
    let mut one_tiny = [0.0f32; 32];
    one_tiny[5] = 1e-45;
    let mut not_a_number = [0.5f32; 32];
    not_a_number[3] = f32::NAN;
    let mut infinite = [0.5f32; 32];
    infinite[3] = f32::INFINITY;
    for stored in [Stored::F16, Stored::BF16, Stored::F32] {
        for zero_point in [false, true] {
            for integers in [Integers::four_bits(zero_point, stored), Integers::eight_bits(zero_point, stored)] {
                for values in
                    [[0.0; 32], [-0.0; 32], [1e-40; 32], [3e-6; 32], one_tiny, [9e6; 32], not_a_number, infinite]
                {
                    for importance in
                        [None, Some(&[0.0; 32]), Some(&[f32::NAN; 32]), Some(&[1e-30; 32]), Some(&[3e38; 32])]
                    {
                        let group = integers.search(&values, importance.map(|w| &w[..]));
                        assert!(group.scale.is_finite(), "{integers:?} {values:?}");
                        let mut codes = [0; 32];
                        integers.codes(group, &values, &mut codes);
                        let y = (i32::from(codes[0]) - group.zero) as f32 * group.scale;
                        let fits =
                            values[0].abs() <= 7.0 * 65504.0 && values.iter().all(|x| x.abs() <= values[0].abs());
                        if fits {
                            assert!(
                                (y - values[0]).abs() <= values[0].abs() * 0.07 + 3.1e-8,
                                "{integers:?} {} {y}",
                                values[0]
                            );
                        }
                    }
                }
                let given = integers.search(&weights(1, 64, false), Some(&[0.0; 64]));
                assert_eq!(given, integers.search(&weights(1, 64, false), None));
            }
        }
    }
}

#[test]
fn what_was_quantized_stays_nearly_the_same() {
    for format in searched() {
        let values = weights(10, 8192, true);
        let (_, once) = search(format, &values, None);
        let (_, twice) = search(format, &once, None);
        let (first, second) = (error(&values, &once, None), error(&once, &twice, None));
        let most = if format.gguf_id.is_some() { 0.03 } else { 0.3 };
        assert!(second < first * most, "{}: {first:e} {second:e}", format.name);
    }
}
