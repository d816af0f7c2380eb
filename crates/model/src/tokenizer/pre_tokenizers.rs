//! The pre-tokenizers by name: how text is cut into pieces before merging, one row each.
//!
//! The names are those that converters write as `tokenizer.ggml.pre`; the patterns are those of the models' own
//! `tokenizer.json` files. A model whose name is missing here is refused, because a wrong cut gives worse answers and no
//! other sign. To add one, add a row (or a name to a row), and a row to `scripts/ids.py`, which compares it with Hugging
//! Face's `tokenizers`.
//!
//! GGUF does not say whether a tokenizer composes letters and marks (NFC). The rows say so where the model's own tokenizer is
//! known to: Qwen 2, Command R, GPT-NeoX and what was made from them, Stable LM 2 and Hunyuan.

use super::normalize::Normalizer;

/// A row: how text is cut, and what comes with it.
#[derive(Debug, Clone, Copy)]
pub(crate) struct PreTokenizer {
    /// Names in `tokenizer.ggml.pre`; the first is the one that messages show.
    pub(crate) names: &'static [&'static str],
    /// Patterns, applied one after the other to the pieces of the step before. A match is a piece, and so is what stands
    /// between two matches.
    ///
    /// The syntax is that of the `regex` crate, whose time is linear in the text, and of what looks around a match only
    /// what [`super::split`] knows: the ends of patterns for white space, and groups of three digits.
    pub(crate) steps: &'static [&'static str],
    /// What happens to text before it is cut.
    pub(crate) normalizer: Normalizer,
    /// What merging starts from.
    pub(crate) form: Form,
    /// Whether a piece that is a token is taken as it is, whatever its merges (`ignore_merges` in `tokenizer.json`).
    pub(crate) whole_pieces: bool,
    /// Whether a begin-of-text token belongs in front where the file does not say.
    pub(crate) adds_bos: bool,
}

/// What merging starts from, and how the vocabulary writes it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Form {
    /// Bytes, in GPT-2's alphabet.
    Bytes,
    /// Characters, with `▁` for a space; what is no token falls back to the tokens of its bytes.
    Characters,
    /// Characters of words; the white space between them is lost.
    Words,
}

/// The row that knows `name`.
pub(crate) fn by_name(name: &str) -> Option<&'static PreTokenizer> {
    PRE_TOKENIZERS.iter().find(|row| row.names.contains(&name))
}

/// The row that cuts by these expressions, one after the other, in whatever way they are written. Of several, the one that also
/// normalizes text so and takes whole pieces so; or the first, where there is none.
pub(crate) fn by_steps(steps: &[String], normalizer: Normalizer, whole_pieces: bool) -> Option<&'static PreTokenizer> {
    let written: Vec<&str> = steps.iter().map(String::as_str).collect();
    let usual: Vec<String> = steps.iter().map(|step| usual_form(step)).collect();
    let (mut best, mut best_points) = (None, 0);
    for row in PRE_TOKENIZERS.iter().filter(|row| row.form == Form::Bytes) {
        let is_written = row.steps == written;
        let is_same = is_written
            || row.steps.len() == usual.len() && row.steps.iter().zip(&usual).all(|(a, b)| usual_form(a) == *b);
        // Text that is normalized otherwise matters more than a piece that no merge leads to.
        let points = 1
            + u32::from(is_written)
            + 2 * u32::from(row.whole_pieces == whole_pieces)
            + 4 * u32::from(row.normalizer == normalizer);
        if is_same && points > best_points {
            (best, best_points) = (Some(row), points);
        }
    }
    best
}

/// Whether some row has this expression as a step.
pub(crate) fn is_step(step: &str) -> bool {
    let usual = usual_form(step);
    PRE_TOKENIZERS.iter().flat_map(|row| row.steps).any(|other| usual_form(other) == usual)
}

/// Ways to write the same expression, and the one that is compared.
///
/// A possessive quantifier gives nothing back; where what follows matches none of its characters, there is nothing to give.
/// `\s*` takes lines as well, so that `\s*[\r\n]` reaches the last of them as `\s*[\r\n]+` does.
const USUAL_FORMS: &[(&str, &str)] = &[
    ("\r", r"\r"),
    ("\n", r"\n"),
    ("\t", r"\t"),
    (r"'(?i:[sdmt]|ll|ve|re)", r"(?i:'s|'t|'re|'ve|'m|'ll|'d)"),
    (r"'(?:[sdmt]|ll|ve|re)", r"'s|'t|'re|'ve|'m|'ll|'d"),
    (r"[^\r\n\p{L}\p{N}]?+\p{L}+", r"[^\r\n\p{L}\p{N}]?\p{L}+"),
    (r" ?[^\s\p{L}\p{N}]++[\r\n]*", r" ?[^\s\p{L}\p{N}]+[\r\n]*"),
    (r"|\s*[\r\n]+|", r"|\s*[\r\n]|"),
    (r"\p{N}{1}|", r"\p{N}|"),
    // In a set, a bracket that opens none and a character that stands twice change nothing.
    (r"[^(\s|[.,!?…。，、।۔،])]+", r"[^(\s|.,!?…。，、।۔،)]+"),
    ("(IMGIMG)((A|B|C|D|E|F|G|H|I){1,4})Z", "IMGIMG[A-I]{1,4}Z"),
    (r"([\t\n]|    |  )", r"[\t\n]|    |  "),
];

