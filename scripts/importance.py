"""Compares two files of importance (imatrix in GGUF): that of `duan importance` and that of llama.cpp's `llama-imatrix`.

    pip install numpy gguf
    llama-imatrix -m MODEL -f TEXT -c 512 -b 512 --no-ppl -o theirs.gguf
    duan importance MODEL --text TEXT -o ours.gguf
    python scripts/importance.py ours.gguf theirs.gguf

For each matrix the counts must be the same. Of the means of the squares of its inputs, column by column, it prints how far they are apart:
the sum of the differences over the sum of the means, and the median and the largest relative difference of a column. Both tools
round activations, at different places, so that they never agree to the bit.
"""

import sys

import numpy as np
from gguf import GGUFReader


def read(path):
    tensors = {tensor.name: np.array(tensor.data, dtype=np.float64) for tensor in GGUFReader(path).tensors}
    names = sorted(name.removesuffix(".in_sum2") for name in tensors if name.endswith(".in_sum2"))
    return {name: (tensors[f"{name}.in_sum2"], tensors[f"{name}.counts"].reshape(-1)) for name in names}


def main():
    ours, theirs = read(sys.argv[1]), read(sys.argv[2])
    for name in sorted(ours.keys() ^ theirs.keys()):
        print(f"{name}: only in {'the first' if name in ours else 'the second'}")
    worst = 0.0
    for name in sorted(ours.keys() & theirs.keys()):
        (a, counts_a), (b, counts_b) = ours[name], theirs[name]
        if a.size != b.size or not np.array_equal(counts_a, counts_b):
            print(f"{name}: sums {a.shape} and {b.shape}, counts {counts_a} and {counts_b}")
            continue
        counts = np.maximum(counts_a, 1)[:, None]
        a, b = a.reshape(len(counts_a), -1) / counts, b.reshape(len(counts_b), -1) / counts
        total = np.abs(a - b).sum() / b.sum()
        columns = np.abs(a - b) / np.maximum(b, np.finfo(np.float32).tiny)
        worst = max(worst, total)
        print(f"{name}: {total:.5f} of the sum, median {np.median(columns):.5f}, largest {columns.max():.5f}")
    print(f"largest of all, of the sum: {worst:.5f}")


if __name__ == "__main__":
    main()
