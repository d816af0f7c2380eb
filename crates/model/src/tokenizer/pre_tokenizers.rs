//! The pre-tokenizers by name: how text is cut into pieces before merging, one row each.
//!
//! The names are those that converters write as `tokenizer.ggml.pre`; the patterns are those of the models' own
//! `tokenizer.json` files. A model whose name is missing here is refused, because a wrong cut gives worse answers and no
//! other sign. To add one, add a row (or a name to a row).

/// A row: how text is cut, and what comes with it.
#[derive(Debug)]
pub(super) struct PreTokenizer {
    /// Names in `tokenizer.ggml.pre`; the first is the one that messages show.
    pub(super) names: &'static [&'static str],
    /// Patterns, applied one after the other to the pieces of the step before. A match is a piece, and so is what stands
    /// between two matches.
    ///
    /// The syntax is that of the `regex` crate, whose time is linear in the text, and one thing more: a pattern may end in
    /// `|\s+(?!\S)` or `|\s+(?!\S)|\s+`, see [`super::split`].
    pub(super) steps: &'static [&'static str],
    /// Whether a piece that is a token is taken as it is, whatever its merges (`ignore_merges` in `tokenizer.json`).
    pub(super) whole_pieces: bool,
    /// Whether a begin-of-text token belongs in front where the file does not say.
    pub(super) adds_bos: bool,
}

/// The row that knows `name`.
pub(super) fn by_name(name: &str) -> Option<&'static PreTokenizer> {
    PRE_TOKENIZERS.iter().find(|row| row.names.contains(&name))
}

const fn row(names: &'static [&'static str], steps: &'static [&'static str]) -> PreTokenizer {
    PreTokenizer { names, steps, whole_pieces: false, adds_bos: false }
}

const fn row_of_whole_pieces(names: &'static [&'static str], steps: &'static [&'static str]) -> PreTokenizer {
    PreTokenizer { names, steps, whole_pieces: true, adds_bos: false }
}

/// GPT-2: contractions, then letters, digits or other marks, each with one space in front.
const GPT_2: &str = r"'s|'t|'re|'ve|'m|'ll|'d| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s+(?!\S)|\s+";

/// One digit each.
const DIGIT: &str = r"\p{N}";

/// Up to three digits from the left.
const THREE_DIGITS: &str = r"\p{N}{1,3}";

/// GPT-4 (cl100k) and Llama 3: contractions in either case, up to three digits, lines kept together.
const LLAMA_3: &str = r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+";

/// As [`LLAMA_3`], with one digit each.
const QWEN_2: &str =
    r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+";

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

/// All rows.
pub(super) static PRE_TOKENIZERS: &[PreTokenizer] = &[
    row(
        &[
            "gpt-2",
            "phi-2",
            "mpt",
            "olmo",
            "jais",
            "trillion",
            "granite-docling",
            "gigachat",
            "a.x-4.0",
            "mellum",
            "exaone4",
        ],
        &[GPT_2],
    ),
    row(
        &["smollm", "starcoder", "refact", "command-r", "codeshell", "exaone", "minerva-7b", "mellum2"],
        &[DIGIT, GPT_2],
    ),
    PreTokenizer {
        names: &["llama-bpe", "llama3", "llama-v3", "falcon3", "falcon-h1", "pixtral", "midm-2.0", "lfm2"],
        steps: &[LLAMA_3],
        whole_pieces: true,
        adds_bos: true,
    },
    row(&["dbrx", "smaug-bpe", "chatglm-bpe"], &[LLAMA_3]),
    row_of_whole_pieces(&["glm4", "glm5"], &[LLAMA_3]),
    row(
        &["qwen2", "deepseek-r1-qwen", "stablelm2", "hunyuan", "solar-open", "megrez", "kormo", "f2llmv2", "grok-2"],
        &[QWEN_2],
    ),
    row(
        &["qwen35"],
        &[
            r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?[\p{L}\p{M}]+|\p{N}| ?[^\s\p{L}\p{M}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+",
        ],
    ),
    row(&["laguna"], &[r"[^\n]+|[\n]+", QWEN_2]),
    row_of_whole_pieces(
        &["minicpm5"],
        &[
            THREE_DIGITS,
            r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}+| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+",
        ],
    ),
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
    PreTokenizer {
        names: &["tekken"],
        steps: &[
            r"[^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]*[\p{Ll}\p{Lm}\p{Lo}\p{M}]+|[^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]+[\p{Ll}\p{Lm}\p{Lo}\p{M}]*|\p{N}| ?[^\s\p{L}\p{N}]+[\r\n/]*|\s*[\r\n]+|\s+(?!\S)|\s+",
        ],
        whole_pieces: true,
        adds_bos: true,
    },
    row(
        &["kimi-k2"],
        &[
            r"[\p{Han}]+|[^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}&&[^\p{Han}]]*[\p{Ll}\p{Lm}\p{Lo}\p{M}&&[^\p{Han}]]+(?i:'s|'t|'re|'ve|'m|'ll|'d)?|[^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}&&[^\p{Han}]]+[\p{Ll}\p{Lm}\p{Lo}\p{M}&&[^\p{Han}]]*(?i:'s|'t|'re|'ve|'m|'ll|'d)?|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+",
        ],
    ),
    row_of_whole_pieces(
        &["youtu"],
        &[
            r"[가-힣ㄱ-ㆎ]+|[！…“”‘’—：；，、-〿︰-﹏]+|[ㄅ-ㄯ]+|[一-龥\u{3040}-ゟ゠-ヿ]+",
            r"[^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]*[\p{Ll}\p{Lm}\p{Lo}\p{M}]+(?i:'s|'t|'re|'ve|'m|'ll|'d)?|[^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]+[\p{Ll}\p{Lm}\p{Lo}\p{M}]*(?i:'s|'t|'re|'ve|'m|'ll|'d)?|\p{N}| ?[^\s\p{L}\p{N}]+[\r\n/]*|\s*[\r\n]+|\s+(?!\S)|\s+",
        ],
    ),
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
    row(&["falcon"], &[r"[\p{P}$+<=>^~|`]+", GPT_2, "[0-9][0-9][0-9]"]),
    row(&["default"], &[r"[\p{P}$+<=>^~|]+", GPT_2, r"\p{N}+", "[0-9][0-9][0-9]"]),
    row(&["bloom", "poro-chat", "gpt3-finnish"], &[BLOOM]),
    row(&["viking"], &[BLOOM, DIGIT]),
    PreTokenizer {
        names: &["chameleon"],
        steps: &["<sentinel:[0-9]+>", "IMGIMG[A-I]{1,4}Z", r"[\t\n]|    |  ", DIGIT, r"[\p{P}!-/:-@\[-`{-~]", GPT_2],
        whole_pieces: false,
        adds_bos: true,
    },
];

/// The row for Gemma 4 (`tokenizer.ggml.model` is `gemma4`): text is merged over whole lines.
pub(super) static GEMMA_4: PreTokenizer =
    PreTokenizer { names: &["gemma4"], steps: &[r"[^\n]+|[\n]+"], whole_pieces: false, adds_bos: true };

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
