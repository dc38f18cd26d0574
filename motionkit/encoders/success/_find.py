"""Finding a classifier: a run, one of its checkpoints, a folder, the guide's file, or the newest run."""

from __future__ import annotations

from pathlib import Path

import torch

from motionkit.encoders.success._classifier import SuccessClassifier
from motionkit.encoders.success._guide import GUIDE_FILE, load_guide
from motionkit.encoders.success._native import ARTIFACT, DOCUMENT, load_native
from motionkit.errors import MotionkitError
from motionkit.runs import TENSORS, find, find_model, peek

COMMAND = "reward-train"
_FIX = f"give a run of motionkit {COMMAND}, one of its checkpoints, or the guide's step_N/checkpoint.pt."


def load_classifier(place: str | Path, *, device: torch.device | str = "cpu") -> SuccessClassifier:
    """Load the classifier of a run of ``reward-train`` (its best), of a checkpoint, of a folder, or of the guide.

    Args:
        place: RUN, RUN/checkpoints/step-NNNNNNNN, a folder with classifier.json or the model.safetensors in it, or
            the guide's ``checkpoint.pt`` or the folder that holds it.
        device: Where its weights go.

    Raises:
        MotionkitError: It is missing, damaged, or something else; the message says what. There is never a random one.
    """
    path = Path(place).expanduser()
    if path.is_file() and path.name == TENSORS:
        path = path.parent
    if path.is_dir() and (found := find_model(path, ARTIFACT, DOCUMENT)) is not None:
        return load_native(found.document.parent, found.tensors).to(device)
    if path.is_dir() and (path / GUIDE_FILE).is_file():
        path = path / GUIDE_FILE
    if path.is_file():
        return load_guide(path).to(device)
    if not path.exists():
        raise MotionkitError(f"there is no {path}.", why="a success classifier was expected there.", fix=_FIX)
    raise MotionkitError(f"{path} is {_other(path)}.", why="it holds no success classifier.", fix=_FIX)


def newest_classifier_run(root: str | Path = "runs") -> Path | None:
    """Return the newest run of ``reward-train`` below `root` that has come to its end; None without one."""
    for info in find(COMMAND, root):
        if info.status == "done" and (info.directory / ARTIFACT / DOCUMENT).is_file():
            return info.directory
    return None


def _other(folder: Path) -> str:
    try:
        return f"a run of motionkit {peek(folder).command}"
    except MotionkitError:
        return "no run"
