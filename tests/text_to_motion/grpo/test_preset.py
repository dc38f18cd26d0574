"""The sizes that fit a GPU: when they are taken, what wins over them, and what is said."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
from typer.testing import Result

from motionkit.config import Resolved, resolve
from motionkit.contracts import device as devices
from motionkit.errors import MotionkitError
from motionkit.text_to_motion.grpo import settings as _preset
from motionkit.text_to_motion.grpo.settings import GrpoSettings
from motionkit.text_to_motion.mdm.settings import MDMOptions

from ...made.commands import assert_refused

Cli = Callable[..., Result]


@pytest.fixture(params=["cpu", "cuda", "mps"])
def machine(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> str:
    """A machine on which ``auto`` is this device."""
    here: str = request.param
    put(monkeypatch, here)
    return here


def put(monkeypatch: pytest.MonkeyPatch, here: str) -> None:
    def find(name: str) -> torch.device:
        if name != "auto" and name.partition(":")[0] not in (here, "cpu"):
            raise MotionkitError(f"--device {name} is not on this machine.")
        return torch.device(here if name == "auto" else name)

    monkeypatch.setattr(devices, "resolve_device", find)
    monkeypatch.setattr(_preset, "_has_driver", lambda: here != "cpu")


def ask(*sets: str, algorithm: str = "grpo", files: tuple[Path, ...] = (), **flags: Any) -> Resolved[GrpoSettings]:
    given = {("algorithm",): algorithm} | {(name,): value for name, value in flags.items()}
    return resolve(GrpoSettings, given, sets, files)


def sizes(found: Resolved[GrpoSettings]) -> dict[str, tuple[object, str]]:
    """Values that are not the defaults of a CPU, with their origins, of batches."""
    return {key: (value, origin) for key, value, origin in found.rows() if origin == "preset gpu"}


def test_auto_takes_what_is_there(machine: str) -> None:
    found = ask()
    expected = {"rollout.prompts": 32, "rollout.group_size": 16, "rollout.micro_batch": 512}
    assert sizes(found) == ({key: (size, "preset gpu") for key, size in expected.items()} if machine == "cuda" else {})
    line = (
        "preset gpu: rollout.prompts 32, rollout.group_size 16, rollout.micro_batch 512; "
        "--preset cpu keeps the small sizes"
    )
    assert (line in found.notes) is (machine == "cuda")
    assert found.settings.algorithm.options.rollout == found.settings.rollout
    assert found.settings.precision == "fp32"


def test_each_algorithm_has_its_own_sizes(monkeypatch: pytest.MonkeyPatch) -> None:
    put(monkeypatch, "cuda")
    assert sizes(ask(algorithm="reward-gradient")) == {"rollout.prompts": (64, "preset gpu")}
    assert ask(algorithm="auto").settings.rollout.prompts == 64


def test_a_policy_may_have_smaller_sizes(monkeypatch: pytest.MonkeyPatch) -> None:
    put(monkeypatch, "cuda")
    monkeypatch.setattr(MDMOptions, "gpu", {"rollout.micro_batch": 16}, raising=False)
    expected = {"rollout.prompts": 32, "rollout.group_size": 16, "rollout.micro_batch": 16}
    assert sizes(ask()) == {key: (size, "preset gpu") for key, size in expected.items()}
    assert sizes(ask(algorithm="reward-gradient")) == {"rollout.prompts": (64, "preset gpu")}  # it has no such size


@pytest.mark.parametrize(("preset", "device"), [("cpu", "auto"), ("auto", "cpu"), ("cpu", "cuda")])
def test_a_cpu_keeps_the_defaults(preset: str, device: str, monkeypatch: pytest.MonkeyPatch) -> None:
    put(monkeypatch, "cpu")
    plain = ask().snapshot()
    put(monkeypatch, "cuda")
    found = ask(preset=preset, device=device)
    assert {**found.snapshot(), "preset": "auto", "device": "auto"} == plain
    assert not sizes(found)
    assert not [note for note in found.notes if "preset" in note]


def test_everything_that_is_given_wins(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    put(monkeypatch, "cuda")
    file = tmp_path / "mine.toml"
    file.write_text("[rollout]\nprompts = 3\ngroup_size = 4\nmicro_batch = 5\n")
    monkeypatch.setenv("MOTIONKIT_ROLLOUT__GROUP_SIZE", "6")
    found = ask("rollout.micro_batch=7", files=(file,))
    rollout = found.settings.algorithm.options.rollout
    assert (rollout.prompts, rollout.group_size, rollout.micro_batch) == (3, 6, 7)
    assert not [note for note in found.notes if "preset" in note]
    some = ask("rollout.prompts=8")  # its default, given
    assert sizes(some).keys() == {"rollout.micro_batch"}
    assert some.settings.rollout.prompts == 8


def test_a_run_keeps_its_sizes_elsewhere(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    put(monkeypatch, "cuda")
    made = ask()
    (tmp_path / "config.json").write_text(json.dumps(made.snapshot()))
    put(monkeypatch, "cpu")
    assert ask(files=(tmp_path,)).snapshot() == made.snapshot()


@pytest.mark.parametrize(
    ("here", "device", "why"),
    [("cpu", "auto", "would be on cpu"), ("cuda", "cpu", "would be on cpu"), ("cpu", "cuda:1", "not on this machine")],
)
def test_without_a_gpu_it_is_refused(here: str, device: str, why: str, monkeypatch: pytest.MonkeyPatch) -> None:
    put(monkeypatch, here)
    with pytest.raises(MotionkitError) as caught:
        ask(preset="gpu", device=device)
    assert caught.value.code == 2
    assert why in caught.value.why
    assert "--preset cpu" in caught.value.fix


def test_as_a_user_types_it(cli: Cli, monkeypatch: pytest.MonkeyPatch) -> None:
    put(monkeypatch, "cpu")
    assert_refused(cli("grpo", "--preset", "gpu", "--device", "cpu"), "--preset gpu needs a CUDA device")
    assert_refused(cli("grpo", "--preset", "big"), "--preset 'big'")
    put(monkeypatch, "cuda")
    shown = cli("config", "show", "grpo", "--set", "algorithm=grpo", "--json")
    document = json.loads(shown.stdout)
    assert document["settings"]["rollout"]["prompts"] == 32
    assert document["origins"]["rollout.prompts"] == "preset gpu"
    assert not list(Path().iterdir())
