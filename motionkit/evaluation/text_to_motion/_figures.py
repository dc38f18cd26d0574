"""The figures of one set of motions, and the reasons why one cannot be given."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

import torch
from torch import Tensor

from motionkit.errors import MotionkitError
from motionkit.evaluation._real import bodies_of
from motionkit.kernels import physics_sums
from motionkit.metrics import (
    FrechetReference,
    body_positions,
    diversity,
    floor_distance,
    kid,
    kinetic_fid,
    matching_score,
    multimodality,
    npss_rows,
    r_precision,
    random_pairs,
)
from motionkit.motion import MotionBatch

QUANTITIES = (
    "r_precision_1", "r_precision_2", "r_precision_3", "mm_dist", "fid", "kid", "fid_guide", "diversity",
    "multimodality", "movement", "statues", "side", "kinetic_fid", "npss", "skate", "penetration", "float", "jerk",
)  # fmt: skip
"""Names of the figures, in the order of tables."""

EMBEDDED = QUANTITIES[: QUANTITIES.index("movement")]
"""Those that need an evaluator."""

MOVING = ("movement", "statues", "side")
"""Those that compare motions with real clips of the same action."""

REWARD = "reward/"
"""How the names of rewards begin, which stand beside the figures where they are asked for."""

BIASED = "biased, compare at equal n only"
_BATCH, _PAIRS, _ENOUGH = 32, 300, 5
_SILENT = "motions are shorter than 1 s, or real clips of their actions hardly move or are not known"


@dataclass
class Sheet:
    """Figures by name.

    Attributes:
        values: What could be measured.
        missing: Why another figure is not there.
        notes: What to know about one that is.
    """

    values: dict[str, float] = field(default_factory=dict)
    missing: dict[str, str] = field(default_factory=dict)
    notes: dict[str, str] = field(default_factory=dict)

    def add(self, other: Sheet) -> None:
        """Take in the figures of another sheet."""
        self.values |= other.values
        self.missing |= other.missing
        self.notes |= other.notes


def embedding_figures(text: Tensor, motion: Tensor, real: Tensor | FrechetReference, *, count: int, seed: int) -> Sheet:
    """Return R-precision, MM-Dist, FID and Diversity of one replication.

    Args:
        text: ``[N, E]`` embeddings of the captions, in the order that forms the batches of 32.
        motion: ``[N, E]`` embeddings of their motions.
        real: ``[M, E]`` embeddings of real motions, or their moments where no kernel distance can be wanted.
        count: M.
        seed: Seed of the pairs of Diversity.
    """
    sheet, n = Sheet(), len(motion)
    if n < _BATCH:
        why = f"batches of {_BATCH} need at least {_BATCH} motions, there are {n}"
        sheet.missing |= dict.fromkeys(("r_precision_1", "r_precision_2", "r_precision_3", "mm_dist"), why)
    else:
        hits = r_precision(text, motion).tolist()
        sheet.values |= {f"r_precision_{k}": value for k, value in enumerate(hits, start=1)}
        sheet.values["mm_dist"] = float(matching_score(text, motion))
    sheet.add(_fid(motion, real, count, "fid"))
    if n <= _PAIRS:
        sheet.missing["diversity"] = f"{_PAIRS} pairs need more than {_PAIRS} motions, there are {n}"
    else:
        sheet.values["diversity"] = diversity(motion, *random_pairs(n, _PAIRS, seed=seed))
    return sheet


def _fid(motion: Tensor, real: Tensor | FrechetReference, count: int, name: str) -> Sheet:
    sheet, few, width = Sheet(), min(len(motion), count), motion.shape[1]
    if not count:
        sheet.missing[name] = "the set holds no real motions"
        return sheet
    if few <= width:
        sheet.missing[name] = f"a covariance of width {width} needs more than {width} motions, there are {few}"
        return sheet
    reference = real if isinstance(real, FrechetReference) else FrechetReference(real)
    sheet.values[name] = reference.distance(motion)
    if few < _ENOUGH * width:
        sheet.notes[name] = f"{BIASED} ({few} motions, width {width})"
        if isinstance(real, Tensor) and name == "fid":
            sheet.values["kid"] = kid(motion, real)
    return sheet


def guide_figure(motion: Tensor, singles: Tensor) -> Sheet:
    """Return the guide's FID of composite motions: against single clips ``[M, E]`` of the dataset they come from."""
    return _fid(motion, singles, len(singles), "fid_guide")


