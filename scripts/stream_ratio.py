#!/usr/bin/env python3
"""Compares duan's read bandwidth with a STREAM-like read in C, pair by pair.

    scripts/stream_ratio.py [--duan target/release/duan] [--pairs 11]

Builds scripts/stream_read.c (the sum of 64-bit words) with `cc -O3 -march=native`, and then alternates
`duan devices --ceilings --again --json` with it: the same numbers of threads, the same bytes, in large pages; of several
reads the best counts. Printed is for each number of threads the median of the pairs' ratios (duan / C) with the lowest
and the highest: against the best of five loops in C, and against the plain one alone, which leaves all to the compiler
and to the processor. The goal is a median within 5 % of 1 against the best: above, C does not reach what the memory
gives; below, duan's ceiling is too low.

Nothing else should run meanwhile. Python 3.9 and a C compiler suffice. Nothing that was kept is changed.
"""

import argparse
import json
import os
import pathlib
import statistics
import subprocess
import sys
import tempfile

HERE = pathlib.Path(__file__).resolve().parent


def duan_rates(duan, state):
    """What duan reads: bytes of a read, how many reads, and bytes per second by number of threads."""
    environment = {**os.environ, "DUAN_STATE": state}
    command = [duan, "devices", "--ceilings", "--again", "--json"]
    run = subprocess.run(command, env=environment, stdout=subprocess.PIPE, check=True)
    found = json.loads(run.stdout)
    if not found["read"]:
        sys.exit(f"duan did not read memory: {found['read_skipped']}")
    first = found["read"][0]
    return first["bytes"], first["reads"], {read["threads"]: read["bytes_per_s"] for read in found["read"]}


def c_rates(program, bytes_, reads, threads):
    """The same of the C program, by number of threads: the plain loop, and the best of all."""
    command = [program, str(bytes_), str(reads), *map(str, threads)]
    run = subprocess.run(command, stdout=subprocess.PIPE, check=True, text=True)
    rows = (line.split() for line in run.stdout.splitlines())
    return {int(count): (float(plain), max(float(plain), float(other))) for count, plain, other in rows}


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n\n")[0])
    parser.add_argument("--duan", default="target/release/duan", help="the program [default: %(default)s]")
    parser.add_argument("--pairs", type=int, default=11, help="how many pairs [default: %(default)s]")
    parser.add_argument("--cc", default="cc", help="the C compiler [default: %(default)s]")
    arguments = parser.parse_args()
    if arguments.pairs < 1:
        parser.error("--pairs: at least 1")
    with tempfile.TemporaryDirectory() as folder:
        program = os.path.join(folder, "stream_read")
        flags = ["-O3", "-march=native", "-pthread", "-Wall", "-Wextra"]
        subprocess.run([arguments.cc, *flags, str(HERE / "stream_read.c"), "-o", program], check=True)
        pairs = {}
        for pair in range(arguments.pairs):
            bytes_, reads, ours = duan_rates(arguments.duan, folder)
            # duan reads as often in all its ways together as it says.
            theirs = c_rates(program, bytes_, max(1, reads // 5), sorted(ours))
            told = []
            for threads, rate in sorted(ours.items()):
                plain, best = theirs[threads]
                pairs.setdefault(threads, []).append((rate, plain, best))
                told.append(f"{threads}: {rate / 1e9:.1f} / {best / 1e9:.1f} = {rate / best:.3f}")
            print(f"pair {pair + 1}: " + ", ".join(told), file=sys.stderr)
    print("| threads | duan GB/s | best C GB/s | ratio | lowest..highest | within 5 % | plain C GB/s | ratio |")
    print("|---:|---:|---:|---:|---|---|---:|---:|")
    for threads, rows in sorted(pairs.items()):
        ratios = [ours / best for ours, _, best in rows]
        middle = statistics.median(ratios)
        ours, plain, best = (statistics.median(column) / 1e9 for column in zip(*rows))
        to_plain = statistics.median(ours / plain for ours, plain, _ in rows)
        print(
            f"| {threads} | {ours:.1f} | {best:.1f} | {middle:.3f} | {min(ratios):.3f}..{max(ratios):.3f} "
            f"| {'yes' if abs(middle - 1) <= 0.05 else 'no'} | {plain:.1f} | {to_plain:.3f} |"
        )


if __name__ == "__main__":
    main()
