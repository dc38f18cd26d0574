"""Prompts and motions of several actions, joined from single clips.

Motions are joined by `reference_joints`, with poses that are blended at the seams, and prompts by `join_prompts`.
`read_sources` gives the clips that a set is joined from; splits that share some of them are found by
`shared_groups`. `physics_medians` are the foot skate and jerk of single clips, for comparison.
"""

from __future__ import annotations

import hashlib
import json
import math
import random
from collections.abc import Collection, Iterable, Sequence
from contextlib import suppress
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path
from typing import get_args

import torch
from torch import Tensor

from motionkit.config import cache_folder
from motionkit.contracts.dataset import TextClip, TextMotionDataset
from motionkit.documents import read_json
from motionkit.errors import MotionkitError
from motionkit.geometry import (
    bones_from_positions,
    heading,
    matrix_from_rotvec,
    matrix_to_rotvec,
    positions_from_bones,
    rotate_yaw,
    rotation_between,
)
from motionkit.kernels import physics_sums
from motionkit.motion import Skeleton, features_to_joints, joints_to_features, original, with_frame_after
from motionkit.motion.corpus.ids import Split
from motionkit.runs import write_bytes_atomic
from motionkit.text import Prompt

_VERSION = 1  # of the cached medians
_BATCH = 64  # clips measured at a time
BLEND = 0.2  # seconds on each side of a seam in which poses are blended
MIN_SEGMENT = 36  # shortest segment in frames, the shortest training window of TMR and the evaluator


def shared_motions(some: Collection[str], others: Collection[str]) -> list[str]:
    """Return the motions that two lists of clip ids share, mirrored or not; sorted."""
    names = {*some, *others}
    return sorted({original(name, names) for name in some} & {original(name, names) for name in others})


def physics_medians(clips: Sequence[TextClip], skeleton: Skeleton, fps: float) -> tuple[float, float]:
    """Return the median foot skate (m/s) and median jerk (m/s^3) over clips.

    The result is cached in `motionkit.config.cache_folder`, under a hash of the motions. A cache that cannot be written
    is not an error.

    Args:
        clips: At least one; clips shorter than 4 frames have no jerk and are not used.
        skeleton: Body of the features.
        fps: Frames per second.
    """
    path = cache_folder() / f"physics-{_fingerprint(clips, skeleton, fps)}.json"
    if (cached := _load(path)) is not None:
        return cached
    skates, jerks = [], []
    usable = [clip.features for clip in clips if len(clip.features) >= 4]
    for start in range(0, len(usable), _BATCH):
        skate, jerk = _measure(usable[start : start + _BATCH], skeleton, fps)
        skates.append(skate)
        jerks.append(jerk)
    medians = (float(torch.cat(skates).median()), float(torch.cat(jerks).median()))
    _store(path, medians)
    return medians


def _measure(features: Sequence[Tensor], skeleton: Skeleton, fps: float) -> tuple[Tensor, Tensor]:
    lengths = torch.tensor([len(clip) for clip in features])
    joints = features_to_joints(torch.nn.utils.rnn.pad_sequence(list(features), batch_first=True), skeleton, lengths)
    return physics_sums(joints, lengths, fps=fps, feet=skeleton.feet)


def _fingerprint(clips: Sequence[TextClip], skeleton: Skeleton, fps: float) -> str:
    digest = hashlib.sha256(f"{_VERSION} {skeleton.name} {fps}".encode())
    for clip in clips:
        digest.update(f"{clip.key} {tuple(clip.features.shape)}".encode())
        digest.update(clip.features.contiguous().numpy().tobytes())
    return digest.hexdigest()[:24]


def _load(path: Path) -> tuple[float, float] | None:
    try:
        medians = read_json(path, list)
    except MotionkitError:
        return None
    match medians:
        case [float(skate), float(jerk)] if math.isfinite(skate) and math.isfinite(jerk):
            return skate, jerk
    return None


def _store(path: Path, medians: tuple[float, float]) -> None:
    with suppress(OSError):
        path.parent.mkdir(parents=True, exist_ok=True)
        write_bytes_atomic(path, json.dumps(medians).encode())


