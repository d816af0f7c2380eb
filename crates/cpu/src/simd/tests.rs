//! Every operation of every instruction set of this CPU against plain arrays, to the bit.

use half::f16;
use proptest::prelude::*;

use super::{CodeKind, LANES, PANEL_ROWS, Portable, Simd, Task, exp, gelu_tanh, silu, tanh};
use crate::isa::Isa;

/// What the operations are tried on.
#[derive(Debug, Clone, Copy)]
struct Operands {
    /// Any floats, also infinite ones and NaN.
    any: [[f32; LANES]; 3],
    /// Floats within i8, with halves among them.
    small: [[f32; LANES]; 4],
    /// Any bytes: eight words of four for each row of a panel.
    bytes: [[u8; 4 * PANEL_ROWS]; 8],
    /// Codes of activations: -127..=127.
    codes: [[i8; 4]; 8],
    /// Numbers of a table.
    table: [i8; 16],
}

/// The name of an operation, and the bits of its result.
type Found = (&'static str, Vec<u32>);

/// Runs every operation on the operands.
struct EveryOperation<'a>(&'a Operands);

impl Task for EveryOperation<'_> {
    type Output = Vec<Found>;

    #[inline(always)]
    fn run<S: Simd>(self, s: S) -> Vec<Found> {
        let mut found = floats(s, self.0);
        found.extend(half_floats(s, self.0));
        found.extend(rows(s, self.0));
        found
    }
}

/// The bits of a vector of floats; all NaN are one, because which of two operands hands on its own is nobody's promise.
#[inline(always)]
fn lanes<S: Simd>(s: S, x: S::F) -> Vec<u32> {
    let mut to = [0.0; LANES];
    s.store(x, &mut to);
    to.iter().copied().map(one).collect()
}

fn one(x: f32) -> u32 {
    if x.is_nan() { f32::NAN.to_bits() } else { x.to_bits() }
}

#[inline(always)]
fn floats<S: Simd>(s: S, operands: &Operands) -> Vec<Found> {
    let [a, b, c] = [0, 1, 2].map(|i| s.load(&operands.any[i]));
    let small = [0, 1, 2, 3].map(|i| s.load(&operands.small[i]));
    let whole = s.round(small[0]);
    let mut codes = [[0; 4]; 8];
    let sums = s.round_to_i8(small, &mut codes);
    vec![
        ("splat", lanes(s, s.splat(operands.any[0][0]))),
        ("load, store", lanes(s, a)),
        ("add", lanes(s, s.add(a, b))),
        ("sub", lanes(s, s.sub(a, b))),
        ("mul", lanes(s, s.mul(a, b))),
        ("div", lanes(s, s.div(a, b))),
        ("mul_add", lanes(s, s.mul_add(a, b, c))),
        ("max", lanes(s, s.max(a, b))),
        ("min", lanes(s, s.min(a, b))),
        ("abs", lanes(s, s.abs(a))),
        ("round", lanes(s, s.round(a))),
        ("round of small numbers", lanes(s, whole)),
        ("power_of_two", lanes(s, s.power_of_two(whole))),
        ("zero_below", lanes(s, s.zero_below(a, b, c))),
        ("sum", vec![one(s.sum(a))]),
        ("sum of small numbers", vec![one(s.sum(small[0]))]),
        // Which of both zeros is the largest does not matter: adding one makes them one.
        ("largest", vec![one(s.largest(small[0]) + 0.0)]),
        ("round_to_i8", codes.as_flattened().iter().map(|&code| code as u32).collect()),
        ("the sums of round_to_i8", sums.map(|sum| sum as u32).to_vec()),
    ]
}

#[inline(always)]
fn half_floats<S: Simd>(s: S, operands: &Operands) -> Vec<Found> {
    let mut narrow = [[f16::ZERO; LANES]; 2];
    s.store_f16(s.load(&operands.any[0]), &mut narrow[0]);
    s.store_f16(s.load(&operands.small[0]), &mut narrow[1]);
    vec![
        // NaN keeps its sign and the upper bits of what it carries.
        ("store_f16", narrow.as_flattened().iter().map(|half| u32::from(half.to_bits())).collect()),
    ]
}

