"""How long an action takes, by the words of its text."""

from __future__ import annotations

import pytest

from motionkit.starter import CATALOGUE
from motionkit.text import usual_seconds


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
