"""Conversions from end to end: what is written, left out and refused, and the options that say so."""

from __future__ import annotations

import itertools
import json
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import roma
import torch

from motionkit.clips import walk as _pool
from motionkit.clips.convert import (
    Edits,
    FileSource,
    FileTarget,
    OutputOptions,
    check,
    convert,
    messages,
    open_sources,
    plan_conversion,
)
from motionkit.clips.convert.check_clip import check_clip
from motionkit.clips.convert.feature_target import FeatureTarget
from motionkit.clips.faults import frames_at_rest
from motionkit.errors import MotionkitError
from motionkit.formats.bvh import read_bvh
from motionkit.motion import HUMANML, Caption, Clip, JointMotion, feature_stats, read_caption_table, read_features
from motionkit.testing import check_dataset
from motionkit.text_to_motion.data.humanml import HumanMLOptions, humanml

from ...made.bodies import mirror_features, walker
from ...made.bvh_files import write_bvh
from ...made.commands import assert_refused, run


@pytest.fixture
def clips(tmp_path: Path) -> Path:
    folder = tmp_path / "in"
    (folder / "more").mkdir(parents=True)
    for number in range(5):
        write_bvh(folder / f"clip{number}.bvh", 150 + 6 * number, speed=0.5 + 0.3 * number)
    write_bvh(folder / "more/turned.BVH", 180)
    return folder


def opened(*paths: Path) -> tuple[FileSource, ...]:
    return open_sources(paths).sources


def names(path: Path) -> list[str]:
    return path.read_text().split()


def test_a_complete_folder(clips, tmp_path):
    table = tmp_path / "captions.csv"
    table.write_text(
        "clip,description\n"
        + "".join(f"clip{number},a person walks at speed {number}\n" for number in range(5))
        + "ghost,boo\n"
    )
    out = tmp_path / "out"
    report = convert(opened(clips), out, FeatureTarget(), table=read_caption_table(table))
    assert report.written == ["clip0", "clip1", "clip2", "clip3", "clip4", "turned"]
    assert (report.uncaptioned, report.motionless, report.failed, report.short) == (["turned"], ["ghost"], {}, {})
    assert names(out / "all.txt") == report.written
    parts = [names(out / f"{split}.txt") for split in ("train", "val", "test")]
    assert sorted(itertools.chain(*parts)) == report.written
    assert names(out / "train_val.txt") == sorted(parts[0] + parts[1])
    assert (out / "texts/clip3.txt").read_text() == (
        "a person walks at speed 3#a/DET person/NOUN walk/VERB at/ADP speed/NOUN#0.0#0.0\n"
    )
    assert not (out / "texts/turned.txt").exists()
    vectors = read_features(out / "new_joint_vecs/clip0.npy", HUMANML)
    joints = np.load(out / "new_joints/clip0.npy")
    assert vectors.shape == (49, 263), "150 frames at 60 fps are 50 at 20, and one fewer feature rows"
    assert joints.shape == (49, 22, 3)
    assert joints.dtype == np.float32
    for joint, parent in list(enumerate(HUMANML.parents))[1:]:
        length = np.linalg.norm(HUMANML.target_offsets[joint])
        np.testing.assert_allclose(np.linalg.norm(joints[:, joint] - joints[:, parent], axis=-1), length, atol=1e-5)
    assert joints[..., 1].min() == pytest.approx(0.0, abs=1e-5)
    assert joints[-1, 0, 2] > 1.0, "it walks along +Z"
    assert joints[:, 15, 1].min() > 1.2, "upright"
    mean, std = feature_stats(
        [read_features(out / f"new_joint_vecs/{name}.npy", HUMANML) for name in parts[0]], HUMANML
    )
    assert np.array_equal(np.load(out / "Mean.npy"), mean.numpy())
    assert np.array_equal(np.load(out / "Std.npy"), std.numpy())
    dataset = humanml.build(HumanMLOptions(root=out))
    assert len(dataset.clips("train")) == len([name for name in parts[0] if name != "turned"])


