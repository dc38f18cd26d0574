"""Counts over the captions of a dataset: words, verbs, vocabulary."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field
from statistics import median

from motionkit.motion.corpus._tagger import tag_words

_SHOWN = 20
_DULL = frozenset({"be", "have", "do", "seem", "appear"})
"""Verbs of almost every caption, left out of the most frequent ones."""


@dataclass
class CaptionCount:
    """Counts over captions; add them one clip at a time.

    Attributes:
        clips: Clips seen.
        without: Clips that have no caption.
        captions: Captions seen.
        different: Captions that differ from all others.
        words: Words in all, and those of each caption for the median.
        forms: Words as they are written, in lower case.
        verbs: Verbs by their base form.
        nouns: Nouns and directions by their base form.
    """

    clips: int = 0
    without: int = 0
    captions: int = 0
    words: list[int] = field(default_factory=list)
    different: set[str] = field(default_factory=set)
    forms: Counter[str] = field(default_factory=Counter)
    verbs: Counter[str] = field(default_factory=Counter)
    nouns: Counter[str] = field(default_factory=Counter)

    def add(self, texts: tuple[str, ...]) -> None:
        """Count one clip's captions."""
        self.clips += 1
        self.without += not texts
        self.captions += len(texts)
        for text in texts:
            self.different.add(text.strip().lower())
            tokens = [token.rpartition("/") for token in tag_words(text)]
            self.words.append(len(tokens))
            self.forms.update(word for word, _, _ in tokens)
            self.verbs.update(word for word, _, tag in tokens if tag == "VERB" and word not in _DULL)
            self.nouns.update(word for word, _, tag in tokens if tag in ("NOUN", "ADV", "ADJ"))

    def top_verbs(self) -> dict[str, int]:
        """Return the most frequent verbs with their numbers."""
        return _top(self.verbs)

    def top_words(self) -> dict[str, int]:
        """Return the most frequent other words (nouns, adjectives, adverbs) with their numbers."""
        return _top(self.nouns)

    def document(self) -> dict[str, object]:
        """Return the figures for JSON."""
        return {
            "clips_without": self.without,
            "count": self.captions,
            "different": len(self.different),
            "per_clip": self.captions / self.clips if self.clips else 0.0,
            "words_mean": sum(self.words) / len(self.words) if self.words else 0.0,
            "words_median": median(self.words) if self.words else 0,
            "words_max": max(self.words, default=0),
            "vocabulary": len(self.forms),
            "words_once": sum(number == 1 for number in self.forms.values()),
            "verbs": self.top_verbs(),
            "other_words": self.top_words(),
        }


def _top(counts: Counter[str]) -> dict[str, int]:
    """Return the most frequent words, equal ones in the order of the alphabet."""
    return dict(sorted(counts.items(), key=lambda item: (-item[1], item[0]))[:_SHOWN])
