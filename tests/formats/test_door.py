"""Formats of other packages: who reads a file, who writes one, and what they need to know."""

from __future__ import annotations

import re
import subprocess
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from typer.testing import Result

import motionkit
from motionkit import plugins
from motionkit.clips.convert import open_sources
from motionkit.documents import open_file
from motionkit.errors import MotionkitError
from motionkit.formats import FORMATS, kind_of, peek, recognise, table
from motionkit.motion import ReadOptions
from motionkit.starter import generate

from ..made.forks import Forks

Cli = Callable[..., Result]

LIGHT = """
from motionkit.formats import Format, Reader, Setting, Writer

def has_36_columns(peek):
    return peek.line.count(",") == 35

def has_bend(peek):
    return "bend" in peek.keys

def require_robot(settings):
    from motionkit.errors import MotionkitError
    if not settings.get("robot"):
        raise MotionkitError("no robot is named.", fix="--robot FILE")

FORMATS = (
    Format(
        "qpos", "qpos CSV", (".csv",), Reader("gantry_files:read", ("fps",), claims="gantry:has_36_columns"),
        Writer("gantry_files:write", rotations=False), help="Reads and writes qpos.",
        settings=(Setting("robot", "File of the robot.", writing="The robot's file.", variable="GANTRY_ROBOT",
                          code="it is read as code.", needed="qpos, which needs --robot"),),
        ready="gantry:require_robot", after="glb",
    ),
    Format("bend", "bend npz", (".npz",), Reader("gantry_files:read_bend", claims="gantry:has_bend"),
           Writer("gantry_files:write", rotations=False, named=True)),
    Format("bent", "bent npz", (".bent.npz",), writer=Writer("gantry_files:write")),
    Format("glb", "another GLB", (".glb",), Reader("gantry_files:read")),
)
"""
HEAVY = """
import numpy as np
import torch
from motionkit.formats import Fit
from motionkit.motion import Clip, JointMotion

def read(path, options):
    assert options.settings["robot"]
    rows = torch.from_numpy(np.loadtxt(path, delimiter=",", ndmin=2))
    names = tuple(f"link {number}" for number in range(12))
    return [Clip(JointMotion(names, (-1, *range(11)), rows.unflatten(1, (12, 3)), options.fps or 30.0))]

def read_bend(path, options):
    return 1 / 0

def write(path, clips, options):
    (clip,) = clips
    rows = clip.motion.positions()[:, :12].flatten(1).numpy()
    np.savetxt(path, rows, delimiter=",", header=options.settings["robot"], comments="#")
    return Fit({"robot_error": 0.25}, "link 3", ("its joints are 0.25 m off.",))
"""
ENTRIES = "[motionkit.formats]\ngantry = gantry:FORMATS\n"


