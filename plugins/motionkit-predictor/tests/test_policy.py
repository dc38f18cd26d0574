"""The motion predictor's network, roll-outs, command, and folder."""

from __future__ import annotations

import math
from dataclasses import replace
from pathlib import Path

import pytest
import torch
from torch import Tensor

from motionkit.errors import MotionkitError
from motionkit.geometry import matrix_from_6d, matrix_to_6d
from motionkit_predictor.data.clips import ClipSet
from motionkit_predictor.data.files import starter_clip_set
from motionkit_predictor.encoder.network import EncoderSizes, MotionEncoder, Scales
from motionkit_predictor.export import runtime
from motionkit_predictor.export.runtime import Predictor
from motionkit_predictor.network.features import Course, Statistics, reading, reading_width
from motionkit_predictor.network.heads import Delta, OneShot, cosines
from motionkit_predictor.network.predictor import (
    HELD,
    LEVEL,
    PredictorNetwork,
    Standing,
    livelier,
    movement,
    roll_out,
    steered,
    teach,
)
from motionkit_predictor.network.unrolled import Film, WindowAttention
from motionkit_predictor.policy import MplPredictor, open_predictor
from motionkit_predictor.settings import Head, MplOptions, PredictorSettings
from motionkit_predictor.states import MotionState, follow

SMALL = PredictorSettings(head="delta", width=32, window=6, lags=(0.0333, 0.0667, 0.1333), dropout=0.0)


@pytest.fixture(scope="module")
def clips() -> ClipSet:
    return starter_clip_set(30.0, ("val",))


@pytest.fixture(scope="module", params=["plain", "with-encoder"])
def predictor(clips: ClipSet, request: pytest.FixtureRequest) -> MplPredictor:
    return made(clips, SMALL, encoder=request.param == "with-encoder")


def made(clips: ClipSet, settings: PredictorSettings, seed: int = 0, *, encoder: bool = False) -> MplPredictor:
    torch.manual_seed(seed)
    period = MotionEncoder(EncoderSizes(width=16, layers=2), clips.names, 30.0, Scales.neutral(len(clips.names)))
    statistics = Statistics.of([clip.state for clip in clips.clips[:20]], clips.fps, settings.lag_frames(clips.fps))
    network = PredictorNetwork(
        settings, len(clips.names), clips.fps, statistics, period if encoder else None
    )  # fmt: skip
    with torch.no_grad():
        for parameter in network.parameters():  # a network that says something
            parameter.add_(0.05 * torch.randn_like(parameter))
    return MplPredictor(
        settings, network, names=clips.names, parents=clips.parents, offsets=clips.clips[0].offsets
    )  # fmt: skip


def delta_of(predictor: MplPredictor) -> Delta:
    assert predictor.network.delta is not None
    return predictor.network.delta


def windows(clips: ClipSet, past: int, future: int, count: int = 3) -> tuple[MotionState, MotionState]:
    parts = [clip.state.part(0, past + future) for clip in clips.clips[:count]]
    whole = MotionState(*(torch.stack(rows) for rows in zip(*map(tensors, parts), strict=True))).map(Tensor.float)
    return whole.part(0, past), whole.part(past)


def tensors(state: MotionState) -> tuple[Tensor, ...]:
    return state.rotations, state.steps, state.heights, state.contacts


def same(first: MotionState, second: MotionState, tolerance: float = 1e-5) -> bool:
    pairs = zip(tensors(first), tensors(second), strict=True)
    return all(torch.allclose(one, other, atol=tolerance) for one, other in pairs)


def test_rolled_out_with_the_truth_it_is_taught(clips: ClipSet, predictor: MplPredictor) -> None:
    known, truth = windows(clips, 8, 7)
    course = Course(truth.steps, delta_of(predictor).ahead)
    forced = torch.ones(3, 7, dtype=torch.bool)
    free = roll_out(delta_of(predictor), known, 7, course=course, truth=truth, forced=forced)
    taught = teach(delta_of(predictor), known, truth, course=course)
    assert same(free.state, taught.state)
    for name in ("before", "residual", "turn", "hidden", "attention"):
        assert torch.allclose(getattr(free, name), getattr(taught, name), atol=1e-5), name


def test_a_free_run_is_teacher_forcing_on_its_own_frames(clips: ClipSet, predictor: MplPredictor) -> None:
    known, truth = windows(clips, 8, 7)
    free = roll_out(delta_of(predictor), known, 7)
    assert not same(free.state, teach(delta_of(predictor), known, truth).state, 1e-3)
    assert same(free.state, teach(delta_of(predictor), known, free.state).state)


