"""Check of what a reward returned, before anything is computed with it."""

from __future__ import annotations

from collections.abc import Mapping

from torch import Tensor

from motionkit.errors import MotionkitError
from motionkit.rewards.base import RewardScores


def checked(scores: object, name: str, valid: Tensor) -> RewardScores:
    """Return `scores` if they are valid, see `motionkit.rewards.base.RewardScores`.

    Args:
        scores: What a reward returned.
        name: The reward's name.
        valid: ``[N, K]`` bool, the segments of the samples that were scored.

    Raises:
        MotionkitError: They are not valid; names the fault and the form that is needed (exit code 1).
    """
    if isinstance(scores, RewardScores) and not (wrong := _wrong(scores, valid)):
        return scores
    if not isinstance(scores, RewardScores):
        wrong = f"it is {'None' if scores is None else f'a {type(scores).__name__}'}"
    raise MotionkitError(
        f"the reward {name} returned no scores that can be used: {wrong}.",
        why=f"score() must return RewardScores whose total has one float32 number per sample, here [{len(valid)}].",
        fix="correct the reward; a sample that cannot be scored gets NaN. motionkit.testing.check_reward tests it.",
        code=1,
    )


def _wrong(scores: RewardScores, valid: Tensor) -> str:
    if fault := _fault(scores.total, (len(valid),), valid):
        return f"total {fault}"
    if not isinstance(scores.parts, Mapping):
        return f"parts is a {type(scores.parts).__name__}"
    for part, value in scores.parts.items():
        if fault := _fault(value, (len(valid),), valid):
            return f"part {part!r} {fault}"
    segments = scores.segments
    if segments is None:
        return ""
    wide = isinstance(segments, Tensor) and segments.ndim == 2 and segments.shape[1] > valid.shape[1]
    fault = _fault(segments[:, : valid.shape[1]] if wide else segments, tuple(valid.shape), valid)
    return f"segments {fault}" if fault else ""


def _fault(value: object, shape: tuple[int, ...], like: Tensor) -> str:
    if not isinstance(value, Tensor):
        return f"is a {type(value).__name__}"
    if tuple(value.shape) != shape:
        return f"has shape {list(value.shape)}, should be {list(shape)}"
    if not value.is_floating_point():
        return f"holds {str(value.dtype).removeprefix('torch.')}"
    return "" if value.device == like.device else f"is on {value.device}, the samples are on {like.device}"
