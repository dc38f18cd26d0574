"""Reading an npz made for the motion predictor: motionkit's, the guide's five arrays, or the original's."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path

import numpy as np
import torch
from torch import Tensor

from motionkit.errors import MotionkitError
from motionkit.formats.mpl._arrays import ArrayFields, as_tensor, open_arrays, text_of
from motionkit.formats.mpl._axes import UNREAL
from motionkit.formats.mpl._build import build
from motionkit.formats.mpl._evidence import ACTIONS
from motionkit.formats.mpl._gaps import Filled
from motionkit.formats.mpl._state import SCHEMA
from motionkit.motion._clip import Clip, ReadOptions
from motionkit.motion._motion import Motion
from motionkit.motion.corpus._captions import Caption
from motionkit.motion.corpus._splits import read_split
from motionkit.motion.finite import said_of, spoil
from motionkit.rigs.contacts import find_feet, soft_contacts

_PLAIN = ReadOptions()
_USUAL_FPS = 60.0
"""What exporters write, and the guide's five arrays do not say."""


def read_mpl_npz(path: Path, options: ReadOptions = _PLAIN) -> tuple[Clip]:
    """Read an npz of the motion predictor.

    Three kinds are read: what `write_mpl_npz` writes, which comes back whole (to float32); the guide's five arrays
    ``rot6d, angvel, root_yaw, root_vel, soft_contacts``, whose skeleton must lie beside them (FullHierarchy.json,
    FullOffsets.json) or stays unknown; and what the original's converter writes, whose ``source_json``, a path, is
    never opened: contacts are made from the motion. Which columns six numbers are is said by ``meta_json``.

    Args:
        path: The file.
        options: `rot6d_columns`, `hierarchy`, `offsets`, and `fps` for a file without.

    Returns:
        One clip; tracks, and frames that are not finite, as `read_mpl_json` gives them.

    Raises:
        MotionkitError: The file is damaged, unpacks to more than 2 GB, is none of the three, or is newer than this
            program.
    """
    path = Path(path)
    fields = open_arrays(path)
    own = "schema_version" in fields.arrays
    if own and (version := fields.arrays["schema_version"]).tolist() not in range(SCHEMA + 1):
        raise MotionkitError(
            f"{path} has schema version {version}; this motionkit reads up to {SCHEMA}.", fix="update motionkit."
        )
    warnings: list[str] = []
    if "FPS" not in fields.head and options.fps <= 0:
        fields = replace(fields, head={"FPS": _USUAL_FPS})
        warnings.append(f"the file does not say its frames per second; {_USUAL_FPS:g} were taken (--source-fps).")
    filled = Filled(fields)
    built = build(filled, path, options, trusted=own)
    warnings += built.warnings
    motion = built.motion
    if own:
        motion = replace(_whole(motion, fields, filled), tracks=_tracks(fields, filled))
    elif (action := _action(fields, filled)) is not None:
        motion = replace(motion, tracks={**motion.tracks, "action": action})
    contacts, said = _contacts(filled, motion, known=built.known)
    warnings += [*said, *said_of(filled.sound)]
    if contacts is not None:
        motion = replace(motion, tracks={**motion.tracks, "contacts": contacts})
    motion = spoil(motion, filled.sound)
    kind = "MPL npz" if own or "FPS" not in fields.arrays else "MPL npz of the original converter"
    notes = {"format": kind, **built.notes}
    if digest := text_of(fields.arrays, "source_sha256"):
        notes["source sha256"] = digest
    about = fields.meta.get("clip") if own else None
    return (_with_texts(Clip(motion, notes=notes, warnings=tuple(warnings)), about),)


def _contacts(fields: Filled, motion: Motion, *, known: bool) -> tuple[Tensor | None, list[str]]:
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


def _action(fields: ArrayFields, filled: Filled) -> Tensor | None:
    """Return the action that the original keeps in the first columns of its condition."""
    stored = np.asarray(fields.arrays.get("cond_in", ()))
    if stored.ndim != 2 or stored.shape[1] < len(ACTIONS) or len(stored) not in (fields.frames, fields.frames - 1):
        return None
    action = as_tensor(stored[:, : len(ACTIONS)])
    if not len(action) or not bool(action.any()):
        return None
    action = filled.fill(torch.cat([action, action[-1:]])[: fields.frames], "cond_in")
    return action.long() if bool((action == action.round()).all()) else action


def _tracks(fields: ArrayFields, filled: Filled) -> dict[str, Tensor]:
    tracks = {}
    for stored, array in fields.arrays.items():
        if not stored.startswith("track_"):
            continue
        array = np.asarray(array)
        if array.dtype.kind not in "fiub" or not array.ndim or len(array) != fields.frames:
            raise MotionkitError(f"{fields.origin}: {stored} is not one row of numbers per frame.")
        values = filled.fill(as_tensor(array), stored)
        whole = torch.bool if array.dtype.kind == "b" else torch.int64
        tracks[stored.removeprefix("track_")] = values if array.dtype.kind == "f" else values.to(whole)
    return tracks


def _whole(motion: Motion, fields: ArrayFields, filled: Filled) -> Motion:
    """Add what few motions have: joints that move in their parents, end sites."""
    translations = motion.translations
    if fields.has("LocalTranslations"):
        moved = UNREAL.points(filled.numbers("LocalTranslations", len(motion.names), 3))
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
    offsets = UNREAL.points(as_tensor(places))
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
    """Add what `write_mpl_npz` keeps about a clip; anything else found there is passed over."""
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
