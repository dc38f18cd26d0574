"""Public functions for making composite sets and for joining real clips. Imports torch."""

from motionkit.datasets.composite._compose import Composed, compose
from motionkit.datasets.composite._motion import reference_features, reference_joints
from motionkit.datasets.composite._plan import Plan
from motionkit.datasets.composite._tower import EncoderTower, TextTower, TmrTower
from motionkit.datasets.composite._write import Written, planned_files, write_composed

__all__ = [
    "Composed",
    "EncoderTower",
    "Plan",
    "TextTower",
    "TmrTower",
    "Written",
    "compose",
    "planned_files",
    "reference_features",
    "reference_joints",
    "write_composed",
]
