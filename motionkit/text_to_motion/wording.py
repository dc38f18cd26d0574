"""What a typed text is read as: the known caption of the same meaning, or a warning that there is none.

A policy that was trained on a known set of captions does well what they say and something else for other words, near or
not: "walks backwards slowly" walked forward. `Wordings` therefore compares words. Both the captions and the text are
brought to plain words (``wording.json``: "strolls" is walk and slow, "sofa" a chair), without articles, the subject and
where it takes place. A caption says the same if it names the same action, limb, side and direction and nothing that
was not asked for. What else is asked for is left out, which is said: a tempo, a count, a mood, and up to `_MOST` nouns
or phrases of no caption ("up the stairs"). A text with an action of no caption is not known, however near its
embedding is: a catch is near a throw, a fall near a walk.

In ``wording.json`` ``phrases`` are patterns of the text and what they become, ``same`` are words and their plain ones,
``given`` are words that a caption may have beside one (key) that was asked for; the rest are lists.
"""

from __future__ import annotations

import json
import math
import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cache, cached_property, lru_cache
from importlib.resources import files
from itertools import chain, pairwise
from typing import Any, NamedTuple

from motionkit.motion.corpus.tagger import tag_words
from motionkit.text import SEPARATOR, KnownTexts, usual_seconds

_REASON = re.compile(
    r",?\s+(?:(?:as if|as though|because|in order to)\b|"
    r"to (?!(?:the|an?|his|her|their|its|left|right|front|back|side|one|another|some\w+|him|them|and)\b)\w).*",
    re.IGNORECASE,
)
"""Why something is done; left out only where the rest is known."""

_JOINED = re.compile(r"\s*(?:[,;]\s*(?:and\s+)?(?:then\s+)?|\b(?:and\s+then|then|and|while|before)\s+)", re.IGNORECASE)
_SUBJECT = re.compile(r"^\s*(?:a person|the person|someone|a man|a woman)\s")
"""Subjects that captions of the starter have."""

_SIDES = frozenset(("left", "right"))
_PLURAL = frozenset(("hands", "arms", "fists", "palms"))
_COUNT = "count"

_MOST = 2
"""Words and phrases that may be left out, moods and counts apart; with more the text is another one."""

LONGEST = 6.0
"""Seconds of a text whose length is not given, unless it is done once."""


@dataclass(frozen=True)
class Reading:
    """A text and what it is read as."""

    text: str  # As typed, one action
    caption: str = ""  # Known caption that says the same; empty if none does
    left_out: tuple[str, ...] = ()  # Typed words that the caption does not follow
    counts: tuple[str, ...] = ()  # Typed words for a count that the usual length of the action, so many times, follows
    times: int = 1  # How often the text asks for it; 0: it says only that it is repeated
    strange: tuple[str, ...] = ()  # Typed words that no known caption has
    nearest: str = ""  # Known caption that is nearest by embedding, if none says the same
    similarity: float = 0.0  # Its cosine
    in_turn: str = ""  # The text as several known captions, one after the other, if it is that

    @property
    def changed(self) -> bool:
        """Whether the caption has other words than the text, case, punctuation and `_SUBJECT` apart."""
        return bool(self.caption) and _said(self.text) != _said(self.caption)

    @property
    def sentence(self) -> str:
        """Return what is said of it."""
        if self.caption:
            counts = f"; {', '.join(self.counts)}: by its length" if self.counts else ""
            left = f"; not followed: {', '.join(self.left_out)}" if self.left_out else ""
            return f"{self.text!r} is read as {_shown(self.caption)!r}{counts}{left}"
        if self.strange:
            why = f"no caption has {' or '.join(map(repr, self.strange))}"
        elif self.in_turn:
            why = f"no caption joins its actions; one after the other: {self.in_turn!r}"
        else:
            why = "no caption says all of it"
        near = f" (nearest: {_shown(self.nearest)!r}, similarity {self.similarity:.2f} of 1)" if self.nearest else ""
        return f"{self.text!r} is not known, its motion will show something else: {why}{near}"

    def document(self) -> dict[str, Any]:
        """Return what motions.json holds of it; nothing if it is a known caption."""
        if self.caption and not self.changed:
            return {}
        if not self.caption:
            return {"warning": self.sentence}
        return {"read_as": _shown(self.caption)} | ({"left_out": list(self.left_out)} if self.left_out else {})

    def with_given_length(self) -> Reading:
        """Return the reading for a length that was given: no count is followed."""
        return replace(self, left_out=(*self.left_out, *self.counts), counts=(), times=1)


