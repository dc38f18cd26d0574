"""Prompts and text encoders."""

from motionkit.text._load import (
    ENCODERS,
    TEXT_OPTIONS,
    MiniLMEncoder,
    TextRecord,
    load_encoder,
    proof,
    shortened,
)
from motionkit.text._named import (
    is_english,
    named_limbs,
    names_direction,
    names_travel,
    reads_sides,
    tempo_of,
    usual_seconds,
)
from motionkit.text._nearest import KnownTexts, NearestTexts
from motionkit.text._prompt import SEPARATOR, CachedEncoder, Prompt, TextEncoder, TextFeatures
from motionkit.text._sides import CAPTION_CHANGES, KINDS, CaptionChange, kinds_of, mirror_text, names_side
from motionkit.text._stored import (
    StoredEncoder,
    StudentEncoder,
    StudentNetwork,
    read_table,
    words_of,
    write_student,
    write_table,
)

__all__ = [
    "CAPTION_CHANGES", "ENCODERS", "KINDS", "SEPARATOR", "TEXT_OPTIONS", "CachedEncoder", "CaptionChange", "KnownTexts",
    "MiniLMEncoder", "NearestTexts", "Prompt", "StoredEncoder", "StudentEncoder", "StudentNetwork", "TextEncoder",
    "TextFeatures", "TextRecord", "is_english", "kinds_of", "load_encoder", "mirror_text", "named_limbs",
    "names_direction", "names_side", "names_travel", "proof", "read_table", "reads_sides", "shortened", "tempo_of",
    "usual_seconds", "words_of", "write_student", "write_table",
]  # fmt: skip
