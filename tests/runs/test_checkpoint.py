"""Checkpoints and optimizers hold what they were given, bit for bit, and bad ones are stepped over."""

from __future__ import annotations

import contextlib
import errno
import hashlib
import json
import logging
import os
import random
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from torch import nn

from motionkit.errors import MotionkitError
from motionkit.runs import Checkpoint, Run, flatten_optimizer, restore_optimizer
from motionkit.runs import _checkpoint as _save
from motionkit.runs._checkpoint import (
    capture_random,
    mend,
    newest_checkpoint,
    read_checkpoint,
    restore_random,
    save_checkpoint,
)
from motionkit.runs.atomic import sweep

from .faults import faults


def save(root: Path, step: int, keep: int = 9) -> Path:
    return save_checkpoint(root, step, {"model": {"w": torch.full((3,), float(step))}}, {"step": step}, keep=keep)


def test_tensors_come_back_bit_for_bit_whatever_their_layout(tmp_path: Path) -> None:
    base = torch.randn(4, 6)
    tensors = {
        "transposed": base.t(),
        "view": base[1:3, ::2],
        "shared": base,
        "shared.too": base,
        "half": torch.randn(3).bfloat16(),
        "counter": torch.tensor(2**40),
        "mask": torch.tensor([True, False]),
        "empty": torch.empty(0, 3),
        "special": torch.tensor([float("nan"), float("inf"), -0.0]),
        "grad": torch.nn.Parameter(torch.randn(2)),
    }
    state = {"pi": 0.1 + 0.2, "big": 2**63, "text": "ü", "list": [1, None, True]}
    found = read_checkpoint(save_checkpoint(tmp_path, 7, {"model": tensors}, state, keep=1))
    assert found.step == 7
    assert found.state == state
    for name, tensor in tensors.items():
        loaded = found.tensors["model"][name]
        assert (loaded.dtype, loaded.shape) == (tensor.dtype, tensor.shape)
        assert loaded.numpy(force=True).tobytes() == tensor.numpy(force=True).tobytes() if name != "half" else True
        assert torch.equal(loaded.nan_to_num(), tensor.detach().nan_to_num())


def test_random_generators_continue_where_they_were(tmp_path: Path) -> None:
    random.seed(1), np.random.seed(2), torch.manual_seed(3)
    random.gauss(0, 1), np.random.normal()  # leaves a second deviate in store in each

    def draw() -> list[float]:
        return [random.gauss(0, 1), random.random(), np.random.normal(), np.random.rand(), torch.rand(1).item()]

    path = save(tmp_path, 1)
    states, expected = capture_random(), draw()
    draw()
    restore_random(states)
    assert draw() == expected
    read_checkpoint(path).restore_random()
    assert draw() == expected


def test_states_of_generators_that_are_none_are_refused() -> None:
    """Numpy takes any position, and crashes the process when it draws."""
    good = capture_random()
    words, position = good["numpy.words"][:-2].tolist(), good["numpy.words"][-2:].tolist()
    bad: dict[str, list[object]] = {
        "torch.cpu": [None, torch.zeros(3), torch.zeros(5056, dtype=torch.uint8)],
        "python.words": [None, torch.tensor(1), torch.tensor([1]), torch.full((625,), -1), torch.full((625,), 2**40)],
        "python.normal": [None, torch.tensor([1.0, 2.0])],
        "numpy.words": [
            *(None, torch.tensor(1.5), torch.tensor([1]), torch.tensor([2**40, *words[1:], *position])),
            *(torch.tensor([*words, number, 0]) for number in (625, 10**9, -1)),
        ],
        "numpy.normal": [None, torch.tensor([1.0, 2.0])],
    }
    cases: list[dict[str, Any]] = [{}]
    for name, values in bad.items():
        others = {key: tensor for key, tensor in good.items() if key != name}
        cases += [{"random": others if value is None else {**others, name: value}} for value in values]
    for tensors in cases:
        with pytest.raises(MotionkitError, match="random generators"):
            Checkpoint(1, tensors, {}, Path("step-00000001")).restore_random()


def test_only_the_newest_are_kept(tmp_path: Path) -> None:
    for step in range(1, 6):
        save(tmp_path, step, keep=2)
    assert sorted(path.name for path in tmp_path.iterdir()) == ["last", "step-00000004", "step-00000005"]


def test_saving_a_step_again_replaces_it(tmp_path: Path) -> None:
    save(tmp_path, 4)
    save_checkpoint(tmp_path, 4, {"model": {"w": torch.zeros(1)}}, {"again": 1}, keep=2)
    found = newest_checkpoint(tmp_path)
    assert found is not None
    assert found.state == {"again": 1}


