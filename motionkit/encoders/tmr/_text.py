"""Opens the text model of a TMR: the one that fits its width, or one that the user names."""

from __future__ import annotations

from pathlib import Path

import torch

from motionkit.encoders.tmr._tokens import TokenFolder, find_token_tables
from motionkit.errors import MotionkitError
from motionkit.text import ENCODERS, StoredEncoder, TextEncoder, load_encoder


def open_text_model(
    name: str,
    *,
    width: int = 0,
    kind: str = "",
    table: Path | None = None,
    local: bool = False,
    device: torch.device | str = "cpu",
) -> TextEncoder:
    """Open a text model for a text encoder that reads `width` features per token.

    Args:
        name: An encoder name, a folder (a model, or precomputed ``token_embeddings``), a ``.safetensors`` table of
            stored embeddings, or a hub id; empty for the one that fits `width` (768 distilbert, 384 minilm).
        width: Features per token of the TMR text encoder, which chooses the encoder when `name` is empty.
        kind: Encoder that a folder or hub id is for; empty goes by `width`.
        table: Table that the name ``stored`` stands for.
        local: Never use the network, not even for a hub id.
        device: Where the model runs.

    Raises:
        MotionkitError: The model cannot be opened, or no model is known for `width`.
    """
    by_width = {768: "distilbert", 384: "stored" if table is not None else "minilm"}
    name = name or by_width.get(width, "")
    if not name:
        raise MotionkitError(
            f"no text model is known for a TMR text encoder that reads {width} features.",
            fix="name its folder, hub id or precomputed token_embeddings folder with --reward.text-model.",
        )
    if name in ENCODERS:
        return load_encoder(name, table=table if name == "stored" else None, local=local, device=device)
    path = Path(name)
    if path.is_dir() and find_token_tables(path):
        return TokenFolder(path)
    if path.is_file() and path.suffix == ".safetensors":
        return StoredEncoder(path)
    kind = {"": "minilm" if width == 384 else "distilbert", "stored": "minilm"}.get(kind, kind)
    return load_encoder(kind, model=name, local=local, device=device)
