from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from motionkit.errors import MotionkitError
from motionkit.text import Prompt
from motionkit.text_to_motion.data.joined import MIN_SEGMENT, fit_lengths, join_prompts


@pytest.mark.parametrize(
    ("lengths", "limit", "expected"),
    [
        ((40, 50), 196, (40, 50)),
        ((196, 196), 196, (96, 96)),
        ((40, 196), 196, (40, 156)),
        ((40, 120, 196), 196, (40, 76, 76)),
        ((60, 60, 60, 60, 60), 196, (36, 36, 36, 36, 36)),
    ],
)
def test_the_longest_are_cut(lengths, limit, expected):
    assert fit_lengths(lengths, limit) == expected


@settings(max_examples=200, deadline=None)
@given(st.lists(st.integers(9, 49).map(lambda n: 4 * n), min_size=1, max_size=5))
def test_lengths_fit_and_none_is_cut_in_vain(lengths):
    made = fit_lengths(lengths, 196)
    assert sum(made) <= 196
    assert all(MIN_SEGMENT <= new <= old for new, old in zip(made, lengths, strict=True))
    cut = {new for new, old in zip(made, lengths, strict=True) if new < old}
    assert len(cut) <= 1, "all that are cut have one length"
    if cut:
        cap = cut.pop()
        assert sum(min(old, cap + 4) for old in lengths) > 196, "a longer common length would not fit"


def test_short_sources_take_no_part():
    singles = [Prompt((f"t{n}",), (24 if n == 0 else 40,), f"k{n}", (f"c{n}",)) for n in range(4)]
    joined = join_prompts(singles, 3, seed=0, max_length=196)
    assert [prompt.source_ids[0] for prompt in joined] == ["c1", "c2", "c3"]
    assert all(set(prompt.source_ids) == {"c1", "c2", "c3"} for prompt in joined)


def test_every_caption_begins_one_prompt():
    singles = [Prompt((f"t{n}",), (40 + 4 * (n % 20),), f"k{n}", (f"c{n // 2}",)) for n in range(60)]
    joined = join_prompts(singles, 2, seed=3, max_length=196)
    assert [prompt.segments[0] for prompt in joined] == [f"t{n}" for n in range(60)]
    seconds = {prompt.segments[1] for prompt in joined}
    assert len(seconds) > 25, "the rest is drawn widely"
    with pytest.raises(MotionkitError, match="do not fit"):
        join_prompts(singles, 3, seed=0, max_length=100)
