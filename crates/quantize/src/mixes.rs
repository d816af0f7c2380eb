//! The ways to quantize a whole file that people know by name, as tables.
//!
//! A mix has one format for most matrices, and rules that give more bits to some. The names are the field's, and so are the matrices and
//! their bits (the published behaviour of `llama-quantize`), because people compare files by these names. One thing differs on
//! purpose: an embedding table that is the head too gets 8 bits (Q8_0) in place of 6, as small models need it. And no rule asks for
//! a family's name.

use duan_quant::Format;

use crate::error::{Error, Result};
use crate::fallback::known;
use crate::roles::Role;

/// A name that people type for a way to quantize a whole file.
#[derive(Debug)]
pub struct Mix {
    /// The name, as in file names.
    pub name: &'static str,
    /// Another name for the same.
    pub alias: Option<&'static str>,
    /// `general.file_type`, by the enumeration of the reference implementation.
    pub file_type: u32,
    /// Most matrices' format, as GGUF calls it.
    main: &'static str,
    /// Rules beyond that; the first that holds counts.
    rules: &'static [&'static [Rule]],
}

/// A format for matrices of one role.
#[derive(Debug)]
struct Rule {
    role: Role,
    /// All of these must hold.
    when: &'static [When],
    format: &'static str,
}

/// What a rule asks of the tensor's place and of the model.
#[derive(Debug, Clone, Copy)]
enum When {
    /// The tensor is in the first eighth of the layers, in the last eighth, or one of every three between.
    EveryThird,
    /// It is in the first of so many parts of the layers.
    FirstOf(usize),
    /// It is one of the first so many of its role.
    First(usize),
    /// It is a stack of matrices: experts.
    Stacked,
    /// Four or more heads share keys and values, which makes their matrices small.
    SharedHeads,
    /// 80 layers and shared heads: the shape that people call 70B.
    Seventy,
    /// There are eight experts.
    EightExperts,
    /// Importance is given.
    Importance,
    /// No importance is given.
    NoImportance,
}

use When::{EightExperts, EveryThird, First, FirstOf, Importance, NoImportance, Seventy, SharedHeads, Stacked};

const fn rule(role: Role, when: &'static [When], format: &'static str) -> Rule {
    Rule { role, when, format }
}

/// Head and tables of every block format but Q8_0.
const TABLES: &[Rule] =
    &[rule(Role::Head, &[], "Q6_K"), rule(Role::TiedEmbedding, &[], "Q8_0"), rule(Role::LayerEmbedding, &[], "Q6_K")];

/// With eight experts attention is a small part of the file: more bits cost little.
const EXPERTS: &[Rule] = &[rule(Role::Value, &[EightExperts], "Q8_0"), rule(Role::Key, &[EightExperts], "Q8_0")];

/// The same for what follows attention, in mixes of few bits.
const EXPERTS_OUTPUT: &[Rule] = &[rule(Role::AttentionOutput, &[EightExperts], "Q5_K")];

