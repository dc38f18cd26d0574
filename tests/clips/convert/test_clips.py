"""What goes with a motion stays with it, and what a conversion says of it."""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path

import numpy as np
import pytest
import torch
from typer.testing import Result

from motionkit.clips.convert import (
    ConvertReport,
    FileTarget,
    check,
    convert,
    convert_file,
    fit_text,
    messages,
    open_sources,
    sizes_of,
)
from motionkit.clips.convert.feature_target import FeatureTarget, finish_folder, write_features
from motionkit.errors import MotionkitError
from motionkit.formats.native import read_native, write_native
from motionkit.motion import (
    HUMANML,
    KIT,
    Caption,
    Clip,
    JointMotion,
    joints_to_features,
    read_caption_table,
    read_captions,
    read_features,
)
from motionkit.rigs import kit_bones

from ...made.bodies import mirror_features, walker
from ...made.bvh_files import write_bvh
from ...made.persons import person


@dataclass(frozen=True)
class Memory:
    """Clips that are in memory already."""

    key: str
    clips: Sequence[Clip] = ()
    origin: str = field(default="memory", init=False)

    def fingerprint(self) -> str:
        return ""

    def load(self) -> Sequence[Clip]:
        return self.clips


def features_of(frames: int, seed: int = 0) -> torch.Tensor:
    return joints_to_features(walker(frames + 1, seed=seed), HUMANML).float()


def feature_clip(frames: int = 160, **more: object) -> Clip:
    joints = walker(frames)
    clip = Clip(JointMotion(HUMANML.joint_names, HUMANML.parents, joints, 20.0), features_of(frames))
    return replace(clip, **more)  # type: ignore[arg-type]


def dataset(folder: Path, **texts: Sequence[Caption]) -> Path:
    """Write a folder in HumanML3D's layout, without lists."""
    folder.mkdir()
    for number, (key, captions) in enumerate(texts.items()):
        write_features(folder, key, features_of(60, number), captions, HUMANML)
    return folder


def names(path: Path) -> set[str]:
    return set(path.read_text().split())


TIMED = (Caption("waves at the end", ("wave/VERB",), 6.0, 7.5), Caption("early", ("x/VERB",), 0.1, 1.0))


def test_cutting_a_clip_cuts_what_goes_with_it() -> None:
    clip = feature_clip(timed=TIMED)
    cut = clip.cut(41, 158)
    assert cut.motion.frames == len(cut.features) == 117
    assert torch.equal(cut.features, clip.features[41:158])
    assert cut.timed == (Caption("waves at the end", ("wave/VERB",), 3.95, 5.45),)
    with pytest.raises(MotionkitError, match="158 rows"):
        replace(clip, features=clip.features[:158])


def test_resampling_a_clip_drops_features_that_no_longer_fit() -> None:
    clip = feature_clip()
    assert clip.resample(20.0) is clip
    assert clip.resample(60.0).features is None
    assert clip.resample(60.0).motion.frames == 478


def test_timed_captions_follow_a_cut(tmp_path: Path) -> None:
    clip = feature_clip(captions=(Caption("walks", ("walk/XYZ",)),), timed=TIMED)
    clip.motion.joints[40:, :, 0] += 5.0
    report = convert([Memory("c", [clip])], tmp_path / "out", FeatureTarget(), fix=True)
    assert report.fixed == {"c": (40, 160)}
    assert (tmp_path / "out/texts/c.txt").read_text().splitlines() == [
        "walks#walk/XYZ#0.0#0.0",
        "waves at the end#wave/VERB#4.0#5.5",
    ]
    assert any("'early' describes a part that was cut away" in text for text in report.warnings)


def test_timed_captions_follow_a_rest_pose_that_is_left_out(tmp_path: Path) -> None:
    write_bvh(tmp_path / "rest.bvh", 200, rest=True)
    (clip,) = open_sources([tmp_path / "rest.bvh"]).sources[0].load()
    source = Memory("rest", [replace(clip, timed=(Caption("turns", ("turn/VERB",), 1.0, 2.0),))])
    convert([source], tmp_path / "out", FeatureTarget())
    (caption,) = read_captions(tmp_path / "out/texts/rest.txt")
    assert (caption.start, caption.end) == pytest.approx((1.0 - 1 / 60, 2.0 - 1 / 60))


