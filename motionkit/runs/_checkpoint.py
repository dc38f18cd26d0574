"""Finds and reads checkpoints: safetensors plus JSON, no pickles."""

from __future__ import annotations

import hashlib
import logging
import re
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

from pydantic import BaseModel, ConfigDict, Field, ValidationError

from motionkit.documents import read_json, read_text
from motionkit.errors import MotionkitError
from motionkit.runs._atomic import write_text
from motionkit.runs._random import RANDOM, restore_random
from motionkit.runs._record import first_problem

if TYPE_CHECKING:
    from torch import Tensor

STATE = "state.json"
LAST = "last"
NAME = re.compile(r"step-[0-9]{8,}")
"""Matches the names that `name_of` returns."""

_FIX = "take an earlier checkpoint of the run"
_LIMIT = 64 << 20
"""Bytes of state.json."""
_logger = logging.getLogger("motionkit.runs")


@dataclass(frozen=True)
class Checkpoint:
    """The content of a checkpoint.

    Attributes:
        step: Steps completed.
        tensors: Named groups of named CPU tensors, as given to `Run.save`.
        state: The JSON-able rest: counters, cursors, scheduler, option values.
        path: Folder it was read from.
    """

    step: int
    tensors: Mapping[str, Mapping[str, Tensor]]
    state: Mapping[str, Any]
    path: Path

    def restore_random(self) -> None:
        """Put the global random generators (torch CPU and CUDA, numpy, python) back to where they were at saving.

        Raises:
            MotionkitError: The checkpoint does not hold their states.
        """
        try:
            restore_random(self.tensors[RANDOM])
        except (KeyError, TypeError, ValueError, OverflowError, RuntimeError) as error:
            raise MotionkitError(
                f"{self.path} does not hold the states of the random generators.", why=str(error), fix=_FIX
            ) from error


def name_of(step: int) -> str:
    """Return the folder name of a step: ``step-00000003``."""
    return f"step-{step:08d}"


def step_of(path: Path) -> int:
    """Return the step of a folder that has such a name."""
    return int(path.name.removeprefix("step-"))


def folders(root: Path) -> list[Path]:
    """Return the folders with the name of a checkpoint, complete or not."""
    return [path for path in root.glob("step-*") if NAME.fullmatch(path.name)]


def complete(root: Path) -> list[Path]:
    """Return the complete checkpoint folders, newest first."""
    return sorted((path for path in folders(root) if (path / STATE).is_file()), key=step_of, reverse=True)


class _File(BaseModel):
    model_config = ConfigDict(strict=True)

    bytes: int
    sha256: str


class _Saved(BaseModel):
    """state.json."""

    model_config = ConfigDict(strict=True)

    step: int
    files: dict[Annotated[str, Field(pattern=r"^[^/\\]+\.safetensors$")], _File]
    state: dict[str, Any]


def read_checkpoint(path: Path) -> Checkpoint:
    """Read and verify one checkpoint folder.

    Raises:
        MotionkitError: A file is missing, truncated or altered.
    """
    from safetensors import SafetensorError
    from safetensors.torch import load

    try:
        # In bulk: values of trainers may have more than 64 bits, such as the state of a numpy generator.
        saved = _Saved.model_validate(read_json(path / STATE, dict, limit=_LIMIT, surrogates=True, bulk=True))
    except MotionkitError as error:
        raise MotionkitError(f"{path} is not a complete checkpoint.", why=error.sentence(), fix=_FIX) from error
    except ValidationError as error:
        why = f"{STATE}: {first_problem(error)}"
        raise MotionkitError(f"{path} is not a complete checkpoint.", why=why, fix=_FIX) from error
    tensors = {}
    for name, expected in saved.files.items():
        file = path / name
        try:
            data = file.read_bytes() if file.is_file() and file.stat().st_size == expected.bytes else b""
            if hashlib.sha256(data).hexdigest() != expected.sha256:
                raise MotionkitError(f"{file} is damaged.", why="its size or checksum is not what was saved.", fix=_FIX)
            tensors[file.stem] = load(data)
        except (OSError, SafetensorError) as error:
            raise MotionkitError(f"{file} is damaged.", why=str(error), fix=_FIX) from error
    return Checkpoint(saved.step, tensors, saved.state, path)


def last_checkpoint(root: Path) -> Path | None:
    """Return the folder that ``last`` names, existing or not; None when ``last`` is missing or names no checkpoint.

    Args:
        root: The run's ``checkpoints`` folder.
    """
    try:
        name = read_text(root / LAST, limit=100).strip()
    except MotionkitError:
        return None
    return root / name if NAME.fullmatch(name) else None


def newest_checkpoint(root: Path) -> Checkpoint | None:
    """Read the checkpoint that ``last`` names, or the newest good one before it, with a warning for each bad one.

    Raises:
        MotionkitError: There are checkpoints, but none can be read.
    """
    candidates = complete(root) if root.is_dir() else []
    if (last := last_checkpoint(root)) is not None:
        candidates = [path for path in candidates if step_of(path) <= step_of(last)]
        if candidates and candidates[0] != last:
            _logger.warning("%s is not complete. Falling back to the checkpoint before it.", last)
    for path in candidates:
        try:
            return read_checkpoint(path)
        except MotionkitError as error:
            _logger.warning("%s %s Falling back to the checkpoint before it.", error.message, error.why)
    if candidates:
        raise MotionkitError(
            f"no checkpoint in {root} can be read.",
            why=f"{len(candidates)} were tried.",
            fix="start again with --overwrite",
        )
    return None


def choose_checkpoint(path: Path) -> None:
    """Make the checkpoint folder `path` the one to continue from; newer ones stay until they are overwritten."""
    write_text(path.parent / LAST, path.name + "\n")
