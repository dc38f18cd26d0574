"""Reads the guide's ``train_reward_model.yaml``, and its dotted names, into the settings here. Imports no torch."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping
from pathlib import Path, PurePosixPath
from typing import Any

from motionkit.config import Foreign, Problem, SettingsError, interpolate, renamed, suggest
from motionkit.documents import parse_yaml
from motionkit.errors import MotionkitError
from motionkit.trainers.reward_train._guide_keys import KEYS, ROOTS, reason_left_out

_TYPED = "command line"


def translate(table: Mapping[str, Any], path: Path, own: Collection[str]) -> Foreign | None:
    """Return what a file of the guide means here; see `motionkit.config.Settings.translate`.

    Groups of motionkit's own may stand beside the guide's; they win.

    Args:
        table: What the file holds.
        path: The file.
        own: Names of the groups and settings here.

    Raises:
        SettingsError: A key is unknown or given twice under two names, or a reference cannot be kept.
    """
    if not any(key in ROOTS for key in table):
        return None
    values = interpolate(table, path)
    theirs = {key: value for key, value in values.items() if key not in own}
    found, read, left = _read(dict(_leaves(theirs)), path)
    if "run.out" not in found.values and isinstance(runner := values.get("runner"), Mapping):
        parts = [runner[key] for key in ("output_dir", "experiment_name") if isinstance(runner.get(key), str)]
        if parts:
            found.put("run.out", str(PurePosixPath(*parts)), "runner")
    found.put("model.architecture", "resnet10", "the guide's model")
    for key in values:  # what is motionkit's own wins
        if key in own:
            for name, value in _leaves({key: values[key]}):
                found.put(name, value, name)
    found.notes[:0] = [
        f"{path} is a config of the reward-model guide; read as: {renamed(read)}. Paths count from the working folder."
    ]
    found.notes += _left(left)
    return found


def translate_sets(sets: Mapping[str, str]) -> Foreign | None:
    """Return what the guide's dotted names on the command line mean; see `Settings.translate_sets`."""
    theirs = {key: text for key, text in sets.items() if key.split(".")[0] in ROOTS}
    if not theirs:
        return None
    values = {key: _parsed(key, text) for key, text in theirs.items()}
    found, read, left = _read(values, Path(_TYPED))
    found.taken = set(theirs)
    if read:
        found.notes.insert(0, f"names of the reward-model guide, read as: {renamed(read)}.")
    found.notes += _left(left)
    return found


def _read(values: Mapping[str, Any], path: Path) -> tuple[Foreign, dict[str, str], dict[str, str]]:
    """Give values their names here; return them with the names that were read, and why others were left out."""
    found, problems = Foreign(path), []
    read: dict[str, str] = {}
    left: dict[str, str] = {}
    for key, value in values.items():
        if key == "runner.task_type" and value not in ("embodied", None):
            problems.append(Problem(key, "reward-train learns from images: embodied", str(path), repr(value)))
        elif reason := reason_left_out(key):
            left[key] = reason
        elif key not in KEYS:
            shown = "" if isinstance(value, (Mapping, list)) else repr(value)
            problems.append(Problem(key, "unknown setting", str(path), shown, suggest(key, KEYS)))
        elif value is None:
            left[key] = "it is null"
        else:
            here, value = KEYS[key], _fitted(key, value, found)
            if here in found.values and found.values[here] != value:
                message = f"{found.sources[here]} sets {here} as well"
                problems.append(Problem(key, message, str(path), repr(value), "keep one of them"))
            else:
                found.put(here, value, key)
                read[key] = here
    if problems:
        raise SettingsError(problems)
    if values.get("reward.model.freeze_encoder") is True:
        found.notes.append(
            "freeze_encoder: true freezes an encoder that comes from a file. Without --model.pretrained FILE it is "
            "trained: the guide's code would freeze random weights, which see too little."
        )
    if values.get("reward.model.use_pretrain") is False and "model.pretrained" in found.values:
        del found.values["model.pretrained"]
        left["reward.model.pretrained_encoder_path"] = "use_pretrain is false"
        read.pop("reward.model.pretrained_encoder_path", None)
    return found, read, left


def _fitted(key: str, value: Any, found: Foreign) -> Any:
    """Bring a value into the form that it has here."""
    if key == "reward.gpu_id":
        if value in (0, "0"):
            found.notes.append("gpu_id 0 is --device auto: the first GPU where there is one.")
            return "auto"
        return value
    if key == "reward.model.freeze_encoder" and isinstance(value, bool):
        return "auto" if value else "never"
    if key == "reward.save_dir" and isinstance(value, str):
        place = PurePosixPath(value)
        # A run keeps its checkpoints in a folder of that name, so that save_dir is where the guide had it.
        return str(place.parent) if place.name == "checkpoints" and place.parent.name else value
    if key in ("reward.model.image_keys", "reward.data.image_key") and isinstance(value, str):
        return [value]
    return value


def _leaves(table: Mapping[str, Any], prefix: str = "") -> Iterator[tuple[str, Any]]:
    """Yield values by dotted key; a list, an empty group and one that is left out as a whole are values."""
    for name, value in table.items():
        key = f"{prefix}{name}"
        if isinstance(value, Mapping) and value and not reason_left_out(key):
            yield from _leaves(value, f"{key}.")
        else:
            yield key, value


def _parsed(key: str, text: str) -> Any:
    """Return a typed value as YAML reads it, as Hydra does."""
    try:
        return parse_yaml(text, f"--set {key}", object)
    except MotionkitError:
        return text


def _left(left: Mapping[str, str]) -> list[str]:
    reasons: dict[str, list[str]] = {}
    for key, reason in left.items():
        reasons.setdefault(reason, []).append(key)
    listed = "; ".join(f"{', '.join(keys)}: {reason}" for reason, keys in reasons.items())
    return [f"left out: {listed}."] if listed else []