@pytest.fixture
def gantry(site: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Any:
    """A package with two formats of a robot, one that is written alone, and one whose name is taken."""
    site.install("motionkit-gantry", ENTRIES, gantry=LIGHT, gantry_files=HEAVY)
    table._load.cache_clear()  # another test's package of the same entries is not this one
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("GANTRY_ROBOT", raising=False)
    np.savetxt("qpos.csv", np.arange(20 * 36).reshape(20, 36) / 100, delimiter=",")
    np.savetxt("other.csv", np.zeros((3, 5)), delimiter=",")
    np.savez("bend.npz", bend=np.zeros(3))
    np.savez("other.npz", other=np.zeros(3))
    np.save("walk.npy", generate("walk", frames=40).joints)
    return site


def test_formats_claim_files_by_what_is_in_them(gantry: Any) -> None:
    assert [entry and entry.name for entry in map(recognise, map(Path, ("qpos.csv", "bend.npz", "walk.npy")))] == [
        "qpos", "bend", "joints"
    ]  # fmt: skip
    assert recognise(Path("other.csv")) is None
    assert recognise(Path("other.npz")) is None
    with pytest.raises(MotionkitError, match=r"other\.csv does not hold a motion") as caught:
        motionkit.read("other.csv")
    assert ".csv: qpos CSV" in caught.value.why  # and those of packages that are installed here
    motionkit.read("walk.npy").save("own.npz")
    assert motionkit.read("own.npz").frames == 40


def test_a_file_is_opened_once_for_all_formats(gantry: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    opened: list[Path] = []

    def counting(path: Path) -> Any:
        opened.append(path)
        return open_file(path)

    monkeypatch.setattr(peek, "open_file", counting)
    for name in ("other.npz", "walk.npy", "other.csv"):
        recognise(Path(name))
        assert opened == [Path(name)], name
        opened.clear()


def test_the_ending_that_says_most_chooses_the_writer(gantry: Any) -> None:
    names = ("a.csv", "a.npz", "a.bent.npz", "a.BENT.NPZ", "a.glb", "a.txt", ".npz")
    assert [kind_of(Path(name)) for name in names] == ["qpos", "npz", "bent", "bent", "glb", None, None]


def test_a_motion_is_read_and_written_with_what_the_format_needs(gantry: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    clip = motionkit.read("qpos.csv", robot="arm.xml", source_fps=50.0)
    assert (clip.frames, clip.fps, clip.motion.names[0]) == (20, 50.0, "link 0")
    clip.save("again.csv", robot="arm.xml")
    assert Path("again.csv").read_text().startswith("#arm.xml")
    report = motionkit.convert("walk.npy", "walk.csv", robot=Path("arm.xml"))
    assert report.figures["robot_error"] == 0.25
    assert report.warnings == ["walk: its joints are 0.25 m off."]
    with pytest.raises(MotionkitError, match="no robot is named"):
        motionkit.convert("walk.npy", "more.csv")
    with pytest.raises(MotionkitError, match="no format has the setting 'robt'"):
        motionkit.read("qpos.csv", robt="arm.xml")


def test_files_in_a_folder_are_passed_over_for_want_of_a_setting(gantry: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    opened = open_sources([Path()])
    assert opened.unread == {"qpos, which needs --robot": [Path("qpos.csv")]}
    assert {source.key for source in opened.sources} == {"bend", "walk"}
    assert not open_sources([Path()], ReadOptions(settings={"robot": "arm.xml"})).unread
    monkeypatch.setenv("GANTRY_ROBOT", "arm.xml")
    assert not open_sources([Path()]).unread


def test_a_reader_that_fails_is_told_by_its_package(gantry: Any) -> None:
    with pytest.raises(MotionkitError, match="'motionkit-gantry' raised ZeroDivisionError"):
        motionkit.read("bend.npz")


def test_a_format_whose_name_is_taken_or_that_does_not_import_is_ignored_and_said(
    gantry: Any, caplog: pytest.LogCaptureFixture, cli: Cli
) -> None:
    entries = "[motionkit.formats]\nbroken = broken_gantry:FORMAT\nodd = odd_gantry:FORMAT\n"
    gantry.install("motionkit-broken", entries, broken_gantry="1 / 0\n", odd_gantry="FORMAT = 3\n")
    assert FORMATS["glb"].summary == "GLB"
    assert "qpos" in FORMATS
    said = " ".join(table.problems())
    assert "format 'glb' of package 'motionkit-gantry' is ignored" in said
    assert "format 'broken' of package 'motionkit-broken' does not import: ZeroDivisionError" in said
    assert "odd_gantry:FORMAT of package 'motionkit-broken' is a int, not a motionkit Format" in said
    assert all(one in caplog.text for one in table.problems())
    done = cli("doctor").stdout
    assert "format 'broken' of package" in done
    assert "qpos: no robot is named." in done


def test_two_settings_of_one_name_are_refused(gantry: Any, cli: Cli) -> None:
    light = """
from motionkit.formats import Format, Setting, Writer
FORMATS = tuple(
    Format(name, name, ("." + name,), writer=Writer("arm:write"), settings=(Setting("robot", help),))
    for name, help in {"arm": "Number of the robot.", "leg": "Number of a leg."}.items()
)
"""
    gantry.install("motionkit-arm", "[motionkit.formats]\narm = arm:FORMATS\n", arm=light)
    said = " ".join(table.problems())
    assert "'qpos' of package 'motionkit-gantry' is ignored: its setting 'robot' is another one of" in said
    assert "'leg' of package 'motionkit-arm' is ignored" in said
    assert FORMATS["arm"].settings == (table.settings()["robot"],)
    done = cli("plugins", "list", "--check")
    assert done.exit_code == 1
    assert "its setting 'robot' is another one" in " ".join(done.output.split())


def test_the_command_line_knows_formats_of_packages(gantry: Any, tmp_path: Path, forks: Forks) -> None:
    """In a process of its own, as options are made when a command is imported."""
    there = {"COLUMNS": "200", "NO_COLOR": "1"}

    def run(*words: str) -> subprocess.CompletedProcess[str]:
        return forks.run("motionkit", *words, environment=there, path=[str(gantry.folder)])

    shown = run("convert", "--help").stdout
    for part in ("|qpos|", "--robot", "File of the robot.", "Reads and writes qpos."):
        assert part in shown
    assert "The robot's file." in run("generate", "--help").stdout
    done = run("convert", "walk.npy", "out", "--to", "qpos", "--robot", "arm.xml")
    assert done.returncode == 0, done.stderr
    assert Path("out/walk.csv").read_text().startswith("#arm.xml")
    assert "its joints are 0.25 m off." in done.stderr
    done = run("generate", "a person walks", "made.csv", "--robot", "arm.xml")
    assert done.returncode == 0, done.stderr
    assert Path("made.csv").read_text().startswith("#arm.xml")
    assert "its joints are 0.25 m off." in done.stderr
    Path("settings.toml").write_text('[read]\nrobot = "arm.xml"\n')
    done = run("convert", "walk.npy", "more", "--to", "qpos", "--config", "settings.toml")
    assert done.returncode == 2
    assert "it is read as code" in done.stderr


def test_a_file_whose_package_is_not_installed_names_it(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    found = plugins.scan()
    less = replace(found, objects=tuple(entry for entry in found.objects if entry.distribution != "motionkit-fbx"))
    monkeypatch.setattr(plugins, "scan", lambda: less)
    monkeypatch.chdir(tmp_path)
    Path("take.fbx").write_bytes(b"Kaydara FBX Binary  \0")
    np.save("walk.npy", generate("walk", frames=40).joints)
    for call in (
        lambda: motionkit.read("take.fbx"), lambda: motionkit.convert("walk.npy", "walk.fbx"),
        lambda: motionkit.convert("walk.npy", "out", to="fbx"), lambda: motionkit.read("walk.npy").save("walk.fbx"),
        lambda: motionkit.convert("walk.npy", "walk.bvh", rig="take.fbx"),
        lambda: motionkit.read("walk.npy", blender="blender"),
    ):  # fmt: skip
        with pytest.raises(MotionkitError) as caught:
            call()
        assert "the package motionkit-fbx" in caught.value.why
        assert "packages.txt" in caught.value.fix
        assert caught.value.code == 2
    assert [path.name for path in Path().iterdir() if path.is_dir()] == []


def test_the_document_s_format_is_one(root: Path, tmp_path: Path) -> None:
    text = (root / "docs" / "plugins.md").read_text(encoding="utf-8")
    (source,) = (one for one in re.findall(r"```python\n(.*?)```", text, re.DOTALL) if "Format(" in one)
    made: dict[str, Any] = {}
    exec(source, made)
    (tmp_path / "a.csv").write_text(",".join("0" * 36))
    assert made["QPOS"].matches(tmp_path / "a.csv")
    assert made["has_36_columns"](peek.Peek(tmp_path / "a.csv"))


def test_every_format_names_what_exists() -> None:
    for form in FORMATS.values():
        assert form.reader or form.writer
        assert all(suffix.startswith(".") and suffix == suffix.lower() for suffix in form.suffixes)
        for target in form.targets:
            assert callable(plugins.attribute_of(target)), target
