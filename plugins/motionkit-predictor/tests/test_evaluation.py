"""`eval mpl`: perfect predictions, horizons, leaks, baselines, and the figures of public data."""

from __future__ import annotations

import csv
import math
from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path

import pytest
import roma
import torch

import motionkit
from motionkit.errors import MotionkitError
from motionkit.geometry import matrix_to_6d
from motionkit.motion import Clip, Motion
from motionkit.rigs import body_yaw
from motionkit.starter import Order, perform
from motionkit.tracking import definition
from motionkit_predictor.data.clips import ClipSet, Windows, clip_set, cut_windows
from motionkit_predictor.data.files import _motion
from motionkit_predictor.evaluation.baselines import PENALTY, Extrapolation, Nearest, Ridge
from motionkit_predictor.evaluation.data import EvalData, require_fit
from motionkit_predictor.evaluation.measure import Body, Horizons, Measured, fit_baselines, measure, measure_row
from motionkit_predictor.evaluation.run import evaluate, verdict
from motionkit_predictor.states import MotionState

HORIZONS = Horizons.at([100, 200, 400], 30.0)
NAMES = ("walk/normal", "wave/right", "jump/forward", "run/normal", "sneak/forward", "limp/left")


class Oracle:
    """Knows the truth: finds the known frames in the clips and returns what follows there."""

    past = 2

    def __init__(self, data: EvalData) -> None:
        self.names, self.fps = data.clips.names, data.clips.fps
        self._frames = data.windows.frames

    def predict(self, known: MotionState, frames: int, *, command: torch.Tensor | None = None) -> MotionState:
        keys, asked = self._frames.rotations.flatten(1), known.rotations[:, -1].flatten(1)
        starts = torch.stack([(keys == one).all(1).nonzero()[-1, 0] for one in asked])
        rows = (starts[:, None] + torch.arange(1, frames + 1)).clamp_max(len(keys) - 1)
        return self._frames.map(lambda values: values[rows])


def orders(names: Sequence[str], frames: int, first: int) -> list[tuple[str, Motion]]:
    made = perform([Order(name, frames, first + number) for number, name in enumerate(names)], fps=30.0)
    return [(f"{name.replace('/', '-')}-{first}", _motion(one)) for name, one in zip(names, made, strict=True)]


@pytest.fixture(scope="module")
def data() -> EvalData:
    train = [(key, Clip(motion, split="train")) for key, motion in orders(NAMES, 60, 0)]
    test = [(key, Clip(motion, split="test")) for key, motion in orders(NAMES, 50, 50)]
    short = ("short", Clip(orders(NAMES[:1], 50, 90)[0][1].cut(0, 31), split="test"))
    return cut(clip_set("made", [*train, *test, short], 30.0))


def cut(clips: ClipSet) -> EvalData:
    windows = cut_windows(clips.split("test"), past=25, future=12, stride=5)
    train = cut_windows(clips.split("train"), past=25, future=12, stride=2)
    return EvalData(clips, windows, train, ())


def body_of(data: EvalData) -> Body:
    return Body.of(data.clips.names, data.clips.parents, data.clips.fps)


@pytest.mark.parametrize("command", [False, True])
def test_a_perfect_predictor_has_no_error_anywhere(data: EvalData, command: bool) -> None:
    found = evaluate(data, Oracle(data), HORIZONS, command=command)
    model, last = found["rows"]["model"], "400"
    for figure, values in model.items():
        for key, value in values.items():
            if figure == "free_teacher_ratio":
                assert value is None  # nothing by nothing
            elif figure in ("contact_f1", "contact_auroc", "jerk_ratio", "skill"):
                assert value == pytest.approx(1.0, abs=1e-6), (figure, key)
            elif figure == "skate":
                assert value == pytest.approx(found["truth"]["skate"][key], abs=1e-9)
            else:
                assert value == pytest.approx(0.0, abs=1e-6), (figure, key)
    assert "every baseline at every horizon" in found["closing"][-1]
    assert found["rows"]["hold"]["geo_deg"][last] > 1.0
    assert found["rows"]["hold"]["skill"][last] == 0.0


