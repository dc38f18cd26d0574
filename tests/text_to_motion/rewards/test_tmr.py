"""TMR rewards: formulas at parity, one pass against a loop, and what must not change a score."""

from __future__ import annotations

import math

import numpy as np
import pytest
import torch
from pydantic import ValidationError
from torch.nn import functional as F

from motionkit import plugins
from motionkit.config import resolve
from motionkit.errors import MotionkitError
from motionkit.motion import HUMANML, MotionBatch
from motionkit.starter import weights_path
from motionkit.text import Prompt, write_table
from motionkit.text_to_motion.crops import Crop
from motionkit.text_to_motion.grpo.settings import GrpoSettings
from motionkit.text_to_motion.rewards.components import CosineOptions, DenseOptions, MatchingOptions
from motionkit.text_to_motion.rewards.joint_space import (
    Similarity,
    TmrCosine,
    TmrDense,
    TmrMatching,
    dense_terms,
    matching_score,
    segment_crops,
)
from motionkit.text_to_motion.tmr.files import save_tmr
from motionkit.text_to_motion.tmr.model import ActorSizes, new_tmr

from ...made.texts import HashEncoder

PROMPTS = [
    Prompt(("walk", "jump", "sit"), (12, 16, 10)),
    Prompt(("wave",), (30,)),
    Prompt(("turn", "walk"), (20, 24)),
    Prompt(("walk", "jump", "sit"), (12, 16, 10)),
    Prompt(("sit",), (9,)),
]


@pytest.fixture
def tmr():
    model = new_tmr(ActorSizes(263, 16, 32, 2, 2), torch.zeros(263), torch.full((263,), 0.7), HashEncoder(24))
    return model.requires_grad_(False)


@pytest.fixture
def motions():
    lengths = torch.tensor([prompt.length for prompt in PROMPTS])
    features = torch.randn(5, 44, 263, generator=torch.Generator().manual_seed(0))
    return MotionBatch(features, lengths, skeleton=HUMANML, fps=20.0)


def alone(tmr, features):
    """One crop, encoded by itself, without padding."""
    return tmr.encode_motion(features[None], torch.ones(1, len(features), dtype=torch.bool)).mu[0]


def cos(a, b):
    return float(F.cosine_similarity(a, b, dim=0))


def slow_dense(tmr, features, prompt, alpha):
    """The definition, one segment at a time; returns the raw score of each segment."""
    texts = [tmr.encode_texts([text])[0] for text in prompt.segments]
    scores = []
    for k, (start, end) in enumerate(prompt.bounds):
        m = alone(tmr, features[start:end])
        wrong = [max(0.0, cos(m, texts[j]) - cos(texts[k], texts[j])) for j in range(len(texts)) if j != k]
        scores.append(cos(m, texts[k]) - alpha * max(wrong, default=0.0))
    return scores


@pytest.mark.parametrize("alpha", [0.0, 0.5, 2.0])
def test_one_pass_equals_the_loop(tmr, motions, alpha):
    """Verification test 23: vectorised segments against a loop, 1e-6."""
    scores = TmrDense(DenseOptions(alpha=alpha, clamp=0, range="raw"), space=tmr).score(motions, PROMPTS)
    for i, prompt in enumerate(PROMPTS):
        expected = slow_dense(tmr, motions.features[i], prompt, alpha)
        assert scores.segments[i, : len(expected)].tolist() == pytest.approx(expected, abs=1e-6)
        assert scores.segments[i, len(expected) :].tolist() == [0.0] * (3 - len(expected))
        assert float(scores.total[i]) == pytest.approx(sum(expected) / len(expected), abs=1e-6)
    parts = scores.parts
    torch.testing.assert_close(scores.total, parts["positive"] - alpha * parts["negative"], rtol=0, atol=1e-6)


