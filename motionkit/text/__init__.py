"""Prompts and text encoders."""

from motionkit.text._cache import CachedEncoder
from motionkit.text._caption_changes import CAPTION_CHANGES, KINDS, CaptionChange, kinds_of
from motionkit.text._features import TextEncoder, TextFeatures
from motionkit.text._known import FAR, KnownTexts, Near
from motionkit.text._limbs import NamedLimb, named_limbs
from motionkit.text._load import ENCODERS, load_encoder
from motionkit.text._named import (
    Tempo,
    events_of,
    is_english,
    names_count,
    names_direction,
    names_order,
    names_travel,
    reads_sides,
    swap_count,
    swap_direction,
    swap_order,
    swap_tempo,
    tempo_of,
)
from motionkit.text._nearest import NearestTexts
from motionkit.text._prompt import SEPARATOR, Prompt
from motionkit.text._record import TextRecord, proof
from motionkit.text._sides import mirror_text, names_side
from motionkit.text._stored import StoredEncoder, read_table, write_table
from motionkit.text._student import StudentEncoder, StudentNetwork, words_of, write_student
from motionkit.text._transformers import MiniLMEncoder

__all__ = [
    "CAPTION_CHANGES",
    "ENCODERS",
    "FAR",
    "KINDS",
    "SEPARATOR",
    "CachedEncoder",
    "CaptionChange",
    "KnownTexts",
    "MiniLMEncoder",
    "NamedLimb",
    "Near",
    "NearestTexts",
    "Prompt",
    "StoredEncoder",
    "StudentEncoder",
    "StudentNetwork",
    "Tempo",
    "TextEncoder",
    "TextFeatures",
    "TextRecord",
    "events_of",
    "is_english",
    "kinds_of",
    "load_encoder",
    "mirror_text",
    "named_limbs",
    "names_count",
    "names_direction",
    "names_order",
    "names_side",
    "names_travel",
    "proof",
    "read_table",
    "reads_sides",
    "swap_count",
    "swap_direction",
    "swap_order",
    "swap_tempo",
    "tempo_of",
    "words_of",
    "write_student",
    "write_table",
]
