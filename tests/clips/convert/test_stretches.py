"""Tables of captions with times: stretches of long recordings become clips of their own."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest
from typer.testing import CliRunner

from motionkit.clips.convert import ConvertReport, Edits, OutputOptions, convert, open_sources, plan_conversion
from motionkit.clips.convert.feature_target import FeatureTarget
from motionkit.clips.convert.run import run_conversion
from motionkit.clips.profile.statistics import profile_sources
from motionkit.motion import read_caption_table

from ...made.bvh_files import write_bvh


def run(*words: object):
    from motionkit.cli import get_app

    return CliRunner().invoke(get_app(), [str(word) for word in words])


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
    result = run("convert", tmp_path / "a.bvh", tmp_path / "out", "--captions", tmp_path / "c.csv", "--end", 4)
    assert result.exit_code == 2
    assert "--start and --end do not go together with a table of captions that has times" in result.stderr
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
