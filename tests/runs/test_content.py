"""Fingerprints of content, files that are written whole, and locks."""

from __future__ import annotations

import errno
import json
import os
import shutil
import subprocess
import sys
from hashlib import sha256
from pathlib import Path

import numpy as np
import pytest
import torch

from motionkit.errors import MotionkitError
from motionkit.runs import (
    TrainedOn,
    fingerprint,
    fingerprint_files,
    fingerprint_tensors,
    write_bytes_atomic,
)
from motionkit.runs._folder import LOCK, hold, is_held, still_holds

A, B, C = ("0a" * 16, "0b" * 16, "0c" * 16)


def test_a_fingerprint_is_that_of_type_shape_and_bytes() -> None:
    values = np.arange(6, dtype=np.float32).reshape(2, 3)
    assert fingerprint(values) == sha256(b"float32 [2, 3]\n" + values.tobytes()).hexdigest()[:32]
    assert fingerprint(values.T.copy().T) == fingerprint(values)  # the order in memory does not count
    others = [values.reshape(3, 2), values.astype(np.float64), values + 1, values[:1]]
    assert len({fingerprint(one) for one in [values, *others]}) == 5


def test_parts_do_not_run_into_each_other() -> None:
    assert fingerprint("ab", "c") != fingerprint("a", "bc") != fingerprint("abc")
    assert fingerprint(np.zeros(2), np.zeros(1)) != fingerprint(np.zeros(1), np.zeros(2))
    assert fingerprint("\udce9 is no UTF-8") != fingerprint("")


def test_tensors_count_by_name_and_every_bit() -> None:
    state = {"b": torch.ones(2, dtype=torch.bfloat16), "a": torch.zeros(()), "c": torch.empty(0, 3)}
    assert fingerprint_tensors(state) == fingerprint_tensors(dict(reversed(state.items())))
    assert fingerprint_tensors(state) == fingerprint_tensors({**state, "a": torch.zeros(1)[0].requires_grad_()})
    assert fingerprint_tensors(state) != fingerprint_tensors({**state, "a": torch.tensor(-0.0)})
    swapped = {"a": state["b"], "b": state["a"], "c": state["c"]}
    assert fingerprint_tensors(state) != fingerprint_tensors(swapped)


def test_files_count_by_name_and_bytes_not_by_place(tmp_path: Path) -> None:
    folder = tmp_path / "a"
    (folder / "in").mkdir(parents=True)
    (folder / "in/one.bvh").write_bytes(bytes(range(256)) * 9000)  # several pieces
    (folder / "two.bvh").write_bytes(b"")
    shutil.copytree(folder, tmp_path / "b")

    def of(name: str) -> str:
        return fingerprint_files(tmp_path / name, [p for p in (tmp_path / name).rglob("*") if p.is_file()])

    assert of("a") == of("b")
    data = bytearray((tmp_path / "b/in/one.bvh").read_bytes())
    data[-1] ^= 1
    (tmp_path / "b/in/one.bvh").write_bytes(data)
    assert of("a") != of("b")
    shutil.copy(folder / "in/one.bvh", tmp_path / "b/in/one.bvh")
    assert of("a") == of("b")
    (tmp_path / "b/two.bvh").rename(tmp_path / "b/three.bvh")
    assert of("a") != of("b")
    os.mkfifo(folder / "pipe")
    for name, word in (("gone", "cannot be read"), ("pipe", "not a plain file")):
        with pytest.raises(MotionkitError, match=word):
            fingerprint_files(folder, [folder / name])


def test_what_a_model_was_trained_on_is_left_out(tmp_path: Path) -> None:
    TrainedOn.of([B, A, A]).write(tmp_path / "policy")
    read = TrainedOn.read(tmp_path / "policy")
    assert read == TrainedOn(frozenset([A, B]), complete=True)
    kept = read.leave_out([A, C, B, C])
    assert (kept.places, kept.left_out, kept.total) == ((1, 3), 2, 4)
    assert kept.sentence("clips") == "left out 2 of 4 clips that the model was trained on."
    assert kept.require("clips", "--data x", "") is kept
    assert read.leave_out([C]).sentence("clips") == ""
    with pytest.raises(MotionkitError) as told:
        read.leave_out([A, B]).require("clips", "--data x", "give other clips.")
    assert told.value.code == 2
    assert told.value.fix == "give other clips."
    read.leave_out([]).require("clips", "--data x", "")  # nothing was asked for: another error's business


