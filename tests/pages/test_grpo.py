"""The pages of `grpo`: three updates have the weights of `GRPO.step`, to the bit."""

from __future__ import annotations

import pytest
import torch
from torch import Tensor

from motionkit import GRPO, load_policy, load_reward
from motionkit.contracts.dataset import TextMotionDataset
from motionkit.nn import adapter_parameters

from .pages import run


def adapters(grpo: GRPO) -> list[Tensor]:
    return [parameter.detach().clone() for parameter in adapter_parameters(grpo.policy.network)]


@pytest.mark.parametrize(
    ("page", "algorithm", "other"),
    [("grpo", "grpo", {"SMOOTH": 19}), ("reward_gradient", "reward-gradient", {"DATA": 3})],
)
def test_the_page_has_the_weights_of_the_class(
    page: str,
    algorithm: str,
    other: dict[str, int],
    small_starter: TextMotionDataset,
    capsys: pytest.CaptureFixture[str],
) -> None:
    names = run(page, UPDATES=3, PROMPTS=3)
    assert capsys.readouterr().out.count("\n") == 3
    policy, reward = load_policy("starter", dataset=small_starter), load_reward("tmr-dense")
    grpo = GRPO(policy, reward, algorithm=algorithm, dataset=small_starter, seed=0)
    first = adapters(grpo)
    means = [grpo.step(prompts)["reward/mean"] for prompts in names["batches"]]
    last = adapters(grpo)
    assert sum(float((after - before).abs().sum()) for before, after in zip(first, last, strict=True)) > 1
    assert all(torch.equal(ours, theirs) for ours, theirs in zip(names["trained"], last, strict=True))
    assert means[-1] == float(names["scores"].total.detach().mean())
    # Negative control: with another weight of a term the weights differ.
    changed = run(page, UPDATES=3, PROMPTS=3, **other)["trained"]
    assert not any(torch.equal(one, two) for one, two in zip(changed, names["trained"], strict=True))
