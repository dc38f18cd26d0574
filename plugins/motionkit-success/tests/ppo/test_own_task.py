"""Classifier, actor and task belong together: what is not typed comes from the data, another task is refused."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import ClassVar

import gymnasium
import numpy as np
import pytest
import torch
from gymnasium.spaces import Box
from typer.testing import Result

from motionkit.errors import MotionkitError
from motionkit_success.classifier import Card, SuccessClassifier, save_classifier
from motionkit_success.ppo.train import compare_environments
from tests.made.commands import assert_refused

Cli = Callable[..., Result]


class Push(gymnasium.Env[np.ndarray, np.ndarray]):
    """A dot on a line; success is at the end."""

    metadata: ClassVar = {"render_modes": ["rgb_array"]}
    observation_space = Box(-1, 1, (1,))
    action_space = Box(-1, 1, (1,))

    def __init__(self, render_mode: str | None = None) -> None:
        self.render_mode = render_mode

    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed)
        self.x = self.np_random.uniform(-0.5, 0.5)
        return np.array([self.x], np.float32), {}

    def step(self, action):
        self.x = float(np.clip(self.x + 0.2 * action[0], -1, 1))
        done = self.x > 0.8
        return np.array([self.x], np.float32), float(done), False, False, {"success": done}

    def render(self):
        picture = np.zeros((16, 16, 3), np.uint8)
        picture[:, int((self.x + 1) * 7.5)] = 250
        return picture


@pytest.fixture(autouse=True)
def registered():
    for name in ("Push-v0", "Lift-v0"):
        gymnasium.register(f"MotionkitTest{name}", entry_point=Push, max_episode_steps=6)
    yield
    for name in ("Push-v0", "Lift-v0"):
        gymnasium.registry.pop(f"MotionkitTest{name}")


SPEC = {
    "name": "gymnasium", "id": "MotionkitTestPush-v0", "kwargs": {}, "camera": "render", "image_keys": [], "size": 16,
    "success_key": "auto", "max_steps": 0,
}  # fmt: skip
SHORT = ("--num-steps", "1", "--num-envs", "2", "--threads", "1", "--set", "heldout.episodes=2",
         "--set", "heldout.watched=2", "--set", "episodes.steps=8")  # fmt: skip


def classifier(folder: Path, **spec: object) -> Path:
    torch.manual_seed(0)
    card = Card(architecture="small", cameras={"render": (16, 16)}, environment={**SPEC, **spec})
    save_classifier(folder, SuccessClassifier.make(card))
    return folder


def test_ppo_acts_in_the_environment_of_the_classifiers_data(cli: Cli) -> None:
    classifier(Path("C"))
    plan = json.loads(cli("ppo", "--reward.checkpoint", "C", "--dry-run", "--json").stdout)
    assert plan["settings"]["env"] == SPEC
    assert plan["origins"]["env.id"] == "the environment of C"
    # What is typed wins, option by option.
    plan = json.loads(cli("ppo", "--reward.checkpoint", "C", "--env.max-steps", "4", "--dry-run", "--json").stdout)
    assert plan["settings"]["env"] == {**SPEC, "max_steps": 4}
    assert any("max_steps 0, not 4" in note for note in plan["plan"]["notes"])
    plan = json.loads(cli("ppo", "--reward", "env", "--dry-run", "--json").stdout)
    assert plan["settings"]["env"]["name"] == "reach"


def test_another_task_is_refused_and_both_are_named(cli: Cli) -> None:
    classifier(Path("C"))
    words = ("ppo", "--reward.checkpoint", "C", "--dry-run")
    assert_refused(
        cli(*words, "--env", "reach"),
        "frames of gymnasium MotionkitTestPush-v0, and the environment of this run is reach",
        "--env gymnasium --env.id MotionkitTestPush-v0",
    )
    # The same camera and size: nothing else tells the tasks apart.
    assert_refused(
        cli(*words, "--env", "gymnasium", "--env.id", "MotionkitTestLift-v0", "--env.size", "16"),
        "MotionkitTestLift-v0",
    )


def test_an_actors_environment_goes_with_it(cli: Cli) -> None:
    done = cli("ppo", "--env", "gymnasium", "--env.id", "MotionkitTestPush-v0", "--env.size", "16", "--reward", "env",
               "--out", "P", *SHORT)  # fmt: skip
    assert done.exit_code == 0, done.stderr
    for words in (("ppo", "--init", "P", "--reward", "env"), ("reward-collect", "--policy", "P"),
                  ("ppo", "--init", "P/actor", "--reward", "env")):  # fmt: skip
        plan = json.loads(cli(*words, "--dry-run", "--json").stdout)
        assert plan["settings"]["env"] == SPEC, words
    again = json.loads(cli("ppo", "--resume", "P", "--dry-run", "--json").stdout)
    assert again["settings"]["env"] == SPEC
    record = json.loads(Path("P/run.json").read_text())
    assert "init" not in record["inputs"]
    done = cli("ppo", "--init", "P", "--reward", "env", "--out", "Q", *SHORT)
    assert done.exit_code == 0, done.stderr
    assert len(json.loads(Path("Q/run.json").read_text())["inputs"]["init"]) == 32


@pytest.mark.parametrize("command", ["ppo", "reward-collect"])
def test_an_actor_that_changed_is_refused_by_resume(cli: Cli, command: str) -> None:
    here = ("--env", "gymnasium", "--env.id", "MotionkitTestPush-v0", "--env.size", "16")
    assert cli("ppo", *here, "--reward", "env", "--out", "P", *SHORT).exit_code == 0
    if command == "ppo":
        words, key = ("--init", "P", "--reward", "env", *SHORT), "init"
    else:
        words, key = ("--policy", "P", "--num-steps", "1", "--num-envs", "2", "--set", "episodes.steps=8"), "policy"
    done = cli(command, *words, "--out", "Q")
    assert done.exit_code == 0, done.stderr
    assert cli(command, "--resume", "Q", "--num-steps", "2").exit_code == 0
    assert cli("ppo", *here, "--reward", "env", "--out", "P", "--overwrite", "--seed", "5", *SHORT).exit_code == 0
    assert_refused(cli(command, "--resume", "Q", "--num-steps", "3"), f"{key} (P)")


def test_a_classifiers_file_executes_nothing(cli: Cli) -> None:
    Path("evil.py").write_text("open('ran', 'w').write('x')\n")
    classifier(Path("A"), id="evil:Push-v0")
    assert_refused(cli("ppo", "--reward.checkpoint", "A", "--dry-run"), "--env.id evil:Push-v0")
    classifier(Path("B"), name="./evil.py:component")
    assert_refused(cli("ppo", "--reward.checkpoint", "B", "--dry-run"), "which is code")
    assert not Path("ran").exists()


def test_environments_by_their_specs() -> None:
    assert compare_environments(SPEC, SPEC, "C") == ""
    assert "not known" in compare_environments({}, SPEC, "C")
    assert "size 16, not 32" in compare_environments(SPEC, {**SPEC, "size": 32}, "C")
    for other in ({**SPEC, "id": "MotionkitTestLift-v0"}, {"name": "reach"}):
        with pytest.raises(MotionkitError, match="MotionkitTestPush-v0"):
            compare_environments(SPEC, other, "C")


@pytest.mark.parametrize(
    ("words", "key"),
    [
        (("--precision", "bf16"), "precision"), (("--set", "scoring.k=3"), "scoring.k"),
        (("--reward.mode", "any"), "reward.success-classifier.mode"),
        (("--reward.mode", "k-of-n"), "reward.success-classifier.mode"),
        (("--reward", "env", "--reward-mode", "terminal"), "scoring.mode"),
        (("--reward", "env", "--stop-on-gap"), "alarm.stop"),
    ],
)  # fmt: skip
def test_options_without_effect_are_refused(cli: Cli, words: tuple[str, ...], key: str) -> None:
    classifier(Path("C"))
    chosen = () if "--reward" in words else ("--reward.checkpoint", "C")
    assert_refused(cli("ppo", *chosen, *words, "--dry-run"), "has no effect", key)
