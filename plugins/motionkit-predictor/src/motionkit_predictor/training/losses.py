"""The losses of the motion predictor; docs/predictor.md lists them.

A loss returns a number per frame, ``[N, F]``; `JointLoss` returns the means of those with a weight above 0.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import partial
from typing import Any

import torch
from torch import Tensor
from torch.nn import functional as F

from motionkit.geometry import matrix_to_rotvec
from motionkit.metrics import CONTACT
from motionkit_predictor.network.features import Predicted
from motionkit_predictor.states import MotionState, follow, state_positions
from motionkit_predictor.training.settings import GROUPS, LossSettings

_METRES = 0.5  # metres that a radian of heading counts as: what a body half a metre wide is off by
_TINY = 1e-14

_JERK = 3  # frames before a frame that its jerk needs


@dataclass(frozen=True)
class Skeleton:
    """What losses need to know of a skeleton and of the data."""

    parents: tuple[int, ...]  # parent of each joint, -1 for joint 0
    limbs: Mapping[str, int]  # joints of the limbs by name
    feet: tuple[int, int] | None  # joint of the left and of the right foot; None where they are not found
    fps: float  # frames per second
    root_std: Tensor  # [4] deviations of the root's steps per second and of its height


@dataclass(frozen=True)
class Frames:
    """Predicted frames and the true ones."""

    predicted: Predicted  # [N, F, ...]
    truth: MotionState  # [N, F, ...]
    last: MotionState  # [N, 1, ...] the known frame before the first
    weights: Tensor  # [N, F] of each frame; 0 where the truth is filled up. They sum to 1.
    offsets: Tensor  # [N, J, 3] metres
    contacts_known: Tensor  # [N] bool
    conditioned: Tensor  # [N] bool: windows that are conditioned on their path

    @property
    def true_turn(self) -> Tensor:
        """``[N, F, J, 3, 3]``: the true turn of each joint since the frame before."""
        rotations = self.truth.rotations
        # Frame t times the transpose of frame t - 1; the known frame stands before the first
        return rotations @ torch.cat([self.last.rotations, rotations[:, :-1]], dim=1).mT

    def mean(self, values: Tensor) -> Tensor:
        """Return the weighted mean of ``[N, F]`` values; frames of weight 0 count nothing, NaN in them included."""
        return torch.where(self.weights > 0, values, 0.0).mul(self.weights).sum()


def frame_weights(
    mask: Tensor,  # [N, F] bool, True for real frames
    fade: float,  # 0 weighs all frames alike
) -> Tensor:
    """Return weights ``[N, F]`` that sum to 1: frame t of the valid ones weighs ``t ** -fade``."""
    frames = torch.arange(1, mask.shape[1] + 1, device=mask.device, dtype=torch.float32)
    weights = mask * frames**-fade
    return weights / weights.sum().clamp_min(1e-12)


# Joint positions, root motion, feet and latents


def fk_pos(frames: Frames, skeleton: Skeleton) -> Tensor:
    """Smooth L1 between joint positions in metres, root at the origin and unturned; mean over joints and axes."""
    # [N, F, J, 3] each; beta: errors below 5 cm count by their square
    there, where = (
        state_positions(state, frames.offsets, skeleton.parents, pose_only=True)
        for state in (frames.predicted.state, frames.truth)
    )
    return F.smooth_l1_loss(there, where, reduction="none", beta=0.05).mean((-1, -2))


def root(frames: Frames, skeleton: Skeleton) -> Tensor:
    """L1 of the root's steps and of its height, in their own deviations: mean of a step's parts, plus the height."""
    state, truth = frames.predicted.state, frames.truth
    # Steps are per frame, their deviations per second; a step is left, ahead and turn
    steps = ((state.steps - truth.steps) * skeleton.fps / skeleton.root_std[:3]).abs().mean(-1)
    return steps + ((state.heights - truth.heights) / skeleton.root_std[3]).abs()


def place(frames: Frames, skeleton: Skeleton) -> Tensor:
    """Metres between the root and where the true one is, plus half a metre per radian between their headings.

    Seen from the last known frame: what was missed in a step counts in all frames after it. 0 for windows without
    a path: with it free walks on CMU went faster and faster.
    """
    (where, yaw), (there, facing) = (follow(state.steps) for state in (frames.predicted.state, frames.truth))
    squared = (where - there).square().sum(-1)
    apart = squared > _TINY  # between equal places the gradient is 0
    away = torch.where(apart, torch.where(apart, squared, 1.0).sqrt(), 0.0)
    return torch.where(frames.conditioned[:, None], away + _METRES * (yaw - facing).abs(), 0.0)


def contacts(frames: Frames, skeleton: Skeleton) -> Tensor:
    """L1 of both feet's contacts, which are shares, not classes; 0 for clips whose contacts are not known."""
    away = (frames.predicted.state.contacts - frames.truth.contacts).abs().mean(-1)
    return torch.where(frames.contacts_known[:, None], away, 0.0)


