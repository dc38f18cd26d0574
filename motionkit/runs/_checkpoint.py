"""Checkpoints: safetensors plus JSON, complete or absent, never pickled."""

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
from motionkit.runs._atomic import (
    discard,
    disk_errors,
    sweep,
    sync_file,
    sync_folder,
    temporary,
    write_json,
    write_text,
)
from motionkit.runs._random import RANDOM, capture_random, restore_random
from motionkit.runs._record import first_problem

if TYPE_CHECKING:
    from torch import Tensor

_STATE = "state.json"
_LAST = "last"
_OLD = ".replaced"
_LIMIT = 64 << 20
"""Bytes of state.json."""
_NAME = re.compile(r"step-[0-9]{8,}")
_logger = logging.getLogger("motionkit.runs")


@dataclass(frozen=True)
class Checkpoint:
    """What a step left behind.

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
        """Put the global random generators (torch CPU and CUDA, numpy, python) back to where they were at saving."""
        restore_random(self.tensors[RANDOM])


def name_of(step: int) -> str:
    """Return the folder name of a step: ``step-00000003``."""
    return f"step-{step:08d}"


def save_checkpoint(
    root: Path, step: int, tensors: Mapping[str, Mapping[str, Tensor]], state: Mapping[str, object], *, keep: int
) -> Path:
    """Write one checkpoint aside, flush it, rename it into place, point ``last`` at it, then prune.

    Args:
        root: The run's ``checkpoints`` folder.
        step: Steps completed.
        tensors: Groups of tensors; each becomes ``<group>.safetensors``. Any device, any layout.
        state: JSON-able; must be finite, so that reading gives back the same values.
        keep: Newest checkpoints to leave in place.

    Raises:
        MotionkitError: The disk is full or refuses (code 1); older checkpoints are intact.
    """
    target = root / name_of(step)
    aside = temporary(target)
    with disk_errors(f"save the checkpoint of step {step}", target):
        root.mkdir(exist_ok=True)
        try:
            aside.mkdir()
            _write(aside, step, {**tensors, RANDOM: capture_random()}, state)
            _swap(aside, target)
            write_text(root / _LAST, target.name + "\n")
            _prune(root, step, keep)
        except BaseException:
            mend(root)
            raise
    return target


def mend(root: Path) -> None:
    """Undo a replacement that was cut short, and delete what was being written or deleted."""
    for path in root.glob(f"step-*{_OLD}"):
        if _NAME.fullmatch(path.name.removesuffix(_OLD)):
            _settle(path)
    sweep(root)


def _write(folder: Path, step: int, tensors: Mapping[str, Mapping[str, Tensor]], state: Mapping[str, object]) -> None:
    from safetensors.torch import save_file

    files: dict[str, dict[str, object]] = {}
    for group, members in tensors.items():
        path = folder / f"{group}.safetensors"
        save_file(_plain(members), path)
        sync_file(path)
        files[path.name] = {"bytes": path.stat().st_size, "sha256": _digest(path)}
    write_json(folder / _STATE, {"schema": 1, "step": step, "files": files, "state": state})


def _plain(members: Mapping[str, Tensor]) -> dict[str, Tensor]:
    """Return contiguous CPU tensors that share no memory, which is what the format can hold."""
    seen: set[int] = set()
    plain: dict[str, Tensor] = {}
    for name, tensor in members.items():
        value = tensor.detach().cpu().contiguous()
        storage = value.untyped_storage()
        if storage.data_ptr() in seen or storage.nbytes() != value.numel() * value.element_size():
            value = value.clone()
        seen.add(value.untyped_storage().data_ptr())
        plain[name] = value
    return plain


def _digest(path: Path) -> str:
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def _swap(aside: Path, target: Path) -> None:
    """Put `aside` in the place of `target`; whatever interrupts it, one of the two is there afterwards."""
    old = target.with_name(target.name + _OLD)
    _settle(old)
    try:
        if target.exists():
            target.rename(old)
        aside.rename(target)
        sync_folder(target.parent)
    finally:
        _settle(old)


def _settle(old: Path) -> None:
    """End a swap that was cut short: back to the old checkpoint when the new one is not in its place."""
    if not old.exists():
        return
    target = old.with_name(old.name.removesuffix(_OLD))
    if target.exists():
        discard(old)
    else:
        old.rename(target)


def _prune(root: Path, step: int, keep: int) -> None:
    """Delete all up to `step` but the newest `keep` whole ones."""
    kept = [path for path in _complete(root) if _step_of(path) <= step][:keep]
    for path in _folders(root):
        if _step_of(path) <= step and path not in kept:
            discard(path)


def _step_of(path: Path) -> int:
    return int(path.name.removeprefix("step-"))


def _folders(root: Path) -> list[Path]:
    return [path for path in root.glob("step-*") if _NAME.fullmatch(path.name)]


def _complete(root: Path) -> list[Path]:
    """Return the finished checkpoint folders, newest first."""
    return sorted((path for path in _folders(root) if (path / _STATE).is_file()), key=_step_of, reverse=True)


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

    fix = "take an earlier checkpoint of the run"
    try:
        # In bulk: what trainers save may hold numbers of more than 64 bits, such as numpy's states.
        saved = _Saved.model_validate(read_json(path / _STATE, dict, limit=_LIMIT, surrogates=True, bulk=True))
    except MotionkitError as error:
        raise MotionkitError(f"{path} is not a complete checkpoint.", why=error.sentence(), fix=fix) from error
    except ValidationError as error:
        why = f"{_STATE}: {first_problem(error)}"
        raise MotionkitError(f"{path} is not a complete checkpoint.", why=why, fix=fix) from error
    tensors = {}
    for name, expected in saved.files.items():
        file = path / name
        try:
            data = file.read_bytes() if file.is_file() and file.stat().st_size == expected.bytes else b""
            if hashlib.sha256(data).hexdigest() != expected.sha256:
                raise MotionkitError(f"{file} is damaged.", why="its size or checksum is not what was saved.", fix=fix)
            tensors[file.stem] = load(data)
        except (OSError, SafetensorError) as error:
            raise MotionkitError(f"{file} is damaged.", why=str(error), fix=fix) from error
    return Checkpoint(saved.step, tensors, saved.state, path)


def last_checkpoint(root: Path) -> Path | None:
    """Return the folder that ``last`` names, be it there or not; None when it names no checkpoint.

    Args:
        root: The run's ``checkpoints`` folder.
    """
    try:
        name = read_text(root / _LAST, limit=100).strip()
    except MotionkitError:
        return None
    return root / name if _NAME.fullmatch(name) else None


def newest_checkpoint(root: Path) -> Checkpoint | None:
    """Read the checkpoint that ``last`` names, or the newest good one before it, with a warning for each bad one.

    Raises:
        MotionkitError: There are checkpoints, but none can be read.
    """
    candidates = _complete(root) if root.is_dir() else []
    if (last := last_checkpoint(root)) is not None:
        candidates = [path for path in candidates if _step_of(path) <= _step_of(last)]
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
    """Make the checkpoint folder `path` the one to continue from; newer ones stay until they are written again."""
    write_text(path.parent / _LAST, path.name + "\n")