def test_recorded_dense_formula(shared):
    """R_pos, R_neg, S and B of the original arithmetic, with its stand-in encoders."""
    recorded = np.load(shared / "fixtures/mdm/origin_dense_reward.npz")
    z = {name: torch.as_tensor(recorded[name]) for name in recorded.files if name != "texts"}
    motion, text = z["motion_emb"], z["text_emb"]
    s = F.normalize(motion, dim=-1) @ F.normalize(text, dim=-1).transpose(1, 2)
    torch.testing.assert_close(s, z["S_matrix"], rtol=0, atol=1e-6)
    terms = dense_terms(motion, text, torch.ones(2, 3, dtype=torch.bool), Similarity())
    torch.testing.assert_close(terms.positive.mean(1), z["R_pos"], rtol=0, atol=1e-6)
    torch.testing.assert_close(terms.negative.mean(1), z["R_neg"], rtol=0, atol=1e-6)
    semantic = terms.positive.mean(1) - float(z["alpha"]) * terms.negative.mean(1)
    torch.testing.assert_close(semantic, z["R_sem"], rtol=0, atol=1e-6)
    total = float(z["beta_s"]) * semantic + float(z["beta_p"]) * z["R_phy"]
    torch.testing.assert_close(total, z["R_total"], rtol=0, atol=1e-6)
    hits = (z["S_matrix"].argmax(2) == torch.arange(3)).float()
    assert torch.equal(terms.correct, hits)


def test_recorded_segment_bounds(shared):
    z = np.load(shared / "fixtures/mdm/origin_dense_reward.npz")
    frames = (z["durations"] * float(z["fps"])).astype(int)
    prompts = [Prompt(("a", "b", "c"), tuple(int(n) for n in row)) for row in frames]
    rows = segment_crops(prompts, [196, 196])
    assert [[[c.start, c.start + c.length] for c in row] for row in rows] == z["segments"].tolist()


def test_bounds_are_clipped_and_the_last_is_extended():
    prompt = Prompt(("a", "b", "c"), (10, 10, 10))
    assert segment_crops([prompt, prompt, prompt], [30, 34, 15]) == [
        [Crop(0, 0, 10), Crop(0, 10, 10), Crop(0, 20, 10)],
        [Crop(1, 0, 10), Crop(1, 10, 10), Crop(1, 20, 14)],
        [Crop(2, 0, 10), Crop(2, 10, 5), Crop(2, 15, 0)],
    ]


def test_one_segment_is_exactly_the_cosine(tmr, motions):
    prompts = [Prompt((prompt.segments[0],), (prompt.length,)) for prompt in PROMPTS]
    for kind in ("unit", "raw"):
        dense = TmrDense(DenseOptions(range=kind), space=tmr).score(motions, prompts).total
        whole = TmrCosine(CosineOptions(range=kind), space=tmr).score(motions, prompts).total
        matching = TmrMatching(MatchingOptions(range=kind), space=tmr).score(motions, prompts).total
        assert torch.equal(dense, whole)
        torch.testing.assert_close(matching, whole, rtol=0, atol=1e-6)


def test_unit_range_is_half_of_raw_plus_a_half(tmr, motions):
    raw, unit = (TmrDense(DenseOptions(range=kind), space=tmr).score(motions, PROMPTS) for kind in ("raw", "unit"))
    torch.testing.assert_close(unit.total, (raw.total + 1) / 2, rtol=0, atol=1e-6)
    for i, prompt in enumerate(PROMPTS):
        count = len(prompt.segments)
        assert float(unit.segments[i, :count].mean()) == pytest.approx(float(unit.total[i]), abs=1e-6)


