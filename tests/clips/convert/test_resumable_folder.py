"""Where a conversion is written: user data in its way, other processes, a folder for each skeleton."""

from __future__ import annotations

import json
import os
from dataclasses import replace
from pathlib import Path

import pytest

from motionkit.clips.convert import FileTarget, convert, convert_file, open_sources
from motionkit.clips.convert import run as to_folder
from motionkit.clips.convert.resumable import ResumableFolder
from motionkit.errors import MotionkitError
from motionkit.motion import Caption, ReadOptions

from ...made.bvh_files import NAMES, Dialect, write_bvh, write_dialect
from ...made.commands import assert_refused

NPZ = FileTarget("npz")


def sources(*paths: Path):
    return open_sources(paths).sources


def contents(folder: Path) -> dict[str, bytes]:
    return {path.relative_to(folder).as_posix(): path.read_bytes() for path in folder.rglob("*") if path.is_file()}


@pytest.mark.parametrize("out", [".", "clips", "deep/../clips"])
def test_a_folder_with_sources_in_it_is_never_replaced(cli, out):
    Path("deep").mkdir()
    Path("clips/more").mkdir(parents=True)
    write_bvh(Path("clips/more/a.bvh"), 60)
    Path("thesis.txt").write_text("my work")
    before = contents(Path())
    for more in ([], ["--overwrite"]):
        assert_refused(cli("convert", "clips", out, "--to", "joints", *more), "what is read is never replaced")
        assert contents(Path()) == before


def test_sources_that_an_earlier_conversion_made_are_not_replaced_either(tmp_path):
    write_bvh(tmp_path / "a.bvh", 60)
    convert(sources(tmp_path / "a.bvh"), tmp_path / "out", NPZ)
    before = contents(tmp_path)
    (tmp_path / "link.bvh").symlink_to(tmp_path / "a.bvh")
    for call in (
        lambda: convert(sources(tmp_path / "out"), tmp_path / "out", FileTarget("bvh"), overwrite=True),
        lambda: convert_file(sources(tmp_path / "a.bvh"), tmp_path / "a.bvh", "bvh", overwrite=True),
        lambda: convert_file(sources(tmp_path / "link.bvh"), tmp_path / "a.bvh", "bvh", overwrite=True),
    ):
        with pytest.raises(MotionkitError, match="is an input"):
            call()
    (tmp_path / "link.bvh").unlink()
    assert contents(tmp_path) == before


def test_overwrite_replaces_what_a_conversion_made_and_nothing_else(tmp_path):
    (tmp_path / "in").mkdir()
    for name in ("a", "b"):
        write_bvh(tmp_path / f"in/{name}.bvh", 60)
    out = tmp_path / "out"
    convert(sources(tmp_path / "in"), out, NPZ)
    (out / "thesis.txt").write_text("my work")
    (tmp_path / "in/a.bvh").unlink()
    convert(sources(tmp_path / "in"), out, NPZ, overwrite=True)
    assert sorted(contents(out)) == ["b.npz", "convert.json", "thesis.txt"]
    assert json.loads((out / "convert.json").read_text())["files"] == ["b.npz", "convert.json"]
    assert sorted(path.name for path in tmp_path.iterdir()) == ["in", "out"]


def test_a_folder_called_like_the_place_to_work_in_is_not_swept(tmp_path):
    write_bvh(tmp_path / "a.bvh", 60)
    (tmp_path / ".out.part").mkdir()
    (tmp_path / ".out.part/thesis.txt").write_text("my work")
    with pytest.raises(MotionkitError, match="is in the way"):
        convert(sources(tmp_path / "a.bvh"), tmp_path / "out", NPZ)
    assert (tmp_path / ".out.part/thesis.txt").read_text() == "my work"


