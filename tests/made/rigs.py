"""Movements of the starter on its own rig, and on another one."""

from __future__ import annotations

import roma
import torch

from motionkit.geometry import accumulate_rotations
from motionkit.motion import HUMANML, Motion
from motionkit.rigs._solve_rotations import to_local
from motionkit.starter import OFFSETS, PARENTS, generate


def starter_rig(action: str, *, seed: int = 1, frames: int = 60) -> Motion:
    made = generate(action, frames=frames, seed=seed)
    offsets = torch.from_numpy(OFFSETS.copy())
    translations = offsets.repeat(frames, 1, 1)
    translations[:, 0] = torch.from_numpy(made.root)
    return Motion(HUMANML.joint_names, PARENTS, offsets, torch.from_numpy(made.rotations), translations, made.fps)


def other_rig(motion: Motion, scale: float = 0.8) -> Motion:
    """Return the same movement of a smaller rig with other names, whose rest pose is no pose of a body.

    Each joint's axes are turned by a constant of its own, so that its bones at rest point anywhere.
    """
    torch.manual_seed(3)
    turns = roma.random_rotmat(22, dtype=torch.float64)
    world = accumulate_rotations(motion.rotations, motion.parents) @ turns
    above = turns[[max(parent, 0) for parent in motion.parents]]
    offsets = scale * (above.mT @ motion.offsets[..., None])[..., 0]
    offsets[0] = scale * motion.offsets[0]
    translations = offsets.repeat(motion.frames, 1, 1)
    translations[:, 0] = scale * motion.translations[:, 0]
    names = tuple(f"Bip_{name}" for name in motion.names)
    return Motion(names, motion.parents, offsets, to_local(world, motion.parents), translations, motion.fps)
