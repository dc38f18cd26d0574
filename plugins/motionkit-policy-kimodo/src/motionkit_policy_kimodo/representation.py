"""Kimodo's features of a frame: a smoothed root, and joints, rotations, velocities and contacts beside it.

Of J joints there are D = 12 J + 9: the smoothed root (x and z smoothed, y true), the heading (cosine, sine), joint
positions less the smoothed x and z, the first two columns of each joint's rotation in the world, joint velocities in
metres per second, and contacts of four joints of the feet. Metres, Y up, +Z is heading 0 and +X a quarter turn.
"""

from __future__ import annotations

from functools import cache, cached_property

import torch
import torch.nn.functional as F
from torch import Tensor

from motionkit.geometry import matrix_from_6d, matrix_to_6d, positions_from_bones, rotate_yaw
from motionkit.motion import HUMANML, Motion, Representation
from motionkit.motion.changes.poses import limbs
from motionkit.rigs.rest import rest_rig
from motionkit.rl import length_mask
from motionkit_policy_kimodo import FPS
from motionkit_policy_kimodo.skeletons import Body
from motionkit_policy_kimodo.texts import TextTable

ROOT = 5  # features of the smoothed root and the heading, which the first stage of the network predicts
LOCAL = 4  # features of the root as the second stage reads it: turning speed, x and z speed, height

_RADIUS = 0.06  # metres that the smoothed path may be off
_ROUNDS = 500
_SHORTEST = 5  # frames of a path that is smoothed
_FAST, _HIGH = 0.15, 0.10  # metres per second, metres: below both a foot is in contact


