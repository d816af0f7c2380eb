//! Vocabularies beside those of merges and scores: by probabilities, by longest match, of words; and what single models do
//! to text.

use super::super::charsmap::tests::blob;
use super::*;

/// `<pad>` 0, `</s>` 1, `<unk>` 2, then tokens with logarithms of probabilities; rules that make `A` an `a` and drop `~`.
pub(super) fn unigram() -> Recipe {
    let mut recipe = Recipe::default().token("<pad>", CONTROL).token("</s>", CONTROL).token("<unk>", UNKNOWN);
    let tokens =
        [("▁", -2.0), ("a", -3.0), ("b", -3.0), ("ab", -5.0), ("▁a", -4.0), ("ba", -5.5), ("▁▁", -9.0), (" ", -1.0)];
    for (text, score) in tokens {
        recipe.tokens.push((text.to_owned(), NORMAL, score));
    }
    recipe
        .set("model", "t5")
        .set("unknown_token_id", 2u32)
        .set("eos_token_id", 1u32)
        .set("remove_extra_whitespaces", true)
        .set("precompiled_charsmap", Array::U8(blob(&[("A", "a"), ("~", ""), ("\t", " ")])))
}

fn texts(tokenizer: &Tokenizer, text: &str) -> Vec<String> {
    tokenizer.encode(text).iter().map(|&id| tokenizer.token_text(id).unwrap().to_owned()).collect()
}

#[test]
fn the_most_probable_way_is_taken() {
    let tokenizer = unigram().build();
    // ▁a b a: -10; ▁ ab a: -10; ▁a ba: -9.5.
    assert_eq!(texts(&tokenizer, "aba"), ["▁a", "ba"]);
    // Of equal ways the one found first stays: ▁ ab (-7) and ▁a b (-7); the last token of the first begins further left.
    assert_eq!(texts(&tokenizer, "ab"), ["▁", "ab"]);
    assert_eq!(texts(&tokenizer, ""), [""; 0]);
    assert!(!tokenizer.adds_bos());
    assert_eq!((tokenizer.eos(), tokenizer.pre_tokenizer()), (Some(1), ""));
    assert_eq!(tokenizer.decode(&tokenizer.encode("a b  a")), "a b a");
}

#[test]
fn unknown_characters_in_a_row_are_one_unknown_token() {
    let tokenizer = unigram().build();
    assert_eq!(texts(&tokenizer, "a中文a"), ["▁a", "<unk>", "a"]);
    assert_eq!(texts(&tokenizer, "中"), ["▁", "<unk>"]);
    let ids = tokenizer.encode_prompt(&prompt(&[template("a中"), content("<unk>")]));
    assert_eq!(count(&ids, 2), 1, "one for 中 and what follows it, and none for the text <unk>: {ids:?}");
    let mut bytes = unigram();
    for byte in 0..=255 {
        bytes = bytes.token(&format!("<0x{byte:02X}>"), BYTE);
    }
    let tokenizer = bytes.build();
    assert_eq!(texts(&tokenizer, "a中b"), ["▁a", "<0xE4>", "<0xB8>", "<0xAD>", "b"]);
    assert_eq!(tokenizer.decode(&tokenizer.encode("a中b")), "a中b");
}

#[test]
fn texts_are_normalized_by_the_rules_of_the_file() {
    let tokenizer = unigram().build();
    let normal = tokenizer.encode("ab a");
    for text in ["Ab A", "  ab \t~  a  ", "~a~b a~", "\tab a"] {
        assert_eq!(tokenizer.encode(text), normal, "{text:?}");
    }
    for text in [" ", "~", " ~ \t "] {
        assert_eq!(tokenizer.encode(text), [0u32; 0], "{text:?}");
    }
    let keeps_spaces = unigram().set("remove_extra_whitespaces", false).set("add_space_prefix", false).build();
    assert_eq!(texts(&keeps_spaces, " a "), ["▁a", "▁"]);
    assert_eq!(texts(&keeps_spaces, "a"), ["a"]);
    let signed = Array::I8(blob(&[("A", "a")]).into_iter().map(u8::cast_signed).collect());
    assert_eq!(unigram().set("precompiled_charsmap", signed).build().encode("A"), tokenizer.encode("a"));
}

