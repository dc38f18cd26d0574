"""The classifier: network, card, and probabilities of frames."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping

import torch
from torch import Tensor

from motionkit import weights
from motionkit.encoders.success._card import Card, in_words
from motionkit.encoders.success._network import SuccessNetwork, as_images
from motionkit.errors import MotionkitError
from motionkit.metrics import Calibration
from motionkit.runs import TrainedOn

CHUNK = 256
"""Frames that the network sees at a time: one pass over more is slower on a CPU, and takes memory."""

_CALIBRATION = "calibration"


class SuccessClassifier:
    """Tells from one frame of each camera whether a task is fulfilled.

    Args:
        network: The network.
        card: What it was made for.
        trained_on: Contents of the episodes that trained it and that chose its threshold.

    Example:
        >>> card = Card(architecture="small", cameras={"camera": (16, 16)})
        >>> classifier = SuccessClassifier.make(card)
        >>> classifier.probabilities({"camera": torch.zeros(2, 16, 16, 3, dtype=torch.uint8)}).shape
        torch.Size([2])
    """

    def __init__(self, network: SuccessNetwork, card: Card, trained_on: TrainedOn | None = None) -> None:
        self._network, self.card = network, card
        self.trained_on = TrainedOn.unknown() if trained_on is None else trained_on

    @classmethod
    def make(cls, card: Card) -> SuccessClassifier:
        """Make one with random weights, by torch's global generator."""
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
        """Return uncalibrated logits ``[N]`` float32, without a graph and without dropout.

        Args:
            frames: uint8 RGB ``[N, H, W, 3]`` by camera, any device; other cameras than its own are not looked at.

        Raises:
            MotionkitError: A camera is missing or has images of another size; the message names both sides.
        """
        self.refuse(frames)
        count = len(next(iter(frames.values())))
        network = self._network
        training = network.training
        network.eval()
        try:
            with torch.no_grad():
                parts = [
                    network({name: self._chunk(frames[name], start) for name in self.card.cameras}).float()
                    for start in range(0, count, CHUNK)
                ]
        finally:
            network.train(training)
        return torch.cat(parts) if parts else torch.zeros(0, device=self.device)

    def probabilities(self, frames: Mapping[str, Tensor]) -> Tensor:
        """Return calibrated probabilities of success ``[N]`` float32; see `logits`."""
        return self.calibrated(self.logits(frames))

    def successes(self, frames: Mapping[str, Tensor]) -> Tensor:
        """Return ``[N]`` bool: the probability is at least the card's threshold."""
        return self.probabilities(frames) >= self.card.threshold

    def calibrated(self, logits: Tensor) -> Tensor:
        """Return probabilities of logits."""
        return Calibration(self.card.temperature, self.card.bias)(logits)

    def refuse(self, frames: Mapping[str, Tensor]) -> None:
        """Raise a `MotionkitError` where frames do not fit; it names what the classifier and the frames have."""
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
                why="values of 0 to 255 tell their range by their type; floats may be 0..1 or 0..255.",
            )

    def refuse_cameras(self, cameras: Mapping[str, tuple[int, int]]) -> None:
        """Raise a `MotionkitError` where cameras or sizes differ from the classifier's; it names both sides."""
        if all(tuple(cameras.get(name, ())) == tuple(size) for name, size in self.card.cameras.items()):
            return
        raise MotionkitError(
            f"the classifier was trained on {self.card.seen()}; these frames are {in_words(cameras)}.",
            why="cameras and sizes must be the same.",
            fix="give the environment the same cameras and size, or train a classifier on its frames.",
        )

    def fingerprint(self) -> str:
        """Return a hash of weights and calibration, the same wherever the classifier lies."""
        found = hashlib.sha256()
        for name, values in sorted(self.tensors().items()):
            found.update(name.encode())
            found.update(values.detach().cpu().contiguous().numpy().tobytes())
        return found.hexdigest()[:16]

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

    def _chunk(self, frames: Tensor, start: int) -> Tensor:
        return as_images(frames[start : start + CHUNK].to(self.device))


def split_calibration(tensors: Mapping[str, Tensor], card: Card) -> tuple[dict[str, Tensor], Card]:
    """Return the weights alone, and the card with the calibration that was beside them."""
    rest = dict(tensors)
    numbers = rest.pop(_CALIBRATION, None)
    if numbers is None:
        return rest, card
    values = numbers.flatten().double().tolist()
    if len(values) != 3 or not bool(numbers.isfinite().all()) or values[0] <= 0 or not 0 <= values[2] <= 1:
        raise MotionkitError("the classifier is damaged: its calibration is out of range.", fix="copy it again.")
    return rest, card.model_copy(update=dict(zip(("temperature", "bias", "threshold"), values, strict=True)))
