#!/usr/bin/env python3
"""Whether transformers and compressed-tensors read the folders that `duan quantize --format int4-g64` and its like write, as duan does.

    groups_oracle.py FOLDER --text TEXT [--duan target/release/duan] [--context N] [--windows N]
        [--formats F,..]

Needs torch, transformers, compressed-tensors, safetensors. For each format the float checkpoint FOLDER is quantized, and

- every weight that compressed-tensors makes of codes, scales and zero points is compared with the source, whose error must be what
  duan reports of the tensor, but for that rounding;
- transformers loads the folder, without a missing or unexpected tensor, and its perplexity of the text, by the windows of `duan eval`,
  must be duan's within 0.5 %: it rounds weights to the type of the scales, half floats.

Exits with 1 where something differs.
"""
from __future__ import annotations

import argparse
import json
import math
import subprocess
import sys
import tempfile
from pathlib import Path

FORMATS = [
    f"int{bits}-{shared}{zero}" for bits in (4, 8) for shared in ("g32", "g64", "channel", "tensor") for zero in ("", "-zp")
]


def run(command: list[str]) -> str:
    done = subprocess.run(command, capture_output=True, text=True)
    if done.returncode:
        raise SystemExit(f"{' '.join(command)}: {done.stderr.strip()}")
    return done.stdout


def tensors(folder: Path) -> dict:
    from safetensors.torch import load_file

    return {name: tensor for path in sorted(folder.glob("*.safetensors")) for name, tensor in load_file(path).items()}


def perplexity(torch, model, ids: list[int], bos: int | None, context: int, windows: int) -> float:
    total, count = 0.0, 0
    tokens = ([bos] if bos is not None else []) + ids
    for start in range(0, windows * context, context):
        window = tokens[start : start + context]
        if len(window) < context:
            break
        if bos is not None:
            window = [bos] + window[1:]
        with torch.inference_mode():
            logits = model(torch.tensor([window])).logits[0].double().log_softmax(-1)
        for at in range(context // 2, context - 1):
            total -= logits[at, window[at + 1]].item()
            count += 1
    return math.exp(total / count)


def wrong_weights(torch, before: dict, model, report: dict) -> list[str]:
    """Tensors whose error is not the one that was reported."""
    after = dict(model.named_parameters()) | dict(model.named_buffers())
    wrong = []
    for row in report["tensors"]:
        if not row["format"].startswith("int"):
            continue
        if row["name"] not in after:
            wrong.append(f"{row['name']}: not decompressed")
            continue
        old, new = before[row["name"]].double(), after[row["name"]].double()
        error = ((new - old).pow(2).sum() / old.pow(2).sum()).sqrt().item()
        if abs(error - row["error"]) > 1e-3 * row["error"] + 2e-4:
            wrong.append(f"{row['name']}: error {error}, reported {row['error']}")
    return wrong


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder", type=Path)
    parser.add_argument("--formats", type=lambda text: text.split(","), default=FORMATS)
    parser.add_argument("--text", required=True)
    parser.add_argument("--duan", default="target/release/duan")
    parser.add_argument("--context", type=int, default=32)
    parser.add_argument("--windows", type=int, default=4)
    options = parser.parse_args()
    import torch
    from transformers import AutoConfig, AutoModelForCausalLM, CompressedTensorsConfig

    text = Path(options.text).read_text(encoding="utf-8")[: 16 * options.context * options.windows]
    before, failed = tensors(options.folder), 0
    for name in options.formats:
        with tempfile.TemporaryDirectory() as place:
            out = Path(place) / "out"
            report = json.loads(run([options.duan, "quantize", str(options.folder), str(out), "--format", name, "--json"]))
            cut = Path(place) / "text.txt"
            cut.write_text(text, encoding="utf-8")
            # In F32, whose activations are not rounded to 8 bits.
            plain = Path(place) / "plain.gguf"
            run([options.duan, "convert", str(out), str(plain), "--format", "f32"])
            command = [options.duan, "eval", str(plain), "--text", str(cut), "--json", "--context", str(options.context)]
            command += ["--chunks", str(options.windows)]
            ours = json.loads(run(command))[0]["perplexity"]
            plain = json.loads(run([options.duan, "tokenize", str(out), text, "--json"]))["ids"]
            # Whether the vocabulary has a token that begins texts, duan knows.
            begun = json.loads(run([options.duan, "inspect", str(out), "--json"]))
            adds_bos = begun.get("tokenizer", {}).get("adds_bos", False)
            bos = AutoConfig.from_pretrained(out).bos_token_id if adds_bos else None
            # While it loads, transformers decompresses with one scheme for all modules; at the first pass with that of each module, but
            # then it expects zero points that are not packed.
            schemes = json.loads((out / "config.json").read_text())["quantization_config"]["config_groups"]
            if len(schemes) > 1 and name.endswith("-zp"):
                print(f"{name}: passed over, transformers reads no zero points where modules differ (as rows fell back)")
                continue
            how = {} if len(schemes) > 1 else {"quantization_config": CompressedTensorsConfig(run_compressed=False)}
            model, info = AutoModelForCausalLM.from_pretrained(out, dtype=torch.float32, output_loading_info=True, **how)
            lost = [key for key in ("missing_keys", "unexpected_keys", "mismatched_keys") if info.get(key)]
            theirs = perplexity(torch, model, plain, bos, options.context, options.windows)
            problems = [f"{key}: {sorted(info[key])[:3]}" for key in lost]
            problems += wrong_weights(torch, before, model, report)
            if abs(theirs / ours - 1) > 5e-3:
                problems.append(f"perplexity {theirs}, duan's {ours}")
            print(f"{name}: {'same' if not problems else 'DIFFERENT'} (perplexity {theirs:.5f}, duan's {ours:.5f})", flush=True)
            for problem in problems[:5]:
                print(f"    {problem}")
            failed += bool(problems)
    print("all the same" if not failed else f"{failed} differ")
    return int(failed > 0)


if __name__ == "__main__":
    sys.exit(main())