def test_every_figure_is_defined_and_has_an_interval_around_it(data: EvalData) -> None:
    found = evaluate(data, None, HORIZONS)
    assert list(found["rows"]) == ["hold", "velocity", "damped", "ridge", "nearest"]
    for row, figures in found["rows"].items():
        for figure, values in figures.items():
            assert definition(f"mpl/{figure}").name.startswith("mpl/")
            assert list(values) == ["100", "200", "400"]
        for key, value in figures["geo_deg"].items():
            low, high = found["ci95"][row]["geo_deg"][key]
            assert low < value < high
    best = found["best_baseline"]["400"]
    assert found["free_teacher_ratio"] == found["rows"][best]["free_teacher_ratio"]["400"]
    free, teacher = (found["rows"]["ridge"][name]["400"] for name in ("geo_deg", "teacher_geo_deg"))
    assert found["rows"]["ridge"]["free_teacher_ratio"]["400"] == pytest.approx(free / teacher)


def turning(degrees: float, frames: int = 60) -> Motion:
    """A body that walks on along a circle and bends one knee at a constant rate."""
    motion = orders(("walk/normal",), 2, 0)[0][1]
    still = motion.rotations[:1].repeat(frames, 1, 1, 1)
    angles = torch.deg2rad(torch.arange(frames, dtype=torch.float64) * degrees)
    still[:, 4] = roma.rotvec_to_rotmat(torch.stack([angles, 0 * angles, 0 * angles], dim=-1))
    turn = torch.deg2rad(torch.arange(frames, dtype=torch.float64) * 2.0)
    yaw = roma.rotvec_to_rotmat(torch.stack([0 * turn, turn, 0 * turn], dim=-1))
    still[:, 0] = yaw @ still[:, 0]
    moved = motion.translations[:1].repeat(frames, 1, 1)
    moved[:, 0, 0], moved[:, 0, 2] = 1.0 - turn.cos(), turn.sin()
    contacts = torch.zeros(frames, 2, dtype=torch.float64)
    contacts[::2] = 1.0
    return replace(motion, rotations=still, translations=moved, tracks={"contacts": contacts})


def test_the_skill_on_a_periodic_clip_is_bounded_and_orders_by_the_error() -> None:
    """After a cycle the pose that was held is exact; divided by its error, skills were -1e14 and chose weights."""
    clips = clip_set("cycle", [("cycle", Clip(turning(12.0, 120), split="test"))], 30.0)
    windows = cut_windows(clips.split("test"), past=25, future=30, stride=5)
    horizons, body = Horizons.at([400, 1000], 30.0), Body.of(clips.names, clips.parents, clips.fps)
    keeps = {"hold": 0.0, "near": 0.3, "far": 0.8}
    rows = {
        name: measure_row(Extrapolation(clips.names, clips.fps, keep=keep), windows, body, horizons)
        for name, keep in keeps.items()
    }
    found = measure(rows, torch.zeros(1, dtype=torch.int64), horizons).values
    still = found["hold"]["geo_deg"]
    assert float(still[1]) == pytest.approx(0.0, abs=1e-6)
    assert float(still[0]) > 1.0
    for name in ("near", "far"):
        error = found[name]["geo_deg"]
        assert float(found[name]["skill"][1]) == pytest.approx(1 - float(error[1]) / 0.5)
        assert float(found[name]["skill"][0]) == pytest.approx(1 - float(error[0] / still[0]))
    assert -100 < float(found["far"]["skill"][1]) < float(found["near"]["skill"][1]) < 1


