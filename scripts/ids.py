#!/usr/bin/env python3
"""Whether duan gives the ids that Hugging Face's `tokenizers` gives, on random texts.

The tokenizers are made anew from vocabularies in GGUF files: tokens, merges, scores and kinds from the file, and around
them the normalizer and pre-tokenizer that the model's own tokenizer.json has, which stand below. Needs Python 3.10, and
`tokenizers` and `gguf` from PyPI.

    cargo build --release -p duan-model --example tokenize_lines
    ids.py vocabularies FOLDER [--count N] [--seed N] [--only PART]   every vocabulary in the folder
    ids.py rows VOCABULARY [--count N] [--seed N] [--only PART]       every pre-tokenizer, all with one vocabulary
    ids.py long FOLDER [--length N] [--only PART]                     runs of one thing, for every vocabulary
    ids.py names LLAMA_CPP                                            which names of llama.cpp are known

The vocabularies of SentencePiece's kinds are also compared with SentencePiece itself where the package `sentencepiece` is
there. For `t5`, SentencePiece normalizes the texts for `tokenizers` too, which applies the rules to one grapheme at a time
so that the first rule that fits decides; SentencePiece, with which such models were made, takes the longest. What remains
there are ties: SentencePiece adds scores in 32 bits, `tokenizers` and duan in 64.

Texts are of all kinds (`TextMaker`): all planes of Unicode, runs of white space, digits, contractions, control tokens as
text, letters with marks apart and composed, and so on. The seed decides them all. Each vocabulary is asked twice: as for
what a person writes (control tokens are text) and as for what a template writes (they are tokens).

Unicode grows, and `tokenizers` composes letters and marks, and knows punctuation, by older versions than duan: differences
in texts with characters that are newer are counted apart, and are no failures.

Exits with 1 where something differs, and shows the first few cases.
"""

from __future__ import annotations

import argparse
import json
import random
import re
import struct
import subprocess
import sys
import unicodedata
from pathlib import Path

import gguf
from tokenizers import AddedToken, Regex, Tokenizer, models, normalizers, pre_tokenizers

try:
    import sentencepiece
except ImportError:
    sentencepiece = None

PROGRAM = Path(__file__).parent.parent / "target/release/examples/tokenize_lines"

NORMAL, UNKNOWN, CONTROL, USER_DEFINED, UNUSED, BYTE = 1, 2, 3, 4, 5, 6

# --- What the models' own tokenizer.json files have around the vocabulary.


def byte_level(use_regex: bool) -> pre_tokenizers.PreTokenizer:
    return pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=use_regex)


def split(pattern: str) -> pre_tokenizers.PreTokenizer:
    return pre_tokenizers.Split(Regex(pattern), "isolated")


def gpt_2(*before: pre_tokenizers.PreTokenizer) -> pre_tokenizers.PreTokenizer:
    return pre_tokenizers.Sequence([*before, byte_level(True)])


def splits(*patterns: str | pre_tokenizers.PreTokenizer) -> pre_tokenizers.PreTokenizer:
    steps = [split(pattern) if isinstance(pattern, str) else pattern for pattern in patterns]
    return pre_tokenizers.Sequence([*steps, byte_level(False)])


def single_digits() -> pre_tokenizers.PreTokenizer:
    return pre_tokenizers.Digits(individual_digits=True)