/// The words of all rows of a panel that an operation on a vector of rows from `first` gives.
#[inline(always)]
fn words<S: Simd>(s: S, f: impl Fn(usize) -> S::Words) -> Vec<u32> {
    let mut to = [0; 4 * PANEL_ROWS];
    for first in (0..PANEL_ROWS).step_by(S::ROWS) {
        s.put_words(f(first), &mut to[4 * first..]);
    }
    to.as_chunks::<4>().0.iter().map(|word| u32::from_le_bytes(*word)).collect()
}

/// The same for two results.
#[inline(always)]
fn words_of_two<S: Simd>(s: S, f: impl Fn(usize) -> [S::Words; 2]) -> Vec<u32> {
    [words(s, |first| f(first)[0]), words(s, |first| f(first)[1])].concat()
}

/// The same for floats.
#[inline(always)]
fn numbers<S: Simd>(s: S, f: impl Fn(usize) -> S::Floats) -> Vec<u32> {
    let mut to = [0.0; PANEL_ROWS];
    for first in (0..PANEL_ROWS).step_by(S::ROWS) {
        s.put(f(first), &mut to[first..]);
    }
    to.map(one).to_vec()
}

#[inline(always)]
fn rows<S: Simd>(s: S, operands: &Operands) -> Vec<Found> {
    let Operands { any, bytes, table, .. } = operands;
    let a = |first: usize| s.words(&bytes[0][4 * first..]);
    let b = |first: usize| s.words(&bytes[1][4 * first..]);
    let floats = [0, 1, 2].map(|i| [any[i], any[(i + 1) % 3]]);
    let x = |first: usize| s.get(&floats[0].as_flattened()[first..]);
    let y = |first: usize| s.get(&floats[1].as_flattened()[first..]);
    let z = |first: usize| s.get(&floats[2].as_flattened()[first..]);
    let halves: [f16; PANEL_ROWS] = std::array::from_fn(|i| f16::from_le_bytes([bytes[0][2 * i], bytes[0][2 * i + 1]]));
    let mut found = vec![
        ("zeros", words(s, |_| s.zeros())),
        ("words", words(s, a)),
        ("words_of_u16", words(s, |first| s.words_of_u16(&bytes[0][2 * first..]))),
        ("words_of_u8", words(s, |first| s.words_of_u8(&bytes[0][first..]))),
        ("field 0", words(s, |first| s.field::<0>(a(first), 15))),
        ("field 2", words(s, |first| s.field::<2>(a(first), 3))),
        ("field 4", words(s, |first| s.field::<4>(a(first), 15))),
        ("field_at 6", words(s, |first| s.field_at(a(first), 6, 3))),
        ("field_at 7", words(s, |first| s.field_at(a(first), 7, 1))),
        ("raise 4", words(s, |first| s.raise::<4>(s.field::<0>(a(first), 15)))),
        ("raise 2", words(s, |first| s.raise::<2>(s.field::<0>(a(first), 15)))),
        ("either", words(s, |first| s.either(a(first), b(first)))),
        ("names", words(s, |first| s.names(table, s.field::<0>(a(first), 15)))),
        ("floats", numbers(s, |first| s.floats(a(first)))),
        ("floats_of_bits 0", numbers(s, |first| s.floats_of_bits::<0>(a(first)))),
        ("floats_of_bits 16", numbers(s, |first| s.floats_of_bits::<16>(a(first)))),
        ("floats_of_f16", numbers(s, |first| s.floats_of_f16(&bytes[0][2 * first..]))),
        ("floats_of_halves", numbers(s, |first| s.floats_of_halves(&halves[first..]))),
        ("get, put", numbers(s, x)),
        ("all", numbers(s, |_| s.all(any[0][0]))),
        ("times", numbers(s, |first| s.times(x(first), y(first)))),
        ("plus", numbers(s, |first| s.plus(x(first), y(first)))),
        ("times_plus", numbers(s, |first| s.times_plus(x(first), y(first), z(first)))),
    ];
    for index in 0..4 {
        found.push(("byte", words(s, |first| s.byte(a(first), index))));
        found.push(("signed_byte", words(s, |first| s.signed_byte(a(first), index))));
    }
    for kind in KINDS {
        found.push(("dot of eight words", words(s, |first| dot::<S, 8>(s, kind, operands, first))));
        found.push(("dot of four words", words(s, |first| dot::<S, 4>(s, kind, operands, first))));
        found.push(("dot of eight words for two", words_of_two(s, |first| dot_two::<S, 8>(s, kind, operands, first))));
        found.push(("dot of four words for two", words_of_two(s, |first| dot_two::<S, 4>(s, kind, operands, first))));
        found.push(("dot in steps", words(s, |first| steps(s, kind, operands, first))));
    }
    found
}

