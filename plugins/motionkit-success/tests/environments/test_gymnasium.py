"""The adapter of gymnasium's environments, on a line that a dot is pushed along."""

from __future__ import annotations

import json
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import gymnasium
import numpy as np
import pytest
from gymnasium.spaces import Box, Dict, Discrete
from typer.testing import Result

from motionkit.errors import MotionkitError
from motionkit_success.checks import check_environment
from motionkit_success.environments.registered import GymnasiumEnvironment
from motionkit_success.environments.tasks import GymnasiumSettings

Cli = Callable[..., Result]
LIMIT = 12


class Line(gymnasium.Env[Any, Any]):
    """A dot in [0, 1] is pushed to the right; past 0.8 is success. The grey of its picture is its place."""

    metadata = {"render_modes": ["rgb_array"]}  # noqa: RUF012
    observation_space: Any = Box(0.0, 1.0, (2,))
    action_space: Any = Box(-1.0, 1.0, (1,))

    def __init__(self, render_mode: str | None = None, key: str = "success", late: bool = False, start: float = 0.5):
        self.render_mode, self.key, self.late, self.start = render_mode, key, late, start
        self.drawn, self.closed = 0, False

    def reset(self, *, seed: int | None = None, options: Any = None) -> Any:
        super().reset(seed=seed)
        self.place, self.taken = float(self.np_random.uniform(0, self.start)), 0
        return self._seen(), {"started": True}

    def step(self, action: Any) -> Any:
        assert abs(float(action[0])) <= 1
        self.place = min(max(self.place + 0.1 * float(action[0]), 0.0), 1.0)
        self.taken += 1
        told = {self.key: self.place > 0.8} if self.key and (not self.late or self.taken == 5) else {}
        return self._seen(), self.place, self.place == 1.0, False, {**told, "place": self.place}

    def render(self) -> Any:
        self.drawn += 1
        return self._picture() if self.render_mode else None

    def close(self) -> None:
        self.closed = True

    def _picture(self) -> Any:
        return np.full((40, 20, 3), int(self.place * 255), np.uint8)

    def _seen(self) -> Any:
        return np.array([self.place, self.taken / LIMIT], np.float32)


class Table(Line):
    """Shows a table, as simulators do: a nested picture of floats, channels first, and numbers of several sorts."""

    observation_space = Dict(
        {
            "near": Discrete(3, start=5),
            "arm": Dict({"place": Box(0.0, 1.0, ()), "pair": Box(0.0, 1.0, (2,))}),
            "eyes": Dict({"left hand": Box(0.0, 1.0, (3, 8, 8)), "grey": Box(0, 255, (8, 8), np.uint8)}),
        }
    )

    def _seen(self) -> Any:
        place = np.float32(self.place)
        picture = np.full((3, 8, 8), place)
        eyes = {"left hand": picture, "grey": np.zeros((8, 8), np.uint8)}
        return {"near": 6, "arm": {"place": place, "pair": np.array([place, 1 - place], np.float32)}, "eyes": eyes}


class Choices(Line):
    action_space = Discrete(2, start=3)

    def step(self, action: Any) -> Any:
        assert action in (3, 4)
        return super().step([1 if action == 4 else -1])


class Broken(Line):
    """Stops working at its fourth step."""

    def step(self, action: Any) -> Any:
        if self.taken == 3:
            raise RuntimeError("the motor is hot")
        return super().step(action)


class Blind(Line):
    def render(self) -> Any:
        raise ImportError("no window system")


class Square(Line):
    action_space = Box(-1.0, 1.0, (2, 2))


@pytest.fixture(autouse=True)
def registered() -> Iterator[None]:
    before = dict(gymnasium.registry)
    for kind in (Line, Table, Choices, Broken, Blind, Square):
        gymnasium.register(f"{kind.__name__}-v0", entry_point=kind, max_episode_steps=LIMIT)
    yield
    gymnasium.registry.clear()
    gymnasium.registry.update(before)


def made(name: str = "Line", copies: int = 2, **options: Any) -> GymnasiumEnvironment:
    settings = GymnasiumSettings.model_validate({"id": f"{name}-v0", "size": 16, **options})
    return GymnasiumEnvironment(settings, num_envs=copies)


def started(name: str = "Line", copies: int = 2, **options: Any) -> GymnasiumEnvironment:
    environment = made(name, copies, **options)
    environment.reset(np.arange(copies), np.arange(copies))
    return environment


@pytest.mark.parametrize("name", ["Line", "Table", "Choices"])
def test_the_contract(name: str) -> None:
    pictures = {"image_keys": ["eyes/left hand"]} if name == "Table" else {}
    check_environment("gymnasium", options={"id": f"{name}-v0", "size": 16, **pictures})
    check_environment("gymnasium", options={"id": f"{name}-v0", "size": 16, "max_steps": 3, **pictures})


