"""Ranges, and the run of frames that is left."""

from __future__ import annotations

import itertools

import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from motionkit.clips.check import check_motion
from motionkit.clips.faults import Finding, count, longest_clean_run, words
from motionkit.motion.motion import ranges

from ...made.persons import joints_of, person

_CLIP = person(160)
_PLACES = _CLIP.positions()


def slow_run(frames: int, findings: list[Finding]) -> tuple[int, int]:
    """Try every run, longest first."""
    errors = [finding for finding in findings if finding.severity == "error"]
    for length in range(frames, 0, -1):
        for start in range(frames - length + 1):
            stop = start + length
            clean = True
            for finding in errors:
                first = start + 1 if finding.kind == "jump" else start
                clean &= not any(max(a, first) < min(b, stop) for a, b in finding.frames)
            if clean:
                return start, stop
    return 0, 0


spans = st.lists(st.tuples(st.integers(0, 29), st.integers(1, 4)), max_size=4).map(
    lambda pairs: tuple((start, start + length) for start, length in pairs)
)
findings = st.lists(
    st.builds(
        Finding, st.sampled_from(["nan", "jump", "frozen"]), spans, st.just(""), st.sampled_from(["error", "warning"])
    ),
    max_size=4,
)


@given(st.integers(0, 30), findings)
def test_the_run_is_the_one_that_trying_all_finds(frames: int, faults: list[Finding]) -> None:
    expected = slow_run(frames, faults)
    assert longest_clean_run(frames, faults) == expected


@given(st.lists(st.booleans(), max_size=40))
def test_ranges_hold_exactly_the_marked_frames(marks: list[bool]) -> None:
    found = ranges(torch.tensor(marks, dtype=torch.bool))
    held = [frame for start, stop in found for frame in range(start, stop)]
    assert held == [frame for frame, marked in enumerate(marks) if marked]
    assert all(first[1] < second[0] for first, second in itertools.pairwise(found))
    assert count(found) == sum(marks)


def test_words_name_frames_as_people_count_them() -> None:
    assert words(((7, 8),)) == "frame 7"
    assert words(((7, 9), (12, 13))) == "frames 7-8, 12"
    assert words(tuple((n, n + 1) for n in range(0, 20, 2))) == "frames 0, 2, 4, 6, ..."


@settings(max_examples=25, deadline=None)
@given(
    st.lists(
        st.tuples(st.sampled_from(["nan", "teleport", "spike", "sink"]), st.integers(1, 158)), min_size=1, max_size=4
    )
)
def test_the_clean_run_of_a_spoilt_clip_holds_no_fault_and_no_longer_run_does(planted: list[tuple[str, int]]) -> None:
    joints = _PLACES.clone()
    bad, breaks = set(), set()
    for kind, frame in planted:
        if kind == "nan":
            joints[frame, 4] = torch.nan
            bad.add(frame)
        elif kind == "teleport":
            joints[frame:, :, 0] += 30.0 * len(breaks | bad) + 7.0
            breaks.add(frame)
        elif kind == "spike":
            joints[frame, 15, 2] += 40.0
            breaks |= {frame, frame + 1}
        else:
            joints[frame, :, 1] -= 5.0
            breaks |= {frame, frame + 1}
            bad.add(frame)
    result = check_motion(joints_of(_CLIP, joints))
    start, stop = longest_clean_run(160, result)
    assert not any(start <= frame < stop for frame in bad)
    assert not any(start < frame < stop for frame in breaks)
    again = check_motion(joints_of(_CLIP, joints).cut(start, stop), min_frames=1)
    assert [finding.detail for finding in again if finding.severity == "error"] == []
    edges = sorted({0, 160, *breaks, *bad, *(frame + 1 for frame in bad)})
    possible = [b - a for a, b in itertools.pairwise(edges) if not (b == a + 1 and a in bad)]
    assert stop - start == max(possible)
