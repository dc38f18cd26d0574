"""Writes composite sets: JSON and arrays, and the original code's .npy on request."""

from __future__ import annotations

import hashlib
import io
import json
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from motionkit.documents import read_json
from motionkit.errors import MotionkitError
from motionkit.runs import require_writable, write_bytes_atomic
from motionkit.text_to_motion.data.compose import Composed, EncoderTower, Plan, TextTower, TmrTower, compose
from motionkit.text_to_motion.data.composite import KIND, LIMIT, SCHEMA
from motionkit.text_to_motion.data.composite_set import pack
from motionkit.text_to_motion.data.joined import reference_features, reference_joints

__all__ = [
    "Composed",
    "EncoderTower",
    "Plan",
    "TextTower",
    "TmrTower",
    "Written",
    "compose",
    "planned_files",
    "reference_features",
    "reference_joints",
    "write_composed",
]


_WIDTH = 120
_LEGACY_SAMPLE = (
    "composite_prompt", "sub_prompts", "durations", "durations_frames", "source_ids", "total_frames",
)  # fmt: skip
_LEGACY_METADATA = (
    "dataset_name", "split", "k_segments", "target_length", "tolerance", "fps", "num_samples",
)  # fmt: skip


@dataclass(frozen=True)
class Written:
    """The files of a set."""

    document: Path  # JSON with the samples
    arrays: Path  # the arrays
    legacy: Path | None  # the original code's file, if it was requested or exists already


def planned_files(out: Path, plan: Plan, *, legacy: bool, overwrite: bool) -> Written:
    """Return where the files will be.

    An existing file of the original code beside them is written again, requested or not, so that both hold the same
    set.
    """
    if out.exists() and not out.is_dir():
        raise MotionkitError(f"{out} is a file; OUT is a folder.", fix="choose another OUT.")
    stem = f"composite_k{plan.k_segments}_{plan.split}"
    old = out / f"{stem}.npy"
    files = Written(out / f"{stem}.json", out / f"{stem}.npz", old if legacy or old.exists() else None)
    there = [path for path in (files.document, files.arrays, files.legacy) if path is not None and path.exists()]
    if there and not _is_composed(files.document):
        raise MotionkitError(
            f"{there[0]} already exists, and compose did not make it.",
            why="it will not be touched, with or without --overwrite.",
            fix="choose another OUT.",
        )
    if there and not overwrite:
        raise MotionkitError(f"{there[0]} already exists.", fix="choose another OUT, or add --overwrite.")
    for path in (files.document, files.arrays, files.legacy):
        if path is not None:
            require_writable(path, parents=True)
    return files


def _is_composed(path: Path) -> bool:
    """Whether a file was written by `compose`, in any version."""
    try:
        return read_json(path, dict, limit=LIMIT).get("kind") == KIND
    except MotionkitError:
        return False


def write_composed(composed: Composed, files: Written) -> None:
    """Write a set; the arrays come first, so that a JSON file never exists without its arrays.

    If the process dies in between, the old JSON file remains, and the hash in it does not match the new arrays.
    """
    files.document.parent.mkdir(parents=True, exist_ok=True)
    data = pack(composed.arrays)
    document = {
        "schema": SCHEMA,
        "kind": KIND,
        "metadata": composed.metadata.model_dump(mode="json"),
        "arrays": {"file": files.arrays.name, "sha256": hashlib.sha256(data).hexdigest(), "size": len(data)},
        "samples": [sample.model_dump(mode="json") for sample in composed.samples],
    }
    write_bytes_atomic(files.arrays, data)
    write_bytes_atomic(files.document, (_as_text(document) + "\n").encode())
    if files.legacy is not None:
        write_bytes_atomic(files.legacy, legacy_bytes(composed))


def _as_text(value: Any, indent: int = 0) -> str:
    """Return JSON with short containers on one line, so that people can read a set of a thousand samples."""
    line = json.dumps(value, ensure_ascii=False, allow_nan=False)
    if indent + len(line) <= _WIDTH or not value or not isinstance(value, (dict, list)):
        return line
    if isinstance(value, dict):
        items = [f"{json.dumps(name)}: {_as_text(item, indent + 1)}" for name, item in value.items()]
    else:
        items = [_as_text(item, indent + 1) for item in value]
    start, end = "{}" if isinstance(value, dict) else "[]"
    inner = ",\n".join(" " * (indent + 1) + item for item in items)
    return f"{start}\n{inner}\n{' ' * indent}{end}"


def legacy_bytes(composed: Composed) -> bytes:
    """Return the original code's file: ``np.save`` of a dict, read by ``np.load(allow_pickle=True)[None][0]``.

    A B-matrix goes into each sample as ``B_matrix``, the name its guide gives it.
    """
    samples: list[dict[str, Any]] = []
    similarity = composed.arrays.similarity
    for number, sample in enumerate(composed.samples):
        whole = sample.model_dump(mode="json")
        samples.append({name: whole[name] for name in _LEGACY_SAMPLE})
        if similarity is not None:
            samples[-1]["B_matrix"] = similarity[number].tolist()
    metadata = composed.metadata.model_dump(mode="json")
    value = {"samples": samples, "metadata": {name: metadata[name] for name in _LEGACY_METADATA}}
    buffer = io.BytesIO()
    np.save(buffer, np.array(value, dtype=object), allow_pickle=True)
    return buffer.getvalue()
