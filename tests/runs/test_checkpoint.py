"""Checkpoints hold what they were given, bit for bit, and bad ones are stepped over."""

from __future__ import annotations

import errno
import logging
import random
from pathlib import Path

import numpy as np
import pytest
import torch

from motionkit.errors import MotionkitError
from motionkit.runs import Run, _checkpoint, capture_random, restore_random
from motionkit.runs._checkpoint import newest_checkpoint, read_checkpoint, save_checkpoint


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
    found = newest_checkpoint(tmp_path)
    assert found is not None
    assert found.state == {"step": 4}


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
                patch.setattr(_checkpoint, where, full)
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
