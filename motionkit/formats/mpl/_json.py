"""Reading motion that was exported from Unreal as JSON."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import torch
from torch import Tensor

from motionkit.formats.mpl._build import build
from motionkit.formats.mpl._document import Document, open_document
from motionkit.formats.mpl._evidence import read_action, read_contacts
from motionkit.formats.mpl._gaps import Filled
from motionkit.motion._clip import Clip, ReadOptions
from motionkit.motion._motion import Motion
from motionkit.motion.finite import said_of, spoil
from motionkit.rigs.contacts import find_feet, soft_contacts

_PLAIN = ReadOptions()


def read_mpl_json(path: Path, options: ReadOptions = _PLAIN) -> tuple[Clip]:
    """Read a motion exported from Unreal (``Frames`` with ``BoneRotations``), rich or as simple as the guide's.

    Rotations of bones are relative to their parents, the root bone's to the component, which ``RootYaw`` turns and
    which stands at ``RootPosition``; planted feet of exported clips stand still under this reading and under no other.
    The file's own ``RootYaw``, ``RootVelocityXY`` and ``TrajectoryDir`` are kept as the tracks ``root_yaw``,
    ``root_velocity`` and ``trajectory`` (in Unreal's axes, see `build`); foot contacts and actions are the tracks
    ``contacts`` and ``action``. Older names are read as well: ``RootVelocity``, and ``BonePositions``, from which the
    lengths of bones are taken where the file has no others. Velocities of bones follow from the rest and are not read.

    Args:
        path: The file; ``//`` comments are passed over.
        options: `rot6d_columns`, `hierarchy`, `offsets`, and `fps` for a file without.

    Returns:
        One clip. Notes say format, unit, fps, frames, joints, 6D columns, skeleton; warnings whatever was assumed.
        A frame with a value that is not finite (or null) has NaN for everything, and that is warned of; a foot's
        evidence that is not finite counts as missing.

    Raises:
        MotionkitError: The file is damaged (the message names line and column, or frame and field), no frame of it
            is finite, it is something else, or says things about itself that cannot be true together.
    """
    path = Path(path)
    document = open_document(path)
    fields = Filled(document)
    built = build(fields, path, options)
    warnings, tracks = list(built.warnings), dict(built.motion.tracks)
    action, said = read_action(fields)
    warnings += said
    if action is not None:
        tracks["action"] = action
    contacts, said = _contacts(document, built.motion, known=built.known)
    warnings += said
    if contacts is not None:
        tracks["contacts"] = contacts
    warnings += [*_count(document), *said_of(fields.sound)]
    notes = {"format": "Unreal JSON", **built.notes}
    motion = spoil(replace(built.motion, tracks=tracks), fields.sound)
    return (Clip(motion, notes=notes, warnings=tuple(warnings)),)


def _contacts(document: Document, motion: Motion, *, known: bool) -> tuple[Tensor | None, list[str]]:
    """Return contacts, made from the motion where the file has none and the feet are known."""
    contacts, warnings = read_contacts(document)
    lost = contacts.isnan()
    if not bool(lost.any()):
        return contacts, warnings
    what = "there is no foot evidence"
    if not bool(lost.all()):
        frame, foot = (int(number) for number in lost.nonzero()[0])
        what = (
            f"foot evidence is missing in {int(lost.any(-1).sum())} frame(s) "
            f"(the first: frame {frame}, {('left', 'right')[foot]})"
        )
    feet = find_feet(motion.names, motion.parents) if known else None
    if feet is None:
        if bool(lost.all()):
            return None, [*warnings, f"{what}, and no feet to take contacts from."]
        return contacts.nan_to_num(0.5), [*warnings, f"{what}; 0.5 was put there."]
    made = soft_contacts(motion.positions(), motion.fps, feet)
    return torch.where(lost, made, contacts), [*warnings, f"{what}; contacts there come from height and speed."]


def _count(document: Document) -> list[str]:
    announced = document.head.get("NumFrames")
    if isinstance(announced, int) and announced != len(document.rows):
        return [f"NumFrames is {announced}, there are {len(document.rows)} frames."]
    return []