@pytest.mark.parametrize("there", [False, True])
def test_no_other_process_gets_in_while_a_folder_moves_into_place(tmp_path, monkeypatch, forks, there):
    out = tmp_path / "out"
    if there:
        out.mkdir()
    unlink, seen = Path.unlink, []

    def come_in(self: Path, missing_ok: bool = False) -> None:
        if self.name == ".journal.jsonl":
            code = "from pathlib import Path; from motionkit.clips.convert.resumable import ResumableFolder\n"
            code += f"with ResumableFolder(Path({str(out)!r}), {{}}, {{}}, overwrite=True) as place: print(place.path)"
            other = forks.run("-c", code)
            seen.append(other.stdout + other.stderr)
        unlink(self, missing_ok=missing_ok)

    with ResumableFolder(out, {}, {}) as place:
        with pytest.raises(MotionkitError, match="in use by another"), ResumableFolder(out, {}, {}):
            pass
        (place.path / "a.npz").write_bytes(b"1")
        monkeypatch.setattr(Path, "unlink", come_in)
        place.finish({"schema": 1})
        monkeypatch.undo()
    # The folder was in its place before it let go of anything: who comes then makes a new one of its own.
    assert seen[0].strip() == str(tmp_path / ".out.part")
    assert sorted(path.name for path in out.iterdir()) == ["a.npz", "convert.json"]


def test_a_folder_that_is_gone_when_its_lock_is_taken_is_not_worked_in(tmp_path, monkeypatch):
    """Another process moves the folder into place between the opening of the lock and the taking of it."""
    from motionkit.clips.convert import resumable as _resumable_folder

    real = _resumable_folder.hold

    def late(folder: Path):
        lock = real(folder)
        folder.rename(tmp_path / "moved")
        return lock

    monkeypatch.setattr(_resumable_folder, "hold", late)
    with pytest.raises(MotionkitError, match="until now"), ResumableFolder(tmp_path / "out", {}, {}):
        pass


def test_a_conversion_goes_on_whatever_its_names_are(tmp_path):
    folder = tmp_path / "in"
    folder.mkdir()
    for name in ("a", "b\u2028x", "c\x85y", "d"):
        write_bvh(folder / f"{name}.bvh", 60)

    def stop(key: str, done: list[str] = []) -> None:  # noqa: B006
        done.append(key)
        if len(done) == 4:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        convert(sources(folder), tmp_path / "out", NPZ, progress=stop)
    report = convert(sources(folder), tmp_path / "out", NPZ)
    assert (report.resumed, len(report.written)) == (4, 4)


@pytest.mark.parametrize("change", ["edited", "deleted"])
def test_what_was_made_of_a_source_that_changed_meanwhile_does_not_stay(tmp_path, change):
    folder = tmp_path / "in"
    folder.mkdir()
    for name in ("a", "b", "c"):
        write_bvh(folder / f"{name}.bvh", 60)

    def stop(key: str) -> None:
        if key == "b":
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        convert(sources(folder), tmp_path / "out", NPZ, progress=stop)
    if change == "edited":
        write_bvh(folder / "a.bvh", 90)
    else:
        (folder / "a.bvh").unlink()
    report = convert(sources(folder), tmp_path / "out", NPZ)
    left = ["a", "b", "c"] if change == "edited" else ["b", "c"]
    assert (report.resumed, report.written, report.failed) == (1, left, {})
    assert sorted(contents(tmp_path / "out")) == [*(f"{name}.npz" for name in left), "convert.json"]
    assert sorted(json.loads((tmp_path / "out/convert.json").read_text())["clips"]) == left
    convert(sources(folder), tmp_path / "fresh", NPZ)
    assert contents(tmp_path / "out") == contents(tmp_path / "fresh")


def test_links_to_folders_above_are_not_followed_for_ever(tmp_path):
    folder = tmp_path / "in"
    (folder / "deep").mkdir(parents=True)
    write_bvh(folder / "deep/a.bvh", 60)
    for name in ("one", "two", "deep/three", "deep/four"):
        (folder / name).symlink_to(tmp_path)
    assert [source.key for source in sources(folder)] == ["a"]
    assert [source.key for source in sources(folder, folder / "one")] == ["a"]


