"""Verdicts follow interval and direction; figures have the label, unit and digits of their definition."""

from __future__ import annotations

import math
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from motionkit.plugins._component import declare
from motionkit.tracking import (
    Metric,
    all_metrics,
    binned,
    definition,
    headline,
    label_of,
    measured_apart,
    other_results,
    result_sentence,
    result_table,
    results,
    short_result,
    smoothed,
    sparkline,
)

SAME = {"guidance": {"before": 2.5, "after": 2.5}}


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
    (row,) = results({name: block(1.0, 1.0 + middle, low, high)})
    assert (row.verdict, row.tone) == (verdict, tone)


@pytest.mark.parametrize("n", [2, 5, 19])
def test_fewer_than_twenty_items_have_figures_and_an_interval_but_no_verdict(n: int) -> None:
    (row,) = results({"reward": block(0.5, 0.9, 0.3, 0.5, n=n)})
    assert (row.interval, row.verdict, row.tone) == ("+0.300 to +0.500", "too few", "")
    assert result_table([row])["rows"] == [("reward", "0.500", "0.900", "+0.400", "+0.300 to +0.500", "too few")]
    assert headline([row]) == (
        f"The reward went from 0.500 to 0.900 (+0.400, 95 % interval +0.300 to +0.500), on {n} held out: too few to "
        "say whether it changed."
    )
    assert short_result([row]) == "reward +0.400 too few"
    (row,) = results({"reward": block(0.5, 0.9, 0.3, 0.5, n=20)})
    assert row.verdict == "better"
    (row,) = results({"reward": block(0.5, 0.9, 0.4, 0.4, n=1)})
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
    (row,) = results({name: block(before, after, low, high)})
    assert (row.verdict, row.tone) == ("no change", "")
    assert "Worse" not in headline([*results({"reward": block(0.5, 0.6, 0.05, 0.15)}), row])


@given(
    st.floats(-2.0, 2.0), st.floats(-0.3, 0.3), st.floats(0.0, 0.3), st.floats(0.0, 0.3), st.integers(0, 400),
    st.sampled_from(["reward", "npss", "diversity", "jerk", "skate", "speed", "mpl/geo_deg/400", "cycle_iou_greedy"]),
)  # fmt: skip
def test_a_word_needs_digits_that_show_it(
    before: float, delta: float, below: float, above: float, n: int, name: str
) -> None:
    """A row with a word of change has a printed change, a printed interval without 0, and 20 items or more."""
    (row,) = results({name: block(before, before + delta, delta - below, delta + above, n=n)})
    shown = row.text(row.delta, sign=True)
    if row.verdict in ("no change", "too few", "not measured"):
        assert row.tone == ""
        return
    low, high = map(float, row.interval.split(" to "))
    assert n >= 20
    assert float(shown) != 0
    assert not low <= 0 <= high


def test_a_reward_that_does_not_prefer_reference_motions_and_a_policy_of_noise_come_first() -> None:
    """The figures of a policy that was trained for ten steps: it shakes, and a small TMR likes that."""
    rows: dict[str, Any] = {
        "reward": {**block(0.593, 0.578, -0.025, -0.004), "real": 0.569},
        "jerk": {**block(6107.0, 3806.0, -2400.0, -2200.0), "real": 91.0},
        "skate": {**block(3.78, 2.79, -1.1, -0.9), "real": 0.26},
        "movement": {**block(0.31, 0.326, 0.005, 0.027), "real": 1.0},
    }
    text = headline(results(rows))
    assert text.startswith(
        "This policy makes noise: before training its motions have 67 times the jerk of reference clips (6,107 against "
        "91 m/s^3). Train it longer before it is tuned. This reward does not prefer reference motions: they score "
        "0.569, the policy's own before training 0.593. If it is a model, such as a TMR, train that longer. The reward "
        "fell from 0.593"
    )
    assert "hardly move" not in text
    assert "After training the motions are noise" in text
    table = {row.name: (row.verdict, row.tone) for row in results(rows)}
    assert table == {
        "reward": ("worse", "bad"),
        "movement": ("noise", ""),
        "skate": ("noise", ""),
        "jerk": ("noise", ""),
    }
    assert len(result_table(results(rows))["rows"]) == 4, "no row is hidden"
    mended = rows | {"jerk": {**block(6107.0, 120.0, -6200.0, -5700.0), "real": 91.0}}
    assert [row.verdict for row in results(mended) if row.name in ("skate", "jerk")] == [
        "better",
        "closer to reference",
    ]


