"""The trained model in a run folder: two files, a document that describes it and its weights, written and found."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from motionkit.errors import MotionkitError
from motionkit.runs._checkpoint import STATE, last_checkpoint
from motionkit.runs.atomic import write_bytes

if TYPE_CHECKING:
    from torch import Tensor

TENSORS = "model.safetensors"
"""Name of a model's weights in its folder."""

_STEP = re.compile(r"step-\d{1,12}")


@dataclass(frozen=True)
class SavedModel:
    """A model's two files."""

    document: Path  # Describes the model: its shape, its text encoder, its frame rate
    tensors: Path  # Its weights, as safetensors
    run: Path | None = None  # Their run folder; None outside of a run
    step: int = 0  # Training steps of the weights; 0 if unknown


def write_model(
    folder: Path, document: str, content: Mapping[str, object], tensors: Mapping[str, Tensor] | None
) -> None:
    """Write a model's two files, each renamed into place; `find_model` finds them.

    Args:
        folder: Made if it is missing.
        document: Name of the document.
        content: The document.
        tensors: The weights; None writes only the document, for a run whose checkpoints hold them.
    """
    from safetensors.torch import save

    folder.mkdir(parents=True, exist_ok=True)
    write_bytes(folder / document, (json.dumps(content, indent=2) + "\n").encode())
    if tensors is not None:
        cpu = {name: value.detach().cpu().contiguous() for name, value in tensors.items()}
        write_bytes(folder / TENSORS, save(cpu))


def find_model(path: Path, artifact: str, document: str) -> SavedModel | None:
    """Find a model in its own folder, in a run, or in one of a run's checkpoints.

    A run writes the document into ``RUN/ARTIFACT`` at its start, and the weights next to it at its end. Until then the
    weights are those of its last checkpoint.

    Args:
        path: The folder.
        artifact: Name of the model's folder in a run, such as ``policy``.
        document: Name of the document, such as ``policy.json``.

    Returns:
        The files, or None if `path` is not such a folder.
    """
    if (path / document).is_file():
        inside = path.name == artifact and (path.parent / "run.json").is_file()
        run = path.parent if inside else None
        return SavedModel(path / document, path / TENSORS, run, _steps(run) if run else 0)
    if (path / artifact / document).is_file():
        return _of_run(path, path / artifact / document)
    described = path.parent.parent / artifact / document
    if (path / STATE).is_file() and described.is_file():
        return SavedModel(described, path / TENSORS, path.parent.parent, _step(path))
    return None


def _of_run(run: Path, document: Path) -> SavedModel:
    if (final := document.parent / TENSORS).is_file():
        return SavedModel(document, final, run, _steps(run))
    last = last_checkpoint(run / "checkpoints")
    if last is None:
        raise MotionkitError(
            f"{run} has no checkpoint yet.",
            why="its checkpoints/last is missing, or names none.",
            fix="wait for its first checkpoint, or name one: RUN/checkpoints/step-NNNNNNNN",
        )
    return SavedModel(document, last / TENSORS, run, _step(last))


def _steps(run: Path) -> int:
    """Return the step of a run's last checkpoint."""
    last = last_checkpoint(run / "checkpoints")
    return 0 if last is None else _step(last)


def _step(checkpoint: Path) -> int:
    return int(checkpoint.name.removeprefix("step-")) if _STEP.fullmatch(checkpoint.name) else 0
