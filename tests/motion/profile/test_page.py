"""The page: sound HTML, self-contained, charts that show the numbers."""

from __future__ import annotations

import re
import xml.etree.ElementTree as ElementTree
from dataclasses import replace
from html.parser import HTMLParser

import pytest
import torch

from motionkit.motion.profile import Profile, _svg, profile_clips, profile_page, suggest

from .sets import joints_only, walk

NASTY = '<script>alert("x")</script>&\''
VOID = {"meta", "br", "link", "img", "input", "hr"}


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
        "Profile of walks", "Suggested settings", "freerun_stage_schedule", "1 file(s) could not be read", "jump",
        "1 clip(s) have a fault", "different frame rates", "1 clip(s) have no caption", "left_hip", "complexity",
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


def test_a_page_about_nothing_is_a_page() -> None:
    read(profile_page(Profile()))


def heights(chart: str) -> list[float]:
    return [float(bar.get("height") or 0) for bar in ElementTree.fromstring(chart) if bar.get("class") == "bar"]


def test_bars_of_a_histogram_are_as_high_as_their_counts() -> None:
    chart = _svg.histogram(0.0, 1.0, [1, 0, 4, 2], label="a", unit="s", of="clips", marks={"median": 2.0})
    low, high, middle = heights(chart)
    assert high == pytest.approx(4 * low, rel=0.01)
    assert middle == pytest.approx(2 * low, rel=0.01)
    line = next(part for part in ElementTree.fromstring(chart) if "mark" in (part.get("class") or ""))
    bars = [part for part in ElementTree.fromstring(chart) if part.get("class") == "bar"]
    assert float(line.get("x1") or 0) == pytest.approx(float(bars[1].get("x") or 0), abs=1.0)  # 2.0: the third bin


def test_sectors_of_a_rose_have_areas_like_their_counts_and_left_is_left() -> None:
    chart = ElementTree.fromstring(_svg.rose([4, 0, 1, 0, 0, 0, 0, 0], label="a", of="frames"))
    paths = [part.get("d") or "" for part in chart if part.get("class") == "bar"]
    ahead, left = (float(re.search(r"A([\d.]+)", path)[1]) for path in paths)  # type: ignore[index]
    assert ahead == pytest.approx(2 * left, rel=0.01)
    tip = re.search(r"L([\d.]+) ([\d.]+)", paths[1])
    assert tip is not None
    assert float(tip[1]) < 125  # a quarter turn to the left is drawn on the left


def test_the_rose_of_a_profile_joins_the_halves_straight_back() -> None:
    from motionkit.motion.profile._measure import YAW_BINS
    from motionkit.motion.profile._page import _round

    degrees = torch.tensor([0.0, 3.0, 90.0, 179.0, -179.0, -90.0, -90.0])
    counts = _round(YAW_BINS.tally(torch.deg2rad(degrees)).tolist())
    assert len(counts) == 24
    assert (counts[0], counts[6], counts[12], counts[18]) == (2, 1, 2, 2)
    assert sum(counts) == 7


@pytest.mark.parametrize(
    ("start", "stop", "expected"),
    [(0, 10, [0, 2, 4, 6, 8, 10]), (0, 0.3, [0, 0.05, 0.1, 0.15, 0.2, 0.25, 0.3]), (-1, 1, [-1, -0.5, 0, 0.5, 1])],
)
def test_ticks_are_round(start: float, stop: float, expected: list[float]) -> None:
    assert _svg.ticks(start, stop, 6) == pytest.approx(expected)