def test_a_reward_above_that_of_reference_clips_after_training_is_a_note() -> None:
    rows = {"reward": {**block(0.703, 0.859, 0.138, 0.174), "real": 0.838}}
    assert headline(results(rows)) == (
        "The reward rose from 0.703 to 0.859 (+0.156, 95 % interval +0.138 to +0.174). It is now above that of "
        "reference clips (0.838)."
    )


def test_a_change_of_guidance_is_a_sentence_of_its_own() -> None:
    good = {"reward": block(0.62, 0.7, 0.05, 0.11)}
    alone = {"before": 2.5, "after": 1.0, "reward": block(0.674, 0.62, -0.08, -0.02)}
    text = result_sentence({"heldout": good, "heldout_generate": good, "guidance": alone})
    assert text == (
        "The reward rose from 0.620 to 0.700 (+0.080, 95 % interval +0.050 to +0.110) with the settings of motionkit "
        "generate. motionkit generate now takes guidance 1, before 2.5; that alone changes the reward of the policy "
        "before training from 0.674 to 0.620 (-0.054, 95 % interval -0.080 to -0.020)."
    )
    same = {"before": 2.5, "after": 2.5}
    assert "guidance" not in result_sentence({"heldout": good, "guidance": same})


def test_a_run_of_an_older_version_has_no_headline_of_two_guidance_scales() -> None:
    good, mixed = {"reward": block(0.6, 0.7, 0.05, 0.15)}, {"reward": block(0.674, 0.624, -0.08, -0.02)}
    assert result_sentence({"heldout": good, "heldout_generate": mixed}).startswith("The reward rose from 0.600")


def test_runs_that_were_measured_in_different_ways_say_so() -> None:
    one, two = ({"sampler": {"guidance_scale": scale, "inference_timesteps": 5}} for scale in (1.0, 2.5))
    assert measured_apart([one, two]) == "Measured with guidance 1.0 and 2.5: compare the changes, not the values."
    assert measured_apart([one, one, {"run": {}}]) == ""


def test_what_was_not_finite_is_said() -> None:
    (row,) = results({"reward": {**block(0.5, 0.9, 0.3, 0.5), "after": None}})
    assert row.verdict == "not measured"
    assert result_table([row])["rows"][0][2] == "-"
    assert results({"reward": 3, "judge": None}) == []
    assert results(None) == []


def test_the_headline_names_the_judge_and_what_got_worse() -> None:
    good = {"reward": block(0.5, 0.6, 0.05, 0.15), "judge": block(0.5, 0.57, 0.03, 0.11)}
    assert "the judge, which is never trained on, agrees (+0.070)" in headline(results(good))
    gamed = {**good, "judge": block(0.5, 0.45, -0.09, -0.01), "skate": block(0.2, 0.3, 0.05, 0.15)}
    text = headline(results(gamed))
    assert "fell (-0.050)" in text
    assert text.endswith("Worse: skate +50 %.")
    assert "shows no clear change" in headline(results({"reward": block(0.5, 0.6, -0.1, 0.3)}))


@pytest.mark.parametrize(
    ("before", "after", "verdict"),
    [(0.3, 0.5, "better"), (0.5, 0.3, "worse"), (0.8, 1.1, "better"), (0.8, 1.3, "worse"), (1.6, 1.2, "better")],
)
def test_movement_is_best_at_that_of_real_clips(before: float, after: float, verdict: str) -> None:
    ends = sorted((0.9 * (after - before), 1.1 * (after - before)))
    (row,) = results({"movement": block(before, after, *ends)})
    assert row.verdict == verdict
    assert row.label == "movement, share of reference"


def test_a_column_of_real_motions_is_there_where_one_is_known() -> None:
    known = {"jerk": {**block(366.07, 383.62, -11.9, 47.3), "real": 42.0}, "diversity": block(0.5, 0.6, 0.05, 0.15)}
    table = result_table(results(known))
    assert table["columns"] == ["", "before", "after", "reference", "change", "95 % interval", "verdict"]
    assert [row[3] for row in table["rows"]] == ["42.0", "-"]
    assert table["numbers"] == [1, 2, 3, 4, 5]
    assert "real" not in result_table(results({"jerk": {**known["jerk"], "real": None}}))["columns"]


