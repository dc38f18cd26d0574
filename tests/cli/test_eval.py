"""``motionkit eval`` and ``eval sensitivity``: what they print, refuse and note."""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable
from pathlib import Path

import pytest
from typer.testing import Result

from motionkit import load_dataset
from tests.made import starter_evaluator

Cli = Callable[..., Result]


@pytest.fixture
def kept(tiny, monkeypatch: pytest.MonkeyPatch):
    """The session's tiny models, with the clips that they were made of."""
    monkeypatch.setenv("XDG_CACHE_HOME", str(tiny.mdm.parent / "cache"))
    return tiny


def test_retrieval_of_a_run_uses_its_data_and_notes_that_test_was_opened(kept, tmp_path: Path, cli: Cli) -> None:
    run = tmp_path / "tmr"
    shutil.copytree(kept.tmr, run)
    done = cli("eval", "retrieval", run, "--device", "cpu", "--json")
    assert done.exit_code == 0, done.stderr
    document = json.loads(done.stdout)
    assert (document["command"], document["status"], document["split"]) == ("eval retrieval", "done", "val")
    assert document["candidates"] == {"normal": 48, "threshold": 48, "nsim": 48, "guo": 32}
    values = document["protocols"]["normal"]["average"]["t2m"]
    assert 0 <= values["R01"] <= values["R10"] <= 100
    assert "test_split_opened" not in json.loads((run / "run.json").read_text())
    shown = cli("eval", "retrieval", run, "--device", "cpu", "--split", "test")
    assert "noted in" in shown.stderr
    assert "guo (32)" in shown.stdout
    (note,) = json.loads((run / "run.json").read_text())["test_split_opened"]
    assert note["command"].startswith("motionkit eval retrieval ")
    cli("eval", "retrieval", run, "--device", "cpu", "--split", "test")
    assert len(json.loads((run / "run.json").read_text())["test_split_opened"]) == 2
    assert cli("runs", "show", run).exit_code == 0


def test_retrieval_refuses_other_models(kept, cli: Cli, shared: Path) -> None:
    done = cli("eval", "retrieval", kept.mdm)
    assert done.exit_code == 2
    assert "retrieval measures a TMR" in done.stderr
    guo = shared / "fixtures/mdm/evaluator_tiny_t2m/checkpoints/t2m/text_mot_match/model/finest.tar"
    done = cli("eval", "retrieval", guo)
    assert done.exit_code == 2
    assert "Guo et al." in done.stderr
    assert f"--evaluator {guo}" in done.stderr


@pytest.fixture
def evaluator(kept, tmp_path: Path) -> Path:
    data = load_dataset("starter", clips=144, val_clips=48, test_clips=48, prompts=8, max_frames=48, max_segment=44)
    return starter_evaluator.write(tmp_path / "evaluator", data)


