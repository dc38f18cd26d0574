"""What a line of convert asks for is clear, or refused, before anything is read."""

from __future__ import annotations

from pathlib import Path

import pytest
from typer.testing import CliRunner

from motionkit.clips.convert import Edits, FileTarget, OutputOptions, plan_conversion
from motionkit.clips.convert.feature_target import FeatureTarget
from motionkit.errors import MotionkitError

from ...made.bvh_files import write_bvh


def run(*words: object):
    from motionkit.cli import get_app

    return CliRunner().invoke(get_app(), [str(word) for word in words])


@pytest.mark.parametrize(
    ("out", "to", "inputs", "target", "file"),
    [
        ("out", None, ["a.bvh"], FeatureTarget("humanml"), None),
        ("out", "kit", ["a.bvh"], FeatureTarget("kit"), None),
        ("out", "glb", ["a.bvh"], FileTarget("glb"), None),
        ("a.glb", None, ["a.bvh"], FileTarget("glb"), "glb"),
        ("a.npz", None, ["a.json", "b.JSON"], FileTarget("mpl"), "mpl"),
        ("a.npz", None, ["a.json", "b.bvh"], FileTarget("npz"), "npz"),
        ("a.npz", "mpl", ["a.bvh"], FileTarget("mpl"), "mpl"),
        ("v1.2", None, ["a.bvh"], FeatureTarget("humanml"), None),
    ],
)
def test_paths_say_what_to_make(out: str, to, inputs, target, file) -> None:
    request = plan_conversion(Path(out), inputs, to)
    assert (request.target, request.file) == (target, file)


def test_a_folder_that_is_called_like_a_file_is_a_folder(tmp_path: Path) -> None:
    (tmp_path / "my.bvh").mkdir()
    request = plan_conversion(tmp_path / "my.bvh", ["a.npz"], "glb")
    assert (request.target, request.file) == (FileTarget("glb"), None)


@pytest.mark.parametrize(
    ("out", "to", "options", "said"),
    [
        ("a.glb", "bvh", OutputOptions(), "--to bvh does not fit the name a.glb"),
        ("a.fbx", None, OutputOptions(), ".fbx files cannot be written"),
        ("out", "kit", OutputOptions(fps=20.0), "--fps 20: kit has 12.5"),
        ("out", None, OutputOptions(min_frames=50), "--min-frames does not act with --to humanml"),
        ("a.npz", None, OutputOptions(min_frames=50), "--min-frames does not act where OUT is a single file"),
        ("out", "kit", OutputOptions(edits=Edits(yaw=3.0)), "--yaw does not act with --to kit"),
        ("out", "kit", OutputOptions(bvh_unit="m"), "--bvh-unit does not act with --to kit"),
        ("a.glb", None, OutputOptions(bvh_unit="m"), "--bvh-unit does not act with --to glb"),
    ],
)
def test_what_could_not_act_is_refused(out: str, to, options: OutputOptions, said: str) -> None:
    with pytest.raises(MotionkitError, match=said):
        plan_conversion(Path(out), ["a.bvh"], to, options)


def test_a_check_tells_of_short_clips_and_is_no_failure(tmp_path: Path) -> None:
    write_bvh(tmp_path / "a.bvh", 100)
    result = run("convert", "--check", tmp_path / "a.bvh")
    assert result.exit_code == 0, result.stderr
    assert "34 frames at 20 fps" in " ".join(result.stdout.split())