def multimodality_figure(repeats: Tensor, *, pairs: int, seed: int) -> Sheet:
    """Return MultiModality of ``[C, R, E]`` embeddings: R motions of each of C texts, `pairs` shared pairs."""
    first, second = random_pairs(repeats.shape[1], min(pairs, repeats.shape[1]), seed=seed)
    return Sheet({"multimodality": multimodality(repeats, first, second)})


def physics_figures(motions: MotionBatch) -> dict[str, Tensor]:
    """Return skate, penetration, float and jerk of each motion, ``[N]`` each; definitions in `tracking`."""
    joints = motions.joints
    skate, jerk = physics_sums(joints, motions.lengths, fps=motions.fps, feet=motions.skeleton.feet)
    below, above = floor_distance(joints, motions.lengths)
    return {"skate": skate, "penetration": below, "float": above, "jerk": jerk}


def npss_columns(motions: MotionBatch, truths: Sequence[Tensor | None]) -> tuple[Tensor, Tensor]:
    """Return the two terms of NPSS of each motion against the real motion of its prompt.

    Args:
        motions: N motions.
        truths: N features ``[T, D]`` as long as the motions; None where a prompt has no real motion.

    Returns:
        ``[N]`` each (see `motionkit.metrics.npss_terms`, of joint positions relative to root and heading); NaN without
        a real motion.
    """
    body = body_positions(motions.joints, motions.headings).flatten(2)
    made = [body[row, :length] for row, length in enumerate(motions.lengths.tolist())]
    return npss_rows(made, bodies_of(truths, motions.skeleton, motions.fps))


def moving_figures(found: Mapping[str, Tensor], real: Tensor) -> Sheet:
    """Return the figures of how motions move.

    Args:
        found: ``[N]`` columns of `MOVING` and, in ``npss_moved`` and ``npss_power``, of `npss_columns`; ``[N, F]``
            kinetic features in ``kinetic``.
        real: ``[M, F]`` kinetic features of real motions.
    """
    sheet = Sheet()
    for name in MOVING:
        known = found[name][found[name].isfinite()]
        if len(known):
            sheet.values[name] = float(known.double().mean())
            if name == "movement" and len(known) < len(found[name]):
                sheet.notes[name] = f"of {len(known)} of {len(found[name])} motions"
        else:
            sheet.missing[name] = "no caption names a limb's side" if name == "side" else _SILENT
    power = found["npss_power"].nansum()
    if float(power) > 0:
        sheet.values["npss"] = float(found["npss_moved"].nansum() / power)
    else:
        sheet.missing["npss"] = "no prompt has a real motion to compare with"
    made, truth = (one[one.isfinite().all(1)] for one in (found["kinetic"], real))
    few, width = min(len(made), len(truth)), made.shape[1]
    if few <= width:
        sheet.missing["kinetic_fid"] = f"a covariance of width {width} needs more than {width} motions, there are {few}"
    else:
        sheet.values["kinetic_fid"] = kinetic_fid(made, truth)
        if few < _ENOUGH * width:
            sheet.notes["kinetic_fid"] = f"{BIASED} ({few} motions, width {width})"
    return sheet


def require_finite(embeddings: Tensor, what: str) -> Tensor:
    """Return `embeddings`, or refuse them where one is not finite.

    Raises:
        MotionkitError: With how many (exit code 1).
    """
    bad = int((~torch.isfinite(embeddings).all(-1)).sum())
    if bad:
        raise MotionkitError(
            f"{bad} of {embeddings.shape[:-1].numel()} {what} motions have no finite embedding.",
            why="the motions hold NaN or infinity; no figure over them means anything.",
            fix="look at the training run: alarms, gradient norm, precision.",
            code=1,
        )
    return embeddings
