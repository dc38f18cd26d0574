"""Motions of several blocks: how they are divided, what they are made of, and what is measured at seams."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise
from statistics import median
from typing import Any

import pytest
import torch
from torch import Tensor

from motionkit import load_policy
from motionkit.errors import MotionkitError
from motionkit.motion import HUMANML, Normalizer, features_to_joints
from motionkit.rl import NoiseSource, Schedule
from motionkit.text import Prompt
from motionkit.text_to_motion import blocks
from motionkit.text_to_motion.blocks import (
    Block,
    blocks_of,
    half_overlap,
    is_long,
    measure_seams,
    sample_blocks,
    seam_rows,
)
from motionkit.text_to_motion.generating import (
    asked_of,
    generate_motions,
    generate_with_seams,
    plan_steps,
    typed_prompts,
)
from motionkit.text_to_motion.policy import DiffusionPolicy

from ..made.plain import plain

WIDTH = HUMANML.width


@dataclass
class Texts:
    """A condition that is the prompts."""

    prompts: Sequence[Prompt]

    def __len__(self) -> int:
        return len(self.prompts)

    def select(self, index: Tensor) -> Texts:
        return Texts([self.prompts[i] for i in index.tolist()])


@plain(DiffusionPolicy)
class Plain:
    """A policy that looks at a text and at a frame, not at the noise; what is past a motion's end is not a number."""

    fps, max_length, skeleton, autocast = 20.0, 80, HUMANML, None

    def __init__(self, *, reads_noise: bool = False) -> None:
        self.normalizer = Normalizer(torch.zeros(WIDTH), torch.ones(WIDTH))
        self.schedule = Schedule.cosine(10)
        self.reads_noise = reads_noise
        self.asked: list[tuple[str, int]] = []
        self.rows = 0

    def frames(self, lengths: Tensor) -> int:
        return int(lengths.max())

    def condition(self, prompts: Sequence[Prompt]) -> Texts:
        self.asked = [(prompt.text, prompt.length) for prompt in prompts]
        assert all(prompt.length <= self.max_length for prompt in prompts)
        return Texts(prompts)

    def predict(self, x: Tensor, timestep: Tensor, condition: Texts, lengths: Tensor, *, guidance: float = 1) -> Tensor:
        assert len(x) == len(timestep) == len(condition) == len(lengths)
        self.rows = max(self.rows, len(x))
        made = x.clone() if self.reads_noise else torch.zeros_like(x)
        if not self.reads_noise:
            for row, prompt in enumerate(condition.prompts):
                for text, (start, end) in zip(prompt.segments, prompt.bounds, strict=True):
                    made[row, start:end] = float(text)
        inside = torch.arange(x.shape[1]) < lengths[:, None]
        return torch.where(inside[..., None], made, torch.nan)


def _sampled(policy: Any, prompt: Prompt, **more: Any) -> Tensor:
    plan = plan_steps(policy)
    return sample_blocks(policy, prompt, plan, NoiseSource(more.pop("seed", 0)), **more).features


def test_whole_actions_share_a_block_and_long_ones_are_divided() -> None:
    policy = Plain()
    assert half_overlap(policy) == 10  # half a second, so that 60 frames of a block are its own
    parts = blocks_of(policy, Prompt(("1", "2", "3", "4"), (30, 30, 40, 130)))
    assert [(one.first, one.last, one.start, one.stop) for one in parts] == [
        (0, 60, 0, 70), (60, 100, 50, 110), (100, 160, 90, 170), (160, 195, 150, 205), (195, 230, 185, 230)
    ]  # fmt: skip
    assert [(one.prompt.segments, one.prompt.frames) for one in parts] == [
        (("1", "2"), (30, 40)), (("3",), (60,)), (("4",), (80,)), (("4",), (55,)), (("4",), (45,))
    ]  # fmt: skip
    for one in parts:
        assert one.prompt.length == one.stop - one.start


@pytest.mark.parametrize("frames", [81, 119, 120, 121, 200, 400])
def test_a_motion_has_as_many_frames_as_were_asked_for(frames: int) -> None:
    policy = Plain()
    prompt = Prompt(("1",), (frames,))
    assert is_long(policy, prompt)
    features = _sampled(policy, prompt, samples=2)
    assert features.shape == (2, frames, WIDTH)
    assert torch.allclose(features, torch.ones(()), atol=1e-6), "every frame is made, by whole weights"


