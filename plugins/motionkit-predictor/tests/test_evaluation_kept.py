"""Predictions that are kept to be looked at: which clips, which windows, and a file that may be damaged."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import torch

from motionkit.errors import MotionkitError
from motionkit.metrics import geodesic_degrees
from motionkit.motion import Clip
from motionkit.starter import Order, perform
from motionkit_predictor.data.clips import Windows, clip_set, cut_windows
from motionkit_predictor.data.files import _motion
from motionkit_predictor.evaluation.baselines import Extrapolation
from motionkit_predictor.evaluation.data import EvalData
from motionkit_predictor.evaluation.kept import Predictions
from motionkit_predictor.evaluation.long.measure import DRAWN, LongSettings
from motionkit_predictor.evaluation.measure import Horizons, by_error, chosen
from motionkit_predictor.evaluation.run import evaluate
from motionkit_predictor.states import MotionState

HORIZONS = Horizons.at([400, 100], 30.0)  # the furthest first: nothing may rely on their order
NAMES = ("walk/normal", "wave/right", "jump/forward", "run/normal", "sneak/forward", "limp/left")


@pytest.fixture(scope="module")
def data() -> EvalData:
    made = perform([Order(name, 60, number) for number, name in enumerate(NAMES)], fps=30.0)
    clips = [(f"clip{number}", Clip(_motion(one), split="test")) for number, one in enumerate(made)]
    short = ("short", Clip(_motion(made[0]).cut(0, 31), split="test"))
    lone = ("lone", Clip(_motion(made[0]).cut(0, 1), split="test"))
    found = clip_set("made", [lone, *clips, short], 30.0)
    return EvalData(found, cut_windows(found.split("test"), past=25, future=12, stride=5), None, ())


@pytest.fixture(scope="module")
def kept(data: EvalData) -> tuple[dict, Predictions]:
    caught: list[Predictions] = []
    half = Extrapolation(data.clips.names, 30.0, keep=0.5)
    document = evaluate(data, half, HORIZONS, keep=caught.append)
    return document, caught[0]


def slow_errors(windows: Windows, frame: int) -> dict[str, list[float]]:
    """GeoDeg of every window, by clip, with one window predicted at a time."""
    names = tuple(str(joint) for joint in range(22))
    found: dict[str, list[float]] = {}
    for number in range(len(windows)):
        index = torch.tensor([number])
        predicted = Extrapolation(names, 30.0, keep=0.5).predict(windows.known(index), windows.future)
        truth = windows.following(index)
        angle = geodesic_degrees(predicted.rotations[0, frame - 1, 1:], truth.rotations[0, frame - 1, 1:]).mean()
        if windows.valid[number] >= frame:
            found.setdefault(windows.keys[int(windows.clip[number])], []).append(float(angle))
    return found


def test_windows_know_the_ids_of_their_clips(data: EvalData) -> None:
    assert data.windows.keys == (*(f"clip{number}" for number in range(6)), "short")  # a single frame gives no window


def test_the_worst_clips_are_those_of_a_slow_measurement(data: EvalData, kept: tuple[dict, Predictions]) -> None:
    document, shown = kept
    slow = {key: sum(values) / len(values) for key, values in slow_errors(data.windows, 12).items()}
    order = sorted(slow, key=lambda key: -slow[key])
    assert "short" not in order  # it ends after 6 frames
    worst = document["worst_clips"]
    assert worst["of"] == "model"
    assert worst["beside"] == document["best_baseline"]["400"]
    assert [one["clip"] for one in worst["clips"]] == order
    for one in worst["clips"]:
        assert one["geo_deg"]["400"] == pytest.approx(slow[one["clip"]])
        assert one["windows"] == 5
    assert [one.key for one in shown.clips] == [order[place] for place in (0, 1, 2, 3, 5)]
    assert [one.rank for one in shown.clips] == [1, 2, 3, 4, 6]
    assert shown.ranked == 6


def test_the_window_is_the_one_nearest_to_its_clip(data: EvalData, kept: tuple[dict, Predictions]) -> None:
    slow = slow_errors(data.windows, 12)
    for one in kept[1].clips:
        values = slow[one.key]
        mean = sum(values) / len(values)
        near = min(range(len(values)), key=lambda place: abs(values[place] - mean))
        assert one.start == pytest.approx(near * 5 / 30.0)
        assert one.window_errors["400"] == pytest.approx(values[near])
        assert one.errors["400"] == pytest.approx(mean)


def test_the_known_frames_are_the_truth_and_what_follows_is_not(kept: tuple[dict, Predictions]) -> None:
    shown = kept[1]
    assert (shown.known, shown.fps, shown.predictor) == (25, 30.0, "model")
    for one in shown.clips:
        assert one.truth.shape == one.predicted.shape == (37, 22, 3)
        assert np.array_equal(one.truth[:25], one.predicted[:25])
    assert np.abs(shown.clips[0].truth[25:] - shown.clips[0].predicted[25:]).max() > 0.05


def test_without_a_model_the_best_baseline_is_shown_beside_hold(data: EvalData) -> None:
    caught: list[Predictions] = []
    document = evaluate(data, None, HORIZONS, keep=caught.append)
    assert caught[0].predictor == document["worst_clips"]["of"] == document["best_baseline"]["400"]
    assert document["worst_clips"]["beside"] == "hold"


def test_a_clip_that_ends_early_is_cut_there(data: EvalData) -> None:
    short = [clip for clip in data.clips.clips if clip.key == "short"]
    windows = cut_windows(short, past=25, future=12, stride=5)
    caught: list[Predictions] = []
    evaluate(EvalData(data.clips, windows, None, ()), None, HORIZONS, keep=caught.append)
    (one,) = caught[0].clips
    assert one.truth.shape[0] == 25 + 6
    assert (one.errors["400"], one.window_errors["400"]) == (None, None)
    assert one.errors["100"] == pytest.approx(one.window_errors["100"])


def test_the_order_falls_back_to_a_nearer_horizon() -> None:
    nan = float("nan")
    errors = torch.tensor([[nan, 1.0], [nan, 3.0], [nan, nan]])
    assert by_error(errors, HORIZONS) == [1, 0]
    assert by_error(torch.full((2, 2), nan), HORIZONS) == []
    assert chosen(range(5)) == [0, 1, 2, 4]
    assert chosen(range(1)) == [0]


def test_what_is_written_is_read(kept: tuple[dict, Predictions], tmp_path: Path) -> None:
    shown = kept[1]
    mixed = replace(shown, clips=(replace(shown.clips[0], feet=None), *shown.clips[1:]))
    mixed.save(tmp_path / "kept.npz")
    found = Predictions.load(tmp_path / "kept.npz")
    assert replace(found, clips=()) == replace(mixed, clips=())
    for one, other in zip(found.clips, mixed.clips, strict=True):
        assert np.array_equal(one.truth, other.truth)
        assert np.array_equal(one.predicted, other.predicted)
        plain = [{**vars(clip), "truth": None, "predicted": None, "feet": None} for clip in (one, other)]
        assert plain[0] == plain[1]
    assert found.clips[0].feet is None
    assert np.array_equal(found.clips[1].feet, mixed.clips[1].feet)


class Follower(Extrapolation):
    """Holds a pose and takes each step of the command, 1 cm to the left of it in the first."""

    def predict(self, known: MotionState, frames: int, *, command: torch.Tensor | None = None) -> MotionState:
        made = super().predict(known, frames)
        if command is None:
            return made
        steps = command[:, :frames].clone()
        steps[:, 0, 0] += 0.01
        return replace(made, steps=steps)


def test_runs_along_drawn_paths_are_kept_with_what_was_asked(data: EvalData, tmp_path: Path) -> None:
    caught: list[Predictions] = []
    follower = Follower(data.clips.names, 30.0, keep=0.0)
    long = LongSettings("test", (1.0, 2.0), clips=1, starts=2)
    document = evaluate(data, follower, HORIZONS, keep=caught.append, long=long)
    caught[0].save(tmp_path / "kept.npz")
    for shown in (caught[0], Predictions.load(tmp_path / "kept.npz")):
        assert [one.title for one in shown.paths] == [path.title for path in DRAWN.values()]
        for one, (name, path) in zip(shown.paths, DRAWN.items(), strict=True):
            assert (one.predicted.shape, one.path.shape, one.feet.shape) == ((85, 22, 3), (85, 2), (85, 2))
            assert one.key in data.windows.keys
            root = one.predicted[:, 0, [0, 2]]
            assert np.abs(root[:25] - one.path[:25]).max() < 1e-5, "the known frames are where the path begins"
            off = np.linalg.norm(root[25:] - one.path[25:], axis=-1)
            assert off == pytest.approx(0.01, abs=1e-4)
            assert one.mean == pytest.approx(0.01, abs=1e-4)
            assert one.mean == pytest.approx(
                document["long"]["drawn"]["paths"][name]["rows"]["model"]["path_mean"]["2"]
            )
            length = np.linalg.norm(np.diff(one.path[24:], axis=0), axis=-1).sum()
            assert length == pytest.approx(float(path.steps(60, 30.0)[:, :2].norm(dim=-1).sum()), abs=1e-3)
    evaluate(data, None, HORIZONS, keep=caught.append, long=long)
    assert caught[1].paths == (), "a baseline is not shown along paths"


def test_a_run_along_a_path_that_does_not_fit_its_path_is_refused(data: EvalData, tmp_path: Path) -> None:
    caught: list[Predictions] = []
    follower = Follower(data.clips.names, 30.0, keep=0.0)
    evaluate(data, follower, HORIZONS, keep=caught.append, long=LongSettings("test", (1.0,), clips=1, starts=1))
    caught[0].save(tmp_path / "kept.npz")
    with np.load(tmp_path / "kept.npz") as file:
        parts = {name: file[name] for name in file.files}
    for name in ("along_path", "along_predicted"):
        np.savez(tmp_path / "torn.npz", **{**parts, name: parts[name][:-1]})
        with pytest.raises(MotionkitError) as caught_error:
            Predictions.load(tmp_path / "torn.npz")
        assert "do not fit each other" in str(caught_error.value.why)
    np.savez(tmp_path / "torn.npz", **{name: values for name, values in parts.items() if name != "along_path"})
    with pytest.raises(MotionkitError, match="cannot be read as predictions"):
        Predictions.load(tmp_path / "torn.npz")


@pytest.mark.parametrize("damage", ["empty", "torn", "pickle", "about", "frames", "known"])
def test_a_damaged_file_is_refused(kept: tuple[dict, Predictions], tmp_path: Path, damage: str) -> None:
    path = tmp_path / "kept.npz"
    kept[1].save(path)
    with np.load(path) as file:
        parts = {name: file[name] for name in file.files}
    about = json.loads(str(parts["about"]))
    if damage == "empty":
        path.write_bytes(b"")
    elif damage == "torn":
        path.write_bytes(path.read_bytes()[:2000])
    elif damage == "pickle":
        np.savez(path, **{**parts, "truth": np.array([{"a": 1}], dtype=object)})
    elif damage == "about":
        np.savez(path, **{**parts, "about": np.array("[1, 2]")})
    elif damage == "frames":
        about["clips"][0]["frames"] = 36
        np.savez(path, **{**parts, "about": np.array(json.dumps(about))})
    else:
        np.savez(path, **{**parts, "about": np.array(json.dumps({**about, "known": 37}))})
    with pytest.raises(MotionkitError, match="cannot be read as predictions"):
        Predictions.load(path)
    with pytest.raises(MotionkitError, match="is missing"):
        Predictions.load(tmp_path / "none.npz")