def test_copies_of_a_recording_share_its_split(clips, tmp_path):
    """Whatever they are called: else held-out clips are trained on. Parts and mirror images go with them."""
    for file in [*clips.glob("*.bvh")]:
        (tmp_path / "again").mkdir(exist_ok=True)
        (tmp_path / "again" / f"take-{file.stem}.bvh").write_bytes(file.read_bytes())
    write_bvh(tmp_path / "again/long.bvh", 900, speed=0.9)
    write_bvh(tmp_path / "again/other.bvh", 900, speed=0.9)
    write_bvh(tmp_path / "again/longer.bvh", 960, speed=0.9)
    report = convert(opened(clips, tmp_path / "again"), tmp_path / "out", FeatureTarget(mirrored=True))
    expected = {f"take-clip{number}": f"clip{number}" for number in range(5)} | {"other": "long"}
    assert report.copies == expected
    split = {key: name for name in ("train", "val", "test") for key in names(tmp_path / f"out/{name}.txt")}
    for copy, clip in expected.items():
        endings = ["_p0", "_p1"] if clip == "long" else [""]
        for ending in endings:
            found = {split[f"{mirror}{key}{ending}"] for mirror in ("", "M") for key in (copy, clip)}
            assert len(found) == 1, (copy, found)
    assert len({split[key] for key in split}) == 3
    (message,) = (text for _, text in messages(report, fixed=False) if "copies" in text)
    assert message.startswith("6 copies put into the split of the same motion under another name: other (of long), ")


def test_copies_that_a_table_deals_apart_are_a_leak(clips, tmp_path):
    (clips / "same.bvh").write_bytes((clips / "clip0.bvh").read_bytes())
    table = tmp_path / "c.csv"
    table.write_text("id,text,split\nclip0,x,train\nsame,x,test\nclip1,x,train\n")
    report = convert(opened(clips), tmp_path / "out", FeatureTarget(), table=read_caption_table(table))
    assert any("1 group in several splits" in warning and "clip0" in warning for warning in report.warnings)


def test_ids_of_split_lists_may_have_blanks(clips, tmp_path):
    """One id a line, as the loaders of datasets read it."""
    convert(opened(clips), tmp_path / "a", FeatureTarget())
    for file in (tmp_path / "a").glob("*/clip3.*"):
        file.rename(file.with_stem("take 3"))
    (tmp_path / "a/test.txt").write_bytes("take 3\r\n\r\n".encode("utf-16"))
    (tmp_path / "a/train.txt").write_text("clip1\nclip2\n")
    (tmp_path / "a/val.txt").write_text("")
    found = {source.path.stem: source.splits for source in opened(tmp_path / "a")}
    assert found["take 3"] == ("test",)
    assert found["clip1"] == ("train",)


def test_a_table_with_one_caption_for_all_is_said(clips, tmp_path):
    table = tmp_path / "c.csv"
    table.write_text("id,text\n" + "".join(f"clip{n},he walks\n" for n in range(5)))
    said = run("convert", clips, tmp_path / "out", "--captions", table).stderr
    assert "have the caption 'he walks': a model has nothing to tell apart" in said
    table.write_text(table.read_text() + "turned,he turns\n")
    assert "nothing to tell apart" not in run("convert", clips, tmp_path / "other", "--captions", table).stderr


