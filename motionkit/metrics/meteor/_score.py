"""METEOR by nltk, with words split, stemmed and looked up once."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Any, Literal

from motionkit.metrics.meteor._lexicon import Lexicon, load_lexicon

Tokenizer = Literal["words", "space"]
_WORDS = re.compile(r"\w+(?:['\u2019-]\w+)*|[^\w\s]")
_KNOWN = 1 << 16  # words whose stem or synonyms are kept


@dataclass(frozen=True)
class _Synset:
    """Synonyms in the form in which nltk asks for them."""

    words: tuple[_Lemma, ...]

    def lemmas(self) -> tuple[_Lemma, ...]:
        return self.words


@dataclass(frozen=True)
class _Lemma:
    word: str

    def name(self) -> str:
        return self.word


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
        stem = PorterStemmer().stem
        self._synonyms = lru_cache(_KNOWN)(self._look_up)
        self._stemmer = _Stemmer(lru_cache(_KNOWN)(stem))

    def __call__(self, text: str, references: Sequence[str]) -> float:
        """Return the best score over the references, from 0 to 1.

        Args:
            text: A caption; an empty one scores 0.
            references: At least one wanted caption.
        """
        words = self._split(text)
        if not words:
            return 0.0
        wanted = [self._split(reference) for reference in references]
        return float(self._score(wanted, words, preprocess=_same, stemmer=self._stemmer, wordnet=self))

    def synsets(self, word: str) -> tuple[_Synset, ...]:
        """Return the synonyms of a word, as nltk's WordNet reader would."""
        return self._synonyms(word)

    def _look_up(self, word: str) -> tuple[_Synset, ...]:
        return (_Synset(tuple(map(_Lemma, sorted(self.lexicon.synonyms(word))))),)


@dataclass(frozen=True)
class _Stemmer:
    stem: Callable[[str], Any]


def _same(word: str) -> str:
    return word


def _space(text: str) -> list[str]:
    return text.strip().lower().split()


def _words(text: str) -> list[str]:
    return _WORDS.findall(text.lower())