#[test]
fn text_never_becomes_a_control_token_of_a_unigram_vocabulary() {
    let tokenizer = unigram().set("precompiled_charsmap", Array::U8(blob(&[("X", "</s>")]))).build();
    for text in ["</s>", "X", "<pad></s>"] {
        assert!(tokenizer.encode(text).iter().all(|&id| !tokenizer.is_control(id)), "{text}");
    }
    let ids = tokenizer.encode_prompt(&prompt(&[template("a</s>"), content("X</s>")]));
    assert_eq!(count(&ids, 1), 1);
}

#[test]
fn broken_unigram_vocabularies_are_errors_or_harmless() {
    let error = unigram().set("precompiled_charsmap", Array::U8(vec![9, 0, 0, 0])).error();
    assert!(error.contains("precompiled_charsmap") && error.contains("a trie of 9 bytes"), "{error}");
    assert!(unigram().set("precompiled_charsmap", "text").error().contains("precompiled_charsmap"));
    assert!(unigram().set("scores", Array::F32(vec![0.0; 2])).error().contains("scores"));
    let mut odd = unigram();
    odd.tokens[4].2 = f32::NAN;
    odd.tokens[5].2 = f32::NEG_INFINITY;
    assert_eq!(texts(&odd.build(), "ab"), ["▁", "ab"], "tokens without a score are not used");
    let none = Recipe::default().token("<pad>", NORMAL).set("model", "t5");
    assert_eq!(none.build().encode("ab"), [0u32; 0], "no token and none that is unknown");
    assert_eq!(
        none.token("<unk>", UNKNOWN).build().encode("ab"),
        [1],
        "the file names no unknown token, its kind does"
    );
}

/// All bytes, `ab`, `abc`, `\n\n` and a character of three bytes, as RWKV's files write them.
pub(super) fn rwkv() -> Tokenizer {
    let mut recipe = Recipe::default().token("<s>", CONTROL);
    for byte in 0..=255u8 {
        let text = match byte {
            b'\n' => r"\n".to_owned(),
            b'\\' => r"\\".to_owned(),
            b' '..=b'~' => char::from(byte).to_string(),
            _ => format!("\\x{byte:02x}"),
        };
        recipe = recipe.token(&text, NORMAL);
    }
    let recipe = recipe.token("ab", NORMAL).token("abc", NORMAL).token(r"\n\n", NORMAL).token(r"\xe4\xb8\xad", NORMAL);
    recipe.set("model", "rwkv").set("eos_token_id", 0u32).build()
}

#[test]
fn tokens_that_would_make_every_place_of_a_text_dear_are_refused() {
    for model in ["t5", "rwkv"] {
        let long = |bytes: usize| {
            let recipe = Recipe::default().token("a", NORMAL).token(&"a".repeat(bytes), NORMAL).set("model", model);
            Tokenizer::from_gguf(&recipe.metadata()).map_err(|error| error.to_string())
        };
        let error = long(1025).unwrap_err();
        assert!(error.contains("at most 1024 bytes") && error.contains("token 1"), "{error}");
        assert_eq!(long(1024).unwrap().encode(&"a".repeat(2048)).len(), 2);
    }
}

#[test]
fn many_tokens_of_one_text_are_one_pattern() {
    let mut recipe = Recipe::default();
    for _ in 0..100_000 {
        recipe = recipe.token("<|im_end|>", CONTROL);
    }
    let tokenizer = recipe.token("a", NORMAL).set("model", "rwkv").build();
    assert_eq!(tokenizer.end_of_turn().len(), 100_000);
    assert_eq!(
        tokenizer.encode_prompt(&Prompt { parts: vec![template("<|im_end|>a")], ..Prompt::default() }),
        [0, 100_000]
    );
}