class KimodoRepresentation(Representation):
    """The features of a body.

    Features are not normalised. Padding may hold anything, NaN included: frames past `lengths` are those of a body at
    rest, and have no gradient.

    Args:
        body: The body.
        fps: Frames per second.

    Attributes:
        texts: Text vectors of the policy that makes the motions, for rewards that read texts as it does.
    """

    texts: TextTable | None = None

    def __init__(self, body: Body, fps: float = FPS) -> None:
        self.body, self.fps = body, fps
        self.name, self.joint_names, self.parents, self.feet = body.name, body.joint_names, body.parents, body.feet
        self.humanml, self.radii = body.humanml, body.radii

    @property
    def width(self) -> int:
        """Features of a frame, D."""
        return 12 * len(self.body) + 9

    @cached_property
    def parts(self) -> dict[str, slice]:
        """Columns of ``root``, ``heading``, ``positions``, ``rotations``, ``velocities`` and ``contacts``."""
        joints = len(self.body)
        sizes = {
            "root": 3, "heading": 2, "positions": 3 * joints, "rotations": 6 * joints, "velocities": 3 * joints,
            "contacts": 4,
        }  # fmt: skip
        ends = torch.tensor(list(sizes.values())).cumsum(0).tolist()
        return {name: slice(end - size, end) for (name, size), end in zip(sizes.items(), ends, strict=True)}

    def encode(self, rotations: Tensor, root: Tensor) -> Tensor:
        """Return the features ``[..., T, D]`` of clips; there is no gradient through the smoothing.

        Args:
            rotations: ``[..., T, J, 3, 3]``, each in the world.
            root: ``[..., T, 3]`` metres, T at least 2.
        """
        joints = self.body.joints(rotations, root)
        angle = self.facing(joints)
        smooth = smooth_path(root[..., [0, 2]].detach()).to(root)
        velocities, contacts = self.moving(joints)
        return torch.cat(
            [
                torch.stack([smooth[..., 0], root[..., 1], smooth[..., 1], angle.cos(), angle.sin()], dim=-1),
                (joints - on_floor(smooth)[..., None, :]).flatten(-2),
                matrix_to_6d(rotations).flatten(-2),
                velocities.flatten(-2),
                contacts.to(joints),
            ],
            dim=-1,
        )

    def facing(self, joints: Tensor) -> Tensor:
        """Return headings ``[..., T]`` in radians of joints ``[..., T, J, 3]``, by the hips."""
        right, left = self.body.hips
        across = joints[..., right, :] - joints[..., left, :]
        return torch.atan2(across[..., 2], -across[..., 0])

    def moving(self, joints: Tensor, lengths: Tensor | None = None) -> tuple[Tensor, Tensor]:
        """Return velocities and contacts of joints ``[..., T, J, 3]``; the last frame goes on as the one before it.

        Returns:
            ``[..., T, J, 3]`` metres per second, and ``[..., T, 4]`` bool.
        """
        steps = (joints[..., 1:, :, :] - joints[..., :-1, :, :]).flatten(-2)
        velocities = _repeat_last(steps, lengths).unflatten(-1, (-1, 3)) * self.fps
        feet = list(self.body.feet)
        slow = velocities[..., feet, :].norm(dim=-1) < _FAST
        return velocities, slow & (joints[..., feet, 1] < _HIGH)

    def positions(self, features: Tensor, lengths: Tensor | None = None) -> Tensor:
        """Return joints ``[..., T, J, 3]`` from the rotations, by forward kinematics; differentiable."""
        features = self._valid(features, lengths)
        return self.body.joints(self.rotations(features), self.root(features))

    def stored_joints(self, features: Tensor, lengths: Tensor | None = None) -> Tensor:
        """Return joints ``[..., T, J, 3]`` from the positions; bones may stretch."""
        features = self._valid(features, lengths)
        places: Tensor = features[..., self.parts["positions"]].unflatten(-1, (-1, 3))
        return places + on_floor(features[..., :3:2])[..., None, :]

    def root(self, features: Tensor, lengths: Tensor | None = None) -> Tensor:
        """Return the true place of the root, ``[..., T, 3]``."""
        features, first = self._valid(features, lengths), self.parts["positions"].start
        return features[..., first : first + 3] + on_floor(features[..., :3:2])

    def rotations(self, features: Tensor, lengths: Tensor | None = None) -> Tensor:
        """Return rotations in the world, ``[..., T, J, 3, 3]``; differentiable."""
        columns = self._valid(features, lengths)[..., self.parts["rotations"]]
        return matrix_from_6d(columns.unflatten(-1, (-1, 6)))

    def contacts(self, features: Tensor) -> Tensor:
        """Return ``[..., T, 4]`` bool: left heel, left toe, right heel, right toe are on the ground."""
        return features[..., self.parts["contacts"]] > 0.5

    def headings(self, features: Tensor, lengths: Tensor | None = None) -> Tensor:
        """Return headings ``[..., T]`` in radians, as stored."""
        cos, sin = self._valid(features, lengths)[..., self.parts["heading"]].unbind(-1)
        return torch.atan2(sin, cos)

    def as_humanml(self, features: Tensor, joints: Tensor, lengths: Tensor | None = None) -> Tensor:
        """Return HumanML3D's joints: bones of limbs as they point, others as they are turned from their rest pose.

        SOMA's collars, hips and spine point elsewhere at rest: HumanML3D's bones in their directions are another pose.
        """
        shared = super().as_humanml(features, joints, lengths)
        if self.humanml is None or len(self.body) == HUMANML.joints:
            return shared
        rest, above = rest_rig(HUMANML).offsets[: HUMANML.joints].to(joints), [max(one, 0) for one in HUMANML.parents]
        turns = self.rotations(features, lengths)[..., [self.humanml[joint] for joint in above], :, :]
        bones = (turns @ rest[..., None]).squeeze(-1)
        outer = [joint for limb in limbs(HUMANML) for joint in limb]
        points = F.normalize((shared - shared[..., above, :])[..., outer, :], dim=-1)
        bones[..., outer, :] = points * rest[outer].norm(dim=-1, keepdim=True)
        legs, ours = list(HUMANML.leg_joints), [self.humanml[joint] for joint in HUMANML.leg_joints]
        scale = rest[legs].norm(dim=-1).sum() / self.body.offsets.to(joints)[ours].norm(dim=-1).sum()
        return positions_from_bones(torch.cat([scale * shared[..., :1, :], bones[..., 1:, :]], dim=-2), HUMANML.parents)

    def motion(self, features: Tensor, joints: Tensor, fps: float) -> Motion:
        """Return one motion with its rotations, and as tracks what Kimodo's files hold beside them."""
        root = joints[:, 0].double()
        tracks = {
            "foot_contacts": self.contacts(features),
            "root_positions": root,
            "smooth_root_pos": features[:, self.parts["root"]],
            "global_root_heading": features[:, self.parts["heading"]],
        }
        return self.body.motion(self.body.local(self.rotations(features.double())), root, fps, tracks)

    def turned(self, features: Tensor, angle: Tensor) -> Tensor:
        """Return features ``[..., T, D]`` of motions turned about the origin by `angle` (``[...]``, radians)."""
        angle = angle[..., None]
        cos, sin = features[..., self.parts["heading"]].unbind(-1)
        heading = [cos * angle.cos() - sin * angle.sin(), sin * angle.cos() + cos * angle.sin()]
        # Positions, columns of rotations and velocities are vectors of three.
        vectors = features[..., ROOT : self.parts["contacts"].start].unflatten(-1, (-1, 3))
        return torch.cat(
            [
                rotate_yaw(features[..., :3], angle),
                torch.stack(heading, dim=-1),
                rotate_yaw(vectors, angle[..., None]).flatten(-2),
                features[..., self.parts["contacts"]],
            ],
            dim=-1,
        )

    def moved(self, features: Tensor, by: Tensor) -> Tensor:
        """Return features ``[..., T, D]`` of motions moved by `by` (``[..., 2]``, metres along x and z)."""
        return features + F.pad(on_floor(by)[..., None, :], (0, self.width - 3))

    def carried(self, features: Tensor, way: Tensor) -> Tensor:
        """Return features ``[T, D]`` of a motion that is carried along `way` (``[T, 2]`` metres) beside its own path.

        Its poses and headings stay; the feet slide by as much as the way is long.
        """
        step, more = on_floor(way), torch.zeros_like(features)
        more[:, self.parts["root"]] = step
        more[:, self.parts["velocities"]] = (_repeat_last(step.diff(dim=0), None) * self.fps).repeat(1, len(self.body))
        return features + more

    def canonical(self, features: Tensor, heading: Tensor | float = 0.0) -> Tensor:
        """Return features ``[..., T, D]`` that begin at x = z = 0 (smoothed) with `heading` (radians)."""
        turned = self.turned(features, heading - self.headings(features[..., 0, :]))
        return self.moved(turned, -turned[..., 0, [0, 2]])

    def _valid(self, features: Tensor, lengths: Tensor | None) -> Tensor:
        if lengths is None:
            return features
        rest = features.new_zeros(self.width)
        rest[self.parts["heading"]] = features.new_tensor([1.0, 0.0])
        rest[self.parts["rotations"]] = features.new_tensor([1.0, 0.0, 0.0, 0.0, 1.0, 0.0]).repeat(len(self.body))
        return torch.where(length_mask(lengths, features.shape[-2])[..., None], features, rest)


