#!/usr/bin/env python3
"""How far weights are off after quantizing, with duan's search and with ggml's quantizers, on the same tensors.

    cargo build --release -p duan-quant --example quantize_rows
    quantizers.py LIBRARY EXAMPLE [--models FILE.gguf ...] [--imatrix FILE.gguf IMATRIX.gguf]
                  [--formats Q4_0 ...] [--rows N] [--columns N] [--repeat N]

LIBRARY is llama.cpp's `libggml-base.so`, EXAMPLE the program that the first command builds. Needs numpy and gguf (PyPI), which
decodes what both sides wrote. The tensors: Gaussian, heavy-tailed (Student's t with 3 degrees of freedom), and of
each model the dequantized weights of a few matrices plus uniform noise of half a step, since real models at hand are
quantized already. Importance is heavy-tailed too, as that of real models is: the exponential of a Gaussian, some columns
a hundred times as much; with `--imatrix`, matrices of a model come besides with what `llama-imatrix` measured for them.

A row of the output is a format and a tensor: the sum of squared errors, ours by theirs, without importance and (weighted)
with it; then nanoseconds of CPU time for each weight, ours and theirs, without importance and with it. ggml's error for the same importance counts as it
does for ours, although its quantizers weigh by more than the importance.
"""

from __future__ import annotations

import argparse
import ctypes
import os
import subprocess
import tempfile
import time
from pathlib import Path

import numpy as np
from gguf import GGML_QUANT_SIZES, GGMLQuantizationType, GGUFReader
from gguf.quants import dequantize

FORMATS = ["Q8_0", "Q4_0", "Q4_1", "Q5_0", "Q5_1", "Q2_K", "Q3_K", "Q4_K", "Q5_K", "Q6_K", "IQ4_NL", "IQ4_XS", "MXFP4"]
SEED = 20260501