def test_a_policy_is_measured_as_the_field_does(
    kept, evaluator: Path, cli: Cli, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("motionkit.text_to_motion.evaluation.protocols._MANY", 1000)
    words = ("eval", "text-to-motion", kept.mdm, "--evaluator", evaluator, "--device", "cpu", "--limit", 64)
    done = cli(*words, "--replications", 2, "--out", "here", "--json")
    assert done.exit_code == 0, done.stderr
    assert "64 prompts x 2 of the val split of starter, 1128 motions; DDIM, 5 steps of 10, guidance 2.5" in done.stderr
    assert "a quick look: --mode debug --limit 64" in done.stderr
    document = json.loads(done.stdout)
    assert (document["protocol"], document["replications"], document["split"]) == ("mdm", 2, "val")
    assert document["sampler"].startswith("DDIM, 5 steps of 10")
    names = {"r_precision_1", "r_precision_2", "r_precision_3", "mm_dist", "fid", "multimodality", "skate", "jerk",
             "penetration", "float"}  # fmt: skip
    for block in ("metrics", "ground_truth"):
        assert names <= document[block].keys()
    for name in names:
        low, high = document["metrics"][name]["ci95"]
        assert low <= document["metrics"][name]["mean"] <= high
    assert document["metrics"]["diversity"] == {
        "mean": None, "why": "300 pairs need more than 300 motions, there are 64",
    }  # fmt: skip
    assert document["ground_truth"]["multimodality"]["mean"] is None
    assert "the val split has 48 clips: each is used 1.3 times" in " ".join(document["notes"])
    assert Path("here/evaluation.html").is_file()
    assert json.loads(Path("here/evaluation.json").read_text())["status"] == "done"
    shown = cli(
        *words,
        "--replications",
        1,
        "--mode",
        "debug",
        "--guidance-scale",
        1,
        "--sampler",
        "ddpm",
        "--protocol",
        "whole",
    )
    assert shown.exit_code == 0, shown.stderr
    assert "R@3 ↑" in shown.stdout
    assert "DDPM, all 10 steps, guidance 1" in shown.stdout
    assert "page: runs/eval-text-to-motion/" in shown.stderr
    assert "a quick look" not in shown.stderr
    assert "next: motionkit eval compare" in shown.stderr


def test_a_run_of_grpo_is_measured_as_it_was_trained_and_its_test_split_noted(
    kept, evaluator: Path, cli: Cli, tmp_path: Path
) -> None:
    run = tmp_path / "trained"
    assert cli(*kept.grpo(run, steps=1)).exit_code == 0
    words = (
        "eval",
        "text-to-motion",
        run,
        "--evaluator",
        evaluator,
        "--device",
        "cpu",
        "--limit",
        32,
        "--mode",
        "debug",
    )
    document = json.loads(cli(*words, "--replications", 1, "--split", "test", "--json").stdout)
    # The steps are those of training; the guidance is the one that generate takes: here that of before stays.
    assert document["sampler"].startswith("DDIM, 4 steps of 10, guidance 2.5, ")
    (note,) = json.loads((run / "run.json").read_text())["test_split_opened"]
    assert "--split test" in note["command"]


def test_definitions_are_printed_without_loading_anything(cli: Cli) -> None:
    done = cli("eval", "text-to-motion", "--explain", "--json")
    found = json.loads(done.stdout)["definitions"]
    assert found["skate"]["unit"] == "m/s"
    assert "nearest of 32" in found["R@1"]["meaning"]


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (("TMR",), "what is measured is a policy"),
        (("EVALUATOR",), "what is measured is a policy"),
        (("walker",), "a policy of kind mpl; what is measured is a policy of text to motion"),
        (("starter", "--evaluator", "TMR"), "is a TMR, not the text-to-motion evaluator"),
        (("starter", "--evaluator", "none"), "eval needs an evaluator"),
        (("starter", "--k-segments", 3), "composite data only"),
        (("starter", "--reference", "starter"), "--reference has no effect in eval"),
        (("nowhere.pt",), "does not exist"),
        (("MDM", "--policy.checkpoint", "x"), "were both given"),
        (("MDM", "--out", "taken"), "is a file"),
    ],
)
def test_what_cannot_be_measured_is_refused_before_anything_starts(
    words: tuple[str, ...], said: str, kept, evaluator: Path, cli: Cli, shared: Path
) -> None:
    Path("taken").write_text("")
    Path("walker").mkdir()
    Path("walker/policy.json").write_text('{"kind": "mpl"}')
    guo = shared / "fixtures/mdm/evaluator_tiny_t2m/checkpoints/t2m/text_mot_match/model/finest.tar"
    places = {"TMR": kept.tmr / "tmr", "EVALUATOR": guo, "MDM": kept.mdm}
    typed = [places.get(word, word) for word in words]
    more = () if "--evaluator" in words else ("--evaluator", evaluator)
    done = cli("eval", "text-to-motion", *typed, *more, "--device", "cpu", "--json")
    assert done.exit_code == 2, done.stderr
    error = json.loads(done.stdout)["error"]
    assert said in error["message"]
    assert words != ("walker",) or error["fix"] == "motionkit eval mpl walker measures it."
    assert not Path("runs").exists()


