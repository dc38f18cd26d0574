"""The quality of a policy on short captions, as pretraining measures it: FID, movement, jerk, and a judge's scores."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

import torch
from torch import Tensor

from motionkit.contracts.dataset import TextClip
from motionkit.contracts.reward import Reward
from motionkit.metrics import frechet
from motionkit.rl import NoiseSource, StepPlan
from motionkit.text import Prompt
from motionkit.text_to_motion.crops import Crop, JointSpace
from motionkit.text_to_motion.data.real_actions import RealActions
from motionkit.text_to_motion.evaluation.heldout import Shown
from motionkit.text_to_motion.generating import sample
from motionkit.text_to_motion.policy import DiffusionPolicy
from motionkit.text_to_motion.rewards.mix import RewardMix, unscored

_CHUNK = 64  # motions sampled at a time
_SHOWN = 12  # motions that are stored for the page


@dataclass(frozen=True)
class Quality:
    """The result of `measure_quality`."""

    # Frechet distance between the latents of generated motions and of the reference clips; biased upwards unless there
    # are many more clips than dimensions, so figures compare only for the same number of clips.
    fid: float
    score: float  # the judge's mean score of the motions against their captions; NaN without a judge
    real: float  # its mean score of the reference clips against the same captions, for reference; NaN without a judge
    count: int
    shown: Shown  # some of the motions
    # Mean ``movement``, ``statues`` and ``side`` of the motions and of the reference clips
    # (`RealActions.measure`), if both are finite.
    moving: Mapping[str, tuple[float, float]] = field(default_factory=dict)
    jerk: tuple[float, float] = (math.nan, math.nan)  # mean jerk of the motions and of the reference clips, m/s^3


@torch.no_grad()
def measure_quality(
    policy: DiffusionPolicy,
    clips: Sequence[TextClip],
    judge: Reward | None,
    space: JointSpace,
    *,
    plan: StepPlan,
    guidance: float,
    actions: RealActions | None = None,
) -> Quality:
    """Sample the first caption of each clip at its length and compare with the clips.

    The noise depends on the clip alone, so the figures do not depend on the batches.

    Args:
        policy: What is measured.
        clips: At least two reference clips.
        judge: Scores motions; None scores none.
        space: Encoder of the judge, or an evaluator, whose latents are compared.
        plan: Reverse steps.
        guidance: Classifier-free guidance scale.
        actions: Reference clips by action; None leaves `Quality.moving` empty.
    """
    mix = RewardMix([(judge, 1.0)]) if judge is not None else None
    generated, real, scores, truths = [], [], [], []
    moved: list[list[dict[str, Tensor]]] = [[], []]
    jerks: list[list[Tensor]] = [[], []]
    shown: Shown | None = None
    for first in range(0, len(clips), _CHUNK):
        chunk = clips[first : first + _CHUNK]
        prompts = [
            Prompt((clip.captions[0],), (min(len(clip.features), policy.max_length),), key=clip.key) for clip in chunk
        ]
        done = sample(policy, prompts, plan, NoiseSource(0), guidance=guidance, step=-1)
        scored = mix.score(done.motions, done.prompts) if mix is not None else unscored(done.prompts)
        if shown is None:
            shown = Shown.first(done.motions, done.prompts, scored, 1, _SHOWN)
        crops = [Crop(row, 0, prompt.length) for row, prompt in enumerate(prompts)]
        features = torch.zeros_like(done.motions.features)
        for row, (clip, prompt) in enumerate(zip(chunk, prompts, strict=True)):
            features[row, : prompt.length] = clip.features[: prompt.length].to(features)
        truth = type(done.motions)(features, done.lengths, skeleton=policy.skeleton, fps=policy.fps)
        generated.append(space.encode_crops(done.motions.features, crops).mu)
        real.append(space.encode_crops(features, crops).mu)
        for column, motions in zip(jerks, (done.motions, truth), strict=True):
            column.append(motions.physics[1])
        if actions is not None:
            moved[0].append(actions.measure(done.motions, done.prompts))
            moved[1].append(actions.measure(truth, done.prompts))
        scores.append(scored.total)
        truths.append(mix.score(truth, done.prompts).total if mix is not None else scored.total)
    assert shown is not None, "the caller gives at least two clips"
    return Quality(
        frechet(torch.cat(generated), torch.cat(real)),
        float(torch.cat(scores).mean()),
        float(torch.cat(truths).mean()),
        len(clips),
        shown,
        _means(*moved),
        (float(torch.cat(jerks[0]).mean()), float(torch.cat(jerks[1]).mean())),
    )


def _means(
    generated: Sequence[Mapping[str, Tensor]], real: Sequence[Mapping[str, Tensor]]
) -> dict[str, tuple[float, float]]:
    """Return the means of both by name if they are finite."""
    result = {}
    for name in generated[0] if generated else ():
        means = [float(torch.cat([batch[name] for batch in batches]).nanmean()) for batches in (generated, real)]
        if all(map(math.isfinite, means)):
            result[name] = (means[0], means[1])
    return result
