"""An actor's folder: actor.json and model.safetensors, complete in itself."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path

import torch
from pydantic import ValidationError

from motionkit import weights
from motionkit.documents import read_json
from motionkit.errors import MotionkitError
from motionkit.policies.actor._actor import Actor
from motionkit.policies.actor._settings import ActorSpec
from motionkit.runs import TENSORS, find_model, write_bytes_atomic

ARTIFACT, DOCUMENT, KIND = "actor", "actor.json", "actor"


def save_actor(folder: Path, actor: Actor, *, extra: Mapping[str, object] | None = None, tensors: bool = True) -> None:
    """Write an actor, each file renamed into place.

    Args:
        folder: Created when absent.
        actor: The actor.
        extra: JSON-able additions to the document, such as the success that it reached.
        tensors: Write the weights too; a run does so when it ends, until then its checkpoints hold them.
    """
    from safetensors.torch import save

    document = {"schema": 1, "kind": KIND, "spec": actor.spec.model_dump(mode="json"), **dict(extra or {})}
    folder.mkdir(parents=True, exist_ok=True)
    if tensors:
        own = {name: value.detach().cpu().contiguous() for name, value in actor.tensors().items()}
        write_bytes_atomic(folder / TENSORS, save(own))
    write_bytes_atomic(folder / DOCUMENT, (json.dumps(document, indent=2) + "\n").encode())


def is_actor(place: Path) -> bool:
    """Return whether a place is an actor's folder, or a run or a checkpoint with an actor."""
    return find_model(place.expanduser(), ARTIFACT, DOCUMENT) is not None


def load_actor(place: Path, *, device: torch.device | str = "cpu") -> Actor:
    """Load an actor from its folder, from a run, or from one of a run's checkpoints.

    Args:
        place: The folder.
        device: Where it computes.

    Raises:
        MotionkitError: It is missing, damaged, or something else.
    """
    folder = place.expanduser()
    if (found := find_model(folder, ARTIFACT, DOCUMENT)) is None:
        what = "is no folder of an actor" if folder.exists() else "does not exist"
        raise MotionkitError(
            f"{folder} {what}.", fix="give a run of motionkit ppo or reward-collect --policy ppo, or RUN/actor."
        )
    content = read_json(found.document, dict, fix="copy the folder again.")
    if content.get("kind") != KIND:
        raise MotionkitError(f"{found.document} describes a {str(content.get('kind'))[:40]!r}, no actor.")
    try:
        spec = ActorSpec.model_validate(content.get("spec"))
    except ValidationError as error:
        first = error.errors()[0]
        where = ".".join(map(str, first["loc"])) or "spec"
        raise MotionkitError(f"{found.document} is damaged.", why=f"{where}: {first['msg']}.") from error
    tensors = weights.read(found.tensors)
    held = sum(one.numel() for one in tensors.values() if isinstance(one, torch.Tensor))
    if spec.weights > held:  # before a network of that size is made
        raise MotionkitError(
            f"{found.document} does not describe the weights beside it.",
            why=f"it speaks of {spec.weights:,} or more, and there are {held:,}.",
            fix="copy the folder again.",
        )
    actor = Actor(spec, device=device)
    actor.load_tensors(tensors, str(found.tensors))
    odd = [name for name, values in actor.tensors().items() if not bool(values.isfinite().all())]
    if odd:
        raise MotionkitError(f"{found.tensors} is damaged.", why=f"{odd[0]} is not finite.")
    return actor
