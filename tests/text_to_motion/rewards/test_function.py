"""A plain function as a reward, in Python and by ``--reward ./file.py:name``."""

from __future__ import annotations

import asyncio
import threading
from pathlib import Path

import pytest
import torch

from motionkit import plugins
from motionkit.contracts.reward import RewardScores
from motionkit.errors import MotionkitError
from motionkit.testing import check_reward
from motionkit.text_to_motion.rewards.ask import ask
from motionkit.text_to_motion.rewards.function_reward import FunctionReward, as_reward
from motionkit.text_to_motion.rewards.mix import RewardMix

from .test_asking import PROMPTS, Height, motions

FILE = '''
import torch
from math import sqrt

calls = []

def low(motions, prompts):
    """Wants the pelvis low."""
    calls.append(len(motions))  # a global that no lock guards
    return -torch.where(motions.mask, motions.features[..., 3], 0.0).sum(1) / motions.lengths

def late(motions, prompts):
    calls.append(len(motions))
    if len(calls) > 10:
        raise KeyError("no such joint")
    return low(motions, prompts)

def one(motions):
    return torch.zeros(len(motions))

def wide(motions, prompts):
    return torch.zeros(len(motions), 2)

def words(motions, prompts):
    return "good"

class Low:
    pass
'''


@pytest.fixture
def file(tmp_path: Path) -> Path:
    path = tmp_path / "my.py"
    path.write_text(FILE)
    return path


def low(motions, prompts):
    return -torch.where(motions.mask, motions.features[..., 3], 0.0).sum(1) / motions.lengths


def test_it_scores_as_the_class_of_the_same_formula_does() -> None:
    expected = ask(Height(), motions(), PROMPTS).total
    assert torch.equal(ask(FunctionReward(low), motions(), PROMPTS).total, -expected)
    mix = RewardMix([(low, 2.0), (Height(), 2.0)])
    assert mix.score(motions(), PROMPTS).total.abs().max() < 1e-6
    assert [reward.name for reward, _ in mix.terms] == ["low", "height"]


def test_any_kind_of_number_does_and_scores_may_be_whole() -> None:
    for kind in (torch.float64, torch.int64, torch.bool, torch.bfloat16):
        total = ask(FunctionReward(lambda motions, prompts, kind=kind: torch.ones(5, dtype=kind)), motions(), PROMPTS)
        assert torch.equal(total.total, torch.ones(5)), kind
    whole = RewardScores(torch.ones(5), parts={"a": torch.zeros(5)})
    assert ask(FunctionReward(lambda motions, prompts: whole), motions(), PROMPTS) is whole
    check_reward(FunctionReward(low))


async def slowly(motions, prompts):
    await asyncio.sleep(0)
    return low(motions, prompts)


def test_an_async_function_is_awaited() -> None:
    assert torch.equal(ask(FunctionReward(slowly), motions(), PROMPTS).total, low(motions(), PROMPTS))


def test_a_function_is_called_by_one_thread_so_that_its_globals_need_no_lock() -> None:
    seen: list[int] = []

    def counting(motions, prompts):
        seen.append(threading.get_ident())
        return torch.zeros(len(motions))

    mix = RewardMix([(counting, 1.0), (slowly, 1.0), (lambda motions, prompts: torch.ones(len(motions)), 1.0)])
    for _ in range(5):
        mix.score(motions(), PROMPTS)
    assert seen == [threading.get_ident()] * 5


@pytest.mark.parametrize(
    ("function", "said"),
    [
        (lambda motions: torch.zeros(5), "called as"),
        (lambda motions, prompts, scale: torch.zeros(5), "missing a required argument: 'scale'"),
        (lambda motions, prompts: torch.zeros(4), "returned a tensor [4]"),
        (lambda motions, prompts: torch.zeros(5, 1), "returned a tensor [5, 1]"),
        (lambda motions, prompts: [0.0] * 5, "returned a list"),
        (lambda motions, prompts: None, "returned None"),
        (Height, "the class Height is not a reward"),
        (3, "a int is not a reward"),
    ],
)
def test_what_is_no_reward_is_refused_in_words(function: object, said: str) -> None:
    with pytest.raises(MotionkitError) as caught:
        ask(as_reward(function), motions(), PROMPTS)  # type: ignore[arg-type]
    assert said in f"{caught.value.message} {caught.value.why}"
    assert caught.value.fix


def test_a_file_holds_functions(file: Path) -> None:
    component = plugins.get("rewards", f"{file}:low", typed=True)
    assert component.summary == "Wants the pelvis low."
    assert list(component.options.model_fields) == []
    reward = component.build(component.options(), dataset=None, device="cpu")
    assert reward.name == "low"
    assert torch.equal(ask(reward, motions(), PROMPTS).total, low(motions(), PROMPTS))
    for kind, name, typed, word in (
        ("rewards", "low", False, "which is code"),
        ("rewards", "nope", True, "it has: low, late, one, wide, words"),
        ("datasets", "low", True, "not a motionkit Component"),
        ("rewards", "Low", True, "not a motionkit Component"),
    ):
        with pytest.raises(MotionkitError) as caught:
            plugins.get(kind, f"{file}:{name}", typed=typed)
        assert word in caught.value.sentence()


@pytest.mark.parametrize(
    ("made", "said"),
    [
        (torch.ones(5, device="meta"), "without values"), (torch.ones(5).to_sparse(), "sparse"),
        (torch.ones(5, dtype=torch.complex64), "complex numbers"),
    ],
    ids=["meta", "sparse", "complex"],
)  # fmt: skip
def test_a_tensor_that_is_no_plain_numbers_is_refused_with_the_function(made: torch.Tensor, said: str) -> None:
    def odd(motions, prompts):
        return made

    with pytest.raises(MotionkitError, match=rf"the reward 'odd' \(test_function.py:\d+\) returned a tensor .*{said}"):
        ask(FunctionReward(odd), motions(), PROMPTS)
