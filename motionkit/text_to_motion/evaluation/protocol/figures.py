"""The figures of a set of motions (`Sheet`), with reasons for those that cannot be measured."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field

import torch
from torch import Tensor

from motionkit.errors import MotionkitError
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
from motionkit.text_to_motion.evaluation.real_motions import bodies_of
from motionkit.tracking import FEWEST

QUANTITIES = (
    "r_precision_1", "r_precision_2", "r_precision_3", "style", "mm_dist", "fid", "kid", "fid_guide", "diversity",
    "multimodality", "movement", "statues", "side", "kinetic_fid", "npss", "skate", "penetration", "float", "jerk",
)  # fmt: skip
"""Names of the figures, in the order of the tables."""

EMBEDDED = QUANTITIES[: QUANTITIES.index("movement")]  # those that need an evaluator
MOVING = ("movement", "statues", "side")  # those that compare motions with reference clips of the same action
REWARD = "reward/"  # prefix of the names of rewards that are measured in addition
BIASED = "biased, compare at equal n only"
_BATCH, _PAIRS, _ENOUGH = 32, 300, 5
_UNMOVED = "motions are shorter than 1 s, or reference clips of their actions hardly move or are not known"


def ordered(names: Iterable[str]) -> list[str]:
    """Return names of figures in the order of the tables: rewards, `QUANTITIES`, then a policy's own."""
    every = dict.fromkeys(names)
    rewards = [name for name in every if name.startswith(REWARD)]
    return list(dict.fromkeys([*rewards, *(name for name in QUANTITIES if name in every), *every]))


@dataclass
class Sheet:
    """Figures by name."""

    values: dict[str, float] = field(default_factory=dict)
    missing: dict[str, str] = field(default_factory=dict)  # by name, why a figure could not be measured
    notes: dict[str, str] = field(default_factory=dict)  # by name, a remark on a figure

    def add(self, other: Sheet) -> None:
        """Add the figures of another sheet."""
        self.values |= other.values
        self.missing |= other.missing
        self.notes |= other.notes


def embedding_figures(text: Tensor, motion: Tensor, real: Tensor | FrechetReference, *, count: int, seed: int) -> Sheet:
    """Return R-precision, MM-Dist, FID and Diversity of one replication.

    Args:
        text: ``[N, E]`` embeddings of the captions; each 32 in a row are a batch.
        motion: ``[N, E]`` embeddings of their motions.
        real: ``[M, E]`` embeddings of reference motions, or their moments if no kernel distance is needed.
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
        sheet.missing[name] = "the set holds no reference motions"
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


def style_figure(hits: Tensor, chance: float) -> Sheet:
    """Return the style accuracy of ``[N]`` `style_hits`; nothing where fewer than 20 captions name a style.

    Args:
        hits: NaN where a caption names no style.
        chance: What guessing reaches.
    """
    known = hits[hits.isfinite()]
    if len(known) < FEWEST:
        return Sheet()
    note = f"of the {len(known)} of {len(hits)} motions whose captions name a style; chance {chance:.2f}"
    return Sheet({"style": float(known.mean())}, notes={"style": note})


def guide_figure(motion: Tensor, singles: Tensor) -> Sheet:
    """Return the guide's FID of composite motions: against the single clips ``[M, E]`` of their dataset."""
    return _fid(motion, singles, len(singles), "fid_guide")


def multimodality_figure(repeats: Tensor, *, pairs: int, seed: int) -> Sheet:
    """Return MultiModality of ``[C, R, E]`` embeddings: R motions of each of C texts, `pairs` shared pairs."""
    first, second = random_pairs(repeats.shape[1], min(pairs, repeats.shape[1]), seed=seed)
    return Sheet({"multimodality": multimodality(repeats, first, second)})


def physics_figures(motions: MotionBatch) -> dict[str, Tensor]:
    """Return skate, penetration, float and jerk of each motion, ``[N]`` each; definitions in `tracking`."""
    skate, jerk = motions.physics
    below, above = floor_distance(motions.joints, motions.lengths)
    return {"skate": skate, "penetration": below, "float": above, "jerk": jerk}


def npss_columns(motions: MotionBatch, truths: Sequence[Tensor | None]) -> tuple[Tensor, Tensor]:
    """Return the two terms of NPSS of each motion against the reference motion of its prompt, ``[N]`` each.

    See `motionkit.metrics.npss_terms`; it compares joint positions relative to root and heading. NaN without a
    reference motion.

    Args:
        motions: N motions.
        truths: N features ``[T, D]`` as long as the motions; None if a prompt has no reference motion.
    """
    positions = body_positions(motions.joints, motions.headings).flatten(2)
    bodies = [positions[row, :length] for row, length in enumerate(motions.lengths.tolist())]
    return npss_rows(bodies, bodies_of(truths, motions.skeleton, motions.fps))


def moving_figures(columns: Mapping[str, Tensor], real: Tensor) -> Sheet:
    """Return the figures of movement, NPSS and kinetic FID.

    Args:
        columns: ``[N]`` columns of `MOVING` and, in ``npss_moved`` and ``npss_power``, of `npss_columns`; ``[N, F]``
            kinetic features in ``kinetic``.
        real: ``[M, F]`` kinetic features of reference motions.
    """
    sheet = Sheet()
    for name in MOVING:
        known = columns[name][columns[name].isfinite()]
        if len(known):
            sheet.values[name] = float(known.double().mean())
            if name == "movement" and len(known) < len(columns[name]):
                sheet.notes[name] = f"of {len(known)} of {len(columns[name])} motions"
        else:
            sheet.missing[name] = "no caption names a limb's side" if name == "side" else _UNMOVED
    power = columns["npss_power"].nansum()
    if float(power) > 0:
        sheet.values["npss"] = float(columns["npss_moved"].nansum() / power)
    else:
        sheet.missing["npss"] = "no prompt has a reference motion to compare with"
    generated, truth = (features[features.isfinite().all(1)] for features in (columns["kinetic"], real))
    few, width = min(len(generated), len(truth)), generated.shape[1]
    if few <= width:
        sheet.missing["kinetic_fid"] = f"a covariance of width {width} needs more than {width} motions, there are {few}"
    else:
        sheet.values["kinetic_fid"] = kinetic_fid(generated, truth)
        if few < _ENOUGH * width:
            sheet.notes["kinetic_fid"] = f"{BIASED} ({few} motions, width {width})"
    return sheet


def require_finite(embeddings: Tensor, what: str) -> Tensor:
    """Return `embeddings`; raise if one is not finite."""
    bad = int((~torch.isfinite(embeddings).all(-1)).sum())
    if bad:
        raise MotionkitError(
            f"{bad} of {embeddings.shape[:-1].numel()} {what} motions have no finite embedding.",
            why="the motions hold NaN or infinity, so that no figure can be computed.",
            fix="look at the training run: alarms, gradient norm, precision.",
            code=1,
        )
    return embeddings
