"""Long runs of predictors: figures with values known in advance, paths, baselines, and what is said of them."""

from __future__ import annotations

import math
from dataclasses import replace
from functools import partial
from typing import Any

import pytest
import torch
from torch import Tensor

from motionkit.metrics import geodesic_degrees, movement
from motionkit.motion import Caption, Clip
from motionkit.rigs import body_yaw
from motionkit.starter import Order, perform
from motionkit.tracking import definition
from motionkit_predictor.continuation import continue_clip
from motionkit_predictor.data.clips import ClipSet, clip_set, cut_windows
from motionkit_predictor.data.files import _motion
from motionkit_predictor.evaluation.baselines import Extrapolation, Matching
from motionkit_predictor.evaluation.data import EvalData
from motionkit_predictor.evaluation.long.measure import DRAWN, LongSettings, looks, measure_long, real_labels
from motionkit_predictor.evaluation.long.result import (
    long_alarms,
    long_document,
    long_metrics,
    long_tables,
    memory_note,
)
from motionkit_predictor.evaluation.measure import Body, Horizons
from motionkit_predictor.evaluation.run import evaluate
from motionkit_predictor.network.features import Statistics
from motionkit_predictor.network.predictor import PredictorNetwork
from motionkit_predictor.policy import MplPredictor
from motionkit_predictor.settings import PredictorSettings
from motionkit_predictor.states import MotionState, follow, motion_of, path_errors

FPS = 30.0
PAST = 25
SHORT = LongSettings("test", (2.0, 5.0), clips=0, starts=2)


class Follower:
    """Holds a pose and takes each step of the command; without one it stands."""

    past = 2

    def __init__(self, clips: ClipSet) -> None:
        self.names, self.fps = clips.names, clips.fps

    def predict(self, known: MotionState, frames: int, *, command: Tensor | None = None) -> MotionState:
        last = known.part(known.frames - 1).map(lambda values: values.expand(-1, frames, *values.shape[2:]))
        steps = torch.zeros_like(last.steps) if command is None else command[:, :frames]
        return replace(last, steps=steps)


class Still(Follower):
    """Is told the path and stays where it is."""

    def predict(self, known: MotionState, frames: int, *, command: Tensor | None = None) -> MotionState:
        return super().predict(known, frames)


class Oracle(Follower):
    """Knows the clips: goes on as the one whose frame it was given did, and then stands in its last frame."""

    def __init__(self, clips: ClipSet) -> None:
        super().__init__(clips)
        self._clips = clips.clips

    def predict(self, known: MotionState, frames: int, *, command: Tensor | None = None) -> MotionState:
        made = []
        for row in range(len(known.heights)):
            last = known.rotations[row, -1]
            clip, now = next(
                (one, int(same.nonzero()[0]))
                for one in self._clips
                if (same := (one.state.rotations == last).flatten(1).all(1)).any()
            )
            rest = clip.state.part(now + 1, now + 1 + frames)
            more = frames - rest.frames
            still = rest.part(rest.frames - 1).map(partial(_repeated, more))
            made.append(rest.then(replace(still, steps=torch.zeros_like(still.steps))))
        return MotionState(
            *(
                torch.stack([getattr(one, name) for one in made])
                for name in ("rotations", "steps", "heights", "contacts")
            )
        )


def _repeated(count: int, values: Tensor) -> Tensor:
    return values.expand(count, *values.shape[1:])


def clips_of(*orders: tuple[str, int, str, str]) -> ClipSet:
    """Clips of the starter's movements: name, frames, split and label."""
    made = perform([Order(name, frames, number) for number, (name, frames, _, _) in enumerate(orders)], fps=FPS)
    return clip_set(
        "made",
        [
            (f"{number:02d}", Clip(_motion(one), captions=(Caption(label),) if label else (), split=split))
            for number, (one, (_, _, split, label)) in enumerate(zip(made, orders, strict=True))
        ],
        FPS,
    )


