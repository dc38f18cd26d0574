"""One replication: motions of every prompt, embedded, with all their figures."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

from motionkit.encoders.t2m._model import T2MEvaluator
from motionkit.evaluation.text_to_motion._figures import (
    EMBEDDED,
    MOVING,
    QUANTITIES,
    REWARD,
    Sheet,
    embedding_figures,
    guide_figure,
    moving_figures,
    multimodality_figure,
    npss_columns,
    physics_figures,
    require_finite,
)
from motionkit.evaluation.text_to_motion._how import Amount, Sampling
from motionkit.evaluation.text_to_motion._questions import Question, Questions
from motionkit.metrics import kinetic_features
from motionkit.motion import MotionBatch, RealActions
from motionkit.policies.base import DiffusionPolicy
from motionkit.policies.sampling import sample
from motionkit.rewards.mix import RewardMix
from motionkit.rl import NoiseSource, length_mask
from motionkit.text import Prompt

Progress = Callable[[int], None]


@dataclass(frozen=True)
class Replication:
    """The figures of one replication.

    Attributes:
        metrics: Of the policy.
        truth: Of the real motions.
    """

    metrics: Sheet
    truth: Sheet


@dataclass(frozen=True)
class Embedded:
    """N motions in the evaluator's space.

    Attributes:
        motion: ``[N, E]``.
        columns: ``[N]`` per physics figure, per figure of `MOVING`, and per reward that was asked for.
        moving: What `moving_figures` takes beside the columns.
    """

    motion: Tensor
    columns: dict[str, Tensor]
    moving: dict[str, Tensor]


class Measurement:
    """Everything that replications share.

    Args:
        evaluator: Embeds texts and motions.
        questions: What is asked.
        amount: How much.
        seed: Seed of the noise and of pairs.
        batch: Motions that are sampled at once.
        doubt: Why the evaluator's figures would mean nothing; empty when they do.
        singles: Clips of single actions, for the guide's FID of composite motions.
        actions: What real clips of an action do.
        rewards: Scores of motions that are wanted beside the figures.
    """

    def __init__(
        self,
        evaluator: T2MEvaluator,
        questions: Questions,
        *,
        actions: RealActions,
        amount: Amount,
        seed: int = 0,
        batch: int = 64,
        doubt: str = "",
        singles: Questions | None = None,
        rewards: RewardMix | None = None,
    ) -> None:
        self.rewards = rewards
        self.actions = actions
        self.evaluator = evaluator
        self.questions = questions
        self.amount = amount
        self.seed = seed
        self.batch = batch
        self.doubt = doubt
        self.singles = singles
        self._passes: dict[int, tuple[Tensor, Embedded]] = {}

    @torch.no_grad()
    def replicate(
        self, policy: DiffusionPolicy, how: Sampling, replication: int, progress: Progress | None = None
    ) -> Replication:
        """Measure a policy and the real motions.

        Raises:
            MotionkitError: A motion is not finite (exit code 1).
        """
        asked = self.questions.draw(replication, self.amount.prompts)
        made = self.generated(policy, how, asked, progress)
        text = self.evaluator.encode_texts([self.evaluator.whole_text(one.prompt) for one in asked])
        real_text, real = self.real(policy, replication)
        seed = self.seed * 1_000_003 + replication
        metrics = self.sheet(text, made, real, seed)
        if self.singles is not None and "fid" in {*metrics.values, *metrics.missing}:
            single = self._embed(policy, self.singles.real(replication)).motion
            metrics.add(guide_figure(made.motion, single))
        if self.amount.mm_prompts:
            repeats = self._repeated(policy, how, asked[: self.amount.mm_prompts], progress)
            metrics.add(multimodality_figure(repeats, pairs=self.amount.mm_pairs, seed=seed))
        else:
            metrics.missing["multimodality"] = "this mode samples one motion per prompt"
        # Another pass over the split: the same clips, cut and captioned anew, as the original's ground truth is.
        _, again = self.real(policy, replication - 1)
        truth = self.sheet(real_text, real, again, seed)
        truth.missing["multimodality"] = "a text has one real motion"
        truth.values.pop("npss", None)
        truth.missing["npss"] = "a real motion is compared with itself"
        self._passes = {key: value for key, value in self._passes.items() if key >= replication}
        for sheet in (metrics, truth):
            self._withhold(sheet)
        return Replication(metrics, truth)

    def generated(
        self, policy: DiffusionPolicy, how: Sampling, asked: Sequence[Question], progress: Progress | None = None
    ) -> Embedded:
        """Return the motions of a policy in the order of the questions; each depends on its own prompt alone."""

        def make(part: list[int]) -> MotionBatch:
            prompts = [asked[i].prompt for i in part]
            done = sample(policy, prompts, how.plan, NoiseSource(self.seed), guidance=how.guidance)
            if progress is not None:
                progress(len(part))
            return done.motions

        exact = getattr(policy, "padding", "exact") == "exact"
        return self._in_batches(asked, make, "generated", padded=not exact)

    def _embed(self, policy: DiffusionPolicy, questions: Sequence[Question]) -> Embedded:
        """Return the real motions of questions."""

        def read(part: list[int]) -> MotionBatch:
            truths = [questions[i].truth for i in part]
            features = torch.nn.utils.rnn.pad_sequence([one for one in truths if one is not None], batch_first=True)
            lengths = torch.tensor([questions[i].prompt.length for i in part], device=self.evaluator.mean.device)
            device = self.evaluator.mean.device
            return MotionBatch(features.float().to(device), lengths, skeleton=policy.skeleton, fps=policy.fps)

        return self._in_batches(questions, read, "real")

    def _repeated(
        self, policy: DiffusionPolicy, how: Sampling, asked: Sequence[Question], progress: Progress | None
    ) -> Tensor:
        """Return ``[C, R, E]`` embeddings of R motions of each of C questions."""
        repeats, found = self.amount.mm_repeats, []
        each = max(1, self.batch // repeats)
        for first in range(0, len(asked), each):
            prompts = [one.prompt for one in asked[first : first + each]]
            done = sample(policy, prompts, how.plan, NoiseSource(self.seed), samples=repeats, guidance=how.guidance)
            padded = getattr(policy, "padding", "exact") != "exact"
            found.append(self._latents(done.motions, padded=padded).unflatten(0, (len(prompts), repeats)))
            if progress is not None:
                progress(len(prompts) * repeats)
        return require_finite(torch.cat(found), "generated")

    def real(self, policy: DiffusionPolicy, replication: int) -> tuple[Tensor, Embedded]:
        """Return the real motions of one pass over the split, with their texts; each pass is embedded once."""
        if replication not in self._passes:
            questions = self.questions.real(replication)
            text = self.evaluator.encode_texts([self.evaluator.whole_text(one.prompt) for one in questions])
            self._passes[replication] = (text, self._embed(policy, questions))
        return self._passes[replication]

    def sheet(self, text: Tensor, found: Embedded, real: Embedded, seed: int) -> Sheet:
        """Return the figures of motions beside real ones, without those that are doubtful."""
        if not len(found.motion):
            return Sheet(missing=dict.fromkeys(QUANTITIES, "the set holds no real motions"))
        sheet = embedding_figures(text, found.motion, real.motion, count=len(real.motion), seed=seed)
        plain = {name: values for name, values in found.columns.items() if name not in MOVING}
        sheet.values |= {name: float(values.double().nanmean()) for name, values in plain.items()}
        sheet.add(moving_figures(found.columns | found.moving, real.moving.get("kinetic", found.moving["kinetic"][:0])))
        self._withhold(sheet)
        return sheet

    def _withhold(self, sheet: Sheet) -> None:
        """Leave out what the evaluator says where it cannot be trusted."""
        if self.doubt:
            sheet.missing |= {name: self.doubt for name in EMBEDDED if name in sheet.values}
            sheet.values = {name: value for name, value in sheet.values.items() if name not in EMBEDDED}
            sheet.notes = {name: note for name, note in sheet.notes.items() if name not in EMBEDDED}

    def _in_batches(
        self, asked: Sequence[Question], make: Callable[[list[int]], MotionBatch], what: str, *, padded: bool = False
    ) -> Embedded:
        """Embed motions in batches of similar lengths and return them in their own order."""
        order = sorted(range(len(asked)), key=lambda i: asked[i].prompt.length)
        motion: list[Tensor] = []
        columns: dict[str, list[Tensor]] = {}
        moving: dict[str, list[Tensor]] = {}
        for first in range(0, len(order), self.batch):
            part = order[first : first + self.batch]
            batch, prompts = make(part), [asked[i].prompt for i in part]
            motion.append(self._latents(batch, padded=padded))
            found = physics_figures(batch) | self.actions.measure(batch, prompts) | self._scores(batch, prompts)
            for name, values in found.items():
                columns.setdefault(name, []).append(values)
            moved, power = npss_columns(batch, [asked[i].truth for i in part])
            kinetic = kinetic_features(batch.joints, batch.lengths, batch.fps)
            for name, values in {"npss_moved": moved, "npss_power": power, "kinetic": kinetic}.items():
                moving.setdefault(name, []).append(values)
        if not order:
            return Embedded(self.evaluator.mean.new_zeros(0, self.evaluator.latent), {}, {})
        back = torch.empty(len(order), dtype=torch.int64)
        back[torch.tensor(order)] = torch.arange(len(order))
        back = back.to(motion[0].device)
        latents = require_finite(torch.cat(motion)[back], what)
        sorted_back = [{name: torch.cat(values)[back] for name, values in part.items()} for part in (columns, moving)]
        return Embedded(latents, *sorted_back)

    def _scores(self, batch: MotionBatch, prompts: Sequence[Prompt]) -> dict[str, Tensor]:
        """Return ``[N]`` of each reward; NaN where it does not apply or cannot be computed."""
        if self.rewards is None:
            return {}
        terms = self.rewards.score(batch, prompts).terms
        nan = batch.features.new_full((), torch.nan)
        return {
            f"{REWARD}{term.name}": torch.where(term.scores.applying, term.scores.total, nan).to(batch.device)
            for term in terms
        }

    def _latents(self, batch: MotionBatch, *, padded: bool) -> Tensor:
        """Embed a batch; without `padded` the frames past an end are the evaluator's zeros, whatever they hold."""
        features = batch.features
        if not padded:
            mask = length_mask(batch.lengths, features.shape[1])
            features = torch.where(mask[..., None], features, self.evaluator.mean.to(features))
        return self.evaluator.encode_motions(features, batch.lengths)
