"""One entry of the catalogue: a class of movements and its captions."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import cache
from importlib.resources import files
from typing import Any

from motionkit.starter._controls import Controls

SUBJECTS = ("a person", "someone", "a man", "the person", "a woman")


@dataclass(frozen=True)
class CatalogueEntry:
    """A class of movements with the same meaning.

    Attributes:
        action: What is done, such as ``wave``.
        variant: Which way: side, speed, direction.
        make: Function of a `Take` and `options`.
        options: Keyword arguments of `make`.
        mirrored: Exchange left and right of what `make` returns.
        phrases: Verb phrases, third person, all of the same meaning.
    """

    action: str
    variant: str
    make: Callable[..., Controls]
    options: Mapping[str, Any]
    mirrored: bool
    phrases: tuple[str, ...]

    @property
    def name(self) -> str:
        """Unique name: ``action/variant``."""
        return f"{self.action}/{self.variant}"

    def sentences(self, phrase: int) -> tuple[str, ...]:
        """Return the captions made of one phrase: two subjects each, rotating over the catalogue."""
        first = sum(map(ord, self.name)) + 2 * phrase
        return tuple(f"{SUBJECTS[(first + i) % len(SUBJECTS)]} {self.phrases[phrase]}." for i in (0, 1))

    @property
    def captions(self) -> tuple[str, ...]:
        """All captions, phrase by phrase."""
        return tuple(text for phrase in range(len(self.phrases)) for text in self.sentences(phrase))


@cache
def _phrases() -> dict[str, list[str]]:
    document: dict[str, list[str]] = json.loads(files(__package__).joinpath("phrases.json").read_text(encoding="utf-8"))
    return document


def one(name: str, make: Callable[..., Controls], **options: Any) -> list[CatalogueEntry]:
    """Return a class without a mirror image, called ``action/variant``; its phrases are in ``phrases.json``."""
    action, variant = name.split("/")
    return [CatalogueEntry(action, variant, make, options, False, tuple(_phrases()[name]))]


def pair(name: str, make: Callable[..., Controls], *, native: str, **options: Any) -> list[CatalogueEntry]:
    """Return a class and its mirror image.

    Args:
        name: ``action/variant`` with the placeholder ``{side}``, as in ``phrases.json``; there, ``{side}`` and
            ``{other}`` become left and right.
        make: Function of a take.
        native: The side that `make` performs.
        options: Keyword arguments of `make`.
    """
    found = []
    for side, other in (("left", "right"), ("right", "left")):
        action, variant = name.format(side=side).split("/")
        texts = tuple(phrase.format(side=side, other=other) for phrase in _phrases()[name])
        found.append(CatalogueEntry(action, variant, make, options, side != native, texts))
    return found
