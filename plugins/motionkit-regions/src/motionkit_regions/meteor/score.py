"""METEOR by nltk, with words split, stemmed and looked up once."""

from __future__ import annotations

import lzma
import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cache, lru_cache
from hashlib import sha256
from pathlib import Path
from typing import Any, Literal

from motionkit.errors import MotionkitError

TABLE = Path(__file__).with_name("wordnet-3.0.txt.xz")
PARTS = ("noun", "verb", "adj", "adv")
_ENDINGS: Mapping[str, tuple[tuple[str, str], ...]] = {
    "noun": (("s", ""), ("ses", "s"), ("ves", "f"), ("xes", "x"), ("zes", "z"), ("ches", "ch"), ("shes", "sh"),
             ("men", "man"), ("ies", "y")),
    "verb": (("s", ""), ("ies", "y"), ("es", "e"), ("es", ""), ("ed", "e"), ("ed", ""), ("ing", "e"), ("ing", "")),
    "adj": (("er", ""), ("est", ""), ("er", "e"), ("est", "e")),
    "adv": (),
}  # fmt: skip
"""Endings that `Lexicon` takes off, with what it puts there (morphy(7WN))."""

_MARKER = re.compile(r"\((?:a|p|ip)\)$")  # where an adjective may stand; not part of the word

_WORDS = re.compile(r"\w+(?:['\u2019-]\w+)*|[^\w\s]")
_KNOWN = 1 << 16  # words whose stem or synonyms are kept


@dataclass(frozen=True)
class Lexicon:
    """Words by part of speech."""

    # By part of speech, the words of each synset; those of several words are left out
    synsets: Mapping[str, tuple[tuple[str, ...], ...]]
    exceptions: Mapping[str, Mapping[str, tuple[str, ...]]]  # by part of speech, irregular forms with their base forms
    digest: str  # hash of the lexicon, for the record of a run
    _places: Mapping[str, Mapping[str, list[int]]] = field(init=False, repr=False)

    def __post_init__(self) -> None:
        places: dict[str, dict[str, list[int]]] = {part: {} for part in PARTS}
        for part, synsets in self.synsets.items():
            for number, words in enumerate(synsets):
                for word in words:
                    places[part].setdefault(word.lower(), []).append(number)
        object.__setattr__(self, "_places", places)

    def synonyms(self, word: str) -> frozenset[str]:
        """Return the words that share a synset with a word or with one of its base forms, those included, in any case.

        Example:
            >>> sorted(load_lexicon().synonyms("sofas"))
            ['couch', 'lounge', 'sofa']
        """
        word = word.lower()
        synonyms: set[str] = set()
        for part in PARTS:
            synsets, places = self.synsets[part], self._places[part]
            for form in self._forms(word, part):
                synonyms.update(*(synsets[number] for number in places[form]))
        return frozenset(synonyms)

    def _forms(self, word: str, part: str) -> Iterable[str]:
        bases = self.exceptions[part].get(word)
        if bases is None:
            bases = tuple(word[: -len(old)] + new for old, new in _ENDINGS[part] if word.endswith(old))
        return dict.fromkeys(form for form in (word, *bases) if form in self._places[part])


@cache
def load_lexicon(folder: Path | None = None) -> Lexicon:
    """Return the lexicon of the package, or one made of a folder of WordNet's files."""
    if folder is not None:
        return read_wordnet(folder)
    try:
        text = lzma.decompress(TABLE.read_bytes()).decode()
    except (OSError, lzma.LZMAError, UnicodeDecodeError) as error:
        raise MotionkitError(
            f"the lexicon {TABLE} cannot be read.", why="METEOR compares synonyms.", fix="install motionkit again."
        ) from error
    return _parse(text)


def read_wordnet(folder: Path) -> Lexicon:
    """Read WordNet's database files (wndb(5WN)): ``data.PART`` and ``PART.exc`` for noun, verb, adj and adv."""
    lines = []
    for part in PARTS:
        irregular = (line for line in _lines(folder / f"{part}.exc") if "_" not in line and len(line.split()) > 1)
        lines += [f"# {part}", *_data(folder / f"data.{part}"), "# exceptions", *irregular]
    return _parse(as_text(_parse("\n".join(lines))))  # the digest is that of the table in its one form


def as_text(lexicon: Lexicon) -> str:
    """Return the table that the package keeps, compressed: a line per synset, then one per exception."""
    lines = []
    for part in PARTS:
        lines += [f"# {part}", *(" ".join(words) for words in lexicon.synsets[part]), "# exceptions"]
        lines += [" ".join((form, *bases)) for form, bases in lexicon.exceptions[part].items()]
    return "\n".join(lines)


