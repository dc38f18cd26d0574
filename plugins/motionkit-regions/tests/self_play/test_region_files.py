"""`motionkit sa2va-rl` on regions from files: every format, from the command line's settings to the page."""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from PIL import Image

from motionkit.errors import MotionkitError
from motionkit_regions.pretrain import PretrainRegions
from motionkit_regions.pretrain_settings import PretrainRegionsSettings
from motionkit_regions.self_play.settings import Sa2vaRlSettings
from motionkit_regions.self_play.train import Sa2vaRl
from motionkit_regions.small import open_regions
from motionkit_regions.small_settings import RegionOptions
from tests.made.commands import assert_refused
from tests.made.regions import grasp_rows, write_coco, write_finetune, write_grasp, write_jsonl

QUICK = "--set heldout.every=0 --set checkpoint.every=2"


@pytest.fixture(autouse=True)
def _own_cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("MOTIONKIT_CACHE", str(tmp_path / "cache"))


def write(name: str, folder: Path) -> Path:
    if name == "grasp-any-region":
        pytest.importorskip("pyarrow", reason="pyarrow is not installed (extra sa2va)")
        return write_grasp(folder, grasp_rows(40))
    return {"regions-jsonl": write_jsonl, "coco-refexp": write_coco, "sa2va-finetune": write_finetune}[name](folder)


@pytest.mark.parametrize("name", ["regions-jsonl", "coco-refexp", "sa2va-finetune", "grasp-any-region"])
def test_two_steps_of_each_format(tmp_path: Path, cli: Callable[..., Any], name: str) -> None:
    folder, out = write(name, tmp_path / "data"), tmp_path / "run"
    words = f"sa2va-rl --dataset {name} --dataset.path {folder} --num-steps 2 --batch-size 2 --group-size 2 --out {out}"
    done = cli(*words.split(), "--set", "heldout.regions=4", "--json")
    assert done.exit_code == 0, done.stderr
    document = json.loads(done.stdout)
    assert document["steps"] == 2
    record = json.loads((out / "run.json").read_text())
    assert len(record["inputs"]["dataset.path"]) == 64
    assert f"{name}: " in (out / "log.txt").read_text()
    shown = document["heldout"]["cycle_iou_greedy"]["n"]
    assert shown >= 2
    assert (out / "report.html").read_text().count('<div class="strip wide"') == min(shown, 24)


def test_a_run_goes_on_where_the_same_files_lie_and_not_with_others(tmp_path: Path, cli: Callable[..., Any]) -> None:
    folder, out = write_jsonl(tmp_path / "data"), tmp_path / "run"
    line = (
        "sa2va-rl --dataset regions-jsonl --num-steps 4 --batch-size 2 --group-size 2 --set heldout.regions=4 "
        f"--set checkpoint.every=2 {QUICK}"
    )
    assert cli(*line.split(), "--dataset.path", folder, "--out", tmp_path / "whole").exit_code == 0
    shutil.copytree(tmp_path / "whole", out)
    half = out / "checkpoints/step-00000002"
    lines = (folder / "regions.jsonl").read_text()
    (folder / "regions.jsonl").write_text(lines.replace('"a ', '"one '))
    assert_refused(
        cli("sa2va-rl", "--resume", half), f"the content of dataset.path ({folder}) has changed since the run began"
    )
    (folder / "regions.jsonl").write_text(lines)
    picture = next(path for path in sorted(folder.rglob("*")) if path.suffix in (".png", ".bmp", ".jpg"))
    before = picture.read_bytes()
    picture.write_bytes(before[:-20] + bytes(20))  # repainted, as large as it was
    assert_refused(
        cli("sa2va-rl", "--resume", half), f"the content of dataset.path ({folder}) has changed since the run began"
    )
    picture.write_bytes(before)
    (folder / "regions.jsonl").write_text(lines.replace('"a ', '"one '))
    (tmp_path / "elsewhere").mkdir()
    moved = folder.rename(tmp_path / "elsewhere/moved")
    go_on = ["sa2va-rl", "--resume", half, "--dataset.path", moved]
    assert_refused(cli(*go_on), "cannot resume")
    (moved / "regions.jsonl").write_text(lines)
    (out / "policy-last/model.safetensors").unlink()
    assert cli(*go_on).exit_code == 0
    one, two = ((place / "policy-last/model.safetensors").read_bytes() for place in (out, tmp_path / "whole"))
    assert one == two


def test_the_plan_says_what_was_left_out(tmp_path: Path) -> None:
    trainer = Sa2vaRl(settings(write_jsonl(tmp_path / "data", caption="")))
    trainer.prepare()
    said = str(trainer.describe()["data"])
    assert said.endswith("of 39 images; left out: the caption is empty: 1 (line 1)")


def of_another_size(folder: Path) -> Path:
    """Pictures of 64 x 40 pixels and of other shapes, masks as polygons in them, words that shapes do not have."""
    write_jsonl(folder, 12)
    for number, path in enumerate(sorted(folder.glob("*.png"))):
        Image.open(path).resize((64, 40 + 8 * (number % 3))).save(path)
    lines = [
        json.loads(line) | {"mask": [[0, 0, 32, 0, 32, 20, 0, 20]], "caption": f"a wooden {name} at the left"}
        for line, name in zip((folder / "regions.jsonl").read_text().splitlines(), 6 * ("door", "box"), strict=True)
    ]
    (folder / "regions.jsonl").write_text("\n".join(map(json.dumps, lines)))
    return folder


def test_images_that_the_policy_does_not_see_are_refused_before_the_start(tmp_path: Path) -> None:
    folder = of_another_size(tmp_path / "data")
    with pytest.raises(MotionkitError) as error:
        Sa2vaRl(settings(folder, batch_size=2)).prepare()
    assert error.value.code == 2
    assert "--policy.resize" in error.value.fix


