"""What captions name, those words swapped, lengths, limbs and nearness of captions."""

from __future__ import annotations

import math

import pytest

from motionkit.starter import CATALOGUE
from motionkit.text import (
    CAPTION_CHANGES,
    KINDS,
    NearestTexts,
    is_english,
    kinds_of,
    mirror_text,
    named_limbs,
    names_side,
    reads_sides,
    tempo_of,
    usual_seconds,
)
from motionkit.text._named import events_of, swap_count, swap_direction, swap_order, swap_tempo


@pytest.mark.parametrize(
    ("text", "kinds"),
    [
        ("a person walks forward slowly.", {"tempo", "direction", "travel"}),
        ("a man waves with the left hand.", {"side"}),
        ("a person looks left and right.", set()),
        ("a person turns the head from side to side.", set()),
        ("someone jogs in place.", set()),
        ("someone is jogging without moving forward.", set()),
        ("a person swings both arms back and forth.", {"count"}),
        ("a person walks backwards.", {"direction", "travel"}),
        ("a person walks and then turns to the left.", {"side", "direction", "travel", "order"}),
        ("a woman jumps up and down.", set()),
        ("a person skips rope.", set()),
        ("a person skips forward.", {"direction", "travel"}),
        ("a person kneels on the floor.", set()),
        ("he turns clockwise.", {"side"}),
        ("a person waves before sitting down.", {"order"}),
        ("a person dances, turning the hips quickly.", {"tempo"}),
        ("一个人用左手挥手", {"side"}),
        ("eine Person geht langsam nach links.", set()),
        ("une personne marche vers la gauche.", set()),
    ],
)
def test_what_a_caption_names(text: str, kinds: set[str]) -> None:
    assert kinds_of(text) == kinds
    assert kinds <= set(KINDS)


@pytest.mark.parametrize(
    ("text", "tempo", "swapped"),
    [
        ("walks at a slow pace", "slow", "walks at a fast pace"),
        ("Quickly walks ahead", "fast", "Slowly walks ahead"),
        ("takes slow steps forward", "slow", "takes fast steps forward"),
        ("does slow high knees", "slow", "does fast high knees"),
        ("sprints as fast as possible", "fast", "strolls as slowly as possible"),
        ("walks, then slowly runs faster", "", "walks, then quickly runs slower"),
        ("waves", "", "waves"),
        ("geht langsam und schnell", "", "geht langsam und schnell"),
    ],
)
def test_tempo(text: str, tempo: str, swapped: str) -> None:
    assert tempo_of(text) == tempo
    assert swap_tempo(text) == swapped


@pytest.mark.parametrize(
    ("text", "swapped"),
    [
        ("walks forward", "walks backward"),
        ("Ahead he walks", "Backward he walks"),
        ("steps back continuously", "steps forward continuously"),
        ("stands up from a chair", "sits down from a chair"),
        ("jumps up and down", "jumps up and down"),
        ("swings the arms back and forth", "swings the arms back and forth"),
        ("scratches the back", "scratches the back"),
        ("walks in reverse", "walks forward"),
        ("walks straightforward", "walks straightforward"),
    ],
)
def test_direction(text: str, swapped: str) -> None:
    assert swap_direction(text) == swapped


@pytest.mark.parametrize(
    ("text", "swapped"),
    [
        ("jumps once", "jumps three times"),
        ("jumps three times", "jumps once"),
        ("claps a few times", "claps once"),
        ("waves with both hands", "waves with one hand"),
        ("is waving with the two hands", "is waving with one hand"),
        ("hops on both feet", "hops on one foot"),
        ("takes a single step forward", "takes three steps forward"),
        ("takes three big steps", "takes one big step"),
        ("throws two punches", "throws one punch"),
        ("balances on one leg", "balances on both legs"),
        ("stands on one leg, the left one", "stands on one leg, the left one"),
        ("lifts one knee after the other", "lifts one knee after the other"),
        ("waves at one of the men", "waves at one of the men"),
    ],
)
def test_count(text: str, swapped: str) -> None:
    assert swap_count(text) == swapped


@pytest.mark.parametrize(
    ("text", "events", "swapped"),
    [
        ("a person walks, then turns.", ("walks", "turns"), "a person turns, then walks."),
        ("walks and then turns and then waves", ("walks", "turns", "waves"), "waves, then turns, then walks"),
        ("A tall man sits down, and then gets up", ("sits down", "gets up"), "A tall man gets up, then sits down"),
        ("waves before sitting down", ("waves before sitting down",), "waves after sitting down"),
        ("turns around and walks", ("turns around and walks",), "turns around and walks"),
        ("stands before a mirror", ("stands before a mirror",), "stands before a mirror"),
    ],
)
def test_order(text: str, events: tuple[str, ...], swapped: str) -> None:
    assert events_of(text) == events
    assert swap_order(text) == swapped


def test_swapping_sides_of_what_is_true_of_both() -> None:
    assert not names_side("steps left or right")
    assert names_side("walks from left to right")
    assert mirror_text("steps left or right") == "steps right or left"


@pytest.mark.parametrize(
    "text",
    [
        "a person walks", "walks", "someone's u-turn, then a jump!", "the hands met",
        "dance - coupe dessous, grand jete en tourant", "dance - rond de jambe in the air, jete, turn",
        "dance - quasi-cou-de-pied, raised leg above hip-height, jete en tourant",
    ],
)  # fmt: skip
def test_english(text: str) -> None:
    assert is_english(text)


