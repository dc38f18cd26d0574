"""The starter dataset: clips that are generated at their first use and cached, and composite prompts."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Mapping, Sequence
from functools import cache, cached_property, lru_cache
from importlib.resources import files
from pathlib import Path
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from safetensors.torch import load_file, save_file
from torch import Tensor

from motionkit.config import cache_folder
from motionkit.contracts.dataset import TextClip, TextMotionDataset
from motionkit.errors import MotionkitError
from motionkit.motion import HUMANML, Normalizer, Skeleton, feature_stats, joints_to_features
from motionkit.motion.corpus.ids import Split
from motionkit.runs.atomic import remove, temporary
from motionkit.starter import CATALOGUE, Order, perform
from motionkit.starter.plan import UNIT, PlannedClip, draw_caption, draw_length, generator, half, plan
from motionkit.text import Prompt
from motionkit.text_to_motion.data.joined import MIN_SEGMENT, fit_lengths, physics_medians
from motionkit.text_to_motion.data.starter import StarterOptions

STATISTICS = Path(__file__).parents[2] / "starter" / "weights" / "statistics.safetensors"
"""Mean and std of the training clips by default, and their median skate and jerk."""

_VERSION = 1  # of the cached arrays
_BATCH = 128
_LEAST_SKATE = 0.1
"""m/s. Procedural feet stand still to the bit; captured ones do not (walks of the CMU library: 0.5 m/s)."""

_BEGINS_LOW = ("sit/up", "kneel/up")  # actions that begin seated or kneeling cannot follow an arbitrary other action
_FIRST = tuple(i for i, entry in enumerate(CATALOGUE) if not entry.name.startswith(_BEGINS_LOW))


class Starter(TextMotionDataset):
    """Procedural clips of single actions with captions, and composite prompts that have no ground truth."""

    name = "starter"
    skeleton: Skeleton = HUMANML
    fps: float = 20.0
    max_length: int = 196
    random_crop: bool = True
    inputs: Mapping[str, str] = {}  # no file is read

    def __init__(self, options: StarterOptions) -> None:
        self._options = options
        self._clips: dict[str, tuple[TextClip, ...]] = {}

    def __repr__(self) -> str:
        return f"Starter({self._options.clips} training clips, {self.fps:g} fps, {self.skeleton.name})"

    def clips(self, split: Split) -> Sequence[TextClip]:
        """Return the split's clips; training clips are those of the chosen part."""
        if split not in self._clips:
            clips = self._all(split)
            chosen = half(self._plan(split), self._options.part) if split == "train" else range(len(clips))
            self._clips[split] = tuple(clips[i] for i in chosen)
            if not self._clips[split]:
                raise MotionkitError(
                    f"{self._options.clips} training clips are too few for the {self._options.part} part.",
                    fix=f"--dataset.clips {2 * len(CATALOGUE)} or more.",
                )
        return self._clips[split]

    def prompts(self, split: Split, *, k_segments: int = 0, seed: int = 0) -> Sequence[Prompt]:
        """Return prompts: composites of two and three actions by default (``k_segments=0``).

        With ``k_segments=1`` every caption of the split's clips is a prompt as long as its clip. No clip is generated
        in either case.
        """
        if k_segments != 1:
            return composites(split, self._options, k_segments=k_segments, seed=seed, max_length=self.max_length)
        planned = self._plan(split)
        chosen = half(planned, self._options.part) if split == "train" else range(len(planned))
        return tuple(
            Prompt((text,), (clip.order.frames - 1,), f"{clip.key}#{number}", (clip.key,))
            for clip in (planned[i] for i in chosen)
            for number, text in enumerate(clip.captions)
        )

    def action(self, caption: str) -> str:
        """Return the class of the catalogue that a caption describes; empty for other texts."""
        return _actions().get(caption, "")

    @property
    def normalizer(self) -> Normalizer:  # type: ignore[override]  # it takes seconds, and may not be asked for
        """Mean and block-averaged Std over all training clips, whichever part is chosen."""
        return Normalizer(self._statistics["mean"], self._statistics["std"])

    def physics_reference(self) -> tuple[float, float]:
        """Return the median foot skate (at least 0.1 m/s) and jerk (m/s^3) over the training clips."""
        skate, jerk = self._statistics["physics"].tolist()
        return max(skate, _LEAST_SKATE), jerk

    @cached_property
    def _statistics(self) -> Mapping[str, Tensor]:
        """Mean and std ``[D]`` of the training clips, and their median skate and jerk ``[2]``."""
        if self._train_key == Starter(StarterOptions())._train_key:
            return load_file(STATISTICS)  # a plan needs no clip
        return self.measured()

    def measured(self) -> Mapping[str, Tensor]:
        """Return mean, std and physics of the training clips, from the cache or measured anew."""

        def make() -> NDArray[np.float32]:
            clips = self._all("train")
            mean, std = feature_stats((clip.features for clip in clips), self.skeleton)
            physics = torch.tensor(physics_medians(clips, self.skeleton, self.fps))
            return torch.cat([mean, std, physics]).numpy()

        o, width = self._options, self.skeleton.width
        table = torch.from_numpy(np.array(cached(f"statistics {self._train_key}", make, keep=o.cache)))
        mean, std, physics = table.split([width, width, 2])
        return {"mean": mean, "std": std, "physics": physics}

    @property
    def _train_key(self) -> str:
        o = self._options
        return f"{o.seed} {o.clips} {o.min_frames} {o.max_frames}"

    def _plan(self, split: Split) -> tuple[PlannedClip, ...]:
        o = self._options
        count = {"train": o.clips, "val": o.val_clips, "test": o.test_clips}[split]
        return plan(split, count, seed=o.seed, lengths=(o.min_frames, o.max_frames), unseen=o.unseen)

    def _all(self, split: Split) -> tuple[TextClip, ...]:
        o, planned = self._options, self._plan(split)
        orders = [clip.order for clip in planned]
        key = f"features {o.seed} {split} {len(planned)} {o.min_frames} {o.max_frames}"

        @cache
        def rows() -> Sequence[Tensor]:
            table = torch.from_numpy(cached(key, lambda: torch.cat(_features(orders)).numpy(), keep=o.cache))
            return torch.split(table, [order.frames - 1 for order in orders])

        def row(number: int) -> Any:  # in place of the features
            return lambda: rows()[number]

        return tuple(_StarterClip(clip.key, row(number), clip.captions) for number, clip in enumerate(planned))


