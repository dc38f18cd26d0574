"""A replication: prompts with lengths, motions of every prompt, their embeddings and all their figures.

`Amount` says how many replications and prompts there are, `Sampling` how the policy is sampled. `Questions` draws the
prompts of a split anew for each replication. A `Measurement` samples, embeds and returns the figures.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Literal

import numpy as np
import torch
from torch import Tensor
from torch.nn.utils.rnn import pad_sequence

from motionkit.contracts.dataset import TextClip, TextMotionDataset
from motionkit.contracts.open_model import STARTER, FoundModel
from motionkit.errors import MotionkitError
from motionkit.metrics import kinetic_features
from motionkit.motion import MotionBatch
from motionkit.motion.corpus.ids import Split
from motionkit.rl import DDIM, NoiseSource, StepPlan, length_mask, stable_hash
from motionkit.runs import TrainedOn, fingerprint
from motionkit.text import Prompt
from motionkit.text_to_motion.data.real_actions import RealActions
from motionkit.text_to_motion.evaluation.protocol.figures import (
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
    style_figure,
)
from motionkit.text_to_motion.evaluation.styles import Styles, style_chance, style_hits
from motionkit.text_to_motion.evaluator.model import T2MEvaluator
from motionkit.text_to_motion.generating import plan_steps, sample
from motionkit.text_to_motion.policy import GUIDANCE, DiffusionPolicy, guidance_of
from motionkit.text_to_motion.rewards.mix import RewardMix
from motionkit.text_to_motion.trained import (
    clips_fingerprint,
    leave_out_clips,
    leave_out_prompts,
    prompt_fingerprint,
)

MDM_PROMPTS = 1024  # the original asks for 1,000 in whole batches of 32: 32 batches
_FEW = 5  # steps of the deterministic sampler on the starter's data
STYLE, CHANCE = "style", "style_chance"  # columns
_UNIT = 4  # frames that lengths of questions are multiples of
MODES: dict[str, tuple[int, int, int]] = {
    "wo_mm": (20, 0, 0),
    "mm_short": (5, 100, 30),
    "debug": (5, 0, 0),
    "full": (20, 100, 30),
    STARTER: (5, 50, 10),
}
"""Replications, prompts and repeats of MultiModality: the modes of MDM's evaluation, and `STARTER`."""
Progress = Callable[[int], None]


@dataclass(frozen=True)
class Amount:
    """How much is sampled."""

    replications: int  # repetitions with new prompts and noise
    prompts: int  # prompts per replication
    mm_prompts: int = 0  # prompts of MultiModality per replication; 0 leaves it out
    mm_repeats: int = 0  # motions of each of them
    mm_pairs: int = 10  # pairs among these motions

    @property
    def motions(self) -> int:
        """Motions sampled per replication."""
        return self.prompts + self.mm_prompts * self.mm_repeats


def amount_of(
    mode: str,  # a key of `MODES`, or ``auto``: `STARTER` on starter data, else ``wo_mm``
    protocol: str,  # ``mdm`` asks for 1,024 prompts, ``whole`` for every item of the split once
    *,
    starter: bool,  # whether the data are the starter's
    available: int,  # items of the split
    replications: int = 0,  # replaces the mode's number; 0 keeps it
    limit: int = 0,  # replaces the protocol's number of prompts; 0 keeps it
) -> tuple[str, Amount]:
    """Return the name of the mode that is used, and its amount."""
    name = (STARTER if starter else "wo_mm") if mode == "auto" else mode
    usual, mm_prompts, mm_repeats = MODES[name]
    prompts = limit or (MDM_PROMPTS if protocol == "mdm" else available)
    return name, Amount(replications or usual, prompts, min(mm_prompts, prompts), mm_repeats)


@dataclass(frozen=True)
class Sampling:
    """How motions are made."""

    plan: StepPlan  # reverse steps
    guidance: float  # classifier-free guidance scale
    words: str  # sampler, steps, guidance and padding, for tables


