"""Writes the first inputs of the fuzz target `model` into fuzz/corpus/model: every tiny model of the crate duan-backend, as it
is, and again with a chat template and with zeros for weights.

Needs nothing but Python. Run from anywhere."""

import pathlib
import struct

ROOT = pathlib.Path(__file__).resolve().parent.parent
FIXTURES = ROOT / "crates" / "backend" / "tests" / "fixtures"
CORPUS = ROOT / "fuzz" / "corpus" / "model"

TEMPLATE = (
    "{% for m in messages %}{% if '</think>' in m.content %}{{ m.content.split('</think>')[-1] }}{% endif %}"
    "{{ '<|im_start|>' + m['role'] + '\\n' + m['content'] | trim + '<|im_end|>' }}{% endfor %}"
    "{% if add_generation_prompt %}<|im_start|>assistant\n{% endif %}"
)

SIZES = {0: 1, 1: 1, 2: 2, 3: 2, 4: 4, 5: 4, 6: 4, 7: 1, 10: 8, 11: 8, 12: 8}
STRING, ARRAY = 8, 9


def string(text):
    data = text.encode()
    return struct.pack("<Q", len(data)) + data


def after_value(data, at, kind):
    """Where the value of type `kind` that begins at `at` ends."""
    if kind == STRING:
        return at + 8 + struct.unpack_from("<Q", data, at)[0]
    if kind == ARRAY:
        item, count = struct.unpack_from("<IQ", data, at)
        at += 12
        if item in SIZES:
            return at + SIZES[item] * count
        for _ in range(count):
            at = after_value(data, at, item)
        return at
    return at + SIZES[kind]


def header_ends(data):
    """Where the keys and where the list of tensors end, and the alignment."""
    tensors, keys = struct.unpack_from("<QQ", data, 8)
    at, alignment = 24, 32
    for _ in range(keys):
        start = at
        at = after_value(data, at, STRING)
        name = data[start + 8 : at]
        kind = struct.unpack_from("<I", data, at)[0]
        if name == b"general.alignment":
            alignment = struct.unpack_from("<I", data, at + 4)[0]
        at = after_value(data, at + 4, kind)
    keys_end = at
    for _ in range(tensors):
        at = after_value(data, at, STRING)
        dims = struct.unpack_from("<I", data, at)[0]
        at += 4 + 8 * dims + 4 + 8
    return keys_end, at, alignment


def with_template(data):
    keys_end, tensors_end, alignment = header_ends(data)
    start = -(-tensors_end // alignment) * alignment
    keys = struct.unpack_from("<Q", data, 16)[0]
    key = string("tokenizer.chat_template") + struct.pack("<I", STRING) + string(TEMPLATE)
    head = data[:16] + struct.pack("<Q", keys + 1) + data[24:keys_end] + key + data[keys_end:tensors_end]
    return head + bytes(-len(head) % alignment) + bytes(len(data) - start)


def main():
    CORPUS.mkdir(parents=True, exist_ok=True)
    for path in sorted(FIXTURES.glob("*/model.gguf")):
        data = path.read_bytes()
        (CORPUS / f"{path.parent.name}.gguf").write_bytes(data)
        (CORPUS / f"{path.parent.name}-chat.gguf").write_bytes(with_template(data))
    print(f"{len(list(CORPUS.iterdir()))} files in {CORPUS}")


if __name__ == "__main__":
    main()
