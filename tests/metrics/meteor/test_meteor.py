"""METEOR: nltk's own score, recorded pairs, the shipped lexicon against WordNet's files."""

from __future__ import annotations

import json
import random
import string
import warnings
from collections.abc import Iterator
from pathlib import Path

import nltk
import pytest
from nltk.corpus.reader.wordnet import WordNetCorpusReader
from nltk.translate.meteor_score import meteor_score

from motionkit.errors import MotionkitError
from motionkit.metrics.meteor import Meteor, load_lexicon, read_wordnet

DEBIAN = Path("/usr/share/wordnet")
"""Where the package wordnet-base of Debian puts WordNet 3.0."""

LEXNAMES = "\n".join(f"{number:02d}\tfile{number}\t1" for number in range(45)) + "\n"


@pytest.fixture(scope="module")
def oracle(tmp_path_factory: pytest.TempPathFactory) -> Iterator[WordNetCorpusReader]:
    """nltk's reader of the distribution's files, with the two that the distribution leaves out."""
    if not (DEBIAN / "data.noun").is_file():
        pytest.skip("WordNet's files are not installed (apt install wordnet-base)")
    root = tmp_path_factory.mktemp("nltk")
    folder = root / "corpora/wordnet"
    folder.mkdir(parents=True)
    for file in filter(Path.is_file, DEBIAN.iterdir()):
        (folder / file.name).write_bytes(file.read_bytes())
    (folder / "lexnames").write_text(LEXNAMES)
    (folder / "index.sense").write_text("")
    nltk.data.path.insert(0, str(root))
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # of languages that no one asks for
            reader = WordNetCorpusReader(nltk.data.find("corpora/wordnet"), None)
        yield reader
    finally:
        nltk.data.path.remove(str(root))


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


def test_random_captions_score_as_nltk_with_wordnet_does(oracle: WordNetCorpusReader) -> None:
    meteor, rng = Meteor("space"), random.Random(1)
    lexicon = load_lexicon()
    common = [
        "a",
        "the",
        "large",
        "big",
        "small",
        "red",
        "crimson",
        "circle",
        "square",
        "sofa",
        "couch",
        "kid",
        "child",
        "dogs",
        "dog",
        "ran",
        "running",
        "near",
        "left",
        "of",
    ]
    rare = sorted({word for synset in lexicon.synsets["noun"][::40] for word in synset})
    for _ in range(5000):
        texts = [[rng.choice(common if rng.random() < 0.8 else rare) for _ in range(rng.randint(1, 12))] for _ in "ab"]
        wanted = meteor_score([texts[1]], texts[0], wordnet=oracle)
        assert meteor(" ".join(texts[0]), [" ".join(texts[1])]) == wanted


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