const Q4_0_RULES: &[Rule] = &[rule(Role::Down, &[Importance, FirstOf(8)], "Q4_1")];
const Q5_0_RULES: &[Rule] = &[rule(Role::Down, &[Importance, FirstOf(8)], "Q5_1")];
const Q2_K_RULES: &[Rule] = &[
    rule(Role::Value, &[Seventy], "Q5_K"),
    rule(Role::Value, &[SharedHeads], "Q4_K"),
    rule(Role::Value, &[], "Q3_K"),
    rule(Role::AttentionOutput, &[], "Q3_K"),
    rule(Role::Down, &[], "Q3_K"),
];
const Q2_K_S_RULES: &[Rule] = &[
    rule(Role::Value, &[Seventy], "Q5_K"),
    rule(Role::Value, &[SharedHeads], "Q4_K"),
    rule(Role::Down, &[FirstOf(8)], "Q4_K"),
];
const Q3_K_S_RULES: &[Rule] = &[rule(Role::Value, &[Seventy], "Q5_K")];
const Q3_K_M_RULES: &[Rule] = &[
    rule(Role::Value, &[Seventy], "Q5_K"),
    rule(Role::Value, &[First(2)], "Q5_K"),
    rule(Role::Value, &[], "Q4_K"),
    rule(Role::AttentionOutput, &[], "Q4_K"),
    rule(Role::Down, &[FirstOf(16)], "Q5_K"),
    rule(Role::Down, &[], "Q4_K"),
];
const Q3_K_L_RULES: &[Rule] = &[
    // With eight experts what follows attention keeps the mix's own format.
    rule(Role::AttentionOutput, &[EightExperts], "Q3_K"),
    rule(Role::Value, &[], "Q5_K"),
    rule(Role::AttentionOutput, &[], "Q5_K"),
    rule(Role::Down, &[], "Q5_K"),
];
const Q4_K_S_RULES: &[Rule] = &[
    rule(Role::Value, &[Seventy], "Q5_K"),
    rule(Role::Value, &[First(4)], "Q5_K"),
    rule(Role::Down, &[FirstOf(8)], "Q5_K"),
];
const Q4_K_M_RULES: &[Rule] = &[
    rule(Role::Value, &[EveryThird], "Q6_K"),
    rule(Role::Value, &[Seventy], "Q5_K"),
    rule(Role::Down, &[EveryThird], "Q6_K"),
];
const Q5_K_M_RULES: &[Rule] = &[rule(Role::Value, &[EveryThird], "Q6_K"), rule(Role::Down, &[EveryThird], "Q6_K")];
const IQ4_RULES: &[Rule] =
    &[rule(Role::Value, &[SharedHeads], "Q5_K"), rule(Role::Down, &[NoImportance, FirstOf(8)], "Q5_K")];
const MXFP4_MOE_RULES: &[Rule] = &[
    rule(Role::Head, &[], "Q8_0"),
    rule(Role::TiedEmbedding, &[], "Q8_0"),
    rule(Role::LayerEmbedding, &[], "Q8_0"),
    rule(Role::Down, &[Stacked], "MXFP4"),
    rule(Role::Other, &[Stacked], "MXFP4"),
];

const fn mix(name: &'static str, file_type: u32, main: &'static str, rules: &'static [&'static [Rule]]) -> Mix {
    Mix { name, alias: None, file_type, main, rules }
}

const fn also(alias: &'static str, mix: Mix) -> Mix {
    Mix { alias: Some(alias), ..mix }
}

/// Every mix, the largest first.
pub static MIXES: &[Mix] = &[
    mix("F32", 0, "F32", &[]),
    mix("F16", 1, "F16", &[]),
    mix("BF16", 32, "BF16", &[]),
    mix("Q8_0", 7, "Q8_0", &[]),
    mix("Q6_K", 18, "Q6_K", &[TABLES, EXPERTS]),
    also("Q5_K", mix("Q5_K_M", 17, "Q5_K", &[TABLES, EXPERTS, Q5_K_M_RULES])),
    mix("Q5_K_S", 16, "Q5_K", &[TABLES, EXPERTS]),
    mix("Q5_1", 9, "Q5_1", &[TABLES, EXPERTS]),
    mix("Q5_0", 8, "Q5_0", &[TABLES, EXPERTS, Q5_0_RULES]),
    also("Q4_K", mix("Q4_K_M", 15, "Q4_K", &[TABLES, EXPERTS, EXPERTS_OUTPUT, Q4_K_M_RULES])),
    mix("Q4_K_S", 14, "Q4_K", &[TABLES, EXPERTS, EXPERTS_OUTPUT, Q4_K_S_RULES]),
    mix("Q4_1", 3, "Q4_1", &[TABLES, EXPERTS]),
    mix("Q4_0", 2, "Q4_0", &[TABLES, EXPERTS, Q4_0_RULES]),
    mix("IQ4_NL", 25, "IQ4_NL", &[TABLES, EXPERTS, EXPERTS_OUTPUT, IQ4_RULES]),
    mix("IQ4_XS", 30, "IQ4_XS", &[TABLES, EXPERTS, EXPERTS_OUTPUT, IQ4_RULES]),
    mix("MXFP4", 38, "MXFP4", &[TABLES, EXPERTS]),
    mix("MXFP4_MOE", 38, "Q8_0", &[MXFP4_MOE_RULES]),
    mix("Q3_K_L", 13, "Q3_K", &[TABLES, EXPERTS, Q3_K_L_RULES]),
    also("Q3_K", mix("Q3_K_M", 12, "Q3_K", &[TABLES, EXPERTS, EXPERTS_OUTPUT, Q3_K_M_RULES])),
    mix("Q3_K_S", 11, "Q3_K", &[TABLES, EXPERTS, EXPERTS_OUTPUT, Q3_K_S_RULES]),
    mix("Q2_K", 10, "Q2_K", &[TABLES, EXPERTS, EXPERTS_OUTPUT, Q2_K_RULES]),
    mix("Q2_K_S", 21, "Q2_K", &[TABLES, EXPERTS, Q2_K_S_RULES]),
];

