"""Every metric is defined once, and the names of the contract are all there."""

from __future__ import annotations

import pytest

from motionkit.tracking import METRICS, definition

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
