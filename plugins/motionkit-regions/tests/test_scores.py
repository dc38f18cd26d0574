"""CIDEr-D against the paper's equation, written out."""

from __future__ import annotations

import math
import random

import pytest

from motionkit_regions.scores import cider_d


def slow(texts: list[str], references: list[list[str]]) -> list[float]:
    """Equation 4 of Vedantam et al. 2015 with the vectors of all n-grams written out."""

    def grams(text: str, size: int) -> list[str]:
        words = text.lower().split()
        return [" ".join(words[place : place + size]) for place in range(len(words) - size + 1)]

    scores = []
    for text, own in zip(texts, references, strict=True):
        total = 0.0
        for size in range(1, 5):
            for reference in own:
                all_grams = sorted({*grams(text, size), *grams(reference, size)})
                said, wanted = [], []
                for gram in all_grams:
                    holding = sum(any(gram in grams(other, size) for other in image) for image in references)
                    weight = math.log(len(references) / max(1, holding))
                    said.append(grams(text, size).count(gram) * weight)
                    wanted.append(grams(reference, size).count(gram) * weight)
                norm = math.dist(said, [0] * len(said)) * math.dist(wanted, [0] * len(wanted))
                if norm:
                    dot = sum(min(a, b) * b for a, b in zip(said, wanted, strict=True))
                    apart = len(text.split()) - len(reference.split())
                    total += 10 * dot / norm * math.exp(-(apart**2) / (2 * 6.0**2)) / 4 / len(own)
        scores.append(total)
    return scores


def test_it_is_the_paper_s_equation_on_random_captions() -> None:
    draw = random.Random(0)
    words = ["a", "small", "large", "red", "blue", "circle", "square", "at", "the", "top", "left", "of"]
    for _ in range(20):
        texts = [" ".join(draw.choices(words, k=draw.randint(0, 9))) for _ in range(12)]
        wanted = [
            [" ".join(draw.choices(words, k=draw.randint(1, 9))) for _ in range(draw.randint(1, 3))] for _ in texts
        ]
        found = cider_d(texts, wanted)
        assert found.tolist() == pytest.approx(slow(texts, wanted), abs=1e-12)
        assert ((found >= 0) & (found <= 10)).all()
        assert (found > 0).any()


def test_equal_captions_have_ten_and_unrelated_ones_nothing() -> None:
    wanted = [["one two three four"], ["five six seven eight"], ["nine ten eleven twelve"]]
    assert cider_d([own[0] for own in wanted], wanted).tolist() == pytest.approx([10.0] * 3)
    assert cider_d(["five six", "one", ""], wanted).tolist() == [0.0] * 3
    short = [["one two"], ["three four"]]  # no 3-gram, no 4-gram
    assert cider_d(["one two", "three four"], short).tolist() == pytest.approx([5.0, 5.0])


def test_a_repeated_word_and_a_longer_caption_cost_by_the_formula() -> None:
    wanted = [["red"], ["blue"]]
    (twice, _) = cider_d(["red red", "blue"], wanted)
    # The clipped product is 1, the norms are 2 and 1; one word more than the reference.
    assert twice == pytest.approx(10 / 4 * 0.5 * math.exp(-1 / 72))
    # A word of no reference has the weight of log N: the cosine is 1 / sqrt 2.
    (other, _) = cider_d(["red moon", "blue"], wanted)
    assert other == pytest.approx(10 / 4 / math.sqrt(2) * math.exp(-1 / 72))


def test_what_every_image_has_says_nothing_about_one() -> None:
    wanted = [["a circle"], ["a square"]]
    assert cider_d(["a", "a"], wanted).tolist() == [0.0, 0.0]
    assert cider_d(["a circle"], [["a circle"]]).tolist() == [0.0]  # alone, nothing is particular
    assert cider_d([], []).tolist() == []


def test_case_and_punctuation_do_not_count() -> None:
    wanted = [["a red circle, at the top."], ["blue"]]
    assert cider_d(["A red circle at the top", "blue"], wanted)[0] == pytest.approx(10.0)
