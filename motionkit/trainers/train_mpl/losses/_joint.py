"""All losses together: which there are, their groups, and each group's share."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import partial

from torch import Tensor

from motionkit.trainers.train_mpl._settings import GROUPS, LossSettings
from motionkit.trainers.train_mpl.losses import _motion, _rotations
from motionkit.trainers.train_mpl.losses._frames import Frames, Skeleton

Term = Callable[[Frames, Skeleton], Tensor]


class JointLoss:
    """Computes the losses that have a weight, each once, from one decode.

    Args:
        settings: Constants of the losses.
        skeleton: The skeleton.
    """

    def __init__(self, settings: LossSettings, skeleton: Skeleton) -> None:
        self.skeleton = skeleton
        limb = partial(_rotations.limb_geo, margin=settings.limb_margin, topk=settings.limb_topk)
        self._terms: Mapping[str, Term] = {
            "rot_geo": _rotations.rot_geo,
            "rot_local": _rotations.rot_local,
            "rot_root": _rotations.rot_root,
            "rot_delta": _rotations.rot_delta,
            "rot_ortho": _rotations.rot_ortho,
            "fk_pos": _motion.fk_pos,
            "root": _motion.root,
            "place": _motion.place,
            "contacts": _motion.contacts,
            "attn_reg": _rotations.attn_reg,
            "rot_delta_root": _rotations.rot_delta_root,
            "rot_log": _rotations.rot_log,
            "limb_geo": limb,
            "skate": _motion.skate,
            "jerk": _motion.jerk,
        }

    def __call__(self, frames: Frames, weights: Mapping[str, float]) -> dict[str, Tensor]:
        """Return the losses with a weight above 0, not yet weighted, each a mean over the frames.

        Args:
            frames: Prediction and truth.
            weights: Weight by name; names that are no loss of frames are left out.
        """
        chosen = {name: term for name, term in self._terms.items() if weights.get(name, 0.0) > 0}
        return {name: frames.mean(term(frames, self.skeleton)) for name, term in chosen.items()}


def group_shares(parts: Mapping[str, float]) -> dict[str, float]:
    """Return each group's share of the whole, 0 to 1, from weighted losses by name."""
    total = sum(abs(value) for value in parts.values())
    shares = dict.fromkeys(("core", "aux", "long"), 0.0)
    for name, value in parts.items():
        shares[GROUPS[name]] += abs(value) / total if total else 0.0
    return shares


def share_warnings(shares: Mapping[str, float], *, encoder: bool) -> tuple[str, ...]:
    """Return what is out of balance, a sentence each, by the guide's limits.

    Args:
        shares: As `group_shares` returns them.
        encoder: Whether there is an encoder, without which latent_consistency does nothing.
    """
    found = []
    if shares["core"] > 0.8:
        found.append(
            f"core losses are {shares['core']:.0%} of the total, more than 80 %: a larger weight of free runs"
            f"{' or of latent_consistency' if encoder else ''} makes long runs better."
        )
    if shares["aux"] > 0.15:
        found.append(f"aux losses are {shares['aux']:.0%} of the total, more than 15 %: smaller weights will do.")
    if shares["long"] < 0.15:
        found.append(
            f"long losses are {shares['long']:.0%} of the total, less than 15 %: a larger --freerun-weight makes free "
            "runs stable."
        )
    return tuple(found)
