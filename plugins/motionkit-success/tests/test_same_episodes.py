"""Episodes are known by what they show: copies, other names and other folders do not make others of them."""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from typer.testing import Result

from motionkit.config import resolve
from motionkit.errors import MotionkitError
from motionkit.training.execute import run_trainer
from motionkit_success.classifier import load_classifier
from motionkit_success.episodes import Collector, export_trajectories, open_episodes
from motionkit_success.episodes.trajectories import Trajectories
from motionkit_success.train import RewardTrain
from motionkit_success.train_data import held_out
from motionkit_success.train_settings import RewardTrainSettings
from tests.made.commands import assert_refused

Cli = Callable[..., Result]
SIZE = 16


def collect(folder: Path, count: int = 24, *, first: int = 0, seeds: bool = True, **spec: Any) -> Path:
    """Write episodes of four noisy frames; every other one ends in success, which is a bright corner."""
    spec = {"name": "corner", **spec}
    with Collector(folder, cameras={"camera": (SIZE, SIZE)}, environment=spec) as collector:
        for number in range(first, first + count):
            random = np.random.default_rng(number)
            for step in range(4):
                frame = random.integers(0, 100, (SIZE, SIZE, 3)).astype(np.uint8)
                success = step == 3 and number % 2 == 1
                frame[:6, :6] = 250 if success else 0
                collector.add({"camera": frame}, success, step == 3, seeds=[number if seeds else None])
    return folder


def renamed(folder: Path, out: Path) -> Path:
    """Copy a folder; its episodes get other ids and come in another order."""
    shutil.copytree(folder, out)
    path = out / "episodes-00.jsonl"
    lines = [json.loads(line) for line in path.read_text().splitlines()][::-1]
    path.write_text("".join(json.dumps({**line, "id": f"x{number}"}) + "\n" for number, line in enumerate(lines)))
    return out


def there_and_back(folder: Path, out: Path) -> Path:
    """Export a folder as the guide's .npy, and write what these hold."""
    export_trajectories(open_episodes(folder), out / "npy")
    found = Trajectories(out / "npy/positive", out / "npy/negative")
    with Collector(out / "again", cameras=found.cameras) as collector:
        collector.rewind({}, {"episodes": 0, "labels": [], "left_out": {"positive": 0, "negative": 0}})
        for number in range(len(found)):
            found.add(number, collector)
    return out / "again"


def prepared(*places: Path, **changes: Any) -> RewardTrain:
    settings = {"data": {"path": [str(place) for place in places]}, "run": {"num_steps": 2}, "threads": 1, **changes}
    trainer = RewardTrain(RewardTrainSettings.model_validate(settings))
    trainer.prepare()
    return trainer


def shown(trainer: RewardTrain, part: str) -> set[bytes]:
    """Return the pictures of a part, read frame by frame."""
    return {trainer.episodes.read(np.array([number]))["camera"].tobytes() for number in trainer.parts[part]}


@pytest.mark.parametrize("copy", ["linked", "renamed", "half", "exported"])
def test_copies_are_not_in_two_parts_and_count_once(tmp_path: Path, copy: str) -> None:
    data = collect(tmp_path / "A")
    if copy == "half":
        again = shutil.copytree(data, tmp_path / "B")
        lines = (again / "episodes-00.jsonl").read_text().splitlines(keepends=True)
        (again / "episodes-00.jsonl").write_text("".join(lines[::2]))
    elif copy == "exported":
        again = there_and_back(data, tmp_path)
    else:
        again = tmp_path / "B"
        again.symlink_to(data) if copy == "linked" else renamed(data, again)
    alone, both = prepared(data), prepared(data, again)
    assert {part: len(frames) for part, frames in both.parts.items()} == {
        part: len(frames) for part, frames in alone.parts.items()
    }
    for part in ("train", "val", "test"):
        assert shown(both, part) == shown(alone, part)
    assert not shown(both, "train") & shown(both, "test")
    (note,) = [note for note in both.notes if "frames of another one" in note]
    assert note.startswith(f"{12 if copy == 'half' else 24} of {36 if copy == 'half' else 48} episodes")
    assert not [note for note in alone.notes if "frames of another one" in note]


