"""METEOR: nltk's own score, recorded pairs, the shipped lexicon against WordNet's files."""

from __future__ import annotations

import json
import random
import string
from collections.abc import Iterator
from itertools import pairwise
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from motionkit.errors import MotionkitError
from motionkit_regions.meteor.score import Meteor, load_lexicon, read_wordnet

from ...made.captions import DEBIAN, caption_pairs, wordnet_reader

if TYPE_CHECKING:
    from nltk.corpus.reader.wordnet import WordNetCorpusReader


@pytest.fixture(scope="module")
def oracle(tmp_path_factory: pytest.TempPathFactory) -> Iterator[WordNetCorpusReader]:
    """nltk's reader of the distribution's files."""
    if not (DEBIAN / "data.noun").is_file():
        pytest.skip("WordNet's files are not installed (apt install wordnet-base)")
    import nltk

    before = list(nltk.data.path)
    yield wordnet_reader(tmp_path_factory.mktemp("nltk"))
    nltk.data.path[:] = before


def test_the_recorded_pairs(shared: Path) -> None:
    meteor = Meteor("space")
    pairs = json.loads((shared / "fixtures/sa2va/meteor_pairs.json").read_text())["pairs"]
    scored = [pair for pair in pairs if isinstance(pair.get("hypothesis"), str) and isinstance(pair["reference"], str)]
    assert len(scored) >= 12
    for pair in scored:
        assert meteor(pair["hypothesis"], [pair["reference"]]) == pytest.approx(pair["meteor"], abs=1e-12), pair["name"]


def test_perfect_captions_have_the_closed_form() -> None:
    meteor = Meteor()
    for words in (1, 2, 5, 8):
        text = " ".join("abcdefgh"[:words])
        assert meteor(text, [text]) == pytest.approx(1 - 0.5 / words**3)
    assert meteor("", ["a"]) == 0.0
    assert meteor("x", ["y", "x"]) == 0.5


def test_punctuation_is_split_by_default_only() -> None:
    assert Meteor()("a red circle.", ["a red circle ."]) > 0.99
    assert Meteor("space")("a red circle.", ["a red circle"]) < 0.8


def test_synonyms_are_those_of_wordnet(oracle: WordNetCorpusReader) -> None:
    lexicon = load_lexicon()
    rng = random.Random(0)
    words = sorted({word for part in lexicon.synsets.values() for synset in part for word in synset})
    forms = [form for table in lexicon.exceptions.values() for form in table]
    chosen = rng.sample(words, 1500) + rng.sample(forms, 300)
    chosen += [word + ending for word in rng.sample(words, 300) for ending in ("s", "es", "ed", "ing", "er")]
    chosen += ["".join(rng.choices(string.ascii_lowercase, k=4)) for _ in range(200)]
    for word in chosen:
        wanted = {
            lemma.name() for synset in oracle.synsets(word) for lemma in synset.lemmas() if "_" not in lemma.name()
        }
        assert lexicon.synonyms(word) == wanted, word


def split_slowly(text: str) -> list[str]:
    """Words with inner dashes and apostrophes; every other mark by itself."""
    found = [""]
    for place, sign in enumerate(text.lower()):
        inner = sign in "'-" and found[-1][-1:].isalnum() and text[place + 1 : place + 2].isalnum()
        if sign.isspace():
            found.append("")
        elif sign.isalnum() or sign == "_" or inner:
            found[-1] += sign
        else:
            found += [sign, ""]
    return [word for word in found if word]


def test_random_captions_score_as_nltk_with_wordnet_does(oracle: WordNetCorpusReader) -> None:
    from nltk.translate.meteor_score import meteor_score

    pairs = caption_pairs(5000, seed=1)
    space, words = Meteor("space"), Meteor("words")
    found = [space(text, [reference]) for text, reference in pairs]
    assert found == [meteor_score([reference.split()], text.split(), wordnet=oracle) for text, reference in pairs]
    assert 1000 < sum(score > 0.5 for score in found) < 4500
    for text, reference in pairs[::5]:
        wanted = meteor_score([split_slowly(reference)], split_slowly(text), wordnet=oracle)
        assert words(text, [reference]) == wanted, (text, reference)
    for (text, first), (_, second) in pairwise(pairs[:300]):  # the best reference counts
        wanted = meteor_score([first.split(), second.split()], text.split(), wordnet=oracle)
        assert space(text, [first, second]) == wanted


def test_the_table_is_made_from_the_files(oracle: WordNetCorpusReader) -> None:
    assert read_wordnet(DEBIAN).digest == load_lexicon().digest


def test_a_lexicon_of_ones_own(tmp_path: Path) -> None:
    with pytest.raises(MotionkitError, match="cannot be read"):
        read_wordnet(tmp_path)
    for part in ("noun", "verb", "adj", "adv"):
        (tmp_path / f"data.{part}").write_text("")
        (tmp_path / f"{part}.exc").write_text("")
    (tmp_path / "data.noun").write_text("  1 licence\n0001 06 n 02 blob 0 dot 0 000 | a mark\n")
    (tmp_path / "noun.exc").write_text("dotties dot\n")
    own = read_wordnet(tmp_path)
    assert own.synonyms("Dotties") == {"blob", "dot"}
    assert Meteor(lexicon=own)("blobs", ["dots"]) == 0.5
    (tmp_path / "data.verb").write_text("no such file\n")
    with pytest.raises(MotionkitError, match=r"data\.verb, line 1"):
        read_wordnet(tmp_path)
