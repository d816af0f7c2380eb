//! The scalar codecs against the Python package `gguf` (to the bit), and the bounds of the encoders.

use duan_quant::{Error, FORMATS, Format, TypeStatus, format_by_gguf_id, format_by_name, gguf_type};
use proptest::prelude::*;

fn format(name: &str) -> &'static Format {
    format_by_name(name).unwrap()
}

fn fixture(name: &str, kind: &str) -> Vec<u8> {
    let path = format!("{}/tests/fixtures/{name}.{kind}", env!("CARGO_MANIFEST_DIR"));
    std::fs::read(&path).unwrap_or_else(|error| panic!("{path}: {error}"))
}

/// Encodes and decodes; returns the bytes and the decoded values.
fn round_trip(format: &Format, values: &[f32]) -> (Vec<u8>, Vec<f32>) {
    let mut bytes = vec![0xaa; format.row_bytes(values.len()).unwrap()];
    format.quantize.unwrap()(values, &mut bytes);
    let mut decoded = vec![f32::NAN; values.len()];
    format.decode(&bytes, &mut decoded).unwrap();
    (bytes, decoded)
}

/// The stored scale of the block at the beginning of `bytes`.
fn scale(bytes: &[u8]) -> f32 {
    half::f16::from_le_bytes([bytes[0], bytes[1]]).to_f32()
}

#[test]
fn every_format_decodes_the_fixtures_to_the_bit() {
    // Our own have no fixture: their tests hold them to their definition.
    for format in FORMATS.iter().filter(|format| format.gguf_id.is_some()) {
        let blocks = fixture(format.name, "blocks");
        let expected = fixture(format.name, "values");
        let mut values = vec![f32::NAN; expected.len() / 4];
        format.decode(&blocks, &mut values).unwrap();
        assert!(values.len() >= 96, "{}", format.name);
        for (index, (value, expected)) in values.iter().zip(expected.chunks_exact(4)).enumerate() {
            let expected = f32::from_le_bytes(expected.try_into().unwrap());
            assert_eq!(value.to_bits(), expected.to_bits(), "{} weight {index}: {value} {expected}", format.name);
        }
    }
}

#[test]
fn the_list_of_formats_is_consistent() {
    let place = |format: &&Format| format.gguf_id.unwrap_or(u32::MAX);
    assert!(FORMATS.is_sorted_by_key(place), "FORMATS goes by GGUF id, then come our own");
    for format in FORMATS {
        assert_eq!(format_by_name(&format.name.to_lowercase()), Some(*format));
        if let Some(id) = format.gguf_id {
            assert_eq!(format_by_gguf_id(id), Some(*format));
            assert_eq!(gguf_type(id), TypeStatus::Supported(format));
        }
    }
    assert_eq!(format_by_name("Q4_K_M"), None);
    assert_eq!(format("Q4_1").bits_per_weight(), 5.0);
    assert_eq!(format("Q6_K").bits_per_weight(), 6.5625);
}

#[test]
fn rows_are_whole_blocks() {
    assert_eq!(format("Q4_0").row_bytes(576), Some(18 * 18));
    assert_eq!(format("Q6_K").row_bytes(640), None);
    assert_eq!(format("Q4_K").row_bytes(0), Some(0));
    assert_eq!(format("F32").row_bytes(usize::MAX), None);
    let error = format("Q4_0").decode(&[0; 18], &mut [0.0; 64]).unwrap_err();
    assert_eq!(error.to_string(), "Q4_0 takes 32 weights in 18 bytes, but there are 64 values and 18 bytes");
    let error = format("TQ2_0").encode(&[0.0; 256], &mut [0; 66]).unwrap_err();
    assert_eq!(error, Error::CannotQuantize { format: "TQ2_0" });
    assert_eq!(
        error.to_string(),
        "TQ2_0 can be read but not written; choose one of F32, F16, Q4_0, Q4_1, Q5_0, Q5_1, Q8_0, Q2_K, Q3_K, Q4_K, Q5_K, Q6_K, \
         IQ4_NL, IQ4_XS, BF16, MXFP4"
    );
}

