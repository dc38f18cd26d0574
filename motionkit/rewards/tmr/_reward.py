"""The three TMR rewards."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Generic, TypeVar

import torch
from torch import Tensor

from motionkit.encoders.tmr import TMR
from motionkit.motion import MotionBatch, Skeleton
from motionkit.rewards.base import RewardScores
from motionkit.rewards.tmr import CosineOptions, DenseOptions, MatchingOptions, TmrOptions
from motionkit.rewards.tmr._formulas import dense_terms, matching_score
from motionkit.rewards.tmr._segments import segment_crops, whole_crops
from motionkit.rewards.tmr.opening import open_tmr
from motionkit.text import Prompt, proof

_Options = TypeVar("_Options", bound=TmrOptions)


class _TmrReward(Generic[_Options]):
    """Loading and range, shared by the three rewards.

    Args:
        options: Settings of the reward.
        dataset: Its body must have the features that the TMR reads; otherwise not needed.
        device: Where to score.
        tmr: A model to use instead of the one the options name.
    """

    name = ""

    def __init__(
        self,
        options: _Options,
        *,
        dataset: object = None,
        device: torch.device | str = "cpu",
        tmr: TMR | None = None,
    ) -> None:
        self.options = options
        self.tmr = (tmr or _open(options, device)).to(device).eval().requires_grad_(False)
        if isinstance(skeleton := getattr(dataset, "skeleton", None), Skeleton):
            # Before a run exists rather than at its first score.
            self.tmr.check_width(torch.empty(0, skeleton.width))

    @property
    def inputs(self) -> dict[str, str]:
        """What was found at the places that options name: by option, a fingerprint that is the same anywhere."""
        found = proof(self.tmr.text_model.fingerprint) if self.tmr.text_model is not None else ""
        return {"text_model": found} if found else {}

    @property
    def bounds(self) -> tuple[float, float]:
        """Lowest and highest total."""
        return self._interval(-1.0)

    def _interval(self, lowest: float) -> tuple[float, float]:
        return ((lowest + 1) / 2, 1.0) if self.options.range == "unit" else (lowest, 1.0)

    def _unit(self, raw: Tensor) -> Tensor:
        return (raw + 1) / 2 if self.options.range == "unit" else raw

    def _whole(self, motions: MotionBatch, prompts: Sequence[Prompt]) -> tuple[Tensor, Tensor, Tensor, Tensor]:
        crops = self.tmr.encode_crops(motions.features, whole_crops(motions.lengths.tolist()), clamp=self.options.clamp)
        return crops.mu, self.tmr.encode_texts([self.tmr.whole_text(p) for p in prompts]), crops.finite, crops.clamped


class TmrCosine(_TmrReward[CosineOptions]):
    """Cosine of the whole motion's and the whole text's latent."""

    name = "tmr-cosine"

    def score(self, motions: MotionBatch, prompts: Sequence[Prompt]) -> RewardScores:
        """Score N motions in one pass; see `motionkit.rewards.base.Reward`."""
        motion, text, finite, clamped = self._whole(motions, prompts)
        raw = dense_terms(motion[:, None], text[:, None], torch.ones_like(finite)[:, None]).positive[:, 0]
        total = self._unit(raw)
        return RewardScores(torch.where(finite, total, total.new_full((), torch.nan)), parts={"clamped": clamped})


class TmrMatching(_TmrReward[MatchingOptions]):
    """Cosine or euclidean matching score of the whole motion, with a choice of normalisations."""

    name = "tmr-matching"

    @property
    def bounds(self) -> tuple[float, float]:
        """Lowest and highest total."""
        return self._interval(-1.0) if self.options.similarity == "cosine" else (0.0, 1.0)

    def score(self, motions: MotionBatch, prompts: Sequence[Prompt]) -> RewardScores:
        """Score N motions in one pass; see `motionkit.rewards.base.Reward`."""
        motion, text, finite, clamped = self._whole(motions, prompts)
        o = self.options
        raw = matching_score(
            motion,
            text,
            similarity=o.similarity,
            normalization=o.normalization,
            max_distance=o.max_distance,
            scale=o.scale,
        )
        total = self._unit(raw) if o.similarity == "cosine" else raw
        return RewardScores(torch.where(finite, total, total.new_full((), torch.nan)), parts={"clamped": clamped})


class TmrDense(_TmrReward[DenseOptions]):
    """Mean over segments of ``cos(m_k, t_k) - alpha max_{j != k} relu(cos(m_k, t_j) - cos(t_k, t_j))``."""

    name = "tmr-dense"

    @property
    def bounds(self) -> tuple[float, float]:
        """Lowest and highest total."""
        return self._interval(-1.0 - 2.0 * self.options.alpha)

    def score(self, motions: MotionBatch, prompts: Sequence[Prompt]) -> RewardScores:
        """Score all segments of N motions in one pass; see `motionkit.rewards.base.Reward`."""
        rows = segment_crops(prompts, motions.lengths.tolist())
        most = max((len(row) for row in rows), default=1)
        slots = [index * most + k for index, row in enumerate(rows) for k in range(len(row))]
        crops = self.tmr.encode_crops(
            motions.features, [crop for row in rows for crop in row], clamp=self.options.clamp
        )
        texts = self.tmr.encode_texts([text for prompt in prompts for text in prompt.segments])
        place = torch.tensor(slots, dtype=torch.int64, device=crops.mu.device)

        def spread(values: Tensor) -> Tensor:
            flat = values.new_zeros(len(rows) * most, *values.shape[1:])
            return flat.index_copy(0, place, values).view(len(rows), most, *values.shape[1:])

        valid = spread(torch.ones_like(crops.finite))
        finite = (spread(crops.finite) | ~valid).all(1)
        count = valid.sum(1).clamp(min=1)
        terms = dense_terms(spread(crops.mu), spread(texts), valid)
        raw = self._unit(terms.positive - self.options.alpha * terms.negative)
        nan = raw.new_full((), torch.nan)
        segments = torch.where(finite[:, None], torch.where(valid, raw, raw.new_zeros(())), nan)
        parts = {"positive": terms.positive, "negative": terms.negative, "correct": terms.correct}
        return RewardScores(
            segments.sum(1) / count,
            segments=segments,
            parts={name: torch.where(finite, value.sum(1) / count, nan) for name, value in parts.items()}
            | {"clamped": spread(crops.clamped).sum(1) / count},
        )


def _open(options: TmrOptions, device: torch.device | str) -> TMR:
    return open_tmr(
        options.weights,
        text_encoder=options.text_encoder,
        motion_encoder=options.motion_encoder,
        motion_decoder=options.motion_decoder,
        heads=options.heads,
        stats=options.stats,
        text_model=options.text_model,
        device=device,
    )