def test_a_replacement_that_was_cut_short_is_undone(tmp_path: Path) -> None:
    save(tmp_path, 4).rename(tmp_path / "step-00000004.replaced")
    mend(tmp_path)
    found = newest_checkpoint(tmp_path)
    assert found is not None
    assert found.state == {"step": 4}


def interrupt() -> None:
    raise KeyboardInterrupt


def full_disk() -> None:
    raise OSError(errno.ENOSPC, "No space left on device")


@pytest.mark.parametrize("action", [interrupt, full_disk])
@pytest.mark.parametrize("step", [4, 6])
def test_whatever_call_of_a_save_fails_nothing_is_half(step: int, action: Callable[[], None], tmp_path: Path) -> None:
    """Every call to the file system of a save in turn fails once, be it a new step or step 4 again."""

    (tmp_path / "before").mkdir()
    save(tmp_path / "before", 2), save(tmp_path / "before", 4)

    def save_again(root: Path, when: int) -> list[str]:
        shutil.copytree(tmp_path / "before", root)
        with faults(when, action) as calls, contextlib.suppress(KeyboardInterrupt, MotionkitError):
            save_checkpoint(root, step, {"model": {"w": torch.zeros(1)}}, {"again": 1}, keep=1)
        return calls.seen

    calls = save_again(tmp_path / "all", 0)
    assert {call.split()[0] for call in calls} >= {"mkdir", "fsync", "rename", "replace", "unlink", "rmdir"}
    for when in range(1, len(calls) + 1):
        root = tmp_path / f"{when}"
        save_again(root, when)
        if action is full_disk:
            mend(root)  # as a resume does: what could not be deleted stays until then
        for folder in root.glob("step-*"):
            assert read_checkpoint(folder).step == int(folder.name[5:]), calls[when - 1]
        found = newest_checkpoint(root)
        assert found is not None
        assert found.state in ({"step": 4}, {"again": 1}), calls[when - 1]
        assert sorted(path.name for path in root.iterdir() if "step" not in path.name) == ["last"], calls[when - 1]
        save(root, 8, keep=1)
        assert sorted(path.name for path in root.iterdir()) == ["last", "step-00000008"], calls[when - 1]


def test_pruning_removes_what_an_earlier_version_left_half_deleted(tmp_path: Path) -> None:
    save(tmp_path, 2)
    (tmp_path / "step-00000002" / "state.json").unlink()
    (tmp_path / "step-00000009").mkdir()
    (tmp_path / "step-1").mkdir()
    save(tmp_path, 4), save(tmp_path, 6, keep=1)
    assert sorted(path.name for path in tmp_path.iterdir()) == ["last", "step-00000006", "step-00000009", "step-1"]


def test_only_own_temporary_names_are_swept(tmp_path: Path) -> None:
    mine = [".tmp-notes", ".tmp-1", ".tmp-2024-plan.txt", ".tmp-step-3", "x.tmp-1-00000000", ".tmp-12-0000000g"]
    own = [".tmp-12-0011aabb", ".tmp-12-0011aabb.mp4", ".tmp-step-00000004", ".tmp-replaced-77"]
    for name in (*mine, *own):
        (tmp_path / name).write_text("")
    (tmp_path / ".tmp-13-00000000").mkdir()
    (tmp_path / ".tmp-13-00000000" / "state.json").write_text("")
    sweep(tmp_path)
    assert sorted(path.name for path in tmp_path.iterdir()) == sorted(mine)


def test_what_is_swept_is_not_followed(tmp_path: Path) -> None:
    (tmp_path / "home").mkdir()
    (tmp_path / "home" / "thesis.tex").write_text("")
    (tmp_path / ".tmp-12-0011aabb").symlink_to(tmp_path / "home")
    sweep(tmp_path)
    assert (tmp_path / "home/thesis.tex").exists()
    assert not (tmp_path / ".tmp-12-0011aabb").is_symlink()


def test_a_resumed_run_is_free_of_temporary_files_at_every_depth(tmp_path: Path) -> None:
    """A kill while train-mpl wrote metrics/valfree/GeoDeg.txt left one there for ever."""
    with Run.create("grpo", {}, out=tmp_path / "run") as run:
        run.save(1, {"model": {"w": torch.ones(2)}})
        (run.artifact("metrics") / "valfree").mkdir(parents=True)
    deep = tmp_path / "run/metrics/valfree"
    for name in (".tmp-12-0011aabb", ".tmp-notes"):
        (deep / name).write_text("")
    (tmp_path / "elsewhere").mkdir()
    (tmp_path / "elsewhere/.tmp-12-0011aabb").write_text("")
    (deep / "link").symlink_to(tmp_path / "elsewhere")
    with Run.resume(tmp_path / "run", {}):
        assert sorted(path.name for path in deep.iterdir()) == [".tmp-notes", "link"]
    assert (tmp_path / "elsewhere/.tmp-12-0011aabb").exists()


