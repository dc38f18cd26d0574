"""A dataset from a list of motions and captions."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch

from motionkit import load_dataset, read
from motionkit.errors import MotionkitError
from motionkit.motion import HUMANML, JointMotion, features_to_joints
from motionkit.starter import generate

from ...made.bvh_files import write_bvh


def walk(seed: int, frames: int = 60) -> torch.Tensor:
    return torch.from_numpy(generate("walk", frames=frames, seed=seed).joints)


def test_motions_of_any_kind_become_a_dataset(tmp_path: Path) -> None:
    joints = [walk(seed) for seed in range(6)]
    recorded = read(write_bvh(tmp_path / "walk.bvh", 240))
    motion = JointMotion(HUMANML.joint_names, HUMANML.parents, joints[1].double(), 20.0)
    said = ["a person walks", ["a man strolls", "someone goes ahead"], "a walk", "a stroll", "steps", "a person paces"]
    items = [(joints[0], said[0]), (motion, said[1]), (recorded, said[2]), *zip(joints[3:], said[3:], strict=True)]
    dataset = load_dataset(items)
    assert (dataset.name, dataset.skeleton.name, dataset.fps) == ("humanml", "humanml", 20.0)
    found = {clip.captions: clip for split in ("train", "val", "test") for clip in _clips(dataset, split)}
    assert set(found) == {(text,) if isinstance(text, str) else tuple(text) for text in said}
    made = features_to_joints(found[(said[0],)].features, HUMANML)
    bones = [(made[:, j] - made[:, p]).norm(dim=-1).mean() for j, p in enumerate(HUMANML.parents) if p >= 0]
    assert len(made) == 59
    assert min(bones) > 0.03
    steps = made[1:, 0, [0, 2]] - made[:-1, 0, [0, 2]]
    expected = joints[0][1:, 0, [0, 2]] - joints[0][:-1, 0, [0, 2]]
    assert float(steps.norm(dim=-1).mean()) == pytest.approx(float(expected.norm(dim=-1).mean()), rel=0.1)
    assert dataset.physics_reference()[0] >= 0
    assert len(dataset.prompts("train")) >= 1


def _clips(dataset, split):
    try:
        return dataset.clips(split)
    except MotionkitError:
        return []


def test_a_policy_and_its_motions_make_one() -> None:
    """What is generated can be trained on, without a file."""
    from motionkit import load_policy

    motions = load_policy("starter").generate("a person walks", durations=[3], num_samples=3, inference_timesteps=2)
    dataset = load_dataset([(motion, "a person walks") for motion in motions])
    assert dataset.prompts("train")[0].segments == ("a person walks",)


@pytest.mark.parametrize(
    ("items", "said"),
    [
        ([], "holds no motion"),
        ([walk(0)], "item 0 of the list is not a pair"),
        ([(walk(0), "a"), ("b", walk(0))], "the captions of item 1"),
        ([(walk(0), [])], "the captions of item 0 are []"),
        ([(walk(0), "  ")], "the captions of item 0"),
        ([("walk.bvh", "a person walks")], "item 0 begins with a str"),
        ([(torch.zeros(60, 21, 3), "a")], "item 0 is a tensor [60, 21, 3]"),
        ([(walk(0), "a"), (torch.full((60, 22, 3), torch.nan), "b")], "the first is item 1"),
    ],
)
def test_what_is_no_dataset_is_refused_by_its_place(items: list, said: str) -> None:
    with pytest.raises(MotionkitError) as caught:
        load_dataset(items)
    assert said in caught.value.message
