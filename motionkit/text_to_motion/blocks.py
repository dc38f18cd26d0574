"""Motions longer than a policy makes at once: blocks that overlap and are sampled together, and how well they meet."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, dataclass, replace
from statistics import median
from typing import Any

import torch
from torch import Tensor

from motionkit.errors import MotionkitError
from motionkit.kernels import physics_sums
from motionkit.motion import MotionBatch, Representation
from motionkit.page.wording import joined
from motionkit.rl import NoiseSource, StepPlan, rollout, stable_hash
from motionkit.text import SEPARATOR, Prompt
from motionkit.text_to_motion.policy import DiffusionPolicy

OVERLAP = 1.0
"""Seconds that two blocks have in common, half of them before the seam. Of 0.5, 1, 2 and 3 s, 1 s joined the starter
policy's motions best."""

LONGEST = 100_000
"""Frames of the longest motion that is made of blocks: what memory holds, not what a policy can do."""


@dataclass(frozen=True)
class Block:
    """A part of a motion that a policy makes at once."""

    first: int  # Frame of the motion at which it begins to count, the seam with the block before
    last: int  # Frame past its own, the seam with the block after
    start: int  # Frame of the motion at which it starts: earlier than `first` where it overlaps the block before
    stop: int  # Frame past its last
    prompt: Prompt  # What the policy is asked for, of ``stop - start`` frames and what it needs to spare


def with_spare(policy: DiffusionPolicy, prompt: Prompt) -> Prompt:
    """Return a prompt with the frames more that a policy needs for a sound end, where it can make so many."""
    more = policy.spare(prompt.length)
    if not more or prompt.length + more > policy.max_length:
        return prompt
    return replace(prompt, frames=(*prompt.frames[:-1], prompt.frames[-1] + more))


def is_long(policy: DiffusionPolicy, prompt: Prompt) -> bool:
    """Return whether a prompt is made of blocks: it is longer than what the policy makes at once."""
    return prompt.length > policy.max_length and not policy.block


def blocks_of(policy: DiffusionPolicy, prompt: Prompt) -> list[Block]:
    """Divide a prompt into blocks.

    A block has as many whole actions as the policy makes at once. An action that is too long for that has blocks of
    its own: whole ones, the last two of equal length where the last would be less than half of one. The frames of a
    block that overlap another one go on with its own first or last action.

    Raises:
        MotionkitError: The motion has more than `LONGEST` frames, or the policy's blocks cannot be joined.
    """
    if not policy.joins:
        raise MotionkitError(
            f"{prompt.segments[0]!r} and what follows are {prompt.length} frames; the policy makes at most "
            f"{policy.max_length}.",
            why="its features hold places in the world, and averaging overlapping blocks would tear the path.",
            fix=f"shorten --durations to {policy.max_length / policy.fps:.1f} s in total.",
        )
    if prompt.length > LONGEST:
        raise MotionkitError(
            f"{prompt.segments[0]!r} and what follows are {prompt.length} frames; at most {LONGEST} are made.",
            fix=f"shorten --durations to {LONGEST / policy.fps:.0f} s in total.",
        )
    half = half_overlap(policy)
    parts = _divided(prompt, _longest(policy) - 2 * half)
    blocks, first = [], 0
    for number, part in enumerate(parts):
        last = first + sum(frames for _, frames in part)
        start = max(first - half, 0) if number else first
        stop = min(last + half, prompt.length)
        frames = [length for _, length in part]
        frames[0] += first - start
        frames[-1] += stop - last
        asked = replace(prompt, segments=tuple(text for text, _ in part), frames=tuple(frames))
        blocks.append(Block(first, last, start, stop, with_spare(policy, asked)))
        first = last
    return blocks


