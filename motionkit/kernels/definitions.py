"""Plain-torch definitions of the kernels: foot skate and jerk of joints, and joints of features.

`physics_definition` and `recover_definition` are the references for the kernels. `fit_body` checks the feet of a body,
and `in_chunks` splits large batches, which keeps the temporaries of the definitions small.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from functools import lru_cache

import torch
from torch import Tensor
from torch.utils.checkpoint import checkpoint

from motionkit.errors import MotionkitError
from motionkit.geometry import rotate_yaw
from motionkit.nn import zeroed

CHUNK = 64
"""Samples per chunk; with more, the temporaries no longer fit the CPU's caches."""

_SOFTNESS = 0.02
_CONTACT_EPS = 1e-6
_NORM_EPS = 1e-14

Body = tuple[tuple[int, ...], tuple[float, ...]]
"""The foot joints of a body and the contact height of each, in metres."""


def _fit(joints: int, feet: tuple[int, ...], heights: float | tuple[float, ...]) -> Body:
    if len(set(feet)) != len(feet) or (feet and not 0 <= min(feet) <= max(feet) < joints):
        raise MotionkitError(
            f"the joints of the feet must be different joints of 0 to {joints - 1}, and are {list(feet)}.",
            why="a joint that is named twice would count twice.",
            fix="name the ankle alone of a foot without a toe.",
        )
    per_foot = heights if isinstance(heights, tuple) else (heights,) * len(feet)
    limits = tuple(float(height) for height in per_foot)
    if len(limits) != len(feet):
        raise MotionkitError(f"{len(feet)} feet need one contact height or {len(feet)}, got {len(limits)}.")
    if not all(abs(limit) < 1e30 for limit in limits):
        raise MotionkitError(f"contact heights must be finite numbers of metres, got {list(limits)}.")
    return feet, limits


_known = lru_cache(maxsize=256)(_fit)


def fit_body(joints: int, feet: tuple[int, ...], heights: float | tuple[float, ...]) -> Body:
    """Return the feet and a contact height for each, in metres."""
    # torch.compile may treat the heights as dynamic; such values have no hash.
    return _fit(joints, feet, heights) if torch.compiler.is_compiling() else _known(joints, feet, heights)


def in_chunks(function: Callable[..., tuple[Tensor, ...]], *tensors: Tensor | None) -> tuple[Tensor, ...]:
    """Return ``function(*tensors)``, computed for at most `CHUNK` samples at a time.

    If a gradient is needed, only the inputs of a chunk are kept and it is recomputed in the backward pass: apart from
    inputs, outputs and gradients, memory does not grow with the batch. It takes about a third more time.

    Args:
        function: Maps tensors with the batch in dimension 0 to a tuple of such tensors, sample by sample.
        tensors: The first must be a tensor; None is passed on.
    """
    first = tensors[0]
    assert first is not None, "the first argument gives the batch"
    if first.shape[0] <= CHUNK:
        return function(*tensors)
    pieces: list[Sequence[Tensor | None]] = []
    for start in range(0, first.shape[0], CHUNK):
        pieces.append([None if tensor is None else tensor[start : start + CHUNK] for tensor in tensors])
    if torch.is_grad_enabled() and first.requires_grad:
        done = [checkpoint(function, *piece, use_reentrant=False, preserve_rng_state=False) for piece in pieces]
    else:
        done = [function(*piece) for piece in pieces]
    return tuple(torch.cat(columns) for columns in zip(*done, strict=True))


def physics_definition(
    joints: Tensor, lengths: Tensor, feet: Sequence[int], heights: Sequence[float]
) -> tuple[Tensor, Tensor, Tensor, Tensor]:
    """Return foot skate, jerk, contact sum and valid length, each ``[N]``.

    The definition is specific to motionkit. The gate is soft, so that it has a gradient. Per frame (fps = 1):

    - gate of a foot at frame t: ``g_t = sigmoid((h - y_t) / 0.02)`` with contact height h in metres;
    - contact of the pair (t, t+1): ``c_t = g_t g_{t+1}``, both frames inside the sample's length;
    - ``skate = sum c_t v_t / (sum c_t + 1e-6)`` over feet and pairs, v the horizontal displacement in metres;
    - ``jerk = mean |x_{t+3} - 3 x_{t+2} + 3 x_{t+1} - x_t|`` over joints and t < L - 3, in metres.

    Multiplied by fps and fps^3 these are m/s and m/s^3. A motion with a value inside its length that is not finite has
    NaN for every term and no gradient. Norms are ``sqrt(q + 1e-14)``, so that a motionless pose has a finite gradient.

    Args:
        joints: ``[N, T, J, 3]`` metres, Y up; float32 or float64.
        lengths: ``[N]`` frames.
        feet: Foot joints.
        heights: Contact height of each foot in metres.
    """
    frames = torch.arange(joints.shape[1], device=joints.device)
    valid = frames < lengths[:, None]
    # A multiplication by zero would keep NaN in value and gradient; `zeroed` removes it from both.
    # A motion with a non-finite value is zeroed as a whole: its terms become NaN below and its gradient is 0.
    bad = (_not_finite(joints.flatten(2)) & valid).any(1)
    joints = zeroed(joints, valid & ~bad[:, None])
    skate, contact = _skate(joints, valid, feet, heights)
    terms = [term.masked_fill(bad, torch.nan) for term in (skate, _jerk(joints, valid), contact)]
    return terms[0], terms[1], terms[2], valid.sum(1).to(joints.dtype)