def test_two_runs_whose_ids_are_the_same_keep_their_episodes_apart(tmp_path: Path) -> None:
    """Every folder counts from 00-000000: by id alone, an episode of one folder drew that of the other with it."""
    both = prepared(collect(tmp_path / "A"), collect(tmp_path / "B", first=100))
    assert sum(map(len, both.parts.values())) == 2 * 24 * 4
    assert not shown(both, "train") & shown(both, "test")


def test_the_draw_does_not_depend_on_names_folders_or_order(tmp_path: Path) -> None:
    data = collect(tmp_path / "A", seeds=False)
    other = renamed(data, tmp_path / "B")
    for part in ("train", "val", "test"):
        assert shown(prepared(data), part) == shown(prepared(other), part)
    assert shown(prepared(data), "test") != shown(prepared(data, seed=1), "test")


def test_labels_that_contradict_each_other_are_counted(tmp_path: Path) -> None:
    data = collect(tmp_path / "A")
    other = renamed(data, tmp_path / "B")
    path = other / "episodes-00.jsonl"
    path.write_text(path.read_text().replace('"0001"', '"0011"', 1))
    assert any("1 of them have other labels" in note for note in prepared(data, other).notes)


def test_episodes_of_two_tasks_are_not_mixed(tmp_path: Path) -> None:
    one, two = collect(tmp_path / "A", id="Push-v0"), collect(tmp_path / "B", first=50, id="Lift-v0")
    with pytest.raises(MotionkitError) as said:
        prepared(one, two)
    assert "corner Lift-v0 and corner Push-v0" in said.value.why
    other = collect(tmp_path / "C", first=50, id="Push-v0", max_steps=9)
    assert any("other options" in note for note in prepared(one, other).notes)


def spoil(folder: Path) -> None:
    """Change the frames, and leave all names, sizes and hashes as they are."""
    for path in folder.glob("frames-*.u8"):
        path.write_bytes(bytes(value ^ 255 for value in path.read_bytes()))


def test_frames_that_changed_are_refused(cli: Cli) -> None:
    data = collect(Path("A"))
    done = cli("reward-train", "--data", "A", "--out", "run", "--num-steps", "2", "--threads", "1")
    assert done.exit_code == 0, done.stderr
    again = ("reward-train", "--resume", "run", "--threads", "1")
    assert cli(*again).exit_code == 0
    shutil.copytree(data, "kept")
    spoil(data)
    for words in (again, ("reward-train", "--data", "A"), ("eval", "reward", "run", "A"), ("eval", "reward", "run")):
        found = cli(*words)
        assert found.exit_code == 2
        assert "24 of 24 episodes have changed" in found.stderr
        assert "Traceback" not in found.stderr
    # Whole episodes, but others than the run began with.
    shutil.rmtree(data)
    collect(data, first=60)
    assert_refused(cli(*again), "data.path")
    shutil.rmtree(data)
    shutil.copytree("kept", data)
    assert cli(*again).exit_code == 0