CONTRACTIONS = r"(?i:'s|'t|'re|'ve|'m|'ll|'d)"
SPACES = r"\s*[\r\n]+|\s+(?!\S)|\s+"
LLAMA_3 = CONTRACTIONS + r"|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n]*|" + SPACES
QWEN_2 = CONTRACTIONS + r"|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}| ?[^\s\p{L}\p{N}]+[\r\n]*|" + SPACES
QWEN_35 = CONTRACTIONS + r"|[^\r\n\p{L}\p{N}]?[\p{L}\p{M}]+|\p{N}| ?[^\s\p{L}\p{M}\p{N}]+[\r\n]*|" + SPACES
JAIS_2 = LLAMA_3.removesuffix(r"\s+(?!\S)|\s+") + (
    "".join(rf"\s{{{length}}}(?!\S)|" for length in [512, 256, 128, 64, 32, 16, 8, 4]) + r"\s{1,2}(?!\S)|\s{1}"
)
CASED = (
    r"[^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]*[\p{Ll}\p{Lm}\p{Lo}\p{M}]+@|"
    r"[^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]+[\p{Ll}\p{Lm}\p{Lo}\p{M}]*@|"
)
GPT_4O = CASED.replace("@", CONTRACTIONS + "?") + r"\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n/]*|" + SPACES
YOUTU = CASED.replace("@", CONTRACTIONS + "?") + r"\p{N}| ?[^\s\p{L}\p{N}]+[\r\n/]*|" + SPACES
TEKKEN = CASED.replace("@", "") + r"\p{N}| ?[^\s\p{L}\p{N}]+[\r\n/]*|" + SPACES
KIMI_K2 = r"[\p{Han}]+|" + (
    CASED.replace(r"\p{M}]", r"\p{M}&&[^\p{Han}]]").replace("@", CONTRACTIONS + "?")
    + r"\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n]*|"
    + SPACES
)
DEEPSEEK_V3 = (
    r"[!\"#$%&'()*+,\-./:;<=>?@\[\\\]^_`{|}~][A-Za-z]+|[^\r\n\p{L}\p{P}\p{S}]?[\p{L}\p{M}]+| ?[\p{P}\p{S}]+[\r\n]*|"
    + SPACES
)
DEEPSEEK_LLM_LETTERS = r"\s?" + (
    "[A-Za-zµÀ-ÖØ-öø-ƺƼ-ƿǄ-ʓʕ-ʯͰ-ͳͶͷͻ-ͽͿΆΈ-ΊΌΎ-ΡΣ-ϵϷ-ҁҊ-ԯԱ-ՖႠ-ჅᎠ-Ᏽᏸ-ᏽᲐ-ᲺᲽ-Ჿᴀ-ᴫᵫ-ᵷᵹ-ᶚḀ-ἕἘ-Ἕἠ-ὅὈ-Ὅὐ-ὗὙὛὝὟ-\u1f7d"
    "ᾀ-ᾴᾶ-ᾼ\u1fbeῂ-ῄῆ-ῌῐ-\u1fd3ῖ-\u1fdbῠ-Ῥῲ-ῴῶ-ῼℂℇℊ-ℓℕℙ-ℝℤ\u2126ℨ\u212a-ℭℯ-ℴℹℼ-ℿⅅ-ⅉⅎↃↄⰀ-ⱻⱾ-ⳤⳫ-ⳮⳲⳳꙀ-ꙭꚀ-ꚛꜢ-ꝯꝱ-ꞇꞋ"
    "-ꞎꭰ-ꮿﬀ-ﬆﬓ-ﬗＡ-Ｚａ-ｚ\U00010400-\U0001044f\U000104b0-\U000104d3\U000104d8-\U000104fb\U00010c80-\U00010cb2"
    "\U00010cc0-\U00010cf2\U000118a0-\U000118df\U0001e900-\U0001e943]+"
)
CJK_AND_KANA = "[一-龥\u3040-ゟ゠-ヿ]+"
OLD_CJK = "[一-龥ࠀ-一가-\ud7ff]+"
BLOOM = r" ?[^(\s|[.,!?…。，、।۔،])]+"
SCRIPTS_WITHOUT_SPACES = (
    "[\u4e00-\u9fff\u3400-\u4dbf\uf900-\ufaff\u3040-\u309f\u30a0-\u30ff\uff65-\uff9f\u2f00-\u2fdf\u0e40-\u0e7f"
    "\u0e80-\u0eff\u1780-\u17ff\u1000-\u109f\uaa60-\uaa7f\ua9e0-\ua9ff\uac00-\ud7af\u1100-\u11ff]+"
)

NFC = normalizers.NFC

