"""The tokens and the word vectors that an evaluator is trained with."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

import torch
from torch import Tensor

from motionkit.datasets.base import TextClip
from motionkit.encoders.t2m._words import WordTable
from motionkit.motion import tag_caption
from motionkit.rl import stable_hash
from motionkit.starter import student_path
from motionkit.text import StudentEncoder

_SPECIAL = ("sos", "eos", "unk")


def caption_tokens(clips: Sequence[TextClip]) -> tuple[dict[str, tuple[str, ...]], bool]:
    """Return the ``word/POS`` tokens of every caption, and whether the dataset stores them.

    Captions without stored tokens get those of the built-in tagger, which is the same on every machine.
    """
    found: dict[str, tuple[str, ...]] = {}
    stored = False
    for clip in clips:
        own: Sequence[tuple[str, ...]] = getattr(clip, "tokens", ()) or [()] * len(clip.captions)
        for caption, tokens in zip(clip.captions, own, strict=True):
            stored |= bool(tokens)
            if tokens or caption not in found:
                found[caption] = tokens or tag_caption(caption, builtin=True)
    return found, stored


def starter_words(tokens: Mapping[str, Sequence[str]], width: int) -> WordTable:
    """Make a table of word vectors from those of the starter's small copy of MiniLM.

    Its words are reduced to the forms that captions have, as the mean of all words of one form, and to the `width`
    directions in which they differ most, scaled to a mean square of 1. Words of `tokens` that it lacks get a random
    vector, the same for a word at any time.

    Args:
        tokens: Tokens of the training captions.
        width: Numbers per word.
    """
    student = StudentEncoder(student_path())
    known = student.word_vectors()
    forms: dict[str, list[Tensor]] = {}
    for word, vector in known.items():
        for form in _forms(word):
            forms.setdefault(form, []).append(vector)
    words = list(forms)
    table = torch.stack([torch.stack(forms[word]).mean(0) for word in words]).double()
    table = table - table.mean(0)
    # Principal directions by the eigenvectors of the covariance; signs are fixed by the largest entry.
    vectors = torch.linalg.eigh(table.T @ table).eigenvectors.flip(1)[:, :width]
    vectors = vectors * vectors.gather(0, vectors.abs().argmax(0)[None]).sign()
    table = table @ vectors
    table = table / table.square().mean().sqrt()
    new = [word for word in (*_SPECIAL, *_words(tokens.values())) if word not in forms]
    rows = [*table.float(), *(_random(word, width) for word in dict.fromkeys(new))]
    return WordTable(
        torch.stack(rows), {word: row for row, word in enumerate((*words, *dict.fromkeys(new)))}, "starter"
    )


def _forms(word: str) -> list[str]:
    """Return what a tagger may make of a word, as a noun or as a verb."""
    contexts = (word, f"a {word}", f"is {word}")
    found = [token.rpartition("/")[0] for text in contexts for token in tag_caption(text, builtin=True)[-1:]]
    return list(dict.fromkeys(found))


def _words(tokens: Iterable[Sequence[str]]) -> list[str]:
    return sorted({token.rpartition("/")[0] for row in tokens for token in row})


def _random(word: str, width: int) -> Tensor:
    return torch.randn(width, generator=torch.Generator().manual_seed(stable_hash(f"word/{word}") % 2**63))
