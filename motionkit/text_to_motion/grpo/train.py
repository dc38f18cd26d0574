"""`motionkit grpo`: data, policy, rewards and held-out measurement around the algorithm."""

from __future__ import annotations

import logging
from collections.abc import Collection, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, ClassVar, cast

import numpy as np
import torch
from numpy.typing import NDArray

from motionkit import plugins
from motionkit.config import Chosen, choose_one
from motionkit.contracts.dataset import TextMotionDataset, is_generated
from motionkit.contracts.open_model import trained_on
from motionkit.contracts.reward import Reward
from motionkit.errors import MotionkitError
from motionkit.motion import DataRecord
from motionkit.rl import DDPM, excess_noise, stable_hash
from motionkit.runs import Run, RunInfo, fingerprint_tensors
from motionkit.text import Prompt
from motionkit.text_to_motion.evaluation.by_evaluator import ByEvaluator
from motionkit.text_to_motion.evaluation.heldout import HeldOut
from motionkit.text_to_motion.evaluation.judge import (
    calibrate,
    describe_shared,
    open_judge,
    open_reward,
    refuse_one_split,
    require_fit,
    shared_sources,
)
from motionkit.text_to_motion.evaluation.points import drop_points
from motionkit.text_to_motion.evaluation.real_motions import RealMotions, real_motions
from motionkit.text_to_motion.evaluation.same_data import (
    STARTER,
    TMR,
    Named,
    SameData,
    better_evaluator,
    evaluator_doubt,
    evaluator_notes,
    find_evaluator,
    is_starter,
    training_command,
)
from motionkit.text_to_motion.evaluation.sensitivity.bench import Audited
from motionkit.text_to_motion.evaluation.sensitivity.quick import Quick, quick_audit
from motionkit.text_to_motion.evaluation.settings import AUTO, NONE
from motionkit.text_to_motion.generating import own_steps
from motionkit.text_to_motion.grpo.forecast import forecast
from motionkit.text_to_motion.grpo.measurements import MANY_STEPS, Measurements, RewardAlarms
from motionkit.text_to_motion.grpo.settings import GrpoSettings
from motionkit.text_to_motion.grpo.step import GRPO
from motionkit.text_to_motion.matmul import settle_matmul
from motionkit.text_to_motion.pairs.settings import kinds_of
from motionkit.text_to_motion.policy import DiffusionPolicy, guidance_of, stores_guidance
from motionkit.text_to_motion.rewards.ask import require_readable, try_reward
from motionkit.text_to_motion.rewards.joint_space import space_of
from motionkit.text_to_motion.rewards.mix import RewardMix
from motionkit.text_to_motion.trained import (
    clips_fingerprint,
    leave_out_prompts,
    prompt_fingerprint,
    trained_items,
)
from motionkit.training.base import LOSS, REWARD, Figure, dataset_inputs, inputs_of
from motionkit.training.device import describe_device, set_up
from motionkit.training.steps import restore, run_steps
from motionkit.training.world import OneProcess, World

_logger = logging.getLogger("motionkit.grpo")
_POOL = 4  # batches that are sorted by length together
_FEWEST = 8  # prompts beside the reported ones from which the run is watched on them
_GENERATED = 32  # prompts that are measured as generate samples, with guidance twice the work of the others
_REAL, _ASKED, _SAMPLES = 64, 16, 8  # of a calibration: reference motions, prompts, samples of each
_MOST_POINTS, _PER_POINT = 10, 1500  # points on the way at most, and motions of training for each of them
_ROUGH = 1.5  # noise left in fine detail, over the data's, from which a line says so