# A list of names, the pre-tokenizer, the normalizer, and whether whole pieces are looked up first.
ROWS: list[tuple[list[str], pre_tokenizers.PreTokenizer | None, object, bool]] = [
    (["gpt-2"], gpt_2(), None, False),
    (["mpt"], gpt_2(), NFC(), False),
    (["smollm", "starcoder", "refact"], gpt_2(single_digits()), None, False),
    (["command-r"], gpt_2(single_digits()), NFC(), False),
    (["llama-bpe"], splits(LLAMA_3), None, True),
    (["dbrx"], splits(LLAMA_3), None, False),
    (["glm4"], splits(LLAMA_3), None, True),
    (["jais-2"], splits(JAIS_2), None, False),
    (["qwen2", "stablelm2", "hunyuan"], splits(QWEN_2), NFC(), False),
    (["grok-2"], splits(QWEN_2), None, False),
    # The published lines for this name are not normalized, see pre_tokenizers.rs.
    (["qwen35"], splits(QWEN_35), None, False),
    (["laguna"], splits(r"[^\n]+|[\n]+", QWEN_2), None, False),
    (["minicpm5"], splits(r"\p{N}{1,3}", LLAMA_3.replace(r"\p{N}{1,3}", r"\p{N}+")), None, True),
    (["ufakzeka"], splits(QWEN_2.removeprefix(CONTRACTIONS + "|")), None, False),
    (
        ["seed-coder"],
        splits(CONTRACTIONS + r"|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1}| ?[^\s\p{L}\p{N}\r\n]+|" + SPACES),
        None,
        False,
    ),
    (
        ["bailingmoe"],
        splits(
            r"'(?i:[sdmt]|ll|ve|re)|[^\r\n\p{L}\p{N}]?+\p{L}+|\p{N}| ?[^\s\p{L}\p{N}]++[\r\n]*|\s*[\r\n]|\s+(?!\S)|\s+"
        ),
        None,
        False,
    ),
    (
        ["exaone-moe"],
        splits(
            CONTRACTIONS + r"|[^\r\n\p{L}\p{N}]?(?:\p{L}\p{M}*(?: \p{L}\p{M}*)*)+|\p{N}| ?[^\s\p{L}\p{N}]+[\r\n/]?|"
            r"\s*[\r\n]|\s+(?!\S)|\s+"
        ),
        None,
        False,
    ),
    (["gpt-4o"], splits(GPT_4O), None, False),
    (["granite-embed-multi-97m"], splits(GPT_4O), None, True),
    (["tiny_aya", "cohere2moe"], splits(r"\d{1,3}(?=(?:\d{3})*\b)", GPT_4O), NFC(), False),
    (["tekken"], splits(TEKKEN), None, True),
    (["kimi-k2"], splits(KIMI_K2), None, False),
    (
        ["youtu"],
        splits("[가-힣ㄱ-ㆎ]+|[！…“”‘’—：；，、-〿︰-﹏]+|[ㄅ-ㄯ]+|[一-龥\u3040-ゟ゠-ヿ]+", YOUTU),
        None,
        True,
    ),
    (
        ["deepseek-llm"],
        splits(
            "[\r\n]",
            DEEPSEEK_LLM_LETTERS,
            "\\s?[!-/:-~\uff01-\uff0f\uff1a-\uff5e\u2018-\u201f\u3000-\u3002]+",
            r"\s+$",
            OLD_CJK,
            pre_tokenizers.Digits(individual_digits=False),
        ),
        None,
        False,
    ),
    (["deepseek-coder"], splits("[\r\n]", r"\s?\p{L}+", r"\s?\p{P}+", OLD_CJK, single_digits()), None, False),
    (["deepseek-v3", "hunyuan-dense", "joyai-llm"], splits(r"\p{N}{1,3}", CJK_AND_KANA, DEEPSEEK_V3), None, False),
    (
        ["spark2_5"],
        splits(
            r"\p{N}{1,3}",
            CJK_AND_KANA,
            DEEPSEEK_V3.replace(r"+[\r\n]*|", "+|").replace(r"\s*[\r\n]+|", r"[\r\n]|"),
            r"\p{N}",
        ),
        None,
        False,
    ),
    # The groups of digits are llama.cpp's words for it.
    (
        ["afmoe"],
        splits(r"\p{N}{1,3}(?=(?:\p{N}{3})*(?!\p{N}))", SCRIPTS_WITHOUT_SPACES, DEEPSEEK_V3),
        None,
        False,
    ),
    (["superbpe"], splits(r"\p{N}+", r"(?=(\d{3})+(?!\d))"), None, False),
    (
        ["falcon"],
        pre_tokenizers.Sequence(
            [
                pre_tokenizers.Punctuation("contiguous"),
                byte_level(True),
                pre_tokenizers.Digits(individual_digits=False),
                split("[0-9][0-9][0-9]"),
            ]
        ),
        None,
        False,
    ),
    (["bloom", "poro-chat"], splits(BLOOM), None, False),
    (["viking"], splits(BLOOM, single_digits()), None, False),
    (
        ["chameleon"],
        gpt_2(
            split("<sentinel:[0-9]+>"),
            split("(IMGIMG)((A|B|C|D|E|F|G|H|I){1,4})Z"),
            split("([\t\n]|    |  )"),
            single_digits(),
            pre_tokenizers.Punctuation("isolated"),
        ),
        None,
        False,
    ),
]


