"""The starter pack: a procedural text-motion library, stored text embeddings and small trained weights.

Nothing here is captured data. `generate` and `perform` need numpy only; they return clips at any frame rate, with local
rotations, root and contacts.
"""

from motionkit.starter._body import OFFSETS, PARENTS
from motionkit.starter._generate import CATALOGUE, Order, StarterClip, actions, find, generate, perform
from motionkit.starter._pack import captions, embeddings, student_path, table_path, weights_path

__all__ = [
    "CATALOGUE",
    "OFFSETS",
    "PARENTS",
    "Order",
    "StarterClip",
    "actions",
    "captions",
    "embeddings",
    "find",
    "generate",
    "perform",
    "student_path",
    "table_path",
    "weights_path",
]