def sampling_of(
    model: FoundModel,
    policy: DiffusionPolicy,
    *,
    starter: bool,
    kind: Literal["auto", "ddpm", "ddim"] = "auto",
    steps: int = 0,
    guidance: float | None = None,
) -> Sampling:
    """Decide how a policy is sampled.

    Args:
        model: Model of the policy, with its run.
        policy: The policy.
        starter: Whether it is evaluated on the starter's data.
        kind: ``auto``: a few deterministic steps on the starter's data (for a run of `grpo` those of its held-out
            measurements), else the policy's own sampler, for MDM the ancestral one, as it is evaluated.
        steps: Number of steps; 0 leaves it to `kind` and the policy.
        guidance: Guidance scale; None takes that of the policy, as ``motionkit generate`` does, else of the run,
            else 2.5.
    """
    stored = _run_sampler(model)
    own = _own_guidance(model, policy)
    scale = guidance if guidance is not None else guidance_of(policy) if own is None else own
    total = len(policy.schedule)
    if kind == "auto" and starter and not steps:
        count = min(int(stored.get("inference_timesteps") or _FEW), total)
        spacing: Literal["early", "even"] = "even" if stored.get("spacing") == "even" else "early"
        plan = StepPlan.build(policy.schedule, DDIM(0.0), steps=policy.schedule.visited(spacing, count))
        kind = "ddim"
    else:
        kind = policy.sampler if kind == "auto" else kind
        plan = plan_steps(policy, kind, steps)
    visited = f"all {total} steps" if len(plan) == total else f"{len(plan)} steps of {total}"
    return Sampling(plan, scale, f"{kind.upper()}, {visited}, guidance {scale:g}, masks {policy.padding}")


def common_guidance(policies: Sequence[tuple[FoundModel, DiffusionPolicy]], guidance: float | None) -> float:
    """Return one guidance scale for several policies: `guidance`, else that of the tuned policies, else 2.5."""
    if guidance is not None:
        return guidance
    scales = {scale for model, policy in policies if (scale := _own_guidance(model, policy)) is not None}
    if len(scales) > 1:
        listed = ", ".join(f"{scale:g}" for scale in sorted(scales))
        raise MotionkitError(
            f"the runs were made with different guidance scales: {listed}.",
            why="a higher guidance alone raises R-precision, so policies are compared at one value.",
            fix="--guidance-scale X",
        )
    return scales.pop() if scales else GUIDANCE


def _own_guidance(model: FoundModel, policy: DiffusionPolicy) -> float | None:
    """Return the guidance scale that a policy stores, else that of the run that tuned it; None for neither.

    A run may keep the scale that the policy had before it was tuned at another one.
    """
    stored = policy.guidance
    scale = _run_sampler(model).get("guidance_scale") if stored is None else stored
    return None if scale is None else float(scale)


def _run_sampler(model: FoundModel) -> Mapping[str, Any]:
    """Return the sampler settings of the `grpo` run that made a policy; empty for other policies."""
    if model.run is None or model.run.command != "grpo":
        return {}
    settings = model.run.config.get("sampler")
    return settings if isinstance(settings, Mapping) else {}


@dataclass(frozen=True)
class Question:
    """A prompt and the reference motion that it describes."""

    prompt: Prompt  # as long as `truth`; its key, which seeds the noise, is unique in the evaluation
    truth: Tensor | None  # [T, F] unnormalised features; None if there is no reference motion


