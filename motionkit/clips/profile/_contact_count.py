"""Frames by what touches the floor."""

from __future__ import annotations

from dataclasses import dataclass

from torch import Tensor

from motionkit.clips.profile._roles import Roles
from motionkit.motion._motion import JointMotion, Motion
from motionkit.rigs import soft_contacts

_TOUCHING = 0.5
"""Soft contact from which a foot counts as standing."""


@dataclass(frozen=True)
class Contacts:
    """Frames by what touches the floor; two of them add.

    Attributes:
        frames: Frames looked at.
        left: Of them, with the left foot in contact.
        right: With the right foot.
        both: With both.
        neither: With none.
        from_file: Frames whose contacts the file itself gave; the others were worked out.
    """

    frames: int = 0
    left: int = 0
    right: int = 0
    both: int = 0
    neither: int = 0
    from_file: int = 0

    def __add__(self, other: Contacts) -> Contacts:
        """Return both together."""
        return Contacts(
            self.frames + other.frames,
            self.left + other.left,
            self.right + other.right,
            self.both + other.both,
            self.neither + other.neither,
            self.from_file + other.from_file,
        )

    @property
    def ratio(self) -> float | None:
        """Part of all feet's frames that are contacts."""
        return (self.left + self.right) / (2 * self.frames) if self.frames else None


def count_contacts(motion: Motion | JointMotion, positions: Tensor, roles: Roles | None) -> Contacts:
    """Count a clip's contacts, of the file's own scores where it has them.

    Args:
        motion: The clip, for its frame rate and a track ``contacts [T, 2]``.
        positions: Its joints ``[T, J, 3]``, m.
        roles: Its feet; None where nothing tells them.
    """
    given = motion.tracks.get("contacts")
    if given is not None and given.shape == (motion.frames, 2):
        scores, own = given, motion.frames
    elif roles is not None and len(positions) > 1:
        scores, own = soft_contacts(positions, motion.fps, (roles.left_foot, roles.right_foot)), 0
    else:
        return Contacts()
    left, right = (scores > _TOUCHING).unbind(-1)
    return Contacts(
        motion.frames, int(left.sum()), int(right.sum()), int((left & right).sum()), int((~left & ~right).sum()), own
    )
