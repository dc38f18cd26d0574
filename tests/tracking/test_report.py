"""Verdicts follow interval and direction; figures have the label, unit and digits of their definition."""

from __future__ import annotations

import math
import sys
from types import ModuleType
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from motionkit.config import Group
from motionkit.plugins import Component
from motionkit.plugins._component import declare
from motionkit.tracking import (
    Findings,
    Metric,
    Remarks,
    Report,
    Way,
    all_metrics,
    binned,
    definition,
    label_of,
    measured_apart,
    smoothed,
    sparkline,
)


def block(before: float, after: float, low: float, high: float, n: int = 64) -> dict[str, object]:
    return {"before": before, "after": after, "delta": after - before, "ci95": [low, high], "n": n}


@pytest.mark.parametrize(
    ("name", "low", "high", "verdict", "tone"),
    [
        ("reward", 0.1, 0.2, "better", "good"),
        ("reward", -0.2, -0.1, "worse", "bad"),
        ("reward", -0.1, 0.2, "no change", ""),
        ("skate", 0.1, 0.2, "worse", "bad"),
        ("skate", -0.2, -0.1, "better", "good"),
        ("jerk", 0.1, 0.2, "rougher", ""),
        ("jerk", -0.2, -0.1, "smoother", ""),
        ("speed", -0.2, -0.1, "slower", ""),
        ("path", 0.1, 0.2, "longer", ""),
        ("diversity", -0.2, -0.1, "worse", "bad"),
        ("statues", 0.1, 0.2, "worse", "bad"),
        ("side", 0.1, 0.2, "better", "good"),
        ("of_a_plugin", 0.1, 0.2, "higher", ""),
    ],
)
def test_a_verdict_follows_interval_and_direction(name: str, low: float, high: float, verdict: str, tone: str) -> None:
    middle = (low + high) / 2
    (row,) = Report({name: block(1.0, 1.0 + middle, low, high)}).changes
    assert (row.verdict, row.tone) == (verdict, tone)


@pytest.mark.parametrize("n", [2, 5, 19])
def test_fewer_than_twenty_items_have_figures_and_an_interval_but_no_verdict(n: int) -> None:
    report = Report({"reward": block(0.5, 0.9, 0.3, 0.5, n=n)})
    (row,) = report.changes
    assert (row.interval, row.verdict, row.tone) == ("+0.300 to +0.500", "too few", "")
    assert report.table()["rows"] == [("reward", "0.500", "0.900", "+0.400", "+0.300 to +0.500", "too few")]
    assert report.sentence == (
        f"The reward went from 0.500 to 0.900 (+0.400, 95 % interval +0.300 to +0.500), on {n} held out: too few to "
        "say whether it changed."
    )
    assert report.short == "reward +0.400 too few"
    (row,) = Report({"reward": block(0.5, 0.9, 0.3, 0.5, n=20)}).changes
    assert row.verdict == "better"
    (row,) = Report({"reward": block(0.5, 0.9, 0.4, 0.4, n=1)}).changes
    assert row.interval == "", "one item drawn again is always the same"


@pytest.mark.parametrize(
    ("name", "before", "after", "low", "high"),
    [
        ("npss", 0.4, 0.40004, 0.00001, 0.00009),  # +0.000 (+0.000 to +0.000)
        ("diversity", 0.3, 0.2992, -0.0012, -0.0004),  # -0.001 (-0.001 to -0.000): as printed it holds 0
        ("path", 1.5, 1.4949, -0.008, -0.002),  # a third of a percent: a sentence would say -0 %
        ("reward", 0.6, 0.6004, 0.0003, 0.0005),
        ("jerk", 3821.0, 3821.3, 0.01, 0.04),
    ],
)
def test_no_word_is_said_of_what_is_below_the_digits_shown(
    name: str, before: float, after: float, low: float, high: float
) -> None:
    (row,) = Report({name: block(before, after, low, high)}).changes
    assert (row.verdict, row.tone) == ("no change", "")
    rows = {"reward": block(0.5, 0.6, 0.05, 0.15), name: block(before, after, low, high)}
    assert "Worse" not in Report(rows).sentence


