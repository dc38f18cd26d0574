"""Motions of a policy for prompts, one clip each; behind `motionkit generate` and `DiffusionPolicy.generate`."""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import partial
from itertools import groupby
from typing import Literal, Protocol, runtime_checkable

import torch
from torch import Tensor

from motionkit.clips.convert.targets import SEAMS
from motionkit.clips.motion_clip import MotionClip, Motions
from motionkit.contracts.blocks import blocks_of, is_long, sample_blocks, seams_of, with_spare
from motionkit.contracts.policy import BlockwisePolicy, Condition, DiffusionPolicy, StoresSteps, guidance_of
from motionkit.errors import MotionkitError
from motionkit.motion import Caption, JointMotion, MotionBatch
from motionkit.rl import (
    DDIM,
    DDPM,
    NoiseSource,
    Predict,
    Rollout,
    StepNoise,
    StepPlan,
    length_mask,
    rollout,
    stable_hash,
)
from motionkit.text import KnownTexts, Prompt, usual_seconds

# Motions of a policy for a list of prompts, the same whatever the batch size.


Walk = Callable[[Predict, Tensor, StepNoise], Rollout]
"""``walk(predict, x_start [N, T, D], noise)`` goes from noise to motion."""


@dataclass(frozen=True, eq=False)
class Samples:
    """N = P x S motions, prompt after prompt."""

    prompts: list[Prompt]  # prompt of each sample
    condition: Condition  # encoded prompts, N rows
    lengths: Tensor  # [N] int64
    groups: Tensor  # [N] int64; the number of the prompt within the batch, so that equal texts stay apart
    mask: Tensor  # [N, T] bool, True = valid
    motions: MotionBatch  # the finished motions, unnormalised
    rollout: Rollout  # final states, and the visited ones where they were recorded


