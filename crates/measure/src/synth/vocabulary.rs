//! Vocabularies of the true size: byte tokens, fillers, and tokens that are no text.
//!
//! Fillers are the words over three letters that are rare in text, the shortest first. So every part of a filler is a token as
//! well, any number of merges can be listed that name tokens only, and ordinary text becomes one token for each byte.

use duan_model::gguf::write::GgufWriter;
use duan_model::gguf::{Array, StringArray};

use super::error::Error;
use super::shapes::{TokenizerKind, VocabularyShape};

const LETTERS: [char; 3] = ['x', 'y', 'z'];

/// Kinds of tokens, as `tokenizer.ggml.token_type` has them.
const NORMAL: i32 = 1;
const UNKNOWN: i32 = 2;
const CONTROL: i32 = 3;
const BYTE: i32 = 6;

/// Words over [`LETTERS`] from `length` letters on, the shortest first.
fn words(length: usize) -> impl Iterator<Item = String> {
    (length..).flat_map(|length| {
        let count = LETTERS.len().pow(length as u32);
        (0..count).map(move |word| {
            let letter = |at: usize| LETTERS[word / LETTERS.len().pow((length - 1 - at) as u32) % LETTERS.len()];
            (0..length).map(letter).collect()
        })
    })
}

/// The character by which byte-level vocabularies write a byte (GPT-2): itself where that can be printed, otherwise the
/// next of those from U+0100 on.
fn byte_character(byte: u8) -> char {
    let is_printed = |byte: u8| matches!(byte, 0x21..=0x7e | 0xa1..=0xac | 0xae..=0xff);
    if is_printed(byte) {
        return char::from(byte);
    }
    let before = (0..byte).filter(|&other| !is_printed(other)).count() as u32;
    char::from_u32(0x100 + before).unwrap_or('?')
}

/// `count` merges that make every one of `fillers` [at least two letters each], first those that add the last letter.
fn merges(fillers: &[String], count: usize) -> StringArray {
    let split = |word: &String, at: usize| format!("{} {}", &word[..at], &word[at..]);
    let main = fillers.iter().map(|word| split(word, word.len() - 1));
    let longest = fillers.last().map_or(0, String::len);
    let more = (1..longest)
        .flat_map(|at| fillers.iter().filter(move |word| at + 1 < word.len()).map(move |word| split(word, at)));
    main.chain(more).take(count).collect()
}

/// Tokens with their kinds, in order of their ids.
#[derive(Default)]
struct Tokens {
    texts: StringArray,
    kinds: Vec<i32>,
}

impl Tokens {
    fn push(&mut self, text: &str, kind: i32) -> u32 {
        self.texts.push(text);
        self.kinds.push(kind);
        self.kinds.len() as u32 - 1
    }

    fn left(&self, all: usize) -> usize {
        all.saturating_sub(self.kinds.len())
    }
}

/// Adds the keys of the vocabulary.
///
/// # Errors
/// Where one is there already.
pub(super) fn write(shape: &VocabularyShape, writer: &mut GgufWriter<'_>) -> Result<(), Error> {
    match shape.kind {
        TokenizerKind::Merges { pre, merges } => by_merges(shape, pre, merges, writer),
        TokenizerKind::Scores => by_scores(shape, writer),
    }
}

fn by_merges(shape: &VocabularyShape, pre: &str, count: usize, writer: &mut GgufWriter<'_>) -> Result<(), Error> {
    let mut tokens = Tokens::default();
    for byte in 0..=u8::MAX {
        tokens.push(byte_character(byte).encode_utf8(&mut [0; 4]), NORMAL);
    }
    let fillers: Vec<String> = words(2).take(tokens.left(shape.tokens - shape.reserved)).collect();
    for filler in &fillers {
        tokens.push(filler, NORMAL);
    }
    let bos = tokens.push(shape.bos, CONTROL);
    let eos = tokens.push(shape.eos, CONTROL);
    for number in 0..tokens.left(shape.tokens) {
        tokens.push(&format!("<|reserved_{number}|>"), CONTROL);
    }
    writer.key("tokenizer.ggml.model", "gpt2")?.key("tokenizer.ggml.pre", pre)?;
    writer.key("tokenizer.ggml.merges", merges(&fillers, count))?;
    put(tokens, bos, eos, shape, writer)
}