def half_overlap(policy: DiffusionPolicy) -> int:
    """Return the frames before and after a seam that both blocks make."""
    return min(round(OVERLAP * policy.fps / 2), policy.max_length // 4)


def _longest(policy: DiffusionPolicy) -> int:
    """Return the frames of the longest block, so that the policy can make what it needs to spare as well."""
    most = policy.max_length
    return next((frames for frames in range(most, 0, -1) if frames + policy.spare(frames) <= most), most)


def _divided(prompt: Prompt, most: int) -> list[list[tuple[str, int]]]:
    """Return the texts and lengths of each block, without overlaps; none is longer than `most`."""
    parts: list[list[tuple[str, int]]] = []
    for text, length in zip(prompt.segments, prompt.frames, strict=True):
        if length > most:
            pieces = [most] * (length // most) + ([length % most] if length % most else [])
            if len(pieces) > 1 and pieces[-1] < most / 2:
                both = pieces[-2] + pieces[-1]
                pieces[-2:] = [both - both // 2, both // 2]
            parts += [[(text, piece)] for piece in pieces]
        elif parts and sum(frames for _, frames in parts[-1]) + length <= most:
            parts[-1].append((text, length))
        else:
            parts.append([(text, length)])
    return parts


@torch.no_grad()
def sample_blocks(
    policy: DiffusionPolicy,
    prompt: Prompt,
    plan: StepPlan,
    noise: NoiseSource,
    *,
    samples: int = 1,
    guidance: float = 1.0,
    batch: int = 64,
) -> MotionBatch:
    """Sample a motion of any length, in blocks that overlap.

    There is one noisy motion. At each step the policy predicts every block of it, and where two blocks overlap the
    predictions are blended, from all of the one to all of the other (the handshake of DoubleTake, arXiv:2303.01418,
    with the mean at every step, as in MultiDiffusion, arXiv:2302.08113). Neighbours therefore agree on their overlap
    while it is still noise. Features are relative to the body, so the path continues over a seam.

    A frame's noise follows from the seed, the first action (of a dataset's prompt its key), the sample and its own
    number: it does not depend on the blocks after it.

    Args:
        policy: What is sampled.
        prompt: What is asked for.
        plan: Reverse steps.
        noise: Where noise comes from.
        samples: S, motions.
        guidance: Classifier-free guidance scale.
        batch: Blocks that the network is asked for at once.

    Returns:
        S motions of ``prompt.length`` frames.
    """
    device, width = policy.normalizer.mean.device, policy.normalizer.mean.shape[-1]
    blocks = blocks_of(policy, prompt)
    rows = torch.arange(len(blocks), device=device).repeat_interleave(samples)
    condition = policy.condition([block.prompt for block in blocks]).select(rows)
    lengths = torch.tensor([block.prompt.length for block in blocks], device=device)[rows]
    size = policy.frames(lengths)
    total = max(block.start for block in blocks) + size  # the last blocks may be padded beyond the end
    weights = _weights(blocks, total, half_overlap(policy)).to(device)
    keys = torch.full((samples,), stable_hash(_noise_of(prompt)), device=device)
    numbers = torch.arange(samples, device=device)

    def predict(x: Tensor, timestep: Tensor) -> Tensor:
        # Block after block, the samples of each in a row: [B S, size, D].
        parts = torch.cat([x[:, block.start : block.start + size] for block in blocks])
        steps = timestep[:1].expand(len(parts))
        made = [
            policy.predict(part, step, condition.select(row), length, guidance=guidance)
            for part, step, row, length in zip(
                parts.split(batch),
                steps.split(batch),
                torch.arange(len(parts), device=device).split(batch),
                lengths.split(batch),
                strict=True,
            )
        ]
        joined = torch.zeros_like(x)
        for number, (block, part) in enumerate(zip(blocks, torch.cat(made).split(samples), strict=True)):
            span = slice(block.start, block.start + size)
            # What lies past a block's end may hold anything, NaN included.
            share = weights[number, span, None]
            joined[:, span] += torch.where(share > 0, share * part, 0.0)
        return joined

    shape = (total, width)
    done = rollout(
        predict, plan, noise.start(0, keys, numbers, shape), noise.steps(0, keys, numbers, shape), record=False
    )
    features = policy.normalizer.denormalize(done.x0[:, : prompt.length])
    whole = torch.full((samples,), prompt.length, device=device)
    return MotionBatch(features, whole, skeleton=policy.skeleton, fps=policy.fps)


def _noise_of(prompt: Prompt) -> str:
    """Return what a prompt's noise follows from: its key, or of a typed text, whose key it is, the first action."""
    typed = tuple(part.strip() for part in prompt.key.split(SEPARATOR)) == prompt.segments
    return prompt.segments[0] if typed or not prompt.key else prompt.key


def _weights(blocks: Sequence[Block], total: int, half: int) -> Tensor:
    """Return how much of a frame comes from each block, ``[B, total]``: 1 in all, ramps `half` frames around seams."""
    middle = torch.arange(total) + 0.5
    rows = []
    for number, block in enumerate(blocks):
        row = torch.ones(total)
        if number:
            row = ((middle - block.first + half) / (2 * half)).clamp(0, 1) if half else (middle > block.first).float()
        if number < len(blocks) - 1:
            down = ((block.last + half - middle) / (2 * half)).clamp(0, 1) if half else (middle < block.last).float()
            row = torch.minimum(row, down)
            # Frames that the block is not asked for; those of the last one are past the motion's end.
            row[block.stop :] = 0.0
        rows.append(row)
    weights = torch.stack(rows)
    return weights / weights.sum(0)


@dataclass(frozen=True)
class Seams:
    """What is measured at the seams of a motion. Distances are in metres, skate in m/s, jerk in m/s^3."""

    frames: tuple[int, ...]  # The first frame after each seam
    # How far a joint is from where it would be if it went on as before, mean over joints, at each seam: the worse one
    # of the two frames there. A motion of constant speed has 0.
    misses: tuple[float, ...]
    most: float  # The farthest joint of all seams
    inside: float  # The same miss inside blocks, the median over frames
    inside_most: float  # and the farthest joint there
    skate: float  # Foot skate within half an overlap of a seam
    skate_inside: float  # and farther away
    jerk: float
    jerk_inside: float

    def document(self) -> dict[str, Any]:
        """Return the measures as JSON values."""
        return asdict(self)

    def sentence(self, fps: float) -> str:
        """Return the measures in words, with the seconds of the seams."""
        times = joined([f"{frame / fps:.1f}" for frame in self.frames])
        miss, most, inside, farthest = (
            1000 * value for value in (median(self.misses), self.most, self.inside, self.inside_most)
        )
        return (
            f"Joined of {len(self.frames) + 1} blocks, at {times} s of the motion as it was made: joints are "
            f"{miss:.0f} mm off their way there (one {most:.0f} mm), inside a block {inside:.0f} mm "
            f"(one {farthest:.0f} mm)."
        )


def seam_rows(motions: Sequence[Seams], of: int) -> list[tuple[str, str]]:
    """Return rows of a table on the seams of some motions, of `of` that were made; medians over seams and motions."""
    misses = [miss for seams in motions for miss in seams.misses]

    def middle(name: str) -> float:
        return float(median(getattr(seams, name) for seams in motions))

    most, farthest = (1000 * max(getattr(motion, name) for motion in motions) for name in ("most", "inside_most"))
    at, inside = 1000 * median(misses), 1000 * middle("inside")
    return [
        ("motions joined of blocks", f"{len(motions)} of {of}, {len(misses)} seams"),
        ("joints off their way, mm", f"{at:.1f} at seams (one {most:.0f}), {inside:.1f} inside (one {farthest:.0f})"),
        ("jerk, m/s^3", f"{middle('jerk'):.0f} near seams, {middle('jerk_inside'):.0f} inside"),
        ("foot skate, m/s", f"{middle('skate'):.3f} near seams, {middle('skate_inside'):.3f} inside"),
    ]


def seams_of(policy: DiffusionPolicy, prompt: Prompt, joints: Tensor) -> Seams | None:
    """Return what is measured at the seams of a motion ``[T, J, 3]`` that a policy made; None if it has none."""
    blocks = blocks_of(policy, prompt) if is_long(policy, prompt) else ()
    return measure_seams(joints, blocks, policy.skeleton, policy.fps) if len(blocks) > 1 else None


def measure_seams(joints: Tensor, blocks: Sequence[Block], skeleton: Representation, fps: float) -> Seams:
    """Measure how well blocks meet.

    Args:
        joints: ``[T, J, 3]`` metres.
        blocks: At least two.
        skeleton: The body.
        fps: Frames per second.
    """
    frames = [block.first for block in blocks[1:]]
    half = max(round(OVERLAP * fps / 2), 2)
    joints = joints.double()
    # [T - 2]: row i is of frame i + 1.
    misses = (joints[2:] - 2 * joints[1:-1] + joints[:-2]).norm(dim=-1)
    mean = misses.mean(-1)
    near = torch.zeros(len(joints), dtype=torch.bool)
    for frame in frames:
        near[max(frame - half, 0) : frame + half] = True
    # The two frames whose step leads over the seam are the last of one block and the first of the next.
    worst = [float(mean[max(frame - 2, 0) : frame].max()) for frame in frames]
    away = ~near[1:-1]
    inside = mean[away] if bool(away.any()) else mean
    skate, jerk = _physics([joints[max(frame - half, 0) : frame + half] for frame in frames], skeleton, fps)
    ends = [0, *(frame + half for frame in frames)], [*(frame - half for frame in frames), len(joints)]
    rest = [joints[start:stop] for start, stop in zip(*ends, strict=True) if stop - start > 3]
    skate_inside, jerk_inside = _physics(rest or [joints], skeleton, fps)
    return Seams(
        tuple(frames),
        tuple(worst),
        max(float(misses[max(frame - 2, 0) : frame].max()) for frame in frames),
        float(inside.median()),
        float((misses[away] if bool(away.any()) else misses).max()),
        *(skate, skate_inside),
        *(jerk, jerk_inside),
    )


def _physics(pieces: Sequence[Tensor], skeleton: Representation, fps: float) -> tuple[float, float]:
    """Return the mean skate and jerk of pieces of a motion."""
    lengths = torch.tensor([len(piece) for piece in pieces])
    padded = torch.nn.utils.rnn.pad_sequence(list(pieces), batch_first=True)
    skate, jerk = physics_sums(padded, lengths, fps=fps, feet=skeleton.feet)
    return float(skate.mean()), float(jerk.mean())
