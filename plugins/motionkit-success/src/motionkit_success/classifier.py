"""Success classifiers: the probability of success from one frame of each camera.

A classifier's folder holds ``classifier.json`` and ``model.safetensors``, and is complete in itself. Files of the
reward-model guide are read as well: ``step_N/checkpoint.pt``, and the encoder's ``resnet10_pretrained.pt``.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Mapping
from pathlib import Path
from typing import Annotated, Any, Literal

import torch
from pydantic import BaseModel, ConfigDict, Field
from torch import Tensor

from motionkit import weights
from motionkit.documents import open_file, read_model
from motionkit.errors import MotionkitError
from motionkit.runs import TENSORS, TrainedOn, find_model, newest_with, what_is, write_model
from motionkit_success.classification import Calibration
from motionkit_success.classifier_network import Architecture, ResNetEncoder, SuccessNetwork, as_images
from motionkit_success.resnet10 import ResNet10

KIND, ARTIFACT, DOCUMENT = "success-classifier", "classifier", "classifier.json"

GUIDE_FILE = "checkpoint.pt"

COMMAND = "reward-train"

CHUNK = 256
"""Frames per pass of the network: more take memory."""

_CPU_CHUNK = 64
"""The same on a CPU: what a pass makes stays in the cache, and its memory with the process."""

_CALIBRATION = "calibration"

_KERNEL = re.compile(r"encoders\.([^.]+)\.pooling_layer\.kernel")
_UNUSED = ("fc.weight", "fc.bias")  # ImageNet's last layer, which is in the guide's files and not used
_SCALE = 32  # pixels of an image per cell of the feature map

_FIX = f"give a run of motionkit {COMMAND}, one of its checkpoints, or the guide's step_N/checkpoint.pt."

Status = Literal["ok", "warn", "fail"]
_SMALLEST, _LARGEST, _CAMERAS = 8, 4096, 16  # pixels of a picture's side; cameras
Side = Annotated[int, Field(ge=_SMALLEST, le=_LARGEST)]


class Check(BaseModel):
    """One of the checks of `motionkit_success.evaluation`."""

    model_config = ConfigDict(frozen=True, extra="ignore", allow_inf_nan=False)

    name: str  # short name
    status: Status  # ``ok``, ``warn`` or ``fail``
    value: float | None  # what was measured; None if it could not be
    limit: str  # its limits, in words
    meaning: str  # a sentence


class Pretrained(BaseModel):
    """The pretrained file of an encoder."""

    model_config = ConfigDict(frozen=True, extra="ignore")

    name: str  # its name without folder
    sha256: str  # of its bytes


class Card(BaseModel):
    """Everything about a classifier except its weights."""

    model_config = ConfigDict(frozen=True, extra="ignore", allow_inf_nan=False)

    architecture: Architecture  # ``small`` or ``resnet10``
    # (height, width) in pixels by name
    cameras: Annotated[dict[str, tuple[Side, Side]], Field(min_length=1, max_length=_CAMERAS)]
    hidden: int = Field(256, ge=8, le=8192)  # width of the head, and of each encoder of ``resnet10``
    blocks: int = Field(8, ge=1, le=256)  # spatial sums of ``resnet10``
    threshold: float = Field(0.5, ge=0, le=1)  # probability from which a frame is a success
    temperature: float = Field(1.0, gt=0, le=1e3)  # logits are divided by it
    bias: float = 0.0  # log odds added after that; see `motionkit_success.classification.Calibration`
    environment: Mapping[str, Any] = Field(default_factory=dict)  # where the frames are from; empty if not known
    label_rule: str = ""  # what label 1 means, in words
    dataset: str = ""  # fingerprint of the training data
    pretrained: Pretrained | None = None  # the encoder's file, if any
    frozen: bool = False  # whether the encoder was left as it was
    checks: tuple[Check, ...] = ()  # the checks on held-out episodes; empty before they are made
    heldout: Mapping[str, Any] = Field(default_factory=dict)  # figures on held-out episodes
    step: int = 0  # training steps behind the weights
    origin: str = ""  # where it is from, if it is not from a run of motionkit

    @property
    def failed(self) -> tuple[Check, ...]:
        """The checks that failed; a policy trained on such a classifier learns something else than the task."""
        return tuple(check for check in self.checks if check.status == "fail")

    def seen(self) -> str:
        """Return cameras and sizes in words: ``base_camera 64x64``."""
        return in_words(self.cameras)


def refuse_sizes(cameras: Mapping[str, tuple[int, int]]) -> None:
    """Refuse too many cameras, and pictures that are too small or too large."""
    if len(cameras) > _CAMERAS or not all(_SMALLEST <= side <= _LARGEST for size in cameras.values() for side in size):
        raise MotionkitError(
            f"a classifier cannot look at {in_words(cameras)}.",
            why=f"it takes up to {_CAMERAS} cameras with pictures of {_SMALLEST} to {_LARGEST} pixels a side.",
            fix="--data.cameras NAME chooses cameras; resize pictures where they are made.",
        )


def in_words(cameras: Mapping[str, tuple[int, int]]) -> str:
    """Return cameras and sizes in words: ``base_camera 64x64, hand 32x32``."""
    return ", ".join(f"{name} {height}x{width}" for name, (height, width) in cameras.items()) or "no camera"


class SuccessClassifier:
    """Predicts from one frame of each camera whether a task is fulfilled.

    Example:
        >>> card = Card(architecture="small", cameras={"camera": (16, 16)})
        >>> classifier = SuccessClassifier.make(card)
        >>> classifier.probabilities({"camera": torch.zeros(2, 16, 16, 3, dtype=torch.uint8)}).shape
        torch.Size([2])
    """

    def __init__(self, network: SuccessNetwork, card: Card, trained_on: TrainedOn | None = None) -> None:
        self._network, self.card = network, card
        # Fingerprints of the episodes that trained it and that chose its threshold.
        self.trained_on = TrainedOn.unknown() if trained_on is None else trained_on

    @classmethod
    def make(cls, card: Card) -> SuccessClassifier:
        """Make a classifier with random weights, by torch's global generator."""
        return cls(SuccessNetwork(card.architecture, card.cameras, card.hidden, card.blocks), card)

    @property
    def network(self) -> SuccessNetwork:
        """The module whose parameters are trained."""
        return self._network

    @property
    def device(self) -> torch.device:
        """Where its weights are."""
        return next(self._network.parameters()).device

    @property
    def threshold(self) -> float:
        """Probability from which a frame is a success."""
        return self.card.threshold

    def to(self, device: torch.device | str) -> SuccessClassifier:
        """Move the weights; returns itself."""
        self._network.to(device)
        return self

    def logits(self, frames: Mapping[str, Tensor]) -> Tensor:
        """Return uncalibrated logits ``[N]`` float32 of `frames`, without gradients and dropout.

        Frames are uint8 RGB ``[N, H, W, 3]`` by camera, on any device; other cameras than the card's are ignored.
        """
        self.refuse(frames)
        count = len(next(iter(frames.values())))
        network = self._network
        training, device = network.training, self.device
        if training:  # it goes through all modules, and a policy asks for each step
            network.eval()
        size = min(CHUNK, _CPU_CHUNK) if device.type == "cpu" else CHUNK

        def chunk(name: str, start: int) -> Tensor:
            values = frames[name][start : start + size].to(device)
            return values.permute(0, 3, 1, 2) if self.card.architecture == "small" else as_images(values)

        try:
            with torch.inference_mode(False), torch.no_grad():  # what is kept is written again outside that mode
                parts = [
                    network({name: chunk(name, start) for name in self.card.cameras}).float()
                    for start in range(0, count, size)
                ]
        finally:
            if training:
                network.train()
        return torch.cat(parts) if parts else torch.zeros(0, device=self.device)

    def probabilities(self, frames: Mapping[str, Tensor]) -> Tensor:
        """Return calibrated probabilities of success ``[N]`` float32; see `logits`."""
        return self.calibrated(self.logits(frames))

    def calibrated(self, logits: Tensor) -> Tensor:
        """Return probabilities of logits."""
        return Calibration(self.card.temperature, self.card.bias)(logits)

    def refuse(self, frames: Mapping[str, Tensor]) -> None:
        """Refuse frames of another shape, type, camera or size."""
        wrong = [name for name, values in frames.items() if values.ndim != 4 or values.shape[-1] != 3]
        if wrong:
            raise MotionkitError(
                f"frames of {wrong[0]} are {list(frames[wrong[0]].shape)}.", why="[N, H, W, 3] uint8 RGB is read."
            )
        self.refuse_cameras({name: (values.shape[1], values.shape[2]) for name, values in frames.items()})
        odd = [name for name in self.card.cameras if frames[name].dtype != torch.uint8]
        if odd:
            raise MotionkitError(
                f"frames of {odd[0]} are {str(frames[odd[0]].dtype).removeprefix('torch.')}, not uint8.",
                why="the range of uint8 is known; floats may be 0..1 or 0..255.",
            )

    def refuse_cameras(self, cameras: Mapping[str, tuple[int, int]]) -> None:
        """Refuse other cameras or sizes than the classifier's."""
        if all(tuple(cameras.get(name, ())) == tuple(size) for name, size in self.card.cameras.items()):
            return
        raise MotionkitError(
            f"the classifier was trained on {self.card.seen()}; these frames are {in_words(cameras)}.",
            why="cameras and sizes must be the same.",
            fix="give the environment the same cameras and size, or train a classifier on its frames.",
        )

    def fingerprint(self) -> str:
        """Return a hash of weights and calibration."""
        digest = hashlib.sha256()
        for name, values in sorted(self.tensors().items()):
            digest.update(name.encode())
            digest.update(values.detach().cpu().contiguous().numpy().tobytes())
        return digest.hexdigest()[:16]

    def tensors(self) -> dict[str, Tensor]:
        """Return weights with temperature, bias and threshold: what a checkpoint holds."""
        card = self.card
        numbers = torch.tensor([card.temperature, card.bias, card.threshold], dtype=torch.float64)
        return {**self._network.state_dict(), _CALIBRATION: numbers}

    def load_tensors(self, tensors: Mapping[str, Tensor]) -> None:
        """Put back what `tensors` returned, in place; strict."""
        rest, self.card = split_calibration(tensors, self.card)
        weights.load_strict(self._network, rest, "the checkpoint")

    def update(self, **changes: object) -> None:
        """Change values of the card."""
        self.card = self.card.model_copy(update=changes)


