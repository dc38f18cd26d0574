"""The page of a motion predictor: errors against the horizon, predictions over the truth, worst clips, its curves."""

from __future__ import annotations

import json
import re
import shutil
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from motionkit.motion import HUMANML
from motionkit.report.page import compare_page, run_page, write_report
from motionkit.runs import next_commands, open_run, peek
from motionkit.starter import generate
from motionkit_predictor.evaluation.kept import KeptClip, KeptPath, Predictions
from motionkit_predictor.evaluation.pages import error_curves, predictor_sections, worst_table
from tests.report.test_report import Markup, in_a_browser, parsed

EVIL = "clip<script>alert(1)</script>"
TIMES = ("100", "400", "1000")
ROWS = {
    "model": {"geo_deg": {"100": 2.0, "400": 5.0, "1000": 7.0}, "skill": {"100": 0.3, "400": 0.2, "1000": 0.1}},
    "hold": {"geo_deg": {"100": 3.0, "400": 6.0, "1000": 8.0}, "skill": {"100": 0.0, "400": 0.0, "1000": 0.0}},
    "velocity": {"geo_deg": {"100": 2.5, "400": 9.0, "1000": 12.5}, "skill": {"100": 0.2, "400": -0.5, "1000": -1.1}},
}
WORST = {
    "of": "model", "beside": "ridge",
    "clips": [
        {"clip": EVIL, "windows": 3, "geo_deg": {"100": 1.0, "1000": 20.04}, "beside": {"1000": 9.96}},
        {"clip": "second", "windows": 2, "geo_deg": {"100": 1.0, "1000": None}, "beside": {}},
    ],
}  # fmt: skip

LONG = {
    "seconds": ["2", "10", "30"],
    "free": {"real": {"movement": 1.0, "slide": 0.05}, "rows": {
        "model": {"movement": {"2": 0.9, "10": 0.4, "30": 0.1}, "slide": {"2": 0.1, "10": 0.4, "30": None}},
        "hold": {"movement": {"2": 0.0, "10": 0.0, "30": 0.0}, "slide": {"2": 0.0, "10": 0.0, "30": 0.0}},
    }},
    "drawn": {
        "mean": {"model": {"path_mean": {"2": 0.1, "10": 4.25, "30": 9.0}, "slide": {"2": 0.1, "10": 0.2}}},
        "paths": {
            EVIL: {"rows": {"model": {"path_mean": {"10": 4.254}}, "dragged": {"path_mean": {"10": 0.0}}}},
            "slalom": {"rows": {"model": {"path_mean": {"10": 1.5, "30": 7.0}}}},
        },
    },
    "labels": {
        EVIL: {"clips": 4, "goal": True, "movement": {"2": 0.75, "10": None}, "real": {"movement": 0.1234}},
        "": {"clips": 1, "goal": False, "movement": {"2": None, "10": 0.5}, "real": {"movement": None}},
    },
    "alarms": [f"the motion dies out {EVIL}"],
}  # fmt: skip