def test_what_was_trained_on_says_so() -> None:
    block_ = block(0.3, 0.5, 0.1, 0.3)
    (row,) = results({"movement": {**block_, "trained_on": True}})
    assert row.label == "movement, share of reference, trained on"
    (row,) = results({"skate": {**block_, "trained_on": True}})
    assert row.label == "skate (m/s), trained on"
    assert results({"skate": {**block_, "trained_on": "no"}})[0].label == "skate (m/s)"


def test_a_judge_that_gains_little_does_not_agree() -> None:
    good = {"reward": block(0.5, 0.6, 0.05, 0.15), "judge": block(0.5, 0.57, 0.03, 0.11)}
    lags = {**good, "judge": block(0.5, 0.55, 0.01, 0.09)}
    text = headline(results(lags))
    assert text.endswith("; the judge, which is never trained on, gained less than 0.6 of that (+0.050).")
    text = headline(results(good), other_results({"heldout_generate": good, "heldout_all_steps": lags, **SAME}))
    assert text.endswith("gained less than 0.6 of that (+0.050) with all sampling steps.")


def measured(before: float, after: float, half: float, **more: float) -> dict[str, object]:
    delta = after - before
    return {"before": before, "after": after, "delta": delta, "ci95": [delta - half, delta + half], "n": 48, **more}


def test_a_disagreement_of_reward_judge_and_evaluator_comes_first() -> None:
    # What grpo did to 1,455 captured clips: reward, judge and movement rose, and the distribution was lost.
    rows = {
        "reward": measured(0.75, 0.813, 0.02),
        "judge": measured(0.802, 0.871, 0.02),
        "r_precision_3": measured(0.45, 0.44, 0.05, chance=0.09375),
        "kid": measured(8.9, 18.3, 2.0),
        "npss": measured(0.73, 1.21, 0.2),
        "movement": measured(0.8, 0.92, 0.05),
    }
    text = headline(results(rows))
    assert text.startswith(
        "The reward and the judge became better and the evaluator's KID worse (8.90 to 18.30, +106 %): they disagree"
    )
    assert text.endswith("Worse: KID +106 %, NPSS +66 %."), "the worst row first"
    assert short_result(results(rows)) == "reward +0.063 better, KID worse"
    table = result_table(results(rows))
    assert [row[0] for row in table["rows"]][:4] == ["reward", "judge", "R@3, chance 0.09", "KID"]
    within = headline(results(rows | {"kid": measured(8.9, 10.0, 2.0)}))
    assert within.startswith("The reward rose"), "less than its interval is no disagreement"
    gamed = headline(results({"reward": rows["reward"], "judge": measured(0.8, 0.7, 0.02)}))
    assert gamed.startswith("The reward became better and the judge worse (0.800 to 0.700, -0.100): they disagree")
    elsewhere = other_results({"heldout_generate": rows, **SAME})
    calm = results({"reward": rows["reward"], "judge": rows["judge"]})
    assert "KID worse with the settings of motionkit generate (8.90" in headline(calm, elsewhere)
    assert short_result(calm, elsewhere).endswith("KID worse")


def test_the_headline_says_the_worst_verdict_of_all_tables() -> None:
    good = {"reward": block(0.5, 0.6, 0.05, 0.15), "judge": block(0.5, 0.57, 0.03, 0.11)}
    same = {"reward": block(0.5, 0.6, 0.05, 0.15), "judge": block(0.5, 0.51, -0.09, 0.11)}
    flat = {"reward": block(0.7, 0.71, -0.05, 0.07), "judge": block(0.5, 0.4, -0.15, -0.05)}
    worse = {**good, "movement": block(1.0, 0.8, -0.24, -0.16)}
    assert headline(results(flat), other_results({"heldout": good})) == headline(results(flat))
    text = headline(results(good), other_results({"heldout_generate": good, "heldout_all_steps": good, **SAME}))
    assert text.startswith(
        "The reward rose from 0.500 to 0.600 (+0.100, 95 % interval +0.050 to +0.150) with the settings"
    )
    assert text.endswith("generate; the judge, which is never trained on, agrees (+0.070).")  # the table shown first
    text = headline(results(good), other_results({"heldout_generate": flat, **SAME}))
    assert text.startswith("The reward shows no clear change: from 0.700 to 0.710")
    assert "with the settings of motionkit generate; the judge, which is never trained on, fell (-0.100)." in text
    assert short_result(results(good), other_results({"heldout_generate": flat, **SAME})) == "reward +0.010 no change"
    assert short_result(results(good), other_results({"heldout_generate": good, **SAME})) == "reward +0.100 better"
    assert short_result([]) == ""
    text = headline(results(good), other_results({"heldout_all_steps": same}))
    assert text.startswith("The reward rose from 0.500 to 0.600")
    assert text.endswith(
        "the judge, which is never trained on, shows no clear change (+0.010) with all sampling steps."
    )
    text = headline(results(good), other_results({"heldout_generate": worse, **SAME}))
    assert text.endswith(
        "with the settings of motionkit generate; the judge, which is never trained on, agrees (+0.070). Worse: "
        "movement -20 %."
    )
    text = headline(results(worse), other_results({"heldout_generate": good, **SAME}))
    assert text.endswith("Worse: movement -20 % with the sampling steps of training.")


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