def on_floor(place: Tensor) -> Tensor:
    """Return points ``[..., 3]`` at height 0 of their x and z, ``[..., 2]``."""
    x, z = place.unbind(-1)
    return torch.stack([x, torch.zeros_like(x), z], dim=-1)


def local_root(root: Tensor, lengths: Tensor, fps: float) -> Tensor:
    """Return the root as the second stage reads it: turning speed, x and z speed in the world, height.

    Args:
        root: ``[N, T, 5]``, not normalised; padding is finite. The last valid frame goes on as the one before it.
        lengths: ``[N]``, each at least 2.
        fps: Frames per second.

    Returns:
        ``[N, T, 4]`` in radians and metres per second, and metres.
    """
    cos, sin = root[..., 3], root[..., 4]
    # The angle from each heading to the next one, by their cross and dot product.
    turn = torch.atan2(
        sin[:, 1:] * cos[:, :-1] - cos[:, 1:] * sin[:, :-1], cos[:, 1:] * cos[:, :-1] + sin[:, 1:] * sin[:, :-1]
    )
    steps = torch.cat([turn[..., None], root[:, 1:, [0, 2]] - root[:, :-1, [0, 2]]], dim=-1)
    return torch.cat([_repeat_last(steps, lengths) * fps, root[..., 1:2]], dim=-1)


