"""TMR: text-to-motion retrieval. Encoders, strict loaders, statistics."""

from motionkit.encoders._crops import Crop, CropLatents
from motionkit.encoders.tmr._load import load_tmr
from motionkit.encoders.tmr._model import TMR
from motionkit.encoders.tmr._native import is_native, save_tmr
from motionkit.encoders.tmr._network import ActorEncoder, ActorSizes, Latent
from motionkit.encoders.tmr._new import new_tmr
from motionkit.encoders.tmr._pairs import encode_captions, encode_clips
from motionkit.encoders.tmr._sentences import sentence_embeddings
from motionkit.encoders.tmr._stats import read_stats
from motionkit.encoders.tmr._text import open_text_model
from motionkit.encoders.tmr._tokens import TokenFolder

__all__ = [
    "TMR",
    "ActorEncoder",
    "ActorSizes",
    "Crop",
    "CropLatents",
    "Latent",
    "TokenFolder",
    "encode_captions",
    "encode_clips",
    "is_native",
    "load_tmr",
    "new_tmr",
    "open_text_model",
    "read_stats",
    "save_tmr",
    "sentence_embeddings",
]
