"""Two rewards for any network with a joint space of texts and motions: whole motion, and segment by segment."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import ClassVar, Generic, Protocol, Self, TypeVar

import torch
from torch import Tensor

from motionkit.encoders._crops import Crop, CropLatents
from motionkit.motion import MotionBatch, Skeleton
from motionkit.rewards._matching import JointSpaceOptions, ScoreOptions, SegmentOptions
from motionkit.rewards._matching._formulas import Similarity, dense_terms, matching_score
from motionkit.rewards._matching._segments import segment_crops, whole_crops
from motionkit.rewards.base import RewardScores
from motionkit.text import Prompt, proof

_PLACES = ("weights", "text_encoder", "motion_encoder", "motion_decoder", "stats", "glove")
"""Options that name files of a network."""


class JointSpace(Protocol):
    """A network that maps texts and motions to one space of D dimensions; a `torch.nn.Module`."""

    def to(self, device: torch.device | str, /) -> Self: ...

    def eval(self) -> Self: ...

    def requires_grad_(self, requires_grad: bool = True) -> Self: ...

    def check_width(self, features: Tensor) -> None:
        """Refuse features that it cannot read."""
        ...

    def encode_crops(self, features: Tensor, crops: Sequence[Crop], *, clamp: float = 0.0) -> CropLatents:
        """Encode crops of ``[N, T, F]`` unnormalised features."""
        ...

    def encode_texts(self, texts: Sequence[str]) -> Tensor:
        """Return ``[N, D]``."""
        ...

    def whole_text(self, prompt: Prompt) -> str:
        """Return the text of a whole prompt."""
        ...


_Any = TypeVar("_Any", bound=JointSpaceOptions)


class JointSpaceReward(Generic[_Any]):
    """Options and network of a reward.

    Args:
        options: Settings of the reward.
        dataset: Its body must have the features that the network reads; otherwise not needed.
        device: Where to score.
        space: A network to use instead of the one the options name.
    """

    name = ""
    open_space: ClassVar[Callable[..., JointSpace]]
    """Opens the network that options name: ``open_space(options, dataset, device)``."""

    def __init__(
        self,
        options: _Any,
        *,
        dataset: object = None,
        device: torch.device | str = "cpu",
        space: JointSpace | None = None,
    ) -> None:
        self.options = options
        self.space = (space or self.open_space(options, dataset, device)).to(device).eval().requires_grad_(False)
        if isinstance(skeleton := getattr(dataset, "skeleton", None), Skeleton):
            # Before a run exists rather than at its first score.
            self.space.check_width(torch.empty(0, skeleton.width))

    @property
    def inputs(self) -> dict[str, str]:
        """What was found at the places that options name: by option, a fingerprint that is the same anywhere."""
        model, mark = getattr(self.space, "text_model", None), getattr(self.space, "fingerprint", None)
        text = proof(model.fingerprint) if model is not None else ""
        found = {"text_model": text} if text else {}
        if mark is not None:  # of all places together: where single files are named, there is no folder
            places = [name for name in _PLACES if getattr(self.options, name, None)]
            places = [name for name in places if name != "weights" or "motion_encoder" not in places]
            found |= dict.fromkeys(places, mark())
        return found

    def whole(self, motions: MotionBatch, prompts: Sequence[Prompt]) -> tuple[CropLatents, Tensor]:
        """Encode N whole motions, and their whole texts as ``[N, D]``."""
        crops = whole_crops(motions.lengths.tolist())
        latents = self.space.encode_crops(motions.features, crops, clamp=self.options.clamp)
        return latents, self.space.encode_texts([self.space.whole_text(prompt) for prompt in prompts])


_Options = TypeVar("_Options", bound=ScoreOptions)


class _ScoredReward(JointSpaceReward[_Options]):
    """Similarity, range and bounds."""

    def __repr__(self) -> str:
        given = self.options.model_dump(mode="json", exclude_defaults=True)
        return f"{type(self).__name__}({', '.join(f'{name}={value!r}' for name, value in given.items())})"

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
        """Score N motions in one pass; see `motionkit.rewards.base.Reward`."""
        motion, text = self.whole(motions, prompts)
        return RewardScores(unscored(self.matching(motion, text), motion), parts={"clamped": motion.clamped})

    def matching(self, motion: CropLatents, text: Tensor) -> Tensor:
        """Score latents, ``[N]`` between the two `bounds`."""
        return self._unit(matching_score(motion.mu, text, self.similarity))


def unscored(values: Tensor, motion: CropLatents) -> Tensor:
    """Return ``[N]`` values with NaN for motions that could not be encoded."""
    return torch.where(motion.finite, values, values.new_full((), torch.nan))


_Segment = TypeVar("_Segment", bound=SegmentOptions)


class DenseReward(_ScoredReward[_Segment]):
    """Mean over segments of ``s(m_k, t_k) - alpha max_{j != k} relu(s(m_k, t_j) - s(t_k, t_j))``."""

    def _raw_bounds(self) -> tuple[float, float]:
        lowest, highest = super()._raw_bounds()
        return lowest - self.options.alpha * (highest - lowest), highest

    def score(self, motions: MotionBatch, prompts: Sequence[Prompt]) -> RewardScores:
        """Score all segments of N motions in one pass; see `motionkit.rewards.base.Reward`."""
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
        nan = raw.new_full((), torch.nan)
        segments = torch.where(finite[:, None], torch.where(valid, raw, raw.new_zeros(())), nan)
        parts = {"positive": terms.positive, "negative": terms.negative, "correct": terms.correct}
        return RewardScores(
            segments.sum(1) / count,
            segments=segments,
            parts={name: torch.where(finite, value.sum(1) / count, nan) for name, value in parts.items()}
            | {"clamped": spread(crops.clamped).sum(1) / count},
        )