/// Every number of bits that a code may have.
const KINDS: [CodeKind; 6] = [
    CodeKind { bits: 2, zero: 0 },
    CodeKind { bits: 3, zero: 4 },
    CodeKind { bits: 4, zero: 8 },
    CodeKind { bits: 5, zero: 16 },
    CodeKind { bits: 6, zero: 32 },
    CodeKind { bits: 8, zero: 0 },
];

/// The first `N` words of codes of a kind.
#[inline(always)]
fn codes<S: Simd, const N: usize>(s: S, kind: CodeKind, operands: &Operands, first: usize) -> [S::Words; N] {
    let mask = if kind.bits == 8 { 255 } else { (1 << kind.bits) - 1 };
    let mut codes = [s.zeros(); N];
    for (word, codes) in codes.iter_mut().enumerate() {
        *codes = s.field::<0>(s.words(&operands.bytes[word][4 * first..]), mask);
    }
    codes
}

fn minus_eight_sums(activations: &[[i8; 4]]) -> i32 {
    -8 * activations.as_flattened().iter().map(|&code| i32::from(code)).sum::<i32>()
}

#[inline(always)]
fn dot<S: Simd, const N: usize>(s: S, kind: CodeKind, operands: &Operands, first: usize) -> S::Words {
    let activations: &[[i8; 4]; N] = operands.codes.first_chunk().expect("at most eight words");
    s.dot(kind, &codes(s, kind, operands, first), activations, minus_eight_sums(activations))
}

/// Of the activations, and of the same with the other sign and in reverse.
#[inline(always)]
fn dot_two<S: Simd, const N: usize>(s: S, kind: CodeKind, operands: &Operands, first: usize) -> [S::Words; 2] {
    let mut codes: [S::Words; N] = codes(s, kind, operands, first);
    for pair in codes.as_chunks_mut::<2>().0 {
        *pair = s.for_two(*pair);
    }
    let a: &[[i8; 4]; N] = operands.codes.first_chunk().expect("at most eight words");
    let mut b = a.map(|four| four.map(|code| -code));
    b.reverse();
    s.dot_two(kind, &codes, [a, &b], [minus_eight_sums(a), minus_eight_sums(&b)])
}

#[inline(always)]
fn steps<S: Simd>(s: S, kind: CodeKind, operands: &Operands, first: usize) -> S::Words {
    let codes: [S::Words; 8] = codes(s, kind, operands, first);
    let mut sum = s.start(kind, minus_eight_sums(&operands.codes));
    for (&codes, &activations) in codes.iter().zip(&operands.codes) {
        sum = s.step(kind, sum, s.for_steps(kind, codes), activations);
    }
    sum
}