def test_a_horizon_is_that_many_frames_after_the_last_known_one() -> None:
    clips = clip_set("knee", [("a", Clip(turning(3.0), split="test"))], 30.0)
    windows = cut_windows(clips.clips, past=25, future=12, stride=5)
    data = EvalData(clips, windows, None, ())
    rows = {
        name: measure_row(one, windows, body_of(data), HORIZONS) for name, one in fit_baselines(clips, None).items()
    }
    found = measure(rows, windows.takes, HORIZONS).values
    joints = len(clips.names) - 1
    for place, frames in enumerate((3, 6, 12)):
        hold = found["hold"]
        # One joint of 21 is 3 degrees a frame off; the heading 2 degrees a frame.
        assert float(hold["geo_deg"][place]) == pytest.approx(3.0 * frames / joints)
        assert float(hold["key_bone/left_knee/geo_deg"][place]) == pytest.approx(3.0 * frames)
        assert float(hold["yaw_abs_deg"][place]) == pytest.approx(2.0 * frames)
        assert float(hold["teacher_geo_deg"][place]) == pytest.approx(3.0 / joints)
        assert float(hold["free_teacher_ratio"][place]) == pytest.approx(frames)
        assert float(hold["input_rot_geo_deg"][place]) == pytest.approx(3.0 * frames / 2 / (joints + 1))
        assert float(found["velocity"]["yaw_abs_deg"][place]) == pytest.approx(0.0, abs=1e-6)
        assert float(found["velocity"]["root_vel_mae"][place]) == pytest.approx(0.0, abs=1e-9)
        # Feet stand in every second frame; three of five windows hold a standing foot, two a lifted one.
        f1 = {3: 2 * 3 / (9 + 7), 6: 2 * 9 / (18 + 15), 12: 2 * 18 / (36 + 30)}[frames]
        assert float(hold["contact_f1"][place]) == pytest.approx(f1)
    # Of 7 standing and 8 lifted feet: 3 x 2 pairs in order, 3 x 6 and 4 x 2 equal.
    assert float(hold["contact_auroc"][0]) == pytest.approx((6 + (18 + 8) / 2) / (7 * 8))
    # A chord of the circle a frame, half a step to the side of where the body faces, which is not quite +Z at first.
    speed = 30 * 2 * math.sin(math.radians(1.0))
    faces = body_yaw(turning(3.0))
    assert faces is not None
    side = math.radians(1.0) - float(faces[0])
    assert float(hold["root_vel_mae"][0]) == pytest.approx(speed * (math.cos(side) + abs(math.sin(side))) / 2)


def test_times_that_are_no_frame_are_refused() -> None:
    assert Horizons.at([80, 160, 320, 400, 560, 1000], 25.0).frames == (2, 4, 8, 10, 14, 25)
    assert Horizons.at([33.3333, 100], 30.0) == Horizons(("33.3333", "100"), (1, 3))
    for milliseconds, fps in (([80], 30.0), ([10], 30.0)):
        with pytest.raises(MotionkitError, match="not a frame") as raised:
            Horizons.at(milliseconds, fps)
        assert raised.value.code == 2
    assert "66.6667 and 100 ms" in _why(lambda: Horizons.at([80], 30.0))


def _why(call: Callable[[], object]) -> str:
    with pytest.raises(MotionkitError) as raised:
        call()
    return raised.value.why


@pytest.mark.parametrize("command", [False, True])
def test_no_free_run_changes_when_the_future_does(data: EvalData, command: bool) -> None:
    predictors = fit_baselines(data.clips, data.train, command=command)
    index = torch.arange(len(data.windows))
    windows = data.windows
    path = windows.following(index).steps if command else None
    known = windows.known(index)
    marks = torch.zeros(len(windows.frames.heights), dtype=torch.bool)
    seen = windows.starts[index, None] + torch.arange(windows.past)
    chosen = int(index[-1])
    marks[seen[chosen]] = True
    other = spoiled(windows, ~marks)
    for name, predictor in predictors.items():
        before = predictor.predict(known, 12, command=path)
        spoiled_known = other.known(index[-1:])
        own = None if path is None else path[-1:]
        after = predictor.predict(spoiled_known, 12, command=own)
        torch.testing.assert_close(after.rotations[0], before.rotations[chosen], msg=name)
        torch.testing.assert_close(after.steps[0], before.steps[chosen], msg=name)
        torch.testing.assert_close(after.contacts[0], before.contacts[chosen], msg=name)
        # The control: what is known does change it.
        changed = predictor.predict(
            spoiled(windows, marks).known(index[-1:]), 12, command=None if path is None else path[-1:]
        )
        assert not torch.allclose(changed.rotations[0], before.rotations[chosen]), name


