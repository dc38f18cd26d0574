"""Texts: cleaning, tables of vectors, the demo's cache, and filling a table from a server of the test's own."""

from __future__ import annotations

import hashlib
import io
import json
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import numpy as np
import pytest
import torch
from torch import Tensor

from motionkit.errors import MotionkitError
from motionkit.text import StoredEncoder
from motionkit_policy_kimodo.embed import Server, embed
from motionkit_policy_kimodo.texts import KNOWN, TextTable, clean, read_demo_cache, write_vectors

E = 8


def test_cleaning(recorded: Path) -> None:
    known = json.loads((recorded / "sanitized_texts.json").read_text())
    assert {raw: clean(raw) for raw in known} == known


def test_cleaning_is_done_once() -> None:
    for raw in ("  a man... waves", "Stop! then GO", "2 steps , ", "(slowly)"):
        assert clean(clean(raw)) == clean(raw)
    assert clean("...") == ""


def _vector(text: str) -> Tensor:
    seed = int.from_bytes(hashlib.sha256(text.encode()).digest()[:4])
    return torch.randn(E, generator=torch.Generator().manual_seed(seed))


def _write(path: Path, *texts: str) -> Path:
    write_vectors(path, {text: _vector(text) for text in (KNOWN, *map(clean, texts))}, encoder="llm2vec")
    return path


def test_table(tmp_path: Path) -> None:
    table = TextTable(_write(tmp_path / "texts.safetensors", "wave"), E)
    features = table.encode(["  wave", "", "Wave."])
    assert torch.equal(features.tokens[0, 0], _vector("Wave."))  # to the bit: float32
    assert features.mask.tolist() == [[True], [False], [True]]
    assert not features.tokens[1].any()
    assert (table.encoder, table.width) == ("llm2vec", E)
    assert torch.equal(table.known, _vector(KNOWN))
    stored = StoredEncoder(tmp_path / "texts.safetensors")  # motionkit's own reader opens it too
    assert torch.equal(stored.encode(["Wave."]).tokens[0, 0], _vector("Wave."))


def test_tables_that_are_refused(tmp_path: Path) -> None:
    path = _write(tmp_path / "texts.safetensors", "wave")
    with pytest.raises(MotionkitError) as refused:
        TextTable(path).encode(["wave", "jump", "run"])
    said = refused.value.sentence()
    assert "'Jump.', nor for 1 other" in said
    assert "motionkit kimodo-embed PROMPTS OUT" in said
    with pytest.raises(MotionkitError, match="8 numbers, the model reads 4096"):
        TextTable(path, 4096)
    table = TextTable(path)
    table.require("llm2vec", _vector(KNOWN) * (1 + 1e-4))
    for encoder, known in (("other", _vector(KNOWN)), ("llm2vec", _vector("x")), ("llm2vec", torch.zeros(4))):
        with pytest.raises(MotionkitError, match="holds vectors of the text encoder llm2vec"):
            table.require(encoder, known)
    document = json.loads(path.with_suffix(".json").read_text())
    path.with_suffix(".json").write_text(json.dumps({**document, "texts": ["a", "b"]}))
    with pytest.raises(MotionkitError, match="no table of Kimodo's"):
        TextTable(path)


def test_demo_cache(tmp_path: Path) -> None:
    folder = tmp_path / "kimodo-soma-rp"
    folder.mkdir()
    key = hashlib.sha256(b"kimodo-soma-rp|LLM2VecEncoder|Wave.").hexdigest()
    np.save(folder / f"{key}.npy", _vector("Wave.")[None].numpy())
    found = read_demo_cache(folder, ["wave", "jump"])
    assert list(found) == ["Wave."]
    assert torch.equal(found["Wave."], _vector("Wave."))
    np.save(folder / f"{key}.npy", np.zeros((3, E)))
    with pytest.raises(MotionkitError, match="has the shape"):
        read_demo_cache(folder, ["wave"])


