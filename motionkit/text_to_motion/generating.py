"""Sampling of motions for prompts, behind training, evaluation, `motionkit generate` and `TextToMotionPolicy.generate`.

`sample` makes the motions of one batch. `generate_motions` makes those of any list of prompts, of any length and
independent of the batch size, by the steps of `plan_steps`; `typed_prompts` reads its prompts from texts.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from itertools import groupby
from typing import Literal

import torch
from torch import Tensor
from torch.nn.functional import pad

from motionkit.clips.motion_clip import MotionClip, Motions
from motionkit.errors import MotionkitError
from motionkit.motion import Caption, MotionBatch
from motionkit.player.files import SEAMS
from motionkit.plugins import complete
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
from motionkit.text import Prompt, shortened, usual_seconds
from motionkit.text_to_motion.blocks import Seams, blocks_of, is_long, sample_blocks, seams_of, with_spare
from motionkit.text_to_motion.policy import Condition, DiffusionPolicy, guidance_of, refuse_extras
from motionkit.text_to_motion.wording import Reading, read_all

_log = logging.getLogger("motionkit.policies")

BATCH = 64  # motions per batch
_ALIKE = 16  # motions of similar length that are sampled together; more do not fit a core's cache
_SENTENCE = 600  # most characters of a sentence on a typed text

Walk = Callable[[Predict, Tensor, StepNoise], Rollout]
"""``walk(predict, x_start [N, T, D], noise)`` goes from noise to motion."""


@dataclass(frozen=True, eq=False)
class Asked:
    """The prediction of a policy for N prompts: a `motionkit.rl.Predict`, and a `motionkit.rl.Denoiser`."""

    policy: DiffusionPolicy
    condition: Condition  # N rows
    lengths: Tensor  # [N] int64
    guidance: float  # classifier-free guidance scale

    def __call__(self, x: Tensor, timestep: Tensor) -> Tensor:
        """Predict x0 of ``[N, T, D]`` states at ``[N]`` timesteps."""
        return self.policy.predict(x, timestep, self.condition, self.lengths, guidance=self.guidance)

    def denoise(self, plan: StepPlan, x_start: Tensor, noise: StepNoise) -> Tensor:
        """Take all steps of a plan; see `DiffusionPolicy.denoise`."""
        given = (self.condition, self.lengths)
        return self.policy.denoise(x_start, plan, *given, guidance=self.guidance, noise=noise)


@dataclass(frozen=True, eq=False)
class Samples:
    """N = P x S motions, prompt after prompt."""

    prompts: list[Prompt]  # prompt of each sample
    condition: Condition  # encoded prompts, N rows
    lengths: Tensor  # [N] int64
    groups: Tensor  # [N] int64; the number of the prompt within the batch, so that equal texts stay apart
    mask: Tensor  # [N, T] bool, True = valid
    motions: MotionBatch  # the finished motions, unnormalised
    rollout: Rollout  # final states, and the visited ones if they were recorded


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
    """Sample every prompt `samples` times in one batch; wrap it in ``torch.no_grad()`` if no graph is needed.

    Args:
        policy: The policy.
        prompts: P prompts.
        plan: Reverse steps; one without noise is the deterministic sampler.
        noise: Source of noise, keyed by prompt key, sample number and `step`.
        samples: S, motions per prompt.
        guidance: Classifier-free guidance scale.
        step: Part of the noise key; 0 everywhere outside training.
        walk: An algorithm's rollout, which may record states; by default a plain rollout that records none.
    """
    complete(policy, DiffusionPolicy)
    refuse_extras(policy, prompts)
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
            Asked(policy, condition, lengths, guidance),
            noise.start(step, keys, numbers, shape),
            noise.steps(step, keys, numbers, shape, lengths),
        )

    if policy.block:
        size, blocks, current = policy.block, [], condition
        for number in range(frames // size):
            # Each block has different noise, keyed by its number, so that a longer motion begins like a shorter one.
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


def sample_by_length(
    policy: DiffusionPolicy,
    prompts: Sequence[Prompt],
    plan: StepPlan,
    noise: NoiseSource,
    *,
    samples: int = 1,
    guidance: float = 1.0,
    step: int = 0,
) -> Samples:
    """Return what `sample` does, up to rounding, sampled a few motions of similar length at a time to save padding.

    Arguments are as of `sample`.
    """
    draw = partial(sample, policy, plan=plan, noise=noise, samples=samples, guidance=guidance, step=step)
    if policy.block or policy.padding == "full" or len(prompts) * samples <= _ALIKE:
        return draw(prompts)
    order, size = sorted(range(len(prompts)), key=lambda place: prompts[place].length), max(1, _ALIKE // samples)
    parts = [draw([prompts[place] for place in order[first : first + size]]) for first in range(0, len(order), size)]
    # back[i] is the row of motion i among those in the order of length.
    back = (torch.tensor(order).argsort()[:, None] * samples + torch.arange(samples)).flatten()
    device = parts[0].lengths.device
    groups = torch.arange(len(prompts), device=device).repeat_interleave(samples)
    lengths = torch.tensor([prompt.length for prompt in prompts], device=device)[groups]
    frames = policy.frames(lengths)
    padded = [pad(part.rollout.x0, (0, 0, 0, frames - part.rollout.x0.shape[1])) for part in parts]
    x0 = torch.cat(padded)[back.to(device)]
    return Samples(
        prompts=[prompt for prompt in prompts for _ in range(samples)],
        condition=policy.condition(prompts).select(groups),
        lengths=lengths,
        groups=groups,
        mask=length_mask(lengths, frames),
        motions=MotionBatch(policy.normalizer.denormalize(x0), lengths, skeleton=policy.skeleton, fps=policy.fps),
        rollout=Rollout(x0, None),
    )


def refuse_blocks(policy: DiffusionPolicy) -> None:
    """Refuse to train a policy that samples a motion block by block."""
    if policy.block:
        raise MotionkitError(
            f"the policy is DiP, which makes a motion in blocks of {policy.block} frames; motionkit does not train it.",
            why="an update learns from one chain of reverse steps per motion, and here every block has one.",
            fix="train one without context_len, such as humanml_trans_dec_512_bert; DiP is for generate and eval.",
        )


def plan_steps(
    policy: DiffusionPolicy,
    sampler: Literal["ddpm", "ddim"] | None = None,
    steps: int = 0,
    eta: float = 0.0,
    spacing: Literal["early", "even"] | None = None,
) -> StepPlan:
    """Return the reverse steps of a sampler; by default those of ``motionkit generate``.

    Args:
        policy: The policy.
        sampler: ``ddpm``, ancestral, or ``ddim``; None is the policy's own.
        steps: Number of steps; 0 takes the policy's number, else all that it was trained with.
        eta: Noise of ddim, 0 to 1.
        spacing: Timesteps visited, see `motionkit.rl.Schedule.visited`; None is the policy's own
            for its number of steps, and even for any other.
    """
    complete(policy, DiffusionPolicy)
    stored = None if steps else policy.sampling_steps
    count = steps or stored or len(policy.schedule)
    visited = policy.schedule.visited(spacing or (policy.spacing if stored else "even"), count)
    process = DDPM() if (sampler or policy.sampler) == "ddpm" else DDIM(eta)
    return StepPlan.build(policy.schedule, process, steps=visited)


def own_steps(policy: DiffusionPolicy) -> list[int] | None:
    """Return the timesteps that ``motionkit generate`` visits by default; None if they are all."""
    visited: list[int] = plan_steps(policy).timesteps.tolist()
    return None if len(visited) == len(policy.schedule) else visited


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
    """Return an iterator of motions, prompt after prompt, all samples of a prompt in a row.

    A motion depends on its text, lengths, sample number and the seed, not on the rest of the batch. One that is longer
    than the policy makes at once is joined of blocks (`motionkit.text_to_motion.blocks`).

    Args:
        policy: The policy.
        prompts: The prompts.
        plan: Reverse steps.
        samples: Motions per prompt.
        guidance: Classifier-free guidance scale.
        seed: Seed of the noise.
        batch: Motions or blocks per batch, at least the samples of one prompt.
    """
    made = generate_with_seams(policy, prompts, plan, samples=samples, guidance=guidance, seed=seed, batch=batch)
    return (clip for clip, _ in made)


@torch.no_grad()
def generate_with_seams(
    policy: DiffusionPolicy,
    prompts: Sequence[Prompt],
    plan: StepPlan,
    *,
    samples: int = 1,
    guidance: float = 2.5,
    seed: int = 0,
    batch: int = BATCH,
) -> Iterator[tuple[MotionClip, Seams | None]]:
    """Yield what `generate_motions` yields, each with what was measured at its seams; None if it has none."""
    complete(policy, DiffusionPolicy)
    refuse_extras(policy, prompts)
    # Refuses a bad prompt before anything is sampled; encoded prompts stay cached.
    policy.condition(asked_of(policy, prompts))
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


def _clips(
    policy: DiffusionPolicy, prompts: Sequence[Prompt], made: MotionBatch
) -> Iterator[tuple[MotionClip, Seams | None]]:
    """Yield motions as clips, each cut to the length of its prompt, with the measures of their seams."""
    joints, features = made.joints.float().cpu(), made.features.float().cpu()
    body, fps = policy.skeleton, policy.fps
    for row, prompt in enumerate(prompts):
        motion = body.motion(features[row, : prompt.length], joints[row, : prompt.length], fps)
        seams = seams_of(policy, prompt, joints[row, : prompt.length])
        told = {} if seams is None else {SEAMS: seams.sentence(fps)}
        clip = MotionClip(
            motion,
            features=features[row, : prompt.length],
            captions=(Caption(prompt.text),),
            timed=_segments(prompt, fps),
            notes={"format": "generated", "unit": "m", "up": "y", "fps": f"{fps:g}", **told},
        )
        yield clip, seams


def _segments(prompt: Prompt, fps: float) -> tuple[Caption, ...]:
    """Return the segments as captions with their seconds; none if there is one segment."""
    if len(prompt.segments) == 1:
        return ()
    return tuple(
        Caption(text, (), start / fps, end / fps)
        for text, (start, end) in zip(prompt.segments, prompt.bounds, strict=True)
    )


def typed_prompts(
    policy: DiffusionPolicy, texts: str | Sequence[str], seconds: Sequence[float] | None, *, as_typed: bool = False
) -> list[Prompt]:
    """Return typed texts as prompts at the policy's frame rate; log a warning for each action that it does not know.

    Args:
        policy: Gives the frame rate.
        texts: One text or several; ``" | "`` separates actions.
        seconds: Seconds of each action; None shares 6 s equally, and limits actions that are done once to their
            `usual_seconds`.
        as_typed: As of `read_texts`.
    """
    every = [texts] if isinstance(texts, str) else list(texts)
    prompts, readings = read_texts(policy, [(text, None) for text in every], seconds, as_typed=as_typed)
    for reading in readings.values():
        if not reading.caption:
            _log.warning("%s", shortened(reading.sentence, _SENTENCE))
        elif reading.changed:
            _log.info("%s", shortened(reading.sentence, _SENTENCE))
    return prompts


def read_texts(
    policy: DiffusionPolicy,
    texts: Sequence[tuple[str, float | None]],
    seconds: Sequence[float] | None,
    *,
    as_typed: bool,
) -> tuple[list[Prompt], Mapping[str, Reading]]:
    """Return typed texts as prompts, and what the policy reads each of their actions as.

    Args:
        policy: Gives the frame rate. A policy that knows its captions is given the caption that each text is read as.
        texts: Texts, each with the seconds of all its actions if they are given.
        seconds: As of `typed_prompts`, for texts whose seconds are not given.
        as_typed: The policy reads the texts as they are.

    Returns:
        The prompts, and the reading of each action; none if the policy does not know its captions, and with `as_typed`
        those alone that it does not know.
    """
    if not texts:
        raise MotionkitError("there is no text.", fix='policy.generate("a person walks")')
    prompts = []
    for text, total in texts:
        frames = None if total is None else max(1, round(total * policy.fps))
        prompts.append(Prompt.parse(text, fps=policy.fps, durations=None if frames else seconds, frames=frames))
    readings: Mapping[str, Reading] = {}
    if (known := policy.known_texts()) is not None:
        readings = read_all(known, [text for prompt in prompts for text in prompt.segments])
        if as_typed:
            readings = {text: reading for text, reading in readings.items() if not reading.caption}
        policy.read_as({text: reading.caption for text, reading in readings.items() if reading.caption})
    for place, (_, total) in enumerate(texts):
        if total is None and seconds is None:
            prompts[place] = _fitting(prompts[place], policy, readings)
        else:
            given = {text: readings[text].with_given_length() for text in prompts[place].segments if text in readings}
            readings = {**readings, **given}
    return prompts, readings


def _fitting(prompt: Prompt, policy: DiffusionPolicy, readings: Mapping[str, Reading]) -> Prompt:
    """Cut actions that are done once to their usual length, and those that are done N times to N of it."""
    lengths = []
    for text, length in zip(prompt.segments, prompt.frames, strict=True):
        reading = readings.get(text, Reading(text))
        usual = usual_seconds(reading.caption or text)
        lengths.append(min(length, int(usual * reading.times * policy.fps)) if usual and reading.times else length)
    return replace(prompt, frames=tuple(lengths))


class TextToMotionPolicy(DiffusionPolicy):
    """A diffusion policy with `generate`, which classes that derive from this one inherit."""

    def generate(
        self,
        texts: str | Sequence[str],
        *,
        durations: Sequence[float] | None = None,
        as_typed: bool = False,
        num_samples: int = 1,
        guidance_scale: float | None = None,
        sampler: Literal["ddpm", "ddim"] | None = None,
        inference_timesteps: int = 0,
        seed: int = 0,
        batch_size: int = 64,
    ) -> Motions:
        """Make motions from text, the same as ``motionkit generate``.

        Args:
            texts: One prompt or several; ``" | "`` separates actions that follow each other.
            durations: Seconds of each action; None shares 6 s equally, less for actions that are done once. What is
                longer than the policy makes at once is joined of blocks.
            as_typed: Read texts as they are. By default a policy that knows its captions reads each text as the one
                that says the same, if there is one.
            num_samples: Motions per prompt.
            guidance_scale: Classifier-free guidance; 1 turns it off. None takes the policy's, which a run of ``grpo``
                stores in it, else 2.5.
            sampler: ``ddpm`` (ancestral) or ``ddim`` (deterministic, good with fewer steps); None takes the policy's.
            inference_timesteps: Reverse steps; 0 takes the policy's number, else all that it was trained with.
            seed: Seed of the noise; a motion depends on it, its prompt and its number, not on the rest of the batch.
            batch_size: Motions per batch.

        Returns:
            ``len(texts) * num_samples`` motions, prompt after prompt; a notebook shows them in the player.

        Example:
            >>> from motionkit import load_policy
            >>> policy = load_policy("starter")
            >>> (motion,) = policy.generate("a person walks | a person waves", inference_timesteps=5)
            >>> motion.positions().shape, [caption.text for caption in motion.timed]
            (torch.Size([120, 22, 3]), ['a person walks', 'a person waves'])
            >>> motion.save("wave.glb")
            PosixPath('wave.glb')
        """
        prompts = typed_prompts(self, texts, durations, as_typed=as_typed)
        plan = plan_steps(self, sampler, inference_timesteps)
        guidance = guidance_of(self) if guidance_scale is None else guidance_scale
        how = {"samples": num_samples, "seed": seed, "batch": batch_size}
        try:
            return Motions(generate_motions(self, prompts, plan, guidance=guidance, **how))
        finally:
            self.read_as({})  # training with this policy reads its prompts as they are
