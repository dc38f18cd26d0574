"""The shipped data of the starter: stored text embeddings and trained weights."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from motionkit.errors import MotionkitError
from motionkit.starter._catalogue import CATALOGUE

if TYPE_CHECKING:
    from torch import Tensor

WEIGHTS = ("mdm", "tmr", "judge", "evaluator")


def captions() -> tuple[str, ...]:
    """Return every caption of the starter once, in the catalogue's order."""
    return tuple(dict.fromkeys(text for entry in CATALOGUE for text in entry.captions))


def table_path() -> Path:
    """Return the path of the stored MiniLM embeddings of `captions` (``text.safetensors``, ``text.json`` beside it)."""
    return Path(__file__).parent / "weights" / "text.safetensors"


def student_path() -> Path:
    """Return the path of the student of MiniLM (``student.safetensors``, ``student.json`` beside it)."""
    return Path(__file__).parent / "weights" / "student.safetensors"


def embeddings() -> tuple[tuple[str, ...], Tensor]:
    """Return the captions and their stored embeddings ``[N, 384]`` float32, each of length 1 (to float16).

    Raises:
        MotionkitError: The table is missing or damaged.
    """
    from motionkit.text import read_table

    texts, vectors = read_table(table_path())
    return tuple(texts), vectors


def weights_path(name: str) -> Path:
    """Return the folder of one of the shipped networks.

    Args:
        name: ``mdm`` (policy), ``tmr`` (reward), ``judge`` (a second TMR, never a reward) or ``evaluator`` (of
            text-to-motion figures).
    """
    if name not in WEIGHTS:
        raise MotionkitError(f"the starter pack has no network {name!r}.", fix=f"one of: {', '.join(WEIGHTS)}")
    folder = Path(__file__).parent / "weights" / name
    if not folder.is_dir():
        raise MotionkitError(
            f"the starter's {name} weights are not part of this installation.",
            why=f"{folder} does not exist.",
            fix="reinstall motionkit, or rebuild them with the commands of motionkit/starter/README.md.",
        )
    return folder