/// What rules ask of a model.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct ModelFacts {
    /// Layers, as the model's keys say.
    pub(crate) layers: usize,
    /// Heads of queries for each head of keys and values, in the first layer.
    pub(crate) heads_per_kv_head: usize,
    /// Experts of a layer; 0 where there are none.
    pub(crate) experts: usize,
    /// Whether importance is given.
    pub(crate) has_importance: bool,
}

/// Where a matrix stands among those of its role.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Place {
    /// Its layer, or its number among them.
    pub(crate) index: usize,
    /// How many layers count.
    pub(crate) count: usize,
    /// Whether it is a stack of matrices.
    pub(crate) is_stacked: bool,
}

impl Mix {
    /// The mix of this name; case does not matter.
    ///
    /// # Errors
    /// Where there is none, and where most matrices' format has no encoder.
    pub fn by_name(name: &str) -> Result<&'static Mix> {
        let is_called = |known: &str| known.eq_ignore_ascii_case(name);
        let Some(mix) = MIXES.iter().find(|mix| is_called(mix.name) || mix.alias.is_some_and(is_called)) else {
            let what = format!("no format is called {}", duan_model::quoted(name));
            let names: Vec<&str> = Mix::usable().map(|mix| mix.name).collect();
            return Err(Error::Format { what, remedy: format!("choose one of {}", names.join(", ")) });
        };
        match mix.missing() {
            Some(missing) => Err(Error::unwritable(missing)),
            None => Ok(mix),
        }
    }

    /// The mixes that can be written: most matrices' format has an encoder.
    pub fn usable() -> impl Iterator<Item = &'static Mix> {
        MIXES.iter().filter(|mix| mix.missing().is_none())
    }

    /// The format of most matrices, where it has no encoder. What rules and fallbacks choose is known only with a model's shapes.
    fn missing(&self) -> Option<&'static str> {
        (!self.main_format().is_writable()).then_some(self.main)
    }

    /// Most matrices' format.
    pub fn main_format(&self) -> &'static Format {
        known(self.main)
    }

    /// The format of a matrix, before rows are looked at.
    pub(crate) fn format_of(&self, role: Role, place: Place, facts: &ModelFacts) -> &'static Format {
        let holds = |rule: &&Rule| rule.role == role && rule.when.iter().all(|when| when.holds(place, facts));
        let rule = self.rules.iter().copied().flatten().find(holds);
        known(rule.map_or(self.main, |rule| rule.format))
    }
}

impl When {
    fn holds(self, place: Place, facts: &ModelFacts) -> bool {
        let Place { index, count, is_stacked } = place;
        match self {
            EveryThird => index < count / 8 || index >= 7 * count / 8 || (index - count / 8) % 3 == 2,
            FirstOf(parts) => index < count / parts,
            First(many) => index < many,
            Stacked => is_stacked,
            SharedHeads => facts.heads_per_kv_head >= 4,
            Seventy => facts.layers == 80 && facts.heads_per_kv_head > 1,
            EightExperts => facts.experts == 8,
            Importance => facts.has_importance,
            NoImportance => !facts.has_importance,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn named(name: &str) -> &'static Mix {
        MIXES.iter().find(|mix| mix.name == name).unwrap()
    }

    fn formats(mix: &str, role: Role, count: usize, facts: &ModelFacts) -> Vec<&'static str> {
        let mix = named(mix);
        (0..count).map(|index| mix.format_of(role, Place { index, count, is_stacked: false }, facts).name).collect()
    }

