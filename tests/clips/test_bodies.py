"""Unit and vertical axis are decided once for all BVH files of a skeleton."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
import torch

from motionkit.clips.convert import FileTarget, convert, open_sources
from motionkit.errors import MotionkitError
from motionkit.formats.bvh import read_bvh, read_bvh_pose
from motionkit.motion import ReadOptions

from ..made.bvh_files import Dialect, write_dialect
from ..made.commands import run

BORDER = 0.82 / 0.0254 / (0.0254 / 0.45 / 0.0254) ** 0.5
"""Length of a leg in units at which inches and ASF units are equally likely."""


def files(folder: Path, **sizes: float) -> Path:
    """Write persons whose legs have these lengths in units of the file."""
    write_dialect(folder / "probe.bvh", Dialect(metres=1.0), seconds=0.1)
    leg = leg_of(folder / "probe.bvh")
    (folder / "probe.bvh").unlink()
    for name, size in sizes.items():
        write_dialect(folder / f"{name}.bvh", Dialect(metres=leg / size), seconds=0.1)
    return folder


def leg_of(path: Path) -> float:
    from motionkit.rigs.detect import motion_leg

    return motion_leg(read_bvh_pose(path))


def units(sources) -> dict[str, str]:
    return {source.key: source.options.unit for source in sources}


def test_one_unit_for_all_files_of_a_skeleton(tmp_path):
    folder = files(tmp_path, a=1.05 * BORDER, b=1.03 * BORDER, c=0.97 * BORDER)
    alone = {path.stem: read_bvh(path)[0].notes["unit"] for path in sorted(folder.iterdir())}
    assert alone == {"a": "inches", "b": "inches", "c": "ASF units"}, "each by itself, the old way"
    opened = open_sources([folder])
    assert units(opened.sources) == dict.fromkeys("abc", "in")
    (body,) = opened.bodies
    assert (body.files, body.unit, body.up) == (3, "in", "y")
    assert {source.load()[0].notes["unit"] for source in opened.sources} == {"inches"}
    assert not body.plausible
    assert body.sentence.startswith("read as inches, Y up: bodies are 1.0")
    assert " m tall (adults: 1.40 to 2.05 m). Choose with --units: asf 2.42 to 2.62 m, dm 4." in body.sentence


def test_a_file_alone_is_read_as_its_folder_is(tmp_path):
    folder = files(tmp_path, a=1.05 * BORDER, b=1.03 * BORDER, c=0.97 * BORDER)
    files(tmp_path, other=82.0)  # the same skeleton in centimetres has no say
    (folder / "broken.bvh").write_text("HIERARCHY")
    opened = open_sources([folder / "c.bvh"])
    assert units(opened.sources) == {"c": "in"}
    (body,) = opened.bodies
    assert (body.files, body.beside) == (1, 2)
    assert body.sentence.startswith("read as inches, Y up, as the 2 files of this skeleton beside: bodies are 1.09 m")
    done = run("convert", folder / "c.bvh", tmp_path / "c.glb")
    assert "Choose with --units: asf 2.42 m, dm " in " ".join(done.stderr.split())
    typed = open_sources([folder / "c.bvh"], ReadOptions(unit="asf")).bodies[0]
    assert typed.unit == "asf"
    assert "in 1.09 m" in typed.sentence
    alone = open_sources([files(tmp_path / "adult", a=82.0, child=48.0) / "a.bvh"]).bodies[0]
    assert alone.beside == 0, "an adult's unit is not in doubt"


def test_the_vote_does_not_depend_on_the_order(tmp_path):
    folder = files(tmp_path, a=1.05 * BORDER, b=0.95 * BORDER, c=0.97 * BORDER, d=1.02 * BORDER)
    paths = sorted(folder.iterdir())
    one, other = open_sources(paths), open_sources(paths[::-1])
    assert units(one.sources) == units(other.sources)
    assert one.bodies == other.bodies


def test_files_in_centimetres_and_inches_of_one_rig_keep_their_own(tmp_path):
    folder = files(tmp_path, a=82.0, b=85.0, c=82.0 / 2.54)
    assert units(open_sources([folder]).sources) == {"a": "cm", "b": "cm", "c": "in"}


def test_a_child_beside_adults_is_in_their_unit(tmp_path):
    folder = files(tmp_path, a=82.0, b=85.0, child=48.0)
    assert read_bvh(folder / "child.bvh")[0].notes["unit"] == "inches", "by itself"
    assert units(open_sources([folder]).sources) == dict.fromkeys(("a", "b", "child"), "cm")


def test_a_given_unit_wins(tmp_path):
    opened = open_sources([files(tmp_path, a=82.0, b=83.0)], ReadOptions(unit="m"))
    assert units(opened.sources) == {"a": "m", "b": "m"}
    assert "read as metres (--units), Y up: bodies are 1" in opened.bodies[0].sentence


@pytest.mark.parametrize("moving", [False, True])
def test_the_axis_is_found_for_all(tmp_path, moving):
    for name in "ab":
        write_dialect(tmp_path / f"{name}.bvh", Dialect(up="z", moving=moving), seconds=0.2)
    opened = open_sources([tmp_path])
    assert {source.options.up for source in opened.sources} == {"z"}
    assert "Z up" in opened.bodies[0].sentence


def test_the_pose_is_the_first_frame(tmp_path):
    path = write_dialect(tmp_path / "a.bvh", Dialect(orders=("XYZ", "ZYX"), moving=True), seconds=0.3)
    (clip,) = read_bvh(path, ReadOptions(up="y", unit="m"))
    pose = read_bvh_pose(path)
    torch.testing.assert_close(pose.positions(), clip.motion.positions()[:1])


def test_a_first_frame_with_a_gap_leaves_the_rest_pose(tmp_path):
    path = files(tmp_path, a=82.0) / "a.bvh"
    head, _, rows = path.read_text().partition("Frame Time: 0.016667\n")
    path.write_text(f"{head}Frame Time: 0.016667\nnan {rows.partition(' ')[2]}")
    assert leg_of(path) == pytest.approx(82.0)


def test_what_cannot_be_read_has_no_vote(tmp_path):
    files(tmp_path, a=82.0)
    (tmp_path / "broken.bvh").write_text((tmp_path / "a.bvh").read_text()[:900])
    opened = open_sources([tmp_path])
    assert units(opened.sources) == {"a": "cm", "broken": "auto"}
    with pytest.raises(MotionkitError, match="line 38"):
        next(source for source in opened.sources if source.key == "broken").load()


def test_a_conversion_goes_on_with_the_same_unit(tmp_path):
    """Files that are now read in another unit are converted again, the others are not."""
    folder = files(tmp_path / "in", a=1.05 * BORDER, b=0.97 * BORDER)

    def stop(key: str) -> None:
        raise KeyboardInterrupt

    target, out = FileTarget("npz"), tmp_path / "out"
    with pytest.raises(KeyboardInterrupt):
        convert(open_sources([folder]).sources, out, target, progress=stop)
    assert convert(open_sources([folder]).sources, out, target).resumed == 1
    with pytest.raises(KeyboardInterrupt):
        convert(open_sources([folder]).sources, tmp_path / "again", target, progress=stop)
    given = open_sources([folder], ReadOptions(unit="cm")).sources
    report = convert(given, tmp_path / "again", target)
    assert report.resumed == 0
    assert {clip["unit"] for clip in report.clips} == {"centimetres"}


@pytest.mark.parametrize("words", [("convert", "--check"), ("convert",), ("profile",)])
def test_every_command_says_it_once(tmp_path, words):
    folder = files(tmp_path / "in", a=82.0, b=83.0)
    out = (tmp_path / "out",) if words == ("convert",) else ()
    command = [*words[:1], folder, *out, "--jobs", 1, *words[1:]]
    if out:
        command += ["--to", "npz"]
    result = run(*command)
    assert result.stderr.count("read as centimetres, Y up: bodies are 1.") == 1
    for path in tmp_path.glob("out/*"):
        path.unlink()
    for path in tmp_path.glob("out"):
        path.rmdir()
    (body,) = json.loads(run(*command, "--json").stdout)["bodies"]
    assert (body["unit"], body["up"], body["files"], body["given"]) == ("cm", "y", 2, False)
    assert 1.4 < body["height_m"][0] <= body["height_m"][1] < 1.8


def test_check_finds_a_small_body_and_a_long_end_site(tmp_path):
    folder = files(tmp_path, a=82.0)
    path = folder / "a.bvh"
    text = path.read_text()
    hand = text.index("End Site", text.index("RightHand"))
    start = text.index("OFFSET", hand)
    path.write_text(f"{text[:start]}OFFSET 162 0 0{text[text.index(chr(10), start) :]}")
    found = json.loads(run("convert", "--check", path, "--json").stdout)["clips"][0]["findings"]
    (sides,) = (finding for finding in found if finding["kind"] == "sides")
    assert sides["severity"] == "warning"
    assert "RightHand End 162.0 cm: left and right of a body are alike" in sides["detail"]
    assert not [finding for finding in found if finding["kind"] == "scale"]
    small = json.loads(run("convert", "--check", path, "--json", "--units", "in").stdout)["clips"][0]["findings"]
    assert [finding["severity"] for finding in small if finding["kind"] == "scale"] == ["error"]
    child = files(tmp_path / "child", a=60.0) / "a.bvh"
    found = json.loads(run("convert", "--check", child, "--json", "--units", "cm").stdout)["clips"][0]["findings"]
    (scale,) = (finding for finding in found if finding["kind"] == "scale")
    assert (scale["severity"], "a child, or --units is needed" in scale["detail"]) == ("warning", True)


def test_files_of_one_rig_with_other_axes_keep_their_own(tmp_path):
    for name, up in (("a", "y"), ("b", "z"), ("c", "y")):
        write_dialect(tmp_path / f"{name}.bvh", Dialect(up=up), seconds=0.2)
    opened = open_sources([tmp_path])
    assert [(body.files, body.up) for body in opened.bodies] == [(2, "y"), (1, "z")]
    assert [source.load()[0].notes["up"] for source in opened.sources] == ["y", "z", "y"]