def test_a_table_that_holds_out_one_clip_is_warned_of_and_one_without_splits_holds_out_two(tmp_path):
    folder = tmp_path / "recordings"
    folder.mkdir()
    for number in range(8):
        write_bvh(folder / f"clip{number}.bvh", 240, speed=1 + number / 10)
    table = tmp_path / "c.csv"
    table.write_text(
        "id,text,split\n" + "".join(f"clip{n},he does {n},{'val' if n == 3 else 'train'}\n" for n in range(8))
    )
    said = "the val split has 1 clip, and models of text and motion measure on 2 or more"
    report = convert(opened(folder), tmp_path / "out", FeatureTarget(), table=read_caption_table(table))
    assert any(said in warning for warning in report.warnings)
    assert not any(said in warning for warning in convert(opened(folder), tmp_path / "b", FeatureTarget()).warnings)
    table.write_text("id,text\n" + "".join(f"clip{n},he does {n}\n" for n in range(8)))
    report = convert(opened(folder), tmp_path / "dealt", FeatureTarget(), table=read_caption_table(table))
    assert report.splits == {"train": 4, "val": 2, "test": 2}
    assert not any("val split" in warning for warning in report.warnings)


def test_a_table_chooses_splits(clips, tmp_path):
    table = tmp_path / "c.csv"
    rows = [f"clip{n},x,{'test' if n == 3 else 'train'},{'g' if n > 2 else n}" for n in range(5)]
    table.write_text("id,text,split,group\n" + "\n".join(rows) + "\nturned,y,val,z\n")
    report = convert(opened(clips), tmp_path / "out", FeatureTarget(), table=read_caption_table(table))
    assert report.splits == {"train": 4, "val": 1, "test": 1}
    assert names(tmp_path / "out/test.txt") == ["clip3"]
    assert any("1 group in several splits" in warning and "g" in warning for warning in report.warnings)


def test_one_bad_file_does_not_stop_a_folder(clips, tmp_path):
    write_bvh(clips / "spoilt.bvh", spoil="nan")
    (clips / "cut.bvh").write_text((clips / "clip0.bvh").read_text()[:-400])
    (clips / "noise.bvh").write_bytes(b"\xff\x00 not a motion")
    write_bvh(clips / "short.bvh", 117)
    out = tmp_path / "out"
    result = run("convert", clips, out)
    assert result.exit_code == 1
    for word in (
        "spoilt.bvh",
        "not finite",
        "cut.bvh",
        "noise.bvh",
        "not a BVH file",
        "1 clip shorter than 40 frames (2 s at 20 fps), left out: short (38 frames)",
        "3 clips could not be used",
    ):
        assert word in result.stderr
    assert "6 clips without a caption" in result.stderr
    assert len(names(out / "all.txt")) == 6
    assert list((out / "texts").iterdir()) == []
    record = json.loads((out / "convert.json").read_text())
    assert len(record["failed"]) == 3
    assert record["short"] == {"short": 38}
    result = run("convert", clips, out, "--overwrite", "--json")
    assert result.exit_code == 1
    document = json.loads(result.stdout)
    assert (document["schema"], document["command"], document["status"]) == (1, "convert", "failed")
    assert document["error"]["code"] == 1
    assert len(document["written"]) == 6


def test_an_existing_folder_is_kept(clips, tmp_path):
    out = tmp_path / "out"
    out.mkdir()
    (out / "precious").write_text("x")
    assert_refused(run("convert", clips, out), "--overwrite")
    assert run("convert", clips, out, "--overwrite").exit_code == 2
    assert [path.name for path in out.iterdir()] == ["precious"]
    assert sorted(path.name for path in tmp_path.iterdir()) == ["in", "out"], "nothing half-made is left"


def test_nothing_usable_leaves_nothing(tmp_path):
    write_bvh(tmp_path / "a.bvh", 30)
    (tmp_path / "out").mkdir()
    assert_refused(run("convert", tmp_path / "a.bvh", tmp_path / "out"), "nothing was written")
    assert sorted(path.name for path in tmp_path.iterdir()) == ["a.bvh", "out"]
    assert list((tmp_path / "out").iterdir()) == []


def test_a_crash_leaves_the_old_folder(clips, tmp_path, monkeypatch):
    out = tmp_path / "out"
    convert(opened(clips), out, FeatureTarget())
    before = sorted(path.name for path in out.rglob("*"))

    def full(*_: object) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr("motionkit.clips.convert.feature_target.write_bytes_atomic", full)
    with pytest.raises(MotionkitError, match="No space"):
        convert(opened(clips), out, FeatureTarget(), overwrite=True)
    assert sorted(path.name for path in out.rglob("*")) == before
    assert (tmp_path / ".out.part").is_dir(), "what was done is kept for the next try"