def test_frames_are_compared_a_piece_at_a_time(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    data = open_episodes(collect(tmp_path / "A", 4))
    read: list[int] = []
    inner = type(data).read
    monkeypatch.setattr(type(data), "read", lambda self, index: (read.append(len(index)), inner(self, index))[1])
    monkeypatch.setattr("motionkit_success.episodes.read._PIECE", 3 * SIZE * SIZE * 3)
    assert data.verify() == []
    assert read == [3, 1] * 4
    spoil(tmp_path / "A")
    assert len(open_episodes(tmp_path / "A").verify()) == 4


def test_an_evaluation_leaves_out_what_the_classifier_was_trained_on(cli: Cli) -> None:
    data = collect(Path("A"))
    assert cli("reward-train", "--data", "A", "--out", "run", "--num-steps", "2", "--threads", "1").exit_code == 0
    kept = load_classifier("run").trained_on
    assert kept.complete
    assert len(kept.items) == 24 - 4  # 12 of each class, of which 2 are held out
    shutil.copytree("run/classifier", "alone")  # a copy without its run knows it as well
    more = collect(Path("more"), 12, first=60)
    shutil.copytree(more, "mixed")
    for model in ("run", "alone", "run/classifier-last"):
        found = json.loads(cli("eval", "reward", model, "more", "--json").stdout)
        assert (found["heldout"]["episodes"], found["notes"]) == (12, [])
        found = json.loads(
            cli("eval", "reward", model, "more", str(renamed(data, Path(f"c-{Path(model).name}"))), "--json").stdout
        )
        assert found["heldout"]["episodes"] == 12 + 4
        assert found["notes"][-1] == "left out 20 of 36 episodes that the model was trained on."
    trainer = prepared(data)
    path = data / "episodes-00.jsonl"
    train = set(trainer.split.train)
    only = [record.id for record in trainer.episodes.records if record.content in train]
    path.write_text("".join(line + "\n" for line in path.read_text().splitlines() if json.loads(line)["id"] in only))
    assert_refused(cli("eval", "reward", "alone", "A"), "trained on all 16 episodes of A")


def test_a_classifier_of_before_says_that_nothing_is_known(cli: Cli) -> None:
    collect(Path("A"))
    assert cli("reward-train", "--data", "A", "--out", "run", "--num-steps", "2", "--threads", "1").exit_code == 0
    Path("run/classifier/trained-on.json").unlink()
    collect(Path("more"), 12, first=60)
    found = json.loads(cli("eval", "reward", "run", "more", "--json").stdout)
    assert "not known what the model was trained on" in found["notes"][-1]


@pytest.mark.parametrize("size", [6, 4100])
def test_pictures_that_no_classifier_takes_are_refused(tmp_path: Path, size: int) -> None:
    with Collector(tmp_path, cameras={"camera": (size, 8)}) as collector:
        for number in range(8):
            collector.add({"camera": np.full((size, 8, 3), number, np.uint8)}, number % 2 == 1, True)
    with pytest.raises(MotionkitError) as said:
        prepared(tmp_path)
    assert "8 to 4096 pixels" in said.value.why


def test_a_persons_labels_are_trained_on_and_known_again(tmp_path: Path) -> None:
    """They are part of the data's fingerprint, and a run finds them again to be measured."""
    folder = collect(tmp_path / "data")
    path = tmp_path / "labels.csv"
    path.write_text("episode,label,frame\n" + "".join(f"{n},{n % 2},{'3' if n % 2 else ''}\n" for n in range(24)))
    same = prepared(folder, data={"path": [str(folder)], "labels": str(path)})
    assert np.array_equal(same.labels, prepared(folder).labels)
    path.write_text("episode,label,frame\n" + "".join(f"{n},{n % 2},{'2' if n % 2 else ''}\n" for n in range(24)))
    other = prepared(folder, data={"path": [str(folder)], "labels": str(path)})
    assert other.labels.sum() == 24
    assert other.inputs != same.inputs
    assert "labels.csv" in other.classifier.card.label_rule
    assert any("of 24 of 24 episodes" in note for note in other.notes)
    out = tmp_path / "run"
    resolved = resolve(RewardTrainSettings, sets=(
        "device=cpu", "threads=1", f"run.out={out}", "run.num_steps=2", f"data.path={folder}", f"data.labels={path}",
    ))  # fmt: skip
    trainer = RewardTrain(resolved.settings)
    trainer.prepare()
    run_trainer("reward-train", trainer, resolved)
    source, frames = held_out(out, trainer.episodes.fingerprint)
    assert source.episodes.labels[frames].sum() == trainer.labels[trainer.parts["test"]].sum()
    path.write_text("episode,label\n0,1\n")
    with pytest.raises(MotionkitError, match="has changed"):
        held_out(out, trainer.episodes.fingerprint)


def test_episodes_of_which_nobody_says_what_succeeds_need_labels(tmp_path: Path) -> None:
    with Collector(tmp_path / "data", cameras={"camera": (SIZE, SIZE)}, labelled=False) as collector:
        for number in range(12):
            for step in range(3):
                frame = np.random.default_rng(number * 3 + step).integers(0, 256, (SIZE, SIZE, 3)).astype(np.uint8)
                collector.add({"camera": frame}, False, step == 2)
    with pytest.raises(MotionkitError) as said:
        prepared(tmp_path / "data")
    assert "--data.labels" in str(said.value.fix)
    path = tmp_path / "labels.csv"
    path.write_text("episode,label\n" + "".join(f"{number},{number % 2}\n" for number in range(12)))
    trainer = prepared(tmp_path / "data", data={"path": [str(tmp_path / "data")], "labels": str(path)})
    assert trainer.labels.reshape(12, 3).tolist() == [[0, 0, number % 2] for number in range(12)]
