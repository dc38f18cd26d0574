"""The folder of an evaluation: its document, and leave to write there."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from motionkit.documents import read_json
from motionkit.errors import MotionkitError
from motionkit.runs import disk_errors, write_bytes_atomic
from motionkit.tracking import finite

RECORD = "evaluation.json"
_KIND = "motionkit-evaluation"


def claim(path: Path, protocol: str, *, overwrite: bool) -> None:
    """Refuse a folder that holds something that an evaluation may not replace; makes nothing.

    Args:
        path: The folder.
        protocol: Name of the protocol, such as ``mpl``: an evaluation by another one is not replaced.
        overwrite: Whether an evaluation by the same one is.

    Raises:
        MotionkitError: It is a file, holds other files, or an evaluation while `overwrite` is off (exit code 2).
    """
    if path.exists() and not path.is_dir():
        raise MotionkitError(f"--out {path} is a file.", fix="choose another --out.")
    if not path.is_dir() or not any(path.iterdir()):
        return
    record: dict[str, Any] = {}
    if (path / RECORD).is_file():
        record = read_json(path / RECORD, dict, fix="choose another --out.")
    if record.get("kind") != _KIND or record.get("protocol") != protocol:
        raise MotionkitError(f"{path} exists and holds something else.", fix="choose another --out.")
    if not overwrite:
        raise MotionkitError(f"{path} holds a finished evaluation.", fix="choose another --out, or --overwrite it.")


def write_record(path: Path, protocol: str, document: Mapping[str, Any]) -> None:
    """Write ``evaluation.json``; the folder is made.

    Args:
        path: The folder.
        protocol: Name of the protocol.
        document: The result; ``table`` and ``closing``, which the console shows, are left out.

    Raises:
        MotionkitError: It cannot be written (exit code 1).
    """
    shown = {key: finite(value) for key, value in document.items() if key not in ("table", "closing")}
    record = {"kind": _KIND, "schema": 1, "protocol": protocol, "result": shown}
    text = json.dumps(record, indent=1, ensure_ascii=False, allow_nan=False) + "\n"
    with disk_errors("write the evaluation", path):
        path.mkdir(parents=True, exist_ok=True)
        write_bytes_atomic(path / RECORD, text.encode(errors="backslashreplace"))
