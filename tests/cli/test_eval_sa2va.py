"""``motionkit eval sa2va``: document, folder, page, what is noted and what is refused."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from typer.testing import Result

from motionkit.regions.evaluation.split import FIGURES
from motionkit.regions.self_play.settings import Sa2vaRlSettings
from motionkit.regions.self_play.train import Sa2vaRl

from ..made.training import run_trainer

Cli = Callable[..., Result]
FEW = ("--regions", 8, "--device", "cpu")


@pytest.fixture(scope="module")
def trained(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, dict[str, Any]]:
    """A run and its summary."""
    out = tmp_path_factory.mktemp("sa2va") / "run"
    given = {
        "run": {"num_steps": 2, "out": out}, "rollout": {"batch_size": 2, "group_size": 4}, "threads": 1,
        "heldout": {"regions": 8, "every": 0},
    }  # fmt: skip
    _, found = run_trainer(Sa2vaRl, "sa2va-rl", Sa2vaRlSettings.model_validate(given), out)
    return out, dict(found)


@pytest.fixture(scope="module")
def run(trained: tuple[Path, dict[str, Any]]) -> Path:
    return trained[0]


def test_the_starter_is_measured_by_itself(cli: Cli, tmp_path: Path) -> None:
    out = tmp_path / "out"
    done = cli("eval", "sa2va", *FEW, "--out", out, "--json")
    assert done.exit_code == 0, done.stderr
    document = json.loads(done.stdout)
    assert (document["command"], document["split"], document["regions"]) == ("eval sa2va", "val", 8)
    assert list(document["figures"])[: len(FIGURES)] == list(FIGURES)
    assert next(iter(FIGURES)) == "cycle_iou_greedy"  # what one gets leads
    assert document["figures"]["size_left_out_greedy"]["data"] > 0
    assert document["base"] is document["equal_entropy"] is None
    one = document["figures"]["giou"]
    assert one["after_ci95"][0] <= one["after"] <= one["after_ci95"][1]
    for name in ("cycle_iou", "cycle_iou_greedy"):
        assert document["figures"][name.replace("cycle", "judge")]["after"] == document["figures"][name]["after"]
    assert any("Java METEOR 1.5" in note for note in document["notes"])
    record = json.loads((out / "evaluation.json").read_text())
    assert (record["protocol"], record["result"]["figures"]) == ("sa2va", document["figures"])
    page = (out / "evaluation.html").read_text()
    assert page.count('<div class="strip wide"') == 8
    assert "http" not in page.split("<main>")[1]
    again = cli("eval", "sa2va", *FEW, "--out", out)
    assert again.exit_code == 2
    assert "finished evaluation" in again.stderr
    assert cli("eval", "sa2va", *FEW, "--out", out, "--overwrite", "--batch-size", 3).exit_code == 0
    assert json.loads((out / "evaluation.json").read_text())["result"]["figures"] == document["figures"]
    assert cli("eval", "mpl", "--out", out, "--overwrite").exit_code == 2


def test_a_run_is_compared_with_what_it_started_from(trained: tuple[Path, dict[str, Any]], cli: Cli) -> None:
    run, summary = trained
    done = cli("eval", run, *FEW, "--split", "test", "--json")
    assert done.exit_code == 0, done.stderr
    document = json.loads(done.stdout)
    assert (document["command"], document["base"]) == ("eval sa2va", "starter")
    found = {**summary["heldout"], **summary["heldout_sampled"], **summary["attributes"]}
    for name, one in found.items():
        figure = document["figures"]["giou" if name == "referring_iou" else name]
        for side in ("before", "after"):  # the same regions and the same draws
            assert figure[side] == pytest.approx(one[side], abs=1e-6), name
    assert document["equal_entropy"]["temperature"] == pytest.approx(summary["equal_entropy"]["temperature"], rel=1e-3)
    assert "equal_entropy" in document["figures"]["meteor"]
    (note,) = json.loads((run / "run.json").read_text())["test_split_opened"]
    assert note["command"].startswith("motionkit eval ")
    shown = cli("eval", "sa2va", run, *FEW, "--base", run)
    assert "no change" in shown.stdout
    assert "better" not in shown.stdout
    assert shown.stdout.index("uniqueness") < shown.stdout.index("Sampled captions") < shown.stdout.index("at T ")


def test_figures_are_explained_without_loading_anything(cli: Cli) -> None:
    done = cli("eval", "sa2va", "--explain")
    assert done.exit_code == 0
    assert "absent objects" in done.stdout


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (("nowhere",), "does not exist"),
        (("--dataset", "starter"), "regions"),
        (("--policy", "mdm"), "regions"),
        (("--temperature", "0"), "temperature"),
    ],
)
def test_what_cannot_be_measured_is_refused(words: tuple[str, ...], said: str, cli: Cli) -> None:
    done = cli("eval", "sa2va", *words)
    assert done.exit_code == 2
    assert said in done.stderr
    assert "Traceback" not in done.stderr


def test_a_motion_policy_is_no_region_policy_and_code_of_a_run_is_not_run(
    tiny, run: Path, cli: Cli, tmp_path: Path
) -> None:
    done = cli("eval", "sa2va", tiny.mdm)
    assert done.exit_code == 2
    assert "policies of regions" in done.stderr
    config = json.loads((run / "config.json").read_text())
    config["policy"]["name"] = "./evil.py:component"
    other = tmp_path / "run"
    other.mkdir()
    (other / "run.json").write_bytes((run / "run.json").read_bytes())
    (other / "config.json").write_text(json.dumps(config))
    (other / "policy").mkdir()
    for file in (run / "policy").iterdir():
        (other / "policy" / file.name).write_bytes(file.read_bytes())
    done = cli("eval", "sa2va", other)
    assert done.exit_code == 2
    assert "--policy ./evil.py:component" in done.stderr
