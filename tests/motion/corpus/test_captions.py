from __future__ import annotations

import sys
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from motionkit.errors import MotionkitError
from motionkit.motion import (
    Caption,
    assign_splits,
    clean_caption,
    crop_range,
    read_caption_table,
    read_captions,
    tag_words,
)


def test_a_line():
    caption = Caption.parse("a man walks.#a/DET man/NOUN walk/VERB#0.5#nan\n")
    assert caption == Caption("a man walks.", ("a/DET", "man/NOUN", "walk/VERB"), 0.5, 0.0)
    assert not caption.whole
    assert Caption.parse("x#x/NOUN#nan#nan").whole


@settings(max_examples=100, deadline=None)
@given(st.text().map(clean_caption).filter(bool), st.floats(0, 100), st.floats(0, 100))
def test_lines_come_back(text, start, end):
    caption = Caption(text, tag_words(text), start, end)
    assert "\n" not in caption.line()
    assert Caption.parse(caption.line()) == caption


def test_bad_lines_are_named(tmp_path):
    path = tmp_path / "000001.txt"
    path.write_text("fine#fine/ADJ#0.0#0.0\n\nno fields\n")
    with pytest.raises(MotionkitError, match=r"000001.txt, line 3"):
        read_captions(path)
    path.write_text("text#x/NOUN#zero#0.0\n")
    with pytest.raises(MotionkitError, match="no numbers"):
        read_captions(path)


@pytest.mark.parametrize(
    ("text", "tokens"),
    [
        (
            "A man walks forward, turns around and sits on a chair.",
            "a/DET man/NOUN walk/VERB forward/ADV turn/VERB around/ADV and/CCONJ sit/VERB on/ADP a/DET chair/NOUN",
        ),
        ("someone raises their left arms 3 times", "someone/PRON raise/VERB their/PRON left/ADJ arm/NOUN time/NOUN"),
        ("he is jumping to the left", "he/PRON is/AUX jump/VERB to/ADP the/DET left/NOUN"),
        ("the man stopped, then waved", "the/DET man/NOUN stop/VERB then/ADV wave/VERB"),
        ("a slow walk", "a/DET slow/ADJ walk/NOUN"),
        ("", ""),
    ],
)
def test_tags_of_whole_sentences(text, tokens):
    assert " ".join(tag_words(text)) == tokens


def test_agreement_with_public_tags(shared: Path, record_property):
    """The share of tokens of the recorded dataset whose tag is the same; captions whose tokens do not match are out."""
    agree = total = 0
    for path in sorted((shared / "fixtures/mdm/mini_humanml3d/dataset/HumanML3D/texts").glob("*.txt")):
        for caption in read_captions(path):
            mine = tag_words(caption.text)
            if len(mine) == len(caption.tokens):
                total += len(mine)
                agree += sum(a.split("/")[1] == b.split("/")[1] for a, b in zip(mine, caption.tokens, strict=True))
    record_property("agreement", agree / total)
    sys.stdout.write(f"tags that agree: {agree} of {total} ({agree / total:.1%})\n")
    assert total > 100
    assert agree / total >= 0.93


class Fixed:
    """Returns the largest start."""

    def randint(self, low: int, high: int) -> int:
        assert low == 0
        return high

    def randrange(self, count: int) -> int:
        return 0


@pytest.mark.parametrize(
    ("frames", "double", "expected"),
    [
        (40, False, (0, 40)),
        (43, False, (3, 40)),
        (43, True, (7, 36)),
        (199, False, (3, 196)),
        (300, True, (108, 192)),
        (3, True, (0, 3)),
    ],
)
def test_crops(frames, double, expected):
    assert crop_range(frames, Fixed(), double=lambda: double) == expected


@settings(max_examples=100, deadline=None)
@given(st.integers(4, 400), st.randoms(use_true_random=False))
def test_crops_lie_inside(frames, rng):
    start, length = crop_range(frames, rng)
    assert length % 4 == 0
    assert 4 <= length <= 196
    assert 0 <= start <= frames - length


def table(path: Path, text: str) -> Path:
    path.write_text(text, encoding="utf-8")
    return path


def test_caption_table(tmp_path):
    path = table(
        tmp_path / "c.csv",
        "clip,description,more,split,group\n"
        'one.bvh,"walks # fast,\nslow",again,train,g1\n'
        "one,another,again,,\n"
        "two,,,dev,\n",
    )
    rows = read_caption_table(path)
    assert rows.columns == {"id": "clip", "caption": "description", "split": "split", "group": "group"}
    assert rows.rows["one"].captions == ("walks fast, slow", "another")
    assert (rows.rows["one"].split, rows.rows["one"].group) == ("train", "g1")
    assert (rows.rows["two"].captions, rows.rows["two"].split) == ((), "val")
    both = read_caption_table(path, caption_columns=["description", "more"])
    assert both.rows["one"].captions == ("walks fast, slow", "again", "another")


def test_rows_find_their_clips(tmp_path):
    rows = read_caption_table(
        table(
            tmp_path / "c.csv",
            "file,text\ndata/a/walk.bvh,one\ndata/b/walk.bvh,two\n./data/hop v1.2,three\nfast_run,x\n",
        )
    )
    assert rows.match(["a_walk", "b_walk", "hop_v1.2", "run", "none"]) == {
        "a_walk": "data/a/walk", "b_walk": "data/b/walk", "hop_v1.2": "data/hop v1.2"
    }  # fmt: skip
    with pytest.raises(MotionkitError, match="walk fits several rows"):
        rows.match(["walk"])


@pytest.mark.parametrize(
    ("text", "options", "words"),
    [
        ("name,x\na,b\n", {}, "no column for the caption"),
        ("x,text\na,b\n", {}, "no column for the id"),
        ("id,text\na,b\n", {"id_column": "clip"}, "no column 'clip'"),
        ("id,text,split\na,b,half\n", {}, "line 2: 'half' is no split"),
        ("id,text\n", {}, "has no rows"),
    ],
    ids=["caption", "id", "named", "split", "empty"],
)
def test_bad_tables(tmp_path, text, options, words):
    with pytest.raises(MotionkitError, match=words):
        read_caption_table(table(tmp_path / "c.csv", text), **options)


def test_a_missing_table(tmp_path):
    with pytest.raises(MotionkitError, match="cannot be read"):
        read_caption_table(tmp_path / "none.csv")


@settings(max_examples=50, deadline=None)
@given(st.dictionaries(st.text("abc0123", min_size=1, max_size=4), st.integers(0, 9).map(str), min_size=1, max_size=60))
def test_splits_keep_groups_together(groups):
    splits = assign_splits(groups)
    assert splits.keys() == groups.keys()
    assert len({(groups[clip], split) for clip, split in splits.items()}) == len(set(groups.values()))
    assert "train" in splits.values()
    if len(set(groups.values())) >= 3:
        assert set(splits.values()) == {"train", "val", "test"}
    assert splits == assign_splits(dict(reversed(groups.items())))


def test_splits_have_the_shares_of_humanml3d():
    splits = list(assign_splits({f"clip{number}": f"clip{number}" for number in range(1000)}).values())
    assert splits.count("test") == pytest.approx(150, abs=1)
    assert splits.count("val") == pytest.approx(50, abs=1)
