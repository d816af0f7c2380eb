"""Writes the first inputs of the fuzz targets `model`, `folder`, `safetensors`, `answer` and `tokenizer_json` into fuzz/corpus: every tiny
model of the crate duan-backend, as it is, and again with a chat template and with zeros for weights; the folders of some of them, and
those that are quantized already; small safetensors files; answers with calls, one for each format; the small tokenizers of the crate
duan-model's tests; and a file of importance and recipes for the targets `imatrix` and `recipe`.

Needs nothing but Python. Run from anywhere."""

import base64
import json
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

ANSWERS = CORPUS.parent / "answer"
FOLDERS = CORPUS.parent / "folder"

# Thoughts and a call, as the models of each family write them.
CALLS = [
    '<think>Hm.</think>Text\n<tool_call>\n{"name": "f", "arguments": {"a": "</x> \\" }", "b": [1, {}]}}\n</tool_call>',
    "<tool_call>\n<function=f>\n<parameter=a>\nx\n</parameter>\n</function>\n</tool_call>",
    "<seed:think>Hm</seed:think><seed:tool_call><function=f><parameter=a>[1, 'x']</parameter></function></seed:tool_call>",
    "<tool_call>f\n<arg_key>a</arg_key>\n<arg_value>x</arg_value>\n</tool_call>",
    "<tool_calls:opensource><tool_call:opensource>f<tool_sep:opensource><arg_key:opensource>a</arg_key:opensource>"
    "<arg_value:opensource>x</arg_value:opensource></tool_call:opensource></tool_calls:opensource>",
    '<function name="f"><param name="a"><![CDATA[x]]></param></function>',
    '<minimax:tool_call><invoke name="f"><parameter name="a">x</parameter></invoke></minimax:tool_call>',
    '<tool_calls>\n{"name": "f", "arguments": {}}\n</tool_calls>',
    ']<]minimax[>[<tool_call>]<]minimax[>[<invoke name="f">]<]minimax[>[<a>]<]minimax[>[<item>1]<]minimax[>[</item>'
    "]<]minimax[>[</a>]<]minimax[>[</invoke>]<]minimax[>[</tool_call>",
    'Here are my reasoning steps:\nHm\n[BEGIN FINAL RESPONSE]<tool_calls>[{"name": "f", "arguments": {}}]</tool_calls>',
    '<TOOLCALL>[{"name": "f", "arguments": {}}]</TOOLCALL>',
    '<|inner_prefix|>Hm<|inner_suffix|><|tools_prefix|>[{"f": {}}]<|tools_suffix|>',
    '<|START_THINKING|>Hm<|END_THINKING|><|START_ACTION|>[{"tool_call_id": "0", "tool_name": "f", "parameters": {}}]<|END_ACTION|>',
    'Action:\n```json\n[{"tool_name": "f", "parameters": {}}]\n```',
    "<｜tool▁calls▁begin｜><｜tool▁call▁begin｜>function<｜tool▁sep｜>f\n```json\n{}\n```<｜tool▁call▁end｜><｜tool▁calls▁end｜>",
    "<｜tool▁call▁begin｜>f<｜tool▁sep｜>{}<｜tool▁call▁end｜>",
    '<｜DSML｜tool_calls><｜DSML｜invoke name="f"><｜DSML｜parameter name="a" string="true">x</｜DSML｜parameter>'
    "</｜DSML｜invoke></｜DSML｜tool_calls>",
    "<|tool_calls_section_begin|><|tool_call_begin|>functions.f:0<|tool_call_argument_begin|>{}<|tool_call_end|>",
    '<|open|>think<|sep|>Hm<|close|>think<|sep|><|open|>call tool="f" index="1"<|sep|><|open|>argument key="a" type="string"<|sep|>x'
    "<|close|>argument<|sep|><|close|>call<|sep|>",
    "<|think|>Hm<|end|><|tool_call:begin|>a1<|tool_call:name|>f<|tool_call:args|>{}<|tool_call:end|>",
    "[THINK]Hm[/THINK][TOOL_CALLS]f[CALL_ID]1[ARGS]{}",
    '[TOOL_CALLS][{"name": "f", "arguments": {}, "id": "1"}]',
    '<|tool_call|>[{"name": "f", "arguments": {}}]',
    ' functools[{"name": "f", "arguments": {}}]',
    '<|function_call|>{"name": "f", "arguments": {}}',
    "<function=f>{}</function>",
    "f\n{}>>>all\nText",
    '{"name": "f", "parameters": {}}; {"name": "f", "parameters": {}}',
    '<|python_tag|>f.call(a="x")',
    "<|tool_call_start|>[f(a='x', b=[1, True, None])]<|tool_call_end|>",
    '<|channel>thought\nHm\n<channel|><|tool_call>call:f{a:<|"|>x<|"|>,b:[1,{}]}<tool_call|>',
    ' to=f<|message|><atem:function_calls><atem:invoke name="f"><atem:parameter name="a">x</atem:parameter>'
    "</atem:invoke></atem:function_calls>",
    "<|channel|>analysis<|message|>Hm<|end|><|start|>assistant<|channel|>commentary to=functions.f<|message|>{}<|call|>",
]

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