@pytest.mark.parametrize(("start", "end"), [(2.0, 1.0), (1.0, 1.0), (1.0, float("inf")), (9.0, 10.0)])
def test_captions_of_no_part_of_a_clip_are_left_out_and_said(tmp_path: Path, start: float, end: float) -> None:
    clip = feature_clip(captions=(Caption("x"),), timed=(Caption("y", (), start, end),))
    write_native(tmp_path / "a.npz", clip)
    report = convert_file(open_sources([tmp_path / "a.npz"]).sources, tmp_path / "a.html", "html")
    assert any("its caption 'y' is of" in text for text in report.warnings)


def test_features_at_another_rate_are_made_again(tmp_path: Path) -> None:
    report = convert([Memory("c", [feature_clip(160)])], tmp_path / "same", FeatureTarget())
    assert report.frames == 160
    fast = feature_clip(160)
    fast = replace(fast, motion=replace(fast.motion, fps=60.0))
    report = convert([Memory("c", [fast])], tmp_path / "out", FeatureTarget())
    assert report.frames == 53, "159 steps at 60 fps are 53 at 20"


def test_a_motion_at_another_rate_keeps_no_features_beside_it(tmp_path: Path) -> None:
    write_native(tmp_path / "a.npz", feature_clip())
    sources = open_sources([tmp_path / "a.npz"]).sources
    convert_file(sources, tmp_path / "b.npz", "npz", fps=60.0)
    convert(sources, tmp_path / "out", FileTarget("npz", fps=60.0))
    for path in (tmp_path / "b.npz", tmp_path / "out/a.npz"):
        (clip,) = read_native(path)
        assert (clip.motion.frames, clip.motion.fps, clip.features) == (478, 60.0, None)


def test_tokens_of_captions_survive_every_folder(tmp_path: Path) -> None:
    captions = (Caption("walks", ("walk/XYZ",)), Caption("waves", ("wave/ABC",), 1.0, 2.0))
    first = dataset(tmp_path / "first", c=captions)
    finish_folder(first, {"c": "train"}, HUMANML)
    convert(open_sources([first]).sources, tmp_path / "npz", FileTarget("npz"))
    convert(open_sources([tmp_path / "npz"]).sources, tmp_path / "second", FeatureTarget())
    assert (tmp_path / "second/texts/c.txt").read_bytes() == (first / "texts/c.txt").read_bytes()


def test_a_take_stays_in_one_split(tmp_path: Path) -> None:
    texts = {f"{mark}{number:06d}": (Caption("x"),) for number in range(12) for mark in ("", "M")}
    texts |= {f"long{number}_p{part}": (Caption("x"),) for number in range(6) for part in range(2)}
    convert(open_sources([dataset(tmp_path / "in", **texts)]).sources, tmp_path / "out", FeatureTarget())
    lists = [names(tmp_path / f"out/{split}.txt") for split in ("train", "val", "test")]
    for number in range(12):
        assert sum(bool({f"{number:06d}", f"M{number:06d}"} & keys) for keys in lists) == 1
    for number in range(6):
        assert sum(bool({f"long{number}_p0", f"long{number}_p1"} & keys) for keys in lists) == 1


def test_a_name_that_only_begins_with_m_is_a_take_of_its_own(tmp_path: Path) -> None:
    sources = open_sources([dataset(tmp_path / "in", Mary=(), clip=(), Mclip=())]).sources
    assert {source.key: source.group for source in sources} == {"Mary": "", "Mclip": "Mclip", "clip": "Mclip"}


def test_clips_without_a_split_follow_the_others_of_their_group(tmp_path: Path) -> None:
    clips = [feature_clip(60, group=f"g{n // 2}", split="test" if n % 2 == 0 else "") for n in range(10)]
    sources = [Memory(f"c{n}", [clip]) for n, clip in enumerate(clips)]
    report = convert(sources, tmp_path / "out", FeatureTarget())
    assert report.splits["test"] == 10
    assert not any("several splits" in text for text in report.warnings)


def test_two_folders_with_one_name_each_get_their_own_caption(tmp_path: Path) -> None:
    for folder in "AB":
        (tmp_path / folder).mkdir()
        write_bvh(tmp_path / folder / "walk.bvh", 150)
    (tmp_path / "c.csv").write_text("id,text\nB/walk,of b\n")
    sources = open_sources([tmp_path / "A", tmp_path / "B"]).sources
    assert [source.key for source in sources] == ["A_walk", "B_walk"]
    convert(sources, tmp_path / "out", FeatureTarget(), table=read_caption_table(tmp_path / "c.csv"))
    assert [path.name for path in (tmp_path / "out/texts").iterdir()] == ["B_walk.txt"]
    alone = open_sources([tmp_path / "A/walk.bvh", tmp_path / "B/walk.bvh"]).sources
    assert [source.key for source in alone] == ["A_walk", "B_walk"]


