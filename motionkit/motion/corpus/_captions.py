"""Caption lines of HumanML3D's texts/: ``caption#word/POS word/POS#start#end``."""

from __future__ import annotations

import math
import re
from collections.abc import Iterable
from dataclasses import dataclass, replace
from pathlib import Path

from motionkit.documents import read_text
from motionkit.errors import MotionkitError

LONGEST = 10_000
"""Characters of a caption. HumanML3D's longest has some 500; tagging takes seconds for every megabyte."""

_LIMIT = 1 << 20
"""Bytes of a texts file; those of HumanML3D have some 500."""

_CONTROL = re.compile(r"[\x00-\x08\x0b\x0c\x0e-\x1f\x7f-\x9f\ud800-\udfff]")
"""Control characters except tab and line ends, which terminals act on, and surrogates, which no file can hold."""

_NO_TOKEN = re.compile(r"[#\x00-\x1f\x7f-\x9f\u2028\u2029\ud800-\udfff]")
"""What would break the line of a texts file apart, or is a control character."""


@dataclass(frozen=True)
class Caption:
    """One caption of a clip.

    Captions come from foreign files, so control characters become blanks here, once for all writers.

    Attributes:
        text: The caption as written, control characters excepted.
        tokens: ``word/POS``, lemmatised, as the evaluator reads them; without line ends and ``#``.
        start: Seconds into the clip where the caption begins; 0 with `end` 0 means the whole clip.
        end: Seconds where it ends.

    Raises:
        MotionkitError: The text has more than `LONGEST` characters.

    Example:
        >>> Caption.parse("a man waves#a/DET man/NOUN wave/VERB#0.0#0.0").tokens
        ('a/DET', 'man/NOUN', 'wave/VERB')
    """

    text: str
    tokens: tuple[str, ...] = ()
    start: float = 0.0
    end: float = 0.0

    def __post_init__(self) -> None:
        if len(self.text) > LONGEST:
            raise MotionkitError(
                f"a caption has {len(self.text)} characters: {self.text[:40]!r}...", why=f"at most {LONGEST} are read."
            )
        if _CONTROL.search(self.text):
            object.__setattr__(self, "text", _CONTROL.sub(" ", self.text))
        if self.tokens and _NO_TOKEN.search(tokens := " ".join(self.tokens)):
            object.__setattr__(self, "tokens", tuple(clean_caption(tokens).split()))

    @property
    def whole(self) -> bool:
        """True when the caption describes the whole clip."""
        return self.start == 0.0 and self.end == 0.0

    def problem(self, seconds: float) -> str:
        """Return what is wrong with its times in a clip of so many seconds; empty when nothing is."""
        if self.whole:
            return ""
        if not (math.isfinite(self.start) and math.isfinite(self.end)) or self.end <= self.start:
            return "which is no stretch of time"
        return "" if self.start < seconds and self.end > 0.0 else f"outside of the clip's {seconds:.2f} s"

    def line(self) -> str:
        """Return the line of a texts file, without a line break."""
        return f"{self.text}#{' '.join(self.tokens)}#{self.start}#{self.end}"

    @classmethod
    def parse(cls, line: str) -> Caption:
        """Read one line; ``nan`` times count as 0, as in every peer.

        Raises:
            MotionkitError: The line has not four fields, or its times are no numbers, or it has no text.
        """
        fields = line.strip().split("#")
        if len(fields) < 4 or not fields[0].strip():
            raise MotionkitError(
                f"not a caption line: {line.strip()[:80]!r}.", why="expected caption#tokens#start#end."
            )
        try:
            start, end = (0.0 if math.isnan(value) else value for value in map(float, fields[2:4]))
        except ValueError as error:
            raise MotionkitError(f"a caption's times are no numbers: {line.strip()[:80]!r}.") from error
        return cls(fields[0], tuple(fields[1].split()), start, end)


def read_captions(path: Path) -> tuple[Caption, ...]:
    """Read a texts file; blank lines are passed over.

    Raises:
        MotionkitError: The file is no plain file of UTF-8 text, has more than a megabyte, or a line cannot be read; the
            line's number is named.
    """
    captions = []
    for number, line in enumerate(read_text(path, limit=_LIMIT).splitlines(), start=1):
        if not line.strip():
            continue
        try:
            captions.append(Caption.parse(line))
        except MotionkitError as error:
            raise MotionkitError(f"{path}, line {number}: {error.message}", why=error.why) from error
    return tuple(captions)


def captions_within(captions: Iterable[Caption], start: float, end: float) -> tuple[Caption, ...]:
    """Return the captions of a part of a clip: those of the whole as they are, timed ones shifted and cut to the part.

    Timed captions of which the part has nothing are left out.

    Args:
        captions: The clip's.
        start: Seconds into the clip at which the part begins.
        end: Seconds at which it ends.
    """
    kept = []
    for caption in captions:
        if caption.whole:
            kept.append(caption)
            continue
        # Rounded to the nanosecond: 1.2 - 1.0 would otherwise be written as 0.19999999999999996.
        first, last = round(max(caption.start - start, 0.0), 9), round(min(caption.end, end) - start, 9)
        if first < last:
            kept.append(replace(caption, start=first, end=last))
    return tuple(kept)


def clean_caption(text: str) -> str:
    """Make a text fit for a caption line: one line, single spaces, no ``#``, no control characters."""
    return " ".join(_CONTROL.sub(" ", text).replace("#", " ").split())


def caption_lines(captions: Iterable[Caption]) -> str:
    """Return the contents of a texts file."""
    return "".join(f"{caption.line()}\n" for caption in captions)
