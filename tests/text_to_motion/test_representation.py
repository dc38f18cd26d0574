"""A policy with features and a body of its own: sampled, written, trained, and refused where it does not fit."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import pytest
import torch
from torch import Tensor

import motionkit
from motionkit.contracts.reward import RewardScores, moved, rows
from motionkit.errors import MotionkitError
from motionkit.geometry import yaw_matrix
from motionkit.motion import Motion, MotionBatch, Normalizer, Representation
from motionkit.rl import NoiseSource
from motionkit.text import Prompt
from motionkit.text_to_motion.evaluation.export import export_motions, generate
from motionkit.text_to_motion.evaluation.heldout import Shown
from motionkit.text_to_motion.evaluation.points import track
from motionkit.text_to_motion.generating import generate_motions, plan_steps, sample
from motionkit.text_to_motion.grpo.settings import GrpoOptimSettings
from motionkit.text_to_motion.rewards.mix import unscored

from .grpo.toy import PROMPTS, TablePolicy, engine


class Pole(Representation):
    """A pole that stands and turns: place of the foot (3), cosine and sine of the heading; metres in the world."""

    name, joint_names, parents, feet, width = "pole", ("foot", "arm", "hand"), (-1, 0, 1), (0,), 5
    offsets = torch.tensor([[0.0, 0.0, 0.0], [0.0, 1.0, 0.0], [0.0, 0.0, 0.5]])

    def positions(self, features: Tensor, lengths: Tensor | None = None) -> Tensor:
        """Return ``[..., T, 3, 3]``."""
        if lengths is not None:
            valid = torch.arange(features.shape[-2]) < lengths[..., None]
            features = torch.where(valid[..., None], features, torch.ones(5))
        turned = (yaw_matrix(self.headings(features))[..., None, :, :] @ self.offsets[..., None])[..., 0]
        return (features[..., None, :3] + turned.cumsum(-2)).to(features)

    def headings(self, features: Tensor, lengths: Tensor | None = None) -> Tensor:
        """Return ``[..., T]``."""
        return torch.atan2(features[..., 4], features[..., 3])

    def motion(self, features: Tensor, joints: Tensor, fps: float) -> Motion:
        """Return the motion with its rotations."""
        turns = torch.eye(3, dtype=torch.float64).repeat(len(features), 3, 1, 1)
        turns[:, 0] = yaw_matrix(self.headings(features)).double()
        offsets = self.offsets.double()
        places = offsets.repeat(len(features), 1, 1)
        places[:, 0] = features[:, :3].double()
        return Motion(self.joint_names, self.parents, offsets, turns, places, fps)


class PolePolicy(TablePolicy):
    """`TablePolicy` with another body and features."""

    spacing, joins, sampling_steps = "even", False, 5

    def __init__(self) -> None:
        super().__init__()
        with torch.random.fork_rng():
            torch.manual_seed(0)
            self.network = torch.nn.Sequential(torch.nn.Embedding(2, 5), torch.nn.Dropout(0.0)).eval()
        self.normalizer = Normalizer(torch.tensor([0.0, 1, 0, 0, 0]), torch.ones(5))
        self.skeleton, self.fps = Pole(), 30.0  # type: ignore[assignment]


class High:
    """Rewards a high hand, differentiably, by the joints alone."""

    name = "high"

    def score(self, motions: MotionBatch, prompts: Sequence[Prompt]) -> RewardScores:
        """Score N motions."""
        height = torch.where(motions.mask, motions.joints[..., 2, 1], 0.0)
        return RewardScores(height.sum(1) / motions.lengths)


@torch.no_grad()
def made(policy: PolePolicy) -> MotionBatch:
    """Return motions of all prompts."""
    return sample(policy, PROMPTS, plan_steps(policy), NoiseSource(0)).motions


def test_joints_and_headings_are_those_of_the_representation() -> None:
    motions = made(PolePolicy())
    assert motions.features.shape == (4, 20, 5)
    assert motions.joints.shape == (4, 20, 3, 3)
    hand = motions.features[0, 3, :3] + yaw_matrix(motions.headings[0, 3]) @ torch.tensor([0.0, 1.0, 0.5])
    torch.testing.assert_close(motions.joints[0, 3, 2], hand)
    for same in (rows(motions, [1, 0]), moved(motions, torch.device("cpu")), motions.detach()):
        assert same.skeleton is motions.skeleton
    torch.testing.assert_close(rows(motions, [1, 0]).joints, motions.joints[[1, 0]])


def test_its_own_number_of_steps_is_spaced_as_it_says() -> None:
    policy = PolePolicy()
    assert plan_steps(policy).timesteps.tolist() == policy.schedule.visited("even", 5)
    policy.spacing = "early"
    assert plan_steps(policy).timesteps.tolist() == policy.schedule.visited("early", 5)


def test_motions_have_the_rotations_of_the_representation() -> None:
    policy = PolePolicy()
    (clip,) = generate_motions(policy, PROMPTS[:1], plan_steps(policy), guidance=1.0)
    assert isinstance(clip.motion, Motion)
    assert clip.features is not None
    assert clip.features.shape == (16, 5)
    joints = policy.skeleton.positions(clip.features)
    torch.testing.assert_close(clip.positions(), joints.double(), atol=1e-6, rtol=0)


def test_a_folder_of_motions_and_its_files_hold_rotations(tmp_path: Path) -> None:
    policy = PolePolicy()
    entries = generate(policy, PROMPTS[:2], tmp_path / "out", plan_steps(policy), guidance=1.0)
    assert [entry["motion"] for entry in entries] == ["motions/0000_00.npz", "motions/0001_00.npz"]
    export_motions(tmp_path / "out", ["bvh"])
    assert (tmp_path / "out" / "motions.html").stat().st_size > 1000
    native = motionkit.read(tmp_path / "out" / entries[1]["motion"])
    (written,) = (tmp_path / "out" / "bvh").glob("fall_rise*.bvh")
    bvh = motionkit.read(written, up="y", units="cm")
    assert native.motion.names == Pole.joint_names
    assert native.fps == 30.0
    assert native.texts[0] == "fall, then rise"
    torch.testing.assert_close(bvh.positions()[:, :3], native.positions(), atol=1e-4, rtol=0)


def test_motions_of_a_point_are_kept_as_joints_and_drawn(tmp_path: Path) -> None:
    motions = made(PolePolicy())
    Shown.first(motions, PROMPTS, unscored(PROMPTS), 1, 2).save(tmp_path / "point.npz")
    shown = Shown.load(tmp_path / "point.npz")
    drawn = track("b", shown, 1)
    assert drawn.names == Pole.joint_names
    assert drawn.parents == Pole.parents
    torch.testing.assert_close(drawn.positions.float(), motions.joints[1, :20])


@pytest.mark.parametrize("algorithm", ["grpo", "reward-gradient", "easytune"])
def test_it_learns_by_its_joints(algorithm: str) -> None:
    policy = PolePolicy()
    grpo = engine(policy, High(), algorithm=algorithm, optim=GrpoOptimSettings(learning_rate=0.05))
    first = grpo.step(PROMPTS)["reward/mean"]
    for _ in range(8):
        last = grpo.step(PROMPTS)["reward/mean"]
    assert last > first + 0.02


def test_a_motion_of_several_blocks_is_refused() -> None:
    policy = PolePolicy()
    with pytest.raises(MotionkitError, match="33 frames"):
        list(generate_motions(policy, [Prompt(("rise",), (33,))], plan_steps(policy)))


def test_extras_of_a_prompt_reach_a_policy_that_reads_them_and_are_refused_by_others() -> None:
    policy, asked = PolePolicy(), Prompt(("rise",), (8,), extras={"heading": 1.5})
    with pytest.raises(MotionkitError, match="heading"):
        list(generate_motions(policy, [asked], plan_steps(policy)))
    with pytest.raises(MotionkitError, match="heading"):
        engine(policy, High()).step([asked])
    seen: list[object] = []
    policy.extras = ("heading",)
    policy.condition = lambda prompts: seen.extend(prompts) or PolePolicy.condition(policy, prompts)  # type: ignore[assignment, func-returns-value, method-assign]
    made = list(generate_motions(policy, [asked], plan_steps(policy)))
    assert len(made) == 1
    assert [prompt.extras["heading"] for prompt in seen] == [1.5, 1.5]  # type: ignore[attr-defined]