def tokenizers(folder):
    """The files of each small tokenizer, behind a byte that says which there are; see the target."""
    folder.mkdir(parents=True, exist_ok=True)
    fixture = json.loads((ROOT / "crates/model/tests/fixtures/hugging_face.json").read_text())
    names = ["tokenizer_config.json", "config.json", "generation_config.json", "special_tokens_map.json"]
    for case in fixture["cases"]:
        if "sentencepiece" in case:
            data = b"\x01" + base64.b64decode(case["sentencepiece"])
        else:
            model = {**fixture["models"][case["model"]], **case["options"]}
            parts = [json.dumps({**case["tokenizer"], "model": model}, ensure_ascii=False).encode()]
            which = 2
            for bit, name in enumerate(names, 2):
                if name in case["files"]:
                    which |= 1 << bit
                    parts.append(json.dumps(case["files"][name]).encode())
            data = bytes([which]) + b"\0".join(parts)
        (folder / case["name"]).write_bytes(data)


def importance():
    """A file of importance with a matrix and a stack of two experts."""
    f32, array, u32 = 0, 9, 4
    keys = [
        string("general.type") + struct.pack("<I", STRING) + string("imatrix"),
        string("imatrix.datasets") + struct.pack("<IIQ", array, STRING, 1) + string("text"),
        string("imatrix.chunk_count") + struct.pack("<II", u32, 2),
        string("imatrix.chunk_size") + struct.pack("<II", u32, 512),
    ]
    tensors = [("a.in_sum2", (4, 1)), ("a.counts", (1, 1)), ("b.in_sum2", (2, 2)), ("b.counts", (1, 2))]
    head = b"GGUF" + struct.pack("<IQQ", 3, len(tensors), len(keys)) + b"".join(keys)
    data = b""
    for name, dims in tensors:
        head += string(name) + struct.pack("<IQQIQ", 2, *dims, f32, len(data))
        values = struct.pack(f"<{dims[0] * dims[1]}f", *range(1, dims[0] * dims[1] + 1))
        data += values + bytes(-len(values) % 32)
    return head + bytes(-len(head) % 32) + data


def safetensors(folder):
    """Files with tensors of several types, with and without metadata, and with nothing in them."""
    folder.mkdir(parents=True, exist_ok=True)
    types = {"F32": 4, "BF16": 2, "F16": 2, "I64": 8, "I32": 4, "I8": 1, "U8": 1, "BOOL": 1, "F8_E4M3": 1}
    header, end = {"__metadata__": {"format": "pt"}}, 0
    for index, (dtype, size) in enumerate(types.items()):
        shape = [[], [3], [2, 2], [0, 4], [1, 2, 1]][index % 5]
        bytes_ = size
        for axis in shape:
            bytes_ *= axis
        header[f"model.layers.0.{dtype}"] = {"dtype": dtype, "shape": shape, "data_offsets": [end, end + bytes_]}
        end += bytes_
    for index, parts in enumerate([header, {name: part for name, part in header.items() if name[0] != "_"}, {}]):
        text = json.dumps(parts).encode()
        text += b" " * (-len(text) % 8)
        (folder / str(index)).write_bytes(struct.pack("<Q", len(text)) + text + bytes(end if parts else 0))


RECIPES = [
    b'{"duan_recipe": 1, "format": "Q4_K_M", "tensors": {"token_embd.weight": "Q8_0", "blk.0.attn_q.weight": "q4_k"}}',
    b"blk.[01]\\..*=f16",
    b"^attn_(q|k)=q8_0",
]


def main():
    CORPUS.mkdir(parents=True, exist_ok=True)
    for path in sorted(FIXTURES.glob("*/model.gguf")):
        data = path.read_bytes()
        (CORPUS / f"{path.parent.name}.gguf").write_bytes(data)
        (CORPUS / f"{path.parent.name}-chat.gguf").write_bytes(with_template(data))
    ANSWERS.mkdir(parents=True, exist_ok=True)
    for index, answer in enumerate(CALLS):
        for prompt in range(6):
            (ANSWERS / f"{index:02}-{prompt}").write_bytes(bytes([index % 2, prompt, 1, 2]) + answer.encode())
    FOLDERS.mkdir(parents=True, exist_ok=True)
    for path in sorted([*FIXTURES.glob("*/folder"), *FIXTURES.glob("quantized/*")]):
        data = (path / "config.json").read_bytes() + b"\0" + (path / "model.safetensors").read_bytes()
        (FOLDERS / (path.parent.name if path.name == "folder" else path.name)).write_bytes(data)
    safetensors(CORPUS.parent / "safetensors")
    tokenizers(CORPUS.parent / "tokenizer_json")
    imatrix, recipes = CORPUS.parent / "imatrix", CORPUS.parent / "recipe"
    imatrix.mkdir(parents=True, exist_ok=True)
    (imatrix / "two").write_bytes(importance())
    recipes.mkdir(parents=True, exist_ok=True)
    for index, recipe in enumerate(RECIPES):
        (recipes / str(index)).write_bytes(recipe)
    for folder in (CORPUS, ANSWERS, FOLDERS, CORPUS.parent / "safetensors", CORPUS.parent / "tokenizer_json", imatrix, recipes):
        print(f"{len(list(folder.iterdir()))} files in {folder}")


if __name__ == "__main__":
    main()