def test_long_clips_are_cut_and_say_so(tmp_path):
    write_bvh(tmp_path / "long.bvh", 251, fps=10.0)
    report = convert(opened(tmp_path / "long.bvh"), tmp_path / "out", FeatureTarget())
    assert report.cut == {"long": 3}
    assert report.written == ["long_p0", "long_p1", "long_p2"]
    frames = [len(np.load(tmp_path / f"out/new_joint_vecs/{name}.npy")) for name in report.written]
    assert sum(frames) == report.frames == 500
    assert max(frames) <= 199
    assert len({split for split, count in report.splits.items() if count}) == 1, "parts stay in one split"


def test_a_mirror_image_gets_no_caption_whose_side_cannot_be_read(tmp_path):
    lines = ["id,text", "clip,winkt mit der linken Hand", "clip,挥左手"]
    (tmp_path / "c.csv").write_text("\n".join(lines) + "\n")
    write_bvh(tmp_path / "clip.bvh")
    convert(
        opened(tmp_path / "clip.bvh"),
        tmp_path / "out",
        FeatureTarget(mirrored=True),
        table=read_caption_table(tmp_path / "c.csv"),
    )
    plain, image = ((tmp_path / f"out/texts/{name}.txt").read_text().splitlines() for name in ("clip", "Mclip"))
    assert [line.partition("#")[0] for line in plain] == ["winkt mit der linken Hand", "挥左手"]
    assert [line.partition("#")[0] for line in image] == ["挥右手"]


def test_mirror_images(tmp_path):
    (tmp_path / "c.csv").write_text("id,text\nclip,steps to the left\n")
    write_bvh(tmp_path / "clip.bvh")
    report = convert(
        opened(tmp_path / "clip.bvh"),
        tmp_path / "out",
        FeatureTarget(mirrored=True),
        table=read_caption_table(tmp_path / "c.csv"),
    )
    assert report.written == ["clip", "Mclip"]
    assert (
        (tmp_path / "out/texts/Mclip.txt").read_text().startswith("steps to the right#step/VERB to/ADP the/DET right/")
    )
    plain, image = (read_features(tmp_path / f"out/new_joint_vecs/{name}.npy", HUMANML) for name in ("clip", "Mclip"))
    torch.testing.assert_close(image[:, :3], mirror_features(plain, HUMANML)[:, :3], atol=0.02, rtol=0)


def test_features_pass_unchanged(tmp_path):
    class Source:
        key, origin = "x", "memory"

        def fingerprint(self) -> str:
            return ""

        def load(self) -> list[Clip]:
            features = torch.arange(50 * 263.0).reshape(50, 263) / 1e4
            motion = JointMotion(HUMANML.joint_names, HUMANML.parents, walker(50), 20.0)
            return [Clip(motion, features, (Caption("a walk"),), split="train")]

    convert([Source()], tmp_path / "out", FeatureTarget())
    np.testing.assert_array_equal(
        np.load(tmp_path / "out/new_joint_vecs/x.npy"),
        np.arange(50 * 263.0, dtype=np.float32).reshape(50, 263) / np.float32(1e4),
    )


def planted(path: Path) -> Path:
    """A walk of 150 frames in which the root is 3 m away in frame 100."""
    write_bvh(path, 150)
    lines = path.read_text().splitlines()
    lines[-50] = lines[-50].replace(lines[-50].split()[1], "300.0", 1)
    path.write_text("\n".join(lines))
    return path


