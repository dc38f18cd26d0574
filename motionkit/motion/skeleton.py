"""The bodies of HumanML3D's features, 22 joints, and of KIT-ML's, 21, and how joints come out of those features."""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import cached_property

from torch import Tensor

from motionkit import kernels
from motionkit.errors import MotionkitError
from motionkit.kernels.definitions import root_path, sanitise
from motionkit.motion.representation import Representation

Vector = tuple[float, float, float]


@dataclass(frozen=True)
class Skeleton(Representation):
    """A body with everything its feature format, HumanML3D's, needs to know about it.

    Example:
        >>> HUMANML.joints, HUMANML.width, KIT.joints, KIT.width
        (22, 263, 21, 251)
        >>> HUMANML.joint_names[HUMANML.mirror_order[HUMANML.index("left_wrist")]]
        'right_wrist'
    """

    name: str  # ``humanml`` or ``kit``
    joint_names: tuple[str, ...]  # J names, in feature order
    parents: tuple[int, ...]  # Parent of each joint, -1 for the root
    # Kinematic chains from the root outwards. Inverse kinematics restarts from the heading at the head of every chain,
    # the arms' too, although they start at the spine (HumanML3D's convention).
    chains: tuple[tuple[int, ...], ...]
    raw_offsets: tuple[Vector, ...]  # Unit direction of each joint from its parent in the rest pose
    # Bones of the target skeleton in metres, or None when the format publishes none.
    target_offsets: tuple[Vector, ...] | None
    feet: tuple[int, int, int, int]  # Left ankle, left foot, right ankle, right foot: the order of the contact channels
    # Right hip, left hip, right shoulder, left shoulder as the format's own code names them.
    face_joints: tuple[int, int, int, int]
    leg_joints: tuple[int, int]  # Two joints of one leg whose bone lengths give the scale of a body
    mirror_pairs: tuple[tuple[int, int], ...]  # Left-right pairs of joints
    fps: float  # Frames per second of the public data
    unit: float  # Metres per unit of the stored features
    contact_threshold: float  # Squared displacement per frame below which a foot is in contact, in stored units

    @property
    def width(self) -> int:
        """Number of features per frame D: 263 for 22 joints, 251 for 21."""
        return 12 * self.joints - 1

    @cached_property
    def rotation_parents(self) -> tuple[int, ...]:
        """Joint whose rotation a joint's own is relative to: the one before it in its chain, the root at its head."""
        parents = [-1] * self.joints
        for chain in self.chains:
            for place, joint in enumerate(chain[1:]):
                parents[joint] = chain[place] if place else 0
        return tuple(parents)

    @cached_property
    def mirror_order(self) -> tuple[int, ...]:
        """Permutation of the joints that swaps left and right."""
        order = list(range(self.joints))
        for left, right in self.mirror_pairs:
            order[left], order[right] = right, left
        return tuple(order)

    @cached_property
    def limbs(self) -> dict[str, tuple[int, int]]:
        """The last joints of the left and the right ``arm`` and ``leg``, by the side of the body that they are on."""
        right_hip, left_hip, right_shoulder, left_shoulder = self.face_joints
        starts = {"arm": (left_shoulder, right_shoulder), "leg": (left_hip, right_hip)}
        return {name: (self._end(left), self._end(right)) for name, (left, right) in starts.items()}

    def _end(self, joint: int) -> int:
        """Return the last joint of the chain from `joint` on."""
        return self._end(self.parents.index(joint)) if joint in self.parents else joint

    def index(self, name: str) -> int:
        """Return the index of the joint called `name` (ValueError when there is none)."""
        return self.joint_names.index(name)

    def check_width(self, features: Tensor, name: str = "features") -> None:
        """Refuse features, called `name` in the message, whose last dimension is not `width`."""
        if features.ndim >= 2 and features.shape[-1] == self.width:
            return
        shape = list(features.shape)
        width = shape[-1] if shape else 0
        body = {263: "HumanML3D (22 joints)", 251: "KIT-ML (21 joints)"}.get(width, "no known body")
        raise MotionkitError(
            f"{name} have shape {shape}; the last dimension should be {self.width} for the {self.name} body.",
            why=f"a width of {width} belongs to {body}.",
            fix="use the dataset (humanml or kit) that the motion was made for.",
        )

    def positions(self, features: Tensor, lengths: Tensor | None = None) -> Tensor:
        """Return ``[..., T, J, 3]`` joints; see `motionkit.motion.features_to_joints`."""
        self.check_width(features)
        return kernels.features_to_joints(features, joints=self.joints, unit=self.unit, lengths=lengths)

    def headings(self, features: Tensor, lengths: Tensor | None = None) -> Tensor:
        """Return ``[..., T]`` radians about +Y, 0 for +Z, as the features have them."""
        return self.trajectory(features, lengths)[0]

    def trajectory(self, features: Tensor, lengths: Tensor | None = None) -> tuple[Tensor, Tensor]:
        """Return the heading ``[..., T]`` (radians about +Y) and root position ``[..., T, 3]`` (metres) of features."""
        self.check_width(features)
        # The first four columns are the root's: yaw rate, velocity in x and z, height.
        clean, broken = sanitise(features[..., :4], lengths)
        angle, root = root_path(clean)
        gone = broken.cummax(dim=-1).values
        return angle.masked_fill(gone, math.nan), (root * self.unit).masked_fill(gone[..., None], math.nan)


