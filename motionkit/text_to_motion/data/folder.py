"""The HumanML3D-layout dataset: `read_split` reads a folder, `HumanML` implements `TextMotionDataset` on it."""

from __future__ import annotations

import logging
import string
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path

import numpy as np
import torch
from torch import Tensor

from motionkit.contracts.dataset import TextClip, TextMotionDataset
from motionkit.documents import read_text
from motionkit.errors import MotionkitError
from motionkit.motion import HUMANML, KIT, Caption, Normalizer, Skeleton, read_captions, read_features
from motionkit.motion.corpus.ids import Split
from motionkit.page.wording import count
from motionkit.text import Prompt
from motionkit.text_to_motion.data.humanml import HumanMLOptions, KitOptions
from motionkit.text_to_motion.data.joined import join_prompts, physics_medians
from motionkit.weights import read_numbers

TAG_FPS = 20
"""Frames per second for caption times: HumanML3D's in every public loader, for KIT-ML too (whose motions have 12.5),
because the published splits and figures depend on it."""

_LIMIT = 1 << 20
_LETTERS = string.ascii_uppercase[:23]
_log = logging.getLogger("motionkit.datasets")
_UNIT = 4  # frames that lengths of prompts are multiples of
_TOKEN_SPLITS: tuple[Split, ...] = ("train", "val")


@dataclass
class Reading:
    """The result of reading a split."""

    clips: list[TextClip] = field(default_factory=list)  # items, sorted by length
    outside: list[str] = field(default_factory=list)  # ids of clips and sub-clips that are too short or too long
    silent: list[str] = field(default_factory=list)  # ids without any caption
    broken: dict[str, str] = field(default_factory=dict)  # reasons by ids that could not be read


def read_split(root: Path, split: str, skeleton: Skeleton, *, min_length: int, drop_length: int) -> Reading:
    """Read all items of a split by the rules of the public text-to-motion loaders, sorted by length.

    A timed caption is one item, ``A_<id>``, ``B_<id>``, ... (the original draws the letter at random); the captions of
    the whole clip are one item under the id.
    """
    reading = Reading()
    # One after the other: numpy parses a header with ast, which CPython 3.11 cannot do in two threads at once.
    for name in read_split_ids(root, split):
        features, captions, problem = _read_one(root, name, skeleton)
        if features is None:
            reading.broken[name] = problem
        else:
            _add(reading, name, features, captions, min_length, drop_length)
    reading.clips.sort(key=lambda clip: len(clip.features))
    return reading


def read_split_ids(root: Path, split: str) -> list[str]:
    """Return the ids that a split lists, without reading clips."""
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
    """Return features and captions, or if they cannot be read, the reason."""
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
    """Add the items of one file."""
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
    untimed = [caption for caption in captions if caption.whole]
    for number, caption in enumerate(caption for caption in captions if not caption.whole):
        start, stop = (_frame(seconds, len(features)) for seconds in (caption.start, caption.end))
        part = features[start:stop]
        if not min_length <= len(part) < drop_length:
            reading.outside.append(f"{name} ({caption.start:g}-{caption.end:g} s)")
            continue
        key = f"{_LETTERS[number % len(_LETTERS)]}{number // len(_LETTERS) or ''}_{name}"
        reading.clips.append(TextClip(key, part, (caption.text,), (caption.tokens,), name, start))
    if untimed:
        texts, tokens = tuple(caption.text for caption in untimed), tuple(caption.tokens for caption in untimed)
        reading.clips.append(TextClip(name, features, texts, tokens, name))


def _frame(seconds: float, frames: int) -> int:
    """Return the frame at a time in seconds, clamped because it may be infinite."""
    return int(min(max(seconds * TAG_FPS, -frames), frames))


def read_array(path: Path) -> Tensor:
    """Read a ``.npy`` vector as float32."""
    if not path.exists():
        raise MotionkitError(f"{path} is missing.", fix="set --dataset.stats to the folder that has it.")
    return torch.from_numpy(read_numbers(path, limit=_LIMIT).astype(np.float32))


