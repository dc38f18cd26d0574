"""What is found in folders: everything is read or said, gaps too, and what cannot be read costs nothing else."""

from __future__ import annotations

import errno
import json
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from typer.testing import Result

from motionkit.clips.convert import FileTarget, convert, convert_file, open_sources
from motionkit.clips.convert.feature_target import FeatureTarget
from motionkit.clips.convert.run import write_clip
from motionkit.clips.profile.document import profile_document
from motionkit.clips.profile.statistics import profile_sources
from motionkit.clips.walk import ClipOutcome, Job, work
from motionkit.errors import MotionkitError
from motionkit.formats.bvh import read_bvh
from motionkit.formats.table import read_clips
from motionkit.motion import HUMANML, Caption, Clip, JointMotion, joints_to_features
from motionkit.starter import generate
from motionkit.weights import read_array

from ...made.bodies import walker
from ...made.bvh_files import write_bvh
from ...made.commands import assert_refused, run
from ...made.glb_files import keyed
from ...made.mpl_files import exported, save, starter_motion

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
    assert_refused(cli("convert", locked / "closed", "other", "--to", "npz"), "Permission denied")
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
    assert "7 files without a motion" in result.stderr
    assert "settings4.json, ..." in result.stderr


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["--smpl-model", "nothing"], "--smpl-model nothing does not act"),
        (["--hierarchy", "nothing"], "--hierarchy nothing does not act"),
        (["--offsets", "nothing"], "--offsets nothing does not act"),
        (["--rot6d-columns", "xz"], "--rot6d-columns xz does not act"),
    ],
)
def test_options_that_no_reader_looks_at_are_refused(cli: Cli, words: list[str], said: str) -> None:
    write_bvh(Path("a.bvh"), 60)
    for line in (["convert", "a.bvh", "out.npz"], ["convert", "--check", "a.bvh"], ["profile", "a.bvh"]):
        assert_refused(cli(*line, *words), said)
    assert cli("convert", "a.bvh", "out.npz", "--up", "y", "--units", "cm").exit_code == 0


def test_a_body_upside_down_is_turned_said_and_can_be_kept(cli: Cli) -> None:
    """Joints in the axes of a camera, as methods that look at videos write them."""
    np.save("down.npy", generate("walk", frames=60).joints * np.array([1.0, -1.0, -1.0]))

    def rise(*words: str) -> float:
        assert cli("convert", "down.npy", "out.npz", "--overwrite", *words).exit_code == 0
        motion = read_clips("out.npz")[0].motion
        places = motion.positions()
        return float((places[:, motion.names.index("head"), 1] - places[:, 0, 1]).mean())

    result = cli("convert", "--check", "down.npy")
    assert "down: the trunk points along -Y: Y down was taken; if that is wrong, pass --up y." in result.stderr
    assert "head-down" not in result.stdout
    assert rise() > 0.5
    assert rise("--up", "-y") > 0.5
    assert rise("--up=y") < -0.5
    told = cli("convert", "--check", "down.npy", "--up", "-y")
    assert (told.exit_code, "trunk" in told.stderr) == (0, False)
    kept = cli("convert", "--check", "down.npy", "--up", "y")
    assert "head-down: the head is below the hips in 60 of 60 frames" in kept.stdout
    assert "'-y', 'z' or '-z'" in cli("convert", "--check", "down.npy", "--up", "w").stderr


@pytest.mark.parametrize("kind", ["bvh", "npz", "json", "mpl", "joints"])
def test_a_rate_that_is_given_wins_and_both_are_named(cli: Cli, kind: str) -> None:
    write_bvh(Path("a.bvh"), 60, fps=30.0)
    if kind == "npz":
        assert cli("convert", "a.bvh", "in.npz").exit_code == 0
    elif kind == "mpl":
        assert cli("convert", "a.bvh", "set", "--to", "mpl").exit_code == 0
        Path("set/a.npz").rename("in.npz")
    elif kind == "json":
        frame = {"BoneRotations": [[1, 0, 0, 0, 1, 0]], "RootVelocityXY": [1.0, 0.0]}
        Path("in.json").write_text(json.dumps({"FPS": 30, "Frames": [frame] * 60}))
    elif kind == "joints":
        np.save("in.npy", walker(60).float().numpy())
    else:
        Path("a.bvh").rename("in.bvh")
    (path,) = Path().glob("in.*")
    result = cli("convert", path, "out.npz", "--to", "npz", "--source-fps", "60", "--json")
    assert result.exit_code == 0, result.output
    (clip,) = json.loads(result.stdout)["clips"]
    assert (clip["frames"], clip["fps"]) == (60, 60.0)
    assert read_clips("out.npz")[0].motion.fps == 60.0
    said = "its file says 30 frames per second: 60 were taken, as given (--source-fps)."
    assert (said in " ".join(result.stderr.split())) == (kind != "joints")
    again = cli("convert", path, "same.npz", "--to", "npz", "--source-fps", "30")
    assert "--source-fps" not in again.stderr


