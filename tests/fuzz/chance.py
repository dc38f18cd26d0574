"""What every mutator draws from: the random generator of one input, and values that break readers."""

from __future__ import annotations

from random import Random

Chance = Random
"""The generator of one input; nothing else decides what the input is."""

INTEGERS = (
    0, 1, 2, 7, 127, 128, 255, 256, 65535, 2**31 - 1, 2**31, 2**32 - 1, 2**32, 2**40, 2**62, 2**63 - 1, 2**63, 2**64,
    -1, -2, -(2**31), -(2**63), -(2**63) - 1, 10**6, 10**9, 10**12, 10**18, 10**30,
)  # fmt: skip

NUMBERS = (
    *map(str, INTEGERS), "1e308", "-1e308", "1e400", "-1e400", "1e-320", "1e-9", "nan", "inf", "-inf", "0.1", "-0.0",
    "0x10", "1_000", "1,5", "9" * 400, "9" * 5000, "\u0663", "1e", "--1", "00",
)  # fmt: skip
"""Numbers as text; some are none."""

WORDS = (
    "", " ", "\n", "\r", "\t", "\0", "\x1b[2J", "\x7f", "\ufeff", "\u2028", "\u202e", "\udced\udca0\udc80", "\udcff",
    "é", "\U0001f600", "{", "}", "[", "]", "(", ")", "<", ">", '"', "'", "`", "#", "//", "/*", "*/", ",", ";", ":", "=",
    "null", "true", "None", "NaN", "x", "x" * 300, "../../../x", "/etc/passwd", "C:\\x", "con", "-rf", "./evil.py:run",
    "os:system", "$(id)", "${HOME}", "%s%n", "<script>", "=1+1", "a/b", ".", "..", "~", "starter", "clip", "distilbert",
)  # fmt: skip
"""Pieces of text: control characters, half of a surrogate pair, paths that lead elsewhere, names that are code."""


def piece(data: bytes, chance: Chance, longest: int = 64) -> tuple[int, int]:
    """Return begin and end of a piece of `data`, mostly near the beginning, where headers are."""
    reach = len(data) if chance.random() < 0.5 else min(len(data), 400)
    begin = chance.randrange(reach + 1)
    return begin, min(len(data), begin + chance.choice((0, 1, 1, 2, 4, 8, longest)))
