"""The student of MiniLM: what it computes and refuses, when it stands in."""

from __future__ import annotations

import json
import logging
from pathlib import Path

import pytest
import torch
import torch.nn.functional as F

from motionkit.errors import MotionkitError
from motionkit.text import (
    KnownTexts,
    StoredEncoder,
    StudentEncoder,
    StudentNetwork,
    TextEncoder,
    words_of,
    write_student,
    write_table,
)

WORDS = ["a", "jumps", "man", "u-turn", "walks", "about", "face", ","]


@pytest.fixture
def student(tmp_path: Path) -> Path:
    torch.manual_seed(0)
    network = StudentNetwork(len(WORDS), width=8, depth=1, features=6)
    for value in network.parameters():
        torch.nn.init.normal_(value, std=0.5)
    write_student(tmp_path / "student.safetensors", WORDS, network)
    return tmp_path / "student.safetensors"


@pytest.fixture
def table(tmp_path: Path) -> Path:
    write_table(tmp_path / "text.safetensors", ["a man walks.", "a man jumps."], torch.eye(2, 6), encoder="minilm")
    return tmp_path / "text.safetensors"


def test_words() -> None:
    assert words_of("  A man's U-turn, twice!  ") == ["a", "man's", "u-turn", ",", "twice"]
    assert words_of("走路 ... walks_fast") == ["走路", "walks", "fast"]
    assert words_of("?!") == []


def test_without_its_transformer_it_is_a_bag_of_words() -> None:
    torch.manual_seed(0)
    network = StudentNetwork(3, width=8, depth=1, features=4)  # the head starts at zero
    torch.nn.init.normal_(network.offset)
    rows = network.vectors.weight
    found = network(torch.tensor([[1, 3, 0], [2, 2, 1]]))
    for row, words in zip(found, ([1, 3], [2, 2, 1]), strict=True):
        wanted = network.offset + sum(rows[word] for word in words) / len(words) ** 0.5
        assert torch.allclose(row, F.normalize(wanted, dim=0), atol=1e-6)


def test_order_counts_and_padding_does_not() -> None:
    torch.manual_seed(0)
    network = StudentNetwork(4, width=8, depth=2, features=6)
    torch.nn.init.normal_(network.head.weight)
    alone, padded = network(torch.tensor([[1, 2]])), network(torch.tensor([[1, 2, 0, 0], [4, 3, 2, 1]]))[:1]
    assert torch.allclose(alone, padded, atol=1e-6)
    assert not torch.allclose(alone, network(torch.tensor([[2, 1]])), atol=1e-3)


def test_a_text_is_encoded_the_same_in_any_company(student: Path) -> None:
    encoder = StudentEncoder(student)
    alone = encoder.encode(["a man walks"]).tokens
    together = encoder.encode(["jumps", "A man walks."]).tokens
    assert together.shape == (2, 1, 6)
    assert torch.equal(alone[0], together[1])
    assert torch.allclose(alone.norm(dim=-1), torch.ones(1, 1))


def test_a_compound_is_known_by_its_parts(student: Path) -> None:
    encoder = StudentEncoder(student)
    assert encoder.unknown("a U-turn, about-face") == []
    assert encoder.unknown("a three-quarter face") == ["three-quarter"]


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("a man walsk", "'walsk'"),
        ("the man swims", "'the', 'swims'"),
        ("走路", "'走路'"),
        ("xyz, abc", "'xyz, abc'"),
        (",", "has no word|no word"),
        ("...", "has no word"),
        (" ".join(["walks"] * 33), "at most 32"),
    ],
)
def test_what_it_cannot_encode_is_named(student: Path, text: str, said: str) -> None:
    with pytest.raises(MotionkitError, match=said):
        StudentEncoder(student).encode([text])


def test_near_spellings_are_offered(student: Path) -> None:
    with pytest.raises(MotionkitError) as told:
        StudentEncoder(student).encode(["a man walsk"])
    assert "walks" in told.value.why


@pytest.mark.parametrize("damage", ["no json", "no words", "sizes", "more words", "torn"])
def test_damage_is_refused(student: Path, damage: str) -> None:
    document = student.with_suffix(".json")
    content = json.loads(document.read_text())
    if damage == "no json":
        document.unlink()
    elif damage == "torn":
        student.write_bytes(student.read_bytes()[:100])
    else:
        content |= {"no words": {"words": 3}, "sizes": {"width": 10**9}, "more words": {"words": [*WORDS, "x"]}}[damage]
        document.write_text(json.dumps(content))
    with pytest.raises(MotionkitError):
        StudentEncoder(student)


def _absent() -> TextEncoder:
    raise MotionkitError("the model is not installed.", why="it is large.", fix="pip install model")


def test_it_stands_in_where_the_model_is_not_installed(
    table: Path, student: Path, caplog: pytest.LogCaptureFixture
) -> None:
    encoder = StoredEncoder(table, fallback=_absent, student=student)
    with caplog.at_level(logging.INFO, "motionkit"):
        stored = encoder.encode(["a man walks.", "A man JUMPS"]).tokens[:, 0]
        assert torch.equal(stored, torch.eye(2, 6))  # case and full stop do not count
        free = encoder.encode(["a man walks , jumps"]).tokens
        encoder.encode(["walks"])
    assert torch.equal(free, StudentEncoder(student).encode(["a man walks, jumps"]).tokens)
    assert caplog.records == []  # nothing is said of the model while every word is known
    with pytest.raises(MotionkitError) as told:
        encoder.encode(["a man wals."])
    assert "pip install model" in told.value.fix
    assert "nearest stored texts: a man walks.; a man jumps." in told.value.why


def test_the_model_itself_wins(table: Path, student: Path) -> None:
    model = StudentEncoder(student)
    encoder = StoredEncoder(table, fallback=lambda: model, student=Path("nowhere"))
    assert torch.equal(encoder.encode(["a man"]).tokens, model.encode(["a man"]).tokens)


def test_training_is_never_given_the_student(table: Path) -> None:
    with pytest.raises(MotionkitError) as told:
        StoredEncoder(table, fallback=_absent).encode(["a man walks"])
    assert "a man walks." in told.value.why
    assert told.value.fix == "pip install model"


def test_the_nearest_of_two() -> None:
    class Axes:
        name, width, fingerprint = "axes", 2, "axes:1"

        def encode(self, texts):
            from motionkit.text import TextFeatures

            rows = {"x": [1.0, 0.0], "a person x": [0.0, 1.0], "down": [-1.0, -0.1], "a person down": [-1.0, 0.0]}
            found = torch.tensor([rows[text] for text in texts])[:, None]
            return TextFeatures(found, torch.ones(len(texts), 1, dtype=torch.bool))

    known = KnownTexts(["east", "north"], torch.tensor([[2.0, 0.0], [0.6, 0.8]]), Axes())
    assert known.nearest("x") == ("x", "east", 1.0)
    assert known.nearest("down").nearest == "north"
    assert known.nearest("down").similarity < 0
