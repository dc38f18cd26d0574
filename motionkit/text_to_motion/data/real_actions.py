"""What reference clips of an action do: which joint moves most, how far, and which clips they are."""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass

import torch
from torch import Tensor
from torch.nn.utils.rnn import pad_sequence

from motionkit.contracts.dataset import TextClip
from motionkit.metrics import joint_range, leading_joint, movement, movement_share, moves_more, statues
from motionkit.motion import MotionBatch, Skeleton
from motionkit.text import NearestTexts, Prompt, named_limbs

_MOST = 8
"""Number of reference clips that an action is measured on."""

_NEAR = 0.5
"""A caption describes the same action if it is at least this times as near as the nearest caption."""

_BATCH = 64
_SIDES = re.compile(r"\b(?:left|right)|[左右]", re.IGNORECASE | re.ASCII)


@dataclass(frozen=True)
class RealAction:
    """What the reference clips of one action do."""

    clips: tuple[int, ...]  # Their numbers, the nearest first
    joint: int  # The joint that moves most
    movement: float  # How far it swings, mean over the clips, metres; NaN if no clip is long enough
    range: float  # How far the joint that gets farthest gets, median over the clips, metres; NaN without a clip


@dataclass(frozen=True, eq=False)
class Segments:
    """The M segments of N motions, motion after motion."""

    texts: list[str]  # What each is asked to show
    joints: Tensor  # ``[M, T, J, 3]`` metres, Y up; 0 past a segment's length
    headings: Tensor  # ``[M, T]`` radians about +Y
    lengths: Tensor  # ``[M]`` int64 frames
    owner: Tensor  # ``[M]`` int64 number of the motion


def segments_of(motions: MotionBatch, prompts: Sequence[Prompt]) -> Segments:
    """Cut motions into the segments of their prompts; differentiable."""
    rows = [
        (row, text, start, end)
        for row, prompt in enumerate(prompts)
        for text, (start, end) in zip(prompt.segments, prompt.bounds, strict=True)
    ]
    cut = [(motions.joints[row, start:end], motions.headings[row, start:end]) for row, _, start, end in rows]
    return Segments(
        [text for _, text, _, _ in rows],
        pad_sequence([joints for joints, _ in cut], batch_first=True),
        pad_sequence([headings for _, headings in cut], batch_first=True),
        torch.tensor([end - start for _, _, start, end in rows], device=motions.device),
        torch.tensor([row for row, _, _, _ in rows], device=motions.device),
    )


