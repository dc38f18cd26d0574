"""FBX by a Blender in a process of its own. A stand-in plays Blender; `real/check.py` checks the real one."""

from __future__ import annotations

import json
import os
import sys
import time
from pathlib import Path

import pytest
import torch

from motionkit.documents import open_file
from motionkit.errors import MotionkitError
from motionkit.formats.glb import read_glb, write_glb
from motionkit.formats.glb.container import open_glb
from motionkit.motion import ReadOptions
from motionkit_fbx import blender as blenders
from motionkit_fbx import files
from motionkit_fbx.blender import find_blender
from motionkit_fbx.files import prepare_fbx, read_fbx, read_fbx_pose, read_fbx_rig, write_fbx
from motionkit_fbx.inside import last_line, stretch
from tests.made.blender import MAGIC, as_fbx, stand_in
from tests.made.rigs import starter_rig


@pytest.fixture(autouse=True)
def _own_cache(tmp_path, monkeypatch):
    monkeypatch.setenv("MOTIONKIT_CACHE", str(tmp_path / "cache"))
    monkeypatch.delenv("MOTIONKIT_BLENDER", raising=False)
    monkeypatch.setattr(files, "_failed", {})
    blenders._asked.cache_clear()


@pytest.fixture(scope="module")
def walk(tmp_path_factory) -> Path:
    path = tmp_path_factory.mktemp("walk") / "walk.glb"
    write_glb(path, starter_rig("walk"))
    return path


def reading(program: Path | str) -> ReadOptions:
    return ReadOptions(settings={"blender": str(program)})


def calls(program: Path) -> list[list[str]]:
    """Return the arguments of each start, without those that asked for the version."""
    lines = (program.parent / "calls.txt").read_text().splitlines()
    return [arguments for arguments, _ in map(json.loads, lines) if "--version" not in arguments]


def broken(folder: Path, name: str, content: bytes) -> Path:
    path = folder / f"{name}.fbx"
    path.write_bytes(MAGIC + content)
    return path


def test_a_file_is_read_by_way_of_glb(tmp_path, walk):
    program = stand_in(tmp_path / "bin")
    path = as_fbx(walk, tmp_path / "take.fbx")
    (clip,) = read_fbx(path, reading(program))
    (same,) = read_glb(walk)
    assert clip.motion.names == same.motion.names
    assert clip.motion.fps == same.motion.fps
    torch.testing.assert_close(clip.motion.positions(), same.motion.positions(), rtol=0, atol=1e-4)
    assert clip.notes["format"] == "FBX"
    assert clip.notes["read by"] == "Blender 4.2.0"


def test_blender_starts_without_what_the_user_or_the_file_would_run(tmp_path, walk):
    program = stand_in(tmp_path / "bin")
    read_fbx(as_fbx(walk, tmp_path / "take.fbx"), reading(program))
    (arguments,) = calls(program)
    assert {"--background", "--factory-startup", "--disable-autoexec"} <= set(arguments)
    folder = arguments[arguments.index("--") + 1]
    assert not Path(folder).exists()
    used = json.loads((program.parent / "calls.txt").read_text().splitlines()[-1])[1]
    assert used == folder, "settings and add-ons of the user would be read"


def test_blender_starts_once_for_a_file_and_once_for_many(tmp_path, walk):
    program = stand_in(tmp_path / "bin")
    options = reading(program)
    paths = [as_fbx(walk, tmp_path / "one.fbx"), tmp_path / "two.fbx", tmp_path / "three.fbx"]
    for number, path in enumerate(paths):
        path.write_bytes(paths[0].read_bytes() + b"\0" * number)
    prepare_fbx(paths, reading(program))
    for path in paths * 2:
        read_fbx(path, options)
    assert len(calls(program)) == 1
    read_fbx_rig(paths[0], {"blender": str(program)})
    assert len(calls(program)) == 2, "with meshes it is another file"
    copy = tmp_path / "copy.fbx"
    copy.write_bytes(paths[0].read_bytes())
    read_fbx(copy, options)
    assert len(calls(program)) == 2, "equal content is read once"