#[test]
fn every_gguf_type_has_the_name_and_the_block_of_the_package() {
    let mut named = 0;
    for line in String::from_utf8(fixture("types", "txt")).unwrap().lines() {
        let [id, name, weights, bytes] = line.split(' ').collect::<Vec<_>>()[..] else { panic!("{line}") };
        let status = gguf_type(id.parse().unwrap());
        assert_eq!(status.name(), Some(name), "type {id}");
        // The package still has the 40 bytes of the first version of Q8_1, which never stood in files.
        let bytes = if name == "Q8_1" { "36" } else { bytes };
        assert_eq!(status.block(), Some((weights.parse().unwrap(), bytes.parse().unwrap())), "{name}");
        assert!(!matches!(status, TypeStatus::Removed { .. }), "{name}");
        named += 1;
    }
    assert!(named >= 34, "{named} types in the fixture");
    let known = (0..1000).filter(|&id| gguf_type(id).block().is_some()).count();
    assert_eq!(known, named, "a type that the package does not have");
}

#[test]
fn types_that_were_removed_or_never_were_are_told_apart() {
    let removed = (0..1000).filter_map(|id| match gguf_type(id) {
        TypeStatus::Removed { name } => Some((id, name)),
        _ => None,
    });
    let expected = [
        (4, "Q4_2"),
        (5, "Q4_3"),
        (31, "Q4_0_4_4"),
        (32, "Q4_0_4_8"),
        (33, "Q4_0_8_8"),
        (36, "IQ4_NL_4_4"),
        (37, "IQ4_NL_4_8"),
        (38, "IQ4_NL_8_8"),
    ];
    assert_eq!(removed.collect::<Vec<_>>(), expected);
    assert_eq!(gguf_type(31).block(), None);
    for id in [42, 200, 1 << 16, u32::MAX] {
        assert_eq!(gguf_type(id), TypeStatus::Unknown);
        assert_eq!(gguf_type(id).name(), None);
    }
}

/// The integer formats that can be written, with the number of steps that their scale is multiplied by at most.
const INTEGER: [(&str, f32); 5] = [("Q4_0", 8.0), ("Q4_1", 15.0), ("Q5_0", 16.0), ("Q5_1", 31.0), ("Q8_0", 127.0)];

/// Checks that the round trip is finite and within half a step.
fn check_bound(name: &str, values: &[f32]) {
    let (bytes, decoded) = round_trip(format(name), values);
    let blocks = bytes.chunks_exact(format(name).block_bytes);
    for (block, (values, decoded)) in blocks.zip(values.chunks_exact(32).zip(decoded.chunks_exact(32))) {
        let d = scale(block).abs();
        let largest = values.iter().fold(0.0f32, |acc, x| acc.max(x.abs()));
        // The products and sums of the codec round to f32, where subnormals are 1.4e-45 apart.
        let bound = d / 2.0 + largest * 4.0 * f32::EPSILON + 1e-43;
        for (value, decoded) in values.iter().zip(decoded) {
            assert!(decoded.is_finite(), "{name}: {value} became {decoded}");
            assert!((value - decoded).abs() <= bound, "{name}: {value} became {decoded}, scale {d}");
        }
    }
}

#[test]
fn extreme_blocks_stay_within_half_a_step() {
    let mut one_tiny = [0.0f32; 32];
    one_tiny[5] = 1e-45;
    let mut both_signs = [0.25f32; 32];
    both_signs[0] = -1.0;
    both_signs[31] = 1.0;
    for (name, _) in INTEGER {
        for block in [[0.0f32; 32], [-0.0; 32], [1e-40; 32], [3e-6; 32], [-3e-6; 32], one_tiny, both_signs] {
            check_bound(name, &block);
        }
        // Twice the step that f16 has there, so that the rounding of a minimum is many steps.
        check_bound(name, &std::array::from_fn::<f32, 32, _>(|i| 1000.3 + i as f32 / 32.0));
        check_bound(name, &[format(name).largest; 32]);
        check_bound(name, &[-format(name).largest; 32]);
    }
}

#[test]
fn zeros_become_zeros() {
    for (name, _) in INTEGER {
        for zero in [0.0f32, -0.0] {
            let (bytes, decoded) = round_trip(format(name), &[zero; 64]);
            assert_eq!(scale(&bytes), 0.0, "{name}");
            assert!(decoded.iter().all(|&x| x == 0.0), "{name}");
        }
    }
}