def skate(frames: Frames, skeleton: Skeleton) -> Tensor:
    """Metres per second that a foot slides while the true one stands; mean over feet. 0 if feet are not known."""
    if skeleton.feet is None:
        return torch.zeros_like(frames.weights)
    # The known frame comes first, so that diff gives a speed for each of the F frames
    state = frames.last.then(frames.predicted.state)
    feet = state_positions(state, frames.offsets, skeleton.parents)[:, :, list(skeleton.feet)]
    # X and Z alone: the floor is their plane. The small number keeps the gradient of a standing foot finite
    speed = skeleton.fps * (feet[..., ::2].diff(dim=1).square().sum(-1) + 1e-8).sqrt()
    stands = (frames.truth.contacts > CONTACT) & frames.contacts_known[:, None, None]
    return (speed * stands).mean(-1)


def jerk(frames: Frames, skeleton: Skeleton) -> Tensor:
    """``|log|`` of predicted over true jerk of each frame from the third on; a frozen pose costs as a trembling one."""
    both = []
    for state in (frames.predicted.state, frames.truth):
        places = state_positions(frames.last.then(state), frames.offsets, skeleton.parents)
        if places.shape[1] <= _JERK:
            return torch.zeros_like(frames.weights)
        lengths = (places.diff(n=_JERK, dim=1).square().sum(-1) + 1e-14).sqrt()
        both.append(lengths.mean(-1) * skeleton.fps**_JERK)
    # 1 m/s^3 on both sides, so that the ratio of two bodies that hardly move is near 1
    ratio = ((both[0] + 1.0) / (both[1] + 1.0)).log().abs()
    # F + 1 places give F - 2 jerks: zeros stand for the frames before
    return F.pad(ratio, (_JERK - 1, 0))


def latent_consistency(
    predicted: Tensor,  # [N, F, L] of the predictor's hidden state
    period: Tensor,  # [N, F, L] of the encoder, on the true frames
    *,
    cosine: bool,  # 1 - cosine in place of L1
) -> Tensor:
    """Difference ``[N, F]`` between the soft period read out of the hidden state and that of the encoder."""
    if cosine:
        return 1 - F.cosine_similarity(predicted, period, dim=-1)
    return (predicted - period).abs().mean(-1)


# Rotations, in radians unless it says otherwise


def angle(first: Tensor, second: Tensor) -> Tensor:
    """Return the angle between rotations ``[..., 3, 3]``, ``[...]`` radians.

    By the chord, ``2 asin(|A - B| / sqrt(8))``: exact for small angles, where the arc cosine of the trace has neither
    digits nor a gradient. Between equal rotations the gradient is 0, between opposite ones it is finite.
    """
    squared = (first - second).square().sum((-1, -2)) / 8
    apart = squared > _TINY
    chord = torch.where(apart, torch.where(apart, squared, 1.0).sqrt(), 0.0)
    return 2 * torch.asin(chord.clamp_max(1 - 1e-7))


def rot_geo(frames: Frames, skeleton: Skeleton) -> Tensor:
    """Angle of every joint's rotation, the root's included; mean over joints."""
    return angle(frames.predicted.state.rotations, frames.truth.rotations).mean(-1)


def rot_local(frames: Frames, skeleton: Skeleton) -> Tensor:
    """Angle of every joint's rotation relative to its parent, without the root; mean over joints."""
    return angle(frames.predicted.state.rotations[:, :, 1:], frames.truth.rotations[:, :, 1:]).mean(-1)


def rot_root(frames: Frames, skeleton: Skeleton) -> Tensor:
    """Angle of the root's rotation relative to the heading."""
    return angle(frames.predicted.state.rotations[:, :, 0], frames.truth.rotations[:, :, 0])


def rot_delta(frames: Frames, skeleton: Skeleton) -> Tensor:
    """Angle between the predicted turn since the frame before and the true one; mean over joints."""
    return angle(frames.predicted.turn, frames.true_turn).mean(-1)


def rot_delta_root(frames: Frames, skeleton: Skeleton) -> Tensor:
    """Angle between the root's predicted turn since the frame before and the true one."""
    return angle(frames.predicted.turn[:, :, 0], frames.true_turn[:, :, 0])


