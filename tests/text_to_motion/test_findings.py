"""What text to motion says of results: of the judge, the evaluator, guidance, noise, and motions that hardly move."""

from __future__ import annotations

import math
from typing import Any

from motionkit.tracking import Report, measured_apart

SAME = {"guidance": {"before": 2.5, "after": 2.5}}


def block(before: float, after: float, low: float, high: float, n: int = 64) -> dict[str, object]:
    return {"before": before, "after": after, "delta": after - before, "ci95": [low, high], "n": n}


def test_a_reward_that_does_not_prefer_reference_motions_and_a_policy_of_noise_come_first() -> None:
    """The figures of a policy that was trained for ten steps: it shakes, and a small TMR likes that."""
    rows: dict[str, Any] = {
        "reward": {**block(0.593, 0.578, -0.025, -0.004), "real": 0.569},
        "jerk": {**block(6107.0, 3806.0, -2400.0, -2200.0), "real": 91.0},
        "skate": {**block(3.78, 2.79, -1.1, -0.9), "real": 0.26},
        "movement": {**block(0.31, 0.326, 0.005, 0.027), "real": 1.0},
    }
    text = Report(rows).sentence
    assert text.startswith(
        "This policy makes noise: before training its motions have 67 times the jerk of reference clips (6,107 against "
        "91 m/s^3). Train it longer before it is tuned. This reward does not prefer reference motions: they score "
        "0.569, the policy's own before training 0.593. If it is a model, such as a TMR, train that longer. The reward "
        "fell from 0.593"
    )
    assert "hardly move" not in text
    assert "After training the motions are noise" in text
    table = {row.name: (row.verdict, row.tone) for row in Report(rows).changes}
    assert table == {
        "reward": ("worse", "bad"),
        "movement": ("noise", ""),
        "skate": ("noise", ""),
        "jerk": ("noise", ""),
    }
    assert len(Report(rows).table()["rows"]) == 4, "no row is hidden"
    mended = rows | {"jerk": {**block(6107.0, 120.0, -6200.0, -5700.0), "real": 91.0}}
    assert [row.verdict for row in Report(mended).changes if row.name in ("skate", "jerk")] == [
        "better",
        "closer to reference",
    ]


def test_a_reward_above_that_of_reference_clips_after_training_is_a_note() -> None:
    rows = {"reward": {**block(0.703, 0.859, 0.138, 0.174), "real": 0.838}}
    assert Report(rows).sentence == (
        "The reward rose from 0.703 to 0.859 (+0.156, 95 % interval +0.138 to +0.174). It is now above that of "
        "reference clips (0.838)."
    )


def test_a_change_of_guidance_is_a_sentence_of_its_own() -> None:
    good = {"reward": block(0.62, 0.7, 0.05, 0.11)}
    alone = {"before": 2.5, "after": 1.0, "reward": block(0.674, 0.62, -0.08, -0.02)}
    text = Report.of_run({"heldout": good, "heldout_generate": good, "guidance": alone}).sentence
    assert text == (
        "The reward rose from 0.620 to 0.700 (+0.080, 95 % interval +0.050 to +0.110) with the settings of motionkit "
        "generate. motionkit generate now takes guidance 1, before 2.5; that alone changes the reward of the policy "
        "before training from 0.674 to 0.620 (-0.054, 95 % interval -0.080 to -0.020)."
    )
    same = {"before": 2.5, "after": 2.5}
    assert "guidance" not in Report.of_run({"heldout": good, "guidance": same}).sentence


def test_a_run_of_an_older_version_has_no_headline_of_two_guidance_scales() -> None:
    good, mixed = {"reward": block(0.6, 0.7, 0.05, 0.15)}, {"reward": block(0.674, 0.624, -0.08, -0.02)}
    assert Report.of_run({"heldout": good, "heldout_generate": mixed}).sentence.startswith("The reward rose from 0.600")


def test_runs_that_were_measured_in_different_ways_say_so() -> None:
    samplers = [{"sampler": {"guidance_scale": scale, "inference_timesteps": 5}} for scale in (1.0, 2.5)]
    one, two, other = (Report({}, config=config) for config in (*samplers, {"run": {}}))
    assert measured_apart([one, two]) == "Measured with guidance 1.0 and 2.5: compare the changes, not the values."
    assert measured_apart([one, one, other]) == ""


def test_the_headline_names_the_judge_and_what_got_worse() -> None:
    good = {"reward": block(0.5, 0.6, 0.05, 0.15), "judge": block(0.5, 0.57, 0.03, 0.11)}
    assert "the judge, which is never trained on, agrees (+0.070)" in Report(good).sentence
    gamed = {**good, "judge": block(0.5, 0.45, -0.09, -0.01), "skate": block(0.2, 0.3, 0.05, 0.15)}
    text = Report(gamed).sentence
    assert "fell (-0.050)" in text
    assert text.endswith("Worse: skate +50 %.")
    assert "shows no clear change" in Report({"reward": block(0.5, 0.6, -0.1, 0.3)}).sentence


