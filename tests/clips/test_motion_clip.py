"""Motions in Python: read, made, saved and converted as the command line does it."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
import torch
from typer.testing import CliRunner

import motionkit
from motionkit.cli import get_app
from motionkit.clips.motion_clip import save_clips
from motionkit.errors import MotionkitError
from motionkit.motion import JointMotion
from motionkit.starter import Order, perform

PROMPT = "a man walks forward. | the person jumps up."


@pytest.fixture(autouse=True)
def _here(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.chdir(tmp_path)


@pytest.fixture(scope="module")
def motions() -> list[motionkit.MotionClip]:
    return motionkit.load_policy().generate(PROMPT, durations=[1, 1], num_samples=2, inference_timesteps=3)


@pytest.fixture(scope="module")
def alone() -> motionkit.MotionClip:
    """One motion, sampled alone: on some CPUs the last bit of a product depends on the size of the batch."""
    return motionkit.load_policy().generate(PROMPT, durations=[1, 1], inference_timesteps=3)[0]


def test_generate_returns_motions(motions: list[motionkit.MotionClip]) -> None:
    assert [(clip.frames, clip.fps) for clip in motions] == [(40, 20.0)] * 2
    assert motions[0].positions().shape == (40, 22, 3)
    assert motions[0].texts == ("a man walks forward, then the person jumps up", *PROMPT.split(" | "))
    assert [(caption.start, caption.end) for caption in motions[0].timed] == [(0.0, 1.0), (1.0, 2.0)]
    assert not torch.equal(motions[0].positions(), motions[1].positions())


@pytest.mark.parametrize("suffix", ["bvh", "glb", "npy", "npz", "html"])
def test_saving_writes_the_bytes_of_the_command_line(alone: motionkit.MotionClip, suffix: str) -> None:
    words = ["generate", PROMPT, f"out.{suffix}", "--durations", "1,1", "--inference-timesteps", "3", "--device", "cpu"]
    result = CliRunner().invoke(get_app(), words)
    assert result.exit_code == 0, result.stderr
    theirs = Path(f"out.{suffix}").read_bytes()
    assert alone.save(f"out.{suffix}") == Path(f"out.{suffix}")  # replaces it
    assert Path(f"out.{suffix}").read_bytes() == theirs


def test_a_folder_of_the_command_line_holds_the_same_motions(motions: list[motionkit.MotionClip]) -> None:
    words = ["generate", PROMPT, "out", "--durations", "1,1", "--inference-timesteps", "3", "--num-samples", "2"]
    assert CliRunner().invoke(get_app(), [*words, "--device", "cpu"]).exit_code == 0
    for number, clip in enumerate(motions):
        joints = np.load(f"out/new_joints/0000_{number:02d}.npy")
        assert np.array_equal(joints, clip.positions().float().numpy())
        assert np.array_equal(np.load(f"out/new_joint_vecs/0000_{number:02d}.npy"), clip.features)


def test_read_cut_save_and_read_again() -> None:
    made = perform([Order("wave/right", frames=60, seed=0)], fps=20.0)[0]
    np.save("wave.npy", made.joints)
    clip = motionkit.read("wave.npy")
    assert np.allclose(clip.positions().numpy(), made.joints, atol=1e-9)
    clip.cut(10, 30).save("part.npz")
    part = motionkit.read("part.npz")
    assert isinstance(part, motionkit.MotionClip)
    assert part.frames == 20
    assert torch.allclose(part.positions(), clip.positions()[10:30], atol=1e-6)
    clip.save("slow.bvh", fps=10)
    assert (motionkit.read("slow.bvh").fps, motionkit.read("slow.bvh").frames) == (10.0, 30)


def test_several_motions(motions: list[motionkit.MotionClip]) -> None:
    for number, clip in enumerate(motions):
        clip.save(f"take{number}.bvh")
    assert [clip.frames for clip in motionkit.read_all(".")] == [40, 40]
    save_clips(motions, "both.html")
    assert Path("both.html").stat().st_size > 10_000
    for call in (lambda: motionkit.read("."), lambda: save_clips(motions, "both.bvh")):
        with pytest.raises(MotionkitError, match=r"2 motions|2 clips"):
            call()


def test_convert(motions: list[motionkit.MotionClip]) -> None:
    motions[0].save("walk.bvh")
    assert motionkit.convert("walk.bvh", "walk.glb").frames == 40
    assert Path("walk.glb").read_bytes()[:4] == b"glTF"
    with pytest.raises(MotionkitError, match="already exists"):
        motionkit.convert("walk.bvh", "walk.glb")
    report = motionkit.convert(["walk.bvh"], "files", to="npz", fps=10.0)
    assert (report.written, report.frames) == (["walk"], 20)


@pytest.mark.parametrize(
    ("name", "said"),
    [("motion", "whose suffix chooses"), ("motion.usd", "cannot be written"), ("file/x.bvh", "no folder")],
)
def test_places_that_take_no_motion(motions: list[motionkit.MotionClip], name: str, said: str) -> None:
    Path("file").write_text("")
    with pytest.raises(MotionkitError, match=said):
        motions[0].save(name)


def test_a_folder_that_is_missing_is_made(motions: list[motionkit.MotionClip]) -> None:
    assert motions[0].save("no/such/x.bvh").is_file()


def test_a_motion_that_is_not_finite_is_not_saved() -> None:
    joints = torch.zeros(40, 1, 3, dtype=torch.float64)
    joints[3] = float("nan")
    clip = motionkit.MotionClip(JointMotion(("hips",), (-1,), joints, 20.0))
    with pytest.raises(MotionkitError, match="not finite"):
        clip.save("bad.npz")


def test_prompts_are_refused_in_python_too() -> None:
    policy = motionkit.load_policy()
    for text, options, word in (
        ([], {}, "no text"),
        ("walk | run", {"durations": [1]}, "2 segment"),
        ("", {}, "empty segment"),
        ("a person w\udce4lks", {}, "UTF-8"),  # a byte of Latin-1, as Python reads it
    ):
        with pytest.raises(MotionkitError, match=word):
            policy.generate(text, **options)
