"""The text-to-motion evaluator of Guo et al. (CVPR 2022): networks, strict loader, words, statistics."""

from motionkit.encoders._crops import Crop, CropLatents, encode_clips
from motionkit.encoders.t2m._beside import read_words
from motionkit.encoders.t2m._load import RUN_PART, load_evaluator
from motionkit.encoders.t2m._model import T2MEvaluator, Tagger
from motionkit.encoders.t2m._native import is_native, save_evaluator
from motionkit.encoders.t2m._network import EvaluatorSizes
from motionkit.encoders.t2m._new import new_evaluator
from motionkit.encoders.t2m._words import MAX_WORDS, Sentences, WordTable

__all__ = [
    "MAX_WORDS",
    "RUN_PART",
    "Crop",
    "CropLatents",
    "EvaluatorSizes",
    "Sentences",
    "T2MEvaluator",
    "Tagger",
    "WordTable",
    "encode_clips",
    "is_native",
    "load_evaluator",
    "new_evaluator",
    "read_words",
    "save_evaluator",
]
