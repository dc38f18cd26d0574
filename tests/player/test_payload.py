from __future__ import annotations

import base64
import json
from dataclasses import replace

import numpy as np
import pytest
import torch

from motionkit.errors import MotionkitError
from motionkit.motion import HUMANML, JointMotion
from motionkit.player import PlayerTrack, track_of
from motionkit.player import _page as payload
from motionkit.rigs import find_feet, soft_contacts

from .figures import track, walking


def decode(text: str, rows: int, columns: int) -> np.ndarray:
    """The format's definition, number by number."""
    stream = iter(base64.b64decode(text))
    values = np.zeros((rows, columns), dtype=np.int64)
    for row in range(rows):
        for column in range(columns):
            number = shift = 0
            while True:
                byte = next(stream)
                number |= (byte & 127) << shift
                shift += 7
                if byte < 128:
                    break
            second = -(number + 1) // 2 if number & 1 else number // 2
            before = values[row - 1, column] if row > 0 else 0
            speed = before - (values[row - 2, column] if row > 1 else 0)
            values[row, column] = before + speed + second
    assert next(stream, None) is None
    return values


def test_numbers_come_back_exactly() -> None:
    rng = np.random.default_rng(0)
    largest = int(payload.STEP**-1 * 10_000)
    for values in (
        rng.integers(-largest, largest + 1, (7, 5)),
        np.array([[largest], [-largest], [largest], [-largest]]),
        rng.integers(-200, 200, (50, 6)).cumsum(0),
        np.zeros((3, 2), dtype=np.int64),
    ):
        assert np.array_equal(decode(payload.encode(values), *values.shape), values)


def test_positions_come_back_within_half_a_tenth_of_a_millimetre() -> None:
    shown = track()
    part = payload.document([shown], title="x")["tracks"][0]
    decoded = decode(part["positions"], 40, 66).reshape(40, 22, 3) * payload.STEP
    assert np.abs(decoded - shown.positions.numpy()).max() <= 0.5001e-4
    assert part["sides"].count("L") == part["sides"].count("R") == 7
    assert (part["frames"], part["fps"], part["duration"], part["gaps"]) == (40, 20.0, 2.0, [])


def test_ten_clips_of_ten_seconds_are_small() -> None:
    torch.manual_seed(0)
    rough = [
        PlayerTrack(f"clip {k}", walking(200) + 0.001 * torch.randn(200, 22, 3), HUMANML.parents, 20.0)
        for k in range(10)
    ]
    assert len(json.dumps(payload.document(rough, title="ten"))) < 450_000


def test_gaps_are_said_and_marked() -> None:
    positions = walking()
    positions[5] = float("nan")
    positions[20:30] = float("nan")
    document = payload.document([PlayerTrack("hole", positions, HUMANML.parents, 20.0)], title="")
    assert document["tracks"][0]["gaps"] == [[5, 6], [20, 30]]
    assert document["notes"] == ["Frames 5, 20-29 have no finite positions; the figure disappears there."]


def test_a_thousand_tracks_are_cut_and_it_is_said() -> None:
    document = payload.document([track(f"t{k}", frames=2) for k in range(1000)], title="")
    assert len(document["tracks"]) == payload.MAX_TRACKS
    assert document["notes"] == [f"The first {payload.MAX_TRACKS} of 1000 motions are shown; a page holds no more."]


def test_long_clips_are_thinned_out_and_it_is_said(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(payload, "MAX_VALUES", 66 * 100)
    document = payload.document([track("long", frames=240, fps=60.0), track("short", frames=10)], title="")
    long, short = document["tracks"]
    assert (long["stride"], long["frames"], long["fps"], long["fileFps"], long["duration"]) == (3, 80, 20.0, 60.0, 4.0)
    assert (short["stride"], short["frames"]) == (1, 10)
    assert document["notes"] == ["long: Every 3rd frame is shown, 20 of 60 per second."]
    kept = walking(240, 60.0)[::3].numpy()
    assert np.abs(decode(long["positions"], 80, 66).reshape(80, 22, 3) * payload.STEP - kept).max() <= 0.5001e-4


def test_what_no_thinning_makes_fit_is_cut_and_it_is_said(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(payload, "MAX_VALUES", 66 * 20)
    document = payload.document([track("a", frames=100), track("b", frames=100)], title="")
    assert [part["title"] for part in document["tracks"]] == ["a"]
    assert document["tracks"][0]["frames"] == 20
    assert document["tracks"][0]["duration"] == 2.0
    assert [note.split(" ")[0:3] for note in document["notes"]] == [
        ["The", "first", "1"], ["Every", "2nd", "frame"], ["The", "first", "2"],
    ]  # fmt: skip


def test_nothing_to_show_is_an_error() -> None:
    with pytest.raises(MotionkitError, match="no motion"):
        payload.document([], title="x")


def test_contacts_are_measured_and_a_tracks_own_are_kept_where_its_feet_are_unknown() -> None:
    said = torch.tensor([[0.0, 1.0]]).repeat(40, 1)
    motion = JointMotion(HUMANML.joint_names, HUMANML.parents, walking(), 20.0, {"contacts": said})
    feet = find_feet(motion.names, motion.parents)
    assert feet is not None
    part = payload.document([track_of(motion, "known")], title="")["tracks"][0]
    measured = np.frombuffer(base64.b64decode(part["contacts"]), np.uint8).reshape(40, 2) / 255
    assert np.abs(measured - soft_contacts(walking(), 20.0, feet).numpy()).max() <= 0.51 / 255
    assert [list(foot) for foot in part["feet"]] == [[7, 10], [8, 11]]
    unknown = replace(motion, names=tuple(f"joint{i}" for i in range(22)))
    part = payload.document([track_of(unknown, "unknown")], title="")["tracks"][0]
    assert part["feet"] is None
    assert list(base64.b64decode(part["contacts"])[:4]) == [0, 255, 0, 255]
