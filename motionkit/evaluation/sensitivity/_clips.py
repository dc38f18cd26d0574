"""Real clips as an audit changes them: joints, captions, and a clip of another action beside each."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from functools import cached_property

import numpy as np
import torch
from torch import Tensor

from motionkit.datasets.base import Split, TextMotionDataset
from motionkit.errors import MotionkitError
from motionkit.evaluation._real import single_clips
from motionkit.motion import HasActions
from motionkit.motion.changes._features import clip_features, clip_joints
from motionkit.motion.changes._registry import Scene
from motionkit.text import words_of

_TRIES = 16
"""Captions among which the one is taken that shares the fewest words, where classes are not known."""


class Clips:
    """The clips of a split.

    Args:
        dataset: Where they come from; of composite data the single clips, where they are known.
        split: Which split.
        seed: Chooses the clips of another action.

    Raises:
        MotionkitError: There are no clips, none has a caption, or all have the same first one.
    """

    def __init__(self, dataset: TextMotionDataset, split: Split, *, seed: int = 0) -> None:
        source = single_clips(dataset)
        dataset = dataset if source is None else source
        self.skeleton, self.fps, self.longest = dataset.skeleton, dataset.fps, dataset.max_length
        name = f"the {split} split of {dataset.name}"
        clips = list(dataset.clips(split))
        if not clips:
            raise MotionkitError(f"{name} has no clips to change.", fix="choose another split or dataset.")
        self.clips = [clip for clip in clips if any(text.strip() for text in clip.captions) and len(clip.features) > 1]
        self.left_out = len(clips) - len(self.clips)
        if not self.clips:
            raise MotionkitError(
                f"no clip of {name} has a caption.",
                why="a reward is asked how well a motion fits its caption, and an unrelated one.",
                fix="choose another dataset, or give its clips captions: motionkit convert --captions CSV",
            )
        self.captions = [tuple(text for text in clip.captions if text.strip()) for clip in self.clips]
        if len({texts[0] for texts in self.captions}) < 2:
            who = f"all clips of {name} have the same" if len(self.clips) > 1 else f"{name} has one clip with a"
            raise MotionkitError(
                f"{who} caption: {self.captions[0][0]!r}.",
                why="what a reward sees is measured against an unrelated caption, and there is none.",
                fix="choose a dataset with several captions.",
            )
        self.actions = _actions(dataset, self.captions)
        self.others = _others(self.captions, self.actions, np.random.default_rng(seed))
        self._joints: dict[int, Tensor] = {}
        self._features: dict[int, Tensor] = {}

    def __len__(self) -> int:
        return len(self.clips)

    def joints(self, place: int) -> Tensor:
        """Return all frames of a clip, ``[T + 1, J, 3]``."""
        if place not in self._joints:
            rows = self.clips[place].features[: self.longest]
            self._joints[place] = clip_joints([rows], self.skeleton)[0]
        return self._joints[place]

    def features(self, place: int) -> Tensor:
        """Return a clip ``[T, D]`` as changed ones are made: features of its joints."""
        if place not in self._features:
            self._features[place] = clip_features([self.joints(place)], self.skeleton)[0]
        return self._features[place]

    def scene(self, place: int, caption: str, generator: torch.Generator) -> Scene:
        """Return a clip that is to be changed."""
        other = self.joints(self.others[place])
        return Scene(self.joints(place), self.skeleton, self.fps, caption, other, self.longest, generator)

    def unrelated(self, place: int) -> str:
        """Return a caption of another action."""
        return self.captions[self.others[place]][0]

    def spread(self) -> Iterator[int]:
        """Yield all clips in an order whose every beginning is spread over the split."""
        # Steps of the golden ratio; a step that shares no divisor with the count reaches every clip.
        count = len(self)
        step = max(1, round(0.618 * count))
        while np.gcd(step, count) != 1:
            step += 1
        yield from ((number * step) % count for number in range(count))

    @cached_property
    def by_action(self) -> dict[str, list[int]]:
        """Clips by their action, where it is known."""
        found: dict[str, list[int]] = {}
        for place, action in enumerate(self.actions):
            if action:
                found.setdefault(action, []).append(place)
        return found

    def other_wording(self, place: int) -> str:
        """Return another caption of the same motion or action; empty where there is none."""
        own = self.captions[place]
        for text in own[1:]:
            if text != own[0]:
                return text
        same = self.by_action.get(self.actions[place], [place])
        start = same.index(place)
        return next((text for other in [*same[start:], *same] if (text := self.captions[other][0]) != own[0]), "")


def _actions(dataset: TextMotionDataset, captions: Sequence[tuple[str, ...]]) -> list[str]:
    if not isinstance(dataset, HasActions):
        return [""] * len(captions)
    return [dataset.action(own[0]) for own in captions]


def _others(captions: Sequence[tuple[str, ...]], actions: Sequence[str], rng: np.random.Generator) -> list[int]:
    """Return for each clip another one whose caption says something else.

    Where actions are known (``walk/slow``), what stands before the slash differs; otherwise the caption that shares the
    fewest words among a few is taken.
    """
    count, found = len(captions), []
    words = [frozenset(words_of(texts[0])) for texts in captions]
    for place in range(count):
        drawn = [int(other) for other in rng.integers(count, size=_TRIES)]
        drawn = [other for other in drawn if captions[other][0] != captions[place][0]]
        if not drawn:
            drawn = [other for other in range(count) if captions[other][0] != captions[place][0]]
        own = actions[place].partition("/")[0]
        apart = [other for other in drawn if own and actions[other].partition("/")[0] not in ("", own)]
        found.append(apart[0] if apart else min(drawn, key=lambda other: _shared(words[place], words[other])))
    return found


def _shared(first: frozenset[str], second: frozenset[str]) -> float:
    return len(first & second) / max(len(first | second), 1)