def sample(
    policy: DiffusionPolicy,
    prompts: Sequence[Prompt],
    plan: StepPlan,
    noise: NoiseSource,
    *,
    samples: int = 1,
    guidance: float = 1.0,
    step: int = 0,
    walk: Walk | None = None,
) -> Samples:
    """Sample every prompt `samples` times in one batch; the caller says ``torch.no_grad()`` where no graph is wanted.

    Args:
        policy: What is sampled.
        prompts: P prompts.
        plan: Reverse steps; one without noise is the deterministic sampler.
        noise: Where noise comes from; keyed by prompt key, sample number and `step`.
        samples: S, motions per prompt.
        guidance: Classifier-free guidance scale.
        step: Part of the noise key; 0 everywhere outside training.
        walk: How an algorithm goes through the steps, and what it keeps of them; None keeps nothing.

    Raises:
        MotionkitError: `walk` with a policy that makes a motion block by block.
    """
    device = policy.normalizer.mean.device
    groups = torch.arange(len(prompts), device=device).repeat_interleave(samples)
    numbers = torch.arange(samples, device=device).repeat(len(prompts))
    keys = torch.tensor([stable_hash(prompt.key) for prompt in prompts], device=device)[groups]
    lengths = torch.tensor([prompt.length for prompt in prompts], device=device)[groups]
    condition = policy.condition(prompts).select(groups)
    frames = policy.frames(lengths)
    if walk is not None:
        refuse_blocks(policy)
    go = walk or (lambda predict, start, draw: rollout(predict, plan, start, draw, record=False))

    def made(condition: Condition, keys: Tensor, frames: int, lengths: Tensor) -> Rollout:
        shape = (frames, policy.normalizer.mean.shape[-1])
        return go(
            lambda x, t: policy.predict(x, t, condition, lengths, guidance=guidance),
            noise.start(step, keys, numbers, shape),
            noise.steps(step, keys, numbers, shape, lengths),
        )

    if isinstance(policy, BlockwisePolicy):
        size, blocks, current = policy.block, [], condition
        for number in range(frames // size):
            # Each block has noise of its own, so that a longer motion begins like a shorter one.
            blocks.append(made(current, keys + number, size, torch.full_like(lengths, size)).x0)
            current = policy.continued(current, blocks[-1])
        frames = int(lengths.max())  # the last block is cut
        done = Rollout(torch.cat(blocks, dim=1)[:, :frames], None)
    else:
        done = made(condition, keys, frames, lengths)
    return Samples(
        prompts=[prompt for prompt in prompts for _ in range(samples)],
        condition=condition,
        lengths=lengths,
        groups=groups,
        mask=length_mask(lengths, frames),
        motions=MotionBatch(policy.normalizer.denormalize(done.x0), lengths, skeleton=policy.skeleton, fps=policy.fps),
        rollout=done,
    )


def refuse_blocks(policy: DiffusionPolicy) -> None:
    """Refuse to train a policy that makes a motion block by block.

    Raises:
        MotionkitError: It does.
    """
    if isinstance(policy, BlockwisePolicy):
        raise MotionkitError(
            f"the policy is DiP, which makes a motion in blocks of {policy.block} frames; motionkit does not train it.",
            why="an update learns from one chain of reverse steps per motion, and here every block has one.",
            fix="train one without context_len, such as humanml_trans_dec_512_bert; DiP is for generate and eval.",
        )


def segment_bounds(prompts: Sequence[Prompt], device: torch.device) -> Tensor:
    """Return ``[N, K, 2]`` int64 frame ranges of the segments, padded with (0, 0) where a prompt has fewer."""
    most = max(len(prompt.segments) for prompt in prompts)
    rows = [[*prompt.bounds, *[(0, 0)] * (most - len(prompt.segments))] for prompt in prompts]
    return torch.tensor(rows, dtype=torch.int64, device=device)


_log = logging.getLogger("motionkit.policies")

_NAMED = 4  # texts that a warning names
BATCH = 64  # motions that are sampled at once


def plan_steps(
    policy: DiffusionPolicy,
    sampler: Literal["ddpm", "ddim"] = "ddpm",
    steps: int = 0,
    eta: float = 0.0,
    spacing: Literal["early", "even"] | None = None,
) -> StepPlan:
    """Return the reverse steps of a sampler; without further arguments those that ``motionkit generate`` takes.

    Args:
        policy: What is sampled.
        sampler: ``ddpm``, ancestral, or ``ddim``.
        steps: Number of steps; 0 takes the policy's own number, else all that it was trained with.
        eta: Noise of ddim, 0 to 1.
        spacing: Timesteps visited, see `motionkit.rl.Schedule.visited`; None is early for the policy's own number of
            steps and even for any other.

    Raises:
        MotionkitError: There are not so many steps.
    """
    own = policy.sampling_steps if isinstance(policy, StoresSteps) and not steps else None
    count = steps or own or len(policy.schedule)
    visited = policy.schedule.visited(spacing or ("early" if own else "even"), count)
    return StepPlan.build(policy.schedule, DDPM() if sampler == "ddpm" else DDIM(eta), steps=visited)


def own_steps(policy: DiffusionPolicy) -> list[int] | None:
    """Return the timesteps that ``motionkit generate`` visits by default; None if they are all."""
    visited: list[int] = plan_steps(policy).timesteps.tolist()
    return None if len(visited) == len(policy.schedule) else visited


@torch.no_grad()
def generate_motions(
    policy: DiffusionPolicy,
    prompts: Sequence[Prompt],
    plan: StepPlan,
    *,
    samples: int = 1,
    guidance: float = 2.5,
    seed: int = 0,
    batch: int = BATCH,
) -> Iterator[MotionClip]:
    """Yield motions, prompt after prompt, the samples of each in a row.

    A motion depends on its text, lengths, sample number and the seed, not on what else is generated with it. One that
    is longer than the policy makes at once is joined of blocks (`motionkit.contracts.blocks`).

    Args:
        policy: What is sampled.
        prompts: What is asked for.
        plan: Reverse steps.
        samples: Motions per prompt.
        guidance: Classifier-free guidance scale.
        seed: Seed of the noise.
        batch: Motions or blocks that are sampled at once, at least the samples of one prompt.

    Raises:
        MotionkitError: A prompt is refused, before anything is sampled.
    """
    policy.condition(
        asked_of(policy, prompts)
    )  # refuses a prompt before anything is made; what it encodes stays cached
    noise = NoiseSource(seed)
    for long, run in groupby(prompts, partial(is_long, policy)):
        every = list(run)
        count = 1 if long else max(1, batch // samples)
        for first in range(0, len(every), count):
            some = every[first : first + count]
            if long:
                made = sample_blocks(policy, some[0], plan, noise, samples=samples, guidance=guidance, batch=batch)
            else:
                asked = asked_of(policy, some)
                made = sample(policy, asked, plan, noise, samples=samples, guidance=guidance).motions
            yield from _clips(policy, [prompt for prompt in some for _ in range(samples)], made)


def asked_of(policy: DiffusionPolicy, prompts: Sequence[Prompt]) -> list[Prompt]:
    """Return what a policy is asked for to make `prompts`: their blocks, and frames more for a sound end."""
    asked: list[Prompt] = []
    for prompt in prompts:
        blocks = blocks_of(policy, prompt) if is_long(policy, prompt) else ()
        asked += [block.prompt for block in blocks] or [with_spare(policy, prompt)]
    return asked


def _clips(policy: DiffusionPolicy, prompts: Sequence[Prompt], made: MotionBatch) -> Iterator[MotionClip]:
    """Yield motions as clips, each cut to the length of its prompt."""
    joints, features = made.joints.float().cpu(), made.features.float().cpu()
    body, fps = policy.skeleton, policy.fps
    for row, prompt in enumerate(prompts):
        motion = JointMotion(body.joint_names, body.parents, joints[row, : prompt.length].double(), fps)
        seams = seams_of(policy, prompt, motion.joints)
        told = {} if seams is None else {SEAMS: seams.sentence(fps)}
        yield MotionClip(
            motion,
            features=features[row, : prompt.length],
            captions=(Caption(prompt.text),),
            timed=_segments(prompt, fps),
            notes={"format": "generated", "unit": "m", "up": "y", "fps": f"{fps:g}", **told},
        )


def _segments(prompt: Prompt, fps: float) -> tuple[Caption, ...]:
    """Return the segments as captions with their seconds; none if there is one segment."""
    if len(prompt.segments) == 1:
        return ()
    return tuple(
        Caption(text, (), start / fps, end / fps)
        for text, (start, end) in zip(prompt.segments, prompt.bounds, strict=True)
    )


def typed_prompts(policy: DiffusionPolicy, texts: str | Sequence[str], seconds: Sequence[float] | None) -> list[Prompt]:
    """Return typed texts as prompts at the policy's frame rate; warn of a text that the policy cannot know.

    Args:
        policy: Gives the frame rate.
        texts: One text or several; ``" | "`` separates actions.
        seconds: Seconds of each action; None shares 6 s equally, and gives what is done once no more than it takes
            (`usual_seconds`).

    Raises:
        MotionkitError: There is no text, not one duration above 0 for each action, or an unknown word.
    """
    every = [texts] if isinstance(texts, str) else list(texts)
    if not every:
        raise MotionkitError("there is no text.", fix='policy.generate("a person walks")')
    prompts = [_fitting(Prompt.parse(text, fps=policy.fps, durations=seconds), policy, seconds) for text in every]
    known: KnownTexts | None = policy.known_texts() if isinstance(policy, KnowsTexts) else None
    if known is not None and (far := known.far([text for prompt in prompts for text in prompt.segments])):
        others = ", ".join(repr(near.text) for near in far[1:_NAMED])
        more = f" and {len(far) - _NAMED} more" if len(far) > _NAMED else ""
        _log.warning(
            "%r is far from everything that this policy was trained on (nearest: %r, similarity %.2f of 1): "
            "its motion will show something else%s",
            far[0].text,
            far[0].nearest,
            far[0].similarity,
            f"; the same holds for {others}{more}" if others else "",
        )
    return prompts


def _fitting(prompt: Prompt, policy: DiffusionPolicy, seconds: Sequence[float] | None) -> Prompt:
    """Return a prompt without given durations, with actions that are done once cut to their usual length."""
    if seconds is not None:
        return prompt
    lengths = [
        min(length, int(usual * policy.fps)) if (usual := usual_seconds(text)) else length
        for text, length in zip(prompt.segments, prompt.frames, strict=True)
    ]
    return replace(prompt, frames=tuple(lengths))


@runtime_checkable
class KnowsTexts(Protocol):
    """A policy that may know the texts that it was trained on."""

    def known_texts(self) -> KnownTexts | None:
        """Return them; None if they are not known."""
        ...


class TextToMotionPolicy(DiffusionPolicy, Protocol):
    """A diffusion policy with `generate`, which classes that derive from this one inherit."""

    def generate(
        self,
        texts: str | Sequence[str],
        *,
        durations: Sequence[float] | None = None,
        num_samples: int = 1,
        guidance_scale: float | None = None,
        sampler: Literal["ddpm", "ddim"] = "ddpm",
        inference_timesteps: int = 0,
        seed: int = 0,
        batch_size: int = 64,
    ) -> Motions:
        """Make motions from text, the same as ``motionkit generate``.

        Args:
            texts: One prompt or several; ``" | "`` separates actions that follow each other.
            durations: Seconds of each action; None shares 6 s equally, less for what is done once. What is longer
                than the policy makes at once is joined of blocks.
            num_samples: Motions per prompt.
            guidance_scale: Classifier-free guidance; 1 is none. None takes the policy's own, which a run of ``grpo``
                stores in it, else 2.5.
            sampler: ``ddpm`` (ancestral) or ``ddim`` (deterministic, good with fewer steps).
            inference_timesteps: Reverse steps; 0 takes the policy's own number, else all that it was trained with.
            seed: Seed of the noise; a motion depends on it, its prompt and its number, not on what else is made.
            batch_size: Motions that are sampled at once.

        Returns:
            ``len(texts) * num_samples`` motions, those of a prompt in a row; a notebook shows them in the player.

        Raises:
            MotionkitError: A prompt is empty, longer than 100 000 frames, or has words that the text encoder does
                not know.

        Example:
            >>> from motionkit import load_policy
            >>> policy = load_policy("starter")
            >>> (motion,) = policy.generate("a person walks | a person waves", inference_timesteps=5)
            >>> motion.positions().shape, [caption.text for caption in motion.timed]
            (torch.Size([120, 22, 3]), ['a person walks', 'a person waves'])
            >>> motion.save("wave.glb")
            PosixPath('wave.glb')
        """
        prompts = typed_prompts(self, texts, durations)
        plan = plan_steps(self, sampler, inference_timesteps)
        guidance = guidance_of(self) if guidance_scale is None else guidance_scale
        return Motions(
            generate_motions(self, prompts, plan, samples=num_samples, guidance=guidance, seed=seed, batch=batch_size)
        )
