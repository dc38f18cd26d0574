"""Finds the files of an evaluator in a released folder, and its three networks in a file."""

from __future__ import annotations

import shlex
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from torch import Tensor

from motionkit import weights
from motionkit.encoders.t2m._network import CONTACTS, EvaluatorSizes, MotionEncoder, MovementEncoder, TextEncoder
from motionkit.errors import MotionkitError
from motionkit.weights import components, describe

MOVEMENT, MOTION, TEXT = "movement_encoder", "motion_encoder", "text_encoder"
NETWORKS = (MOVEMENT, MOTION, TEXT)
_FILE = "finest.tar"
_BELOW = ("", "model", "text_mot_match/model")
_SETS = ("t2m", "kit", "checkpoints/t2m", "checkpoints/kit")
_OTHERS = ("model.safetensors", "tmr/model.safetensors", "text_encoder.pt", "last_weights/text_encoder.pt")
FIX = (
    "give text_mot_match/model/finest.tar of the evaluator's download (t2m.zip or kit.zip), a folder that holds it, "
    "or a folder written by motionkit pretrain t2m-evaluator."
)


@dataclass(frozen=True)
class Networks:
    """The filled networks of an evaluator and their sizes."""

    movement: MovementEncoder
    motion: MotionEncoder
    text: TextEncoder
    sizes: EvaluatorSizes


def find_file(root: Path) -> Path:
    """Return the checkpoint at or below `root`, or the file of another model.

    Raises:
        MotionkitError: There is none, or one of each dataset.
    """
    if root.is_file():
        return root
    found = [file for below in _BELOW if (file := root / below / _FILE).is_file()][:1]
    found = found or [file for name in _SETS if (file := root / name / "text_mot_match" / "model" / _FILE).is_file()]
    if len(found) > 1:
        raise MotionkitError(
            f"{root} holds {len(found)} evaluators.",
            why="each dataset has its own: t2m is HumanML3D's, kit is KIT-ML's.",
            fix=f"name one of them: {found[0]} or {found[1]}.",
        )
    # Files of other models that a folder is likely to hold: `split_file` names them.
    found = found or [file for name in _OTHERS if (file := root / name).is_file()]
    if found:
        return found[0]
    if (root / "run.json").is_file():
        raise MotionkitError(
            f"the run {root} has no evaluator.",
            why="only a run of pretrain t2m-evaluator that has come to an end has one.",
            fix=f"motionkit pretrain t2m-evaluator --resume {shlex.quote(str(root))}",
        )
    raise MotionkitError(f"{root} holds no evaluator.", why=f"there is no {_BELOW[-1]}/{_FILE} in it.", fix=FIX)


def split_file(obj: Any, origin: str) -> Mapping[str, Mapping[str, Tensor]]:
    """Return the tensors of the three networks.

    Raises:
        MotionkitError: It is another kind of file (named), or one network is missing.
    """
    parts = components(obj) if isinstance(obj, Mapping) else {}
    what = describe(obj)
    if any("TMR" in describe(tensors) for tensors in (parts or {"": weights.find_tensors(obj) or {}}).values()):
        raise MotionkitError(
            f"{origin} is a TMR, not the text-to-motion evaluator: {what}.",
            why="the two have the same component names, but other networks.",
            fix=f"use it with a TMR reward (--reward tmr-dense --reward.weights {origin}); for an evaluator {FIX}",
        )
    missing = [name for name in NETWORKS if name not in parts]
    if missing:
        raise MotionkitError(
            f"{origin} is not the text-to-motion evaluator: it is {what}.",
            why=f"it has no {' and no '.join(missing)}.",
            fix=FIX,
        )
    return parts


def build(parts: Mapping[str, Mapping[str, Tensor]], origin: str) -> Networks:
    """Build and fill the networks; any tensor too many or too few is an error.

    Raises:
        MotionkitError: The tensors are not those of an evaluator, or the three do not fit each other.
    """
    movement, motion, text = (parts[name] for name in NETWORKS)
    try:
        hidden, channels, _ = movement["main.0.weight"].shape
        sizes = EvaluatorSizes(
            features=channels + CONTACTS,
            movement_hidden=hidden,
            movement=movement["out_net.weight"].shape[0],
            motion_hidden=motion["input_emb.weight"].shape[0],
            text_hidden=text["input_emb.weight"].shape[0],
            latent=text["output_net.3.weight"].shape[0],
            word=text["input_emb.weight"].shape[1],
        )
    except (KeyError, ValueError, IndexError) as error:
        found = "; ".join(f"{name} = {describe(parts[name])}" for name in NETWORKS)
        raise MotionkitError(
            f"{origin} is not the text-to-motion evaluator: {found}.", why=f"missing or misshaped: {error}", fix=FIX
        ) from error
    return Networks(
        weights.build(lambda: MovementEncoder(sizes), movement, origin),
        weights.build(lambda: MotionEncoder(sizes), motion, origin),
        weights.build(lambda: TextEncoder(sizes), text, origin),
        sizes,
    )