def test_a_rate_that_cannot_act_on_one_of_the_files_is_an_error_of_that_file(cli: Cli) -> None:
    """Keys of GLB files are frames, or a curve over seconds."""
    Path("in").mkdir()
    write_bvh(Path("a.bvh"), 60, fps=30.0)
    assert cli("convert", "a.bvh", "in/a.glb").exit_code == 0
    half = [[0.0, 0.0, 0.0, 1.0], [0.0, 0.0, 1.0, 0.0]]
    keyed(Path("in/b.glb"), [("rotation", "LINEAR", [0.0, 2.0], half)])
    assert cli("convert", "in/b.glb", "alone.npz", "--source-fps", "60").exit_code == 2
    result = cli("convert", "in", "out", "--to", "npz", "--source-fps", "60")
    assert result.exit_code == 1
    said = " ".join(result.stderr.split())
    assert "in/b.glb: --source-fps 60 does not act on it" in said
    assert "its file says 30 frames per second: 60 were taken" in said
    assert read_clips("out/a.npz")[0].motion.fps == 60.0
    assert not Path("out/b.npz").exists()


def test_options_act_where_one_reader_looks_at_them(cli: Cli) -> None:
    write_bvh(Path("a.bvh"), 60)
    np.save("b.npy", walker(60).float().numpy())
    assert cli("convert", "a.bvh", "b.npy", "out", "--to", "npz", "--source-fps", "30").exit_code == 0
    assert read_clips("out/b.npz")[0].motion.fps == 30
    Path("c.json").write_text('{"Frames": []}')
    assert_refused(
        cli("convert", "c.json", "b.npy", "other", "--to", "npz", "--hierarchy", "none.json"),
        "--hierarchy none.json: there is no such file",
    )


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


def test_a_file_that_may_not_be_read_is_not_to_be_downloaded_again(tmp_path: Path, monkeypatch) -> None:
    np.save(tmp_path / "a.npy", np.zeros(3))

    def closed(*_: object) -> None:
        raise PermissionError(13, "Permission denied")

    monkeypatch.setattr(Path, "open", closed)
    with pytest.raises(MotionkitError, match="Permission denied") as caught:
        read_array(tmp_path / "a.npy")
    assert caught.value.fix == "check its permissions."


def clip() -> Clip:
    joints = walker(60)
    return Clip(JointMotion(HUMANML.joint_names, HUMANML.parents, joints, 20.0), captions=(Caption("x"),))


@dataclass(frozen=True)
class Failing:
    """A source, or a target, that fails."""

    error: BaseException
    key: str = "x"
    origin: str = "x.bvh"
    for_training: bool = field(default=False)

    def fingerprint(self) -> str:
        return ""

    def load(self) -> Sequence[Clip]:
        raise self.error

    def describe(self) -> dict[str, object]:
        return {}

    def write(self, clip: Clip, key: str, folder: Path) -> None:
        raise self.error


@dataclass(frozen=True)
class Sound:
    key: str = "x"
    origin: str = "x.bvh"

    def fingerprint(self) -> str:
        return ""

    def load(self) -> Sequence[Clip]:
        return [clip()]


def write(source: Any, target: Any, folder: Path) -> ClipOutcome[Any]:
    """Convert a source as a worker process does."""
    return work(Job(source, partial(write_clip, target=target, folder=folder)))


ERRORS = [
    KeyError("frames"), OverflowError("too large"), MemoryError(), RecursionError("deep"),
    torch.linalg.LinAlgError("svd"),
    UnicodeDecodeError("utf-8", b"\xff", 0, 1, "bad"), LookupError("unknown encoding"), NotImplementedError("type 99"),
    PermissionError(errno.EACCES, "Permission denied"), OSError(errno.ENAMETOOLONG, "File name too long"),
]  # fmt: skip


