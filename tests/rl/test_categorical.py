"""Draws with given numbers."""

from __future__ import annotations

import torch

from motionkit.rl import categorical


def test_frequencies_are_the_probabilities() -> None:
    logits = torch.tensor([0.5, -1.0, 2.0, -torch.inf])
    drawn = categorical(logits.expand(100_000, 4), torch.linspace(0, 1, 100_001)[:-1])
    assert torch.allclose(torch.bincount(drawn, minlength=4) / 100_000, logits.softmax(0), atol=2e-5)


def test_a_class_without_a_chance_is_never_drawn() -> None:
    logits = torch.tensor([[-torch.inf, 1.0, -torch.inf]]).repeat(3, 1)
    assert categorical(logits, torch.tensor([0.0, 0.5, 1.0])).tolist() == [1, 1, 1]


def test_a_row_does_not_depend_on_the_others() -> None:
    logits, uniform = torch.randn(64, 11), torch.rand(64)
    alone = [int(categorical(logits[row : row + 1], uniform[row : row + 1])) for row in range(64)]
    assert categorical(logits, uniform).tolist() == alone
