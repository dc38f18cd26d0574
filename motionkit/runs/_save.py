"""Saves checkpoints atomically: a checkpoint is complete or absent."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING

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
from motionkit.runs._checkpoint import LAST, NAME, STATE, complete, folders, name_of, step_of
from motionkit.runs._random import RANDOM, capture_random

if TYPE_CHECKING:
    from torch import Tensor

_OLD = ".replaced"


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
        MotionkitError: The disk is full or not writable (code 1); older checkpoints are intact.
    """
    target = root / name_of(step)
    aside = temporary(target)
    with disk_errors(f"save the checkpoint of step {step}", target):
        root.mkdir(exist_ok=True)
        try:
            aside.mkdir()
            _write(aside, step, {**tensors, RANDOM: capture_random()}, state)
            _swap(aside, target)
            write_text(root / LAST, target.name + "\n")
            prune(root, step, keep)
        except BaseException:
            mend(root)
            raise
    return target


def mend(root: Path) -> None:
    """Undo an interrupted replacement, and delete temporary files."""
    for path in root.glob(f"step-*{_OLD}"):
        if NAME.fullmatch(path.name.removesuffix(_OLD)):
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
    write_json(folder / STATE, {"schema": 1, "step": step, "files": files, "state": state})


def _plain(members: Mapping[str, Tensor]) -> dict[str, Tensor]:
    """Return contiguous CPU tensors that share no memory, as the format requires."""
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
    """Move `aside` to `target`; after an interruption one of the two checkpoints exists."""
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
    """Finish an interrupted swap: restore the old checkpoint when the new one is not in place."""
    if not old.exists():
        return
    target = old.with_name(old.name.removesuffix(_OLD))
    if target.exists():
        discard(old)
    else:
        old.rename(target)


def prune(root: Path, step: int, keep: int) -> None:
    """Delete the checkpoints up to `step`, except the newest `keep` complete ones."""
    kept = [path for path in complete(root) if step_of(path) <= step][:keep]
    for path in folders(root):
        if step_of(path) <= step and path not in kept:
            discard(path)