@given(
    st.floats(-2.0, 2.0), st.floats(-0.3, 0.3), st.floats(0.0, 0.3), st.floats(0.0, 0.3), st.integers(0, 400),
    st.sampled_from(["reward", "npss", "diversity", "jerk", "skate", "speed", "mpl/geo_deg/400", "cycle_iou_greedy"]),
)  # fmt: skip
def test_a_word_needs_digits_that_show_it(
    before: float, delta: float, below: float, above: float, n: int, name: str
) -> None:
    """A row with a word of change has a printed change, a printed interval without 0, and 20 items or more."""
    (row,) = Report({name: block(before, before + delta, delta - below, delta + above, n=n)}).changes
    shown = row.text(row.delta, sign=True)
    if row.verdict in ("no change", "too few", "not measured"):
        assert row.tone == ""
        return
    low, high = map(float, row.interval.split(" to "))
    assert n >= 20
    assert float(shown) != 0
    assert not low <= 0 <= high


def test_what_was_not_finite_is_said() -> None:
    report = Report({"reward": {**block(0.5, 0.9, 0.3, 0.5), "after": None}})
    assert report.changes[0].verdict == "not measured"
    assert report.table()["rows"][0][2] == "-"
    assert Report({"reward": 3, "judge": None}).changes == []
    assert Report(None).changes == []


@pytest.mark.parametrize(
    ("before", "after", "verdict"),
    [(0.3, 0.5, "better"), (0.5, 0.3, "worse"), (0.8, 1.1, "better"), (0.8, 1.3, "worse"), (1.6, 1.2, "better")],
)
def test_movement_is_best_at_that_of_real_clips(before: float, after: float, verdict: str) -> None:
    ends = sorted((0.9 * (after - before), 1.1 * (after - before)))
    (row,) = Report({"movement": block(before, after, *ends)}).changes
    assert row.verdict == verdict
    assert row.label == "movement, share of reference"


def test_a_column_of_real_motions_is_there_where_one_is_known() -> None:
    known = {"jerk": {**block(366.07, 383.62, -11.9, 47.3), "real": 42.0}, "diversity": block(0.5, 0.6, 0.05, 0.15)}
    table = Report(known).table()
    assert table["columns"] == ["", "before", "after", "reference", "change", "95 % interval", "verdict"]
    assert [row[3] for row in table["rows"]] == ["42.0", "-"]
    assert table["numbers"] == [1, 2, 3, 4, 5]
    assert "real" not in Report({"jerk": {**known["jerk"], "real": None}}).table()["columns"]


def test_what_was_trained_on_says_so() -> None:
    block_ = block(0.3, 0.5, 0.1, 0.3)
    (row,) = Report({"movement": {**block_, "trained_on": True}}).changes
    assert row.label == "movement, share of reference, trained on"
    (row,) = Report({"skate": {**block_, "trained_on": True}}).changes
    assert row.label == "skate (m/s), trained on"
    assert Report({"skate": {**block_, "trained_on": "no"}}).changes[0].label == "skate (m/s)"


def test_averages() -> None:
    points = [(float(step), float(step % 7)) for step in range(1, 101)]
    assert binned(points, 200) == points
    few = binned(points, 10)
    assert [step for step, _ in few] == [10.0 * place for place in range(1, 11)]
    assert few[3][1] == pytest.approx(sum(value for _, value in points[30:40]) / 10)
    slow = [sum(v for _, v in points[max(0, i - 2) : i + 3]) / len(points[max(0, i - 2) : i + 3]) for i in range(100)]
    assert [value for _, value in smoothed(points, 5)] == pytest.approx(slow)
    assert binned([], 5) == []
    assert sparkline([1.0, 1.0]) == "▁▁"
    assert sparkline([3.0, 2.0, 1.0])[0] == "█"
    assert math.isclose(smoothed(points, 1)[4][1], points[4][1])


@pytest.mark.parametrize(
    ("before", "after", "real", "verdict", "tone"),
    [
        (77.0, 90.0, 60.0, "further from reference", "bad"),
        (99.0, 91.0, 58.0, "closer to reference", "good"),
        (40.0, 50.0, 60.0, "closer to reference", "good"),
        (60.0, 20.0, 60.0, "further from reference", "bad"),
        (40.0, 100.0, 60.0, "further from reference", "bad"),  # past it, and further off by ratio
        (77.0, 90.0, None, "rougher", ""),
    ],
)
def test_jerk_is_judged_by_that_of_real_clips(
    before: float, after: float, real: float | None, verdict: str, tone: str
) -> None:
    ends = sorted((0.9 * (after - before), 1.1 * (after - before)))
    known = {} if real is None else {"real": real}
    (row,) = Report({"jerk": {**block(before, after, *ends), **known}}).changes
    assert (row.verdict, row.tone) == (verdict, tone)


