"""LeRobot datasets: what is written is what is read again, and every way to be broken has its sentence."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from motionkit.errors import MotionkitError
from motionkit_lerobot.write import export_lerobot
from motionkit_success.episodes import Collector, Episodes, open_episodes

pq = pytest.importorskip("pyarrow.parquet")
pa = pytest.importorskip("pyarrow")
pytest.importorskip("imageio_ffmpeg")

LENGTHS = (5, 8, 6)
VIDEO = "videos/observation.images.front/chunk-000/file-000.mp4"
DATA = "data/chunk-000/file-000.parquet"
EPISODES = "meta/episodes/chunk-000/file-000.parquet"


def write(folder: Path, *, columns: bool = True, sizes: tuple[tuple[int, int], ...] = ((16, 24), (9, 7))) -> Episodes:
    """Write smooth pictures, as cameras give them: a bright square that moves over a ramp."""
    cameras = dict(zip(("front", "side"), sizes, strict=False))
    rng = np.random.default_rng(0)
    widths: Any = {"action": 2, "state": 1} if columns else None
    with Collector(folder, cameras=cameras, environment={"name": "reach"}, columns=widths) as collector:
        for number, length in enumerate(LENGTHS):
            for step in range(length):
                frames = {}
                for name, (height, width) in cameras.items():
                    picture = np.tile(np.linspace(20, 200, width, dtype=np.uint8)[None, :, None], (height, 1, 3))
                    picture[2:6, (3 * number + step) % (width - 4) :][:, :4] = 250
                    frames[name] = picture
                own = {"action": rng.normal(size=2), "state": rng.normal(size=1)} if columns else {}
                collector.add(frames, number != 1 and step >= length - 2, step == length - 1, **own)
    return open_episodes(folder)


@pytest.fixture
def dataset(tmp_path: Path) -> Path:
    export_lerobot(write(tmp_path / "own"), tmp_path / "le")
    return tmp_path / "le"


def change_table(path: Path, change: Callable[[Any], Any]) -> None:
    pq.write_table(change(pq.read_table(path)), path)


def change_info(folder: Path, change: Callable[[dict[str, Any]], None]) -> None:
    path = folder / "meta/info.json"
    document = json.loads(path.read_text())
    change(document)
    path.write_text(json.dumps(document))


def test_there_and_back(tmp_path: Path) -> None:
    own = write(tmp_path / "own")
    found = export_lerobot(own, tmp_path / "le", fps=20)
    assert (found["episodes"], found["frames"], found["fps"]) == (3, 19, 20)
    again = open_episodes(tmp_path / "le")
    assert dict(again.cameras) == {"front": (16, 24), "side": (9, 7)}
    assert again.environment == {"name": "reach"}
    assert again.manifest.fps == 20
    assert [record.labels for record in again.records] == [record.labels for record in own.records]
    for name in ("action", "state"):
        assert np.array_equal(again.column(name), own.column(name))  # type: ignore[arg-type]
    index = np.arange(len(own))
    for name, frames in own.read(index).items():
        near = np.abs(again.read(index)[name].astype(int) - frames)
        # Each frame is nearest to itself: none has moved.
        assert near.mean() < 4
        others = np.abs(again.read(index)[name][:, None].astype(int) - frames[None]).mean((2, 3, 4))
        same = np.array([[(a == b).all() for b in frames] for a in frames])
        assert same[np.arange(len(own)), others.argmin(1)].all()


def test_the_layout_is_that_of_lerobot(dataset: Path) -> None:
    info = json.loads((dataset / "meta/info.json").read_text())
    assert (info["codebase_version"], info["fps"], info["total_episodes"], info["total_frames"]) == ("v3.0", 10, 3, 19)
    rows = pq.read_table(dataset / DATA).to_pydict()
    assert {*rows} | {"observation.images.front", "observation.images.side"} == {*info["features"]}
    assert rows["frame_index"] == [step for length in LENGTHS for step in range(length)]
    assert rows["index"] == list(range(19))
    assert np.allclose(rows["timestamp"], np.array(rows["frame_index"]) / 10)
    # Of the frame, and of what its action led to.
    assert rows["success"][:5] == [False, False, False, True, True]
    assert rows["next.success"][:5] == [False, False, True, True, True]
    assert [number for number, last in enumerate(rows["next.done"]) if last] == [4, 12, 18]
    episodes = pq.read_table(dataset / EPISODES).to_pydict()
    assert episodes["length"] == list(LENGTHS)
    assert (episodes["dataset_from_index"], episodes["dataset_to_index"]) == ([0, 5, 13], [5, 13, 19])
    assert np.allclose(episodes["videos/observation.images.front/from_timestamp"], [0, 0.5, 1.3])
    stats = json.loads((dataset / "meta/stats.json").read_text())
    actions = np.array(rows["action"])
    assert np.allclose(stats["action"]["mean"], actions.mean(0))
    assert np.allclose(stats["action"]["std"], actions.std(0))
    assert np.array(stats["observation.images.front"]["mean"]).shape == (3, 1, 1)
    tasks = pq.read_table(dataset / "meta/tasks.parquet")
    assert json.loads(tasks.schema.metadata[b"pandas"])["index_columns"] == ["task"]


def test_next_success_is_of_what_the_following_frame_shows(dataset: Path) -> None:
    """Datasets of others have no ``success``; a flag of the last row is of a state that no frame shows."""
    change_info(dataset, lambda info: info["features"].pop("success"))
    flags = [False] * 3 + [True, False] + [False] * 7 + [True] + [False] * 6

    def change(table: Any) -> Any:
        table = table.drop_columns(["success"])
        return table.set_column(table.schema.get_field_index("next.success"), "next.success", pa.array(flags))

    change_table(dataset / DATA, change)
    found = open_episodes(dataset)
    assert [record.labels for record in found.records] == ["00001", "00000000", "000000"]
    assert [record.positive for record in found.records] == [True, True, False]
    assert any("1 episodes succeed with their last action alone" in note for note in found.notes)


def test_a_dataset_that_says_nothing_of_success_is_known_as_such(dataset: Path) -> None:
    def forget(info: dict[str, Any]) -> None:
        del info["features"]["success"], info["features"]["next.success"]

    change_info(dataset, forget)
    found = open_episodes(dataset)
    assert not found.manifest.labelled
    assert not found.labels.any()
    assert any("does not say which frames are a success" in note for note in found.notes)


def test_a_video_that_ends_too_early_is_said(dataset: Path, tmp_path: Path) -> None:
    longer = pq.read_table(dataset / EPISODES)
    place = longer.schema.get_field_index("videos/observation.images.front/from_timestamp")
    change_table(
        dataset / EPISODES, lambda table: table.set_column(place, table.schema.names[place], pa.array([0.0, 0.5, 1.5]))
    )
    with pytest.raises(MotionkitError, match="ends before episode 2") as said:
        open_episodes(dataset)
    assert said.value.why == "4 of its 6 frames are there."


def camera(folder: Path, name: str, **changes: Any) -> None:
    change_info(folder, lambda info: info["features"].setdefault(f"observation.images.{name}", {}).update(changes))


def actions(folder: Path, values: list[Any]) -> None:
    change_table(folder / DATA, lambda table: table.set_column(0, "action", pa.array(values)))


def playlist(folder: Path) -> None:
    """Put a list in the place of the film that names the film; a program that guesses formats would play it."""
    film = (folder / VIDEO).read_bytes()
    (folder / VIDEO).with_name("beside.mp4").write_bytes(film)
    (folder / VIDEO).write_bytes(b"#EXTM3U\n#EXT-X-TARGETDURATION:9\n#EXTINF:9,\nbeside.mp4\n#EXT-X-ENDLIST\n")


@pytest.mark.parametrize(
    ("damage", "said"),
    [
        (lambda folder: (folder / VIDEO).unlink(), r"file-000\.mp4 is missing"),
        (lambda folder: playlist(folder), "cannot be decoded"),
        (lambda folder: (folder / DATA).write_bytes(b"PAR1 and no more PAR1"), "cannot be read"),
        (lambda folder: (folder / DATA).unlink(), "holds no chunk-000"),
        (lambda folder: (folder / "meta/info.json").write_text("[]"), "info.json"),
        (lambda folder: change_info(folder, lambda info: info.update(codebase_version="v2.1")), "version v2.1"),
        (lambda folder: change_info(folder, lambda info: info.update(fps=30)), "has 10 frames a second"),
        (lambda folder: change_info(folder, lambda info: info.update(fps=0)), "damaged.*"),
        (lambda folder: change_info(folder, lambda info: info.update(video_path="/etc/{x}")), "info.json is damaged"),
        (lambda folder: change_info(folder, lambda info: info.update(features={})), "no video"),
        (lambda folder: camera(folder, "front", shape=[24, 16, 3]), "shows 16 x 24 pixels"),
        (lambda folder: camera(folder, "../../x", dtype="video", shape=[4, 4, 3]), "names no folder"),
        (lambda folder: camera(folder, "side", dtype="image"), "lie in its parquet files"),
        (lambda folder: (folder / "meta/motionkit.json").write_text("{}"), "motionkit.json is damaged"),
        (lambda folder: change_table(folder / DATA, lambda table: table.slice(0, 18)), "episode 2 of .* has 5 rows"),
        (lambda folder: actions(folder, [[1.0, 2.0]] * 18 + [[1.0]]), "row 18 of the column action"),
        (lambda folder: actions(folder, [[1.0, None]] * 19), "gaps"),
        (lambda folder: actions(folder, [[1.0, float("nan")]] * 19), "not finite"),
        (lambda folder: actions(folder, ["x"] * 19), "holds"),
    ],
)
def test_damage_is_a_sentence(dataset: Path, damage: Callable[[Path], Any], said: str) -> None:
    damage(dataset)
    with pytest.raises(MotionkitError, match=said):
        open_episodes(dataset)


def test_it_is_decoded_once_and_anew_when_it_changes(dataset: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from motionkit_lerobot import read as module

    first = open_episodes(dataset)
    monkeypatch.setattr(module, "_convert", lambda *_: pytest.fail("decoded again"))
    assert open_episodes(dataset).fingerprint == first.fingerprint
    monkeypatch.undo()
    change_table(dataset / DATA, lambda table: table.set_column(
        table.schema.get_field_index("success"), "success", pa.array([True] * 19)))  # fmt: skip
    assert open_episodes(dataset).labels.all()


def test_episodes_without_columns_are_written_without(tmp_path: Path) -> None:
    export_lerobot(write(tmp_path / "own", columns=False), tmp_path / "le")
    assert not open_episodes(tmp_path / "le").columns


def test_rates_that_differ_leave_the_columns_out(tmp_path: Path) -> None:
    own = write(tmp_path / "own")
    export_lerobot(own, tmp_path / "slow", fps=10)
    export_lerobot(own, tmp_path / "fast", fps=50)
    found = open_episodes(tmp_path / "slow", tmp_path / "fast")
    assert not found.columns
    assert any("10 frames a second" in note and "50" in note for note in found.notes)


def test_pyarrow_that_is_missing_is_said(dataset: Path, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    import sys

    monkeypatch.setitem(sys.modules, "pyarrow.parquet", None)
    with pytest.raises(MotionkitError, match="need pyarrow") as said:
        export_lerobot(open_episodes(tmp_path / "own"), tmp_path / "other")
    assert "motionkit-lerobot[files]" in said.value.fix


@pytest.mark.parametrize("fps", [0.4, 2.5, 12.5, 29.97, 1000.0, 0.0125])
def test_episodes_keep_their_rate_out_and_in(tmp_path: Path, fps: float) -> None:
    with Collector(tmp_path / "own", cameras={"front": (16, 16)}, columns={"action": 1}, fps=fps) as collector:
        for step in range(30):
            frame = np.full((16, 16, 3), 8 * step, np.uint8)
            collector.add({"front": frame}, step > 27, step in (13, 29), action=[float(step)])
    own = open_episodes(tmp_path / "own")
    assert export_lerobot(own, tmp_path / "le")["fps"] == fps
    info = json.loads((tmp_path / "le/meta/info.json").read_text())
    assert info["fps"] == info["features"]["observation.images.front"]["info"]["video.fps"] == fps
    rows = pq.read_table(tmp_path / "le" / DATA).to_pydict()
    assert rows["timestamp"][13] == pytest.approx(13 / fps, rel=1e-6)
    again = open_episodes(tmp_path / "le")
    assert again.manifest.fps == fps
    index = np.arange(len(own))
    # Each frame is the one of its row: greys are eight apart.
    assert np.abs(again.read(index)["front"].astype(int) - own.read(index)["front"]).max() < 4
    assert np.array_equal(again.column("action"), own.column("action"))


def test_a_whole_rate_is_written_as_lerobot_writes_it(dataset: Path) -> None:
    assert '"fps": 10,' in (dataset / "meta/info.json").read_text()


def rewarded(dataset: Path, values: list[float]) -> Episodes:
    """A dataset without success, with a reward of each row, as HIL-SERL records it."""

    def features(info: dict[str, Any]) -> None:
        for name in ("success", "next.success"):
            info["features"].pop(name)
        info["features"]["next.reward"] = {"dtype": "float32", "shape": [1], "names": None}

    change_info(dataset, features)
    change_table(
        dataset / DATA,
        lambda table: table.drop_columns(["success", "next.success"]).append_column(
            "next.reward", pa.array(values, pa.float32())
        ),
    )
    return open_episodes(dataset)


def test_a_reward_of_0_and_1_is_success(dataset: Path) -> None:
    found = rewarded(dataset, [0.0] * 3 + [1.0, 1.0] + [0.0] * 14)
    assert [record.labels for record in found.records] == ["00001", "00000000", "000000"]
    assert found.labelled
    assert "next.reward, which is 0 or 1, is read as next.success." in found.notes


@pytest.mark.parametrize("values", [[0.0] * 19, [1.0] * 19, [0.0, 0.5, 1.0] * 6 + [0.0], [-1.0] * 18 + [0.0]])
def test_another_reward_is_no_label(dataset: Path, values: list[float]) -> None:
    found = rewarded(dataset, values)
    assert not found.labelled
    assert any(note.startswith("next.reward is not of 0 and 1") for note in found.notes)


def test_observations_that_are_not_read_are_named(dataset: Path) -> None:
    name = "observation.environment_state"
    feature = {"dtype": "float32", "shape": [1], "names": None}
    change_info(dataset, lambda info: info["features"].update({name: feature}))
    change_table(dataset / DATA, lambda table: table.append_column(name, pa.array([0.0] * 19, pa.float32())))
    assert f"{name} is not read: the state is observation.state." in open_episodes(dataset).notes


def test_the_parts_of_a_state_are_kept_out_and_in(tmp_path: Path) -> None:
    parts = {"agent/place": 2, "goal": 1}
    with Collector(
        tmp_path / "own", cameras={"front": (16, 16)}, columns={"action": 1, "state": 3}, state_parts=parts
    ) as collector:
        for step in range(4):
            collector.add({"front": np.zeros((16, 16, 3), np.uint8)}, False, step == 3, action=[0.0], state=[1, 2, 3])
    export_lerobot(open_episodes(tmp_path / "own"), tmp_path / "le")
    info = json.loads((tmp_path / "le/meta/info.json").read_text())
    assert info["features"]["observation.state"]["names"] == ["agent/place_0", "agent/place_1", "goal_0"]
    assert open_episodes(tmp_path / "le").manifest.state_parts == parts