@pytest.fixture(scope="module")
def clips() -> ClipSet:
    return clips_of(
        ("walk/normal", 150, "train", "Walks."), ("walk/normal", 150, "train", "walks"),
        ("wave/right", 150, "train", "waves"), ("walk/normal", 200, "test", "walks"),
        ("walk/normal", 200, "test", "walks"), ("walk/normal", 200, "test", "walks"),
        ("wave/right", 140, "test", "waves"), ("walk/normal", 20, "test", "short"),
    )  # fmt: skip


@pytest.fixture(scope="module")
def followed(clips: ClipSet) -> dict[str, Any]:
    return long_document(measure_long(clips, Follower(clips), SHORT, past=PAST))


def body_of(clips: ClipSet) -> Body:
    return Body.of(clips.names, clips.parents, clips.fps)


def test_a_drawn_circle_is_a_circle_and_faces_along_it() -> None:
    place, yaw = follow(DRAWN["circle-2m"].steps(600, FPS))
    # To the left of the start, which faces +Z, is +X.
    torch.testing.assert_close((place - torch.tensor([2.0, 0.0])).norm(dim=-1), torch.full((600,), 2.0).double())
    assert float(yaw[-1]) == pytest.approx(1.2 * 20 / 2.0)
    ahead = torch.stack([yaw.sin(), yaw.cos()], dim=-1)
    out = (place - torch.tensor([2.0, 0.0])) / 2.0
    assert float((ahead * out).sum(-1).abs().max()) < 1e-9


@pytest.mark.parametrize(("name", "metres"), [("straight-slow", 6.0), ("straight", 12.0), ("straight-fast", 20.0)])
def test_straight_paths_go_as_far_as_their_speed_says(name: str, metres: float) -> None:
    place, yaw = follow(DRAWN[name].steps(300, FPS))
    assert place[-1].tolist() == pytest.approx([0.0, metres])
    assert not yaw.any()


def test_the_other_paths_do_what_they_are_called() -> None:
    steps = DRAWN["stop-and-start"].steps(360, FPS)
    speed = FPS * steps[:, :2].norm(dim=-1)
    assert float(speed[:90].min()) == float(speed[168:260].max()) == pytest.approx(1.2)
    assert not speed[106:164].any()
    place, yaw = follow(DRAWN["turn-on-the-spot"].steps(150, FPS))
    assert not place.any()
    assert float(yaw[89]) == float(yaw[-1]) == pytest.approx(math.pi)
    place, yaw = follow(DRAWN["slalom"].steps(200, FPS))
    assert float(yaw.max()) == pytest.approx(math.radians(45), abs=0.01)
    assert float(yaw.min()) == pytest.approx(-math.radians(45), abs=0.01)
    assert float(FPS * DRAWN["slalom"].steps(200, FPS)[:, :2].norm(dim=-1).mean()) == pytest.approx(1.2, abs=1e-3)


def test_who_takes_every_step_of_a_path_has_no_error_and_slides(followed: dict[str, Any]) -> None:
    own = followed["own"]["rows"]["model"]
    for name in ("path_mean", "path_end", "heading"):
        assert own[name]["end"] == pytest.approx(0.0, abs=1e-9)
        for path in DRAWN:
            assert followed["drawn"]["paths"][path]["rows"]["model"][name]["5"] == pytest.approx(0.0, abs=1e-6)
    for path, speed in (("straight-slow", 0.6), ("straight", 1.2), ("straight-fast", 2.0), ("turn-on-the-spot", 0.0)):
        row = followed["drawn"]["paths"][path]["rows"]["model"]
        assert row["speed"]["5"] == pytest.approx(speed)
        if speed:  # a held pose that is dragged straight on slides as fast as it goes
            assert row["slide"]["5"] == pytest.approx(speed)
        assert row["movement"]["5"] == pytest.approx(0.0, abs=1e-6)
    dragged = followed["drawn"]["mean"]["dragged"]
    assert (dragged["path_mean"]["5"], dragged["path_end"]["5"], dragged["heading"]["5"]) == pytest.approx((0, 0, 0))
    assert dragged["slide"]["5"] > 0.5