def split_calibration(tensors: Mapping[str, Tensor], card: Card) -> tuple[dict[str, Tensor], Card]:
    """Split `SuccessClassifier.tensors` into the weights and the card with their calibration."""
    rest = dict(tensors)
    numbers = rest.pop(_CALIBRATION, None)
    if numbers is None:
        return rest, card
    values = numbers.flatten().double().tolist()
    if len(values) != 3 or not bool(numbers.isfinite().all()) or values[0] <= 0 or not 0 <= values[2] <= 1:
        raise MotionkitError("the classifier is damaged: its calibration is out of range.", fix="copy it again.")
    return rest, card.model_copy(update=dict(zip(("temperature", "bias", "threshold"), values, strict=True)))


def save_classifier(
    folder: Path,  # created if it is missing
    classifier: SuccessClassifier,
    *,
    tensors: bool = True,  # write the weights too; until a run ends only its checkpoints hold them
) -> None:
    """Write ``classifier.json`` (the card), ``trained-on.json`` and ``model.safetensors``, each renamed into place."""
    document = {"schema": 1, "kind": KIND, **classifier.card.model_dump(mode="json")}
    write_model(folder, DOCUMENT, document, classifier.tensors() if tensors else None)
    if classifier.trained_on != TrainedOn.unknown():
        classifier.trained_on.write(folder)