def test_figures_of_captions_have_the_data_beside_them_and_names_for_people() -> None:
    block = {"before": 0.0112, "after": 0.045, "delta": 0.0338, "ci95": [0.02, 0.05], "n": 200}
    words = {"before": 5.0, "after": 6.0, "delta": 1.0, "ci95": [0.8, 1.2], "n": 200, "data": 5.2}
    flat = {"before": 0.75, "after": 0.76, "delta": 0.01, "ci95": [-0.01, 0.03], "n": 200}
    report = Report({"cycle_iou_greedy": flat, "attributes_wrong_greedy": block | {"data": 0.0}, "words_greedy": words})
    table = report.table()
    assert table["columns"] == ["", "before", "after", "reference", "change", "95 % interval", "verdict"]
    assert [row[0] for row in table["rows"]] == ["cycle IoU", "attributes named wrongly", "words of a caption"]
    assert [row[3] for row in table["rows"]] == ["-", "0.000", "5.200"]
    assert [row[-1] for row in table["rows"]] == ["no change", "worse", "longer"]
    assert report.sentence.startswith("The cycle IoU shows no clear change")
    assert report.sentence.endswith("Worse: attributes named wrongly +302 %.")
    # A run of before tells what it measured: captions that were sampled.
    assert Report({"cycle_iou": flat}).changes[0].label == "cycle IoU, sampled"


EVERY_STEP = [
    *("loss/total", "loss/policy", "loss/kl", "reward/mean", "reward/std", "reward/min", "reward/max"),
    *("advantage/mean", "advantage/std", "logp/current_per_dim", "logp/reference_per_dim", "ratio/mean"),
    *("ratio/clip_fraction", "kl/nats_per_dim", "grad/norm", "optim/learning_rate", "group/zero_variance"),
    "reward/<name>/mean",
]


@pytest.mark.parametrize("name", EVERY_STEP)
def test_the_metrics_of_every_step_are_defined(name: str) -> None:
    metric = all_metrics()[name]
    assert metric.unit
    assert metric.meaning.endswith(".")


@pytest.mark.parametrize(
    ("name", "expected"),
    [
        ("reward/tmr-dense/mean", "reward/<name>/mean"),
        ("reward/tmr-dense/positive", "reward/<name>/<part>"),
        ("heldout/reward/mean", "heldout/reward/mean"),
        ("heldout/reward/physics", "heldout/reward/<name>"),
        ("loss/recons", "loss/recons"),
        ("retrieval/t2m/r3_32_short", "retrieval/t2m/r3_32_short"),
        ("retrieval/t2m/r1_chance", "retrieval/<direction>/<name>"),
    ],
)
def test_the_most_special_definition_is_found(name: str, expected: str) -> None:
    assert definition(name).name == expected


@pytest.mark.parametrize("name", ["reward", "rewards/mean", "reward/a/b/c", "Loss/total", "loss/total "])
def test_an_undefined_name_is_an_error(name: str) -> None:
    with pytest.raises(KeyError, match="is not defined"):
        definition(name)


def test_directions_and_meanings() -> None:
    assert {metric.better for metric in all_metrics().values()} == {"up", "down", "one", "none"}
    assert all_metrics()["physics/skate"].unit == "m/s"
    assert len({metric.meaning for metric in all_metrics().values()}) == len(all_metrics())


@pytest.mark.parametrize(
    ("name", "heading", "value"),
    [
        ("mpl/mpjpe_mm", "MPJPE mm", "12.3"),
        ("mpl/yaw_abs_deg", "yaw °", "12.3"),
        ("mpl/contact_f1", "contact F1", "12.345"),
        ("mpl/long/heading/<s>", "heading °", "12"),
        ("physics/jerk", "jerk m/s³", "12.345"),
        ("eval/r_precision_3", "R@3", "12.345"),
        ("classifier/recall", "recall", "12.3450"),
        ("val/loss", "held-out loss", "12.345"),
    ],
)
def test_a_definition_has_label_unit_and_digits(name: str, heading: str, value: str) -> None:
    assert all_metrics()[name].heading == heading
    assert all_metrics()[name].text(12.345) == value
    assert all_metrics()[name].text(float("nan")) == "n/a"


