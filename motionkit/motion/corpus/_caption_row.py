"""What a table says about one clip."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class CaptionRow:
    """What the table says about one clip: captions (without repeats), split and group (empty when not given)."""

    captions: tuple[str, ...]
    split: str = ""
    group: str = ""