def row_of(name: str):
    for names, pre_tokenizer, normalizer, whole_pieces in ROWS:
        if name in names:
            return pre_tokenizer, normalizer, whole_pieces
    return None


# --- Tokenizers from vocabularies.


class Vocabulary:
    """What a GGUF file says about its tokenizer."""

    def __init__(self, path: Path):
        fields = gguf.GGUFReader(path).fields
        read = lambda key, default=None: (
            fields[f"tokenizer.ggml.{key}"].contents() if f"tokenizer.ggml.{key}" in fields else default
        )
        self.path = path
        self.model: str = read("model")
        self.pre: str | None = read("pre")
        self.tokens: list[str] = read("tokens")
        self.kinds: list[int] = read("token_type", [NORMAL] * len(self.tokens))
        self.merges: list[str] = read("merges", [])
        self.scores: list[float] = read("scores", [])
        self.unknown: int | None = read("unknown_token_id")
        self.adds_space_prefix: bool = read("add_space_prefix", True)
        self.charsmap: list[int] | None = read("precompiled_charsmap")
        self.removes_extra_spaces: bool = read("remove_extra_whitespaces", False)
        self.strips_right = self.is_phi_3()
        # Characters that the reference does not know, and how many texts with them differ.
        self.newer_characters, self.newer = frozenset(), 0
        self.processor = None
        # How many texts are written equally well in other tokens.
        self.ties = 0

    def is_phi_3(self) -> set[int]:
        """Tokens with "rstrip" in Phi-3's tokenizer.json."""
        is_phi_3 = self.tokens[32_000:32_003] == ["<|endoftext|>", "<|assistant|>", "<|placeholder1|>"]
        return {2, *range(32_001, 32_011)} if is_phi_3 else set()

    def is_tie(self, expected: list[int], got: list[int]) -> bool:
        """Whether both have the same probability, up to what sums of 32 bits lose."""
        total = lambda ids: sum(self.scores[index] for index in ids)
        return self.model == "t5" and abs(total(expected) - total(got)) < 0.01

    def ids(self) -> dict[str, int]:
        """Each text's first id."""
        ids: dict[str, int] = {}
        for index, token in enumerate(self.tokens):
            ids.setdefault(token, index)
        return ids

    def rebuilt(self, control: set[int], counts: bool, pre: str | None) -> Tokenizer | None:
        """The tokenizer, whose control tokens count in texts or are text; none for what is not known here."""
        ids = self.ids()
        if self.model == "gpt2":
            row = row_of(pre or self.pre or "")
            if row is None:
                return None
            pre_tokenizer, normalizer, whole_pieces = row
            self.newer_characters, self.newer = newer_characters(pre_tokenizer, normalizer), 0
            merges = [two_sides(merge, ids) for merge in self.merges]
            model = models.BPE(ids, [merge for merge in merges if merge], ignore_merges=whole_pieces)
            tokenizer = Tokenizer(model)
            if normalizer is not None:
                tokenizer.normalizer = normalizer
            tokenizer.pre_tokenizer = pre_tokenizer
        elif self.model in ("llama", "gemma4"):
            merges = self.merges_by_score(ids) if self.model == "llama" else self.listed_merges(ids)
            # Merging must not lead to a control token, so that it has another name inside.
            hidden = {token: index for token, index in ids.items() if self.kinds[index] not in (CONTROL, UNKNOWN)}
            hidden["\ue000unknown"] = self.unknown or 0
            merges = [merge for merge in merges if all(side in hidden for side in (*merge, "".join(merge)))]
            tokenizer = Tokenizer(
                models.BPE(hidden, merges, unk_token="\ue000unknown", fuse_unk=True, byte_fallback=True)
            )
            steps = [normalizers.Replace(" ", "▁")]
            if self.adds_space_prefix and self.model == "llama":
                steps.insert(0, normalizers.Prepend("▁"))
            tokenizer.normalizer = normalizers.Sequence(steps)
        elif self.model == "t5":
            pieces = [
                (token if kind in (NORMAL, USER_DEFINED) else f"\ue000{index}", score)
                for index, (token, kind, score) in enumerate(zip(self.tokens, self.kinds, self.scores))
            ]
            tokenizer = Tokenizer(models.Unigram(pieces, self.unknown))
        else:
            return None
        added = [
            AddedToken(token, normalized=False, special=index in control, rstrip=index in self.strips_right)
            for token, index in ids.items()
            if token.strip() and (self.kinds[index] in (USER_DEFINED, UNKNOWN) or index in control)
            or self.kinds[index] == USER_DEFINED
        ]
        # The library gives new ids to added tokens that the model does not have, so that what is hidden comes back by text.
        shown = [token for token in added if counts or not (token.special or self.kinds[ids[token.content]] == UNKNOWN)]
        self.back = {}
        tokenizer.add_tokens(shown)
        for token in shown:
            self.back[tokenizer.token_to_id(token.content)] = ids[token.content]
        return tokenizer

    def sentencepiece(self):
        """SentencePiece's own processor with this vocabulary, control tokens being no text."""
        if self.processor is not None:
            return self.processor
        pieces = []
        for index, (token, kind, score) in enumerate(zip(self.tokens, self.kinds, self.scores)):
            is_unknown = index == self.unknown if self.unknown is not None else kind == UNKNOWN
            kind = UNKNOWN if is_unknown else UNUSED if kind == UNKNOWN else kind
            piece = message(1, token.encode()) + b"\x15" + struct.pack("<f", score) + number(3, kind)
            pieces.append(message(1, piece))
        is_unigram, has_bytes = self.model == "t5", BYTE in self.kinds
        trainer = number(3, 1 if is_unigram else 2) + number(35, has_bytes)
        spec = message(2, bytes(byte % 256 for byte in self.charsmap or []))
        spec += number(3, self.adds_space_prefix) + number(4, self.removes_extra_spaces) + number(5, True)
        model = b"".join([*pieces, message(2, trainer), message(3, spec)])
        self.processor = sentencepiece.SentencePieceProcessor(model_proto=model)
        return self.processor

    def listed_merges(self, ids: dict[str, int]) -> list[tuple[str, str]]:
        return [sides for merge in self.merges if (sides := two_sides(merge, ids))]

    def merges_by_score(self, ids: dict[str, int]) -> list[tuple[str, str]]:
        """All pairs of tokens that make a token, the best score first, as Hugging Face converts SentencePiece's models."""
        is_text = {token for token, index in ids.items() if self.kinds[index] in (NORMAL, USER_DEFINED, UNUSED)}
        ranked = []
        for token in is_text:
            local = [
                (ids[token[:cut]], ids[token[cut:]], token[:cut], token[cut:])
                for cut in range(1, len(token))
                if token[:cut] in is_text and token[cut:] in is_text
            ]
            ranked += [(-self.scores[ids[token]], ids[token], *pair) for pair in sorted(local)]
        return [(left, right) for *_, left, right in sorted(ranked)]


