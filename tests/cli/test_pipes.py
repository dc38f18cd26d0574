"""Pipes and devices where a file belongs: refused or passed over by name, never waited for."""

from __future__ import annotations

import json
import os
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
from typer.testing import Result

from ..made.bvh_files import write_bvh
from ..made.commands import assert_refused

Cli = Callable[..., Result]
pytestmark = pytest.mark.timeout(100)
"""A command that opens a pipe waits for ever."""


def pipe(name: str) -> None:
    os.mkfifo(name)


def endless(name: str) -> None:
    Path(name).symlink_to("/dev/zero")


REFUSED = [
    (("convert", "p.bvh", "out"), "p.bvh"),
    (("convert", "p.json", "out"), "p.json"),
    (("convert", "p.npz", "out"), "p.npz"),
    (("convert", "p.npy", "out"), "p.npy"),
    (("convert", "p.npy", "out.bvh"), "p.npy"),
    (("profile", "p.bvh"), "p.bvh"),
    (("convert", "a.bvh", "out", "--captions", "p.csv"), "p.csv"),
    (("convert", "m.json", "out", "--to", "npz", "--hierarchy", "p.json"), "p.json"),
    (("convert", "m.json", "out", "--to", "npz", "--offsets", "p.json"), "p.json"),
    (("convert", "m.json", "out", "--to", "npz"), "FullHierarchy.json"),
    (("convert", "amass.npz", "out", "--smpl-model", "p.npz"), "p.npz"),
    (("profile", "a.bvh", "--html", "p.html"), "p.html"),
    (("profile", "a.bvh", "--write-config", "p.json"), "p.json"),
    (("grpo", "--dry-run", "--policy.checkpoint", "p.pt"), "p.pt"),
    (("grpo", "--dry-run", "--dataset.clips", "48", "--reward", "tmr-dense", "--reward.weights", "p.pt"), "p.pt"),
    (("grpo", "--dry-run", "--dataset", "composite", "--dataset.path", "p.json"), "p.json"),
    (("generate", "walk", "out", "--policy.checkpoint", "p.safetensors"), "p.safetensors"),
]
READ_FIRST = [row for row in REFUSED if row[1] in ("p.bvh", "p.npy", "p.pt")]
"""Files that several readers open; `motionkit.documents` asks for all of them whether a file is a plain one."""


@pytest.mark.parametrize(
    ("make", "words", "name"),
    [*((pipe, *row) for row in REFUSED), *((endless, *row) for row in READ_FIRST)],
    ids=lambda value: " ".join(value) if isinstance(value, tuple) else getattr(value, "__name__", ""),
)
def test_it_is_refused_by_name(cli: Cli, make: Callable[[str], None], words: tuple[str, ...], name: str) -> None:
    write_bvh(Path("a.bvh"), 60)
    frame = {"RootYaw": 0.0, "RootVelocityXY": [0.0, 0.0], "BoneRotations": [[1, 0, 0, 0, 1, 0]] * 3}
    Path("m.json").write_text(json.dumps({"FPS": 60, "Frames": [frame] * 60}))
    np.savez("amass.npz", poses=np.zeros((60, 156)), trans=np.zeros((60, 3)), mocap_framerate=60.0)
    make(name)
    result = cli(*words)
    assert result.exit_code == 2, (result.stdout, result.stderr)
    said = " ".join(result.stderr.split())
    assert f"{name} is not a " in said or f"{name}: is not a " in said
    assert not Path("out").exists()


def test_inside_a_folder_it_costs_the_others_nothing(cli: Cli) -> None:
    Path("in/set/new_joints").mkdir(parents=True)
    Path("in/set/texts").mkdir()
    write_bvh(Path("in/a.bvh"), 60)
    pipe("in/p.bvh")
    pipe("in/p.txt")
    pipe("in/set/new_joints/b.npy")
    endless("in/z.json")
    result = cli("convert", "in", "out", "--to", "npz", "--json")
    assert result.exit_code == 1, result.stderr
    document = json.loads(result.stdout)
    assert document["written"] == ["a"]
    assert {Path(name).name for name in document["failed"]} == {"p.bvh", "b.npy", "z.json"}
    assert all(" is not a plain file" in reason for reason in document["failed"].values())


def test_a_list_of_a_split_is_refused(cli: Cli) -> None:
    Path("set/new_joint_vecs").mkdir(parents=True)
    pipe("set/train.txt")
    for words in (("convert", "set", "out"), ("profile", "set")):
        assert_refused(cli(*words), "train.txt is not a plain file")
    Path("set/train.txt").unlink()
    Path("set/train.txt").write_bytes(b"\xff\xfe\x00")
    result = cli("convert", "set", "out")
    assert (result.exit_code, "is not a text file (UTF-8)" in result.stderr) == (2, True)
