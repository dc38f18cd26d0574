"""Composite sets: which clips and windows make a sample, and how they are drawn."""

from __future__ import annotations

import math
import random
from collections import Counter
from dataclasses import replace
from itertools import combinations
from typing import Any, ClassVar

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from motionkit.contracts.dataset import TextClip
from motionkit.errors import MotionkitError
from motionkit.motion import HUMANML
from motionkit.text import Prompt
from motionkit.text_to_motion.data.clip_sets import FittingSets, extremes
from motionkit.text_to_motion.data.compose import Plan, draw_captions, draw_samples, none_fits
from motionkit.text_to_motion.data.joined import (
    MIN_SEGMENT,
    Source,
    fit_lengths,
    join_prompts,
    read_sources,
    shared_groups,
    shared_motions,
)


def clips_of(*lengths: int, groups: str = "") -> list[Source]:
    """Sources of given lengths, each a group of its own or with the letters of `groups`."""
    names = groups or "".join(chr(ord("a") + i) for i in range(len(lengths)))
    return [
        Source(TextClip(f"{i}", torch.zeros(frames, 1), (f"action {i}",)), f"{i}", 0, names[i])
        for i, frames in enumerate(lengths)
    ]


def every_set(sources: list[Source], k: int, *, low: int, high: int, crop: bool = False) -> list[tuple[int, ...]]:
    """All sets that `FittingSets` numbers, each sorted."""
    sets = FittingSets(sources, k, low=low, high=high, crop=crop)
    return [tuple(sorted(sets.nth(number))) for number in range(sets.count)]


def fitting(sources: list[Source], k: int, *, low: int, high: int, crop: bool = False) -> set[tuple[int, ...]]:
    """The same by trying all combinations."""
    found = set()
    for some in combinations(range(len(sources)), k):
        lengths = [sources[place].frames for place in some]
        least = sum(min(length, 36) if crop else length for length in lengths)
        if len({sources[place].group for place in some}) == k and least <= high and low <= sum(lengths):
            found.add(some)
    return found


@pytest.mark.parametrize("crop", [False, True])
@pytest.mark.parametrize(("k", "low", "high"), [(2, 90, 110), (3, 110, 125), (4, 170, 196), (5, 1, 190)])
@pytest.mark.parametrize("groups", ["", "aabbccdefghhh", "abcabcabcdefg"])
def test_every_set_that_fits_has_one_number(k: int, low: int, high: int, crop: bool, groups: str) -> None:
    sources = clips_of(24, 24, 30, 40, 40, 40, 44, 47, 52, 60, 61, 75, 140, groups=groups)
    found = every_set(sources, k, low=low, high=high, crop=crop)
    assert len(found) == len(set(found))
    assert set(found) == fitting(sources, k, low=low, high=high, crop=crop)


def test_samples_are_drawn_evenly_and_without_replacement() -> None:
    sources = clips_of(40, 41, 42, 60, 61, 62, 63)
    first: Counter[tuple[str, ...]] = Counter()
    for seed in range(2000):
        drawing = draw_samples(sources, Plan("train", 2, 104, 4, max_samples=2, seed=seed))
        keys = [tuple(sorted(part.file for part in drawn.parts)) for drawn in drawing.samples]
        assert len(set(keys)) == 2
        first[keys[0]] += 1
    assert len(first) == 11  # 3 x 4 pairs of a short and a long one, without 42 + 63
    expected = 2000 / 11
    # The 99.9 % point of chi squared with 10 degrees of freedom.
    assert sum((count - expected) ** 2 / expected for count in first.values()) < 29.6


def test_rare_sets_among_thousands_are_found_all() -> None:
    # One clip that makes a set possible; with it taken twice, which is not a set, nearly everything would fit.
    sources = [*clips_of(*[100] * 5, 24), *rest(3000, 150)]
    drawing = draw_samples(sources, Plan("train", 6, 524, 20, crop=False))
    assert drawing.exhausted
    assert [sorted(part.frames for part in drawn.parts) for drawn in drawing.samples] == [[24, *[100] * 5]]
    sets = FittingSets(rest(23000, 150), 6, low=1, high=900, crop=False)
    assert sets.count == math.comb(23000, 6)
    assert len(set(sets.nth(sets.count - 1))) == 6


def rest(count: int, frames: int) -> list[Source]:
    """Many clips of one length."""
    return [
        Source(TextClip(f"r{i}", torch.zeros(frames, 1), (f"rest {i}",)), f"r{i}", 0, f"r{i}") for i in range(count)
    ]


