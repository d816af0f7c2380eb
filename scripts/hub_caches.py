"""Hugging Face's own program and duan share one cache: what either fetched is found by the other, without a request.

usage: python scripts/hub_caches.py PROGRAM      PROGRAM is target/debug/examples/fetch, built by
                                                 cargo build -p duan-hub --example fetch
Needs the package huggingface_hub. Asks no server but its own, on this machine. Prints what was compared; the first
difference is an error.
"""

import hashlib
import http.server
import json
import os
import random
import subprocess
import sys
import tempfile
import threading

COMMIT = "0123456789abcdef0123456789abcdef01234567"
REPOSITORY = "Org/Tiny"
RANDOM = random.Random(1)
FILES = {
    "config.json": b'{"model_type": "llama"}',
    "tokenizer.json": b"{}",
    "model.safetensors": RANDOM.randbytes(400_000),
    "gguf/tiny-Q4_K_M.gguf": RANDOM.randbytes(300_000),
    "gguf/tiny-Q8_0.gguf": RANDOM.randbytes(500_000),
}
requests = []


def is_large(path):
    return path.endswith((".gguf", ".safetensors"))


def etag(path):
    data = FILES[path]
    if is_large(path):
        return hashlib.sha256(data).hexdigest()
    return hashlib.sha1(b"blob %d\0" % len(data) + data).hexdigest()


def entry(path):
    size = len(FILES[path])
    found = {"type": "file", "oid": "f" * 40 if is_large(path) else etag(path), "size": size, "path": path}
    if is_large(path):
        found["lfs"] = {"oid": etag(path), "size": size, "pointerSize": 135}
    return found


class Handler(http.server.BaseHTTPRequestHandler):
    """The part of Hugging Face's server that both ask."""

    def log_message(self, *_):
        pass

    def json(self, value):
        body = json.dumps(value).encode()
        self.send_response(200)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        if self.command == "GET":
            self.wfile.write(body)

    def do_HEAD(self):
        self.do_GET()

    def do_GET(self):
        requests.append(self.path)
        path = self.path.split("?")[0]
        api = f"/api/models/{REPOSITORY}"
        if path in (api, f"{api}/revision/main", f"{api}/revision/{COMMIT}"):
            return self.json({"id": REPOSITORY, "sha": COMMIT, "siblings": [{"rfilename": name} for name in FILES]})
        if path.startswith(f"{api}/tree/"):
            return self.json([entry(name) for name in FILES])
        for revision in ("main", COMMIT):
            start = f"/{REPOSITORY}/resolve/{revision}/"
            if path.startswith(start) and path[len(start):] in FILES:
                return self.file(path[len(start):])
        self.send_error(404)

    def file(self, name):
        data = FILES[name]
        first, last = 0, len(data) - 1
        if asked := self.headers.get("Range"):
            first_text, last_text = asked.removeprefix("bytes=").split("-")
            first, last = int(first_text), int(last_text or last)
        self.send_response(206 if asked else 200)
        if asked:
            self.send_header("Content-Range", f"bytes {first}-{last}/{len(data)}")
        self.send_header("Content-Length", str(last + 1 - first))
        self.send_header("ETag", f'"{etag(name)}"')
        self.send_header("X-Repo-Commit", COMMIT)
        if is_large(name):
            self.send_header("X-Linked-Etag", f'"{etag(name)}"')
            self.send_header("X-Linked-Size", str(len(data)))
        self.end_headers()
        if self.command == "GET":
            self.wfile.write(data[first:last + 1])


def duan(program, home, name):
    """The path that duan gives, and how many requests it made."""
    before = len(requests)
    environment = dict(os.environ, HF_HOME=f"{home}/hf", DUAN_CACHE=f"{home}/duan")
    ran = subprocess.run([program, name], env=environment, capture_output=True, text=True)
    if ran.returncode:
        sys.exit(f"{name}: {ran.stderr}")
    return ran.stdout.splitlines()[0], len(requests) - before


def same(what, found, expected):
    if found != expected:
        sys.exit(f"{what}: {found}, expected {expected}")
    print(f"same: {what}")


def main():
    program = sys.argv[1]
    server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    os.environ["HF_ENDPOINT"] = f"http://127.0.0.1:{server.server_port}"
    os.environ["HF_HUB_DISABLE_TELEMETRY"] = "1"
    os.environ.pop("HF_TOKEN", None)
    import huggingface_hub as hub

    with tempfile.TemporaryDirectory() as home:
        cache = f"{home}/hf/hub"
        path = hub.hf_hub_download(REPOSITORY, "gguf/tiny-Q8_0.gguf", cache_dir=cache)
        found, count = duan(program, home, f"hf:{REPOSITORY}:Q8_0")
        same("a file that Python fetched, by duan", (os.path.realpath(found), count), (os.path.realpath(path), 0))
        folder = hub.snapshot_download(REPOSITORY, cache_dir=cache, ignore_patterns=["*.gguf"])
        found, count = duan(program, home, f"hf:{REPOSITORY}/")
        same("a folder that Python fetched, by duan", (found, count), (folder, 0))

    with tempfile.TemporaryDirectory() as home:
        cache = f"{home}/hf/hub"
        found, _ = duan(program, home, f"hf:{REPOSITORY}")
        folder, _ = duan(program, home, f"hf:{REPOSITORY}/")
        before = len(requests)
        path = hub.hf_hub_download(REPOSITORY, "gguf/tiny-Q4_K_M.gguf", cache_dir=cache, local_files_only=True)
        same("a file that duan fetched, by Python", (path, len(requests) - before), (found, 0))
        same("its bytes", open(path, "rb").read(), FILES["gguf/tiny-Q4_K_M.gguf"])
        there = hub.snapshot_download(REPOSITORY, cache_dir=cache, local_files_only=True)
        same("a folder that duan fetched, by Python", (there, len(requests) - before), (folder, 0))
        gets = [request for request in requests if "resolve" in request]
        hub.hf_hub_download(REPOSITORY, "model.safetensors", cache_dir=cache)
        again = [request for request in requests if "resolve" in request][len(gets):]
        same("with the network Python asks once and fetches nothing", len(again), 1)
        info = hub.scan_cache_dir(cache)
        same("Python's list of the cache has no complaint", (len(info.warnings), len(info.repos)), (0, 1))
        wanted = {name for name in FILES if name != "gguf/tiny-Q8_0.gguf"}
        revision = next(iter(next(iter(info.repos)).revisions))
        listed = {str(file.file_path).split(COMMIT + "/")[1] for file in revision.files}
        same("it has all files, under main", (listed, set(revision.refs)), (wanted, {"main"}))


if __name__ == "__main__":
    main()