def test_check_names_the_frames_and_writes_nothing(tmp_path):
    planted(tmp_path / "a.bvh")
    write_bvh(tmp_path / "fine.bvh", 150)
    report = check(opened(tmp_path))
    found = {clip["clip"]: [(f["kind"], f["frames"]) for f in clip["findings"]] for clip in report.clips}
    assert ("jump", [[100, 102]]) in found["a"]
    assert found["fine"] == []
    result = run("convert", "--check", tmp_path, "--json")
    assert result.exit_code == 1
    document = json.loads(result.stdout)
    assert (document["command"], document["status"], len(document["clips"])) == ("check", "failed", 2)
    assert run("convert", "--check", tmp_path / "fine.bvh").exit_code == 0
    assert sorted(path.name for path in tmp_path.iterdir()) == ["a.bvh", "fine.bvh"]
    assert "nothing" in run("convert", "--check", tmp_path, "--fix").stderr


def test_a_killed_conversion_goes_on_where_it_was(clips, tmp_path):
    whole = tmp_path / "whole"
    convert(opened(clips), whole, FeatureTarget())

    def stop(key: str) -> None:
        if key == "clip2":
            raise KeyboardInterrupt

    out = tmp_path / "out"
    with pytest.raises(KeyboardInterrupt):
        convert(opened(clips), out, FeatureTarget(), progress=stop)
    part = tmp_path / ".out.part"
    journal = part / ".journal.jsonl"
    journal.write_text(
        journal.read_text() + '{"outcome": {"key": "clip3", "torn'
    )  # and the line that was being written
    (part / "new_joint_vecs/clip3.npy").write_bytes(b"half a file")
    assert not out.exists()
    report = convert(opened(clips), out, FeatureTarget())
    assert (report.resumed, len(report.written)) == (3, 6)
    assert not part.exists()
    for file in sorted(path.relative_to(whole) for path in whole.rglob("*") if path.is_file()):
        assert (out / file).read_bytes() == (whole / file).read_bytes(), file


def test_another_plan_or_a_changed_file_starts_again(clips, tmp_path):
    def stop(key: str) -> None:
        if key == "clip2":
            raise KeyboardInterrupt

    out = tmp_path / "out"
    with pytest.raises(KeyboardInterrupt):
        convert(opened(clips), out, FeatureTarget(), progress=stop)
    write_bvh(clips / "clip1.bvh", 200)
    with pytest.raises(KeyboardInterrupt):
        convert(opened(clips), out, FeatureTarget(), progress=stop)
    with pytest.raises(KeyboardInterrupt):
        convert(opened(clips), out, FeatureTarget(mirrored=True), progress=stop)
    report = convert(opened(clips), out, FeatureTarget(mirrored=True))
    assert report.resumed == 3
    assert len(report.written) == 12


def test_worker_processes_write_the_same_bytes(clips, tmp_path, monkeypatch):
    monkeypatch.setattr(_pool, "_TRYING", 0.0)
    monkeypatch.setattr(_pool, "_STARTING", 0.0)
    for number in range(5, 9):
        write_bvh(clips / f"clip{number}.bvh", 150)
    (tmp_path / "c.csv").write_text("id,text,start,end\nclip4,walks,0,2.2\nclip4,goes on,0.4,\n")
    table = read_caption_table(tmp_path / "c.csv")
    one = convert(opened(clips), tmp_path / "one", FeatureTarget(), table=table)
    two = convert(opened(clips), tmp_path / "two", FeatureTarget(), table=table, jobs=2)
    assert one.written == two.written
    assert {"clip4_s0", "clip4_s1"} <= set(two.written)
    for file in sorted(path.relative_to(tmp_path / "one") for path in (tmp_path / "one").rglob("*") if path.is_file()):
        assert (tmp_path / "two" / file).read_bytes() == (tmp_path / "one" / file).read_bytes(), file


