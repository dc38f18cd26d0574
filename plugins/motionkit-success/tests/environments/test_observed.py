"""An observation's numbers are those of `gymnasium.spaces.flatten`, in its order, and what is left out is named."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, ClassVar

import gymnasium
import numpy as np
import pytest
from gymnasium.spaces import (
    Box,
    Dict,
    Discrete,
    Graph,
    MultiBinary,
    MultiDiscrete,
    Sequence,
    Space,
    Text,
    Tuple,
    flatten,
)
from typer.testing import Result

from motionkit.errors import MotionkitError
from motionkit_success.environments.observed import Observed
from motionkit_success.environments.registered import GymnasiumEnvironment, as_picture
from motionkit_success.environments.tasks import GymnasiumSettings
from tests.made.commands import assert_refused

Cli = Callable[..., Result]

READ: dict[str, Space[Any]] = {
    "a vector": Box(-1, 1, (3,)),
    "a number": Box(-1, 1, ()),
    "bytes in a row, as Atari's memory": Box(0, 255, (6,), np.uint8),
    "a table": Box(-1, 1, (5, 5)),
    "a table of whole numbers": Box(-9, 9, (2, 3, 4), np.int64),
    "the largest table": Box(-1, 1, (32, 32)),
    "a choice": Discrete(4, start=-1),
    "bits": MultiBinary(4),
    "a table of bits": MultiBinary([2, 3]),
    "choices": MultiDiscrete([3, 2, 5], start=[1, 0, -2]),
    "a table of choices": MultiDiscrete([[2, 3], [4, 5]]),
    "several": Tuple((Discrete(3), Box(0, 1, (2,)), MultiBinary(2))),
    "named": Dict({"z": Box(0, 1, (2,)), "a": Discrete(2), "m": Dict({"y": MultiBinary(3), "b": Box(0, 1, (2, 2))})}),
    "nested": Tuple((Dict({"q": MultiDiscrete([2, 2])}), Tuple((Discrete(2), Box(0, 1, (1,)))))),
}


@pytest.mark.parametrize("name", READ)
def test_it_reads_what_gymnasium_flattens(name: str) -> None:
    space = READ[name]
    space.seed(0)
    read = Observed(space)
    assert read.left_out == {}
    for _ in range(5):
        seen = space.sample()
        numbers = read(seen)
        assert numbers.dtype == np.float32
        assert np.array_equal(numbers, np.asarray(flatten(space, seen), np.float32))
        assert sum(read.widths(seen).values()) == len(numbers)


def test_parts_are_named_by_their_way_in_the_observation() -> None:
    space = Dict({"b": Tuple((Discrete(3), Box(0, 1, (2,)))), "a": Dict({"x": MultiBinary(4)})}, seed=0)
    assert Observed(space).widths(space.sample()) == {"a/x": 4, "b/0": 3, "b/1": 2}
    assert Observed(Box(0, 1, (2,))).widths(np.zeros(2)) == {"observation": 2}


@pytest.mark.parametrize(
    ("space", "what"),
    [
        (Box(0, 255, (8, 8, 3), np.uint8), "a picture of 8 x 8 x 3"),
        (Box(0, 255, (8, 8), np.uint8), "a picture of 8 x 8"),
        (Box(-1, 1, (33, 32)), "a table of 33 x 32, more than 1,024 numbers"),
        (MultiBinary([64, 64]), "a table of 64 x 64, more than 1,024 numbers"),
        (Text(4), "text"),
        (Sequence(Box(0, 1, (2,))), "sequence"),
        (Graph(Box(0, 1, (2,)), Discrete(2)), "graph"),
    ],
)
def test_what_is_left_out_is_named(space: Space[Any], what: str) -> None:
    both = Dict({"goal": Box(0, 1, (2,)), "odd": space}, seed=0)
    read = Observed(both)
    assert read.left_out == {"odd": what}
    assert read.widths(both.sample()) == {"goal": 2}
    assert Observed(space).left_out == {"observation": what}
    assert len(Observed(space)(space.sample())) == 0


@pytest.mark.parametrize(("space", "value"), [(Discrete(3, start=5), 4), (MultiDiscrete([2, 3]), np.array([1, 3]))])
def test_a_choice_that_there_is_not_is_an_error(space: Space[Any], value: Any) -> None:
    with pytest.raises(MotionkitError, match="the part goal of an observation is"):
        Observed(Dict({"goal": space}))({"goal": value})


class Odd(gymnasium.Env[Any, Any]):
    """An observation of many kinds; success after three steps."""

    metadata: ClassVar = {"render_modes": ["rgb_array"]}
    observation_space: Any = Dict(
        {
            "agent": Box(-1, 1, (2,)), "walls": MultiBinary(4), "grid": Box(-1, 1, (5, 5)), "goal": Discrete(3),
            "eye": Box(0, 255, (8, 8, 3), np.uint8), "word": Text(3),
        }
    )  # fmt: skip
    action_space = Box(-1, 1, (1,))

    def __init__(self, render_mode: str | None = None, channels: int = 3, parts: str = "") -> None:
        self.render_mode, self.channels = render_mode, channels
        if parts:
            spaces = self.observation_space.spaces
            self.observation_space = Dict({name: spaces[name] for name in parts.split(",")})

    def _seen(self) -> Any:
        self.observation_space.seed(self.taken)
        return self.observation_space.sample()

    def reset(self, *, seed: int | None = None, options: Any = None) -> Any:
        super().reset(seed=seed)
        self.taken = 0
        return self._seen(), {}

    def step(self, action: Any) -> Any:
        self.taken += 1
        return self._seen(), 0.0, False, False, {"success": self.taken > 2}

    def render(self) -> Any:
        rng = np.random.default_rng(self.taken)
        picture = rng.integers(0, 255, (16, 16, max(self.channels, 1)), dtype=np.uint8)
        return picture if self.channels else picture[..., 0]


@pytest.fixture(autouse=True)
def registered() -> Iterator[None]:
    gymnasium.register("Odd-v0", entry_point=Odd, max_episode_steps=4)
    yield
    gymnasium.registry.pop("Odd-v0")


ODD = ("--env", "gymnasium", "--env.id", "Odd-v0", "--env.size", "16")
SHORT = ("--num-steps", "1", "--num-envs", "2", "--threads", "1", "--set", "episodes.steps=8", "--set",
         "objective.batch_size=16")  # fmt: skip
PARTS = {"agent": 2, "goal": 3, "grid": 25, "walls": 4}
OUT = {"eye": "a picture of 8 x 8 x 3", "word": "text"}


def test_a_run_says_what_the_state_is_and_what_is_left_out(cli: Cli) -> None:
    few = ("--set", "heldout.episodes=2", "--set", "heldout.watched=2")
    done = cli("ppo", *ODD, "--reward", "env", *SHORT, *few, "--out", "P")
    assert done.exit_code == 0, done.stderr
    said = " ".join(done.stderr.split())
    assert (
        "the state is 34 numbers (agent 2, goal 3, grid 25, walls 4). Left out of the observation: eye (a picture"
        in said
    )
    shown = {"numbers": 34, "parts": PARTS, "left_out": OUT}
    assert json.loads(Path("P/run.json").read_text())["observation"] == shown
    spec = json.loads(Path("P/actor/actor.json").read_text())["spec"]
    assert (spec["state_size"], spec["state_parts"]) == (34, PARTS)
    # The same of what is collected.
    done = cli("reward-collect", *ODD, "--policy", "random", *SHORT[:-2], "--out", "C")
    assert done.exit_code == 0, done.stderr
    assert "Left out of the observation" in " ".join(done.stderr.split())
    assert json.loads(Path("C/run.json").read_text())["observation"] == shown
    manifest = json.loads(Path("C/episodes/manifest.json").read_text())
    assert (manifest["columns"]["state"], manifest["state_parts"]) == (34, PARTS)


def test_an_actor_of_another_width_is_refused_with_both_lists(cli: Cli) -> None:
    few = ("--set", "heldout.episodes=2", "--set", "heldout.watched=2")
    narrow = ("--env.kwargs", '{"parts": "agent,goal"}')
    assert cli("ppo", *ODD, *narrow, "--reward", "env", *SHORT, *few, "--out", "P").exit_code == 0
    both = "it reads 5 numbers (agent 2, goal 3); the environment shows 34 numbers (agent 2, goal 3, grid 25, walls 4)"
    for words in (("ppo", "--init", "P", "--reward", "env"), ("reward-collect", "--policy", "P")):
        assert_refused(cli(*words, *ODD, "--dry-run"), both)
    # Of an older version, which left parts out without a word: also where a run goes on.
    document = Path("P/actor/actor.json")
    table = json.loads(document.read_text())
    table["spec"].pop("state_parts")
    document.write_text(json.dumps(table))
    old = "it reads 5 numbers; the environment shows 34 numbers (agent 2, goal 3, grid 25, walls 4)"
    config = Path("P/config.json")
    settings = json.loads(config.read_text())
    settings["env"]["kwargs"] = {}
    config.write_text(json.dumps(settings))
    for words in (("ppo", "--init", "P", "--reward", "env", *ODD), ("ppo", "--resume", "P", "--num-steps", "2")):
        assert_refused(cli(*words), old, "Older versions left out")


def test_parts_of_one_width_in_another_order_do_not_fit(cli: Cli) -> None:
    few = ("--set", "heldout.episodes=2", "--set", "heldout.watched=2")
    narrow = (*ODD, "--env.kwargs", '{"parts": "agent,goal"}', "--reward", "env")
    assert cli("ppo", *narrow, *SHORT, *few, "--out", "P").exit_code == 0
    document = Path("P/actor/actor.json")
    table = json.loads(document.read_text())
    table["spec"]["state_parts"] = {"goal": 3, "agent": 2}
    document.write_text(json.dumps(table))
    found = cli("ppo", "--init", "P", *narrow, "--dry-run")
    assert found.exit_code == 2
    both = "it reads 5 numbers (goal 3, agent 2); the environment shows 5 numbers (agent 2, goal 3)"
    assert both in " ".join(found.stderr.split())


def test_pictures_that_are_named_are_in_no_state() -> None:
    options = GymnasiumSettings(id="Odd-v0", image_keys=("grid",), size=16)
    with pytest.raises(MotionkitError, match="grid gives float32"):  # -1 to 1 is no picture
        GymnasiumEnvironment(options)
    options = GymnasiumSettings(id="Odd-v0", image_keys=("eye",), size=16)
    environment = GymnasiumEnvironment(options)
    assert environment.left_out == {**OUT, "eye": "a picture, by --env.image-keys"}
    assert environment.state_parts == PARTS


@pytest.mark.parametrize(
    ("channels", "note"),
    [(4, "has an alpha channel, which is left out"), (1, "is grey: its channel is repeated"), (0, "is grey"), (3, "")],
)
def test_pictures_with_alpha_and_grey_ones_are_read_with_a_note(channels: int, note: str) -> None:
    environment = GymnasiumEnvironment(GymnasiumSettings(id="Odd-v0", size=16, kwargs={"channels": channels}))
    environment.reset(np.arange(1), np.arange(1))
    shown = environment.frames()["render"][0]
    drawn = np.random.default_rng(0).integers(0, 255, (16, 16, max(channels, 1)), dtype=np.uint8)
    assert np.array_equal(shown, drawn[..., :3] if channels > 1 else np.repeat(drawn, 3, -1))
    assert bool(environment.notes) == bool(note)
    assert all(note in said for said in environment.notes)


def test_channels_are_found_at_either_end() -> None:
    rng = np.random.default_rng(0)
    picture = rng.integers(0, 255, (16, 16, 4), dtype=np.uint8)
    for given in (picture, picture.transpose(2, 0, 1), picture[None]):
        read, note = as_picture(given, 16, "a camera")
        assert np.array_equal(read, picture[..., :3])
        assert note == "a camera has an alpha channel, which is left out."
    with pytest.raises(MotionkitError, match="gives ndarray"):
        as_picture(picture[..., :2], 16, "a camera")
