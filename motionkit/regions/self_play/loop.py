"""The protocol of a loop of self-play, for plugins of the group ``motionkit.loops``.

A loop samples an action for each region, lets a partner close the loop, and gives what came back to the rewards.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Protocol

from torch import Tensor

from motionkit.contracts.reward import MaskBatch, TextBatch
from motionkit.regions.evaluation.measure import Task, Weights
from motionkit.rl import RowNoise


@dataclass(frozen=True)
class Turn:
    """What a loop is given beside its task."""

    partner: Weights  # weights of the partner, who closes the loop
    start: Weights  # weights of the policy as it started, which the KL is measured to
    noise: RowNoise  # random numbers, a row for each sample
    temperature: float = 1.0  # of captions that are sampled
    # What the loop measured before training; see `Loop.measure`
    measured: Mapping[str, float] = field(default_factory=dict)


@dataclass(frozen=True)
class Made:
    """What a loop made of N samples."""

    masks: MaskBatch  # masks beside the wanted ones
    texts: TextBatch  # texts beside the wanted ones


@dataclass(frozen=True)
class Terms:
    """Log-ratios of N samples, with graph."""

    log_ratio: Tensor  # [N, S] log-probability of each decision now minus that at sampling
    kl: Tensor  # [N, S] KL to the start, not negative
    mask: Tensor  # [N, S] bool, which decisions there are
    entropy: Tensor | None = None  # [N, S], or None where it does not change


@dataclass(frozen=True)
class Played:
    """Actions of N samples and what came back."""

    made: Made  # masks and texts, for the rewards
    terms: Callable[[], Terms]  # gives the log-ratios under the present weights
    metrics: Mapping[str, float] = field(default_factory=dict)  # means worth logging, by name
    # Where the loop has no action: gives the loss [N] under the present weights, from rewards [N]
    direct: Callable[[Tensor], Tensor] | None = None
    # Gives a loss [N] that is added to that of the action, from rewards [N]
    beside: Callable[[Tensor], Tensor] | None = None


class Loop(Protocol):
    """A loop of self-play; built as ``factory(options, policy=policy)``.

    A loop that does not read the captions of its task may have ``reads_captions = False``: it is then also given
    regions without captions, if the data have such (`HasCaptionedPart`) and no reward compares
    with captions. One that can use captions of what an image does not show may have ``absent: float``, the share of its
    regions that get such a caption and an empty mask.
    """

    def measure(self, task: Task) -> dict[str, float]:
        """Return what has to be known of the policy as it starts; kept in checkpoints. Most loops need nothing."""
        ...

    def play(self, task: Task, turn: Turn) -> Played:
        """Sample actions for N regions, samples of one region side by side, and close the loop; without a graph."""
        ...
