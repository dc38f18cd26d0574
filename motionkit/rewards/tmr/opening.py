"""Opening the TMR a user named, the starter's included. Used by the rewards, by `pretrain tmr` and by evaluation."""

from __future__ import annotations

from pathlib import Path

import torch

from motionkit.encoders.tmr._load import load_tmr
from motionkit.encoders.tmr._model import TMR
from motionkit.starter import table_path, weights_path

STARTER = "starter"


def text_table() -> Path | None:
    """Return the starter pack's table of text embeddings, or None where it is not built."""
    table = table_path()
    return table if table.is_file() else None


def open_tmr(
    weights: str | Path = STARTER,
    *,
    text_encoder: Path | None = None,
    motion_encoder: Path | None = None,
    motion_decoder: Path | None = None,
    heads: int = 0,
    stats: Path | None = None,
    text_model: str = "",
    device: torch.device | str = "cpu",
) -> TMR:
    """Open a TMR by name or path.

    Args:
        weights: ``starter``, ``starter:<name>`` for another network of the pack (``starter:judge``), or a path; see
            `motionkit.encoders.tmr._load.load_tmr`. Ignored when single files are given.
        text_encoder: Single file, with `motion_encoder`.
        motion_encoder: Single file.
        motion_decoder: Single file, optional.
        heads: Attention heads; 0 reads config.json, else takes 4.
        stats: Folder with TMR's own statistics.
        text_model: See `motionkit.encoders.tmr._text.open_text_model`.
        device: Where to put it.

    Raises:
        MotionkitError: It cannot be opened; see `load_tmr`.
    """
    return load_tmr(
        None if motion_encoder is not None or text_encoder is not None else _resolve(weights),
        text_encoder=text_encoder,
        motion_encoder=motion_encoder,
        motion_decoder=motion_decoder,
        heads=heads,
        stats=stats,
        text_model=text_model,
        table=text_table(),
        device=device,
    )


def _resolve(weights: str | Path) -> Path:
    head, _, name = str(weights).partition(":")
    return weights_path(name or "tmr") if head == STARTER else Path(weights).expanduser()