class _Word(NamedTuple):
    meaning: str  # Plain word
    typed: str
    tag: str  # Universal part of speech


class _Caption(NamedTuple):
    number: int  # Which meaning
    words: frozenset[str]
    sides: frozenset[str]


class _Index:
    """What captions say, by their words; see `Wordings`."""

    def __init__(self, meanings: Sequence[Sequence[str]]) -> None:
        self.plain: list[str] = []  # A caption of each meaning
        self.captions: list[_Caption] = []
        self.exact: dict[tuple[str, ...], str] = {}
        self.of_meaning: list[frozenset[str]] = []
        table = _table()
        people, verbs = table["people"], set[str]()
        for number, meaning in enumerate(meanings):
            self.plain.append(min(meaning[:2], key=lambda text: not text.startswith(("a person ", "someone "))))
            bags = set[frozenset[str]]()
            for caption in meaning:
                words = _words(caption)
                if (bare := _bare(words)) in self.exact:
                    continue
                self.exact[bare] = caption
                meant = [word for word in _meant(caption, words) if word.meaning not in people]
                verbs.update(word.meaning for word in meant if word.tag == "VERB")
                # The tagger takes "salutes" for a noun; a caption's verb stands first.
                verbs.update(table["same"].get(bare[:1], bare[:1]))
                bags.add(frozenset(word.meaning for word in meant))
            self.captions += [_Caption(number, bag, bag & _SIDES) for bag in sorted(bags, key=sorted)]
            self.of_meaning.append(frozenset().union(*bags))
        self.known = frozenset[str]().union(*self.of_meaning)
        light = table["light"] - {"stand", "get", "come"}
        self.actions = verbs - table["shape"] - table["tempo"] - table["quiet"] - light
        plain = {old[0] for old in table["same"] if len(old) == 1}
        self.named = self.known | plain | table["quiet"] | table["made"] | table["forms"]


