"""`motionkit ppo --init EPISODES`: what is cloned is what was done, and what cannot be cloned is said."""

from __future__ import annotations

import shutil
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from motionkit.errors import MotionkitError
from motionkit_success.actor import Actor, load_actor
from motionkit_success.actor_settings import ActorSpec
from motionkit_success.collect import RewardCollect
from motionkit_success.collect_settings import RewardCollectSettings
from motionkit_success.episodes import Collector
from motionkit_success.ppo import clone as module
from motionkit_success.ppo import train as trainer_module
from motionkit_success.ppo.clone import clone, open_demonstrations
from motionkit_success.ppo.settings import CloneSettings, PpoSettings, environment_of_inputs
from motionkit_success.ppo.train import PpoTrainer
from tests.made.training import run_trainer

CAMERA = {"camera": (8, 8)}


def spec(**changes: Any) -> ActorSpec:
    base = {"kind": "mlp", "width": 32, "state_size": 2, "cameras": CAMERA, "low": (-1.0, -4.0), "high": (1.0, 4.0),
            "choices": 0, "environment": {"name": "made"}}  # fmt: skip
    return ActorSpec.model_validate({**base, **changes})


def write(folder: Path, count: int = 20, *, success: bool = True, choices: int = 0, **more: Any) -> Path:
    """Write episodes in which what is done is a plain function of what is seen: of the state, or of a bright corner."""
    rng = np.random.default_rng(0)
    columns: Any = {"action": 1 if choices else 2, "state": 2}
    own = {"environment": {"name": "made"}, **more}
    with Collector(folder, cameras=CAMERA, columns=columns, choices=choices, **own) as collector:
        for _ in range(count):
            done = rng.uniform(-1, 1, 2)  # of the reset, which no row shows
            for step in range(6):
                state = rng.uniform(-1, 1, 2)
                picture = rng.integers(0, 60, (8, 8, 3)).astype(np.uint8)
                picture[:4, : 4 * int(state[0] > 0)] = 250
                action = np.array([float(done[0] > 0)]) if choices else np.array([done[1] * 0.5, 3 * done[0]])
                collector.add({"camera": picture}, success and step == 5, step == 5, action=action, state=state)
                done = state
    return folder


@pytest.mark.parametrize("choices", [0, 3])
def test_what_was_done_in_a_state_is_learned(tmp_path: Path, choices: int) -> None:
    place = write(tmp_path / "data", choices=choices)
    own = spec(choices=choices, **({"low": (), "high": ()} if choices else {}))
    options = CloneSettings(epochs=150)
    data = open_demonstrations(place, own, options, seed=0)
    assert (len(data.train), len(data.val)) == (18 * 5, 2 * 5)
    assert not set(data.episodes.episode[data.train]) & set(data.episodes.episode[data.val])
    torch.manual_seed(0)
    actor = Actor(own)
    found = clone(actor, data, options, seed=0)
    assert found["loss"] < 0.3 * found["before"]
    states = np.random.default_rng(5).uniform(-0.9, 0.9, (200, 2)).astype(np.float32)
    acted = actor.act(states, deterministic=True)
    if choices:
        assert (acted == (states[:, 0] > 0)).mean() > 0.9
    else:
        wanted = np.stack([states[:, 1] * 0.5, 3 * states[:, 0]], 1)
        assert np.abs(acted - wanted).mean() < 0.15 * np.abs(wanted).mean()


def test_pictures_are_cloned_too(tmp_path: Path) -> None:
    place = write(tmp_path / "data", choices=2)
    own = spec(kind="pixels", choices=2, low=(), high=())
    options = CloneSettings(epochs=60, patience=60, learning_rate=3e-3)
    data = open_demonstrations(place, own, options, seed=0)
    torch.manual_seed(0)
    actor = Actor(own)
    clone(actor, data, options, seed=0)
    held = data.observed(own, data.val)
    assert (actor.act(held, deterministic=True) == data.actions[data.val]).all()


def test_the_loss_is_the_squared_error_in_halves_of_the_range(tmp_path: Path) -> None:
    data = open_demonstrations(write(tmp_path / "data"), spec(), CloneSettings(), seed=0)
    torch.manual_seed(0)
    actor = Actor(spec())
    own = module._loss(actor, data, data.train[:7]).detach().numpy()
    for row, number in zip(own, data.train[:7], strict=True):
        network = actor.network
        seen = torch.from_numpy(data.episodes.column("state")[number][None])
        mean = network.action_net(network.mlp_extractor.forward_actor(seen)).detach().numpy()[0]
        done = data.episodes.column("action")[number]
        assert np.isclose(row, (((mean[0] - done[0]) / 1) ** 2 + ((mean[1] - done[1]) / 4) ** 2) / 2, rtol=1e-4)


