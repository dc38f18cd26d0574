"""`motionkit compose` as a user types it, and what `grpo` and `generate` do with its files."""

from __future__ import annotations

import json
import statistics
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from torch.nn import functional
from typer.testing import CliRunner, Result

from motionkit import load_dataset
from motionkit.cli import get_app
from motionkit.text_to_motion.tmr.files import open_tmr

Cli = Callable[..., Result]
SOURCE = (
    "--dataset.clips", 144, "--dataset.val-clips", 48, "--dataset.test-clips", 48, "--dataset.max-frames", 48
)  # fmt: skip


@pytest.fixture(scope="module")
def folder(tiny: Any, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Composite sets of two actions, training and validation, of the clips that `tiny` was trained on."""
    out = tmp_path_factory.mktemp("composite")
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("XDG_CACHE_HOME", str(tiny.mdm.parent / "cache"))
        for split in ("train", "val"):
            words = ["compose", *SOURCE, "--split", split, "--k-segments", 2, "--target-length", 96, "--tolerance", 10]
            result = CliRunner().invoke(get_app(), [str(word) for word in (*words, "--max-samples", 6, out)])
            assert result.exit_code == 0, result.stderr
    return out


def compose(cli: Cli, *more: object) -> Result:
    return cli("compose", *SOURCE, "--target-length", 140, "--max-samples", 5, *more)


def said(result: Result) -> str:
    return " ".join(result.stderr.split())


def test_the_document(cli: Cli) -> None:
    result = compose(cli, "--json", "--legacy-npy", "out")
    assert result.exit_code == 0, result.stderr
    assert "joined from the train clips of starter" in said(result)
    document = json.loads(result.stdout)
    assert (document["schema"], document["command"], document["status"]) == (1, "compose", "done")
    assert (document["samples"], document["asked"], document["warnings"]) == (5, 5, [])
    stem = str(Path("out") / "composite_k3_train")
    assert document["files"] == [f"{stem}.json", f"{stem}.npz", f"{stem}.npy"]
    assert sorted(path.name for path in Path("out").iterdir()) == sorted(Path(name).name for name in document["files"])
    written = json.loads(Path(f"{stem}.json").read_text())
    assert written["metadata"] == document["metadata"]
    assert written["metadata"] | {"source": "", "physics_reference": None} == {
        "dataset_name": "starter", "split": "train", "k_segments": 3, "target_length": 140, "tolerance": 20,
        "fps": 20.0, "num_samples": 5, "seed": 0, "crop": False, "skeleton": "humanml", "source": "",
        "text_tower": None, "physics_reference": None,
    }  # fmt: skip
    lengths = [sample["total_frames"] for sample in written["samples"]]
    assert document["frames"] == {
        "min": min(lengths), "median": statistics.median(lengths), "max": max(lengths)
    }  # fmt: skip


def test_the_starters_tower_is_a_guess_elsewhere(cli: Cli, shared: Path) -> None:
    root = shared / "fixtures" / "mdm" / "mini_humanml3d" / "dataset" / "HumanML3D"
    words = ("compose", "--dataset", "humanml", "--dataset.root", root, "--b-matrix", "--device", "cpu")
    warning = "the starter's small TMR makes of its captions"
    # Whether the encoder of free texts is installed does not matter: the warning comes before it is looked for.
    result = cli(*words, "out", "--max-samples", 2)
    assert warning in said(result)
    assert "--tower DIR" in said(result)
    assert "--text-encoder NAME" in said(result)
    assert warning not in said(compose(cli, "--b-matrix", "--device", "cpu", "other"))


@pytest.mark.parametrize("name", ["composite_k3_train.npy", "composite_k3_train.json", "composite_k3_train.npz"])
def test_a_file_that_compose_did_not_make_is_never_replaced(cli: Cli, name: str) -> None:
    Path("out").mkdir()
    Path("out", name).write_text('{"kind": "something else"}')
    for more in ([], ["--overwrite"]):
        result = compose(cli, *more, "out")
        assert (result.exit_code, "compose did not make it" in said(result)) == (2, True)
    assert [path.read_text() for path in Path("out").iterdir()] == ['{"kind": "something else"}']


@pytest.mark.parametrize("name", ["tmr", "stored"])
def test_similarities_are_those_of_the_tower(cli: Cli, tiny: Any, name: str) -> None:
    chosen = ("--tower", tiny.tmr) if name == "tmr" else ("--text-encoder", "stored")
    result = compose(cli, "--b-matrix", *chosen, "--device", "cpu", "out", "--json")
    assert result.exit_code == 0, result.stderr
    assert json.loads(result.stdout)["metadata"]["text_tower"]["name"] == (f"tmr {tiny.tmr}" if name == "tmr" else name)
    dataset = load_dataset("composite", path="out")
    tower = open_tmr(tiny.tmr)
    for prompt, found in zip(dataset.prompts("train"), dataset.similarity("train"), strict=True):  # type: ignore[attr-defined]
        if name == "tmr":
            vectors = tower.encode_texts(prompt.segments).detach()
        else:
            assert tower.text_model is not None
            vectors = tower.text_model.encode(prompt.segments).tokens[:, 0]
        expected = functional.cosine_similarity(vectors[:, None], vectors[None], dim=-1)
        assert torch.allclose(found, expected, atol=1e-5)
        assert torch.equal(found.diagonal(), torch.ones(3))


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (("--k-segments", 1), "joins at least 2 clips, not 1; single captions need no composing"),
        (("--fps", 12.5), "--fps 12.5 is not the rate of starter, which is 20"),
        (("--k-segments", 4), "--target-length 144 is the smallest that fits 4 segments"),
        (("--k-segments", 3, "--target-length", 500), "add up to 480..500 frames"),
        (("--tolerance", 140), "leaves nothing of --target-length 140"),
        (("--tower", "starter:judge"), "--tower has no effect without --b-matrix"),
        (("--text-model", "x"), "--text-model has no effect without --b-matrix"),
        (("--device", "cuda:7"), "--device has no effect without --b-matrix"),
        (("--k-segments", 6, "--target-length", 196), "or fewer segments, as most policies make at most 196 frames"),
        (("--k-segments", 1), "--k-segments '1' (k_segments, from command line)"),
        (("--b-matrix", "--tower", "x", "--text-encoder", "stored"), "both say what compares texts"),
        (("--b-matrix", "--tower", "nowhere"), "nowhere"),
        (("--split", "everything"), "split"),
    ],
)
def test_refusals_make_nothing(cli: Cli, words: tuple[object, ...], message: str) -> None:
    result = compose(cli, *words, "out")
    assert result.exit_code == 2, result.stdout
    assert message in said(result)
    assert not Path("out").exists()


def test_existing_sets_are_kept(cli: Cli) -> None:
    assert compose(cli, "out").exit_code == 0
    before = Path("out/composite_k3_train.json").read_bytes()
    again = compose(cli, "--seed", 1, "out")
    assert again.exit_code == 2
    assert "already exists" in said(again)
    assert Path("out/composite_k3_train.json").read_bytes() == before
    assert compose(cli, "--split", "val", "out").exit_code == 0
    assert compose(cli, "--seed", 1, "--overwrite", "out").exit_code == 0
    assert Path("out/composite_k3_train.json").read_bytes() != before
    Path("file").write_text("mine")
    assert "is a file; OUT is a folder" in said(compose(cli, "file"))


def test_a_dry_run_makes_nothing(cli: Cli) -> None:
    result = compose(cli, "--dry-run", "out")
    assert result.exit_code == 0, result.stderr
    assert "k_segments = 3 (default)" in " ".join(result.stdout.split())
    assert not list(Path().iterdir())
    # And it refuses what the run itself would refuse at once.
    assert "leaves nothing of" in said(compose(cli, "--dry-run", "--tolerance", 300, "out"))
    Path("composite_k3_train.json").touch()
    result = compose(cli, "--dry-run", ".")
    assert (result.exit_code, "already exists" in said(result)) == (2, True)


# grpo


def grpo(tiny: Any, *more: object) -> list[str]:
    words = tiny.grpo("run", *more, steps=2)
    start = words.index("--dataset.clips")
    return [*words[:start], *words[words.index("--device") :]]  # without the starter's own options


def test_grpo_learns_from_a_composite_set(cli: Cli, tiny: Any, folder: Path) -> None:
    result = cli(*grpo(tiny, "--dataset", "composite", "--dataset.path", folder, "--json"))
    assert result.exit_code == 0, result.stderr
    document = json.loads(result.stdout)
    assert (document["steps"], document["status"]) == (2, "done")
    assert document["heldout"]["reward"]["n"] == 4
    assert np.isfinite(document["metrics"]["loss/total"])
    config = json.loads(Path("run/config.json").read_text())
    assert config["dataset"]["name"] == "composite"
    again = cli("grpo", "--config", "run/config.json", "--out", "again", "--json")
    assert json.loads(again.stdout)["heldout"] == document["heldout"]


def test_a_run_is_resumed_from_another_folder(
    cli: Cli, tiny: Any, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(folder.parent)
    out = Path(folder.parent / "elsewhere")
    words = grpo(tiny, "--dataset", "composite", "--dataset.path", folder.name, "--set", "heldout.prompts=0")
    words[words.index("run")] = str(out)
    assert cli(*words).exit_code == 0
    monkeypatch.chdir("/")
    result = cli("grpo", "--resume", out, "--num-steps", 3, "--json")
    assert result.exit_code == 0, result.stderr
    assert json.loads(result.stdout)["steps"] == 3


@pytest.mark.parametrize(
    ("file", "more", "message"),
    [
        ("composite_k2_train.json", (), "no composite prompts of the val split"),
        ("composite_k2_val.json", (), "no composite prompts of the train split"),
        ("", ("--k-segments", 3), "K = 3 segments are wanted (--k-segments), the train prompts have K = 2"),
        ("", ("--random-crop",), "cannot be cropped at random"),
        ("", ("--dataset.fps", 12.5), "frames per second differ"),
        ("missing.json", (), "cannot be opened"),
    ],
)
def test_grpo_refuses_what_does_not_fit(
    cli: Cli, tiny: Any, folder: Path, file: str, more: tuple[object, ...], message: str
) -> None:
    result = cli(*grpo(tiny, "--dataset", "composite", "--dataset.path", folder / file, *more))
    assert result.exit_code == 2
    assert message in said(result)
    assert ("heldout.prompts=0 trains without" in said(result)) == ("of the val split" in message)
    assert not Path("run").exists()


@pytest.mark.parametrize("dataset", ["starter", "composite"])
def test_what_is_trained_on_is_not_measured(cli: Cli, tiny: Any, folder: Path, dataset: str) -> None:
    words = tiny.grpo("run") if dataset == "starter" else grpo(tiny, "--dataset", dataset, "--dataset.path", folder)
    result = cli(*words, "--set", "prompts.split=val")
    assert result.exit_code == 2
    assert "prompts.split and heldout.split are both val" in said(result)
    assert "--set heldout.prompts=0" in said(result)
    assert not Path("run").exists()
    result = cli(*words, "--set", "prompts.split=val", "--set", "heldout.prompts=0", "--dry-run")
    assert result.exit_code == 0, result.stderr


def test_motions_of_both_splits_are_refused_or_noted(cli: Cli, tiny: Any, folder: Path) -> None:
    both = Path("both")
    both.mkdir()
    for name in ("composite_k2_train.json", "composite_k2_train.npz"):
        (both / name).write_bytes((folder / name).read_bytes())
    document = json.loads((both / "composite_k2_train.json").read_text())
    document["metadata"]["split"] = "val"
    (both / "composite_k2_val.json").write_text(json.dumps(document))
    words = grpo(tiny, "--dataset", "composite", "--dataset.path", both)
    result = cli(*words)
    assert result.exit_code == 2
    motions = {name for sample in document["samples"][:4] for name in sample["source_ids"]}
    assert f"the train and the val prompts of composite share {len(motions)} of {len(motions)} motions" in said(result)
    assert not Path("run").exists()
    result = cli(*words, "--set", "heldout.allow_shared=true")
    assert result.exit_code == 0, result.stderr
    assert "both trained on and measured" in Path("run/log.txt").read_text()
    assert set(json.loads(Path("run/run.json").read_text())["heldout_shared_motions"]) == motions


def test_prompts_longer_than_the_policy_are_refused_first(cli: Cli, tiny: Any) -> None:
    assert cli("compose", *SOURCE, "--k-segments", 5, "--target-length", 210, "--max-samples", 2, "out").exit_code == 0
    result = cli(*grpo(tiny, "--dataset", "composite", "--dataset.path", "out", "--set", "heldout.prompts=0"))
    assert result.exit_code == 2
    assert "the policy makes at most 196" in said(result)
    assert "motionkit compose --target-length 196)" in said(result)
    assert not Path("run").exists()


# generate


def test_generate_asks_the_prompts_of_a_file(cli: Cli, tiny: Any, folder: Path) -> None:
    words = ("--policy.checkpoint", tiny.mdm, "--device", "cpu", "--dataset", "composite", "--dataset.path")
    result = cli("generate", *words, folder / "composite_k2_train.json", "--limit", 2, "motion.npz", "--dry-run")
    assert result.exit_code == 0, result.stderr
    result = cli("generate", *words, folder, "--split", "train", "--limit", 2, "out", "--json")
    assert result.exit_code == 0, result.stderr
    motions = json.loads(result.stdout)["motions"]
    prompts = load_dataset("composite", path=str(folder)).prompts("train")[:2]
    assert [motion["text"] for motion in motions] == [" | ".join(prompt.segments) for prompt in prompts]
    assert [motion["frames"] for motion in motions] == [prompt.length for prompt in prompts]
    assert len(list(Path("out/new_joints").iterdir())) == 2
    # What was made leads back to what was asked.
    written = json.loads(Path("out/motions.json").read_text())
    assert [motion["prompt"] for motion in written["motions"]] == [prompt.key for prompt in prompts]
    assert [motion["source_ids"] for motion in written["motions"]] == [list(prompt.source_ids) for prompt in prompts]
    source = written["dataset"]
    assert (source["name"], source["path"], source["split"]) == ("composite", [str(folder)], "train")
    assert "2 of 6 prompts of the train split" in said(result)
    assert "crops" not in said(result)  # nothing is ever cropped here


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (("out",), "there is nothing to generate: no TEXT was given, and no --dataset"),
        (("a man walks", "out", "--dataset", "starter"), "TEXT ('a man walks') and --dataset starter were both given"),
        (("a man walks", "out", "--limit", 3), "choose among the prompts of a dataset, and there is none"),
        (("out", "--dataset", "starter", "--durations", "3"), "--durations has no effect with --dataset"),
        (("out", "--dataset", "composite"), "dataset.path is not set"),
        (("a man walks", "out", "--set", "dataset.root=x"), "no dataset is chosen"),
        (("out", "--dataset", "composite", "--dataset.path", "FOLDER", "--split", "test"), "of the test split"),
        (("out", "--dataset", "composite", "--dataset.path", "FOLDER", "--k-segments", 3), "have K = 2"),
    ],
)
def test_generate_refusals(cli: Cli, folder: Path, words: tuple[object, ...], message: str) -> None:
    result = cli("generate", *(folder if word == "FOLDER" else word for word in words))
    assert result.exit_code == 2
    assert message in said(result)
    assert not list(Path().iterdir())


def test_what_a_missing_text_model_says(cli: Cli, monkeypatch: pytest.MonkeyPatch) -> None:
    pytest.importorskip("transformers")
    result = compose(cli, "--b-matrix", "--text-encoder", "clip", "--text-model", "nowhere", "--device", "cpu", "out")
    assert result.exit_code == 2
    assert "compose: --text-model DIR" in said(result)


def test_an_old_file_that_is_there_is_written_again(cli: Cli) -> None:
    assert compose(cli, "--legacy-npy", "out").exit_code == 0
    result = compose(cli, "--overwrite", "--seed", 9, "out")
    assert result.exit_code == 0, result.stderr
    assert "composite_k3_train.npy was there: it is written again" in said(result)
