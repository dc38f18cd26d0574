"""What the objective asks of the dataset's clips: ceilings of the reward, and the supervised loss."""

from __future__ import annotations

import copy
from types import SimpleNamespace
from typing import Any

import pytest
import torch
from torch import Tensor

from motionkit import load_dataset, load_policy, load_reward
from motionkit.contracts.dataset import TextClip
from motionkit.contracts.reward import RewardScores
from motionkit.motion import HUMANML, MotionBatch, Normalizer
from motionkit.text_to_motion.evaluation.real_motions import RealMotions
from motionkit.text_to_motion.grpo.algorithms.clips import Denoising, RealClips
from motionkit.text_to_motion.grpo.algorithms.options import CosineOptim, GradientObjective, GradientRollout
from motionkit.text_to_motion.grpo.step import GRPO
from motionkit.text_to_motion.mdm.train import MdmBatches, joint_velocity_loss
from motionkit.text_to_motion.rewards.mix import RewardMix
from motionkit.training.world import OneProcess

from .test_world import two_do_as_one
from .toy import PROMPTS, Height, TablePolicy, engine, make_policy, resumes

OFF = {"jerk": 0.0, "skate": 0.0, "anchor": 0.0, "hold": 0.0}


class Folder:
    """Clips whose root stands at 1 in "rise" and at -1 in "fall", 16 frames each."""

    name, skeleton, fps, max_length, random_crop = "folder", HUMANML, 20.0, 32, True
    normalizer = Normalizer(torch.zeros(263), torch.ones(263))

    def __init__(self, height: float = 1.0, captions: tuple[str, ...] = ("rise", "fall")) -> None:
        self.height, self.captions = height, captions

    def clips(self, split: str) -> list[TextClip]:
        assert split == "train"
        found = []
        for number, caption in enumerate(self.captions):
            features = torch.zeros(16, 263)
            features[:, 3] = self.height if caption == "rise" else -self.height
            found.append(TextClip(f"{number}", features, (caption,)))
        return found


def make(dataset: Any = None, policy: Any = None, *, shuffle: bool = False, reward: Any = None, **options: Any) -> GRPO:
    return engine(
        policy or TablePolicy(),
        reward,
        shuffle=shuffle,
        algorithm="reward-gradient",
        rollout=GradientRollout(prompts=4),
        objective=GradientObjective(**(OFF | options)),
        optim=CosineOptim(learning_rate=4e-2),
        dataset=dataset,
    )


def terms(grpo: GRPO) -> Any:
    return grpo.algorithm.terms  # type: ignore[attr-defined]


def test_a_ceiling_is_the_reward_of_the_reference_clips_of_the_prompt() -> None:
    dataset, reward = load_dataset("starter"), load_reward("tmr-dense")
    prompts = list(dataset.prompts("train", k_segments=2)[:3])
    mix = RewardMix([(reward, 0.5), (Height(), 2.0)])
    clips = RealClips(RealMotions(dataset, "train"), mix, load_policy("starter"))  # type: ignore[arg-type]
    for prompt in prompts:
        answer = RealMotions(dataset, "train").answers([prompt])
        assert answer is not None
        scored = mix.score(answer.motions, answer.prompts)
        # A batch pads its motions, which changes sums by rounding.
        assert float(clips.ceilings([prompt], scored)) == pytest.approx(float(scored.total), abs=1e-5)
    together = clips.ceilings(prompts, scored)
    assert torch.equal(together, torch.cat([clips.ceilings([prompt], scored) for prompt in prompts]))


def test_a_ceiling_counts_the_rewards_of_its_part_and_reads_a_clip_once() -> None:
    class Counted(Height):
        calls = 0

        def score(self, motions: MotionBatch, prompts: Any) -> RewardScores:
            Counted.calls += 1
            return super().score(motions, prompts)

    other = Height()
    other.name = "other"
    mix = RewardMix([(Counted(), 1.0), (other, 10.0)], gradient=[True, False])
    clips = RealClips(RealMotions(Folder(), "train"), mix, TablePolicy())  # type: ignore[arg-type]
    features = torch.zeros(1, 16, 263).requires_grad_()
    motions = MotionBatch(features, torch.tensor([16]), skeleton=HUMANML, fps=20.0)
    scored = mix.score(motions, PROMPTS[3:])
    called = Counted.calls
    assert float(clips.ceilings(PROMPTS[3:], scored)) == pytest.approx(11.0)
    assert float(clips.ceilings(PROMPTS[3:], scored.part(gradient=True))) == pytest.approx(1.0)
    assert Counted.calls == called + 1


def test_a_prompt_without_a_clip_has_no_ceiling() -> None:
    clips = RealClips(RealMotions(Folder(captions=()), "train"), RewardMix([(Height(), 1.0)]), TablePolicy())  # type: ignore[arg-type]
    scored = SimpleNamespace(total=torch.zeros(1), terms=(SimpleNamespace(name="height"),))
    assert clips.ceilings(PROMPTS[:1], scored).tolist() == [torch.inf]  # type: ignore[arg-type]