def test_its_own_output_is_not_read_again(tmp_path: Path) -> None:
    (tmp_path / "in").mkdir()
    write_bvh(tmp_path / "in/a.bvh")
    convert(open_sources([tmp_path / "in"]).sources, tmp_path / "in/out", FileTarget("joints"))
    again = open_sources([tmp_path / "in"])
    assert [source.key for source in again.sources] == ["a"]
    assert again.made == [tmp_path / "in/out"]
    assert len(open_sources([tmp_path / "in/out"]).sources) == 1, "by name it is read"


def test_a_folder_of_nothing_but_datasets_is_a_folder_of_datasets(tmp_path: Path) -> None:
    write_bvh(tmp_path / "walk.bvh", 150)
    for name in ("one", "two"):
        convert(open_sources([tmp_path / "walk.bvh"]).sources, tmp_path / "sets" / name, FileTarget("npz"))
    opened = open_sources([tmp_path / "sets"])
    assert [source.key for source in opened.sources] == ["one_walk", "two_walk"]
    assert opened.made == []


def test_a_clip_is_written_whole_or_not_at_all(tmp_path: Path) -> None:
    write_bvh(tmp_path / "walk.bvh", 500, fps=20.0)
    write_bvh(tmp_path / "walk_p1.bvh", 60, fps=20.0)
    clips = {source.key: source.load() for source in open_sources([tmp_path]).sources}
    # The short clip takes the name of a part of the long one, which comes second here.
    sources = [Memory("walk_p1", clips["walk_p1"]), Memory("walk", clips["walk"])]
    report = convert(sources, tmp_path / "out", FeatureTarget())
    assert report.written == ["walk_p1"]
    assert list(report.failed) == ["memory"]
    assert [path.name for path in (tmp_path / "out/new_joint_vecs").iterdir()] == ["walk_p1.npy"]
    assert names(tmp_path / "out/all.txt") == {"walk_p1"}


def test_fix_cuts_out_what_is_spoilt_beside_the_positions(tmp_path: Path) -> None:
    clip = feature_clip(160)
    clip.features[50, 200] = float("nan")
    with pytest.raises(MotionkitError) as caught:
        convert([Memory("c", [clip])], tmp_path / "plain", FeatureTarget())
    assert "--fix" in caught.value.why
    report = convert([Memory("c", [clip])], tmp_path / "out", FeatureTarget(), fix=True)
    assert report.fixed == {"c": (51, 160)}
    assert np.isfinite(np.load(tmp_path / "out/new_joint_vecs/c.npy")).all()
    motion = person(120)
    track = torch.ones(120, 2)
    track[100] = float("nan")
    report = convert(
        [Memory("c", [Clip(replace(motion, tracks={"contacts": track}))])],
        tmp_path / "npz",
        FileTarget("npz"),
        fix=True,
    )
    assert report.fixed == {"c": (0, 100)}


def test_the_work_of_files_of_one_format_is_told_by_their_sizes(tmp_path: Path) -> None:
    write_bvh(tmp_path / "short.bvh", 60)
    write_bvh(tmp_path / "long.bvh", 600)
    sources = open_sources([tmp_path]).sources
    long, short = sizes_of(sources)
    assert long - short == (tmp_path / "long.bvh").stat().st_size - (tmp_path / "short.bvh").stat().st_size > 0
    assert short > 0
    assert sizes_of([*sources, Memory("made", [feature_clip(40)])]) == [], "what is in memory has no size"
    np.save(tmp_path / "joints.npy", np.zeros((60, 22, 3)))
    assert sizes_of(open_sources([tmp_path]).sources) == [], "bytes of several formats do not compare"


def test_a_check_says_what_is_too_short_for_a_dataset_and_knows_the_floor_of_features() -> None:
    long, short = feature_clip(40), feature_clip(39)
    report = check([Memory("long", [long]), Memory("short", [short]), Memory("bvh", [Clip(person(117, 60.0))])])
    kinds = {clip["clip"]: [(f["kind"], f["severity"]) for f in clip["findings"]] for clip in report.clips}
    assert ("short", "warning") not in kinds["long"]
    assert ("short", "warning") in kinds["short"]
    assert ("short", "warning") in kinds["bvh"]
    sunk = feature_clip(60)
    sunk.motion.joints[..., 1] -= float(sunk.motion.joints[..., 1].min()) + 0.5
    (found,) = check([Memory("sunk", [sunk])]).clips
    assert any(f["kind"] == "penetration" and f["severity"] == "error" for f in found["findings"])