/// `step` as it is compared with others.
fn usual_form(step: &str) -> String {
    // Letters that can be written in two ways stand in the sets of some files composed, of others apart.
    let mut usual = Normalizer::Nfc.apply(step).into_owned();
    for (other, form) in USUAL_FORMS {
        usual = usual.replace(other, form);
    }
    usual
}

const fn row(names: &'static [&'static str], steps: &'static [&'static str]) -> PreTokenizer {
    PreTokenizer { names, steps, normalizer: Normalizer::None, form: Form::Bytes, whole_pieces: false, adds_bos: false }
}

impl PreTokenizer {
    const fn nfc(self) -> PreTokenizer {
        PreTokenizer { normalizer: Normalizer::Nfc, ..self }
    }

    const fn form(self, form: Form) -> PreTokenizer {
        PreTokenizer { form, ..self }
    }

    const fn whole_pieces(self) -> PreTokenizer {
        PreTokenizer { whole_pieces: true, ..self }
    }

    const fn adds_bos(self) -> PreTokenizer {
        PreTokenizer { adds_bos: true, ..self }
    }
}

/// GPT-2: contractions, then letters, digits or other marks, each with one space in front.
pub(crate) const GPT_2: &str = r"'s|'t|'re|'ve|'m|'ll|'d| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s+(?!\S)|\s+";

/// One digit each.
const DIGIT: &str = r"\p{N}";

/// Up to three digits from the left.
const THREE_DIGITS: &str = r"\p{N}{1,3}";

/// GPT-4 (cl100k) and Llama 3: contractions in either case, up to three digits, lines kept together.
const LLAMA_3: &str = r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+";

/// As [`LLAMA_3`], with one digit each.
const QWEN_2: &str =
    r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+";

/// As [`LLAMA_3`], with white space in runs of powers of two.
const JAIS_2: &str = r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s{512}(?!\S)|\s{256}(?!\S)|\s{128}(?!\S)|\s{64}(?!\S)|\s{32}(?!\S)|\s{16}(?!\S)|\s{8}(?!\S)|\s{4}(?!\S)|\s{1,2}(?!\S)|\s{1}";

/// GPT-4o (o200k): words split where small letters are followed by capitals.
const GPT_4O: &str = r"[^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]*[\p{Ll}\p{Lm}\p{Lo}\p{M}]+(?i:'s|'t|'re|'ve|'m|'ll|'d)?|[^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]+[\p{Ll}\p{Lm}\p{Lo}\p{M}]*(?i:'s|'t|'re|'ve|'m|'ll|'d)?|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n/]*|\s*[\r\n]+|\s+(?!\S)|\s+";

/// Chinese and Japanese.
const CJK_AND_KANA: &str = "[一-龥\u{3040}-ゟ゠-ヿ]+";

/// DeepSeek V3: a mark may lead a word of Latin letters; combining marks belong to their letters.
const DEEPSEEK_V3: &str = r##"[!"#$%&'()*+,\-./:;<=>?@\[\\\]^_`{|}~][A-Za-z]+|[^\r\n\p{L}\p{P}\p{S}]?[\p{L}\p{M}]+| ?[\p{P}\p{S}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+"##;

/// BLOOM: everything between marks of punctuation, with one space in front.
const BLOOM: &str = r" ?[^(\s|.,!?…。，、।۔،)]+";

/// Letters of scripts with two cases, as DeepSeek LLM lists them.
const DEEPSEEK_LLM_LETTERS: &str = r"\s?[A-Za-zµÀ-ÖØ-öø-ƺƼ-ƿǄ-ʓʕ-ʯͰ-ͳͶͷͻ-ͽͿΆΈ-ΊΌΎ-ΡΣ-ϵϷ-ҁҊ-ԯԱ-ՖႠ-ჅᎠ-Ᏽᏸ-ᏽᲐ-ᲺᲽ-Ჿᴀ-ᴫᵫ-ᵷᵹ-ᶚḀ-ἕἘ-Ἕἠ-ὅὈ-Ὅὐ-ὗὙὛὝὟ-ώᾀ-ᾴᾶ-ᾼιῂ-ῄῆ-ῌῐ-ΐῖ-Ίῠ-Ῥῲ-ῴῶ-ῼℂℇℊ-ℓℕℙ-ℝℤΩℨK-ℭℯ-ℴℹℼ-ℿⅅ-ⅉⅎↃↄⰀ-ⱻⱾ-ⳤⳫ-ⳮⳲⳳꙀ-ꙭꚀ-ꚛꜢ-ꝯꝱ-ꞇꞋ-ꞎꭰ-ꮿﬀ-ﬆﬓ-ﬗＡ-Ｚａ-ｚ𐐀-𐑏𐒰-𐓓𐓘-𐓻𐲀-𐲲𐳀-𐳲𑢠-𑣟𞤀-𞥃]+";