def newer_characters(pre_tokenizer, normalizer) -> frozenset[str]:
    """Characters of a newer Unicode than the parts of the reference were made with, where it matters."""
    newer = set()
    if normalizer is not None:
        newer |= {chr(code) for code in range(0x110000) if unicodedata.category(chr(code)) == "Cn"}
    if "Punctuation" in repr(pre_tokenizer):
        cuts = pre_tokenizers.Punctuation("isolated")
        marks = [chr(code) for code in range(0x110000) if unicodedata.category(chr(code)).startswith("P")]
        newer |= {mark for mark in marks if len(cuts.pre_tokenize_str("a" + mark)) == 1}
    return frozenset(newer)


def number(field: int, value: int) -> bytes:
    """A number in a protobuf message."""
    return varint(field << 3) + varint(int(value))


def message(field: int, content: bytes) -> bytes:
    """A message or string in a protobuf message."""
    return varint(field << 3 | 2) + varint(len(content)) + content


def varint(value: int) -> bytes:
    out = b""
    while value > 127:
        out += bytes([value & 127 | 128])
        value >>= 7
    return out + bytes([value])


def two_sides(merge: str, ids: dict[str, int]) -> tuple[str, str] | None:
    """The two tokens of a merge, whose sides may have spaces themselves."""
    for match in re.finditer(" ", merge):
        left, right = merge[: match.start()], merge[match.end() :]
        if left in ids and right in ids and left + right in ids:
            return left, right
    return None