@pytest.mark.parametrize("reward", ["dense", "cosine", "matching"])
def test_padding_order_and_company_change_nothing(tmr, motions, reward):
    make = {
        "dense": lambda: TmrDense(DenseOptions(), space=tmr),
        "cosine": lambda: TmrCosine(CosineOptions(), space=tmr),
        "matching": lambda: TmrMatching(MatchingOptions(similarity="euclidean"), space=tmr),
    }[reward]
    total = make().score(motions, PROMPTS).total
    dirty = torch.where(motions.mask[..., None], motions.features, torch.nan)
    padded = MotionBatch(F.pad(dirty, (0, 0, 0, 9), value=torch.inf), motions.lengths, skeleton=HUMANML, fps=20.0)
    torch.testing.assert_close(make().score(padded, PROMPTS).total, total, rtol=0, atol=1e-6)
    order = torch.tensor([3, 1, 4, 0, 2])
    mixed = MotionBatch(motions.features[order], motions.lengths[order], skeleton=HUMANML, fps=20.0)
    scores = make().score(mixed, [PROMPTS[i] for i in order.tolist()]).total
    torch.testing.assert_close(scores, total[order], rtol=0, atol=1e-6)
    for i in range(5):
        one = MotionBatch(motions.features[i : i + 1], motions.lengths[i : i + 1], skeleton=HUMANML, fps=20.0)
        torch.testing.assert_close(make().score(one, PROMPTS[i : i + 1]).total, total[i : i + 1], rtol=0, atol=1e-6)


def test_a_motion_with_nan_stays_alone(tmr, motions):
    clean = TmrDense(DenseOptions(), space=tmr).score(motions, PROMPTS)
    features = motions.features.clone()
    features[2, 30, 7] = torch.nan
    broken = MotionBatch(features, motions.lengths, skeleton=HUMANML, fps=20.0)
    scores = TmrDense(DenseOptions(), space=tmr).score(broken, PROMPTS)
    assert scores.total.isnan().tolist() == [False, False, True, False, False]
    keep = torch.tensor([0, 1, 3, 4])
    assert torch.equal(scores.total[keep], clean.total[keep])
    assert TmrCosine(CosineOptions(), space=tmr).score(broken, PROMPTS).total.isnan().tolist() == [0, 0, 1, 0, 0]


def test_a_motion_too_short_for_its_prompt_cannot_be_scored(tmr, motions):
    lengths = torch.tensor([20, 30, 44, 38, 9])
    short = MotionBatch(motions.features, lengths, skeleton=HUMANML, fps=20.0)
    assert TmrDense(DenseOptions(), space=tmr).score(short, PROMPTS).total.isnan().tolist() == [1, 0, 0, 0, 0]


def test_each_text_is_encoded_once(tmr, motions):
    reward = TmrDense(DenseOptions(), space=tmr)
    reward.score(motions, PROMPTS)
    reward.score(motions, PROMPTS)
    assert sorted(tmr.text_model.asked) == ["jump", "sit", "turn", "walk", "wave"]


def test_scores_are_differentiable_in_the_motion(tmr, motions):
    features = motions.features.clone().requires_grad_()
    batch = MotionBatch(features, motions.lengths, skeleton=HUMANML, fps=20.0)
    TmrDense(DenseOptions(), space=tmr).score(batch, PROMPTS).total.sum().backward()
    assert bool((features.grad[motions.mask].abs().sum(-1) > 0).all())
    assert bool((features.grad[~motions.mask] == 0).all())


def test_hacked_channels_are_cut_and_reported(tmr, motions):
    features = motions.features.clone()
    features[0, 3, 5] = 1e6
    hacked = MotionBatch(features, motions.lengths, skeleton=HUMANML, fps=20.0)
    scores = TmrDense(DenseOptions(), space=tmr).score(hacked, PROMPTS)
    assert float(scores.parts["clamped"][0]) > 0
    assert scores.parts["clamped"][1:].tolist() == [0.0] * 4


def test_recorded_matching_scores(shared):
    z = {k: torch.as_tensor(v) for k, v in np.load(shared / "fixtures/mdm/origin_grpo_math.npz").items()}
    motion = torch.zeros(16, 2, dtype=torch.float64)
    motion[:, 0] = z["dist"]
    text = torch.zeros_like(motion)
    for name, recorded in (
        ("linear", "matching_linear"),
        ("exponential", "tmr_exponential_raw"),
        ("sigmoid", "tmr_sigmoid"),
    ):
        got = matching_score(motion, text, Similarity("euclidean", name, max_distance=10.0, scale=2.0))
        torch.testing.assert_close(got, z[recorded], rtol=0, atol=1e-9)