def test_who_stays_where_he_is_is_as_far_off_as_the_path_leads(followed: dict[str, Any]) -> None:
    hold = followed["drawn"]["paths"]
    straight = hold["straight"]["rows"]["hold"]
    # 1.2 m/s: 6 m after 5 s; of frames 1 to 150 the mean is (150 + 1) / 2 frames' way.
    assert straight["path_end"]["5"] == pytest.approx(6.0)
    assert straight["path_mean"]["5"] == pytest.approx(1.2 * 151 / 2 / FPS)
    assert straight["heading"]["5"] == pytest.approx(0.0, abs=1e-9)
    circle = hold["circle-2m"]["rows"]["hold"]
    assert circle["path_end"]["5"] == pytest.approx(2 * 2.0 * math.sin(1.2 * 5 / 2.0 / 2), rel=1e-4)
    # 60 degrees a second for 3 s, then 180 for 2 s.
    turn = hold["turn-on-the-spot"]["rows"]["hold"]["heading"]["5"]
    assert turn == pytest.approx((sum(2.0 * frame for frame in range(1, 91)) + 60 * 180.0) / 150)
    assert hold["turn-on-the-spot"]["rows"]["hold"]["path_mean"]["5"] == pytest.approx(0.0)
    free = followed["free"]["rows"]["hold"]
    assert free["movement"] == {"2": pytest.approx(0.0, abs=1e-6), "5": pytest.approx(0.0, abs=1e-6)}
    assert free["speed"] == {"2": 0.0, "5": 0.0}


def test_headings_are_compared_as_directions() -> None:
    turning = torch.zeros(400, 3, dtype=torch.float64)
    turning[:, 2] = math.radians(1.0)
    distance, heading = path_errors(turning, torch.zeros(400, 3, dtype=torch.float64))
    assert not distance.any()
    assert heading[[0, 89, 179, 269, 359]].tolist() == pytest.approx([1.0, 90.0, 180.0, 90.0, 0.0], abs=1e-6)


def test_the_truth_has_its_own_figures(clips: ClipSet) -> None:
    found = long_document(measure_long(clips, Oracle(clips), replace(SHORT, seconds=(2.0, 5.0, 10.0)), past=PAST))
    free = found["free"]["rows"]["model"]
    for name in ("npss", "path_mean", "path_end", "heading"):
        assert free[name]["2"] == pytest.approx(0.0, abs=1e-9)
        assert free[name]["10"] is None, "no clip goes on for so long"
    walks = found["labels"]["walks"]
    assert walks["movement"]["2"] == pytest.approx(1.0, abs=0.1)
    assert walks["speed"]["5"] == pytest.approx(walks["real"]["speed"], rel=0.15)
    assert walks["height"]["2"] == pytest.approx(walks["real"]["height"], abs=0.02)
    assert walks["movement"]["10"] == pytest.approx(0.0, abs=1e-6), "it stands still since the clip ended"
    assert found["own"]["runs"] == 4, "the clip of 20 frames has no path of a second"
    assert found["own"]["rows"]["model"]["path_end"]["end"] == pytest.approx(0.0, abs=1e-9)


def test_met_is_said_of_slide_and_speed_too(clips: ClipSet) -> None:
    """Walks that moved as much as captured ones were met while they slid twice as much and went a third faster."""

    class Hurried(Oracle):
        def predict(self, known: MotionState, frames: int, *, command: Tensor | None = None) -> MotionState:
            made = super().predict(known, frames, command=command)
            return replace(made, steps=made.steps * torch.tensor([1.4, 1.4, 1.0], dtype=made.steps.dtype))

    def word(document: dict[str, Any], takes: int) -> str:
        labels = {**document["labels"], "walks": {**document["labels"]["walks"], "takes": takes}}
        (found,) = [each for each in long_tables({**document, "labels": labels}) if "by label" in each["title"]]
        return str(next(row for row in found["rows"] if row[0] == "walks")[4])

    document = long_document(measure_long(clips, Oracle(clips), SHORT, past=PAST))
    assert document["labels"]["walks"]["missed"]["2"] == []
    assert document["labels"]["waves"]["missed"] is None
    assert (word(document, 20), word(document, 3)) == ("yes", "too few")
    document = long_document(measure_long(clips, Hurried(clips), SHORT, past=PAST))
    walks = document["labels"]["walks"]
    assert walks["movement"]["2"] == pytest.approx(1.0, abs=0.1), "which alone is met"
    assert walks["speed"]["2"] == pytest.approx(1.4 * walks["real"]["speed"], rel=0.15)
    assert walks["missed"]["2"] == ["slide", "speed"]
    assert (word(document, 20), word(document, 3)) == ("no: slide, speed", "too few")