def test_policies_are_compared_on_the_same_prompts(kept, evaluator: Path, cli: Cli, tmp_path: Path) -> None:
    run = tmp_path / "trained"
    assert cli(*kept.grpo(run, steps=1)).exit_code == 0
    stored = json.loads((run / "policy/policy.json").read_text())
    assert stored["guidance"] == 2.5
    (run / "policy/policy.json").write_text(json.dumps({**stored, "guidance": 1.0}))  # as a longer run leaves it
    words = ("eval", "compare", kept.mdm, run, "--evaluator", evaluator, "--device", "cpu", "--limit", 32)
    done = cli(*words, "--json", "--published")
    assert done.exit_code == 0, done.stderr
    document = json.loads(done.stdout)
    assert document["base"] == str(kept.mdm)
    assert document["guidance_scale"] == 1.0, "that of the run, for both"
    jerk = document["quantities"]["jerk"]["differences"][str(run)]
    assert {"before", "after", "delta", "ci95", "n", "verdict"} <= jerk.keys()
    assert jerk["n"] == 32
    assert "nothing compares with the published rows" in document["published"]["note"]
    said = " ".join(done.stderr.split())
    assert "32 prompts of the val split of starter x 2 policies; DDIM, " in said
    assert "guidance 1, that of the run, for all policies; eval text-to-motion alone takes 2.5 for " in said
    shown = cli(*words, "--judge", "tmr-dense", "--judge.weights", kept.tmr)
    assert "tmr-dense" in shown.stdout
    assert "difference" in shown.stdout
    assert "no difference" in shown.stdout or "too few" in shown.stdout
    for name, sign in (("markdown", "| FID |"), ("latex", "\\begin{tabular}"), ("csv", "FID,")):
        assert sign in cli(*words, "--format", name).stdout
    for wrong, said in (
        ((kept.mdm,), "takes two policies"),
        ((kept.mdm, kept.mdm), "named twice"),
        ((kept.mdm, kept.tmr), "what is measured is a policy"),
    ):
        refused = cli("eval", "compare", *wrong)
        assert refused.exit_code == 2
        assert said in refused.stderr


def test_a_composite_set_is_compared_with_its_joined_motions(kept, evaluator: Path, cli: Cli) -> None:
    small = ("--dataset.clips", 144, "--dataset.val-clips", 48, "--dataset.test-clips", 48, "--dataset.max-frames", 48)
    for split in ("val", "train"):
        done = cli("compose", split, "--dataset", "starter", *small, "--split", split, "--k-segments", 2,
                   "--target-length", 96, "--tolerance", 20, "--max-samples", 40)  # fmt: skip
        assert done.exit_code == 0, done.stderr
    words = ("eval", "text-to-motion", kept.mdm, "--evaluator", evaluator, "--device", "cpu", "--limit", 40,
             "--mode", "debug", "--replications", 1, "--dataset", "composite")  # fmt: skip
    done = cli(*words, "--dataset.path", "val", "--k-segments", 2, "--json")
    assert done.exit_code == 0, done.stderr
    document = json.loads(done.stdout)
    assert document["dataset"] == "composite"
    fid, guide = document["metrics"]["fid"], document["metrics"]["fid_guide"]
    assert fid["mean"] >= 0
    assert guide["mean"] != pytest.approx(fid["mean"]), "single clips are other motions than joined ones"
    assert "fid_guide" not in document["ground_truth"]
    assert document["ground_truth"]["fid"]["mean"] == pytest.approx(0, abs=1e-3), "composite prompts are not cut anew"
    other = cli(*words, "--dataset.path", "val", "--k-segments", 3)
    assert other.exit_code == 2
    assert "K = 3" in other.stderr
    trained = cli(*words, "--dataset.path", "train")
    assert trained.exit_code == 2
    assert "composed from the train split" in trained.stderr


