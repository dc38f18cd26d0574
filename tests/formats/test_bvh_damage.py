"""BVH files that are cut, garbled or made to harm: each is refused with its place named."""

from __future__ import annotations

import pytest
import torch
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from typer.testing import CliRunner

from motionkit.cli import get_app
from motionkit.clips.check import check_motion
from motionkit.errors import MotionkitError
from motionkit.formats.bvh import read_bvh
from motionkit.motion import ReadOptions

from ..made.bvh_files import write_bvh, write_odd


def nested(depth: int) -> str:
    opening = "".join(f"JOINT j{k}\n{{\nOFFSET 0 1 0\n" for k in range(depth))
    return "HIERARCHY\nROOT r\n{\n" + opening + "}\n" * (depth + 1) + "MOTION\nFrames: 1\nFrame Time: 1\n"


SCRAPS = [
    "", " ", "\n", "\r", "\0", "{", "}", "JOINT ", "End Site", "OFFSET", "CHANNELS", "MOTION", "Frames:", "-1", "1e400",
    "1e-320", "nan", ",", "#", "9" * 400, "0x1", "Zrotation", "\u0663", "\u2028", "1 1 1",
]  # fmt: skip

DAMAGE = {
    "empty": (lambda t: "", "not a BVH file"),
    "header": (lambda t: t.replace("HIERARCHY", ""), "not a BVH file"),
    "binary": (lambda t: "\x7fELF\0\0" + t, "not a BVH file"),
    "motion": (lambda t: t[: t.index("MOTION")], "line 34: the file ends before its MOTION"),
    "hierarchy": (lambda t: t[: t.index("Hinge")], "no { after JOINT"),
    "no-time": (lambda t: t[: t.index("Frame Time")], "does not begin with 'Frames: ...' and 'Frame Time: ...'"),
    "fewer": (lambda t: t.replace("Frames: 3", "Frames: 4"), r"= 64, found 48 \(3 frames\)"),
    "more, not in rows": (
        lambda t: t.replace("Frames: 3", "Frames: 2").replace(" 0 0 0 0", "\n0 0 0 0"),
        r"= 32, found 48 \(3 frames\)",
    ),
    "a row and a half": (
        lambda t: t.replace("Frames: 3", "Frames: 2")[: t.rindex(" 0 0 0 0")], r"found 44 \(frame 3 is incomplete\)"
    ),
    "many": (lambda t: t.replace("Frames: 3", "Frames: 3000"), "expected 3000 frames"),
    "negative": (lambda t: t.replace("Frames: 3", "Frames: -3"), "'Frames: -3' is not a number of frames"),
    "long": (lambda t: t.replace("Frames: 3", "Frames: " + "9" * 5000), "is not a number of frames"),
    "cut": (lambda t: t[: t.rindex(" 0 0 0 0")], r"found 44 \(frame 3 is incomplete\)"),
    "no-values": (lambda t: t[: t.index("10 1 20")] + " \n" * 100, r"= 48, found 0 \(0 frames\)"),
    "no-seconds": (lambda t: t.replace("0.0083333", "0"), "'Frame Time: 0' is not a number of seconds"),
    **{
        f"{seconds} seconds": (lambda t, s=seconds: t.replace("0.0083333", s), "is not a number of seconds per frame")
        for seconds in ("1e-320", "1e300", "-0.01", "inf", "1e-5", "11")
    },
    "nan-seconds": (lambda t: t.replace("0.0083333", "nan"), "'Frame Time: nan' is not a number"),
    "nan": (
        lambda t: t.replace("10 1 20", "nan 1 20").replace("-170", "nan").replace("\n0 0", "\ninf 0"),
        "every frame has a value that is not finite.*at My Hips Zrotation",
    ),
    "word": (lambda t: t.replace("-170", "abc"), "'abc' is not a number, in frame 1, at My Hips Zrotation"),
    "ind": (lambda t: t.replace("0.5 0.6 77", "0.5 -1.#IND 77"), "'-1.#IND' is not a number, in frame 1, at Slider Z"),
    "underscore": (lambda t: t.replace("1.5 95", "1_5 95"), "'1_5' is not a number, in frame 1"),
    "channel": (lambda t: t.replace("Zrotation Xpos", "Wrotation Xpos"), "line 5: My Hips has an unknown channel"),
    "many-channels": (lambda t: t.replace("CHANNELS 1 X", "CHANNELS 1000000 X"), "Hinge has '1000000' CHANNELS"),
    "channels": (lambda t: t.replace("CHANNELS 1 X", "CHANNELS one X"), "Hinge has 'one' CHANNELS"),
    "short-channels": (lambda t: t.replace("CHANNELS 1 X", "CHANNELS 2 X"), "unknown channel 'JOINT'"),
    "twice": (lambda t: t.replace("Zrotation Xposition", "Zrotation Yposition"), "Yposition twice"),
    "four-turns": (lambda t: t.replace("6 Xposition Yp", "6 Xrotation Yp"), "more than three"),
    "offset-cut": (lambda t: t.replace("OFFSET 0 3 4", "OFFSET 0 3"), "OFFSET of Slider End has '}' for a number"),
    "offset-nan": (lambda t: t.replace("OFFSET 0 3 4", "OFFSET 0 nan 4"), "OFFSET of Slider End has 'nan'"),
    "keyword": (lambda t: t.replace("OFFSET 0 3 4", "OFSET 0 3 4"), "'OFSET' is not expected"),
    "brace": (lambda t: t.replace("}\nMOTION", "MOTION"), "joint My Hips is closed: a } is missing"),
    "extra-brace": (lambda t: t.replace("}\nMOTION", "}\n}\nMOTION"), "a } too many"),
    "two-roots": (lambda t: t.replace("}\nMOTION", "}\nROOT Two\n{\n}\nMOTION"), "a second ROOT"),
    "root-inside": (lambda t: t.replace("JOINT Hinge", "ROOT Hinge"), "a ROOT is inside a joint"),
    "joint-outside": (lambda t: t.replace("ROOT My", "JOINT My"), "a JOINT is outside of the ROOT"),
    "cycle": (lambda t: t.replace("JOINT Slider", "JOINT Spine"), "joint Spine is inside itself"),
    "no-brace": (lambda t: t.replace("JOINT Hinge\n    {", "JOINT Hinge\n    "), "no { after JOINT Hinge"),
    "deep": (lambda t: nested(100_000), "nested deeper than 200"),
    "wide": (lambda t: "HIERARCHY\nROOT r\n{\n" + "JOINT j\n{\n}\n" * 2000 + "}\nMOTION\n", "more than 1000 joints"),
    "still": (lambda t: nested(3), "there is no motion in it"),
}  # fmt: skip