def test_labels_with_few_clips_are_reported_and_held_to_nothing(followed: dict[str, Any]) -> None:
    labels = followed["labels"]
    assert {label: (one["clips"], one["goal"]) for label, one in labels.items()} == {
        "walks": (3, True), "waves": (1, False), "short": (1, False),
    }  # fmt: skip
    assert [one["wanted"] for one in labels.values()] == [[0.85, 1.2], None, None]
    assert labels["walks"]["real"]["clips"] == 5, "clips of all splits, whatever the capitals and the full stop"
    assert labels["short"]["real"]["clips"] == 0, "20 frames are too short to move"
    assert labels["short"]["movement"]["2"] is None


def test_movement_is_the_one_of_the_metrics_in_the_world(clips: ClipSet) -> None:
    clip = clips.clips[3]
    part = clip.state.part(30, 90)
    motion = motion_of(part, names=clips.names, parents=clips.parents, offsets=clip.offsets, fps=FPS)
    yaw = body_yaw(motion, motion.positions())
    assert yaw is not None
    expected = movement(motion.positions()[None], yaw[None], torch.tensor([60]), FPS)
    found = looks(part.map(lambda values: values[None].double()), clip.offsets[None], body_of(clips))
    torch.testing.assert_close(found.movement, expected, atol=1e-6, rtol=1e-6)
    assert float(found.height) == pytest.approx(float(motion.positions()[:, 0, 1].mean()))
    walked = motion.positions()[:, 0, ::2].diff(dim=0).norm(dim=-1).mean() * FPS
    assert float(found.speed) == pytest.approx(float(walked), rel=0.02)


def test_real_clips_of_a_label_are_measured_in_stretches(clips: ClipSet) -> None:
    wave = real_labels(clips, ["waves"], body_of(clips))["waves"]
    assert wave.clips == 2
    assert clips.names[wave.joint] == "right_wrist"
    assert 0.03 < wave.movement < 0.5
    assert wave.speed < 0.1
    walk = real_labels(clips, ["walks"], body_of(clips))["walks"]
    assert walk.speed > 0.5
    assert walk.slide < 0.1
    assert real_labels(clips, ["nobody"], body_of(clips))["nobody"].clips == 0


def test_motion_matching_plays_a_clip_that_it_knows(clips: ClipSet) -> None:
    train = list(clips.split("train"))
    matching = Matching(clips.names, FPS, train)
    clip = train[0]
    start = 32 - 1  # every second frame from the second on can be jumped to
    known = clip.state.part(start - PAST + 1, start + 1).map(lambda values: values[None])
    found = matching.predict(known, 9)  # until it searches again
    torch.testing.assert_close(found.rotations[0], clip.state.part(start + 1, start + 10).rotations)
    torch.testing.assert_close(found.steps[0], clip.state.part(start + 1, start + 10).steps)
    again = matching.predict(known, 300)
    assert again.frames == 300, "longer than any clip"
    torch.testing.assert_close(again.part(0, 9).rotations, found.rotations)


def test_motion_matching_does_not_jump(clips: ClipSet) -> None:
    """At a search the pose goes on from where it is, although the frames that follow are of another clip."""
    matching = Matching(clips.names, FPS, list(clips.split("train")))
    wave = clips.clips[6].state.part(0, PAST).map(lambda values: values[None])
    path = DRAWN["straight"].steps(90, FPS)[None]
    found = matching.predict(wave, 90, command=path)
    whole = wave.then(found)
    turned = geodesic_degrees(whole.rotations[0, PAST:], whole.rotations[0, PAST - 1 : -1])
    assert float(turned.max()) < 40.0
    assert float(path_errors(found.steps, path)[0][0, -1]) < 1.0, "it has begun to walk"


