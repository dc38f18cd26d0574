"""easytune: the sum of gradients of single steps, in the memory of one step; it learns, its control does not."""

from __future__ import annotations

import pytest
import torch
from torch import Tensor

from motionkit.errors import MotionkitError
from motionkit.motion import MotionBatch
from motionkit.rl import stable_hash
from motionkit.text_to_motion.grpo.algorithms.options import (
    CosineOptim,
    EasyTuneObjective,
    GradientSampler,
    TrainSampler,
)
from motionkit.text_to_motion.grpo.settings import EmaSettings
from motionkit.text_to_motion.grpo.step import GRPO
from motionkit.text_to_motion.rewards.mix import RewardMix

from .test_gradient import Closed, Flat
from .test_gradient import make as make_chain
from .test_world import two_do_as_one
from .toy import PROMPTS, Height, engine, gain, make_policy, resumes

OFF = EasyTuneObjective(jerk=0.0, skate=0.0, anchor=0.0, hold=0.0)


def make(policy: object = None, reward: object = None, **groups: object) -> GRPO:
    options: dict[str, object] = {
        "algorithm": "easytune",
        "objective": OFF,
        "optim": CosineOptim(learning_rate=2e-2),
        **groups,
    }
    return engine(policy, reward, **options)  # type: ignore[arg-type]


def slope(grpo: GRPO) -> Tensor:
    """Gradient of the first batch."""
    grpo.learner.zero_grad()
    with torch.set_grad_enabled(grpo.algorithm.graph):
        batch = grpo._sample(PROMPTS)
        scored = grpo.rewards.score(batch.motions, batch.prompts)
    update = grpo.algorithm.update(batch, scored, 0)
    with torch.enable_grad():
        update.backward()
    return torch.cat([p.grad.flatten() for _, p in grpo.learner.trained if p.grad is not None])


@pytest.mark.parametrize("step_weight", ["uniform", "signal"])
def test_the_gradient_is_the_sum_of_those_of_single_steps(step_weight: str) -> None:
    objective = OFF.model_copy(update={"step_weight": step_weight})
    grpo = make(make_policy(), objective=objective)
    plan, policy, reward = grpo.algorithm.plan, grpo.policy, Height()
    with torch.no_grad():
        batch = grpo._sample(PROMPTS)
    x = grpo.noise.start(0, *_keys(), (batch.mask.shape[1], 263))
    signal = policy.schedule.alphas_cumprod[plan.timesteps]
    weights = signal / signal.sum() if step_weight == "signal" else torch.full((len(plan),), 1 / len(plan))
    wanted = torch.zeros(sum(p.numel() for _, p in grpo.learner.trained))
    for k, timestep in enumerate(plan.timesteps):
        x0 = policy.predict(x, timestep.expand(len(PROMPTS)), batch.condition, batch.lengths)
        motions = MotionBatch(x0, batch.lengths, skeleton=policy.skeleton, fps=policy.fps)
        loss = -float(weights[k]) * reward.score(motions, PROMPTS).total.mean()
        parts = torch.autograd.grad(loss, [p for _, p in grpo.learner.trained])
        wanted += torch.cat([part.flatten() for part in parts])
        x = (plan.c_x0[k] * x0 + plan.c_xt[k] * x).detach().float()  # stopped between the steps
    found = slope(grpo)
    assert float((found - wanted).norm() / wanted.norm()) < 1e-6
    # A chain that is not stopped has another gradient.
    chain = make_chain(make_policy())
    through = slope(chain)
    assert float((found / found.norm() - through / through.norm()).norm()) > 0.01


def _keys() -> tuple[Tensor, Tensor]:
    return torch.tensor([stable_hash(prompt.key) for prompt in PROMPTS]), torch.zeros(len(PROMPTS), dtype=torch.int64)


def held(grpo: GRPO) -> int:
    """Most bytes that were saved for backward at one time during the second update."""
    now, most = 0, 0

    class Kept:
        def __init__(self, tensor: Tensor) -> None:
            nonlocal now, most
            self.tensor = tensor
            now += tensor.nbytes
            most = max(most, now)

        def __del__(self) -> None:
            nonlocal now
            now -= self.tensor.nbytes

    grpo.step(PROMPTS)
    with torch.autograd.graph.saved_tensors_hooks(Kept, lambda kept: kept.tensor):
        grpo.step(PROMPTS)
    return most


def test_memory_does_not_grow_with_the_steps() -> None:
    few, many = (make(make_policy(), sampler=TrainSampler(train_timesteps=steps)) for steps in (3, 12))
    assert held(many) < 1.05 * held(few)
    short, long = (make_chain(make_policy(), sampler=GradientSampler(train_timesteps=steps)) for steps in (3, 27))
    assert held(long) > 2 * held(short)


@pytest.mark.parametrize("step_weight", ["uniform", "signal"])
def test_it_learns_and_random_signs_do_not(step_weight: str) -> None:
    objective = OFF.model_copy(update={"step_weight": step_weight})
    real = [gain(make(seed=seed, objective=objective)) for seed in range(3)]
    control = [gain(make(seed=seed, objective=objective, shuffle=True)) for seed in range(3)]
    assert min(real) > 0.12, real
    assert abs(sum(control)) < 0.3 * sum(real), (real, control)


def test_two_processes_do_what_one_does() -> None:
    objective = EasyTuneObjective()  # with the hold, which draws a timestep for every second sample
    two_do_as_one(lambda **world: make(make_policy(), objective=objective, **world), 2)


def test_a_resumed_run_ends_in_the_same_bits() -> None:
    metrics = resumes(
        lambda: make(make_policy(), objective=EasyTuneObjective(), ema=EmaSettings(decay=0.9), updates=6)
    )[-1]
    assert {"loss/policy", "loss/physics", "loss/anchor", "loss/hold"} <= metrics.keys()


MAKERS = {"easytune": make, "reward-gradient": make_chain}


@pytest.mark.parametrize("name", MAKERS)
@pytest.mark.parametrize(("how", "word"), [("detached", "no"), ("zero", "a zero"), ("not finite", "no finite")])
def test_a_reward_without_gradient_stops_the_first_step(name: str, how: str, word: str) -> None:
    with pytest.raises(MotionkitError, match=f"height has {word} gradient") as error:
        MAKERS[name](reward=Flat(how)).step(PROMPTS)
    assert (error.value.code, error.value.why.partition(" ")[0]) == (1, name)
    assert "--algorithm awm or grpo" in error.value.fix


@pytest.mark.parametrize("name", MAKERS)
def test_what_has_no_graph_is_refused(name: str) -> None:
    with pytest.raises(MotionkitError, match="no gradient in its trained parameters"):
        MAKERS[name](Closed()).step(PROMPTS)
    with pytest.raises(MotionkitError, match="height has no gradient") as error:
        MAKERS[name](reward=RewardMix([(Height(), 1.0)], gradient=[False]))
    assert error.value.code == 2