def test_a_model_without_the_file_says_so_once(tmp_path: Path) -> None:
    kept = TrainedOn.read(tmp_path).leave_out([A, B])
    assert kept.places == (0, 1)
    assert kept.sentence("clips").startswith("it is not known what the model was trained on (it was saved before")
    both = TrainedOn.of([A]) | TrainedOn.read(None)
    told = both.leave_out([A, B]).sentence("clips")
    assert told.startswith("left out 1 of 2 clips that the model was trained on. It is not known what else the model")


@pytest.mark.parametrize(
    "content",
    ["{", "[]", "{}", '{"kind": "motionkit-trained-on", "complete": 1, "items": []}',
     '{"kind": "motionkit-trained-on", "complete": true, "items": ["../../x"]}',
     '{"kind": "motionkit-trained-on", "complete": true, "items": [7]}'],
)  # fmt: skip
def test_a_damaged_file_is_refused_by_name(tmp_path: Path, content: str) -> None:
    (tmp_path / "trained-on.json").write_text(content)
    with pytest.raises(MotionkitError, match=r"trained-on\.json") as told:
        TrainedOn.read(tmp_path)
    assert "copy the model's folder again" in told.value.fix


def test_a_file_beyond_the_limit_is_not_read(tmp_path: Path) -> None:
    with (tmp_path / "trained-on.json").open("wb") as file:
        file.truncate(65 << 20)
    with pytest.raises(MotionkitError, match="too large"):
        TrainedOn.read(tmp_path)


def test_unknown_keys_of_later_versions_are_ignored(tmp_path: Path) -> None:
    document = {"kind": "motionkit-trained-on", "complete": True, "items": [A], "later": {"x": 1}}
    (tmp_path / "trained-on.json").write_text(json.dumps(document))
    assert TrainedOn.read(tmp_path) == TrainedOn.of([A])


def test_names_may_be_as_long_as_the_system_takes_them(tmp_path):
    path = tmp_path / ("n" * 251 + ".npy")
    for content in (b"one", b"two"):
        write_bytes_atomic(path, content)
        assert path.read_bytes() == content
    assert list(tmp_path.iterdir()) == [path]


def test_what_fails_leaves_the_old_file_alone(tmp_path, monkeypatch):
    (tmp_path / "a").write_bytes(b"old")

    def full(*_: object) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr("os.fsync", full)
    with pytest.raises(OSError, match="No space"):
        write_bytes_atomic(tmp_path / "a", b"new")
    assert [(path.name, path.read_bytes()) for path in tmp_path.iterdir()] == [("a", b"old")]


HOLD = """
import sys
from pathlib import Path
from motionkit.runs import hold
lock = hold(Path(sys.argv[1]))
print("held", flush=True)
sys.stdin.read()
"""


def test_the_lock_goes_with_the_process(tmp_path: Path) -> None:
    with subprocess.Popen(
        [sys.executable, "-c", HOLD, str(tmp_path)], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    ) as process:
        assert process.stdout.readline() == "held\n"
        assert is_held(tmp_path)
        (tmp_path / LOCK).chmod(0o444)
        assert is_held(tmp_path)
        (tmp_path / LOCK).chmod(0o644)
        with pytest.raises(MotionkitError, match="in use by another process"):
            hold(tmp_path)
        process.kill()
    assert (tmp_path / LOCK).exists()
    assert not is_held(tmp_path)
    with hold(tmp_path):
        assert is_held(tmp_path)


def test_an_emptied_folder_is_noticed(tmp_path: Path) -> None:
    with hold(tmp_path) as lock:
        assert still_holds(lock, tmp_path)
        (tmp_path / LOCK).unlink()
        assert not still_holds(lock, tmp_path)
        with hold(tmp_path):
            assert not still_holds(lock, tmp_path)


def test_a_disk_without_locks_is_worked_on(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(descriptor: int, *, blocking: bool) -> bool:
        raise OSError(errno.ENOLCK, "No locks available")

    monkeypatch.setattr("filelock.lock_descriptor", refuse)
    with hold(tmp_path), hold(tmp_path):
        assert not is_held(tmp_path)