class Wordings:
    """Finds the known caption that says the same as a text, by its words.

    Args:
        meanings: Captions, those together that mean the same, the plainest first.
    """

    def __init__(self, meanings: Sequence[Sequence[str]]) -> None:
        self._meanings = meanings
        self._captions = frozenset(chain.from_iterable(meanings))
        self._typed: dict[tuple[str, ...], str] = {}
        for caption in chain.from_iterable(meanings):
            self._typed.setdefault(tuple(_said(caption)), caption)

    @cached_property
    def _index(self) -> _Index:
        """What the captions say; made when a text is none of them."""
        return _Index(self._meanings)

    def read(self, text: str) -> Reading:
        """Return what a text of one action is read as; its caption is empty if none says the same."""
        reading = self._read(text)
        if reading.caption:
            return reading
        if (reason := _REASON.search(text)) and reason.start():
            without = self._read(text[: reason.start()])
            if without.caption:
                return replace(without, text=text, left_out=(*without.left_out, reason[0].strip(" ,.")))
        parts = [self._read(part) for part in _JOINED.split(text) if part.strip(" .")]
        if len(parts) > 1 and all(part.caption for part in parts):
            return replace(reading, in_turn=SEPARATOR.join(_shown(part.caption) for part in parts))
        return reading

    def _read(self, text: str) -> Reading:
        """Return what a text is read as by its words alone."""
        if same := text if text in self._captions else self._typed.get(tuple(_said(text))):
            return Reading(text, same)
        table, words = _table(), _words(text)
        if same := self._index.exact.get(_bare(words)):
            return Reading(text, same)
        asked, strange, apart = self._asked(text, words)
        if strange or not asked:
            return Reading(text, strange=strange)
        loose = {word for word in asked if _may_go(word)}
        close = frozenset[str]().union(*(table["given"].get(word, ()) for word in asked))
        given = close | table["given"]["*"] | table["light"]
        actions, sides = asked.keys() & self._index.actions, asked.keys() & _SIDES
        if not actions and len(asked.keys() - loose - _SIDES - {"both", "thing"}) < 2:
            return Reading(text)  # "hands up" names a posture, "up" nothing
        best: tuple[tuple[int, ...], int, list[str]] | None = None
        for place, (number, has, named) in enumerate(self._index.captions):
            if not actions - loose <= has or not has - asked.keys() <= given or not asked.keys() & has - loose:
                continue
            if sides and named and sides != named:
                continue
            extra = asked.keys() - has
            rest = extra - loose - close
            if rest & table["shape"] or not rest <= self._index.of_meaning[number]:
                continue
            left_out = [word for word in asked if word in extra & loose]
            lacks = has - asked.keys()
            # One hand rather than both, the right one rather than the left, if nothing is said.
            side = len(lacks & {"both", "left"})
            rank = (len(left_out), len(rest), len(lacks), side, len(extra), place)
            if best is None or rank < best[0]:
                best = (rank, number, left_out)
        if best is None:
            return Reading(text, strange=tuple(word for word in apart if word not in table["mood"]))
        _, number, left_out = best
        said = [asked[word] for word in left_out]
        counts = [asked[word] for word in left_out if word == _COUNT or word in table["count"]]
        caption, times = self._index.plain[number], _times(counts)
        followed = 0 < times * (usual_seconds(caption) or math.inf) <= LONGEST
        counts = counts if followed else []
        left = dict.fromkeys((*apart, *(word for word in said if word not in counts)))
        return Reading(text, caption, tuple(left), tuple(counts), times)

    def _asked(self, text: str, words: Sequence[_Word]) -> tuple[dict[str, str], tuple[str, ...], tuple[str, ...]]:
        """Return the plain words of a text, each with what was typed, those of no caption, and what is left out."""
        table = _table()
        rest, left_out = self._without_subject(words)
        rest, phrases = self._without_phrases(rest)
        asked: dict[str, str] = {}
        strange: list[str] = []
        left_out += phrases
        spoken = {one.typed for one in _spoken_of(rest, self._acts)}
        before, objects = "", self._index.actions | table["light"]
        for word in _meant(text, rest):
            name = word.meaning
            if name in table["people"] | table["places"] and name not in self._index.actions:
                continue
            if name in self._index.known or name == "thing" or _may_go(name):
                asked.setdefault(name, word.typed)
            elif word.tag != "VERB" and word.typed in spoken and name not in table["made"]:
                if before in objects and name not in table["never"] | table["animals"]:
                    asked.setdefault("thing", word.typed)  # what is thrown, pushed, drunk
                    objects |= {name}
                else:
                    left_out.append(word.typed)
            elif name not in table["looks"]:
                strange.append(word.typed)
            before = name
        if len(left_out) > _MOST:
            strange += left_out
        return asked, tuple(dict.fromkeys(strange)), tuple(left_out)

    def _without_phrases(self, words: Sequence[_Word]) -> tuple[list[_Word], list[str]]:
        """Leave out phrases such as "in the park": a preposition, articles and adjectives, a noun of no caption.

        Where it takes place does not count; other phrases ("up the stairs", "with a cane", "like a crab") are returned.
        """
        table = _table()
        kept: list[_Word] = []
        said: list[str] = []
        place = 0
        while place < len(words):
            noun = end = place + 1
            first = words[place].meaning
            if words[place].tag == "ADP" or first in table["prepositions"] | table["particles"]:
                while noun < len(words) and self._describes(words[noun]):
                    noun += 1
                end = noun
                while end < len(words) and self._is_new(words[end]):
                    end += 1
            named = {word.meaning for word in words[noun:end]}
            around = table["places"] if first != "down" else frozenset()
            if first in table["particles"] and named <= around | table["people"] | table["things"]:
                end = noun  # "picks up a box", "looks around the room": the particle is the verb's
            if first in ("up", "out") and not named <= table["never"]:
                end = noun
            if end == noun or (end < len(words) and words[end].meaning in table["forms"]):  # "the lotus position"
                kept.append(words[place])
                end = place + 1
            elif first not in table["prepositions"] or named & (table["never"] | table["animals"]):
                said.append(" ".join(word.typed for word in words[place:end]))
            place = end
        return kept, said

    def _describes(self, word: _Word) -> bool:
        known = word.meaning in self._index.known or self._is_new(word)
        return word.tag in ("DET", "ADJ", "PRON") and not known

    def _is_new(self, word: _Word) -> bool:
        """Whether a word is a noun of no caption, or a person, a place or a thing."""
        table, name = _table(), word.meaning
        if name in table["places"] | table["people"] | table["things"] and not self._acts(name):
            return True
        if name in table["never"] | table["animals"] and name not in self._index.known:
            return True
        return word.tag == "NOUN" and name not in self._index.named and not _may_go(name)

    def _without_subject(self, words: Sequence[_Word]) -> tuple[list[_Word], list[str]]:
        """Take the subject off, such as "a tired old man"; words of captions in it, such as "drunk", stay."""
        table = _table()
        end = 0
        for place, word in enumerate(words[:6]):
            if word.meaning in table["people"]:
                end = place + 1
            if end or word.tag not in ("DET", "ADJ", "NUM", "NOUN") or self._acts(word.meaning):
                break
        if not end and words and words[0].tag == "DET":
            # An article, a noun that is in no caption, a verb in the third person: "a knight kneels".
            for place, (word, verb) in enumerate(pairwise(words[1:6]), start=1):
                if self._acts(word.meaning) or word.meaning in table["animals"]:
                    break
                if word.tag == "NOUN" and (verb.tag == "AUX" or re.search("(?:s|ing|ed)$", verb.typed)):
                    end = place + 1
                    break
        subject = words[:end]
        moods = [word.typed for word in subject if word.meaning in table["mood"]]
        return [*(word for word in subject if word.meaning in table["roles"]), *words[end:]], moods

    def _acts(self, word: str) -> bool:
        """Whether a word names an action of captions."""
        return not self._index.actions.isdisjoint(_table()["same"].get((word,), (word,)))


