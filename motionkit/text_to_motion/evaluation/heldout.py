"""Held-out measurement: fixed prompts, fixed noise, fixed guidance, so that before and after can be paired.

A `HeldOut` measures a policy: `Measured` has each quantity by prompt and sample, and some motions to look at
(`Shown`). `compare_measured` pairs two measurements by sample. Figures that a set of motions has as a whole, kinetic
FID and NPSS, are compared by `motionkit.text_to_motion.evaluation.set_figures`.
"""

from __future__ import annotations

import io
import json
import zipfile
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Self

import numpy as np
import torch
from numpy.typing import NDArray
from safetensors import SafetensorError
from safetensors.torch import load, save

from motionkit.contracts.reward import Reward
from motionkit.errors import MotionkitError
from motionkit.metrics import joint_speed, root_path, sample_spread
from motionkit.metrics.paired import Paired, compare
from motionkit.motion import MotionBatch, Skeleton
from motionkit.rl import DDIM, NoiseSource, Sampler, StepPlan
from motionkit.runs import Run, disk_errors, write_arrays_atomic, write_bytes_atomic
from motionkit.text import Prompt
from motionkit.text_to_motion.evaluation.by_evaluator import LATENTS, ByEvaluator
from motionkit.text_to_motion.evaluation.real_motions import RealMotions
from motionkit.text_to_motion.evaluation.set_figures import Arrays, SetFigure, compare_sets, set_columns
from motionkit.text_to_motion.generating import sample_by_length
from motionkit.text_to_motion.policy import DiffusionPolicy, Measures
from motionkit.text_to_motion.rewards.ask import ask
from motionkit.text_to_motion.rewards.mix import RewardMix, Scored, refuse_dead

_LARGEST = 64 << 20  # bytes of kept figures that are read
_CHUNK = 64  # motions sampled and scored at a time
_SHOWN = 12  # prompts whose first sample is kept
_SET = "set/"  # how names of tensors begin that are of `Measured.sets`


@dataclass(frozen=True)
class Shown:
    """Motions of a held-out measurement that are stored for the pages, one per prompt."""

    # Each [T, D] float32, unnormalised; of a body that is not HumanML3D's or KIT-ML's [T, 3 J], its joints.
    features: list[NDArray[np.float32]]
    texts: list[str]  # text of each; `` | `` between segments
    bounds: list[list[tuple[int, int]]]  # first and last frame + 1 of each segment
    rewards: list[float]  # weighted sum of the training rewards, NaN if one could not be computed
    segments: list[list[float]]  # reward of each segment, as many as `bounds` has
    skeleton: str  # name of the body
    fps: float
    names: tuple[str, ...] = ()  # joints of a body that is not HumanML3D's or KIT-ML's
    parents: tuple[int, ...] = ()  # parent of each
    radii: tuple[float, ...] = ()  # metres at each, as `Representation.radii`

    @classmethod
    def first(
        cls, motions: MotionBatch, prompts: Sequence[Prompt], scored: Scored, per_prompt: int, count: int
    ) -> Shown:
        """Keep the first sample of the first `count` prompts."""
        rows = range(0, min(len(prompts), count * per_prompt), per_prompt)
        asked = [prompts[row] for row in rows]
        body = motions.skeleton
        own = not isinstance(body, Skeleton)
        features = (motions.joints.flatten(2) if own else motions.features).float().cpu().numpy()
        totals = np.where(scored.finite.cpu().numpy(), scored.total.cpu().numpy(), np.nan)
        segments = scored.segments.cpu().numpy()
        return cls(
            features=[features[row, : prompt.length] for row, prompt in zip(rows, asked, strict=True)],
            texts=[" | ".join(prompt.segments) for prompt in asked],
            bounds=[list(prompt.bounds) for prompt in asked],
            rewards=[float(totals[row]) for row in rows],
            segments=[
                [float(value) for value in segments[row, : len(prompt.segments)]]
                for row, prompt in zip(rows, asked, strict=True)
            ],
            skeleton=body.name,
            fps=motions.fps,
            names=body.joint_names if own else (),
            parents=body.parents if own else (),
            radii=body.radii if own else (),
        )

    def keep(self, run: Run, name: str) -> None:
        """Write the motions to ``RUN/heldout/NAME.npz``, as output of the run."""
        folder = run.artifact("heldout")
        with disk_errors("write the held-out motions", folder):
            folder.mkdir(exist_ok=True)
            self.save(folder / f"{name}.npz")

    def save(self, path: Path) -> None:
        """Write an .npz file with ``features`` ``[sum of T, D]``, motion after motion, and the rest as JSON."""
        about = {
            "texts": self.texts,
            "bounds": self.bounds,
            "rewards": [value if value == value else None for value in self.rewards],
            "segments": self.segments,
            "skeleton": self.skeleton,
            "fps": self.fps,
            **({"names": self.names, "parents": self.parents} if self.names else {}),
            **({"radii": self.radii} if self.radii else {}),
        }
        write_arrays_atomic(path, {"features": np.concatenate(self.features), "about": np.array(json.dumps(about))})

    @classmethod
    def load(cls, path: Path) -> Self:
        """Read a file that `save` wrote."""
        try:
            with np.load(io.BytesIO(path.read_bytes()), allow_pickle=False) as file:
                rows, about = file["features"].astype(np.float32), json.loads(str(file["about"]))
            texts = [str(text) for text in about["texts"]]
            bounds = [[(int(start), int(end)) for start, end in spans] for spans in about["bounds"]]
            rewards = [float("nan") if value is None else float(value) for value in about["rewards"]]
            segments = [[float(value) for value in values] for values in about["segments"]]
            skeleton, fps = str(about["skeleton"]), float(about["fps"])
            names = tuple(str(name) for name in about.get("names", ()))
            parents = tuple(int(parent) for parent in about.get("parents", ()))
            radii = tuple(float(radius) for radius in about.get("radii", ()))
        except FileNotFoundError as error:
            raise MotionkitError(f"{path} is missing.") from error
        except (OSError, ValueError, KeyError, TypeError, EOFError, RecursionError, zipfile.BadZipFile) as error:
            raise MotionkitError(f"{path} cannot be read as held-out motions.", why=str(error)) from error
        ends = np.cumsum([spans[-1][1] if spans else 0 for spans in bounds])
        sizes = {len(texts), len(bounds), len(rewards), len(segments)}
        fits = len(names) == len(parents) and (not names or rows.shape[-1] == 3 * len(names))
        fits = fits and len(radii) in (0, len(names)) and all(0 < radius < 1 for radius in radii)
        fits = fits and rows.ndim == 2 and len(texts) > 0 and len(sizes) == 1 and ends[-1] == len(rows)
        if not fits or any(len(b) != len(s) or not b for b, s in zip(bounds, segments, strict=True)):
            raise MotionkitError(f"{path} cannot be read as held-out motions.", why="its parts do not fit each other.")
        return cls(np.split(rows, ends[:-1]), texts, bounds, rewards, segments, skeleton, fps, names, parents, radii)


