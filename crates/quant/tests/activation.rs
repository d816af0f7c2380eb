//! The integer coding of activations, by its own rule.

use duan_quant::activation::{GROUP, SMALLEST, dequantize, quantize};
use proptest::prelude::*;

fn coded(values: &[f32]) -> (Vec<i8>, Vec<f32>, Vec<f32>) {
    let mut codes = vec![99; values.len()];
    let mut scales = vec![-1.0; values.len() / GROUP];
    quantize(values, &mut codes, &mut scales);
    let mut decoded = vec![f32::NAN; values.len()];
    dequantize(&codes, &scales, &mut decoded);
    (codes, scales, decoded)
}

#[test]
fn halves_go_to_the_even_code() {
    let mut values = [0.0f32; GROUP];
    values[..8].copy_from_slice(&[127.0, 0.5, 1.5, 2.5, -0.5, -1.5, -2.5, -127.0]);
    let (codes, scales, _) = coded(&values);
    assert_eq!(codes[..9], [127, 0, 2, 2, 0, -2, -2, -127, 0]);
    assert_eq!(scales, [1.0]);
}

#[test]
fn each_group_has_its_own_scale() {
    let mut values = [0.0f32; 3 * GROUP];
    values[3] = -2.0;
    values[GROUP + 1] = 1e20;
    let (codes, scales, _) = coded(&values);
    assert_eq!(scales, [2.0 / 127.0, 1e20 / 127.0, 0.0]);
    assert_eq!((codes[3], codes[GROUP + 1]), (-127, 127));
    assert_eq!(codes.iter().filter(|&&code| code != 0).count(), 2);
}

#[test]
fn tiny_groups_are_zeros_and_broken_ones_show() {
    assert_eq!(SMALLEST, 2f32.powi(-118));
    let (codes, scales, _) = coded(&[SMALLEST; GROUP]);
    assert_eq!((codes[0], scales[0]), (127, SMALLEST / 127.0));
    for tiny in [SMALLEST.next_down(), 1e-45, 0.0, -0.0] {
        let (codes, scales, decoded) = coded(&[tiny; GROUP]);
        assert_eq!((codes[0], scales[0]), (0, 0.0), "{tiny}");
        assert!(decoded.iter().all(|&x| x == 0.0));
    }
    for bad in [f32::NAN, -f32::NAN, f32::INFINITY, f32::NEG_INFINITY] {
        for position in [0, 13, 31] {
            let mut values = [1.0f32; 2 * GROUP];
            values[position] = bad;
            let (codes, scales, decoded) = coded(&values);
            assert!(scales[0].is_nan() && codes[..GROUP] == [0; GROUP], "{bad}");
            assert!(decoded[..GROUP].iter().all(|x| x.is_nan()));
            assert_eq!(codes[GROUP..], [127; GROUP], "the other group is untouched");
        }
    }
}

#[test]
fn large_floats_do_not_overflow() {
    let (codes, scales, decoded) = coded(&[3.4e38; GROUP]);
    assert_eq!(codes[0], 127);
    assert!(scales[0].is_finite() && (decoded[0] / 3.4e38 - 1.0).abs() < 1e-6);
}

proptest! {
    #[test]
    fn errors_are_at_most_half_a_step(exponent in -35i32..37, values in prop::collection::vec(-1.0f32..1.0, 64)) {
        let size = 10f32.powi(exponent);
        let values: Vec<f32> = values.iter().map(|x| x * size).collect();
        let (codes, scales, decoded) = coded(&values);
        for (index, (value, decoded)) in values.iter().zip(&decoded).enumerate() {
            let scale = scales[index / GROUP];
            prop_assert!((value - decoded).abs() <= scale * 0.5001, "{value} {decoded}");
            prop_assert!(codes[index] != -128);
        }
    }
}
