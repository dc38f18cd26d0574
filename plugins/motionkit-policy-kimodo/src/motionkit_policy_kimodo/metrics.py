"""Measures of feet, as Kimodo's benchmark has them."""

from __future__ import annotations

from torch import Tensor

from motionkit.rl import length_mask
from motionkit_policy_kimodo.representation import KimodoRepresentation

_FLOOR, _SLIDING = 0.05, 0.2  # metres, metres per second


def foot_metrics(
    joints: Tensor, contacts: Tensor, lengths: Tensor, representation: KimodoRepresentation
) -> dict[str, Tensor]:
    """Return measures ``[N]`` of motions, by name.

    - ``skate_height``: mean speed of toes below 5 cm, in metres per second.
    - ``skate_contacts``, ``skate_most``: mean and largest speed of the feet where the model says contact.
    - ``skate_ratio``: share of the toes on the floor, in a frame and the next, that are faster than 0.2 m/s.
    - ``consistency``: share of the model's contacts that are as `KimodoRepresentation.moving` finds them.

    A mean over nothing is 0.

    Args:
        joints: ``[N, T, J, 3]`` metres; padding is finite.
        contacts: ``[N, T, 4]`` bool, as the model says.
        lengths: ``[N]``, each at least 2.
        representation: Gives the feet and the frame rate.
    """
    velocities, found = representation.moving(joints, lengths)
    feet = list(representation.body.feet)
    # Speeds lead to the next frame, so that a motion's last frame has none.
    valid = length_mask(lengths, joints.shape[1])[:, 1:, None]
    speeds = velocities[:, :-1, feet].norm(dim=-1)
    touching = contacts[:, :-1] & valid
    low = joints[:, :, feet[1::2], 1] < _FLOOR
    toes, on_floor = speeds[..., 1::2], low[:, :-1] & low[:, 1:] & valid
    return {
        "skate_height": _mean(toes, low[:, :-1] & valid),
        "skate_contacts": _mean(speeds, touching),
        "skate_most": (speeds * touching).amax((1, 2)),
        "skate_ratio": _mean((toes > _SLIDING).to(speeds), on_floor),
        "consistency": _mean((contacts == found)[:, :-1].to(speeds), valid.expand_as(touching)),
    }


def _mean(values: Tensor, where: Tensor) -> Tensor:
    return (values * where).sum((1, 2)) / where.sum((1, 2)).clamp(min=1)
