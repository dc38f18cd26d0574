"""The guide's ``train_reward_model.yaml``, and its dotted names, as the settings here. Imports no torch."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import PurePosixPath
from typing import Any

from motionkit.config import Foreign, Problem
from motionkit.trainers._guide import GuideNames, Reading
from motionkit.trainers.reward_train._guide_keys import KEYS, LEFT_OUT, ROOTS

_FROZEN = (
    "freeze_encoder: true freezes an encoder that comes from a file. Without --model.pretrained FILE it is trained: "
    "the guide's code would freeze random weights, which see too little."
)


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


def _settled(reading: Reading) -> Sequence[Problem]:
    """See to what several keys mean together."""
    found, given = reading.found, reading.given
    task = given.get("runner.task_type")
    if task not in ("embodied", None):
        return [Problem("runner.task_type", "reward-train learns from images: embodied", str(found.path), repr(task))]
    if given.get("reward.model.freeze_encoder") is True:
        found.notes.append(_FROZEN)
    if given.get("reward.model.use_pretrain") is False and "model.pretrained" in found.values:
        del found.values["model.pretrained"]
        reading.left["reward.model.pretrained_encoder_path"] = "use_pretrain is false"
        reading.read.pop("reward.model.pretrained_encoder_path", None)
    if reading.from_file:
        if "run.out" not in found.values and (place := _place(given)):
            found.put("run.out", place, "runner")
        found.put("model.architecture", "resnet10", "the guide's model")
    return ()


def _place(given: Mapping[str, Any]) -> str:
    parts = [given.get(f"runner.{key}") for key in ("output_dir", "experiment_name")]
    texts = [part for part in parts if isinstance(part, str)]
    return str(PurePosixPath(*texts)) if texts else ""


NAMES = GuideNames(KEYS, LEFT_OUT, ROOTS, _fitted, _settled)
