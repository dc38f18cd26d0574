"""Captions of the motions in a folder made by ``motionkit generate``."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from motionkit.documents import read_json
from motionkit.errors import MotionkitError
from motionkit.motion.corpus._captions import Caption
from motionkit.text import Prompt

_LIMIT = 64 << 20


def generated_texts(folder: Path) -> Mapping[str, tuple[Caption, ...]]:
    """Return the captions of each clip of such a folder: of the whole clip, then of its timed segments."""
    try:
        document = read_json(folder / "motions.json", dict, limit=_LIMIT)
        fps = float(document["fps"])
        return {str(entry["id"]): _segment_captions(entry["segments"], fps) for entry in document["motions"]}
    except (ValueError, KeyError, TypeError, ZeroDivisionError, MotionkitError):
        return {}


def _segment_captions(segments: Sequence[Mapping[str, Any]], fps: float) -> tuple[Caption, ...]:
    spans = [(str(part["text"]), int(part["start"]), int(part["end"])) for part in segments]
    prompt = Prompt(tuple(text for text, _, _ in spans), tuple(end - start for _, start, end in spans))
    parts = [Caption(text, (), start / fps, end / fps) for text, start, end in spans] if len(spans) > 1 else []
    return (Caption(prompt.text), *parts)
