"""One training step, whatever the algorithm: sample, score, give credit, add gradients, descend, measure."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager, nullcontext
from functools import partial

import torch
from torch import Tensor

from motionkit.config import Chosen, Group, choose_one
from motionkit.contracts.dataset import TextMotionDataset
from motionkit.contracts.reward import Reward
from motionkit.errors import MotionkitError
from motionkit.motion.corpus.ids import Split
from motionkit.nn import adapters_off, has_adapters
from motionkit.plugins import complete
from motionkit.rl import require_eval
from motionkit.text import Prompt
from motionkit.text_to_motion.generating import Samples, refuse_blocks, sample
from motionkit.text_to_motion.grpo.algorithms.base import Algorithm, Context, Reference
from motionkit.text_to_motion.grpo.algorithms.credit import dead_everywhere, whole_batch
from motionkit.text_to_motion.grpo.settings import ControlSettings, EmaSettings, GrpoLoraSettings, GrpoOptimSettings
from motionkit.text_to_motion.policy import DiffusionPolicy, stores_guidance
from motionkit.text_to_motion.rewards.function_reward import Function
from motionkit.text_to_motion.rewards.mix import RewardMix, Scored, refuse_dead
from motionkit.text_to_motion.settings import LoraSettings
from motionkit.training.learner import Learner, cosine_rate
from motionkit.training.steps import State, Stateful
from motionkit.training.world import OneProcess, World, mean_over


class GRPO:
    """A policy, rewards, an algorithm and a learner; `step` does one update.

    The policy's network is trained in place: all weights, or low-rank adapters when `lora` is enabled.

    Args:
        policy: What is trained.
        rewards: One reward, or several with weights; each may be a function ``my_reward(motions, prompts)`` that
            returns a tensor with a number per motion. A `RewardMix` can declare which of them have a gradient.
        reference: Reference of the KL; None: the policy before training.
        algorithm: Update rule by name, or from a settings model, with its options.
        rollout: The algorithm's sampling options.
        sampler: Options of the algorithm: how it is sampled.
        objective: The algorithm's options of the objective.
        optim: The optimiser; None: the algorithm's own.
        lora: Low-rank adapters, on by default; ``LoraSettings()`` trains all weights.
        ema: Moving average of the weights.
        control: Negative controls.
        seed: Seed of the run.
        precision: ``fp32``, or ``bf16`` for the network's body.
        updates: Updates of the whole run, for a cosine learning rate; 0 keeps the rate at its peak.
        world: The processes that train together; each gets its share of a step's prompts.
        dataset: Its clips are those of the supervised loss (`objective.data`); None: there is no such loss.
        split: Split of the dataset that is trained on.

    Example:
        >>> from motionkit import GRPO, load_dataset, load_policy, load_reward
        >>> from motionkit.text_to_motion.grpo.api import GrpoSampler
        >>> sampler = GrpoSampler(inference_timesteps=5)
        >>> grpo = GRPO(load_policy("starter"), load_reward("tmr-dense"), sampler=sampler)
        >>> metrics = grpo.step(load_dataset("starter").prompts("train")[:2])
        >>> round(metrics["ratio/mean"], 6)
        1.0
    """

    def __init__(
        self,
        policy: DiffusionPolicy,
        rewards: Reward | Function | Sequence[tuple[Reward | Function, float]] | RewardMix,
        *,
        reference: DiffusionPolicy | None = None,
        algorithm: str | Chosen = "grpo",
        rollout: Group | None = None,
        sampler: Group | None = None,
        objective: Group | None = None,
        optim: GrpoOptimSettings | None = None,
        lora: LoraSettings | None = None,
        ema: EmaSettings | None = None,
        control: ControlSettings | None = None,
        seed: int = 0,
        precision: str = "fp32",
        updates: int = 0,
        world: World | None = None,
        dataset: TextMotionDataset | None = None,
        split: Split = "train",
    ) -> None:
        for given in (policy, reference):
            complete(given, DiffusionPolicy)
        complete(dataset, TextMotionDataset)
        refuse_blocks(policy)
        self.world = world or OneProcess()
        self.policy = policy
        if not isinstance(rewards, RewardMix):
            rewards = RewardMix(rewards if isinstance(rewards, Sequence) else [(rewards, 1.0)])
        self.rewards = rewards
        lora, control = lora or GrpoLoraSettings(), control or ControlSettings()
        if lora.enabled:
            policy.adapt(r=lora.r, alpha=lora.alpha, dropout=lora.dropout, targets=lora.targets, seed=seed)
        policy.network.eval()
        policy.autocast = torch.bfloat16 if precision == "bf16" else None
        if isinstance(algorithm, str):
            groups = {"rollout": rollout, "sampler": sampler, "objective": objective}
            algorithm = choose_one(
                "algorithms",
                algorithm,
                {name: group for name, group in groups.items() if group is not None},
                typed=True,
            )
        self.reference = Reference(policy, reference, sync_every=algorithm.get("objective.sync_every", 0))
        self.algorithm: Algorithm = algorithm.build(
            **vars(
                Context(
                    policy,
                    self.reference,
                    rewards,
                    seed,
                    precision,
                    control.shuffle,
                    self.world,
                    dataset=dataset,
                    split=split,
                    batch=algorithm.get("rollout.prompts", 16),
                )
            )
        )
        if stores_guidance(policy):  # sampled later at the guidance it is tuned at
            policy.guidance = self.algorithm.guidance
        optim = optim or GrpoOptimSettings.of(algorithm.options)
        total = updates if optim.schedule == "cosine" else 0
        rate = cosine_rate(optim.peak(lora=lora.enabled), optim.warmup_steps, total, optim.final)
        self.learner = Learner(policy, optim, rate, ema=(ema or EmaSettings()).decay, world=self.world)
        if self.algorithm.averaged and self.learner.ema is None:
            raise MotionkitError(
                "there is no moving average to sample from.",
                why="rollout.averaged is true and ema.decay is 0.",
                fix="set ema.decay to 0.97, or rollout.averaged to false.",
            )
        self.noise = self.algorithm.noise
        self.updates = 0

    def __repr__(self) -> str:
        return f"GRPO({type(self.algorithm).__name__}, {self.policy!r}, {self.updates} updates)"

    def step(self, prompts: Sequence[Prompt]) -> dict[str, float]:
        """Sample the prompts, score the motions, update the policy; return metrics, defined in `motionkit.tracking`."""
        require_eval(self.policy.network)
        clock = Clock()
        self.reference.follow(self.updates)
        with torch.set_grad_enabled(self.algorithm.graph):
            with self._sampling():
                batch = self._sample(prompts)
            clock.lap("rollout")
            scored = self.rewards.score(batch.motions, batch.prompts, leave_out=self.updates > 0)
            physics = _physics_metrics(batch)
        if self.updates == 0:
            names = [reward.name for reward, _ in self.rewards.terms]
            dead = dead_everywhere(names, scored, self.world)
            refuse_dead(dead, f"{len(batch.prompts) * self.world.size} motions of the first step")
        metrics = mean_over(scored.metrics | physics, self.world)
        metrics |= mean_over(scored.correlations(batch.groups), self.world)
        gathered, groups = whole_batch(scored, batch.groups, self.world)
        metrics |= _reward_metrics(gathered, groups)
        if self.rewards.normalize == "group":
            scored = scored.within(batch.groups)
        clock.lap("reward")
        with self._sampling():
            update = self.algorithm.update(batch, scored, self.updates)
        left_out = 0.0
        for _ in range(self.algorithm.passes):
            self.learner.zero_grad()
            if not update.backward():
                break
            metrics |= self.learner.descend(self.updates, move=bool(gathered.finite.any()))
            left_out += metrics["grad/left_out"]
        metrics["grad/left_out"] = left_out  # of all passes
        metrics |= update.metrics()
        clock.lap("update")
        self.updates += 1
        return metrics | clock.metrics()

    def _sample(self, prompts: Sequence[Prompt]) -> Samples:
        return sample(
            self.policy,
            prompts,
            self.algorithm.plan,
            self.noise,
            samples=self.algorithm.samples,
            guidance=self.algorithm.guidance,
            step=self.updates,
            walk=lambda predict, start, noise: self.algorithm.rollout(predict, start, noise, self.updates),
        )

    def _sampling(self) -> AbstractContextManager[None]:
        """Return the context of rollouts: the trained weights, or their average."""
        return self.learner.averaged() if self.algorithm.averaged else nullcontext()

    def averaged(self) -> AbstractContextManager[None]:
        """Return a context in which the policy has the averaged weights, if there is an average."""
        return self.learner.averaged()

    @property
    def started(self) -> Callable[[], AbstractContextManager[None]] | None:
        """Context with the policy before training; None if that would need a copy."""
        network = self.policy.network
        return partial(adapters_off, network) if has_adapters(network) else None

    def parts(self) -> dict[str, Stateful]:
        """Return the parts of a checkpoint: model, optimiser, average, reference, the algorithm's state, a counter."""
        return {**self.learner.parts(), "reference": self.reference, **self.algorithm.parts(), "grpo": self}

    def state(self) -> State:
        """Return the number of updates."""
        return State(values={"updates": self.updates})

    def load_state(self, state: State) -> None:
        """Restore it."""
        self.updates = int(state.values["updates"])