class Questions:
    """Questions of one split, the same for every policy and machine.

    A clip becomes a question as in the public loaders: with one of its captions at random, cropped at random to a
    multiple of 4 frames, in one of three cases 4 frames shorter. A composite prompt is used as it is.

    Args:
        dataset: Where they are taken from.
        split: The split.
        longest: Longest motion of the policy in frames.
        k_segments: Segments per prompt; composite data only.
        seed: Seed of order, captions and crops.
        trained: Training data of the policies, which are left out; `kept` has the rest.
    """

    def __init__(
        self,
        dataset: TextMotionDataset,
        split: Split,
        *,
        longest: int,
        k_segments: int = 0,
        seed: int = 0,
        trained: TrainedOn | None = None,
    ) -> None:
        self._seed, self._longest, self._crop = seed, longest, dataset.random_crop
        self.composite = dataset.splits is not None
        if dataset.splits == ("train",):
            raise MotionkitError(
                f"this {dataset.name} set was composed from the train split.",
                why="a policy may have been trained on its clips; the figures would not be held out.",
                fix=f"motionkit compose --split {split} ... OUT, then --dataset.path OUT",
            )
        if not self.composite and k_segments > 1:
            raise MotionkitError(
                f"--k-segments {k_segments} acts with composite data only.",
                why="prompts that are joined from single clips have no reference motion to compare with.",
                fix=f"motionkit compose --k-segments {k_segments} --split {split} ... OUT, then --dataset composite.",
            )
        self._prompts = list(dataset.prompts(split, k_segments=k_segments)) if self.composite else []
        self._clips = list(dataset.clips(split))
        if not (self._prompts or self._clips):
            raise MotionkitError(f"the {split} split of {dataset.name} has nothing to ask for.")
        trained = trained or TrainedOn()
        if self.composite:
            self.kept = leave_out_prompts(trained, dataset, split, self._prompts)
            self._prompts = [self._prompts[place] for place in self.kept.places]
        else:
            self.kept = leave_out_clips(trained, dataset, self._clips)
            self._clips = [self._clips[place] for place in self.kept.places]
        self.kept.require(self.what, f"the {split} split of {dataset.name}", f"give --dataset with other {self.what}.")
        self._truth = {clip.key: clip.features for clip in self._clips} if self.composite else {}
        self.count = len(self._prompts) if self.composite else len(self._clips)

    @property
    def what(self) -> str:
        """The plural noun for the items, for messages."""
        return "composite prompts" if self.composite else "clips"

    def fingerprint(self) -> str:
        """Return the fingerprint of the clips and prompts."""
        return fingerprint(clips_fingerprint(self._clips), *map(prompt_fingerprint, self._prompts))

    @property
    def clips(self) -> Sequence[TextClip]:
        """The reference clips of the split."""
        return self._clips

    @property
    def prompts(self) -> Sequence[Prompt]:
        """The composite prompts of the split; empty for other data."""
        return self._prompts

    @property
    def captions(self) -> int:
        """Number of captions, or of composite prompts."""
        return len(self._prompts) or sum(len(clip.captions) for clip in self._clips)

    def tokens(self) -> dict[str, Sequence[str]]:
        """Return the stored ``word/POS`` tokens of captions if the dataset has them."""
        return {
            caption: tokens for clip in self._clips for caption, tokens in zip(clip.captions, clip.tokens, strict=False)
        }

    def draw(self, replication: int, count: int) -> list[Question]:
        """Return the questions of a replication.

        Items come in a new random order. If the split has fewer than `count`, another random order follows, so that an
        item repeats only after all others, with a new caption, crop and noise.
        """
        rng = self._generator("ask", replication)
        order: list[int] = []
        while len(order) < count:
            order += rng.permutation(self.count).tolist()
        return [self._question(rng, place, f"{replication}.{n}") for n, place in enumerate(order[:count])]

    def real(self, replication: int) -> list[Question]:
        """Return every item of the split that has a reference motion once, in a new random order."""
        rng = self._generator("real", replication)
        result = [self._question(rng, place, f"real {replication}") for place in rng.permutation(self.count).tolist()]
        return [question for question in result if question.truth is not None]

    def _generator(self, name: str, replication: int) -> np.random.Generator:
        return np.random.default_rng([abs(stable_hash(f"{name} {self._seed} {replication}"))])

    def _question(self, rng: np.random.Generator, place: int, label: str) -> Question:
        if self.composite:
            prompt = self._prompts[place]
            truth = self._truth.get(prompt.key)
            return Question(replace(prompt, key=f"{prompt.key}/{label}"), truth)
        clip = self._clips[place]
        number = int(rng.integers(len(clip.captions)))
        units = min(len(clip.features), self._longest) // _UNIT
        if self._crop:
            units = max(units - int(rng.integers(3) == 0), 1)  # "single, single, double" of the public loaders
        length = max(units * _UNIT, 1)
        start = int(rng.integers(len(clip.features) - length + 1)) if self._crop else 0
        prompt = Prompt((clip.captions[number],), (length,), f"{clip.key}#{number}/{label}", (clip.key,))
        return Question(prompt, clip.features[start : start + length])


@dataclass(frozen=True)
class Replication:
    """The figures of one replication."""

    metrics: Sheet  # of the policy
    truth: Sheet  # of the reference motions


@dataclass(frozen=True)
class Embedded:
    """N motions in the evaluator's space."""

    motion: Tensor  # [N, E]
    # [N] per physics figure, per figure of `MOVING`, per reward, and of `style_hits` if captions name styles.
    columns: dict[str, Tensor]
    moving: dict[str, Tensor]  # the further columns of `moving_figures`


