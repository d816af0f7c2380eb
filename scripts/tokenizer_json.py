#!/usr/bin/env python3
"""Whether duan reads the tokenizers of folders (`tokenizer.json`, `tokenizer.model`) as others do. Needs what `ids.py` needs.

    cargo build --release -p duan-model --example tokenize_lines
    tokenizer_json.py ids FOLDER... [--count N] [--seed N]          random texts, against Hugging Face's `tokenizers`
    tokenizer_json.py converter LLAMA_CPP FOLDER... [--architecture NAME]
                                                                    keys, against llama.cpp's converter
    tokenizer_json.py keys FOLDER FILE.gguf                         keys, against a GGUF file of the same model

`converter` runs the converter's own code for vocabularies (it needs `transformers` and `torch`); its check of known pre-tokenizers
is replaced by the name that duan found, because it knows made-up vocabularies as little as any new one. Differences are told and
counted; which of them matter is for the reader. Exits with 1 where ids differ.
"""

from __future__ import annotations

import argparse
import json
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

from ids import PROGRAM, TextMaker, ask, newer_characters
from tokenizers import Tokenizer


def keys(program: Path, path: Path) -> dict:
    run = subprocess.run([program, path, "--keys"], stdout=subprocess.PIPE, check=True)
    return dict(json.loads(line) for line in run.stdout.splitlines())


# --- Ids.


def compare_ids(arguments) -> bool:
    differs = False
    for index, folder in enumerate(arguments.folders):
        if not (folder / "tokenizer.json").is_file():
            continue
        file = json.loads((folder / "tokenizer.json").read_text())
        theirs = Tokenizer.from_str(json.dumps({**file, "post_processor": None}))
        try:
            known = keys(arguments.program, folder)
        except subprocess.CalledProcessError:
            print(f"{folder}: refused")
            continue
        kinds = known["tokenizer.ggml.token_type"]
        names = [token["content"] for token in file["added_tokens"]]
        control = [name for name in names if kinds_of(known, name, kinds) in (2, 3)]
        maker = TextMaker(arguments.seed + index, [name for name in names if name not in control] or ["(x)"])
        texts = [maker.text() for _ in range(arguments.count)]
        texts = [text for text in texts if not any(name in text for name in control)]
        _, ours = ask(arguments.program, [str(folder)], texts)
        newer, wrong, by_newer = newer_characters(theirs.pre_tokenizer, theirs.normalizer), 0, 0
        for text, got, encoding in zip(texts, ours, theirs.encode_batch(texts, add_special_tokens=False)):
            if got != encoding.ids and any(character in newer for character in text):
                by_newer += 1
            elif got != encoding.ids:
                wrong += 1
                if wrong <= arguments.show:
                    tell(theirs, text, encoding.ids, got)
        print(f"{folder}: {known['tokenizer.ggml.model']}, {known['tokenizer.ggml.pre']}: {wrong} of {len(texts)} texts differ, {by_newer} by newer characters", flush=True)
        for note in known["notes"]:
            print(f"  note: {note}")
        differs |= wrong > 0
    return differs


def kinds_of(known: dict, name: str, kinds: list[int]) -> int:
    try:
        return kinds[known["tokenizer.ggml.tokens"].index(name)]
    except ValueError:
        return 0


def tell(theirs: Tokenizer, text: str, expected: list[int], got: list[int]) -> None:
    same = next((i for i, (a, b) in enumerate(zip(expected, got)) if a != b), min(len(expected), len(got)))
    names = lambda ids: [theirs.id_to_token(index) for index in ids[max(same - 2, 0) : same + 6]]
    print(f"  {ascii(text[:200])}\n    from {same}: expected {names(expected)}, got {names(got)}")


# --- Keys.


def compare_keys(ours: dict, theirs: dict) -> None:
    for key in sorted({*ours, *theirs} - {"notes"}):
        a, b = ours.get(key), theirs.get(key)
        if a == b:
            print(f"  same: {key}")
        elif key.endswith(".scores") and a and b:
            tell_scores(a, b, ours["tokenizer.ggml.token_type"])
        elif isinstance(a, list) and isinstance(b, list):
            places = [i for i, (x, y) in enumerate(zip(a, b)) if x != y]
            first = [(i, a[i], b[i]) for i in places[:4]]
            print(f"  DIFFERS: {key}: {len(a)} and {len(b)} items, {len(places)} differ: {first}")
        else:
            print(f"  DIFFERS: {key}: {str(a)[:80]!r} and {str(b)[:80]!r}")