@pytest.mark.parametrize(("change", "words"), DAMAGE.values(), ids=DAMAGE.keys())
def test_damaged_files_are_named(tmp_path, change, words):
    path = write_odd(tmp_path / "bad.bvh")
    path.write_text(change(path.read_text()))
    with pytest.raises(MotionkitError, match=words) as caught:
        read_bvh(path)
    assert "bad.bvh: " in caught.value.message
    assert caught.value.fix or caught.value.why


@pytest.mark.parametrize("stated", [1, 2])
def test_whole_rows_more_than_stated_are_read(tmp_path, stated):
    path = write_odd(tmp_path / "a.bvh")
    (sound,) = read_bvh(path)
    path.write_text(path.read_text().replace("Frames: 3", f"Frames: {stated}"))
    (clip,) = read_bvh(path)
    assert torch.equal(clip.motion.positions(), sound.motion.positions())
    (said,) = set(clip.warnings) - set(sound.warnings)
    assert said == f"Frames says {stated}, 3 rows are there; all of them were read."
    # The warning is of that file alone, not of the next one with the same skeleton.
    assert read_bvh(write_odd(tmp_path / "c.bvh"))[0].warnings == sound.warnings
    result = CliRunner().invoke(get_app(), ["convert", str(path), str(tmp_path / "b.npz")])
    assert result.exit_code == 0, result.output
    assert "3 rows are there" in result.output


def test_what_is_said_of_too_many_and_too_few_values(tmp_path):
    path = write_odd(tmp_path / "a.bvh")
    text = path.read_text()
    for stated, cut in (("Frames: 4", True), ("Frames: 2", False)):
        path.write_text(text.replace("Frames: 3", stated)[: text.rindex(" 0 0 0 0")])
        with pytest.raises(MotionkitError) as caught:
            read_bvh(path)
        assert ("cut short" in caught.value.fix) == cut, "a file with more than it promises is not cut short"


