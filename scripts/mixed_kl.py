#!/usr/bin/env python3
"""Compare formats found by measuring with Q4_K_M of llama-quantize, in a file of the same length.

usage: mixed_kl.py --duan DUAN --llama FOLDER --model REFERENCE.gguf --calibrate TEXT --judge TEXT [--judge TEXT ...] [--out FOLDER]
                   [--chunks N] [--eval-chunks N] [-- OPTIONS OF duan quantize]

REFERENCE.gguf is in F32 or F16. llama-imatrix reads the text to calibrate with, llama-quantize writes Q4_K_M with that, and duan a file of
that length from the same text. Both are judged against the reference on other texts. What is in --out already is not made again, so
that another option costs only what it changes. The goal is a ratio of at most 0.8.
"""
import argparse
import json
import os
import pathlib
import subprocess
import time


def run(command, environment=None):
    started = time.monotonic()
    done = subprocess.run([str(part) for part in command], capture_output=True, env=environment)
    if done.returncode:
        raise SystemExit(f"{' '.join(map(str, command))}: {(done.stdout + done.stderr).decode(errors='replace')[-2000:]}")
    return done.stdout.decode(errors="replace"), time.monotonic() - started


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    for name in ("duan", "llama", "model", "calibrate"):
        parser.add_argument(f"--{name}", required=True, type=pathlib.Path)
    parser.add_argument("--judge", required=True, action="append", type=pathlib.Path)
    parser.add_argument("--out", type=pathlib.Path, default=pathlib.Path("mixed-kl"))
    parser.add_argument("--chunks", type=int, help="windows that duan measures with")
    parser.add_argument("--eval-chunks", type=int, default=16, help="windows that files are judged on")
    parser.add_argument("--imatrix-chunks", type=int, default=64, help="windows that llama-imatrix reads")
    parser.add_argument("options", nargs="*", help="more options of duan quantize")
    arguments = parser.parse_args()
    arguments.out.mkdir(parents=True, exist_ok=True)
    name = arguments.model.stem
    imatrix = arguments.out / f"{name}.imatrix.gguf"
    theirs, ours = arguments.out / f"{name}.Q4_K_M.gguf", arguments.out / f"{name}.mixed.gguf"
    tools, duan = arguments.llama.resolve(), arguments.duan.resolve()
    environment = os.environ | {"LD_LIBRARY_PATH": str(tools)}
    if not imatrix.exists():
        command = [tools / "llama-imatrix", "-m", arguments.model, "-f", arguments.calibrate, "-o", imatrix]
        run([*command, "--chunks", arguments.imatrix_chunks, "-c", 512], environment)
    if not theirs.exists():
        run([tools / "llama-quantize", "--imatrix", imatrix, arguments.model, theirs, "Q4_K_M"], environment)
    size = theirs.stat().st_size
    command = [duan, "quantize", arguments.model, ours, "--size", size, "--text", arguments.calibrate]
    command += ["--sensitivity", arguments.out / f"{name}.sensitivity.json", "--force", "--json"]
    if arguments.chunks:
        command += ["--chunks", arguments.chunks]
    told, seconds = run([*command, *arguments.options])
    told = json.loads(told)
    assert told["bytes"] == ours.stat().st_size <= size
    expected = told["measured"]["divergence"]
    print(f"{name}: {size} bytes for {told['bytes']}, {told['bits_per_weight']:.3f} bits, {seconds:.0f} s, {expected:.5f} expected")
    counts = {}
    for tensor in told["tensors"]:
        if tensor["chosen_by"] != "untouched":
            counts[tensor["format"]] = counts.get(tensor["format"], 0) + 1
    print("  " + ", ".join(f"{count} {format}" for format, count in sorted(counts.items(), key=lambda row: -row[1])))
    for judge in arguments.judge:
        command = [duan, "eval", theirs, ours, "--against", arguments.model, "--text", judge, "--json", "--no-pack"]
        rows = json.loads(run([*command, "--chunks", arguments.eval_chunks])[0])
        kl = {pathlib.Path(row["model"]).name: (row["kl_mean"], row["kl_mean_error"]) for row in rows}
        (q4, q4_error), (mixed, mixed_error) = kl[theirs.name], kl[ours.name]
        print(
            f"  {judge.stem}: KL {q4:.5f} ± {q4_error:.5f} of Q4_K_M, {mixed:.5f} ± {mixed_error:.5f} mixed, ratio {mixed / q4:.3f}"
        )


if __name__ == "__main__":
    main()