def test_the_spread_is_the_held_out_error_and_no_less_than_asked(tmp_path: Path) -> None:
    options = CloneSettings(epochs=3, spread=0.05)
    data = open_demonstrations(write(tmp_path / "data"), spec(), options, seed=0)
    torch.manual_seed(0)
    actor = Actor(spec())
    critic = actor.network.value_net.weight.detach().clone()
    clone(actor, data, options, seed=0)
    mean = actor.network.get_distribution(torch.from_numpy(data.observed(spec(), data.val))).distribution.mean
    error = np.sqrt(((mean.detach().numpy() - data.actions[data.val]) ** 2).mean(0))
    assert np.allclose(actor.network.log_std.detach().exp().numpy(), np.maximum(error, [0.05, 0.2]), rtol=1e-4)
    assert torch.equal(critic, actor.network.value_net.weight)


def test_it_ends_when_held_out_episodes_get_no_better_and_keeps_the_best(tmp_path: Path) -> None:
    options = CloneSettings(epochs=500, patience=3, learning_rate=0.05)
    data = open_demonstrations(write(tmp_path / "data", 4), spec(), options, seed=0)
    torch.manual_seed(0)
    actor = Actor(spec())
    found = clone(actor, data, options, seed=0)
    assert found["epochs"] == found["best_epoch"] + 3 < 500
    assert np.isclose(module._held_out(actor, data), found["loss"])


def test_only_successes_are_cloned_and_as_many_as_asked(tmp_path: Path) -> None:
    write(tmp_path / "data", 5)
    place = tmp_path / "data"
    with Collector(place, cameras=CAMERA, columns={"action": 2, "state": 2}) as collector:
        for step in range(3):
            frame = {"camera": np.full((8, 8, 3), step, np.uint8)}
            collector.add(frame, False, step == 2, action=np.zeros(2), state=np.zeros(2))
    data = open_demonstrations(place, spec(), CloneSettings(), seed=0)
    assert len(data.episodes.records) == 5
    assert any("1 of 6 episodes without a success are not cloned" in note for note in data.notes)
    data = open_demonstrations(place, spec(), CloneSettings(episodes=3), seed=0)
    assert [record.id for record in data.episodes.records] == ["00-000000", "00-000001", "00-000002"]


def test_episodes_of_which_nobody_says_what_succeeds_are_cloned_with_a_note(tmp_path: Path) -> None:
    place = write(tmp_path / "data", success=False, labelled=False)
    data = open_demonstrations(place, spec(), CloneSettings(), seed=0)
    assert any("does not say which episodes succeed" in note for note in data.notes)


def test_actions_beyond_the_limits_are_said(tmp_path: Path) -> None:
    data = open_demonstrations(write(tmp_path / "data"), spec(high=(0.1, 4.0)), CloneSettings(), seed=0)
    assert data.actions[:, 0].max() == np.float32(0.1)
    assert any("beyond the environment's limits" in note for note in data.notes)


@pytest.mark.parametrize(
    ("more", "changes", "said"),
    [
        ({"success": False}, {}, "none of the 20 episodes .* succeeds"),
        ({"count": 1}, {}, "1 episode of .* can be cloned"),
        ({"success": False}, {}, "succeeds"),
        ({"count": 1}, {}, "1 episode"),
        ({"environment": {"name": "other"}}, {}, "other"),
        ({}, {"low": (-1.0,), "high": (1.0,)}, "actions"),
        ({"choices": 3}, {}, "actions"),
        ({}, {"state_size": 6}, "states"),
        ({}, {"kind": "pixels", "cameras": {"camera": (16, 16)}}, "cameras"),
    ],
)
def test_what_cannot_be_cloned_is_said(tmp_path: Path, more: Any, changes: Any, said: str) -> None:
    place = write(tmp_path / "data", **more)
    with pytest.raises(MotionkitError, match=said) as error:
        open_demonstrations(place, spec(**changes), CloneSettings(), seed=0)
    assert error.value.fix


def test_episodes_without_actions_are_refused(tmp_path: Path) -> None:
    with Collector(tmp_path, cameras=CAMERA) as collector:
        collector.add({"camera": np.zeros((8, 8, 3), np.uint8)}, True, True)
    with pytest.raises(MotionkitError, match="have no actions"):
        open_demonstrations(tmp_path, spec(), CloneSettings(), seed=0)


