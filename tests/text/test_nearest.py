"""Texts that share most words, against a slow version."""

from __future__ import annotations

import math

import pytest

from motionkit.text import NearestTexts

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