@pytest.mark.parametrize("key", ["success", "is_success", "solved"])
def test_words_for_success_are_found_or_named(key: str) -> None:
    environment = started(kwargs={"key": key}, max_steps=50, **({"success_key": key} if key == "solved" else {}))
    while not (step := environment.step(np.array([[0.3], [-1.0]]))).success[0]:
        assert environment.states()[0, 0] <= 0.8
        assert step.infos[0]["place"] == pytest.approx(environment.states()[0, 0])
        assert not step.done.any()
    assert environment.states()[0, 0] > 0.8
    assert not step.success[1]


@pytest.mark.parametrize(
    ("name", "options", "word"),
    [
        ("Line", {"kwargs": {"render_mode": None}}, "--env.image-keys"),
        ("Blind", {}, "no window system"),
        ("Table", {"image_keys": ["front"]}, "near, arm, eyes"),
        ("Table", {"image_keys": ["arm/place/x"]}, "arm/place/x"),
        ("Table", {"image_keys": ["arm/pair"]}, "arm.pair"),
        ("Table", {"image_keys": ["eyes/left hand", "eyes.left hand"]}, "one camera"),
        ("Square", {}, "Square-v0"),
        ("Nothing", {}, "Nothing-v0"),
        ("Line", {"id": ""}, "no environment"),
        ("Line", {"kwargs": {"key": ""}}, "is_success"),
        ("Line", {"success_key": "won"}, "--env.success-key"),
        ("Broken", {"kwargs": {"key": ""}}, "Broken-v0"),  # while it is looked at
    ],
)
def test_what_cannot_be_collected_from_is_refused(name: str, options: dict[str, Any], word: str) -> None:
    with pytest.raises(MotionkitError) as caught:
        made(name, **options)
    assert word in caught.value.sentence()
    assert caught.value.code == 2


def test_frames_after_a_step_are_of_the_state_it_led_to() -> None:
    environment = started(copies=1)
    for _ in range(LIMIT):
        step = environment.step(np.array([[1.0]]))
        frame, place = environment.frames()["render"], environment.states()[0, 0]
        assert frame.shape == (1, 16, 16, 3)
        assert (frame == int(place * 255)).all()
        if step.done[0]:
            break
    assert step.terminated[0]
    assert place == 1.0  # not the start of another episode
    assert environment.step(np.array([[1.0]])).infos == [{}]
    assert (environment.frames()["render"] == 255).all()


def test_each_state_is_drawn_once() -> None:
    environment = started(copies=1)
    before = environment.envs[0].unwrapped.drawn  # type: ignore[attr-defined]
    environment.step(np.array([[0.5]]))
    for _ in range(3):
        environment.frames()
    assert environment.envs[0].unwrapped.drawn == before + 1  # type: ignore[attr-defined]


def test_the_time_limit_cuts_and_can_be_set() -> None:
    for options, limit in (({}, LIMIT), ({"max_steps": 4}, 4), ({"max_steps": 30}, 30)):
        environment = started(copies=1, **options)
        assert environment.max_steps == limit
        cut = [environment.step(np.array([[-1.0]])) for _ in range(limit)]
        assert [bool(step.truncated[0]) for step in cut] == [False] * (limit - 1) + [True]
        assert not cut[-1].terminated[0]


def test_a_table_becomes_numbers_and_pictures() -> None:
    environment = started("Table", image_keys=["eyes/left hand"])
    place = environment.seen(0)["arm"]["place"]
    # In the order of the space, whose names gymnasium sorts: arm (pair, place), eyes, near.
    assert np.allclose(environment.states()[0], [place, 1 - place, place, 0, 1, 0])
    assert environment.cameras == {"eyes.left.hand": (16, 16)}
    assert (environment.frames()["eyes.left.hand"][0] == int(place * 255 + 0.5)).all()


def test_actions_of_other_sorts() -> None:
    environment = started("Choices")
    assert environment.action_space == Discrete(2)
    before = environment.states()[:, 0]
    environment.step(np.array([1, 0]))
    assert np.allclose(environment.states()[:, 0] - before, [0.1, -min(0.1, before[1])])


def test_what_breaks_later_ends_the_run_in_words() -> None:
    environment = started("Broken")
    for _ in range(3):
        environment.step(np.ones((2, 1)))
    with pytest.raises(MotionkitError) as caught:
        environment.step(np.ones((2, 1)))
    assert (caught.value.why, caught.value.code) == ("RuntimeError: the motor is hot", 1)


def test_copies_are_closed_also_when_a_later_one_does_not_open(monkeypatch: pytest.MonkeyPatch) -> None:
    opened: list[Line] = []

    def third(**kwargs: Any) -> Line:
        if len(opened) == 2:
            raise OSError("too many windows")
        opened.append(Line(**kwargs))
        return opened[-1]

    gymnasium.register("Third-v0", entry_point=third, max_episode_steps=LIMIT)
    with pytest.raises(MotionkitError) as caught:
        made("Third", copies=3)
    assert caught.value.why == "OSError: too many windows"
    assert [env.closed for env in opened] == [True, True]


