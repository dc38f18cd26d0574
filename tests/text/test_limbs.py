"""Limbs that captions name by their side."""

from __future__ import annotations

import pytest

from motionkit.text import named_limbs


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