def test_a_dataset_is_read_back_with_its_texts_and_splits(clips, tmp_path):
    table = tmp_path / "c.csv"
    table.write_text("id,text,split\n" + "".join(f"clip{n},walk {n},{'val' if n else 'test'}\n" for n in range(5)))
    convert(opened(clips), tmp_path / "first", FeatureTarget(), table=read_caption_table(table))
    texts = tmp_path / "first/texts/clip1.txt"
    texts.write_text(texts.read_text() + "turns#turn/VERB#1.0#2.0\n")
    convert(opened(tmp_path / "first"), tmp_path / "second", FeatureTarget())
    for name in ("val.txt", "test.txt", "new_joint_vecs/clip3.npy", "texts/clip1.txt"):
        assert (tmp_path / "second" / name).read_bytes() == (tmp_path / "first" / name).read_bytes(), name


def test_a_mirror_image_must_not_be_called_like_another_clip(clips, tmp_path):
    write_bvh(clips / "Mclip0.bvh", 150)
    assert_refused(run("convert", clips, tmp_path / "out", "--mirror"), "Mclip0")


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["none.bvh"], "there is no none.bvh"),
        ([__file__], "is in no format that is read here"),
        (["clips", "--caption-column", "x"], "add --captions CSV"),
        (["clips", "--captions", "none.csv"], "none.csv does not exist"),
        (["clips", "--to", "tape"], "tape"),
    ],
    ids=["missing", "other", "column", "table", "format"],
)
def test_bad_input_makes_nothing(clips, tmp_path, words, said):
    words = [str(clips) if word == "clips" else word for word in words]
    assert_refused(run("convert", words[0], tmp_path / "out", *words[1:]), said)
    assert not (tmp_path / "out").exists()


def test_an_empty_folder(tmp_path):
    with pytest.raises(MotionkitError, match="there is no motion in"):
        opened(tmp_path)


def test_the_starter_is_a_legal_source(tmp_path, monkeypatch):
    monkeypatch.setenv("MOTIONKIT_CACHE", str(tmp_path / "cache"))
    result = run("convert", "starter", tmp_path / "out", "--clips", 8, "--json")
    assert result.exit_code == 0, result.stderr
    document = json.loads(result.stdout)
    assert document["splits"] == {"train": 8, "val": 1, "test": 2}
    assert document["uncaptioned"] == []
    dataset = humanml.build(HumanMLOptions(root=tmp_path / "out"))
    assert len(dataset.clips("train")) == 8
    check_dataset(dataset)


def test_a_held_rest_pose_is_left_out_of_datasets_only(tmp_path: Path):
    write_bvh(tmp_path / "plain.bvh", 150, rest=True)
    text = write_bvh(tmp_path / "held.bvh", 150, rest=True).read_text()
    lines = text.replace("Frames: 150", "Frames: 154").splitlines()
    first = next(place for place, line in enumerate(lines) if line.startswith("Frame Time")) + 1
    (tmp_path / "held.bvh").write_text("\n".join([*lines[:first], *[lines[first]] * 4, *lines[first:]]) + "\n")
    report = convert(open_sources([tmp_path / "held.bvh"]).sources, tmp_path / "out", FeatureTarget())
    assert report.warnings == ["held: its first 5 frames are a rest pose and were left out."]
    convert(open_sources([tmp_path / "plain.bvh"]).sources, tmp_path / "plain", FeatureTarget())
    held, plain = (np.load(tmp_path / f"{path}.npy") for path in ("out/new_joints/held", "plain/new_joints/plain"))
    np.testing.assert_allclose(held, plain, atol=1e-5)
    kept = convert(open_sources([tmp_path / "held.bvh"]).sources, tmp_path / "bvh", FileTarget("bvh"))
    assert kept.written == ["held"]
    assert read_bvh(tmp_path / "bvh/held.bvh")[0].motion.frames == 154


