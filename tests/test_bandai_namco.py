"""The script of example 03 that makes a table of captions from the names of the Bandai-Namco dataset's files."""

from __future__ import annotations

import csv
import itertools
import subprocess
import sys
from pathlib import Path

import pytest

from motionkit.motion import read_caption_table

SCRIPT = Path(__file__).parents[1] / "examples/03-text-to-motion-grpo/bandai_namco.py"
SECOND = (
    "raise-up-both-hands", "raise-up-left-hand", "raise-up-right-hand", "run", "walk", "walk-turn-left",
    "walk-turn-right", "wave-both-hands", "wave-left-hand", "wave-right-hand",
)  # fmt: skip
STYLES = ("active", "elderly", "exhausted", "feminine", "masculine", "normal", "youthful")


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """A folder as it is downloaded, without motions."""
    for number, names in (
        (1, itertools.product(["bow", "walk-left"], ["proud", "chimpira"], range(1, 4))),
        (2, itertools.product(SECOND, STYLES, range(1, 26))),
    ):
        place = tmp_path / f"dataset/Bandai-Namco-Research-Motiondataset-{number}/data"
        place.mkdir(parents=True)
        for action, style, take in names:
            (place / f"dataset-{number}_{action}_{style}_{take:03d}.bvh").touch()
    return tmp_path


def made(*words: object) -> subprocess.CompletedProcess[str]:
    return subprocess.run([sys.executable, SCRIPT, *map(str, words)], capture_output=True, text=True, check=False)


def rows_of(path: Path) -> list[dict[str, str]]:
    with path.open(newline="", encoding="utf-8") as file:
        return list(csv.DictReader(file))


def test_new_takes_of_known_captions(folder, tmp_path):
    result = made(folder, tmp_path / "c.csv")
    assert result.returncode == 0, result.stderr
    assert "1762 clips" in result.stdout
    table = read_caption_table(tmp_path / "c.csv").rows
    assert len(table) == 1762
    (walk,) = table["dataset-1_walk-left_proud_002"]
    assert walk.captions == (
        "a person sidesteps to the left full of pride", "someone moves left sideways full of pride"
    )  # fmt: skip
    assert table["dataset-2_wave-left-hand_normal_001"][0].captions[0] == "a person waves with the left hand"
    splits: dict[str, set[str]] = {}
    for row in rows_of(tmp_path / "c.csv"):
        splits.setdefault(row["group"], set()).add(row["split"])
    assert all(len(names) == 1 for names in splits.values())
    assert len(splits) == 4 + 70 * 3, "ten takes in a row are one group"
    shares = {name: sum(names == {name} for names in splits.values()) / len(splits) for name in ("val", "test")}
    assert 0.02 <= shares["val"] <= 0.1
    assert 0.1 <= shares["test"] <= 0.2


def test_pairs_that_were_never_seen_together(folder, tmp_path):
    result = made(folder, tmp_path / "c.csv", "pairs")
    assert result.returncode == 0, result.stderr
    assert "1750 clips, 1250 train, 250 val, 250 test" in result.stdout
    rows = rows_of(tmp_path / "c.csv")
    captions, contents, styles = (
        {split: {row[column] for row in rows if row["split"] == split} for split in ("train", "val", "test")}
        for column in ("caption", "content", "style")
    )
    assert not captions["train"] & captions["test"]
    assert not captions["train"] & captions["val"]
    assert all(found == set(SECOND) for found in contents.values())
    assert all(found == set(STYLES) for found in styles.values())


def test_what_cannot_be_read_is_named(folder, tmp_path):
    (folder / "dataset-2_juggle_active_001.bvh").touch()
    result = made(folder, tmp_path / "c.csv")
    assert (result.returncode, (tmp_path / "c.csv").exists()) == (1, False)
    assert "dataset-2_juggle_active_001: there are no words for it" in result.stderr
    (folder / "dataset-2_walk.bvh").touch()
    assert "dataset-2_walk.bvh is not called" in made(folder, tmp_path / "c.csv").stderr
    (tmp_path / "empty").mkdir()
    assert "there is no clip of the dataset in" in made(tmp_path / "empty", tmp_path / "c.csv").stderr
    assert "say takes or pairs" in made(folder / "dataset", tmp_path / "c.csv", "both").stderr