def test_above_its_ceiling_a_motion_earns_nothing() -> None:
    """The gradient of the loss is that of the samples below, and 0 for the others."""
    total = torch.tensor([0.2, 0.9, 0.5, 0.7]).requires_grad_()
    finite = torch.tensor([True, True, True, False])
    scored: Any = SimpleNamespace(total=total, finite=finite, terms=())
    objective = terms(make(Folder(), target="clips"))
    objective._clips = SimpleNamespace(ceilings=lambda prompts, scored: torch.tensor([0.8, 0.8, torch.inf, 0.8]))
    loss = objective.negative_reward(scored, PROMPTS, 0)
    (gradient,) = torch.autograd.grad(loss, total)
    assert float(loss.detach()) == pytest.approx(-(0.2 + 0.8 + 0.5) / 3)
    assert gradient.tolist() == pytest.approx([-1 / 3, 0.0, -1 / 3, 0.0])


def test_the_reward_stops_at_that_of_the_clips() -> None:
    """Without the ceiling the heights go on rising; the control and a run without data have none."""

    def height(dataset: Any, **options: Any) -> float:
        grpo = make(dataset, **options)
        for _ in range(30):
            grpo.step(PROMPTS)
        return float(grpo.policy.network[0].weight[1, 3].detach())  # type: ignore[index,operator]

    assert height(Folder(0.5), target="clips") == pytest.approx(0.5, abs=0.3)
    assert height(Folder(0.5), target="none") > 0.9
    assert height(None, target="clips") > 0.9
    assert terms(make(Folder(), target="clips", data=1.0, shuffle=True))._clips is None
    assert terms(make(Folder(), target="clips", data=1.0, shuffle=True))._denoising is None


def slow_loss(policy: Any, batch: Any) -> float:
    """One clip after another, one frame after another."""
    found = []
    for row in range(len(batch.lengths)):
        length, step = int(batch.lengths[row]), int(batch.timestep[row])
        kept = float(policy.schedule.alphas_cumprod[step])
        x0 = batch.x0[row, :length]
        noisy = kept**0.5 * x0 + (1 - kept) ** 0.5 * batch.noise[row, :length]
        condition = policy.condition(batch.prompts[row : row + 1])
        made = policy.predict(noisy[None], batch.timestep[row : row + 1], condition, batch.lengths[row : row + 1])[0]
        error, mask = made - x0, torch.ones(1, length, dtype=torch.bool)
        joints = joint_velocity_loss(
            made[None], x0[None], mask, normalizer=policy.normalizer, skeleton=policy.skeleton, fps=policy.fps
        )
        loss = error.square().mean() + (error[1:] - error[:-1]).square().mean() + joints
        found.append(min(max(kept / (1 - kept), 1.0), 5.0) * float(loss.detach()))
    return sum(found) / len(found)


def test_the_supervised_loss_is_that_of_the_clips_one_by_one() -> None:
    policy = make_policy()
    folder = Folder(captions=("rise", "fall", "rise"))
    loss = Denoising(folder.clips("train"), policy, batch=3, seed=5, crop=True, world=OneProcess())
    batches = MdmBatches(
        folder.clips("train"), policy.normalizer, batch_size=3, steps=50, max_length=32, seed=5, random_crop=True
    )
    for number in range(3):
        expected = slow_loss(policy, batches(number + 1))
        assert float(loss.loss(number).detach()) == pytest.approx(expected, rel=1e-4)
    assert float(loss.loss(0).detach()) == float(loss.loss(0).detach())  # a function of the update's number


def test_the_supervised_loss_teaches_the_clips_without_a_reward() -> None:
    class Nothing(Height):
        def score(self, motions: MotionBatch, prompts: Any) -> RewardScores:
            return RewardScores(1e-9 * super().score(motions, prompts).total)

    def pose(data: float) -> Tensor:
        grpo = make(Folder(0.7), reward=Nothing(), data=data, target="none")
        for _ in range(40):
            metrics = grpo.step(PROMPTS)
        assert ("loss/data" in metrics) == (data > 0)
        return copy.deepcopy(grpo.policy.network[0].weight[:, 3].detach())  # type: ignore[index,operator]

    assert pose(1.0).tolist() == pytest.approx([-0.7, 0.7], abs=0.15)
    assert pose(0.0).abs().max() < 0.3


def test_a_run_with_the_clips_resumes_to_the_bit() -> None:
    resumes(lambda: make(Folder(), make_policy(), target="clips", data=1.0))


def test_two_processes_use_the_clips_as_one_does() -> None:
    folder = Folder(captions=("rise", "fall", "rise", "fall"))
    two_do_as_one(
        lambda **world: engine(
            make_policy(),
            algorithm="reward-gradient",
            rollout=GradientRollout(prompts=4),
            objective=GradientObjective(target="clips", data=1.0, **OFF),
            optim=CosineOptim(learning_rate=2e-2),
            dataset=folder,
            **world,
        ),
        3,
    )
