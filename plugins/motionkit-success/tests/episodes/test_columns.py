"""Actions and states beside the frames: they are read as added, and folders without them stay as they were."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest

from motionkit.errors import MotionkitError
from motionkit_success.episodes import Collector, Episodes, open_episodes

CAMERAS = {"front": (4, 4)}
COLUMNS = {"action": 2, "state": 3}


def write(folder: Path, *, lengths: tuple[int, ...] = (4, 3), columns: bool = True, seed: int = 0) -> tuple[list, list]:
    """Write an episode of each length; returns actions and states as `Collector.add` was given them."""
    rng = np.random.default_rng(seed)
    actions, states = [], []
    with Collector(folder, cameras=CAMERAS, columns=COLUMNS if columns else None) as collector:
        for length in lengths:
            action, state = rng.normal(size=(length, 2)), rng.normal(size=(length, 3))
            for step in range(length):
                picture = rng.integers(0, 256, (4, 4, 3), np.uint8)
                own = {"action": action[step], "state": state[step]} if columns else {}
                collector.add({"front": picture}, step == length - 1, step == length - 1, **own)
            actions.append(action.astype(np.float32))
            states.append(state.astype(np.float32))
    return actions, states


def test_an_action_stands_beside_the_state_in_which_it_was_taken(tmp_path: Path) -> None:
    actions, states = write(tmp_path)
    found = open_episodes(tmp_path)
    assert dict(found.columns) == COLUMNS
    assert np.array_equal(found.column("state"), np.concatenate(states))
    # The action of a step led from the row before to the row of the step.
    shifted = [np.concatenate([action[1:], np.zeros((1, 2), np.float32)]) for action in actions]
    assert np.array_equal(found.column("action"), np.concatenate(shifted))
    later = found.chosen([1])
    assert np.array_equal(later.column("state"), states[1])


def test_an_older_folder_opens_and_goes_on_without_columns(tmp_path: Path) -> None:
    write(tmp_path / "old", columns=False)
    path = tmp_path / "old" / "manifest.json"
    document = json.loads(path.read_text())
    for key in ("columns", "choices", "fps"):  # as an earlier version wrote it
        del document[key]
    path.write_text(json.dumps(document))
    lines = tmp_path / "old" / "episodes-00.jsonl"
    old = [json.loads(line) for line in lines.read_text().splitlines()]
    lines.write_text("".join(json.dumps({k: v for k, v in one.items() if k != "columns"}) + "\n" for one in old))
    assert not open_episodes(tmp_path / "old").columns
    write(tmp_path / "old", lengths=(2,), seed=1)
    found = open_episodes(tmp_path / "old")
    assert (len(found.records), dict(found.columns), found.verify()) == (3, {}, [])


def test_the_fingerprint_of_frames_and_labels_is_that_without_columns(tmp_path: Path) -> None:
    write(tmp_path / "with")
    write(tmp_path / "without", columns=False)
    assert open_episodes(tmp_path / "with").fingerprint == open_episodes(tmp_path / "without").fingerprint


@pytest.mark.parametrize("damage", ["cut", "gone", "changed"])
def test_damaged_numbers_are_refused_and_frames_are_still_read(tmp_path: Path, damage: str) -> None:
    write(tmp_path)
    path = tmp_path / "frames-00-0000.action.f32"
    data = bytearray(path.read_bytes())
    if damage == "gone":
        path.unlink()
    else:
        data[-1] ^= 1
        path.write_bytes(bytes(data[:-4] if damage == "cut" else data))
    found = open_episodes(tmp_path)
    assert found.verify() == []
    with pytest.raises(MotionkitError, match="action" if damage == "gone" else "00-000001"):
        found.column("action")
    assert found.column("state").shape == (7, 3)


@pytest.mark.parametrize(
    ("columns", "word"), [({"action": 10_000, "state": 3}, "not those"), ({"../../outside": 1}, "manifest")]
)
def test_a_manifest_of_a_stranger_cannot_ask_for_more_than_there_is(
    tmp_path: Path, columns: dict[str, int], word: str
) -> None:
    write(tmp_path)
    path = tmp_path / "manifest.json"
    path.write_text(json.dumps(json.loads(path.read_text()) | {"columns": columns}))
    with pytest.raises(MotionkitError, match=word):
        open_episodes(tmp_path).column("action")


def test_numbers_that_are_not_finite_or_of_another_size_are_refused(tmp_path: Path) -> None:
    picture = {"front": np.zeros((4, 4, 3), np.uint8)}
    with Collector(tmp_path, cameras=CAMERAS, columns=COLUMNS) as collector:
        for action, state, said in (
            (None, np.zeros(3), "action of a step is missing"),
            (np.zeros(3), np.zeros(3), r"action of a step is \[3\]"),
            (np.zeros(2), [0, np.nan, 0], "not finite"),
        ):
            with pytest.raises(MotionkitError, match=said):
                collector.add(picture, False, True, action=action, state=state)


def test_going_back_drops_numbers_too(tmp_path: Path) -> None:
    def run(folder: Path, stop: bool) -> Episodes:
        def add(seed: int, done: bool) -> None:
            rng = np.random.default_rng(seed)
            picture = rng.integers(0, 256, (4, 4, 3), np.uint8)
            collector.add({"front": picture}, False, done, action=rng.normal(size=2), state=rng.normal(size=3))

        with Collector(folder, cameras=CAMERAS, columns=COLUMNS) as collector:
            add(0, True)
            add(1, False)
            state = collector.state()
            if stop:
                add(9, True)
                add(9, True)
                collector.rewind(*state)
            add(2, True)
        return open_episodes(folder)

    plain, again = run(tmp_path / "a", False), run(tmp_path / "b", True)
    for name in ("action", "state"):
        assert np.array_equal(plain.column(name), again.column(name))
    assert (tmp_path / "a/frames-00-0000.state.f32").read_bytes() == (
        tmp_path / "b/frames-00-0000.state.f32"
    ).read_bytes()


def test_folders_of_different_columns_are_read_without(tmp_path: Path) -> None:
    write(tmp_path / "with")
    write(tmp_path / "without", columns=False, seed=1)
    found = open_episodes(tmp_path / "with", tmp_path / "without")
    assert not found.columns
    assert any("actions and states are not read" in note for note in found.notes)