/// Lines, for vocabularies that merge over white space: no merge crosses the border of a run of newlines.
const LINES: &str = r"[^\n]+|[\n]+";

/// Arcee's Trinity: scripts that write without spaces.
const SCRIPTS_WITHOUT_SPACES: &str = r"[\u{4e00}-\u{9fff}\u{3400}-\u{4dbf}\u{f900}-\u{faff}\u{3040}-\u{30ff}\u{ff65}-\u{ff9f}\u{2f00}-\u{2fdf}\u{e40}-\u{eff}\u{1780}-\u{17ff}\u{1000}-\u{109f}\u{aa60}-\u{aa7f}\u{a9e0}-\u{a9ff}\u{ac00}-\u{d7af}\u{1100}-\u{11ff}]+";

/// All rows.
pub(crate) static PRE_TOKENIZERS: &[PreTokenizer] = &[
    row(
        &[
            "gpt-2",
            "phi-2",
            "jais",
            "trillion",
            "granite-docling",
            "gigachat",
            "a.x-4.0",
            "mellum",
            "exaone4",
            "modern-bert",
            "roberta-bpe",
            "jina-v1-en",
            "jina-v2-code",
            "jina-v2-de",
            "jina-v2-es",
            "jina-de",
            "jina-es",
        ],
        &[GPT_2],
    ),
    // GPT-NeoX-20B's tokenizer and those made from it.
    row(&["mpt", "olmo"], &[GPT_2]).nfc(),
    row(
        &["smollm", "starcoder", "refact", "codeshell", "exaone", "minerva-7b", "mellum2"],
        &[DIGIT, GPT_2],
    ),
    row(&["command-r"], &[DIGIT, GPT_2]).nfc(),
    row(
        &["llama-bpe", "llama3", "llama-v3", "falcon3", "falcon-h1", "pixtral", "midm-2.0", "lfm2", "jina-v5-nano"],
        &[LLAMA_3],
    )
    .whole_pieces()
    .adds_bos(),
    row(&["dbrx", "smaug-bpe", "chatglm-bpe"], &[LLAMA_3]),
    row(&["glm4", "glm5"], &[LLAMA_3]).whole_pieces(),
    row(&["jais-2"], &[JAIS_2]),
    row(&["qwen2", "deepseek-r1-qwen", "f2llmv2", "stablelm2", "hunyuan"], &[QWEN_2]).nfc(),
    row(&["solar-open", "megrez", "kormo", "grok-2"], &[QWEN_2]),
    // Not normalized, as the lines that are published for this name have it; the model's own tokenizer composes letters and
    // marks.
    row(
        &["qwen35"],
        &[
            r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?[\p{L}\p{M}]+|\p{N}| ?[^\s\p{L}\p{M}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+",
        ],
    ),
    row(&["laguna"], &[LINES, QWEN_2]),
    row(
        &["minicpm5"],
        &[
            THREE_DIGITS,
            r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}+| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+",
        ],
    )
    .whole_pieces(),
    row(&["ufakzeka"], &[r"[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+"]),
    row(
        &["seed-coder"],
        &[
            r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1}| ?[^\s\p{L}\p{N}\r\n]+|\s*[\r\n]+|\s+(?!\S)|\s+",
        ],
    ),
    row(
        &["bailingmoe", "bailingmoe2", "llada-moe"],
        &[r"'(?i:[sdmt]|ll|ve|re)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]|\s+(?!\S)|\s+"],
    ),
    row(
        &["exaone-moe"],
        &[
            r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?(?:\p{L}\p{M}*(?: \p{L}\p{M}*)*)+|\p{N}| ?[^\s\p{L}\p{N}]+[\r\n/]?|\s*[\r\n]|\s+(?!\S)|\s+",
        ],
    ),
    row(&["gpt-4o", "llama4", "kanana2", "talkie", "minimax-m2"], &[GPT_4O]),
    row(&["granite-embed-multi-97m"], &[GPT_4O]).whole_pieces(),
    row(&["tiny_aya", "cohere2moe"], &[r"\d{1,3}(?=(?:\d{3})*\b)", GPT_4O]).nfc(),
    row(
        &["tekken"],
        &[
            r"[^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]*[\p{Ll}\p{Lm}\p{Lo}\p{M}]+|[^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]+[\p{Ll}\p{Lm}\p{Lo}\p{M}]*|\p{N}| ?[^\s\p{L}\p{N}]+[\r\n/]*|\s*[\r\n]+|\s+(?!\S)|\s+",
        ],
    )
    .whole_pieces()
    .adds_bos(),
    row(
        &["kimi-k2"],
        &[
            r"[\p{Han}]+|[^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}&&[^\p{Han}]]*[\p{Ll}\p{Lm}\p{Lo}\p{M}&&[^\p{Han}]]+(?i:'s|'t|'re|'ve|'m|'ll|'d)?|[^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}&&[^\p{Han}]]+[\p{Ll}\p{Lm}\p{Lo}\p{M}&&[^\p{Han}]]*(?i:'s|'t|'re|'ve|'m|'ll|'d)?|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+",
        ],
    ),
    row(
        &["youtu"],
        &[
            r"[가-힣ㄱ-ㆎ]+|[！…“”‘’—：；，、-〿︰-﹏]+|[ㄅ-ㄯ]+|[一-龥\u{3040}-ゟ゠-ヿ]+",
            r"[^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]*[\p{Ll}\p{Lm}\p{Lo}\p{M}]+(?i:'s|'t|'re|'ve|'m|'ll|'d)?|[^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]+[\p{Ll}\p{Lm}\p{Lo}\p{M}]*(?i:'s|'t|'re|'ve|'m|'ll|'d)?|\p{N}| ?[^\s\p{L}\p{N}]+[\r\n/]*|\s*[\r\n]+|\s+(?!\S)|\s+",
        ],
    )
    .whole_pieces(),
    row(
        &["deepseek-llm"],
        &[
            r"[\r\n]",
            DEEPSEEK_LLM_LETTERS,
            r"\s?[!-/:-~！-／：-～‘-‟\u{3000}-。]+",
            r"\s+$",
            r"[一-龥ࠀ-一가-\u{d7ff}]+",
            r"\p{N}+",
        ],
    ),
    row(&["deepseek-coder"], &[r"[\r\n]", r"\s?\p{L}+", r"\s?\p{P}+", r"[一-龥ࠀ-一가-\u{d7ff}]+", DIGIT]),
    row(&["deepseek-v3", "hunyuan-dense", "joyai-llm", "hy_v4"], &[THREE_DIGITS, CJK_AND_KANA, DEEPSEEK_V3]),
    row(
        &["spark2_5"],
        &[
            THREE_DIGITS,
            CJK_AND_KANA,
            r##"[!"#$%&'()*+,\-./:;<=>?@\[\\\]^_`{|}~][A-Za-z]+|[^\r\n\p{L}\p{P}\p{S}]?[\p{L}\p{M}]+| ?[\p{P}\p{S}]+|[\r\n]|\s+(?!\S)|\s+"##,
            DIGIT,
        ],
    ),
    row(&["afmoe"], &[r"\p{N}{1,3}(?=(?:\p{N}{3})*(?!\p{N}))", SCRIPTS_WITHOUT_SPACES, DEEPSEEK_V3]),
    row(&["superbpe"], &[r"\p{N}+", r"(?=(\d{3})+(?!\d))"]),
    row(&["falcon"], &[r"[\p{P}$+<=>^~|`]+", GPT_2, "[0-9][0-9][0-9]"]),
    row(&["default"], &[r"[\p{P}$+<=>^~|]+", GPT_2, r"\p{N}+", "[0-9][0-9][0-9]"]),
    row(&["bloom", "poro-chat", "gpt3-finnish"], &[BLOOM]),
    row(&["viking"], &[BLOOM, DIGIT]),
    row(
        &["chameleon"],
        &["<sentinel:[0-9]+>", "IMGIMG[A-I]{1,4}Z", r"[\t\n]|    |  ", DIGIT, r"[\p{P}!-/:-@\[-`{-~]", GPT_2],
    )
    .adds_bos(),
    row(&["gemma4", "granite-embed-multi-311m"], &[LINES]).form(Form::Characters).adds_bos(),
    row(&["sarvam-moe"], &[LINES]).form(Form::Characters),
    row(&["whitespace"], &[r"\S+"]).form(Form::Words),
];

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_unique_and_found() {
        let names: Vec<&str> = PRE_TOKENIZERS.iter().flat_map(|row| row.names).copied().collect();
        for (index, name) in names.iter().enumerate() {
            assert!(!names[..index].contains(name), "{name} stands twice");
            assert!(by_name(name).is_some_and(|row| row.names.contains(name)));
        }
        assert!(by_name("no-such-name").is_none());
        assert!(by_name("").is_none());
    }
}