# --- Texts.


class TextMaker:
    """Random texts of all kinds; `specials` are texts of tokens, which are mixed in."""

    WORDS = "the of Hello WORLD helloWorld don't I'M we'll you've THEY'RE it'd 'sup ﬁne naïve straße ΣΊΣΥΦΟΣ привет мир".split()
    SCRIPTS = [
        (0x20, 0x7E), (0xA0, 0x17F), (0x370, 0x3FF), (0x400, 0x4FF), (0x590, 0x5FF), (0x600, 0x6FF), (0x900, 0x97F),
        (0xE00, 0xE7F), (0xE80, 0xEFF), (0x1000, 0x109F), (0x1100, 0x11FF), (0x1780, 0x17FF), (0x1E00, 0x1FFF),
        (0x2000, 0x206F), (0x2070, 0x209F), (0x2150, 0x218F), (0x2190, 0x23FF), (0x2460, 0x24FF), (0x3000, 0x30FF),
        (0x3130, 0x318F), (0x3400, 0x4DBF), (0x4E00, 0x9FFF), (0xA9E0, 0xA9FF), (0xAC00, 0xD7FF), (0xF900, 0xFAFF),
        (0xFB00, 0xFDFF), (0xFE30, 0xFE4F), (0xFF00, 0xFFEF), (0x10400, 0x104FF), (0x1D400, 0x1D7FF),
        (0x1F300, 0x1FAFF), (0x20000, 0x2A6DF), (0xE0000, 0xE01EF),
    ]  # fmt: skip
    SPACES = [" ", " ", " ", " ", "\n", "\n", "\t", "\r\n", "\r", "\xa0", "\u3000", "\u2003", "\x85", "\u2028", "\x0b", "\x0c"]
    MARKS = "\u0300\u0301\u0302\u0308\u0327\u0323\u05b0\u064b\u0651\u093c\u094d\u3099\u20e3\ufe0f"
    EMOJI = ["👩\u200d👩\u200d👧", "😊", "🏳️\u200d🌈", "🇩🇪", "👍🏽", "1️⃣", "🦙", "\u200d"]

    def __init__(self, seed: int, specials: list[str]):
        self.random = random.Random(seed)
        self.specials = specials or ["<s>"]

    def character(self) -> str:
        """Any assigned or unassigned character of any plane."""
        while True:
            plane = self.random.choice([0, 0, 0, 1, 1, 2, 3, 14, 15, 16])
            code = plane << 16 | self.random.randrange(0x10000)
            if not 0xD800 <= code < 0xE000:
                return chr(code)

    def part(self) -> str:
        pick = self.random
        match pick.randrange(16):
            case 0:
                return "".join(self.character() for _ in range(pick.randrange(1, 8)))
            case 1 | 2:
                first, last = pick.choice(self.SCRIPTS)
                return "".join(chr(pick.randint(first, last)) for _ in range(pick.randrange(1, 10)))
            case 3:
                return "".join(pick.choice(self.SPACES) for _ in range(pick.randrange(1, 9)))
            case 4:
                return pick.choice([" ", "\n", "\t", "\r\n", "\u3000"]) * pick.choice([1, 2, 3, 4, 7, 16, 33, 70])
            case 5:
                return "".join(pick.choice("0123456789") for _ in range(pick.randrange(1, 13)))
            case 6:
                return pick.choice(["²", "½", "Ⅷ", "٣", "९", "１", "①", "𝟘", "㊿"]) * pick.randrange(1, 5)
            case 7:
                return pick.choice("'’") + pick.choice(["s", "S", "t", "RE", "ve", "M", "Ll", "d", "ſ", "x"])
            case 8:
                return "".join(pick.choice("!\"#$%&'()*+,-./:;<=>?@[\\]^_`{|}~…。，、") for _ in range(pick.randrange(1, 7)))
            case 9:
                return pick.choice(self.specials)
            case 10:
                special = pick.choice(self.specials)
                return special[: pick.randrange(len(special) + 1)]
            case 11:
                letter = pick.choice("aeiouAEnKか각한ø")
                return letter + "".join(pick.choice(self.MARKS) for _ in range(pick.randrange(1, 4)))
            case 12:
                return unicodedata.normalize(pick.choice(["NFD", "NFC", "NFKC", "NFKD"]), pick.choice(self.WORDS) + "각한글Åéñ가か゛")
            case 13:
                return pick.choice(self.EMOJI)
            case 14:
                return pick.choice("Aa1. \n中'") * pick.choice([2, 3, 9, 40])
            case _:
                return " ".join(pick.choice(self.WORDS) for _ in range(pick.randrange(1, 5)))

    def text(self) -> str:
        glue = self.random.choice(["", "", " "])
        return glue.join(self.part() for _ in range(self.random.choice([1, 2, 3, 4, 6, 10])))


