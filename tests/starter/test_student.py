"""The shipped student of MiniLM on the stored embeddings of captions whose wording it never saw."""

from __future__ import annotations

import pytest
import torch
import torch.nn.functional as F

from motionkit import load_dataset
from motionkit.starter import CATALOGUE, embeddings, student_path, table_path
from motionkit.starter.distil_text import _lessons, base, gerund, lists, phrases, sentences, vocabulary
from motionkit.text import StudentEncoder, TextFeatures, words_of
from motionkit.text_to_motion.tmr.files import open_tmr
from motionkit.text_to_motion.tmr.train import retrieval_metrics


@pytest.fixture(scope="module")
def student() -> StudentEncoder:
    return StudentEncoder(student_path())


def test_size() -> None:
    files = [student_path(), student_path().with_suffix(".json")]
    assert sum(file.stat().st_size for file in files) <= 2.5e6
    assert sum(file.stat().st_size for file in table_path().parent.rglob("*") if file.is_file()) <= 20e6


def test_cosine_on_wordings_it_never_saw(student: StudentEncoder) -> None:
    texts, vectors = embeddings()
    seen = {text for entry in CATALOGUE for i in range(len(entry.phrases) - 2) for text in entry.sentences(i)}
    rows = [i for i, text in enumerate(texts) if text not in seen]
    assert len(rows) > 500
    wanted = F.normalize(vectors[rows], dim=-1)
    found = student.encode([texts[i] for i in rows]).tokens[:, 0]
    cosine = (found * wanted).sum(-1)
    assert cosine.mean() >= 0.95
    assert cosine.quantile(0.05) >= 0.92
    far = wanted.roll(len(rows) // 2, 0)  # of other actions; the next row is often the same phrase of another subject
    assert (found * far).sum(-1).mean() < 0.7, "other captions are not as near"


def test_retrieval_is_near_that_of_minilm(student: StudentEncoder) -> None:
    clips, tmr = load_dataset("starter").clips("val"), open_tmr("starter").eval()
    stored = retrieval_metrics(tmr, clips, short=40)
    tmr.text_model = student
    found = retrieval_metrics(tmr, clips, short=40)
    for name in ("r1", "r3", "r1_32", "r3_32"):
        assert abs(found[f"retrieval/t2m/{name}"] - stored[f"retrieval/t2m/{name}"]) <= 4
    tmr.text_model = Shuffled(student)
    assert retrieval_metrics(tmr, clips, short=40)["retrieval/t2m/r3_32"] < 20


class Shuffled:
    """A student that answers with the embedding of another text."""

    def __init__(self, student: StudentEncoder) -> None:
        self.student = student

    def encode(self, texts: list[str]) -> TextFeatures:
        features = self.student.encode(texts)
        return TextFeatures(features.tokens.roll(len(texts) // 2, 0), features.mask)


def test_every_word_of_the_catalogue_and_the_lists_is_known(student: StudentEncoder) -> None:
    assert list(student.vocabulary) == vocabulary(), "run python -m motionkit.starter.distil_text"
    texts, _ = embeddings()
    assert [text for text in (*texts, *lists()["unseen"]) if student.unknown(text)] == []


def test_verb_forms() -> None:
    third = [
        "walks around",
        "is running",
        "does a kick",
        "carries a box",
        "hops",
        "waves",
        "lies down",
        "pushes",
        "claps",
    ]
    assert [base(text) for text in third] == [
        "walk around", "running", "do a kick", "carry a box", "hop", "wave", "lie down", "push", "clap",
    ]  # fmt: skip
    assert [gerund(text) for text in third] == [
        "walking around", "running", "doing a kick", "carrying a box", "hopping", "waving", "lying down", "pushing",
        "clapping",
    ]  # fmt: skip


def test_nothing_that_is_measured_on_is_learned_from() -> None:
    asked = {
        "by hand": (["a person walks"], torch.zeros(1)),
        "captions": (["A man is walking straight ahead."], torch.zeros(1)),
    }
    learned = _lessons(200, asked)
    assert len(learned) > 3500
    assert not {"a person walks.", "a man is walking straight ahead."} & set(learned)
    assert "the person walks." in learned
    assert not set(phrases()) & set(phrases(seen=False))


def test_sentences_are_reproducible() -> None:
    made = list(sentences(300, seed=0, actions=phrases()))
    assert made == list(sentences(300, seed=0, actions=phrases()))
    assert len(set(made)) == 300
    assert {word for text in made for word in words_of(text)} <= set(vocabulary())
