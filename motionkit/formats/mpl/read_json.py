"""Reading motion that was exported from Unreal as JSON."""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path

import torch
from torch import Tensor

from motionkit.errors import MotionkitError
from motionkit.formats.mpl.build import build
from motionkit.formats.mpl.fields import Fields, JsonFields, is_number, open_json
from motionkit.motion.clip import Clip, ReadOptions
from motionkit.motion.motion import Motion, finite_warning, mark_missing
from motionkit.page.wording import count
from motionkit.rigs import ContactSpec, contact_score, find_feet, soft_contacts

ACTIONS = ("Idle", "Walk", "Run", "Jump")
"""The actions of the four ActionBits."""


_PLAIN = ReadOptions()


def read_mpl_json(path: Path, options: ReadOptions = _PLAIN) -> tuple[Clip]:
    """Read a motion exported from Unreal (``Frames`` with ``BoneRotations``), rich or as simple as the guide's.

    Rotations of bones are relative to their parents, the root bone's to the component, which is turned by ``RootYaw``
    and placed at ``RootPosition``; planted feet of exported clips stand still under this reading only. The file's
    ``RootYaw``, ``RootVelocityXY`` and ``TrajectoryDir`` are kept as the tracks ``root_yaw``, ``root_velocity`` and
    ``trajectory`` (in Unreal's axes, see `build`); foot contacts and actions are the tracks ``contacts`` and
    ``action``. Older names are read as well: ``RootVelocity``, and ``BonePositions``, from which the lengths of bones
    are taken if the file has no others. Velocities of bones follow from rotations and are not read.

    Args:
        path: The file; ``//`` comments in it are skipped.
        options: `rot6d_columns`, `hierarchy`, `offsets`, and `fps` for a file without.

    Returns:
        One clip. Notes hold format, unit, fps, frames, joints, 6D columns, skeleton; warnings list assumptions. A frame
        with a value that is not finite (or null) becomes NaN, with a warning; a foot's evidence that is not finite
        counts as missing.

    Example:
        >>> frame = '{"BoneRotations": [[1, 0, 0, 0, 1, 0]], "RootYaw": 0.0, "RootVelocityXY": [1.0, 0.0]}'
        >>> _ = Path("walk.json").write_text(f'{{"FPS": 60, "Frames": [{frame}, {frame}]}}')
        >>> (clip,) = read_mpl_json(Path("walk.json"))
        >>> clip.motion.rotations.shape, clip.notes["6D columns"]
        (torch.Size([2, 1, 3, 3]), 'XY')
    """
    path = Path(path)
    fields = open_json(path)
    built = build(fields, path, options)
    warnings, tracks = list(built.warnings), dict(built.motion.tracks)
    action, more = _action(fields)
    warnings += more
    if action is not None:
        tracks["action"] = action
    contacts, more = _contacts(fields, built.motion, known=built.known)
    warnings += more
    if contacts is not None:
        tracks["contacts"] = contacts
    warnings += [*_count(fields), *finite_warning(fields.finite)]
    notes = {"format": "Unreal JSON", **built.notes}
    motion = mark_missing(replace(built.motion, tracks=tracks), fields.finite)
    return (Clip(motion, notes=notes, warnings=tuple(warnings)),)


def _contacts(fields: JsonFields, motion: Motion, *, known: bool) -> tuple[Tensor | None, list[str]]:
    """Return contacts; missing ones are computed from the motion if the feet are known."""
    contacts, warnings = _stored_contacts(fields)
    lost = contacts.isnan()
    if not bool(lost.any()):
        return contacts, warnings
    gap = "there is no foot evidence"
    if not bool(lost.all()):
        frame, foot = (int(number) for number in lost.nonzero()[0])
        gap = (
            f"foot evidence is missing in {count(int(lost.any(-1).sum()), 'frame')} "
            f"(the first: frame {frame}, {('left', 'right')[foot]})"
        )
    feet = find_feet(motion.names, motion.parents) if known else None
    if feet is None:
        if bool(lost.all()):
            return None, [*warnings, f"{gap}, and no feet to compute contacts from."]
        return contacts.nan_to_num(0.5), [*warnings, f"{gap}; it was set to 0.5."]
    made = soft_contacts(motion.positions(), motion.fps, feet)
    return torch.where(lost, made, contacts), [*warnings, f"{gap}; contacts there come from height and speed."]


