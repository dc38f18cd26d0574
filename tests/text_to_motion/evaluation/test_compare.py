"""Policies on the same prompts with the same noise."""

from __future__ import annotations

import csv
import io
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import torch

from motionkit import load_dataset, load_policy, load_reward
from motionkit.contracts.open_model import open_model
from motionkit.metrics import kinetic_fid, match_hits, r_precision
from motionkit.metrics.paired import Paired
from motionkit.text_to_motion.evaluation.protocol.compare import Comparison, _set_differences, compare_policies
from motionkit.text_to_motion.evaluation.protocol.measure import Amount, Embedded, sampling_of
from motionkit.text_to_motion.evaluation.protocol.run import open_all
from motionkit.text_to_motion.evaluation.protocol.tables import PUBLISHED, comparable, formatted
from motionkit.text_to_motion.evaluation.styles import Styles
from motionkit.text_to_motion.rewards.mix import RewardMix
from tests.made import starter_evaluator
from tests.made.starter_evaluator import named


@pytest.fixture(scope="module")
def compared(tmp_path_factory):
    dataset = load_dataset("starter", clips=288, val_clips=48, test_clips=48, max_frames=64)
    place = starter_evaluator.write(tmp_path_factory.mktemp("evaluator"), dataset)
    policies = {name: load_policy("starter") for name in ("base", "same", "shaken")}
    with torch.no_grad():
        for parameter in policies["shaken"].network.parameters():
            parameter += 0.05 * torch.randn(parameter.shape, generator=torch.Generator().manual_seed(0))
    opened = open_all(dataset, "val", policies, label="starter", evaluator=named(place))
    how = sampling_of(open_model("starter"), policies["base"], starter=True, kind="ddim", steps=3)
    judge = RewardMix([(load_reward("tmr-dense", weights="starter:judge"), 1.0)])
    measurement = opened.measurement(Amount(1, 70), seed=0, batch=32, rewards=judge)
    return compare_policies({name: (policy, how) for name, policy in policies.items()}, measurement)


def test_a_policy_does_not_differ_from_itself(compared: Comparison) -> None:
    for quantity, pairs in compared.differences.items():
        assert pairs["same"].delta == 0
        assert pairs["same"].ci95 == (0, 0)
        assert compared.verdict(quantity, "same") == ("no difference" if pairs["same"].n >= 20 else "too few")
    assert compared.differences["mm_dist"]["same"].n == 64, "whole batches of 32"
    assert compared.differences["jerk"]["same"].n == 70


def test_a_damaged_policy_trembles(compared: Comparison) -> None:
    assert compared.means["jerk"]["shaken"] > 5 * compared.truth["jerk"]
    assert compared.verdict("jerk", "shaken") == "further from reference"
    assert compared.verdict("fid", "shaken") == "worse"
    low, high = compared.differences["fid"]["shaken"].ci95
    assert low < compared.differences["fid"]["shaken"].delta < high
    for quantity, pairs in compared.differences.items():
        pair = pairs["shaken"]
        assert pair.delta == pytest.approx(pair.after - pair.before, abs=1e-5), quantity
        assert compared.means[quantity]["shaken"] == pytest.approx(pair.after, rel=1e-4), quantity
    assert "300 pairs" in compared.missing["diversity"]


def test_movement_is_paired_beside_that_of_real_motions(compared: Comparison) -> None:
    assert compared.truth["movement"] == pytest.approx(1.0, abs=0.05)
    assert "npss" not in compared.truth
    rows = {row[0]: row for row in compared.table("")["rows"]}
    assert rows["movement, share of reference"][4] == f"{compared.truth['movement']:.3f}"
    for name in ("movement", "statues"):
        pair = compared.differences[name]["shaken"]
        assert 40 < pair.n <= 70
    assert compared.means["npss"]["same"] == compared.means["npss"]["base"] < compared.means["npss"]["shaken"]
    assert compared.verdict("npss", "shaken") == "worse"
    assert compared.differences["npss"]["same"].ci95 == (0.0, 0.0)
    assert "more than 66 motions, there are 48" in compared.missing["kinetic_fid"]
    assert "kinetic_fid" not in compared.differences


