"""Kinetic FID and NPSS of held-out motions: by segment, beside as many reference segments, before and after."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import torch
from torch.nn.utils.rnn import pad_sequence

from motionkit import load_dataset, load_policy, load_reward
from motionkit.metrics import body_positions, kinetic_features, kinetic_fid, npss_terms
from motionkit.motion import MotionBatch
from motionkit.text import Prompt
from motionkit.text_to_motion.evaluation.heldout import HeldOut, Measured
from motionkit.text_to_motion.evaluation.real_motions import RealMotions
from motionkit.text_to_motion.evaluation.set_figures import compare_sets, set_columns
from motionkit.text_to_motion.rewards.mix import RewardMix


@pytest.fixture(scope="module")
def dataset() -> Any:
    return load_dataset("starter", clips=288, val_clips=288, test_clips=144, max_frames=64, prompts=12)


def batch(dataset: Any, features: list[torch.Tensor]) -> MotionBatch:
    lengths = torch.tensor([len(one) for one in features])
    return MotionBatch(pad_sequence(features, True), lengths, skeleton=dataset.skeleton, fps=dataset.fps)


def arrays(dataset: Any, features: list[torch.Tensor], prompts: list[Prompt], real: RealMotions) -> dict[str, Any]:
    found = set_columns(batch(dataset, features), prompts, real, 1)
    return {name: values[:, None].numpy() for name, values in found.items()}


def test_columns_are_those_of_each_segment_alone(dataset: Any) -> None:
    clips = dataset.clips("val")
    long = [clip.features for clip in clips if len(clip.features) >= 60]
    made = [long[0][:60], long[1][:40], long[2][:48]]
    prompts = [
        Prompt(("he walks", "he waves"), (25, 35)),
        Prompt((clips[7].captions[0],), (40,), f"{clips[7].key}#0"),
        Prompt(("zzz",), (48,)),
    ]
    found = set_columns(batch(dataset, made), prompts, RealMotions(dataset, "val"), 2)
    assert found["kinetic"].shape == (3, 2, 66)
    for row, number, (start, end) in ((0, 0, (0, 25)), (0, 1, (25, 60)), (1, 0, (0, 40)), (2, 0, (0, 48))):
        joints = batch(dataset, made[row : row + 1]).joints[:, start:end]
        alone = kinetic_features(joints, torch.tensor([end - start]), dataset.fps)[0]
        torch.testing.assert_close(found["kinetic"][row, number], alone)
    assert found["kinetic"][1:, 1].isnan().all()
    assert found["npss"].isnan().all(1).tolist() == [True, False, True]  # a segment of no clip that is known
    own, mine = (batch(dataset, [one]) for one in (clips[7].features, made[1]))
    start = (len(clips[7].features) - 40) // 2
    bodies = [body_positions(one.joints, one.headings).flatten(2) for one in (mine, own)]
    terms = npss_terms(bodies[0], bodies[1][:, start : start + 40])
    torch.testing.assert_close(found["npss"][1], torch.stack([one[0] for one in terms]), rtol=1e-4, atol=1e-4)


def test_a_real_motion_of_its_own_has_no_distance(dataset: Any) -> None:
    prompts, real = dataset.prompts("val", k_segments=1)[:6], RealMotions(dataset, "val")
    features = [dataset.clips("val")[row].features[: prompt.length] for row, prompt in enumerate(prompts)]
    columns = {
        name: values[:, None].numpy()
        for name, values in set_columns(batch(dataset, features), prompts, real, 1).items()
    }
    noisy = [one + 0.02 * torch.randn(one.shape, generator=torch.Generator().manual_seed(0)) for one in features]
    worse = arrays(dataset, noisy, prompts, real)
    found = compare_sets(columns, worse, prompts, real)
    assert set(found) == {"npss"}, "6 segments are too few for a covariance of 66 features"
    paired = found["npss"].paired
    assert paired.before == pytest.approx(0.0, abs=1e-5)
    assert paired.after > 0.01
    assert paired.delta == paired.after - paired.before
    assert 0 < paired.ci95[0] <= paired.delta <= paired.ci95[1]
    assert (paired.n, found["npss"].real) == (6, None)
    assert paired.after == pytest.approx(float(worse["npss"][..., 0].sum() / worse["npss"][..., 1].sum()), rel=1e-5)


def test_kinetic_fid_is_that_of_all_segments_and_real_ones_are_as_many(dataset: Any) -> None:
    prompts, real = dataset.prompts("val")[:12], RealMotions(dataset, "val")
    segments = sum(len(prompt.segments) for prompt in prompts)
    samples = 4
    answers = real.kinetic(prompts, samples)
    assert answers.shape == (segments * samples, 66)
    assert len(answers.unique(dim=0)) > 1.5 * segments, "samples take different clips of an action"
    clips = real.kinetic()
    assert clips.shape == (288, 66)
    draw = np.random.default_rng(0)
    width = max(len(prompt.segments) for prompt in prompts)
    before = np.full((12, samples, width, 66), np.nan, dtype=np.float32)
    for row, prompt in enumerate(prompts):
        before[row, :, : len(prompt.segments)] = clips[draw.integers(0, 288, (samples, len(prompt.segments)))].numpy()
    after = before + clips.std(0).numpy() * 2  # each feature two standard deviations away
    found = compare_sets({"kinetic": before}, {"kinetic": after}, prompts, real)["kinetic_fid"]
    for value, rows in ((found.paired.before, before), (found.paired.after, after)):
        flat = torch.from_numpy(rows).flatten(0, 2)
        assert value == pytest.approx(kinetic_fid(flat[flat.isfinite().all(1)], clips), rel=1e-9)
    assert found.paired.ci95[0] < found.paired.delta < found.paired.ci95[1]
    assert found.paired.delta > 100
    assert found.real == pytest.approx(kinetic_fid(answers, clips), rel=1e-9)
    same = compare_sets({"kinetic": before}, {"kinetic": before}, prompts, real)["kinetic_fid"].paired
    assert (same.delta, same.ci95) == (0.0, (0.0, 0.0))


def test_a_measurement_keeps_its_sets_in_files_and_checkpoints(dataset: Any, tmp_path: Any) -> None:
    prompts = dataset.prompts("val")[:3]
    rewards = RewardMix([(load_reward("physics", dataset=dataset), 1.0)])
    heldout = HeldOut(prompts, samples=2, steps=2, guidance=1.0, rewards=rewards, real=RealMotions(dataset, "val"))
    found = heldout.measure(load_policy("starter", dataset=dataset))
    width = max(len(prompt.segments) for prompt in prompts)
    assert found.sets["kinetic"].shape == (3, 2, width, 66)
    assert np.isfinite(found.sets["kinetic"][:, :, 0]).all()
    file = tmp_path / "heldout" / "one.safetensors"
    found.keep(file)
    for back in (Measured.from_tensors(found.tensors()), Measured.kept(file, found)):
        assert back is not None
        assert back.quantities.keys() == found.quantities.keys()
        assert all(np.array_equal(back.sets[name], values, equal_nan=True) for name, values in found.sets.items())
    assert Measured.kept(file, found.first(2)) is None
    assert found.first(2).sets["kinetic"].shape[0] == 2