def test_a_block_is_what_the_policy_makes_and_the_overlap_goes_from_one_to_the_other() -> None:
    policy = Plain()
    made = _sampled(policy, Prompt(("1", "2", "3"), (60, 30, 60)))[0, :, 0]
    assert torch.allclose(made[:50], torch.full((50,), 1.0))
    ramp = 1 + (torch.arange(20) + 0.5) / 20
    assert torch.allclose(made[50:70], ramp, atol=1e-6)
    assert torch.allclose(made[70:80], torch.full((10,), 2.0))
    assert torch.allclose(made[80:100], ramp + 1, atol=1e-6)
    assert torch.allclose(made[100:], torch.full((50,), 3.0))


def test_the_first_blocks_do_not_depend_on_those_after_them() -> None:
    policy = Plain(reads_noise=True)  # what comes out is a function of a frame's noise alone
    short, long = (_sampled(policy, Prompt(("1",), (frames,), "1"), samples=2) for frames in (150, 500))
    assert torch.allclose(short, long[:, :150], atol=1e-5)
    more = _sampled(policy, Prompt(("1", "2"), (150, 60), "1 | 2"), samples=2)
    assert torch.allclose(short, more[:, :150], atol=1e-5)
    assert not torch.allclose(short[0], short[1])
    ours, theirs = (_sampled(policy, Prompt(("1",), (150,), key, (key,))) for key in ("clip#0", "clip#1"))
    assert not torch.allclose(ours, theirs), "equal texts of two clips of a dataset"
    assert not torch.allclose(short, _sampled(policy, Prompt(("1",), (150,), "1"), samples=2, seed=1))


def test_blocks_are_asked_for_a_batch_at_a_time_with_the_same_result() -> None:
    policy = load_policy()
    (prompt,) = typed_prompts(policy, "a person walks forward", [24])
    plan = plan_steps(policy, steps=3)
    one, many = (
        sample_blocks(policy, prompt, plan, NoiseSource(0), samples=2, guidance=2.5, batch=batch).features
        for batch in (1, 64)
    )
    assert torch.allclose(one, many, atol=1e-3)
    plain = Plain()
    _sampled(plain, Prompt(("1",), (500,)), samples=3, batch=4)
    assert plain.rows == 4


def test_what_fits_is_made_at_once_and_beside_what_does_not() -> None:
    policy = Plain()
    fits, long = Prompt(("7",), (80,)), Prompt(("5",), (130,))
    clips = list(generate_motions(policy, [fits, long, fits], plan_steps(policy), samples=2))
    assert [clip.frames for clip in clips] == [80, 80, 130, 130, 80, 80]
    assert ["seams" in clip.notes for clip in clips] == [False, False, True, True, False, False]
    assert "Joined of 3 blocks" in clips[2].notes["seams"]
    assert asked_of(policy, [fits]) == [fits]
    assert [float(clip.features[0, 0]) for clip in clips] == pytest.approx([7, 7, 5, 5, 7, 7])


def test_seams_are_measured_once_for_sentence_and_table(monkeypatch: pytest.MonkeyPatch) -> None:
    policy, measured = Plain(), []
    monkeypatch.setattr(blocks, "measure_seams", lambda *given: measured.append(given) or measure_seams(*given))
    made = list(generate_with_seams(policy, [Prompt(("5",), (130,)), Prompt(("7",), (80,))], plan_steps(policy)))
    assert len(measured) == 1
    (clip, seams), (_, none) = made
    assert seams == measure_seams(clip.positions(), *measured[0][1:])
    assert seams.sentence(clip.fps) == clip.notes["seams"]
    assert none is None


def test_a_motion_that_memory_cannot_hold_is_refused() -> None:
    with pytest.raises(MotionkitError) as raised:
        asked_of(Plain(), [Prompt(("1",), (100_001,))])
    assert "5000 s in total" in raised.value.fix


def _at(*firsts: int, frames: int) -> list[Block]:
    ends = [0, *firsts, frames]
    empty = Prompt(("x",), (1,))
    return [Block(a, b, a, b, empty) for a, b in pairwise(ends)]