def _count(fields: JsonFields) -> list[str]:
    announced = fields.head.get("NumFrames")
    if isinstance(announced, int) and announced != len(fields.rows):
        return [f"NumFrames is {announced}, there are {len(fields.rows)} frames."]
    return []


def _stored_contacts(fields: JsonFields) -> tuple[Tensor, list[str]]:
    """Return ``[T, 2]`` soft contact scores, left and right, NaN if the file has none; and warnings.

    A foot without ``soft_contact_score`` but with distance to the ground and speeds is scored by the formula with the
    numbers of ``meta.foot_evidence.soft_score_spec``.
    """
    scores = torch.full((len(fields.rows), 2), math.nan, dtype=torch.float64)
    spec, gated = _spec(fields)
    for index, row in enumerate(fields.rows):
        evidence = row.get("FootEvidence")
        if not isinstance(evidence, Mapping):
            continue
        for foot, side in enumerate(("L", "R")):
            foot_evidence = evidence.get(side)
            if isinstance(foot_evidence, Mapping):
                scores[index, foot] = _score(foot_evidence, spec, gated, f"{fields.origin}: frame {index}, foot {side}")
    warnings = []
    outside = int(((scores < 0) | (scores > 1)).sum())
    if outside:
        warnings.append(f"{count(outside, 'foot contact score')} outside 0 to 1, brought to the nearer end.")
    return scores.clamp(0.0, 1.0), warnings


def _action(fields: Fields) -> tuple[Tensor | None, list[str]]:
    """Return the action of each frame ``[T, A]``, from ActionBits or ClipAction, None without; and warnings."""
    bits = None
    if fields.has("ActionBits"):
        bits = fields.numbers("ActionBits", -1)
        bits = bits.long() if bool((bits == bits.round()).all()) else bits
    name = str(fields.head.get("ClipAction") or "").rpartition("::")[2]
    if not name:
        return bits, []
    names = [action.lower() for action in ACTIONS]
    if name.lower() not in names:
        return bits, [f"ClipAction {name} is not one of {', '.join(ACTIONS)}."]
    place = names.index(name.lower())
    if bits is None:
        one_hot = torch.zeros(fields.frames, len(ACTIONS), dtype=torch.int64)
        one_hot[:, place] = 1
        return one_hot, []
    if bits.shape[1] == len(ACTIONS) and not bool(bits[:, place].any()):
        return bits, [f"ClipAction is {name}, which ActionBits never are; ActionBits were followed."]
    return bits, []


def _spec(fields: JsonFields) -> tuple[ContactSpec, bool]:
    table = fields.meta.get("foot_evidence")
    table = table.get("soft_score_spec") if isinstance(table, Mapping) else None
    if not isinstance(table, Mapping):
        return ContactSpec(), False
    named = {
        field.name: table[field.name] for field in dataclasses.fields(ContactSpec) if is_number(table.get(field.name))
    }
    return ContactSpec(**named), bool(table.get("gate_by_hit"))


def _score(foot: Mapping[str, object], spec: ContactSpec, gated: bool, origin: str) -> float:
    score = foot.get("soft_contact_score")
    if score is not None:
        if isinstance(score, float) and not math.isfinite(score):
            return math.nan
        if not is_number(score):
            raise MotionkitError(f"{origin}: soft_contact_score is {score!r}; a number from 0 to 1 was expected.")
        return float(score)
    measured = [foot.get(name) for name in ("dist_to_ground_m", "vz_mps", "vxy_mps")]
    numbers = [float(value) for value in measured if is_number(value)]
    if len(numbers) < len(measured):
        return math.nan
    if gated and foot.get("hit_flag") == 0:
        return 0.0
    distance, vertical, horizontal = torch.tensor(numbers, dtype=torch.float64)
    return float(contact_score(distance, vertical, horizontal, spec))
