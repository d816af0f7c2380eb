//! The grids of the IQ formats, and the signs that go with them.
//!
//! An IQ format codes four or eight weights together: an index names a row of a grid, the row gives a magnitude for
//! each weight, and signs are stored apart. (The rows of [`IQ1`] have their signs in them.) Which rows there are
//! is part of the format, chosen once by its author; nothing computes them.
//!
//! In the source a row is one hexadecimal number with a digit for each weight, the first weight's digit first; a digit
//! says which of the grid's few values it is: `0x10210000` in an IQ2 grid is 25, 8, 43, 25, 8, 8, 8, 8. The statics below
//! have the values themselves, spread out at compile time.

mod iq1;
mod iq2;
mod iq3;

/// What the digits of the IQ2 grids stand for.
const IQ2_VALUES: [i8; 3] = [8, 25, 43];

/// Rows of IQ1_S and IQ1_M.
pub(super) static IQ1: [[i8; 8]; 2048] = spread_8(iq1::IQ1_S, [-1, 0, 1]);
/// Rows of IQ2_XXS.
pub(super) static IQ2_XXS: [[i8; 8]; 256] = spread_8(iq2::IQ2_XXS, IQ2_VALUES);
/// Rows of IQ2_XS.
pub(super) static IQ2_XS: [[i8; 8]; 512] = spread_8(iq2::IQ2_XS, IQ2_VALUES);
/// Rows of IQ2_S.
pub(super) static IQ2_S: [[i8; 8]; 1024] = spread_8(iq2::IQ2_S, IQ2_VALUES);
/// Rows of IQ3_XXS.
pub(super) static IQ3_XXS: [[i8; 4]; 256] = spread_4(iq3::IQ3_XXS, [4, 12, 20, 28, 36, 44, 52, 62]);
/// Rows of IQ3_S.
pub(super) static IQ3_S: [[i8; 4]; 512] = spread_4(iq3::IQ3_S, [1, 3, 5, 7, 9, 11, 13, 15]);

const fn spread_8<const ROWS: usize>(digits: [u32; ROWS], values: [i8; 3]) -> [[i8; 8]; ROWS] {
    let mut rows = [[0; 8]; ROWS];
    let mut at = 0;
    while at < 8 * ROWS {
        rows[at / 8][at % 8] = values[(digits[at / 8] >> (28 - 4 * (at % 8)) & 15) as usize];
        at += 1;
    }
    rows
}

const fn spread_4<const ROWS: usize>(digits: [u16; ROWS], values: [i8; 8]) -> [[i8; 4]; ROWS] {
    let mut rows = [[0; 4]; ROWS];
    let mut at = 0;
    while at < 4 * ROWS {
        rows[at / 4][at % 4] = values[(digits[at / 4] >> (12 - 4 * (at % 4)) & 15) as usize];
        at += 1;
    }
    rows
}

/// The signs of eight weights from the seven bits that some formats store: bit `j` is set where weight `j` is negative.
/// The eighth sign makes the number of negative weights even.
pub(super) fn signs(seven_bits: u32) -> u8 {
    let bits = (seven_bits & 127) as u8;
    bits | ((bits.count_ones() & 1) << 7) as u8
}

/// Writes a row's magnitudes times `scale` to `values`; negative where the bits of `signs` from the lowest up say so.
pub(super) fn write_row<const WIDTH: usize>(row: &[i8; WIDTH], scale: f32, signs: u8, values: &mut [f32]) {
    for (j, (value, &magnitude)) in values[..WIDTH].iter_mut().zip(row).enumerate() {
        // The bit becomes the sign bit of the float: no branch, which would go either way as often.
        let negative = u32::from(signs >> j & 1) << 31;
        *value = f32::from_bits((scale * f32::from(magnitude)).to_bits() ^ negative);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check<const WIDTH: usize>(name: &str, rows: &[[i8; WIDTH]]) {
        let path = format!("{}/tests/fixtures/{name}.grid", env!("CARGO_MANIFEST_DIR"));
        let expected = std::fs::read(&path).unwrap_or_else(|error| panic!("{path}: {error}"));
        assert_eq!(expected.len(), WIDTH * rows.len(), "{name}");
        for (index, (row, expected)) in rows.iter().zip(expected.chunks_exact(WIDTH)).enumerate() {
            assert_eq!(row.map(|x| x as u8), expected, "{name} row {index}");
        }
    }

    #[test]
    fn every_row_is_that_of_the_package() {
        check("IQ1_S", &IQ1);
        check("IQ2_XXS", &IQ2_XXS);
        check("IQ2_XS", &IQ2_XS);
        check("IQ2_S", &IQ2_S);
        check("IQ3_XXS", &IQ3_XXS);
        check("IQ3_S", &IQ3_S);
    }

    #[test]
    fn the_example_of_the_documentation_is_right() {
        let row = iq2::IQ2_XXS.iter().position(|&row| row == 0x1021_0000);
        assert_eq!(row.map(|row| IQ2_XXS[row]), Some([25, 8, 43, 25, 8, 8, 8, 8]));
    }

    #[test]
    fn every_sign_pattern_is_that_of_the_package() {
        let path = format!("{}/tests/fixtures/signs.bin", env!("CARGO_MANIFEST_DIR"));
        let expected = std::fs::read(&path).unwrap_or_else(|error| panic!("{path}: {error}"));
        assert_eq!(expected, (0..128).map(signs).collect::<Vec<u8>>());
    }
}