def test_a_file_is_hashed_once_until_it_changes(tmp_path, walk, monkeypatch):
    program = stand_in(tmp_path / "bin")
    options = reading(program)
    path = as_fbx(walk, tmp_path / "take.fbx")
    opened = []
    monkeypatch.setattr(files, "open_file", lambda path, limit: opened.append(path) or open_file(path, limit))
    prepare_fbx([path], reading(program))
    read_fbx_pose(path, options)
    (clip,) = read_fbx(path, options)
    assert opened == [path]
    write_glb(tmp_path / "run.glb", starter_rig("run"))
    as_fbx(tmp_path / "run.glb", path)
    (other,) = read_fbx(path, options)
    assert opened == [path, path]
    assert not torch.equal(clip.motion.rotations, other.motion.rotations)


def test_what_was_not_used_for_a_week_leaves_the_cache(tmp_path, walk):
    program = stand_in(tmp_path / "bin")
    options = reading(program)
    read_fbx(as_fbx(walk, tmp_path / "one.fbx"), options)
    (old,) = (tmp_path / "cache/fbx").iterdir()
    week = time.time() - 8 * 24 * 3600
    os.utime(old, (week, week))
    (tmp_path / "two.fbx").write_bytes((tmp_path / "one.fbx").read_bytes() + b"\0")
    read_fbx(tmp_path / "two.fbx", options)
    assert not old.exists()


def test_a_motion_comes_back_as_it_was_written(tmp_path):
    program = str(stand_in(tmp_path / "bin"))
    motion = starter_rig("walk")
    write_fbx(tmp_path / "walk.fbx", motion, blender=program)
    (clip,) = read_fbx(tmp_path / "walk.fbx", reading(program))
    assert clip.motion.frames == motion.frames
    torch.testing.assert_close(clip.motion.positions(), motion.positions(), rtol=0, atol=1e-4)


def test_joints_that_rounding_moves_have_no_channel_of_places(tmp_path):
    program = str(stand_in(tmp_path / "bin"))
    motion = starter_rig("walk")
    generator = torch.Generator().manual_seed(0)
    noise = 2e-5 * (torch.rand(motion.translations.shape, generator=generator, dtype=torch.float64) - 0.5)
    moved = motion.translations + noise
    moved[:, 7] = motion.translations[:, 7] + torch.linspace(0, 0.01, motion.frames)[:, None]
    shaken = type(motion)(motion.names, motion.parents, motion.offsets, motion.rotations, moved, motion.fps)
    write_glb(tmp_path / "a.glb", shaken)
    (clip,) = read_fbx(as_fbx(tmp_path / "a.glb"), reading(program))
    away = (clip.motion.translations - clip.motion.offsets).abs().amax((0, 2))
    assert [joint for joint, far in enumerate(away.tolist()) if far > 0] == [0, 7]


def test_errors_of_the_glb_reader_name_the_fbx_file(tmp_path, walk):
    program = str(stand_in(tmp_path / "bin"))
    path = broken(tmp_path, "still", b"")
    model = starter_rig("walk")
    write_glb(tmp_path / "still.glb", model)
    data = (tmp_path / "still.glb").read_bytes().replace(b'"animations"', b'"animationz"')
    path.write_bytes(MAGIC + data)
    with pytest.raises(MotionkitError, match=r"still\.fbx: there is no animation of its skeleton") as caught:
        read_fbx(path, reading(program))
    assert "cache" not in caught.value.sentence()


