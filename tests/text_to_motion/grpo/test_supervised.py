"""The supervised loss on the dataset's clips beside the reward: its value, that it teaches, resumes and is shared."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from torch import Tensor

from motionkit.contracts.dataset import TextClip, TextMotionDataset
from motionkit.contracts.reward import RewardScores
from motionkit.motion import HUMANML, MotionBatch, Normalizer
from motionkit.text_to_motion.grpo.algorithms.options import CosineOptim, GradientObjective, GradientRollout
from motionkit.text_to_motion.grpo.algorithms.supervised import Denoising
from motionkit.text_to_motion.grpo.settings import GrpoSettings
from motionkit.text_to_motion.grpo.step import GRPO
from motionkit.text_to_motion.mdm.losses import joint_velocity_loss
from motionkit.text_to_motion.mdm.train import MdmBatches
from motionkit.training.world import OneProcess

from ...made.plain import plain
from .test_world import two_do_as_one
from .toy import PROMPTS, Height, TablePolicy, engine, make_policy, resumes

OFF = {"jerk": 0.0, "skate": 0.0, "anchor": 0.0, "hold": 0.0}


@plain(TextMotionDataset)
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


class Small(Height):
    """A share of `Height`."""

    def __init__(self, share: float) -> None:
        self.share = share

    def score(self, motions: MotionBatch, prompts: Any) -> RewardScores:
        return RewardScores(self.share * super().score(motions, prompts).total)


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


def heights(grpo: GRPO) -> Tensor:
    """The learnt heights of "fall" and "rise"."""
    network: Any = grpo.policy.network
    weight: Tensor = network[0].weight
    return weight[:, 3].detach().clone()


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
    def pose(data: float) -> Tensor:
        grpo = make(Folder(0.7), reward=Small(1e-9), data=data)
        for _ in range(40):
            metrics = grpo.step(PROMPTS)
        assert ("loss/data" in metrics) == (data > 0)
        return heights(grpo)

    assert pose(1.0).tolist() == pytest.approx([-0.7, 0.7], abs=0.15)
    assert pose(0.0).abs().max() < 0.3


def test_the_clips_hold_what_the_reward_would_overdo() -> None:
    def height(data: float) -> float:
        grpo = make(Folder(0.5), reward=Small(2e-3), data=data)
        for _ in range(40):
            grpo.step(PROMPTS)
        return float(heights(grpo)[1])

    assert height(0.0) > 0.9
    assert height(3.0) < 0.75


def test_without_a_dataset_and_in_the_control_there_is_no_such_loss() -> None:
    assert terms(make(Folder(), data=1.0))._denoising is not None
    assert terms(make(None, data=1.0))._denoising is None
    assert terms(make(Folder(), data=1.0, shuffle=True))._denoising is None
    assert terms(make(Folder(captions=()), data=1.0))._denoising is None
    assert GradientObjective().data == 2.0


def test_a_run_with_the_clips_resumes_to_the_bit() -> None:
    resumes(lambda: make(Folder(), make_policy(), data=1.0))


def test_two_processes_use_the_clips_as_one_does() -> None:
    folder = Folder(captions=("rise", "fall", "rise", "fall"))
    two_do_as_one(
        lambda **world: engine(
            make_policy(),
            algorithm="reward-gradient",
            rollout=GradientRollout(prompts=4),
            objective=GradientObjective(data=1.0, **OFF),
            optim=CosineOptim(learning_rate=2e-2),
            dataset=folder,
            **world,
        ),
        3,
    )


@pytest.mark.parametrize("name", ["reward-gradient", "easytune", "mixed"])
def test_every_algorithm_on_gradients_has_the_loss_by_default(name: str) -> None:
    found = {
        dataset is None: engine(make_policy(), algorithm=name, dataset=dataset).step(PROMPTS).get("loss/data", 0.0)
        for dataset in (Folder(), None)
    }
    assert found[False] > 0.1
    assert found[True] == 0.0


def test_a_run_that_was_begun_without_it_goes_on_without_it() -> None:
    older = {"objective": {"hold": 4.0, "jerk": None}}
    assert GrpoSettings.recorded(older)["objective"] == {"hold": 4.0, "jerk": None, "data": 0.0}
    assert GrpoSettings.recorded({"objective": {"data": 1.0, "jerk": None}})["objective"]["data"] == 1.0
    assert GrpoSettings.recorded({"objective": {"kl": 0.1}})["objective"] == {"kl": 0.1}  # of an algorithm without it
