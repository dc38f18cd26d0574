"""Factors of loops, and their conflict, on toy losses with known answers."""

from __future__ import annotations

import pytest
import torch

from motionkit.regions.self_play.train import Balance, linear


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
