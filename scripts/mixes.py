#!/usr/bin/env python3
"""Compare the formats that mixes give to tensors with those that llama-quantize says it would give.

usage: mixes.py --duan DUAN --llama LLAMA_QUANTIZE --model MODEL.gguf [--importance FILE] [MIX ...]

Nothing is quantized: both programs only say what they would do. For each mix a line says how many tensors differ, and how.
"""
import argparse
import collections
import json
import re
import subprocess

MIXES = "Q8_0 Q6_K Q5_K_M Q5_K_S Q5_1 Q5_0 Q4_K_M Q4_K_S Q4_1 Q4_0 IQ4_NL IQ4_XS MXFP4_MOE Q3_K_L Q3_K_M Q3_K_S Q2_K F16 BF16 F32".split()

LINE = re.compile(r"^\[ *\d+/ *\d+\] (\S+) .* type = *(\w+), size = .*?(?:-> .*\((\w+)\))?$")


def llama(arguments, mix):
    command = [arguments.llama, "--dry-run", "--allow-requantize"]
    if arguments.importance:
        command += ["--imatrix", arguments.importance]
    done = subprocess.run(command + [arguments.model, mix], capture_output=True)
    text = (done.stdout + done.stderr).decode(errors="replace")
    # What is said of a fallback stands on a line of its own.
    rows = [LINE.match(line) for line in text.splitlines()]
    found = {row[1]: (row[3] or row[2]).upper() for row in rows if row}
    if not found:
        raise SystemExit(f"{' '.join(command)}: {text[-500:]}")
    return found


def duan(arguments, mix):
    command = [arguments.duan, "quantize", arguments.model, "none.gguf", "--dry-run", "--json", "--format", mix]
    if arguments.importance:
        command += ["--importance", arguments.importance]
    done = subprocess.run(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE)
    if done.returncode:
        return None, done.stderr.decode(errors="replace").strip()
    return {tensor["name"]: tensor["format"] for tensor in json.loads(done.stdout)["tensors"]}, None


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    for name in ("duan", "llama", "model"):
        parser.add_argument(f"--{name}", required=True)
    parser.add_argument("--importance")
    parser.add_argument("mixes", nargs="*", default=MIXES)
    arguments = parser.parse_args()
    for mix in arguments.mixes:
        ours, error = duan(arguments, mix)
        if error:
            print(f"{mix:10} {error}")
            continue
        theirs = llama(arguments, mix)
        if ours.keys() != theirs.keys():
            raise SystemExit(f"{mix}: the tensors differ: {sorted(ours.keys() ^ theirs.keys())[:5]}")
        differences = collections.Counter()
        example = {}
        for name, format in ours.items():
            if format != theirs[name]:
                pair = f"{theirs[name]} there, {format} here"
                differences[pair] += 1
                example.setdefault(pair, name)
        text = "; ".join(f"{count} x {pair} ({example[pair]})" for pair, count in differences.items()) or "-"
        print(f"{mix:10} {len(ours)} tensors, {sum(differences.values())} differ: {text}")


if __name__ == "__main__":
    main()
