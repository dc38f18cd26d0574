"""Rewards of the text-to-motion evaluator: formulas, the texts of R-precision, and what is refused."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from pydantic import ValidationError

from motionkit import plugins
from motionkit.contracts.dataset import TextMotionDataset
from motionkit.errors import MotionkitError
from motionkit.metrics import match_hits
from motionkit.motion import HUMANML, KIT, MotionBatch
from motionkit.testing import check_component, check_reward
from motionkit.text import Prompt
from motionkit.text_to_motion.evaluator.model import EvaluatorSizes, T2MEvaluator, WordTable
from motionkit.text_to_motion.rewards.components import DenseOptions as TmrDenseOptions
from motionkit.text_to_motion.rewards.joint_space import TmrDense
from motionkit.text_to_motion.rewards.mdm import CombinedOptions, DenseOptions, MatchingOptions, PrecisionOptions
from motionkit.text_to_motion.rewards.ranked import (
    OTHERS,
    MdmCombined,
    MdmDense,
    MdmMatching,
    MdmRPrecision,
    OtherTexts,
    Place,
    place,
)

from ...made.evaluators import WORDS, networks, release
from ...made.plain import plain

SIZES = EvaluatorSizes(263, 12, 10, 8, 8, 6)
VERBS = ("walk", "jump", "wave")
CAPTIONS = [f"a {who} {verb} {how}" for who in ("man", "person", "ball", "arm") for verb in VERBS
            for how in ("left", "slowly", "the ball", "or")]  # fmt: skip
PROMPTS = [
    Prompt((CAPTIONS[0], CAPTIONS[4]), (20, 24)),
    Prompt((CAPTIONS[1],), (30,)),
    Prompt((CAPTIONS[0], CAPTIONS[4]), (20, 24)),
    Prompt((CAPTIONS[7], CAPTIONS[9]), (24, 16)),
]


@plain(TextMotionDataset)
class Data:
    """Prompts of one segment by default."""

    skeleton = HUMANML

    def __init__(self, captions=CAPTIONS):
        self.captions = captions

    def prompts(self, split, *, k_segments=0, seed=0):
        del split, seed
        count = k_segments or 1
        rows = [self.captions[i:] + self.captions[:i] for i in range(len(self.captions))]
        return [Prompt(tuple(row[:count]), (20,) * count) for row in rows]


@pytest.fixture(scope="module")
def evaluator():
    made = networks(SIZES)
    table = WordTable(
        torch.randn(len(WORDS), SIZES.word, generator=torch.Generator().manual_seed(1)),
        {word: row for row, word in enumerate(WORDS)},
        "test",
    )
    return T2MEvaluator(
        made["movement_encoder"],
        made["motion_encoder"],
        made["text_encoder"],
        torch.zeros(263),
        torch.full((263,), 0.5),
        table,
        sizes=SIZES,
    ).eval()


@pytest.fixture
def motions():
    lengths = torch.tensor([prompt.length for prompt in PROMPTS])
    features = torch.randn(4, 44, 263, generator=torch.Generator().manual_seed(0))
    return MotionBatch(features, lengths, skeleton=HUMANML, fps=20.0)


def build(kind, evaluator, **options):
    made = {"matching": (MdmMatching, MatchingOptions), "dense": (MdmDense, DenseOptions),
            "precision": (MdmRPrecision, PrecisionOptions), "combined": (MdmCombined, CombinedOptions)}  # fmt: skip
    reward, model = made[kind]
    return reward(model(**options), dataset=Data(), space=evaluator)


@pytest.mark.parametrize("name", ["mdm-matching", "mdm-r-precision", "mdm-combined", "mdm-dense"])
def test_light_half(name):
    check_component("rewards", name)
    assert plugins.get("rewards", name).gradient == (name in ("mdm-matching", "mdm-dense"))


@pytest.mark.parametrize("kind", ["matching", "dense", "precision", "combined"])
def test_contract(kind, evaluator):
    check_reward(build(kind, evaluator))


def test_matching_is_one_minus_the_distance_over_ten(evaluator, motions):
    """The guide: ``1 - clamp(d / 10, 0, 1)``, d between whole motion and whole text."""
    total = build("matching", evaluator).score(motions, PROMPTS).total
    motion = evaluator.encode_motions(
        torch.where(motions.mask[..., None], motions.features, evaluator.mean), motions.lengths
    )
    for i, prompt in enumerate(PROMPTS):
        text = evaluator.encode_texts([" | ".join(prompt.segments)])[0]
        d = float(np.linalg.norm((motion[i] - text).numpy()))
        assert float(total[i]) == pytest.approx(1 - min(max(d / 10, 0), 1), abs=1e-6)
    assert 0 < float(total.min()) < float(total.max()) < 1


def test_dense_is_the_code_of_tmr_dense(evaluator, motions):
    """One network in both rewards gives the same bits; the default is the cosine, as in the guide's dense mode."""
    own = build("dense", evaluator, alpha=0.7).score(motions, PROMPTS)
    other = TmrDense(TmrDenseOptions(alpha=0.7, clamp=500.0), space=evaluator).score(motions, PROMPTS)
    assert torch.equal(own.total, other.total)
    assert torch.equal(own.segments, other.segments)


