"""Figures of region policies: a perfect one, slow versions, intervals, batches, captions of what is not there."""

from __future__ import annotations

import math
import random

import numpy as np
import pytest
import torch

from motionkit_regions.datasets.scenes import COLOURS, SHAPES, Shapes
from motionkit_regions.evaluation.known import TRUTH, absent_captions, borrowed, look_up
from motionkit_regions.evaluation.measure import iou_of, measure, open_task, overlap
from motionkit_regions.evaluation.result import FIGURES, summarise
from motionkit_regions.evaluation.split import (
    HIGHEST,
    LOWEST,
    SplitFigures,
    equal_entropy,
    measure_equal_entropy,
    measure_split,
    word_entropy,
)
from motionkit_regions.small import open_regions
from motionkit_regions.small_settings import RegionOptions
from tests.made.known_regions import Blocks, Knows


def measured(data: Blocks, policy: Knows, judge: Knows | None = None, batch: int = 5) -> SplitFigures:
    index = np.arange(data.count("val"))
    known = look_up(data, "val", index)
    assert not known.certain
    assert known.truth is None
    (found,) = measure_split([policy], judge or policy, data, "val", index, known, batch=batch)
    return found


def test_a_perfect_policy_has_one_everywhere() -> None:
    data = Blocks()
    figures = summarise(measured(data, Knows(data)))
    untold = {*TRUTH, *(f"{name}_greedy" for name in TRUTH)}  # blocks do not say what they show
    assert list(figures) == [name for name in FIGURES if name not in untold]
    # METEOR of three equal words; CIDEr-D of captions that share no n-gram with the number, and have no 4-gram.
    values = {"meteor": 1 - 0.5 / 3**3, "words": 3.0, "cider": 7.5}
    for name, one in figures.items():
        wanted = values.get(name.removesuffix("_greedy"), 1.0)
        assert one["after"] == pytest.approx(wanted, abs=1e-12), name
        assert one["after_ci95"] == pytest.approx([wanted, wanted]), name
        assert one["n"] == 12


def test_figures_are_those_of_the_pixels_one_by_one() -> None:
    data = Blocks()
    policy = Knows(data, wrong=(1, 2, 5, 11))
    found = measured(data, policy, judge=Knows(data))
    both = either = 0
    ious = []
    for number in range(12):
        wanted = data.regions("val", np.array([number])).masks[0]
        inter = union = 0
        for cell in wanted.ravel().tolist():
            drawn = cell ^ (number in policy.wrong)
            inter, union = inter + (cell and drawn), union + (cell or drawn)
        both, either = both + inter, either + union
        ious.append(inter / union)
    figures = summarise(found)
    assert figures["ciou"]["after"] == pytest.approx(both / either)
    assert figures["giou"]["after"] == pytest.approx(sum(ious) / 12) == pytest.approx(8 / 12)
    assert figures["ciou"]["after"] != pytest.approx(figures["giou"]["after"])  # large masks count more
    assert figures["precision_70"]["after"] == pytest.approx(sum(iou >= 0.7 for iou in ious) / 12)
    assert figures["cycle_iou"]["after"] == pytest.approx(8 / 12)
    assert figures["judge_iou"]["after"] == 1.0  # the judge draws what the policy says without its faults


def test_masks_are_compared_at_the_size_of_the_data() -> None:
    """A line of one pixel is lost at the policy's size, where it would be an IoU of 1."""
    fine = np.zeros((40, 40), bool)
    fine[:4] = True
    fine[4, :] = True  # half a cell of 8 x 8
    logits = torch.full((1, 5, 5), -1.0)
    logits[0, 0] = 1.0
    counts = overlap(logits, [fine])
    smooth = torch.nn.functional.interpolate(logits[None], (40, 40), mode="bilinear")[0, 0] > 0
    inter, union = ((one & torch.from_numpy(fine)).sum() for one in (smooth, smooth | torch.from_numpy(fine)))
    union = (smooth | torch.from_numpy(fine)).sum()
    assert counts.tolist() == [[int(inter), int(union)]]
    assert 0 < iou_of(counts).item() < 1


def test_both_empty_is_one_and_one_empty_is_zero() -> None:
    empty, full = np.zeros((4, 6), bool), np.ones((4, 6), bool)
    nothing, everything = torch.full((2, 4, 6), -1.0), torch.ones(2, 4, 6)
    assert iou_of(overlap(nothing, [empty, full])).tolist() == [1.0, 0.0]
    assert iou_of(overlap(everything, [empty, full])).tolist() == [0.0, 1.0]


def test_the_interval_is_that_of_a_plain_bootstrap() -> None:
    data = Blocks(60)
    before, after = (measured(data, Knows(data, wrong)) for wrong in (range(30), range(0, 60, 5)))
    figures = summarise(after, before, seed=3)
    draw = random.Random(0)
    gains = [float(i % 5 != 0) - float(i >= 30) for i in range(60)]
    means = sorted(sum(draw.choices(gains, k=60)) / 60 for _ in range(4000))
    one = figures["cycle_iou"]
    assert one["delta"] == pytest.approx(sum(gains) / 60)
    assert one["ci95"] == pytest.approx([means[100], means[3899]], abs=0.04)
    assert one["before"] == pytest.approx(0.5)
    counts = [measured.counts for measured in (before, after)]
    wanted = counts[1][:, 0].sum() / counts[1][:, 1].sum() - counts[0][:, 0].sum() / counts[0][:, 1].sum()
    assert figures["ciou"]["delta"] == pytest.approx(wanted)
    assert figures == summarise(after, before, seed=3)


