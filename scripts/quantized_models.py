#!/usr/bin/env python3
"""How far whole models are from their reference, quantized by duan and by llama.cpp's tools, each with importance of its own.

usage: quantized_models.py --duan DUAN --llama FOLDER --reference MODEL.gguf --calibrate TEXT --judge TEXT
                           [--chunks N] [--work FOLDER] [MIX ...]

FOLDER has llama-imatrix and llama-quantize. Both programs read the same first windows of the text that calibrates; `duan eval` judges
all files on the other text. A row of the output is a mix: the bytes of both files and the Kullback-Leibler divergence of both from
the reference, and ours by theirs. `scripts/references.py` makes references of models that are quantized already.
"""
import argparse
import json
import pathlib
import subprocess
import tempfile

MIXES = "Q2_K Q3_K_S Q3_K_M Q4_K_S Q4_K_M Q5_K_M Q6_K IQ4_NL IQ4_XS".split()
CALIBRATION_WINDOWS = 64


def run(*command):
    done = subprocess.run([str(part) for part in command], capture_output=True)
    if done.returncode:
        raise SystemExit(f"{' '.join(map(str, command))}:\n{done.stderr.decode(errors='replace')[-2000:]}")
    return done.stdout.decode(errors="replace")


def quantize_all(arguments, work):
    """The files of both programs, by mix."""
    ours, theirs = work / "ours.imatrix.gguf", work / "theirs.imatrix.gguf"
    windows = CALIBRATION_WINDOWS
    if not ours.exists():
        run(arguments.duan, "importance", arguments.reference, "--out", ours, "--text", arguments.calibrate, "--chunks", windows)
    if not theirs.exists():
        imatrix = arguments.llama / "llama-imatrix"
        run(imatrix, "-m", arguments.reference, "-f", arguments.calibrate, "-o", theirs, "--chunks", windows, "-c", 512, "-b", 512)
    files = []
    for mix in arguments.mixes:
        pair = [work / f"{side}-{mix}.gguf" for side in ("ours", "theirs")]
        run(arguments.duan, "quantize", arguments.reference, pair[0], "--format", mix, "--importance", ours, "--force")
        run(arguments.llama / "llama-quantize", "--imatrix", theirs, arguments.reference, pair[1], mix)
        files.append(pair)
    return files


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--duan", required=True)
    for name in ("llama", "reference", "calibrate", "judge"):
        parser.add_argument(f"--{name}", type=pathlib.Path, required=True)
    parser.add_argument("--chunks", type=int, default=32)
    parser.add_argument("--work", type=pathlib.Path)
    parser.add_argument("mixes", nargs="*", default=MIXES)
    arguments = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        work = arguments.work or pathlib.Path(folder)
        work.mkdir(parents=True, exist_ok=True)
        files = quantize_all(arguments, work)
        every = [file for pair in files for file in pair]
        told = run(arguments.duan, "eval", *every, "--against", arguments.reference, "--text", arguments.judge,
                   "--chunks", arguments.chunks, "--json")
        rows = json.loads(told)
        kl = {pathlib.Path(row["model"]).name: row["kl_mean"] for row in rows if row["kl_mean"] is not None}
        for mix, pair in zip(arguments.mixes, files):
            sizes = [file.stat().st_size for file in pair]
            values = [kl[file.name] for file in pair]
            print(f"{mix:8} {sizes[0]:>12} {sizes[1]:>12} bytes   KL {values[0]:.5f} {values[1]:.5f}   {values[0] / values[1]:.3f}")


if __name__ == "__main__":
    main()
