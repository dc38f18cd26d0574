"""The frames that the first block of DiP continues."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import cache
from pathlib import Path
from typing import Any, Protocol

import torch
from torch import Tensor

from motionkit import starter
from motionkit.errors import MotionkitError
from motionkit.motion import HUMANML, Skeleton, joints_to_features, read_features
from motionkit.rl import stable_hash
from motionkit.text import Prompt

_SPLITS = ("test", "val", "train")
_OFFSETS = 5
"""Frames of a clip that the prefix may begin at, from the first on; drawn in the original's evaluation."""
_STANDING = "bow/slight"
"""A movement of the starter that begins upright, arms down."""


class Clip(Protocol):
    """The part of `motionkit.datasets.base.TextClip` that is read."""

    @property
    def key(self) -> str: ...

    @property
    def features(self) -> Tensor: ...


class Prefixes:
    """Chooses the prefix of each prompt.

    In this order: the frames that were given; the start of the motion that the prompt describes, where the dataset has
    it; a person who stands still. The start is one of the first 5 frames, as in the original's evaluation; which one is
    a function of the prompt's key.

    Args:
        frames: C, length of a prefix.
        skeleton: Body.
        fps: Frames per second.
        given: ``[T >= C, D]`` features, not normalised, whose last C frames are everybody's prefix.
        clips: The dataset's ``clips(split)``, the motions that prompts describe.

    Raises:
        MotionkitError: There are neither frames nor a dataset, and this body has no standing pose; or there are too
            few frames.
    """

    def __init__(
        self,
        frames: int,
        *,
        skeleton: Skeleton,
        fps: float,
        given: Tensor | None = None,
        clips: Callable[[Any], Sequence[Clip]] | None = None,
    ) -> None:
        self._frames, self._fps, self._skeleton, self._clips = frames, fps, skeleton, clips
        self._given = given
        if given is not None and (len(given) < frames or not bool(given[-frames:].isfinite().all())):
            raise MotionkitError(
                f"the prefix has {len(given)} frames, or some that are not finite; the policy continues {frames}.",
                fix="give --policy.prefix a longer motion.",
            )
        if given is None and clips is None:
            self._standing()
        self._known: dict[str, dict[str, Tensor]] = {}

    def of(self, prompts: Sequence[Prompt]) -> Tensor:
        """Return ``[N, C, D]`` features, not normalised."""
        if self._given is not None:
            return self._given[-self._frames :].expand(len(prompts), -1, -1)
        return torch.stack([self._start(prompt) for prompt in prompts])

    def _start(self, prompt: Prompt) -> Tensor:
        # A caption of a clip has the key "clip#number"; a prompt joined from clips begins like the first of them.
        names = [prompt.key, prompt.key.rpartition("#")[0], *prompt.source_ids[:1]]
        if self._clips is not None and prompt.source_ids:
            for split in _SPLITS:
                known = self._split(split)
                for name in names:
                    if name in known:
                        begin = stable_hash(f"prefix {prompt.key}") % min(_OFFSETS, len(known[name]) - self._frames + 1)
                        return known[name][begin : begin + self._frames]
        return self._standing()

    def _split(self, split: str) -> Mapping[str, Tensor]:
        """Return the starts of a split's clips by id; read when it is first asked for."""
        if split not in self._known:
            found: dict[str, Tensor] = {}
            try:
                clips = self._clips(split) if self._clips is not None else ()
            except MotionkitError:  # the prompts are not of this split, or they would not be there
                clips = ()
            for clip in clips:
                if len(clip.features) >= self._frames:
                    start = clip.features[: self._frames + _OFFSETS - 1].float()
                    found.setdefault(clip.key, start)
                    found.setdefault(getattr(clip, "source", clip.key), start)
            self._known[split] = found
        return self._known[split]

    def _standing(self) -> Tensor:
        """Return a person who stands still.

        Raises:
            MotionkitError: The body is not HumanML3D's.
        """
        if self._skeleton is not HUMANML:
            raise MotionkitError(
                f"the policy continues a motion, and there is none to begin with for the {self._skeleton.name} body.",
                fix="--policy.prefix FILE.npy (features, not normalised), or a dataset.",
            )
        return standing(self._frames, self._fps)


@cache
def standing(frames: int, fps: float) -> Tensor:
    """Return ``[frames, 263]`` features, not normalised, of a person who stands still."""
    clip = starter.perform([starter.Order(_STANDING, 2, 0, tempo=1.0, size=1.0)], fps=fps)[0]
    joints = torch.from_numpy(clip.joints)[:1].expand(frames + 1, -1, -1)
    return joints_to_features(joints, HUMANML).float()


def read_prefix(path: Path, skeleton: Skeleton) -> Tensor:
    """Read ``[T, D]`` features, not normalised, from a .npy file such as those in new_joint_vecs.

    Raises:
        MotionkitError: The file is missing, or holds something else.
    """
    if not path.is_file():
        raise MotionkitError(f"--policy.prefix {path} does not exist.", fix="give a .npy file of features.")
    return read_features(path, skeleton)
