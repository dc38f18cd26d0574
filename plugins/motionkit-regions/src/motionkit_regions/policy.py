"""What a region policy is: a model that captions regions of images and draws masks of captions."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Protocol, Self, runtime_checkable

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn

REGION_ARTIFACT = "policy"  # folder of the trained region policy in a run


@dataclass(frozen=True, eq=False)
class Captions:
    """Sampled captions of N regions."""

    ids: Tensor  # [N, L] int64 token ids of the policy
    texts: list[str]  # the same as text, without special tokens
    ended: Tensor  # [N] bool, whether the caption ended before the maximum length


@dataclass(frozen=True, eq=False)
class WordScores:
    """A policy's scores of given words."""

    log_prob: Tensor  # [N, L] log-probability of each word, with graph; 0 outside of the mask
    entropy: Tensor  # [N, L] entropy of the distribution each was drawn from; 0 outside of the mask
    # [N, L] bool, True up to and including the end token; False for words that the policy can never say
    mask: Tensor
    # [N, L, K] log-probabilities of all words, if requested; minus infinity for words that are never sampled.
    whole: Tensor | None = None


class SeenRegions(Protocol):
    """A region policy's encoding of N images; only the policy that made it reads its content."""

    def __len__(self) -> int: ...

    def select(self, index: Tensor) -> Self:
        """Return the rows `index` (``[N]`` int64), repeats allowed."""
        ...


@dataclass(frozen=True, eq=False)
class Candidates:
    """Several masks of N prompts."""

    logits: Tensor  # [N, K, h, w] mask logits, with graph; above 0 is inside
    scores: Tensor  # [N, K] logits of the policy's estimate of each mask's quality, with graph


@runtime_checkable
class OffersMasks(Protocol):
    """A region policy whose mask decoder offers several masks of a prompt, as SAM's does."""

    def candidates(self, seen: Any, prompts: Tensor) -> Candidates:
        """Return the masks of prompts ``[N, Z]``."""
        ...


@runtime_checkable
class PlansMemory(Protocol):
    """Options of a region policy that can estimate the memory of a run before it is opened."""

    def memory(self, *, regions: int, group: int, device: str, shards: int = 1) -> list[str]:
        """Return lines for the user; empty if nothing is known.

        Args:
            regions: Regions of a step in each process.
            group: Samples of each.
            device: Type of its device, such as ``cuda``.
            shards: Processes that the policy is sharded over; given only to a policy that can be (see `RegionPolicy`).
        """
        ...


class RegionPolicy(Protocol):
    """A model that captions regions of images and draws masks of captions; ``Component(gives="regions")``.

    A factory with an argument ``world`` (`motionkit.training.world.World`) makes a policy that can be sharded: with one
    it calls `motionkit.nn.sharding.shard` once all weights are loaded, in place of moving the network to the device.
    All processes then call the policy alike, with equally many rows; it calls each sharded layer as often in every
    process, whatever the rows hold, and samples until the captions of all have ended (`training.world.all_done`).

    Only its abstract methods and the attributes without a value need be there.

    Attributes:
        network: The module with all weights, in eval mode.
        device: Its device.
        mask_size: ``(height, width)`` of the masks.
        action_size: Width Z of a segmentation prompt, the projected hidden state at the token [SEG].
        longest: Most words of a sampled caption, including the end token.
        groups: Trainable parts: readable name to patterns of parameter names, such as ``mlp1.*`` or
            ``language_model.*lora_*`` (`fnmatch`).
    """

    network: nn.Module
    device: torch.device
    mask_size: tuple[int, int]
    action_size: int
    longest: int
    groups: Mapping[str, tuple[str, ...]]

    @abstractmethod
    def see(self, images: Sequence[NDArray[np.uint8]]) -> Any:
        """Encode N images ``[H, W, 3]`` with the frozen encoders; returns `SeenRegions`."""
        ...

    @abstractmethod
    def sample_captions(
        self, seen: Any, masks: Tensor, *, temperature: float = 1.0, noise: Tensor | None = None
    ) -> Captions:
        """Caption regions, without a graph.

        Args:
            seen: N images.
            masks: ``[N, h, w]`` bool.
            temperature: Sampling temperature; 0 takes the most likely word.
            noise: ``[N, longest]`` uniform numbers from 0 to 1 that choose the words, so that a caption does not
                depend on the rest of the batch; drawn by default.
        """
        ...

    @abstractmethod
    def score_words(
        self, seen: Any, masks: Tensor, ids: Tensor, *, temperature: float = 1.0, whole: bool = False
    ) -> WordScores:
        """Score captions, from logits divided by the temperature without further processing.

        Args:
            seen: N images.
            masks: ``[N, h, w]`` bool.
            ids: ``[N, L]`` words.
            temperature: The temperature they were sampled with.
            whole: Whether to return the log-probabilities of all words too.
        """
        ...

    @abstractmethod
    def encode(self, texts: Sequence[str]) -> Tensor:
        """Return the token ids ``[N, L]`` of captions, for `score_words`."""
        ...

    @abstractmethod
    def prompts(self, seen: Any, texts: Sequence[str]) -> Tensor:
        """Return the segmentation prompts ``[N, Z]`` of captions, with graph."""
        ...

    @abstractmethod
    def draw(self, seen: Any, prompts: Tensor) -> Tensor:
        """Return mask logits ``[N, h, w]``; above 0 is inside."""
        ...

    @abstractmethod
    def tensors(self) -> dict[str, Tensor]:
        """Return the trainable weights by name."""
        ...

    @abstractmethod
    def load_tensors(self, tensors: Mapping[str, Tensor]) -> None:
        """Restore these weights; strict."""
        ...

    @abstractmethod
    def save(self, folder: Path, *, tensors: Mapping[str, Tensor] | None) -> None:
        """Write a folder that the option ``checkpoint`` of its plugin opens.

        Args:
            folder: Created if absent; in a run the artifact `REGION_ARTIFACT`.
            tensors: As returned by `tensors`; None for a run whose checkpoints hold them.
        """
        ...

    @property
    def sees(self) -> str:
        """The image size in words, such as ``every image squeezed to 48 x 48 pixels``; empty if it is not fixed."""
        return ""

    def known_words(self, texts: Sequence[str]) -> float | None:
        """Return the fraction of the words of texts that it knows, from 0 to 1; None for no limited vocabulary."""
        return None

    def checks(self) -> Sequence[tuple[str, bool, str]]:
        """Return name, whether it passes, and details of each check of its own, for ``sa2va-rl --check``."""
        return ()

    @property
    def inputs(self) -> Mapping[str, str] | None:
        """Fingerprints of its files by the option that names them; None if they are not known."""
        return None