def blend_seam(before: Tensor, after: Tensor, skeleton: Skeleton, fps: float) -> None:
    """Blend the last pose of one piece and the first of the next, in place.

    Every bone is turned by a part of the smallest rotation between its directions in the two poses, so that limbs keep
    their lengths; lengths that differ between the pieces are interpolated. The body is then moved vertically so that
    its lowest joint is between those of the two pieces: feet that are on the ground before and after stay there. The
    correction fades out over `BLEND` seconds on both sides.

    Args:
        before: ``[T, J, 3]`` metres; its last frame is at the time of the first frame of `after`.
        after: ``[T', J, 3]``.
        skeleton: The body.
        fps: Frames per second.
    """
    parents = skeleton.parents
    first, second = bones_from_positions(before[-1], parents), bones_from_positions(after[0], parents)
    # One rotation for both sides: opposite directions have no unique smallest one.
    turn = matrix_to_rotvec(rotation_between(first, second))
    # [J, 3] rotation vectors from the directions of the bones before the seam to those after it; [J, 1] metres.
    longer = (second.norm(dim=-1) - first.norm(dim=-1))[:, None]
    ground = 0.5 * (before[-1, :, 1].min() + after[0, :, 1].min())
    frames = [min(max(round(BLEND * fps), 1), len(piece) - 1) for piece in (before, after)]
    for part, share, sign in (
        (before[len(before) - frames[0] :], _fading(frames[0]).flip(0), 1.0),
        (after[: frames[1]], _fading(frames[1]), -1.0),
    ):
        # [frames, 1, 1] share of the correction: the last pose goes half-way forward, the next half-way back.
        step = (0.5 * sign * share).to(part)[:, None, None]
        bones = bones_from_positions(part, parents)
        turned = (matrix_from_rotvec(step * turn) @ bones[..., None])[..., 0]
        turned = turned * (1 + step * longer / bones.norm(dim=-1, keepdim=True).clamp_min(1e-9))
        turned[:, 0] = bones[:, 0] + step[:, 0] * (second - first)[0]
        joints = positions_from_bones(turned, parents)
        lowest = torch.lerp(part[..., 1].amin(1), ground, share.to(part))
        joints[..., 1] += (lowest - joints[..., 1].amin(1))[:, None]
        part.copy_(joints)


def _fading(frames: int) -> Tensor:
    """Return the weights of the correction from the seam outwards, from 1 to nearly 0."""
    return 0.5 * (1 + torch.cos(math.pi * torch.arange(frames, dtype=torch.float64) / frames))


def reference_joints(windows: Sequence[Tensor], skeleton: Skeleton, fps: float) -> Tensor:
    """Join feature windows into one motion.

    Each window starts at the position and heading where the one before ends, and the seam is blended (`blend_seam`).
    The transitions are not captured motion: the result is a rough reference.

    Args:
        windows: K feature windows ``[T_k, D]``, not normalised.
        skeleton: Body of the features.
        fps: Frames per second.

    Returns:
        ``[sum T_k + 1, J, 3]`` float64 metres; one frame more than the features that are computed from it have.
    """
    pieces: list[Tensor] = []
    for window in windows:
        joints = with_frame_after(window.double(), skeleton)
        if pieces:
            # The heading of the body, since that of the features is smoothed over a second and lags in turns.
            end = pieces[-1][-1]
            turn = _bearing(end, skeleton) - _bearing(joints[0], skeleton)
            joints = rotate_yaw(joints, turn)
            # Move horizontally; heights stay.
            joints = joints + (end[0] - joints[0, 0]) * joints.new_tensor([1.0, 0.0, 1.0])
        pieces.append(joints)
    # The last frame of a piece and the first of the next are at the same time.
    for before, after in pairwise(pieces):
        blend_seam(before, after, skeleton, fps)
    return torch.cat([*(piece[:-1] for piece in pieces[:-1]), pieces[-1]])


def reference_features(joints: Tensor, skeleton: Skeleton) -> Tensor:
    """Return the ``[T, D]`` float32 features of `reference_joints` (``[T + 1, J, 3]``)."""
    return joints_to_features(joints.double(), skeleton, target=False).float()


def _bearing(pose: Tensor, skeleton: Skeleton) -> Tensor:
    """Return the yaw of the line through hips and shoulders of a pose ``[J, 3]``."""
    right_hip, left_hip, right_shoulder, left_shoulder = skeleton.face_joints
    return heading(pose[right_hip] - pose[left_hip] + pose[right_shoulder] - pose[left_shoulder])


@dataclass(frozen=True)
class Source:
    """One clip that may become a segment."""

    clip: TextClip
    file: str  # id of its motion; several timed captions may share one
    start: int  # its first frame in that motion
    group: str  # a motion, its parts and its mirror image; clips of one group are not combined

    @property
    def frames(self) -> int:
        """Length of the clip."""
        return len(self.clip.features)


def read_sources(dataset: TextMotionDataset, split: Split) -> list[Source]:
    """Return the clips of one split that have a caption."""
    clips = [clip for clip in dataset.clips(split) if any(text.strip() for text in clip.captions)]
    if not clips:
        raise MotionkitError(f"the {split} split of {dataset.name} has no clip with a caption.")
    files = {_file(clip) for clip in clips}
    return [Source(clip, _file(clip), clip.start, original(_file(clip), files)) for clip in clips]