/// Compares all instruction sets with plain arrays.
fn compare(operands: &Operands) {
    let expected = Isa::Scalar(Portable).run(EveryOperation(operands));
    for isa in Isa::available() {
        for (found, expected) in isa.run(EveryOperation(operands)).iter().zip(&expected) {
            assert_eq!(found, expected, "{} with {operands:?}", isa.name());
        }
    }
}

fn some_floats() -> impl Strategy<Value = f32> {
    prop_oneof![any::<f32>(), -70000.0f32..70000.0, Just(f32::NAN)]
}

proptest! {
    #[test]
    fn every_operation_gives_the_bits_of_plain_arrays(
        any in prop::array::uniform3(prop::array::uniform8(some_floats())),
        small in prop::array::uniform4(prop::array::uniform8(-254i16..=254)),
        bytes in prop::collection::vec(any::<u8>(), 8 * 4 * PANEL_ROWS),
        codes in prop::array::uniform8(prop::array::uniform4(-127i8..=127)),
        table in prop::array::uniform16(any::<i8>()),
    ) {
        let bytes = *bytes.as_chunks().0.first_chunk().unwrap();
        compare(&Operands { any, small: small.map(|row| row.map(|x| f32::from(x) / 2.0)), bytes, codes, table });
    }
}

#[test]
fn the_largest_codes_do_not_wrap() {
    for (weight, activation) in [(128u8, 127i8), (128, -127), (127, -127), (255, 127), (255, -127)] {
        let any = [[65504.0; LANES], [65520.0; LANES], [f32::NEG_INFINITY; LANES]];
        let (small, bytes) = ([[0.0; LANES]; 4], [[weight; 4 * PANEL_ROWS]; 8]);
        compare(&Operands { any, small, bytes, codes: [[activation; 4]; 8], table: [0; 16] });
    }
}

#[test]
fn every_half_float_is_widened() {
    for first in (0..=u16::MAX).step_by(PANEL_ROWS) {
        let halves: [f16; PANEL_ROWS] = std::array::from_fn(|i| f16::from_bits(first + i as u16));
        let expected = halves.map(|half| one(half.to_f32()));
        for isa in Isa::available() {
            assert_eq!(isa.run(Widen(&halves)), expected, "{} from {first:04x}", isa.name());
        }
    }
}

struct Widen<'a>(&'a [f16; PANEL_ROWS]);

impl Task for Widen<'_> {
    type Output = Vec<u32>;

    #[inline(always)]
    fn run<S: Simd>(self, s: S) -> Vec<u32> {
        numbers(s, |first| s.floats_of_halves(&self.0[first..]))
    }
}

/// A digest (FNV-1a) of the bits that a function gives from -90 to 90.
struct Digest(usize);

impl Task for Digest {
    type Output = u64;

    #[inline(always)]
    fn run<S: Simd>(self, s: S) -> u64 {
        let mut digest = 0xcbf2_9ce4_8422_2325u64;
        for step in 0..3000 {
            let x: [f32; LANES] = std::array::from_fn(|lane| (step * LANES + lane) as f32 * (180.0 / 24_000.0) - 90.0);
            let x = s.load(&x);
            let result = match self.0 {
                0 => exp(s, x),
                1 => tanh(s, x),
                2 => silu(s, x),
                _ => gelu_tanh(s, x),
            };
            for bits in lanes(s, result) {
                digest = (digest ^ u64::from(bits)).wrapping_mul(0x0000_0100_0000_01b3);
            }
        }
        digest
    }
}

#[test]
fn functions_give_the_same_bits_on_every_cpu() {
    // Made on x86-64. What differs on another machine differs in the order of operations or in a fused one.
    let expected = [0xb97f_3807_f51d_4108, 0x01f1_a427_0f30_9480, 0x2f6d_a48c_2afa_e0f6, 0x1161_9190_e1a2_00bc];
    for isa in Isa::available() {
        let found = [0, 1, 2, 3].map(|function| isa.run(Digest(function)));
        assert_eq!(found, expected, "{}: exp, tanh, silu, gelu_tanh", isa.name());
    }
}
