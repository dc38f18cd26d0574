"""Settings of training on pairs of a text and a motion."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, Literal

from pydantic import Field, field_validator

from motionkit.config import Chosen, Cli, Group, slot
from motionkit.training.settings import OptimSettings, RunSettings, TrainerSettings

AUTO, NONE, ALL = "auto", "none", "all"

FAMILIES: Mapping[str, Mapping[str, float]] = {
    "stillness": {"mean-pose": 2, "held-frame": 3, "swing-0.3": 3, "swing-0.1": 1},
    "order": {"shuffled-pieces": 12, "reversed": 1},
    "tempo": {"tempo-2": 120, "tempo-0.5": 120},
    "place": {"no-path": 4, "other-direction": 3},
    "side": {"mirrored": 12},
    "text": {"text-side": 1, "text-tempo": 3, "text-direction": 1, "text-order": 1},
}
"""The kinds of each family in the starter's recipe, with their weights. Few captions name a tempo, so its large weight
makes it the usual choice for them."""
_LARGEST = 2 * 10**9


def kinds_of(text: str, *, starter: bool) -> dict[str, float]:
    """Return the weight of each kind that ``train.negatives`` names.

    Args:
        text: ``auto`` (the recipe for the starter dataset, nothing for another one), ``all`` (the recipe), ``none``, or
            ``NAME[=WEIGHT],...`` of kinds and of families of the recipe; a family's weight multiplies those of its
            kinds.
        starter: Whether the dataset is the starter's.

    Example:
        >>> kinds_of("side=2,swing-0.6", starter=False)
        {'mirrored': 24.0, 'swing-0.6': 1.0}
        >>> kinds_of("auto", starter=False)
        {}
    """
    if text == AUTO:
        text = ALL if starter else NONE
    if text == NONE:
        return {}
    result: dict[str, float] = {}
    for part in (",".join(FAMILIES) if text == ALL else text).split(","):
        name, _, number = (word.strip() for word in part.partition("="))
        weight = _weight(name, number)
        kinds = FAMILIES.get(name, {name: 1.0})
        if twice := sorted(result.keys() & kinds.keys()):
            raise ValueError(f"{twice[0]} is named twice")
        result |= {kind: weight * share for kind, share in kinds.items()}
    return result


def _weight(name: str, number: str) -> float:
    if not name:
        raise ValueError("a kind of change has no name; write NAME or NAME=WEIGHT, separated by commas")
    if name in (AUTO, NONE, ALL):
        raise ValueError(f"{name} stands alone")
    try:
        weight = float(number or 1)
    except ValueError:
        weight = 0.0
    if not 0 < weight < 1e6:
        raise ValueError(f"the weight of {name} is {number}, not a number above 0")
    return weight


class PairTrainSettings(Group):
    """Batches, augmentation and measurements."""

    batch_size: Annotated[int, Cli("--batch-size")] = Field(default=64, ge=2, le=65536, description="Clips per step.")
    crop_share: float = Field(default=0.5, ge=0, le=1, description="Share of clips that are cropped at random.")
    crop_min: int = Field(default=32, ge=1, description="Shortest random crop in frames.")
    noise: float = Field(default=0.0, ge=0, description="Std of noise added to normalised motions, against jitter.")
    half: Literal["all", "first", "second"] = Field(
        default="all", description="Train on all clips, or on every other one (a judge takes the other half)."
    )
    std_floor: float = Field(
        default=0.1, ge=0, description="Smallest Std of a feature, as a share of the dataset's own Std for its block."
    )
    final_rate: float = Field(default=0.05, ge=0, le=1, description="Learning rate at the end, as a share of its peak.")
    negatives: Annotated[str, Cli("--negatives")] = Field(
        default="auto",
        description="Changed copies of a clip and of its caption that the pair is told from: NAME[=WEIGHT],... of "
        "kinds (motionkit eval sensitivity lists them) or of stillness, order, tempo, place, side, text; all; none; "
        "auto: all for the starter dataset, none for others.",
    )
    copies: float = Field(
        default=0.7, ge=0, le=1, description="Share of clips in a step that are shown changed as well, with negatives."
    )
    mirror: float | None = Field(
        default=None,
        ge=0,
        le=1,
        description="Share of clips mirrored with their captions (0.5 with negatives, else 0).",
    )
    resize: float | None = Field(
        default=None,
        ge=0,
        lt=1,
        description="Largest change of a body's size, as a share (0.15 with negatives, else 0).",
    )
    val_every: int = Field(default=0, ge=0, description="Steps between held-out retrievals; 0 at the end only.")
    val_clips: int = Field(default=1024, ge=2, description="Held-out clips used for retrieval.")
    short: int = Field(default=48, ge=1, description="Frames of the crops in the short-segment retrieval figures.")
    save_half: bool = Field(default=False, description="Store the weights as float16.")

    @field_validator("negatives")
    @classmethod
    def _readable(cls, value: str) -> str:
        kinds_of(value, starter=True)
        return value


class PairSettings(TrainerSettings):
    """Settings of the trainers of both TMR and the evaluator."""

    run: RunSettings = RunSettings(num_steps=2000)
    dataset: Chosen = slot("datasets", "starter", gives=("text-motion", "composite"))
    loss: Group = Group()
    train: PairTrainSettings = PairTrainSettings()
    optim: OptimSettings = OptimSettings()


def refuse_size(layers: int, width: int, ff_size: int) -> None:
    """Raise a ValueError for a transformer of over two billion weights (8 GB, and three times that to train)."""
    count = layers * (4 * width * width + 2 * width * ff_size)
    if count > _LARGEST:
        raise ValueError(f"{layers} layers of width {width} and {ff_size} have {count:.1e} weights, too many to train")