def test_a_free_run_along_a_path_sees_it_from_where_its_own_root_is(clips: ClipSet, predictor: MplPredictor) -> None:
    known, truth = windows(clips, 8, 14)
    course = Course(truth.steps + 0.02, delta_of(predictor).ahead)
    free = roll_out(delta_of(predictor), known, 7, course=course)
    assert same(free.state, teach(delta_of(predictor), known, free.state, course=course).state)
    assert not same(free.state, teach(delta_of(predictor), known, truth.part(0, 7), course=course).state, 1e-3)


def test_one_frame_at_a_time_is_the_same_as_many(clips: ClipSet, predictor: MplPredictor) -> None:
    known, _ = windows(clips, 8, 3)
    whole = predictor.predict(known, 3)
    state = known
    for _ in range(3):
        state = state.then(predictor.predict(state, 1))
    assert same(whole, state.part(8))


def test_turns_are_rotations_that_lead_from_frame_to_frame(clips: ClipSet, predictor: MplPredictor) -> None:
    known, _ = windows(clips, 8, 7)
    free = roll_out(delta_of(predictor), known, 7)
    assert torch.allclose(free.turn @ free.before, free.state.rotations, atol=1e-6)
    assert torch.allclose(free.before[:, 1:], free.state.rotations[:, :-1])
    assert torch.allclose(free.turn @ free.turn.mT, torch.eye(3).expand_as(free.turn), atol=1e-5)


def test_it_reads_no_further_back_than_its_window(clips: ClipSet, predictor: MplPredictor) -> None:
    known, _ = windows(clips, 12, 3)
    assert same(predictor.predict(known, 3), predictor.predict(known.part(6), 3))
    assert not same(predictor.predict(known, 3), predictor.predict(known.part(7), 3), 1e-7)


def test_place_and_heading_do_not_count(clips: ClipSet, predictor: MplPredictor) -> None:
    """A state knows neither; what leads to its first frame is the only trace of where it came from."""
    known, _ = windows(clips, 12, 3)
    moved = MotionState(known.rotations, known.steps.clone(), known.heights, known.contacts)
    moved.steps[:, 0] += 1.0
    assert same(predictor.predict(known, 3), predictor.predict(moved, 3))


def test_a_command_is_followed_from_where_it_stands() -> None:
    """Half way along a straight path, one metre to its left: the point ahead is ahead and to the right."""
    command = torch.tensor([0.0, 0.1, 0.0]).expand(1, 20, 3)
    course = Course(command, [5])
    seen = course.at(torch.tensor([[1.0, 1.0]]), torch.zeros(1), 10)
    assert torch.allclose(seen, torch.tensor([[-1.0, 0.5, 0.0, 1.0, 1.0]]), atol=1e-6)
    turned = course.at(torch.tensor([[0.0, 1.0]]), torch.tensor([torch.pi / 2]), 10)  # it faces +X
    assert torch.allclose(turned, torch.tensor([[-0.5, 0.0, -1.0, 0.0, 1.0]]), atol=1e-6)


def test_a_path_goes_on_after_its_end() -> None:
    course = Course(torch.tensor([[[0.0, 0.1, 0.0]]]), [3])
    assert course.at(torch.zeros(1, 2), torch.zeros(1), 0)[0, 1] == pytest.approx(0.3)


def test_a_path_that_is_too_fast_is_told_as_far_as_one_gets() -> None:
    """Along a straight path at 3 m a frame, of a root that gets 1 m: in its direction; what is near stays."""
    steps = torch.tensor([[[0.0, 3.0, 0.0]]]).expand(1, 8, 3)
    slow, fast = (Course(steps, [2, 4], fastest=fastest) for fastest in (3.5, 1.0))
    place, yaw = torch.tensor([[4.0, 6.0]]), torch.zeros(1)
    (free,), (told,) = Course(steps, [2, 4]).at(place, yaw, 1), fast.at(place, yaw, 1)
    assert torch.equal(slow.at(place, yaw, 1)[0], free)
    first, second = torch.tensor([-4.0, 3.0]), torch.tensor([-4.0, 9.0])
    assert torch.allclose(free[[0, 1, 4, 5]], torch.cat([first, second]))
    wanted = torch.cat([2 * first / first.norm(), 4 * second / second.norm()])
    assert torch.allclose(told[[0, 1, 4, 5]], wanted)
    assert torch.equal(told[[2, 3, 6, 7, 8]], free[[2, 3, 6, 7, 8]])
    near = torch.tensor([[0.0, 8.5]])
    assert torch.allclose(fast.at(near, yaw, 1)[0, :2], torch.tensor([0.0, 0.5]))
    found = steered(going([0.0, 3.0, 0.1], [0.0, 0.5, 0.1]), None, fast, 30.0).steps[0]
    assert torch.allclose(found[0, :2].norm(), torch.tensor(1.0))
    assert torch.allclose(found[1, 1], torch.tensor(0.52), atol=1e-3)  # nearer by 2 cm, far from the fastest