#[test]
fn codes_come_from_the_stored_scale() {
    // 3e-6 / 127 is 2.4e-8, which rounds to 0 in f16; the smallest subnormal, 2^-24, is stored instead.
    let (bytes, decoded) = round_trip(format("Q8_0"), &[3e-6; 32]);
    assert_eq!(scale(&bytes), 2f32.powi(-24));
    assert_eq!(bytes[2], 50);
    assert!(decoded.iter().all(|&x| (x - 3e-6).abs() < 2e-8));
    // The scale of 0.1 rounds down in f16, so that 0.1 is 127.05 steps of the stored one: the code is still 127.
    let (bytes, _) = round_trip(format("Q8_0"), &[0.1; 32]);
    assert_eq!(bytes[2..], [127; 32]);
    // A block whose values are codes times a scale comes back exactly.
    let exact: Vec<f32> = (0..32).map(|i| (i % 16 - 8) as f32 * 0.5).collect();
    let (bytes, decoded) = round_trip(format("Q4_0"), &exact);
    assert_eq!((scale(&bytes), decoded), (0.5, exact));
}

#[test]
fn q4_0_bytes_are_as_the_format_says() {
    // -8 has the largest magnitude, so the scale is 1 and weight i has the code i % 16.
    let values: Vec<f32> = (0..32).map(|i| (i % 16 - 8) as f32).collect();
    let (bytes, _) = round_trip(format("Q4_0"), &values);
    let mut expected = vec![0x00, 0x3c];
    expected.extend((0..16).map(|j| j | j << 4));
    assert_eq!(bytes, expected);
}

#[test]
fn values_that_do_not_fit_are_refused_with_their_index() {
    for format in FORMATS.iter().filter(|format| format.quantize.is_some()) {
        let mut bytes = vec![0x55; format.row_bytes(256).unwrap()];
        let mut values = [1.0f32; 256];
        values[40] = f32::NAN;
        let error = format.encode(&values, &mut bytes).unwrap_err();
        assert!(matches!(error, Error::NotFinite { index: 40, .. }), "{}: {error}", format.name);
        values[40] = f32::NEG_INFINITY;
        let error = format.encode(&values, &mut bytes).unwrap_err();
        assert!(matches!(error, Error::NotFinite { index: 40, .. }), "{}: {error}", format.name);
        if format.largest < f32::MAX {
            values[40] = (-format.largest).next_down();
            let error = format.encode(&values, &mut bytes).unwrap_err();
            assert!(matches!(error, Error::TooLarge { index: 40, .. }), "{}: {error}", format.name);
        }
        assert!(bytes.iter().all(|&byte| byte == 0x55), "{}: refused, and written all the same", format.name);
        values[40] = format.largest;
        format.encode(&values, &mut bytes).unwrap();
    }
    // 9e6 needs a scale of 70866 in Q8_0, and 6e5 one of 75000 in Q4_0: above the largest f16, 65504.
    assert!(format("Q8_0").encode(&[9e6; 32], &mut [0; 34]).is_err());
    assert!(format("Q4_0").encode(&[6e5; 32], &mut [0; 18]).is_err());
}

#[test]
fn unchecked_encoders_saturate_and_stay_finite() {
    for (name, steps) in INTEGER {
        for bad in [f32::NAN, f32::INFINITY, f32::NEG_INFINITY, f32::MAX, f32::MIN, 9e6, -9e6] {
            let mut values = [0.5f32; 32];
            values[3] = bad;
            let (bytes, decoded) = round_trip(format(name), &values);
            assert!(scale(&bytes).is_finite(), "{name} {bad}");
            assert!(decoded.iter().all(|x| x.is_finite() && x.abs() <= (steps + 1.0) * 65504.0), "{name} {bad}");
        }
        let mut values = [0.5f32; 32];
        values[3] = f32::NAN;
        let (_, decoded) = round_trip(format(name), &values);
        assert!(decoded[3].abs() <= 0.04, "{name}: NaN counts as 0, not {}", decoded[3]);
    }
    let (_, decoded) = round_trip(format("F16"), &[f32::NAN, 1e6, -1e6]);
    assert!(decoded[0].is_nan() && decoded[1] == f32::INFINITY && decoded[2] == f32::NEG_INFINITY);
}

#[test]
fn infinite_scales_decode_without_a_panic() {
    // The bits below are infinite and NaN as f16; the formats left out have no f16 in them.
    for format in FORMATS.iter().filter(|format| !matches!(format.name, "F32" | "BF16" | "MXFP4" | "NVFP4")) {
        let mut values = vec![0.0; format.block_weights * 3];
        for bits in [0x7c00u16, 0xfc00, 0x7e00, 0xffff] {
            let mut bytes: Vec<u8> = (0..format.block_bytes * 3).map(|i| bits.to_le_bytes()[i % 2]).collect();
            if format.name == "IQ1_M" {
                // Its half float stands in the top four bits of each of the last four u16.
                for (quarter, packed) in bytes[2 * 56 + 48..].chunks_exact_mut(2).enumerate() {
                    packed[1] = ((bits >> (4 * quarter) & 15) as u8) << 4;
                }
            }
            format.decode(&bytes, &mut values).unwrap();
            assert!(values.iter().any(|x| !x.is_finite()), "{}: a broken scale must show", format.name);
        }
    }
}