def test_motion_matching_follows_a_path_and_nothing_drags_it() -> None:
    clips = clips_of(
        *(("walk/normal", 150, "train", "walks") for _ in range(4)),
        *(("walk/normal", 150, "test", "walks") for _ in range(2)),
    )
    found = long_document(measure_long(clips, None, SHORT, past=PAST))
    rows = found["drawn"]["paths"]["straight"]["rows"]
    assert "model" not in rows
    assert rows["matching"]["path_mean"]["5"] < rows["hold"]["path_mean"]["5"] / 3
    assert rows["matching"]["movement"]["5"] > 0.7
    assert rows["matching"]["slide"]["5"] < rows["dragged"]["slide"]["5"] / 2
    assert long_alarms(found) == [], "nothing is said without a model"


def test_memory_of_the_model_and_of_motion_matching_by_hand(clips: ClipSet) -> None:
    settings = PredictorSettings(width=16, layers=1, window=1, head="delta", command="none")
    network = PredictorNetwork(settings, 22, FPS, Statistics.neutral(22))
    offsets = clips.clips[0].offsets
    model = MplPredictor(settings, network, names=clips.names, parents=clips.parents, offsets=offsets)
    found = long_document(measure_long(clips, model, LongSettings("test", (0.2,), clips=1, starts=1), past=PAST))
    # Three training clips of 150 frames; it can jump to every second frame that has 0.9 s after it.
    frames, jumps = 3 * 150, 3 * len(range(1, 150 - 27, 2))
    kept = 4 * (frames * (22 * 6 + 3 + 1 + 2) + jumps * (22 * 6 + 22 * 6 + 1 + 3 * 4))
    weights = 4 * sum(one.numel() for one in network.state_dict().values())
    assert found["memory"] == {"model": weights, "matching": kept}
    assert memory_note(found) == (
        f"memory in float32: the model's weights {weights / 1e6:.1f} MB, motion matching of long runs "
        f"{kept / 1e6:.1f} MB."
    )
    assert memory_note({"memory": {}}) == ""


def test_without_training_clips_there_is_no_matching() -> None:
    clips = clips_of(("walk/normal", 90, "test", ""))
    found = long_document(measure_long(clips, None, SHORT, past=PAST))
    assert list(found["free"]["rows"]) == ["hold"]
    assert list(found["drawn"]["mean"]) == ["hold", "dragged"]
    assert list(found["labels"]) == [""], "clips without a caption are one label"


def test_one_that_cannot_be_steered_and_stands_is_said_to(clips: ClipSet, followed: dict[str, Any]) -> None:
    (died,) = [text for text in followed["alarms"] if "dies out" in text]
    assert "after 2 s it moves 0.00" in died
    assert not [text for text in followed["alarms"] if "not followed" in text]

    found = evaluate(
        _data(clips), Still(clips), Horizons.at([100], FPS), long=SHORT
    )  # fmt: skip
    (missed,) = [text for text in found["closing"] if "not followed" in text]
    assert missed.startswith("7 of 8 drawn paths"), "who stands is where a turn on the spot leads"
    assert "straight, 2 m/s" in missed
    assert found["closing"][-1].startswith("a baseline is at least as good")
    titles = [table["title"] for table in found["table"]]
    assert "5 free runs" in titles[2]
    assert "by label" in titles[3]
    assert "2 starts a path" in titles[4]
    assert evaluate(_data(clips), Still(clips), Horizons.at([100], FPS))["long"] is None


def test_a_clip_continued_along_a_path_carries_it_where_its_root_should_be(clips: ClipSet) -> None:
    clip = clips.clips[3]
    path = DRAWN["circle-2m"].steps(60, FPS)
    found = continue_clip(Follower(clips), clips, clip, start=10, known=PAST, frames=90, path=path)
    assert found.path is not None
    assert found.path.seconds == 2.0, "the path is not asked for beyond its end"
    assert found.path[:3] == pytest.approx((0.0, 0.0, 0.0), abs=1e-6)
    wanted = found.predicted.tracks["path"]
    torch.testing.assert_close(wanted, found.predicted.translations[:, 0, ::2])
    still = continue_clip(Extrapolation(clips.names, FPS, keep=0.0), clips, clip, start=10, known=PAST, frames=60)
    assert still.path is None
    assert "path" not in still.predicted.tracks
    off = continue_clip(Still(clips), clips, clip, start=10, known=PAST, frames=60, path=path)
    assert off.path is not None
    assert off.path.end == pytest.approx(2 * 2.0 * math.sin(1.2 * 2 / 2.0 / 2), rel=1e-4)
    assert off.path.heading == pytest.approx(math.degrees(1.2 / 2.0) * 61 / 2 / FPS)
    torch.testing.assert_close(off.predicted.tracks["path"], wanted[: PAST + 60])


