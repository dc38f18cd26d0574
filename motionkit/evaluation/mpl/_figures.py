"""Figures of predictions at horizons, as sums of windows: a figure of any set of clips is a quotient of two sums."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

from motionkit.evaluation.mpl._horizons import Horizons
from motionkit.geometry._rotations import matrix_to_6d
from motionkit.metrics import f1_terms, geodesic_degrees, joint_jerk, npss_terms, slide_terms, yaw_degrees
from motionkit.motion.prediction._state import MotionState, follow, state_positions
from motionkit.rigs import find_feet
from motionkit.rigs._roles import find_roles

Terms = dict[str, tuple[Tensor, Tensor]]
"""``[N, H]`` above and below the fraction bar, by figure."""

LIMBS = tuple(f"{side} {joint}" for side in ("left", "right") for joint in
              ("hip", "knee", "ankle", "shoulder", "elbow", "wrist"))  # fmt: skip

TRUTH_SKATE = "truth_skate"
"""Foot skate of the truth itself, which that of a prediction is compared with; the same for every predictor."""

_SEAM = 3
"""Known frames before the prediction that jerk needs to reach its first frame."""


@dataclass(frozen=True)
class Body:
    """What figures need to know of a skeleton.

    Attributes:
        parents: Parent of each joint.
        fps: Frames per second.
        limbs: Joints of `LIMBS` that are found by their names.
        feet: The joint of the left foot that stands longest, and of the right one; None where they are not found.
    """

    parents: tuple[int, ...]
    fps: float
    limbs: Mapping[str, int]
    feet: tuple[int, int] | None

    @classmethod
    def of(cls, names: Sequence[str], parents: Sequence[int], fps: float) -> Body:
        """Find limbs and feet by the names of joints."""
        roles = find_roles(names, parents)
        feet = find_feet(names, parents)
        limbs = {limb: roles[limb] for limb in LIMBS if limb in roles}
        return cls(tuple(parents), fps, limbs, None if feet is None else (feet[0][-1], feet[1][-1]))


def window_terms(
    predicted: MotionState,
    truth: MotionState,
    known: MotionState,
    *,
    offsets: Tensor,
    valid: Tensor,
    contacts_known: Tensor,
    body: Body,
    horizons: Horizons,
) -> Terms:
    """Return the sums of every figure for windows; docs/evaluation.md and `motionkit.tracking` define them.

    Args:
        predicted: ``[N, F, ...]``.
        truth: The same.
        known: ``[N, P, ...]`` what came before.
        offsets: ``[N, J, 3]``.
        valid: ``[N]`` frames of the truth that are real; a horizon beyond them has zeros in both sums.
        contacts_known: ``[N]`` bool.
        body: The skeleton.
        horizons: Frames to measure at.
    """
    index = [frame - 1 for frame in horizons.frames]
    inside = (valid[:, None] >= torch.tensor(horizons.frames)).double()  # [N, H]
    turned = geodesic_degrees(predicted.rotations, truth.rotations)  # [N, F, J]
    fed_back = torch.cat([torch.zeros_like(turned[:, :1, 0]), turned.mean(-1)], dim=1).cumsum(1)  # [N, F + 1]
    earlier = torch.tensor([max(1, frame - 1) for frame in horizons.frames])
    moved = body.fps * (predicted.steps - truth.steps)[..., :2].abs().mean(-1)
    there, where = (_poses(state, offsets, index, body) for state in (predicted, truth))
    terms: Terms = {
        "geo_deg": (turned[:, index, 1:].mean(-1), inside),
        "yaw_abs_deg": (yaw_degrees(follow(predicted.steps)[1], follow(truth.steps)[1])[:, index], inside),
        "root_vel_mae": (moved[:, index], inside),
        "input_rot_geo_deg": (fed_back[:, index] / earlier, inside),
        "mpjpe_mm": (1000.0 * (there - where).norm(dim=-1).mean(-1), inside),
    }
    for limb, joint in body.limbs.items():
        terms[f"key_bone/{limb.replace(' ', '_')}/geo_deg"] = turned[:, index, joint], inside
    terms |= _up_to(predicted, truth, known, offsets, contacts_known, body, horizons)
    # A product with 0 leaves NaN where it is: what lies beyond the end of a clip is cut off, not multiplied.
    return {
        name: (torch.where(inside > 0, above, 0.0), torch.where(inside > 0, below, 0.0))
        for name, (above, below) in terms.items()
    }


def _poses(state: MotionState, offsets: Tensor, index: list[int], body: Body) -> Tensor:
    """Return joints ``[N, H, J, 3]`` with the root at the origin and unturned, at the horizons."""
    chosen = MotionState(
        state.rotations[:, index], state.steps[:, index], state.heights[:, index], state.contacts[:, index]
    )
    return state_positions(chosen, offsets, body.parents, pose_only=True)


def _up_to(
    predicted: MotionState,
    truth: MotionState,
    known: MotionState,
    offsets: Tensor,
    contacts_known: Tensor,
    body: Body,
    horizons: Horizons,
) -> Terms:
    """Return the figures of all frames up to a horizon."""
    seam = known.part(known.frames - min(_SEAM, known.frames))
    joints, real = (state_positions(seam.then(state), offsets, body.parents) for state in (predicted, truth))
    jerk, real_jerk = (joint_jerk(places, body.fps) for places in (joints, real))
    six, real_six = (matrix_to_6d(state.rotations[:, :, 1:]).flatten(2) for state in (predicted, truth))
    skipped = truth.frames - jerk.shape[1]  # with two known frames the first has no jerk
    names = ("npss", "jerk_ratio", "contact_f1", "skate", TRUTH_SKATE)
    rows: dict[str, list[tuple[Tensor, Tensor]]] = {name: [] for name in names}
    for frame in horizons.frames:
        rows["npss"].append(npss_terms(six[:, :frame], real_six[:, :frame]))
        span = slice(0, max(0, frame - skipped))
        rows["jerk_ratio"].append((jerk[:, span].sum(1), real_jerk[:, span].sum(1)))
        rows["contact_f1"].append(f1_terms(predicted.contacts[:, :frame], truth.contacts[:, :frame]))
        if body.feet is not None:
            for name, places in (("skate", joints), (TRUTH_SKATE, real)):
                feet = places[:, seam.frames - 1 : seam.frames + frame, list(body.feet)]
                rows[name].append(slide_terms(feet, truth.contacts[:, :frame], body.fps))
    terms: Terms = {
        name: (torch.stack([one for one, _ in pairs], dim=1), torch.stack([two for _, two in pairs], dim=1))
        for name, pairs in rows.items()
        if pairs
    }
    for name in ("contact_f1", "skate", TRUTH_SKATE):
        if name in terms:
            above, below = terms[name]
            terms[name] = above * contacts_known[:, None], below * contacts_known[:, None]
    return terms
