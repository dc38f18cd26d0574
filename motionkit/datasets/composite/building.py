"""What `motionkit compose` calls: this room's heavy half for making sets, as its `component` is for reading them."""

from motionkit.datasets.composite._compose import Composed, compose
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
    "write_composed",
]