def test_dense_and_matching_have_a_gradient_and_the_others_none(evaluator, motions):
    for kind in ("matching", "dense", "precision", "combined"):
        features = motions.features.clone().requires_grad_()
        batch = MotionBatch(features, motions.lengths, skeleton=HUMANML, fps=20.0)
        total = build(kind, evaluator).score(batch, PROMPTS).total
        assert total.requires_grad == (kind in ("matching", "dense"))
        if total.requires_grad:
            (slope,) = torch.autograd.grad(total.sum(), features)
            assert bool(slope.isfinite().all())
            assert float(slope[motions.mask].abs().sum()) > 0


def test_r_precision_is_the_rank_among_the_others(evaluator, motions):
    """One sample at a time, by sorting distances."""
    plain = build("precision", evaluator)
    graded = build("precision", evaluator, graded=True).score(motions, PROMPTS).total
    scores = plain.score(motions, PROMPTS)
    latents, _ = plain.whole(motions, PROMPTS)
    others = OtherTexts(Data(), "train", 0, evaluator.whole_text)
    for i, prompt in enumerate(PROMPTS):
        texts = [evaluator.whole_text(prompt), *others.of(prompt)]
        distances = [float((latents.mu[i] - evaluator.encode_texts([text])[0]).norm()) for text in texts]
        rank = sorted(distances).index(distances[0])
        assert float(scores.parts["rank"][i]) == rank
        assert float(scores.total[i]) == pytest.approx(np.mean([rank < k for k in (1, 2, 3)]))
        assert float(graded[i]) == pytest.approx(1 - rank / 31)


def test_hits_by_rank():
    alone = Place(torch.tensor([0.0, 1.0, 2.0, 3.0, 31.0]), torch.ones(5))
    torch.testing.assert_close(alone.precision(graded=False), torch.tensor([1, 2 / 3, 1 / 3, 0, 0]))
    assert alone.precision(graded=True)[[0, 4]].tolist() == [1.0, 0.0]


def test_a_tie_counts_by_its_expectation():
    """Over all places that the own text can take among the tied."""
    for nearer, tied in [(0, 2), (0, 4), (1, 2), (2, 5), (4, 3), (0, 32)]:
        ranks = np.arange(nearer, nearer + tied)
        found = Place(torch.tensor([float(nearer)]), torch.tensor([float(tied)]))
        hits = np.mean([[rank < k for k in (1, 2, 3)] for rank in ranks])
        assert float(found.precision(graded=False)) == pytest.approx(hits)
        assert float(found.precision(graded=True)) == pytest.approx(np.mean(1 - ranks / OTHERS), abs=1e-6)
    # A network that maps every text to one point is at chance: 1/32, 2/32 and 3/32.
    found = place(torch.zeros(2, 4), torch.ones(2, 4), torch.ones(2, OTHERS, 4))
    assert found.rank.tolist() == [15.5, 15.5]
    assert found.precision(graded=False).tolist() == [0.0625, 0.0625]


