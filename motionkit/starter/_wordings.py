"""Sentences in many wordings, which the student of MiniLM learns from: subject, action, manner, joined and varied."""

from __future__ import annotations

import json
import random
import re
from collections.abc import Iterator, Sequence
from functools import cache
from importlib.resources import files

from motionkit.starter._generate import CATALOGUE
from motionkit.text import words_of

_TWINS = set("bdgmnpt")  # a consonant that doubles before -ing: hop, hopping
_TAKEN = {"lies": "lying", "ties": "tying", "begins": "beginning", "sidesteps": "sidestepping", "ice": "ice"}


@cache
def lists() -> dict[str, list[str]]:
    """Return the parts of sentences: ``subjects``, ``actions``, ``manners``, ``joins`` and ``unseen`` sentences."""
    document: dict[str, list[str]] = json.loads(files(__package__).joinpath("wordings.json").read_text("utf-8"))
    return document


def phrases(*, seen: bool = True) -> list[str]:
    """Return the verb phrases that the student learns from, or those that it never sees."""
    catalogue = [phrase for entry in CATALOGUE for phrase in (entry.phrases[:-2] if seen else entry.phrases[-2:])]
    # Every sixth further action is kept from training as well.
    further = [phrase for i, phrase in enumerate(lists()["actions"]) if (i % 6 != 5) == seen]
    return list(dict.fromkeys(catalogue + further))


def vocabulary() -> list[str]:
    """Return every word of the catalogue and of the lists, in all their verb forms, sorted."""
    found = {","}
    for phrase in phrases() + phrases(seen=False):
        for form in (phrase, gerund(phrase), base(phrase), *(f"{s} {phrase}" for s in lists()["subjects"])):
            found.update(words_of(form))
    for name in ("manners", "joins", "unseen"):
        for text in lists()[name]:
            found.update(words_of(text))
    return sorted(found)


def base(phrase: str) -> str:
    """Return ``"walk around"`` for ``"walks around"``; phrases that begin with no verb in -s stay."""
    first, _, rest = phrase.removeprefix("is ").partition(" ")
    if first in ("does", "goes", "has") or not first.endswith("s"):
        first = {"does": "do", "goes": "go", "has": "have"}.get(first, first)
    elif first in ("lies", "ties"):
        first = first[:-1]
    elif first.endswith("ies"):
        first = first[:-3] + "y"
    elif first.endswith(("shes", "ches", "sses", "xes")):
        first = first[:-2]
    else:
        first = first[:-1]
    return f"{first} {rest}".strip()


def gerund(phrase: str) -> str:
    """Return ``"hopping around"`` for ``"hops around"``."""
    third, _, rest = phrase.removeprefix("is ").partition(" ")
    verb = base(third)
    if third in _TAKEN:
        verb = _TAKEN[third]
    elif verb.endswith("e") and not verb.endswith("ee"):
        verb = verb[:-1] + "ing"
    elif re.fullmatch(r"[^aeiou]*[aeiou][^aeiou]", verb) and verb[-1] in _TWINS:
        verb = verb + verb[-1] + "ing"
    elif not verb.endswith(("ly", "ing")):
        verb += "ing"
    return f"{verb} {rest}".strip()


def sentences(count: int, *, seed: int, actions: Sequence[str], odd: float = 0.25) -> Iterator[str]:
    """Yield distinct sentences, all ending in a full stop.

    Args:
        count: How many.
        seed: Another seed, other sentences.
        actions: Verb phrases to make them of.
        odd: Share of sentences in which one word is exchanged for any word of the vocabulary, which gives every word
            many neighbours.
    """
    draw = random.Random(seed)
    known, parts = vocabulary(), lists()
    told: set[str] = set()
    while len(told) < count:
        text = _sentence(draw, actions, parts)
        words = words_of(text)
        if draw.random() < odd:
            words[draw.randrange(len(words))] = draw.choice(known)
        if draw.random() < 0.04:
            words = [word for word in words if word not in ("a", "an", "the")]
        text = " ".join(words).replace(" ,", ",").strip(" ,") + "."
        if text not in told and len(text) > 1:
            told.add(text)
            yield text


def _sentence(draw: random.Random, actions: Sequence[str], parts: dict[str, list[str]]) -> str:
    """Return subject, action and perhaps a manner or a second action; 15 in 100 without subject."""
    kind = draw.random()
    turn = gerund if kind < 0.2 else base if 0.2 <= kind < 0.3 else str
    text = turn(draw.choice(actions))
    if kind < 0.12:
        text = f"is {text}"
    if draw.random() < 0.45:
        manner = draw.choice(parts["manners"])
        text = f"{manner} {text}" if manner.endswith("ly") and draw.random() < 0.4 else f"{text} {manner}"
    if draw.random() < 0.2:
        text += draw.choice(parts["joins"]) + turn(draw.choice(actions))
    if 0.12 <= kind < 0.27:
        return text
    subject = draw.choice(parts["subjects"]) if draw.random() < 0.6 else "a person"
    return f"{subject} {text}"
