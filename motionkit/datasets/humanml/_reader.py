"""Reads a split of a HumanML3D-layout folder into items, by the rules of the public text-to-motion loaders."""

from __future__ import annotations

import string
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np
import torch
from torch import Tensor

from motionkit.datasets.base import TextClip
from motionkit.documents import read_text
from motionkit.errors import MotionkitError
from motionkit.motion import Caption, Skeleton, read_captions, read_features
from motionkit.weights import read_numbers

TAG_FPS = 20
"""Frames per second that caption times are multiplied with: HumanML3D's, in every public loader, for KIT-ML too
(whose motions run at 12.5). Kept, because the published splits and figures depend on it."""

_LIMIT = 1 << 20
_LETTERS = string.ascii_uppercase[:23]


@dataclass(frozen=True)
class HumanMLClip(TextClip):
    """A clip, or the part of one that a timed caption describes.

    Attributes:
        tokens: ``word/POS`` tokens of each caption.
        source: Id of the file the motion comes from.
        start: First frame in that file.
    """

    tokens: tuple[tuple[str, ...], ...] = ()
    source: str = ""
    start: int = 0


@dataclass
class Reading:
    """The result of reading a split.

    Attributes:
        clips: Items, sorted by length.
        outside: Ids left out because of their length (whole clips and sub-clips alike).
        silent: Ids without any caption.
        broken: Ids that could not be read, with the reason.
    """

    clips: list[HumanMLClip] = field(default_factory=list)
    outside: list[str] = field(default_factory=list)
    silent: list[str] = field(default_factory=list)
    broken: dict[str, str] = field(default_factory=dict)


def read_split(root: Path, split: str, skeleton: Skeleton, *, min_length: int, drop_length: int) -> Reading:
    """Read all items of a split, sorted by length like the peer's loader.

    A timed caption makes an item of its own, ``A_<id>``, ``B_<id>``, ... (the peer draws the letter at random); whole
    captions stay together under the id; an id with timed captions only has no whole item.

    Raises:
        MotionkitError: The split file is missing, empty or no text.
    """
    names = read_split_ids(root, split)
    reading = Reading()
    # One after the other: numpy parses a header with ast, which CPython 3.11 cannot do in two threads at once.
    for name in names:
        features, captions, problem = _read_one(root, name, skeleton)
        if features is None:
            reading.broken[name] = problem
        else:
            _add(reading, name, features, captions, min_length, drop_length)
    reading.clips.sort(key=lambda clip: len(clip.features))
    return reading


def read_split_ids(root: Path, split: str) -> list[str]:
    """Return the ids that a split lists, without reading clips.

    Raises:
        MotionkitError: The split file is missing, empty or no text.
    """
    path = root / f"{split}.txt"
    if not path.exists():
        raise MotionkitError(
            f"{path} is missing.",
            why=f"it lists the clips of the {split} split.",
            fix="write one clip id per line, as motionkit convert IN OUT --to humanml does.",
        )
    names = [line.strip() for line in read_text(path).splitlines() if line.strip()]
    if not names:
        raise MotionkitError(f"{path} lists no clip.", fix="give the split some clips, or use another split.")
    return names


def _read_one(root: Path, name: str, skeleton: Skeleton) -> tuple[Tensor | None, Sequence[Caption], str]:
    """Return features and captions; without features also the reason."""
    texts = root / "texts" / f"{name}.txt"
    try:
        captions = read_captions(texts) if texts.exists() else ()
        features = read_features(root / "new_joint_vecs" / f"{name}.npy", skeleton)
    except MotionkitError as error:
        return None, (), " ".join(filter(None, (error.message, error.why)))
    except OSError as error:  # a name that is too long, or a folder without permission
        return None, (), f"{error.strerror}."
    return features, captions, ""


def _add(
    reading: Reading, name: str, features: Tensor, captions: Sequence[Caption], min_length: int, drop_length: int
) -> None:
    """Sort one file's captions into items."""
    if not min_length <= len(features) < drop_length:
        reading.outside.append(name)
        return
    if not captions:
        reading.silent.append(name)
        return
    if not bool(torch.isfinite(features).all()):
        frame = int((~torch.isfinite(features).all(dim=1)).nonzero()[0])
        reading.broken[name] = f"{name}.npy is not finite (NaN or infinite) from frame {frame} on."
        return
    whole = [caption for caption in captions if caption.whole]
    for number, caption in enumerate(caption for caption in captions if not caption.whole):
        start, stop = (_frame(seconds, len(features)) for seconds in (caption.start, caption.end))
        part = features[start:stop]
        if not min_length <= len(part) < drop_length:
            reading.outside.append(f"{name} ({caption.start:g}-{caption.end:g} s)")
            continue
        key = f"{_LETTERS[number % len(_LETTERS)]}{number // len(_LETTERS) or ''}_{name}"
        reading.clips.append(HumanMLClip(key, part, (caption.text,), (caption.tokens,), name, start))
    if whole:
        texts, tokens = tuple(caption.text for caption in whole), tuple(caption.tokens for caption in whole)
        reading.clips.append(HumanMLClip(name, features, texts, tokens, name))


def _frame(seconds: float, frames: int) -> int:
    """Return the frame at a time in seconds, which may be infinite, clamped for use in a slice."""
    return int(min(max(seconds * TAG_FPS, -frames), frames))


def read_array(path: Path) -> Tensor:
    """Read a ``.npy`` vector as float32.

    Raises:
        MotionkitError: The file is missing or is no plain array of numbers.
    """
    if not path.exists():
        raise MotionkitError(f"{path} is missing.", fix="set --dataset.stats to the folder that has it.")
    return torch.from_numpy(read_numbers(path, limit=_LIMIT).astype(np.float32))
