"""The starter's evaluator: small, its own words, and ground truth ahead of the starter policy in every figure."""

from __future__ import annotations

import json

import pytest
import torch

import motionkit
from motionkit.metrics import frechet, matching_score, r_precision
from motionkit.rl import DDIM, NoiseSource, StepPlan
from motionkit.starter import weights_path
from motionkit.starter._catalogue import captions
from motionkit.text import Prompt
from motionkit.text_to_motion.crops import encode_clips
from motionkit.text_to_motion.evaluator.files import open_evaluator
from motionkit.text_to_motion.generating import sample


def test_size():
    folder = weights_path("evaluator")
    assert sum(path.stat().st_size for path in folder.iterdir()) <= 1_000_000
    assert sum(path.stat().st_size for path in folder.parent.rglob("*") if path.is_file()) <= 20_000_000
    assert open_evaluator().latent <= 64
    assert json.loads((folder / "config.json").read_text())["training"]["dataset"]["name"] == "starter"


def test_it_knows_the_words_of_the_starter():
    """Of all captions, those that are only tested with included."""
    evaluator = open_evaluator()
    tokens = [token for text in captions() for token in evaluator.tokens_of(text)]
    known = sum(token.rpartition("/")[0] in evaluator.words.rows for token in tokens)
    assert known / len(tokens) > 0.99
    assert evaluator.tagger == "built-in"


@pytest.fixture(scope="module")
def compared():
    """Texts, real and generated motions of 144 validation clips, one of each class, by the sampler of five steps."""
    torch.set_num_threads(1)
    policy = motionkit.load_policy("starter")
    clips = motionkit.load_dataset("starter").clips("val")[:144]
    plan = StepPlan.build(policy.schedule, DDIM(0.0), steps=5)
    evaluator = open_evaluator().requires_grad_(False)
    with torch.no_grad():
        prompts = [Prompt((clip.captions[0],), (len(clip.features),), key=clip.key) for clip in clips]
        made = sample(policy, prompts, plan, NoiseSource(0), guidance=2.5, step=-1).motions
        motions = [row[:length] for row, length in zip(made.features, made.lengths.tolist(), strict=True)]
        order = torch.randperm(len(clips), generator=torch.Generator().manual_seed(0))
        texts = evaluator.encode_texts([clip.captions[0] for clip in clips])
        real = encode_clips(evaluator, [clip.features for clip in clips])
        return texts[order], real[order], encode_clips(evaluator, motions)[order]


def test_ground_truth_is_best(compared):
    texts, real, made = compared
    best, base = r_precision(texts, real), r_precision(texts, made)
    assert float(best[2]) > 0.93
    assert bool((best > base).all())
    assert float(matching_score(texts, real)) < float(matching_score(texts, made))
    half = len(real) // 2
    assert frechet(real[:half], real[half:]) < frechet(made[:half], real[half:])


def test_chance_is_chance(compared):
    """A text with another clip's motion: R@3 among 32 is 9.4 %."""
    texts, real, _ = compared
    assert float(r_precision(texts, real.roll(1, 0))[2]) < 0.2
