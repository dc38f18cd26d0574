"""Constraints: the recorded entries and values, by hand, and what is refused."""

from __future__ import annotations

import json
import math
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import Tensor
from torch.testing import assert_close

from motionkit.errors import MotionkitError
from motionkit_policy_kimodo.constraints import observe, read_constraints
from motionkit_policy_kimodo.representation import KimodoRepresentation
from motionkit_policy_kimodo.skeletons import body

Tensors = Callable[[str], dict[str, Tensor]]
SOMA = KimodoRepresentation(body("soma30"))
EXAMPLES = ("somaskel30_04", "somaskel30_06", "somaskel30_07", "g1skel34_04")


@pytest.mark.parametrize("name", EXAMPLES)
def test_examples(name: str, recorded: Path, tensors: Tensors) -> None:
    representation = SOMA if "soma" in name else KimodoRepresentation(body("g1"))
    known = tensors("constraints.npz")
    path = recorded / f"constraints_{name}.json"
    values, mask = observe(read_constraints(path, representation), representation, int(known[f"{name}.length"]))
    index = known[f"{name}.index"].long()
    assert torch.equal(mask.nonzero(), index)
    assert_close(values[tuple(index.T)], known[f"{name}.raw"], atol=1.2e-5, rtol=0)
    assert not values[~mask].any()


def test_keyframes_of_the_chain(recorded: Path, tensors: Tensors) -> None:
    known = tensors("tiny_soma/chain_10_keyframes.npz")
    _, mask = observe(read_constraints(recorded / "tiny_soma" / "chain_constraints.json", SOMA), SOMA, 24)
    assert torch.equal(mask, known["motion_mask"][0].bool())


def _write(folder: Path, *entries: object) -> Path:
    path = folder / "constraints.json"
    path.write_text(json.dumps(entries))
    return path


def _pose(joints: int = 30, **other: Any) -> dict[str, Any]:
    rotations = torch.zeros(1, joints, 3)
    rotations[0, 0, 1] = math.pi / 2  # faces +X
    entry = {"type": "fullbody", "frame_indices": [3], "root_positions": [[1.0, 0.9, 2.0]]}
    return {**entry, "local_joints_rot": rotations.tolist(), **other}


def test_a_path(tmp_path: Path) -> None:
    path = _write(
        tmp_path,
        {"type": "root2d", "frame_indices": [4, 0], "smooth_root_2d": [[1, 2], [3, 4]],
         "global_root_heading": [[0, 1], [1, 0]]},
    )  # fmt: skip
    values, mask = observe(read_constraints(path, SOMA), SOMA, 5)
    assert mask.sum() == 8
    assert_close(values[[4, 0]][:, [0, 2]], torch.tensor([[1.0, 2], [3, 4]]))
    assert_close(values[[4, 0], 3:5], torch.tensor([[0.0, 1], [1, 0]]), atol=1e-6, rtol=0)


@pytest.mark.parametrize("joints", [30, 77])
def test_a_pose(joints: int, tmp_path: Path) -> None:
    path = _write(tmp_path, _pose(joints, smooth_root_2d=[[1.1, 2.0]]))
    values, mask = observe(read_constraints(path, SOMA), SOMA, 4)
    assert mask.sum() == mask[3].sum() == 5 + 90
    positions = values[3, SOMA.parts["positions"]].view(30, 3)
    assert_close(positions[0], torch.tensor([-0.1, 0.9, 0.0]))  # from the smoothed root that was given
    hand = body("soma30").joint_names.index("LeftHand")
    assert positions[hand, 2] < -0.5  # the left of a body that faces +X is -Z
    assert_close(values[3, 3:5], torch.tensor([0.0, 1.0]), atol=0.05, rtol=0)


def test_ends(tmp_path: Path) -> None:
    one = _write(tmp_path, _pose(type="left-foot"))
    _, foot = observe(read_constraints(one, SOMA), SOMA, 4)
    assert foot.sum() == 5 + 2 * 3 + 6
    both = _write(tmp_path, _pose(type="end-effector", joint_names=["LeftFoot", "Hips"]))
    _, mask = observe(read_constraints(both, SOMA), SOMA, 4)
    assert mask.sum() == 5 + 3 * 3 + 2 * 6
    assert (mask | ~foot).all()


def test_the_first_counts(tmp_path: Path) -> None:
    paths = [{"type": "root2d", "frame_indices": [0], "smooth_root_2d": [[x, 0]]} for x in (1, 2)]
    values, _ = observe(read_constraints(_write(tmp_path, *paths), SOMA), SOMA, 2)
    assert values[0, 0] == 1


@pytest.mark.parametrize(
    ("entry", "said"),
    [
        ({"type": "gaze", "frame_indices": [0]}, "gaze"),
        (3, "of the type 3"),
        ({"type": [], "frame_indices": [0]}, "of the type []"),
        ({"type": "root2d", "frame_indices": [1e30], "smooth_root_2d": [[0, 0]]}, "frame_indices"),
        ({"type": "root2d", "frame_indices": [0], "smooth_root_2d": [[1e300, 0]]}, "smooth_root_2d"),
        ({"type": "root2d", "frame_indices": [], "smooth_root_2d": []}, "frame_indices"),
        ({"type": "root2d", "frame_indices": [-1], "smooth_root_2d": [[0, 0]]}, "frame_indices"),
        ({"type": "root2d", "frame_indices": [0.5], "smooth_root_2d": [[0, 0]]}, "frame_indices"),
        ({"type": "root2d", "frame_indices": [0]}, "smooth_root_2d"),
        ({"type": "root2d", "frame_indices": [0], "smooth_root_2d": [[0, 0, 0]]}, "smooth_root_2d"),
        ({"type": "root2d", "frame_indices": [0], "smooth_root_2d": [["a", 0]]}, "smooth_root_2d"),
        ({"type": "root2d", "frame_indices": [0], "smooth_root_2d": [[float("nan"), 0]]}, ""),
        (_pose(34), "another skeleton"),
        (_pose(root_positions=[[0, 0]]), "root_positions"),
        (_pose(type="end-effector"), "joint_names"),
        (_pose(type="end-effector", joint_names=["Tail"]), "Tail"),
    ],
)
def test_bad_entries_are_refused(entry: object, said: str, tmp_path: Path) -> None:
    path = _write(tmp_path, entry)
    with pytest.raises(MotionkitError) as refused:
        read_constraints(path, SOMA)
    assert said in refused.value.sentence()
    assert str(path) in refused.value.sentence()


def test_beyond_the_end(tmp_path: Path) -> None:
    constraints = read_constraints(_write(tmp_path, _pose()), SOMA)
    with pytest.raises(MotionkitError, match="is of frame 3, the motion has 3"):
        observe(constraints, SOMA, 3)
