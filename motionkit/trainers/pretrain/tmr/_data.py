"""What is read off texts and models before training."""

from __future__ import annotations

from collections.abc import Collection, Sequence

from motionkit.datasets.base import TextClip
from motionkit.encoders.tmr._model import TMR
from motionkit.errors import MotionkitError
from motionkit.text import CachedEncoder, StoredEncoder, TextEncoder
from motionkit.trainers.pretrain.tmr._settings import TmrModelSettings


def text_scale(text_model: TextEncoder, clips: Sequence[TextClip]) -> float:
    """Root mean square of the features of up to 256 first captions; also opens the text model in earnest."""
    stride = max(1, len(clips) // 256)
    features = text_model.encode([clip.captions[0] for clip in clips[::stride]])
    return max(float(features.tokens[features.mask].square().mean().sqrt()), 1e-6)


def readable(text_model: TextEncoder, texts: Sequence[str]) -> frozenset[str]:
    """Return those of `texts` that a text model can encode; a table of embeddings may have no other model behind it."""

    def can(some: Sequence[str]) -> bool:
        try:
            text_model.encode(some)
        except MotionkitError:
            return False
        return True

    if not texts or can(texts):
        return frozenset(texts)
    table = text_model.encoder if isinstance(text_model, CachedEncoder) else text_model
    if isinstance(table, StoredEncoder) and table.alone:  # the same, without an error for each text
        return frozenset(text for text in texts if text in table)
    return frozenset(text for text in texts if can([text]))


def differing(model: TmrModelSettings, tmr: TMR, typed: Collection[str] = ()) -> tuple[str, object] | None:
    """Return the first setting that was given and that a TMR does not have, with the TMR's value; None: it fits.

    A value that is the default asks for nothing, unless it was typed: a run's ``config.json`` holds every setting.

    Args:
        model: The settings.
        tmr: What training goes on from.
        typed: Dotted keys that were typed.
    """
    sizes = tmr.motion_encoder.sizes
    theirs = {
        "latent_dim": sizes.latent,
        "layers": sizes.layers,
        "patch_size": tmr.patch,
        "num_heads": sizes.heads,
        "ff_size": sizes.feedforward,
        "dropout": sizes.dropout,
        "variational": sizes.variational,
    }
    defaults = TmrModelSettings()
    for name, value in theirs.items():
        asked = getattr(model, name)
        if asked != value and (f"model.{name}" in typed or asked != getattr(defaults, name)):
            return name, value
    return None
