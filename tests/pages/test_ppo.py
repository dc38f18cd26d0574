"""The page of PPO: the losses and weights of three updates are those of the command's PPO, to the bit."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
import pytest
import torch

from motionkit import load_environment, load_reward
from motionkit_success.actor import Actor
from motionkit_success.actor_settings import spec_of
from motionkit_success.ppo.backend import Sb3Ppo
from motionkit_success.ppo.scored_env import ScoredEnv, Scorer, Term
from motionkit_success.ppo.settings import PpoSettings

from .pages import run

COPIES = 8


def updates(count: int) -> tuple[list[Mapping[str, float]], dict[str, torch.Tensor]]:
    """Return the metrics of the command's PPO, and its weights."""
    environment = load_environment("reach", num_envs=COPIES)
    torch.manual_seed(0)
    actor = Actor(spec_of("mlp", 64, environment))
    scorer = Scorer(
        [Term(load_reward("env"), 1.0, "step")],
        PpoSettings().scoring,
        COPIES,
        tuple(environment.cameras),
        torch.device("cpu"),
    )
    settings: Any = PpoSettings(episodes={"num_envs": COPIES, "steps": 32})
    learner = Sb3Ppo(actor, ScoredEnv(environment, actor.spec, scorer, seed=0), settings)
    torch.manual_seed(0)
    np.random.seed(0)
    return [learner.update() for _ in range(count)], actor.tensors()


def test_the_page_has_the_losses_of_the_class() -> None:
    metrics, weights = updates(3)
    page = run("ppo", UPDATES=3, COPIES=COPIES)
    ours = page["actor"].tensors()
    assert metrics[-1]["loss/total"] == page["loss"].item()
    assert metrics[-1]["loss/policy"] == pytest.approx(np.mean(page["policy_losses"]), rel=1e-12)
    assert metrics[-1]["loss/value"] == pytest.approx(np.mean(page["value_losses"]), rel=1e-12)
    assert all(torch.equal(ours[name], weights[name]) for name in weights)
    torch.manual_seed(0)
    first = Actor(page["actor"].spec).tensors()
    assert not any(torch.equal(first[name], weights[name]) for name in weights)
    other = run("ppo", UPDATES=1, COPIES=COPIES, SEED=1)["actor"].tensors()
    assert not any(torch.equal(other[name], weights[name]) for name in weights)


@pytest.mark.parametrize("update", [1, 2])
def test_each_update_has_the_losses_of_the_class(update: int) -> None:
    page = run("ppo", UPDATES=update, COPIES=COPIES)
    assert updates(update)[0][-1]["loss/total"] == page["loss"].item()
