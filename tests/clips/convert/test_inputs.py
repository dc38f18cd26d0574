"""What is found in folders: everything is read or said, and what cannot be read costs nothing else."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
from typer.testing import Result

from motionkit.clips.convert import convert, load_clips, open_sources
from motionkit.clips.convert.feature_target import FeatureTarget
from motionkit.errors import MotionkitError
from motionkit.formats.table import read_clips
from motionkit.weights import read_array

from ...made.bodies import walker
from ...made.bvh_files import write_bvh

Cli = Callable[..., Result]


@pytest.fixture
def locked(monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder with a readable clip, and a sub-folder that the system does not let in (tests may run as root)."""
    folder = Path("in")
    (folder / "closed").mkdir(parents=True)
    write_bvh(folder / "a.bvh", 60)
    write_bvh(folder / "closed/b.bvh", 60)
    listing = Path.iterdir

    def refuse(self: Path):
        if self.name == "closed":
            raise PermissionError(13, "Permission denied", str(self))
        return listing(self)

    monkeypatch.setattr(Path, "iterdir", refuse)
    return folder


def test_a_folder_that_cannot_be_opened_is_one_failure(cli: Cli, locked: Path) -> None:
    result = cli("convert", locked, "out", "--to", "npz")
    assert result.exit_code == 1
    assert "in/closed: Permission denied; what is in it was not read. Fix: check its permissions." in result.stderr
    assert Path("out/a.npz").is_file()
    assert cli("convert", "--check", locked).exit_code == 1
    assert cli("profile", locked).exit_code == 1
    alone = cli("convert", locked / "closed", "other", "--to", "npz")
    assert alone.exit_code == 2
    assert "Permission denied" in alone.stderr
    assert not Path("other").exists()


def test_links_are_read_once_and_dangling_ones_fail(cli: Cli) -> None:
    Path("in").mkdir()
    write_bvh(Path("in/a.bvh"), 60)
    Path("in/b.bvh").symlink_to("a.bvh")
    result = cli("convert", "in", "out", "--to", "npz")
    assert result.exit_code == 0, result.stderr
    assert [path.name for path in Path("out").glob("*.npz")] == ["a.npz"]
    Path("in/c.bvh").symlink_to("gone.bvh")
    result = cli("convert", "in", "out", "--to", "npz", "--overwrite")
    assert result.exit_code == 1
    assert "in/c.bvh" in result.stderr


@pytest.mark.parametrize("text", ["", "{}", "[]", " {} \n", '{"meta": {"fps": 60, "joi', "\ufeff"])
def test_empty_and_cut_json_are_failures(cli: Cli, text: str) -> None:
    Path("in").mkdir()
    write_bvh(Path("in/a.bvh"), 60)
    Path("in/b.json").write_text(text)
    for number in range(7):
        Path(f"in/settings{number}.json").write_text('{\n"epochs": 3, // few\n}')
    result = cli("convert", "in", "out", "--to", "npz", "--json")
    assert result.exit_code == 1
    document = json.loads(result.stdout)
    assert list(document["failed"]) == ["in/b.json"]
    assert sorted(document["skipped"]) == [f"in/settings{number}.json" for number in range(7)]
    assert "7 file(s) hold no motion" in result.stderr
    assert "settings4.json, ..." in result.stderr


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["--source-fps", "5"], "--source-fps 5.0 does not act"),
        (["--smpl-model", "nothing"], "--smpl-model nothing does not act"),
        (["--hierarchy", "nothing"], "--hierarchy nothing does not act"),
        (["--offsets", "nothing"], "--offsets nothing does not act"),
        (["--rot6d-columns", "xz"], "--rot6d-columns xz does not act"),
    ],
)
def test_options_that_no_reader_looks_at_are_refused(cli: Cli, words: list[str], said: str) -> None:
    write_bvh(Path("a.bvh"), 60)
    for line in (["convert", "a.bvh", "out.npz"], ["convert", "--check", "a.bvh"], ["profile", "a.bvh"]):
        result = cli(*line, *words)
        assert result.exit_code == 2
        assert said in result.stderr
    assert cli("convert", "a.bvh", "out.npz", "--up", "y", "--units", "cm").exit_code == 0


def test_options_act_where_one_reader_looks_at_them(cli: Cli) -> None:
    write_bvh(Path("a.bvh"), 60)
    np.save("b.npy", walker(60).float().numpy())
    assert cli("convert", "a.bvh", "b.npy", "out", "--to", "npz", "--source-fps", "30").exit_code == 0
    assert read_clips("out/b.npz")[0].motion.fps == 30
    Path("c.json").write_text('{"Frames": []}')
    result = cli("convert", "c.json", "b.npy", "other", "--to", "npz", "--hierarchy", "none.json")
    assert result.exit_code == 2
    assert "--hierarchy none.json: there is no such file" in result.stderr


def test_joints_keep_the_captions_and_splits_beside_them(tmp_path: Path) -> None:
    write_bvh(tmp_path / "in.bvh", 150)
    convert(open_sources([tmp_path / "in.bvh"]).sources, tmp_path / "set", FeatureTarget())
    (tmp_path / "set/texts/in.txt").write_text("a walk#a/DET walk/NOUN#0.0#0.0\n")
    (tmp_path / "set/test.txt").write_text("in\n")
    (tmp_path / "set/train.txt").write_text("")
    for path in (tmp_path / "set/new_joint_vecs").iterdir():
        path.unlink()
    (tmp_path / "set/new_joint_vecs").rmdir()
    (tmp_path / "set/convert.json").unlink()
    (source,) = open_sources([tmp_path / "set"]).sources
    (clip,) = source.load()
    assert source.key == "in"
    assert clip.split == "test"
    assert clip.texts == ("a walk",)


def test_too_little_memory_is_a_failure_of_one_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    write_bvh(tmp_path / "a.bvh", 60)

    def full(*_: object) -> None:
        raise MemoryError

    monkeypatch.setattr("motionkit.formats.bvh.read.parse_frames", full)
    (source,) = open_sources([tmp_path / "a.bvh"]).sources
    with pytest.raises(MotionkitError, match=r"a\.bvh takes more memory than there is"):
        load_clips(source)


def test_a_file_that_may_not_be_read_is_not_to_be_downloaded_again(tmp_path: Path, monkeypatch) -> None:
    np.save(tmp_path / "a.npy", np.zeros(3))

    def closed(*_: object) -> None:
        raise PermissionError(13, "Permission denied")

    monkeypatch.setattr(Path, "open", closed)
    with pytest.raises(MotionkitError, match="Permission denied") as caught:
        read_array(tmp_path / "a.npy")
    assert caught.value.fix == "check its permissions."