#[test]
fn mxfp4_is_written_as_the_package_writes_it() {
    let values: Vec<f32> =
        fixture("MXFP4", "inputs").chunks_exact(4).map(|x| f32::from_le_bytes(x.try_into().unwrap())).collect();
    let expected = fixture("MXFP4", "quantized");
    let mut bytes = vec![0xaa; expected.len()];
    format("MXFP4").encode(&values, &mut bytes).unwrap();
    for (block, (bytes, expected)) in bytes.chunks_exact(17).zip(expected.chunks_exact(17)).enumerate() {
        assert_eq!(bytes, expected, "block {block}");
    }
}

#[test]
fn mxfp4_scales_reach_from_the_smallest_to_infinity() {
    let decoded = |e: u8, pair: u8| {
        let mut bytes = [pair; 17];
        bytes[0] = e;
        let mut values = [f32::NAN; 32];
        format("MXFP4").decode(&bytes, &mut values).unwrap();
        (values[0], values[31])
    };
    // Codes 1 and 15 are 0.5 and -6.
    assert_eq!(decoded(127, 0xf1), (0.5, -6.0));
    assert_eq!(decoded(0, 0xf1), (0.5 * 2f32.powi(-127), -6.0 * 2f32.powi(-127)));
    assert_eq!(decoded(1, 0xf1), (2f32.powi(-127), -6.0 * 2f32.powi(-126)));
    assert_eq!(decoded(255, 0xf1), (2f32.powi(127), f32::NEG_INFINITY));
    // Magnitudes below what the smallest scale can tell from zero, and above the largest that is written.
    let (bytes, values) = round_trip(format("MXFP4"), &[1e-45; 32]);
    assert_eq!((bytes[0], values[0]), (0, 0.0));
    let (_, values) = round_trip(format("MXFP4"), &[f32::MAX, f32::NEG_INFINITY].repeat(16));
    let largest = format("MXFP4").largest;
    assert_eq!(values[..2], [largest, -largest]);
}

#[test]
fn floats_round_to_nearest_even() {
    let (bytes, decoded) = round_trip(format("BF16"), &[1.0 + 1.0 / 256.0, 1.0 + 3.0 / 256.0, -2.5, 0.0]);
    assert_eq!(decoded, [1.0, 1.015625, -2.5, 0.0]);
    assert_eq!(bytes[..2], [0x80, 0x3f]);
    let (_, decoded) = round_trip(format("F16"), &[1.0 + 1.0 / 2048.0, 65504.0, 1e-8, 6e-8]);
    assert_eq!(decoded, [1.0, 65504.0, 0.0, 2f32.powi(-24)]);
    let (_, decoded) = round_trip(format("F32"), &[1e-45, f32::MAX, -0.0]);
    assert_eq!(bits(&decoded), bits(&[1e-45, f32::MAX, -0.0]));
}

fn bits(values: &[f32]) -> Vec<u32> {
    values.iter().map(|x| x.to_bits()).collect()
}

proptest! {
    #[test]
    fn any_block_stays_within_half_a_step(
        exponent in -45i32..5,
        offset in -1.0f32..1.0,
        values in prop::collection::vec(-1.0f32..1.0, 64),
    ) {
        let size = 10f32.powi(exponent);
        let values: Vec<f32> = values.iter().map(|x| (x * 0.3 + offset * 0.3) * size).collect();
        for (name, _) in INTEGER {
            check_bound(name, &values);
        }
    }

    #[test]
    fn encoding_what_was_decoded_changes_little_more(values in prop::collection::vec(-1.0f32..1.0, 32)) {
        for (name, _) in INTEGER {
            let (_, once) = round_trip(format(name), &values);
            check_bound(name, &once);
        }
    }

    #[test]
    fn any_bytes_decode(bytes in prop::collection::vec(any::<u8>(), 420)) {
        for format in FORMATS {
            let blocks = bytes.len() / format.block_bytes;
            let mut values = vec![0.0; blocks * format.block_weights];
            format.decode(&bytes[..blocks * format.block_bytes], &mut values).unwrap();
        }
    }
}