@pytest.mark.parametrize("error", ERRORS, ids=lambda error: type(error).__name__)
def test_any_error_of_a_reader_or_a_writer_is_the_problem_of_its_clip(tmp_path: Path, error: Exception) -> None:
    read, written = write(Failing(error), FileTarget("npz"), tmp_path), write(Sound(), Failing(error), tmp_path)
    for outcome, results in ((read, 0), (written, 1)):
        (reason,) = outcome.failed().values()
        assert len(outcome.results) == results, "what was found in a clip stays known when it cannot be written"
        assert "\n" not in reason
        plain = "more memory than there is" if isinstance(error, MemoryError) else type(error).__name__
        assert (error.strerror if isinstance(error, OSError) else plain) in reason
    with pytest.raises(MotionkitError):
        convert_file([Failing(error)], tmp_path / "a.npz", "npz")


@pytest.mark.parametrize("number", [errno.ENOSPC, errno.EDQUOT, errno.EROFS, errno.EIO, errno.EFBIG])
def test_a_disk_that_takes_no_file_stops_everything(tmp_path: Path, number: int) -> None:
    with pytest.raises(OSError, match="disk"):
        write(Sound(), Failing(OSError(number, "disk")), tmp_path)
    assert work(Job(Failing(OSError(number, "disk")), write_clip)).problems, "a source on a broken disk is one source"


def test_ctrl_c_is_no_problem_of_a_clip(tmp_path: Path) -> None:
    with pytest.raises(KeyboardInterrupt):
        write(Failing(KeyboardInterrupt()), FileTarget("npz"), tmp_path)


GAP = 10
"""The frame that is lost; 60 and more follow."""


def bvh(folder: Path) -> Path:
    path = write_bvh(folder / "gap.bvh", 80, fps=20)
    lines = path.read_text().splitlines()
    row = lines.index("MOTION") + 3 + GAP
    lines[row] = lines[row].replace(lines[row].split()[7], "nan", 1)
    path.write_text("\n".join(lines) + "\n")
    return path


def features(folder: Path) -> Path:
    rows = joints_to_features(walker(81), HUMANML).float()
    rows[GAP, 100] = float("nan")
    np.save(folder / "gap.npy", rows.numpy())
    return folder / "gap.npy"


def exported_json(folder: Path) -> Path:
    document = exported(starter_motion("walk/normal", 80, 20.0), np.zeros(80))
    document["Frames"][GAP]["RootVelocityXY"][0] = float("nan")
    return save(folder / "gap.json", document)


@pytest.fixture(params=[bvh, features, exported_json])
def gap(request, tmp_path: Path) -> Path:
    make: Callable[[Path], Path] = request.param
    (tmp_path / "in").mkdir()
    return make(tmp_path / "in")


def test_check_names_the_frame(gap: Path):
    result = run("convert", gap, "--check", "--json")
    (clip,) = json.loads(result.stdout)["clips"]
    (finding,) = [finding for finding in clip["findings"] if finding["kind"] == "nan"]
    assert finding["frames"] == [[GAP, GAP + 1]]


@pytest.mark.parametrize("out", ["out.npz", "out"])
def test_without_fix_it_is_refused_with_the_frame(gap: Path, tmp_path: Path, out: str):
    result = run("convert", gap, tmp_path / out)
    assert result.exit_code != 0
    said = " ".join(result.stderr.split())
    assert f"in frame {GAP}" in said
    assert "--fix" in said


def test_fix_keeps_the_longest_clean_run(gap: Path, tmp_path: Path):
    report = convert(open_sources([gap]).sources, tmp_path / "out", FileTarget("bvh"), fix=True)
    assert report.written == ["gap"]
    (clip,) = read_bvh(tmp_path / "out/gap.bvh")
    assert clip.motion.frames == 80 - GAP - 1
    assert torch.isfinite(clip.motion.positions()).all()


def test_fixed_features_are_the_rows_after_the_gap(tmp_path: Path):
    path = features(tmp_path)
    result = run("convert", path, tmp_path / "out", "--fix")
    assert result.exit_code == 0, result.stderr
    np.testing.assert_array_equal(np.load(tmp_path / "out/new_joint_vecs/gap.npy"), np.load(path)[GAP + 1 :])


def test_a_profile_takes_nothing_from_the_lost_frame(gap: Path):
    document = profile_document(profile_sources(open_sources([gap]).sources))
    json.dumps(document, allow_nan=False)
    assert document["findings"]["nan"] == {"error": 1, "warning": 0}
