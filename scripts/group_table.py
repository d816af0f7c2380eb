#!/usr/bin/env python3
"""What integers in groups cost and give: size, KL divergence, perplexity, rate of decode, for each way to share scales.

    group_table.py FOLDER --text TEXT --duan target/release/duan [--importance FILE] [--windows N] [--bench] [--formats F,..]
    group_table.py --gguf FILE.gguf FOLDER ...

FOLDER is a float checkpoint; it is the reference. With --gguf it is made of a GGUF file of a family that transformers reads from GGUF
(needs torch, transformers, gguf): for models that are only there as GGUF. Prints a table in Markdown. Without --bench nothing is
timed, and the table has no rates; a rate is worth something on a machine that does nothing else. Folders of quantized models are made in
a temporary folder, beside FOLDER, one at a time.
"""
from __future__ import annotations

import argparse
import json
import subprocess
import sys
import tempfile
from pathlib import Path

SHARED = ["tensor", "channel", "g128", "g64", "g32"]
FORMATS = [f"int4-{shared}{zero}" for zero in ("", "-zp") for shared in SHARED] + ["int8-channel"]


def folder_of_gguf(gguf: Path, folder: Path) -> None:
    import torch
    from transformers import AutoModelForCausalLM, AutoTokenizer

    read = AutoModelForCausalLM.from_pretrained(gguf.parent, gguf_file=gguf.name, dtype=torch.float32)
    config = read.config
    if hasattr(config, "quantization_config"):
        del config.quantization_config
    config.dtype = torch.float16
    model = AutoModelForCausalLM.from_config(config).to(torch.float16)
    model.load_state_dict({name: tensor.to(torch.float16) for name, tensor in read.state_dict().items()})
    model.save_pretrained(folder)
    AutoTokenizer.from_pretrained(gguf.parent, gguf_file=gguf.name).save_pretrained(folder)


def run(command: list[str]) -> str:
    done = subprocess.run(command, capture_output=True, text=True)
    if done.returncode:
        raise SystemExit(f"{' '.join(command)}: {done.stderr.strip()}")
    return done.stdout


def measured(options, model: Path, against: Path | None) -> dict:
    command = [options.duan, "eval", str(model), "--text", options.text, "--json"]
    command += ["--chunks", str(options.windows)] if options.windows else []
    command += ["--against", str(against)] if against else []
    row = json.loads(run(command))[0]
    if options.bench:
        tests = ["-p", "0", "-n", "128", "-r", str(options.repetitions)]
        timed = json.loads(run([options.duan, "bench", str(model), *tests, "--json"]))[0]
        row |= {"median_ts": timed["median_ts"], "share": timed["share"]}
    return row


def line(name: str, bytes: int, bits: float, row: dict, fallbacks: str, options) -> str:
    kl = "0" if row["kl_mean"] is None else f"{row['kl_mean']:.4f} ± {row['kl_mean_error']:.4f}"
    cells = [name, f"{bytes / 1e6:.1f}", f"{bits:.2f}", kl, f"{row['perplexity']:.3f} ± {row['perplexity_error']:.3f}"]
    if options.bench:
        share = "" if row["share"] is None else f"{100 * row['share']:.0f} %"
        cells += [f"{row['median_ts']:.1f}", share]
    return "| " + " | ".join([*cells, fallbacks]) + " |"


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder", type=Path)
    parser.add_argument("--formats", type=lambda text: text.split(","), default=FORMATS)
    parser.add_argument("--gguf", type=Path)
    parser.add_argument("--text", required=True)
    parser.add_argument("--duan", default="target/release/duan")
    parser.add_argument("--importance")
    parser.add_argument("--windows", type=int)
    parser.add_argument("--bench", action="store_true")
    parser.add_argument("--repetitions", type=int, default=5)
    options = parser.parse_args()
    if options.gguf and not options.folder.exists():
        folder_of_gguf(options.gguf, options.folder)
    rates = " | tokens/s | of the ceiling" if options.bench else ""
    print(f"| format | MB | bits of a linear weight | KL | perplexity{rates} | rows that did not divide |")
    print("|---|" + "---:|" * (rates.count("|") + 4) + "---|", flush=True)
    files = [path.stat().st_size for path in options.folder.glob("*.safetensors")]
    reference = measured(options, options.folder, None)
    print(line("as it is", sum(files), 16, reference, "", options), flush=True)
    for name in options.formats:
        with tempfile.TemporaryDirectory(dir=options.folder.resolve().parent) as place:
            out = Path(place) / name
            importance = ["--importance", options.importance] if options.importance else []
            command = [options.duan, "quantize", str(options.folder), str(out), "--format", name, "--json", *importance]
            report = json.loads(run(command))
            linear = [tensor for tensor in report["tensors"] if tensor["format"].startswith("int")]
            bits = 8 * sum(tensor["bytes"] for tensor in linear) / sum(tensor["weights"] for tensor in linear)
            fell = "; ".join(f"{fell['tensors']} of {fell['columns']}: {fell['to']}" for fell in report["fallbacks"])
            print(line(name, report["bytes"], bits, measured(options, out, options.folder), fell, options), flush=True)
    return 0


if __name__ == "__main__":
    sys.exit(main())