#[test]
fn the_longest_token_is_taken() {
    let tokenizer = rwkv();
    assert_eq!(tokenizer.encode("abcab"), [258, 257]);
    assert_eq!(tokenizer.encode("\n\n\n中\u{4e2e}"), [259, 11, 260, 1 + 0xe4, 1 + 0xb8, 1 + 0xae]);
    assert_eq!(tokenizer.encode(r"\n<s>").first(), Some(&(1 + u32::from(b'\\'))));
    assert_eq!(count(&tokenizer.encode("<s>"), 0), 0);
    for text in ["", "abcabcabx\n\n\\", "中\u{10ffff}\0"] {
        assert_eq!(tokenizer.decode(&tokenizer.encode(text)), text);
    }
    assert!(!tokenizer.adds_bos());
}

#[test]
fn words_lose_the_white_space_between_them() {
    let mut recipe = Recipe::default().token("<unk>", UNKNOWN).set("model", "whitespace").set("unknown_token_id", 0u32);
    for text in ["a", "b", "中", "ab", "B"] {
        recipe = recipe.token(text, NORMAL);
    }
    recipe.merges = vec!["a b".to_owned()];
    let tokenizer = recipe.clone().build();
    assert_eq!(texts(&tokenizer, "ab a\n\u{3000} 中aB"), ["ab", "a", "中", "a", "B"]);
    assert_eq!(texts(&tokenizer, "▁é"), ["<unk>", "<unk>"]);
    assert_eq!(texts(&tokenizer, " "), [""; 0]);
    let small = recipe.set("normalizer.lowercase", true).build();
    assert_eq!(texts(&small, "AB aB"), ["ab", "ab"]);
}

#[test]
fn letters_and_marks_are_composed_where_the_model_does_it() {
    let build = |pre: &str| Recipe::byte_level(Some(pre), &["Ã ©"]).build();
    for name in ["qwen2", "command-r", "mpt", "stablelm2", "hunyuan", "tiny_aya"] {
        assert_eq!(build(name).encode("e\u{301}"), [256], "{name}");
        assert_eq!(build(name).encode("é"), [256], "{name}");
    }
    for name in ["gpt-2", "llama-bpe", "deepseek-v3", "gpt-4o"] {
        assert_eq!(build(name).encode("e\u{301}"), bytes("e\u{301}"), "{name}");
    }
}

#[test]
fn bytes_without_a_token_do_not_keep_their_neighbours_apart() {
    let mut recipe = Recipe::byte_level(Some("gpt-2"), &["Ġ Ġ"]);
    recipe.tokens[0x0b].0 = "no byte".to_owned();
    assert_eq!(recipe.clone().build().encode(" \u{b} "), [256]);
    let with_unknown = recipe.token("<unk>", UNKNOWN).set("unknown_token_id", 257u32).build();
    assert_eq!(with_unknown.encode(" \u{b} "), [0x20, 257, 0x20]);
}

/// The places of Phi-3's control tokens; `▁a`, `a`, `▁`, and a newline as a byte.
fn phi_3() -> Recipe {
    let mut recipe = Recipe::scores(&[("▁a", -1.0), ("a", -2.0), ("▁", -3.0)]);
    recipe.tokens[2].1 = USER_DEFINED;
    for id in recipe.tokens.len()..32_011 {
        recipe.tokens.push((format!("<filler {id}>"), CONTROL, 0.0));
    }
    let names = ["<|endoftext|>", "<|assistant|>", "<|placeholder1|>", "<|system|>", "<|end|>", "<|user|>"];
    for (name, id) in names.iter().zip([32_000, 32_001, 32_002, 32_006, 32_007, 32_010]) {
        recipe.tokens[id].0 = (*name).to_owned();
    }
    recipe.set("bos_token_id", 1u32).set("add_bos_token", false)
}

#[test]
fn tokens_of_phi_3_swallow_the_white_space_after_them() {
    let tokenizer = phi_3().build();
    let (word, newline) = (tokenizer.find_token("▁a").unwrap(), 3 + u32::from(b'\n'));
    let chat = prompt(&[template("<|user|>\n"), content(" \u{3000}a"), template("<|end|>\n<|assistant|>\n")]);
    assert_eq!(tokenizer.encode_prompt(&chat), [32_010, word, 32_007, 32_001]);
    let other = prompt(&[template("<|endoftext|>\n<s>\n")]);
    let space = tokenizer.find_token("▁").unwrap();
    assert_eq!(tokenizer.encode_prompt(&other), [32_000, space, newline, 1, space, newline], "these two do not");
    assert_eq!(tokenizer.encode("</s> \na"), [2, word]);
    assert_eq!(tokenizer.encode_prompt(&prompt(&[template("</s> \n"), content("a")])), [2, word]);
    assert_eq!(tokenizer.encode("<|user|>\n").last(), Some(&newline), "text is text");
    let mut elsewhere = phi_3();
    elsewhere.tokens.swap(32_010, 32_009);
    let ids = elsewhere.build().encode_prompt(&prompt(&[template("<|user|>\na")]));
    assert_eq!(ids[..3], [32_009, space, newline], "another vocabulary");
}

