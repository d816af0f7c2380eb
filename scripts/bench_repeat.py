#!/usr/bin/env python3
"""Does a benchmark say how sure it is? The same one many times, each printed interval against the medians of the others.

usage: bench_repeat.py --duan target/release/duan MODEL [--times 20] [-- OPTIONS OF duan bench]

For each test it prints the medians, the width of the intervals, how many runs were marked doubtful and for what, and how many
intervals hold the median of the medians of the other runs. Goal: of 20 at least 18, and none wider than 5 % to each side but where the
run is marked doubtful. Nothing else should run meanwhile.
"""
import argparse
import collections
import json
import statistics
import subprocess
import sys


def bench(arguments):
    command = [arguments.duan, "bench", arguments.model, "--json", *arguments.options]
    done = subprocess.run(command, capture_output=True, text=True)
    if done.returncode:
        sys.exit(f"{' '.join(command)}: {done.stderr.strip()}")
    return json.loads(done.stdout)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--duan", required=True)
    parser.add_argument("--times", type=int, default=20)
    parser.add_argument("model")
    parser.add_argument("options", nargs="*")
    arguments = parser.parse_args()
    runs = collections.defaultdict(list)
    for _ in range(arguments.times):
        for row in bench(arguments):
            runs[row["test"]].append(row)
    for test, rows in runs.items():
        medians = [row["median_ts"] for row in rows]
        held, sure, wide = 0, 0, 0
        for index, row in enumerate(rows):
            interval = row["interval"]
            if interval is None:
                continue
            others = statistics.median(medians[:index] + medians[index + 1 :])
            held += interval["low"] <= others <= interval["high"]
            half = (interval["high"] - interval["low"]) / 2 / row["median_ts"]
            sure += not row["doubtful"]
            wide += not row["doubtful"] and half > 0.05
        middle = statistics.median(medians)
        spread = (max(medians) - min(medians)) / middle
        doubts = collections.Counter(doubt["kind"] for row in rows for doubt in row["doubts"])
        print(f"{test}: median {middle:.2f} t/s, medians {100 * spread:.1f} % apart; {held} of {len(rows)} intervals hold the median of "
              f"the others; {sure} runs not doubtful, {wide} of them wider than 5 %; doubts {dict(doubts)}")
        print("  " + " ".join(f"{median:.1f}" for median in medians))


if __name__ == "__main__":
    main()