@dataclass(frozen=True)
class Measured:
    """One measurement, every quantity ``[P, S]`` float64 (P prompts, S samples)."""

    # By name: ``reward`` (the weighted mix), ``judge`` (when there is one), ``skate`` (m/s), ``jerk`` (m/s^3),
    # ``speed`` (mean of the joints, m/s), ``path`` (of the root over the ground, m), where reference motions are known
    # ``movement``, ``statues`` and ``side`` (see `RealActions.measure`), with an evaluator
    # ``r_precision_3`` and ``style`` (see `ByEvaluator.columns`) and, with several samples per prompt, ``diversity``
    # (see `motionkit.metrics.sample_spread`, of normalised features).
    quantities: dict[str, NDArray[np.float64]]
    # Some of the motions, to be looked at; None for a measurement that was read from a checkpoint.
    shown: Shown | None = field(default=None, compare=False)
    # What kinetic FID and NPSS are made of, [P, S, ...] float32 (see `set_columns`), and the latents of `ByEvaluator`;
    # empty if no reference motions are known.
    sets: Arrays = field(default_factory=dict)

    def mean(self, name: str) -> float:
        """Return the mean over finite samples; NaN if there is none."""
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
        """Return what `keep` wrote; None if it is not there, damaged, or of other names or sizes than `like`."""
        try:
            tensors = load(path.read_bytes()) if path.stat().st_size <= _LARGEST else {}
        except (OSError, SafetensorError):
            return None
        wanted = {name: (tensor.shape, tensor.dtype) for name, tensor in like.tensors().items()}
        same = {name: (tensor.shape, tensor.dtype) for name, tensor in tensors.items()} == wanted
        return cls.from_tensors(tensors) if same else None


