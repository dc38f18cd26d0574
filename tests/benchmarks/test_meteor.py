"""METEOR of 5,000 caption pairs, against nltk's own with the distribution's WordNet 3.0."""

from __future__ import annotations

import time
from pathlib import Path

import nltk
import pytest
from nltk.translate.meteor_score import meteor_score

from motionkit.regions.meteor.score import Meteor
from tests.made.captions import DEBIAN, caption_pairs, wordnet_reader

from .ratios import Ratios

GROUP = "METEOR of 5,000 caption pairs"
GOAL = 5.0


@pytest.mark.benchmark
def test_pairs_per_second(benchmark, ratios: Ratios, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    if not (DEBIAN / "data.noun").is_file():
        pytest.skip("WordNet's files are not installed (apt install wordnet-base)")
    monkeypatch.setattr(nltk.data, "path", list(nltk.data.path))
    reader, pairs = wordnet_reader(tmp_path), caption_pairs(5000, vocabulary=1000)
    reader.synsets("dog")  # it is read when it is first asked
    begun = time.process_time()
    wanted = [meteor_score([reference.split()], text.split(), wordnet=reader) for text, reference in pairs]
    plain = time.process_time() - begun

    def ours() -> list[float]:
        meteor = Meteor("space")  # a new one that has seen no word; the lexicon is read once for all of them
        clock.append(time.process_time())
        found = [meteor(text, [reference]) for text, reference in pairs]
        clock.append(time.process_time())
        return found

    clock: list[float] = []
    Meteor("space")
    assert benchmark.pedantic(ours, rounds=3) == wanted
    first = min(end - start for start, end in zip(clock[::2], clock[1::2], strict=True))
    ratios.add(GROUP, "nltk", plain)
    ratios.add(GROUP, "motionkit", first)
    ratios.tell(f"{GROUP}: pairs per CPU second", f"nltk {5000 / plain:,.0f}, motionkit {5000 / first:,.0f}")
    assert ratios.of(GROUP, "motionkit") >= GOAL