@pytest.mark.parametrize(("body", "least"), [(HUMANML, 40), (KIT, 24)], ids=["humanml", "kit"])
def test_the_mirror_image_of_the_shortest_clip_is_written(tmp_path: Path, body, least: int) -> None:
    bones = kit_bones() if body is KIT else None
    rows = joints_to_features(walker(least + 1, skeleton=body), body, bones=bones).float()
    motion = JointMotion(
        body.joint_names, body.parents, torch.zeros(least, body.joints, 3, dtype=torch.float64), body.fps
    )
    report = convert([Memory("c", [Clip(motion, rows)])], tmp_path / "out", FeatureTarget(body.name, mirrored=True))
    assert report.written == ["c", "Mc"]
    image = read_features(tmp_path / "out/new_joint_vecs/Mc.npy", body)
    # The target body is lopsided by a centimetre, KIT's stored numbers are in another unit.
    torch.testing.assert_close(image[:, :4], mirror_features(rows, body)[:, :4], atol=0.03 / body.unit, rtol=0)


@pytest.mark.parametrize("part", ["/../../../../escaped", "x/y", "..", "\x1b[2J"])
@pytest.mark.parametrize(
    "target", [FeatureTarget(), FileTarget("npz"), FileTarget("html")], ids=["humanml", "npz", "html"]
)
def test_a_hostile_part_stays_in_the_folder(tmp_path: Path, part: str, target) -> None:
    out = tmp_path / "a/b/c/d/out"
    report = convert([Memory("m", [feature_clip(60, part=part), feature_clip(60, part="other")])], out, target)
    assert len(report.written) == 2
    inside = {path for path in out.rglob("*") if path.is_file()}
    assert {path for path in tmp_path.rglob("*") if path.is_file()} == inside
    with pytest.raises(MotionkitError, match="not a name"):
        target.write(feature_clip(60), "m/../../x", tmp_path)


Cli = Callable[..., Result]


def report(*keys: str, **more: object) -> ConvertReport:
    clips = [{"clip": key, "frames": 60, "findings": []} for key in keys]
    return ConvertReport(clips=clips, **more)  # type: ignore[arg-type]


def test_what_many_clips_have_in_common_is_said_once() -> None:
    keys = [f"c{number:02d}" for number in range(12)]
    said = messages(
        report(*keys, warnings=[*(f"{key}: its feet slide: much." for key in keys), "c00: alone.", "no split: none."]),
        fixed=False,
    )
    assert [text for _, text in said] == [
        f"12 clips ({', '.join(keys[:10])}, ...): its feet slide: much.", "c00: alone.", "no split: none.",
    ]  # fmt: skip


def test_the_fit_of_a_skeleton_is_said_where_it_is_bad_or_asked_for() -> None:
    def said(mean: float, most: float, flips: float = 0.0, **how: bool) -> str:
        figures = {"residual_mean": mean, "residual_max": most, "flips": flips}
        return fit_text(ConvertReport(figures=figures, worst="left_wrist in frame 41"), **how)

    moved = (
        "joints were moved {} mm in the mean, {} mm at most, left_wrist in frame 41, so that bones keep their length: "
    )
    assert said(0.0077, 0.038) == ""
    assert said(0.0077, 0.038, always=True) == moved.format(8, 38) + "too little to be seen"
    assert said(0.0012, 0.0345, 2.0) == (
        moved.format(1, 34) + "too little to be seen; 2 joints flip over, which can be seen"
    )
    assert said(0.02, 0.03) == moved.format(20, 30) + "look there: this can be seen"
    assert said(0.01, 0.07) == moved.format(10, 70) + "look there: this can be seen"
    assert fit_text(ConvertReport(), always=True) == ""


def test_a_record_has_numbers_of_what_was_written(cli: Cli) -> None:
    write_bvh(Path("a.bvh"), 150, fps=60.0)
    assert cli("convert", "a.bvh", "out").exit_code == 0
    entry = json.loads(Path("out/convert.json").read_text())["clips"]["a"]
    assert (entry["frames"], entry["source_frames"], entry["source_fps"], entry["joints"]) == (49, 150, 60, 22)
    document = json.loads(cli("convert", "--check", "a.bvh", "--json").stdout)
    assert (document["clips"][0]["frames"], document["clips"][0]["joints"]) == (150, 22)


def test_cut_lists_say_so() -> None:
    found = report(motionless=[f"r{number}" for number in range(11)])
    assert messages(found, fixed=False)[0][1].endswith("r8, r9, ...")
    found = report(motionless=[f"r{number}" for number in range(10)])
    assert messages(found, fixed=False)[0][1].endswith("r8, r9")
