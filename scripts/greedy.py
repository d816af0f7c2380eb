#!/usr/bin/env python3
"""Compare greedy completions with llama.cpp's, prompt by prompt.

usage: greedy.py --duan DUAN --llama LLAMA_COMPLETION --model MODEL.gguf [--prompts FILE] [-n 64] [--llama-args "..."]

Each prompt is completed by both programs at temperature 0; the texts are equal when every byte is. With --against-itself
the second text comes from llama.cpp too, run with --llama-args: what its own settings change is the floor.
"""
import argparse
import json
import shlex
import subprocess
import tempfile
from pathlib import Path

HERE = Path(__file__).resolve().parent


def run(command):
    done = subprocess.run(command, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.PIPE)
    if done.returncode:
        raise SystemExit(f"{shlex.join(map(str, command))}: {done.stderr.decode(errors='replace')[-500:]}")
    return done.stdout


def duan(arguments, prompt):
    command = [arguments.duan, "complete", arguments.model, "-p", prompt, "-n", str(arguments.n), "--temp", "0", "--json"]
    return json.loads(run(command))["text"]


def llama(arguments, prompt, more=()):
    with tempfile.NamedTemporaryFile("w", suffix=".txt") as file:
        file.write(prompt)
        file.flush()
        command = [arguments.llama, "-m", arguments.model, "-f", file.name, "-n", str(arguments.n), "--temp", "0"]
        command += ["-t", "2", "-c", "512", "-no-cnv", "--no-display-prompt", "--simple-io", *more]
        return run(command).decode(errors="replace")


def comparable(text):
    """Without the marks that llama-completion prints at the end of a text."""
    return text.replace(" [end of text]", "").strip()


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    for name in ("--duan", "--llama", "--model"):
        parser.add_argument(name, required=name != "--duan")
    parser.add_argument("--prompts", default=HERE.parent / "docs/prompts/greedy-20.txt")
    parser.add_argument("-n", type=int, default=64)
    parser.add_argument("--llama-args", default="")
    parser.add_argument("--against-itself", action="store_true")
    arguments = parser.parse_args()
    prompts = Path(arguments.prompts).read_text(encoding="utf8").splitlines()
    equal = 0
    for number, prompt in enumerate(prompts, 1):
        expected = comparable(llama(arguments, prompt))
        if arguments.against_itself:
            found = comparable(llama(arguments, prompt, shlex.split(arguments.llama_args)))
        else:
            found = comparable(duan(arguments, prompt))
        same = expected == found
        equal += same
        shared = next((i for i, (a, b) in enumerate(zip(expected, found)) if a != b), min(len(expected), len(found)))
        print(f"{number:2} {'equal' if same else f'differs after {shared} characters'}: {prompt}", flush=True)
    print(f"{equal} of {len(prompts)} equal")


main()
