"""The guide's ``norm_template.json``: statistics of training clips in its layout, which a run writes and can read.

A run takes one thing from it: the scale of the turns per frame.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from motionkit.documents import read_json
from motionkit.errors import MotionkitError
from motionkit.formats.mpl import angular_velocity
from motionkit.geometry import matrix_to_6d
from motionkit.runs import write_bytes_atomic
from motionkit_predictor.network.features import Statistics
from motionkit_predictor.states import MotionState, follow

FILE = "norm_template.json"
_ROOT = 6  # numbers of the root in a state: position (3), velocity (2), yaw (1)
_FLOOR = 1e-3
_IQR = 1.349  # distance of the quartiles of a normal distribution, in standard deviations
_LIKE = 4.0  # largest ratio of two scales of the same quantity; the guide's code has the spread of poses in StdY


@dataclass(frozen=True)
class NormTemplate:
    """The part of a template that is used."""

    path: Path  # the file
    mean_x: Tensor | None  # [6 + 9 J]; None if it is absent
    turn_std: Tensor  # [6 J] StdY, the scale of the turns per frame

    @property
    def joints(self) -> int:
        """Number of joints J."""
        return len(self.turn_std) // 6


def template_of(clips: Sequence[MotionState], names: Sequence[str], fps: float, turn_std: Tensor) -> dict[str, Any]:
    """Return the template of training clips, in the guide's layout.

    ``MuX`` and ``StdX`` (6 + 9 J: root position in metres, velocity in m/s of the heading frame, yaw / pi, 6D
    rotations, angular velocities) are median and interquartile range / 1.349, after ``tanh(x / s)`` for velocities and
    angular velocities, whose s (``tanh_scales_...``) are half the span of the middle 95 %. StdX of angular velocities
    is 1, StdX of rotations at least the median of its joint (``group_priors_rot6d``). ``MuY`` is 0 and ``StdY`` the
    root mean square of the turns per frame minus the identity: what motionkit's network multiplies by.

    Args:
        clips: Training clips, [T, ...] each.
        names: Joint names.
        fps: Frames per second.
        turn_std: ``[6 J]`` of the network's statistics.
    """
    joints = len(names)
    rows = [_row(clip, fps) for clip in clips if clip.frames > 1]
    state = torch.cat(rows).double()
    velocity, angular = state[:, 3:5], state[:, _ROOT + 6 * joints :]
    scales = {"rootvel": _tanh_scale(velocity), "angvel": _tanh_scale(angular)}
    state[:, 3:5] = torch.tanh(velocity / scales["rootvel"])
    state[:, _ROOT + 6 * joints :] = torch.tanh(angular / scales["angvel"])
    low, middle, high = _quantiles(state, (0.25, 0.5, 0.75))
    spread = (high - low) / _IQR
    six = slice(_ROOT, _ROOT + 6 * joints)
    prior = spread[six].view(joints, 6).median(dim=1).values.repeat_interleave(6)
    spread[six] = torch.maximum(spread[six], prior)
    spread[_ROOT + 6 * joints :] = 1.0
    spread = spread.clamp_min(_FLOOR)
    return {
        "bundle_version": 2,
        "MuX": middle.tolist(),
        "StdX": spread.tolist(),
        "MuY": [0.0] * (6 * joints),
        "StdY": turn_std.double().tolist(),
        "tanh_scales_rootvel": scales["rootvel"].tolist(),
        "tanh_scales_angvel": scales["angvel"].tolist(),
        "group_priors_rot6d": {"groups": list(names), "prior_per_dim": prior.tolist()},
        "s_eff_X": spread.tolist(),
        "s_eff_Y": turn_std.double().tolist(),
        "meta": {
            "made_by": "motionkit", "fps": fps, "bone_names": list(names), "axes": "Y up, Z forward",
            "rot6d_columns": ["X", "Y"], "StdY": "root mean square of turns per frame minus the identity",
        },
    }  # fmt: skip


def write_template(
    path: Path, clips: Sequence[MotionState], names: Sequence[str], fps: float, turn_std: Tensor
) -> None:
    """Write `template_of` as a file."""
    document = template_of(clips, names, fps, turn_std)
    write_bytes_atomic(path, (json.dumps(document) + "\n").encode())


def read_template(path: Path) -> NormTemplate:
    """Read a template, the guide's or motionkit's."""
    table = read_json(path, dict, fix="leave out bundle: the statistics of the clips are measured anyway.")
    turn = _numbers(table, "StdY", path)
    if turn is None or not len(turn) or len(turn) % 6 or not bool((turn > 0).all()):
        raise MotionkitError(
            f"{path} is not a norm_template.json.", why="StdY must be 6 numbers above 0 for each joint."
        )
    mean_x = _numbers(table, "MuX", path)
    if mean_x is not None and len(mean_x) != _ROOT + 9 * (len(turn) // 6):
        raise MotionkitError(
            f"{path} does not fit itself.", why=f"MuX has {len(mean_x)} numbers and StdY {len(turn)}: two skeletons."
        )
    return NormTemplate(path, mean_x, turn)


def take_turn_scale(statistics: Statistics, template: NormTemplate, joints: int) -> tuple[Statistics, str]:
    """Return statistics with a template's scale of turns, if it fits these joints, and a sentence about it."""
    if template.joints != joints:
        return statistics, (
            f"{template.path} has {template.joints} joints and the clips {joints}: nothing is taken from it."
        )
    ratio = float((template.turn_std / statistics.turn_std).median())
    if not 1 / _LIKE <= ratio <= _LIKE:
        return statistics, (
            f"{template.path}: StdY is {ratio:.3g} times the turns per frame of the clips, so it is of something else "
            "(the guide's code has the spread of poses there); the clips' own statistics are used."
        )
    taken = replace(statistics, turn_std=template.turn_std.to(statistics.turn_std))
    return taken, (
        f"{template.path}: StdY, the scale of turns, is taken ({ratio:.3g} times the clips' own); all other statistics "
        "are the clips'."
    )


