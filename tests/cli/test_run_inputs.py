"""Each run says what it read, goes on with nothing else, and is measured on nothing that it was trained on."""

from __future__ import annotations

import json
import shutil
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from safetensors.numpy import load_file, save_file

from ..made.own_runs import CLIPS, PICTURES, RUNS, TEXTS, place_of, typed, write_clip
from ..made.regions import png

PAIRS = {"dataset.root"}
READ = {
    "pretrain tmr": {*PAIRS, "text.model"},
    "pretrain mdm": {*PAIRS, "text.model"},
    "pretrain t2m-evaluator": PAIRS,
    "grpo": {
        *PAIRS, "policy.checkpoint", "policy.stats", "policy.text_model", "reward.tmr-dense.weights",
        "reward.tmr-dense.text_model", "reward.tmr-dense.device", "judge.weights",
    },
    "pretrain mpl-encoder": {"data"}, "train-mpl": {"data", "encoder"}, "reward-train": {"data.path"},
    "reward-collect": set(), "ppo": set(), "pretrain regions": set(),  # nothing of a file
    "sa2va-rl": {
        "dataset.path", "policy.checkpoint", "loop2_reward.meteor.lexicon",
    },
}  # fmt: skip
MOTION, PICTURE = f"{TEXTS}/new_joint_vecs/train003.npy", f"{PICTURES}/3.png"
CHANGED = [
    ("pretrain tmr", MOTION, "dataset.root"), ("pretrain mdm", MOTION, "dataset.root"),
    ("pretrain tmr", f"{TEXTS}/texts/val000.txt", "dataset.root"), ("pretrain mdm", f"{TEXTS}/Std.npy", "dataset.root"),
    ("pretrain t2m-evaluator", MOTION, "dataset.root"), ("grpo", MOTION, "dataset.root"),
    ("grpo", "runs/tiny/pretrain-tmr/tmr/model.safetensors", "reward.tmr-dense.weights"),
    ("grpo", "runs/tiny/pretrain-mdm/policy/model.safetensors", "policy.checkpoint"),
    ("grpo", "runs/tiny/pretrain-t2m-evaluator/evaluator/model.safetensors", "judge.weights"),
    ("sa2va-rl", PICTURE, "dataset.path"),
    ("sa2va-rl", "runs/tiny/pretrain-regions/policy/model.safetensors", "policy.checkpoint"),
]  # fmt: skip