    #[test]
    fn every_table_names_formats_and_file_types_once() {
        let facts = ModelFacts { layers: 16, heads_per_kv_head: 4, ..ModelFacts::default() };
        for mix in MIXES {
            assert!(mix.main_format().bits_per_weight() >= 2.0);
            mix.rules.iter().copied().flatten().for_each(|rule| assert!(!known(rule.format).name.is_empty()));
            let is_float = matches!(mix.main, "F32" | "F16" | "BF16");
            for role in [Role::Head, Role::TiedEmbedding] {
                let bits =
                    mix.format_of(role, Place { index: 0, count: 1, is_stacked: false }, &facts).bits_per_weight();
                assert!(bits >= if role == Role::Head { 6.0 } else { 8.0 }, "{} {role:?}", mix.name);
                assert!(is_float || bits < 9.0);
            }
            let same = MIXES.iter().filter(|other| other.file_type == mix.file_type).count();
            assert!(same == 1 || mix.file_type == 38, "{}", mix.name);
        }
        assert_eq!(Mix::by_name("q8_0").unwrap().name, "Q8_0");
        let error = Mix::by_name("q9_0\n").unwrap_err().to_string();
        assert!(error.starts_with("no format is called q9_0\\n; choose one of F32, F16"), "{error}");
    }

    #[test]
    fn a_medium_mix_gives_half_of_the_layers_more_bits() {
        let facts = ModelFacts::default();
        let layers = formats("Q4_K_M", Role::Down, 16, &facts);
        let more: Vec<usize> = (0..16).filter(|&layer| layers[layer] == "Q6_K").collect();
        assert_eq!(more, [0, 1, 4, 7, 10, 13, 14, 15]);
        assert_eq!(layers.iter().filter(|name| **name == "Q4_K").count(), 8);
        assert_eq!(formats("Q4_K_S", Role::Value, 6, &facts), ["Q5_K", "Q5_K", "Q5_K", "Q5_K", "Q4_K", "Q4_K"]);
        assert_eq!(formats("Q3_K_M", Role::Value, 3, &facts), ["Q5_K", "Q5_K", "Q4_K"]);
    }

    #[test]
    fn shape_and_importance_change_some_formats() {
        let shared = ModelFacts { heads_per_kv_head: 4, ..ModelFacts::default() };
        assert_eq!(formats("Q2_K", Role::Value, 1, &ModelFacts::default()), ["Q3_K"]);
        assert_eq!(formats("Q2_K", Role::Value, 1, &shared), ["Q4_K"]);
        assert_eq!(formats("IQ4_XS", Role::Value, 1, &shared), ["Q5_K"]);
        let important = ModelFacts { has_importance: true, ..ModelFacts::default() };
        assert_eq!(formats("IQ4_XS", Role::Down, 8, &ModelFacts::default())[..2], ["Q5_K", "IQ4_XS"]);
        assert_eq!(formats("IQ4_XS", Role::Down, 8, &important)[..2], ["IQ4_XS", "IQ4_XS"]);
        assert_eq!(formats("Q4_0", Role::Down, 8, &important)[..2], ["Q4_1", "Q4_0"]);
        assert_eq!(formats("Q4_0", Role::Down, 8, &ModelFacts::default())[..2], ["Q4_0", "Q4_0"]);
        let experts = ModelFacts { experts: 8, ..shared };
        assert_eq!(formats("Q4_K_M", Role::Value, 1, &experts), ["Q8_0"]);
        assert_eq!(formats("Q4_K_M", Role::AttentionOutput, 1, &experts), ["Q5_K"]);
        let seventy = ModelFacts { layers: 80, heads_per_kv_head: 8, ..ModelFacts::default() };
        assert_eq!(formats("Q3_K_S", Role::Value, 1, &seventy), ["Q5_K"]);
    }
}