def test_a_motion_of_constant_speed_has_no_seam() -> None:
    steps = torch.arange(90, dtype=torch.float64)[:, None, None] * torch.tensor([0.01, 0.0, 0.05])
    seams = measure_seams(steps + torch.rand(1, 22, 3).double(), _at(30, 60, frames=90), HUMANML, 20.0)
    assert seams.frames == (30, 60)
    assert max(*seams.misses, seams.most, seams.inside_most) < 1e-9
    assert max(seams.jerk, seams.jerk_inside) < 1e-2  # it is smoothed at 0


def test_a_jump_is_seen_at_its_seam_and_nowhere_else() -> None:
    joints = torch.zeros(90, 22, 3, dtype=torch.float64)
    joints[:, :, 1] = 1.0
    joints[30:, :11, 0] += 0.2  # half of the joints jump by 0.2 m, from frame 29 to frame 30
    seams = measure_seams(joints, _at(30, 60, frames=90), HUMANML, 20.0)
    assert seams.misses == pytest.approx((0.1, 0.0))
    assert (seams.most, seams.inside) == pytest.approx((0.2, 0.0))
    assert seams.jerk > 10
    assert seams.jerk_inside < 1e-2
    early = measure_seams(joints, _at(28, 60, frames=90), HUMANML, 20.0)
    assert early.most == 0, "the seam is the step from its last frame to its first, not one beside it"
    (title, told), (_, way), *_ = seam_rows([seams, seams], 3)
    assert (title, told) == ("motions joined of blocks", "2 of 3, 4 seams")
    assert way == "50.0 at seams (one 200), 0.0 inside (one 0)"
    assert "30 mm" not in seams.sentence(20.0)
    assert "at 1.5 and 3.0 s" in seams.sentence(20.0)


def test_feet_that_slide_near_a_seam_are_told_from_those_inside() -> None:
    joints = torch.zeros(120, 22, 3, dtype=torch.float64)
    joints[50:70, :, 0] = torch.arange(20)[:, None] / 20.0  # the body slides at 1 m/s within half a second of the seam
    joints[70:, :, 0] = 0.95
    seams = measure_seams(joints, _at(60, frames=120), HUMANML, 20.0)
    assert seams.skate == pytest.approx(1.0)
    assert seams.skate_inside < 1e-4


def test_the_starters_blocks_meet_better_than_motions_that_are_set_one_behind_the_other() -> None:
    policy = load_policy()
    (prompt,) = typed_prompts(policy, "a person walks | a person waves with the right hand", [8.0, 6.0])
    plan = plan_steps(policy)
    parts = blocks_of(policy, prompt)
    joined = sample_blocks(policy, prompt, plan, NoiseSource(0), samples=4, guidance=2.5).joints
    alone = [Prompt((text,), (frames,)) for text, frames in zip(prompt.segments, prompt.frames, strict=True)]
    clips = list(generate_motions(policy, alone, plan, samples=4))
    naive = features_to_joints(
        torch.stack([torch.cat([clips[i].features, clips[4 + i].features]) for i in range(4)]), HUMANML
    )
    blended, hard = (
        median(miss for one in motions for miss in measure_seams(one, parts, HUMANML, 20.0).misses)
        for motions in (joined, naive)
    )
    assert blended < hard / 3
    assert blocks.OVERLAP == 1.0


def test_the_last_frames_of_the_starter_move_no_faster_than_those_before() -> None:
    """A frame of the last half token had one writer where all others have two, and joints jumped there."""
    policy = load_policy()
    assert [policy.spare(length) for length in (117, 118, 119, 120, 121)] == [0, 0, 3, 2, 0]
    clips = policy.generate(["a person sits down", "a person stands still"], durations=[4.0], num_samples=4)
    assert {clip.frames for clip in clips} == {80}
    speeds = torch.stack([clip.positions().diff(dim=0).norm(dim=-1).amax(-1) for clip in clips])
    ratio = speeds[:, -2:].mean(1) / speeds[:, -24:-8].mean(1)
    assert float(ratio.log().mean().exp()) < 1.5  # it was 5