def spoiled(windows: Windows, where: torch.Tensor) -> Windows:
    """Turn every joint, and move the root, in the frames of a mask."""
    turn = roma.random_rotmat(1, dtype=torch.float64)[0]

    def change(values: torch.Tensor, new: torch.Tensor) -> torch.Tensor:
        return torch.where(where.view(-1, *[1] * (values.ndim - 1)), new, values)

    frames = windows.frames
    return replace(
        windows,
        frames=MotionState(
            change(frames.rotations, turn @ frames.rotations), change(frames.steps, frames.steps + 0.3),
            change(frames.heights, frames.heights - 0.2), change(frames.contacts, 1.0 - frames.contacts),
        ),
    )  # fmt: skip


def test_the_harness_gives_predictors_nothing_but_the_known_frames(data: EvalData) -> None:
    asked: list[tuple[MotionState, int, torch.Tensor | None]] = []

    class Spy(Extrapolation):
        def predict(self, known, frames, *, command=None):
            asked.append((known, frames, command))
            return super().predict(known, frames, command=command)

    spy = Spy(data.clips.names, 30.0, keep=0.0)
    measure_row(spy, data.windows, body_of(data), HORIZONS)
    free, *teacher = asked
    index = torch.arange(len(data.windows))
    assert torch.equal(free[0].rotations, data.windows.known(index).rotations)
    assert free[1:] == (12, None)
    for (known, frames, command), shift in zip(teacher, (2, 5, 11), strict=True):
        assert (frames, command) == (1, None)
        assert torch.equal(known.steps, data.windows.known(index, shift=shift).steps)


def test_a_commanded_path_is_followed_by_every_baseline(data: EvalData) -> None:
    found = evaluate(data, None, HORIZONS, command=True)
    for row, figures in found["rows"].items():
        assert figures["yaw_abs_deg"]["400"] == pytest.approx(0.0, abs=1e-6), row
        assert figures["root_vel_mae"]["400"] == pytest.approx(0.0, abs=1e-6), row
    assert data.train is not None
    known = data.windows.known(torch.tensor([0]))
    path = data.windows.following(torch.tensor([0])).steps
    for kind in (Ridge, Nearest):  # these read the path for the joints as well
        predictor = kind(data.clips.names, 30.0, data.train, command=True)
        near, far = (predictor.predict(known, 12, command=scale * path) for scale in (1.0, 50.0))
        assert not torch.allclose(near.rotations, far.rotations)
        plain = kind(data.clips.names, 30.0, data.train)
        assert torch.equal(*(plain.predict(known, 12, command=scale * path).rotations for scale in (1.0, 50.0)))


def test_damped_speed_dies_away_by_a_fifth_a_frame(data: EvalData) -> None:
    known = data.windows.known(torch.tensor([0]))
    damped = Extrapolation(data.clips.names, 30.0, keep=0.8).predict(known, 3)
    speed = known.heights[0, -1] - known.heights[0, -2]
    ways = torch.tensor([0.8, 0.8 + 0.64, 0.8 + 0.64 + 0.512], dtype=torch.float64)
    torch.testing.assert_close(damped.heights[0], known.heights[0, -1] + ways * speed)
    torch.testing.assert_close(damped.steps[0, 2], 0.512 * known.steps[0, -1])
    held = Extrapolation(data.clips.names, 30.0, keep=0.0).predict(known, 3)
    torch.testing.assert_close(held.rotations[0, 2], known.rotations[0, -1])