@pytest.fixture
def work(own_runs: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A copy of the runs and their data, which a test may change; the current folder."""
    for name in ("MOTIONKIT_CACHE", "XDG_CACHE_HOME"):
        monkeypatch.setenv(name, str(own_runs / "cache"))
    shutil.copytree(own_runs, tmp_path / "work", ignore=shutil.ignore_patterns("cache"))
    monkeypatch.chdir(tmp_path / "work")
    return tmp_path / "work"


def change(path: Path) -> None:
    """Change a little of a file, and leave its size and its form."""
    if path.suffix == ".npy":
        np.save(path, np.load(path) * np.float32(1.01))
    elif path.suffix == ".safetensors":
        tensors = load_file(path)
        name = next(name for name, values in sorted(tensors.items()) if values.dtype.kind == "f" and values.any())
        tensors[name] = (tensors[name] * 1.01).astype(tensors[name].dtype)
        save_file(tensors, path)
    elif path.suffix == ".png":
        path.write_bytes(png(np.full((48, 48, 3), 90, np.uint8)))
    else:
        path.write_text(path.read_text().replace("someone", "anybody"))


@pytest.mark.parametrize("command", RUNS)
def test_a_run_says_what_it_read(command: str, own_runs: Path) -> None:
    inputs = json.loads((own_runs / place_of(command) / "run.json").read_text())["inputs"]
    assert set(inputs) == READ[command]
    assert all(inputs.values())


@pytest.mark.parametrize(("command", "file", "key"), CHANGED)
def test_a_run_does_not_go_on_with_other_content(command: str, file: str, key: str, work: Path) -> None:
    change(work / file)
    refused = typed(f"{command} --resume {place_of(command)}")
    assert refused.exit_code == 2
    said = " ".join(refused.stderr.split())
    assert "changed since the run began" in said
    assert key in said


def document(line: str) -> dict[str, Any]:
    done = typed(line, "--json", "--device", "cpu")
    assert done.exit_code == 0, done.stderr
    found: dict[str, Any] = json.loads(done.stdout)
    return found


@pytest.fixture
def seen(work: Path) -> Path:
    """The texts again, with the training clips among those to measure on, under other names."""
    root = Path(shutil.copytree(work / TEXTS, work / "seen"))
    names = (root / "train.txt").read_text().split()
    for name in names:
        (root / f"new_joint_vecs/{name}.npy").rename(root / f"new_joint_vecs/x{name}.npy")
        (root / f"texts/{name}.txt").rename(root / f"texts/x{name}.txt")
    held = (root / "val.txt").read_text().split()
    (root / "train.txt").write_text("\n".join((root / "test.txt").read_text().split()))
    (root / "test.txt").write_text("\n".join(f"x{name}" for name in names))
    (root / "val.txt").write_text("\n".join([*held, *(f"x{name}" for name in names)]))
    return root


LEFT = "left out 16 of 36 clips that the model was trained on."
TEXT_EVALS = {
    "text-to-motion": "eval text-to-motion {mdm} --mode debug --limit 4 --inference-timesteps 2 --out e",
    "grpo": "eval text-to-motion runs/tiny/grpo --mode debug --limit 4 --inference-timesteps 2 --out e",
    "compare": "eval compare {mdm} runs/tiny/grpo --limit 4 --inference-timesteps 2",
    "retrieval": "eval retrieval runs/tiny/pretrain-tmr",
}


@pytest.mark.parametrize("name", TEXT_EVALS)
def test_evaluations_of_texts_and_motions_leave_out_what_was_trained_on(name: str, seen: Path) -> None:
    line = TEXT_EVALS[name].format(mdm="runs/tiny/pretrain-mdm") + " --dataset humanml --dataset.root seen"
    found = document(line)
    assert found["notes"][0] == LEFT
    if name == "retrieval":
        assert found["candidates"]["normal"] == 20
    refused = typed(line.replace(" --out e", " --out f"), "--split", "test", "--device", "cpu")
    assert refused.exit_code == 2
    assert "the model was trained on all 16 clips of the test split" in " ".join(refused.stderr.split())
    assert not Path("f").exists()


def test_an_evaluation_does_not_go_on_with_other_clips(work: Path) -> None:
    line = "eval text-to-motion runs/tiny/pretrain-mdm --mode debug --limit 4 --inference-timesteps 2 --out e"
    assert typed(line, "--device", "cpu").exit_code == 0
    record = json.loads(Path("e/evaluation.json").read_text())
    Path("e/evaluation.json").write_text(json.dumps(record | {"status": "running"}))
    change(work / TEXTS / "new_joint_vecs/val001.npy")
    refused = typed(line, "--device", "cpu")
    assert refused.exit_code == 2
    assert "holds an evaluation with another data" in refused.stderr


def test_held_out_parts_leave_out_what_the_policy_was_trained_on_before(seen: Path) -> None:
    data = "--dataset humanml --dataset.root seen --device cpu --dry-run"
    model = json.loads(Path("runs/tiny/pretrain-mdm/config.json").read_text())["text"]["model"]
    words = RUNS["pretrain mdm"].partition("--num-steps")[2].format(text=model)
    done = typed(f"pretrain mdm --init runs/tiny/pretrain-mdm {data} --num-steps {words}")
    assert done.exit_code == 0, done.stderr
    assert "left out 16 of 36 validation clips" in " ".join((done.stdout + done.stderr).split())
    words = RUNS["grpo"].partition("--policy.checkpoint")[2]
    done = typed(f"grpo {data} --policy.checkpoint {words}")
    assert done.exit_code == 0, done.stderr
    assert "left out 16 of 36 held-out prompts" in " ".join((done.stdout + done.stderr).split())


def test_eval_mpl_knows_a_predictor_by_either_way_of_naming_it(work: Path) -> None:
    (work / "more").mkdir()
    for number in (0, 1, 20):
        write_clip(work / "more", number, "val")
    for model in ("runs/tiny/train-mpl", "--policy mpl --policy.checkpoint runs/tiny/train-mpl"):
        found = document(f"eval mpl {model} --data more --horizons 100 --stride 30 --long ''")
        assert found["notes"][0] == "left out 2 of 3 clips that the model was trained on."
        assert set(found["inputs"]) == {"data", "policy.checkpoint"}


def test_region_policies_are_not_measured_on_pictures_that_they_were_trained_on(work: Path) -> None:
    trained = len(json.loads(Path(place_of("sa2va-rl"), "policy/trained-on.json").read_text())["items"])
    other = Path(shutil.copytree(work / PICTURES, work / "other"))
    lines = [json.loads(line) | {"split": "val"} for line in (other / "regions.jsonl").read_text().splitlines()]
    total = len(lines)
    for number, split in enumerate(("train", "test", "val", "val")):
        picture = np.full((48, 48, 3), 40 * number, np.uint8)
        (other / f"new{number}.png").write_bytes(png(picture))
        lines.append(lines[0] | {"image": f"new{number}.png", "split": split})
    (other / "regions.jsonl").write_text("\n".join(map(json.dumps, lines)))
    data = "--dataset regions-jsonl --dataset.path other"
    found = document(f"eval sa2va runs/tiny/sa2va-rl {data}")
    assert 0 < trained < total
    assert found["notes"][0] == f"left out {trained} of {total + 2} regions that the model was trained on."
    assert found["regions"] == total + 2 - trained
    assert {"dataset.path", "policy.checkpoint"} == set(found["inputs"])
    again = typed(f"sa2va-rl {data} --policy.checkpoint runs/tiny/sa2va-rl --batch-size 1 --device cpu --dry-run")
    assert again.exit_code == 0, again.stderr
    assert f"left out {trained} of {total + 2} val regions" in " ".join(again.stdout.split())
    only = document(f"eval sa2va runs/tiny/sa2va-rl --dataset regions-jsonl --dataset.path '{PICTURES}'")
    assert not any("was trained on" in note for note in only["notes"])


def test_clips_of_the_own_run_are_all_measured(own_runs: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(own_runs)
    found = document("eval mpl runs/tiny/train-mpl --horizons 100 --stride 30 --long ''")
    assert found["data"] == [CLIPS]
    assert not any("left out" in note for note in found["notes"])