_X, _Y, _Z = (1.0, 0.0, 0.0), (0.0, 1.0, 0.0), (0.0, 0.0, 1.0)
_NX, _NY, _O = (-1.0, 0.0, 0.0), (0.0, -1.0, 0.0), (0.0, 0.0, 0.0)

HUMANML = Skeleton(
    name="humanml",
    joint_names=(
        "pelvis", "left_hip", "right_hip", "spine1", "left_knee", "right_knee", "spine2", "left_ankle", "right_ankle",
        "spine3", "left_foot", "right_foot", "neck", "left_collar", "right_collar", "head", "left_shoulder",
        "right_shoulder", "left_elbow", "right_elbow", "left_wrist", "right_wrist",
    ),
    parents=(-1, 0, 0, 0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 9, 9, 12, 13, 14, 16, 17, 18, 19),
    chains=((0, 2, 5, 8, 11), (0, 1, 4, 7, 10), (0, 3, 6, 9, 12, 15), (9, 14, 17, 19, 21), (9, 13, 16, 18, 20)),
    raw_offsets=(
        _O, _X, _NX, _Y, _NY, _NY, _Y, _NY, _NY, _Y, _Z, _Z, _Y, _X, _NX, _Z, _NY, _NY, _NY, _NY, _NY, _NY,
    ),
    target_offsets=(
        (0.0, 0.0, 0.0), (0.103073947, 0.0, 0.0), (-0.109883353, 0.0, 0.0), (0.0, 0.131568253, 0.0),
        (0.0, -0.393623143, 0.0), (0.0, -0.390188128, 0.0), (0.0, 0.143190265, 0.0), (0.0, -0.432432979, 0.0),
        (0.0, -0.425643325, 0.0), (0.0, 0.057364706, 0.0), (0.0, 0.0, 0.143381745), (0.0, 0.0, 0.149418667),
        (0.0, 0.219359994, 0.0), (0.13748683, 0.0, 0.0), (-0.143382832, 0.0, 0.0), (0.0, 0.0, 0.103039272),
        (0.0, -0.131613985, 0.0), (0.0, -0.122984305, 0.0), (0.0, -0.256839842, 0.0), (0.0, -0.263091862, 0.0),
        (0.0, -0.266011864, 0.0), (0.0, -0.269876301, 0.0),
    ),
    feet=(7, 10, 8, 11),
    face_joints=(2, 1, 17, 16),
    leg_joints=(5, 8),
    mirror_pairs=((1, 2), (4, 5), (7, 8), (10, 11), (13, 14), (16, 17), (18, 19), (20, 21)),
    fps=20.0,
    unit=1.0,
    contact_threshold=0.002,
)  # fmt: skip
"""HumanML3D: 22 SMPL joints, metres, 20 fps. Target bones are those of frame 0 of clip 000021."""

KIT = Skeleton(
    name="kit",
    joint_names=(
        "root", "BP", "BT", "BLN", "BUN", "LS", "LE", "LW", "RS", "RE", "RW", "LH", "LK", "LA", "LMrot", "LF", "RH",
        "RK", "RA", "RMrot", "RF",
    ),
    parents=(-1, 0, 1, 2, 3, 3, 5, 6, 3, 8, 9, 0, 11, 12, 13, 14, 0, 16, 17, 18, 19),
    chains=((0, 11, 12, 13, 14, 15), (0, 16, 17, 18, 19, 20), (0, 1, 2, 3, 4), (3, 5, 6, 7), (3, 8, 9, 10)),
    raw_offsets=(
        _O, _Y, _Y, _Y, _Y, _X, _NY, _NY, _NX, _NY, _NY, _X, _NY, _NY, _Z, _Z, _NX, _NY, _NY, _Z, _Z,
    ),
    target_offsets=None,
    feet=(19, 20, 14, 15),
    face_joints=(11, 16, 5, 8),
    leg_joints=(17, 18),
    mirror_pairs=((5, 8), (6, 9), (7, 10), (11, 16), (12, 17), (13, 18), (14, 19), (15, 20)),
    fps=12.5,
    unit=0.75 / 480.0,
    contact_threshold=0.05,
)  # fmt: skip
"""KIT-ML: 21 MMM joints, 12.5 fps. HumanML3D's code calls joints 11-15 the right leg, the MMM names say left; the
contact channels follow the former. One stored unit is 0.75 m / 480 (TEMOS' scale between MMM and SMPL bodies)."""
