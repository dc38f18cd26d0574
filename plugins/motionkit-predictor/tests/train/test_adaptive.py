"""Adaptive weights on toy cases with known answers, and their state."""

from __future__ import annotations

import pytest
import torch

from motionkit.errors import MotionkitError
from motionkit_predictor.training.adaptive import DWA, Adaptive, GradNorm, Uncertainty, build_adaptive
from motionkit_predictor.training.settings import AdaptiveSettings

NAMES = ("one", "two")


def step(adaptive: Adaptive, shared: torch.Tensor, scales: tuple[float, float] = (1.0, 100.0)) -> torch.Tensor:
    """Two losses of one parameter whose gradients differ by their scales, and a third that is left alone."""
    losses = {name: scale * (shared - 1.0).abs().sum() for name, scale in zip(NAMES, scales, strict=True)}
    total = adaptive.total({**losses, "rest": shared.sum() * 0 + 5.0}, shared)
    adaptive.settle()
    return total


def test_gradnorm_makes_both_gradients_alike() -> None:
    adaptive, shared = GradNorm(NAMES, alpha=0.0, rate=0.02), torch.zeros(3, requires_grad=True)
    for _ in range(400):
        step(adaptive, shared)
    factors = adaptive.factors()
    assert float(factors.sum()) == pytest.approx(2.0)
    assert float(factors[0] / factors[1]) == pytest.approx(100.0, rel=0.25)


def test_gradnorm_gives_more_to_the_loss_that_fell_less() -> None:
    """Equal gradients; the second loss stays where it was, the first has halved: aims differ by 2 ** alpha."""
    adaptive, shared = GradNorm(NAMES, alpha=1.0, rate=0.005), torch.zeros(1, requires_grad=True)
    for number in range(2000):
        first = 1.0 if number == 0 else 0.5
        losses = {"one": shared.sum() + first, "two": shared.sum() + 1.0}
        adaptive.total(losses, shared)
        adaptive.settle()
    factors = adaptive.factors()
    assert float(factors[1] / factors[0]) == pytest.approx(2.0, rel=0.05)


def test_uncertainty_ends_at_one_over_the_loss() -> None:
    adaptive, shared = Uncertainty(NAMES, rate=0.05), torch.zeros(1, requires_grad=True)
    for _ in range(600):
        adaptive.total({"one": shared.sum() + 0.5, "two": shared.sum() + 20.0}, shared)
        adaptive.settle()
    assert adaptive.factors().tolist() == pytest.approx([2.0, 0.05], rel=0.02)


def test_dwa_in_closed_form() -> None:
    adaptive, shared = DWA(NAMES, temperature=2.0, per_epoch=2), torch.zeros(1, requires_grad=True)
    epochs = [(4.0, 1.0), (2.0, 1.0), (1.0, 0.9)]
    assert adaptive.factors().tolist() == [1.0, 1.0]
    for first, second in epochs[:2]:
        for part in (0.5, 1.5):  # two updates, whose mean is the epoch's loss
            adaptive.total({"one": shared.sum() + part * first, "two": shared.sum() + second}, shared)
            adaptive.settle()
    wanted = 2 * (torch.tensor([2.0 / 4.0, 1.0]) / 2.0).softmax(0)
    assert torch.allclose(adaptive.factors(), wanted)


def test_what_is_not_named_keeps_its_weight() -> None:
    adaptive, shared = Uncertainty(NAMES, rate=0.05), torch.zeros(1, requires_grad=True)
    total = step(adaptive, shared, (1.0, 2.0))
    assert total.item() == pytest.approx(1.0 + 2.0 + 5.0)


@pytest.mark.parametrize("method", ["gradnorm", "uncertainty", "dwa"])
def test_it_continues_from_its_state_bit_for_bit(method: str) -> None:
    settings = AdaptiveSettings(method=method)

    def new() -> Adaptive:
        made = build_adaptive(settings, NAMES, 3)
        assert made is not None
        return made

    shared = torch.zeros(3, requires_grad=True)
    whole, first, second = new(), new(), new()
    for number in range(12):
        scales = 1.0 + number, 3.0
        step(whole, shared, scales)
        if number < 7:
            step(first, shared, scales)
            if number == 6:
                second.load_state(first.state())
        else:
            step(second, shared, scales)
    assert torch.equal(whole.factors(), second.factors())
    assert not torch.equal(whole.factors(), first.factors())


def test_a_loss_that_is_not_finite_changes_nothing() -> None:
    adaptive, shared = Uncertainty(NAMES, rate=0.05), torch.zeros(1, requires_grad=True)
    step(adaptive, shared, (float("nan"), 1.0))
    assert adaptive.factors().tolist() == [1.0, 1.0]


def test_unknown_and_single_losses_are_refused() -> None:
    for terms, word in ((("one", "fk_poss"), "fk_poss"), (("one",), "two losses")):
        with pytest.raises(MotionkitError, match=word):
            build_adaptive(AdaptiveSettings(method="dwa", terms=terms), NAMES, 1)
    assert build_adaptive(AdaptiveSettings(), NAMES, 1) is None