def long_texts(length: int) -> list[str]:
    return [(run * length)[: length * len(run)] for run in ["A", " ", "\n", ".", "中", "a1", "\u0301", "1", "'s", " \n"]]


# --- Comparing.


def ask(program: Path, arguments: list[str], texts: list[str]) -> tuple[dict, list[list[int]]]:
    lines = "".join(json.dumps(text) + "\n" for text in texts)
    run = subprocess.run([program, *arguments], input=lines.encode(), stdout=subprocess.PIPE, check=True)
    head, *ids = run.stdout.splitlines()
    return json.loads(head), [json.loads(line) for line in ids]


def compare(vocabulary: Vocabulary, arguments, texts: list[str], counts: bool, pre: str | None = None) -> dict[str, int]:
    """The number of texts that differ from each reference."""
    options = (["--control"] if counts else []) + (["--pre", pre] if pre else [])
    head, ours = ask(arguments.program, [str(vocabulary.path), *options], texts)
    wrong = {}
    tokenizer = vocabulary.rebuilt(set(head["control"]), counts, pre)
    normalized = texts
    if vocabulary.model == "t5":
        if counts or sentencepiece is None:
            return {}
        normalized = vocabulary.sentencepiece().normalize(texts)
    if tokenizer is not None:
        theirs = []
        for start in range(0, len(texts), 10_000):
            for encoding in tokenizer.encode_batch(normalized[start : start + 10_000], add_special_tokens=False):
                ids = [vocabulary.back.get(index, index) for index in encoding.ids]
                begins = head["bos"] is None or ids[:1] == [head["bos"]] or not counts
                theirs.append(ids if begins else [head["bos"], *ids])
        wrong["tokenizers"] = count_wrong(vocabulary, arguments, texts, theirs, ours)
    # SentencePiece knows no control tokens in texts, and puts no space behind user-defined ones.
    plain = not counts and USER_DEFINED not in vocabulary.kinds
    if sentencepiece is not None and vocabulary.model in ("llama", "t5") and plain:
        theirs = vocabulary.sentencepiece().encode(texts)
        wrong["sentencepiece"] = count_wrong(vocabulary, arguments, texts, theirs, ours)
    return wrong


def count_wrong(vocabulary: Vocabulary, arguments, texts: list[str], theirs, ours) -> int:
    wrong = 0
    for text, expected, got in zip(texts, theirs, ours, strict=True):
        if got == expected:
            continue
        if any(c in vocabulary.newer_characters for c in text):
            vocabulary.newer += 1
        elif vocabulary.is_tie(expected, got):
            vocabulary.ties += 1
        else:
            wrong += 1
            if wrong <= arguments.show:
                show(vocabulary, text, expected, got)
    return wrong


def show(vocabulary: Vocabulary, text: str, expected: list[int], got: list[int]) -> None:
    same = next((i for i, (a, b) in enumerate(zip(expected, got)) if a != b), min(len(expected), len(got)))
    names = lambda ids: [vocabulary.tokens[index] for index in ids[max(same - 2, 0) : same + 6]]
    print(f"  {ascii(text[:200])}\n    from {same}: expected {names(expected)}, got {names(got)}")


def report(name: str, texts: int, wrong: dict[str, int], vocabulary: Vocabulary | None = None) -> bool:
    figures = [f"{count} of {texts} differ from {reference}'s" for reference, count in wrong.items()]
    if vocabulary and vocabulary.newer:
        figures.append(f"{vocabulary.newer} by characters newer than the reference")
    if vocabulary and vocabulary.ties:
        figures.append(f"{vocabulary.ties} by ties of 32-bit sums")
    print(f"{name}: {', '.join(figures) or 'not compared'}", flush=True)
    return any(wrong.values())


