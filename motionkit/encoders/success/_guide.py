"""Files of the reward-model guide: ``step_N/checkpoint.pt``, and the encoder's ``resnet10_pretrained.pt``."""

from __future__ import annotations

import re
from collections.abc import Mapping
from pathlib import Path

from torch import Tensor

from motionkit import weights
from motionkit.documents import open_file
from motionkit.encoders.success._card import Card, Pretrained
from motionkit.encoders.success._classifier import SuccessClassifier
from motionkit.encoders.success._native import built
from motionkit.encoders.success._network import ResNetEncoder, SuccessNetwork
from motionkit.errors import MotionkitError
from motionkit.nn import ResNet10

GUIDE_FILE = "checkpoint.pt"
_KERNEL = re.compile(r"encoders\.([^.]+)\.pooling_layer\.kernel")
_UNUSED = ("fc.weight", "fc.bias")
"""ImageNet's last layer, which the guide's files hold and nothing uses."""

_SCALE = 32
"""Pixels of an image for one place of the feature map."""


def load_guide(path: Path) -> SuccessClassifier:
    """Load a classifier of the guide's own trainer; nothing in the file is executed.

    Cameras and widths are read off the weights. The file says neither the size of its images nor a threshold: 32
    pixels stand for a place of the feature map (64 for the guide's 2x2), and the threshold is 0.5.

    Raises:
        MotionkitError: The file cannot be read, or holds other weights.
    """
    tensors = weights.find_tensors(weights.read(path))
    kernels = {} if tensors is None else {m[1]: value for name, value in tensors.items() if (m := _KERNEL.match(name))}
    if tensors is None or not kernels:
        looks = f" The file looks like: {weights.describe(tensors)}." if tensors else ""
        raise MotionkitError(
            f"{path} is no success classifier.",
            why=f"it has no encoders.CAMERA.pooling_layer.kernel.{looks}",
            fix="give a run of motionkit reward-train, or the guide's step_N/checkpoint.pt.",
        )
    first = next(iter(kernels.values()))
    hidden = tensors.get("classifier.0.bias")
    if first.ndim != 4 or hidden is None or hidden.ndim != 1:
        raise MotionkitError(f"{path} is no success classifier.", why="its pooling or its head has another form.")
    if any(value.ndim != 4 for value in kernels.values()):
        raise MotionkitError(f"{path} is no success classifier.", why="its poolings differ in form.")
    sizes = {name: (_SCALE * value.shape[1], _SCALE * value.shape[2]) for name, value in kernels.items()}
    used = {name: value for name, value in tensors.items() if not name.endswith(tuple(f".{end}" for end in _UNUSED))}
    card = _card(path, sizes, len(hidden), first.shape[3])
    return built(card, used, str(path))


def _card(path: Path, sizes: Mapping[str, tuple[int, int]], hidden: int, blocks: int) -> Card:
    origin = f"{path.parent.name}/{path.name}, a checkpoint of the guide's trainer"
    try:
        return Card(architecture="resnet10", cameras=dict(sizes), hidden=hidden, blocks=blocks, origin=origin)
    except ValueError as error:
        raise MotionkitError(f"{path} is no success classifier.", why="its sizes are out of range.") from error


def read_pretrained(path: Path) -> tuple[dict[str, Tensor], Pretrained]:
    """Read the guide's ``resnet10_pretrained.pt`` (38 tensors), or one of the same names.

    Args:
        path: The file.

    Returns:
        The tensors of `motionkit.nn.ResNet10`, and the file's name and hash.

    Raises:
        MotionkitError: It cannot be read; or names are missing or unexpected, or shapes differ: both are named.
    """
    tensors = weights.find_tensors(weights.read(path))
    if tensors is None:
        raise MotionkitError(f"{path} holds no tensors.", fix="give resnet10_pretrained.pt, or leave it out.")
    wanted = {name: value for name, value in tensors.items() if name not in _UNUSED}
    weights.load_strict(ResNet10(), wanted, str(path))  # an error names what is missing and what is unknown
    bad = [name for name, value in wanted.items() if not bool(value.isfinite().all())]
    if bad:
        raise MotionkitError(f"{path} is damaged.", why=f"{bad[0]} is not finite.")
    return wanted, Pretrained(name=path.name, sha256=_sha256(path))


def start_from(network: SuccessNetwork, tensors: Mapping[str, Tensor]) -> None:
    """Give the backbone of every camera the tensors of `read_pretrained`."""
    for encoder in network.encoders.values():
        if isinstance(encoder, ResNetEncoder):
            encoder.resnet_backbone.load_state_dict(dict(tensors), strict=True)


def _sha256(path: Path) -> str:
    import hashlib

    with open_file(path) as file:
        return hashlib.file_digest(file, "sha256").hexdigest()