class HumanML(TextMotionDataset):
    """Clips, captions and prompts of a HumanML3D-layout folder; a split is read at its first use."""

    root: Path

    def __init__(self, options: HumanMLOptions, *, skeleton: Skeleton, name: str) -> None:
        self.name = name
        self.skeleton = skeleton
        self.fps = options.fps
        self.max_length = options.max_length
        self.random_crop = options.random_crop
        self.root = _checked_root(options.root, name)
        self.normalizer = self._read_normalizer(options.stats or self.root)
        self._options = options
        self._readings: dict[str, Reading] = {}
        self._reference: tuple[float, float] | None = None

    def __repr__(self) -> str:
        return f"HumanML({self.name}, {str(self.root)!r}, {self.fps:g} fps, {self.skeleton.name})"

    def clips(self, split: Split) -> Sequence[TextClip]:
        """Return the items of a split, sorted by length; see `read_split`."""
        return self.reading(split).clips

    def reading(self, split: Split) -> Reading:
        """Return the items of a split, and those left out."""
        if split not in self._readings:
            options = self._options
            reading = read_split(
                self.root, split, self.skeleton, min_length=options.min_length, drop_length=options.drop_length
            )
            self._judge(split, reading)
            self._readings[split] = reading
        return self._readings[split]

    def caption_tokens(self) -> Mapping[str, tuple[str, ...]]:
        """Return the stored ``word/POS`` tokens of the captions of train and val, for the text-to-motion evaluator."""
        return {
            text: tokens
            for split in _TOKEN_SPLITS
            if (self.root / f"{split}.txt").exists()
            for clip in self.clips(split)
            for text, tokens in zip(clip.captions, clip.tokens, strict=True)
            if tokens
        }

    def split_ids(self, split: Split) -> Sequence[str]:
        """Return the motion ids that a split lists, usable or not, without reading a motion."""
        return read_split_ids(self.root, split)

    def captions(self, split: Split) -> Sequence[str]:
        """Return the captions of the motions that a split lists, usable or not, without reading a motion."""
        if split in self._readings:
            return [text for clip in self.clips(split) for text in clip.captions]
        files = (self.root / "texts" / f"{name}.txt" for name in read_split_ids(self.root, split))
        return [caption.text for file in files if file.exists() for caption in read_captions(file)]

    def prompts(self, split: Split, *, k_segments: int = 0, seed: int = 0) -> Sequence[Prompt]:
        """Return one prompt per caption, or, from two segments on, `joining.join_prompts` of them.

        The length is that of the clip, at most ``max_length``, rounded down to a multiple of 4 frames.
        """
        singles = tuple(
            Prompt(
                (text,),
                (max(min(len(clip.features), self.max_length) // _UNIT * _UNIT, 1),),
                f"{clip.key}#{number}",
                (clip.source,),
            )
            for clip in self.clips(split)
            for number, text in enumerate(clip.captions)
        )
        if k_segments < 2:
            return singles
        return join_prompts(singles, k_segments, seed=seed, max_length=self.max_length, unit=_UNIT)

    def physics_reference(self) -> tuple[float, float]:
        """Return the median foot skate (m/s) and jerk (m/s^3) over the train split, cached between runs."""
        if self._reference is None:
            self._reference = physics_medians(self.clips("train"), self.skeleton, self.fps)
        return self._reference

    @cached_property
    def evaluator_normalizer(self) -> Normalizer | None:
        """Statistics of the text-to-motion evaluator (``../t2m_mean.npy``), not the dataset's; None without them."""
        stem = "kit" if self.skeleton is KIT else "t2m"
        mean, std = (self.root.parent / f"{stem}_{part}.npy" for part in ("mean", "std"))
        if not (mean.is_file() and std.is_file()):
            return None
        return Normalizer(read_array(mean), read_array(std))

    def _read_normalizer(self, folder: Path) -> Normalizer:
        normalizer = Normalizer(read_array(folder / "Mean.npy"), read_array(folder / "Std.npy"))
        if normalizer.width != self.skeleton.width:
            raise MotionkitError(
                f"{folder / 'Mean.npy'} has {normalizer.width} values; {self.name} needs {self.skeleton.width}.",
                fix=f"use --dataset {'kit' if normalizer.width == KIT.width else 'humanml'}, or another folder.",
            )
        return normalizer

    def _judge(self, split: str, reading: Reading) -> None:
        """Raise if clips are broken or there are none, and log which were left out."""
        if reading.broken and self._options.broken == "refuse":
            raise MotionkitError(
                f"{count(len(reading.broken), 'clip')} of {self.root / split}.txt cannot be used: "
                f"{_listed(reading.broken)}",
                why="training on them would fail later.",
                fix="repair them, remove them from the list, or skip them with --dataset.broken skip.",
            )
        if not reading.clips:
            raise MotionkitError(
                f"the {split} split of {self.root} has no usable clip.",
                why=(
                    f"{len(reading.silent)} without a caption in texts/, {len(reading.outside)} outside "
                    f"{self._options.min_length}..{self._options.drop_length - 1} frames, {len(reading.broken)} broken."
                ),
                fix="motionkit convert IN OUT --to humanml --captions CSV"
                if reading.silent
                else "lower --dataset.min-length.",
            )
        if reading.broken:
            _log.warning(
                "%s: skipped %s: %s", split, count(len(reading.broken), "broken clip"), _listed(reading.broken)
            )
        if reading.silent:
            _log.warning("%s: %s without a caption, not used.", split, count(len(reading.silent), "clip"))
        if reading.outside:
            least, most, rate = self._options.min_length, self._options.drop_length - 1, self.fps
            _log.info(
                "%s: %s not used, as %d to %d frames (%.3g to %.3g s) are: %s",
                split, count(len(reading.outside), "clip"), least, most, least / rate, most / rate,
                ", ".join([*reading.outside[:5], *(["..."] if len(reading.outside) > 5 else [])]),
            )  # fmt: skip


def open_humanml(options: HumanMLOptions) -> HumanML:
    """Open a folder of 22-joint, 263-feature motions."""
    return HumanML(options, skeleton=HUMANML, name="humanml")


def open_kit(options: KitOptions) -> HumanML:
    """Open KIT-ML."""
    return HumanML(options, skeleton=KIT, name="kit")


def _checked_root(root: Path | None, name: str) -> Path:
    """Return the folder; raise if a part of the layout is missing."""
    fix = f"motionkit ... --dataset {name} --dataset.root FOLDER; motionkit convert makes one from BVH files."
    if root is None:
        raise MotionkitError(f"dataset.root is not set: the {name} dataset does not know where its folder is.", fix=fix)
    if not root.is_dir():
        raise MotionkitError(f"there is no folder {root}.", fix=fix)
    missing = [part for part in ("new_joint_vecs", "texts") if not (root / part).is_dir()]
    if missing:
        raise MotionkitError(
            f"{root} has no {' and no '.join(missing)}.", why="it is not in HumanML3D's layout.", fix=fix
        )
    return root


def _listed(broken: Mapping[str, str], limit: int = 5) -> str:
    shown = "; ".join(f"{name}: {why}" for name, why in list(broken.items())[:limit])
    return shown + (f"; and {len(broken) - limit} more" if len(broken) > limit else "")