@pytest.fixture(scope="module")
def scripted(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A run of reward-collect --policy scripted."""
    out = tmp_path_factory.mktemp("runs") / "demos"
    options = RewardCollectSettings.model_validate(
        {"run": {"num_steps": 2, "out": out}, "env": {"name": "reach", "max_steps": 20}, "policy": "scripted",
         "episodes": {"num_envs": 8, "steps": 60}, "threads": 1}
    )  # fmt: skip
    run_trainer(RewardCollect, "reward-collect", options, out)
    return out


def settings(out: Path | None, init: Path, **changes: Any) -> PpoSettings:
    base: dict[str, Any] = {
        "run": {"num_steps": 3, "out": out}, "env": {"name": "reach", "max_steps": 20}, "init": init,
        "reward": {"env": {"weight": 1.0}}, "episodes": {"num_envs": 4, "steps": 12},
        "objective": {"batch_size": 16, "epochs": 2}, "heldout": {"episodes": 20, "watched": 4, "every": 2},
        "clone": {"epochs": 200, "critic": 2}, "threads": 1,
    }  # fmt: skip
    return PpoSettings.model_validate({**base, **changes})


def train(out: Path, init: Path, *, stop_after: int = 0, **changes: Any) -> tuple[PpoTrainer, Mapping[str, Any]]:
    made: tuple[PpoTrainer, Mapping[str, Any]] = run_trainer(
        PpoTrainer, "ppo", settings(out, init, **changes), out, stop_after=stop_after
    )
    return made


@pytest.fixture(scope="module")
def whole(scripted: Path, tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Mapping[str, Any]]:
    out = tmp_path_factory.mktemp("runs") / "whole"
    return out, train(out, scripted)[1]


def test_a_run_begins_with_what_was_cloned(whole: tuple[Path, Mapping[str, Any]]) -> None:
    _, found = whole
    assert found["success"]["before"] >= 0.8
    assert found["clone"]["episodes"] == 48
    assert "Before is the policy that was cloned" in found["measured_on"]


def test_the_critic_learns_alone_first(tmp_path: Path, scripted: Path) -> None:
    kept: list[dict[str, torch.Tensor]] = []
    for critic, steps in ((5, 1), (5, 2), (1, 2)):
        out = tmp_path / f"run{len(kept)}"
        changes = {"clone": {"epochs": 5, "critic": critic}, "run": {"num_steps": steps, "out": out}}
        train(out, scripted, **changes)
        kept.append(load_actor(out / "actor-last").tensors())
    one, two, other = kept
    assert {name for name in one if not torch.equal(one[name], two[name])} == {
        name for name in one if "value_net" in name
    }
    assert any(not torch.equal(one[name], other[name]) for name in one if "value_net" not in name)


def test_a_run_that_was_stopped_ends_in_the_same_bits_and_is_not_cloned_again(
    tmp_path: Path, scripted: Path, whole: tuple[Path, Mapping[str, Any]], monkeypatch: pytest.MonkeyPatch
) -> None:
    train(tmp_path / "parts", scripted, stop_after=1)
    monkeypatch.setattr(trainer_module, "clone", lambda *_, **__: pytest.fail("cloned again"))
    resumed = settings(None, scripted)
    again = resumed.model_copy(update={"run": resumed.run.model_copy(update={"resume": tmp_path / "parts"})})
    _, found = run_trainer(PpoTrainer, "ppo", again, tmp_path / "parts")
    one, two = load_actor(whole[0]), load_actor(tmp_path / "parts")
    assert all(torch.equal(one.tensors()[name], two.tensors()[name]) for name in one.tensors())
    assert found["clone"]["episodes"] == 48


def test_the_environment_is_that_of_the_episodes(tmp_path: Path, scripted: Path) -> None:
    elsewhere = tmp_path / "copy"
    shutil.copytree(scripted / "episodes", elsewhere)
    for place in (scripted, scripted / "episodes", elsewhere):
        layer = environment_of_inputs(PpoSettings, [], {"--init": [str(place)]})
        assert layer is not None
        assert layer.table["env"]["max_steps"] == 20


def test_settings_of_cloning_without_episodes_are_refused(whole: tuple[Path, Mapping[str, Any]]) -> None:
    with pytest.raises(MotionkitError, match="no episodes"):
        PpoTrainer(settings(None, whole[0])).prepare()


def test_what_is_done_after_the_first_success_is_not_cloned(tmp_path: Path) -> None:
    place = tmp_path / "data"
    with Collector(place, cameras=CAMERA, columns={"action": 2, "state": 2}, environment={"name": "made"}) as collector:
        for _ in range(4):
            for step in range(9):
                row = {"action": np.array([0.1, float(step)]), "state": np.zeros(2)}
                collector.add({"camera": np.zeros((8, 8, 3), np.uint8)}, step >= 5, step == 8, **row)
    data = open_demonstrations(place, spec(high=(1.0, 9.0)), CloneSettings(), seed=0)
    assert (len(data.train), len(data.val)) == (3 * 5, 5)
    # What led to the frame of success was done in the one before it.
    assert set(data.actions[data.train][:, 1].tolist()) == {1.0, 2.0, 3.0, 4.0, 5.0}
