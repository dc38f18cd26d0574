"""The starter pack: a procedural text-motion library, stored text embeddings and small trained weights.

Nothing here is captured data. `generate` and `perform` need numpy only; they return clips at any frame rate, with local
rotations, root and contacts.
"""

from motionkit.starter._catalogue import (
    CATALOGUE,
    EXAMPLE,
    POLICY,
    captions,
    embeddings,
    student_path,
    table_path,
    weights_path,
)
from motionkit.starter._generate import Order, StarterClip, generate, perform
from motionkit.starter._solve import OFFSETS, PARENTS

__all__ = [
    "CATALOGUE",
    "EXAMPLE",
    "OFFSETS",
    "PARENTS",
    "POLICY",
    "Order",
    "StarterClip",
    "captions",
    "embeddings",
    "generate",
    "perform",
    "student_path",
    "table_path",
    "weights_path",
]
