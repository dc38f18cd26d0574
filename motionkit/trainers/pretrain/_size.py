"""How large a network may be asked for. Imports no torch."""

from __future__ import annotations

_LARGEST = 2 * 10**9


def refuse_size(layers: int, width: int, ff_size: int) -> None:
    """Refuse a transformer that no machine at hand holds, before memory is taken for it.

    Raises:
        ValueError: Attention and feed-forward have more than two billion weights (8 GB, and three times that to train).
    """
    count = layers * (4 * width * width + 2 * width * ff_size)
    if count > _LARGEST:
        raise ValueError(f"{layers} layers of width {width} and {ff_size} have {count:.1e} weights, too many to train")
