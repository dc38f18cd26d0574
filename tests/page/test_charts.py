"""Charts show the numbers, and their words stand where they can be read."""

from __future__ import annotations

import re
import xml.etree.ElementTree as ElementTree
from pathlib import Path

import pytest

from motionkit.page.charts import WIDTH, rose, ticks
from motionkit.page.curves import Curve, curves
from motionkit.page.histogram import histogram
from motionkit.page.html import drawing, html_page, is_made_by, table, tiles


def heights(chart: str) -> list[float]:
    return [float(bar.get("height") or 0) for bar in ElementTree.fromstring(chart) if bar.get("class") == "bar"]


def test_bars_of_a_histogram_are_as_high_as_their_counts() -> None:
    chart = histogram(0.0, 1.0, [1, 0, 4, 2], label="a", unit="s", of="clips", marks={"median": 2.0})
    low, high, middle = heights(chart)
    assert high == pytest.approx(4 * low, rel=0.01)
    assert middle == pytest.approx(2 * low, rel=0.01)
    parts = [part for part in ElementTree.fromstring(chart) if "mark" in (part.get("class") or "")]
    line = next(part for part in parts if part.get("x1") == part.get("x2"))
    bars = [part for part in ElementTree.fromstring(chart) if part.get("class") == "bar"]
    assert float(line.get("x1") or 0) == pytest.approx(float(bars[1].get("x") or 0), abs=1.0)  # 2.0: the third bin


def test_sectors_of_a_rose_have_areas_like_their_counts_and_left_is_left() -> None:
    chart = ElementTree.fromstring(rose([4, 0, 1, 0, 0, 0, 0, 0], label="a", of="frames"))
    paths = [part.get("d") or "" for part in chart if part.get("class") == "bar"]
    ahead, left = (float(re.search(r"A([\d.]+)", path)[1]) for path in paths)  # type: ignore[index]
    assert ahead == pytest.approx(2 * left, rel=0.01)
    tip = re.search(r"L([\d.]+) ([\d.]+)", paths[1])
    assert tip is not None
    assert float(tip[1]) < WIDTH / 2  # a quarter turn to the left is drawn on the left


@pytest.mark.parametrize(
    ("start", "stop", "expected"),
    [(0, 10, [0, 2, 4, 6, 8, 10]), (0, 0.3, [0, 0.05, 0.1, 0.15, 0.2, 0.25, 0.3]), (-1, 1, [-1, -0.5, 0, 0.5, 1])],
)
def test_ticks_are_round(start: float, stop: float, expected: list[float]) -> None:
    assert ticks(start, stop, 6) == pytest.approx(expected)


def test_names_above_a_chart_take_as_many_rows_as_they_need() -> None:
    names = ["physics_a_long_name", "awm_other_run", "a", "x" * 80]
    shown = [Curve(name, [(0.0, 0.0), (4.0, -0.00123)]) for name in names]
    one = ElementTree.fromstring(curves(shown[2:3], x_label="step", y_label="y", above=True))
    chart = ElementTree.fromstring(curves(shown, x_label="step", y_label="y", above=True))
    words = [part for part in chart if part.tag == "text" and "-0.00123" in (part.text or "")]
    words += [part for part in chart if (part.text or "").endswith("…")]
    ends: dict[str, float] = {}
    for part in words:
        row, start = part.get("y") or "", float(part.get("x") or 0)
        assert start >= ends.get(row, 0.0), "on the name before it"
        ends[row] = start + 6.6 * len(part.text or "")
        assert ends[row] <= WIDTH
    assert (len(words), len(ends)) == (4, 3)
    assert float((chart.get("viewBox") or "").split()[3]) - float((one.get("viewBox") or "").split()[3]) == 30


def test_one_high_bar_makes_heights_square_roots_and_the_axis_says_so() -> None:
    flat = histogram(0.0, 1.0, [100, 4, 4, 1], label="a", unit="s", of="frames", marks={})
    assert "square-root scale" in flat
    high, *_, low = heights(flat)
    assert high == pytest.approx(10 * low, rel=0.05)
    assert "square-root" not in histogram(0.0, 1.0, [15, 4, 4, 1], label="a", unit="s", of="frames", marks={})