def test_ridge_is_the_least_squares_solution_with_rows_for_the_penalty(data: EvalData) -> None:
    assert data.train is not None
    ridge = Ridge(data.clips.names, 30.0, data.train)
    index = data.train.whole()
    known, truth = data.train.known(index), data.train.following(index)
    six = matrix_to_6d(known.rotations[:, -10:, 1:]).flatten(2)
    inputs = torch.cat([(six[:, :9] - six[:, 9:]).flatten(1), six[:, 9]], dim=1)
    targets = matrix_to_6d(truth.rotations[:, 5, 1:]).flatten(1) - six[:, 9]
    penalty = math.sqrt(PENALTY) * torch.eye(inputs.shape[1], dtype=torch.float64)
    left = torch.cat([inputs - inputs.mean(0), penalty])
    right = torch.cat([targets - targets.mean(0), torch.zeros(len(penalty), targets.shape[1], dtype=torch.float64)])
    slow = torch.linalg.lstsq(left, right).solution
    asked = data.windows.known(torch.tensor([2]))
    now = matrix_to_6d(asked.rotations[:, -10:, 1:]).flatten(2)
    x = torch.cat([(now[:, :9] - now[:, 9:]).flatten(1), now[:, 9]], dim=1)
    expected = (x - inputs.mean(0)) @ slow + targets.mean(0) + now[:, 9]
    raw = ridge._of_pose.at(ridge._inputs(asked, None)[0], 12)[:, 5] + now[:, 9]
    torch.testing.assert_close(raw, expected, atol=1e-8, rtol=1e-6)
    assert ridge.predict(asked, 12).contacts.amax() <= 1.0


def test_motion_matching_finds_a_moment_that_it_knows(data: EvalData) -> None:
    assert data.train is not None
    nearest = Nearest(data.clips.names, 30.0, data.train)
    index = torch.tensor([3, 7])
    found, truth = nearest.predict(data.train.known(index), 12), data.train.following(index)
    torch.testing.assert_close(found.rotations, truth.rotations)
    torch.testing.assert_close(found.steps, truth.steps)
    torch.testing.assert_close(found.heights, truth.heights)


def test_without_training_clips_there_is_no_fitted_baseline(data: EvalData) -> None:
    assert list(fit_baselines(data.clips, None)) == ["hold", "velocity", "damped"]


def test_a_short_clip_counts_only_as_far_as_it_goes(data: EvalData) -> None:
    row = measure_row(Extrapolation(data.clips.names, 30.0, keep=0.0), data.windows, body_of(data), HORIZONS)
    short = data.windows.short.index("short")
    assert short == 0
    clip = len(data.windows.offsets) - 1
    assert [float(value) for value in row.sums["geo_deg"][1][clip]] == [1.0, 1.0, 0.0]
    assert float(row.sums["npss"][1][clip, 2]) == 0.0


class Broken(Extrapolation):
    def predict(self, known, frames, *, command=None):
        return super().predict(known, frames).map(lambda values: values * torch.nan)


class Long(Extrapolation):
    def predict(self, known, frames, *, command=None):
        return super().predict(known, frames + 1)


def test_predictors_that_do_not_fit_or_return_nonsense_are_named(data: EvalData) -> None:
    for change, word in (({"names": ("Hips", *data.clips.names[1:])}, "skeleton"), ({"past": 50}, "50 frames")):
        oracle = Oracle(data)
        vars(oracle).update(change)
        with pytest.raises(MotionkitError, match=word):
            require_fit(oracle, data.clips, 25)
    for kind, word in ((Broken, "not finite"), (Long, "12 frames")):
        with pytest.raises(MotionkitError, match=word) as raised:
            evaluate(data, kind(data.clips.names, 30.0, keep=0.0), HORIZONS)
        assert raised.value.code == 1


def test_hold_and_ridge_have_the_recorded_errors_on_cmu(shared: Path) -> None:
    folder = shared / "data/cmu"
    with (folder / "index.csv").open() as file:
        rows = [row for row in csv.DictReader(file) if row["skeleton"] == "cmu_asf24" and row["split"] != "val"]
    read = [(row["clip"], replace(motionkit.read(folder / row["file"]), split=row["split"])) for row in rows]
    clips = clip_set("cmu_asf24", read, 30.0)
    windows = cut_windows(clips.split("test"), past=25, future=30, stride=5)
    train = cut_windows(clips.split("train"), past=25, future=30, stride=2)
    horizons = Horizons.at([100, 200, 400, 1000], 30.0)
    data = EvalData(clips, windows, train, ())
    own = clips.names, clips.fps
    recorded = {
        "hold": (Extrapolation(*own, keep=0.0), (4.09, 6.76, 9.29, 9.21), (28.2, 50.4, 77.6, 63.6)),
        "ridge": (Ridge(*own, train), (3.23, 5.37, 7.24, 8.63), (17.2, 30.7, 45.4, 56.6)),
    }
    found = {name: measure_row(one, windows, body_of(data), horizons) for name, (one, _, _) in recorded.items()}
    values = measure(found, windows.takes, horizons).values
    for name, (_, degrees, millimetres) in recorded.items():
        assert values[name]["geo_deg"].tolist() == pytest.approx(degrees, abs=0.05)
        assert values[name]["mpjpe_mm"].tolist() == pytest.approx(millimetres, abs=0.4)


