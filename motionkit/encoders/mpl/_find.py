"""Finding an encoder: a run, a folder, or the newest run."""

from __future__ import annotations

from pathlib import Path

from motionkit.encoders.mpl._native import ARTIFACT, DOCUMENT, load_encoder
from motionkit.encoders.mpl._network import MotionEncoder
from motionkit.errors import MotionkitError
from motionkit.runs import find, find_model, peek

COMMAND = "pretrain mpl-encoder"
_FIX = f"give a run of motionkit {COMMAND}, or a folder with {DOCUMENT}."


def open_encoder(path: str | Path) -> MotionEncoder:
    """Open the encoder of a run of ``pretrain mpl-encoder`` (its best), of one of its checkpoints, or of a folder.

    Raises:
        MotionkitError: It is missing, damaged, or something else; the message says what.
    """
    folder = Path(path).expanduser()
    if (found := find_model(folder, ARTIFACT, DOCUMENT)) is not None:
        return load_encoder(found.document.parent, found.tensors)
    if not folder.exists():
        raise MotionkitError(f"there is no {folder}.", fix=_FIX)
    if folder.is_file():
        why = "the files of the original code are not read; training one takes about a minute."
        raise MotionkitError(f"{folder} is a file, no motion encoder.", why=why, fix=f"motionkit {COMMAND}")
    other = _other(folder)
    raise MotionkitError(f"{folder} is {other}.", why="it holds no motion encoder.", fix=_FIX)


def newest_encoder_run(root: str | Path = "runs") -> Path | None:
    """Return the newest run of ``pretrain mpl-encoder`` below `root` that has come to its end; None without one."""
    for info in find(COMMAND, root):
        if info.status == "done" and (info.directory / ARTIFACT / DOCUMENT).is_file():
            return info.directory
    return None


def _other(folder: Path) -> str:
    try:
        return f"a run of motionkit {peek(folder).command}"
    except MotionkitError:
        return "no run"
