#!/usr/bin/env python3
"""Kill a command at random moments, and look at what it leaves.

usage: kills.py [--times 50] [--seed 1] --source FILE_OR_FOLDER --out FILE -- COMMAND ...

COMMAND reads SOURCE and writes OUT, for example

    kills.py --source 1b-f16.gguf --out /tmp/k/out.gguf -- duan quantize 1b-f16.gguf /tmp/k/out.gguf --format q4_0 --force

It runs once to its end, which gives the file to compare with, and how long it takes. Then, again and again, it is killed (SIGKILL) after
a random part of that time. After each kill the source must be as it was, and OUT must be absent or whole. Pieces under other
names are removed and counted.
"""
import argparse
import hashlib
import pathlib
import random
import signal
import subprocess
import time


def digest(path):
    if not path.exists():
        return None
    whole = hashlib.sha256()
    for part in sorted(path.rglob("*")) if path.is_dir() else [path]:
        if part.is_file():
            with part.open("rb") as file:
                while block := file.read(1 << 20):
                    whole.update(block)
    return whole.hexdigest()


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--times", type=int, default=50)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--source", type=pathlib.Path, required=True)
    parser.add_argument("--out", type=pathlib.Path, required=True)
    parser.add_argument("command", nargs="+")
    arguments = parser.parse_args()
    source, out = arguments.source, arguments.out
    before = digest(source)
    started = time.monotonic()
    subprocess.run(arguments.command, check=True, stdout=subprocess.DEVNULL)
    whole_time = time.monotonic() - started
    whole = digest(out)
    out.unlink()
    chance = random.Random(arguments.seed)
    absent = leftovers = 0
    for _ in range(arguments.times):
        process = subprocess.Popen(arguments.command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        time.sleep(chance.uniform(0, whole_time))
        process.send_signal(signal.SIGKILL)
        process.wait()
        if digest(source) != before:
            raise SystemExit("the source was changed")
        found = digest(out)
        if found not in (None, whole):
            raise SystemExit(f"{out} is half written")
        absent += found is None
        out.unlink(missing_ok=True)
        for piece in out.parent.glob(".duan-*.part"):
            piece.unlink()
            leftovers += 1
    print(f"{arguments.times} kills: the source as it was, {absent} times no file, {arguments.times - absent} times the whole one, "
          f"{leftovers} pieces under names of their own")


if __name__ == "__main__":
    main()
