"""Opens a text encoder by name."""

from __future__ import annotations

from functools import partial
from pathlib import Path

import torch

from motionkit.errors import MotionkitError
from motionkit.text._cache import CachedEncoder
from motionkit.text._features import TextEncoder
from motionkit.text._stored import StoredEncoder
from motionkit.text._transformers import ClipEncoder, DistilBertEncoder, MiniLMEncoder

ENCODERS = ("clip", "distilbert", "minilm", "stored")


def load_encoder(
    name: str,
    *,
    model: str = "",
    table: Path | None = None,
    student: Path | None = None,
    local: bool = False,
    device: torch.device | str = "cpu",
) -> CachedEncoder:
    """Open an encoder; it caches the features of each text.

    Args:
        name: ``clip``, ``distilbert``, ``minilm`` or ``stored``.
        model: Folder or hub id of the model; empty for the encoder's default from the local cache.
        table: Table of stored embeddings (``stored`` only); texts outside it go to MiniLM.
        student: Stands in where MiniLM is not installed (``stored`` without `model` only); see `StoredEncoder`.
        local: Never use the network, not even for a hub id.
        device: Where the model runs; features are returned on the CPU.

    Raises:
        MotionkitError: Unknown name, or a model or table that cannot be opened.

    Example:
        >>> from motionkit import starter
        >>> encoder = load_encoder("stored", table=starter.table_path())
        >>> encoder.encode(["a man walks."]).tokens.shape
        torch.Size([1, 1, 384])
    """
    encoder: TextEncoder
    if name == "clip":
        encoder = ClipEncoder(model, local=local, device=device)
    elif name == "distilbert":
        encoder = DistilBertEncoder(model, local=local, device=device)
    elif name == "minilm":
        encoder = MiniLMEncoder(model, local=local, device=device)
    elif name == "stored" and table is not None:
        fallback = partial(MiniLMEncoder, model, local=local, device=device)
        encoder = StoredEncoder(table, fallback=fallback, student=None if model else student)
    elif name == "stored":
        raise MotionkitError("the stored text encoder needs its table of embeddings.")
    else:
        raise MotionkitError(f"unknown text encoder {name!r}.", fix=f"choose from {', '.join(ENCODERS)}.")
    return CachedEncoder(encoder)