class _StarterClip(TextClip):
    """A clip whose features are made at their first use, with those of its split; a plan needs its texts alone."""

    @property
    def features(self) -> Tensor:
        value: Tensor | Callable[[], Tensor] = self.__dict__["_features"]
        return value() if callable(value) else value

    @features.setter
    def features(self, value: Tensor | Callable[[], Tensor]) -> None:
        self.__dict__["_features"] = value


@cache
def _actions() -> Mapping[str, str]:
    return {caption: entry.name for entry in CATALOGUE for caption in entry.captions}


def _features(orders: Sequence[Order]) -> list[Tensor]:
    """Return ``[frames - 1, 263]`` float32 features of each order; batches are made of similar lengths."""
    out: list[Tensor] = [torch.empty(0)] * len(orders)
    by_length = sorted(range(len(orders)), key=lambda i: orders[i].frames)
    for start in range(0, len(by_length), _BATCH):
        index = by_length[start : start + _BATCH]
        joints = [torch.from_numpy(clip.joints) for clip in perform([orders[i] for i in index], fps=Starter.fps)]
        lengths = torch.tensor([len(j) for j in joints])
        padded = torch.nn.utils.rnn.pad_sequence(joints, batch_first=True)
        features = joints_to_features(padded, HUMANML, lengths, target=False).float()
        for i, row, length in zip(index, features, lengths.tolist(), strict=True):
            out[i] = row[: length - 1].clone()
    return out


@lru_cache(maxsize=8)
def composites(
    split: Split, options: StarterOptions, *, k_segments: int, seed: int, max_length: int
) -> tuple[Prompt, ...]:
    """Draw prompts of several different actions, which no clip shows."""
    if k_segments * MIN_SEGMENT > max_length:
        raise MotionkitError(
            f"{k_segments} segments do not fit into {max_length} frames.",
            why=f"a segment has at least {MIN_SEGMENT} frames.",
            fix=f"use at most {max_length // MIN_SEGMENT} segments.",
        )
    prompts = []
    for number in range(options.prompts):
        rng = generator(options.seed, split, 1, seed, k_segments, number)
        count = k_segments or 2 + number % 2
        classes: list[int] = []
        while len(classes) < count:
            choice = _FIRST[int(rng.integers(len(_FIRST)))]
            if all(CATALOGUE[choice].action != CATALOGUE[other].action for other in classes):
                classes.append(choice)
        frames = [draw_length(rng, options.min_segment, options.max_segment) for _ in classes]
        prompts.append(
            Prompt(
                segments=tuple(draw_caption(rng, choice, split, options.unseen) for choice in classes),
                frames=fit_lengths(frames, max_length, unit=UNIT),
                key=f"{split}-k{k_segments}-s{seed}-{number:05d}",
            )
        )
    return tuple(prompts)


def cached(key: str, make: Callable[[], NDArray[np.float32]], *, keep: bool = True) -> NDArray[np.float32]:
    """Return the array called `key`, from the cache or from `make`.

    Names of files in the cache contain a hash of the code that makes arrays. A damaged file is replaced; a cache that
    cannot be written is ignored. The array is memory-mapped: only the parts that are read take memory.
    """
    if not keep:
        return make()
    name = hashlib.sha256(f"{_source()} {key}".encode()).hexdigest()[:24]
    path = cache_folder() / f"starter-{name}.npy"
    try:
        # Mapped copy-on-write: torch needs writable memory, and the file must not change.
        return np.load(path, mmap_mode="c", allow_pickle=False)  # type: ignore[no-any-return]  # numpy types it as Any
    except (OSError, ValueError, EOFError):
        array = make()
    aside = temporary(path)
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        with aside.open("wb") as file:
            np.save(file, array)
        aside.replace(path)
    except OSError:
        remove(aside)
    return array


@cache
def _source() -> str:
    """Return a fingerprint of the code that generates clips and turns them into features."""
    digest = hashlib.sha256(str(_VERSION).encode())
    for package in ("motionkit.starter", "motionkit.motion.features"):
        for item in sorted(files(package).iterdir(), key=lambda item: item.name):
            if item.name.endswith(".py"):
                digest.update(item.name.encode() + item.read_bytes())
    return digest.hexdigest()


if __name__ == "__main__":
    save_file({name: value.clone() for name, value in Starter(StarterOptions()).measured().items()}, STATISTICS)
