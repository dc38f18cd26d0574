"""Check of what a reward returned, before anything is computed with it; `motionkit.testing` asks the same."""

from __future__ import annotations

import inspect
from collections.abc import Mapping
from pathlib import Path

import torch
from torch import Tensor

from motionkit import plugins
from motionkit.errors import MotionkitError
from motionkit.rewards.base import Reward, RewardScores


def checked(scores: object, reward: Reward, valid: Tensor) -> RewardScores:
    """Return `scores` if they are valid, see `motionkit.rewards.base.RewardScores`.

    Args:
        scores: What a reward returned.
        reward: The reward.
        valid: ``[N, K]`` bool, the segments of the samples that were scored.

    Raises:
        MotionkitError: They are not valid; names the fault, the place of the code and the form that is needed (exit
            code 1).
    """
    wrong = fault_of(scores, valid)
    if not wrong and isinstance(scores, RewardScores):
        return scores
    raise MotionkitError(
        f"the reward {reward.name!r}{place_of(reward)} returned {wrong}.",
        why=f"score() must return RewardScores whose total has one float32 number per sample, here [{len(valid)}].",
        fix="correct the reward; a sample that cannot be scored gets NaN. motionkit.testing.check_reward tests it.",
        code=1,
    )


def fault_of(scores: object, valid: Tensor) -> str:
    """Return what is wrong with `scores`, after "returned"; empty when nothing is."""
    if not isinstance(scores, RewardScores):
        return "None" if scores is None else f"a {type(scores).__name__}, not RewardScores"
    return _wrong(scores, valid)


def place_of(reward: Reward) -> str:
    """Return the package and the place of a reward's code: `` (package motionkit-reward-x, reward.py:27)``."""
    reward = getattr(reward, "inner", reward)  # of one that lives on another device
    package = plugins.package_of(type(reward).__module__)
    try:
        code = inspect.unwrap(type(reward).score).__code__
        place = f"{Path(code.co_filename).name}:{code.co_firstlineno}"
    except AttributeError:
        place = ""
    words = [f"package {package}" if package and not plugins.is_file(package) else "", place]
    shown = ", ".join(word for word in words if word)
    return f" ({shown})" if shown else ""


def _wrong(scores: RewardScores, valid: Tensor) -> str:
    if fault := _fault(scores.total, (len(valid),), valid):
        return f"total {fault}"
    if not isinstance(scores.parts, Mapping):
        return f"parts as a {type(scores.parts).__name__}; they must be a mapping"
    for part, value in scores.parts.items():
        if fault := _fault(value, (len(valid),), valid):
            return f"part {part!r} {fault}"
    if scores.applies is not None and (fault := _fault(scores.applies, (len(valid),), valid, bools=True)):
        return f"applies {fault}"
    segments = scores.segments
    if segments is None:
        return ""
    wide = isinstance(segments, Tensor) and segments.ndim == 2 and segments.shape[1] > valid.shape[1]
    fault = _fault(segments[:, : valid.shape[1]] if wide else segments, tuple(valid.shape), valid)
    return f"segments {fault}" if fault else ""


def _fault(value: object, shape: tuple[int, ...], like: Tensor, *, bools: bool = False) -> str:
    if not isinstance(value, Tensor):
        return f"as a {type(value).__name__}; it must be a tensor"
    if tuple(value.shape) != shape:
        return f"{list(value.shape)}; it must be {list(shape)}"
    if not (value.dtype == torch.bool if bools else value.is_floating_point()):
        return f"of type {str(value.dtype).removeprefix('torch.')}; it must be {'bool' if bools else 'float32'}"
    return "" if value.device == like.device else f"on {value.device}; the samples are on {like.device}"