@pytest.mark.parametrize(
    ("k", "high", "tolerance"), [(2, 196, 20), (4, 196, 20), (5, 196, 20), (5, 196, 0), (6, 240, 5)]
)
def test_windows_fit(k: int, high: int, tolerance: int) -> None:
    sources = clips_of(20, *range(36, 199, 9))
    drawing = draw_samples(sources, Plan("train", k, high, tolerance, max_samples=300, crop=True))
    cut = 0
    for drawn in drawing.samples:
        assert high - tolerance <= sum(end - start for start, end in drawn.windows) <= high
        for part, (start, end) in zip(drawn.parts, drawn.windows, strict=True):
            assert start >= 0
            assert end <= part.frames
            assert end - start >= min(36, part.frames)
            cut += end - start < part.frames
    assert cut > 100


def test_windows_differ_in_length() -> None:
    # Four of 100 frames each in 196: totals and parts are spread over what is allowed.
    drawing = draw_samples(rest(200, 100), Plan("train", 4, 196, 20, max_samples=400))
    frames = [[end - start for start, end in drawn.windows] for drawn in drawing.samples]
    totals = Counter(sum(row) for row in frames)
    assert set(totals) == set(range(176, 197))
    assert max(totals.values()) < 50
    spread = Counter(length for row in frames for length in row)
    assert set(spread) >= set(range(36, 70))


def test_extremes_are_those_of_different_groups() -> None:
    sources = clips_of(40, 41, 90, 100, 30, groups="aabbc")
    assert extremes(sources, 3, crop=False) == (40 + 90 + 30, 41 + 100 + 30)
    assert extremes(sources, 3, crop=True) == (36 + 36 + 30, 41 + 100 + 30)
    assert extremes(sources, 4, crop=False) is None


def test_a_gap_names_the_next_target_that_fits() -> None:
    sources = clips_of(20, 20, 100, 100, 103)
    for crop, further in ((False, 120), (True, 56)):
        plan = Plan("train", 2, 50, 5, crop=crop)
        assert not draw_samples(sources, plan).samples
        error = none_fits(sources, plan, "toy")
        assert error.fix.startswith(f"--target-length {further} is the next that fits 2 segments; or a larger")
        assert draw_samples(sources, replace(plan, target_length=further)).samples
        assert not draw_samples(sources, replace(plan, target_length=further - 1)).samples


def test_captions_of_a_sample_differ_where_they_can() -> None:
    def part(name: str, *captions: str) -> Source:
        return Source(TextClip(name, torch.zeros(50, 1), captions), name, 0, name)

    one, two, three = part("1", "walk", "run", "jump"), part("2", "Walk.", "run"), part("3", "walk")
    for seed in range(20):
        texts, different = draw_captions([one, two, three], random.Random(seed))
        assert (texts, different) == (("jump", "run", "walk"), True)
    assert draw_captions([three, part("4", "WALK. ")], random.Random(0))[1] is False
    # Clips that cannot be told apart come last, and are counted.
    sources = [part(str(i), "walk" if i < 4 else f"action {i}") for i in range(6)]
    drawing = draw_samples(sources, Plan("train", 2, 100, 0, max_samples=9))
    assert (len(drawing.samples), drawing.repeats) == (9, 0)
    drawing = draw_samples(sources, Plan("train", 2, 100, 0, max_samples=11))
    assert (len(drawing.samples), drawing.repeats) == (11, 2)
    assert [len(set(drawn.texts)) for drawn in drawing.samples] == [2] * 9 + [1] * 2


def test_a_mirror_image_belongs_to_its_motion() -> None:
    def clip(name: str) -> TextClip:
        return TextClip(name, torch.zeros(50, 263), ("a man walks.",))

    class Toy:
        name, skeleton, fps = "toy", HUMANML, 20.0
        lists: ClassVar[dict[str, list[str]]] = {"train": ["001", "M001", "M002"], "val": ["M001", "003"], "test": []}

        def clips(self, split: str) -> list[TextClip]:
            return [clip(name) for name in self.lists[split]]

        def split_ids(self, split: str) -> list[str]:
            if not self.lists[split]:
                raise MotionkitError("no such split")
            return self.lists[split]

    toy: Any = Toy()
    sources = read_sources(toy, "train")
    assert [source.group for source in sources] == ["001", "001", "M002"]
    assert shared_groups(toy, "train", sources) == {"val": ["001"]}
    assert shared_motions(["001", "M002", "Mary"], ["M001", "002", "ary2"]) == ["001", "002"]


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
