"""Where a conversion is written: user data in its way, other processes, and names that are hard to keep."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

from motionkit.errors import MotionkitError
from motionkit.motion.convert import FileTarget, convert, convert_file, open_sources
from motionkit.motion.convert._place import Place

from ..bvh_files import write_bvh

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
        result = cli("convert", "clips", out, "--to", "joints", *more)
        assert result.exit_code == 2
        assert "what is read is never replaced" in " ".join(result.stderr.split())
        assert contents(Path()) == before


def test_sources_that_an_earlier_conversion_made_are_not_replaced_either(tmp_path):
    write_bvh(tmp_path / "a.bvh", 60)
    convert(sources(tmp_path / "a.bvh"), tmp_path / "out", NPZ)
    before = contents(tmp_path)
    with pytest.raises(MotionkitError, match="is an input"):
        convert(sources(tmp_path / "out"), tmp_path / "out", FileTarget("bvh"), overwrite=True)
    with pytest.raises(MotionkitError, match="is an input itself"):
        convert_file(sources(tmp_path / "a.bvh"), tmp_path / "a.bvh", "bvh", overwrite=True)
    (tmp_path / "link.bvh").symlink_to(tmp_path / "a.bvh")
    with pytest.raises(MotionkitError, match="is an input itself"):
        convert_file(sources(tmp_path / "link.bvh"), tmp_path / "a.bvh", "bvh", overwrite=True)
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
def test_no_other_process_gets_in_while_a_folder_moves_into_place(tmp_path, monkeypatch, there):
    out = tmp_path / "out"
    if there:
        out.mkdir()
    unlink, seen = Path.unlink, []

    def come_in(self: Path, missing_ok: bool = False) -> None:
        if self.name == ".journal.jsonl":
            code = "from pathlib import Path; from motionkit.motion.convert._place import Place\n"
            code += f"with Place(Path({str(out)!r}), {{}}, overwrite=True) as place: print(place.folder)"
            other = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
            seen.append(other.stdout + other.stderr)
        unlink(self, missing_ok=missing_ok)

    with Place(out, {}) as place:
        with pytest.raises(MotionkitError, match="in use by another"), Place(out, {}):
            pass
        (place.folder / "a.npz").write_bytes(b"1")
        monkeypatch.setattr(Path, "unlink", come_in)
        place.finish({"schema": 1})
        monkeypatch.undo()
    # The folder was in its place before it let go of anything: who comes then makes a new one of its own.
    assert seen[0].strip() == str(tmp_path / ".out.part")
    assert sorted(path.name for path in out.iterdir()) == ["a.npz", "convert.json"]


def test_a_folder_that_is_gone_when_its_lock_is_taken_is_not_worked_in(tmp_path, monkeypatch):
    """Another process moves the folder into place between the opening of the lock and the taking of it."""
    from motionkit.motion.convert import _place

    real = _place.hold

    def late(folder: Path):
        lock = real(folder)
        folder.rename(tmp_path / "moved")
        return lock

    monkeypatch.setattr(_place, "hold", late)
    with pytest.raises(MotionkitError, match="until now"), Place(tmp_path / "out", {}):
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
