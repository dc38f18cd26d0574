"""The cache in front of an encoder (test 17 of the RL sheet)."""

from __future__ import annotations

from collections.abc import Sequence

import torch

from motionkit.rl import stable_hash
from motionkit.text import CachedEncoder, TextFeatures


class Words:
    """One random token per word; rows of different lengths."""

    name, width, fingerprint = "distilbert", 3, "words"

    def __init__(self) -> None:
        self.asked: list[str] = []

    def encode(self, texts: Sequence[str]) -> TextFeatures:
        """Encode."""
        self.asked += texts
        rows = []
        for text in texts:
            generator = torch.Generator().manual_seed(stable_hash(text) % 2**63)
            rows.append(torch.randn(len(text.split()), 3, generator=generator))
        lengths = torch.tensor([row.shape[0] for row in rows])
        tokens = torch.nn.utils.rnn.pad_sequence(rows, batch_first=True)
        return TextFeatures(tokens, torch.arange(tokens.shape[1]) < lengths[:, None])


TEXTS = ["a man walks", "he jumps up and down", "a man walks", "sits"]


def test_cache_is_bit_equal_and_asks_once() -> None:
    inner = Words()
    cached = CachedEncoder(inner)
    with_cache, without = cached.encode(TEXTS), Words().encode(TEXTS)
    assert torch.equal(with_cache.tokens, without.tokens)
    assert torch.equal(with_cache.mask, without.mask)
    again = cached.encode(TEXTS)
    assert torch.equal(again.tokens, without.tokens)
    assert inner.asked == ["a man walks", "he jumps up and down", "sits"]
    assert (cached.name, cached.width, cached.fingerprint) == ("distilbert", 3, "words")


def test_order_and_company_change_nothing() -> None:
    cached = CachedEncoder(Words())
    cached.encode(["sits"])
    features = cached.encode(TEXTS[::-1])
    for text, tokens, mask in zip(TEXTS[::-1], features.tokens, features.mask, strict=True):
        assert torch.equal(tokens[mask], CachedEncoder(Words()).encode([text]).tokens[0])


def test_rows_cannot_be_changed_from_outside() -> None:
    cached = CachedEncoder(Words())
    cached.encode(["sits"]).tokens.fill_(7.0)
    assert not (cached.encode(["sits"]).tokens == 7.0).any()


def test_selecting_rows() -> None:
    features = CachedEncoder(Words()).encode(TEXTS).select(torch.tensor([3, 3, 0]))
    assert features.mask.sum(1).tolist() == [1, 1, 3]
    assert len(features) == 3
