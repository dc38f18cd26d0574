"""How near a policy's motions are to real clips, in the space of the judge."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

import torch
from torch import Tensor

from motionkit.datasets.base import TextClip
from motionkit.encoders._crops import Crop
from motionkit.encoders.tmr._model import TMR
from motionkit.evaluation._shown import Shown
from motionkit.metrics import frechet
from motionkit.motion import RealActions
from motionkit.policies.base import DiffusionPolicy
from motionkit.policies.sampling import sample
from motionkit.rewards.base import Reward
from motionkit.rewards.mix import RewardMix
from motionkit.rl import NoiseSource, StepPlan
from motionkit.text import Prompt

_CHUNK = 64  # motions sampled at a time
_SHOWN = 12


@dataclass(frozen=True)
class Quality:
    """What `measure_quality` found.

    Attributes:
        fid: Frechet distance between the latents of generated motions and of the real clips; biased upwards when there
            are not many more clips than dimensions, so only figures of the same number of clips compare.
        score: The judge's mean score of the motions against their captions.
        real: Its mean score of the real clips against the same captions: what can be reached.
        count: Clips.
        shown: Some of the motions.
        moving: Mean ``movement``, ``statues`` and ``side`` of the motions, each beside that of the real clips (see
            `motionkit.motion.RealActions.measure`); without those that say nothing.
    """

    fid: float
    score: float
    real: float
    count: int
    shown: Shown
    moving: Mapping[str, tuple[float, float]] = field(default_factory=dict)


@torch.no_grad()
def measure_quality(
    policy: DiffusionPolicy,
    clips: Sequence[TextClip],
    judge: Reward,
    tmr: TMR,
    *,
    plan: StepPlan,
    guidance: float,
    actions: RealActions | None = None,
) -> Quality:
    """Sample the first caption of each clip at its length and compare with the clips.

    Each clip has noise of its own, so the figures do not depend on the batches.

    Args:
        policy: What is sampled.
        clips: At least two real clips.
        judge: Scores motions.
        tmr: The judge's encoder, whose latents are compared.
        plan: Reverse steps.
        guidance: Guidance scale.
        actions: What real clips of an action do; None leaves `Quality.moving` empty.
    """
    mix = RewardMix([(judge, 1.0)])
    made, real, scores, truths = [], [], [], []
    moved: list[list[dict[str, Tensor]]] = [[], []]
    shown: Shown | None = None
    for first in range(0, len(clips), _CHUNK):
        chunk = clips[first : first + _CHUNK]
        prompts = [
            Prompt((clip.captions[0],), (min(len(clip.features), policy.max_length),), key=clip.key) for clip in chunk
        ]
        done = sample(policy, prompts, plan, NoiseSource(0), guidance=guidance, step=-1)
        scored = mix.score(done.motions, done.prompts)
        if shown is None:
            shown = Shown.first(done.motions, done.prompts, scored, 1, _SHOWN)
        crops = [Crop(row, 0, prompt.length) for row, prompt in enumerate(prompts)]
        features = torch.zeros_like(done.motions.features)
        for row, (clip, prompt) in enumerate(zip(chunk, prompts, strict=True)):
            features[row, : prompt.length] = clip.features[: prompt.length].to(features)
        truth = type(done.motions)(features, done.lengths, skeleton=policy.skeleton, fps=policy.fps)
        made.append(tmr.encode_crops(done.motions.features, crops).mu)
        real.append(tmr.encode_crops(features, crops).mu)
        if actions is not None:
            moved[0].append(actions.measure(done.motions, done.prompts))
            moved[1].append(actions.measure(truth, done.prompts))
        scores.append(scored.total)
        truths.append(mix.score(truth, done.prompts).total)
    assert shown is not None, "the caller gives at least two clips"
    return Quality(
        frechet(torch.cat(made), torch.cat(real)),
        float(torch.cat(scores).mean()),
        float(torch.cat(truths).mean()),
        len(clips),
        shown,
        _beside(*moved),
    )


def _beside(
    made: Sequence[Mapping[str, Tensor]], real: Sequence[Mapping[str, Tensor]]
) -> dict[str, tuple[float, float]]:
    """Return the means of both by name, where both have one."""
    found = {}
    for name in made[0] if made else ():
        both = [float(torch.cat([one[name] for one in part]).nanmean()) for part in (made, real)]
        if all(map(math.isfinite, both)):
            found[name] = (both[0], both[1])
    return found
