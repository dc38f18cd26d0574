"""Reads the guide's ``exp_phase_mpl.json``, whose keys stand side by side, into the settings here. Imports no torch."""

from __future__ import annotations

import os
from collections.abc import Collection, Mapping
from pathlib import Path
from typing import Any

from motionkit.config import Foreign, Problem, SettingsError, renamed
from motionkit.errors._near import did_you_mean
from motionkit.trainers.train_mpl._guide_keys import (
    ADAPTIVE,
    FOOT,
    FOOT_FIX,
    GUIDE_DEFAULTS,
    KEYS,
    reason_left_out,
)
from motionkit.trainers.train_mpl._guide_stages import translate_stages

_PATHS = ("data", "bundle", "run.out", "encoder")
_KNOWN = 25
"""Known frames of a window, where it is long enough."""


def is_guide_config(table: Mapping[str, Any], own: Collection[str]) -> bool:
    """Whether a settings file is the guide's: it has one of its keys that is no group or setting here."""
    return any((key in KEYS or key.startswith("w_") or reason_left_out(key)) and key not in own for key in table)


def translate(table: Mapping[str, Any], path: Path, own: Collection[str]) -> Foreign | None:
    """Return what a file of the guide means here; see `motionkit.config.Settings.translate`.

    Groups of motionkit's own may stand beside the guide's keys; they win. Frames are counted at the clips' own rate
    unless the file has ``fps``. Its paths count from the folder below which its ``data`` is found: the working
    folder, the file's, or the folder above that.

    Args:
        table: What the file holds.
        path: The file.
        own: Names of the groups and settings here.

    Raises:
        SettingsError: A key is unknown, given twice under two names, or one of the feet's constraints.
    """
    if not is_guide_config(table, own):
        return None
    found, problems = Foreign(path), []
    read: dict[str, str] = {}
    left: dict[str, str] = {}
    for key, value in table.items():
        if key.startswith("w_foot_"):
            problems.append(Problem(key, FOOT, str(path), repr(value), FOOT_FIX))
        elif key == "run_name":
            continue
        elif key == "resume":
            problems.append(Problem(key, "a file cannot resume", str(path), repr(value), "give --resume RUN"))
        elif key in KEYS:
            if value is None:
                left[key] = "it is null"
            elif KEYS[key] in found.values:
                message = f"{found.sources[KEYS[key]]} sets {KEYS[key]} as well"
                problems.append(Problem(key, message, str(path), repr(value), "keep one of them"))
            else:
                found.put(KEYS[key], value, key)
                read[key] = KEYS[key]
        elif reason := reason_left_out(key):
            left[key] = reason
        elif key not in own:
            problems.append(Problem(key, "unknown setting", str(path), _short(value), did_you_mean(key, (*KEYS, *own))))
    if "stages" in found.values:
        found.values["stages"] = translate_stages(found.values["stages"], str(path), left, problems)
    if problems:
        raise SettingsError(problems)
    _fit(found, left)
    where = _place(found, table.get("run_name"), path)
    _drop_bundle(found, left)
    _fill(found)
    for key, value in table.items():  # what is motionkit's own wins
        if key in own and key not in KEYS:
            _own(found, key, value)
    found.notes += _notes(path, read, left, found, where)
    if "dataset_profile" in table and not found.values.get("data"):
        found.notes.append(f"{path}: profile measured its settings on clips that the file does not name; --data does.")
    return found


def _fit(found: Foreign, left: dict[str, str]) -> None:
    """Bring values into the form that they have here, and drop those of an adaptive method that is not chosen."""
    values = found.values
    method = values.get("adaptive.method", "none")
    for key in ("adaptive.terms", "adaptive.alpha", "adaptive.temperature"):
        if key in values and key not in ADAPTIVE.get(method if isinstance(method, str) else "", ()):
            left[found.sources[key]] = f"adaptive_loss_method is {method}, which has no such option"
            del values[key]
    if isinstance(terms := values.get("adaptive.terms"), (str, list)):
        parts = terms.split(",") if isinstance(terms, str) else terms
        values["adaptive.terms"] = [
            part.strip().removeprefix("w_") if isinstance(part, str) else part for part in parts
        ]


