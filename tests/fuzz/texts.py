"""Mutations of text by lines, words and encodings: BVH, CSV, TOML, YAML, captions, lists, entry points."""

from __future__ import annotations

import re

from .chance import NUMBERS, WORDS, Chance
from .raw import spoil_bytes

_WORD = re.compile(r"[\w.+-]+|\"[^\"\n]*\"")
_DEEP = (
    "[" * 300, "a=" + "[" * 300 + "]" * 300, "{" * 300, "- " * 300 + "x", ".".join("a" * 300) + " = 1",
    "a: " + "{a: " * 150 + "1" + "}" * 150, "? " * 200, "!thing [x]", "!!python/tuple [x]", "!!binary x",
    "a: &a [x, x]\nb: &b [*a, *a]\nc: [*b, *b]", "a: &a [*a]", "<<: *a", "1: 2",
    "on: 1",
    "null: 1", "[1, 2]: 3", "2001-99-99", "a: 2001-13-41", "a = 2001-99-99", "12:30:45", "0o17", "a: 1_0", "[a.b]\n[a]",
    "a.b = 1\na.c.d = 2", "a = {b = 1}\na.c = 2", "%YAML 9.9", "---\n---", '"' + "x" * 140_000 + '"', "," * 5000,
)  # fmt: skip
"""Whole lines: deep, recursive, of odd types, or more than a parser wants."""


def spoil_text(data: bytes, chance: Chance) -> bytes:
    """Change a text; what it becomes need not be text any more."""
    if chance.random() < 0.25:
        return spoil_bytes(data, chance)
    text = data.decode("utf-8", "surrogateescape")
    match chance.randrange(9):
        case 0 | 1 | 2:
            text = _words(text, chance)
        case 3 | 4:
            text = _lines(text, chance)
        case 5:
            begin = chance.randrange(len(text) + 1)
            text = text[:begin] + chance.choice((*WORDS, *NUMBERS)) + text[begin:]
        case 6:
            lines = text.split("\n")
            lines.insert(chance.randrange(len(lines) + 1), chance.choice(_DEEP))
            text = "\n".join(lines)
        case 7:
            text = text.replace("\n", chance.choice(("\r\n", "\r", "\n\n", " ", "\u2028", "\0")))
        case _:
            return _encoded(text, chance)
    return text.encode("utf-8", "surrogatepass" if chance.random() < 0.1 else "surrogateescape")


def _words(text: str, chance: Chance) -> str:
    """Replace words: by other things, or by each other."""
    found = list(_WORD.finditer(text))
    if not found:
        return text
    if chance.random() < 0.5:  # a header rather than one of ten thousand numbers
        found = found[:60]
    for _ in range(chance.choice((1, 1, 2, 5))):
        word = chance.choice(found)
        other = chance.choice((chance.choice(NUMBERS), chance.choice(WORDS), chance.choice(found)[0]))
        if word.end() <= len(text):
            text = text[: word.start()] + other + text[word.end() :]
    return text


def _lines(text: str, chance: Chance) -> str:
    """Drop, repeat, move or cut lines."""
    lines = text.split("\n")
    place = chance.randrange(len(lines))
    match chance.randrange(5):
        case 0:
            del lines[place]
        case 1:
            lines[place:place] = [lines[place]] * chance.choice((1, 2, 1000))
        case 2:
            lines.insert(chance.randrange(len(lines)), lines.pop(place))
        case 3:
            lines[place] = lines[place][: chance.randrange(len(lines[place]) + 1)]
        case _:
            lines[place] = lines[place] * chance.choice((2, 500))
    return "\n".join(lines)


def _encoded(text: str, chance: Chance) -> bytes:
    """Write the text in an encoding that is not expected."""
    encoding = chance.choice(("utf-16", "utf-16-le", "utf-32", "latin-1", "utf-8-sig", "cp1252", "utf-7"))
    return text.encode(encoding, "replace")