SCORES = [
    {},
    {"similarity": "euclidean", "max_distance": 6.0},
    {"similarity": "euclidean", "normalization": "exponential", "scale": 3.0},
    {"similarity": "euclidean", "normalization": "sigmoid", "scale": 5.0},
]


def plain_score(motion, text, similarity="cosine", normalization="linear", max_distance=10.0, scale=2.0):
    """The guide's formulas (guide 000), one pair of latents at a time."""
    a, b = motion.tolist(), text.tolist()
    if similarity == "cosine":
        norm = math.sqrt(sum(x * x for x in a)) * math.sqrt(sum(x * x for x in b))
        return sum(x * y for x, y in zip(a, b, strict=True)) / norm
    d = math.sqrt(sum((x - y) ** 2 for x, y in zip(a, b, strict=True)))
    if normalization == "linear":
        return 1 - min(max(d / max_distance, 0), 1)
    return math.exp(-d / scale) if normalization == "exponential" else 1 / (1 + math.exp(d / scale))


@pytest.mark.parametrize("options", SCORES)
def test_matching_and_dense_are_the_guides_formulas(tmr, motions, options):
    """Guide 000 (similarity and normalisation) and 001 (segments, negative term, alpha); the same s in every term."""
    matching = TmrMatching(MatchingOptions(**options, clamp=0), space=tmr)
    dense = TmrDense(DenseOptions(**options, clamp=0, alpha=0.7), space=tmr)
    whole, segments = matching.score(motions, PROMPTS), dense.score(motions, PROMPTS)
    for i, prompt in enumerate(PROMPTS):
        halved = (lambda raw: (raw + 1) / 2) if not options else (lambda raw: raw)
        text = tmr.encode_texts([prompt.text])[0]
        one = halved(plain_score(alone(tmr, motions.features[i, : prompt.length]), text, **options))
        assert float(whole.total[i]) == pytest.approx(one, abs=2e-6)
        texts = tmr.encode_texts(prompt.segments)
        found = []
        for k, (start, end) in enumerate(prompt.bounds):
            m = alone(tmr, motions.features[i, start:end])
            excess = [
                max(0.0, plain_score(m, texts[j], **options) - plain_score(texts[k], texts[j], **options))
                for j in range(len(texts))
                if j != k
            ]
            found.append(halved(plain_score(m, texts[k], **options) - 0.7 * max(excess, default=0.0)))
        assert segments.segments[i, : len(found)].tolist() == pytest.approx(found, abs=2e-6)
    for reward, scores in ((matching, whole), (dense, segments)):
        low, high = reward.bounds
        assert bool(((scores.total >= low) & (scores.total <= high)).all())


@pytest.mark.parametrize("options", SCORES[1:])
def test_equal_latents_score_highest_and_have_a_finite_gradient(options):
    similarity = Similarity.of(MatchingOptions(**options))
    motion = torch.ones(2, 3, 8, requires_grad=True)
    terms = dense_terms(motion, torch.ones(2, 3, 8), torch.ones(2, 3, dtype=torch.bool), similarity)
    assert terms.positive.tolist() == [[similarity.highest] * 3] * 2
    assert terms.negative.tolist() == [[0.0] * 3] * 2
    assert terms.correct.tolist() == [[1.0] * 3] * 2
    (terms.positive - terms.negative).sum().backward()
    assert bool(motion.grad.isfinite().all())


def test_correct_segments_are_told_by_distance_where_the_score_is_0():
    """Beyond max_distance every score is 0; the nearer text is still the nearer one."""
    motion = torch.tensor([[[0.0], [30.0]]])
    text = torch.tensor([[[20.0], [60.0]]])
    terms = dense_terms(motion, text, torch.ones(1, 2, dtype=torch.bool), Similarity("euclidean"))
    assert terms.positive.tolist() == [[0.0, 0.0]]
    assert terms.correct.tolist() == [[1.0, 0.0]]