def test_what_is_measured_does_not_depend_on_the_batch_and_is_what_training_measures() -> None:
    data, policy = Shapes(), open_regions(RegionOptions())
    index = np.arange(10)
    known = look_up(data, "test", index)
    assert known.certain
    whole, parts = (
        measure_split([policy], policy, data, "test", index, known, batch=batch)[0] for batch in (10, 3)
    )  # fmt: skip
    task = open_task(policy, data.regions("test", index))
    for kind, temperature in (("greedy", 0.0), ("sampled", 1.0)):
        one, other = getattr(whole, kind), getattr(parts, kind)
        trained = measure(policy, task, lambda: torch.no_grad(), known, temperature=temperature)
        assert one.captions == other.captions == trained.captions
        assert set(trained.scores) == set(whole.greedy.scores)
        for name, values in one.scores.items():
            assert values.tolist() == pytest.approx(other.scores[name].tolist(), abs=1e-6), name
            assert values.tolist() == pytest.approx(trained.scores[name].tolist(), abs=1e-6), name
    other = measure_split([policy], policy, data, "test", index, known, seed=1)[0]
    assert other.sampled.captions != whole.sampled.captions
    assert other.greedy.captions == whole.greedy.captions


def test_shapes_name_what_a_scene_does_not_show() -> None:
    data = Shapes()
    index = np.arange(200)
    named = data.absent("val", index)
    assert len(set(named)) > 20
    assert named == data.absent("val", index)
    colours = list(COLOURS)
    for number, text in zip(index, named, strict=True):
        _, colour, shape = text.split()
        scene = data._scene("val", int(number))
        assert data.regions("val", np.array([number])).masks[0].any()
        things = zip(scene.colours.tolist(), scene.shapes.tolist(), strict=True)
        assert (colours.index(colour), SHAPES.index(shape)) not in set(things)


def test_other_data_borrow_captions_of_other_images() -> None:
    found = borrowed(["a", "b", "c", "a", "d", "e"], [0, 0, 1, 1, 2, 2])
    own = {0: {"a", "b"}, 1: {"c", "a"}, 2: {"d", "e"}}
    assert all(text and text not in own[image] for text, image in zip(found, [0, 0, 1, 1, 2, 2], strict=True))
    assert borrowed(["a", "b"], [0, 0]) == ["", ""]
    assert borrowed([], []) == []
    data = Blocks(1)  # there is no other image
    assert absent_captions(data, "val", np.arange(1)) == ([""], False)
    known = look_up(data, "val", np.arange(1))
    (alone,) = measure_split([Knows(data)], Knows(data), data, "val", np.arange(1), known)
    assert all(math.isnan(value) for value in alone.greedy.scores["no_target"])
    assert "no_target" not in summarise(alone)


def test_two_words_have_the_temperature_that_their_odds_say() -> None:
    """Of two words with the odds 9 to 1, the temperature of the odds 3 to 1 is 2: log 9 = 2 log 3."""

    def entropy(temperature: float) -> float:
        odds = 9 ** (-1 / temperature)
        p, q = 1 / (1 + odds), odds / (1 + odds)
        return -p * math.log(p) - q * math.log(q)

    wanted = -0.75 * math.log(0.75) - 0.25 * math.log(0.25)
    assert equal_entropy(entropy, wanted) == pytest.approx(2.0, rel=1e-3)
    assert equal_entropy(entropy, 0.0) == LOWEST
    assert equal_entropy(entropy, 10.0) == HIGHEST


def test_entropy_is_the_mean_over_the_words_of_the_captions() -> None:
    data, policy = Shapes(), open_regions(RegionOptions())
    task = open_task(policy, data.regions("val", np.arange(6)))
    captions = ["a circle", "a small red square at the top", "a", "", "a red circle", "a large diamond"]
    with torch.no_grad():
        scores = policy.score_words(task.seen, task.masks, policy.encode(captions), temperature=0.7, whole=True)
    assert scores.whole is not None
    total, words = 0.0, 0
    for row, text in enumerate(captions):
        for place in range(len(text.split()) + 1):  # the end is a word
            p = scores.whole[row, place].exp().double()
            total -= float((p * p.clamp(min=1e-300).log()).sum())
            words += 1
    assert word_entropy(policy, [(task, captions)], 0.7) == pytest.approx(total / words, rel=1e-5)


def test_a_policy_with_sharper_logits_is_found_again() -> None:
    """Scaled logits are a temperature: the starter at T is what a policy with logits divided by T is at 1."""
    data, index = Shapes(), np.arange(40)
    start, sharp = (open_regions(RegionOptions()) for _ in range(2))
    with torch.no_grad():
        sharp.network.language_model.lm_head.weight.div_(0.4)
    known = look_up(data, "test", index)
    task = open_task(sharp, data.regions("test", index))
    captions = sharp.sample_captions(task.seen, task.masks).texts
    found = measure_equal_entropy(start, sharp, captions, data, "test", index, known, batch=16)
    assert found.temperature == pytest.approx(0.4, rel=2e-3)
    assert found.nats == pytest.approx(word_entropy(sharp, [(task, captions)], 1.0), rel=5e-3)
    assert {"cycle_iou", "judge_iou", "meteor", "cider", "unique"} <= set(found.sampled.scores)
    assert found.sampled.scores["cycle_iou"].tolist() == found.sampled.scores["judge_iou"].tolist()
