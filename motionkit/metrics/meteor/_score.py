"""METEOR by nltk, with words split, stemmed and looked up once."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Any, Literal

from motionkit.metrics.meteor._lexicon import Lexicon, load_lexicon

Tokenizer = Literal["words", "space"]
_WORDS = re.compile(r"\w+(?:['\u2019-]\w+)*|[^\w\s]")
_KNOWN = 1 << 16  # words whose stem or synonyms are kept


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
        found = self._synonyms(word) & self._among
        return (_Synset(found),) if found else ()


class Meteor:
    """Scores captions by METEOR (Banerjee and Lavie 2005), as `nltk.translate.meteor_score` does.

    Alpha is 0.9, beta 3, gamma 0.5; words match exactly, by their Porter stem, or as synonyms. A perfect caption of n
    words has 1 - 0.5 / n^3, one word alone 0.5. nltk looks synonyms up for stems, so that some pairs ("large" has the
    stem "larg") are never found; that is kept.

    Args:
        tokenizer: ``words`` parts punctuation from words; ``space`` splits at white space alone, as the code of the
            Sa2VA self-play summary does.
        lexicon: Synonyms; the package's by default.

    Example:
        >>> meteor = Meteor()
        >>> round(meteor("the couch is near the window", ["the sofa is near the window"]), 6)
        0.997685
        >>> meteor("", ["a red circle"])
        0.0
    """

    def __init__(self, tokenizer: Tokenizer = "words", lexicon: Lexicon | None = None) -> None:
        from nltk.stem.porter import PorterStemmer
        from nltk.translate.meteor_score import meteor_score

        self._score: Callable[..., float] = meteor_score
        self._split = _words if tokenizer == "words" else _space
        self.lexicon = lexicon or load_lexicon()
        self._synonyms = lru_cache(_KNOWN)(self.lexicon.synonyms)
        self._stemmer = _Stemmer(lru_cache(_KNOWN)(PorterStemmer().stem))

    def __call__(self, text: str, references: Sequence[str]) -> float:
        """Return the best score over the references, from 0 to 1.

        Args:
            text: A caption; an empty one scores 0.
            references: At least one wanted caption.
        """
        words = self._split(text)
        if not words:
            return 0.0
        return max(self._pair(words, self._split(reference)) for reference in references)

    def _pair(self, words: list[str], wanted: list[str]) -> float:
        stem = self._stemmer.stem
        known = _Lookup(self._synonyms, frozenset(map(stem, wanted)))
        return float(self._score([wanted], words, preprocess=str, stemmer=self._stemmer, wordnet=known))


@dataclass(frozen=True)
class _Stemmer:
    stem: Callable[[str], Any]


def _space(text: str) -> list[str]:
    return text.strip().lower().split()


def _words(text: str) -> list[str]:
    return _WORDS.findall(text.lower())