def test_a_judge_that_gains_little_does_not_agree() -> None:
    good = {"reward": block(0.5, 0.6, 0.05, 0.15), "judge": block(0.5, 0.57, 0.03, 0.11)}
    lags = {**good, "judge": block(0.5, 0.55, 0.01, 0.09)}
    text = Report(lags).sentence
    assert text.endswith("; the judge, which is never trained on, gained less than 0.6 of that (+0.050).")
    text = Report.of_run({"heldout": good, "heldout_generate": good, "heldout_all_steps": lags, **SAME}).sentence
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
    text = Report(rows).sentence
    assert text.startswith(
        "The reward and the judge became better and the evaluator's KID worse (8.90 to 18.30, +106 %): they disagree"
    )
    assert text.endswith("Worse: KID +106 %, NPSS +66 %."), "the worst row first"
    assert Report(rows).short == "reward +0.063 better, KID worse"
    table = Report(rows).table()
    assert [row[0] for row in table["rows"]][:4] == ["reward", "judge", "R@3, chance 0.09", "KID"]
    within = Report(rows | {"kid": measured(8.9, 10.0, 2.0)}).sentence
    assert within.startswith("The reward rose"), "less than its interval is no disagreement"
    gamed = Report({"reward": rows["reward"], "judge": measured(0.8, 0.7, 0.02)}).sentence
    assert gamed.startswith("The reward became better and the judge worse (0.800 to 0.700, -0.100): they disagree")
    calm = {"reward": rows["reward"], "judge": rows["judge"]}
    elsewhere = Report.of_run({"heldout": calm, "heldout_generate": rows, **SAME})
    assert "KID worse with the settings of motionkit generate (8.90" in elsewhere.sentence
    assert elsewhere.short.endswith("KID worse")


def test_the_headline_says_the_worst_verdict_of_all_tables() -> None:
    good = {"reward": block(0.5, 0.6, 0.05, 0.15), "judge": block(0.5, 0.57, 0.03, 0.11)}
    same = {"reward": block(0.5, 0.6, 0.05, 0.15), "judge": block(0.5, 0.51, -0.09, 0.11)}
    flat = {"reward": block(0.7, 0.71, -0.05, 0.07), "judge": block(0.5, 0.4, -0.15, -0.05)}
    worse = {**good, "movement": block(1.0, 0.8, -0.24, -0.16)}
    assert Report.of_run({"heldout": flat}).sentence == Report(flat).sentence
    text = Report.of_run({"heldout": good, "heldout_generate": good, "heldout_all_steps": good, **SAME}).sentence
    assert text.startswith(
        "The reward rose from 0.500 to 0.600 (+0.100, 95 % interval +0.050 to +0.150) with the settings"
    )
    assert text.endswith("generate; the judge, which is never trained on, agrees (+0.070).")  # the table shown first
    text = Report.of_run({"heldout": good, "heldout_generate": flat, **SAME}).sentence
    assert text.startswith("The reward shows no clear change: from 0.700 to 0.710")
    assert "with the settings of motionkit generate; the judge, which is never trained on, fell (-0.100)." in text
    assert Report.of_run({"heldout": good, "heldout_generate": flat, **SAME}).short == "reward +0.010 no change"
    assert Report.of_run({"heldout": good, "heldout_generate": good, **SAME}).short == "reward +0.100 better"
    assert Report({}).short == ""
    text = Report.of_run({"heldout": good, "heldout_all_steps": same}).sentence
    assert text.startswith("The reward rose from 0.500 to 0.600")
    assert text.endswith(
        "the judge, which is never trained on, shows no clear change (+0.010) with all sampling steps."
    )
    text = Report.of_run({"heldout": good, "heldout_generate": worse, **SAME}).sentence
    assert text.endswith(
        "with the settings of motionkit generate; the judge, which is never trained on, agrees (+0.070). Worse: "
        "movement -20 %."
    )
    text = Report.of_run({"heldout": worse, "heldout_generate": good, **SAME}).sentence
    assert text.endswith("Worse: movement -20 % with the sampling steps of training.")


def test_the_headline_says_that_motions_hardly_move_even_where_they_move_more() -> None:
    rows = {"reward": block(0.5, 0.6, 0.08, 0.12), "movement": block(0.2, 0.4, 0.15, 0.25)}
    still = rows | {"movement": block(0.2, 0.3, 0.05, 0.15)}
    text = Report.of_run({"heldout": rows, "heldout_generate": still, **SAME}).sentence
    assert text.endswith(
        " The motions hardly move: 0.300 of reference ones with the settings of motionkit generate."
    ), text
    assert Report(rows).sentence.endswith("0.400 of reference ones with the sampling steps of training.")
    moving = rows | {"movement": block(0.5, 0.7, 0.15, 0.25)}
    assert "hardly" not in Report(moving).sentence
    assert "hardly" not in Report(rows | {"movement": block(math.nan, math.nan, 0.0, 0.0, n=0)}).sentence


def test_what_a_doubted_evaluator_says_is_neither_good_nor_bad_news() -> None:
    doubted = {"doubt": "the evaluator finds the text of reference clips with R@3 0.25"}
    rows = {
        "reward": block(0.6, 0.7, 0.08, 0.12),
        "r_precision_3": block(0.3, 0.2, -0.15, -0.05),
        "kid": block(2.0, 1.0, -1.2, -0.8),
    }
    trusted = Report(rows).sentence
    assert trusted.startswith("The reward became better and the evaluator's R@3 worse"), trusted
    assert "Worse: R@3" in trusted
    report = Report({name: row | (doubted if name != "reward" else {}) for name, row in rows.items()})
    assert [(row.name, row.verdict, row.tone) for row in report.changes] == [
        ("reward", "better", "good"), ("r_precision_3", "n/a", ""), ("kid", "n/a", "")
    ]  # fmt: skip
    assert report.sentence == "The reward rose from 0.600 to 0.700 (+0.100, 95 % interval +0.080 to +0.120)."
    assert report.table()["rows"][1][-1] == "n/a"
    assert report.short == "reward +0.100 better"
