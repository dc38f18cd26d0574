"""Writing composite sets: ours without pickle, and the original code's .npy on request."""

from __future__ import annotations

import hashlib
import io
import json
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from motionkit.datasets.composite._arrays import pack
from motionkit.datasets.composite._plan import Plan
from motionkit.datasets.composite._schema import KIND, SCHEMA
from motionkit.errors import MotionkitError
from motionkit.runs import write_bytes_atomic

if TYPE_CHECKING:
    from motionkit.datasets.composite._compose import Composed

_LEGACY_SAMPLE = (
    "composite_prompt", "sub_prompts", "durations", "durations_frames", "source_ids", "total_frames",
)  # fmt: skip
_LEGACY_METADATA = (
    "dataset_name", "split", "k_segments", "target_length", "tolerance", "fps", "num_samples",
)  # fmt: skip


@dataclass(frozen=True)
class Written:
    """The files of a set.

    Attributes:
        document: JSON with the samples.
        arrays: The arrays.
        legacy: The original code's file, if it was asked for.
    """

    document: Path
    arrays: Path
    legacy: Path | None


def planned_files(out: Path, plan: Plan, *, legacy: bool, overwrite: bool) -> Written:
    """Return where the files will be.

    Raises:
        MotionkitError: `out` is a file, or one of the files is there already.
    """
    if out.exists() and not out.is_dir():
        raise MotionkitError(f"{out} is a file; OUT is a folder.", fix="choose another OUT.")
    stem = f"composite_k{plan.k_segments}_{plan.split}"
    files = Written(out / f"{stem}.json", out / f"{stem}.npz", out / f"{stem}.npy" if legacy else None)
    for path in (files.document, files.arrays, files.legacy):
        if path is not None and path.exists() and not overwrite:
            raise MotionkitError(f"{path} already exists.", fix="choose another OUT, or add --overwrite.")
    return files


def write_composed(composed: Composed, files: Written) -> None:
    """Write a set; the arrays come first, so that a JSON file always finds those it was written with.

    A process that dies in between leaves the old JSON file, which refuses the new arrays by their hash.
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
    text = json.dumps(document, ensure_ascii=False, indent=1, allow_nan=False) + "\n"
    write_bytes_atomic(files.document, text.encode())
    if files.legacy is not None:
        write_bytes_atomic(files.legacy, legacy_bytes(composed))


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
