"""Which regions come when."""

from __future__ import annotations

from contextlib import nullcontext
from typing import Any, Literal

import numpy as np
import pytest
import torch
from numpy.typing import NDArray

from motionkit.contracts.dataset import Regions, Split
from motionkit.regions.self_play.play import RegionOrder
from motionkit.regions.self_play.settings import CurriculumSettings


class Squares:
    """Region n is a square whose area grows with n; its caption is n."""

    name = "squares"

    def __init__(self, count: int = 40) -> None:
        self._count = count

    def count(self, split: Split) -> int:
        return self._count

    def regions(self, split: Split, index: NDArray[np.int64]) -> Regions:
        masks = [np.arange(100).reshape(10, 10) < number for number in index]
        return Regions([np.zeros((10, 10, 3), np.uint8)] * len(index), masks, tuple(map(str, index.tolist())))


class Blind:
    """Draws every mask right, but those of odd regions."""

    device, mask_size = torch.device("cpu"), (10, 10)

    def see(self, images: Any) -> Any:
        return None

    def prompts(self, seen: Any, texts: tuple[str, ...]) -> torch.Tensor:
        return torch.tensor([[float(text)] for text in texts])

    def draw(self, seen: Any, prompts: torch.Tensor) -> torch.Tensor:
        right = torch.arange(100).view(1, 10, 10) < prompts[:, :, None]
        return torch.where((prompts[:, :, None] % 2 == 1) ^ right, 1.0, -1.0)


def order(by: Literal["none", "area", "ambiguity"] = "none", count: int = 40) -> RegionOrder:
    curriculum = CurriculumSettings(by=by, until=0.5, pool=4) if by != "none" else CurriculumSettings()
    policy: Any = Blind()
    return RegionOrder(Squares(count), policy, 4, 0, curriculum, 20, nullcontext)


def met(found: RegionOrder, step: int) -> list[int]:
    return [int(text) for text in found.at(step).captions]


def test_every_region_once_before_any_comes_again() -> None:
    found = order()
    first = [number for step in range(1, 11) for number in met(found, step)]
    assert sorted(first) == list(range(40))
    second = [number for step in range(11, 21) for number in met(found, step)]
    assert sorted(second) == list(range(40))
    assert first != second
    assert met(order(), 7) == met(found, 7)  # of seed and step alone


def test_large_regions_come_first() -> None:
    found = order("area")
    means = [np.mean([number for step in steps for number in met(found, step)]) for steps in ((1, 2, 3), (8, 9, 10))]
    assert means[0] > means[1] + 5
    assert means[0] > 30
    late = [number for step in range(11, 21) for number in met(found, step)]
    assert len(set(late)) == 40  # as they are
    assert met(order("area"), 3) == met(found, 3)


def test_clear_captions_come_first() -> None:
    assert not any(number % 2 for step in (1, 2) for number in met(order("ambiguity"), step))


def test_fewer_regions_than_a_pool() -> None:
    assert len(set(met(order("area", count=6), 1))) == 4


def test_options_without_a_curriculum_have_no_effect() -> None:
    assert set(CurriculumSettings().idle()) == {"until", "pool"}
    with pytest.raises(ValueError, match="until"):
        CurriculumSettings(by="area", until=0.0)