def _repeat_last(steps: Tensor, lengths: Tensor | None) -> Tensor:
    """Return ``[..., T, K]`` of the steps ``[..., T - 1, K]``; from the last valid frame on, those before it."""
    frames = torch.arange(steps.shape[-2] + 1, device=steps.device)
    if lengths is None:
        return steps[..., frames.clamp(max=steps.shape[-2] - 1), :]
    index = torch.minimum(frames, (lengths[..., None] - 2).clamp(min=0))
    return steps.gather(-2, index[..., None].expand(*index.shape, steps.shape[-1]))


def smooth_path(path: Tensor) -> Tensor:
    """Return the smoothest paths ``[..., T, 2]`` within 6 cm of `path`: least squared second differences.

    Solved by ADMM (Boyd et al. 2011), coarse to fine, as the original does it; its last step averages each frame with
    the next, and float32 between the rounds: at 300 frames they have not converged. Below 5 frames, where the original
    fails, the path is returned as it is.
    """
    frames = path.shape[-2]
    if frames < _SHORTEST:
        return path
    # [T, N, 2]: all paths are solved at once.
    paths = path.float().reshape(-1, frames, 2).transpose(0, 1)
    step = 2 ** max(frames.bit_length() - 5, 1)
    x = paths.mean(0).expand(len(paths[::step]), -1, -1)
    while step:
        x = _admm(x, paths[::step])
        step //= 2
        x = _halfway(x, len(paths[::step]) if step else None)
    return x.transpose(0, 1).reshape(path.shape)


def _admm(x: Tensor, target: Tensor) -> Tensor:
    solve, rho = _solver(len(target))
    u = torch.zeros_like(target)
    for _ in range(_ROUNDS):
        # The nearest path within the radius of the target.
        off = x + u - target
        z = target + off * (_RADIUS / off.norm(dim=-1, keepdim=True).clamp(min=_RADIUS))
        u = u + 1.8 * (x - z)
        x = (rho * (solve @ (z - u).double().flatten(1))).float().view_as(u)
    return x


@cache
def _solver(frames: int) -> tuple[Tensor, float]:
    """Return the inverse of ``A^T A + rho I``, A the second differences of so many frames, and rho."""
    rows = torch.arange(1, frames - 1)
    second = torch.zeros(frames, frames, dtype=torch.float64)
    second[rows, rows], second[rows, rows - 1], second[rows, rows + 1] = 2.0, -1.0, -1.0
    normal = second.T @ second
    rho = 0.25 * float(normal.diagonal().max().sqrt())
    return torch.linalg.inv(normal + rho * torch.eye(frames, dtype=torch.float64)), rho


def _halfway(x: Tensor, frames: int | None) -> Tensor:
    """Return a path of twice as many frames, of which every other one is between two; with None those alone."""
    after = x[-1] + (x[-1] - x[-2]) / 2
    if frames is None:
        ends = torch.cat([x[:-1], after[None]])
        return torch.cat([(ends[:-1] + ends[1:]) / 2, after[None]])
    between = torch.cat([(x[:-1] + x[1:]) / 2, after[None]])
    return torch.stack([x, between], dim=1).flatten(0, 1)[:frames]
