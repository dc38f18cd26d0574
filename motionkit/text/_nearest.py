"""The known texts that are nearest to another text: by their embeddings, or by their words without a model."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
import torch.nn.functional as F
from numpy.typing import NDArray
from torch import Tensor

from motionkit.text._prompt import TextEncoder

_SHORT = 24  # words up to which a text is also tried with a subject: the student reads 32
_SUBJECT = "a person"

# Chinese has no blanks between words, so each character is a token.
_TOKEN = re.compile(r"[\u3400-\u9fff]|[^\W_\u3400-\u9fff]+")


class Near(NamedTuple):
    """A text, the known text nearest to it, and the cosine of their embeddings."""

    text: str
    nearest: str
    similarity: float


class KnownTexts:
    """Texts with embeddings of one vector each.

    Args:
        texts: N texts.
        vectors: ``[N, F]`` their embeddings by `encoder`.
        encoder: Embeds other texts.
        meanings: The texts again, those together that mean the same, the plainest first; by default each for itself.

    Attributes:
        meanings: As given.
    """

    def __init__(
        self, texts: Sequence[str], vectors: Tensor, encoder: TextEncoder, *, meanings: Sequence[Sequence[str]] = ()
    ) -> None:
        self._texts, self._vectors = tuple(texts), F.normalize(vectors.float(), dim=-1)
        self.meanings = meanings or [(text,) for text in self._texts]
        self._encoder = encoder

    def nearest(self, text: str) -> Near:
        """Return the known text nearest to `text`, or to `text` with a subject before it ("walk forward")."""
        short = len(text.split()) <= _SHORT
        vectors = self._encoder.encode([text, f"{_SUBJECT} {text}"] if short else [text]).tokens[:, 0]
        similarity, place = (F.normalize(vectors.cpu(), dim=-1) @ self._vectors.T).amax(0).max(0)
        return Near(text, self._texts[int(place)], float(similarity))


class NearestTexts:
    """Finds the texts of a list that are nearest to another text, without a model.

    Nearness is the cosine of bags of words with TF-IDF weights, smoothed ``1 + log((1 + N) / (1 + n))``. Left and right
    are as far apart as any other two words.

    Example:
        >>> NearestTexts(["a man walks", "a man waves", "he waves the left hand"]).find("someone waves", most=1)
        [(1, 0.349...)]
    """

    def __init__(self, texts: Sequence[str]) -> None:
        self._count = len(texts)
        bags = [Counter(_words(text)) for text in texts]
        self._rare = {
            word: 1.0 + float(np.log((1 + len(texts)) / (1 + number)))
            for word, number in Counter(word for bag in bags for word in bag).items()
        }
        places: dict[str, list[tuple[int, float]]] = {}
        for number, bag in enumerate(bags):
            weights = {word: times * self._rare[word] for word, times in bag.items()}
            size = sum(weight * weight for weight in weights.values()) ** 0.5
            for word, weight in weights.items():
                places.setdefault(word, []).append((number, weight / size))
        self._places: dict[str, tuple[NDArray[np.int64], NDArray[np.float64]]] = {
            word: (np.array([number for number, _ in texts_of_word]), np.array([weight for _, weight in texts_of_word]))
            for word, texts_of_word in places.items()
        }

    def find(self, text: str, *, most: int) -> list[tuple[int, float]]:
        """Return index and nearness (above 0, at most 1) of up to `most` texts that share a word, nearest first."""
        rarest = max(self._rare.values(), default=1.0)
        weights = {word: times * self._rare.get(word, rarest) for word, times in Counter(_words(text)).items()}
        size = sum(weight * weight for weight in weights.values()) ** 0.5
        near = np.zeros(self._count)
        for word, weight in weights.items():
            if word in self._places:
                numbers, shares = self._places[word]
                near[numbers] += weight / size * shares
        order = np.argsort(-near, kind="stable")[:most]
        return [(int(number), float(near[number])) for number in order if near[number] > 0]


def _words(text: str) -> list[str]:
    return _TOKEN.findall(text.lower())