def test_names_of_marks_stand_above_the_plot_and_not_on_each_other() -> None:
    chart = ElementTree.fromstring(
        histogram(0.0, 1.0, [4, 4, 4], label="a", unit="s", of="clips", marks={"median": 1.0, "mean": 1.01})
    )
    names = [part for part in chart if part.get("class") == "note"]
    tops = [float(part.get("y") or 0) for part in chart if part.get("class") == "bar"]
    assert all(float(part.get("y") or 0) < min(tops) for part in names)
    first, second = (float(part.get("x") or 0) for part in names)
    assert second - first > 6 * len("median 1.00")


def test_names_of_a_rose_are_drawn_over_its_sectors() -> None:
    parts = list(ElementTree.fromstring(rose([4, 1, 1, 1], label="a", of="frames")))
    last_sector = max(place for place, part in enumerate(parts) if part.get("class") == "bar")
    assert all(place > last_sector for place, part in enumerate(parts) if part.tag.endswith("text"))


def test_numbers_of_an_axis_stay_within_the_chart() -> None:
    chart = histogram(0.0, 1000.0, [4, 2], label="a", unit="°", of="clips", marks={})
    last = next(part for part in ElementTree.fromstring(chart) if part.text == "2000")
    assert (last.get("text-anchor"), float(last.get("x") or 0)) == ("end", WIDTH)


def test_a_page_is_known_by_the_command_that_made_it(tmp_path: Path) -> None:
    page = tmp_path / "a.html"
    page.write_text(html_page("<walks>", tiles([("clips", "3"), ("length", "2.0 s")]), made_by="report"))
    assert "<title>&lt;walks&gt;</title>" in page.read_text()
    assert "<dd>2.0 <small>s</small></dd>" in page.read_text()
    assert is_made_by(page, "report")
    assert not is_made_by(page, "profile")


def test_curves_end_where_their_values_are_and_names_do_not_overlap() -> None:
    shown = [Curve(name, [(0.0, 0.0), (10.0, 0.1 + 1e-4 * place)]) for place, name in enumerate("abc")]
    chart = ElementTree.fromstring(curves(shown, x_label="s", y_label="reward"))
    lines = [part for part in chart if part.tag == "polyline"]
    ends = [float((part.get("points") or "").split()[-1].split(",")[1]) for part in lines]
    assert max(ends) - min(ends) < 1  # the values are nearly equal
    names = sorted(float(part.get("y") or 0) for part in chart if part.tag == "text" and part.text in {"a", "b", "c"})
    assert names[1] - names[0] >= 11
    assert names[2] - names[1] >= 11
    zero = next(float(part.get("y1") or 0) for part in chart if part.get("class") == "base")
    start = float((lines[0].get("points") or "").split()[0].split(",")[1])
    assert start == pytest.approx(zero, abs=0.1)


def test_negative_values_lie_below_the_line_of_zero() -> None:
    shown = [Curve("control", [(0.0, 0.0), (5.0, -0.02)], dashed=True)]
    chart = ElementTree.fromstring(curves(shown, x_label="s", y_label="reward"))
    zero = next(float(part.get("y1") or 0) for part in chart if part.get("class") == "base")
    end = next(float(part.get("cy") or 0) for part in chart if part.tag == "circle")
    assert end > zero + 50


def test_a_drawing_is_a_whole_svg_file() -> None:
    chart = curves([Curve("one", [(1.0, 2.0)])], x_label="s", y_label="reward")
    file = ElementTree.fromstring(drawing(chart, width=640))
    assert file.tag == "{http://www.w3.org/2000/svg}svg"
    assert file.get("width") == "640"
    assert any(part.tag.endswith("style") for part in file)


def test_a_table_that_is_wider_than_its_card_scrolls_in_it() -> None:
    page = html_page("wide", table(("a", "b"), [("1", "2")]), made_by="report")
    assert '<div class="card"><table' in page
    assert ".card:has(>table){overflow-x:auto}" in page