def test_joints_in_another_order_are_the_same_motion(data: EvalData) -> None:
    clips = data.clips
    names = tuple(reversed(clips.names[1:]))
    other = clips.in_order((clips.names[0], *names))
    assert sorted(other.names) == sorted(clips.names)
    for joint, parent in enumerate(other.parents):
        old = clips.names.index(other.names[joint])
        assert parent < 0 or other.names[parent] == clips.names[clips.parents[old]]
        assert torch.equal(other.clips[0].state.rotations[:, joint], clips.clips[0].state.rotations[:, old])
        assert torch.equal(other.clips[0].offsets[joint], clips.clips[0].offsets[old])
    assert clips.in_order(("a", "b")) is clips


@pytest.mark.parametrize(
    ("takes", "mine", "spread", "said"),
    [
        (20, 1.0, 0.1, "the model has a smaller GeoDeg than every baseline at every horizon."),
        (20, 2.1, 0.05, "a baseline is at least as good as the model: hold at 100 ms (2.00 against 2.10 degrees)."),
        (20, 1.9, 3.0, "the model is no better than a baseline beyond chance: hold at 100 ms (2.00 against 1.90 "
         "degrees)."),
        (20, 1.999, 0.0005, "the model is no better than a baseline beyond chance: hold at 100 ms (2.00 against 2.00 "
         "degrees)."),
        (19, 1.0, 0.1, "the model has a smaller GeoDeg than every baseline at every horizon. 19 takes are too few to "
         "be sure."),
    ],
)  # fmt: skip
def test_the_verdict_on_baselines_follows_the_interval_and_the_number_of_takes(
    takes: int, mine: float, spread: float, said: str
) -> None:
    values = {"model": {"geo_deg": torch.tensor([mine])}, "hold": {"geo_deg": torch.tensor([2.0])}}
    apart = {"hold": torch.tensor([[mine - 2.0 - spread], [mine - 2.0 + spread]], dtype=torch.float64)}
    measured = Measured(values, {}, Horizons(("100",), (3,)), takes, apart)
    assert verdict(measured) == said


def test_intervals_are_over_takes_and_hold_their_figure() -> None:
    """Ten pieces of one take are one item: one clip of another take beside them is half of the sample."""
    pieces = [(f"a{n}", Clip(turning(3.0 + n), split="test", group="a0")) for n in range(3)]
    clips = clip_set("knee", [*pieces, ("b", Clip(turning(12.0), split="test"))], 30.0)
    windows = cut_windows(clips.clips, past=25, future=12, stride=5)
    body = body_of(EvalData(clips, windows, None, ()))
    rows = {name: measure_row(one, windows, body, HORIZONS) for name, one in fit_baselines(clips, None).items()}
    rows["model"] = rows["velocity"]
    found = measure(rows, windows.takes, HORIZONS)
    assert found.takes == 2
    low, high = found.intervals["hold"]["geo_deg"]
    hold = fit_baselines(clips, None)["hold"]
    parts = (cut_windows(part, past=25, future=12, stride=5) for part in (clips.clips[:3], clips.clips[3:]))
    alone = [measure_row(hold, part, body, HORIZONS) for part in parts]
    ends = [row.figures(torch.ones(1, len(row.sums["geo_deg"][0])))["geo_deg"][0] for row in alone]
    assert torch.allclose(low, ends[0]), "the take of three pieces is drawn as a whole"
    assert torch.allclose(high, ends[1])
    assert torch.allclose(found.apart["velocity"], torch.zeros(2, 3, dtype=torch.float64))
    assert measure(rows, torch.zeros(4, dtype=torch.int64), HORIZONS).intervals == {}