@pytest.mark.parametrize(
    ("model", "options", "message"),
    [
        (MatchingOptions, {"normalization": "sigmoid"}, "normalization has no effect"),
        (DenseOptions, {"similarity": "euclidean", "max_distance": 3.0, "normalization": "sigmoid"}, "max_distance"),
        (MatchingOptions, {"similarity": "euclidean", "scale": 3.0}, "scale has no effect"),
        (DenseOptions, {"similarity": "euclidean", "range": "raw"}, "range has no effect"),
        (CosineOptions, {"similarity": "euclidean"}, "similarity has no effect"),
        (DenseOptions, {"text_encoder": "a.pt"}, "together"),
        (DenseOptions, {"text_encoder": "a.pt", "motion_encoder": "b.pt", "weights": "c"}, "not both"),
    ],
)
def test_options_that_cannot_act_are_refused(model, options, message):
    with pytest.raises(ValidationError, match=message):
        model(**options)


def test_an_option_that_cannot_act_is_accepted_as_it_is_by_default_with_a_line():
    sets = ("reward.tmr-cosine.scale=2", "reward.tmr-cosine.similarity=cosine")
    found = resolve(GrpoSettings, {("reward",): ["tmr-cosine"]}, sets)
    lines = [note for note in found.notes if "has no effect" in note]
    assert lines == [
        f"reward.tmr-cosine.{name} has no effect: the reward is the cosine; tmr-matching has a choice"
        for name in ("similarity", "scale")
    ]


def test_opening_from_options(tmp_path, motions):
    write_table(tmp_path / "t.safetensors", ["walk", "jump", "sit", "wave", "turn"], torch.randn(5, 24), encoder="x")
    save_tmr(
        tmp_path / "tmr",
        new_tmr(ActorSizes(263, 16, 32, 1, 2), torch.zeros(263), torch.ones(263), HashEncoder(24, "stored")),
    )
    options = DenseOptions(weights=str(tmp_path), text_model=str(tmp_path / "t.safetensors"))
    scores = TmrDense(options, dataset=None, device="cpu").score(motions, PROMPTS)
    assert bool(scores.total.isfinite().all())
    for weights, text, word in ((str(tmp_path), "fly", "no stored embedding"), (str(tmp_path / "none"), "sit", "none")):
        with pytest.raises(MotionkitError, match=word):
            TmrDense(options.model_copy(update={"weights": weights})).score(motions, [Prompt((text,), (9,))] * 5)


@pytest.fixture(scope="module")
def scored():
    """Dense scores of 48 held-out clips: with their own captions, and each with every other's."""
    assert weights_path("tmr").is_dir()
    component = plugins.get("datasets", "starter")
    dataset = component.build(component.options())
    clips = dataset.clips("val")
    clips = clips[:: max(1, len(clips) // 48)][:48]
    lengths = torch.tensor([len(clip.features) for clip in clips])
    features = torch.nn.utils.rnn.pad_sequence([clip.features for clip in clips], batch_first=True)
    reward = TmrDense(DenseOptions(), dataset=dataset, device="cpu")

    def score(shift):
        texts = [clips[(i + shift) % len(clips)].captions[0] for i in range(len(clips))]
        prompts = [Prompt((text,), (int(length),)) for text, length in zip(texts, lengths, strict=True)]
        return reward.score(MotionBatch(features, lengths, skeleton=dataset.skeleton, fps=dataset.fps), prompts).total

    return score(0), torch.cat([score(shift) for shift in (7, 19, 31)])


def test_true_motions_score_above_shuffled_ones(scored):
    """Verification test 23: AUC > 0.9."""
    own, other = scored
    assert float((own[:, None] > other[None, :]).double().mean()) > 0.9