def _skate(joints: Tensor, valid: Tensor, feet: Sequence[int], heights: Sequence[float]) -> tuple[Tensor, Tensor]:
    # One slice per foot: indexing with a list would copy that list to the device on every call.
    foot = torch.stack([joints[:, :, index] for index in feet], dim=2) if feet else joints[:, :, :0]
    height = [joints.new_full((), value) for value in heights]
    limits = torch.stack(height) if height else joints.new_zeros(0)
    # [N, T, F]: how much each of F feet is on the floor in each frame.
    gate = torch.sigmoid((limits - foot[..., 1]) / _SOFTNESS)
    # [N, T - 1, F]: on the floor in both frames of a pair.
    contact = gate[:, 1:] * gate[:, :-1] * (valid[:, 1:] & valid[:, :-1])[..., None]
    # Horizontal displacement (x and z) between the frames of a pair.
    step = foot[:, 1:, :, ::2] - foot[:, :-1, :, ::2]
    moved = torch.sqrt(step.square().sum(-1) + _NORM_EPS)
    total = contact.sum((1, 2))
    return (contact * moved).sum((1, 2)) / (total + _CONTACT_EPS), total


def _jerk(joints: Tensor, valid: Tensor) -> Tensor:
    # [N, T - 3, J, 3] third differences, then their length averaged over joints.
    third = joints.diff(n=3, dim=1) if joints.shape[1] > 3 else joints[:, :0]
    size = torch.sqrt(third.square().sum(-1) + _NORM_EPS).mean(-1)
    inside = valid[:, 3:] if joints.shape[1] > 3 else valid[:, :0]
    # The third difference reaches three frames past its first, so its validity is that of its last frame.
    total = torch.where(inside, size, torch.zeros_like(size)).sum(1)
    return total / inside.sum(1).clamp(min=1)


def columns_in_use(joints: int) -> int:
    """Return the number of leading columns of a feature row that the recovery reads."""
    return 4 + 3 * (joints - 1)


def recover_definition(
    features: Tensor, lengths: Tensor | None, mean: Tensor | None, std: Tensor | None, joints: int, unit: float
) -> Tensor:
    """Return joints ``[..., T, J, 3]`` of features ``[..., T, D]``; see `motionkit.kernels.features_to_joints`.

    A feature row starts with the yaw rate (half the turn per frame, radians), the root's velocity (x and z per frame,
    in the next frame's heading), the root's height, and the positions of the joints 1..J-1 in the frame's heading with
    the root's x and z removed. Heading and path are sums over the frames before; HumanML3D: ``recover_from_ric``.
    """
    used = features[..., : columns_in_use(joints)]
    if mean is not None and std is not None:
        used = upcast(used) * std[: used.shape[-1]] + mean[: used.shape[-1]]
    clean, broken = sanitise(used, lengths)
    angle, root = root_path(clean)
    local = clean[..., 4:].reshape(*clean.shape[:-1], -1, 3)
    # [..., T, J - 1, 3] from each frame's heading into the world, then moved to the root's x and z.
    turned = rotate_yaw(local, angle[..., None])
    zero = torch.zeros_like(root[..., 0])
    ground = torch.stack([root[..., 0], zero, root[..., 2]], dim=-1)
    return finish(torch.cat([root[..., None, :], turned + ground[..., None, :]], dim=-2), broken, unit)


def upcast(tensor: Tensor) -> Tensor:
    """Return `tensor`, in float32 if it was in half precision."""
    return tensor.float() if tensor.dtype in (torch.float16, torch.bfloat16) else tensor


def sanitise(features: Tensor, lengths: Tensor | None) -> tuple[Tensor, Tensor]:
    """Return features with padding and non-finite frames zeroed, and which frames ``[..., T]`` were not finite."""
    features = upcast(features)
    broken = _not_finite(features)
    if lengths is None:
        return zeroed(features, ~broken), broken
    valid = torch.arange(features.shape[-2], device=features.device) < lengths[..., None]
    broken = broken & valid
    return zeroed(features, valid & ~broken), broken


def _not_finite(x: Tensor) -> Tensor:
    """Return ``[...]`` bool, True where one of ``[..., D]`` is not finite: 0 times it is NaN, and so is the sum."""
    return (0 * x.detach()).sum(-1).isnan()


def root_path(features: Tensor) -> tuple[Tensor, Tensor]:
    """Integrate yaw rate and velocity: rotation ``[..., T]`` from heading frame to world, root ``[..., T, 3]``."""
    rate = features[..., 0]
    # Exclusive sum over time: the heading of frame t is the sum of the rates before it. HumanML3D stores half angles.
    half = torch.cat([torch.zeros_like(rate[..., :1]), rate[..., :-1].cumsum(dim=-1)], dim=-1)
    angle = -2.0 * half
    x, z = features[..., :-1, 1:3].unbind(-1)
    # The velocity of frame t is given in the heading of frame t + 1.
    step = rotate_yaw(torch.stack([x, torch.zeros_like(x), z], dim=-1), angle[..., 1:])
    # [..., T, 3]: exclusive sum of the steps; frame 0 is at x = z = 0. The height is stored as it is.
    path = torch.cat([torch.zeros_like(features[..., :1, :3]), step.cumsum(dim=-2)], dim=-2)
    return angle, torch.cat([path[..., :1], features[..., 3:4], path[..., 2:]], dim=-1)


def finish(joints: Tensor, broken: Tensor, unit: float) -> Tensor:
    """Scale to metres and mark everything from the first broken frame on, without touching gradients before it."""
    # [..., T]: True from the first broken frame on, because heading and path are sums.
    gone = broken.cummax(dim=-1).values if broken.shape[-1] else broken
    return (joints * unit).masked_fill(gone[..., None, None], math.nan)