fn by_scores(shape: &VocabularyShape, writer: &mut GgufWriter<'_>) -> Result<(), Error> {
    let mut tokens = Tokens::default();
    let unknown = tokens.push("<unk>", UNKNOWN);
    let bos = tokens.push(shape.bos, CONTROL);
    let eos = tokens.push(shape.eos, CONTROL);
    for byte in 0..=u8::MAX {
        tokens.push(&format!("<0x{byte:02X}>"), BYTE);
    }
    // The space, as such vocabularies write it.
    tokens.push("\u{2581}", NORMAL);
    for filler in words(1).take(tokens.left(shape.tokens)) {
        tokens.push(&filler, NORMAL);
    }
    let scores: Vec<f32> = tokens.kinds.iter().enumerate().map(|(id, &kind)| score(id, kind)).collect();
    writer.key("tokenizer.ggml.model", "llama")?.key("tokenizer.ggml.pre", "default")?;
    writer.key("tokenizer.ggml.scores", Array::F32(scores))?;
    writer.key("tokenizer.ggml.unknown_token_id", unknown)?.key("tokenizer.ggml.add_space_prefix", false)?;
    put(tokens, bos, eos, shape, writer)
}

/// Short words join first.
fn score(id: usize, kind: i32) -> f32 {
    if kind == NORMAL { -(id as f32) } else { 0.0 }
}

fn put(tokens: Tokens, bos: u32, eos: u32, shape: &VocabularyShape, writer: &mut GgufWriter<'_>) -> Result<(), Error> {
    writer.key("tokenizer.ggml.tokens", tokens.texts)?;
    writer.key("tokenizer.ggml.token_type", Array::I32(tokens.kinds))?;
    writer.key("tokenizer.ggml.bos_token_id", bos)?.key("tokenizer.ggml.eos_token_id", eos)?;
    writer.key("tokenizer.ggml.add_bos_token", shape.adds_bos)?;
    Ok(())
}

#[cfg(test)]
mod tests {
    use duan_model::gguf::GgufFile;
    use duan_model::tokenizer::Tokenizer;

    use super::super::shapes::SHAPES;
    use super::*;

    #[test]
    fn words_come_the_shortest_first() {
        let first: Vec<String> = words(1).take(13).collect();
        assert_eq!(first, ["x", "y", "z", "xx", "xy", "xz", "yx", "yy", "yz", "zx", "zy", "zz", "xxx"]);
    }

    #[test]
    fn merges_name_every_filler_and_then_more() {
        let fillers: Vec<String> = words(2).take(9 + 2).collect();
        let all: Vec<String> = merges(&fillers, 100).iter().map(str::to_owned).collect();
        assert_eq!(all[..2], ["x x", "x y"]);
        assert_eq!(all[9..], ["xx x", "xx y", "x xx", "x xy"]);
        assert_eq!(merges(&fillers, 12).len(), 12);
    }

    #[test]
    fn every_vocabulary_has_the_true_size_and_is_read_without_a_warning() {
        for shape in SHAPES {
            let mut writer = GgufWriter::new(shape.name);
            writer.key("general.architecture", shape.family).unwrap();
            write(&shape.vocabulary, &mut writer).unwrap();
            let file = GgufFile::from_bytes(writer.to_bytes(), shape.name).unwrap();
            let tokenizer = Tokenizer::from_gguf(file.metadata()).unwrap();
            assert_eq!(tokenizer.warnings(), [""; 0], "{}", shape.name);
            assert_eq!(tokenizer.vocab_size(), shape.vocabulary.tokens, "{}", shape.name);
            if let TokenizerKind::Merges { merges, .. } = shape.vocabulary.kind {
                let found = file.metadata().strings("tokenizer.ggml.merges").unwrap().unwrap();
                assert_eq!(found.len(), merges, "{}", shape.name);
            }
            assert_eq!(tokenizer.adds_bos(), shape.vocabulary.adds_bos, "{}", shape.name);
            let text = "Hello, 你好\nzzz";
            let ids = tokenizer.encode(text);
            assert_eq!(tokenizer.decode(&ids), text, "{}", shape.name);
            // "zzz" is a token; all else is bytes.
            assert_eq!(ids.len(), text.len() - 2, "{}", shape.name);
            let end = [tokenizer.eos().unwrap()];
            assert!(tokenizer.end_of_turn().contains(&end[0]), "{}", shape.name);
        }
    }
}
