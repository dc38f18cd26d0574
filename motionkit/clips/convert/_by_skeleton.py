"""A folder for each skeleton of a dataset for the motion predictor, whose network is made for one."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from pathlib import Path

from motionkit.clips.convert._targets import Piece
from motionkit.page import count


def separate(folder: Path, pieces: Sequence[Piece], out: Path) -> str:
    """Move the files of each skeleton into a sub-folder where there are several.

    Args:
        folder: Where the files are.
        pieces: The clips written.
        out: The folder that the user asked for, for the message.

    Returns:
        What was done, for the user; empty for one skeleton.
    """
    counts = Counter(piece.skeleton for piece in pieces)
    if len(counts) < 2:
        return ""
    names: dict[str, str] = {}
    for skeleton in sorted(counts, key=lambda one: (-counts[one], one)):
        plain, number = f"{skeleton.partition(' ')[0]}-joints", 2
        name = plain
        while name in names.values():
            name, number = f"{plain}-{number}", number + 1
        names[skeleton] = name
        (folder / name).mkdir(exist_ok=True)
    for piece in pieces:
        for file in piece.files:
            (folder / file).replace(folder / names[piece.skeleton] / file)
    parts = ", ".join(f"{name} ({count(counts[skeleton], 'clip')})" for skeleton, name in names.items())
    first = out / next(iter(names.values()))
    return (
        f"the clips have {len(names)} skeletons, and a predictor is trained on one: each has its own folder in {out}: "
        f"{parts}. Train on one of them, such as {first}, or on several with --retarget first."
    )
