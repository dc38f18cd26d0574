"""The order of training prompts."""

from __future__ import annotations

from collections import Counter

import pytest

from motionkit.text import Prompt
from motionkit.text_to_motion.grpo.train import PromptCursor

PROMPTS = [Prompt((f"text {number}",), (40 + 7 * (number * 5 % 23),), key=f"p{number}") for number in range(100)]


@pytest.mark.parametrize("by_length", [False, True])
def test_an_epoch_meets_every_prompt_once(by_length: bool) -> None:
    cursor = PromptCursor(PROMPTS, 8, 0, by_length=by_length)
    met = Counter(prompt.key for step in range(25) for prompt in cursor.at(step))
    assert set(met.values()) == {2}


def test_steps_by_length_need_less_padding_and_come_in_no_order() -> None:
    def padding(cursor: PromptCursor) -> float:
        steps = [[prompt.length for prompt in cursor.at(step)] for step in range(12)]
        return sum(max(step) * len(step) - sum(step) for step in steps) / sum(sum(step) for step in steps)

    sorted_steps = PromptCursor(PROMPTS, 8, 0, by_length=True)
    assert padding(sorted_steps) < 0.5 * padding(PromptCursor(PROMPTS, 8, 0))
    longest = [max(prompt.length for prompt in sorted_steps.at(step)) for step in range(12)]
    assert longest != sorted(longest)
    assert [p.key for p in sorted_steps.at(3)] == [p.key for p in PromptCursor(PROMPTS, 8, 0, by_length=True).at(3)]
    assert [p.key for p in sorted_steps.at(3)] != [p.key for p in PromptCursor(PROMPTS, 8, 1, by_length=True).at(3)]
