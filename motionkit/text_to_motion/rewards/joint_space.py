"""Rewards by a network with a joint space of texts and motions: whole motion, and segment by segment."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import ClassVar, Generic, Literal, NamedTuple, TypeVar

import torch
from torch import Tensor
from torch.nn import functional

from motionkit.contracts.dataset import TextMotionDataset
from motionkit.contracts.reward import Reward, RewardScores
from motionkit.motion import HUMANML, KIT, MotionBatch
from motionkit.text import Prompt, proof
from motionkit.text_to_motion.crops import Crop, CropLatents, JointSpace
from motionkit.text_to_motion.rewards.ask import Elsewhere
from motionkit.text_to_motion.rewards.components import (
    CosineOptions,
    DenseOptions,
    JointSpaceOptions,
    MatchingOptions,
    ScoreOptions,
    SegmentOptions,
    TmrOptions,
)
from motionkit.text_to_motion.tmr.files import open_tmr
from motionkit.text_to_motion.tmr.model import TMR

_SMALLEST = 1e-24  # squared distance below which the gradient is 0: that of the root is unbounded there
_PATHS = ("weights", "text_encoder", "motion_encoder", "motion_decoder", "stats", "glove")
"""Options that name files of a network."""


@dataclass(frozen=True)
class Similarity:
    """Score of two latents."""

    kind: Literal["cosine", "euclidean"] = "cosine"  # ``cosine``, or ``euclidean`` distance d
    # Score of d: ``linear`` ``1 - min(d / max_distance, 1)``, ``exponential`` ``exp(-d / scale)`` or ``sigmoid``
    # ``1 / (1 + exp(d / scale))``.
    normalization: Literal["linear", "exponential", "sigmoid"] = "linear"
    max_distance: float = 10.0  # distance that scores 0
    scale: float = 2.0  # length scale

    @classmethod
    def of(cls, options: ScoreOptions) -> Similarity:
        """Read the options of a reward."""
        return cls(options.similarity, options.normalization, options.max_distance, options.scale)

    @property
    def lowest(self) -> float:
        """Lowest score."""
        return -1.0 if self.kind == "cosine" else 0.0

    @property
    def highest(self) -> float:
        """Highest score, that of two equal latents."""
        return 0.5 if self.kind == "euclidean" and self.normalization == "sigmoid" else 1.0

    def prepare(self, latents: Tensor) -> Tensor:
        """Return latents ``[..., D]`` for `paired` and `crossed`."""
        return functional.normalize(latents, dim=-1) if self.kind == "cosine" else latents

    def paired(self, first: Tensor, second: Tensor) -> Tensor:
        """Compare ``[..., D]`` with ``[..., D]``: the cosine, or minus the distance, ``[...]``."""
        return (first * second).sum(-1) if self.kind == "cosine" else -_distance(first - second)

    def crossed(self, first: Tensor, second: Tensor) -> Tensor:
        """Compare each of ``[N, K, D]`` with each of ``[N, K, D]``, ``[N, K, K]``."""
        if self.kind == "cosine":
            return first @ second.transpose(1, 2)
        return -_distance(first[:, :, None] - second[:, None])

    def score(self, closeness: Tensor) -> Tensor:
        """Turn results of `paired` or `crossed` into scores between `lowest` and `highest`."""
        if self.kind == "cosine":
            return closeness
        if self.normalization == "linear":
            return 1.0 - (-closeness / self.max_distance).clamp(0.0, 1.0)
        scaled = closeness / self.scale
        return scaled.exp() if self.normalization == "exponential" else scaled.sigmoid()


class DenseTerms(NamedTuple):
    """Per-segment terms, each ``[N, K]``; entries of missing segments are 0."""

    positive: Tensor
    negative: Tensor
    correct: Tensor


def dense_terms(motion: Tensor, text: Tensor, valid: Tensor, similarity: Similarity) -> DenseTerms:
    """Compare every segment of a motion with every text of its prompt.

    With ``S[k,j] = s(m_k, t_j)`` and ``B[k,j] = s(t_k, t_j)``: positive is ``S[k,k]``, negative is
    ``max_{j != k} relu(S[k,j] - B[k,j])``, the largest excess of a wrong text's score over that of the two texts;
    correct is 1 if no wrong text is closer than the segment's text.

    Args:
        motion: ``[N, K, D]`` latents of the segments.
        text: ``[N, K, D]`` latents of the texts.
        valid: ``[N, K]`` bool, the segments of each prompt.
        similarity: The score s.
    """
    m, t = similarity.prepare(motion), similarity.prepare(text)
    same = torch.eye(valid.shape[1], dtype=torch.bool, device=valid.device)
    near = similarity.paired(m, t)
    # The batched product differs from the sum above in the last bit, so it is used for the wrong pairs alone.
    wrong = valid[:, :, None] & valid[:, None, :] & ~same
    cross, shared = similarity.crossed(m, t), similarity.crossed(t, t)
    excess = (similarity.score(cross) - similarity.score(shared)).relu()
    negative = torch.where(wrong, excess, 0.0).amax(-1)
    rival = torch.where(wrong, cross, -torch.inf).amax(-1)
    positive = torch.where(valid, similarity.score(near), 0.0)
    return DenseTerms(positive, negative, (valid & (near >= rival)).to(cross.dtype))


def matching_score(motion: Tensor, text: Tensor, similarity: Similarity) -> Tensor:
    """Score ``[N, D]`` motion latents against ``[N, D]`` text latents, ``[N]``."""
    return similarity.score(similarity.paired(similarity.prepare(motion), similarity.prepare(text)))


def _distance(difference: Tensor) -> Tensor:
    return difference.square().sum(-1).clamp(min=_SMALLEST).sqrt()


def segment_crops(prompts: Sequence[Prompt], lengths: Sequence[int]) -> list[list[Crop]]:
    """Cut N motions at the bounds of their prompts.

    Bounds are clipped to the motion; the last segment is extended to its end. A segment that starts at or after the
    end has length 0.
    """
    crops = []
    for row, (prompt, length) in enumerate(zip(prompts, lengths, strict=True)):
        bounds = [(min(start, length), min(end, length)) for start, end in prompt.bounds]
        bounds[-1] = (bounds[-1][0], length)
        crops.append([Crop(row, start, end - start) for start, end in bounds])
    return crops


_Any = TypeVar("_Any", bound=JointSpaceOptions)


class JointSpaceReward(Reward, Generic[_Any]):
    """Options and network of a reward."""

    name = ""
    open_space: ClassVar[Callable[..., JointSpace]]
    """Opens the network that options name: ``open_space(options, dataset, device)``."""

    def __init__(
        self,
        options: _Any,  # settings of the reward
        *,
        dataset: TextMotionDataset | None = None,  # to check that the network reads its features
        device: torch.device | str = "cpu",
        space: JointSpace | None = None,  # the network, in place of the one that options name
    ) -> None:
        self.options = options
        self.space = (space or self.open_space(options, dataset, device)).to(device).eval().requires_grad_(False)
        self.features = {body.width: body.name for body in (HUMANML, KIT)}.get(len(self.space.mean))
        if dataset is not None:
            self.space.check_width(torch.empty(0, dataset.skeleton.width))

    @property
    def inputs(self) -> dict[str, str]:
        """Fingerprints of the files that options name, by option."""
        text = "" if self.space.text_model is None else proof(self.space.text_model.fingerprint)
        given = self.options.model_dump(include=set(_PATHS), exclude_none=True)
        names = [name for name in _PATHS if given.get(name)]
        names = [name for name in names if name != "weights" or "motion_encoder" not in names]
        # One mark of all files together; `weights` is ignored if single files are named.
        return ({"text_model": text} if text else {}) | dict.fromkeys(names, self.space.fingerprint())

    def whole(self, motions: MotionBatch, prompts: Sequence[Prompt]) -> tuple[CropLatents, Tensor]:
        """Encode N whole motions, and their whole texts as ``[N, D]``."""
        crops = [Crop(row, 0, length) for row, length in enumerate(motions.lengths.tolist())]
        latents = self.space.encode_crops(motions.features, crops, clamp=self.options.clamp)
        return latents, self.space.encode_texts([self.space.whole_text(prompt) for prompt in prompts])


def space_of(reward: Reward | None) -> JointSpace | None:
    """Return the network that a reward scores by; None if it is no reward of a joint space."""
    if isinstance(reward, Elsewhere):
        reward = reward.inner
    return reward.space if isinstance(reward, JointSpaceReward) else None


_Options = TypeVar("_Options", bound=ScoreOptions)


class _ScoredReward(JointSpaceReward[_Options]):
    """Similarity, range and bounds."""

    def __repr__(self) -> str:
        options = self.options.model_dump(mode="json", exclude_defaults=True)
        return f"{type(self).__name__}({', '.join(f'{name}={value!r}' for name, value in options.items())})"

    @property
    def similarity(self) -> Similarity:
        """How latents are compared."""
        return Similarity.of(self.options)

    @property
    def bounds(self) -> tuple[float, float]:
        """Lowest and highest total."""
        lowest, highest = self._raw_bounds()
        return ((lowest + 1) / 2, (highest + 1) / 2) if self._halved else (lowest, highest)

    def _raw_bounds(self) -> tuple[float, float]:
        return self.similarity.lowest, self.similarity.highest

    @property
    def _halved(self) -> bool:
        return self.options.similarity == "cosine" and self.options.range == "unit"

    def _unit(self, raw: Tensor) -> Tensor:
        return (raw + 1) / 2 if self._halved else raw


class MatchingReward(_ScoredReward[_Options]):
    """Score of the whole motion against the whole text."""

    def score(self, motions: MotionBatch, prompts: Sequence[Prompt]) -> RewardScores:
        """Score N motions in one pass; see `motionkit.contracts.reward.Reward`."""
        motion, text = self.whole(motions, prompts)
        return RewardScores(unscored(self.matching(motion, text), motion), parts={"clamped": motion.clamped})

    def matching(self, motion: CropLatents, text: Tensor) -> Tensor:
        """Score latents, ``[N]`` between the two `bounds`."""
        return self._unit(matching_score(motion.mu, text, self.similarity))


def unscored(values: Tensor, motion: CropLatents) -> Tensor:
    """Return ``[N]`` values with NaN for motions that could not be encoded."""
    return torch.where(motion.finite, values, torch.nan)


_Segment = TypeVar("_Segment", bound=SegmentOptions)


class DenseReward(_ScoredReward[_Segment]):
    """Mean over segments of ``s(m_k, t_k) - alpha max_{j != k} relu(s(m_k, t_j) - s(t_k, t_j))``."""

    def _raw_bounds(self) -> tuple[float, float]:
        lowest, highest = super()._raw_bounds()
        return lowest - self.options.alpha * (highest - lowest), highest

    def score(self, motions: MotionBatch, prompts: Sequence[Prompt]) -> RewardScores:
        """Score all segments of N motions in one pass; see `motionkit.contracts.reward.Reward`."""
        rows = segment_crops(prompts, motions.lengths.tolist())
        most = max((len(row) for row in rows), default=1)
        slots = [index * most + k for index, row in enumerate(rows) for k in range(len(row))]
        flat = [crop for row in rows for crop in row]
        crops = self.space.encode_crops(motions.features, flat, clamp=self.options.clamp)
        texts = self.space.encode_texts([text for prompt in prompts for text in prompt.segments])
        place = torch.tensor(slots, dtype=torch.int64, device=crops.mu.device)

        def spread(values: Tensor) -> Tensor:
            flat = values.new_zeros(len(rows) * most, *values.shape[1:])
            return flat.index_copy(0, place, values).view(len(rows), most, *values.shape[1:])

        valid = spread(torch.ones_like(crops.finite))
        finite = (spread(crops.finite) | ~valid).all(1)
        count = valid.sum(1).clamp(min=1)
        terms = dense_terms(spread(crops.mu), spread(texts), valid, self.similarity)
        raw = self._unit(terms.positive - self.options.alpha * terms.negative)
        segments = torch.where(finite[:, None], torch.where(valid, raw, 0.0), torch.nan)
        parts = {"positive": terms.positive, "negative": terms.negative, "correct": terms.correct}
        return RewardScores(
            segments.sum(1) / count,
            segments=segments,
            parts={name: torch.where(finite, value.sum(1) / count, torch.nan) for name, value in parts.items()}
            | {"clamped": spread(crops.clamped).sum(1) / count},
        )


def _open(options: TmrOptions, dataset: TextMotionDataset | None, device: torch.device | str) -> TMR:
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


class TmrCosine(MatchingReward[CosineOptions]):
    """Cosine of the whole motion's and the whole text's latent."""

    name = "tmr-cosine"
    open_space = staticmethod(_open)


class TmrMatching(MatchingReward[MatchingOptions]):
    """Cosine or euclidean matching score of the whole motion, with a choice of normalisations."""

    name = "tmr-matching"
    open_space = staticmethod(_open)


class TmrDense(DenseReward[DenseOptions]):
    """Score per segment, minus the confusion with the prompt's other texts."""

    name = "tmr-dense"
    open_space = staticmethod(_open)
