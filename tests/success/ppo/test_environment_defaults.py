"""What an environment says of its own training, and what runs meant that were recorded before there were kinds."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from motionkit.config import Given, resolve
from motionkit.success.collect_settings import RewardCollectSettings
from motionkit.success.environments.arm import open_reach
from motionkit.success.environments.tasks import ReachSettings, as_recorded
from motionkit.success.ppo.settings import PpoSettings
from motionkit.success.ppo.train import compare_environments


def settled(model: Any, *sets: str) -> Any:
    return resolve(model, Given(sets=sets)).settings


def test_an_environment_replaces_defaults_and_what_is_given_wins() -> None:
    push = settled(PpoSettings, "env=push")
    assert (push.run.num_steps, push.episodes.num_envs, push.objective.entropy) == (240, 128, 0.005)
    assert settled(PpoSettings, "policy.kind=pixels").run.num_steps == 120
    own = settled(PpoSettings, "env=push", "run.num_steps=7", "episodes.num_envs=4")
    assert (own.run.num_steps, own.episodes.num_envs, own.episodes.steps) == (7, 4, 32)
    collect = settled(RewardCollectSettings, "env=push")
    assert (collect.run.num_steps, collect.episodes.num_envs, collect.objective.entropy) == (64, 128, 0.0)
    arm = settled(PpoSettings)
    assert (arm.run.num_steps, arm.episodes.num_envs, arm.episodes.steps) == (80, 64, 32)
    assert settled(PpoSettings, "env.kind=point").run.num_steps == 0  # 16 or 40, by the policy
    assert settled(RewardCollectSettings).run.num_steps == 12
    assert settled(RewardCollectSettings, "env.kind=point").episodes.num_envs == 16


def test_a_recorded_environment_without_a_kind_is_a_point() -> None:
    old = {"name": "reach", "max_steps": 30}
    assert as_recorded(old)["kind"] == "point"
    assert as_recorded({**old, "kind": "arm"})["kind"] == "arm"
    assert as_recorded({"name": "push"}) == {"name": "push"}


def test_a_classifier_of_the_other_kind_is_said() -> None:
    arm, point = (open_reach(ReachSettings.model_validate({"kind": kind})).spec for kind in ("arm", "point"))
    assert not compare_environments(point, point, "x")
    assert "kind point, not arm" in compare_environments(point, arm, "x")
    assert "kind arm, not point" in compare_environments(arm, point, "x")


@pytest.mark.parametrize("command", ["ppo", "reward-collect"])
def test_a_run_of_before_the_kinds_resumes_as_a_point(cli: Callable[..., Any], command: str) -> None:
    small = ["--num-envs", "2", "--set", "episodes.steps=4", "--env.max-steps", "5", "--env.size", "16", "--seed", "3"]
    small += ["--reward", "env", "--set", "heldout.episodes=2"] if command == "ppo" else []

    def ran(out: str, *words: str) -> Any:
        return cli(command, *words, *(["--out", out] if out else []))

    assert ran("whole", *small, "--env.kind", "point", "--num-steps", "3").exit_code == 0
    assert ran("old", *small, "--env.kind", "point", "--num-steps", "2").exit_code == 0
    config = json.loads(Path("old/config.json").read_text())
    assert config["env"].pop("kind") == "point"
    for later in ("augment", "clone"):
        config.pop(later, None)
    Path("old/config.json").write_text(json.dumps(config))
    found = ran("", "--resume", "old", "--num-steps", "3")
    assert found.exit_code == 0, found.output
    assert json.loads(Path("old/config.json").read_text())["env"]["kind"] == "point"
    actors = [(Path(run) / "actor" / "model.safetensors").read_bytes() for run in ("whole", "old")]
    assert actors[0] == actors[1]
    again = ran("copy", "--config", "old", "--num-steps", "1")
    assert again.exit_code == 0, again.output
    assert json.loads(Path("copy/config.json").read_text())["env"]["kind"] == "point"
