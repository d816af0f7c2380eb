//! Which format each matrix of a synthetic file gets.

use duan_quant::{Format, format_by_name};

/// A name that people type for a way to quantize a whole file.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Mix {
    /// The name, in lower case.
    pub name: &'static str,
    /// `general.file_type`, by the enumeration of the reference implementation.
    pub(super) file_type: u32,
    /// Most matrices' format, as GGUF calls it.
    main: &'static str,
    /// Whether some matrices get more bits.
    is_medium: bool,
}

const fn row(name: &'static str, file_type: u32, main: &'static str) -> Mix {
    Mix { name, file_type, main, is_medium: false }
}

/// Every mix: a format for all matrices, and `q4_k_m`.
pub const MIXES: &[Mix] = &[
    row("f32", 0, "F32"),
    row("f16", 1, "F16"),
    row("bf16", 32, "BF16"),
    row("q8_0", 7, "Q8_0"),
    row("q4_0", 2, "Q4_0"),
    row("q4_1", 3, "Q4_1"),
    row("q5_0", 8, "Q5_0"),
    row("q5_1", 9, "Q5_1"),
    row("q2_k", 10, "Q2_K"),
    row("q3_k", 12, "Q3_K"),
    row("q4_k", 14, "Q4_K"),
    row("q5_k", 16, "Q5_K"),
    row("q6_k", 18, "Q6_K"),
    row("iq4_nl", 25, "IQ4_NL"),
    row("iq4_xs", 30, "IQ4_XS"),
    row("mxfp4", 38, "MXFP4"),
    Mix { name: "q4_k_m", file_type: 15, main: "Q4_K", is_medium: true },
];

/// What a matrix is for, as far as its format depends on that.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Role {
    /// The embedding table and the output head.
    Vocabulary,
    /// Values, and the MLP's way down: more bits in some layers of a medium mix.
    Sensitive,
    /// Queries, keys and values in one: more bits in every layer of a medium mix.
    FusedQkv,
    /// Every other matrix.
    Plain,
}

impl Mix {
    /// The mix of this name; case does not matter.
    pub fn by_name(name: &str) -> Option<&'static Mix> {
        MIXES.iter().find(|mix| mix.name.eq_ignore_ascii_case(name))
    }

    /// The format of a matrix with rows of `columns` weights in a layer of `layers`.
    ///
    /// Block formats keep embedding table and head in Q6_K (Q8_0 in Q8_0), as `llama-quantize` does for the head; of a medium mix
    /// about half of the layers have their sensitive matrices in Q6_K. Where rows do not divide into blocks of 256, the
    /// format is [`fallback`]'s.
    pub(super) fn format_of(&self, role: Role, layer: usize, layers: usize, columns: usize) -> &'static Format {
        let is_float = matches!(self.main, "F32" | "F16" | "BF16");
        let name = match role {
            Role::Vocabulary if !is_float && self.main != "Q8_0" => "Q6_K",
            Role::Sensitive if self.is_medium && has_more_bits(layer, layers) => "Q6_K",
            Role::FusedQkv if self.is_medium => "Q5_K",
            _ => self.main,
        };
        let mut format = known(name);
        while !columns.is_multiple_of(format.block_weights) {
            format = known(fallback(format.name));
        }
        format
    }
}

/// The first and last eighth of the layers, and every third between.
fn has_more_bits(layer: usize, layers: usize) -> bool {
    layer < layers / 8 || layer >= 7 * layers / 8 || (layer - layers / 8) % 3 == 2
}

/// What `llama-quantize` takes instead of a format whose blocks do not divide the rows: blocks of 32 of a like size, then
/// half floats, whose rows always divide.
fn fallback(format: &str) -> &'static str {
    match format {
        "Q2_K" | "Q3_K" => "Q4_0",
        "Q4_K" => "Q5_0",
        "Q5_K" => "Q5_1",
        "Q6_K" => "Q8_0",
        "IQ4_XS" => "IQ4_NL",
        _ => "F16",
    }
}

/// A format that the tables above name.
fn known(name: &str) -> &'static Format {
    format_by_name(name).expect("the tables name formats that exist")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn names(mix: &str, role: Role, layers: usize, columns: usize) -> Vec<&'static str> {
        let mix = Mix::by_name(mix).unwrap();
        (0..layers).map(|layer| mix.format_of(role, layer, layers, columns).name).collect()
    }

    #[test]
    fn every_name_has_a_format() {
        for mix in MIXES {
            assert_eq!(Mix::by_name(&mix.name.to_uppercase()), Some(mix));
            for columns in [2048, 896, 33] {
                for role in [Role::Vocabulary, Role::Sensitive, Role::FusedQkv, Role::Plain] {
                    let format = mix.format_of(role, 0, 16, columns);
                    assert!(columns.is_multiple_of(format.block_weights), "{} {role:?} {columns}", mix.name);
                }
            }
        }
        assert!(Mix::by_name("q9_0").is_none());
    }

    #[test]
    fn a_medium_mix_gives_half_of_the_layers_more_bits() {
        let layers = names("q4_k_m", Role::Sensitive, 16, 2048);
        let more: Vec<usize> = (0..16).filter(|&layer| layers[layer] == "Q6_K").collect();
        assert_eq!(more, [0, 1, 4, 7, 10, 13, 14, 15]);
        assert_eq!(layers.iter().filter(|name| **name == "Q4_K").count(), 8);
        assert_eq!(names("q4_k_m", Role::FusedQkv, 2, 3072), ["Q5_K"; 2]);
        assert_eq!(names("q4_k", Role::Sensitive, 2, 2048), ["Q4_K"; 2]);
    }

    #[test]
    fn rows_that_do_not_divide_fall_back() {
        assert_eq!(names("q4_k_m", Role::Sensitive, 3, 896), ["Q5_0", "Q5_0", "Q8_0"]);
        assert_eq!(names("q4_0", Role::Vocabulary, 1, 896), ["Q8_0"]);
        assert_eq!(names("q2_k", Role::Plain, 1, 896), ["Q4_0"]);
        assert_eq!(names("iq4_xs", Role::Plain, 1, 896), ["IQ4_NL"]);
        assert_eq!(names("q4_0", Role::Plain, 1, 40), ["F16"]);
        assert_eq!(names("bf16", Role::Vocabulary, 1, 2048), ["BF16"]);
    }
}