@pytest.mark.parametrize("typed", ["my_tasks:Still-v0", "./my_tasks.py:Still-v0", "my_tasks.py:Still-v0"])
def test_a_module_of_the_working_folder_is_told_how_to_find(cli: Cli, typed: str) -> None:
    Path("my_tasks.py").write_text(SOURCE)
    done = cli(*COLLECT[:-1], "--env", "gymnasium", "--env.id", typed)
    assert done.exit_code == 2
    assert "my_tasks.py is there, but Python does not look for modules in its folder." in done.stderr
    assert "fix  put PYTHONPATH=. before the command, with --env.id my_tasks:Still-v0" in done.stderr
    assert not Path("imported").exists()


def test_what_a_module_lacks_is_named(cli: Cli, monkeypatch: pytest.MonkeyPatch) -> None:
    Path("my_other_tasks.py").write_text("import nothing_of_this_name")
    monkeypatch.syspath_prepend(Path.cwd())
    done = cli(*COLLECT[:-1], "--env", "gymnasium", "--env.id", "my_other_tasks:Still-v0")
    assert done.exit_code == 2
    assert "No module named 'nothing_of_this_name'" in done.stderr
    assert "PYTHONPATH" not in done.stderr


def test_the_task_of_the_page_is_collected_and_learned(
    cli: Cli, root: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """docs/environments.md: the file, and its commands, made short."""
    page = (root / "docs/environments.md").read_text(encoding="utf-8")
    begin = page.index("```python", page.index("my_tasks.py"))
    Path("my_tasks.py").write_text(page[page.index("\n", begin) : page.index("```", begin + 3)])
    lines = [line.split()[1:] for line in page[page.index("export PYTHONPATH") :].splitlines() if "motionkit" in line]
    assert [line[0] for line in lines] == ["reward-collect", "reward-train", "ppo"]
    monkeypatch.syspath_prepend(tmp_path)
    monkeypatch.syspath_prepend(Path.cwd())
    short = {
        "reward-collect": ("--num-steps", "1", "--num-envs", "2", "--set", "episodes.steps=600", "--policy", "random"),
        "reward-train": ("--num-steps", "1", "--batch-size", "8"),
        "ppo": ("--num-steps", "1", "--num-envs", "2", "--set", "episodes.steps=30", "--set", "heldout.episodes=2",
                "--set", "heldout.watched=2", "--set", "objective.batch_size=30"),
    }  # fmt: skip
    for line in lines:
        done = cli(*line, *short[line[0]], "--threads", "1", "--device", "cpu")
        assert done.exit_code == 0, f"{line}\n{done.stderr}"
    sys.modules.pop("my_tasks")
    gymnasium.registry.pop("Push-v0")


SOURCE = """
import gymnasium, numpy as np, pathlib
pathlib.Path("imported").touch()

class Still(gymnasium.Env):
    observation_space = gymnasium.spaces.Box(0, 1, (1,))
    action_space = gymnasium.spaces.Box(-1, 1, (1,))
    metadata = {"render_modes": ["rgb_array"]}
    def __init__(self, render_mode=None):
        self.render_mode = render_mode
    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed)
        self.kind = self.np_random.random() > 0.5
        return np.zeros(1, np.float32), {}
    def step(self, action):
        return np.zeros(1, np.float32), 0.0, False, False, {"success": self.kind}
    def render(self):
        return np.full((16, 16, 3), 200 if self.kind else 20, np.uint8)

gymnasium.register("Still-v0", entry_point=Still, max_episode_steps=3)
"""
COLLECT = ("reward-collect", "--policy", "random", "--num-envs", "2", "--num-steps", "1", "--set", "episodes.steps=12",
           "--env.size", "16", "--json")  # fmt: skip


def test_a_module_is_imported_only_where_its_name_is_typed(cli: Cli, site: Any) -> None:
    site.install("still", "", still_environment=SOURCE)
    Path("file.json").write_text(json.dumps({"env": {"name": "gymnasium", "id": "still_environment:Still-v0"}}))
    done = cli(*COLLECT, "--config", "file.json", "--out", "out")
    assert done.exit_code == 2
    assert "counts only where it is typed" in done.stdout
    assert "--env.id still_environment:Still-v0" in done.stdout
    assert not Path("imported").exists()
    assert not Path("out").exists()
    assert "still_environment" not in sys.modules
    typed = cli(*COLLECT, "--env", "gymnasium", "--env.id", "still_environment:Still-v0", "--out", "out")
    assert typed.exit_code == 0, typed.stdout + typed.stderr
    Path("imported").unlink()
    del sys.modules["still_environment"], gymnasium.registry["Still-v0"]
    again = cli(*COLLECT, "--config", "out/config.json", "--out", "again")  # what a run has recorded is a file, too
    assert again.exit_code == 2
    assert not Path("imported").exists()
    both = cli(*COLLECT, "--config", "out/config.json", "--env.id", "still_environment:Still-v0", "--out", "again")
    assert both.exit_code == 0, both.stdout
    found = json.loads(both.stdout)
    assert found["positive"]["trajectories"] + found["negative"]["trajectories"] == 8
