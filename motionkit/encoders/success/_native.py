"""A classifier's folder: classifier.json and model.safetensors, complete in itself."""

from __future__ import annotations

import json
from pathlib import Path

from torch import Tensor

from motionkit import weights
from motionkit.documents import read_model
from motionkit.encoders.success._card import Card
from motionkit.encoders.success._classifier import SuccessClassifier, split_calibration
from motionkit.encoders.success._network import SuccessNetwork
from motionkit.errors import MotionkitError
from motionkit.runs import TENSORS, TrainedOn, write_bytes_atomic

KIND, ARTIFACT, DOCUMENT = "success-classifier", "classifier", "classifier.json"


def save_classifier(folder: Path, classifier: SuccessClassifier, *, tensors: bool = True) -> None:
    """Write ``classifier.json`` (the card), ``trained-on.json`` and ``model.safetensors``, each renamed into place.

    Args:
        folder: Created when absent.
        classifier: The classifier.
        tensors: Write the weights too; a run does so when it ends, until then its checkpoints hold them.
    """
    from safetensors.torch import save

    folder.mkdir(parents=True, exist_ok=True)
    if tensors:
        own = {name: value.detach().cpu().contiguous() for name, value in classifier.tensors().items()}
        write_bytes_atomic(folder / TENSORS, save(own))
    document = {"schema": 1, "kind": KIND, **classifier.card.model_dump(mode="json")}
    write_bytes_atomic(folder / DOCUMENT, (json.dumps(document, indent=2) + "\n").encode())
    if classifier.trained_on != TrainedOn.unknown():
        classifier.trained_on.write(folder)


def load_native(folder: Path, tensors: Path | None = None) -> SuccessClassifier:
    """Load a classifier, in eval mode, on the CPU.

    Args:
        folder: What `save_classifier` wrote.
        tensors: Its weights, where they are not in the folder: those of a run's checkpoint.

    Raises:
        MotionkitError: It is missing, damaged, not finite, or the weights do not fit the document.
    """
    card, path = read_card(folder / DOCUMENT), tensors or folder / TENSORS
    content = weights.read(path)
    found = weights.find_tensors(content)
    if found is None:
        raise MotionkitError(f"{path} holds no tensors.", fix="copy the folder again.")
    rest, card = split_calibration(found, card)
    classifier = built(card, rest, str(path))
    classifier.trained_on = TrainedOn.read(folder)
    return classifier


def built(card: Card, tensors: dict[str, Tensor], origin: str) -> SuccessClassifier:
    """Return a classifier with these weights, in eval mode; raises a `MotionkitError` where they do not fit."""
    network = weights.build(
        lambda: SuccessNetwork(card.architecture, card.cameras, card.hidden, card.blocks), tensors, origin
    )
    for name, values in network.state_dict().items():
        if not bool(values.isfinite().all()):
            raise MotionkitError(f"{origin} is damaged.", why=f"{name} is not finite.")
    classifier = SuccessClassifier(network, card)
    classifier.network.eval()
    return classifier


def read_card(path: Path) -> Card:
    """Read classifier.json.

    Raises:
        MotionkitError: It is missing, damaged, or of another kind.
    """
    return read_model(path, Card, KIND, ", no success classifier")
