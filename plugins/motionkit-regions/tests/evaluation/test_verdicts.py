"""What is said of a comparison follows the one rule for verdicts: figures stand, few regions have no word."""

from __future__ import annotations

from typing import Any

import pytest

from motionkit_regions.evaluation.result import sampled_table, side_effects, verdict


def block(before: float, after: float, low: float, high: float, n: int) -> dict[str, Any]:
    return {"before": before, "after": after, "delta": after - before, "ci95": [low, high], "n": n}


def figures(n: int) -> dict[str, Any]:
    """Six steps of self-play: sampled captions seem to gain, the judge too, and more words are wrong."""
    return {
        "judge_iou_greedy": block(0.10, 0.13, 0.01, 0.05, n),
        "attributes_wrong_greedy": block(0.10, 0.14, 0.01, 0.07, n),
        "words_greedy": block(5.0, 7.0, 1.0, 3.0, n),
        "no_target": block(0.5, 0.4, -0.15, -0.05, n),
        "meteor": block(0.20, 0.225, 0.002, 0.052, n),
    }


def test_twelve_regions_are_too_few_for_a_word() -> None:
    few = figures(12)
    (row,) = sampled_table({"meteor": few["meteor"]}, None)["rows"]
    assert row == ("METEOR", "0.200", "0.225", "+0.025", "+0.002 to +0.052", "too few")
    assert verdict(few, compared=True).startswith(
        "12 regions are too few to say whether the judge draws its captions better: "
    )
    assert side_effects(few) == []


def test_twenty_regions_are_enough() -> None:
    many = figures(20)
    (row,) = sampled_table({"meteor": many["meteor"]}, None)["rows"]
    assert row[-1] == "better"
    assert verdict(many, compared=True).startswith(
        "the judge draws its captions better, but more of what they say is wrong and they are longer and more is drawn"
    )
    assert len(side_effects(many)) == 3


@pytest.mark.parametrize(("low", "high"), [(-0.01, 0.05), (0.0004, 0.05)])
def test_an_interval_that_contains_zero_as_it_is_printed_is_no_gain(low: float, high: float) -> None:
    found = figures(200) | {"judge_iou_greedy": block(0.10, 0.13, low, high, 200)}
    assert verdict(found, compared=True).startswith("the judge sees no clear gain, and more of what they say is wrong")