def vocabularies(arguments) -> list[Path]:
    paths = sorted(Path(arguments.folder).glob("*.gguf"))
    return [path for path in paths if arguments.only in path.name]


def run_vocabularies(arguments) -> bool:
    differs = False
    paths = vocabularies(arguments)
    for index, path in enumerate(paths):
        vocabulary = Vocabulary(path)
        if vocabulary.model == "gpt2" and row_of(vocabulary.pre or "") is None or vocabulary.model == "bert":
            report(path.name, 0, {})
            continue
        specials = [t for t, kind in zip(vocabulary.tokens, vocabulary.kinds) if kind in (CONTROL, USER_DEFINED)]
        maker = TextMaker(arguments.seed + index, [t for t in specials if "PAD" not in t] or specials)
        count = -(-arguments.count // len(paths))
        texts = [maker.text() for _ in range(count)]
        for counts in (False, True):
            name = f"{path.name}{', as a template' if counts else ''}"
            vocabulary.newer = vocabulary.ties = 0
            differs |= report(name, count, compare(vocabulary, arguments, texts, counts), vocabulary)
    return differs


def run_rows(arguments) -> bool:
    differs = False
    vocabulary = Vocabulary(Path(arguments.vocabulary))
    for index, (names, *_) in enumerate(ROWS):
        # Falcon's tokenizer cuts digits out of bytes that are parts of letters; its own vocabulary has no such merges, and
        # ours has no such step.
        for name in (name for name in names if arguments.only in name and name != "falcon"):
            maker = TextMaker(arguments.seed + index, ["<sentinel:12>", "IMGIMGABZ", "12345abc", "1234 ", "(123456)"])
            texts = [maker.text() for _ in range(arguments.count)]
            differs |= report(name, len(texts), compare(vocabulary, arguments, texts, False, name), vocabulary)
    return differs


def run_long(arguments) -> bool:
    differs = False
    for path in vocabularies(arguments):
        vocabulary = Vocabulary(path)
        if vocabulary.model == "gpt2" and row_of(vocabulary.pre or "") is None or vocabulary.model == "bert":
            continue
        texts = long_texts(arguments.length)
        differs |= report(path.name, len(texts), compare(vocabulary, arguments, texts, False))
    return differs


def run_names(arguments) -> bool:
    """Asks for each name that llama.cpp's converter writes or its library reads."""
    root = Path(arguments.llama_cpp)
    library = (root / "src/llama-vocab.cpp").read_text()
    converter = "".join(path.read_text() for path in [*root.glob("convert_hf_to_gguf*.py"), *root.glob("conversion/*.py")])
    written = set(re.findall(r'\bres = "([\w.-]+)"', converter)) | set(re.findall(r'add_tokenizer_pre\("([^"]+)"', converter))
    read = set(re.findall(r'tokenizer_pre == "([^"]+)"', library))
    vocabulary = next(root.glob("models/ggml-vocab-gpt-2.gguf"))
    unknown = []
    for name in sorted(written | read):
        run = subprocess.run([arguments.program, vocabulary, "--pre", name], input=b"", capture_output=True)
        if run.returncode != 0:
            unknown.append(name)
    names = len(written | read)
    print(f"{names - len(unknown)} of {names} names known ({len(written)} written, {len(read)} read)")
    print("unknown:", ", ".join(f"{name}{'' if name in read else ' (not read by llama.cpp)'}" for name in unknown))
    return any(name in read for name in unknown)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    commands = parser.add_subparsers(required=True)
    for name, run, place, count in [
        ("vocabularies", run_vocabularies, "folder", 200_000),
        ("rows", run_rows, "vocabulary", 10_000),
        ("long", run_long, "folder", 0),
        ("names", run_names, "llama_cpp", 0),
    ]:
        command = commands.add_parser(name)
        command.add_argument(place)
        command.add_argument("--program", type=Path, default=PROGRAM)
        command.add_argument("--seed", type=int, default=1)
        command.add_argument("--show", type=int, default=3, help="differences to show for each vocabulary")
        command.add_argument("--count", type=int, default=count)
        command.add_argument("--length", type=int, default=10_000)
        command.add_argument("--only", default="")
        command.set_defaults(run=run)
    arguments = parser.parse_args()
    return int(arguments.run(arguments))


if __name__ == "__main__":
    sys.exit(main())