def test_a_path_that_begins_elsewhere_comes_back_evenly() -> None:
    """Straight on at 10 cm a frame; the command begins 40 cm to the left and 0.2 rad off, back after 4 frames."""
    path = torch.tensor([0.0, 0.1, 0.0]).expand(1, 8, 3)
    course = Course(path, [1, 3, 5]).off(torch.tensor([[0.4, 0.0, 0.2]]), 4)
    seen = course.at(torch.zeros(1, 2), torch.zeros(1), 0)[0, :-1].view(3, 4)
    assert torch.allclose(seen[:, 0], torch.tensor([0.3, 0.1, 0.0]), atol=1e-6)
    assert torch.allclose(seen[:, 1], torch.tensor([0.1, 0.3, 0.5]), atol=1e-6)
    assert torch.allclose(seen[:, 2], torch.tensor([0.15, 0.05, 0.0]).sin(), atol=1e-6)


def test_on_the_path_the_condition_is_the_path_itself(clips: ClipSet) -> None:
    _, truth = windows(clips, 8, 12)
    place, yaw = follow(truth.steps)
    course = Course(truth.steps, [2])
    many = course.at(place[:, :4], yaw[:, :4], torch.arange(1, 5))
    for frame in range(1, 5):
        one = course.at(place[:, frame - 1], yaw[:, frame - 1], frame)
        assert torch.allclose(many[:, frame - 1], one)
        rest = follow(truth.steps[:, frame : frame + 2])
        assert torch.allclose(one[:, :2], rest[0][:, -1], atol=1e-5)


def test_without_a_command_nothing_of_it_is_read(clips: ClipSet, predictor: MplPredictor) -> None:
    known, truth = windows(clips, 8, 5)
    none = Course(truth.steps, delta_of(predictor).ahead, given=torch.zeros(3, dtype=torch.bool))
    told = Course(truth.steps, delta_of(predictor).ahead, given=torch.tensor([True, False, False]))
    free, silent, one = (roll_out(delta_of(predictor), known, 5, course=course).state for course in (None, none, told))
    assert torch.allclose(free.rotations[1:], one.rotations[1:])
    assert not torch.allclose(silent.rotations[0], one.rotations[0], atol=1e-4)


def test_film_begins_as_the_identity() -> None:
    hidden = torch.randn(2, 3, 8)
    film = Film(5, 8)
    assert torch.equal(film(hidden, torch.randn(2, 3, 5)), hidden)
    torch.nn.init.normal_(film.linear.weight)
    gain, shift = film.linear(torch.ones(2, 3, 5)).tanh().chunk(2, dim=-1)
    assert torch.allclose(film(hidden, torch.ones(2, 3, 5)), hidden * (1 + gain / 2) + shift / 2)


@torch.no_grad()
def test_attention_by_a_slow_loop() -> None:
    torch.manual_seed(0)
    attention = WindowAttention(6, 8, 4, heads=2, window=4)
    torch.nn.init.normal_(attention.age)
    frames, hidden = torch.randn(2, 7, 6), torch.randn(2, 5, 8)
    keys, values = attention.remember(frames)
    found, weights = attention(hidden, keys, values)
    for sample in range(2):
        for place in range(5):
            last = 7 - 5 + place
            seen = list(range(max(0, last - 3), last + 1))
            query = attention.query(hidden[sample, place]).view(2, 2)
            heads = []
            for head in range(2):
                told = [float(query[head] @ keys[sample, t].view(2, 2)[head]) / 2**0.5 for t in seen]
                bias = [float(attention.age[3 - (last - t), head]) for t in seen]
                share = (torch.tensor(told) + torch.tensor(bias)).softmax(0)
                mean = sum(w * values[sample, t].view(2, 2)[head] for w, t in zip(share, seen, strict=True))
                heads.append(mean - values[sample, last].view(2, 2)[head])
                newest = torch.zeros(4)
                newest[4 - len(seen) :] = share
                assert torch.allclose(weights[sample, place, head], newest, atol=1e-6)
            assert torch.allclose(found[sample, place], attention.out(torch.cat(heads)), atol=1e-5)


