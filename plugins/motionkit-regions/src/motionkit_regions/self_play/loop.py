"""The protocol of a loop of self-play, for plugins of the group ``motionkit.loops``.

A loop samples an action for each region, lets a partner close the loop, and gives the result to the rewards.
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Protocol

from torch import Tensor

from motionkit.contracts.reward import MaskBatch, TextBatch
from motionkit.rl import RowNoise
from motionkit_regions.evaluation.measure import Task, Weights


@dataclass(frozen=True)
class Turn:
    """Inputs of a loop besides its task."""

    partner: Weights  # weights of the partner, who closes the loop
    start: Weights  # weights of the policy as it started, which the KL is measured to
    noise: RowNoise  # random numbers, a row for each sample
    temperature: float = 1.0  # of sampled captions
    measured: Mapping[str, float] = field(default_factory=dict)  # result of `Loop.measure`


@dataclass(frozen=True)
class Made:
    """Results of a loop for N samples, for the rewards."""

    masks: MaskBatch  # masks with the wanted ones
    texts: TextBatch  # texts with the wanted ones


@dataclass(frozen=True)
class Terms:
    """Log-ratios of N samples, with graph."""

    log_ratio: Tensor  # [N, S] log-probability of each decision now minus that at sampling
    kl: Tensor  # [N, S] KL to the start, not negative
    mask: Tensor  # [N, S] bool, decisions that count
    entropy: Tensor | None = None  # [N, S], or None if it is constant


@dataclass(frozen=True)
class Played:
    """Actions of N samples and their results."""

    made: Made  # masks and texts, for the rewards
    terms: Callable[[], Terms]  # returns the log-ratios under the present weights
    metrics: Mapping[str, float] = field(default_factory=dict)  # means to log, by name
    # If the loop has no action: returns the loss [N] under the present weights, from rewards [N]
    direct: Callable[[Tensor], Tensor] | None = None
    beside: Callable[[Tensor], Tensor] | None = None  # returns a loss [N] that is added to that of the action, likewise


class Loop(Protocol):
    """A loop of self-play; built as ``factory(options, policy=policy)``.

    Attributes:
        reads_captions: Whether it reads the captions of its task. One that does not also gets regions without captions,
            if the data have such (`RegionDataset.captioned`) and no reward compares with captions.
        absent: Share of its regions that get the caption of an absent object and an empty mask.
    """

    reads_captions: bool = True
    absent: float = 0.0

    def measure(self, task: Task) -> dict[str, float]:
        """Measure the policy as it starts; the result is kept in checkpoints. Most loops need nothing."""
        return {}

    @abstractmethod
    def play(self, task: Task, turn: Turn) -> Played:
        """Sample actions for N regions, samples of one region adjacent, and close the loop; without gradients."""
        ...