def _row(clip: MotionState, fps: float) -> Tensor:
    """Return ``[T, 6 + 9 J]``: the guide's state of each frame."""
    place, yaw = follow(clip.steps)
    position = torch.stack([place[..., 0], clip.heights, place[..., 1]], dim=-1)
    turns = torch.remainder(yaw + torch.pi, 2 * torch.pi) - torch.pi
    angular = angular_velocity(clip.rotations, fps)
    return torch.cat(
        [position, clip.steps[..., :2] * fps, turns[..., None] / torch.pi, matrix_to_6d(clip.rotations).flatten(-2),
         angular.flatten(-2)],
        dim=-1,
    )  # fmt: skip


def _tanh_scale(values: Tensor) -> Tensor:
    low, high = _quantiles(values, (0.025, 0.975))
    scale: Tensor = ((high - low) / 2).clamp_min(_FLOOR)
    return scale


def _quantiles(values: Tensor, parts: tuple[float, ...]) -> Tensor:
    """Return quantiles ``[len(parts), D]``, a column at a time: `torch.quantile` takes at most 16 million numbers."""
    levels = torch.tensor(parts, dtype=values.dtype)
    return torch.stack([torch.quantile(column[:: 1 + len(column) // 10**6], levels) for column in values.T], dim=1)


def _numbers(table: Mapping[str, Any], key: str, path: Path) -> Tensor | None:
    """Return a list of finite numbers; None if it is absent."""
    values = table.get(key)
    if values is None:
        return None
    plain = isinstance(values, list) and all(
        isinstance(value, (int, float)) and not isinstance(value, bool) for value in values
    )
    numbers = torch.tensor(values, dtype=torch.float64) if plain else torch.tensor([torch.nan])
    if not bool(numbers.isfinite().all()):
        raise MotionkitError(f"{path} is damaged.", why=f"{key} must be a list of finite numbers.")
    return numbers
