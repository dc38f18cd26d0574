"""The page: sound HTML, self-contained, charts that show the numbers."""

from __future__ import annotations

import re
import xml.etree.ElementTree as ElementTree
from dataclasses import replace
from html.parser import HTMLParser

import pytest

from motionkit.clips.profile.measure import ClipRow
from motionkit.clips.profile.page import profile_page
from motionkit.clips.profile.statistics import Profile, find_outliers, uncompared
from motionkit_predictor.tuning.advice import suggest

from .sets import joints_only, profile_clips, walk

NASTY = '<script>alert("x")</script>&\''
VOID = {"meta", "br", "wbr", "link", "img", "input", "hr"}


class Checker(HTMLParser):
    """Collects tags, and fails where one is closed that is not open."""

    def __init__(self) -> None:
        super().__init__()
        self.open: list[str] = []
        self.seen: list[str] = []
        self.addresses: list[str] = []
        self.words = ""

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.seen.append(tag)
        self.addresses += [value or "" for name, value in attrs if name in ("src", "href", "action", "data", "poster")]
        assert not any(name.startswith("on") for name, _ in attrs)
        if tag not in VOID:
            self.open.append(tag)

    def handle_startendtag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.seen.append(tag)

    def handle_endtag(self, tag: str) -> None:
        assert self.open.pop() == tag

    def handle_data(self, data: str) -> None:
        self.words += data


def read(page: str) -> Checker:
    checker = Checker()
    checker.feed(page)
    assert checker.open == []
    return checker


@pytest.fixture(scope="module")
def profile() -> Profile:
    clips = [
        (f"{NASTY}{number}", walk(60 + 10 * number, captions=(f"a person walks {NASTY}",), split="train"))
        for number in range(4)
    ]
    spoilt = joints_only(walk(90, 30.0))
    joints = spoilt.motion.positions().clone()
    joints[40:, :, 0] += 9.0
    spoilt = replace(spoilt, motion=replace(spoilt.motion, joints=joints), notes={"format": NASTY})
    return profile_clips([*clips, ("jumps", spoilt)], failed={NASTY: NASTY})


def test_the_page_is_whole_and_loads_nothing(profile: Profile) -> None:
    page = profile_page(profile, suggest(profile), title=NASTY)
    checker = read(page)
    assert checker.addresses == []
    assert "script" not in checker.seen
    assert not re.search(r"https?://|@import|url\(", page)
    assert page.startswith("<!doctype html>")
    assert 'lang="en"' in page


def test_the_page_says_what_matters(profile: Profile) -> None:
    words = read(profile_page(profile, suggest(profile), title="walks")).words
    for text in (
        "Profile of walks", "Suggested settings", "freerun_stage_schedule", "1 file could not be read", "jump",
        "1 clip has a fault", "different frame rates", "1 clip has no caption", "left_hip", "complexity",
    ):  # fmt: skip
        assert text in words, text


def test_every_chart_is_sound_svg_with_words_for_those_who_do_not_see(profile: Profile) -> None:
    page = profile_page(profile, title="walks")
    charts = re.findall(r"<svg.*?</svg>", page, re.DOTALL)
    assert len(charts) >= 7
    for chart in charts:
        root = ElementTree.fromstring(chart)
        assert root.get("role") == "img"
        assert len(root.get("aria-label") or "") > 10
        for element in root.iter():
            for name in ("x", "y", "width", "height", "x1", "x2", "y1", "y2"):
                if (value := element.get(name)) is not None:
                    assert abs(float(value)) < 2000


def rows(frames: list[int], fps: float = 20.0) -> list[ClipRow]:
    return [
        ClipRow(str(n), "", "", "", "", fps, length, length / fps, 1.0, 0.0, 0.5, 0.0, 1.0, 0, ())
        for n, length in enumerate(frames)
    ]


def test_outliers_are_grouped_by_figure_with_the_furthest_of_each() -> None:
    clips = [(f"slow{n:03}", walk(60, speed=0.5 + 0.001 * n)) for n in range(190)]
    profile = profile_clips([*clips, *((f"fast{n}", walk(60, speed=8.0 + n)) for n in range(9))])
    assert len([one for one in find_outliers(profile.rows) if one.figure == "speed"]) == 9
    words = read(profile_page(profile)).words
    assert "and 5 more clips" in words
    assert words.count("mean speed") <= 7


def test_a_page_about_nothing_is_a_page() -> None:
    read(profile_page(Profile()))


def test_few_clips_are_not_called_free_of_outliers() -> None:
    few = profile_clips([(str(n), walk(60 + n)) for n in range(7)])
    assert "Too few clips to compare: 7 clips, and 8 are needed" in read(profile_page(few)).words
    assert "No clip is far" not in read(profile_page(few)).words
    enough = profile_clips([(str(n), walk(60 + n)) for n in range(8)])
    assert "No clip is far" in read(profile_page(enough)).words
    assert uncompared(enough.rows) == ""
    footless = [replace(row, skate=None) for row in enough.rows]
    assert uncompared(footless) == "Not compared, since 8 clips are needed: foot skate (known of 0 clips)."
