"""Images with regions of several sizes, and a policy that knows them by heart."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn

from motionkit.contracts.dataset import Split
from motionkit_regions.datasets.base import RegionDataset, Regions
from motionkit_regions.policy import Captions, WordScores

from .plain import plain

SIZE = (8, 10)
"""Masks of the policy."""


@plain(RegionDataset)
class Blocks:
    """Images of several sizes with a region each, whose mask has the policy's size or twice that.

    At twice the size the policy's logits, brought there by linear interpolation, give the same blocks.
    """

    name = "blocks"

    def __init__(self, count: int = 12) -> None:
        draw = np.random.default_rng(0)
        self.cells = draw.random((count, *SIZE)) < 0.3
        self.factors = [1 + number % 2 for number in range(count)]

    def count(self, split: Split) -> int:
        return len(self.cells)

    def regions(self, split: Split, index: NDArray[np.int64]) -> Regions:
        images, masks = [], []
        for number in map(int, index):
            factor = self.factors[number]
            image = np.full((40 + 8 * number, 50, 3), number, np.uint8)
            images.append(image)
            masks.append(self.cells[number].repeat(factor, 0).repeat(factor, 1))
        return Regions(images, masks, tuple(f"thing number {number}" for number in map(int, index)))


@dataclass(frozen=True)
class _Seen:
    numbers: Tensor

    def __len__(self) -> int:
        return len(self.numbers)

    def select(self, index: Tensor) -> _Seen:
        return _Seen(self.numbers[index])


class Knows:
    """A region policy that says what the data say, and draws nothing of a caption that is not the region's.

    Args:
        data: The data.
        wrong: Regions of which it draws the complement.
    """

    device, mask_size, action_size, longest = torch.device("cpu"), SIZE, 1, 5
    groups: Mapping[str, tuple[str, ...]] = {}

    def __init__(self, data: Blocks, wrong: Sequence[int] = ()) -> None:
        self.data, self.wrong = data, set(wrong)
        self.network = nn.Identity()

    def see(self, images: Sequence[NDArray[np.uint8]]) -> _Seen:
        return _Seen(torch.tensor([int(image[0, 0, 0]) for image in images]))

    def sample_captions(
        self, seen: _Seen, masks: Tensor, *, temperature: float = 1.0, noise: Tensor | None = None
    ) -> Captions:
        texts = [f"thing number {number}" for number in seen.numbers.tolist()]
        return Captions(torch.zeros(len(texts), 1, dtype=torch.int64), texts, torch.ones(len(texts), dtype=torch.bool))

    def prompts(self, seen: _Seen, texts: Sequence[str]) -> Tensor:
        own = [f"thing number {number}" for number in seen.numbers.tolist()]
        return torch.tensor([[float(text == wanted)] for text, wanted in zip(texts, own, strict=True)])

    def draw(self, seen: _Seen, prompts: Tensor) -> Tensor:
        masks = torch.from_numpy(self.data.cells[seen.numbers.numpy()])
        flip = torch.tensor([number in self.wrong for number in seen.numbers.tolist()])
        logits = torch.where(masks ^ flip[:, None, None], 10.0, -10.0)
        return torch.where(prompts[:, :, None] > 0.5, logits, -10.0)

    def score_words(self, seen: _Seen, masks: Tensor, ids: Tensor, *, temperature: float = 1.0) -> WordScores:
        raise NotImplementedError

    def encode(self, texts: Sequence[str]) -> Tensor:
        raise NotImplementedError

    def tensors(self) -> dict[str, Tensor]:
        return {}

    def load_tensors(self, tensors: Mapping[str, Tensor]) -> None:
        raise NotImplementedError

    def save(self, folder: Path, *, tensors: Mapping[str, Tensor] | None) -> None:
        raise NotImplementedError
