"""Each run says what it read, also of a text model that moved, and names its data in its next lines."""

from __future__ import annotations

import html
import json
import shlex
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from safetensors.numpy import load_file, save_file
from typer.testing import Result

from motionkit.runs import next_commands, open_run, peek
from motionkit.text import load_encoder
from motionkit.text_to_motion.tmr.files import save_tmr
from motionkit.text_to_motion.tmr.model import ActorSizes, new_tmr

from ..made.bvh_files import write_bvh
from ..made.commands import assert_refused
from ..made.own_runs import CLIPS, PICTURES, RUNS, TEXTS, place_of, typed, write_clip
from ..made.regions import png
from .conftest import DATA, SHAPE, SHORT

PAIRS = {"dataset.root"}
READ = {
    "pretrain tmr": {*PAIRS, "text.model"},
    "pretrain mdm": {*PAIRS, "text.model"},
    "pretrain t2m-evaluator": PAIRS,
    "grpo": {
        *PAIRS, "policy.checkpoint", "policy.stats", "policy.text_model", "reward.tmr-dense.weights",
        "reward.tmr-dense.text_model", "reward.tmr-dense.device", "judge.weights", "evaluator.weights",
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
    assert_refused(typed(f"{command} --resume {place_of(command)}"), "changed since the run began", key)


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
    assert_refused(
        typed(line.replace(" --out e", " --out f"), "--split", "test", "--device", "cpu"),
        "the model was trained on all 16 clips of the test split",
    )
    assert not Path("f").exists()


def test_an_evaluation_does_not_go_on_with_other_clips(work: Path) -> None:
    line = "eval text-to-motion runs/tiny/pretrain-mdm --mode debug --limit 4 --inference-timesteps 2 --out e"
    assert typed(line, "--device", "cpu").exit_code == 0
    record = json.loads(Path("e/evaluation.json").read_text())
    Path("e/evaluation.json").write_text(json.dumps(record | {"status": "running"}))
    change(work / TEXTS / "new_joint_vecs/val001.npy")
    assert_refused(typed(line, "--device", "cpu"), "holds an evaluation with another data")


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


GRPO = (
    f"grpo --dataset humanml --dataset.root '{TEXTS}' --policy.checkpoint runs/tiny/pretrain-mdm --num-steps 1 "
    "--batch-size 2 --group-size 2 --threads 1 --train-timesteps 3 --inference-timesteps 3 --set heldout.prompts=4 "
    "--set audit.enabled=false --set heldout.all_steps=off --set heldout.points=0"
)


def test_grpo_takes_reward_judge_and_evaluator_of_finished_runs_on_the_same_data(work: Path) -> None:
    shutil.rmtree("runs/tiny/grpo")
    plan = document(f"{GRPO} --dry-run")["plan"]
    assert plan["notes"][:2] == [
        "reward: runs/tiny/pretrain-tmr, a finished run on these data",
        "evaluator: runs/tiny/pretrain-t2m-evaluator, a finished run on these data",
    ]
    assert plan["measured_by"].startswith("evaluator runs/tiny/pretrain-t2m-evaluator, trained on these data")
    shutil.copytree("runs/tiny/pretrain-tmr", "runs/tiny/other")
    found = document(f"{GRPO} --out r")
    config = json.loads(Path("r/config.json").read_text())
    used = config["reward"]["tmr-dense"]["weights"], config["judge"]["weights"]
    assert set(used) == {"runs/tiny/pretrain-tmr", "runs/tiny/other"}, "the judge is another one than the reward"
    assert config["evaluator"]["weights"] == "runs/tiny/pretrain-t2m-evaluator"
    assert f"judge {used[1]}; evaluator runs/tiny/pretrain-t2m-evaluator" in found["measured_by"]["said"]
    shutil.copytree("runs/tiny/pretrain-t2m-evaluator", "runs/tiny/z")  # as new, and another
    done = typed("motionkit grpo --resume r --num-steps 2 --device cpu")
    assert done.exit_code == 0, done.stderr
    assert json.loads(Path("r/config.json").read_text())["evaluator"] == config["evaluator"]
    # A run of a version without evaluators goes on without one, whatever was trained since.
    del config["evaluator"]
    Path("r/config.json").write_text(json.dumps(config))
    record = json.loads(Path("r/run.json").read_text())
    del record["inputs"]["evaluator.weights"]
    Path("r/run.json").write_text(json.dumps(record))
    done = typed("motionkit grpo --resume r --num-steps 3 --device cpu")
    assert done.exit_code == 0, done.stderr
    assert json.loads(Path("r/config.json").read_text())["evaluator"]["weights"] == "none"


def test_what_was_typed_wins_over_finished_runs(work: Path) -> None:
    plan = document(f"{GRPO} --reward physics --evaluator starter --judge tmr-dense --dry-run")["plan"]
    assert "of the starter pack, trained on other data than these" in plan["measured_by"]
    assert not any("finished run on these data" in note for note in plan.get("notes", ()))
    weights = "--reward.weights runs/tiny/pretrain-tmr"
    typed_weights = document(f"{GRPO} --reward tmr-dense {weights} --evaluator none --dry-run")["plan"]
    assert not any(note.startswith(("reward", "evaluator")) for note in typed_weights["notes"])


def test_without_judge_and_evaluator_grpo_says_which_rows_are_missing_and_what_makes_them(work: Path) -> None:
    shutil.move("runs", "elsewhere")
    line = GRPO.replace("runs/tiny/pretrain-mdm", "elsewhere/tiny/pretrain-mdm")
    done = typed(f"{line} --reward physics --out r --device cpu")
    assert done.exit_code == 0, done.stderr
    data = f"--dataset humanml --dataset.root '{TEXTS}'"
    wanted = (
        "the tables have no judge and no R@3 and no KID: no finished run on these data has the model that measures "
        f"them (motionkit pretrain tmr --set train.half=second --negatives stillness,place --seed 1 {data} and "
        f"motionkit pretrain t2m-evaluator {data})"
    )
    lines = Path("r/log.txt").read_text().splitlines()
    assert any(wanted in line for line in lines[: next(n for n, line in enumerate(lines) if "measuring" in line)])
    assert wanted[1:] in html.unescape(Path("r/report.html").read_text())
    assert json.loads(Path("r/config.json").read_text())["evaluator"]["weights"] == "none"


def test_eval_takes_the_evaluator_of_the_data_and_says_of_the_starters_that_it_is_not(work: Path) -> None:
    line = "eval text-to-motion runs/tiny/pretrain-mdm --mode debug --limit 4 --inference-timesteps 2 --out"
    found = document(f"{line} e")["evaluator"]
    assert (found["name"], found["said"].partition(", ")[2]) == (
        "runs/tiny/pretrain-t2m-evaluator", "trained on these data"
    )  # fmt: skip
    shutil.rmtree("runs/tiny/pretrain-t2m-evaluator")
    assert document(f"{line} f")["evaluator"]["said"] == "of the starter pack, trained on other data than these"


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


@pytest.mark.parametrize(
    ("line", "title"),
    [
        ("retrieval runs/tiny/pretrain-tmr", f"val split of {TEXTS} (layout humanml): retrieval"),
        ("sensitivity --reward physics --clips 4", f"val split of {TEXTS} (layout humanml)"),
        (
            "text-to-motion runs/tiny/grpo --evaluator runs/tiny/pretrain-t2m-evaluator --limit 4 --replications 1",
            f"val split of {TEXTS} (layout humanml), protocol mdm",
        ),
        ("sa2va runs/tiny/sa2va-rl --regions 2", "val split of my pictures (layout regions-jsonl)"),
    ],
)
def test_a_table_names_the_folder_not_its_layout_alone(
    line: str, title: str, own_runs: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(own_runs)
    data = f" --dataset humanml --dataset.root '{TEXTS}'" if "sensitivity" in line else ""
    out = "" if "retrieval" in line else f" --out {tmp_path / 'out'}"
    done = typed(f"eval {line} --device cpu{data}{out}")
    assert done.exit_code == 0, done.stderr
    assert title in " ".join(done.stdout.split())
    for page in tmp_path.rglob("*.html"):
        assert title.split(",")[0].split(":")[0] in page.read_text(), page.name


NAMED = {
    "reward-collect": ("max_steps = 8", "max-steps 8"), "ppo": ("max_steps = 8", "max-steps 8"),
    "reward-train": ("max_steps = 8", "max-steps 8", "runs/tiny/reward-collect"),
    "pretrain regions": ("lapse = 0.25", "lapse 0.25"),
    "sa2va-rl": (PICTURES,), "train-mpl": (CLIPS,), "pretrain mpl-encoder": (CLIPS,),
}  # fmt: skip
"""What a line has to name, itself or in its dry run: one of these; of the others the texts."""

TAKES_A_RUN = ("eval", "reward-train", "tune-bayes")
"""Commands that take the data from the run that the line names."""

MOCAP = {"name": "humanml", "root": "data/mocap"}

SHOWN = ("report", "runs")
"""Commands that show the run itself."""


@pytest.mark.parametrize("command", RUNS)
def test_each_line_works_as_typed_and_names_the_data(
    command: str, own_runs: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(own_runs)
    out = Path(place_of(command))
    lines = next_commands(peek(out))
    assert lines
    for line in lines:
        words = shlex.split(line)
        assert words[0] == "motionkit"
        done = typed(line) if words[1] in SHOWN else typed(line, "--dry-run")
        assert done.exit_code == 0, f"{line}\n{done.stderr}"
        named = NAMED.get(command, (TEXTS,))
        if words[1] not in SHOWN:
            assert any(one in line or one in done.stdout for one in (*named, str(out))), f"{line}\n{done.stdout}"
            if words[1] not in TAKES_A_RUN:
                assert any(one in line or one in done.stdout for one in named), f"{line}\n{done.stdout}"
        assert not any(word.startswith("/") for word in words), f"a run that was given as a relative path: {line}"


def test_grpo_takes_the_policy_and_the_reward_of_the_same_data(own_runs: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(own_runs)
    (line,) = (one for one in next_commands(peek("runs/tiny/pretrain-tmr")) if " grpo " in one)
    assert line.startswith("motionkit grpo --policy.checkpoint runs/tiny/")
    assert "--reward tmr-dense --reward.weights runs/tiny/pretrain-tmr/tmr" in line
    # What a run was judged by is not what the next one is trained by.
    assert line.endswith("--judge mdm-dense --judge.weights runs/tiny/pretrain-t2m-evaluator/evaluator")
    (other,) = (one for one in next_commands(peek("runs/tiny/pretrain-t2m-evaluator")) if " grpo " in one)
    assert other == line
    assert f"--dataset humanml --dataset.root '{TEXTS}'" in line


def trained(command: str, name: str, part: str, **train: str) -> str:
    """Make a finished run; return the words of its `grpo` line from the reward on."""
    config = {"run": {"out": f"runs/mocap/{name}"}, "dataset": MOCAP, "train": train}
    with open_run(command, config) as run:
        run.artifact(part).mkdir()
        run.finish()
    (line,) = (one for one in next_commands(peek(f"runs/mocap/{name}")) if one.startswith("motionkit grpo "))
    return line.partition(" --reward ")[2]


def test_a_model_of_the_other_half_is_the_judge(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The order of example 03: the reward on one half of the clips, the judge on the other, then the policy."""
    monkeypatch.chdir(tmp_path)
    with open_run("pretrain mdm", {"run": {"out": "runs/mocap/old"}, "dataset": MOCAP}) as run:
        run.artifact("policy").mkdir()
        run.finish()
    reward = "tmr-dense --reward.weights runs/mocap/tmr/tmr"
    judge = "--judge tmr-dense --judge.weights runs/mocap/judge/tmr"
    assert trained("pretrain tmr", "tmr", "tmr", half="first") == reward
    assert trained("pretrain tmr", "judge", "tmr", half="second") == f"{reward} {judge}"
    assert trained("pretrain mdm", "mdm", "policy") == f"{reward} {judge}"
    assert trained("pretrain tmr", "newer", "tmr", half="first") == f"{reward.replace('tmr/tmr', 'newer/tmr')} {judge}"


def test_a_model_that_judged_a_run_stays_the_judge(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    newest = "tmr-dense --reward.weights runs/mocap/b/tmr"
    with open_run("pretrain mdm", {"run": {"out": "runs/mocap/old"}, "dataset": MOCAP}) as run:
        run.artifact("policy").mkdir()
        run.finish()
    for name in "ab":
        trained("pretrain tmr", name, "tmr", half="all")
    assert trained("pretrain mdm", "mdm", "policy") == newest
    for place in ("runs/mocap/b", "runs/mocap/b/tmr"):
        judge = {"name": "tmr-dense", "weights": place}
        with open_run("grpo", {"run": {"out": f"runs/grpo/{len(place)}"}, "dataset": MOCAP, "judge": judge}) as run:
            run.finish()
        expected = "tmr-dense --reward.weights runs/mocap/a/tmr --judge tmr-dense --judge.weights runs/mocap/b/tmr"
        assert trained("pretrain mdm", f"mdm-{len(place)}", "policy") == expected


def test_a_reward_of_other_data_than_the_prompts_is_a_warning(own_runs: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(own_runs)
    (line,) = (one for one in next_commands(peek("runs/tiny/pretrain-tmr")) if " grpo " in one)
    assert "was trained on" not in typed(line, "--dry-run", "--device", "cpu").stderr
    weights = "--reward tmr-dense --reward.weights runs/tiny/pretrain-tmr/tmr"
    judge = "--judge tmr-dense --judge.weights runs/tiny/pretrain-tmr"
    done = typed(f"grpo {weights} {judge} --dry-run", *DATA)
    assert done.exit_code == 0, done.stderr
    said = " ".join(done.stderr.split())
    assert "warning: reward.tmr-dense was trained on " in said
    assert "warning: judge was trained on " in said
    assert f"{TEXTS}), and the prompts are of starter" in said


def test_next_lines_walk_the_road_of_the_readme(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """From files to grpo, each with the user's folders; what is there already is used and not made again."""
    monkeypatch.chdir(tmp_path)
    write_bvh(tmp_path / "walk.bvh", 150)
    Path("c.csv").write_text("clip,caption\nwalk,he walks\n")
    convert = "convert walk.bvh data/mocap --captions c.csv --overwrite"
    data = "--dataset humanml --dataset.root data/mocap"

    def finished(command: str, name: str, part: str) -> list[str]:
        with open_run(command, {"run": {"out": f"runs/{name}"}, "dataset": MOCAP}) as run:
            run.artifact(part).mkdir()
            run.finish()
        return next_commands(peek(f"runs/{name}"))

    Path("data").mkdir()
    said = typed(convert).stderr
    assert f"next: motionkit pretrain tmr --negatives all {data} --out runs/tmr\n" in said
    assert "motionkit view data/mocap" in said
    evaluator = f"motionkit pretrain t2m-evaluator {data} --out runs/evaluator"
    assert finished("pretrain tmr", "tmr", "tmr")[0] == evaluator
    starts = f"motionkit pretrain mdm --init starter {data} --out runs/mdm"
    assert finished("pretrain t2m-evaluator", "evaluator", "evaluator")[0] == starts
    grpo = f"motionkit grpo --policy.checkpoint runs/mdm {data} --reward tmr-dense --reward.weights runs/tmr/tmr"
    lines = finished("pretrain mdm", "mdm", "policy")
    assert grpo in lines
    assert not any("pretrain" in line for line in lines)
    assert f"next: {grpo}\n" in typed(convert).stderr
    # What measures is not trained on, though it is the newer one.
    assert "motionkit eval text-to-motion runs/grpo" in finished("grpo", "grpo", "policy")
    Path("c.csv").unlink()
    without = typed("convert walk.bvh data/silent").stderr
    assert "next: motionkit view data/silent\n" in without
    assert "pretrain" not in without
    assert "next: motionkit train-mpl --data data/mpl\n" in typed("convert walk.bvh data/mpl --to mpl").stderr
    assert "next:" not in typed("convert walk.bvh walk.glb").stderr


def test_without_a_policy_of_the_data_one_is_trained_first(
    own_runs: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)  # nothing below ./runs
    lines = next_commands(peek(own_runs / "runs/tiny/pretrain-tmr"))
    assert lines[0].startswith(f"motionkit pretrain t2m-evaluator --dataset humanml --dataset.root '{TEXTS}'")
    lines = next_commands(peek(own_runs / "runs/tiny/pretrain-mdm"))
    assert any(line.startswith("motionkit pretrain tmr --negatives all --dataset humanml") for line in lines)
    assert not any("a person walks" in line for line in lines)


def test_the_starter_is_gone_on_from_where_its_body_rate_and_text_fit(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)

    def line(text: dict[str, str], **data: object) -> str:
        config = {"dataset": MOCAP | data, "text": text}
        for command, part in (("pretrain t2m-evaluator", "evaluator"), ("pretrain tmr", "tmr")):
            with open_run(command, config) as run:
                run.artifact(part).mkdir()
                run.finish()
        return next_commands(peek(run.directory))[0]

    assert line({}).startswith("motionkit pretrain mdm --init starter --dataset humanml")
    assert line({"encoder": "minilm"}).startswith("motionkit pretrain mdm --init starter --dataset humanml")
    assert line({"encoder": "clip"}).startswith("motionkit pretrain mdm --dataset humanml")
    assert line({}, fps=30.0).startswith("motionkit pretrain mdm --dataset humanml")
    assert line({}, name="kit").startswith("motionkit pretrain mdm --dataset kit")


@pytest.mark.parametrize(
    "line",
    [
        "predict runs/tiny/train-mpl {out} --seconds 0.2",
        "eval mpl runs/tiny/train-mpl --horizons 100 --stride 30 --long ''",
    ],
)
def test_a_predictor_is_used_on_the_clips_of_its_run(
    line: str, own_runs: Path, tmp_path: Path, cli: Callable[..., Result], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(own_runs)
    done = typed(line.format(out=tmp_path / "motion.bvh"), "--json", "--device", "cpu")
    assert done.exit_code == 0, done.stderr
    assert '"clip": "clip' in done.stdout or CLIPS in done.stdout
    monkeypatch.chdir(tmp_path)
    assert_refused(
        typed(line.format(out=tmp_path / "other.bvh").replace("runs/", f"{own_runs}/runs/"), "--device", "cpu"),
        f"are not at {CLIPS}",
        "--start FOLDER" if "predict" in line else "--data FOLDER",
    )


def test_generate_asks_the_prompts_of_the_run_where_no_text_is_given(
    own_runs: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(own_runs)
    done = typed(f"generate {tmp_path}/made --policy.checkpoint runs/tiny/pretrain-mdm --limit 2 --device cpu")
    assert done.exit_code == 0, done.stderr
    assert "someone " in (tmp_path / "made/motions.json").read_text()
    forgot = typed("generate 'a person walks' --policy.checkpoint runs/tiny/pretrain-mdm --device cpu")
    assert forgot.exit_code == 2


Cli = Callable[..., Result]
PRETRAIN = (*DATA, *SHAPE, *SHORT, "--set", "model.diffusion_steps=10", "--text.encoder", "clip")


@pytest.fixture
def moved(tiny: Any, clip: Path, cli: Cli) -> Path:
    """A run folder ``mdm``, and ``run``, a grpo run on it; their text model has moved since. Returns its new place."""
    shutil.copytree(clip, "clip")
    assert (made := cli("pretrain", "mdm", *PRETRAIN, "--text.model", "clip", "--out", "mdm")).exit_code == 0, (
        made.stderr
    )
    run = cli(*tiny.grpo("run", steps=1), "--policy.checkpoint", "mdm", "--policy.text-model", "clip")
    assert run.exit_code == 0, run.stderr
    return Path("clip").rename("moved")


def test_resume_takes_the_new_place_of_the_same_model(moved: Path, other_clip: Path, cli: Cli) -> None:
    assert_refused(
        cli("grpo", "--resume", "run", "--num-steps", 2), "there is no folder clip", "--policy.text-model DIR"
    )
    assert_refused(
        cli("grpo", "--resume", "run", "--num-steps", 2, "--policy.text-model", other_clip), "another clip text model"
    )
    result = cli("grpo", "--resume", "run", "--num-steps", 2, "--policy.text-model", moved)
    assert result.exit_code == 0, result.stderr
    assert json.loads(Path("run/config.json").read_text())["policy"]["text_model"] == "moved"
    other = cli("pretrain", "mdm", "--resume", "mdm", "--text.model", other_clip)
    assert_refused(other, "text.model was 'clip', is", "other-clip")
    again = cli("pretrain", "mdm", "--resume", "mdm", "--text.model", moved)
    assert again.exit_code == 0, again.stderr


def test_generate_uses_the_folder_that_the_run_was_trained_with(moved: Path, other_clip: Path, cli: Cli) -> None:
    words = ("generate", "a man walks", "out", "--policy.checkpoint", "run", "--durations", "1", "--device", "cpu")
    assert_refused(cli(*words), "there is no such folder", str(Path("clip").absolute()), "--policy.text-model DIR")
    moved.rename("clip")
    result = cli(*words)
    assert result.exit_code == 0, result.stderr
    start = cli("pretrain", "mdm", *PRETRAIN, "--text.model", other_clip, "--init", "mdm", "--out", "next")
    assert_refused(start, "another clip text model")


def test_a_clip_folder_where_distilbert_belongs(clip: Path, tiny: Any, cli: Cli) -> None:
    encoder = load_encoder("clip", model=str(clip))
    save_tmr(Path("tmr"), new_tmr(ActorSizes(263, 8, 16, 1, 2), torch.zeros(263), torch.ones(263), encoder))
    config = json.loads(Path("tmr/config.json").read_text())
    Path("tmr/config.json").write_text(json.dumps({**config, "text": {"encoder": "distilbert"}}))
    words = tiny.grpo("run", "--reward.weights", "tmr", "--reward.text-model", clip)
    assert_refused(cli(*words), "holds a model of type clip, the distilbert encoder runs distilbert")
    assert not Path("run").exists()
