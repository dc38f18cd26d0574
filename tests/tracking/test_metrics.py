"""Every metric is defined once, and the names of the contract are all there."""

from __future__ import annotations

from typing import Any

import pytest

from motionkit.plugins._component import declare
from motionkit.tracking import METRICS, Metric, definition, label_of, result_table, results

EVERY_STEP = [
    *("loss/total", "loss/policy", "loss/kl", "reward/mean", "reward/std", "reward/min", "reward/max"),
    *("advantage/mean", "advantage/std", "logp/current_per_dim", "logp/reference_per_dim", "ratio/mean"),
    *("ratio/clip_fraction", "kl/nats_per_dim", "grad/norm", "optim/learning_rate", "group/zero_variance"),
    "reward/<name>/mean",
]


@pytest.mark.parametrize("name", EVERY_STEP)
def test_the_metrics_of_every_step_are_defined(name: str) -> None:
    metric = METRICS[name]
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
    assert {metric.better for metric in METRICS.values()} == {"up", "down", "one", "none"}
    assert METRICS["physics/skate"].unit == "m/s"
    assert len({metric.meaning for metric in METRICS.values()}) == len(METRICS)


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
    assert METRICS[name].heading == heading
    assert METRICS[name].text(12.345) == value
    assert METRICS[name].text(float("nan")) == "n/a"


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
    (row,) = result_table(results({"drill/error": block}))["rows"]
    assert row[:3] == ("aim (°)", "0.0123", "0.0012")
    assert label_of("drill/error") == "aim"