def flip_a_byte(path: Path) -> None:
    data = bytearray(path.read_bytes())
    data[-1] ^= 1
    path.write_bytes(data)


def truncate(path: Path) -> None:
    path.write_bytes(path.read_bytes()[:-5])


@pytest.mark.parametrize("name", ["model.safetensors", "state.json"])
@pytest.mark.parametrize("damage", [flip_a_byte, truncate, Path.unlink])
def test_a_damaged_checkpoint_is_stepped_over(
    name: str, damage: object, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    save(tmp_path, 2), save(tmp_path, 4)
    assert callable(damage)
    target = tmp_path / "step-00000004" / name
    if damage is flip_a_byte and name == "state.json":
        target.write_text("{ not json")
    else:
        damage(target)
    with caplog.at_level(logging.WARNING, logger="motionkit"):
        found = newest_checkpoint(tmp_path)
    assert found is not None
    assert found.step == 2
    assert "Falling back" in caplog.text


STATES = {
    "step": [None, "4", [4], 4.5],
    "state": [None, [], "x"],
    "files": [
        *(None, [], {"model.safetensors": 3}, {"model.safetensors": {"bytes": "1", "sha256": ""}}),
        *(
            {"../step-00000002/model.safetensors": {"bytes": 1, "sha256": ""}},
            {"/dev/zero": {"bytes": 0, "sha256": ""}},
        ),
    ],
}


@pytest.mark.parametrize(("key", "value"), [(key, value) for key, values in STATES.items() for value in values])
def test_a_state_with_a_value_of_another_kind_is_stepped_over(key: str, value: object, tmp_path: Path) -> None:
    save(tmp_path, 2), save(tmp_path, 4)
    path = tmp_path / "step-00000004" / "state.json"
    path.write_text(json.dumps(json.loads(path.read_text()) | {key: value}))
    found = newest_checkpoint(tmp_path)
    assert found is not None
    assert found.step == 2


@pytest.mark.parametrize("what", ["pipe", "device", "text"])
def test_what_is_no_tensor_file_is_stepped_over(what: str, tmp_path: Path) -> None:
    """Also where its size and checksum are as state.json says."""
    save(tmp_path, 2), save(tmp_path, 4)
    file, path = (tmp_path / "step-00000004" / name for name in ("model.safetensors", "state.json"))
    file.unlink()
    data = b"not tensors" if what == "text" else b""
    state = json.loads(path.read_text())
    state["files"][file.name] = {"bytes": len(data), "sha256": hashlib.sha256(data).hexdigest()}
    path.write_text(json.dumps(state))
    if what == "pipe":
        os.mkfifo(file)
    elif what == "device":
        file.symlink_to("/dev/zero")
    else:
        file.write_bytes(data)
    found = newest_checkpoint(tmp_path)
    assert found is not None
    assert found.step == 2


@pytest.mark.parametrize("last", ["../step-00000002", "step-2", "[" * 2_000, "\ud800", "step-" + "9" * 90])
def test_what_last_says_is_a_name_or_nothing(last: str, tmp_path: Path) -> None:
    save(tmp_path, 2), save(tmp_path, 4)
    (tmp_path / "last").write_bytes(last.encode(errors="surrogatepass"))
    found = newest_checkpoint(tmp_path)
    assert found is not None
    assert found.step == 4


def test_numbers_of_more_than_64_bits_come_back(tmp_path: Path) -> None:
    """The state of numpy's PCG64 has two of 128 bits."""
    state = {"rng": np.random.default_rng(3).bit_generator.state}
    save_checkpoint(tmp_path, 1, {}, state, keep=1)
    found = newest_checkpoint(tmp_path)
    assert found is not None
    assert found.state == state


def test_when_none_is_left_it_is_an_error(tmp_path: Path) -> None:
    truncate(save(tmp_path, 2) / "model.safetensors")
    with pytest.raises(MotionkitError, match="no checkpoint in"):
        newest_checkpoint(tmp_path)


def test_half_written_folders_are_ignored(tmp_path: Path) -> None:
    save(tmp_path, 2)
    (tmp_path / ".tmp-step-00000004").mkdir()
    (tmp_path / "step-00000006").mkdir()
    found = newest_checkpoint(tmp_path)
    assert found is not None
    assert found.step == 2


@pytest.mark.parametrize("where", ["save_file", "write_json", "write_text"])
def test_a_full_disk_leaves_the_checkpoint_before(where: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The disk fills up in the tensors, in the JSON, or in `last`; what was there stays readable."""

    def full(*_: object, **__: object) -> None:
        raise OSError(errno.ENOSPC, "No space left on device")

    with Run.create("grpo", {}, out=tmp_path / "run") as run:
        run.save(2, {"model": {"w": torch.ones(2)}})
        with monkeypatch.context() as patch:
            if where == "save_file":
                patch.setattr("safetensors.torch.save_file", full)
            else:
                patch.setattr(_save, where, full)
            with pytest.raises(MotionkitError) as caught:
                run.save(4, {"model": {"w": torch.ones(2)}})
    assert caught.value.code == 1
    assert "disk or the quota is full" in caught.value.why
    with Run.resume(tmp_path / "run") as again:
        assert again.start_step == 2
    assert not list(tmp_path.rglob(".tmp-*"))


def test_a_value_that_json_cannot_hold_exactly_is_refused(tmp_path: Path) -> None:
    save(tmp_path, 2)
    with pytest.raises(ValueError, match="not JSON compliant"):
        save_checkpoint(tmp_path, 4, {}, {"loss": float("nan")}, keep=2)
    found = newest_checkpoint(tmp_path)
    assert found is not None
    assert found.step == 2


Maker = Callable[[nn.Module], torch.optim.Optimizer]

MAKERS: dict[str, Maker] = {
    "adamw": lambda net: torch.optim.AdamW(net.parameters(), lr=1e-2, amsgrad=True),
    "groups": lambda net: torch.optim.AdamW(
        [
            {"params": [net.get_parameter("0.weight")], "lr": 3e-2},
            {"params": [net.get_parameter("0.bias")], "weight_decay": 0.0},
        ],
        lr=1e-3,
    ),
    "tensor-lr": lambda net: torch.optim.AdamW(net.parameters(), lr=torch.tensor(1e-2), foreach=False),
    "sgd": lambda net: torch.optim.SGD(net.parameters(), lr=1e-2, momentum=0.9),
    "sgd-plain": lambda net: torch.optim.SGD(net.parameters(), lr=1e-2),
}


def steps(net: nn.Module, optimizer: torch.optim.Optimizer, seed: int) -> None:
    torch.manual_seed(seed)
    for _ in range(3):
        optimizer.zero_grad()
        net(torch.randn(5, 4)).square().sum().backward()
        optimizer.step()


@pytest.mark.parametrize("named", [True, False])
@pytest.mark.parametrize("kind", MAKERS)
def test_three_and_three_steps_equal_six(kind: str, named: bool) -> None:
    torch.manual_seed(0)
    net = nn.Sequential(nn.Linear(4, 3))
    optimizer = MAKERS[kind](net)
    steps(net, optimizer, 1)
    weights = {name: value.clone() for name, value in net.state_dict().items()}
    tensors, state = flatten_optimizer(optimizer, net if named else None)
    tensors, state = {name: value.clone() for name, value in tensors.items()}, json.loads(json.dumps(state))
    steps(net, optimizer, 2)

    other = nn.Sequential(nn.Linear(4, 3))
    other.load_state_dict(weights)
    fresh = MAKERS[kind](other)
    restore_optimizer(fresh, tensors, state, other if named else None)
    steps(other, fresh, 2)
    for name, value in net.state_dict().items():
        assert torch.equal(value, other.state_dict()[name]), name
    assert all(isinstance(group.get("betas", ()), tuple) for group in fresh.param_groups)


def test_names_label_the_tensors() -> None:
    net = nn.Sequential(nn.Linear(4, 3))
    optimizer = torch.optim.AdamW(net.parameters())
    steps(net, optimizer, 1)
    tensors, _ = flatten_optimizer(optimizer, net)
    assert set(tensors) == {
        f"0.{part}/{key}" for part in ("weight", "bias") for key in ("step", "exp_avg", "exp_avg_sq")
    }


def test_another_network_is_refused_by_name() -> None:
    net = nn.Sequential(nn.Linear(4, 3))
    tensors, state = flatten_optimizer(torch.optim.AdamW(net.parameters()), net)
    other = nn.Sequential(nn.Linear(4, 3, bias=False))
    with pytest.raises(MotionkitError) as caught:
        restore_optimizer(torch.optim.AdamW(other.parameters()), tensors, state, other)
    assert "0.bias" in caught.value.why
    with pytest.raises(MotionkitError, match="SGD"):
        restore_optimizer(torch.optim.SGD(net.parameters()), tensors, state, net)