def test_a_judge_stands_first_and_is_paired(compared: Comparison) -> None:
    rows = [row[0] for row in compared.table("")["rows"]]
    assert rows[:2] == ["tmr-dense", "R@1"]
    pair = compared.differences["reward/tmr-dense"]["shaken"]
    assert (pair.n, compared.verdict("reward/tmr-dense", "shaken")) == (70, "worse")
    assert pair.before == pytest.approx(compared.means["reward/tmr-dense"]["base"], rel=1e-5)
    assert 0.7 < pair.before < compared.truth["reward/tmr-dense"] < 1


def test_the_document_and_every_format_say_the_same(compared: Comparison) -> None:
    document = compared.document()
    assert document["fid"]["differences"]["shaken"]["verdict"] == "worse"
    assert document["diversity"]["means"] is None
    table = compared.table("A title with 50 % & more")
    assert len({len(row) for row in [table["columns"], *table["rows"]]}) == 1
    assert sum(row[-1] == "no difference" for row in table["rows"]) < len(table["rows"])
    rows = list(csv.reader(io.StringIO(formatted([table], "csv"))))
    assert rows == [list(map(str, row)) for row in [table["columns"], *table["rows"]]]
    markdown = formatted([table, table], "markdown").split("\n\n")
    assert len(markdown) == 4
    assert len({line.count("|") for line in markdown[1].splitlines()}) == 1
    latex = formatted([table], "latex").splitlines()
    assert latex[0] == "% A title with 50 % & more"
    body = [line for line in latex if line.endswith(r"\\")]
    assert len(body) == len(rows)
    assert all(line.count(" & ") == len(table["columns"]) - 1 for line in body)
    assert formatted([table], "table") == ""


def test_direction_decides_what_is_better() -> None:
    def verdict(quantity: str, low: float, high: float, count: int = 64) -> str:
        paired = Paired(1.0, 1.0, (low + high) / 2, (low, high), count)
        return Comparison(["a", "b"], {}, {quantity: {"b": paired}}, {}).verdict(quantity, "b")

    assert verdict("r_precision_1", 0.1, 0.2) == verdict("fid", -0.2, -0.1) == "better"
    assert verdict("r_precision_1", -0.2, -0.1) == verdict("skate", 0.1, 0.2) == "worse"
    assert verdict("jerk", 0.1, 0.2) == "higher"
    assert verdict("jerk", -0.2, -0.1) == "lower"
    assert verdict("fid", -0.1, 0.2) == verdict("fid", 0.0, 0.2) == "no difference"
    assert verdict("fid", 0.0004, 0.2) == verdict("r_precision_1", -0.0004, -0.0002) == "no difference", "as printed"
    assert verdict("fid", -0.2, -0.1, 19) == "too few"

    def moves(before: float, after: float) -> str:
        pair = Paired(before, after, after - before, (after - before, after - before), 30)
        return Comparison(["a", "b"], {}, {"movement": {"b": pair}}, {}).verdict("movement", "b")

    assert [moves(0.4, 0.6), moves(0.6, 0.4), moves(0.9, 1.4)] == ["better", "worse", "worse"]  # the way to 1


def test_jerk_is_compared_by_that_of_reference_motions_and_a_doubted_evaluator_has_no_verdict() -> None:
    def jerk(before: float, after: float) -> str:
        pair = Paired(before, after, after - before, (after - before, after - before), 30)
        return Comparison(["a", "b"], {}, {"jerk": {"b": pair}}, {"jerk": 60.0}).verdict("jerk", "b")

    assert [jerk(40, 50), jerk(99, 91), jerk(77, 90), jerk(50, 20)] == [
        "closer to reference", "closer to reference", "further from reference", "further from reference"
    ]  # fmt: skip
    better = {name: {"b": Paired(0.2, 0.3, 0.1, (0.05, 0.15), 64)} for name in ("r_precision_3", "style", "side")}
    means = {name: {"a": 0.2, "b": 0.3} for name in better}
    found = Comparison(["a", "b"], means, better, {}, doubt="it finds the text of reference clips with R@3 0.25")
    assert [row[-1] for row in found.table("")["rows"]] == ["n/a", "n/a", "better"]
    document = found.document()
    assert document["style"]["doubt"] == found.doubt
    assert document["style"]["differences"]["b"]["verdict"] == "n/a"
    assert "doubt" not in document["side"]
    assert found.remarks() == [f"the evaluator's figures have no verdict (n/a), because {found.doubt}"]
    assert replace(found, doubt="").remarks() == []
    assert replace(found, doubt="").verdict("style", "b") == "better"