def predictions(count: int = 5, ranked: int = 100) -> Predictions:
    """Clips whose prediction is the truth, 10 cm to the side."""
    ranks = [1, 2, 3, ranked // 2 + 1, ranked][:count]
    clips = []
    for number, rank in enumerate(ranks):
        truth = generate("walk", frames=40).joints.astype(np.float32)
        after = truth + np.where(np.arange(40) < 20, 0.0, 0.1)[:, None, None].astype(np.float32)
        errors = dict(zip(TIMES, (1.0, 2.0, 30.0 - rank / 10), strict=True))
        feet = None if number == 1 else np.full((2, 40, 2), 0.75, np.float32)
        clips.append(KeptClip(f"{EVIL}{number}", rank, 0.5, errors, errors, truth, after, feet))
    names, parents = tuple(HUMANML.joint_names), tuple(HUMANML.parents)
    return Predictions(tuple(clips), "model", ranked, 20, 20.0, names, parents)


def make(out: Path, *, better: float = 0.0, epochs: int = 4) -> Path:
    with open_run("train-mpl", {"run": {"out": str(out), "epochs": epochs}, "seed": 3}, argv=["train-mpl"]) as run:
        predictions().keep(run)
        for step in range(1, 61):
            point = {"mpl/skill": better + step / 100, "mpl/geo_deg/100": 3.0 - better, "mpl/geo_deg/1000": 8.0}
            schedule = {"teacher/share": float(step <= 30), "freerun/horizon": 3.0 + step // 10, "freerun/weight": 1.0}
            run.log(
                step,
                {"loss/total": 1.0, "data/epoch": epochs * step / 60, **schedule, **(point if step % 20 == 0 else {})},
            )
        change = {"before": 0.0, "after": 0.2, "delta": 0.2, "n": 144}
        heldout = {"skill": change, "mpl/geo_deg/400": {**change, "before": 7.0, "after": 5.0, "delta": -2.0}}
        run.finish({"heldout": heldout, "rows": ROWS, "worst_clips": WORST, "verdict": "ridge wins at 100 ms."})
    lines = [json.loads(line) for line in (out / "metrics.jsonl").read_text().splitlines()]
    for line in lines:  # sums, not shares: the page divides
        line |= {"loss_group/core": 3.0, "loss_group/aux": 0.5, "loss_group/long": 1.5}
    (out / "metrics.jsonl").write_text("".join(json.dumps(line) + "\n" for line in lines))
    return out


def players(page: str) -> list[dict]:
    return [json.loads(text) for text in re.findall(r'<script type="application/json">(.*?)</script>', page)]


def ends(page: str, title: str) -> dict[str, float]:
    """The last value of each curve of a chart, from the line above it."""
    figure = page[page.index(f"<h3>{title}</h3>") :].split("</figure>")[0]
    return {name: float(value) for name, value in re.findall(r">([\w .-]+?) ([\d.]+)</text>", figure)}


def test_the_page_of_a_predictor_has_its_sections_in_order(tmp_path: Path) -> None:
    page = run_page(make(tmp_path / "run"))
    markup = parsed(page)
    words = markup.words
    heads = ("Result", "Error against horizon", "Predictions", "Worst clips", "Curves", "Alarms", "Settings", "Next")
    places = [words.index(head) for head in heads]
    assert places == sorted(places)
    assert "The skill rose from 0.000 to 0.200 (+0.200). Ridge wins at 100 ms." in words
    assert "GeoDeg at 400 ms (°)" in words
    assert "144 held-out clips" in words
    assert markup.seen["motionkit-player"] == 5
    assert "script" in markup.seen
    assert EVIL in words
    assert "is missing" not in words
    assert not re.search(r"(?:src|href)=|@import|url\(|https?://(?!www\.w3\.org/2000/svg)", page)


def test_the_worst_clips_come_first_and_the_prediction_has_its_mark(tmp_path: Path) -> None:
    page = run_page(make(tmp_path / "run"))
    words = parsed(page).words
    labels = (
        "Worst: 1.0° at 100 ms, 2.0° at 400 ms, 29.9° at 1000 ms",
        "Second worst",
        "Third worst",
        "Middle",
        "Best",
    )
    places = [words.index(label) for label in labels]
    assert places == sorted(places)
    shown = players(page)
    for one in shown:
        assert [track["title"] for track in one["tracks"]] == ["the clip itself", "prediction"]
        for track, after in zip(one["tracks"], ("what followed", "prediction"), strict=True):
            assert [(part["text"], part["start"], part["end"]) for part in track["segments"]] == [
                ("known", 0.0, 1.0), (after, 1.0, 2.0),
            ]  # fmt: skip
            assert track["contacts"], "measured, whatever the predictor says"
    assert page.count('<motionkit-player overlay time="2.000">') == 5


def test_charts_of_the_training(tmp_path: Path) -> None:
    page = run_page(make(tmp_path / "run"))
    assert ends(page, "Loss groups, % of the loss") == {"core": 60, "aux": 10, "long": 30}
    assert ends(page, "Schedule: share and weight") == {"teacher forcing": 0, "free-run weight": 1}
    assert ends(page, "Schedule: free run, frames") == {"horizon": 9}
    assert ends(page, "Skill while training") == {"skill": 0.6}
    assert ends(page, "GeoDeg by ms ahead, degrees") == {"100": 3.0, "1000": 8.0}
    assert "Aim: core 65, aux 5, long 30" in parsed(page).words


def test_baselines_far_off_are_named_and_not_drawn() -> None:
    page = error_curves(ROWS)
    assert "Beyond these charts: velocity (12.5°)" in page
    assert page.count('data-name="velocity"') == 0
    assert page.count(">model<") == page.count(">hold<") == 2
    bad = {**ROWS, "model": ROWS["velocity"]}
    assert ">model<" in error_curves(bad), "the model is drawn however bad it is"


@pytest.mark.parametrize(
    "rows", [None, [], {"model": 3}, {"model": {"geo_deg": []}}, {"model": {"geo_deg": {"x": 1, "100": "2"}}}]
)
def test_rows_that_are_nothing_give_nothing(rows: object) -> None:
    assert predictor_sections(rows, rows, None) == ""


def test_the_worst_clips_as_a_table() -> None:
    table = worst_table(WORST)
    markup = Markup()
    markup.feed(table)
    assert "ridge, 1000 ms" in markup.words
    assert "20.0" in markup.words
    assert "10.0" in markup.words
    assert "script" not in markup.seen
    assert re.search(r"second.*?>1\.0<.*?>-<.*?>-<", table)


def test_a_damaged_or_missing_file_of_predictions_is_a_sentence(tmp_path: Path) -> None:
    out = make(tmp_path / "run")
    (out / "heldout" / "predictions.npz").write_bytes(b"PK\x03\x04")
    markup = parsed(run_page(out))
    assert "heldout/predictions.npz is damaged, so its motions are not shown." in markup.words
    assert "motionkit-player" not in markup.seen
    assert "Error against horizon" in markup.words
    shutil.rmtree(out / "heldout")
    words = parsed(run_page(out)).words
    assert "heldout/predictions.npz is missing" in words
    assert "before.npz" not in words


def test_joints_that_cannot_be_drawn_are_a_sentence(tmp_path: Path) -> None:
    out = make(tmp_path / "run")
    one = predictions(1)
    torn = KeptClip(**{**vars(one.clips[0]), "predicted": np.full((40, 22, 3), np.nan, np.float32)})
    Predictions(**{**vars(one), "clips": (torn,)}).save(out / "heldout" / "predictions.npz")
    assert "The predictions that were kept cannot be drawn." in parsed(run_page(out)).words


def test_runs_along_paths_are_shown_with_their_paths_the_farthest_first() -> None:
    joints = generate("walk", frames=40).joints.astype(np.float32)
    path = np.stack([np.full(40, 0.25), np.linspace(0.0, 2.0, 40)], axis=-1).astype(np.float32)
    near = KeptPath("slalom", "b", 0.02, 0.01, joints, path, np.zeros((40, 2), np.float32))
    far = replace(near, title=f"stop {EVIL}", key="a", mean=0.6, end=0.7)
    torn = replace(near, title="torn", mean=0.1, predicted=np.full((40, 22, 3), np.nan, np.float32))
    page = predictor_sections(None, None, replace(predictions(), paths=(near, torn, far)))
    assert page.index("0.60 m off in the mean, 0.70 m at the end") < page.index("slalom: 0.02 m off")
    assert "<script>alert" not in page
    assert page.count("<motionkit-player><script") == 2
    assert page.count("customElements.define") == 1, "the player's code is there once"
    shown = [one["tracks"][0] for one in players(page)[:2]]
    assert [one["title"] for one in shown] == [f"stop {EVIL}", "slalom"]
    assert all(one["path"] for one in shown)
    assert not players(page)[2]["tracks"][0]["path"], "free runs have none"


def test_a_comparison_of_predictors_has_their_curves(tmp_path: Path) -> None:
    page = compare_page([make(tmp_path / "a"), make(tmp_path / "b", better=1.0)])
    words = parsed(page).words
    assert "GeoDeg by ms ahead, degrees: 100" in words
    assert "GeoDeg by ms ahead, degrees: 1000" in words
    assert ends(page, "GeoDeg by ms ahead, degrees: 100") == {"A": 3.0, "B": 2.0}
    assert ends(page, "Skill while training") == {"A": 0.6, "B": 1.6}
    assert "GeoDeg at 400 ms (°)" in words
    assert "Schedule" not in words


def test_what_to_type_after_it(tmp_path: Path) -> None:
    out = make(tmp_path / "run", epochs=7)
    assert next_commands(peek(out)) == [
        f"motionkit eval mpl {out}",
        f"motionkit predict {out} motion.html",
        f"motionkit train-mpl --config {out}/config.json --epochs 14",
        f"motionkit tune-bayes --base {out}/config.json",
        f"motionkit report {out}",
    ]
    (out / "metrics.jsonl").write_text('{"step": 60, "data/epoch": 0.4}\n')
    assert not any("--epochs" in line for line in next_commands(peek(out)))


@pytest.mark.slow
def test_players_begin_overlaid_at_their_end_in_a_browser(tmp_path: Path) -> None:
    script = """
      const all = [...document.querySelectorAll('motionkit-player[ready]')];
      found.ready = all.length;
      found.overlay = all.map((one) => one.state.overlay);
      found.time = all.map((one) => one.state.time);
      found.wide = document.documentElement.scrollWidth - innerWidth;"""
    found = in_a_browser(write_report(make(tmp_path / "run")), script)
    assert found == {"bad": [], "ready": 5, "overlay": [True] * 5, "time": [1.95] * 5, "wide": found["wide"]}
    assert found["wide"] <= 0


def test_long_runs_are_charts_what_is_wrong_and_a_row_for_each_path() -> None:
    page = predictor_sections(ROWS, WORST, None, LONG)
    for title in ("Long runs", "Movement", "Slide", "Off path", "Slide along paths"):
        assert title in page
    assert "the motion dies out clip&lt;script&gt;" in page
    assert "<script>alert" not in page
    cells = [
        re.sub(r"<[^>]+>", " ", row).split() for row in re.split("</?tr>", page) if "4.25" in row or "slalom" in row
    ]
    assert [row[-2:] for row in cells] == [["4.25", "0.00"], ["1.50", "-"]]
    assert "mean over 10 seconds" in page
    labels = [re.sub(r"<[^>]+>", " ", row) for row in re.split("</?tr>", page) if "to judge" in row or "0.123" in row]
    assert [row.split()[-3:] for row in labels] == [["0.75", "-", "0.123"], ["-", "0.50", "-"]]
    assert "without a caption" in labels[1]
    assert page.count(">reference<") == 2, "a dashed line in each chart of free runs"


@pytest.mark.parametrize(
    "long",
    [
        None, 3, [], {}, {"free": 1}, {"free": {"rows": {"model": 2}}, "drawn": {"mean": [], "paths": {"a": None}}},
        {**LONG, "drawn": {"mean": {"model": {"path_mean": {"x": "y"}}}, "paths": {"a": {"rows": {"b": 4}}}}},
        {**LONG, "alarms": "none"}, {**LONG, "labels": {"a": 3, "b": {"movement": {"2": 1.0}, "real": 4}}},
        {**LONG, "free": {**LONG["free"], "real": {"movement": "x"}}},
    ],
)  # fmt: skip
def test_a_file_may_hold_anything_as_long_runs(long: object) -> None:
    assert isinstance(predictor_sections(ROWS, WORST, None, long), str)
