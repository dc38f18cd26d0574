"""The protocol of rewards, the records that they score, and their scores."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, fields, replace
from typing import Any, Protocol

import torch
from torch import Tensor

from motionkit.motion import MotionBatch
from motionkit.text import Prompt


class Record(Protocol):
    """N samples of one type, which a reward scores.

    The word in ``Component(reads=...)`` chooses the class: ``motion`` is `motionkit.motion.MotionBatch`, ``image`` is
    `FrameBatch`, ``mask`` is `MaskBatch`, ``text`` is `TextBatch`, ``step`` is `StepBatch`.
    """

    def __len__(self) -> int: ...

    @property
    def device(self) -> torch.device:
        """Device of the scores."""
        ...


@dataclass(frozen=True, eq=False)
class FrameBatch:
    """N image sequences, such as camera frames of an episode.

    Example:
        >>> batch = FrameBatch(torch.zeros(2, 5, 8, 8, 3, dtype=torch.uint8), torch.tensor([5, 3]))
        >>> len(batch), batch.mask.sum().item()
        (2, 8)
    """

    frames: Tensor  # [N, T, H, W, 3] uint8 RGB; frames past a sample's length may hold anything
    lengths: Tensor  # [N] int64, frames of each sample, on the device of `frames`

    def __len__(self) -> int:
        return self.frames.shape[0]

    @property
    def device(self) -> torch.device:
        """Device of the frames."""
        return self.frames.device

    @property
    def mask(self) -> Tensor:
        """``[N, T]`` bool, True = valid."""
        return torch.arange(self.frames.shape[1], device=self.device) < self.lengths[:, None]


@dataclass(frozen=True, eq=False)
class MaskBatch:
    """N predicted regions with their references.

    Example:
        >>> batch = MaskBatch(torch.ones(2, 4, 4, dtype=torch.bool), torch.ones(2, 4, 4, dtype=torch.bool))
        >>> (batch.masks & batch.references).sum((1, 2)).tolist()
        [16, 16]
    """

    masks: Tensor  # [N, H, W] bool, True inside the predicted region
    references: Tensor  # [N, H, W] bool, the true regions
    confidence: Tensor | None = None  # [N] the model's confidence in each mask, from 0 to 1; None if it gives none
    # [N, K, H, W] bool, the other objects of each image, padded with empty masks; None if the data do not have them.
    others: Tensor | None = None

    def __len__(self) -> int:
        return self.masks.shape[0]

    @property
    def device(self) -> torch.device:
        """Device of the masks."""
        return self.masks.device


@dataclass(frozen=True, eq=False)
class StepBatch:
    """N steps of an environment."""

    rewards: Tensor  # [N] float32, the environment's reward of each step
    success: Tensor  # [N] bool, whether the task is fulfilled after the step

    def __len__(self) -> int:
        return self.rewards.shape[0]

    @property
    def device(self) -> torch.device:
        """Device of the rewards."""
        return self.rewards.device


@dataclass(frozen=True)
class TextBatch:
    """N written texts with their references.

    Example:
        >>> len(TextBatch(["a red ball"], [["the ball", "a red ball"]]))
        1
    """

    texts: Sequence[str]  # one text per sample; may be empty
    references: Sequence[Sequence[str]]  # at least one reference text per sample
    device: torch.device = field(default_factory=lambda: torch.device("cpu"))  # device of the scores
    ended: Sequence[bool] | None = None  # whether each text is complete, not cut off; None if unknown

    def __len__(self) -> int:
        return len(self.texts)


@dataclass(frozen=True)
class RewardScores:
    """Scores of N samples.

    Example:
        >>> RewardScores(torch.tensor([0.5, 1.0])).segments is None
        True
    """

    total: Tensor  # [N] float32; NaN marks a sample that cannot be scored, and does not affect others
    # [N, K] per-segment scores whose mean over a sample's segments is `total` (0 past its last segment), or None if the
    # reward has no segments.
    segments: Tensor | None = None
    # Named [N] tensors worth logging, such as ``positive`` and ``negative``.
    parts: Mapping[str, Tensor] = field(default_factory=dict)
    # [N] bool, False for samples that the reward does not apply to, such as a reward of running and a prompt of sitting
    # down; None if it applies to all. Such a sample gets nothing from this reward, whatever `total` and `segments` hold
    # there, and keeps the scores of other rewards. NaN remains a fault of the sample.
    applies: Tensor | None = None

    @property
    def applying(self) -> Tensor:
        """``[N]`` bool, True where the reward applies."""
        return torch.ones_like(self.total, dtype=torch.bool) if self.applies is None else self.applies


class Reward(Protocol):
    """Scores a batch of samples against their prompts.

    A reward has `name` and `score`; what else is here has a default. One that waits, for a server or another process,
    may be written ``async def score``: it runs concurrently with the other rewards of the mix, without a graph.

    Attributes:
        name: Name in metrics: ``reward/<name>/mean``.
        threads: Parallel calls that the samples are divided among, for a reward that is slow without being
            asynchronous: `score` must not depend on the rest of the batch, and is called without a graph.
        features: Body whose features or joints it reads, such as ``humanml`` or ``kit``; None for joints of any body.
            Motions of another body are brought to ``humanml`` for it if they have the joints, and refused if not.
        reads_captions: Whether it compares with the captions of the data, as far as it is one of regions.
    """

    name: str
    threads: int = 1
    features: str | None = None
    reads_captions: bool = True

    @property
    def bounds(self) -> tuple[float, float] | None:
        """Lowest and highest total, if its range is limited: a run whose reward stays at one end warns."""
        return None

    @property
    def inputs(self) -> Mapping[str, str] | None:
        """Fingerprints of its files by the option that names them, so that a run can be resumed after a file moved."""
        return None

    @property
    def rows(self) -> tuple[str, ...]:
        """Measured quantities that it consists of, such as ``("skate", "jerk")``: their rows say so in the tables."""
        return ()

    @abstractmethod  # Any: each reward takes the one class of `Record` that its component reads.
    def score(self, samples: Any, prompts: Sequence[Prompt], /) -> RewardScores:
        """Score N samples in one pass.

        A reward without any finite score stops a run in its first step; later it is left out of the step.

        Args:
            samples: The record that the component reads: a `motionkit.motion.MotionBatch` for most rewards.
            prompts: ``prompts[i]`` belongs to sample i and may repeat.
        """
        ...


def rows(record: Any, index: Sequence[int]) -> Any:
    """Return the samples at `index`, as copies."""
    if isinstance(record, MotionBatch):
        return _motions(record, record.features[list(index)], record.lengths[list(index)])
    return replace(record, **{name: _take(value, index) for name, value in contents(record).items()})


def moved(record: Any, device: torch.device) -> Any:
    """Return the samples on `device`, with their graph; the record itself if it is there already."""
    if record.device == device:
        return record
    if isinstance(record, MotionBatch):
        return _motions(record, record.features.to(device), record.lengths.to(device))
    tensors = {name: value.to(device) for name, value in contents(record).items() if isinstance(value, Tensor)}
    extra = {"device": device} if "device" in {item.name for item in fields(record)} else {}
    return replace(record, **tensors, **extra)


def contents(record: Any) -> dict[str, Any]:
    """Return the tensors and lists of a record by name; optional ones that are None are left out."""
    if isinstance(record, MotionBatch):
        return {"features": record.features, "lengths": record.lengths}
    result = {item.name: getattr(record, item.name) for item in fields(record)}
    return {name: value for name, value in result.items() if name != "device" and value is not None}


def _motions(record: MotionBatch, features: Tensor, lengths: Tensor) -> MotionBatch:
    return MotionBatch(features, lengths, skeleton=record.skeleton, fps=record.fps)


def _take(value: Any, index: Sequence[int]) -> Any:
    return value[list(index)] if isinstance(value, Tensor) else [value[i] for i in index]