def rot_log(frames: Frames, skeleton: Skeleton) -> Tensor:
    """Smooth L1 between the rotation vectors of both turns, in radians per frame; mean over joints and axes."""
    predicted, true = (matrix_to_rotvec(turn) for turn in (frames.predicted.turn, frames.true_turn))
    return F.smooth_l1_loss(predicted, true, reduction="none", beta=0.1).mean((-1, -2))


def rot_ortho(frames: Frames, skeleton: Skeleton) -> Tensor:
    """How far the 6D numbers of the network are from two orthonormal columns; mean over joints."""
    # The network gives what is added to the identity's first two columns
    rest = torch.tensor([1.0, 0, 0, 0, 1, 0]).to(frames.predicted.residual)
    first, second = (rest + frames.predicted.residual).split(3, dim=-1)
    lengths = [(column.square().sum(-1) + 1e-12).sqrt() for column in (first, second)]
    bent = (first * second).sum(-1).square()
    off: Tensor = (lengths[0] - 1).square() + (lengths[1] - 1).square() + bent
    return off.mean(-1)


def limb_geo(frames: Frames, skeleton: Skeleton, *, margin: float, topk: int) -> Tensor:
    """Mean of the `topk` largest angles of limb joints in a window beyond `margin`, in degrees."""
    joints = list(skeleton.limbs.values())
    angles = angle(frames.predicted.state.rotations[:, :, joints], frames.truth.rotations[:, :, joints])
    beyond = (angles * (180 / math.pi) - margin).relu()
    # [N, F * L]: the worst of all frames and limbs of a window
    beyond = torch.where((frames.weights > 0)[..., None], beyond, 0.0).flatten(1)
    worst = beyond.topk(min(topk, beyond.shape[1]), dim=1).values.mean(1)
    # A figure of the window stands in each of its frames: [N] -> [N, F].
    return worst[:, None].expand(-1, frames.weights.shape[1])


def attn_reg(frames: Frames, skeleton: Skeleton) -> Tensor:
    """How old the frames are that attention reads, 0 the newest and 1 the oldest; mean over heads."""
    weights = frames.predicted.attention
    count = weights.shape[-1]
    # The last key is the newest frame, of age 0
    ages = torch.arange(count - 1, -1, -1, device=weights.device) / max(1, count - 1)
    return (weights * ages).sum(-1).mean(-1)


# All of them

Term = Callable[[Frames, Skeleton], Tensor]


class JointLoss:
    """Computes the losses with a weight above 0."""

    def __init__(self, settings: LossSettings, skeleton: Skeleton) -> None:
        self.skeleton = skeleton
        terms: tuple[Any, ...] = (
            rot_geo, rot_local, rot_root, rot_delta, rot_ortho, fk_pos, root, place, contacts, attn_reg, rot_delta_root,
            rot_log, limb_geo, skate, jerk,
        )  # fmt: skip
        self._terms: dict[str, Term] = {term.__name__: term for term in terms}
        self._terms["limb_geo"] = partial(limb_geo, margin=settings.limb_margin, topk=settings.limb_topk)

    def __call__(
        self,
        frames: Frames,  # prediction and truth
        weights: Mapping[str, float],  # weight by name; other names than those of frame losses are ignored
    ) -> dict[str, Tensor]:
        """Return the losses with a weight above 0, not yet weighted, each a mean over the frames."""
        chosen = {name: term for name, term in self._terms.items() if weights.get(name, 0.0) > 0}
        return {name: frames.mean(term(frames, self.skeleton)) for name, term in chosen.items()}


def group_shares(parts: Mapping[str, float]) -> dict[str, float]:
    """Return each group's share of the total, 0 to 1, from weighted losses by name."""
    total = sum(abs(value) for value in parts.values())
    shares = dict.fromkeys(("core", "aux", "long"), 0.0)
    for name, value in parts.items():
        shares[GROUPS[name]] += abs(value) / total if total else 0.0
    return shares


def share_warnings(
    shares: Mapping[str, float],  # as `group_shares` returns them
    *,
    encoder: bool,  # whether there is an encoder, without which latent_consistency does nothing
) -> tuple[str, ...]:
    """Return a sentence for each group that is out of the guide's limits."""
    warnings = []
    if shares["core"] > 0.8:
        warnings.append(
            f"core losses are {shares['core']:.0%} of the total, more than 80 %: a larger weight of free runs"
            f"{' or of latent_consistency' if encoder else ''} makes long runs better."
        )
    if shares["aux"] > 0.15:
        warnings.append(f"aux losses are {shares['aux']:.0%} of the total, more than 15 %: smaller weights will do.")
    if shares["long"] < 0.15:
        warnings.append(
            f"long losses are {shares['long']:.0%} of the total, less than 15 %: a larger --freerun-weight makes free "
            "runs stable."
        )
    return tuple(warnings)