def shared_groups(dataset: TextMotionDataset, split: Split, sources: Sequence[Source]) -> dict[Split, list[str]]:
    """Return, for each other split, the groups of `sources` that are in it too, so for training and measuring."""
    result: dict[Split, list[str]] = {}
    groups = {source.group for source in sources}
    for other_split in get_args(Split):
        if other_split == split:
            continue
        try:
            ids = set(dataset.split_ids(other_split))
        except MotionkitError:
            continue
        if both := shared_motions(groups, ids):
            result[other_split] = both
    return result


def fingerprint(dataset: TextMotionDataset, split: Split, sources: Sequence[Source], used: Iterable[Source]) -> str:
    """Return a hash of the split's clip ids, lengths and captions, and of the motions that were used."""
    digest = hashlib.sha256(f"{dataset.name} {split} {dataset.skeleton.name} {dataset.fps}\n".encode())
    for source in sources:
        digest.update(f"{source.clip.key} {source.frames} {source.clip.captions}\n".encode())
    used_ids = {id(source) for source in used}
    for source in sources:
        if id(source) in used_ids:
            digest.update(source.clip.features.contiguous().numpy().tobytes())
    return digest.hexdigest()[:32]


def _file(clip: TextClip) -> str:
    return clip.source or clip.key


def join_prompts(
    singles: Sequence[Prompt], k_segments: int, *, seed: int, max_length: int, unit: int = 4
) -> tuple[Prompt, ...]:
    """Join K one-segment prompts into each of ``len(singles)`` prompts, the same ones for the same seed.

    Prompt i begins with ``singles[i]``; the others are drawn from different clips. A segment is as long as its source,
    unless the total exceeds `max_length`; see `fit_lengths`.

    Args:
        singles: One-segment prompts with a source clip each; those shorter than `MIN_SEGMENT` are not used.
        k_segments: K.
        seed: Chooses the clips.
        max_length: Longest total in frames.
        unit: Segment lengths are multiples of it.
    """
    if k_segments * MIN_SEGMENT > max_length:
        raise MotionkitError(
            f"{k_segments} segments do not fit into {max_length} frames.",
            why=f"a segment has at least {MIN_SEGMENT} frames.",
            fix="use fewer segments or a larger --dataset.max-length.",
        )
    usable = [prompt for prompt in singles if prompt.length >= MIN_SEGMENT]
    clips = {_clip(prompt) for prompt in usable}
    if len(clips) < k_segments:
        raise MotionkitError(
            f"prompts of {k_segments} segments need {k_segments} different clips, this split has {len(clips)}."
        )
    rng = random.Random(f"join {seed} {k_segments}")
    joined = []
    for first in usable:
        parts, used = [first], {_clip(first)}
        while len(parts) < k_segments:
            drawn = usable[rng.randrange(len(usable))]
            if _clip(drawn) not in used:
                parts.append(drawn)
                used.add(_clip(drawn))
        joined.append(_joined(parts, max_length, unit))
    return tuple(joined)


def fit_lengths(lengths: Sequence[int], max_length: int, *, unit: int = 4) -> tuple[int, ...]:
    """Cut the longest lengths to a common one, a multiple of `unit`, so that the sum is at most `max_length`.

    Example:
        >>> fit_lengths([60, 120, 100], max_length=196)
        (60, 68, 68)
    """
    remaining, cap = max_length, max(lengths)
    for place, length in enumerate(sorted(lengths)):
        share = remaining // (len(lengths) - place)
        if length > share:
            cap = max(share // unit * unit, unit)
            break
        remaining -= length
    return tuple(min(length, cap) for length in lengths)


def join_texts(texts: Sequence[str]) -> str:
    """Return captions as one sentence: "First a, then b, finally c".

    Punctuation at the end of captions is removed.

    Example:
        >>> join_texts(["a man walks.", "he jumps", "he sits down"])
        'First a man walks, then he jumps, finally he sits down'
    """
    parts = [text.strip().rstrip(".,;:!? ") or text.strip() for text in texts]
    middle = [f"then {part}" for part in parts[1:-1]]
    return ", ".join([f"First {parts[0]}", *middle, f"{'finally' if middle else 'then'} {parts[-1]}"])


def _clip(prompt: Prompt) -> str:
    return prompt.source_ids[0] if prompt.source_ids else prompt.key


def _joined(parts: Sequence[Prompt], max_length: int, unit: int) -> Prompt:
    return Prompt(
        segments=tuple(part.segments[0] for part in parts),
        frames=fit_lengths([part.length for part in parts], max_length, unit=unit),
        key=" + ".join(part.key for part in parts),
        source_ids=tuple(_clip(part) for part in parts),
    )
