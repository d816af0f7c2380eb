#!/usr/bin/env python3
"""How well logits of duan agree with llama.cpp's on the same tokens.

llama.cpp's side is a file that `llama-perplexity --kl-divergence-base FILE` writes; ours is
a plain file of little-endian f32 [tokens, vocab_size]. Needs Python 3.9 and numpy.

    agreement.py tokens BASE [--count N] [--bos ID]     the ids that BASE was made from, one a line
    agreement.py compare --logits FILE BASE [BASE ...]  KL divergence and top-1 agreement

To compare the first 2,000 tokens of a text: llama-perplexity keeps only the second half of a
window (positions n/2 to n - 2 of n), but attention is causal, so windows of several lengths that
all start with the text complement each other:

    for n in 2000 1002 502 252 128 66 34 18; do
        llama-perplexity -m MODEL -f TEXT -c $n --chunks 1 --kl-divergence-base base-$n.kld
    done
    agreement.py tokens base-2000.kld > tokens.txt
    ... run these 2,000 tokens as one sequence from position 0; write every position's logits ...
    agreement.py compare --logits ours.f32 base-*.kld

That compares positions 9 to 1998. A file with more than one chunk is compared too: then ours must
start a sequence anew at each multiple of the window, its first token being BOS where the model
adds one (`--bos`); the file itself states the text's token there.

Before judging a figure on a quantized file, learn the floor: run the base windows a second time with another
setting that changes only the order of rounding (`-fa off`, `-b 250 -ub 250`) and `--kl-divergence`. Engines code
activations to 8 bits, and one code that rounds the other way is carried through all layers, so that
llama.cpp differs from itself by as much as from an exact pass. On the same weights written as F32
(`llama-quantize --allow-requantize IN OUT F32`) nothing is coded, and a right forward pass agrees to
about 1e-6.

What a base file holds, and how exact it is. Each position has the logarithms of the probabilities as
16-bit codes on a linear scale from the largest down to at most 16 below it: steps of up to 0.00024, an error of at
most half a step. Errors of both signs cancel in the mean, so a mean KL of 1e-5 is still
meaningful. What lies 16 or more below the largest has code 0 and is unknown. Three figures come from that:

    kl_mean              sum of p (log p - log q) over the tokens with log p > -16, as llama.cpp defines it
    kl_mean_normalized   both sides normalized over the tokens with a code, so that rounding cancels
    tail_mass            mean probability that ours gives to the tokens left out (it should be tiny)

The divergence is of ours (q) from llama.cpp's (p), in nats. A position agrees if our largest logit is the one with the
largest code; positions where codes tie are counted, and any of the tied tokens is accepted.
"""

from __future__ import annotations

import argparse
import json
import os
import sys
from dataclasses import dataclass
from typing import Iterator

import numpy as np

MAGIC = b"_logits_"
# Tokens with less than exp(-16) are no part of llama.cpp's sum.
SMALLEST_LOG_PROB = -16.0


class Trouble(Exception):
    """A file that does not fit; the message says which and why."""


@dataclass
class Base:
    """One base file: windows of `window` tokens, the second half of each with log-probabilities."""

    path: str
    window: int
    vocab_size: int
    tokens: np.ndarray  # i32 [chunks * window]
    rows: np.ndarray  # u16 [chunks * scored, 4 + vocab_size, rounded up to even]

    @property
    def first(self) -> int:
        return self.window // 2

    @property
    def scored(self) -> int:
        return self.window - 1 - self.first

    @property
    def chunks(self) -> int:
        return len(self.tokens) // self.window

    def positions(self) -> Iterator[tuple[int, int]]:
        """(index of the token, index of its row), a row being the prediction of the next token."""
        for chunk in range(self.chunks):
            for index in range(self.scored):
                yield chunk * self.window + self.first + index, chunk * self.scored + index

    def log_probs(self, row: int) -> tuple[np.ndarray, np.ndarray]:
        """Log-probabilities f64 [vocab_size] and their codes u16 [vocab_size]."""
        scale, smallest = self.rows[row, :4].view("<f4").astype(np.float64)
        codes = self.rows[row, 4 : 4 + self.vocab_size]
        return scale * codes + smallest, codes


