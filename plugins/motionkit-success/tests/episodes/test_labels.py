"""A person's labels take the place of the data's; what does not fit the data is said with its line."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from motionkit.errors import MotionkitError
from motionkit_success.episodes import Collector, Episodes, label_episodes, open_episodes

OWN = ("00110", "00000", "00001")


def write(folder: Path, labels: tuple[str, ...] = OWN, seed: int = 0) -> Episodes:
    rng = np.random.default_rng(seed)
    with Collector(folder, cameras={"front": (4, 4)}) as collector:
        for own in labels:
            for step, label in enumerate(own):
                picture = rng.integers(0, 256, (4, 4, 3), np.uint8)
                collector.add({"front": picture}, label == "1", step == len(own) - 1)
    return open_episodes(folder)


def labelled(tmp_path: Path, text: str) -> Episodes:
    path = tmp_path / "labels.csv"
    path.write_text(text)
    return label_episodes(write(tmp_path / "data"), path)


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("episode,label\n0,0\n1,1\n2,1\n", ["00000", "00001", "00001"]),
        ("episode,label\n00-000000,1\n1,false\n2,success\n", ["00110", "00000", "00001"]),
        ("label,frame,episode,who\n1,2,1,me\n0,4,1,me\n1,0,0,me\n0,,2,me\n", ["11111", "00110", "00000"]),
        ("episode,label,frame\n0,0,3\n0,1,1\n1,0,\n2,1,4\n", ["01100", "00000", "00001"]),
    ],
)
def test_labels_are_those_of_the_file(tmp_path: Path, text: str, expected: list[str]) -> None:
    found = labelled(tmp_path, text)
    assert [record.labels for record in found.records] == expected
    assert found.labels.tolist() == [float(letter) for letter in "".join(expected)]
    assert [record.positive for record in found.records] == ["1" in own for own in expected]
    assert "labels.csv" in found.label_rule
    assert found.fingerprint != write(tmp_path / "again").fingerprint or expected == list(OWN)


def test_episodes_without_a_row_are_left_out_and_said(tmp_path: Path) -> None:
    found = labelled(tmp_path, "episode,label\n2,0\n0,1\n")
    assert [record.id for record in found.records] == ["00-000000", "00-000002"]
    (note,) = found.notes
    assert "of 2 of 3 episodes" in note
    assert "00-000001" in note
    kept = open_episodes(tmp_path / "data")
    assert np.array_equal(found.read(np.arange(10))["front"], kept.read(np.r_[0:5, 10:15])["front"])


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("episode,label\n7,1\n", "line 2 .* episode '7', which the data have not"),
        ("episode,label\n00-000003,1\n", "line 2 .* which the data have not"),
        ("episode,label\n0,1\n1,0\n0,1\n", "lines 2 and 4 .* 00-000000 twice"),
        ("episode,label,frame\n0,1,2\n00-000000,0,2\n", "lines 2 and 3 .* twice"),
        ("episode,label,frame\n0,1,2\n0,0,\n", "lines 3 and 2 .* with a frame and without"),
        ("episode,label\n0,2\n", "label '2'"),
        ("episode,label\n0,\n", "label ''"),
        ("episode,label,frame\n0,1,5\n", "frame '5' of episode 00-000000"),
        ("episode,label,frame\n0,1,-1\n", "frame '-1'"),
        ("episode,label,frame\n0,1,1.5\n", "frame '1.5'"),
        ("episode,success\n0,1\n", "has no column label"),
        ("episode,label,frames\n0,1,2\n", "column frames, and none that is called frame"),
        ("episode,label\n", "has no row"),
        ("", "has no column episode"),
        ("episode,label\n0,1,2\n", "line 2 has 3 cells for 2 columns"),
        ("episode,label\n\n0,1\n1\n", "line 4 has no 'label'"),
        ("episode,label,label\n0,1,0\n", "two columns called 'label'"),
    ],
)
def test_what_does_not_fit_is_said_with_its_line(tmp_path: Path, text: str, said: str) -> None:
    with pytest.raises(MotionkitError, match=said):
        labelled(tmp_path, text)


def test_labels_of_a_spreadsheet_are_read_and_said(tmp_path: Path) -> None:
    path = tmp_path / "labels.csv"
    path.write_text("episode;label\n0;1\n1;0\n2;0\n", encoding="utf-16")
    found = label_episodes(write(tmp_path / "data"), path)
    assert [record.positive for record in found.records] == [True, False, False]
    assert "it is UTF-16, a semicolon separates its columns" in found.notes[-1]


def test_a_name_of_two_folders_is_refused(tmp_path: Path) -> None:
    write(tmp_path / "a")
    write(tmp_path / "b", seed=1)
    path = tmp_path / "labels.csv"
    path.write_text("episode,label\n0,1\n")
    with pytest.raises(MotionkitError, match="several have that name"):
        label_episodes(open_episodes(tmp_path / "a", tmp_path / "b"), path)
