"""Held-out measurement: fixed prompts, fixed noise, fixed guidance, so that before and after can be paired."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np
import torch
from numpy.typing import NDArray
from safetensors import SafetensorError
from safetensors.torch import load, save

from motionkit.evaluation._paired import Paired, compare
from motionkit.evaluation._real import RealMotions
from motionkit.evaluation._sets import Arrays, SetFigure, compare_sets, set_columns
from motionkit.evaluation._shown import Shown
from motionkit.kernels import physics_sums
from motionkit.metrics import joint_speed, root_path, sample_spread
from motionkit.motion import MotionBatch
from motionkit.policies.base import DiffusionPolicy
from motionkit.policies.sampling import sample
from motionkit.rewards._ask import ask
from motionkit.rewards.base import Reward
from motionkit.rewards.mix import RewardMix, Scored, refuse_dead
from motionkit.rl import DDIM, NoiseSource, Sampler, StepPlan
from motionkit.runs import disk_errors, write_bytes_atomic
from motionkit.text import Prompt

_LARGEST = 64 << 20  # bytes of kept figures that are read
_CHUNK = 64  # motions sampled and scored at a time
_SHOWN = 12  # prompts whose first sample is kept
_SET = "set/"  # how names of tensors begin that are of `Measured.sets`


@dataclass(frozen=True)
class Measured:
    """One measurement, every quantity ``[P, S]`` float64 (P prompts, S samples).

    Attributes:
        quantities: By name: ``reward`` (the weighted mix), ``judge`` (when there is one), ``skate`` (m/s), ``jerk``
            (m/s^3), ``speed`` (mean of the joints, m/s), ``path`` (of the root over the ground, m), where real motions
            are known ``movement``, ``statues`` and ``side`` (see `motionkit.motion.RealActions.measure`) and, with
            several samples per prompt, ``diversity`` (see `motionkit.metrics.sample_spread`, of normalised features).
        sets: What kinetic FID and NPSS are made of, ``[P, S, ...]`` float32 (see `set_columns`); empty where no real
            motions are known.
        shown: Some of the motions, to be looked at; None for a measurement that was read from a checkpoint.
    """

    quantities: dict[str, NDArray[np.float64]]
    shown: Shown | None = field(default=None, compare=False)
    sets: Arrays = field(default_factory=dict)

    def mean(self, name: str) -> float:
        """Return the mean over finite samples; NaN where there is none."""
        values = self.quantities[name]
        return float(values[np.isfinite(values)].mean()) if np.isfinite(values).any() else float("nan")

    def first(self, count: int) -> Measured:
        """Return the measurement of the first `count` prompts, with the motions that are shown."""
        quantities = {name: values[:count] for name, values in self.quantities.items()}
        return Measured(quantities, self.shown, {name: values[:count] for name, values in self.sets.items()})

    @classmethod
    def from_tensors(cls, tensors: Mapping[str, torch.Tensor]) -> Measured:
        """Return the measurement that `tensors` was made of."""
        sets = {name.removeprefix(_SET): values.numpy() for name, values in tensors.items() if name.startswith(_SET)}
        plain = {name: values.double().numpy() for name, values in tensors.items() if not name.startswith(_SET)}
        return cls(plain, sets=sets)

    def tensors(self) -> dict[str, torch.Tensor]:
        """Return quantities and sets as tensors, for a checkpoint."""
        sets = {f"{_SET}{name}": torch.from_numpy(values) for name, values in self.sets.items()}
        return {name: torch.from_numpy(values) for name, values in self.quantities.items()} | sets

    def keep(self, path: Path) -> None:
        """Write quantities and sets, without the motions."""
        with disk_errors("write the held-out figures", path.parent):
            path.parent.mkdir(exist_ok=True)
            write_bytes_atomic(path, save({name: values.clone() for name, values in self.tensors().items()}))

    @classmethod
    def kept(cls, path: Path, like: Measured) -> Measured | None:
        """Return what `keep` wrote; None where it is not there, damaged, or of other names or sizes than `like`."""
        try:
            tensors = load(path.read_bytes()) if path.stat().st_size <= _LARGEST else {}
        except (OSError, SafetensorError):
            return None
        wanted = {name: (one.shape, one.dtype) for name, one in like.tensors().items()}
        same = {name: (one.shape, one.dtype) for name, one in tensors.items()} == wanted
        return cls.from_tensors(tensors) if same else None


def compare_measured(before: Measured, after: Measured) -> dict[str, Paired]:
    """Pair two measurements by the same `HeldOut`, quantity by quantity."""
    both = [name for name in before.quantities if name in after.quantities]
    return {name: compare(before.quantities[name], after.quantities[name]) for name in both}


class HeldOut:
    """A fixed question put to policies.

    Args:
        prompts: Held-out prompts.
        samples: Motions per prompt.
        steps: Timesteps that the sampler visits, or how many evenly spaced ones; None visits all.
        guidance: Guidance scale.
        rewards: The training rewards.
        judge: A score that is never trained on.
        sampler: Reverse process; deterministic DDIM when None.
        seed: Seed of the noise, apart from any training noise.
        real: Real motions of the prompts' split, which ``movement``, ``statues`` and ``side`` are measured against.

    Example:
        >>> from motionkit import load_dataset, load_policy, load_reward
        >>> prompts = load_dataset("starter").prompts("val", k_segments=2)[:2]
        >>> rewards = RewardMix([(load_reward("tmr-dense"), 1.0)])
        >>> heldout = HeldOut(prompts, samples=2, steps=5, guidance=1.0, rewards=rewards)
        >>> heldout.measure(load_policy("starter")).quantities["reward"].shape
        (2, 2)
    """

    def __init__(
        self,
        prompts: Sequence[Prompt],
        *,
        samples: int,
        steps: int | Sequence[int] | None,
        guidance: float,
        rewards: RewardMix,
        judge: Reward | None = None,
        sampler: Sampler | None = None,
        seed: int = 0,
        real: RealMotions | None = None,
    ) -> None:
        self.prompts = list(prompts)
        self.samples = samples
        self.steps = steps
        self.guidance = guidance
        self.rewards = rewards
        self.judge = judge
        self.sampler = sampler or DDIM(0.0)
        self.noise = NoiseSource(seed)
        self.real = real

    @torch.no_grad()
    def measure(self, policy: DiffusionPolicy, *, first: bool = False, guidance: float | None = None) -> Measured:
        """Sample and score `policy`; two calls with the same weights return the same numbers.

        Args:
            policy: What is measured.
            first: Whether the rewards are asked for the first time: one without any finite score is refused then.
            guidance: Another guidance scale than that of the question.

        Raises:
            MotionkitError: A reward is refused (exit code 1).
        """
        guidance = self.guidance if guidance is None else guidance
        plan = StepPlan.build(policy.schedule, self.sampler, steps=self.steps)
        columns: dict[str, list[torch.Tensor]] = {}
        sets: dict[str, list[torch.Tensor]] = {}
        shown = None
        dead = {reward.name for reward, _ in self.rewards.terms}
        size = max(1, _CHUNK // self.samples)
        for start in range(0, len(self.prompts), size):
            chunk = self.prompts[start : start + size]
            done = sample(policy, chunk, plan, self.noise, samples=self.samples, guidance=guidance, step=-1)
            scored = self.rewards.score(done.motions, done.prompts)
            if shown is None:
                shown = Shown.first(done.motions, done.prompts, scored, self.samples, _SHOWN)
            dead &= set(scored.dead)
            values = self._values(done.motions, done.prompts, scored)
            if self.samples > 1:
                grouped = done.rollout.x0.unflatten(0, (len(chunk), self.samples))
                spread = sample_spread(grouped, done.mask[:: self.samples])
                values["diversity"] = spread.repeat_interleave(self.samples)
            for name, column in values.items():
                columns.setdefault(name, []).append(column)
            if self.real is not None:
                for name, part in set_columns(done.motions, done.prompts, self.real, self._most_segments).items():
                    sets.setdefault(name, []).append(part)
        shape = (len(self.prompts), self.samples)
        if first:
            refuse_dead(sorted(dead), f"{shape[0] * shape[1]} held-out motions")
        found = {name: torch.cat(v).double().cpu().numpy().reshape(shape) for name, v in columns.items()}
        parts = {name: torch.cat(v).float().cpu().unflatten(0, shape).numpy() for name, v in sets.items()}
        return Measured(found, shown, parts)

    @property
    def _most_segments(self) -> int:
        return max(len(prompt.segments) for prompt in self.prompts)

    @torch.no_grad()
    def measure_real(self, *, device: torch.device | str = "cpu") -> Measured | None:
        """Score real motions that do what the prompts ask for, one each (see `RealMotions.answers`).

        Returns:
            Quantities ``[P, 1]``, without ``diversity``; NaN for prompts without a real motion. None where no prompt
            has one.
        """
        answers = None if self.real is None else self.real.answers(self.prompts, device=device)
        if answers is None:
            return None
        scored = self.rewards.score(answers.motions, answers.prompts)
        found = {}
        for name, values in self._values(answers.motions, answers.prompts, scored).items():
            found[name] = np.full((len(self.prompts), 1), np.nan)
            found[name][list(answers.places), 0] = values.double().cpu().numpy()
        return Measured(found, Shown.first(answers.motions, answers.prompts, scored, 1, _SHOWN))

    def compare_sets(self, before: Measured, after: Measured) -> dict[str, SetFigure]:
        """Compare what sets of motions have as a whole (see `compare_sets`); empty where no real motions are known."""
        return {} if self.real is None else compare_sets(before.sets, after.sets, self.prompts, self.real)

    def _values(self, motions: MotionBatch, asked: Sequence[Prompt], scored: Scored) -> dict[str, torch.Tensor]:
        """Return ``[N]`` of each quantity."""
        skate, jerk = physics_sums(motions.joints, motions.lengths, fps=motions.fps, feet=motions.skeleton.feet)
        values = {
            "reward": torch.where(scored.finite, scored.total, torch.nan),
            "skate": skate,
            "jerk": jerk,
            "speed": joint_speed(motions.joints, motions.lengths, motions.fps),
            "path": root_path(motions.joints, motions.lengths),
        }
        if self.real is not None:
            values |= self.real.actions.measure(motions, asked)
        if self.judge is not None:
            values["judge"] = self._judged(self.judge, scored, motions, asked)
        return values

    def _judged(self, judge: Reward, scored: Scored, motions: MotionBatch, asked: Sequence[Prompt]) -> torch.Tensor:
        """Return the judge's totals ``[N]``, NaN where it does not apply; one that is a reward is not asked again."""
        known = [
            term.scores for (reward, _), term in zip(self.rewards.terms, scored.terms, strict=True) if reward is judge
        ]
        scores = known[0] if known else ask(judge, motions, asked)
        return torch.where(scores.applying, scores.total, torch.nan)