def test_a_clip_of_several_splits_is_never_trained_on_and_warned_of(tmp_path: Path) -> None:
    for number in range(4):
        write_bvh(tmp_path / "in" / f"c{number}.bvh", 150 + 6 * number) if number else (tmp_path / "in").mkdir()
    first = tmp_path / "first"
    convert(open_sources([tmp_path / "in"]).sources, first, FeatureTarget())
    (first / "train.txt").write_text("c1\nc2\nc3\n")
    (first / "val.txt").write_text("c2\n")
    (first / "test.txt").write_text("c3\nc3\nc2\n")
    sources = {source.key: source for source in open_sources([first]).sources}
    assert {key: source.splits for key, source in sources.items()} == {
        "c1": ("train",),
        "c2": ("train", "val", "test"),
        "c3": ("train", "test"),
    }
    report = convert(list(sources.values()), tmp_path / "second", FeatureTarget())
    assert report.splits == {"train": 1, "val": 0, "test": 2}
    said = "\n".join(report.warnings)
    assert "c2: its folder lists it in train, val, test; it counts as test." in said
    assert "c3: its folder lists it in train, test; it counts as test." in said
    assert "c1" not in said


@pytest.mark.parametrize(
    ("out", "to", "inputs", "target", "file"),
    [
        ("out", None, ["a.bvh"], FeatureTarget("humanml"), None),
        ("out", "kit", ["a.bvh"], FeatureTarget("kit"), None),
        ("out", "glb", ["a.bvh"], FileTarget("glb"), None),
        ("a.glb", None, ["a.bvh"], FileTarget("glb"), "glb"),
        ("a.npz", None, ["a.json", "b.JSON"], FileTarget("mpl"), "mpl"),
        ("a.npz", None, ["a.json", "b.bvh"], FileTarget("npz"), "npz"),
        ("a.npz", "mpl", ["a.bvh"], FileTarget("mpl"), "mpl"),
        ("v1.2", None, ["a.bvh"], FeatureTarget("humanml"), None),
    ],
)
def test_paths_say_what_to_make(out: str, to, inputs, target, file) -> None:
    request = plan_conversion(Path(out), inputs, to)
    assert (request.target, request.file) == (target, file)


@pytest.mark.parametrize(
    ("out", "to", "options", "word"),
    [
        ("a.glb", "bvh", OutputOptions(), "--to bvh"),
        ("a.usd", None, OutputOptions(), ".usd"),
        ("a.gbl", None, OutputOptions(), ".gbl"),
        ("a.mp3", None, OutputOptions(), ".mp3"),
        ("out", "kit", OutputOptions(fps=20.0), "--fps 20"),
        ("out", None, OutputOptions(min_frames=50), "--min-frames"),
        ("a.npz", None, OutputOptions(min_frames=50), "--min-frames"),
        ("out", "kit", OutputOptions(edits=Edits(yaw=3.0)), "--yaw"),
        ("out", "kit", OutputOptions(bvh_unit="m"), "--bvh-unit"),
        ("a.glb", None, OutputOptions(bvh_unit="m"), "--bvh-unit"),
    ],
)
def test_what_could_not_act_is_refused(out: str, to, options: OutputOptions, word: str) -> None:
    with pytest.raises(MotionkitError, match=word):
        plan_conversion(Path(out), ["a.bvh"], to, options)


def test_a_rest_pose_mixed_into_two_frames_is_left_out_at_the_rate_that_is_written(tmp_path: Path):
    """At 60 frames a second the first step is under twice the second; at 20 they are one, which stands out."""
    clip = read_bvh(write_bvh(tmp_path / "a.bvh", 150, fps=60.0, rest=True))[0]
    motion = clip.motion
    rotations = motion.rotations.clone()
    middle = roma.rotmat_slerp(motion.rotations[0], motion.rotations[1], torch.tensor(0.6, dtype=torch.float64))
    rotations[1] = middle
    mixed = replace(motion, rotations=rotations, translations=motion.translations[1:2].expand_as(motion.translations))
    assert not frames_at_rest(mixed.positions(), 60.0)
    assert frames_at_rest(mixed.resample(20.0).positions(), 20.0) == 1
    found, facts = check_clip(replace(clip, motion=mixed), "a", target=FeatureTarget())
    assert (found.motion.frames, facts.kept) == (147, (3, 150))
    assert facts.warnings == ("its first 3 frames are a rest pose and were left out.",)