def test_hits_are_what_r_precision_counts() -> None:
    text, motion = (torch.randn(70, 4, generator=torch.Generator().manual_seed(seed)) for seed in (0, 1))
    hits = match_hits(text, motion)
    plain = [
        sum(float((text[i] - motion[j]).norm()) < float((text[i] - motion[i]).norm()) for j in range(b, b + 32))
        for b in (0, 32)
        for i in range(b, b + 32)
    ]
    assert hits.tolist() == [[float(rank < k) for rank in plain] for k in (1, 2, 3)]
    np.testing.assert_allclose(r_precision(text, motion).numpy(), [np.mean(np.array(plain) < k) for k in (1, 2, 3)])


def test_published_rows_and_what_compares() -> None:
    names = [row.name for row in PUBLISHED]
    assert names[0] == "real motions"
    assert not {"MLD", "SALAD", "MoGenTS"} & set(names), "secondary rows are not printed"
    assert not any(row.figures[2].startswith(".611") for row in PUBLISHED), "measured before the correction"
    assert "nothing compares" in comparable("starter", "val", "starter", "mdm", width=64)
    assert "the split is val" in comparable("humanml", "val", "t2m", "mdm", width=512)
    assert comparable("humanml", "test", "t2m", "whole", width=512).startswith(
        "R-precision and MM-Dist compare with every row but DiP's"
    )
    assert "nothing compares if it is not" in comparable("humanml", "test", "t2m", "whole", width=512)
    assert {row.prompts for row in PUBLISHED if row.name.startswith("DiP")} == {"1,024 of 60 frames or more"}


def test_kinetic_fid_is_paired_where_there_are_enough_motions() -> None:
    """Of made-up features: `kinetic_fid` of each policy, and an interval that holds nothing where both are the same."""
    draw = torch.Generator().manual_seed(0)
    real = torch.randn(60, 4, generator=draw)
    base = torch.randn(30, 4, generator=draw)
    npss = {"npss_moved": torch.full((30,), torch.nan), "npss_power": torch.full((30,), torch.nan)}
    found = {
        name: Embedded(torch.zeros(30, 2), {}, {"kinetic": rows, **npss})
        for name, rows in {"base": base, "same": base, "far": base + 2.0}.items()
    }
    reference = Embedded(torch.zeros(60, 2), {}, {"kinetic": real})
    differences = _set_differences(found, reference, "base", ["same", "far"])
    assert differences["npss"] == {}
    same, far = differences["kinetic_fid"]["same"], differences["kinetic_fid"]["far"]
    assert (same.delta, same.ci95, same.n) == (0.0, (0.0, 0.0), 30)
    assert far.before == pytest.approx(kinetic_fid(base, real), rel=1e-6)
    assert far.after == pytest.approx(kinetic_fid(base + 2.0, real), rel=1e-6)
    assert 0 < far.ci95[0] < far.delta < far.ci95[1]


def test_styles_and_kid_are_paired_by_prompt(tmp_path: Path) -> None:
    dataset = load_dataset("starter", clips=288, val_clips=48, test_clips=48, max_frames=64)
    place = starter_evaluator.write(tmp_path / "evaluator", dataset, width=16)
    policy = load_policy("starter")
    opened = open_all(dataset, "val", {"a": policy}, label="starter", evaluator=named(place))
    assert opened.styles == {}, "captions of so few clips name no styles"
    asked = {text for clip in dataset.clips("val") for text in clip.captions}
    opened = replace(opened, styles={text: Styles(("a man walks", text, "a man jumps"), 1) for text in asked})
    how = sampling_of(open_model("starter"), policy, starter=True, kind="ddim", steps=2)
    found = compare_policies(dict.fromkeys("ab", (policy, how)), opened.measurement(Amount(1, 64), seed=0, batch=32))
    rows = [row[0] for row in found.table("")["rows"]]
    assert rows[rows.index("R@3") + 1] == "style accuracy"
    assert found.notes["style"] == "of the 64 of 64 motions whose captions name a style; chance 0.33"
    assert 0 <= found.truth["style"] <= 1
    pair = found.differences["style"]["b"]
    assert (pair.n, pair.delta) == (64, 0)
    assert pair.before == pytest.approx(found.means["style"]["a"])
    assert (found.differences["kid"]["b"].delta, found.differences["kid"]["b"].ci95) == (0, (0, 0))
    assert found.differences["kid"]["b"].before == pytest.approx(found.means["kid"]["a"], rel=1e-4)