@pytest.mark.parametrize(
    ("name", "title"),
    [
        ("mpl/geo_deg/400", "GeoDeg at 400 ms"),
        ("regions/precision_90", "precision at 0.9"),
        ("regions/colour_left_out_greedy", "colour left out"),
        ("retrieval/m2t/r3_32", "R@3 of 32"),
        ("heldout/reward/tmr-dense", "tmr-dense"),
    ],
)
def test_free_parts_of_a_label_come_from_the_name(name: str, title: str) -> None:
    assert definition(name).title(name) == title


@pytest.mark.parametrize("wrong", [{"label": 3}, {"digits": -1}, {"digits": 2.5}, {"digits": 10}])
def test_a_wrong_label_is_a_fault(wrong: dict[str, Any]) -> None:
    assert "label is a text" in Metric("my/x", "1", "up", "What.", **wrong).fault


def test_a_label_of_a_plugin_is_in_the_tables_of_runs(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("motionkit.plugins._component._declared", {})
    declare([Metric("drill/error", "deg", "down", "Angle to the target.", label="aim", digits=4)])
    block = {"before": 0.0123456, "after": 0.0012345, "delta": -0.0111111, "ci95": [-0.02, -0.01], "n": 9}
    (row,) = Report({"drill/error": block}).table()["rows"]
    assert row[:3] == ("aim (°)", "0.0123", "0.0012")
    assert label_of("drill/error") == "aim"


def stranger(report: Report) -> Remarks:
    if not any(row.name == "drill/hits" for row in report.changes):
        return Remarks()
    return Remarks("Look here. ", ", says the drill", " Then.", " At last.", ", drilled", {"drill": "A machine."})


DRILLED = Findings(
    {"heldout_wet": Way("under water", doubt=lambda summary: "The pump was off." if "dry" in summary else "")},
    order=("drill/depth",),
    told=("drill/hits",),
    remarks=stranger,
    noise=lambda rows: "It shook." if any(row.name == "drill/shakes" for row in rows) else "",
    apart=lambda configs: "Other drills." if len({config.get("drill") for config in configs}) > 1 else "",
)


def test_a_stranger_says_what_it_finds(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("motionkit.plugins._component._declared", {})
    declare([Metric("drill/hits", "1", "up", "Holes that were hit."), Metric("drill/depth", "m", "up", "How deep.")])
    module = ModuleType("drill_findings")
    vars(module)["FINDINGS"] = DRILLED
    monkeypatch.setitem(sys.modules, "drill_findings", module)
    trainer = Component(summary="Drills.", options=Group, factory="a:b", findings="drill_findings:FINDINGS")
    rows = {"drill/hits": block(0.5, 0.4, -0.15, -0.05), "drill/depth": block(2.0, 1.0, -1.2, -0.8)}
    summary = {"heldout": rows, "heldout_wet": {"drill/depth": block(2.0, 3.0, 0.8, 1.2)}}
    report = Report.of_run(summary, {"drill": 1}, trainer)
    assert [row.name for row in report.changes] == ["drill/depth", "drill/hits"], "in its order"
    assert report.sentence == (
        "Look here. The drill/depth fell from 2.000 to 1.000 m (-1.000, 95 % interval -1.200 to -0.800), says the "
        "drill. Then. At last."
    ), "what it tells itself is not listed as worse"
    assert report.short == "drill/depth -1.000 worse, drilled"
    assert list(report.shown) == ["", "under water"]
    assert report.tables()[-1]["title"] == "Held out, before and after, under water (64)"
    assert report.meanings["drill"] == "A machine."
    other = Report.of_run({**summary, "dry": True}, {"drill": 2}, trainer)
    assert list(other.shown) == [""], "a table in doubt is not read"
    assert measured_apart([report, other]) == "Other drills."
    shaken = Report({**rows, "drill/shakes": block(0.5, 0.6, 0.05, 0.15)}, trainer=trainer)
    assert {row.noise for row in shaken.changes} == {"It shook."}
    assert Report(rows).sentence.startswith("The drill/hits fell"), "of others it is not asked"
