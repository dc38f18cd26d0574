"""The Python API: the ten lines of the package's docstring, how objects print, long errors."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
import torch

import motionkit
from motionkit import GRPO, load_dataset, load_policy, load_reward
from motionkit.errors import MotionkitError
from motionkit.starter import generate
from motionkit.text_to_motion.mdm.open import new_policy, open_encoder
from motionkit.text_to_motion.mdm.settings import MDMSettings
from motionkit.text_to_motion.tmr.files import save_tmr
from motionkit.text_to_motion.tmr.model import ActorSizes, new_tmr

SHAPE = MDMSettings(
    layers=1, latent_dim=16, num_heads=2, ff_size=32, patch_size=4, clause_frames=True, mask_frames=True,
    diffusion_steps=10,
)  # fmt: skip


@pytest.fixture(scope="module")
def dataset():
    """A corner of the starter dataset; its clips are made for the statistics only."""
    return motionkit.load_dataset("starter", clips=144, prompts=8, max_frames=40, max_segment=40, cache=False)


def test_ten_lines(dataset, tmp_path: Path) -> None:
    encoder = open_encoder("stored")
    new_policy(SHAPE, dataset=dataset, encoder=encoder).save(tmp_path / "mdm")
    sizes = ActorSizes(4 * 263, 16, 32, 1, 2)
    save_tmr(tmp_path / "tmr", new_tmr(sizes, dataset.normalizer.mean, dataset.normalizer.std, encoder))

    from motionkit import GRPO, load_policy, load_reward
    from motionkit.text_to_motion.grpo.api import GrpoRollout

    policy = load_policy(tmp_path / "mdm", dataset=dataset)
    reward = load_reward("tmr-dense", weights=tmp_path / "tmr", alpha=0.5)
    before = {name: value.clone() for name, value in policy.tensors().items()}
    grpo = GRPO(policy, reward, rollout=GrpoRollout(group_size=2), seed=0)
    prompts = dataset.prompts("train")
    for step in range(2):
        metrics = grpo.step(prompts[2 * step : 2 * step + 2])
        assert 0 <= metrics["reward/mean"] <= 1
    policy.save(tmp_path / "tuned")

    tuned = load_policy(tmp_path / "tuned")
    motions = tuned.generate("a person walks | a person waves", durations=[1, 1])
    assert motions[0].save(tmp_path / "wave.html").read_text().startswith("<!doctype html>")
    motions[0].save(tmp_path / "wave.bvh")
    again = motionkit.read(tmp_path / "wave.bvh")
    assert (again.frames, again.fps) == (40, pytest.approx(20.0))
    motionkit.convert(tmp_path / "wave.bvh", tmp_path / "wave.glb")
    assert (tmp_path / "wave.glb").read_bytes()[:4] == b"glTF"

    tuned = tuned.tensors()
    assert tuned.keys() == before.keys()
    assert any(not torch.equal(value, before[name]) for name, value in tuned.items())


def test_an_unknown_option_names_the_nearest() -> None:
    with pytest.raises(MotionkitError, match=r"'alfa'; did you mean alpha\?"):
        motionkit.load_reward("tmr-dense", alfa=1)


@pytest.mark.parametrize(
    ("load", "name", "options", "word"),
    [
        (motionkit.load_policy, "starter", {"xyz": 1}, "'xyz'"),
        (motionkit.load_reward, "tmr-dense", {"alpha": -1}, "alpha"),
        (motionkit.load_policy, "nowhere", {}, "nowhere"),
        (motionkit.load_reward, "tmr-dens", {}, "'tmr-dens'"),
        (motionkit.load_environment, "reach", {"size": 2}, "size"),
        (motionkit.load_environment, "reech", {}, "'reech'"),
        (motionkit.load_policy, "starter", {"reference": "starter"}, "reference"),  # opened by GRPO alone
    ],
)
def test_names_and_options_are_checked(load: Callable[..., object], name: str, options: dict, word: str) -> None:
    with pytest.raises(MotionkitError, match=word):
        load(name, **options)


def test_copies_of_an_environment_are_stepped_together() -> None:
    environment = motionkit.load_environment("reach", num_envs=3, size=32)
    environment.reset(np.arange(3), np.arange(3))
    step = environment.step(np.zeros((3, 2), np.float32))
    assert step.reward.shape == (3,)
    assert environment.frames()["base_camera"].shape == (3, 32, 32, 3)


def test_importing_motionkit_imports_no_torch() -> None:
    code = "import motionkit, sys; assert 'torch' not in sys.modules; assert 'GRPO' in dir(motionkit)"
    subprocess.run([sys.executable, "-c", code], check=True)


def test_every_public_name_is_there() -> None:
    for name in motionkit.__all__:
        assert getattr(motionkit, name) is not None
    with pytest.raises(AttributeError, match="nonsense"):
        motionkit.nonsense  # noqa: B018


def test_objects_print_one_line(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    np.save("walk.npy", generate("walk", frames=40).joints)
    clip = motionkit.read("walk.npy")
    assert repr(clip) == "MotionClip(40 frames, 20 fps, 22 joints, 2.0 s)"
    assert repr(clip.motion) == "JointMotion(40 frames, 20 fps, 22 joints, 2.0 s)"
    dataset, policy, reward = load_dataset("starter"), load_policy("starter"), load_reward("tmr-dense", alpha=0.7)
    assert "50 steps" in repr(policy)
    assert repr(reward) == "TmrDense(alpha=0.7)"
    (motion,) = policy.generate("a person walks")
    assert repr(motion).endswith("'a person walks')")
    for one in (clip, dataset, policy, reward, motion, load_reward("physics", dataset=dataset), GRPO(policy, reward)):
        assert len(repr(one)) < 120
        assert " at 0x" not in repr(one)
        assert "\n" not in repr(one)


def test_what_a_file_says_at_length_is_cut():
    error = MotionkitError("bad: " + "x" * 100_000, why="y" * 100_000, fix="z")
    assert len(error.message) == len(error.why) == 8003
    assert error.message.startswith("bad: x")
    assert error.message.endswith("x...")
    assert (str(error), error.fix) == (error.message, "z")
    assert error.as_late().message == error.message
