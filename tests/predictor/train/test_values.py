"""Teacher forcing, ramps and stages at every point of a training."""

from __future__ import annotations

import math

import pytest
from pydantic import ValidationError

from motionkit.predictor.schedule import values_at
from motionkit.predictor.train_settings import TrainMplSettings


def settings(**changes: object) -> TrainMplSettings:
    return TrainMplSettings.model_validate({"run": {"epochs": 20}, **changes})


def shares(mode: str, points: list[float], **changes: object) -> list[float]:
    teacher = {"mode": mode, "start_epoch": 3, "end_epoch": 11, "max": 0.9, "min": 0.1, **changes}
    return [values_at(settings(teacher=teacher), done).teacher for done in points]


def test_linear_by_epoch_stands_still_within_one() -> None:
    """Epoch 3 begins after two: the last with the full share; epoch 11, after ten, is the first with the lowest."""
    assert shares("epoch_linear", [0, 2, 2.9, 6, 6.5, 10, 19]) == pytest.approx([0.9, 0.9, 0.9, 0.5, 0.5, 0.1, 0.1])


def test_linear_by_step() -> None:
    assert shares("step_linear", [2, 6, 6.5, 10]) == pytest.approx([0.9, 0.5, 0.45, 0.1])


def test_constant_stays() -> None:
    assert shares("constant", [0, 10, 19]) == [0.9, 0.9, 0.9]


def test_inverse_sigmoid_is_steep_in_the_middle_and_reaches_both_ends() -> None:
    found = shares("inverse_sigmoid", [2, 4, 6, 8, 10])
    assert found[0] == pytest.approx(0.9)
    assert found[2] == pytest.approx(0.5)
    assert found[4] == pytest.approx(0.1)
    top = 1 / (1 + math.exp(-6))
    quarter = (top - 1 / (1 + math.exp(-3))) / (2 * top - 1)
    assert found[1] == pytest.approx(0.9 - 0.8 * quarter)


def test_the_default_end_is_two_thirds_of_the_way() -> None:
    assert values_at(settings(), 11).teacher > 0
    assert values_at(settings(), 12).teacher == 0.0


def test_horizon_and_weight_rise_over_the_ramp() -> None:
    free = {"horizon": 15, "first_horizon": 1, "weight": 2.0, "first_weight": 0.5, "ramp_epochs": 10}
    found = [values_at(settings(freerun=free), done) for done in (0, 5, 10, 19)]
    assert [one.freerun_horizon for one in found] == [1, 8, 15, 15]
    assert [one.freerun_weight for one in found] == pytest.approx([1.0, 1.5, 2.0, 2.0])


STAGES = [
    {
        "range": [1, 5], "label": "one",
        "trainer": {"freerun_weight": 0.0, "freerun_horizon": 8, "w_latent_consistency": 0.03, "lr": 5e-4},
        "loss_groups": {"core": {"w_fk_pos": 0.07, "w_rot_local": 0.5}, "aux": {"w_limb_geo": 0.0}},
    },
    {"range": [6, 20], "label": "two", "trainer": {"freerun_weight": 0.3, "freerun_horizon": 14, "tf_max": 0.5}},
]  # fmt: skip


def test_a_stage_sets_its_own_values_and_no_others() -> None:
    made = settings(stages=STAGES)
    first, second = values_at(made, 4.9), values_at(made, 5)
    assert (first.freerun_weight, first.freerun_horizon, first.rate) == (0.0, 8, 0.5)
    assert (first.weights["fk_pos"], first.weights["rot_local"], first.weights["latent_consistency"]) == (
        0.07,
        0.5,
        0.03,
    )
    assert (second.freerun_weight, second.freerun_horizon, second.rate) == (0.3, 14, 1.0)
    assert (second.weights["fk_pos"], second.weights["rot_local"]) == (made.loss.fk_pos, made.loss.rot_local)
    assert second.teacher <= 0.5 < first.teacher


@pytest.mark.parametrize(
    ("change", "said"),
    [
        ({"range": [7, 20]}, "two begins with epoch 7 and leaves epochs out; epoch 6 is next"),
        ({"range": [4, 20]}, "overlaps the stage before"),
        ({"range": [6, 19]}, "the stages end with epoch 19, the training with epoch 20"),
        ({"range": [9, 6]}, "not a range of epochs"),
        ({"trainer": {"freerun_wieght": 1}}, "trainer has no freerun_wieght"),
        ({"loss_groups": {"core": {"w_fk_poss": 1}}}, "near names: w_fk_pos"),
    ],
)
def test_stages_that_do_not_fit_are_refused(change: dict[str, object], said: str) -> None:
    with pytest.raises(ValidationError, match=said):
        settings(stages=[STAGES[0], STAGES[1] | change])
