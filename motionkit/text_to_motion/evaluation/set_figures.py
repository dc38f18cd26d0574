"""Figures that a set of motions has as a whole: kinetic FID, NPSS and the kernel distance, before and after.

Their intervals resample prompts.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from motionkit.metrics import KernelDistance, KineticReference, body_positions, kinetic_features, npss_rows
from motionkit.metrics.paired import RESAMPLES, Paired
from motionkit.motion import MotionBatch
from motionkit.text import Prompt
from motionkit.text_to_motion.data.real_actions import segments_of
from motionkit.text_to_motion.evaluation.real_motions import RealMotions

_RESAMPLES = 200  # of distances between sets, whose every resample takes a covariance or a mean over pairs
Floats = NDArray[np.floating[Any]]
Arrays = dict[str, NDArray[np.float32]]


def set_columns(motions: MotionBatch, prompts: Sequence[Prompt], real: RealMotions, most: int) -> dict[str, Tensor]:
    """Return what kinetic FID and NPSS are made of, by segment.

    Args:
        motions: N motions.
        prompts: What each of them was asked for.
        real: Reference motions of the prompts' split.
        most: Most segments of a prompt, K.

    Returns:
        ``kinetic`` ``[N, K, F]`` (`motionkit.metrics.kinetic_features`; NaN past a prompt's last segment) and
        ``npss`` ``[N, 2]``, the sums of `motionkit.metrics.npss_terms` over the segments whose own reference clip is
        known and as long; NaN if none is.
    """
    parts = segments_of(motions, prompts)
    place = [number for prompt in prompts for number in range(len(prompt.segments))]
    features = kinetic_features(parts.joints, parts.lengths, motions.fps)
    kinetic = features.new_full((len(prompts), most, features.shape[1]), torch.nan)
    kinetic[parts.owner, torch.tensor(place, device=parts.owner.device)] = features
    body = body_positions(parts.joints, parts.headings).flatten(2)
    made = [body[row, :length] for row, length in enumerate(parts.lengths.tolist())]
    terms = torch.stack(npss_rows(made, real.own_bodies(prompts)), dim=-1)
    known = terms.isfinite().all(-1)
    npss = terms.new_zeros(len(prompts), 2).index_add(0, parts.owner[known], terms[known])
    count = terms.new_zeros(len(prompts)).index_add(0, parts.owner, known.to(terms))
    return {"kinetic": kinetic, "npss": torch.where(count[:, None] > 0, npss, torch.nan)}  # float32: exact in files


@dataclass(frozen=True)
class SetFigure:
    """One figure of two sets of motions of the same prompts."""

    paired: Paired  # before and after; the interval resamples prompts
    real: float | None = None  # the figure of as many reference motions; None if it says nothing


def compare_sets(before: Arrays, after: Arrays, prompts: Sequence[Prompt], real: RealMotions) -> dict[str, SetFigure]:
    """Return kinetic FID and NPSS of the motions of P prompts, S samples each.

    Kinetic FID is taken of segments, against the clips of the split. The figure of the reference is that
    of as many segments of reference clips of the same actions, so that all three have the same bias.

    Args:
        before: Of the policy as it started: ``kinetic`` ``[P, S, K, F]`` and ``npss`` ``[P, S, 2]``.
        after: The same of the trained policy.
        prompts: P prompts.
        real: Reference motions of the prompts' split.

    Returns:
        ``kinetic_fid`` where there are more segments, and more clips, than features; ``npss`` where a prompt has a
        reference motion of its own.
    """
    result = {}
    if "kinetic" in before and "kinetic" in after:
        rows = [of["kinetic"].reshape(len(prompts), -1, of["kinetic"].shape[-1]) for of in (before, after)]
        clips, answers = real.kinetic(), real.kinetic(prompts, after["kinetic"].shape[1])
        if (paired := pair_kinetic_fid(rows[0], rows[1], clips)) is not None:
            enough = len(answers) > clips.shape[1]
            result["kinetic_fid"] = SetFigure(paired, KineticReference(clips).distance(answers) if enough else None)
    if "npss" in before and "npss" in after and (paired := pair_npss(before["npss"], after["npss"])) is not None:
        result["npss"] = SetFigure(paired)
    return result


def pair_kinetic_fid(before: Floats, after: Floats, clips: Tensor) -> Paired | None:
    """Return kinetic FID of two sets of motions of the same P prompts.

    Args:
        before: ``[P, K, F]`` kinetic features of K motions or segments of each prompt; NaN if there are fewer.
        after: The same of other motions.
        clips: ``[M, F]`` kinetic features of reference clips.

    Returns:
        The pair, whose interval resamples prompts; None if there are no more motions, or clips, than features.
    """
    first, second = torch.from_numpy(before), torch.from_numpy(after)
    known = first.isfinite().all(-1) & second.isfinite().all(-1)  # [P, K]
    if min(int(known.sum()), len(clips)) <= first.shape[-1]:
        return None
    reference, count = KineticReference(clips), len(first)

    def both(rows: Tensor) -> tuple[float, float]:
        return reference.distance(first[rows][known[rows]]), reference.distance(second[rows][known[rows]])

    return pair_distances(both, count, int(known.any(1).sum()))


def pair_kid(before: Floats, after: Floats, clips: Tensor) -> Paired:
    """Return the kernel distance (`motionkit.metrics.kid`) of two sets of motions of the same P prompts.

    Args:
        before: ``[P, K, E]`` embeddings of K motions or segments of each prompt; NaN if there are fewer.
        after: The same of other motions.
        clips: ``[M, E]`` embeddings of reference clips.
    """
    first, second = torch.from_numpy(before), torch.from_numpy(after)
    known = first.isfinite().all(-1) & second.isfinite().all(-1)  # [P, K]
    owner = known.nonzero()[:, 0]
    distances = [KernelDistance(rows[known], clips.cpu()) for rows in (first, second)]

    def both(rows: Tensor) -> tuple[float, float]:
        counts = torch.bincount(rows, minlength=len(first))[owner]
        return distances[0].of(counts), distances[1].of(counts)

    return pair_distances(both, len(first), int(known.any(1).sum()))


def pair_distances(both: Callable[[Tensor], tuple[float, float]], count: int, n: int) -> Paired:
    """Pair a distance of two sets of motions of the same prompts, such as FID; the interval resamples prompts.

    Args:
        both: Returns the distances of both sets, of the prompts ``[R]`` that are named; some may be named twice.
        count: Number of prompts.
        n: Number of them that count.
    """
    whole = both(torch.arange(count))
    rng = np.random.default_rng(0)
    draws = [both(torch.from_numpy(rng.integers(0, count, count))) for _ in range(_RESAMPLES)]
    spread = np.array([second - first for first, second in draws])
    delta = whole[1] - whole[0]
    # Repeated prompts bias both distances alike; what is left of it is taken off.
    low, high = np.quantile(spread - np.median(spread) + delta, [0.025, 0.975])
    return Paired(whole[0], whole[1], delta, (float(low), float(high)), n)


def pair_npss(before: Floats, after: Floats) -> Paired | None:
    """Return NPSS of two sets of motions of the same P prompts.

    Args:
        before: ``[P, S, 2]`` sums of `motionkit.metrics.npss_terms` of S motions of each prompt; NaN without a truth.
        after: The same of other motions.

    Returns:
        The pair, whose interval resamples prompts; None if no prompt has a truth.
    """
    known: NDArray[np.bool_] = np.logical_and.reduce(np.isfinite(before) & np.isfinite(after), axis=-1)  # [P, S]
    rows: NDArray[np.bool_] = np.logical_or.reduce(known, axis=1)
    one, two = (np.where(known[..., None], of.astype(np.float64), 0.0).sum(1)[rows] for of in (before, after))  # [P, 2]
    if not len(one) or not (one[:, 1].sum() > 0 and two[:, 1].sum() > 0):
        return None
    draws = np.random.default_rng(0).integers(0, len(one), size=(RESAMPLES, len(one)))
    sums = [of[draws].sum(1) for of in (one, two)]
    with np.errstate(invalid="ignore", divide="ignore"):
        spread = sums[1][:, 0] / sums[1][:, 1] - sums[0][:, 0] / sums[0][:, 1]
    low, high = np.nanquantile(spread, [0.025, 0.975])
    first, second = (float(of[:, 0].sum() / of[:, 1].sum()) for of in (one, two))
    return Paired(first, second, second - first, (float(low), float(high)), len(one))
