"""Reads composite files, motionkit's and the original code's. Nothing in a file is executed."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from pydantic import ValidationError

from motionkit.datasets.composite._schema import KIND, LIMIT, SCHEMA, CompositeDocument
from motionkit.documents import open_file, read_json
from motionkit.errors import MotionkitError
from motionkit.weights import read_array

_LARGEST = 512 * 2**20
"""Bytes of a file of the original code."""


@dataclass(frozen=True)
class CompositeFile:
    """An opened file.

    Attributes:
        path: Where it is.
        document: Its parsed content.
    """

    path: Path
    document: CompositeDocument


def find_files(paths: tuple[Path, ...]) -> list[CompositeFile]:
    """Open files, and all composite files of folders.

    In a folder, a ``.npy`` beside a ``.json`` of the same name is the same set in the original code's format, and is
    skipped.

    Raises:
        MotionkitError: Nothing was given or found, or a file is refused.
    """
    fix = "motionkit compose --dataset ... --split train OUT makes one; give OUT with --dataset.path OUT"
    if not paths:
        raise MotionkitError("dataset.path is not set: the composite dataset does not know its files.", fix=fix)
    found = []
    for path in paths:
        path = path.expanduser()
        if not path.is_dir():
            found.append(read_file(path))
            continue
        documents = sorted(path.glob("composite_k*.json"))
        stems = {each.stem for each in documents}
        documents += [each for each in sorted(path.glob("composite_k*.npy")) if each.stem not in stems]
        if not documents:
            raise MotionkitError(f"{path} has no composite_k*.json.", fix=fix)
        found += [read_file(each) for each in documents]
    return found


def read_file(path: Path) -> CompositeFile:
    """Open one file; its format is recognised by content.

    Raises:
        MotionkitError: It is missing, damaged, or no composite file.
    """
    try:
        size = path.stat().st_size
        with open_file(path) as file:
            ours = file.read(6) != b"\x93NUMPY"
    except OSError as error:
        raise MotionkitError(
            f"{path} cannot be opened.", why=error.strerror or "", fix="check --dataset.path."
        ) from error
    if size > _LARGEST:
        raise MotionkitError(f"{path} has {size >> 20} MB, more than the {_LARGEST >> 20} MB a prompt set may have.")
    value = _ours(path) if ours else _legacy(path)
    try:
        return CompositeFile(path, CompositeDocument.model_validate(value, context={"ours": ours}))
    except ValidationError as error:
        problem = error.errors()[0]
        where = ".".join(str(part) for part in problem["loc"])
        more = f" (and {error.error_count() - 1} more problems)" if error.error_count() > 1 else ""
        raise MotionkitError(
            f"{path} is damaged: {where + ': ' if where else ''}{problem['msg']}{more}.", fix="compose it again."
        ) from error


def _ours(path: Path) -> dict[str, Any]:
    try:
        value = read_json(path, object, limit=LIMIT)
    except MotionkitError as error:
        raise MotionkitError(
            f"{path} is neither JSON nor a .npy file.", why=error.sentence(), fix="give a file of motionkit compose."
        ) from error
    if not isinstance(value, dict) or value.get("kind") != KIND:
        raise MotionkitError(
            f"{path} is no composite prompt set.",
            why=f'a file of motionkit compose says "kind": "{KIND}".',
            fix="motionkit compose --dataset ... OUT makes one; the original code's .npy is read as well.",
        )
    if value.get("schema") != SCHEMA:
        raise MotionkitError(
            f"{path} has schema {value.get('schema')!r}; this version of motionkit reads {SCHEMA}.",
            fix="compose it again, or use the version that wrote it.",
        )
    return value


def _legacy(path: Path) -> Any:
    """Read the original code's ``np.save`` of a dict through the restricted reader."""
    try:
        return _plain(read_array(path))
    except MotionkitError:
        raise
    # A damaged pickle can raise nearly any exception; names outside the allowed list are never imported.
    except Exception as error:
        raise MotionkitError(f"{path} is damaged.", why=str(error), fix="copy it again.") from error


def _plain(value: Any) -> Any:
    """Turn numpy values into Python's."""
    if isinstance(value, np.ndarray):
        return _plain(value.tolist())
    if isinstance(value, np.generic):
        return value.item()
    if isinstance(value, dict):
        return {str(key): _plain(item) for key, item in value.items()}
    if isinstance(value, (list, tuple)):
        return [_plain(item) for item in value]
    return value
