#!/usr/bin/env python3
"""Make a reference for quantizers from a model that is quantized already: its weights, with noise.

usage: references.py MODEL.gguf REFERENCE.gguf [--seed 1]

Weights that were quantized lie on a grid, which whoever quantizes them anew would find again. So every matrix of a quantized type is
written as F32: its dequantized weights plus noise, uniform over one step of its grid (half a step to each side), seeded by the tensor's
name. A step is the least difference of two neighbouring values among 16 weights, which share a grid in every format. Keys and other tensors
stay as they are. The same file serves every program that is compared. Needs numpy and gguf (PyPI).
"""
import argparse
import zlib

import numpy as np
from gguf import GGMLQuantizationType, GGUFReader, GGUFValueType, GGUFWriter
from gguf.quants import dequantize

BLOCK = 16
PLAIN = (GGMLQuantizationType.F32, GGMLQuantizationType.F16, GGMLQuantizationType.BF16)


def noised(weights, random):
    """`weights` with noise of half a step to each side."""
    blocks = weights.reshape(-1, BLOCK)
    differences = np.diff(np.sort(blocks, axis=1), axis=1)
    differences[differences <= 0] = np.inf
    steps = differences.min(axis=1, keepdims=True)
    steps[~np.isfinite(steps)] = 0
    noise = random.uniform(-0.5, 0.5, blocks.shape).astype(np.float32)
    return (blocks + noise * steps).astype(np.float32).reshape(weights.shape)


def copy_keys(reader, writer):
    """All keys but those that the writer writes itself."""
    for field in reader.fields.values():
        if field.name.startswith("GGUF.") or field.name in ("general.architecture", "general.file_type", "general.quantization_version"):
            continue
        kind = field.types[0]
        element = field.types[-1] if kind == GGUFValueType.ARRAY else None
        writer.add_key_value(field.name, field.contents(), kind, sub_type=element)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("model")
    parser.add_argument("reference")
    parser.add_argument("--seed", type=int, default=1)
    arguments = parser.parse_args()
    reader = GGUFReader(arguments.model)
    writer = GGUFWriter(arguments.reference, reader.fields["general.architecture"].contents())
    copy_keys(reader, writer)
    writer.add_file_type(0)
    for tensor in reader.tensors:
        if tensor.tensor_type in PLAIN:
            writer.add_tensor(tensor.name, tensor.data, raw_dtype=tensor.tensor_type)
            continue
        random = np.random.default_rng([arguments.seed, zlib.crc32(tensor.name.encode())])
        writer.add_tensor(tensor.name, noised(dequantize(tensor.data, tensor.tensor_type), random))
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()


if __name__ == "__main__":
    main()