def sentences(readings: Mapping[str, Reading], texts: Iterable[str]) -> list[str]:
    """Return what is said of some texts: what they are read as, if in other words, or that they are not known."""
    found = [readings[text] for text in dict.fromkeys(texts) if text in readings]
    return [reading.sentence for reading in found if reading.changed or not reading.caption]


@lru_cache(maxsize=2)
def _wordings(meanings: tuple[tuple[str, ...], ...]) -> Wordings:
    return Wordings(meanings)


def read_all(known: KnownTexts, texts: Iterable[str]) -> dict[str, Reading]:
    """Return what each text of one action is read as, with the nearest caption where none says the same.

    Raises:
        MotionkitError: No caption says the same as a text, and the text encoder cannot read it.
    """
    wordings = _wordings(tuple(map(tuple, known.meanings)))
    readings = {text: wordings.read(text) for text in dict.fromkeys(texts)}
    for text, reading in readings.items():
        if not reading.caption:
            near = known.nearest(text)
            readings[text] = replace(reading, nearest=near.nearest, similarity=near.similarity)
    return readings


@cache
def _table() -> dict[str, Any]:
    table = json.loads(files(__package__).joinpath("wording.json").read_text(encoding="utf-8"))
    return {
        **{name: frozenset(words.split()) for name, words in table.items() if isinstance(words, str)},
        "phrases": [
            *((re.compile(rf"\b(?:{old})(?!\w)"), new) for old, new in table["phrases"].items()),
            (re.compile(r"\b\d+\b"), _COUNT),
        ],
        # Most captions have none of them: one search in place of one for each.
        "any": re.compile(rf"\b(?:{'|'.join(table['phrases'])})(?!\w)|\b\d+\b"),
        "same": {tuple(old.split()): tuple(new.split()) for old, new in table["same"].items()},
        "numbers": table["numbers"].split(),
        "given": {word: frozenset(words.split()) for word, words in table["given"].items()},
    }