def read_base(path: str) -> Base:
    size = os.path.getsize(path)
    with open(path, "rb") as file:
        head = file.read(20)
    if len(head) < 20 or head[:8] != MAGIC:
        raise Trouble(f"{path}: not a file of llama-perplexity --kl-divergence-base")
    window, vocab_size, chunks = (int(n) for n in np.frombuffer(head, "<i4", 3, 8))
    if min(window, vocab_size, chunks) < 1 or window < 4:
        raise Trouble(f"{path}: window {window}, vocabulary {vocab_size}, chunks {chunks}")
    count = window * chunks
    columns = 4 + 2 * ((vocab_size + 1) // 2)
    scored = window - 1 - window // 2
    expected = 20 + 4 * count + 2 * columns * scored * chunks
    if size != expected:
        raise Trouble(f"{path}: {size} bytes where its head asks for {expected}; was the run cut short?")
    tokens = np.fromfile(path, "<i4", count, offset=20)
    rows = np.memmap(path, "<u2", "r", 20 + 4 * count, (scored * chunks, columns))
    return Base(path, window, vocab_size, tokens, rows)


def read_logits(path: str, vocab_size: int) -> np.ndarray:
    size = os.path.getsize(path)
    if size == 0 or size % (4 * vocab_size) != 0:
        raise Trouble(f"{path}: {size} bytes are no whole number of rows of {vocab_size} f32")
    return np.memmap(path, "<f4", "r", 0, (size // (4 * vocab_size), vocab_size))


def log_softmax(logits: np.ndarray) -> np.ndarray:
    shifted = logits.astype(np.float64) - float(logits.max())
    return shifted - np.log(np.exp(shifted).sum())


@dataclass
class Position:
    """One position compared."""

    kl: float
    kl_normalized: float
    tail_mass: float
    agrees: bool
    is_tied: bool
    base_nll: float | None
    our_nll: float | None


def compare_position(
    base_log_probs: np.ndarray, codes: np.ndarray, logits: np.ndarray, following: int | None
) -> Position:
    ours = log_softmax(logits)
    # Codes of a row without any spread are all 0; then every token is known.
    known = codes > 0 if codes.any() else np.ones(len(codes), bool)
    p, q = base_log_probs[known], ours[known]
    counted = p > SMALLEST_LOG_PROB
    kl = float((np.exp(p[counted]) * (p[counted] - q[counted])).sum())
    p_mass, q_mass = np.exp(p).sum(), np.exp(q).sum()
    normalized = p - np.log(p_mass) - q + np.log(q_mass)
    kl_normalized = float((np.exp(p) / p_mass * normalized).sum())
    top_code = codes.max()
    return Position(
        kl=kl,
        kl_normalized=kl_normalized,
        tail_mass=max(0.0, 1.0 - float(q_mass)),
        agrees=bool(codes[int(np.argmax(logits))] == top_code),
        is_tied=int((codes == top_code).sum()) > 1,
        base_nll=None if following is None else -float(base_log_probs[following]),
        our_nll=None if following is None else -float(ours[following]),
    )


def compare(paths: list[str], logits_path: str) -> dict:
    bases = [read_base(path) for path in paths]
    # The longest window first, so that its positions are the ones kept.
    bases.sort(key=lambda base: -base.window)
    vocab_size = bases[0].vocab_size
    for base in bases:
        length = min(len(base.tokens), len(bases[0].tokens))
        if base.vocab_size != vocab_size or (base.tokens[:length] != bases[0].tokens[:length]).any():
            raise Trouble(f"{base.path}: vocabulary or tokens differ from those of {bases[0].path}")
        if base.chunks > 1 and len(bases) > 1:
            raise Trouble(f"{base.path}: has several chunks, so it must be compared alone")
    logits = read_logits(logits_path, vocab_size)
    results: dict[int, Position] = {}
    for base in bases:
        for index, row in base.positions():
            if index in results:
                continue
            if index >= len(logits):
                raise Trouble(f"{logits_path}: {len(logits)} rows, but {base.path} scores position {index}")
            if not np.isfinite(logits[index]).all():
                raise Trouble(f"{logits_path}: a logit at position {index} is not finite")
            following = int(base.tokens[index + 1])
            results[index] = compare_position(*base.log_probs(row), logits[index], following)
    return summary(results)


def summary(results: dict[int, Position]) -> dict:
    positions = list(results.values())
    kl = np.array([p.kl_normalized for p in positions])
    return {
        "positions": len(positions),
        "first_position": min(results),
        "last_position": max(results),
        "kl_mean": float(np.mean([p.kl for p in positions])),
        "kl_mean_normalized": float(kl.mean()),
        "kl_median": float(np.median(kl)),
        "kl_p99": float(np.quantile(kl, 0.99)),
        "kl_max": float(kl.max()),
        "kl_max_position": list(results)[int(kl.argmax())],
        "top1_agreement": float(np.mean([p.agrees for p in positions])),
        "disagreeing": [index for index, p in sorted(results.items()) if not p.agrees],
        "tied_positions": sum(p.is_tied for p in positions),
        "tail_mass": float(np.mean([p.tail_mass for p in positions])),
        "perplexity_base": float(np.exp(np.mean([p.base_nll for p in positions]))),
        "perplexity": float(np.exp(np.mean([p.our_nll for p in positions]))),
    }


def print_tokens(path: str, count: int | None, bos: int | None) -> None:
    base = read_base(path)
    tokens = base.tokens.copy()
    if bos is not None:
        tokens[:: base.window] = bos
    for token in tokens[:count]:
        print(token)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    commands = parser.add_subparsers(dest="command", required=True)
    tokens = commands.add_parser("tokens", help="print the token ids of a base file, one a line")
    tokens.add_argument("base")
    tokens.add_argument("--count", type=int, help="only the first COUNT")
    tokens.add_argument("--bos", type=int, help="put this id in place of the first token of each window")
    against = commands.add_parser("compare", help="compare logits with base files")
    against.add_argument("base", nargs="+")
    against.add_argument("--logits", required=True, help="ours: little-endian f32 [tokens, vocab_size]")
    against.add_argument("--json", action="store_true")
    options = parser.parse_args()
    try:
        if options.command == "tokens":
            print_tokens(options.base, options.count, options.bos)
            return 0
        result = compare(options.base, options.logits)
    except (OSError, Trouble) as trouble:
        print(f"agreement.py: {trouble}", file=sys.stderr)
        return 1
    if options.json:
        print(json.dumps(result))
        return 0
    for name, value in result.items():
        print(f"{name:20} {value:.6g}" if isinstance(value, float) else f"{name:20} {value}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