def test_ties_count_as_in_the_metric():
    """Of the same 32 texts and motions, whose distances are small whole numbers, so that many are alike."""
    draw = torch.Generator().manual_seed(0)
    texts, points = (torch.randint(0, 3, (OTHERS + 1, 3), generator=draw).float() for _ in range(2))
    others = torch.stack([torch.cat([texts[:i], texts[i + 1 :]]) for i in range(OTHERS + 1)])
    found = place(points, texts, others)
    assert int((found.tied > 1).sum()) > 20
    expected = match_hits(points, texts, top=3).mean(0).float()
    torch.testing.assert_close(found.precision(graded=False), expected)


def test_the_other_texts_are_fixed_by_seed_and_prompt_and_hold_no_equal_caption(evaluator):
    data = Data([*CAPTIONS, CAPTIONS[0].upper() + ".", "  " + CAPTIONS[0]])
    drawn = OtherTexts(data, "train", 0, evaluator.whole_text)
    for prompt in (*PROMPTS, Prompt((CAPTIONS[0],), (20,))):
        texts = drawn.of(prompt)
        assert len(set(texts)) == OTHERS
        assert evaluator.whole_text(prompt) not in texts
        assert all(text.count(" | ") == len(prompt.segments) - 1 for text in texts), "as many segments as the prompt"
        again = OtherTexts(data, "train", 0, evaluator.whole_text)
        again.of(PROMPTS[1])
        assert again.of(prompt) == texts, "whatever was asked before"
        assert OtherTexts(data, "train", 1, evaluator.whole_text).of(prompt) != texts
    plain = {" ".join(text.casefold().split()).rstrip(".") for text in drawn.of(Prompt((CAPTIONS[0],), (20,)))}
    assert CAPTIONS[0] not in plain


def test_combined_is_the_weighted_sum(evaluator, motions):
    near = build("matching", evaluator).score(motions, PROMPTS).total
    hit = build("precision", evaluator).score(motions, PROMPTS).total
    combined = build("combined", evaluator)
    torch.testing.assert_close(combined.score(motions, PROMPTS).total, 0.7 * near + 0.3 * hit)
    assert combined.bounds == (0.0, 1.0)
    other = build("combined", evaluator, matching_weight=2.0, precision_weight=0.5, graded=True)
    ranked = build("precision", evaluator, graded=True).score(motions, PROMPTS).total
    torch.testing.assert_close(other.score(motions, PROMPTS).total, 2 * near + 0.5 * ranked)


def test_fewer_than_32_captions_and_no_dataset_are_refused(evaluator):
    MdmRPrecision(PrecisionOptions(), dataset=Data(CAPTIONS[:32]), space=evaluator)
    for reward, options, dataset, word in (
        (MdmRPrecision, PrecisionOptions(split="val"), Data(CAPTIONS[:31]), "val split has 31"),
        (MdmRPrecision, PrecisionOptions(), None, "dataset"),
        (MdmCombined, CombinedOptions(), None, "dataset"),
    ):
        with pytest.raises(MotionkitError, match=word):
            reward(options, dataset=dataset, space=evaluator)


def test_options_that_cannot_act_are_refused():
    for model, options in ((MatchingOptions, {"similarity": "cosine"}), (DenseOptions, {})):
        with pytest.raises(ValidationError, match="max_distance"):
            model(max_distance=3.0, **options)
    assert DenseOptions(similarity="euclidean", max_distance=3.0).alpha == 0.5


def test_a_released_evaluator_is_opened_with_the_datasets_tokens(tmp_path, motions):
    file = release(tmp_path) / "t2m/text_mot_match/model/finest.tar"

    class Tokens(Data):
        def caption_tokens(self):
            return {CAPTIONS[0]: ("a/DET", "ball/NOUN")}

    for reward, options in (
        (MdmMatching, MatchingOptions(weights=str(file))),
        (MdmDense, DenseOptions(weights=str(file), glove=tmp_path / "glove")),
    ):
        built = reward(options, dataset=Tokens(), device="cpu")
        assert built.space.tokens == {CAPTIONS[0]: ("a/DET", "ball/NOUN")}
        assert bool(built.score(motions, PROMPTS).total.isfinite().all())


def test_kit_features_are_refused_before_a_run(evaluator):
    class Kit(Data):
        skeleton = KIT

    with pytest.raises(MotionkitError, match="motions have 251"):
        MdmMatching(MatchingOptions(), dataset=Kit(), space=evaluator)