def load_classifier(place: str | Path, *, device: torch.device | str = "cpu") -> SuccessClassifier:
    """Load the classifier of a run of ``reward-train`` (its best), a checkpoint, a folder or its model.safetensors.

    Or of the guide: its ``checkpoint.pt``, or the folder that holds it.
    """
    path = weights.located(place)
    if path.is_file() and path.name == TENSORS:
        path = path.parent
    if path.is_dir() and (model := find_model(path, ARTIFACT, DOCUMENT)) is not None:
        stored = weights.find_tensors(weights.read(model.tensors))
        if stored is None:
            raise MotionkitError(f"{model.tensors} holds no tensors.", fix="copy the folder again.")
        rest, card = split_calibration(stored, read_card(model.document))
        classifier = built(card, rest, str(model.tensors)).to(device)
        classifier.trained_on = TrainedOn.read(model.document.parent)
        return classifier
    if path.is_dir() and (path / GUIDE_FILE).is_file():
        path = path / GUIDE_FILE
    if path.is_file():
        return load_guide(path).to(device)
    if not path.exists():
        raise MotionkitError(f"there is no {path}.", why="a success classifier was expected there.", fix=_FIX)
    raise MotionkitError(f"{path} is {what_is(path)}.", why="it holds no success classifier.", fix=_FIX)


