"""``motionkit eval mpl`` and ``eval sa2va``: what they print, and what they refuse."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from typer.testing import Result

from motionkit.formats.mpl import write_mpl_npz
from motionkit.motion import Clip
from motionkit.starter import Order, perform
from motionkit_predictor.data.files import _motion
from motionkit_regions.evaluation.result import FIGURES
from motionkit_regions.self_play.settings import Sa2vaRlSettings
from motionkit_regions.self_play.train import Sa2vaRl

from ..made.training import run_trainer

Cli = Callable[..., Result]

PREDICTOR = """
from motionkit.config import Group
from motionkit_predictor.evaluation.baselines import Extrapolation
from motionkit.motion import HUMANML
from motionkit.plugins import Component


class Options(Group):
    checkpoint: str = ""
    keep: float = 0.5


class Half(Extrapolation):
    def __init__(self, options, *, device, dataset):
        super().__init__(HUMANML.joint_names, 20.0, keep=options.keep)


component = Component(
    summary="Half the speed.", options=Options, factory=f"{__name__}:Half", gives="predictor"
)
"""


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Eighteen clips of one skeleton, as convert --to mpl writes them."""
    out = tmp_path_factory.mktemp("mpl")
    names = ("walk/normal", "wave/right", "run/normal", "jump/forward", "limp/left", "sneak/forward")
    for number in range(18):
        made = _motion(perform([Order(names[number % 6], 60, number)], fps=30.0)[0])
        split = ("train", "val", "test")[number // 6]
        write_mpl_npz(out / f"clip{number:02d}.npz", Clip(made, split=split), source_hash="")
    return out


def test_the_baselines_of_a_folder_are_a_table_and_a_document(folder: Path, cli: Cli) -> None:
    words = ("eval", "mpl", "--data", folder, "--warmup", 10, "--long", "", "--device", "cpu")
    done = cli(*words, "--horizons", "100,200,400", "--json")
    assert done.exit_code == 0, done.stderr
    document = json.loads(done.stdout)
    assert (document["command"], document["status"], document["model"]) == ("eval mpl", "done", None)
    assert (document["clips"], document["windows"], document["horizon"]) == (6, 6 * 8, 12)
    assert {"hold", "velocity", "damped", "ridge", "nearest"} == document["rows"].keys()
    assert list(document["rows"]["hold"]["geo_deg"]) == ["100", "200", "400"]
    assert document["free_teacher_ratio"] > 1.0
    shown = cli(*words, "--horizons", "100", "--horizons", "200", "--split", "test")
    assert shown.exit_code == 0, shown.stderr
    assert "test split of" in shown.stdout
    assert "AUROC" in shown.stdout
    assert "smallest GeoDeg: " in shown.stderr
    assert not Path("runs").exists()


def test_long_runs_are_measured_unless_they_are_left_out(folder: Path, cli: Cli) -> None:
    words = ("eval", "mpl", "--data", folder, "--warmup", 10, "--horizons", "100", "--device", "cpu")
    done = cli(*words, "--long", "4,2", "--json", "--out", "page")
    assert done.exit_code == 0, done.stderr
    long = json.loads(done.stdout)["long"]
    assert long["seconds"] == ["2", "4"]
    assert long["free"]["runs"] == 6
    assert long["free"]["rows"]["matching"]["npss"] == {"2": None, "4": None}, "the clips last 60 frames, 10 known"
    assert long["drawn"]["paths"]["straight"]["rows"]["hold"]["path_end"]["4"] == pytest.approx(4.8)
    page = Path("page/evaluation.html").read_text()
    assert "Long runs" in page
    assert "along paths for 4 s" in page
    short = cli(*words, "--long", "", "--json")
    assert short.exit_code == 0, short.stderr
    assert json.loads(short.stdout)["long"] is None
    for wrong in ("0", "x", "1000"):
        refused = cli(*words, "--long", wrong)
        assert refused.exit_code == 2
        assert "long.0 = " in refused.stderr


def test_a_predictor_of_ones_own_stands_beside_the_baselines(folder: Path, cli: Cli) -> None:
    Path("half.py").write_text(PREDICTOR)
    words = ("eval", "mpl", "--policy", "./half.py:component", "--data", folder, "--warmup", 10, "--device", "cpu")
    words += ("--long", "")
    done = cli(*words, "--horizons", "100,200", "--json")
    assert done.exit_code == 0, done.stderr
    document = json.loads(done.stdout)
    assert document["fps"] == 20.0
    model, damped, velocity = (document["rows"][row]["geo_deg"]["200"] for row in ("model", "damped", "velocity"))
    assert model not in (damped, velocity)
    assert document["free_teacher_ratio"] == document["rows"]["model"]["free_teacher_ratio"]["200"]
    faster = json.loads(cli(*words, "--horizons", "200", "--policy.keep", 1.0, "--json").stdout)
    assert faster["rows"]["model"]["geo_deg"] == pytest.approx(faster["rows"]["velocity"]["geo_deg"])
    shown = cli(*words, "--horizons", "200")
    assert "the model" in shown.stderr


def test_a_folder_gets_the_figures_and_a_page(folder: Path, cli: Cli) -> None:
    Path("half.py").write_text(PREDICTOR)
    words = ("eval", "mpl", "--data", folder, "--warmup", 10, "--device", "cpu", "--horizons", "100,200", "--long", "")
    done = cli(*words, "--policy", "./half.py:component", "--out", "deep/out", "--json")
    assert done.exit_code == 0, done.stderr
    document = json.loads(done.stdout)
    out = Path("deep/out")
    assert document["page"] == "deep/out/evaluation.html"
    assert {file.name for file in out.iterdir()} == {"evaluation.html", "evaluation.json", "predictions.npz"}
    assert json.loads((out / "evaluation.json").read_text())["result"]["rows"] == document["rows"]
    page = (out / "evaluation.html").read_text()
    for part in ("the model", "at 200 ms, or over the time until then", "Error against horizon", "Worst clips"):
        assert part in page
    assert page.count("<motionkit-player ") == 5
    again = cli(*words, "--out", out)
    assert again.exit_code == 2
    assert "holds a finished evaluation" in again.stderr
    replaced = cli(*words, "--out", out, "--overwrite")
    assert replaced.exit_code == 0, replaced.stderr
    assert f"page: {out}/evaluation.html" in replaced.stderr
    assert "eval mpl: baselines" in (out / "evaluation.html").read_text()
    Path("taken").touch()
    assert cli(*words, "--out", "taken").exit_code == 2
    assert cli(*words, "--out", ".").exit_code == 2


def test_a_run_of_a_predictor_is_measured_and_its_test_split_noted(folder: Path, cli: Cli, site) -> None:
    site.install("half-policy", "[motionkit.policies]\nhalf = half_policy:component\n", half_policy=PREDICTOR)
    run = Path("trained")
    (run / "policy").mkdir(parents=True)
    (run / "policy/policy.json").write_text(json.dumps({"kind": "half"}))
    (run / "policy/model.safetensors").touch()
    (run / "config.json").write_text("{}")
    record = {"schema": 1, "kind": "motionkit-run", "id": "0", "command": "train-half", "created": "", "attempts": []}
    (run / "run.json").write_text(json.dumps({**record, "status": "done", "artifacts": []}))
    words = ("--data", folder, "--warmup", 10, "--device", "cpu", "--horizons", "200", "--long", "", "--json")
    document = json.loads(cli("eval", run, *words).stdout)
    assert (document["command"], document["model"]) == ("eval mpl", "trained")
    assert "model" in document["rows"]
    assert "test_split_opened" not in json.loads((run / "run.json").read_text())
    assert cli("eval", "mpl", run, *words, "--split", "test").exit_code == 0
    (note,) = json.loads((run / "run.json").read_text())["test_split_opened"]
    assert note["command"].startswith("motionkit eval mpl trained ")
    both = cli("eval", "mpl", run, "--policy", "half", "--json")
    assert "were both given" in json.loads(both.stdout)["error"]["message"]


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (("--horizons", "80"), "is not a frame at 30 frames per second"),
        (("--horizons", "many"), "horizons"),
        (("--horizon", 3), "ends before 1000 ms"),
        (("--data", "nowhere"), "there is no nowhere"),
        (("--data", "MIXED"), "2 skeletons"),
        (("--data", "FOLDER", "--data", "starter"), "given with other data"),
        (("starter",), "eval mpl measures motion predictors"),
        (("--policy", "mdm"), "gives 'diffusion'"),
        (("--policy", "./half.py:component", "--fps", 30), "made for 20"),
    ],
)
def test_what_cannot_be_measured_is_refused(
    words: tuple[object, ...], said: str, folder: Path, tmp_path: Path, cli: Cli
) -> None:
    Path("half.py").write_text(PREDICTOR)
    made = _motion(perform([Order("walk/normal", 60, 0)], fps=30.0)[0])
    (tmp_path / "mixed").mkdir()
    for number, names in enumerate((made.names, ("Hips", *made.names[1:]))):
        write_mpl_npz(tmp_path / f"mixed/{number}.npz", Clip(replace(made, names=names)), source_hash="")
    places = {"MIXED": tmp_path / "mixed", "FOLDER": folder}
    done = cli("eval", "mpl", *(places.get(word, word) for word in words), "--device", "cpu", "--json")  # type: ignore[call-overload]
    assert done.exit_code == 2, done.stderr
    assert said in json.loads(done.stdout)["error"]["message"]


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
def trained_run(trained: tuple[Path, dict[str, Any]]) -> Path:
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
    trained_run, summary = trained
    done = cli("eval", trained_run, *FEW, "--split", "test", "--json")
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
    (note,) = json.loads((trained_run / "run.json").read_text())["test_split_opened"]
    assert note["command"].startswith("motionkit eval ")
    shown = cli("eval", "sa2va", trained_run, *FEW, "--base", trained_run)
    assert "too few" in shown.stdout
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
def test_what_cannot_be_measured_of_regions_is_refused(words: tuple[str, ...], said: str, cli: Cli) -> None:
    done = cli("eval", "sa2va", *words)
    assert done.exit_code == 2
    assert said in done.stderr
    assert "Traceback" not in done.stderr


def test_a_motion_policy_is_no_region_policy_and_code_of_a_run_is_not_run(
    tiny, trained_run: Path, cli: Cli, tmp_path: Path
) -> None:
    done = cli("eval", "sa2va", tiny.mdm)
    assert done.exit_code == 2
    assert "policies of regions" in done.stderr
    config = json.loads((trained_run / "config.json").read_text())
    config["policy"]["name"] = "./evil.py:component"
    other = tmp_path / "run"
    other.mkdir()
    (other / "run.json").write_bytes((trained_run / "run.json").read_bytes())
    (other / "config.json").write_text(json.dumps(config))
    (other / "policy").mkdir()
    for file in (trained_run / "policy").iterdir():
        (other / "policy" / file.name).write_bytes(file.read_bytes())
    done = cli("eval", "sa2va", other)
    assert done.exit_code == 2
    assert "--policy ./evil.py:component" in done.stderr
