"""The script behind the diversity of real motions."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from types import ModuleType

import pytest
import torch

import motionkit
from tests.made.scripts import load_script


@pytest.fixture(scope="module")
def tool() -> ModuleType:
    return load_script(Path(__file__).resolve().parents[2] / "tests" / "studies" / "algorithms" / "real_diversity.py")


def test_performances_of_one_seed_do_not_differ_and_those_of_others_do(
    tool: ModuleType, monkeypatch: pytest.MonkeyPatch
) -> None:
    dataset = motionkit.load_dataset("starter")
    prompts = dataset.prompts("val")[:2]
    found = tool.diversity(dataset, prompts, 3)
    assert found.shape == (2,)
    assert bool((found > 0.03).all())
    assert torch.equal(found, tool.diversity(dataset, prompts, 3))
    perform = tool.perform
    monkeypatch.setattr(tool, "perform", lambda orders, fps: perform([replace(one, seed=0) for one in orders], fps=fps))
    assert bool((tool.diversity(dataset, prompts, 3) < 1e-5).all())
