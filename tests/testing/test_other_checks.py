"""The checks of datasets, policies and trainers pass what is right and find what is not."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest
import torch
from torch import Tensor, nn

from motionkit.contracts.dataset import TextClip
from motionkit.motion import HUMANML, Normalizer, feature_width
from motionkit.testing import check_algorithm, check_dataset, check_policy, check_trainer
from motionkit.text import Prompt

WIDTH = feature_width(HUMANML)


class Toy:
    """A dataset of zeros."""

    name, skeleton, fps, max_length, random_crop = "toy", HUMANML, 20.0, 60, True

    def __init__(self) -> None:
        self.normalizer = Normalizer(torch.zeros(WIDTH), torch.ones(WIDTH))

    def clips(self, split: str) -> Sequence[TextClip]:
        return [TextClip(f"{split}-{i}", torch.zeros(40, WIDTH), ("a person stands",)) for i in range(3)]

    def prompts(self, split: str, *, k_segments: int = 0, seed: int = 0) -> Sequence[Prompt]:
        count = k_segments or 1
        return [Prompt(("stand",) * count, (40 // count,) * count, key=f"{split}-{i}") for i in range(3)]


class Leaky(Toy):
    def clips(self, split: str) -> Sequence[TextClip]:
        return [TextClip("same", torch.zeros(40, WIDTH), ("a person stands",))]


class Narrow(Toy):
    def clips(self, split: str) -> Sequence[TextClip]:
        return [TextClip(f"{split}-0", torch.zeros(40, 3), ("",))]


class OneSegment(Toy):
    def prompts(self, split: str, *, k_segments: int = 0, seed: int = 0) -> Sequence[Prompt]:
        return super().prompts(split)


def test_datasets() -> None:
    check_dataset(Toy())  # type: ignore[arg-type]  # a protocol with class attributes


@pytest.mark.parametrize(
    ("dataset", "said"),
    [
        (Leaky(), "is in 'val' and in another split"),
        (Narrow(), "features must be [T, 263] float32"),
        (Narrow(), "has no caption"),
        (OneSegment(), "k_segments=2 must give 2 segments"),
    ],
)
def test_broken_datasets(dataset: Toy, said: str) -> None:
    with pytest.raises(AssertionError) as caught:
        check_dataset(dataset)  # type: ignore[arg-type]
    assert said in str(caught.value)


def test_starter_dataset_keeps_the_contract() -> None:
    check_dataset("starter", options={"clips": 64, "val_clips": 16, "test_clips": 16})


class Line:
    """A policy that scales its input."""

    max_length = 60
    random_crop = True

    def __init__(self) -> None:
        self.network: nn.Module = nn.Linear(1, 1).eval()
        self.normalizer = Normalizer(torch.zeros(WIDTH), torch.ones(WIDTH))

    def condition(self, prompts: Sequence[Prompt]) -> Any:
        return list(prompts)

    def predict(self, x: Tensor, timestep: Tensor, condition: Any, lengths: Tensor, *, guidance: float = 1.0) -> Tensor:
        return self.network(x[..., None])[..., 0] * guidance


class Mixing(Line):
    def predict(self, x: Tensor, timestep: Tensor, condition: Any, lengths: Tensor, *, guidance: float = 1.0) -> Tensor:
        return super().predict(x, timestep, condition, lengths, guidance=guidance) + x.nan_to_num().mean()


class Training(Line):
    def __init__(self) -> None:
        super().__init__()
        self.network.train()


class Frozen(Line):
    def __init__(self) -> None:
        super().__init__()
        self.network.requires_grad_(False)


def test_policies() -> None:
    check_policy(Line())  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("policy", "said"),
    [
        (Mixing(), "What stands in the padding changes the prediction"),
        (Mixing(), "A sample predicted alone differs"),
        (Training(), "must be in eval mode"),
        (Frozen(), "No parameter of its network can be trained"),
    ],
)
def test_broken_policies(policy: Line, said: str) -> None:
    with pytest.raises(AssertionError) as caught:
        check_policy(policy)  # type: ignore[arg-type]
    assert said in str(caught.value)


def test_trainers(trainer: ModuleType, tmp_path: Path) -> None:
    folder = tmp_path / "runs"
    folder.mkdir()
    document = check_trainer("count", folder, settings={"run": {"num_steps": 3}})
    assert document["metrics"] == {"count": 3.0}


ALGORITHMS = """
from motionkit.plugins import Component
from motionkit.text_to_motion.grpo.algorithms.options import GrpoOptions
def still(options, **runtime):
    from motionkit.text_to_motion.grpo.algorithms.grpo import grpo
    rule = grpo(options, **runtime)
    update = rule.update
    def stays(batch, scored, number):
        made = update(batch, scored, number)
        made.backward = lambda: False
        made._sums = dict.fromkeys(
            ["loss", "policy", "ratio", "clip_fraction", "logp_current_per_dim", "log_ratio_per_dim"], float("nan")
        )
        return made
    rule.update = stays
    return rule
def odd(options, **runtime):
    from motionkit.text_to_motion.grpo.algorithms.grpo import grpo
    made = grpo(options, **runtime)
    made.samples = 0
    return made
still_component = Component("It never moves.", GrpoOptions, "odd_algorithms:still")
odd_component = Component("It samples nothing.", GrpoOptions, "odd_algorithms:odd")
"""


def test_algorithms(site: Any) -> None:
    check_algorithm("grpo", options={"objective": {"inner_epochs": 2}, "rollout": {"group_size": 2}})
    check_algorithm("reward-gradient")
    for name in ("awm", "nft", "dpo"):
        check_algorithm(name, options={"rollout": {"group_size": 2}})
    entries = "[motionkit.algorithms]\nstill = odd_algorithms:still_component\nodd = odd_algorithms:odd_component\n"
    site.install("odd-algorithms", entries, odd_algorithms=ALGORITHMS)
    with pytest.raises(AssertionError, match="Two updates leave all trained parameters") as caught:
        check_algorithm("still", options={"rollout": {"group_size": 2}})
    assert "loss/policy is nan after two updates" in str(caught.value)
    with pytest.raises(AssertionError, match="samples must be at least 1, is 0"):
        check_algorithm("odd")