def test_statistics_do_not_cross_clips() -> None:
    """Two still clips far apart in pose: no frame turns, so the scale of turns is at its floor."""
    still = torch.eye(3).expand(10, 4, 3, 3)
    turned = torch.tensor([[0.0, -1, 0], [1, 0, 0], [0, 0, 1]]).expand(10, 4, 3, 3)
    zeros = torch.zeros(10, 3), torch.ones(10), torch.zeros(10, 2)
    found = Statistics.of([MotionState(still, *zeros), MotionState(turned, *zeros)], 30.0, (1, 2))
    assert float(found.turn_std.max()) == pytest.approx(1e-4)
    assert float(found.pose_std[:24].max()) == pytest.approx(0.5)
    # Of a reading only the pose itself varies: 16 of 24 numbers of it, among all that are read.
    assert float(found.scale) == pytest.approx(0.5 * 16 / reading_width(4, 2), rel=1e-5)


def test_a_reading_by_hand() -> None:
    """One joint at 60 fps: the difference over a 30th of a second has weight 8."""
    now, before = torch.arange(12.0), torch.zeros(1, 12)
    read = reading(now, before, torch.ones(12), (2,), 60.0)
    assert torch.allclose(read[:6], now[:6] - 1)
    assert torch.allclose(read[6:12], 8 * now[:6])
    assert torch.allclose(read[12:18], 0.5 * (now[6:] - 1))
    assert torch.allclose(read[18:], torch.full((6,), -0.5))


def test_it_opens_as_it_was_saved(clips: ClipSet, predictor: MplPredictor, tmp_path: Path) -> None:
    opened = open_predictor(MplOptions(checkpoint=str(predictor.save(tmp_path / "policy"))))
    known, truth = windows(clips, 8, 5)
    first, second = (one.predict(known, 5, command=truth.steps) for one in (predictor, opened))
    assert torch.equal(first.rotations, second.rotations)
    assert opened.names == predictor.names
    assert opened.parents == predictor.parents
    assert torch.equal(opened.offsets, predictor.offsets)


@pytest.mark.parametrize(
    ("change", "said"),
    [
        (lambda text: text.replace('"mpl"', '"mdm"'), "describes a 'mdm' policy"),
        (lambda text: text.replace('"width": 32', '"width": 64'), "shape"),
        (lambda text: text.replace('"width": 32', '"width": 33'), "damaged"),
        (
            lambda text: text.replace('"parents": [\n    -1,\n    0', '"parents": [\n    -1,\n    5'),
            "before its parent",
        ),
    ],
)
def test_a_damaged_folder_is_refused(predictor: MplPredictor, tmp_path: Path, change: object, said: str) -> None:
    predictor.save(tmp_path)
    document = tmp_path / "policy.json"
    assert callable(change)
    changed = change(document.read_text())
    assert changed != document.read_text()
    document.write_text(changed)
    with pytest.raises(MotionkitError) as refused:
        open_predictor(MplOptions(checkpoint=str(tmp_path)))
    assert said in f"{refused.value} {refused.value.why}"


def test_six_of_the_turn_is_the_identity_plus_the_residual(clips: ClipSet, predictor: MplPredictor) -> None:
    known, truth = windows(clips, 8, 3)
    taught = teach(delta_of(predictor), known, truth)
    assert torch.allclose(matrix_to_6d(taught.turn) - matrix_to_6d(torch.eye(3)), taught.residual, atol=0.05)


def test_all_cosines_give_any_way_back() -> None:
    way = torch.randn(12, 5)
    basis = cosines(12, 12)
    assert torch.allclose(basis @ (basis.mT @ way), way, atol=1e-5)
    assert torch.allclose(cosines(12, 3).mT @ cosines(12, 3), torch.eye(3), atol=1e-6)


def test_a_shot_goes_the_mean_way_before_it_has_learned(clips: ClipSet) -> None:
    """All cosines, a head of zeros: the mean of the training windows' ways, exactly."""
    settings = PredictorSettings(head="one-shot", width=32, window=1, shot=0.4, cosines=12, command="none")
    shot = OneShot(settings, len(clips.names), 30.0, Statistics.neutral(len(clips.names)))
    known, truth = windows(clips, 20, 12)
    shot.measure([(known, truth)])
    ways = matrix_to_6d(truth.rotations) - matrix_to_6d(known.rotations[:, -1:])
    wanted = matrix_from_6d(matrix_to_6d(known.rotations[:, -1:]) + ways.mean(0))
    found = shot(known)
    assert torch.allclose(found.state.rotations, wanted, atol=1e-5)
    assert torch.allclose(found.turn @ found.before, found.state.rotations, atol=1e-5)