def tell_scores(ours: list[float], theirs: list[float], kinds: list[int]) -> None:
    """Scores matter by their order, among tokens that are text."""
    text = [i for i, kind in enumerate(kinds) if kind == 1 and i < len(theirs)]
    order = lambda scores: sorted(text, key=lambda i: -scores[i])
    same = sum(a == b for a, b in zip(ours, theirs))
    places = {index: place for place, index in enumerate(order(theirs))}
    moved = sum(places[index] != place for place, index in enumerate(order(ours)))
    print(f"  scores: {same} of {len(ours)} are the same, {moved} of {len(text)} normal tokens stand elsewhere in their order")


def of_gguf(path: Path) -> dict:
    import gguf

    fields = gguf.GGUFReader(path).fields
    return {key: field.contents() for key, field in fields.items() if "token" in key}


def of_converter(llama_cpp: Path, folder: Path, architecture: str, pre: str) -> dict:
    sys.path.insert(0, str(llama_cpp / "gguf-py"))
    sys.path.insert(0, str(llama_cpp))
    # The package that `ids` brought is another version than the converter's own.
    for name in [name for name in sys.modules if name.split(".")[0] == "gguf"]:
        del sys.modules[name]
    import conversion
    import gguf

    conversion.TextModel.get_vocab_base_pre = lambda self, tokenizer: pre
    with tempfile.TemporaryDirectory() as copy:
        for file in folder.iterdir():
            if file.is_file():
                shutil.copy(file, copy)
        cls = conversion.get_model_class(architecture)
        model = cls.__new__(cls)
        config = Path(copy) / "config.json"
        model.hparams = json.loads(config.read_text()) if config.exists() else {}
        # What `TextModel` does with a model of text in a larger one.
        model.hparams = {**model.hparams, **model.hparams.get("text_config", {})}
        model_types = {"llama": "llama", "qwen2": "qwen2", "gemma3": "gemma3_text"}
        config.write_text(json.dumps({"model_type": model_types.get(architecture[:6].lower(), "llama"), **model.hparams}))
        model.dir_model, model.is_mistral_format, model.origin_hf_arch = Path(copy), False, None
        model.gguf_writer = gguf.GGUFWriter(path=None, arch="llama")
        model.set_vocab()
    entries = model.gguf_writer.kv_data[0]
    text = lambda value: value.decode() if isinstance(value, (bytes, bytearray)) else value
    read = lambda value: [int(v) if isinstance(v, gguf.TokenType) else text(v) for v in value] if isinstance(value, list) else value
    return {key: read(value.value) for key, value in entries.items() if "token" in key}


def compare_with_converter(arguments) -> bool:
    for folder in arguments.folders:
        ours = keys(arguments.program, folder)
        print(f"{folder} as {arguments.architecture}:")
        try:
            theirs = of_converter(arguments.llama_cpp, folder, arguments.architecture, ours["tokenizer.ggml.pre"])
        except Exception as error:  # noqa: BLE001
            print(f"  the converter fails: {error!r}")
            continue
        compare_keys(ours, theirs)
    return False


def compare_with_gguf(arguments) -> bool:
    compare_keys(keys(arguments.program, arguments.folder), of_gguf(arguments.file))
    return False


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--program", type=Path, default=PROGRAM)
    commands = parser.add_subparsers(required=True)
    ids = commands.add_parser("ids")
    ids.add_argument("folders", type=Path, nargs="+")
    ids.add_argument("--count", type=int, default=20_000)
    ids.add_argument("--seed", type=int, default=1)
    ids.add_argument("--show", type=int, default=3, help="differences to show for each folder")
    ids.set_defaults(run=compare_ids)
    converter = commands.add_parser("converter")
    converter.add_argument("llama_cpp", type=Path)
    converter.add_argument("folders", type=Path, nargs="+")
    converter.add_argument("--architecture", default="LlamaForCausalLM")
    converter.set_defaults(run=compare_with_converter)
    one = commands.add_parser("keys")
    one.add_argument("folder", type=Path)
    one.add_argument("file", type=Path)
    one.set_defaults(run=compare_with_gguf)
    arguments = parser.parse_args()
    return int(arguments.run(arguments))


if __name__ == "__main__":
    sys.exit(main())
