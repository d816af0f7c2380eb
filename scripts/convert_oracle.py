#!/usr/bin/env python3
"""Whether `duan convert` writes what llama.cpp's convert_hf_to_gguf.py writes: tensors bit for bit, and the keys that matter.

    python crates/backend/tests/fixtures/generate.py --folders FOLDERS
    cargo build --release
    convert_oracle.py FOLDERS --llama LLAMA_CPP [--duan target/release/duan] [--only NAME] [--formats f32,f16]

Needs the packages that llama.cpp's script needs (torch, transformers, gguf, sentencepiece). LLAMA_CPP is its source folder. Its
script knows real vocabularies only, by their hashes, so here it writes none: `set_vocab` is replaced in this process, nothing in
its files. Vocabularies are compared elsewhere.

What differs on purpose:
- duan writes `rope_freqs.weight` from frequencies in 64 bits, the script from 32: the last bit may differ, and is allowed to.
- the script cannot convert StableLM with norms for each head (it looks for them under other names): that is said, and passed over.
- duan keeps windows of Mistral, and bases and sizes of heads that the script leaves out because its readers know them: keys that
  only duan writes are shown and are no difference.

Exits with 1 where something differs.
"""

from __future__ import annotations

import argparse
import logging
import subprocess
import sys
import tempfile
from pathlib import Path

import numpy as np

# Of a file's own story, not of the model.
NOT_COMPARED = ("general.", "tokenizer.", "GGUF.", "duan.")
COMPARED_ANYWAY = ("general.architecture", "general.file_type", "general.quantization_version", "general.type")


def convert_theirs(conversion, gguf, torch, folder: Path, out: Path, kind: str) -> None:
    file_type = {"f32": gguf.LlamaFileType.ALL_F32, "f16": gguf.LlamaFileType.MOSTLY_F16, "bf16": gguf.LlamaFileType.MOSTLY_BF16}
    base = conversion.base
    with torch.inference_mode():
        config = base.ModelBase.load_hparams(folder, False)
        name = base.get_model_architecture(config, base.ModelType.TEXT)
        model_class = conversion.get_model_class(name)
        model_class.set_vocab = lambda self: None
        model = model_class(folder, file_type[kind], out, eager=True)
        if hasattr(model, "impl"):
            type(model.impl).set_vocab = lambda self: None
        model.write()


def contents(gguf, path: Path) -> tuple[dict, dict]:
    reader = gguf.GGUFReader(path)
    keys = {name: field.contents() for name, field in reader.fields.items()}
    tensors = {t.name: (t.tensor_type.name, [int(d) for d in t.shape], np.array(t.data).tobytes()) for t in reader.tensors}
    return keys, tensors


def is_same(ours, theirs) -> bool:
    if isinstance(theirs, float) or isinstance(ours, float):
        return abs(ours - theirs) <= 1e-6 * max(abs(ours), abs(theirs))
    return ours == theirs


def differences(ours: tuple[dict, dict], theirs: tuple[dict, dict]) -> tuple[list[str], list[str]]:
    found, notes = [], []
    (our_keys, our_tensors), (their_keys, their_tensors) = ours, theirs
    for key, value in their_keys.items():
        if key.startswith(NOT_COMPARED) and key not in COMPARED_ANYWAY:
            continue
        if key not in our_keys:
            found.append(f"key {key} = {value!r} is missing")
        elif not is_same(our_keys[key], value):
            found.append(f"key {key} is {our_keys[key]!r}, not {value!r}")
    own = [key for key in our_keys if key not in their_keys and not key.startswith(NOT_COMPARED)]
    notes += [f"{key} = {our_keys[key]!r}" for key in own]
    for name in sorted(their_tensors.keys() | our_tensors.keys()):
        if name not in our_tensors or name not in their_tensors:
            found.append(f"tensor {name} is only in {'theirs' if name in their_tensors else 'ours'}")
            continue
        (kind, shape, data), (their_kind, their_shape, their_data) = our_tensors[name], their_tensors[name]
        if (kind, shape) != (their_kind, their_shape):
            found.append(f"tensor {name} is {kind} {shape}, not {their_kind} {their_shape}")
        elif data != their_data:
            if name == "rope_freqs.weight":
                a, b = np.frombuffer(data, "<f4"), np.frombuffer(their_data, "<f4")
                if np.allclose(a, b, rtol=3e-6, atol=0):
                    notes.append(f"rope_freqs.weight differs by {np.max(np.abs(a - b) / b):.1e} at most")
                    continue
            found.append(f"tensor {name} has other bytes")
    return found, notes


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folders", type=Path)
    parser.add_argument("--llama", type=Path, required=True)
    parser.add_argument("--duan", default="target/release/duan")
    parser.add_argument("--only")
    parser.add_argument("--formats", default="f32,f16")
    options = parser.parse_args()
    sys.path.insert(1, str(options.llama / "gguf-py"))
    sys.path.insert(1, str(options.llama))
    import gguf
    import torch

    import conversion

    logging.disable(logging.WARNING)
    wrong = 0
    for folder in sorted(path for path in options.folders.iterdir() if (path / "config.json").exists()):
        if options.only and folder.name != options.only:
            continue
        for kind in options.formats.split(","):
            with tempfile.TemporaryDirectory() as place:
                ours, theirs = Path(place) / "ours.gguf", Path(place) / "theirs.gguf"
                run = subprocess.run(
                    [options.duan, "convert", str(folder), str(ours), "--format", kind], capture_output=True, text=True
                )
                if run.returncode != 0:
                    print(f"{folder.name} {kind}: {run.stderr.strip()}")
                    wrong += 1
                    continue
                try:
                    convert_theirs(conversion, gguf, torch, folder, theirs, kind)
                except (ValueError, KeyError, NotImplementedError) as error:
                    print(f"{folder.name} {kind}: theirs fails: {error}")
                    continue
                found, notes = differences(contents(gguf, ours), contents(gguf, theirs))
            print(f"{folder.name} {kind}: {'same' if not found else 'DIFFERENT'}")
            for line in found:
                print(f"    {line}")
            for line in notes:
                print(f"    (only ours: {line})" if "=" in line else f"    ({line})")
            wrong += bool(found)
    print("all the same" if wrong == 0 else f"{wrong} differ")
    return int(wrong > 0)


if __name__ == "__main__":
    sys.exit(main())