def newest_classifier_run(root: str | Path = "runs") -> Path | None:
    """Return the newest finished run of ``reward-train`` below `root`; None without one."""
    return newest_with(COMMAND, Path(ARTIFACT, DOCUMENT), root)


def built(card: Card, tensors: dict[str, Tensor], origin: str) -> SuccessClassifier:
    """Return a classifier with these weights, in eval mode."""
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
    """Read classifier.json."""
    return read_model(path, Card, KIND, ", no success classifier")


def load_guide(path: Path) -> SuccessClassifier:
    """Load a classifier of the guide's own trainer; nothing in the file is executed.

    Cameras and widths follow from the weights. The file has neither the size of its images nor a threshold: a cell of
    the feature map is taken for 32 pixels (64 for the guide's 2x2), and the threshold is 0.5.
    """
    tensors = weights.find_tensors(weights.read(path))
    kernels = {} if tensors is None else {m[1]: value for name, value in tensors.items() if (m := _KERNEL.match(name))}
    if tensors is None or not kernels:
        looks = f" The file looks like: {weights.describe(tensors)}." if tensors else ""
        raise MotionkitError(
            f"{path} is not a success classifier.",
            why=f"it has no encoders.CAMERA.pooling_layer.kernel.{looks}",
            fix="give a run of motionkit reward-train, or the guide's step_N/checkpoint.pt.",
        )
    first = next(iter(kernels.values()))
    hidden = tensors.get("classifier.0.bias")
    if first.ndim != 4 or hidden is None or hidden.ndim != 1:
        raise MotionkitError(f"{path} is not a success classifier.", why="its pooling or its head has another form.")
    if any(value.ndim != 4 for value in kernels.values()):
        raise MotionkitError(f"{path} is not a success classifier.", why="its poolings differ in form.")
    sizes = {name: (_SCALE * value.shape[1], _SCALE * value.shape[2]) for name, value in kernels.items()}
    used = {name: value for name, value in tensors.items() if not name.endswith(tuple(f".{end}" for end in _UNUSED))}
    origin = f"{path.parent.name}/{path.name}, a checkpoint of the guide's trainer"
    try:
        card = Card(architecture="resnet10", cameras=sizes, hidden=len(hidden), blocks=first.shape[3], origin=origin)
    except ValueError as error:
        raise MotionkitError(f"{path} is not a success classifier.", why="its sizes are out of range.") from error
    return built(card, used, str(path))


def read_pretrained(path: Path) -> tuple[dict[str, Tensor], Pretrained]:
    """Read the guide's ``resnet10_pretrained.pt`` (38 tensors of `motionkit.nn.ResNet10`), with its name and hash."""
    tensors = weights.find_tensors(weights.read(path))
    if tensors is None:
        raise MotionkitError(f"{path} holds no tensors.", fix="give resnet10_pretrained.pt, or leave it out.")
    used = {name: value for name, value in tensors.items() if name not in _UNUSED}
    weights.load_strict(ResNet10(), used, str(path))
    bad = [name for name, value in used.items() if not bool(value.isfinite().all())]
    if bad:
        raise MotionkitError(f"{path} is damaged.", why=f"{bad[0]} is not finite.")
    with open_file(path) as file:
        return used, Pretrained(name=path.name, sha256=hashlib.file_digest(file, "sha256").hexdigest())


def start_from(network: SuccessNetwork, tensors: Mapping[str, Tensor]) -> None:
    """Load the tensors of `read_pretrained` into the backbone of every camera."""
    for encoder in network.encoders.values():
        if isinstance(encoder, ResNetEncoder):
            encoder.resnet_backbone.load_state_dict(dict(tensors), strict=True)
