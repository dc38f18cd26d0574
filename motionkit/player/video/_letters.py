"""Text in pictures, drawn with Pillow's font and, for characters that it lacks, the installed ones."""

from __future__ import annotations

import unicodedata
from functools import cache
from typing import Any

SYSTEM_FONTS = (
    "NotoSansCJK-Regular.ttc", "msyh.ttc", "PingFang.ttc", "Hiragino Sans GB.ttc", "wqy-microhei.ttc",
    "NotoSans-Regular.ttf", "DejaVuSans.ttf", "Arial Unicode.ttf",
)  # fmt: skip
"""Fonts to try, in this order, for characters that Pillow's font lacks, by their file names on common systems."""

_MISSING = "\U0010fffe"
_STAND_INS = {"–": "-", "—": "-", "−": "-", "×": "x", "‘": "'", "’": "'", "“": '"', "”": '"'}


class Letters:
    """Draws text of one height, each character in the first font that has it, else a plainer one (e for é).

    Args:
        size: Height of the font in pixels.
    """

    def __init__(self, size: int) -> None:
        self.size = size
        self.line = round(size * 1.4)

    def width(self, text: str) -> float:
        """Return the width of a line of text in pixels."""
        return sum(float(_font(name, self.size).getlength(part)) for name, part in self._parts(text))

    def draw(self, pen: Any, place: tuple[float, float], text: str, colour: str) -> None:
        """Draw a line of text; `place` is the left end of its base line."""
        x, y = place
        for name, part in self._parts(text):
            font = _font(name, self.size)
            pen.text((x, y), part, fill=colour, font=font, anchor="ls")
            x += font.getlength(part)

    def cut(self, text: str, width: float) -> str:
        """Cut a line to `width`, with an ellipsis if something is left out."""
        text = " ".join(text.split())
        if self.width(text) <= width:
            return text
        low, high = 0, len(text)
        while low < high:
            middle = (low + high + 1) // 2
            low, high = (middle, high) if self.width(text[:middle] + "…") <= width else (low, middle - 1)
        return text[:low].rstrip() + "…"

    def wrap(self, text: str, width: float, lines: int) -> list[str]:
        """Return at most `lines` lines no wider than `width`; the last one is cut."""
        words = " ".join(text.split())
        wrapped: list[str] = []
        while words and len(wrapped) < lines - 1 and self.width(words) > width:
            fit = self.cut(words, width)[:-1]
            space = fit.rfind(" ")
            # Text without spaces, such as Chinese, may break anywhere.
            end = space if space > 0 and words[len(fit) : len(fit) + 1] != " " else len(fit)
            end = max(end, 1)
            wrapped.append(words[:end].rstrip())
            words = words[end:].lstrip()
        return [*wrapped, self.cut(words, width)] if words else wrapped

    @staticmethod
    def _parts(text: str) -> list[tuple[str, str]]:
        """Split text into pieces of one font each."""
        parts: list[tuple[str, str]] = []
        for sign in text:
            name = _font_of(sign)
            if name is None:
                name, sign = "", _plainer(sign)
            if parts and parts[-1][0] == name:
                parts[-1] = (name, parts[-1][1] + sign)
            else:
                parts.append((name, sign))
        return parts


@cache
def _font(name: str, size: int) -> Any:
    """Return a font; Pillow's default for an empty name."""
    from PIL import ImageFont

    return ImageFont.truetype(name, size) if name else ImageFont.load_default(size)


@cache
def _there() -> tuple[str, ...]:
    """Return the names of the installed fonts."""
    fonts = [""]
    for name in SYSTEM_FONTS:
        try:
            _font(name, 12)
        except OSError:
            continue
        fonts.append(name)
    return tuple(fonts)


def _plainer(sign: str) -> str:
    """Return a character that Pillow's font has: without accents, else a question mark."""
    plain = _STAND_INS.get(sign) or unicodedata.normalize("NFKD", sign)[0]
    return plain if plain.isascii() else "?"


@cache
def _font_of(sign: str) -> str | None:
    """Return the first font that has a character; a font without it draws its box for missing ones."""
    if sign.isspace():
        return ""
    for name in _there():
        font = _font(name, 24)
        if bytes(font.getmask(sign)) != bytes(font.getmask(_MISSING)):
            return name
    return None
