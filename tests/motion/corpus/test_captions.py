from __future__ import annotations

import sys
import types
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from motionkit.clips.find import unique_keys
from motionkit.errors import MotionkitError
from motionkit.motion import Caption, CaptionTable, read_caption_table, read_captions, tag_caption
from motionkit.motion.corpus import tagger as _tagger
from motionkit.motion.corpus.captions import CaptionRow, captions_within, clean_caption
from motionkit.motion.corpus.ids import assign_splits, complete_splits, plain_id
from motionkit.motion.corpus.tagger import tag_words


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


def test_control_characters_go_where_captions_enter(tmp_path):
    path = tmp_path / "000001.txt"
    path.write_bytes(b"red \x1b[31m man\x00#red\x1b/ADJ man/NOUN\x07#0.0#0.0\n")
    (caption,) = read_captions(path)
    assert caption.text == "red  [31m man "
    assert caption.tokens == ("red", "/ADJ", "man/NOUN")
    assert clean_caption("a\x1b[2J\x9bb \x7f") == "a [2J b"
    rows = read_caption_table(table(tmp_path / "c.csv", 'id,text\na,"x\x1b]0;y\x07"\n'))
    assert rows.rows["a"][0].captions == ("x ]0;y",)
    assert Caption("half \ud800").line().encode() == b"half  ##0.0#0.0"
    assert Caption("two\tlines\r\nstay").text == "two\tlines\r\nstay", "writers of one line have clean_caption"
    assert Caption("x", ("a#b", "c\nd")).line() == "x#a b c d#0.0#0.0", "tokens of a foreign file stay one field"


@pytest.mark.parametrize(
    ("text", "word"),
    [
        ("fine#fine/ADJ#0.0#0.0\n\nno fields\n", r"000001\.txt, line 3"),
        ("text#x/NOUN#zero#0.0\n", "not numbers"),
        ("he walks#he/PRON walk/VERB#0.0#0.0\nhe runs#he/PRON#0.0#0.0#and stops\n", "5 parts"),
        ("walk " * 3000 + "#walk/VERB#0.0#0.0\n", "15000"),
    ],
    ids=["fields", "numbers", "a fifth part", "a book"],
)
def test_bad_lines_are_named(tmp_path, text, word):
    path = tmp_path / "000001.txt"
    path.write_text(text)
    with pytest.raises(MotionkitError, match=word):
        read_captions(path)


