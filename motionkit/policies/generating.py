"""Motions of a policy for prompts, one clip each; behind `motionkit generate` and `DiffusionPolicy.generate`."""

from __future__ import annotations

import logging
from collections.abc import Iterator, Sequence
from typing import Literal, Protocol, runtime_checkable

import torch

from motionkit.clips.motion_clip import MotionClip
from motionkit.errors import MotionkitError
from motionkit.motion import Caption, JointMotion
from motionkit.policies.base import DiffusionPolicy, StoresSteps, guidance_of
from motionkit.policies.sampling import sample
from motionkit.rl import DDIM, DDPM, NoiseSource, StepPlan
from motionkit.text import KnownTexts, Prompt

_log = logging.getLogger("motionkit.policies")

_NAMED = 4  # texts that a warning names

BATCH = 64
"""Motions that are sampled at once."""


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
    """Return the timesteps that ``motionkit generate`` visits by default; None where they are all."""
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

    A motion depends on its text, lengths, sample number and the seed, not on what else is generated with it.

    Args:
        policy: What is sampled.
        prompts: What is asked for.
        plan: Reverse steps.
        samples: Motions per prompt.
        guidance: Classifier-free guidance scale.
        seed: Seed of the noise.
        batch: Motions that are sampled at once, at least the samples of one prompt.

    Raises:
        MotionkitError: A prompt is refused, before anything is sampled.
    """
    policy.condition(prompts)  # refuses a prompt before anything is made; what it encodes stays cached
    count = max(1, batch // samples)
    for first in range(0, len(prompts), count):
        done = sample(
            policy, prompts[first : first + count], plan, NoiseSource(seed), samples=samples, guidance=guidance
        )
        joints, features = done.motions.joints.float().cpu(), done.motions.features.float().cpu()
        body, fps = policy.skeleton, policy.fps
        for row, prompt in enumerate(done.prompts):
            motion = JointMotion(body.joint_names, body.parents, joints[row, : prompt.length].double(), fps)
            yield MotionClip(
                motion,
                features=features[row, : prompt.length],
                captions=(Caption(prompt.text),),
                timed=_segments(prompt, fps),
                notes={"format": "generated", "unit": "m", "up": "y", "fps": f"{fps:g}"},
            )


def _segments(prompt: Prompt, fps: float) -> tuple[Caption, ...]:
    """Return the segments as captions with their seconds; none where there is one segment."""
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
        seconds: Seconds of each action; None shares 6 s equally.

    Raises:
        MotionkitError: There is no text, not one duration above 0 for each action, or an unknown word.
    """
    every = [texts] if isinstance(texts, str) else list(texts)
    if not every:
        raise MotionkitError("there is no text.", fix='policy.generate("a person walks")')
    prompts = [Prompt.parse(text, fps=policy.fps, durations=seconds) for text in every]
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


@runtime_checkable
class KnowsTexts(Protocol):
    """A policy that may know the texts that it was trained on."""

    def known_texts(self) -> KnownTexts | None:
        """Return them; None where they are not known."""
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
    ) -> list[MotionClip]:
        """Make motions from text, the same as ``motionkit generate``.

        Args:
            texts: One prompt or several; ``" | "`` separates actions that follow each other.
            durations: Seconds of each action; None shares 6 s equally.
            num_samples: Motions per prompt.
            guidance_scale: Classifier-free guidance; 1 is none. None takes the policy's own, which a run of ``grpo``
                stores in it, else 2.5.
            sampler: ``ddpm`` (ancestral) or ``ddim`` (deterministic, good with fewer steps).
            inference_timesteps: Reverse steps; 0 takes the policy's own number, else all that it was trained with.
            seed: Seed of the noise; a motion depends on it, its prompt and its number, not on what else is made.
            batch_size: Motions that are sampled at once.

        Returns:
            ``len(texts) * num_samples`` motions, those of a prompt in a row.

        Raises:
            MotionkitError: A prompt is empty, too long, or has words that the text encoder does not know.

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
        return list(
            generate_motions(self, prompts, plan, samples=num_samples, guidance=guidance, seed=seed, batch=batch_size)
        )