def test_filling_goes_on(tmp_path: Path) -> None:
    asked: list[str] = []

    def ask(text: str) -> Tensor:
        asked.append(text)
        if text == "Break.":
            raise MotionkitError("the server is gone.")
        return _vector(text)

    out = tmp_path / "texts.safetensors"
    assert embed(["wave", "WAVE", "", "jump"], out, ask, encoder="llm2vec", stored={"Jump.": _vector("Jump.")}) == 2
    assert asked == [KNOWN, "Wave."]
    with pytest.raises(MotionkitError, match="gone"):
        embed(["run", "break"], out, ask, encoder="llm2vec")
    assert embed(["run", "wave"], out, ask, encoder="llm2vec") == 1  # what came before the break is kept
    assert asked[-3:] == ["Run.", "Break.", KNOWN]
    assert list(TextTable(out).vectors) == [KNOWN, "Wave.", "Jump.", "Run."]
    with pytest.raises(MotionkitError, match="at hand has 2 numbers"):
        embed(["lie"], out, ask, encoder="llm2vec", stored={"Lie.": torch.zeros(2)})
    with pytest.raises(MotionkitError, match="holds vectors of"):
        embed(["sit"], out, lambda text: _vector(text) + 1, encoder="llm2vec")


class _Gradio(BaseHTTPRequestHandler):
    """A server that answers as Gradio does: an event, its result, and the file that the result names."""

    answers: dict[str, str]

    def do_POST(self) -> None:
        text, name = json.loads(self.rfile.read(int(self.headers["Content-Length"])))["data"]
        assert self.path == "/gradio_api/call/DemoWrapper"
        assert name.endswith(".npy")
        self.answers[str(len(self.answers))] = text
        self._send(json.dumps({"event_id": str(len(self.answers) - 1)}).encode())

    def do_GET(self) -> None:
        number = self.path.rpartition("/")[2]
        if "file=" in self.path:
            file = io.BytesIO()
            np.save(file, _vector(self.answers[number])[None].numpy())
            self._send(file.getvalue())
        elif self.answers[number] == "Break.":
            self._send(b"event: error\ndata: null\n\n")
        elif self.answers[number] == "Page.":
            self._send(b"<html>another server</html>")
        else:
            button = {"value": {"path": f"/tmp/{number}", "url": "http://elsewhere"}, "__type__": "update"}
            data = json.dumps([button, {"visible": True}, {"visible": True}])
            self._send(f"event: generating\ndata: null\n\nevent: complete\ndata: {data}\n\n".encode())

    def _send(self, content: bytes) -> None:
        self.send_response(200)
        self.end_headers()
        self.wfile.write(content)

    def log_message(self, *_: object) -> None:
        return


@pytest.fixture
def server() -> Iterator[str]:
    handler = type("Handler", (_Gradio,), {"answers": {}})
    with ThreadingHTTPServer(("127.0.0.1", 0), handler) as made:
        thread = threading.Thread(target=made.serve_forever)
        thread.start()
        yield f"http://127.0.0.1:{made.server_port}/"
        made.shutdown()
        thread.join()


def test_server(server: str, tmp_path: Path) -> None:
    out = tmp_path / "texts.safetensors"
    steps: list[tuple[int, int]] = []
    embed(["wave", "jump"], out, Server(server), encoder="llm2vec", told=lambda *step: steps.append(step))
    assert torch.equal(TextTable(out).encode(["jump"]).tokens[0, 0], _vector("Jump."))
    assert steps == [(1, 2), (2, 2)]
    for text in ("Break.", "Page."):
        with pytest.raises(MotionkitError, match="does not answer as Kimodo's"):
            Server(server)(text)


def test_no_server() -> None:
    with pytest.raises(MotionkitError) as refused:
        Server("http://127.0.0.1:9", seconds=5)("Wave.")
    assert "kimodo_textencoder" in refused.value.sentence()
    assert refused.value.code == 1


def test_writing_needs_the_known_text(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match="needs the vector"):
        write_vectors(tmp_path / "x.safetensors", {"Wave.": _vector("Wave.")}, encoder="llm2vec")