def test_ways_of_windows_that_end_early_hold_their_last_frame(clips: ClipSet) -> None:
    settings = PredictorSettings(head="one-shot", width=32, window=1, shot=0.8, cosines=6, command="none")
    shot, slow = (OneShot(settings, len(clips.names), 30.0, Statistics.neutral(len(clips.names))) for _ in range(2))
    known, truth = windows(clips, 20, 12)
    shot.measure([(known, truth)])
    last = truth.map(lambda values: values[:, -1:].expand(-1, 12, *values.shape[2:]))
    slow.measure([(known, truth.then(last))])
    assert torch.allclose(shot.way_mean, slow.way_mean, atol=1e-5)
    assert torch.allclose(shot.way_std, slow.way_std, rtol=1e-4, atol=1e-5)


def told_from(made: Tensor, path: Tensor) -> Tensor:
    """Return the path ``[N, F, 3]`` for one who made steps ``[N, M, 3]``: its first step leads back to the path."""
    (place, yaw), (there, facing) = follow(made), follow(path)
    count = made.shape[1]
    away, cos, sin = there[:, count] - place[:, -1], yaw[:, -1].cos(), yaw[:, -1].sin()
    back = torch.stack([
        away[:, 0] * cos - away[:, 1] * sin, away[:, 1] * cos + away[:, 0] * sin, facing[:, count] - yaw[:, -1]
    ], dim=-1)  # fmt: skip
    return torch.cat([back[:, None], path[:, count + 1 :]], dim=1)


def test_a_course_leads_on_from_wherever_one_went(clips: ClipSet) -> None:
    known, truth = windows(clips, 8, 16)
    course = Course(truth.steps, [2, 5]).after(known.steps[:, :3]).after(known.steps[:, 3:5])
    fresh = Course(told_from(known.steps[:, :5], truth.steps), [2, 5])
    place, yaw = torch.randn(3, 4, 2), torch.randn(3, 4)
    wanted = fresh.at(place, yaw, torch.arange(4))
    assert torch.allclose(course.at(place, yaw, torch.arange(4)), wanted, atol=1e-5)
    assert torch.allclose(course.at(place[:, 2], yaw[:, 2], 2), wanted[:, 2], atol=1e-5)


def shaken(state: MotionState) -> MotionState:
    """Return frames whose joints tremble: nothing that follows moves as much by itself."""
    draws = torch.Generator().manual_seed(0)
    turns = torch.eye(3) + 0.5 * torch.randn(state.rotations.shape, generator=draws)
    return replace(state, rotations=matrix_from_6d(matrix_to_6d(turns)) @ state.rotations)


@pytest.mark.parametrize("head", ["one-shot", "both"])
@pytest.mark.parametrize("told", [False, True])
def test_after_the_first_shot_the_heads_go_on_from_the_joined_motion(clips: ClipSet, head: Head, told: bool) -> None:
    """By a slow loop: each piece is a prediction of its own, along what is left of the path from the joined root."""
    one = made(clips, SMALL.model_copy(update={"head": head, "shot": 0.2, "cosines": 4}))
    known, truth = windows(clips, 8, 26)
    known = shaken(known)
    path = truth.steps + 0.02 * torch.randn(1, 26, 3)  # no path that it would take by itself
    state = known
    for count in (6, 3, 3, 2):
        steps = state.steps[:, 8:]
        left = path if not steps.shape[1] else told_from(steps, path)
        part = one.network.free_run(state, count, command=left if told else None)
        if steps.shape[1] and not told:
            assert (movement(state.part(state.frames - 6)) < 0.9 * movement(known.part(2))).all()
            part = livelier(part, state.part(state.frames - 6), movement(known.part(2)))
        state = state.then(part)
    assert same(one.network.free_run(known, 14, command=path if told else None), state.part(8))
    # An end is only an end: what was predicted before it is the same.
    assert same(one.predict(known, 14).part(0, 10), one.predict(known, 10), 0.0)