@pytest.mark.parametrize(
    "text",
    [
        "", "...", "一个人走路", "человек идёт", "el hombre camina", "ein Mann läuft", "en man går",
        "eine Person winkt mit der linken Hand", "une personne marche en avant", "la persona camina hacia adelante",
        "een man loopt naar voren", "un homme marche lentement puis tourne", "en man hoppar", "un hombre salta",
    ],
)  # fmt: skip
def test_not_english(text: str) -> None:
    assert not is_english(text)
    assert reads_sides(text) == (text == "一个人走路")
    assert all(change.make(text) == text for change in CAPTION_CHANGES.values())


def test_every_caption_of_the_starter_is_read() -> None:
    from motionkit.starter import CATALOGUE

    named: dict[str, set[str]] = {kind: set() for kind in KINDS}
    for entry in CATALOGUE:
        for text in entry.captions:
            assert is_english(text), text
            for kind in kinds_of(text):
                named[kind].add(entry.name)
            for change in CAPTION_CHANGES.values():
                swapped = change.make(text)
                assert (swapped != text) == change.applies(text) or change.name == "text-side"
                assert swapped.endswith(".")
    # What is left or right in the catalogue is told in every caption; besides, a few captions name both sides.
    sided = {entry.name for entry in CATALOGUE if entry.name.endswith(("left", "right"))}
    assert named["side"] - {"nod/no", "twist/trunk", "knee/alternate"} == sided
    assert {"walk/slow", "walk/fast", "run/sprint", "jog/forward"} <= named["tempo"]
    assert not {"jog/in-place", "walk/in-place", "march/in-place", "wave/left"} & named["travel"]


@pytest.mark.parametrize(
    ("text", "seconds"),
    [
        ("a person jumps up", 2.0),
        ("jumping high", 2.0),
        ("A man kicks with his left leg.", 2.0),
        ("someone is squatting", 2.5),
        ("a person picks something up", 3.0),
        ("a person stands up", 3.0),
        ("a person stands on one leg", None),
        ("a person puts the hands on the hips", None),
        ("a person walks and jumps", None),
        ("a person walks forward, then jumps", None),
        ("a person kicks three times", None),
        ("a person does jumping jacks", None),
        ("a person jumps repeatedly", None),
        ("a person waves", None),
        ("一个人跳", None),
        ("", None),
    ],
)
def test_what_is_done_once_has_a_length(text, seconds):
    assert usual_seconds(text) == seconds


def test_no_way_of_going_about_is_shortened():
    for entry in CATALOGUE:
        if entry.action in ("walk", "run", "jog", "march", "sneak", "skip", "dance", "wave", "balance"):
            assert usual_seconds(f"a person {entry.phrases[0]}") is None, entry.name
        if entry.action in ("kick", "bow", "throw"):
            assert 2.0 <= usual_seconds(f"a person {entry.phrases[0]}") <= 3.0, entry.name


@pytest.mark.parametrize(
    ("caption", "expected"),
    [
        ("A man waves with the left hand.", [("arm", "left")]),
        ("someone kicks with their RIGHT leg", [("leg", "right")]),
        ("does a high left kick", [("leg", "left")]),
        ("makes a right side kick", [("leg", "right")]),
        ("holds the left arm up and lifts the right knee", [("arm", "left"), ("leg", "right")]),
        ("waves the left hand, then the left arm", [("arm", "left")]),
        ("throws a left punch", [("arm", "left")]),
        ("挥左手", [("arm", "left")]),
        ("用右脚踢", [("leg", "right")]),
    ],
)
def test_a_named_limb_is_found(caption: str, expected: list[tuple[str, str]]) -> None:
    assert [tuple(one) for one in named_limbs(caption)] == expected


@pytest.mark.parametrize(
    "caption",
    [
        "hops on the left foot",
        "stands on their right leg",
        "turns left",
        "walks to the left, hand on the hip",
        "on the left hand side",
        "the left arm and then the right arm",
        "swings left and right arm",
        "claps both hands",
        "左右摇摆",
        "",
    ],
)
def test_what_names_no_limb_or_both_or_what_is_stood_on_is_not(caption: str) -> None:
    assert named_limbs(caption) == ()


TEXTS = ["a man walks", "a man waves", "he waves the left hand", "he waves the right hand", "一个人挥左手"]


def test_nearness_is_the_cosine_of_bags_weighed_by_rarity() -> None:
    bags = [text.split() for text in TEXTS[:4]]
    rare = {
        word: 1 + math.log(5 / (1 + sum(word in bag for bag in bags)))
        for word in {word for bag in bags for word in bag}
    }
    asked = ["a", "hand", "waves"]
    size = math.hypot(*(rare[word] for word in asked))
    expected = {
        place: sum(rare[word] ** 2 for word in asked if word in bag) / math.hypot(*(rare[word] for word in bag)) / size
        for place, bag in enumerate(bags)
    }
    found = NearestTexts(TEXTS[:4]).find("A hand, waves!", most=9)
    assert dict(found) == pytest.approx(expected)
    assert [place for place, _ in found] == sorted(expected, key=lambda place: -expected[place])


def test_sides_are_words_and_unknown_words_only_take_nearness_away() -> None:
    near = NearestTexts(TEXTS)
    assert near.find("she waves the right hand", most=1)[0][0] == 3
    assert near.find("挥左手", most=1)[0][0] == 4
    known, odd = (near.find(text, most=1)[0] for text in ("a man walks", "a man walks gingerly"))
    assert known == (0, pytest.approx(1.0))
    assert odd[0] == 0
    assert 0.5 < odd[1] < 0.95
    assert near.find("nothing alike", most=3) == []
    assert NearestTexts([]).find("a man", most=3) == []