@pytest.mark.parametrize(
    ("text", "tokens"),
    [
        (
            "A man walks forward, turns around and sits on a chair.",
            "a/DET man/NOUN walk/VERB forward/ADV turn/VERB around/ADV and/CCONJ sit/VERB on/ADP a/DET chair/NOUN",
        ),
        ("someone raises their left arms 3 times", "someone/PRON raise/VERB their/DET left/ADJ arm/NOUN time/NOUN"),
        ("he is jumping to the left", "he/PRON is/AUX jump/VERB to/ADP the/DET left/NOUN"),
        ("the man stopped, then waved", "the/DET man/NOUN stop/VERB then/ADV wave/VERB"),
        ("a slow walk", "a/DET slow/ADJ walk/NOUN"),
        # Lines of HumanML3D's public README.
        (
            "a man kicks something or someone with his left leg.",
            "a/DET man/NOUN kick/VERB something/PRON or/CCONJ someone/PRON with/ADP his/DET left/ADJ leg/NOUN",
        ),
        (
            "the standing person kicks with their left foot before going back to their original stance.",
            "the/DET stand/VERB person/NOUN kick/VERB with/ADP their/DET left/ADJ foot/NOUN before/ADP go/VERB "
            "back/ADV to/ADP their/DET original/ADJ stance/NOUN",
        ),
        # Verbs that no list has, by their place: after a subject, after "and" or a comma, at the beginning.
        ("a person dashes ahead", "a/DET person/NOUN dash/VERB ahead/ADV"),
        ("someone says yes and beckons", "someone/PRON say/VERB yes/NOUN and/CCONJ beckon/VERB"),
        ("a man who limps prowls around", "a/DET man/NOUN who/PRON limp/VERB prowl/NOUN around/ADV"),
        ("the dancer slowly pirouettes", "the/DET dancer/NOUN slowly/ADV pirouette/NOUN"),
        ("she poses, then pauses", "she/PRON pose/VERB then/ADV pause/VERB"),
        ("he throws punches while doing kicks", "he/PRON throw/VERB punch/NOUN while/SCONJ do/VERB kick/NOUN"),
        ("saunters to the left", "saunter/VERB to/ADP the/DET left/NOUN"),
        ("a man does squats", "a/DET man/NOUN does/AUX squat/NOUN"),
        ("he lifts weights and crates", "he/PRON lift/VERB weight/NOUN and/CCONJ crate/NOUN"),
        (
            "a man with glasses on his head sighs",
            "a/DET man/NOUN with/ADP glass/NOUN on/ADP his/DET head/NOUN sigh/VERB",
        ),
        # "one" counts before a noun, and a noun after a number or a verb is one.
        ("waves with one hand", "wave/VERB with/ADP one/NUM hand/NOUN"),
        ("lifts one knee, the other one", "lift/VERB one/NUM knee/NOUN the/DET other/ADJ one/PRON"),
        ("he makes one step and performs jump", "he/PRON make/VERB one/NUM step/NOUN and/CCONJ perform/VERB jump/NOUN"),
        ("moves back 4 steps, hands up", "move/VERB back/ADV step/NOUN hand/NOUN up/ADV"),
        ("squat, jump and turn", "squat/VERB jump/VERB and/CCONJ turn/VERB"),
        ("always using the fist", "always/ADV use/VERB the/DET fist/NOUN"),
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


def test_nltk_is_used_where_its_data_are(monkeypatch):
    """With a stand-in for nltk, whose data cannot be installed from a package."""
    penn = {"her": "PRP$", "is": "VBZ", "walking": "VBG", "while": "IN", "in": "IN", "feet": "NNS", "when": "WRB"}
    stub = types.ModuleType("nltk")
    stub.pos_tag = lambda words: [(word, penn.get(word, "NN")) for word in words]
    monkeypatch.setitem(sys.modules, "nltk", stub)
    monkeypatch.setitem(sys.modules, "spacy", None)
    taggers = (_tagger._spacy, _tagger._nltk)
    for tagger in taggers:
        tagger.cache_clear()
    try:
        found = "is/AUX walk/VERB in/ADP her/DET foot/NOUN while/SCONJ when/ADV"
        assert " ".join(tag_caption("Is walking in her feet while when")) == found

        def absent(words):
            raise LookupError

        stub.pos_tag = absent
        _tagger._nltk.cache_clear()
        assert tag_caption("a man is walking") == tag_words("a man is walking")
    finally:
        for tagger in taggers:
            tagger.cache_clear()


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
    assert rows.rows["one"][0].captions == ("walks fast, slow", "another")
    assert (rows.rows["one"][0].split, rows.rows["one"][0].group) == ("train", "g1")
    assert (rows.rows["two"][0].captions, rows.rows["two"][0].split) == ((), "val")
    both = read_caption_table(path, caption_columns=["description", "more"])
    assert both.rows["one"][0].captions == ("walks fast, slow", "again", "another")


@pytest.mark.parametrize(
    ("start", "end", "times"),
    [
        ("1.5", "4", (1.5, 4.0)),
        ('"1,5"', '"4,25"', (1.5, 4.25)),
        ("", "4", (0.0, 4.0)),
        ("2", "", (2.0, 0.0)),
        ("", "", (0.0, 0.0)),
        ("nan", "NaN", (0.0, 0.0)),
        ("0.0", "0.0", (0.0, 0.0)),
    ],
    ids=["points", "commas", "no start", "no end", "neither", "pandas", "as in texts"],
)
def test_times_of_a_row(tmp_path, start, end, times):
    found = read_caption_table(table(tmp_path / "c.csv", f"id,text,start,end\na,x,{start},{end}\n"))
    (row,) = found.rows["a"]
    assert (row.start, row.end) == times
    assert found.timed == (times != (0.0, 0.0))


def test_rows_of_the_same_times_are_one_clip(tmp_path):
    """Segments have splits and groups of their own; the whole recording comes first."""
    lines = ["id,text,start_t,end_t,split", "a,x,2,4,val", "a,w,1,9,test", "a,y,2.0,4,val", "a.bvh,z,,,train"]
    found = read_caption_table(table(tmp_path / "c.csv", "\n".join(lines)))
    assert found.rows == {
        "a": (
            CaptionRow(("z",), "train"),
            CaptionRow(("w",), "test", "", 1.0, 9.0),
            CaptionRow(("x", "y"), "val", "", 2.0, 4.0),
        )
    }
    assert [row.place.rpartition(" ")[2] for row in found.rows["a"]] == ["5", "3", "2"]
    assert (found.columns["start"], found.columns["end"]) == ("start_t", "end_t")
    with pytest.raises(MotionkitError, match="line 6"):
        read_caption_table(table(tmp_path / "c.csv", "\n".join([*lines, "a,z,2,4,test"])))


def test_rows_find_their_clips(tmp_path):
    rows = read_caption_table(
        table(
            tmp_path / "c.csv",
            "file,text\ndata/a/walk.bvh,one\ndata/b/walk.bvh,two\n./data/hop v1.2,three\nfast_run,x\n",
        )
    )
    clips = {"a_walk": "a/walk.bvh", "b_walk": "/x/b/walk.bvh", "hop_v1.2": "hop v1.2.npy", "run": "run.bvh"}
    assert rows.match(clips) == {
        "a_walk": "data/a/walk", "b_walk": "data/b/walk", "hop_v1.2": "data/hop v1.2"
    }  # fmt: skip
    with pytest.raises(MotionkitError, match="several rows"):
        rows.match({"walk": "elsewhere/walk.bvh"})


def rows_of(*names: str) -> CaptionTable:
    return CaptionTable({name: (CaptionRow((name,)),) for name in names}, {})


def test_a_row_is_matched_by_path_not_by_what_a_clip_came_to_be_called():
    clips = {"walk": "A/walk.bvh", "walk_2": "B/walk.bvh"}
    assert rows_of("B/walk").match(clips) == {"walk_2": "B/walk"}
    assert rows_of("A/walk", "B/walk", "C/walk").match(clips) == {"walk": "A/walk", "walk_2": "B/walk"}
    assert rows_of("C/walk").match(clips) == {}, "the row of a clip that is not here"
    apart = {"A_walk": "A/walk.bvh", "B_walk": "B/walk.bvh"}
    assert rows_of("A/walk", "walk").match(apart) == {"A_walk": "A/walk", "B_walk": "walk"}
    with pytest.raises(MotionkitError, match=r"A/run\.bvh, B/run\.bvh"):
        rows_of("run").match({"A_run": "A/run.bvh", "B_run": "B/run.bvh"})
    numbered = {"A_walk": "x/A/walk.bvh", "A_walk_2": "y/A/walk.bvh"}
    with pytest.raises(MotionkitError, match="several clips"):
        rows_of("A/walk").match(numbered)
    assert rows_of("A_walk").match(numbered) == {"A_walk": "A_walk"}, "a clip's id is its id"
    assert rows_of("starter_7").match({"starter_7": "starter train starter-7"}) == {"starter_7": "starter_7"}


def test_ids_are_the_same_however_their_letters_are_stored(tmp_path):
    composed, apart = "L\u00e4ufer", "La\u0308ufer"
    assert plain_id(composed) == plain_id(apart)
    assert rows_of(composed).match({plain_id(apart): f"{apart}.bvh"}) == {plain_id(apart): composed}


@settings(max_examples=200, deadline=None)
@given(st.text(max_size=300))
def test_an_id_is_fit_for_a_file_name(name):
    key = plain_id(name)
    assert plain_id(key) == key
    assert len(key.encode()) <= 180
    assert not set(key) & set('/\\# \n\t\x1b\x00<>:"|?*')
    assert not key.endswith(".")


@pytest.mark.parametrize(
    ("name", "expected"),
    [
        ("con", "con_"),
        ("NUL", "NUL_"),
        ("aux.walk", "aux_.walk"),
        ("com1", "com1_"),
        ("LPT9.a.b", "LPT9_.a.b"),
        ("trail.", "trail_"),
        ("...", "___"),
        ("a:b?", "a_b_"),
        ("console", "console"),
        ("com10", "com10"),
        ("v1.2", "v1.2"),
    ],
)
def test_ids_are_names_that_windows_can_hold(name, expected):
    assert plain_id(name) == expected
    assert plain_id(expected) == expected


def test_names_that_windows_cannot_hold_stay_apart():
    files = [Path("x") / f"{name}.bvh" for name in ("con", "con_", "trail.", "trail_", "CON")]
    keys = unique_keys([(file, Path("x")) for file in files])
    assert len({key.lower() for key in keys}) == len(files)
    assert [plain_id(key) for key in keys] == keys


def test_clips_without_a_split_follow_their_group():
    groups = {"a": "g", "b": "g", "c": "h", "d": "i", "e": "i", "f": "i"}
    given = {"a": "test", "b": "", "c": "", "d": "train", "e": "val", "f": ""}
    splits = complete_splits(given, groups)
    assert splits["b"] == "test"
    assert splits["f"] == "val", "of a group that leaks already, the last: nothing held out is trained on"
    assert splits["c"] == "train"


def test_timed_captions_of_a_part():
    captions = (
        Caption("all"),
        Caption("early", (), 0.1, 1.0),
        Caption("across", (), 1.0, 3.0),
        Caption("late", (), 6, 8),
    )
    assert captions_within(captions, 2.0, 7.0) == (
        Caption("all"), Caption("across", (), 0.0, 1.0), Caption("late", (), 4.0, 5.0)
    )  # fmt: skip


BAD_TABLES: dict[str, tuple[str, dict[str, str], str]] = {
    "caption": ("name,x\na,b\n", {}, "column for the caption"),
    "id": ("x,text\na,b\n", {}, "column for the id"),
    "named": ("id,text\na,b\n", {"id_column": "clip"}, "clip"),
    "split": ("id,text,split\na,b,half\n", {}, "line 2: 'half'"),
    "rows": ("id,text\n", {}, "no rows"),
    "empty": ("", {}, "column for the id"),
    "cells": ("id,text\nwalk,he walks, then turns\n", {}, "line 2 has 3 cells"),
    "short": ("id,text\n\nwalk\n", {}, "line 3 has no 'text'"),
    "no id": ("id,text\n,he walks\n", {}, "line 2 has no id"),
    "twice": ("id,text,text\na,b,c\n", {}, "two columns"),
    "splits": ("id,text,split\na,b,train\na,c,test\n", {}, "line 3: a has the split"),
    "groups": ("id,text,group\na,b,g\na,c,\na,c,h\n", {}, "line 4: a has the group"),
    "BVH": ("HIERARCHY\nROOT Hips\n{\n", {}, "column for the id"),
    "order": ("id,text,start,end\na,b,1,2\na,b,4,2.5\n", {}, "line 3: start 4"),
    "zero": ("id,text,start,end\na,b,3,0\n", {}, "line 2: start 3"),
    "negative": ("id,text,start,end\na,b,-1,2\n", {}, "line 2: start is '-1'"),
    "minutes": ("id,text,start,end\na,b,1,0:04\n", {}, "line 2: end is '0:04'"),
    "infinite": ("id,text,end\na,b,inf\n", {}, "line 2: end is 'inf'"),
}


@pytest.mark.parametrize(("text", "options", "word"), BAD_TABLES.values(), ids=BAD_TABLES)
def test_bad_tables(tmp_path, text, options, word):
    with pytest.raises(MotionkitError, match=word):
        read_caption_table(table(tmp_path / "c.csv", text), **options)


@pytest.mark.parametrize(
    ("cells", "refused"),
    [
        (["288", "4.8", "-1e3", "0:15"], True),  # frames, seconds, times of day
        (["walk_07", "cc_05_16", "turn/left_1", "wave.bvh"], True),  # ids and files
        (["walk_left"] * 10, True),  # labels that are no words
        ([*["12"] * 9, "a person walks"], True),  # nine in ten
        ([*["12"] * 8, "a person walks", "a person waves"], False),
        (["walk", "run", "jump", ""], False),  # captions of one word are captions
        (["a person takes 2 steps", "kick no. 3", "走路2", "step 4_b"], False),
        (["", ""], False),
    ],
)
def test_a_column_of_numbers_or_ids_is_no_column_of_captions(tmp_path, cells, refused):
    lines = [f"{place},{cell},somebody walks to the left,{'half a sentence' if place < 2 else 7},4.5"
             for place, cell in enumerate(cells)]  # fmt: skip
    path = table(tmp_path / "c.csv", "\n".join(["id,caption,said,note,seconds", *lines]))
    if not refused:
        assert len(read_caption_table(path).rows) == len(cells)
        return
    with pytest.raises(MotionkitError) as caught:
        read_caption_table(path)
    assert caught.value.fix.startswith("if this is meant: --caption-column said.") or len(cells) < 5
    assert "--caption-column said" in caught.value.fix
    assert "seconds" not in caught.value.fix
    with pytest.raises(MotionkitError, match="seconds"):
        read_caption_table(path, caption_columns=["said", "seconds"])
    assert read_caption_table(path, caption_columns=["said"]).rows["0"][0].captions == ("somebody walks to the left",)


def test_a_table_without_any_texts_is_told_what_a_caption_is(tmp_path):
    with pytest.raises(MotionkitError) as caught:
        read_caption_table(table(tmp_path / "c.csv", "id,caption\n1,7\n2,8\n"))
    assert caught.value.fix.startswith("add a column with texts")


@pytest.mark.parametrize("mark", [",", ";", "\t"])
def test_no_end_of_a_caption_is_lost(tmp_path, mark):
    """Of tables that spreadsheets write, too; how they were read is said."""
    caption = "a person walks slowly, then turns; left"
    path = tmp_path / "c.csv"
    path.write_text(f'clip{mark}caption\nwalk{mark}"{caption}"\n', encoding="utf-16")
    found = read_caption_table(path)
    assert found.rows["walk"][0].captions == (caption,)
    assert "UTF-16" in found.note
    assert ("separates its columns" in found.note) == (mark != ",")


def test_a_missing_table(tmp_path):
    with pytest.raises(MotionkitError, match=r"none\.csv does not exist"):
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


@pytest.mark.parametrize(("clips", "held_out"), [(20, (2, 3)), (19, (2, 3)), (8, (2, 2)), (7, (1, 1)), (3, (1, 1))])
def test_few_clips_leave_two_to_retrieve_among(clips: int, held_out: tuple[int, int]) -> None:
    splits = list(assign_splits({f"clip{number}": f"clip{number}" for number in range(clips)}).values())
    assert (splits.count("val"), splits.count("test")) == held_out


def test_splits_have_the_shares_of_humanml3d():
    splits = list(assign_splits({f"clip{number}": f"clip{number}" for number in range(1000)}).values())
    assert splits.count("test") == pytest.approx(150, abs=1)
    assert splits.count("val") == pytest.approx(50, abs=1)


def test_ids_of_long_and_broken_names():
    assert plain_id("x" * 300) != plain_id("x" * 299 + "y")
    assert plain_id("x" * 180) == "x" * 180
    assert plain_id("a\udcffb") == "a_b", "a file name that is not valid UTF-8"
    assert plain_id("\x1b[31mred") == "_[31mred"
