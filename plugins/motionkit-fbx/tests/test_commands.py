"""FBX in and out of commands, with a program that plays Blender's part."""

from __future__ import annotations

from pathlib import Path

import pytest

import motionkit
from motionkit.formats.glb import write_glb
from motionkit_fbx import files
from tests.made.blender import MAGIC, as_fbx, stand_in
from tests.made.rigs import other_rig, starter_rig


@pytest.fixture
def program(tmp_path, monkeypatch) -> str:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("MOTIONKIT_CACHE", str(tmp_path / "cache"))
    monkeypatch.delenv("MOTIONKIT_BLENDER", raising=False)
    monkeypatch.setattr(files, "_failed", {})
    write_glb(Path("walk.glb"), starter_rig("walk"))
    as_fbx(Path("walk.glb"))
    return str(stand_in(tmp_path / "bin"))


def starts(program: str) -> int:
    lines = (Path(program).parent / "calls.txt").read_text().splitlines()
    return sum("--version" not in line for line in lines)


def apart(one: str, other: str) -> float:
    """Return how far the joints of the second file are from those of the first, in metres; BVH has end sites more."""
    first, second = motionkit.read(one), motionkit.read(other)
    index = [first.motion.names.index(name) for name in second.motion.names]
    return float((first.positions()[:, index] - second.positions()).norm(dim=-1).max())


def test_fbx_to_bvh_and_back(cli, program, monkeypatch):
    result = cli("convert", "walk.fbx", "walk.bvh", "--blender", program)
    assert result.exit_code == 0, result.stderr
    assert apart("walk.bvh", "walk.glb") < 1e-4
    assert starts(program) == 1
    result = cli("convert", "walk.bvh", "back.fbx", "--blender", program, "--rig", "mixamo")
    assert result.exit_code == 0, result.stderr
    monkeypatch.setenv("MOTIONKIT_BLENDER", program)
    assert "mixamorig:Hips" in motionkit.read("back.fbx").motion.names
    assert cli("convert", "walk.bvh", "mixamo.glb", "--rig", "mixamo").exit_code == 0
    assert apart("back.fbx", "mixamo.glb") < 1e-4


def test_the_environment_names_the_blender_and_other_commands_do_not_mind(cli, program, monkeypatch):
    monkeypatch.setenv("MOTIONKIT_BLENDER", program)
    result = cli("convert", "walk.fbx", "folder", "--to", "fbx")
    assert result.exit_code == 0, result.stderr
    assert Path("folder/walk.fbx").read_bytes().startswith(MAGIC)
    result = cli("runs", "list")
    assert "MOTIONKIT_BLENDER" not in result.stderr


def test_what_is_said_where_no_blender_is_named(cli, program):
    for command in (
        ("convert", "walk.fbx", "x.bvh"),
        ("convert", "walk.glb", "x.fbx"),
        ("convert", "walk.glb", "folder", "--to", "fbx"),
        ("convert", "walk.glb", "x.bvh", "--rig", "walk.fbx"),
        ("convert", "--check", "walk.fbx"),
        ("view", "walk.fbx", "--no-open", "--out", "x.html"),
        ("generate", "a person walks", "x.fbx"),
        ("generate", "a person walks", "x", "--to", "fbx", "--dry-run"),
    ):
        result = cli(*command)
        assert result.exit_code == 2, command
        assert "none is named" in result.stderr, command
        assert "--blender PATH" in " ".join(result.stderr.split()), command
    assert not [path for path in Path().iterdir() if path.name.startswith(("x", "folder"))]


def test_fbx_in_a_folder_is_passed_over_and_said_where_no_blender_is_named(cli, program):
    Path("takes").mkdir()
    Path("takes/a.glb").write_bytes(Path("walk.glb").read_bytes())
    Path("takes/b.fbx").write_bytes(Path("walk.fbx").read_bytes())
    result = cli("convert", "takes", "out", "--to", "bvh")
    assert result.exit_code == 0, result.stderr
    assert "passed over FBX" in result.stderr
    assert "b.fbx" in result.stderr
    result = cli("convert", "takes", "both", "--to", "bvh", "--blender", program)
    assert sorted(path.name for path in Path("both").glob("*.bvh")) == ["a.bvh", "b.bvh"]
    Path("takes/a.glb").unlink()
    assert cli("convert", "takes", "none", "--to", "bvh").exit_code == 2


def test_check_and_view(cli, program):
    result = cli("convert", "--check", "walk.fbx", "--blender", program)
    assert result.exit_code == 0, result.stderr
    result = cli("view", "walk.fbx", "--no-open", "--out", "page.html", "--blender", program)
    assert result.exit_code == 0, result.stderr
    assert starts(program) == 1, "the second command finds what the first one made"


def test_a_bad_file_does_not_stop_the_others(cli, program):
    Path("takes").mkdir()
    Path("takes/a.fbx").write_bytes(MAGIC + b"SEGV")
    Path("takes/b.fbx").write_bytes(Path("walk.fbx").read_bytes())
    result = cli("convert", "takes", "out", "--to", "bvh", "--blender", program)
    assert result.exit_code == 1
    assert "a.fbx" in result.stderr
    assert "SIGSEGV" in result.stderr
    assert [path.name for path in Path("out").glob("*.bvh")] == ["b.bvh"]


def test_a_file_that_blender_cannot_write(cli, program):
    assert cli("convert", "walk.glb", "walk.bvh").exit_code == 0  # has no name of a motion: the file's is taken
    result = cli("convert", "walk.bvh", "EXIT.fbx", "--blender", program)
    assert result.exit_code == 1
    assert "cannot be written by Blender 4.2.0" in result.stderr
    assert not Path("EXIT.fbx").exists()


def test_a_rig_of_ones_own_from_fbx(cli, program):
    rig = other_rig(starter_rig("walk"))
    write_glb(Path("hero.glb"), rig)
    as_fbx(Path("hero.glb"))
    result = cli("convert", "walk.glb", "mine.fbx", "--rig", "hero.fbx", "--blender", program)
    assert result.exit_code == 0, result.stderr
    assert cli("convert", "walk.glb", "mine.glb", "--rig", "hero.glb").exit_code == 0
    assert Path("mine.fbx").read_bytes().removeprefix(MAGIC)[-4000:] == Path("mine.glb").read_bytes()[-4000:]


def test_python_reads_and_saves_fbx(program):
    clip = motionkit.read("walk.fbx", blender=program)
    clip.save("again.fbx", blender=program)
    again = motionkit.read("again.fbx", blender=Path(program))
    assert float((again.positions() - clip.positions()).norm(dim=-1).max()) < 1e-4
    motionkit.convert("again.fbx", "again.bvh", blender=program)
    assert apart("again.bvh", "walk.glb") < 1e-4