@pytest.mark.parametrize(
    ("content", "why"),
    [
        (b"REFUSE", "Version 6100 unsupported"),
        (b"EXIT", "exit code 3: RuntimeError: no such add-on"),
        (b"SEGV", "signal SIGSEGV: the last words"),
        (b"SILENT", "wrote nothing"),
    ],
)
def test_a_file_that_blender_cannot_read(tmp_path, walk, content, why):
    program = stand_in(tmp_path / "bin")
    path = broken(tmp_path, "bad", content)
    for _ in range(2):
        with pytest.raises(MotionkitError, match=r"bad\.fbx cannot be read by Blender 4\.2\.0") as caught:
            read_fbx(path, reading(program))
        assert why in caught.value.why
        assert "binary FBX" in caught.value.fix
    assert len(calls(program)) == 1, "the same file is not tried again"


def test_files_after_one_that_ends_blender_are_read(tmp_path, walk):
    program = stand_in(tmp_path / "bin")
    options = reading(program)
    paths = [broken(tmp_path, "first", b"SEGV"), as_fbx(walk, tmp_path / "good.fbx"), broken(tmp_path, "last", b"EXIT")]
    prepare_fbx(paths, reading(program))
    assert len(calls(program)) == 2
    assert read_fbx(paths[1], options)[0].motion.frames
    for path in (paths[0], paths[2]):
        with pytest.raises(MotionkitError, match="cannot be read by Blender"):
            read_fbx(path, options)
    assert len(calls(program)) == 2


def test_blender_that_hangs_is_ended_with_what_it_started(tmp_path, walk, monkeypatch):
    program = stand_in(tmp_path / "bin")
    monkeypatch.setattr(blenders, "_LONGEST", 1.0)
    with pytest.raises(MotionkitError, match="cannot be read") as caught:
        read_fbx(broken(tmp_path, "slow", b"HANG"), reading(program))
    assert "more than 1 s" in caught.value.why
    child = int((program.parent / "child.txt").read_text())
    for _ in range(100):
        state = Path(f"/proc/{child}/stat")
        if not state.exists() or state.read_text().split()[2] == "Z":
            break
        time.sleep(0.05)
    else:
        pytest.fail("its child still runs")


def test_a_file_that_cannot_be_written_leaves_nothing(tmp_path, walk, monkeypatch):
    program = str(stand_in(tmp_path / "bin"))
    motion = starter_rig("walk")
    (tmp_path / "out").mkdir()
    with pytest.raises(MotionkitError, match="cannot be written by Blender") as caught:
        write_fbx(tmp_path / "out/walk.fbx", motion, blender=program, name="EXIT")
    assert caught.value.code == 1
    assert "exit code 3" in caught.value.why
    assert not list((tmp_path / "out").iterdir())


@pytest.mark.parametrize(
    ("content", "what"),
    [
        (b"; FBX 7.4.0 project file\nFBXHeaderExtension:  {", "is FBX as text"),
        (b"glTF", "not an FBX file"),
        (b"", "not an"),
    ],
)
def test_what_is_no_binary_fbx_starts_no_blender(tmp_path, content, what):
    program = stand_in(tmp_path / "bin")
    (tmp_path / "a.fbx").write_bytes(content)
    with pytest.raises(MotionkitError, match=what):
        read_fbx(tmp_path / "a.fbx", reading(program))
    assert not calls(program)


def test_no_blender_is_named(tmp_path, walk):
    with pytest.raises(MotionkitError, match="none is named") as caught:
        read_fbx(as_fbx(walk, tmp_path / "a.fbx"))
    assert "--blender PATH" in caught.value.fix
    assert "MOTIONKIT_BLENDER" in caught.value.fix


def test_blender_is_named_by_the_environment(tmp_path, walk, monkeypatch):
    program = stand_in(tmp_path / "bin")
    monkeypatch.setenv("MOTIONKIT_BLENDER", str(program))
    assert read_fbx(as_fbx(walk, tmp_path / "a.fbx"))[0].motion.frames
    monkeypatch.setenv("PATH", str(program.parent))
    assert find_blender("blender").path == str(program)


