"""What typed texts are read as: the caption that says the same, what it leaves out, and what is not known."""

from __future__ import annotations

import logging
from functools import cache

import pytest
import torch

from motionkit import load_policy
from motionkit.starter import CATALOGUE
from motionkit.text import Prompt, StoredEncoder
from motionkit.text_to_motion.generating import read_texts, typed_prompts
from motionkit.text_to_motion.wording import Reading, Wordings


@cache
def _wordings() -> Wordings:
    return Wordings([entry.captions for entry in CATALOGUE])


def _class(caption: str) -> str:
    return next((entry.name for entry in CATALOGUE if caption in entry.captions), "")


@pytest.mark.parametrize(
    ("text", "movement", "left_out"),
    [
        ("a person walks backward", "walk/backward", ()),
        ("he walks backwards slowly", "walk/backward", ("slowly",)),
        ("the guy is walking down the street", "walk/normal", ()),
        ("a tired old man walks", "walk/normal", ("tired",)),
        ("strolling through the park", "walk/slow", ()),
        ("walks along a beach for 10 seconds", "walk/normal", ("10 seconds",)),
        ("runs fast", "run/sprint", ()),
        ("turn 180 degrees", "turn/around-right", ()),
        ("jump 90 degrees to the left", "jump/turn-left", ()),
        ("walks counterclockwise in a circle", "walk/circle-left", ()),
        ("a person strafes right", "side-step/right", ()),
        ("zombie walk", "walk/zombie", ()),
        ("a knight kneels", "kneel/both", ()),
        ("takes a seat on the sofa", "sit/down", ()),
        ("gets up from the couch", "sit/up", ()),
        ("a boy kicks a soccer ball with his left foot", "kick/low-left", ()),
        ("throws a grenade", "throw/over-right", ()),
        ("a man drinks coffee with his left hand", "drink/left", ()),
        ("raise your hand", "raise/right", ()),
        ("raises his hands", "raise/both-up", ()),
        ("hops forward on one foot", "hop/forward-right", ()),
        ("stands on left foot", "balance/arms-left", ()),
        ("a person ducks", "crouch/hold", ()),
        ("a woman dances happily", "dance/sway", ("happily",)),
        ("takes two steps forward", "walk/normal", ("two steps",)),
        ("walks up the stairs", "walk/normal", ("up the stairs",)),
        ("walks sideways like a crab", "side-step/right", ("like a crab",)),
        ("a hiker walks with a backpack", "walk/normal", ("with a backpack",)),
        ("roundhouse kick", "kick/low-right", ("roundhouse",)),
        ("kneels to pray", "kneel/both", ("to pray",)),
    ],
)  # fmt: skip
def test_a_text_is_read_as_the_caption_that_says_the_same(text: str, movement: str, left_out: tuple[str, ...]) -> None:
    reading = _wordings().read(text)
    assert (_class(reading.caption), reading.left_out, reading.strange) == (movement, left_out, ())


@pytest.mark.parametrize(
    ("text", "strange"),
    [
        ("a person does a handstand", ("handstand",)),
        ("a person falls over backwards", ()),
        ("stand still", ()),
        ("a person catches a ball", ()),
        ("picks up a box from the floor and puts it on a shelf", ("on a shelf",)),
        ("someone climbs a ladder", ("climbs",)),
        ("a man walks in a square", ()),
        ("a man runs backwards", ()),
        ("turns 360 degrees", ("360 degrees",)),
        ("points at the sky", ()),
        ("looks up", ()),
        ("waves with the right foot", ()),
        ("opens a door", ()),
        ("swings a sword", ()),
        ("shakes hands with someone", ("with someone",)),
        ("he does not move", ()),
        ("he never walks", ("never",)),
        ("a woman rocks a baby in her arms", ()),
        ("a person goes up in smoke", ()),
        ("pulls out a sword and attacks", ("attacks",)),
        ("picks up a phone and talks", ()),
        ("angry", ()),
        ("...", ()),
    ],
)  # fmt: skip
def test_a_text_that_no_caption_says_is_not_known(text: str, strange: tuple[str, ...]) -> None:
    reading = _wordings().read(text)
    assert (reading.caption, reading.strange) == ("", strange)


def test_every_caption_is_read_as_itself() -> None:
    for entry in CATALOGUE:
        for caption in entry.captions:
            reading = _wordings().read(caption.upper().removesuffix("."))
            assert (_class(reading.caption), reading.changed, reading.left_out) == (entry.name, False, ())
    assert _wordings().read("the guy walks").changed