class PromptCursor:
    """Walks through the prompts in a new random order every epoch.

    The prompts of a step are a function of seed and step alone, so that nothing has to be saved.

    Args:
        prompts: The prompts.
        batch: Prompts per step, over all processes; an epoch's end continues into the next order.
        seed: Seed of the orders.
        world: The processes; each gets an equal share of a step's prompts.
        by_length: Put prompts of similar length into one step, which saves padding. The order of an epoch is cut into
            pools of four steps, each pool is sorted by length and cut into steps, and the steps are shuffled: every
            prompt is still met once an epoch.
    """

    def __init__(
        self, prompts: Sequence[Prompt], batch: int, seed: int, world: World | None = None, *, by_length: bool = False
    ) -> None:
        world = world or OneProcess()
        if batch % world.size:
            raise MotionkitError(
                f"{batch} prompts per step cannot be shared by {world.size} processes.",
                fix=f"choose a --batch-size that {world.size} divides.",
            )
        self.prompts = prompts
        self.batch = batch
        self.seed = seed
        self.by_length = by_length
        self._share = batch // world.size
        self._skip = world.rank * self._share
        self._orders: dict[int, NDArray[np.int64]] = {}

    def at(self, step: int) -> list[Prompt]:
        """Return this process's prompts of `step` (counted from 0)."""
        first = step * self.batch + self._skip
        return [self._nth(index) for index in range(first, first + self._share)]

    def _nth(self, index: int) -> Prompt:
        epoch, place = divmod(index, len(self.prompts))
        if epoch not in self._orders:
            self._orders = {epoch: self._order(epoch)}
        return self.prompts[int(self._orders[epoch][place])]

    def _order(self, epoch: int) -> NDArray[np.int64]:
        """Return the prompts of an epoch, ``[P]`` indices."""
        draw = np.random.default_rng((self.seed, epoch))
        order = draw.permutation(len(self.prompts))
        if not self.by_length:
            return order
        lengths = np.array([prompt.length for prompt in self.prompts])
        pool = _POOL * self.batch
        # Within a pool prompts are ranked by length, so that those of a step are about as long.
        pools = [order[first : first + pool] for first in range(0, len(order), pool)]
        ranked = np.concatenate([part[np.argsort(lengths[part], kind="stable")] for part in pools])
        steps = [ranked[first : first + self.batch] for first in range(0, len(ranked), self.batch)]
        # A last, short step stays last, or all that follow it would straddle two lengths.
        whole = [steps[place] for place in draw.permutation(len(order) // self.batch)]
        return np.concatenate([*whole, *steps[len(whole) :]])


def fingerprints(
    settings: GrpoSettings,
    dataset: TextMotionDataset,
    prompts: Sequence[Prompt],
    policy: DiffusionPolicy,
    reference: DiffusionPolicy | None,
    rewards: Mapping[str, Any],
) -> dict[str, str]:
    """Return the fingerprints of data, weights and rewards; those of the judge are added where it is opened."""
    chosen = {"policy": settings.policy, **{f"reward.{reward.name}": reward for reward in settings.reward}}
    result = inputs_of({"policy": policy, **rewards}, chosen)
    if reference is not None:
        result["policy.reference"] = fingerprint_tensors(reference.tensors())
    splits = [settings.prompts.split, *([settings.heldout.split] if settings.heldout.prompts else [])]
    read = [] if is_generated(dataset) else [clips_fingerprint(dataset.clips(split)) for split in splits]
    result |= dataset_inputs(settings.dataset, dataset, *read, *map(prompt_fingerprint, prompts))
    # A run may be resumed on a machine with other devices: where a reward is does not change its scores' meaning.
    return result | {
        f"reward.{reward.name}.device": "any" for reward in settings.reward if reward.get("device", None) is not None
    }


class GrpoTrainer:
    """Trains a diffusion policy with rewards; see `motionkit.training.base.Trainer`."""

    shape_keys: ClassVar[tuple[str, ...]] = (
        "algorithm", "policy", "dataset", "reward", "judge", "evaluator", "prompts", "rollout.prompts",
        "rollout.group_size", "rollout.antithetic", "rollout.shared_noise", "rollout.by_length", "sampler",
        "objective", "optim", "lora", "ema", "heldout.prompts", "heldout.samples", "heldout.split",
        "heldout.allow_shared", "heldout.judge",
        "heldout.points", "heldout.watch", "heldout.all_steps", "heldout.stop_on_gap", "control", "seed", "precision",
        "reward_mix.normalize",
    )  # fmt: skip
    figures: ClassVar[tuple[Figure, ...]] = (REWARD, LOSS, Figure("held out", ("heldout/reward/delta",), change=True))

    def __init__(self, settings: GrpoSettings) -> None:
        self.settings = settings
        self.given: Collection[str] = ()
        self.settled: dict[str, str] = {}
        self.found: list[str] = []  # sentences on models of finished runs that are used
        self.named: Named | None = None
        self.scorers = self.missing = ""
        self.world: World = OneProcess()

    def prepare(self) -> None:
        """Open dataset, policy, reference, rewards and judge."""
        settings = self.settings
        if settings.heldout.prompts:
            refuse_one_split(settings.prompts.split, settings.heldout.split)
        device = self.device = set_up(settings)
        dataset: TextMotionDataset = settings.dataset.build()
        self.same = SameData(dataset, settings.heldout.split)
        settings = self.settings = self._with_scorers(settings)
        self.policy, reference = _open_policies(settings.policy, device=device, dataset=dataset)
        data = self.same.record
        self.policy.trained_on = data.after(self.policy.trained_on)
        _require_steps(len(self.policy.schedule), settings)
        asked = settings.prompts
        prompts = list(dataset.prompts(asked.split, k_segments=asked.k_segments, seed=settings.seed))
        if not prompts:
            raise MotionkitError(f"the {settings.prompts.split} split of {settings.dataset.label} has no prompts.")
        require_fit(self.policy, prompts, fps=dataset.fps, label=settings.dataset.label)
        self.rewards = [(open_reward(chosen, dataset, device=device), chosen.weight) for chosen in settings.reward]
        named = {
            f"reward.{chosen.name}": reward for chosen, (reward, _) in zip(settings.reward, self.rewards, strict=True)
        }
        for reward, _ in self.rewards:
            require_readable(reward, self.policy.skeleton)
        for name, reward in named.items():
            _warn_of_other_data(name, reward, data)
        self._try_rewards(dataset)
        self._dataset = dataset
        self._real = None
        if settings.reward_mix.calibrate:
            self._real = real_motions(dataset, settings.prompts.split, _REAL, device=device, prompts=prompts)
        able = [chosen.component.gradient for chosen in settings.reward]
        self.inputs = fingerprints(settings, dataset, prompts, self.policy, reference, named)
        self.items = trained_on(str(settings.policy.get("checkpoint", "")))
        self.items |= trained_items(dataset, settings.prompts.split, prompts)
        self.as_it_starts = guidance_of(self.policy)
        self.grpo = GRPO(
            self.policy,
            RewardMix(self.rewards, gradient=able, normalize=settings.reward_mix.normalize),
            reference=reference,
            algorithm=settings.algorithm,
            optim=settings.optim,
            lora=settings.lora,
            ema=settings.ema,
            control=settings.control,
            seed=settings.seed,
            precision=settings.precision,
            updates=settings.run.num_steps,
            world=self.world,
            dataset=dataset,
            split=settings.prompts.split,
        )
        self.excess = max(excess_noise(self.policy.schedule, plan) for plan in self.grpo.algorithm.every_plan())
        motions = settings.rollout.prompts * self.grpo.algorithm.samples
        settle_matmul(settings, self.policy, prompts, samples=motions)
        self.forecast = forecast(self.grpo, prompts, motions // self.world.size)
        self.shared: list[str] = []
        self.notes: list[str] = []
        self.forecast.warn(device)
        self.cursor = PromptCursor(
            prompts, settings.rollout.prompts, settings.seed, self.world, by_length=settings.rollout.by_length
        )
        self.measurements = Measurements(
            self.policy,
            self.grpo.averaged,
            self.grpo.started,
            self._held_out(dataset),
            points=self._points(),
            num_steps=settings.run.num_steps,
            stop_on_gap=settings.heldout.stop_on_gap,
            motions=settings.heldout.motions,
            guidance=self.as_it_starts,
            rows=frozenset(row for reward, _ in self.rewards for row in reward.rows),
            trained_on=self.items,
            scorers=self.scorers,
            missing=self.missing,
            doubts=self._doubts,
            doubted=self._doubted,
            world=self.world,
        )

    def _with_scorers(self, settings: GrpoSettings) -> GrpoSettings:
        """Return the settings with the TMRs of finished runs on the same data as reward and judge where none is given.

        On the starter's data, which has its own, and in a run that is continued, they stay as they are.
        """
        if is_starter(self.same.dataset, settings.dataset.name) or settings.run.resume is not None:
            return settings
        rewards = list(settings.reward)
        places = [
            place
            for place, chosen in enumerate(rewards)
            if chosen.label.startswith("tmr-")
            and chosen.get("weights", "") == STARTER
            and f"reward.{chosen.name}.weights" not in self.given
        ]
        judged = settings.judge is None and settings.heldout.judge and settings.heldout.prompts > 0
        found = self.same.runs(TMR) if places or judged else []
        if places and found:
            newest = max(found, key=_suits_reward)  # the first of several: they are sorted, the newest first
            for place in places:
                options = rewards[place].options.model_copy(update={"weights": str(newest.directory)})
                rewards[place] = replace(rewards[place], options=options)
                self._settle(f"reward.{rewards[place].name}.weights", newest.directory)
            settings = settings.model_copy(update={"reward": tuple(rewards)})
        used = {Path(str(chosen.get("weights", ""))).resolve() for chosen in rewards}
        rest = [info for info in found if used.isdisjoint((info.directory.resolve(), (info.directory / TMR).resolve()))]
        if judged and rest:
            judge = min(rest, key=_suits_reward)
            self._settle("judge.weights", judge.directory)
            chosen = choose_one("rewards", "tmr-dense", {"weights": str(judge.directory)})
            settings = settings.model_copy(update={"judge": chosen})
        return settings

    def _points(self) -> int:
        """Return how often the run is measured on the way: seldom in a short run, where measuring would be most of it.

        The number follows from the settings, not from the clock, so that a run that is resumed has the same points.
        """
        settings = self.settings
        if settings.heldout.points is not None:
            return settings.heldout.points
        if settings.heldout.stop_on_gap:
            return _MOST_POINTS
        motions = settings.run.num_steps * settings.rollout.prompts * self.grpo.algorithm.samples
        return max(1, min(_MOST_POINTS, motions // _PER_POINT))

    def _try_rewards(self, dataset: TextMotionDataset) -> None:
        """Let each reward of another package score two clips, so that a wrong result is refused before a run exists."""
        foreign = [
            reward
            for chosen, (reward, _) in zip(self.settings.reward, self.rewards, strict=True)
            if not plugins.is_own(chosen.kind, chosen.name)
        ]
        real = real_motions(dataset, self.settings.prompts.split, 2, device=self.device) if foreign else None
        if real is None or len(real[1]) < 2:
            return
        for reward in foreign:
            try_reward(reward, *real)

    def _held_out(self, dataset: TextMotionDataset) -> dict[str, HeldOut]:
        """Return what is measured, by the names that `Measurements` knows."""
        settings, sampler = self.settings.heldout, self.settings.sampler
        if settings.prompts == 0:
            return {}
        judge = None
        if settings.judge:
            rewards = [(chosen, reward) for chosen, (reward, _) in zip(self.settings.reward, self.rewards, strict=True)]
            judge, why = open_judge(self.settings.judge, dataset, device=self.device, trained=rewards)
            if judge is not None and why:
                _logger.warning("%s", why)
        if judge is not None:
            _warn_of_other_data("judge", judge, self.same.record)
            chosen = self.settings.judge
            self.inputs |= inputs_of({"judge": judge}, None if chosen is None else {"judge": chosen})
        # The questions are the same for every training seed, so that runs can be compared.
        trained = {len(prompt.segments) for prompt in self.cursor.prompts}
        # With one number of segments in training, another one in the measurement would say little.
        k_segments = self.settings.prompts.k_segments or (trained.pop() if len(trained) == 1 else 0)
        skip = "--set heldout.prompts=0 trains without a held-out measurement."
        try:
            asked = dataset.prompts(settings.split, k_segments=k_segments, seed=0)
        except MotionkitError as error:
            fix = f"{error.fix.rstrip('. ')}; or {skip}" if error.fix else skip
            raise MotionkitError(error.message, why=error.why, fix=fix) from error
        if not asked:
            message = f"the {settings.split} split of {dataset.name} has no prompts to measure on."
            raise MotionkitError(message, fix=skip)
        if not settings.allow_shared:
            kept = leave_out_prompts(self.items, dataset, settings.split, asked)
            names = {name for prompt in self.cursor.prompts for name in prompt.source_ids}
            known = {*kept.places, *(n for n, prompt in enumerate(asked) if names.intersection(prompt.source_ids))}
            if not known:
                kept.require("prompts", f"the {settings.split} split of {self.settings.dataset.label}", skip)
            # Motions of one name in both splits are refused below.
            asked = [asked[place] for place in sorted(known)]
            if len(known) < kept.total:
                self.notes.append(kept.sentence("held-out prompts"))
        if not is_generated(dataset) and dataset.splits is None:
            # Folders list clips by length, and the captions of a clip together: the first would be the shortest ones.
            asked = sorted(asked, key=lambda prompt: stable_hash(prompt.key))
        # The curve is measured on other prompts than the table: the best policy is chosen by the curve.
        others = asked[settings.prompts :][: min(settings.watch, settings.prompts)]
        others = others if len(others) >= _FEWEST else []
        asked = asked[: settings.prompts]
        if len(asked) < settings.prompts:
            self.notes.append(
                f"heldout.prompts asks for {settings.prompts} held-out prompts, and the {settings.split} split has "
                f"{len(asked)}: the tables and the points on the way are of {len(asked)}"
            )
        require_fit(self.policy, [*asked, *others], fps=dataset.fps, label=dataset.name)
        self.shared = shared_sources(
            self.cursor.prompts,
            [*asked, *others],
            allowed=settings.allow_shared,
            what=f"the {self.settings.prompts.split} and the {settings.split} prompts of {self.settings.dataset.label}",
        )
        few = self.policy.schedule.visited(sampler.spacing, sampler.inference_timesteps)
        common: dict[str, Any] = {"rewards": self.grpo.rewards, "judge": judge, "guidance": sampler.guidance_scale}
        common["real"] = RealMotions(dataset, settings.split, [*asked, *others])
        common["evaluator"] = self._evaluator(common["real"], [*self.cursor.prompts, *asked, *others])
        self._name_scorers(judge)
        result = {"reported": HeldOut(asked, samples=settings.samples, steps=few, **common)}
        if others:
            result["watched"] = HeldOut(others, samples=2, steps=few, **common)
        if settings.all_steps == "on" or (settings.all_steps == "auto" and len(self.policy.schedule) <= MANY_STEPS):
            every = common | {"samples": 1, "sampler": DDPM()}
            result["all_steps"] = HeldOut(asked, steps=None, **every)
            every |= {"guidance": guidance_of(self.policy), "steps": own_steps(self.policy)}
            result["generate"] = HeldOut(asked[:_GENERATED], **every)
            # Training may have changed the guidance: which of the two is kept is decided on the other prompts.
            if others and every["guidance"] != self.as_it_starts:
                result["guided"] = HeldOut(others, **every)
                result["switched"] = result["generate"]
        return result

    def _settle(self, key: str, value: object) -> None:
        """Note a model that was found: on resume the run has the same, whatever was trained since."""
        self.settled[key] = "finished runs of the same data"
        if str(value) != NONE:
            self.found.append(f"{key.partition('.')[0]}: {value}, a finished run on these data")

    def _evaluator(self, real: RealMotions, prompts: Sequence[Prompt]) -> ByEvaluator | None:
        """Open the evaluator of the tables, which none of the rewards reads."""
        spaces = [space_of(reward) for reward, _ in self.rewards]
        read = {space.fingerprint() for space in spaces if space is not None}
        self.named = find_evaluator(self.settings.evaluator, self.same, device=self.device, without=read)
        if self.settings.evaluator.weights == AUTO and not is_starter(self.same.dataset):
            name = NONE if self.named is None else self.named.name
            chosen = self.settings.evaluator.model_copy(update={"weights": name})
            self.settings = self.settings.model_copy(update={"evaluator": chosen})
            self._settle("evaluator.weights", name)
        if self.named is None:
            return None
        model = self.named.evaluator
        self.inputs["evaluator.weights"] = model.fingerprint()
        model.check_width(torch.empty(0, self.policy.skeleton.width))
        model.use_tokens(self.same.dataset.caption_tokens())
        if model.fingerprint() in read:
            _logger.warning("the evaluator is read by a reward, so that its rows cannot tell whether that is gamed")
        return ByEvaluator(model, real, [text for prompt in prompts for text in prompt.segments])

    def _doubts(self, real_r3: float | None) -> list[str]:
        """Return why the figures of the evaluator say little, by its R@3 of reference clips."""
        if self.named is None:
            return []
        command = better_evaluator(self.same, self.named, self.settings.dataset)
        return evaluator_notes(self.named, self._asked_texts(), real_r3, command)

    def _doubted(self, real_r3: float | None) -> str:
        """Return why the rows of the evaluator have no verdict; empty if they have."""
        return "" if self.named is None else evaluator_doubt(self.named, self._asked_texts(), real_r3)

    def _asked_texts(self) -> list[str]:
        return [text for prompt in self.measurements.heldout["reported"].prompts for text in prompt.segments]

    def _name_scorers(self, judge: Reward | None) -> None:
        """Note which judge and evaluator measure, and which rows are missing and the commands that make them."""
        settings, judged = self.settings, ""
        if judge is not None:
            place = "" if settings.judge is None else str(settings.judge.get("weights", ""))
            place = place or "of the starter pack"
            judged = f"judge {Path(place).name if Path(place).is_absolute() else place}"
        self.scorers = "; ".join(filter(None, (judged, "" if self.named is None else self.named.words)))
        missing, commands = [], []
        if judge is None and settings.heldout.judge:
            missing.append("judge")
            more = ("--set", "train.half=second", "--negatives", "stillness,place", "--seed", "1")
            commands.append(training_command("tmr", settings.dataset, *more))
        if self.named is None and (settings.evaluator.weights != NONE or "evaluator.weights" in self.settled):
            missing += ["R@3", "KID"]
            commands.append(training_command("t2m-evaluator", settings.dataset))
        if missing and not self._dataset.has_clips:
            self.missing = (
                f"the tables have no {' and no '.join(missing)}, nor what is measured against reference motions: "
                f"{settings.dataset.label} has prompts and no clips. --judge NAME measures with a reward of your own"
            )
        elif missing:
            self.missing = (
                f"the tables have no {' and no '.join(missing)}: no finished run on these data has the model that "
                f"measures them ({' and '.join(commands)})"
            )

    def describe(self) -> Mapping[str, object]:
        """Return the plan."""
        settings, plan = self.settings, self.grpo.algorithm.plan
        return {
            "device": describe_device(self.device),
            "policy": settings.policy.label,
            "trained_parameters": sum(parameter.numel() for _, parameter in self.grpo.learner.trained),
            "prompts": len(self.cursor.prompts),
            "samples_per_update": settings.rollout.prompts * self.grpo.algorithm.samples,
            "step": str(self.forecast),
            "timesteps": plan.timesteps.tolist(),
            **(self._stochastic() if plan.trainable else {}),
            "rewards": {chosen.label: chosen.weight for chosen in settings.reward},
            "heldout_prompts": len(reported.prompts) if (reported := self.measurements.heldout.get("reported")) else 0,
            **({"heldout_shared_motions": len(self.shared)} if self.shared else {}),
            **({"measured_by": self.scorers} if self.scorers else {}),
            **({"notes": notes} if (notes := [*self.found, *filter(None, [self.missing]), *self.notes]) else {}),
        }

    def _stochastic(self) -> dict[str, object]:
        """Return the plan of an algorithm that trains on stochastic steps."""
        plan = self.grpo.algorithm.plan
        trained = [int(plan.timesteps[position]) for position in plan.trainable]
        return {"sampler_noise": round(self.excess, 3), "trained_timesteps": trained}

    def train(self, run: Run) -> Mapping[str, object]:
        """Train until the last update; see `motionkit.training.base.Trainer.train`."""
        if self.world.main:
            self.policy.save(run.artifact("policy"), tensors=False)
            self.items.write(run.artifact("policy"))
        for text in [*self.found, str(self.forecast)]:
            _logger.info("%s", text)
        for note in filter(None, [self.missing, *self.notes]):
            _logger.warning("%s", note)
        if self.excess > _ROUGH:
            _logger.warning(
                "fine detail of rollouts is %.1f times as rough as the data's, by noise that the sampler has no steps "
                "left to remove; rewards of smoothness will score it, less noise or an earlier window avoids it",
                self.excess,
            )
        if self.shared:
            _logger.warning("%s", describe_shared(self.shared))
            run.annotate(heldout_shared_motions=self.shared)
        parts = {**self.grpo.parts(), **self.measurements.parts()}
        tables: list[Mapping[str, object]] = []
        drop_points(run.directory, after=run.start_step)
        if (checkpoint := run.checkpoint()) is not None:
            restore(parts, checkpoint)
        else:
            self._audit(run)
            tables = self._calibrate(run) if self.settings.reward_mix.calibrate else []
            self.measurements.before(run)
        alarms = RewardAlarms(self.grpo.rewards.bounds)
        last: dict[str, float] = {}

        def step(number: int) -> dict[str, float]:
            metrics = self.grpo.step(self.cursor.at(number - 1))
            for text in alarms.look(metrics):
                _logger.warning("step %d: %s", number, text)
            metrics |= self.measurements.at(number, run)
            last.update(metrics)
            return metrics

        finished = run_steps(
            run, self.settings, step, parts, done=lambda: self.measurements.must_stop, world=self.world
        )
        summary: dict[str, object] = {"metrics": last}
        if finished:
            if self.measurements.choose_guidance(run) and stores_guidance(self.policy):
                self.policy.guidance = self.as_it_starts
                if self.world.main and (run.directory / "best").is_dir():
                    self.policy.save(run.directory / "best", tensors=False)
            with self.grpo.averaged():
                if self.world.main:
                    self.policy.save(run.artifact("policy"))
            summary |= self.measurements.after(run)
            if tables:
                summary["table"] = [*cast("list[Mapping[str, object]]", summary.get("table", [])), *tables]
            if self.measurements.must_stop:
                _logger.warning("%s", self.measurements.stopped())
        return summary

    def _audit(self, run: Run) -> None:
        """Log which changes of clips the rewards do not see, and keep it in the run."""
        settings = self.settings
        if not settings.audit.enabled or not self.world.main:
            return
        audited = [
            Audited.of(chosen, reward) for chosen, (reward, _) in zip(settings.reward, self.rewards, strict=True)
        ]
        audit = quick_audit(self._dataset, settings.heldout.split, audited, device=self.device)
        if not isinstance(audit, Quick):
            _logger.info("what the rewards do not see was not measured: %s", audit)
            return
        for sentence in audit.sentences:
            _logger.info("%s", sentence)
        for alarm in audit.alarms:
            _logger.warning("%s", alarm)
        run.annotate(sensitivity=audit.document)

    def _calibrate(self, run: Run) -> list[Mapping[str, object]]:
        """Log the calibration of the rewards before training, keep it in the run, and return its table."""
        sampler, prompts = self.settings.sampler, self.cursor.prompts
        result = calibrate(
            self.policy,
            prompts[:: max(1, len(prompts) // _ASKED)][:_ASKED],
            self.grpo.rewards,
            self._real,
            samples=_SAMPLES,
            steps=self.policy.schedule.visited(sampler.spacing, sampler.inference_timesteps),
            guidance=sampler.guidance_scale,
        )
        for line in result.lines():
            _logger.info("%s", line)
        for text in result.warnings():
            _logger.warning("%s", text)
        run.annotate(calibration=[row.document() for row in result.rewards])
        return [result.table()]


def _suits_reward(info: RunInfo) -> tuple[bool, int]:
    """Return the rank of a TMR as a reward, the highest is best: trained on all clips, against most kinds of changes.

    One that was trained on the second half of the clips is meant for a judge.
    """
    train = info.config.get("train")
    told = train if isinstance(train, Mapping) else {}
    try:
        kinds = kinds_of(str(told.get("negatives", "none")), starter=False)
    except (MotionkitError, ValueError):  # kinds of another version
        kinds = {}
    return told.get("half") != "second", len(kinds)


def _open_policies(chosen: Chosen, **runtime: Any) -> tuple[DiffusionPolicy, DiffusionPolicy | None]:
    """Open the policy, and a second one when its option ``reference`` names the checkpoint that KL is measured to.

    Policies of other packages may have that option beside ``checkpoint``, or neither.
    """
    other = chosen.get("reference", "")
    if not other:
        return chosen.build(**runtime), None
    alone = replace(chosen, options=chosen.options.model_copy(update={"reference": ""}))
    policy = alone.build(**runtime)
    reference: DiffusionPolicy = replace(alone, options=alone.options.model_copy(update={"checkpoint": other})).build(
        **runtime
    )
    reference.network.requires_grad_(False)
    return policy, reference


def _warn_of_other_data(name: str, reward: Reward, data: DataRecord) -> None:
    """Warn of a reward whose weights were trained on other data than those of the prompts if it is known."""
    space = space_of(reward)
    known = None if space is None else space.trained_on
    if known is not None and known.differs(data):
        _logger.warning(
            "%s was trained on %s, and the prompts are of %s: it may not know what they ask for "
            "(--dataset NAME --dataset.root DIR names the data)",
            name,
            known,
            data,
        )


def _require_steps(total: int, settings: GrpoSettings) -> None:
    """Refuse more sampling steps than the policy was trained with."""
    names = ("train_timesteps", *(("inference_timesteps",) if settings.heldout.prompts else ()))
    for name in names:
        asked, flag = settings.algorithm.get(f"sampler.{name}", 0), f"--{name.replace('_', '-')}"
        if asked > total:
            raise MotionkitError(
                f"{flag} is {asked}, and the policy was trained with {total} steps.",
                why="a rollout visits trained timesteps only, each at most once.",
                fix=f"{flag} {total}, or less.",
            )
