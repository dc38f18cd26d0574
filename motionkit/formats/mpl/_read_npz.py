"""Reading an npz made for the motion predictor: motionkit's, the guide's five arrays, or the original's."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor

from motionkit import weights
from motionkit.documents import parse_json
from motionkit.errors import MotionkitError
from motionkit.formats.mpl._build import build
from motionkit.formats.mpl._conventions import UNREAL
from motionkit.formats.mpl._fields import Fields
from motionkit.formats.mpl._read_json import ACTIONS
from motionkit.formats.mpl._write import SCHEMA
from motionkit.motion._clip import Clip, ReadOptions
from motionkit.motion._motion import Motion, check_size
from motionkit.motion.corpus._captions import Caption
from motionkit.motion.corpus._ids import read_split
from motionkit.motion.frames import finite_warning, mark_missing
from motionkit.rigs import find_feet, soft_contacts
from motionkit.weights import read_array

LIMIT = 2 << 30
"""Bytes that the known arrays of an npz may unpack to: four hours of 46 bones at 60 frames per second."""

_FIELDS = {
    "BoneRotations": ("rot6d", "bone_rot6d"),
    "RootYaw": ("root_yaw",),
    "RootVelocityXY": ("root_vel",),
    "RootPosition": ("root_pos",),
    "BonePositions": ("bone_pos",),
    "SoftContacts": ("soft_contacts",),
    "LocalTranslations": ("local_translations",),
}
"""Field to the arrays that may hold it."""

_SINGLE = {
    "FPS", "fps", "bone_names", "parents", "offsets", "end_names", "end_parents", "end_offsets", "cond_in", "meta_json",
    "schema_version", "source_sha256",
}  # fmt: skip


class ArrayFields(Fields):
    """The arrays of one npz under the names of an exported file's fields.

    Attributes:
        arrays: By the file's own names; only known ones.
    """

    def __init__(
        self, origin: str, arrays: Mapping[str, Any], meta: Mapping[str, Any], head: Mapping[str, Any]
    ) -> None:
        self.arrays = arrays
        super().__init__(origin, head, meta, len(arrays[self._array("BoneRotations")]))

    def has(self, *names: str) -> str:
        """Return the first of some names of a field that the file has; empty when it has none."""
        return next((name for name in names if self._array(name)), "")

    def stored(self, name: str, *shape: int) -> Tensor:
        """Return a field as it is stored; a single number per frame may be stored as ``[T, 1]``."""
        stored = self._array(name)
        array = np.asarray(self.arrays[stored])
        if array.dtype.kind not in "fiu":
            raise MotionkitError(f"{self.origin}: {stored} holds no numbers.", why=f"its type is {array.dtype}.")
        if not shape and array.ndim == 2 and array.shape[1] == 1:
            array = array[:, 0]
        sizes = (self.frames, *shape)
        if array.ndim != len(sizes) or any(a not in (b, -1) for a, b in zip(sizes, array.shape, strict=True)):
            expected = ", ".join("any" if size < 0 else str(size) for size in sizes)
            raise MotionkitError(f"{self.origin}: {stored} has shape {list(array.shape)}, expected [{expected}].")
        return _as_tensor(array)

    def _array(self, name: str) -> str:
        known = (stored for stored in _FIELDS.get(name, ()) if np.size(self.arrays.get(stored, ())))
        return next(known, "")


def _open(path: Path) -> ArrayFields:
    """Read a predictor's npz, only the arrays that are known.

    Raises:
        MotionkitError: Missing, damaged, larger than it should be when unpacked, or without rotations.
    """
    known = _SINGLE | {stored for names in _FIELDS.values() for stored in names}
    arrays = read_array(path, limit=LIMIT, wanted=lambda name: name in known or name.startswith("track_"))
    if not isinstance(arrays, Mapping):
        raise MotionkitError(f"{path} is a single array, not an npz of a motion.")
    rotations = next((name for name in _FIELDS["BoneRotations"] if np.size(arrays.get(name, ()))), "")
    if not rotations:
        raise MotionkitError(f"{path} has no motion for the predictor.", why="neither rot6d nor bone_rot6d is in it.")
    shape = list(np.shape(arrays[rotations]))
    if len(shape) != 3 or shape[2] != 6:
        raise MotionkitError(f"{path}: {rotations} has shape {shape}, expected [frames, bones, 6].")
    check_size(shape[0], shape[1])
    meta = dict(_meta(arrays, str(path)))
    skeleton = dict(meta["skeleton"]) if isinstance(meta.get("skeleton"), Mapping) else {}
    for key, stored in (("bone_names", "bone_names"), ("parents", "parents"), ("ref_local_offsets_m", "offsets")):
        if np.size(arrays.get(stored, ())):
            skeleton[key] = np.asarray(arrays[stored]).tolist()
    meta["skeleton"] = skeleton
    if "schema_version" in arrays and not isinstance(arrays["schema_version"], np.ndarray):
        raise MotionkitError(f"{path}: schema_version is no number.")
    rate = next((arrays[name] for name in ("FPS", "fps") if name in arrays), None)
    head = {} if rate is None else {"FPS": np.asarray(rate).tolist()}
    return ArrayFields(str(path), arrays, meta, head)


def _as_tensor(array: Any) -> Tensor:
    """Return numbers as float64."""
    return torch.from_numpy(weights.cast(array, np.float64))


def _text_of(arrays: Mapping[str, Any], name: str) -> str:
    """Return an array that holds one text, empty when it is not there."""
    value = arrays.get(name, "")
    return str(value.item() if isinstance(value, np.ndarray) and value.size == 1 else value)


def _meta(arrays: Mapping[str, Any], origin: str) -> Mapping[str, Any]:
    text = _text_of(arrays, "meta_json")
    meta = parse_json(text, f"{origin}: meta_json", object) if text.strip() else {}
    if not isinstance(meta, Mapping):
        raise MotionkitError(f"{origin}: meta_json is no table.", why=json.dumps(meta)[:60])
    return meta


_PLAIN = ReadOptions()
_USUAL_FPS = 60.0
"""Exporters' frame rate, for files with the guide's five arrays, which hold none."""


def read_mpl_npz(path: Path, options: ReadOptions = _PLAIN) -> tuple[Clip]:
    """Read an npz of the motion predictor.

    Three kinds are read: what `write_mpl_npz` writes, which comes back whole (to float32); the guide's five arrays
    ``rot6d, angvel, root_yaw, root_vel, soft_contacts``, whose skeleton must lie beside them (FullHierarchy.json,
    FullOffsets.json) or stays unknown; and what the original's converter writes, whose ``source_json``, a path, is
    never opened: contacts are made from the motion. ``meta_json`` names the columns of the 6D rotations.

    Args:
        path: The file.
        options: `rot6d_columns`, `hierarchy`, `offsets`, and `fps` for a file without.

    Returns:
        One clip; tracks, and frames that are not finite, as `read_mpl_json` gives them.

    Raises:
        MotionkitError: The file is damaged, unpacks to more than 2 GB, is none of the three, or is newer than this
            program.

    Example:
        >>> six = np.tile(np.float32([1, 0, 0, 0, 1, 0]), (30, 22, 1))
        >>> np.savez("walk.npz", rot6d=six, root_yaw=np.zeros(30), root_vel=np.zeros((30, 2)), FPS=30.0)
        >>> (clip,) = read_mpl_npz(Path("walk.npz"))
        >>> clip.motion.frames, clip.motion.fps
        (30, 30.0)
    """
    path = Path(path)
    fields = _open(path)
    own = "schema_version" in fields.arrays
    if own and (version := fields.arrays["schema_version"]).tolist() not in range(SCHEMA + 1):
        raise MotionkitError(
            f"{path} has schema version {version}; this motionkit reads up to {SCHEMA}.", fix="update motionkit."
        )
    warnings: list[str] = []
    if "FPS" not in fields.head and options.fps <= 0:
        fields.head = {"FPS": _USUAL_FPS}
        warnings.append(f"the file does not say its frames per second; {_USUAL_FPS:g} were taken (--source-fps).")
    built = build(fields, path, options, trusted=own)
    warnings += built.warnings
    motion = built.motion
    if own:
        motion = replace(_whole(motion, fields), tracks=_tracks(fields))
    elif (action := _action(fields)) is not None:
        motion = replace(motion, tracks={**motion.tracks, "action": action})
    contacts, said = _contacts(fields, motion, known=built.known)
    warnings += [*said, *finite_warning(fields.finite)]
    if contacts is not None:
        motion = replace(motion, tracks={**motion.tracks, "contacts": contacts})
    motion = mark_missing(motion, fields.finite)
    kind = "MPL npz" if own or "FPS" not in fields.arrays else "MPL npz of the original converter"
    notes = {"format": kind, **built.notes}
    if digest := _text_of(fields.arrays, "source_sha256"):
        notes["source sha256"] = digest
    about = fields.meta.get("clip") if own else None
    return (_with_texts(Clip(motion, notes=notes, warnings=tuple(warnings)), about),)


def _contacts(fields: Fields, motion: Motion, *, known: bool) -> tuple[Tensor | None, list[str]]:
    if fields.has("SoftContacts") and fields.meta.get("soft_contacts") != "unknown":
        stored = fields.numbers("SoftContacts", 2)
        outside = int(((stored < 0) | (stored > 1)).sum())
        said = f"{outside} foot contact score(s) lay outside 0 to 1 and were brought to the nearer end."
        return stored.clamp(0.0, 1.0), [said] if outside else []
    feet = find_feet(motion.names, motion.parents) if known else None
    if feet is None:
        return None, ["there are no foot contacts, and no feet to take them from."]
    made = soft_contacts(motion.positions(), motion.fps, feet)
    return made, ["there are no foot contacts; they come from height and speed."]


def _action(fields: ArrayFields) -> Tensor | None:
    """Return the action, which the original keeps in the first columns of its condition."""
    stored = np.asarray(fields.arrays.get("cond_in", ()))
    if stored.ndim != 2 or stored.shape[1] < len(ACTIONS) or len(stored) not in (fields.frames, fields.frames - 1):
        return None
    action = _as_tensor(stored[:, : len(ACTIONS)])
    if not len(action) or not bool(action.any()):
        return None
    action = fields.fill(torch.cat([action, action[-1:]])[: fields.frames], "cond_in")
    return action.long() if bool((action == action.round()).all()) else action


def _tracks(fields: ArrayFields) -> dict[str, Tensor]:
    tracks = {}
    for stored, array in fields.arrays.items():
        if not stored.startswith("track_"):
            continue
        array = np.asarray(array)
        if array.dtype.kind not in "fiub" or not array.ndim or len(array) != fields.frames:
            raise MotionkitError(f"{fields.origin}: {stored} is not one row of numbers per frame.")
        values = fields.fill(_as_tensor(array), stored)
        whole = torch.bool if array.dtype.kind == "b" else torch.int64
        tracks[stored.removeprefix("track_")] = values if array.dtype.kind == "f" else values.to(whole)
    return tracks


def _whole(motion: Motion, fields: ArrayFields) -> Motion:
    """Add joints that move in their parents, and end sites."""
    translations = motion.translations
    if fields.has("LocalTranslations"):
        moved = UNREAL.points(fields.numbers("LocalTranslations", len(motion.names), 3))
        translations = torch.cat([translations[:, :1], moved[:, 1:]], dim=1)
    names = np.asarray(fields.arrays.get("end_names", ()))
    parents = np.asarray(fields.arrays.get("end_parents", ()))
    if not names.size and not parents.size:
        return replace(motion, translations=translations)
    places = np.asarray(fields.arrays.get("end_offsets", ()))
    count, bones = names.size, len(motion.names)
    fits = names.shape == parents.shape == (count,) and places.shape == (count, 3) and parents.dtype.kind in "iu"
    fits = fits and places.dtype.kind in "fiu" and bool(np.isfinite(places).all())
    if not fits or names.dtype.kind != "U" or parents.min() < 0 or parents.max() >= bones:
        raise MotionkitError(f"{fields.origin}: end_names, end_parents and end_offsets do not belong together.")
    offsets = UNREAL.points(_as_tensor(places))
    eye = torch.eye(3, dtype=torch.float64).expand(motion.frames, count, 3, 3)
    return Motion(
        (*motion.names, *names.tolist()),
        (*motion.parents, *parents.tolist()),
        torch.cat([motion.offsets, offsets]),
        torch.cat([motion.rotations, eye], dim=1),
        torch.cat([translations, offsets.expand(motion.frames, count, 3)], dim=1),
        motion.fps,
        motion.tracks,
    )


def _with_texts(clip: Clip, about: object) -> Clip:
    """Add captions, split and group that `write_mpl_npz` stored; anything else there is ignored."""
    if not isinstance(about, Mapping):
        return clip
    captions = about.get("captions")
    timed = []
    for row in about.get("timed") or ():
        match row:
            case [str(text), int() | float() as start, int() | float() as end]:
                timed.append(Caption(text, start=float(start), end=float(end)))
    texts = [text for text in captions if isinstance(text, str)] if isinstance(captions, list) else []
    split, doubt = read_split(about.get("split"))
    return replace(
        clip,
        captions=tuple(map(Caption, texts)),
        timed=tuple(timed),
        split=split,
        warnings=(*clip.warnings, *doubt),
        group=str(about.get("group") or ""),
    )