class Clock:
    """Wall time of the parts of a step, and the CPU time of the whole."""

    def __init__(self) -> None:
        self._cpu = time.process_time()
        self._start = self._last = time.perf_counter()
        self._parts: dict[str, float] = {}

    def lap(self, name: str) -> None:
        """Add the time since the last lap under `name`."""
        now = time.perf_counter()
        self._parts[f"time/{name}"] = now - self._last
        self._last = now

    def metrics(self) -> dict[str, float]:
        """Return the parts, ``time/step`` and ``time/cpu``, in seconds."""
        return self._parts | {"time/step": self._last - self._start, "time/cpu": time.process_time() - self._cpu}


def _physics_metrics(batch: Samples) -> dict[str, float]:
    # Computed once, with the graph if there is one: the algorithm may need it.
    skate, jerk = (part.detach() for part in batch.motions.physics)
    return {"physics/skate": float(skate.nanmean()), "physics/jerk": float(jerk.nanmean())}


@torch.no_grad()
def _reward_metrics(scored: Scored, groups: Tensor) -> dict[str, float]:
    bad, nan = int((~scored.finite).sum()), float("nan")
    known = scored.total[scored.finite]
    if len(known) == 0:
        return {"reward/mean": nan, "reward/std": nan, "reward/min": nan, "reward/max": nan, "reward/nan": float(bad)}
    spread = [scored.total[groups == group].std() for group in groups.unique() if int((groups == group).sum()) > 1]
    within = {"reward/group_std": float(torch.stack(spread).mean())} if spread else {}
    return within | {
        "reward/mean": float(known.mean()),
        "reward/std": float(known.std()) if len(known) > 1 else nan,
        "reward/min": float(known.min()),
        "reward/max": float(known.max()),
        "reward/nan": float(bad),
    }