def _data(clips: ClipSet) -> EvalData:
    return EvalData(clips, cut_windows(clips.split("test"), past=PAST, future=3, stride=50), None, ())


def test_a_false_slide_is_an_alarm_and_a_real_one_is_none(followed: dict[str, Any]) -> None:
    free = followed["free"]
    for slide, real, count in ((0.5, 0.1, 1), (0.5, 0.3, 0), (0.04, 0.0, 0), (0.2, 0.0, 1)):
        row = {**free["rows"]["model"], "slide": {"2": slide, "5": slide}, "movement": {"2": 1.0, "5": 1.0}}
        document = {
            **followed, "free": {**free, "rows": {"model": row}, "real": {**free["real"], "slide": real}},
        }  # fmt: skip
        assert len(long_alarms(document)) == count, (slide, real)


def test_figures_are_defined_and_shown(followed: dict[str, Any]) -> None:
    metrics = long_metrics(followed)
    assert {name.split("/")[2] for name in metrics} == {
        "movement", "npss", "slide", "speed", "height", "path_mean", "path_end", "heading",
    }  # fmt: skip
    for name in metrics:
        assert definition(name).name.startswith("mpl/long/")
    assert metrics["mpl/long/path_mean/5"] == pytest.approx(0.0, abs=1e-6)
    free, _, along = long_tables(followed)
    assert free["rows"][-1][0] == "reference clips"
    assert [len(row) for row in (*free["rows"], *along["rows"])] == [7] * (len(free["rows"]) + len(along["rows"]))
    assert along["rows"][0][:4] == ("own path (n = 4): model", "0.00", "0.00", "0")


def test_free_runs_are_shown_by_label_beside_what_is_wanted(followed: dict[str, Any]) -> None:
    real = {"clips": 5, "movement": 0.1, "slide": 0.2, "speed": 1.1, "height": 0.9}

    def label(clips: int, wanted: list[float] | None, movement: float | None, slide: float) -> dict[str, Any]:
        figures = {"movement": {"5": movement}, "slide": {"5": slide}, "speed": {"5": 1.0}}
        group = {"clips": clips, "takes": clips, "goal": wanted is not None, "wanted": wanted, "real": real, **figures}
        return {**group, "takes": 19} if clips == 30 else group

    document = {
        **followed,
        "labels": {
            "walks": label(20, [0.85, 1.2], 0.84, 0.25), "": label(21, [0.7, 1.3], 0.84, 0.25),
            "runs": label(3, [0.85, 1.2], 0.84, 0.25), "pieces": label(30, [0.85, 1.2], 0.84, 0.25),
            "a": label(2, None, 0.5, 0.1), "b": label(1, None, None, 0.4),
        },
    }  # fmt: skip
    found = long_tables(document)[1]
    rest = ["0.25", "0.20", "1.00", "1.10"]
    assert (
        [list(row) for row in found["rows"]]
        == [
            ["walks", "20", "0.84", "0.85 to 1.2", "no: movement", *rest],
            ["without a caption", "21", "0.84", "0.7 to 1.3", "yes", *rest],
            ["runs", "3", "0.84", "0.85 to 1.2", "too few", *rest],
            ["pieces", "30", "0.84", "0.85 to 1.2", "too few", *rest],  # of 19 takes
            ["2 with fewer than 3 clips", "3", "0.50", "", "", "0.20", *rest[1:]],
        ]
    )
    few = {**document, "labels": {"a": label(2, None, 0.5, 0.1)}}
    assert len(long_tables(few)) == 2, "nothing is wanted of labels with few clips"