def test_what_is_no_blender(tmp_path):
    with pytest.raises(MotionkitError, match="is a folder"):
        find_blender(str(tmp_path))
    with pytest.raises(MotionkitError, match="cannot be started") as caught:
        find_blender(str(tmp_path / "none"))
    assert "no such program" in caught.value.why
    (tmp_path / "text").write_text("hello")
    with pytest.raises(MotionkitError, match="cannot be started") as caught:
        find_blender(str(tmp_path / "text"))
    assert "cannot be executed" in caught.value.why
    (tmp_path / "text").chmod(0o755)
    with pytest.raises(MotionkitError, match=r"cannot be started|is not a Blender"):
        find_blender(str(tmp_path / "text"))
    other = stand_in(tmp_path / "bin", version="git version 2.40")
    with pytest.raises(MotionkitError, match="is not a Blender") as caught:
        find_blender(str(other))
    assert "git version 2.40" in caught.value.why
    old = stand_in(tmp_path / "old", version="Blender 3.4.1")
    with pytest.raises(MotionkitError, match=r"is Blender 3\.4\.1") as caught:
        find_blender(str(old))
    assert "4.2 and later" in caught.value.why
    assert find_blender(str(stand_in(tmp_path / "new", version="Blender 5.0.1 LTS"))).version == "5.0.1 LTS"


def test_a_python_without_bpy():
    with pytest.raises(MotionkitError, match="is a Python without bpy") as caught:
        find_blender(sys.executable)
    assert "No module named 'bpy'" in caught.value.why
    assert "pip install bpy" in caught.value.fix


def test_a_program_that_does_not_answer(tmp_path, monkeypatch):
    monkeypatch.setattr(blenders, "_PROBE", 0.2)
    path = tmp_path / "slow"
    path.write_text("#!/bin/sh\nexec sleep 20\n")
    path.chmod(0o755)
    with pytest.raises(MotionkitError, match="does not answer"):
        find_blender(str(path))


def test_of_a_traceback_the_last_line_is_told():
    error = RuntimeError("Error: Python: Traceback (most recent call last):\n  File x\nModuleNotFoundError: numpy\n\n")
    assert last_line(error) == "ModuleNotFoundError: numpy"
    assert last_line(RuntimeError("")) == ""


def test_the_script_for_blender_imports_nothing_of_motionkit():
    text = blenders.SCRIPT.read_text()
    assert "import motionkit" not in text
    assert "from motionkit" not in text


def test_times_of_a_glb_file_are_stretched_in_place(tmp_path, walk):
    path = tmp_path / "walk.glb"
    path.write_bytes(walk.read_bytes())
    (before,) = read_glb(path)
    stretch(path, 2.0)
    document = open_glb(path).document
    inputs = {sampler["input"] for sampler in document["animations"][0]["samplers"]}
    times = [open_glb(path).array(number, 1)[-1, 0] for number in inputs]
    assert times == pytest.approx([2 * (before.motion.frames - 1) / before.motion.fps] * len(inputs))
    bounds = [document["accessors"][number]["max"][0] for number in inputs]
    assert bounds == pytest.approx(times, rel=1e-6)


def test_deep_json_among_the_answers_is_no_answer(tmp_path: Path, walk: Path) -> None:
    program = stand_in(tmp_path / "bin")
    source = program.read_text()
    program.write_text(source.replace("json.dumps(said)", "2000 * '[' + 2000 * ']'"))
    path = as_fbx(walk, tmp_path / "take.fbx")
    with pytest.raises(MotionkitError, match=r"take.fbx cannot be read by Blender 4.2.0"):
        read_fbx(path, reading(program))


def test_a_python_is_not_asked_for_the_bpy_of_the_current_folder(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "bpy.py").write_text("from pathlib import Path\nPath('ran').touch()\n")
    monkeypatch.chdir(tmp_path)
    with pytest.raises(MotionkitError, match="is a Python without bpy"):
        find_blender(sys.executable)
    assert not Path("ran").exists()
