"""What a classifier knows of itself; it travels with the weights."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, Any, Literal

from pydantic import BaseModel, ConfigDict, Field

from motionkit.encoders.success._network import Architecture
from motionkit.errors import MotionkitError

Status = Literal["ok", "warn", "fail"]
_SMALLEST, _LARGEST, _CAMERAS = 8, 4096, 16  # pixels of a picture's side; cameras
Side = Annotated[int, Field(ge=_SMALLEST, le=_LARGEST)]


class Check(BaseModel):
    """One of the checks of `motionkit.evaluation.reward`.

    Attributes:
        name: Short name.
        status: ``ok``, ``warn`` or ``fail``.
        value: What was measured; None where nothing could be.
        limit: What it is held against, in words.
        meaning: What it says, a sentence.
    """

    model_config = ConfigDict(frozen=True, extra="ignore", allow_inf_nan=False)

    name: str
    status: Status
    value: float | None
    limit: str
    meaning: str


class Pretrained(BaseModel):
    """The file that an encoder began with.

    Attributes:
        name: Its name without folder.
        sha256: Of its bytes.
    """

    model_config = ConfigDict(frozen=True, extra="ignore")

    name: str
    sha256: str


class Card(BaseModel):
    """Everything needed to use a classifier rightly.

    Attributes:
        architecture: ``small`` or ``resnet10``.
        cameras: (height, width) in pixels by name.
        hidden: Width of the head, and of each encoder of ``resnet10``.
        blocks: Spatial sums of ``resnet10``.
        threshold: Probability from which a frame is a success.
        temperature: Logits are divided by it.
        bias: Log odds added after that; see `motionkit.metrics.Calibration`.
        environment: What the frames were made with; empty where not known.
        label_rule: What label 1 means, in words.
        dataset: Fingerprint of the training data.
        pretrained: The encoder's file, if any.
        frozen: Whether the encoder was left as it was.
        checks: The checks on held-out episodes; empty before they were made.
        heldout: Figures on held-out episodes.
        step: Training steps behind the weights.
        origin: Where it comes from, when it is not a run of motionkit.
    """

    model_config = ConfigDict(frozen=True, extra="ignore", allow_inf_nan=False)

    architecture: Architecture
    cameras: Annotated[dict[str, tuple[Side, Side]], Field(min_length=1, max_length=_CAMERAS)]
    hidden: int = Field(256, ge=8, le=8192)
    blocks: int = Field(8, ge=1, le=256)
    threshold: float = Field(0.5, ge=0, le=1)
    temperature: float = Field(1.0, gt=0, le=1e3)
    bias: float = 0.0
    environment: Mapping[str, Any] = Field(default_factory=dict)
    label_rule: str = ""
    dataset: str = ""
    pretrained: Pretrained | None = None
    frozen: bool = False
    checks: tuple[Check, ...] = ()
    heldout: Mapping[str, Any] = Field(default_factory=dict)
    step: int = 0
    origin: str = ""

    @property
    def failed(self) -> tuple[Check, ...]:
        """The checks that failed: a policy trained on such a classifier learns something else than the task."""
        return tuple(check for check in self.checks if check.status == "fail")

    def seen(self) -> str:
        """Return cameras and sizes in words: ``base_camera 64x64``."""
        return in_words(self.cameras)


def refuse_sizes(cameras: Mapping[str, tuple[int, int]]) -> None:
    """Refuse cameras that no classifier takes.

    Raises:
        MotionkitError: There are too many, or a picture is too small or too large.
    """
    if len(cameras) > _CAMERAS or not all(_SMALLEST <= side <= _LARGEST for size in cameras.values() for side in size):
        raise MotionkitError(
            f"a classifier cannot look at {in_words(cameras)}.",
            why=f"it takes up to {_CAMERAS} cameras with pictures of {_SMALLEST} to {_LARGEST} pixels a side.",
            fix="--data.cameras NAME chooses cameras; resize pictures where they are made.",
        )


def in_words(cameras: Mapping[str, tuple[int, int]]) -> str:
    """Return cameras and sizes in words: ``base_camera 64x64, hand 32x32``."""
    return ", ".join(f"{name} {height}x{width}" for name, (height, width) in cameras.items()) or "no camera"