def _words(text: str) -> list[_Word]:
    """Return the words of a text in their base form; phrases of the table are one word."""
    lower, typed = re.sub(r"[’']s\b|[’']", "", text.lower()), dict[str, str]()
    lower = re.sub(r"[,;:]|\s-\s", " and ", lower)

    def put(match: re.Match[str], meaning: str) -> str:
        typed.update(dict.fromkeys(meaning.split(), match[0].strip()))
        return f" {meaning} "

    for pattern, meaning in _table()["phrases"] if _table()["any"].search(lower) else ():
        lower = pattern.sub(lambda match, meaning=meaning: put(match, meaning), lower)
    found = re.findall(r"[^\W\d_]+", lower)
    tokens = (token.rsplit("/", 1) for token in tag_words(" ".join(found)))
    return [_Word(base, typed.get(word, word), tag) for word, (base, tag) in zip(found, tokens, strict=True)]


def _meant(text: str, words: Sequence[_Word]) -> list[_Word]:
    """Return the words that carry the meaning, each by its plain name; "hands" are both hands."""
    table = _table()
    kept = [word for word in words if word.meaning not in table["quiet"]]
    meant: list[_Word] = []
    place = 0
    while place < len(kept):
        size = 1
        for size in (3, 2, 1):
            span = kept[place : place + size]
            plain = table["same"].get(tuple(word.meaning for word in span))
            if plain is not None:
                typed = " ".join(word.typed for word in span)
                meant += [_Word(word, typed, span[0].tag) for word in plain]
                break
        else:
            meant.append(kept[place])
        place += min(size, len(kept) - place)
    if _SIDES.union(("both",)).isdisjoint(word.meaning for word in meant):
        meant += [_Word("both", word, "DET") for word in re.findall("[a-z]+", text.lower()) if word in _PLURAL][:1]
    things = table["things"]
    return [one._replace(meaning="thing") if one.meaning in things and one.tag != "VERB" else one for one in meant]


def _bare(words: Sequence[_Word]) -> tuple[str, ...]:
    """Return the words of a text without articles and the person that it is about."""
    left_out = _table()["nobody"] | _table()["people"]
    return tuple(word.meaning for word in words if word.meaning not in left_out)


def _spoken_of(words: Sequence[_Word], acts: Callable[[str], bool]) -> list[_Word]:
    """Return the words that are spoken of, not done: behind an article, a preposition or an action, or before one."""
    found = []
    for place, word in enumerate(words):
        before = words[place - 1] if place else None
        after = words[place + 1] if place + 1 < len(words) else None
        behind = before is not None and (
            before.tag in ("DET", "ADJ", "NUM", "ADP")
            or acts(before.meaning)
            or (before.tag == "NOUN" and before in found)
        )
        if behind or (after is not None and after.tag != "AUX" and acts(after.meaning)):
            found.append(word)
    return found


def _said(text: str) -> list[str]:
    return re.findall(r"\w+", _SUBJECT.sub("", text.lower()))


def _may_go(word: str) -> bool:
    """Whether a word may be left out, which is said: a tempo, a count, a mood, a manner."""
    table = _table()
    known = word == _COUNT or word in table["tempo"] | table["count"] | table["mood"]
    return known or (word.endswith("ly") and len(word) > 4)


def _times(counts: Sequence[str]) -> int:
    """Return the number that words for a count name: 1 if there are none, 0 if they name none."""
    if not counts:
        return 1
    numbers = {"twice": 2, "thrice": 3, **{word: number for number, word in enumerate(_table()["numbers"], start=1)}}
    first = counts[0].split()[0]
    return int(first) if first.isdigit() and len(first) < 4 else numbers.get(first, 0)


def _shown(caption: str) -> str:
    return caption.rstrip(".")