#[test]
fn byte_tokens_come_out_as_whole_characters() {
    let tokenizer = Recipe::scores(&[("▁", -1.0)]).set("add_space_prefix", false).build();
    for text in ["a中b", "😊", "שלום"] {
        let ids: Vec<u32> = text.bytes().map(|byte| 3 + u32::from(byte)).collect();
        assert_eq!(tokenizer.encode(text), ids);
        for cut in 0..=ids.len() {
            let (mut out, mut decoder) = (String::new(), tokenizer.decoder());
            ids[..cut].iter().for_each(|&id| decoder.push(id, &mut out));
            decoder.finish(&mut out);
            assert_eq!(out, String::from_utf8_lossy(&text.as_bytes()[..cut]), "{text} cut after {cut} bytes");
        }
    }
    let broken: Vec<u32> =
        [0x80u32, 0xe1, 0x80, 0xe2, 0xf0, 0x91, 0x92, 0xf1, 0xbf, 0x41].map(|byte| 3 + byte).to_vec();
    assert_eq!(tokenizer.decode(&broken), "\u{fffd}\u{fffd}\u{fffd}\u{fffd}\u{fffd}A");
}

proptest! {
    /// Vocabularies of arbitrary tokens, kinds and scores, with rules that may be broken.
    #[test]
    fn any_vocabulary_of_these_kinds_has_defined_behaviour(
        tokens in prop::collection::vec(("[ab▁<>/s\\\\x0é中 ]{0,4}", 1i32..7, prop::num::f32::ANY), 1..40),
        model in prop::sample::select(vec!["t5", "rwkv", "whitespace"]),
        flags in (any::<bool>(), any::<bool>(), any::<bool>()),
        flipped in prop::collection::vec((0usize..4000, any::<u8>()), 0..8),
        unknown in prop::option::of(0u32..50),
        text in "[ab▁<>/s\\\\x0é中 \n]{0,60}",
    ) {
        let mut recipe = Recipe { tokens, ..Recipe::default() }.set("model", model);
        recipe = recipe.set("remove_extra_whitespaces", flags.0).set("add_space_prefix", flags.1);
        if let Some(unknown) = unknown {
            recipe = recipe.set("unknown_token_id", unknown);
        }
        if flags.2 {
            let mut rules = blob(&[("a", "b"), ("ab", "</s>"), ("é", "")]);
            for (place, bits) in flipped {
                let place = place % rules.len();
                rules[place] ^= bits;
            }
            recipe = recipe.set("precompiled_charsmap", Array::U8(rules));
        }
        if let Ok(tokenizer) = Tokenizer::from_gguf(&recipe.metadata()) {
            let ids = tokenizer.encode(&text);
            prop_assert!(ids.iter().all(|&id| !tokenizer.is_control(id) && (id as usize) < tokenizer.vocab_size()));
            let parts = [content(&text), template(&text), content(&text)];
            let ids = tokenizer.encode_prompt(&prompt(&parts));
            prop_assert!(ids.iter().all(|&id| (id as usize) < tokenizer.vocab_size()));
            let contents = tokenizer.encode_prompt(&prompt(&[content(&text)]));
            prop_assert!(contents.iter().all(|&id| !tokenizer.is_control(id)));
            tokenizer.decode(&ids);
        }
    }

    #[test]
    fn longest_matches_lose_nothing(text in "([abc\n]|\\PC)*") {
        let tokenizer = rwkv();
        prop_assert_eq!(tokenizer.decode(&tokenizer.encode(&text)), text);
    }
}