class Ggml:
    """The quantizers of a built libggml."""

    def __init__(self, path: str) -> None:
        self.library = ctypes.CDLL(path)
        self.chunk = self.library.ggml_quantize_chunk
        self.chunk.restype = ctypes.c_size_t
        pointer = ctypes.c_void_p
        self.chunk.argtypes = [ctypes.c_int, pointer, pointer] + [ctypes.c_int64] * 3 + [pointer]

    def quantize(self, kind: GGMLQuantizationType, x: np.ndarray, importance: np.ndarray | None, repeat: int):
        rows, columns = x.shape
        weights, size = GGML_QUANT_SIZES[kind]
        out = np.zeros((rows, columns // weights * size), np.uint8)
        given = importance.ctypes.data if importance is not None else None
        begin = time.process_time()
        for _ in range(repeat):
            self.chunk(kind.value, x.ctypes.data, out.ctypes.data, 0, rows, columns, given)
        return out, (time.process_time() - begin) / repeat / x.size * 1e9


def ours(example: str, kind: GGMLQuantizationType, x: np.ndarray, importance: np.ndarray | None, repeat: int):
    rows, columns = x.shape
    weights, size = GGML_QUANT_SIZES[kind]
    with tempfile.TemporaryDirectory() as folder:
        values, bytes_, given = (Path(folder) / name for name in ("values", "bytes", "importance"))
        x.tofile(values)
        command = [example, kind.name, str(columns), values, bytes_]
        if importance is not None:
            importance.tofile(given)
            command.append(given)
        once, often = (cpu_seconds(command + ["--repeat", str(n)]) for n in (1, repeat + 1))
        out = np.fromfile(bytes_, np.uint8).reshape(rows, columns // weights * size)
    return out, (often - once) / repeat / x.size * 1e9


def cpu_seconds(command: list) -> float:
    """Seconds that a program computed, in its own code."""
    process = subprocess.Popen(command)
    _, status, usage = os.wait4(process.pid, 0)
    if status != 0:
        raise SystemExit(f"{command[0]} failed")
    return usage.ru_utime


def synthetic(rows: int, columns: int) -> dict[str, np.ndarray]:
    random = np.random.default_rng(SEED)
    return {
        "gaussian": (random.standard_normal((rows, columns)) * 0.02).astype(np.float32),
        "student3": (random.standard_t(3, (rows, columns)) * 0.02).astype(np.float32),
    }


def add_noise(x: np.ndarray, random: np.random.Generator) -> np.ndarray:
    """Moves weights [blocks, 32] by up to half a step: the least distance between two of a block."""
    gaps = np.diff(np.sort(x, axis=1), axis=1)
    scale = np.abs(x).max(axis=1, keepdims=True)
    step = np.where(gaps > scale * 1e-3, gaps, np.inf).min(axis=1, keepdims=True)
    step = np.where(np.isfinite(step), step, 0)
    return np.ascontiguousarray((x + random.uniform(-0.5, 0.5, x.shape) * step).astype(np.float32))


def noisy(path: str, rows: int, columns: int) -> dict[str, np.ndarray]:
    """A few matrices of a model, cut into rows of `columns`, each weight moved by up to half a step."""
    random = np.random.default_rng(SEED)
    tensors = {}
    for tensor in GGUFReader(path).tensors:
        if not any(part in tensor.name for part in ("blk.1.attn_q.w", "blk.5.ffn_down.w", "blk.9.ffn_up.w")):
            continue
        x = dequantize(tensor.data, tensor.tensor_type).astype(np.float32).reshape(-1)
        x = x[: x.size // (32 * 256) * 32 * 256].reshape(-1, 32)
        x = add_noise(x, random)
        size = min(rows * columns, x.size) // columns * columns
        name = f"{Path(path).name.split('-')[0]} {tensor.name.removesuffix('.weight')}"
        tensors[name] = np.ascontiguousarray(x.reshape(-1)[:size].reshape(-1, columns).astype(np.float32))
    return tensors


def measured(model: str, imatrix: str, rows: int) -> dict[str, tuple[np.ndarray, np.ndarray]]:
    """Matrices of a model as they are, with the importance that `llama-imatrix` measured, where rows are of 256 weights."""
    sums = {tensor.name: tensor.data for tensor in GGUFReader(imatrix).tensors}
    random = np.random.default_rng(SEED)
    found = {}
    for tensor in GGUFReader(model).tensors:
        columns = int(tensor.shape[0])
        if f"{tensor.name}.in_sum2" not in sums or columns % 256 or not any(f"blk.{n}." in tensor.name for n in (1, 9)):
            continue
        x = dequantize(tensor.data[:rows], tensor.tensor_type).astype(np.float32)
        x = add_noise(x.reshape(-1, 32), random).reshape(-1, columns)
        mean = sums[f"{tensor.name}.in_sum2"].reshape(-1) / sums[f"{tensor.name}.counts"].reshape(-1)[0]
        found["measured " + tensor.name.removesuffix(".weight")] = x, mean.astype(np.float32)
    return found


def importance_of(columns: int) -> np.ndarray:
    random = np.random.default_rng(SEED + 1)
    importance = np.exp(random.standard_normal(columns))
    importance[random.integers(0, columns, columns // 64)] *= 100
    return importance.astype(np.float32)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("library")
    parser.add_argument("example")
    parser.add_argument("--models", nargs="*", default=[])
    parser.add_argument("--imatrix", nargs=2, metavar=("FILE.gguf", "IMATRIX.gguf"))
    parser.add_argument("--formats", nargs="*", default=FORMATS)
    parser.add_argument("--rows", type=int, default=128)
    parser.add_argument("--columns", type=int, default=2048)
    parser.add_argument("--repeat", type=int, default=5)
    options = parser.parse_args()
    ggml = Ggml(options.library)
    tensors = synthetic(options.rows, options.columns)
    for model in options.models:
        tensors |= noisy(model, options.rows, options.columns)
    cases = {label: (x, importance_of(options.columns)) for label, x in tensors.items()}
    if options.imatrix:
        cases |= measured(*options.imatrix, options.rows)
    print(f"{'format':8}{'tensor':32}{'error':>8}{'weighted':>10}{'ns':>8}{'theirs':>8}{'ns':>8}{'theirs':>8}")
    for name in options.formats:
        kind = GGMLQuantizationType[name]
        for label, (x, importance) in cases.items():
            cells, times = [], []
            for given in (None, importance):
                count = np.float64(1) if given is None else given.astype(np.float64)
                errors = []
                for bytes_, ns in (
                    ours(options.example, kind, x, given, options.repeat),
                    ggml.quantize(kind, x, given, options.repeat),
                ):
                    off = dequantize(bytes_, kind).astype(np.float64) - x
                    errors.append(float((off * off * count).sum()))
                    times.append(ns)
                cells.append(errors[0] / errors[1])
            row = f"{name:8}{label:32}{cells[0]:8.4f}{cells[1]:10.4f}"
            print(row + "".join(f"{ns:8.2f}" for ns in times), flush=True)


if __name__ == "__main__":
    main()
