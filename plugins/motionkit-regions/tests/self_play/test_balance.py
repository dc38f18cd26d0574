"""Factors of loops, and their conflict, on toy losses with known answers."""

from __future__ import annotations

from contextlib import nullcontext
from typing import Any, Literal

import numpy as np
import pytest
import torch
from numpy.typing import NDArray

from motionkit.contracts.dataset import Split
from motionkit_regions.datasets.base import RegionDataset, Regions
from motionkit_regions.self_play.play import RegionOrder
from motionkit_regions.self_play.settings import CurriculumSettings
from motionkit_regions.self_play.step import Balance, linear
from tests.made.plain import plain


def parameters() -> list[tuple[str, torch.nn.Parameter]]:
    return [("a", torch.nn.Parameter(torch.zeros(2))), ("b", torch.nn.Parameter(torch.zeros(1)))]


def losses(named: list[tuple[str, torch.nn.Parameter]]) -> dict[str, torch.Tensor]:
    """Gradients (3, 0, 0) and (0, 0, 1)."""
    return {"loop1": 3 * named[0][1][0], "loop2": named[1][1][0]}


def gradient(named: list[tuple[str, torch.nn.Parameter]]) -> list[float]:
    return [value for _, one in named for value in (torch.zeros_like(one) if one.grad is None else one.grad).tolist()]


def test_plain_gradients_are_those_of_the_sum() -> None:
    named = parameters()
    assert Balance(named, "none", 0).backward(losses(named), 2 * named[0][1][1], 1) == {}
    assert gradient(named) == [3, 2, 1]


def test_gradients_get_one_norm() -> None:
    """Norms 3 and 1, mean 2: factors 2/3 and 2. The anchor counts as it is."""
    named = parameters()
    told = Balance(named, "gradient", 0).backward(losses(named), 2 * named[0][1][1], 1)
    assert gradient(named) == pytest.approx([2, 2, 2])
    assert told == pytest.approx({"balance/loop1": 2 / 3, "balance/loop2": 2})


def test_factors_move_slowly_and_have_bounds() -> None:
    named = parameters()
    balance = Balance(named, "gradient", 0)
    balance.backward(losses(named), None, 1)
    told = balance.backward({"loop1": named[0][1][0], "loop2": named[1][1][0]}, None, 2)  # equal now: both want 1
    assert told == pytest.approx({"balance/loop1": 0.9 * 2 / 3 + 0.1, "balance/loop2": 0.9 * 2 + 0.1})
    tiny = {"loop1": named[0][1][0], "loop2": 1e-6 * named[1][1][0]}
    assert Balance(named, "gradient", 0).backward(tiny, None, 1)["balance/loop2"] == 10


def test_a_loop_without_gradient_is_left_alone() -> None:
    named = parameters()
    flat = {"loop1": 3 * named[0][1][0], "loop2": torch.zeros(())}
    told = Balance(named, "gradient", 1).backward(flat, None, 1)
    assert gradient(named) == pytest.approx([3, 0, 0])
    assert told["grad/cos_loop1_loop2"] == 0


@pytest.mark.parametrize(("second", "cosine"), [((1.0, 0.0), 1.0), ((-2.0, 0.0), -1.0), ((1.0, 1.0), 0.5**0.5)])
def test_conflict_is_the_cosine(second: tuple[float, float], cosine: float) -> None:
    named = parameters()

    def both() -> dict[str, torch.Tensor]:
        return {"loop1": 3 * named[0][1][0], "loop2": (torch.tensor(second) * named[0][1]).sum()}

    balance = Balance(named, "none", 2)
    assert balance.backward(both(), None, 1) == {}
    for _, one in named:
        one.grad = None
    assert balance.backward(both(), None, 2)["grad/cos_loop1_loop2"] == pytest.approx(cosine, abs=1e-6)
    assert gradient(named) == pytest.approx([3 + second[0], second[1], 0])


def test_progress_counts() -> None:
    balance = Balance(parameters(), "progress", 0)
    for step in range(20):
        balance.observe({"loop1": 0.01 * step, "loop2": 0.5})
    first, second = balance.factors["loop1"], balance.factors["loop2"]
    assert first + second == pytest.approx(2)
    assert first > 1.9
    again = Balance(parameters(), "progress", 0)
    again.load_state(balance.state())
    for one in (balance, again):
        one.observe({"loop1": 0.1, "loop2": 0.6})
    assert again.factors == balance.factors


def test_a_line() -> None:
    assert [linear(1.0, 3.0, step, 5) for step in (1, 3, 5)] == [1.0, 2.0, 3.0]
    assert linear(0.7, None, 4, 5) == 0.7
    assert linear(1.0, 3.0, 1, 1) == 1.0


@plain(RegionDataset)
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
