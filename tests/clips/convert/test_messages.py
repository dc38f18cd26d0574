"""What a conversion says: everything once, numbers as numbers, cut lists marked as cut."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import numpy as np
from typer.testing import Result

from motionkit.clips.convert import ConvertReport, finding_text, fit_text, messages

from ...made.bodies import walker
from ...made.bvh_files import write_bvh

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
        return fit_text(ConvertReport(figures={"residual_mean": mean, "residual_max": most, "flips": flips}), **how)

    assert said(0.0077, 0.038) == ""
    assert said(0.0077, 0.038, always=True) == "skeleton fit: 8 mm mean, 38 mm max"
    assert said(0.0012, 0.0345, 2.0) == "skeleton fit: 1 mm mean, 34 mm max, 2 flips"
    assert said(0.02, 0.03) == "skeleton fit: 20 mm mean, 30 mm max"
    assert said(0.01, 0.07).endswith("70 mm max")
    assert fit_text(ConvertReport(), always=True) == ""


def test_one_clip_gets_one_line_and_a_bad_one_is_told_of_once(cli: Cli) -> None:
    np.save("a.npy", walker(60).float().numpy())
    result = cli("convert", "a.npy", "a.bvh")
    assert result.exit_code == 0, result.stderr
    assert result.stdout.startswith("wrote a.bvh: 60 frames, skeleton fit: ")
    assert result.stdout.count("\n") == 1
    Path("in").mkdir()
    write_bvh(Path("in/good.bvh"), 60)
    write_bvh(Path("in/fine.bvh"), 60)
    Path("in/cut.bvh").write_text(Path("in/good.bvh").read_text()[:-400])
    result = cli("convert", "in", "out", "--to", "npz")
    assert result.exit_code == 1
    assert result.stderr.count("cut.bvh") == 1


def test_a_record_has_numbers_of_what_was_written(cli: Cli) -> None:
    write_bvh(Path("a.bvh"), 150, fps=60.0)
    assert cli("convert", "a.bvh", "out").exit_code == 0
    entry = json.loads(Path("out/convert.json").read_text())["clips"]["a"]
    assert (entry["frames"], entry["source_frames"], entry["source_fps"], entry["joints"]) == (49, 150, 60, 22)
    document = json.loads(cli("convert", "--check", "a.bvh", "--json").stdout)
    assert (document["clips"][0]["frames"], document["clips"][0]["joints"]) == (150, 22)


def test_findings_are_a_block_for_each_clip() -> None:
    jump = {"kind": "jump", "severity": "error", "frames": [[7, 8]], "detail": "Hips moves."}
    mild = {**jump, "severity": "warning"}
    clips = [
        {
            "clip": "a",
            "frames": 60,
            "fps": 119.88,
            "format": "BVH",
            "findings": [jump, mild],
        },
        {"clip": "b", "frames": 60, "fps": 30.0, "findings": []},
        {"clip": "c", "frames": 9, "fps": 20.0, "findings": [jump]},
    ]
    assert finding_text(ConvertReport(clips=clips)).split("\n") == [
        "a: 60 frames, 119.88 fps, BVH",
        "  error, jump: Hips moves.",
        "  warning, jump: Hips moves.",
        "c: 9 frames, 20 fps",
        "  error, jump: Hips moves.",
        "nothing found in 1 of 3 clip(s): b",
    ]
    assert finding_text(ConvertReport()) == ""