def test_several_actions_are_not_one_and_the_way_to_have_them_is_named() -> None:
    reading = _wordings().read("a man walks and then sits down")
    assert reading.caption == ""
    first, second = reading.in_turn.split(" | ")
    assert [_class(f"{text}.") for text in (first, second)] == ["walk/normal", "sit/down"]
    assert reading.in_turn in reading.sentence


@pytest.mark.parametrize(
    ("text", "frames", "said"),
    [
        ("a person jumps", 40, ""),
        ("he jumps twice", 80, "; twice: by its length"),
        ("kicks 3 times with the left leg", 120, "; 3 times: by its length"),
        ("he jumps ten times", 120, "; not followed: ten times"),
        ("claps five times", 120, "; not followed: five times"),
    ],
)
def test_counts_are_followed_by_length_or_said(text: str, frames: int, said: str) -> None:
    policy = load_policy()
    (prompt,), readings = read_texts(policy, [(text, None)], None, as_typed=False)
    assert prompt.length == frames
    assert readings[text].sentence.partition("'; ")[2] == said.removeprefix("; ")
    _, readings = read_texts(policy, [(text, None)], [3.0], as_typed=False)
    assert "by its length" not in readings[text].sentence


def _encoded(text: str, policy: object) -> torch.Tensor:
    encoded: torch.Tensor = policy.condition([Prompt((text,), (40,))]).text  # type: ignore[attr-defined]
    return encoded


@pytest.mark.parametrize(
    ("text", "caption"),
    [
        ("a person walks", "someone walks."),
        ("A man walks", "someone walks."),
        ("a man walks forward.", "a man walks forward."),
        ("the person walks forward.", "the person walks forward."),  # a caption too, though another one says the same
    ],
)
def test_a_known_caption_needs_no_text_encoder(text: str, caption: str, monkeypatch: pytest.MonkeyPatch) -> None:
    policy = load_policy()
    plain = _encoded(caption, policy)
    monkeypatch.setattr(StoredEncoder, "_open_fallback", lambda *_: pytest.fail("opens a text encoder"))
    _, readings = read_texts(policy, [(text, None)], None, as_typed=False)
    assert (readings[text].caption, readings[text].changed) == (caption, False)
    assert _encoded(text, policy).equal(plain)


def test_generate_leaves_no_reading_behind() -> None:
    policy = load_policy()
    text = "someone strolls backwards."
    plain = _encoded(text, policy)
    read, typed = (
        policy.generate(text, durations=[1.0], inference_timesteps=2, as_typed=as_typed)[0].positions()
        for as_typed in (False, True)
    )
    assert not read.equal(typed)
    assert _encoded(text, policy).equal(plain)


def test_python_reads_texts_as_the_command_does(caplog: pytest.LogCaptureFixture) -> None:
    policy = load_policy()
    text, other = "someone strolls backwards.", "a person walks backward."
    plain = _encoded(text, policy)
    assert not plain.equal(_encoded(other, policy))
    typed_prompts(policy, text, None)
    assert _encoded(text, policy).equal(_encoded(other, policy))
    typed_prompts(policy, text, None, as_typed=True)
    assert _encoded(text, policy).equal(plain)
    caplog.clear()
    with caplog.at_level(logging.WARNING, "motionkit"):
        typed_prompts(
            policy,
            [
                "a person walks | a cat sleeps",
                *(f"a man rides {one}" for one in ("a horse", "a car", "a boat", "a wall")),
            ],
            None,
        )
        policy.trained_on = None  # nothing is known of it, so that nothing is said
        typed_prompts(policy, "a cat sleeps", None)
    assert len(caplog.records) == 5, "one a text, none counted only"
    assert caplog.records[0].getMessage().startswith("'a cat sleeps' is not known")


def test_what_is_said() -> None:
    assert Reading("walks backwards", "a person walks backward.").document() == {"read_as": "a person walks backward"}
    assert Reading("a man walks", "a person walks.").document() == {}
    assert Reading("flies", strange=("flies",), nearest="a man jumps.", similarity=0.5).sentence == (
        "'flies' is not known, its motion will show something else: no caption has 'flies' "
        "(nearest: 'a man jumps', similarity 0.50 of 1)"
    )
