"""Fills a table of text vectors from Kimodo's text-encoder server, one text a call, and goes on where it stopped."""

from __future__ import annotations

import json
import tempfile
import urllib.request
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path
from typing import Any

from torch import Tensor

from motionkit.errors import MotionkitError
from motionkit_policy_kimodo.texts import KNOWN, TextTable, clean, one_vector, write_vectors

_CALL = "gradio_api/call/DemoWrapper"
_SAVE = 200  # texts between two writes of the table: each rewrites all of it
_LARGEST = 1 << 20  # bytes of an answer


def embed(
    texts: Iterable[str],
    out: Path,
    ask: Callable[[str], Tensor],
    *,
    encoder: str,
    stored: Mapping[str, Tensor] | None = None,
    told: Callable[[int, int], None] = lambda done, of: None,
) -> int:
    """Add the vectors of texts to a table, and return how many the encoder was asked for.

    Args:
        texts: As written; they are cleaned here.
        out: The table; one that exists is added to, if it is of the same encoder.
        ask: The encoder: a cleaned text to its vector ``[E]``.
        encoder: Name of the encoder.
        stored: Vectors that are at hand by cleaned text, such as those of the demo's cache.
        told: Called with the number of texts done, and of all.
    """
    known = ask(KNOWN)
    vectors = {KNOWN: known}
    if out.exists():
        table = TextTable(out)
        table.require(encoder, known)
        vectors = dict(table.vectors)
    wanted = [text for text in dict.fromkeys(map(clean, texts)) if text and text not in vectors]
    asked = 1
    try:
        for done, text in enumerate(wanted, start=1):
            at_hand = (stored or {}).get(text)
            if at_hand is not None and at_hand.shape != known.shape:
                raise MotionkitError(
                    f"the vector of {text[:100]!r} at hand has {len(at_hand)} numbers, the encoder's {len(known)}.",
                    fix="leave the cache out.",
                )
            asked += at_hand is None
            vectors[text] = ask(text) if at_hand is None else at_hand
            if done % _SAVE == 0:
                write_vectors(out, vectors, encoder=encoder)
            told(done, len(wanted))
    finally:  # what was asked for is kept when the server or the user stops
        write_vectors(out, vectors, encoder=encoder)
    return asked


class Server:
    """Kimodo's text-encoder server (``kimodo_textencoder``), a Gradio application.

    Args:
        address: Its address.
        seconds: How long to wait for an answer; the first one loads the model.
    """

    def __init__(self, address: str, seconds: float = 600.0) -> None:
        self.address, self._seconds = address.rstrip("/"), seconds
        # Never through a proxy: the texts stay on the user's machines.
        self._open = urllib.request.build_opener(urllib.request.ProxyHandler({})).open

    def __call__(self, text: str) -> Tensor:
        """Return the vector ``[E]`` of a text."""
        body = json.dumps({"data": [text, "motionkit.npy"]}).encode()
        try:
            event = json.loads(self._read(_CALL, body))["event_id"]
            # Server-sent events: lines "event: complete" and "data: [...]"; the last pair is the result.
            lines = dict(line.split(": ", 1) for line in self._read(f"{_CALL}/{event}").decode().split("\n") if line)
            file = _file(json.loads(lines["data"]))
        except (ValueError, LookupError, TypeError) as error:
            raise self._error(f"its answer to {text[:100]!r} is of another form.") from error
        if lines.get("event") != "complete" or file is None:
            raise self._error(f"it made nothing of {text[:100]!r}.")
        with tempfile.TemporaryDirectory() as folder:
            path = Path(folder) / "vector.npy"
            path.write_bytes(self._read(f"gradio_api/file={file}"))
            return one_vector(path)

    def _read(self, path: str, body: bytes | None = None) -> bytes:
        request = urllib.request.Request(
            f"{self.address}/{path}", data=body, headers={"Content-Type": "application/json"}
        )
        try:
            with self._open(request, timeout=self._seconds) as answer:
                content: bytes = answer.read(_LARGEST)
        except (OSError, ValueError) as error:
            raise self._error(str(error)) from error
        return content

    def _error(self, why: str) -> MotionkitError:
        return MotionkitError(
            f"the text encoder at {self.address} does not answer as Kimodo's does.", why=why,
            fix="start it in your Kimodo: kimodo_textencoder", code=1,
        )  # fmt: skip


def _file(answer: Any) -> str | None:
    """Return the path of the first file in an answer of Gradio."""
    if isinstance(answer, dict):
        if isinstance(answer.get("path"), str):
            return str(answer["path"])
        answer = list(answer.values())
    found = (_file(part) for part in answer) if isinstance(answer, list) else ()
    return next((path for path in found if path), None)
