"""Tables of captions with times: stretches of long recordings become clips of their own."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest

import motionkit
from motionkit.clips.convert import (
    ConvertReport,
    Edits,
    OutputOptions,
    convert,
    messages,
    open_sources,
    plan_conversion,
    summary_rows,
)
from motionkit.clips.convert.feature_target import FeatureTarget
from motionkit.clips.convert.run import run_conversion
from motionkit.clips.profile.statistics import profile_sources
from motionkit.errors import MotionkitError
from motionkit.motion import read_caption_table

from ...made.bvh_files import write_bvh
from ...made.commands import assert_refused, run


def converted(place: Path, text: str, *recordings: str, out: str = "out", **options: object) -> ConvertReport:
    """Convert recordings of 10 s by a table."""
    (place / "c.csv").write_text(text)
    for number, name in enumerate(recordings):
        write_bvh(place / f"{name}.bvh", 200, fps=20.0, speed=0.5 + 0.1 * number)
    sources = open_sources([place / f"{name}.bvh" for name in recordings]).sources
    return convert(sources, place / out, FeatureTarget(), table=read_caption_table(place / "c.csv"), **options)


def texts(place: Path, name: str) -> list[str]:
    return [line.partition("#")[0] for line in (place / f"out/texts/{name}.txt").read_text().splitlines()]


def lists(folder: Path) -> dict[str, str]:
    return {key: name for name in ("train", "val", "test") for key in (folder / f"{name}.txt").read_text().split()}


def test_each_row_is_a_clip_of_its_seconds(tmp_path):
    table = "clip,caption,start,end\nwalk,later,4.5,\nwalk,overlaps,1,6\nwalk,so,1.0,6\nwalk,begins,,3\nwalk,all,,\n"
    report = converted(tmp_path, table, "walk")
    assert report.written == ["walk", "walk_s0", "walk_s1", "walk_s2"], "the whole, then by time"
    assert [texts(tmp_path, name) for name in report.written] == [["all"], ["begins"], ["overlaps", "so"], ["later"]]
    frames = [len(np.load(tmp_path / f"out/new_joint_vecs/{name}.npy")) for name in report.written]
    assert frames == [199, 59, 99, 109]
    record = json.loads((tmp_path / "out/convert.json").read_text())["clips"]
    times = [(record[name].get("start"), record[name].get("end")) for name in report.written]
    assert times == [(None, None), (0, 3), (1, 6), (4.5, 10)]
    plan = plan_conversion(tmp_path / "cut", ["walk.bvh"], None, OutputOptions(edits=Edits(1.0, 6.0)))
    run_conversion(plan, open_sources([tmp_path / "walk.bvh"]).sources)
    np.testing.assert_array_equal(
        np.load(tmp_path / "cut/new_joint_vecs/walk.npy"), np.load(tmp_path / "out/new_joint_vecs/walk_s1.npy")
    )


def test_stretches_of_a_recording_stay_in_one_split(tmp_path):
    recordings = [f"take{number}" for number in range(6)]
    rows = [f"{name},x,{start},{start + 4}" for name in recordings for start in (0, 2, 5)]
    report = converted(tmp_path, "clip,caption,start,end\n" + "\n".join(rows), *recordings)
    splits = lists(tmp_path / "out")
    assert len(report.written) == len(splits) == 18
    assert set(splits.values()) == {"train", "val", "test"}
    for name in recordings:
        assert len({splits[f"{name}_s{number}"] for number in range(3)}) == 1
    assert not report.warnings


def test_a_table_may_deal_the_stretches_apart(tmp_path):
    table = "clip,caption,start,end,split\na,x,0,4,train\na,x,4,8,test\na,x,5,9,\n"
    report = converted(tmp_path, table, "a")
    assert lists(tmp_path / "out") == {"a_s0": "train", "a_s1": "test", "a_s2": "test"}
    assert [text for text in report.warnings if "1 group in several splits" in text]


def test_a_stretch_outside_of_its_recording_is_named_by_its_line(tmp_path):
    table = "clip,caption,start,end\na,x,0,4\na,y,10,14\na,z,9.97,\na,w,5,10.05\na,v,6,99\n"
    report = converted(tmp_path, table, "a")
    assert report.written == ["a_s0", "a_s1", "a_s2"]
    path = tmp_path / "c.csv"
    assert list(report.failed.values()) == [
        f"{path}, line 4: from 9.97 s to the end, and that is not two frames.",
        f"{path}, line 3: from 10 s to 14 s, and the recording lasts 10 s.",
    ]
    (warning,) = report.warnings
    assert warning == (f"a_s2: {path}, line 6: the end 99 s is beyond the recording's 10 s, where the clip ends.")


def test_stretches_have_mirror_images_and_another_go(tmp_path):
    recordings = ["a", "b", "c"]
    rows = [f"{name},raises the left hand,{start},{start + 4}" for name in recordings for start in (0, 2)]
    (tmp_path / "c.csv").write_text("clip,caption,start,end\n" + "\n".join(rows))
    for number, name in enumerate(recordings):
        write_bvh(tmp_path / f"{name}.bvh", 200, fps=20.0, speed=0.5 + 0.1 * number)
    table, target = read_caption_table(tmp_path / "c.csv"), FeatureTarget(mirrored=True)
    sources = open_sources([tmp_path / f"{name}.bvh" for name in recordings]).sources
    report = convert(sources, tmp_path / "one", target, table=table)
    assert report.written[:4] == ["a_s0", "Ma_s0", "a_s1", "Ma_s1"]
    assert (tmp_path / "one/texts/Mb_s1.txt").read_text().startswith("raises the right hand#")

    class StoppedError(Exception):
        pass

    def stop(key: str) -> None:
        if key == "b":
            raise StoppedError

    with pytest.raises(StoppedError):
        convert(sources, tmp_path / "two", target, table=table, progress=stop)
    again = convert(sources, tmp_path / "two", target, table=table)
    assert again.resumed == 2
    files = sorted(path.relative_to(tmp_path / "one") for path in (tmp_path / "one").rglob("*.*"))
    assert len(files) == 12 * 3 + 8
    assert all((tmp_path / "two" / file).read_bytes() == (tmp_path / "one" / file).read_bytes() for file in files)


def test_start_and_end_do_not_go_with_a_table_of_times(tmp_path):
    (tmp_path / "c.csv").write_text("clip,caption,start\na,x,2\n")
    write_bvh(tmp_path / "a.bvh", 200, fps=20.0)
    assert_refused(
        run("convert", tmp_path / "a.bvh", tmp_path / "out", "--captions", tmp_path / "c.csv", "--end", 4),
        "--start and --end do not go together with a table of captions that has times",
    )
    (tmp_path / "c.csv").write_text("clip,caption,start\na,x,\n")
    result = run("convert", tmp_path / "a.bvh", tmp_path / "out", "--captions", tmp_path / "c.csv", "--end", 4)
    assert result.exit_code == 0, result.stderr
    assert len(np.load(tmp_path / "out/new_joint_vecs/a.npy")) == 79


def test_stretches_are_viewed_and_profiled(tmp_path):
    (tmp_path / "c.csv").write_text("clip,caption,start,end\na,x,0,4\na,y,3,9\n")
    write_bvh(tmp_path / "a.bvh", 200, fps=20.0)
    profile = profile_sources(open_sources([tmp_path / "a.bvh"]).sources, table=read_caption_table(tmp_path / "c.csv"))
    assert [(row.clip, row.frames, row.group) for row in profile.rows] == [("a_s0", 80, "a"), ("a_s1", 120, "a")]
    result = run("view", tmp_path / "a.bvh", "--captions", tmp_path / "c.csv", "--out", tmp_path / "p.html")
    assert result.exit_code == 0, result.stderr
    assert "a_s1" in (tmp_path / "p.html").read_text()


def test_a_name_that_another_recording_has_is_numbered(tmp_path):
    report = converted(tmp_path, "clip,caption,start,end\nwalk,x,0,4\nwalk,y,4,8\n", "walk", "walk_s0")
    assert report.written == ["walk_s0_2", "walk_s1", "walk_s0"]


LONG = "clip,caption\nlong,walks\nlong,goes on\nlong,and on\nother,stands\n"


def long_clips(place: Path, **options: object) -> tuple[ConvertReport, list[str]]:
    """Convert a recording of 500 frames, with three captions, and one of 100; return the report and its messages."""
    write_bvh(place / "long.bvh", 501, fps=20.0)
    write_bvh(place / "other.bvh", 101, fps=20.0)
    (place / "c.csv").write_text(LONG)
    sources = open_sources([place / "long.bvh", place / "other.bvh"]).sources
    table = read_caption_table(place / "c.csv")
    report = convert(sources, place / "out", FeatureTarget(**options), table=table)
    return report, [f"{level}: {text}" for level, text in messages(report, fixed=False)]


def test_captions_that_were_copied_are_counted(tmp_path):
    report, said = long_clips(tmp_path, mirrored=True)
    assert report.cut == {"long": 3}
    assert report.copied == 3
    assert "info: 1 clip longer than 199 frames, cut into 3 parts: long" in said
    assert (
        "warning: 3 captions without times stay with every part, also where it shows something else. "
        "Give them times (columns start, end), or add --long first or drop."
    ) in said
    assert texts(tmp_path, "long_p2") == ["walks", "goes on", "and on"]


def test_the_first_frames_of_long_clips(tmp_path):
    report, said = long_clips(tmp_path, mirrored=True, long="first")
    assert report.written == ["long", "Mlong", "other", "Mother"]
    assert (report.cut, report.copied, report.long) == ({}, 0, {"long": 500})
    assert said == ["info: 1 clip longer than 199 frames, the first 199 kept: long (500 frames)"]
    first = np.load(tmp_path / "out/new_joint_vecs/long.npy")
    assert len(first) == 199
    assert len(np.load(tmp_path / "out/new_joint_vecs/Mlong.npy")) == 199


def test_long_clips_are_left_out(tmp_path):
    report, said = long_clips(tmp_path, mirrored=True, long="drop")
    assert report.written == ["other", "Mother"]
    assert (report.short, report.failed, report.long) == ({}, {}, {"long": 500})
    assert said == ["warning: 1 clip longer than 199 frames, left out: long (500 frames)"]
    assert dict(summary_rows(report))["left out"] == 1
    with pytest.raises(MotionkitError) as caught:
        convert(open_sources([tmp_path / "long.bvh"]).sources, tmp_path / "none", FeatureTarget(long="drop"))
    assert caught.value.why == "1 clip longer than 199 frames, left out by --long drop."
    assert_refused(
        run("convert", tmp_path / "long.bvh", tmp_path / "glb", "--to", "glb", "--long", "drop"),
        "--long does not act with --to glb",
    )


def test_a_conversion_with_another_choice_does_not_go_on_from_the_first(tmp_path):
    write_bvh(tmp_path / "long.bvh", 501, fps=20.0)
    write_bvh(tmp_path / "other.bvh", 101, fps=20.0)
    sources = open_sources([tmp_path / "long.bvh", tmp_path / "other.bvh"]).sources

    def stop(key: str) -> None:
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        convert(sources, tmp_path / "out", FeatureTarget(), progress=stop)
    report = convert(sources, tmp_path / "out", FeatureTarget(long="first"))
    assert (report.resumed, report.written) == (0, ["long", "other"])


def test_parts_have_the_captions_that_they_show_half_of(tmp_path):
    """Times of texts/*.txt, at 20 fps in parts of 7.5 s."""
    write_bvh(tmp_path / "long.bvh", 601, fps=20.0)
    run("convert", tmp_path / "long.bvh", tmp_path / "bones.npz")
    clip = motionkit.read(tmp_path / "bones.npz")
    (tmp_path / "set/new_joints").mkdir(parents=True)
    (tmp_path / "set/texts").mkdir()
    clip.save(tmp_path / "set/new_joints/long.npy", fps=20.0)
    seconds = {
        "first half": (0.0, 7.5), "most here": (4.0, 11.0), "a bit there": (9.9, 10.5), "nearly all": (1.0, 29.0),
        "after": (15.0, 16.0), "even": (9.0, 11.0),
    }  # fmt: skip
    lines = [f"{text}#x/NOUN#{start}#{end}\n" for text, (start, end) in seconds.items()]
    (tmp_path / "set/texts/long.txt").write_text("".join(lines) + "all of it#x/NOUN#0.0#0.0\n")
    report = convert(open_sources([tmp_path / "set"]).sources, tmp_path / "out", FeatureTarget())
    assert report.cut == {"long": 4}
    assert report.copied == 1
    found = {name: (tmp_path / f"out/texts/{name}.txt").read_text().splitlines() for name in report.written}
    quarter = [{line.partition("#")[0] for line in lines} for lines in found.values()]
    assert quarter == [
        {"all of it", "first half", "most here", "nearly all"},
        {"all of it", "nearly all", "most here", "a bit there", "even"},
        {"all of it", "nearly all", "after"},
        {"all of it", "nearly all"},
    ]
    assert "even#x/NOUN#1.5#3.5" in found["long_p1"]