@pytest.mark.parametrize(("share", "gain"), [(0.5, 1.0), (1.0, 1.0), (1.25, 1.265625), (2.0, 1.5)])
def test_joints_that_move_less_than_they_did_go_further(share: float, gain: float) -> None:
    """A joint that turns evenly about an axis goes on by `gain` times its way in 6D; the root and contacts do not."""

    def turning(first: int, count: int) -> MotionState:
        angle = 0.01 * torch.arange(first, first + count).double()
        turn = torch.eye(3).double().repeat(1, count, 2, 1, 1)
        turn[..., 1, 0, 0], turn[..., 1, 0, 1], turn[..., 1, 1, 0], turn[..., 1, 1, 1] = (
            angle.cos(), -angle.sin(), angle.sin(), angle.cos(),
        )  # fmt: skip
        return MotionState(turn, torch.randn(1, count, 3).double(), torch.ones(1, count), torch.rand(1, count, 2))

    newest, after = turning(0, 4), turning(4, 2)
    assert torch.allclose(movement(newest), torch.tensor(2 * 2**0.5 * math.sin(0.005) / 2).double())
    found = livelier(after, newest, share * movement(newest))
    last, said = matrix_to_6d(newest.rotations[:, -1:]), matrix_to_6d(after.rotations)
    assert torch.allclose(found.rotations, matrix_from_6d(last + gain * (said - last)), atol=1e-12)
    assert all(torch.equal(getattr(found, name), getattr(after, name)) for name in ("steps", "heights", "contacts"))
    still = turning(7, 1).map(lambda values: values.repeat_interleave(3, dim=1))
    assert torch.isfinite(livelier(after, still, movement(newest)).rotations).all()


def test_the_delta_head_alone_goes_from_frame_to_frame(clips: ClipSet, predictor: MplPredictor) -> None:
    known, _ = windows(clips, 8, 16)
    assert same(predictor.network.free_run(known, 12), roll_out(delta_of(predictor), known, 12).state)


def going(*steps: list[float]) -> MotionState:
    count = len(steps)
    still = torch.eye(3).expand(1, count, 2, 3, 3)
    return MotionState(still, torch.tensor([steps]), torch.ones(1, count), torch.zeros(1, count, 2))


def test_a_root_comes_nearer_to_its_path_by_a_tenth_a_frame() -> None:
    """A path one centimetre to the left of one who goes ahead at 3 m/s: what is missing is 0.9 to the power of n."""
    state = going(*[[0.0, 0.1, 0.0]] * 20)
    path = torch.tensor([[0.01, 0.1, 0.0]] + [[0.0, 0.1, 0.0]] * 19)[None]
    place, yaw = follow(steered(state, None, Course(path, [1]), 30.0).steps)
    left = 0.01 - place[0, :, 0]
    assert torch.allclose(left, 0.01 * 0.9 ** torch.arange(1, 21), atol=1e-6)
    assert torch.allclose(place[0, :, 1], 0.1 * torch.arange(1, 21), atol=1e-6)
    assert float(yaw.abs().max()) == 0.0


def test_a_root_is_moved_by_no_more_than_its_limits() -> None:
    """A path far off and turned: a quarter of a step but at most 2 cm, 0.3 rad for a metre; what stands stays."""
    state = going([0.0, 0.06, 0.0], [0.0, 0.3, 0.0], [0.0, 0.0, 0.0])
    path = torch.tensor([[9.0, 0.0, 2.0], [0.0, 0.0, 0.0], [0.0, 0.0, 0.0]])[None]
    moved = steered(state, None, Course(path, [1]), 30.0).steps - state.steps
    assert moved[0, :, :2].norm(dim=-1).tolist() == pytest.approx([0.015, 0.02, 0.0], abs=1e-6)
    assert moved[0, :, 2].tolist() == pytest.approx([0.018, 0.09, 0.0], abs=1e-6)


def test_feet_and_path_together_move_a_root_by_two_centimetres() -> None:
    state, path = going([0.0, 0.3, 0.0]), torch.tensor([[[9.0, 0.0, 0.0]]])
    pull = torch.tensor([[[0.05, 0.0]]])
    moved = steered(state, pull, None, 30.0).steps - state.steps
    assert moved[0, 0].tolist() == pytest.approx([0.02, 0.0, 0.0], abs=1e-6)
    moved = steered(state, pull, Course(path, [1]), 30.0).steps - state.steps
    assert float(moved[0, 0, :2].norm()) == pytest.approx(0.02, abs=1e-6)
    assert steered(state, None, None, 30.0) is state


