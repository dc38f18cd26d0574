"""Trainer `best-of-n`: the heavy half."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import ClassVar

import torch
from torch import Tensor

from motionkit.contracts.dataset import TextMotionDataset
from motionkit.contracts.open_model import trained_on
from motionkit.errors import MotionkitError
from motionkit.rl import NoiseSource, length_mask, stable_hash
from motionkit.runs import Run
from motionkit.text import Prompt
from motionkit.text_to_motion.evaluation.judge import open_judge, open_reward, require_fit
from motionkit.text_to_motion.generating import Samples, plan_steps, refuse_blocks, sample
from motionkit.text_to_motion.policy import DiffusionPolicy, guidance_of
from motionkit.text_to_motion.rewards.mix import RewardMix
from motionkit.text_to_motion.trained import leave_out_prompts, prompt_fingerprint, trained_items
from motionkit.tracking import Report, entry_of
from motionkit.training.base import LOSS, REWARD, Figure, dataset_inputs, inputs_of
from motionkit.training.device import describe_device, set_up
from motionkit.training.learner import Learner, constant_rate
from motionkit.training.supervised import fit
from motionkit_trainer_best_of_n import BestOfNSettings

_AT_ONCE = 64  # motions that are sampled at once where the policy is measured


class BestOfN:
    """Distils the best of N samples into a policy; see `motionkit.training.base.Trainer`.

    A round samples N motions of each prompt as ``motionkit generate`` does, scores them, and fits the policy to the
    best of each: the loss of diffusion at uniform timesteps (Tevet et al. 2022, eq. 2). The same is called expert
    iteration, rejection sampling fine-tuning (Touvron et al. 2023, sec. 3.2.3) or RAFT (Dong et al. 2023). A prompt
    whose samples cannot be scored, or score alike, teaches nothing.
    """

    shape_keys: ClassVar[tuple[str, ...]] = (
        "policy", "dataset", "reward", "judge", "prompts", "best", "optim", "heldout", "seed",
    )  # fmt: skip
    figures: ClassVar[tuple[Figure, ...]] = (REWARD, LOSS)

    def __init__(self, settings: BestOfNSettings) -> None:
        self.settings = settings

    def prepare(self) -> None:
        """Open dataset, policy, rewards and judge."""
        settings = self.settings
        self.device = set_up(settings)
        dataset: TextMotionDataset = settings.dataset.build()
        self.policy: DiffusionPolicy = settings.policy.build(device=self.device, dataset=dataset)
        refuse_blocks(self.policy)
        count = settings.prompts.k_segments
        self.prompts = list(dataset.prompts("train", k_segments=count, seed=settings.seed))
        if not self.prompts:
            raise MotionkitError(f"the train split of {settings.dataset.label} has no prompts.")
        require_fit(self.policy, self.prompts, fps=dataset.fps, label=settings.dataset.label)
        rewards = [(chosen, open_reward(chosen, dataset, device=self.device)) for chosen in settings.reward]
        self.mix = RewardMix([(reward, chosen.weight) for chosen, reward in rewards])
        self.judge, _ = open_judge(settings.judge, dataset, device=self.device, trained=rewards)
        # Options of a policy of any package: few have a checkpoint.
        self.items = trained_on(str(getattr(settings.policy.options, "checkpoint", "")))
        self.items |= trained_items(dataset, "train", self.prompts)
        asked = list(dataset.prompts("val", k_segments=count, seed=0)) if settings.heldout.prompts else []
        kept = leave_out_prompts(self.items, dataset, "val", asked)
        self.asked = [asked[place] for place in kept.places][: settings.heldout.prompts]
        self.plan = plan_steps(self.policy)
        self.guidance = guidance_of(self.policy)
        named = {"policy": self.policy, **{f"reward.{chosen.name}": reward for chosen, reward in rewards}}
        chosen = {"policy": settings.policy, **{f"reward.{chosen.name}": chosen for chosen, _ in rewards}}
        self.inputs = inputs_of(named, chosen)
        self.inputs |= dataset_inputs(settings.dataset, dataset, *map(prompt_fingerprint, self.prompts))

    def describe(self) -> Mapping[str, object]:
        """Return the plan."""
        best = self.settings.best
        return {
            "device": describe_device(self.device),
            "policy": self.settings.policy.label,
            "prompts": len(self.prompts),
            "samples_per_round": best.prompts * best.samples,
            "learned_from": best.prompts * best.keep,
            "rewards": {chosen.label: chosen.weight for chosen in self.settings.reward},
            "heldout_prompts": len(self.asked),
        }

    def train(self, run: Run) -> Mapping[str, object]:
        """Train; see `motionkit.training.base.Trainer.train`."""
        settings = self.settings
        rate = constant_rate(settings.optim.learning_rate, settings.optim.warmup_steps)
        learner = Learner(self.policy, settings.optim, rate)

        def begin() -> None:
            self.policy.save(run.artifact("policy"), tensors=False)
            self.items.write(run.artifact("policy"))

        fitted = fit(
            run,
            settings,
            learner,
            lambda number: self._round(number, learner),
            measure=(lambda number: self._measure()) if self.asked else None,
            before=self._measure if self.asked else None,
            begin=begin,
        )
        if fitted is None:
            return {}
        self.policy.save(run.artifact("policy"))
        heldout = {
            name.split("/")[1]: entry_of(fitted.before[name], after, len(self.asked))
            for name, after in fitted.after.items()
        }
        table = [Report(heldout).table(f"{len(self.asked)} held-out prompts")] if heldout else []
        return {"heldout": heldout, "metrics": dict(fitted.after), "table": table}

    def _round(self, number: int, learner: Learner) -> dict[str, float]:
        """Do round `number`, from 1: sample, choose, learn."""
        best, seed = self.settings.best, self.settings.seed
        generator = torch.Generator().manual_seed(stable_hash(f"best-of-n/{seed}/{number}") % 2**63)
        drawn = torch.randperm(len(self.prompts), generator=generator)[: best.prompts].tolist()
        with torch.no_grad():
            done = self._sample([self.prompts[place] for place in drawn], best.samples, NoiseSource(seed), number)
            scored = self.mix.score(done.motions, done.prompts)
        rows = choose(scored.total.cpu(), scored.finite.cpu(), best.samples, best.keep).to(self.device)
        if not len(rows):
            return dict(scored.metrics)
        metrics = scored.metrics | {"reward/mean": float(scored.total[scored.finite].mean())}
        x0, lengths, condition = done.rollout.x0[rows], done.lengths[rows], done.condition.select(rows)
        mask = length_mask(lengths, x0.shape[1])
        losses = []
        for place in range(best.updates):
            timestep = torch.randint(len(self.policy.schedule), (len(rows),), generator=generator).to(self.device)
            noise = torch.randn(x0.shape, generator=generator).to(self.device)
            learner.zero_grad()
            noised = self.policy.schedule.noised(x0, timestep, noise)
            loss = diffusion_loss(self.policy.predict(noised, timestep, condition, lengths), x0, mask)
            loss.backward()
            metrics |= learner.descend((number - 1) * best.updates + place)
            losses.append(float(loss.detach()))
        kept = float(scored.total[rows].mean())
        return metrics | {"loss/total": sum(losses) / len(losses), "kept/reward": kept}

    def _sample(self, prompts: Sequence[Prompt], samples: int, noise: NoiseSource, step: int = 0) -> Samples:
        return sample(self.policy, prompts, self.plan, noise, samples=samples, guidance=self.guidance, step=step)

    @torch.no_grad()
    def _measure(self) -> dict[str, float]:
        """Return the mean reward, and what the judge says, of held-out prompts with noise that is always the same."""
        rewards: list[Tensor] = []
        judged: list[Tensor] = []
        count = max(1, _AT_ONCE // self.settings.heldout.samples)
        for start in range(0, len(self.asked), count):
            done = self._sample(self.asked[start : start + count], self.settings.heldout.samples, NoiseSource(0))
            scored = self.mix.score(done.motions, done.prompts)
            rewards.append(scored.total[scored.finite])
            if self.judge is not None:
                judged.append(self.judge.score(done.motions, done.prompts).total)
        found = {"heldout/reward/mean": float(torch.cat(rewards).mean())}
        return found | ({"heldout/judge/mean": float(torch.cat(judged).nanmean())} if judged else {})


def choose(total: Tensor, finite: Tensor, samples: int, keep: int) -> Tensor:
    """Return the rows of the best samples of each prompt.

    Args:
        total: ``[P * samples]`` scores, prompt after prompt.
        finite: ``[P * samples]`` bool, False for samples that could not be scored.
        samples: Samples of each prompt.
        keep: How many of them are kept at most.

    Returns:
        ``[R]`` int64, in the order of prompts, the best first. Of a prompt whose scores are all alike none is kept.
    """
    scores = torch.where(finite, total, -torch.inf).view(-1, samples)
    lowest = torch.where(finite, total, torch.inf).view(-1, samples).amin(dim=1)
    values, places = scores.topk(keep, dim=1)
    taken = values.isfinite() & (values > lowest[:, None])
    return (places + samples * torch.arange(len(scores))[:, None])[taken]


def diffusion_loss(predicted: Tensor, x0: Tensor, mask: Tensor) -> Tensor:
    """Return the mean squared error of ``[B, T, D]`` over valid frames (``mask`` ``[B, T]``), mean over motions."""
    squares = (predicted.float() - x0).square().mean(dim=-1).masked_fill(~mask, 0.0)
    return (squares.sum(dim=1) / mask.sum(dim=1)).mean()
