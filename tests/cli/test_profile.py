"""``motionkit profile``: what it prints, writes and refuses."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import pytest
from typer.testing import Result

from motionkit.formats.mpl import write_mpl_npz
from motionkit.motion import Clip
from motionkit.starter import Order, perform
from motionkit_predictor.data.files import _motion

from ..made.bvh_files import write_bvh
from ..made.commands import assert_refused

Run = Callable[..., Result]
SEED_KEYS = {
    "n_clips", "total_frames", "avg_seq_len", "median_seq_len", "yaw_mean_deg", "yaw_std_deg", "speed_mean",
    "speed_std", "bone_angle_mean_deg", "bone_angle_std_deg", "complexity",
}  # fmt: skip


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """Three walks, one of them with a rest pose first."""
    clips = tmp_path / "clips"
    clips.mkdir()
    for number in range(3):
        write_bvh(clips / f"walk{number}.bvh", 90 + 30 * number, rest=number == 2)
    return clips


def test_json_holds_every_figure_and_nothing_is_written(cli: Run, folder: Path) -> None:
    result = cli("profile", folder, "--json")
    assert result.exit_code == 0, result.stderr
    document = json.loads(result.stdout)
    assert document["command"] == "profile"
    assert document["status"] == "done"
    assert set(document) >= SEED_KEYS
    assert document["n_clips"] == 3
    assert document["total_frames"] == 360
    assert document["speed_mean"] == pytest.approx(1.0, abs=0.2)
    assert document["findings"]["rest-pose"] == {"error": 1, "warning": 0}
    assert {one["key"] for one in document["suggested"]} >= {"epochs", "batch", "lr", "freerun_stage_schedule"}
    assert [clip["clip"] for clip in document["clips"]] == ["walk0", "walk1", "walk2"]
    assert document["config"] is None
    assert list(Path.cwd().iterdir()) == []


def test_the_page_is_written(cli: Run, folder: Path) -> None:
    result = cli("profile", folder, "--html", "page.html")
    assert result.exit_code == 0
    page = Path("page.html").read_text(encoding="utf-8")
    assert "Profile of clips" in page
    assert f"motionkit profile {folder} --html page.html" in page.replace("<span>", "").replace("</span>", "")
    assert "<svg" in page
    assert cli("profile", folder, "--html", "page.html").exit_code == 0, "its own page is made again"
    Path("notes.html").write_text("my work")
    for config in ([], ["--write-config", "notes.html"], ["--write-config", "s.json", "--overwrite"]):
        refused = cli("profile", folder, "--html", "notes.html", *config)
        assert (refused.exit_code, Path("notes.html").read_text()) == (2, "my work")
        assert "not a page that profile made" in refused.stderr
    assert not Path("s.json").exists()
    assert cli("profile", folder, "--html", "no/page.html").exit_code == 0, "a folder that is missing is made"
    assert Path("no/page.html").is_file()


def test_settings_are_merged_and_what_differs_is_said(cli: Run, folder: Path) -> None:
    path = Path("phase.json")
    path.write_text('{\n  // mine\n  "epochs": 30,\n  "data": "x"\n}\n')
    result = cli("profile", folder, "--write-config", path, "--json")
    assert result.exit_code == 0, result.stderr
    text = path.read_text()
    assert "// mine" in Path("phase.json.bak").read_text()
    assert '"epochs": 30' in text
    assert '"dataset_profile"' in text
    config = json.loads(result.stdout)["config"]
    assert config["kept"] == {
        "epochs": {"value": 30, "suggested": 60}, "data": {"value": "x", "suggested": str(folder)},
    }  # fmt: skip
    assert "keeps data = x" in result.stderr  # its settings would be of other clips
    assert "keeps epochs = 30; suggested is 60" in result.stderr
    written = json.loads(text)
    assert written["freerun_stage_schedule"][-1]["range"][1] == 30  # follows the 30 epochs that stay
    replaced = cli("profile", folder, "--write-config", path, "--overwrite")
    assert replaced.exit_code == 0
    written = json.loads(path.read_text())
    assert (written["epochs"], written["freerun_stage_schedule"][-1]["range"][1]) == (60, 60)


@pytest.mark.parametrize("as_json", [False, True])
def test_one_bad_file_does_not_stop_the_others(cli: Run, folder: Path, as_json: bool) -> None:
    (folder / "broken.bvh").write_text("HIERARCHY\nno more")
    result = cli("profile", folder, *(["--json"] if as_json else []))
    assert result.exit_code == 1
    assert "broken.bvh" in result.stderr
    assert "Traceback" not in result.stderr
    if as_json:
        document = json.loads(result.stdout)
        assert document["status"] == "failed"
        assert document["n_clips"] == 3
        assert len(document["failed"]) == 1
        assert document["error"]["code"] == 1
    else:
        assert result.stderr.count("1 file could not be read") == 1


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["nowhere"], "there is no nowhere"),
        (["{folder}", "--overwrite"], "--write-config only"),
        (["{folder}", "--write-config", "a.ini"], "neither JSON, TOML nor YAML"),
        (["{folder}", "--write-config", "no/a.json"], "no folder no"),
        (["{folder}", "--html", "{folder}"], "is a folder; the page is one file"),
        (["{folder}", "--clips", 7], "--clips 7 acts with starter only"),
    ],
)
def test_what_is_refused_is_refused_before_anything_is_read(
    cli: Run, folder: Path, words: list[object], message: str
) -> None:
    assert_refused(cli("profile", *(str(word).format(folder=folder) for word in words)), message)
    assert list(Path.cwd().iterdir()) == []


def test_a_table_brings_captions_splits_and_groups(cli: Run, folder: Path) -> None:
    Path("table.csv").write_text(
        "clip,text,split,group\nwalk0,a man walks,train,g\nwalk1,a man strolls,test,g\nwalk2,,val,h\n"
    )
    result = cli("profile", folder, "--captions", "table.csv", "--json")
    assert result.exit_code == 0, result.stderr
    document = json.loads(result.stdout)
    assert document["splits"] == {"train": 1, "test": 1, "val": 1}
    assert document["leaks"] == ["g"]
    assert (document["captions"]["count"], document["captions"]["clips_without"]) == (2, 1)
    assert "1 group has clips in several splits, so held-out figures will flatter: g." in result.stderr
    assert_refused(cli("profile", folder, "--split-column", "split"), "no table")


def test_without_a_path_it_is_the_starter(cli: Run) -> None:
    result = cli("profile", "--clips", 6, "--json")
    assert result.exit_code == 0, result.stderr
    document = json.loads(result.stdout)
    assert document["splits"] == {"train": 6, "test": 1, "val": 1}
    assert document["captions"]["clips_without"] == 0
    assert document["captions"]["verbs"]
    assert not [kind for kind, number in document["findings"].items() if number["error"]]


def test_a_clip_in_several_splits_is_a_leak_in_words_and_in_json(cli: Run, shared: Path) -> None:
    folder = shared / "fixtures" / "mdm" / "mini_humanml3d" / "dataset" / "HumanML3D"
    result = cli("profile", folder, "--json")
    document = json.loads(result.stdout)
    assert document["splits"] == {"train": 15, "val": 8, "test": 8}
    assert len(document["leaks"]) == len(document["listed_twice"]) > 0
    assert "are listed in several splits" in result.stderr
    shown = cli("profile", folder)
    assert "8 clips are listed in several splits (train, val and test)" in " ".join(shown.stderr.split())
    assert "train, val and test: 000000, 000002" in shown.stdout


def test_clips_without_rotations_get_no_settings_of_the_predictor(cli: Run) -> None:
    assert cli("convert", "starter", "data", "--clips", 8).exit_code == 0
    shown = cli("profile", "data", "--write-config", "own.json")
    assert shown.exit_code == 0, shown.stderr
    assert "freerun_stage_schedule" not in shown.stdout
    said = " ".join(shown.stderr.split())
    assert "no settings are suggested: those of the motion predictor are for clips with rotations" in said
    assert "next:" not in said
    assert "freerun_stage_schedule" in cli("profile", "--clips", 6).stdout


def test_the_written_config_is_one_that_train_mpl_reads(cli: Run, folder: Path) -> None:
    assert cli("profile", folder, "--write-config", "exp.json").exit_code == 0
    result = cli("train-mpl", "--config", "exp.json", "--data", folder, "--dry-run", "--json")
    assert result.exit_code == 0, result.stderr
    settings, suggested = json.loads(result.stdout)["settings"], json.loads(Path("exp.json").read_text())
    assert settings["run"]["epochs"] == suggested["epochs"]
    assert settings["train"]["seq_len"] == suggested["seq_len"]
    assert [stage["range"] for stage in settings["stages"]] == [
        stage["range"] for stage in suggested["freerun_stage_schedule"]
    ]
    assert "dataset_profile: statistics" in result.stderr


def test_written_settings_name_the_clips_that_were_measured(cli: Run) -> None:
    Path("my clips").mkdir()
    for number in range(6):
        made = _motion(perform([Order("walk/normal", 60, number)], fps=30.0)[0])
        split = "train" if number < 4 else "val"
        write_mpl_npz(Path("my clips") / f"clip{number}.npz", Clip(made, split=split), source_hash="")
    done = cli("profile", "my clips", "--write-config", "suggested.json")
    assert done.exit_code == 0, done.stderr
    assert json.loads(Path("suggested.json").read_text())["data"] == "my clips"
    assert "next: motionkit train-mpl --config suggested.json" in done.stderr
    planned = cli("train-mpl", "--config", "suggested.json", "--dry-run")
    assert planned.exit_code == 0, planned.stderr
    assert "data" in planned.stdout
    assert "= my clips  (suggested.json" in planned.stdout
    # A file of before does not say.
    kept = json.loads(Path("suggested.json").read_text())
    del kept["data"]
    Path("old.json").write_text(json.dumps(kept))
    assert "does not name; --data does" in cli("train-mpl", "--config", "old.json", "--dry-run").stderr


def test_suggestions_follow_the_clips_to_train_on(cli: Run) -> None:
    """Held-out clips, here many and long ones, count in the tables and decide no setting."""
    suggested = {}
    for name, held_out in (("alone", 0), ("both", 6)):
        Path(name).mkdir()
        for number in range(4 + held_out):
            train = number < 4
            movement = "walk/normal" if train else ("run/normal", "jump/high")[number % 2]
            made = _motion(perform([Order(movement, 60 if train else 300, number)], fps=30.0)[0])
            clip = Clip(made, split="train" if train else ("val", "test")[number % 2])
            write_mpl_npz(Path(name) / f"clip{number}.npz", clip, source_hash="")
        document = json.loads(cli("profile", name, "--json").stdout)
        assert document["n_clips"] == 4 + held_out
        suggested[name] = document["suggested"]
    assert suggested["both"] == suggested["alone"]
    assert "240 frames to train on: 60, 45" in suggested["both"][0]["reason"]


def test_nothing_readable_is_an_error(cli: Run, tmp_path: Path) -> None:
    (tmp_path / "broken.bvh").write_text("nothing")
    assert_refused(cli("profile", tmp_path / "broken.bvh", "--write-config", "a.json"), "none of 1 source could")
    assert not Path("a.json").exists()