def test_feet_keep_a_root_less_the_further_it_is_from_its_path() -> None:
    """Feet pull 1 cm back; the path is elsewhere by nothing, a fifth of a metre to the left, and a metre."""
    state, pull = going([0.0, 0.1, 0.0]), torch.tensor([[[0.0, -0.01]]])
    for off, kept in ((0.0, 0.01), (0.2, 0.006), (1.0, 0.0)):
        path = torch.tensor([[[off, 0.1, 0.0]]])
        step = steered(state, pull, Course(path, [1]), 30.0).steps[0, 0]
        missed = torch.tensor([off, kept])  # from where feet leave the root to where the path is
        way = 0.1 * missed * min(1.0, 0.25 * (0.1 - kept) / max(1e-9, 0.1 * float(missed.norm())))
        wanted = torch.tensor([0.0, -kept]) + way
        wanted = wanted * min(1.0, 0.02 / max(1e-9, float(wanted.norm())))
        assert torch.allclose(step[:2] - torch.tensor([0.0, 0.1]), wanted, atol=1e-6), off


def legs(
    *swings: float, contacts: tuple[float, float] = (1.0, 0.0), step: tuple[float, ...] = (0, 0, 0)
) -> MotionState:
    """Return frames of a body of two legs, a metre each, that swing forwards by so many radians on the left."""
    count = len(swings)
    rotations = torch.eye(3).repeat(1, count, 5, 1, 1)
    angle = -torch.tensor(swings)  # a leg that hangs down and turns by this about x goes ahead
    zero, one = torch.zeros(count), torch.ones(count)
    rows = [(one, zero, zero), (zero, angle.cos(), -angle.sin()), (zero, angle.sin(), angle.cos())]
    rotations[0, :, 1] = torch.stack([torch.stack(row, dim=-1) for row in rows], dim=-2)
    steps = torch.tensor(step).repeat(1, count, 1)
    return MotionState(rotations, steps, torch.ones(1, count), torch.tensor(contacts).repeat(1, count, 1))


def standing() -> Standing:
    """Hips 20 cm apart; the right leg is 10 cm shorter, so that the left foot stands."""
    offsets = torch.tensor([[0.0, 0, 0], [0.1, 0, 0], [-0.1, 0, 0], [0, -1.0, 0], [0, -0.9, 0]])
    return Standing(offsets, [-1, 0, 0, 1, 2], (3, 4))


def test_a_foot_that_stands_keeps_the_root() -> None:
    """The foot goes back under the hip: the root is told to go ahead as far, by the share that is held."""
    way = math.sin(0.1) - math.sin(0.05)
    pull = standing().pull(legs(0.1), legs(0.05))
    assert pull[0, 0].tolist() == pytest.approx([0.0, HELD * way], abs=1e-5)
    # A root that goes that way already is told nothing, and one that goes elsewhere to come back.
    assert float(standing().pull(legs(0.1), legs(0.05, step=(0.0, way, 0.0))).abs().max()) < 1e-6
    assert standing().pull(legs(0.05), legs(0.05, step=(0.02, 0.0, 0.0)))[0, 0].tolist() == pytest.approx(
        [-0.02 * HELD, 0.0], abs=1e-5
    )


def test_a_foot_in_the_air_keeps_nothing() -> None:
    away = (0.02, 0.0, 0.0)
    for before, after in (((1.0, 0.0), (0.0, 0.0)), ((0.0, 0.0), (1.0, 0.0)), ((0.0, 1.0), (0.0, 1.0))):
        # The last: the right foot, which is said to stand, is 10 cm above the left one.
        pull = standing().pull(legs(0.05, contacts=before), legs(0.05, contacts=after, step=away))
        assert float(pull.abs().max()) < 1e-5
    half = standing().pull(legs(0.05), legs(0.05, contacts=(0.5, 0.0), step=away))
    assert half[0, 0].tolist() == pytest.approx([-0.01 * HELD, 0.0], abs=1e-5)


def test_two_feet_that_stand_share_the_root_by_their_heights() -> None:
    """The left foot is 1 cm lower than the right one and goes ahead; the right one stays."""
    offsets = torch.tensor([[0.0, 0, 0], [0.1, 0, 0], [-0.1, 0, 0], [0, -1.0, 0], [0, -1.0 + LEVEL, 0]])
    both = Standing(offsets, [-1, 0, 0, 1, 2], (3, 4))
    pull = both.pull(legs(-0.001, contacts=(1, 1)), legs(0.001, contacts=(1, 1)))
    share = math.e / (1 + math.e)
    assert pull[0, 0].tolist() == pytest.approx([0.0, -HELD * share * 0.002], abs=1e-6)


def test_a_foot_under_a_root_that_turns_stays() -> None:
    """A root 10 cm to the right of its standing foot that turns by a right angle about the foot slides nothing."""
    turned = legs(0.0, step=(0.1, 0.1, math.pi / 2))
    assert float(standing().pull(legs(0.0), turned).abs().max()) < 1e-6