def test_a_model_in_place_of_a_protocol_chooses_its_own(kept, evaluator: Path, cli: Cli) -> None:
    done = cli("eval", kept.tmr, "--device", "cpu", "--json")
    assert done.exit_code == 0, done.stderr
    assert json.loads(done.stdout)["command"] == "eval retrieval"
    words = ("--evaluator", evaluator, "--limit", 32, "--replications", 1, "--mode", "debug", "--json")
    done = cli("eval", kept.mdm, "--device", "cpu", *words)
    assert done.exit_code == 0, done.stderr
    assert json.loads(done.stdout)["command"] == "eval text-to-motion"
    assert "loading torch" in cli("eval", "--k-segments", 3).stderr, "the starter's policy"
    done = cli("eval", "retrival")
    assert done.exit_code == 2
    assert "neither a protocol nor a model" in done.stderr
    assert "retrieval" in done.stderr


def test_a_reward_its_judge_and_physics(kept, tmp_path: Path, cli: Cli) -> None:
    run, out = tmp_path / "tmr", tmp_path / "out"
    shutil.copytree(kept.tmr, run)
    config = run / "tmr" / "config.json"
    told = json.loads(config.read_text())
    told["training"]["train"]["negatives"] = "mean-pose=1,text-side=1"
    config.write_text(json.dumps(told))
    words = ("eval", "sensitivity", "--reward", "tmr-dense", "--reward", "physics=0.1", "--reward.weights", run)
    words = (*words, "--clips", 6, "--device", "cpu", "--evaluator", "none", "--out", out)
    done = cli(*words, "--json")
    assert done.exit_code == 0, done.stderr
    document = json.loads(done.stdout)
    assert (document["command"], document["split"], document["clips"]) == ("eval sensitivity", "val", 48)
    rewards = document["rewards"]
    assert list(rewards) == ["tmr-dense", "physics", "judge", "tmr-dense + 0.1 physics"]
    assert rewards["tmr-dense"]["trained_against"] == ["mean-pose", "text-side"]
    assert rewards["physics"]["reads_text"] is False
    rows = {row["change"]: row for row in document["rows"]}
    scores = rows["mean-pose"]["scores"]
    assert scores["tmr-dense"]["trained_against"]
    assert scores["tmr-dense"]["n"] == 6
    assert scores["physics"]["seen"] is None
    assert scores["physics"]["fall_in_std"] is not None
    total = scores["tmr-dense + 0.1 physics"]
    assert total["real"] == pytest.approx(scores["tmr-dense"]["real"] + 0.1 * scores["physics"]["real"])
    assert rows["shuffled-frames"]["meaning"] == "all frames in any order"
    assert "text-order" in document["missing"] or "text-order" in rows
    page = Path(document["page"]).read_text()
    assert page.count("<motionkit-player ") >= 1
    assert "What is not seen" in page
    assert rewards["tmr-dense"]["sentence"][:20] in page
    record = json.loads((out / "evaluation.json").read_text())
    assert record["protocol"] == "sensitivity"
    assert record["result"]["rewards"] == rewards
    assert not document["opened_test"]
    assert "test_split_opened" not in json.loads((run / "run.json").read_text())

    again = cli(*words)
    assert again.exit_code == 2
    assert "--overwrite" in again.stderr
    few = cli(*words, "--overwrite", "--clips", 2)
    assert few.exit_code == 0, few.stderr
    assert (
        "what tmr-dense sees of a motion, and what it does not, is not known: 20 clips that can be changed"
        in few.stderr
    )
    shown = cli(*words, "--overwrite", "--split", "test")
    assert shown.exit_code == 0, shown.stderr
    assert "shuffled-pieces" in shown.stdout
    assert "noted in" in shown.stderr
    assert "what tmr-dense sees of a motion, and what it does not, is not known" in shown.stderr, "a test split of 6"
    (note,) = json.loads((run / "run.json").read_text())["test_split_opened"]
    assert note["command"].startswith("motionkit eval sensitivity ")


def test_inputs_are_opened_before_a_folder_is_made(kept, tmp_path: Path, cli: Cli) -> None:
    out = tmp_path / "out"
    done = cli("eval", "sensitivity", "--reward.weights", tmp_path / "absent", "--out", out)
    assert done.exit_code == 2
    assert "absent does not exist" in done.stderr
    assert not out.exists()
    done = cli("eval", "sensitivity", "--reward", "iou", "--out", out)
    assert done.exit_code == 2
    assert not out.exists()