def test_the_headline_says_that_motions_hardly_move_even_where_they_move_more() -> None:
    rows = {"reward": block(0.5, 0.6, 0.08, 0.12), "movement": block(0.2, 0.4, 0.15, 0.25)}
    still = rows | {"movement": block(0.2, 0.3, 0.05, 0.15)}
    text = headline(results(rows), other_results({"heldout_generate": still, **SAME}))
    assert text.endswith(
        " The motions hardly move: 0.300 of reference ones with the settings of motionkit generate."
    ), text
    assert headline(results(rows)).endswith("0.400 of reference ones with the sampling steps of training.")
    moving = rows | {"movement": block(0.5, 0.7, 0.15, 0.25)}
    assert "hardly" not in headline(results(moving))
    assert "hardly" not in headline(results(rows | {"movement": block(math.nan, math.nan, 0.0, 0.0, n=0)}))


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
    (row,) = results({"jerk": {**block(before, after, *ends), **known}})
    assert (row.verdict, row.tone) == (verdict, tone)


def test_what_a_doubted_evaluator_says_is_neither_good_nor_bad_news() -> None:
    doubted = {"doubt": "the evaluator finds the text of reference clips with R@3 0.25"}
    rows = {
        "reward": block(0.6, 0.7, 0.08, 0.12),
        "r_precision_3": block(0.3, 0.2, -0.15, -0.05),
        "kid": block(2.0, 1.0, -1.2, -0.8),
    }
    trusted = headline(results(rows))
    assert trusted.startswith("The reward became better and the evaluator's R@3 worse"), trusted
    assert "Worse: R@3" in trusted
    found = results({name: row | (doubted if name != "reward" else {}) for name, row in rows.items()})
    assert [(row.name, row.verdict, row.tone) for row in found] == [
        ("reward", "better", "good"), ("r_precision_3", "n/a", ""), ("kid", "n/a", "")
    ]  # fmt: skip
    assert headline(found) == "The reward rose from 0.600 to 0.700 (+0.100, 95 % interval +0.080 to +0.120)."
    assert result_table(found)["rows"][1][-1] == "n/a"
    assert short_result(found) == "reward +0.100 better"


def test_figures_of_captions_have_the_data_beside_them_and_names_for_people() -> None:
    block = {"before": 0.0112, "after": 0.045, "delta": 0.0338, "ci95": [0.02, 0.05], "n": 200}
    words = {"before": 5.0, "after": 6.0, "delta": 1.0, "ci95": [0.8, 1.2], "n": 200, "data": 5.2}
    flat = {"before": 0.75, "after": 0.76, "delta": 0.01, "ci95": [-0.01, 0.03], "n": 200}
    found = results({"cycle_iou_greedy": flat, "attributes_wrong_greedy": block | {"data": 0.0}, "words_greedy": words})
    table = result_table(found)
    assert table["columns"] == ["", "before", "after", "reference", "change", "95 % interval", "verdict"]
    assert [row[0] for row in table["rows"]] == ["cycle IoU", "attributes named wrongly", "words of a caption"]
    assert [row[3] for row in table["rows"]] == ["-", "0.000", "5.200"]
    assert [row[-1] for row in table["rows"]] == ["no change", "worse", "longer"]
    assert headline(found).startswith("The cycle IoU shows no clear change")
    assert headline(found).endswith("Worse: attributes named wrongly +302 %.")
    # A run of before tells what it measured: captions that were sampled.
    assert results({"cycle_iou": flat})[0].label == "cycle IoU, sampled"


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
    (row,) = result_table(results({"drill/error": block}))["rows"]
    assert row[:3] == ("aim (°)", "0.0123", "0.0012")
    assert label_of("drill/error") == "aim"
