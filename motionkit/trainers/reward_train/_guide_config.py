"""Reads the guide's ``train_reward_model.yaml``, and its dotted names, into the settings here. Imports no torch."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from functools import partial
from pathlib import Path, PurePosixPath
from typing import Any

from motionkit.config import Foreign, Problem, interpolate
from motionkit.trainers._guide_yaml import Reading, closed, leaves, reading
from motionkit.trainers.reward_train._guide_keys import KEYS, LEFT_OUT, ROOTS


def is_foreign(key: str) -> bool:
    """Whether a dotted key is the guide's."""
    return key.split(".")[0] in ROOTS


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
    if not any(map(is_foreign, table)):
        return None
    # What is left out as a whole may hold references that mean nothing here.
    stop = closed(LEFT_OUT, KEYS)
    values = {**table, **interpolate({key: value for key, value in table.items() if key not in stop}, path)}
    done = reading(path)
    found = done.found
    _read(done, dict(leaves({key: value for key, value in values.items() if key not in own}, LEFT_OUT)))
    if "run.out" not in found.values and isinstance(runner := values.get("runner"), Mapping):
        parts = [runner[key] for key in ("output_dir", "experiment_name") if isinstance(runner.get(key), str)]
        if parts:
            found.put("run.out", str(PurePosixPath(*parts)), "runner")
    found.put("model.architecture", "resnet10", "the guide's model")
    for name, value in leaves({key: values[key] for key in values if key in own}):  # what is motionkit's own wins
        found.put(name, value, name)
    done.finish(f"{path} is a config of the reward-model guide; read as")
    found.notes.append("Paths count from the working folder.")
    return found


def translate_sets(sets: Mapping[str, Any]) -> Foreign:
    """Return what the guide's dotted names on the command line mean; see `Settings.translate_sets`."""
    done = reading("command line")
    _read(done, sets)
    return done.finish("names of the reward-model guide, read as")


def _read(done: Reading, values: Mapping[str, Any]) -> None:
    found = done.found
    if (task := values.get("runner.task_type")) not in ("embodied", None):
        message = "reward-train learns from images: embodied"
        done.problems.append(Problem("runner.task_type", message, str(found.path), repr(task)))
    done.rename(values, KEYS, LEFT_OUT, partial(_fitted, found))
    if values.get("reward.model.freeze_encoder") is True:
        found.notes.append(
            "freeze_encoder: true freezes an encoder that comes from a file. Without --model.pretrained FILE it is "
            "trained: the guide's code would freeze random weights, which see too little."
        )
    if values.get("reward.model.use_pretrain") is False and "model.pretrained" in found.values:
        del found.values["model.pretrained"]
        done.left["reward.model.pretrained_encoder_path"] = "use_pretrain is false"
        done.read.pop("reward.model.pretrained_encoder_path", None)


def _fitted(found: Foreign, key: str, value: Any) -> Any:
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
