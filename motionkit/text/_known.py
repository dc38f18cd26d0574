"""How near a text is to those that a model was trained on."""

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

FAR = 0.62
"""Similarity below which a text is far from all others. Of the starter's 576 captions in wordings that training never
sees 1.6 % are below it; of 60 texts about other things 82 % with MiniLM, 68 % of the 25 that its student can read."""

_SHORT = 24  # words up to which a text is also read with a subject: the student reads 32
_SUBJECT = "a person"


class Near(NamedTuple):
    """The known text that is nearest to another one, and the cosine of their embeddings."""

    text: str
    nearest: str
    similarity: float


class KnownTexts:
    """Texts with embeddings of one vector each.

    Args:
        texts: N texts.
        vectors: ``[N, F]`` their embeddings by `encoder`.
        encoder: Embeds other texts.
    """

    def __init__(self, texts: Sequence[str], vectors: Tensor, encoder: TextEncoder) -> None:
        self._texts, self._vectors = tuple(texts), F.normalize(vectors.float(), dim=-1)
        self._encoder = encoder

    def nearest(self, text: str) -> Near:
        """Return the known text that is nearest to `text`, or to `text` with a subject before it ("walk forward").

        Raises:
            MotionkitError: The encoder does not know a word.
        """
        short = len(text.split()) <= _SHORT
        asked = self._encoder.encode([text, f"{_SUBJECT} {text}"] if short else [text]).tokens[:, 0]
        similarity, place = (F.normalize(asked.cpu(), dim=-1) @ self._vectors.T).amax(0).max(0)
        return Near(text, self._texts[int(place)], float(similarity))

    def far(self, texts: Sequence[str]) -> list[Near]:
        """Return those of `texts` that are far from all known ones, the farthest first."""
        found = [self.nearest(text) for text in dict.fromkeys(texts)]
        return sorted((near for near in found if near.similarity < FAR), key=lambda near: near.similarity)


# The texts of a list that share most words with another one; needs no model.


# Chinese has no blanks between words, so each of its characters is one.
_WORD = re.compile(r"[\u3400-\u9fff]|[^\W_\u3400-\u9fff]+")


class NearestTexts:
    """A list of texts that can be asked for those nearest to another text.

    Nearness is the cosine of the two texts' bags of words, each word weighed by how rare it is in the list (TF-IDF with
    smoothed ``1 + log((1 + N) / (1 + n))``). Left and right are as far apart as any other two words.

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
            word: (np.array([number for number, _ in found]), np.array([weight for _, weight in found]))
            for word, found in places.items()
        }

    def find(self, text: str, *, most: int) -> list[tuple[int, float]]:
        """Return number and nearness (above 0, at most 1) of the nearest texts, the nearest first, ties in order.

        Args:
            text: Any text.
            most: How many; fewer come back where fewer share a word.
        """
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
    return _WORD.findall(text.lower())
