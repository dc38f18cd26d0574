"""glTF files put together by hand: taken apart and packed again, and small ones with keys of any kind."""

from __future__ import annotations

import base64
import json
import struct
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from motionkit.formats.glb.write import Buffer

Document = dict[str, Any]


def parts(path: Path) -> tuple[Document, bytes]:
    """Return the document and the buffer of a GLB file."""
    data = path.read_bytes()
    size = struct.unpack("<I", data[12:16])[0]
    return json.loads(data[20 : 20 + size]), data[28 + size :]


def pack(path: Path, document: Document, binary: bytes = b"") -> Path:
    """Write a GLB file."""
    text = json.dumps(document).encode()
    text += b" " * (-len(text) % 4)
    binary += b"\0" * (-len(binary) % 4)
    body = struct.pack("<I4s", len(text), b"JSON") + text + struct.pack("<I4s", len(binary), b"BIN\0") + binary
    path.write_bytes(struct.pack("<4sII", b"glTF", 2, 12 + len(body)) + body)
    return path


def edit(path: Path, change: Callable[[Document], object], to: Path | None = None) -> Path:
    """Change the document of a GLB file."""
    document, binary = parts(path)
    change(document)
    return pack(to or path, document, binary)


def as_text(glb: Path, path: Path, *, pieces: int = 1) -> Path:
    """Write a GLB file as text with its data inside, in several buffers cut between its buffer views."""
    document, binary = parts(glb)
    views = sorted(document["bufferViews"], key=lambda view: view.get("byteOffset", 0))
    cuts = [views[len(views) * piece // pieces].get("byteOffset", 0) for piece in range(pieces)]
    ends = [*cuts[1:], len(binary)]
    for view in views:
        start = view.get("byteOffset", 0)
        piece = max(number for number, cut in enumerate(cuts) if cut <= start)
        view |= {"buffer": piece, "byteOffset": start - cuts[piece]}
    document["buffers"] = [
        {"byteLength": end - cut, "uri": data_uri(binary[cut:end])} for cut, end in zip(cuts, ends, strict=True)
    ]
    path.write_text(json.dumps(document))
    return path


def data_uri(data: bytes) -> str:
    return "data:application/octet-stream;base64," + base64.b64encode(data).decode()


def keyed(path: Path, tracks: Sequence[tuple[str, str, Sequence[float], Any]], **animation: Any) -> Path:
    """Write a skin of two joints, the first of which moves.

    Args:
        path: The file.
        tracks: Path (``rotation``, ``translation``, ``scale``), interpolation, times and keys of each channel; the
            second ``rotation`` moves the other joint.
        animation: More about the animation, such as ``extras``.
    """
    buffer = Buffer()
    channels, samplers, moved = [], [], []
    for what, interpolation, times, keys in tracks:
        channels.append({"sampler": len(samplers), "target": {"node": moved.count(what), "path": what}})
        moved.append(what)
        samplers.append(
            {
                "input": buffer.add(np.array(times, np.float32), bounds=True),
                "output": buffer.add(np.array(keys, np.float32)),
                "interpolation": interpolation,
            }
        )
    document = {
        "nodes": [{"name": "Hips", "children": [1]}, {"name": "Spine", "translation": [0.0, 1.0, 0.0]}],
        "skins": [{"joints": [0, 1]}],
        "animations": [{"channels": channels, "samplers": samplers, **animation}],
    }
    path.write_bytes(buffer.pack(document))
    return path