def test_a_source_has_changed_when_anything_that_is_read_for_it_has(tmp_path):
    for name in ("one", "two"):
        (tmp_path / name).mkdir()
        write_bvh(tmp_path / name / "a.bvh", 60)
        (tmp_path / f"{name}.txt").write_text("a walk#a/DET walk/NOUN#0.0#0.0\n")
    (tmp_path / "two/body.npz").write_bytes(b"1")
    for path in tmp_path.rglob("*"):
        os.utime(path, (1e9, 1e9))
    one, two = sources(tmp_path / "one" / "a.bvh", tmp_path / "two" / "a.bvh")
    options = ReadOptions(smpl_model=tmp_path / "two")
    variants = [
        one, two, replace(one, texts_file=tmp_path / "one.txt"), replace(one, splits=("train",)),
        replace(one, group="g"), replace(one, texts=(Caption("x"),)), replace(two, options=options),
    ]  # fmt: skip
    found = [source.fingerprint() for source in variants]
    assert len(set(found)) == len(found)
    assert found == [source.fingerprint() for source in variants]
    (tmp_path / "one.txt").write_text("a run")
    (tmp_path / "two/body.npz").write_bytes(b"12")
    again = [source.fingerprint() for source in variants]
    assert [number for number, (a, b) in enumerate(zip(found, again, strict=True)) if a != b] == [2, 6]
    table = replace(one, format="unreal-json")
    before = table.fingerprint()
    (tmp_path / "one/FullHierarchy.json").write_text("{}")
    assert table.fingerprint() != before
    (tmp_path / "one/a.bvh").unlink()
    assert one.fingerprint() == ""


@pytest.fixture
def mixed(tmp_path: Path) -> Path:
    folder = tmp_path / "in"
    for name in "abc":
        write_dialect(folder / f"{name}.bvh", Dialect(), 0.3)
    write_dialect(folder / "hands.bvh", Dialect(fingers=4), 0.3)
    write_dialect(folder / "other.bvh", Dialect(names=("Pelvis", *NAMES[1:])), 0.3)
    return folder


def found(out: Path) -> list[str]:
    return sorted(path.relative_to(out).as_posix() for path in out.rglob("*.npz"))


SEPARATE = [
    "22-joints-2/other.npz", "22-joints/a.npz", "22-joints/b.npz", "22-joints/c.npz", "26-joints/hands.npz",
]  # fmt: skip


def test_each_skeleton_has_its_folder(mixed, tmp_path):
    out = tmp_path / "out"
    report = convert(open_sources([mixed]).sources, out, FileTarget("mpl"))
    assert found(out) == SEPARATE
    (note,) = report.warnings
    assert "3 skeletons" in note
    assert "22-joints (3 clips)" in note
    assert f"such as {out / '22-joints'}" in note
    assert set(json.loads((out / "convert.json").read_text())["files"]) == {*SEPARATE, "convert.json"}
    assert {source.key for source in open_sources([out / "22-joints"]).sources} == set("abc")


def test_one_skeleton_and_other_formats_stay_in_one_folder(mixed, tmp_path):
    convert(open_sources([mixed / f"{name}.bvh" for name in "abc"]).sources, tmp_path / "one", FileTarget("mpl"))
    assert found(tmp_path / "one") == ["a.npz", "b.npz", "c.npz"]
    convert(open_sources([mixed]).sources, tmp_path / "npz", FileTarget("npz"))
    assert len(found(tmp_path / "npz")) == len(list((tmp_path / "npz").glob("*.npz"))) == 5


def test_a_kill_while_files_are_moved_is_made_good(mixed, tmp_path, monkeypatch):
    def killed(*given):
        separate(*given)
        raise KeyboardInterrupt

    separate = to_folder.separate
    out = tmp_path / "out"
    monkeypatch.setattr(to_folder, "separate", killed)
    with pytest.raises(KeyboardInterrupt):
        convert(open_sources([mixed]).sources, out, FileTarget("mpl"))
    monkeypatch.setattr(to_folder, "separate", separate)
    convert(open_sources([mixed]).sources, out, FileTarget("mpl"))
    assert found(out) == SEPARATE
    convert(open_sources([mixed / "a.bvh"]).sources, out, FileTarget("mpl"), overwrite=True)
    assert found(out) == ["a.npz"]