class RealActions:
    """The reference clips of a split, by the action that a text asks for. A clip is measured when it is first needed.

    If actions have names, the clips of an action are up to 8 of that name. Else they are those whose captions share
    most words with the text (`motionkit.text.NearestTexts`) and are at least half as near as the nearest; if some of
    them name the same sides as the text, only these.

    Args:
        clips: The clips.
        skeleton: Their body.
        fps: Frames per second.
        action: Returns the name of the action that a text describes, empty if it is not known; None: actions have no
            names.

    Example:
        >>> from motionkit import load_dataset
        >>> dataset = load_dataset("starter")
        >>> real = RealActions(dataset.clips("val"), dataset.skeleton, dataset.fps, action=dataset.action)
        >>> wave = real.of("a person waves with the left hand.")
        >>> dataset.skeleton.joint_names[wave.joint], 0.05 < wave.movement < 0.5, wave.range > 0.3
        ('left_wrist', True, True)
    """

    def __init__(
        self,
        clips: Sequence[TextClip],
        skeleton: Skeleton,
        fps: float,
        *,
        action: Callable[[str], str] | None = None,
    ) -> None:
        self.clips = clips
        self._skeleton, self._fps, self._action = skeleton, fps, action
        self._named: dict[str, list[int]] = {}
        self._found: dict[str, RealAction] = {}
        self._measured: dict[int, tuple[Tensor, Tensor]] = {}
        if action is not None:
            for number, clip in enumerate(clips):
                self._named.setdefault(action(clip.captions[0]), []).append(number)
        self._captions = [(text, number) for number, clip in enumerate(clips) for text in clip.captions]
        self._near: NearestTexts | None = None

    def of(self, text: str) -> RealAction:
        """Return what reference clips of a text's action do."""
        if text not in self._found:
            clips = self._clips_of(text)
            self._measure(clips)
            rows = [self._measured[number] for number in clips]
            joint, size = leading_joint(torch.stack([row[0] for row in rows])) if rows else (0, math.nan)
            farthest = torch.stack([row[1] for row in rows]).amax(1) if rows else torch.full((1,), torch.nan)
            self._found[text] = RealAction(tuple(clips), joint, size, float(farthest.nanmedian()))
        return self._found[text]

    def measure(self, motions: MotionBatch, prompts: Sequence[Prompt]) -> dict[str, Tensor]:
        """Return how much motions move compared with reference clips, mean over the segments of each.

        Returns:
            ``[N]`` each, NaN if it does not apply: ``movement`` (`motionkit.metrics.movement_share`), ``statues``
            (`motionkit.metrics.statues`) and ``side`` (`motionkit.metrics.moves_more`).
        """
        parts = segments_of(motions, prompts)
        ranges = joint_range(parts.joints, parts.headings, parts.lengths)
        moved = movement(parts.joints, parts.headings, parts.lengths, self._fps)
        values = self._compare(moved, ranges, parts.texts)
        return {name: _mean_by(figure, parts.owner, len(prompts)) for name, figure in values.items()}

    def _compare(self, moved: Tensor, ranges: Tensor, texts: Sequence[str]) -> dict[str, Tensor]:
        """Return share, statue and side of M segments; `moved` and `ranges` are ``[M, J]``."""
        actions = [self.of(text) for text in texts]
        named = [self._limb(text) for text in texts]

        def indices(numbers: list[int]) -> Tensor:
            return torch.tensor(numbers, dtype=torch.int64, device=moved.device)

        real = moved.new_tensor([action.movement for action in actions])
        return {
            "movement": movement_share(moved, indices([action.joint for action in actions]), real),
            "statues": statues(ranges, moved.new_tensor([action.range for action in actions])),
            "side": moves_more(moved, indices([end for end, _ in named]), indices([twin for _, twin in named])),
        }

    def _limb(self, text: str) -> tuple[int, int]:
        """Return the ends of the limb that a text names and of its twin; -1 if it names none, or several."""
        named = named_limbs(text)
        if len(named) != 1:
            return -1, -1
        left, right = self._skeleton.limbs[named[0].limb]
        return (left, right) if named[0].side == "left" else (right, left)

    def _clips_of(self, text: str) -> list[int]:
        if self._action is not None and (clips := self._named.get(self._action(text) or "?")):
            return clips[:_MOST]
        if self._near is None:
            self._near = NearestTexts([caption for caption, _ in self._captions])
        near = self._near.find(text, most=4 * _MOST)
        near = [(place, nearness) for place, nearness in near if nearness >= _NEAR * near[0][1]]
        sides = _sides(text)
        alike = [match for match in near if _sides(self._captions[match[0]][0]) == sides]
        return list(dict.fromkeys(self._captions[place][1] for place, _ in alike or near))[:_MOST]

    def _measure(self, clips: Sequence[int]) -> None:
        """Measure the clips that are not measured yet."""
        new = [number for number in clips if number not in self._measured]
        for first in range(0, len(new), _BATCH):
            part = new[first : first + _BATCH]
            features = [self.clips[number].features.float() for number in part]
            lengths = torch.tensor([len(rows) for rows in features])
            batch = MotionBatch(pad_sequence(features, True), lengths, skeleton=self._skeleton, fps=self._fps)
            body = batch.joints, batch.headings, lengths
            moved, ranges = movement(*body, self._fps).cpu(), joint_range(*body).cpu()
            self._measured |= {number: (moved[row], ranges[row]) for row, number in enumerate(part)}


def _mean_by(values: Tensor, place: Tensor, count: int) -> Tensor:
    """Return ``[count]`` means of the finite values at each place; NaN if there are none."""
    finite = values.isfinite()
    total = values.new_zeros(count).index_add(0, place, torch.where(finite, values, 0.0))
    number = values.new_zeros(count).index_add(0, place, finite.to(values))
    return torch.where(number > 0, total / number.clamp(min=1), torch.nan)


def _sides(text: str) -> frozenset[str]:
    return frozenset(side.lower() for side in _SIDES.findall(text))