def _parse(text: str) -> Lexicon:
    synsets: dict[str, list[tuple[str, ...]]] = {part: [] for part in PARTS}
    exceptions: dict[str, dict[str, tuple[str, ...]]] = {part: {} for part in PARTS}
    part, irregular = PARTS[0], False
    for line in text.splitlines():
        if line.startswith("# "):
            irregular = line == "# exceptions"
            part = part if irregular else line[2:]
        elif irregular:
            form, *bases = line.split()
            exceptions[part][form] = tuple(bases)
        else:
            synsets[part].append(tuple(line.split()))
    return Lexicon(
        {part: tuple(words) for part, words in synsets.items()}, exceptions, sha256(text.encode()).hexdigest()
    )


def _data(path: Path) -> Iterable[str]:
    """Return the single words of each synset of a data file; none of a synset without one."""
    for number, line in enumerate(_lines(path)):
        if line.startswith("  "):
            continue  # the licence
        try:
            _, _, _, count, *rest = line.split(" ")
            words = [_MARKER.sub("", word) for word in rest[: 2 * int(count, 16) : 2]]
        except ValueError as error:
            raise MotionkitError(
                f"{path}, line {number + 1}: this is not a WordNet data file.", fix="give the folder of its database."
            ) from error
        if single := [word for word in words if "_" not in word]:
            yield " ".join(single)


def _lines(path: Path) -> Iterable[str]:
    try:
        return path.read_text(encoding="utf-8").splitlines()
    except (OSError, UnicodeDecodeError) as error:
        raise MotionkitError(
            f"{path} cannot be read.", why="a lexicon is made of WordNet's database files.",
            fix="give a folder with data.noun, noun.exc and those of verb, adj and adv.",
        ) from error  # fmt: skip


Tokenizer = Literal["words", "space"]


class _Lemma:
    """A word in the form in which nltk asks for it."""

    __slots__ = ("name",)

    def __init__(self, word: str) -> None:
        self.name = word.__str__  # called for every synonym of every word: a method of C, not of Python


class _Synset:
    """Synonyms in the form in which nltk asks for them."""

    __slots__ = ("lemmas",)

    def __init__(self, words: Iterable[str]) -> None:
        self.lemmas = tuple(map(_Lemma, words)).__iter__


class _Lookup:
    """WordNet as far as one pair of texts asks for it: a word's synonyms that the reference holds.

    nltk looks for synonyms among the stems of the reference and for nothing else, so that leaving out the others
    changes no score.
    """

    __slots__ = ("_among", "_synonyms")

    def __init__(self, synonyms: Callable[[str], frozenset[str]], among: frozenset[str]) -> None:
        self._synonyms, self._among = synonyms, among

    def synsets(self, word: str) -> tuple[_Synset, ...]:
        """Return the synonyms of a word, as nltk's WordNet reader would."""
        synonyms = self._synonyms(word) & self._among
        return (_Synset(synonyms),) if synonyms else ()


class Meteor:
    """Scores captions by METEOR (Banerjee and Lavie 2005), as `nltk.translate.meteor_score` does.

    Alpha is 0.9, beta 3, gamma 0.5; words match exactly, by their Porter stem, or as synonyms. A perfect caption of n
    words has 1 - 0.5 / n^3, one word alone 0.5. nltk looks synonyms up for stems, so that some pairs ("large" has the
    stem "larg") are never found; that is kept. Equal words are paired from the end of the text, as nltk does: where the
    reference says a word twice, the pairs can lie apart and cost a penalty. "the cup" for "the cup on the table" has
    0.213; the pairing with the fewest chunks, which the paper asks for, has 0.399. The tokenizer ``words`` parts
    punctuation from words; ``space`` splits at white space alone, as the code of the Sa2VA self-play summary does.

    Example:
        >>> meteor = Meteor()
        >>> round(meteor("the couch is near the window", ["the sofa is near the window"]), 6)
        0.997685
        >>> meteor("", ["a red circle"])
        0.0
        >>> round(meteor("the cup", ["the cup on the table"]), 3)
        0.213
    """

    def __init__(self, tokenizer: Tokenizer = "words", lexicon: Lexicon | None = None) -> None:
        from nltk.stem.porter import PorterStemmer
        from nltk.translate.meteor_score import meteor_score

        self._score: Callable[..., float] = meteor_score
        self._split = _WORDS.findall if tokenizer == "words" else str.split
        self.lexicon = lexicon or load_lexicon()
        self._synonyms = lru_cache(_KNOWN)(self.lexicon.synonyms)
        self._stemmer = _Stemmer(lru_cache(_KNOWN)(PorterStemmer().stem))

    def __call__(self, text: str, references: Sequence[str]) -> float:
        """Return the best score over the references, from 0 to 1; an empty text scores 0."""
        words = self._split(text.lower())
        if not words:
            return 0.0
        return max(self._pair(words, self._split(reference.lower())) for reference in references)

    def _pair(self, words: list[str], reference: list[str]) -> float:
        stem = self._stemmer.stem
        known = _Lookup(self._synonyms, frozenset(map(stem, reference)))
        return float(self._score([reference], words, preprocess=str, stemmer=self._stemmer, wordnet=known))


@dataclass(frozen=True)
class _Stemmer:
    stem: Callable[[str], Any]
