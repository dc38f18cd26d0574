"""Held-out motions in the space of an evaluator: by segment, in batches of 32, beside reference motions."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import torch
from torch.nn.utils.rnn import pad_sequence

from motionkit import load_dataset, load_policy, load_reward
from motionkit.metrics import kid, r_precision
from motionkit.motion import MotionBatch
from motionkit.text import Prompt
from motionkit.text_to_motion.crops import encode_clips
from motionkit.text_to_motion.evaluation.by_evaluator import LATENTS, ByEvaluator
from motionkit.text_to_motion.evaluation.heldout import HeldOut, compare_measured
from motionkit.text_to_motion.evaluation.real_motions import RealMotions
from motionkit.text_to_motion.rewards.mix import RewardMix

from ...made import starter_evaluator


@pytest.fixture(scope="module")
def dataset() -> Any:
    return load_dataset("starter", clips=144, val_clips=144, test_clips=48, max_frames=64, prompts=32)


@pytest.fixture(scope="module")
def evaluator(dataset: Any) -> Any:
    return starter_evaluator.make(dataset).requires_grad_(False)


def test_each_segment_is_embedded_alone(dataset: Any, evaluator: Any) -> None:
    by = ByEvaluator(evaluator, RealMotions(dataset, "val"))
    clips = [clip.features for clip in dataset.clips("val") if len(clip.features) >= 56][:2]
    batch = MotionBatch(pad_sequence(clips, True), torch.tensor([56, 40]), skeleton=dataset.skeleton, fps=dataset.fps)
    found = by.embed(batch, [Prompt(("he walks", "he waves"), (24, 32)), Prompt(("he sits",), (40,))], 2)
    alone = encode_clips(evaluator, [clips[0][:24], clips[0][24:56], clips[1][:40]])
    torch.testing.assert_close(found[[0, 0, 1], [0, 1, 0]], alone, rtol=1e-4, atol=1e-5)
    assert found[1, 1].isnan().all()


def test_r_precision_is_that_of_the_segments_of_one_sample_at_a_time(dataset: Any, evaluator: Any) -> None:
    by = ByEvaluator(evaluator, RealMotions(dataset, "val"))
    prompts = dataset.prompts("val", k_segments=1)[:40]
    latents = np.random.default_rng(0).normal(size=(40, 2, 1, evaluator.latent)).astype(np.float32)
    latents[3, 1] = np.nan  # a motion that could not be embedded
    found = by.columns(latents, prompts)
    assert set(found) == {"r_precision_3"}, "these captions name no styles"
    text = evaluator.encode_texts([prompt.text for prompt in prompts])
    first = r_precision(text[:32], torch.from_numpy(latents[:32, 0, 0]))[2]
    assert found["r_precision_3"][:32, 0].mean() == pytest.approx(float(first))
    kept = [row for row in range(33) if row != 3]
    second = r_precision(text[kept], torch.from_numpy(latents[kept, 1, 0]))[2]
    assert found["r_precision_3"][kept, 1].mean() == pytest.approx(float(second))
    assert np.isnan(found["r_precision_3"][3, 1])
    assert np.isnan(found["r_precision_3"][33:]).all(), "a remainder is no batch of 32"
    assert by.columns(latents[:31], prompts[:31]) == {}
    assert by.chances(prompts)["r_precision_3"] == 3 / 32


def test_styles_are_measured_where_twenty_prompts_name_one(dataset: Any, evaluator: Any) -> None:
    texts = ["a man walks", "a man walks slowly", "a man walks happily", "a man walks like a ball"]
    by = ByEvaluator(evaluator, RealMotions(dataset, "val"), texts)
    family = evaluator.encode_texts(sorted(texts))  # the plain one, then the styles
    prompts = [Prompt((texts[row % 4],), (40,), f"{row}") for row in range(28)]
    right = np.stack([family[sorted(texts).index(prompt.text)].numpy() for prompt in prompts])[:, None, None]
    found = by.columns(right, prompts)["style"][:, 0]
    assert np.isnan(found[::4]).all(), "a plain caption names no style"
    assert (found[~np.isnan(found)] == 1.0).all()
    plain = np.repeat(right[:1], 28, axis=0)
    assert np.nanmean(by.columns(plain, prompts)["style"]) == 0.0, "all in the plain way: the style is lost"
    assert by.chances(prompts)["style"] == 0.25
    assert "style" not in by.columns(right[:26], prompts[:26]), "19 prompts are too few"


def test_kid_is_against_the_clips_and_that_of_the_reference_without_its_own(dataset: Any, evaluator: Any) -> None:
    real = RealMotions(dataset, "val")
    by = ByEvaluator(evaluator, real)
    prompts = dataset.prompts("val", k_segments=1)[:60:2]  # two captions a clip
    clips = dataset.clips("val")
    places = [next(row for row, clip in enumerate(clips) if clip.key == prompt.source_ids[0]) for prompt in prompts]
    made = encode_clips(
        evaluator, [clips[place].features[: prompt.length] + 0.1 for place, prompt in zip(places, prompts, strict=True)]
    )
    whole = encode_clips(evaluator, [clip.features for clip in clips])
    before = made[:, None, None].numpy()
    found = by.kid(before, before + 0.5, prompts)
    assert found is not None
    assert found.paired.before == pytest.approx(kid(made, whole), rel=1e-4)
    assert found.paired.after == pytest.approx(kid(made + 0.5, whole), rel=1e-4)
    assert found.paired.ci95[0] <= found.paired.delta <= found.paired.ci95[1]
    assert found.paired.n == 30
    answers = encode_clips(
        evaluator, [clips[place].features[: prompt.length] for place, prompt in zip(places, prompts, strict=True)]
    )
    others = whole[[row for row in range(len(clips)) if row not in places]]
    assert found.real == pytest.approx(kid(answers, others), rel=1e-3, abs=1e-4)
    assert by.words({LATENTS: before}) == "KID of 30 segments against 144 clips"
    assert by.words({LATENTS: before[:19]}) == "no KID: 19 segments against 144 clips are too few"
    assert by.kid(before[:19], before[:19], prompts[:19]) is None, "19 segments are too few"


def test_a_held_out_set_has_the_rows_of_its_evaluator(dataset: Any, evaluator: Any) -> None:
    prompts = dataset.prompts("val", k_segments=2)[:32]
    real = RealMotions(dataset, "val", prompts)
    rewards = RewardMix([(load_reward("tmr-dense"), 1.0)])
    common: dict[str, Any] = {"samples": 1, "steps": 2, "guidance": 1.0, "rewards": rewards, "real": real}
    policy = load_policy("starter")
    plain = HeldOut(prompts, **common).measure(policy)
    heldout = HeldOut(prompts, evaluator=ByEvaluator(evaluator, real), **common)
    measured = heldout.measure(policy)
    assert measured.quantities.keys() - plain.quantities.keys() == {"r_precision_3"}
    for name, values in plain.quantities.items():
        assert np.array_equal(values, measured.quantities[name], equal_nan=True), "the rest is the same to the bit"
    reference = heldout.measure_real()
    assert reference is not None
    assert 0 <= reference.mean("r_precision_3") <= 1
    assert compare_measured(measured, measured)["r_precision_3"].delta == 0
    assert "kid" in heldout.compare_sets(measured, measured)
    assert "kid" not in heldout.compare_sets(plain, measured), "a run that was begun without an evaluator"
    assert heldout.kid_words(measured) == "KID of 64 segments against 144 clips"