@pytest.mark.parametrize(
    ("old", "new"),
    [("OFFSET 1.0 2.0", "OFFSET 1,0 2.0"), ("0.0083333", "0,0083333"), ("0.1 0.2", "0,1 0.2")],
    ids=["offset", "time", "value"],
)
def test_decimal_commas_are_refused(tmp_path, old, new):
    path = write_odd(tmp_path / "bad.bvh")
    path.write_text(path.read_text().replace(old, new))
    with pytest.raises(MotionkitError, match="bad") as caught:
        read_bvh(path)
    assert "decimal comma" in caught.value.why
    assert "decimal points" in caught.value.fix


@pytest.mark.parametrize(
    ("old", "new", "joint", "moved"),
    [
        ("-170", "nan", "My Hips", False),
        ("-170", "1e999", "My Hips", False),
        ("77 -22", "77 -inf", "Slider", False),
        ("0.4 0.5 0.6", "0.4 NaN 0.6", "Slider", True),
        ("-170 1.5", "-170 -nan", "My Hips", True),
    ],
)
def test_a_value_that_is_not_finite_spoils_its_joint_in_its_frame(tmp_path, old, new, joint, moved):
    options = ReadOptions(unit="cm", up="y")
    (whole,) = read_bvh(write_odd(tmp_path / "good.bvh"), options)
    path = write_odd(tmp_path / "bad.bvh")
    path.write_text(path.read_text().replace(old, new))
    (clip,) = read_bvh(path, options)
    assert clip.warnings[0] == "values are not finite in 1 of 3 frames."
    place = clip.motion.names.index(joint)
    spoilt = clip.motion.translations if moved else clip.motion.rotations
    assert spoilt[1, place].isnan().any()
    others = [other for other in range(len(clip.motion.names)) if other != place]
    for name in ("rotations", "translations"):
        ours, theirs = getattr(clip.motion, name), getattr(whole.motion, name)
        torch.testing.assert_close(ours[[0, 2]], theirs[[0, 2]])
        torch.testing.assert_close(ours[1, others], theirs[1, others])
    (finding,) = [finding for finding in check_motion(clip.motion) if finding.kind == "nan"]
    assert finding.frames == ((1, 2),)


def test_unit_and_axis_are_guessed_from_sound_frames(tmp_path):
    """The first frame is what they are guessed from, and here it has no finite leg."""
    path = write_bvh(tmp_path / "a.bvh", 20)
    lines = path.read_text().splitlines()
    start = lines.index("MOTION") + 3
    lines[start] = " ".join(["nan"] * len(lines[start].split()))
    path.write_text("\n".join(lines))
    (clip,) = read_bvh(path)
    assert (clip.notes["unit"], clip.notes["up"]) == ("centimetres", "y")
    assert clip.warnings == ("values are not finite in 1 of 20 frames.",)


@settings(max_examples=150, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(
    changes=st.lists(
        st.tuples(st.integers(0, 1500), st.integers(0, 20), st.sampled_from(SCRAPS)), min_size=1, max_size=3
    )
)
def test_whatever_is_changed_it_reads_or_is_refused(tmp_path, changes):
    path = write_odd(tmp_path / "a.bvh")
    text = path.read_text()
    for place, length, scrap in changes:
        text = text[:place] + scrap + text[place + length :]
    path.write_text(text)
    try:
        (clip,) = read_bvh(path)
    except MotionkitError:
        return
    lost = any("not finite" in warning for warning in clip.warnings)
    assert bool(torch.isfinite(clip.motion.positions()).all()) or lost
    assert len(set(clip.motion.names)) == len(clip.motion.names)


def test_huge_files_are_refused_unread(tmp_path):
    with (tmp_path / "huge.bvh").open("wb") as file:
        file.truncate(2**30)
    with pytest.raises(MotionkitError, match="too large"):
        read_bvh(tmp_path / "huge.bvh")


@pytest.mark.parametrize(("field", "value"), [("unit", "furlong"), ("up", "w")])
def test_unknown_options(tmp_path, field, value):
    with pytest.raises(MotionkitError, match=value) as caught:
        read_bvh(write_odd(tmp_path / "a.bvh"), ReadOptions(**{field: value}))
    assert "known: auto" in caught.value.fix


def test_a_file_cut_anywhere_is_never_taken_for_a_whole_one(tmp_path):
    path = write_odd(tmp_path / "cut.bvh")
    text = path.read_text().rstrip()
    for cut in range(0, len(text) - 1, 5):
        path.write_text(text[:cut])
        with pytest.raises(MotionkitError):
            read_bvh(path)