def test_own_pictures_of_any_size_are_squeezed_and_the_run_says_so(tmp_path: Path, cli: Callable[..., Any]) -> None:
    folder, out = of_another_size(tmp_path / "data"), tmp_path / "run"
    words = f"sa2va-rl --dataset regions-jsonl --dataset.path {folder} --policy.resize --num-steps 2 --batch-size 2"
    done = cli(*words.split(), "--group-size", 2, "--out", out, "--set", "heldout.every=1", "--json")
    assert done.exit_code == 0, done.stderr
    document = json.loads(done.stdout)
    assert set(document["heldout"]) == {  # what the truth is needed for is left out
        "cycle_iou_greedy", "judge_iou_greedy", "words_greedy", "meteor_greedy", "cider_greedy", "referring_iou",
        "no_target",
    }  # fmt: skip
    assert document["attributes"] == {}
    page = (out / "report.html").read_text()
    for said in (
        "The policy sees every image squeezed to 48 x 48 pixels, masks of 24 x 24.",
        "The policy knows 67% of the words",  # not wooden, not door
        "regions-jsonl does not say what its images show: uniqueness, attributes named rightly",
    ):
        assert said in page
    # The run's policy needs no option any more, and its page says the size too.
    shown = cli("eval", "sa2va", out, "--out", tmp_path / "evaluation", "--regions", 2)
    assert shown.exit_code == 0, shown.stderr
    assert "squeezed to 48 x 48 pixels" in (tmp_path / "evaluation/evaluation.html").read_text()
    assert "uniqueness" not in shown.stdout
    assert "uniqueness" in shown.stderr  # left out, by name


def test_a_small_policy_learns_the_words_of_own_pictures(tmp_path: Path, cli: Callable[..., Any]) -> None:
    folder, out = of_another_size(tmp_path / "data"), tmp_path / "pretrained"
    line = f"pretrain regions --dataset regions-jsonl --dataset.path {folder} --num-steps 3 --batch-size 4"
    assert_refused(cli(*line.split(), "--out", out), "--set model.resize=true")
    small = ("width=16", "layers=1", "vision=8", "channels=8", "prompt=8")
    sizes = [word for one in small for word in ("--set", f"model.{one}")]
    done = cli(*line.split(), "--out", out, *sizes, "--set", "model.resize=true", "--set", "train.val_every=1")
    assert done.exit_code == 0, done.stderr
    document = json.loads((out / "policy/policy.json").read_text())
    assert set(document["words"]) == {"a", "wooden", "door", "box", "at", "the", "left"}
    assert document["words"][:3] == ["a", "at", "left"]  # the most frequent first, then by the alphabet
    run = tmp_path / "run"
    words = f"sa2va-rl --dataset regions-jsonl --dataset.path {folder} --policy.checkpoint {out} --num-steps 1"
    done = cli(*words.split(), "--batch-size", 2, "--group-size", 2, "--out", run, "--set", "heldout.every=0")
    assert done.exit_code == 0, done.stderr
    page = (run / "report.html").read_text()
    assert "squeezed to 48 x 48" in page
    assert "of the words" not in page  # it knows them all


def test_captions_of_other_letters_are_refused(tmp_path: Path) -> None:
    folder = write_jsonl(tmp_path / "data", 12)
    lines = [json.loads(line) | {"caption": "红色的圆"} for line in (folder / "regions.jsonl").read_text().splitlines()]
    (folder / "regions.jsonl").write_text("\n".join(map(json.dumps, lines)))
    chosen = {"dataset": {"name": "regions-jsonl", "path": folder}, "model": {"resize": True}}
    with pytest.raises(MotionkitError, match="no words of the letters a to z"):
        PretrainRegions(PretrainRegionsSettings.model_validate(chosen)).prepare()


def settings(folder: Path, **rollout: Any) -> Sa2vaRlSettings:
    return Sa2vaRlSettings.model_validate({"dataset": {"name": "regions-jsonl", "path": folder}, "rollout": rollout})


def test_fewer_regions_than_a_step_takes(tmp_path: Path) -> None:
    with pytest.raises(MotionkitError, match="a step takes 8"):
        Sa2vaRl(settings(write_jsonl(tmp_path / "data", 5))).prepare()


def test_words_that_the_policy_does_not_know_are_left_out_and_said_before_the_first_step(
    tmp_path: Path, cli: Callable[..., Any]
) -> None:
    folder, out = write_jsonl(tmp_path / "data"), tmp_path / "run"
    path = folder / "regions.jsonl"
    rows = [json.loads(line) for line in path.read_text().splitlines()]
    # A star is none of the built-in shapes: one word of five.
    path.write_text("\n".join(json.dumps({**row, "caption": "a red star on top"}) for row in rows))
    line = "sa2va-rl --dataset regions-jsonl --policy.resize --num-steps 3 --batch-size 2 --group-size 2"
    found = cli(*line.split(), *QUICK.split(), "--set", "heldout.regions=2", "--dataset.path", folder, "--out", out)
    assert found.exit_code == 0, found.stderr
    known = open_regions(RegionOptions()).known_words(["a red star on top"])
    assert 0 < known < 1
    said = " ".join(found.stderr.split())
    warning = said.index(f"the policy knows {known:.0%} of the words of 24 training captions")
    assert warning < said.index("measuring")
    lines = [json.loads(text) for text in (out / "metrics.jsonl").read_text().splitlines()]
    assert len(lines) == 3
    assert all(0 < line["supervised/loss"] < 20 for line in lines)
    assert all(line["supervised/unknown_words"] == pytest.approx(1 - known) for line in lines)
