"""Protocols: what is sampled, judged, repeated, tabulated."""

from motionkit.evaluation._export import export_motions, export_one, require_places
from motionkit.evaluation._fit import require_fit
from motionkit.evaluation._generate import generate
from motionkit.evaluation._heldout import HeldOut, Measured, compare_measured
from motionkit.evaluation._paired import Paired, compare
from motionkit.evaluation._sample import sample_motions

__all__ = [
    "HeldOut",
    "Measured",
    "Paired",
    "compare",
    "compare_measured",
    "export_motions",
    "export_one",
    "generate",
    "require_fit",
    "require_places",
    "sample_motions",
]