class Measurement:
    """Everything that replications share."""

    def __init__(
        self,
        evaluator: T2MEvaluator,  # embeds texts and motions
        questions: Questions,
        *,
        actions: RealActions,  # reference clips by action
        amount: Amount,
        seed: int = 0,  # seed of the noise and of pairs
        batch: int = 64,  # motions that are sampled at once
        doubt: str = "",  # why the evaluator's figures are not valid; empty if they are
        singles: Questions | None = None,  # clips of single actions, for the guide's FID of composite motions
        rewards: RewardMix | None = None,  # rewards that are measured as well
        styles: Mapping[str, Styles] | None = None,  # of captions that name a style
    ) -> None:
        self.rewards = rewards
        self._styles = styles or {}
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
        """Measure a policy and the reference motions."""
        asked = self.questions.draw(replication, self.amount.prompts)
        generated = self.generated(policy, how, asked, progress)
        text = self.evaluator.encode_texts([self.evaluator.whole_text(question.prompt) for question in asked])
        real_text, real = self.real(policy, replication)
        seed = self.seed * 1_000_003 + replication
        metrics = self.sheet(text, generated, real, seed)
        if self.singles is not None and "fid" in {*metrics.values, *metrics.missing}:
            single = self._embed(policy, self.singles.real(replication)).motion
            metrics.add(guide_figure(generated.motion, single))
        if self.amount.mm_prompts:
            repeats = self._repeated(policy, how, asked[: self.amount.mm_prompts], progress)
            metrics.add(multimodality_figure(repeats, pairs=self.amount.mm_pairs, seed=seed))
        else:
            metrics.missing["multimodality"] = "this mode samples one motion per prompt"
        # Another pass over the split: the same clips, cropped and captioned anew, as in the original's ground truth.
        _, again = self.real(policy, replication - 1)
        truth = self.sheet(real_text, real, again, seed)
        truth.missing["multimodality"] = "a text has one reference motion"
        truth.values.pop("npss", None)
        truth.missing["npss"] = "a reference motion is compared with itself"
        self._passes = {key: value for key, value in self._passes.items() if key >= replication}
        for sheet in (metrics, truth):
            self._withhold(sheet)
        return Replication(metrics, truth)

    def generated(
        self, policy: DiffusionPolicy, how: Sampling, asked: Sequence[Question], progress: Progress | None = None
    ) -> Embedded:
        """Return the motions of a policy in the order of the questions; each depends on its prompt alone."""

        def make(part: list[int]) -> MotionBatch:
            prompts = [asked[i].prompt for i in part]
            done = sample(policy, prompts, how.plan, NoiseSource(self.seed), guidance=how.guidance)
            if progress is not None:
                progress(len(part))
            return done.motions

        return self._in_batches(asked, make, "generated", padded=policy.padding != "exact")

    def _embed(self, policy: DiffusionPolicy, questions: Sequence[Question]) -> Embedded:
        """Return the reference motions of questions."""

        def read(part: list[int]) -> MotionBatch:
            truths = [questions[i].truth for i in part]
            features = pad_sequence([truth for truth in truths if truth is not None], batch_first=True)
            device = self.evaluator.mean.device
            lengths = torch.tensor([questions[i].prompt.length for i in part], device=device)
            return MotionBatch(features.float().to(device), lengths, skeleton=policy.skeleton, fps=policy.fps)

        return self._in_batches(questions, read, "reference")

    def _repeated(
        self, policy: DiffusionPolicy, how: Sampling, asked: Sequence[Question], progress: Progress | None
    ) -> Tensor:
        """Return ``[C, R, E]`` embeddings of R motions of each of C questions."""
        repeats, result = self.amount.mm_repeats, []
        prompts_at_once = max(1, self.batch // repeats)
        for first in range(0, len(asked), prompts_at_once):
            prompts = [question.prompt for question in asked[first : first + prompts_at_once]]
            done = sample(policy, prompts, how.plan, NoiseSource(self.seed), samples=repeats, guidance=how.guidance)
            padded = policy.padding != "exact"
            result.append(self._latents(done.motions, padded=padded).unflatten(0, (len(prompts), repeats)))
            if progress is not None:
                progress(len(prompts) * repeats)
        return require_finite(torch.cat(result), "generated")

    def real(self, policy: DiffusionPolicy, replication: int) -> tuple[Tensor, Embedded]:
        """Return the embeddings of texts and reference motions of a pass over the split; each is embedded once."""
        if replication not in self._passes:
            questions = self.questions.real(replication)
            text = self.evaluator.encode_texts([self.evaluator.whole_text(question.prompt) for question in questions])
            self._passes[replication] = (text, self._embed(policy, questions))
        return self._passes[replication]

    def sheet(self, text: Tensor, motions: Embedded, real: Embedded, seed: int) -> Sheet:
        """Return the figures of motions compared with reference ones."""
        if not len(motions.motion):
            return Sheet(missing=dict.fromkeys(QUANTITIES, "the set holds no reference motions"))
        sheet = embedding_figures(text, motions.motion, real.motion, count=len(real.motion), seed=seed)
        apart = (*MOVING, STYLE)
        plain = {name: values for name, values in motions.columns.items() if name not in apart}
        sheet.values |= {name: float(values.double().nanmean()) for name, values in plain.items()}
        if STYLE in motions.columns:
            sheet.add(style_figure(motions.columns[STYLE], float(motions.moving[CHANCE].nanmean())))
        kinetic = real.moving.get("kinetic", motions.moving["kinetic"][:0])
        sheet.add(moving_figures(motions.columns | motions.moving, kinetic))
        self._withhold(sheet)
        return sheet

    def _withhold(self, sheet: Sheet) -> None:
        """Leave out the evaluator's figures if they are not valid."""
        if self.doubt:
            sheet.missing |= {name: self.doubt for name in EMBEDDED if name in sheet.values}
            sheet.values = {name: value for name, value in sheet.values.items() if name not in EMBEDDED}
            sheet.notes = {name: note for name, note in sheet.notes.items() if name not in EMBEDDED}

    def _in_batches(
        self, asked: Sequence[Question], make: Callable[[list[int]], MotionBatch], label: str, *, padded: bool = False
    ) -> Embedded:
        """Embed motions in batches of similar lengths; returns them in the order of the questions."""
        order = sorted(range(len(asked)), key=lambda i: asked[i].prompt.length)
        motion: list[Tensor] = []
        columns: dict[str, list[Tensor]] = {}
        moving: dict[str, list[Tensor]] = {}
        for first in range(0, len(order), self.batch):
            part = order[first : first + self.batch]
            batch, prompts = make(part), [asked[i].prompt for i in part]
            latents = self._latents(batch, padded=padded)
            motion.append(latents)
            quantities = physics_figures(batch) | self.actions.measure(batch, prompts)
            quantities |= reward_columns(self.rewards, batch, prompts)
            chances = {}
            if self._styles:
                texts = [prompt.text for prompt in prompts]
                quantities[STYLE] = style_hits(self._styles, texts, latents, self.evaluator.encode_texts)
                chances[CHANCE] = torch.tensor([style_chance(self._styles, [text]) for text in texts])
            for name, values in quantities.items():
                columns.setdefault(name, []).append(values)
            moved, power = npss_columns(batch, [asked[i].truth for i in part])
            kinetic = kinetic_features(batch.joints, batch.lengths, batch.fps)
            further = {"npss_moved": moved, "npss_power": power, "kinetic": kinetic} | chances
            for name, values in further.items():
                moving.setdefault(name, []).append(values)
        if not order:
            return Embedded(self.evaluator.mean.new_zeros(0, self.evaluator.latent), {}, {})
        inverse = torch.tensor(order).argsort().to(motion[0].device)  # from the order by length to that of `asked`
        latents = require_finite(torch.cat(motion)[inverse], label)
        return Embedded(
            latents,
            {name: torch.cat(values)[inverse.to(values[0].device)] for name, values in columns.items()},
            {name: torch.cat(values)[inverse.to(values[0].device)] for name, values in moving.items()},
        )

    def _latents(self, batch: MotionBatch, *, padded: bool) -> Tensor:
        """Embed a batch; unless `padded`, frames past a motion's end are set to zero in the evaluator's space."""
        features = batch.features
        if not padded:
            mask = length_mask(batch.lengths, features.shape[1])
            features = torch.where(mask[..., None], features, self.evaluator.mean.to(features))
        return self.evaluator.encode_motions(features, batch.lengths)


def reward_columns(rewards: RewardMix | None, motions: MotionBatch, prompts: Sequence[Prompt]) -> dict[str, Tensor]:
    """Return ``[N]`` of each reward; NaN if it does not apply or cannot be computed."""
    terms = () if rewards is None else rewards.score(motions, prompts).terms
    return {
        f"{REWARD}{term.name}": torch.where(term.scores.applying, term.scores.total, torch.nan).to(motions.device)
        for term in terms
    }