class HeldOut:
    """A fixed measurement of policies: prompts, noise and guidance.

    Args:
        prompts: What is asked for.
        samples: Motions per prompt.
        steps: Timesteps that the sampler visits, or how many evenly spaced ones; None visits all.
        guidance: Classifier-free guidance scale.
        rewards: The training rewards.
        judge: A score that is never trained on.
        sampler: Reverse process; deterministic DDIM when None.
        seed: Seed of the noise, apart from any training noise.
        real: Reference motions of the prompts' split, by which ``movement``, ``statues`` and ``side`` are measured.
        evaluator: What measures in the space of an evaluator, if there is one.

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
        evaluator: ByEvaluator | None = None,
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
        self.evaluator = evaluator

    @torch.no_grad()
    def measure(self, policy: DiffusionPolicy, *, first: bool = False, guidance: float | None = None) -> Measured:
        """Sample and score `policy`; two calls with the same weights return the same numbers.

        Args:
            policy: What is measured.
            first: Whether the rewards score for the first time: one without any finite score is refused then.
            guidance: Another guidance scale than that of the question.
        """
        guidance = self.guidance if guidance is None else guidance
        plan = StepPlan.build(policy.schedule, self.sampler, steps=self.steps)
        columns: dict[str, list[torch.Tensor]] = {}
        sets: dict[str, list[torch.Tensor]] = {}
        parts: dict[str, list[torch.Tensor]] = {}
        shown = None
        dead = {reward.name for reward, _ in self.rewards.terms}
        size = max(1, _CHUNK // self.samples)
        for start in range(0, len(self.prompts), size):
            chunk = self.prompts[start : start + size]
            done = sample_by_length(policy, chunk, plan, self.noise, samples=self.samples, guidance=guidance, step=-1)
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
            if policy.measures is not None:
                for name, part in policy.measures.parts(done.motions, done.prompts).items():
                    parts.setdefault(name, []).append(part)
            if self.real is not None:
                for name, part in set_columns(done.motions, done.prompts, self.real, self._most_segments).items():
                    sets.setdefault(name, []).append(part)
            if self.evaluator is not None:
                latents = self.evaluator.embed(done.motions, done.prompts, self._most_segments)
                sets.setdefault(LATENTS, []).append(latents)
        shape = (len(self.prompts), self.samples)
        if first:
            refuse_dead(sorted(dead), f"{shape[0] * shape[1]} held-out motions")
        result = {name: torch.cat(v).double().cpu().numpy().reshape(shape) for name, v in columns.items()}
        whole = {name: torch.cat(v).float().cpu().unflatten(0, shape).numpy() for name, v in sets.items()}
        if self.evaluator is not None:
            result |= self.evaluator.columns(whole[LATENTS], self.prompts)
        if policy.measures is not None:
            result |= self._own(policy.measures, {name: torch.cat(v) for name, v in parts.items()})
        return Measured(result, shown, whole)

    def _own(self, measures: Measures, parts: Mapping[str, torch.Tensor]) -> dict[str, NDArray[np.float64]]:
        """Return the policy's own measures, ``[P, S]`` each: of one sample of every prompt at a time."""
        columns: dict[str, list[torch.Tensor]] = {}
        for number in range(self.samples):
            one = {name: values[number :: self.samples] for name, values in parts.items()}
            for name, value in measures.figures(one, self.prompts).items():
                if isinstance(value, torch.Tensor) and value.ndim:
                    columns.setdefault(name, []).append(value)
        return {name: torch.stack(values, dim=1).double().cpu().numpy() for name, values in columns.items()}

    @property
    def _most_segments(self) -> int:
        return max(len(prompt.segments) for prompt in self.prompts)

    @torch.no_grad()
    def measure_real(self, *, device: torch.device | str = "cpu") -> Measured | None:
        """Score reference motions that do what the prompts ask for, one each (see `RealMotions.answers`).

        Returns:
            Quantities ``[P, 1]``, without ``diversity``; NaN for prompts without a reference motion. None if no prompt
            has one.
        """
        answers = None if self.real is None else self.real.answers(self.prompts, device=device)
        if answers is None:
            return None
        scored = self.rewards.score(answers.motions, answers.prompts)
        result = {}
        for name, values in self._values(answers.motions, answers.prompts, scored).items():
            result[name] = np.full((len(self.prompts), 1), np.nan)
            result[name][list(answers.places), 0] = values.double().cpu().numpy()
        if self.evaluator is not None:
            self.evaluator.know(self.prompts, answers)
            result |= self.evaluator.columns(self.evaluator.answers(self.prompts), self.prompts)
        return Measured(result, Shown.first(answers.motions, answers.prompts, scored, 1, _SHOWN))

    def compare_sets(self, before: Measured, after: Measured) -> dict[str, SetFigure]:
        """Compare what sets of motions have as a whole (see `compare_sets`); empty without reference motions."""
        result = {} if self.real is None else compare_sets(before.sets, after.sets, self.prompts, self.real)
        if self.evaluator is not None and LATENTS in before.sets and LATENTS in after.sets:
            kid = self.evaluator.kid(before.sets[LATENTS], after.sets[LATENTS], self.prompts)
            result |= {} if kid is None else {"kid": kid}
        return result

    def chances(self) -> dict[str, float]:
        """Return what guessing reaches, by quantity."""
        return {} if self.evaluator is None else self.evaluator.chances(self.prompts)

    def kid_words(self, measured: Measured) -> str:
        """Return how many motions the kernel distance compares; empty without an evaluator."""
        return "" if self.evaluator is None else self.evaluator.words(measured.sets)

    def _values(self, motions: MotionBatch, asked: Sequence[Prompt], scored: Scored) -> dict[str, torch.Tensor]:
        """Return ``[N]`` of each quantity."""
        skate, jerk = motions.physics
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
        """Return the judge's totals ``[N]``, NaN if it does not apply; one that is a reward is not asked again."""
        known = [
            term.scores for (reward, _), term in zip(self.rewards.terms, scored.terms, strict=True) if reward is judge
        ]
        scores = known[0] if known else ask(judge, motions, asked)
        return torch.where(scores.applying, scores.total, torch.nan)


def compare_measured(before: Measured, after: Measured) -> dict[str, Paired]:
    """Pair two measurements by the same `HeldOut`, quantity by quantity."""
    both = [name for name in before.quantities if name in after.quantities]
    return {name: compare(before.quantities[name], after.quantities[name]) for name in both}
