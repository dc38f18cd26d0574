"""Prompts and text encoders."""

from motionkit.text._cache import CachedEncoder
from motionkit.text._features import TextEncoder, TextFeatures
from motionkit.text._known import FAR, KnownTexts, Near
from motionkit.text._limbs import NamedLimb, named_limbs
from motionkit.text._load import ENCODERS, load_encoder
from motionkit.text._nearest import NearestTexts
from motionkit.text._prompt import SEPARATOR, Prompt
from motionkit.text._record import TextRecord, proof
from motionkit.text._stored import StoredEncoder, read_table, write_table
from motionkit.text._student import StudentEncoder, StudentNetwork, words_of, write_student
from motionkit.text._transformers import MiniLMEncoder

__all__ = [
    "ENCODERS",
    "FAR",
    "SEPARATOR",
    "CachedEncoder",
    "KnownTexts",
    "MiniLMEncoder",
    "NamedLimb",
    "Near",
    "NearestTexts",
    "Prompt",
    "StoredEncoder",
    "StudentEncoder",
    "StudentNetwork",
    "TextEncoder",
    "TextFeatures",
    "TextRecord",
    "load_encoder",
    "named_limbs",
    "proof",
    "read_table",
    "words_of",
    "write_student",
    "write_table",
]