def test_feet_are_heeded_after_the_first_shot_alone(clips: ClipSet) -> None:
    one = made(clips, SMALL.model_copy(update={"head": "both", "shot": 0.2, "cosines": 4}))
    known, _ = windows(clips, 8, 16)
    found, without = one.predict(known, 14), one.network.free_run(known, 14)
    assert same(found.part(0, 6), without.part(0, 6), 0.0)
    assert not torch.equal(found.steps[:, 6:9], without.steps[:, 6:9])
    assert torch.equal(found.rotations[:, 6:9], without.rotations[:, 6:9])


def test_a_body_whose_feet_have_no_known_names_goes_as_its_root_says(clips: ClipSet) -> None:
    one = made(clips, SMALL.model_copy(update={"head": "both", "shot": 0.2, "cosines": 4}))
    names = [f"j{number}" for number in range(len(clips.names))]
    other = MplPredictor(one.settings, one.network, names=names, parents=clips.parents, offsets=one.offsets)
    known, _ = windows(clips, 8, 16)
    assert (other.feet, other.document()["feet"]) == (None, None)
    assert same(other.predict(known, 14), one.network.free_run(known, 14), 0.0)


def test_a_path_leads_a_root_only_where_there_is_one(clips: ClipSet) -> None:
    one = made(clips, SMALL.model_copy(update={"head": "both", "shot": 0.2, "cosines": 4, "command": "none"}))
    known, truth = windows(clips, 8, 16)
    assert same(one.predict(known, 9), one.predict(known, 9, command=truth.steps + 0.1), 0.0)


def test_both_heads_are_a_mean_of_each(clips: ClipSet) -> None:
    both = made(clips, SMALL.model_copy(update={"head": "both", "shot": 0.2, "cosines": 4}))
    known, _ = windows(clips, 8, 4)
    network = both.network
    assert network.shot is not None
    delta, shot = roll_out(delta_of(both), known, 4).state, network.shot(known).state.part(0, 4)
    assert torch.allclose(both.predict(known, 4).steps, delta.steps / 4 + shot.steps * 3 / 4)
    six = matrix_to_6d(delta.rotations) / 4 + matrix_to_6d(shot.rotations) * 3 / 4
    assert torch.allclose(both.predict(known, 4).rotations, matrix_from_6d(six))


@pytest.mark.parametrize(
    ("head", "window", "encoder"),
    [("delta", 1, False), ("one-shot", 6, False), ("both", 1, False), ("delta", 6, True), ("both", 6, True)],
)
def test_numpy_alone_predicts_the_same(clips: ClipSet, tmp_path: Path, head: Head, window: int, encoder: bool) -> None:
    shape = SMALL.model_copy(update={"head": head, "window": window, "shot": 0.2, "cosines": 4})
    predictor = made(clips, shape, encoder=encoder)
    plain = Predictor.open(predictor.save(tmp_path))
    calm, truth = windows(clips, 8, 16, count=1)
    assert (plain.names, plain.fps, plain.past) == (predictor.names, predictor.fps, predictor.past)
    predictor.fastest = 0.5
    fast = predictor.save(tmp_path / "fast")
    predictor.fastest = None
    limited = open_predictor(MplOptions(checkpoint=str(fast)))
    assert (limited.fastest, predictor.fastest) == (0.5, None)
    of_limited = Predictor.open(fast)
    for whole, runtime_of_it, known, path in (
        (predictor, plain, calm, None), (predictor, plain, calm, truth.steps), (predictor, plain, shaken(calm), None),
        (limited, of_limited, calm, truth.steps + 0.1),
    ):  # fmt: skip
        arrays = [values[0].numpy() for values in tensors(known)]
        wanted = whole.predict(known, 13, command=path)
        found = runtime_of_it.predict(*arrays, frames=13, path=None if path is None else path[0].numpy())
        assert found[0].dtype == "float32", "in float64 it would take five times as long"
        for one, other in zip(found, tensors(wanted), strict=True):
            torch.testing.assert_close(torch.from_numpy(one).float(), other[0], atol=2e-5, rtol=0)


def test_the_runtime_needs_numpy_alone() -> None:
    source = Path(runtime.__file__).read_text()
    imported = {
        line.split()[1].partition(".")[0] for line in source.splitlines() if line.startswith(("import", "from"))
    }
    assert imported == {"__future__", "json", "math", "collections", "pathlib", "typing", "numpy"}