def _place(found: Foreign, run_name: object, path: Path) -> str:
    """Make the file's paths count from the working folder; return where they counted from, empty for that folder."""
    values, base = found.values, Path()
    data = values.get("data")
    first = data[0] if isinstance(data, list) and data else data
    if isinstance(first, str) and not (Path(first).is_absolute() or Path(first).exists()):
        beside = (path.parent, path.parent.parent)
        base = next((folder for folder in beside if (folder / first).exists()), base)
    for key in _PATHS:
        value = values.get(key)
        if isinstance(value, str) and not (key == "encoder" and value in ("auto", "none")):
            values[key] = _below(base, value)
        elif key == "data" and isinstance(value, list):
            values[key] = [_below(base, item) if isinstance(item, str) else item for item in value]
    if isinstance(values.get("data"), str):
        values["data"] = [values["data"]]
    if isinstance(run_name, str) and isinstance(values.get("run.out"), str):
        found.put("run.out", str(Path(values["run.out"]) / run_name), "out and run_name")
    elif isinstance(run_name, str):
        found.put("run.name", run_name, "run_name")
    return str(base) if base != Path() else ""


def _drop_bundle(found: Foreign, left: dict[str, str]) -> None:
    """Leave out a normalisation that is not there: the guide needs it, here the clips have their own."""
    name = found.values.get("bundle")
    if isinstance(name, str) and not Path(name).exists():
        left[found.sources["bundle"]] = f"{name} is not there, and the statistics are those of the clips"
        del found.values["bundle"]


def _below(base: Path, name: str) -> str:
    return name if name == "starter" or base == Path() else os.path.normpath(base / name)


def _fill(found: Foreign) -> None:
    """Set what the guide's file takes for granted."""
    values = found.values
    if "fps" not in values:
        found.put("fps", 0.0, "its frames count at the clips' own rate")
    given = values.get("stages")
    stages = [stage for stage in given if isinstance(stage, Mapping)] if isinstance(given, list) else []
    if "run.epochs" not in values and stages and isinstance(last := stages[-1].get("range"), list) and len(last) == 2:
        found.put("run.epochs", last[1], "the end of the last stage")
    length = values.get("train.seq_len")
    if isinstance(length, int) and not isinstance(length, bool) and length >= 4:
        horizons = [stage["trainer"].get("freerun_horizon") for stage in stages]
        wanted = [value for value in (*horizons, values.get("freerun.horizon")) if isinstance(value, (int, float))]
        room = length - int(max(wanted, default=0))
        known = max(2, min(_KNOWN, length // 2, room))
        if known != _KNOWN:
            found.put("train.known", known, "seq_len, so that free runs fit into a window")
    for key, weight in GUIDE_DEFAULTS.items():
        if key not in values:
            found.put(key, weight, "the guide's default")


def _own(found: Foreign, key: str, value: object) -> None:
    """Lay a group or a setting of motionkit's own over what the guide's keys gave."""
    if not isinstance(value, Mapping):
        found.put(key, value, key)
        return
    for name, part in value.items():
        found.put(f"{key}.{name}", part, f"{key}.{name}")


def _notes(path: Path, read: Mapping[str, str], left: Mapping[str, str], found: Foreign, where: str) -> list[str]:
    filled = [
        f"{key} {found.values[key]:g}" for key in GUIDE_DEFAULTS if found.sources.get(key) == "the guide's default"
    ]
    if "train.known" in found.values:
        filled.append(f"train.known {found.values['train.known']}, so that free runs fit into seq_len")
    if found.sources.get("run.epochs", "").startswith("the end"):
        filled.append(f"run.epochs {found.values['run.epochs']}, the end of the last stage")
    rate = "fps 0: frames count at the clips' own rate. " if found.values.get("fps") == 0.0 else ""
    notes = [
        f"{path} is a config of the guide; read as: {renamed(read)}. {rate}"
        f"Paths count from {where or 'the working folder'}."
    ]
    if filled:
        notes.append(f"taken for granted by that config: {', '.join(filled)}.")
    reasons: dict[str, list[str]] = {}
    for key, reason in left.items():
        reasons.setdefault(reason, []).append(key)
    if reasons:
        listed = "; ".join(f"{', '.join(keys)}: {reason}" for reason, keys in reasons.items())
        notes.append(f"left out of that config: {listed}.")
    return notes


def _short(value: object) -> str:
    return "" if isinstance(value, (Mapping, list)) else repr(value)
