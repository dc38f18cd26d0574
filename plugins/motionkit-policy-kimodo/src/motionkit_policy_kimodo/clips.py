"""Clips of a dataset in Kimodo's features: at its rate, on its body; and the body and text vectors of the starter."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import numpy as np
import torch
from torch import Tensor

from motionkit import starter
from motionkit.contracts.dataset import TextClip
from motionkit.errors import MotionkitError
from motionkit.geometry import bones_from_positions, positions_from_bones
from motionkit.motion import HUMANML, JointMotion, Motion, Skeleton, with_frame_after
from motionkit.rigs import RestRig, Rig, joint_frames, onto_rig, solve
from motionkit.text_to_motion.data.starter_clips import cached
from motionkit.text_to_motion.trained import clips_fingerprint
from motionkit_policy_kimodo.representation import KimodoRepresentation
from motionkit_policy_kimodo.skeletons import Body, smplx_body
from motionkit_policy_kimodo.texts import KNOWN, clean, write_vectors

_SAME = 0.005  # metres that bones may be off before a motion is brought to other bones
_VERSION = 2  # of cached features


def own_body(clip: TextClip, skeleton: Skeleton | KimodoRepresentation) -> Body:
    """Return the body of a clip; of HumanML3D's features the layout of SMPL-X's 22 joints on its bones, in a T-pose."""
    if isinstance(skeleton, KimodoRepresentation):
        return skeleton.body
    solved = solve(_joints(with_frame_after(clip.features, skeleton), skeleton.fps)).motion
    return smplx_body(positions_from_bones(solved.offsets[: HUMANML.joints], HUMANML.parents))


def encode_clips(
    clips: Sequence[TextClip],
    skeleton: Skeleton | KimodoRepresentation,
    fps: float,
    representation: KimodoRepresentation,
) -> list[Tensor]:
    """Return the features ``[T, D]`` of clips of a representation's body and rate, from a cache if known.

    Those of clips that have them already are returned as they are.
    """
    body = representation.body
    if isinstance(skeleton, KimodoRepresentation):
        if skeleton.name != body.name:
            raise MotionkitError(
                f"the clips are of the body {skeleton.name}, the model is of {body.name}.", fix="choose another --init."
            )
        return [clip.features for clip in clips]
    bones = np.round(body.offsets.numpy(), 4).tobytes().hex()
    key = f"kimodo {_VERSION} {body.name} {bones} {representation.fps} {clips_fingerprint(clips)}"

    def make() -> np.ndarray:
        made = encode_all([_placed(clip, skeleton, fps, representation) for clip in clips], representation)
        sizes = torch.zeros(len(made), representation.width)
        sizes[:, 0] = torch.tensor([len(features) for features in made])
        return torch.cat([sizes, *made]).numpy()

    table = torch.from_numpy(np.array(cached(key, make)))
    return list(torch.split(table[len(clips) :], table[: len(clips), 0].long().tolist()))


def encode_all(placed: Sequence[tuple[Tensor, Tensor]], representation: KimodoRepresentation) -> list[Tensor]:
    """Return the features ``[T, D]`` of rotations in the world ``[T, J, 3, 3]`` and the root's places ``[T, 3]``."""
    lengths = torch.tensor([len(root) for _, root in placed])
    made = [torch.empty(0)] * len(placed)
    for length in lengths.unique():  # clips of one length are encoded together
        rows = (lengths == length).nonzero().flatten().tolist()
        rotations, roots = (torch.stack([placed[row][part] for row in rows]).float() for part in (0, 1))
        for row, features in zip(rows, representation.encode(rotations, roots), strict=True):
            made[row] = features
    return made


def _placed(
    clip: TextClip, skeleton: Skeleton, fps: float, representation: KimodoRepresentation
) -> tuple[Tensor, Tensor]:
    """Return rotations in the world ``[T, J, 3, 3]`` and the root's places ``[T, 3]`` of a clip on the body."""
    body = representation.body
    joints = resampled(with_frame_after(clip.features, skeleton).double(), fps, representation.fps)
    if len(body) == HUMANML.joints:
        bones = bones_from_positions(joints, HUMANML.parents)[:, 1:].norm(dim=-1).mean(0)
        if float((bones - body.offsets[1:].norm(dim=-1)).abs().max()) <= _SAME:  # its own bones
            rig = RestRig(HUMANML.joint_names, HUMANML.parents, body.offsets.double())
            return joint_frames(joints, rig, representation.fps), joints[:, 0]
    brought: Motion = onto_rig(_joints(joints, representation.fps), _rig(body)).motion
    return body.world(brought.rotations), brought.translations[:, 0]


def _joints(joints: Tensor, fps: float) -> JointMotion:
    return JointMotion(HUMANML.joint_names, HUMANML.parents, joints.double(), fps)


def _rig(body: Body) -> Rig:
    rest = positions_from_bones(body.offsets, body.parents)
    offsets = body.offsets.clone()
    offsets[0, 1] = -float(rest[:, 1].min())  # it stands on the floor
    return Rig(body.name, body.joint_names, body.parents, tuple((x, y, z) for x, y, z in offsets.tolist()))


def resampled(joints: Tensor, fps: float, to: float) -> Tensor:
    """Return joints ``[T, J, 3]`` at another rate, by a natural cubic spline; linear ones would jerk at each frame."""
    frames, x = len(joints), joints.flatten(1)
    if fps == to or frames < 3:
        return joints
    inner = torch.arange(1, frames - 1)
    system = torch.eye(frames, dtype=x.dtype)
    system[inner, inner], system[inner, inner - 1], system[inner, inner + 1] = 4.0, 1.0, 1.0
    right = torch.zeros_like(x)
    right[1:-1] = 6 * (x[2:] - 2 * x[1:-1] + x[:-2])
    bend = torch.linalg.solve(system, right)
    place = torch.arange(int((frames - 1) * to / fps + 1e-6) + 1, dtype=x.dtype) * (fps / to)
    before = place.long().clamp(max=frames - 2)
    u = (place - before)[:, None]
    w = 1 - u
    made: Tensor = w * x[before] + u * x[before + 1]
    made += ((w**3 - w) * bend[before] + (u**3 - u) * bend[before + 1]) / 6
    return made.view(-1, *joints.shape[1:])


def write_starter_table(path: Path) -> Path:
    """Write the starter's own text vectors as a table for a small model, of 384 numbers of size 1, and return it."""
    texts, vectors = starter.embeddings()
    table = {clean(text): vector * len(vector) ** 0.5 for text, vector in zip(texts, vectors, strict=True)}
    table.setdefault(KNOWN, next(iter(table.values())))
    write_vectors(path, table, encoder="motionkit starter")
    return path
