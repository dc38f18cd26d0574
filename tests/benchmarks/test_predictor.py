"""The motion predictor: an update against a plain roll-out, joint by joint, and the runtime's time per frame."""

from __future__ import annotations

import time
from pathlib import Path

import numpy as np
import pytest
import torch
from torch import Tensor

from motionkit.motion.prediction import MotionState
from motionkit.predictor.features import Statistics
from motionkit.predictor.losses import Frames, JointLoss, Skeleton, frame_weights
from motionkit.predictor.network import PredictorNetwork, roll_out
from motionkit.predictor.policy import MplPredictor
from motionkit.predictor.runtime import Predictor
from motionkit.predictor.settings import PredictorSettings
from motionkit.predictor.train_settings import LossSettings

from .ratios import Ratios

JOINTS, BATCH, KNOWN, FRAMES = 46, 8, 25, 15  # joints of the guide's skeleton
RUNTIME_JOINTS = 24
PARENTS = (-1, *(joint // 2 for joint in range(JOINTS - 1)))
WEIGHTS = {"rot_local": 1.0, "fk_pos": 1.0}
GOAL, MILLISECONDS = 10.0, 0.3
GROUP = f"an update of the predictor: a free run of {FRAMES} frames, {BATCH} windows, {JOINTS} joints"


def network() -> PredictorNetwork:
    torch.manual_seed(0)
    settings = PredictorSettings(head="delta", command="none", window=1, dropout=0.0)
    made = PredictorNetwork(settings, JOINTS, 30.0, Statistics.neutral(JOINTS))
    with torch.no_grad():
        for parameter in made.parameters():
            parameter.add_(0.01 * torch.randn_like(parameter))
    return made


def windows() -> tuple[MotionState, MotionState, Tensor]:
    torch.manual_seed(1)
    rest = torch.eye(3).expand(BATCH, KNOWN + FRAMES, JOINTS, 3, 3)
    turned = torch.linalg.qr(rest + 0.1 * torch.randn(rest.shape)).Q
    turned = turned * torch.linalg.det(turned)[..., None, None]
    shape = BATCH, KNOWN + FRAMES
    whole = MotionState(turned, 0.01 * torch.randn(*shape, 3), torch.ones(shape), torch.rand(*shape, 2))
    return whole.part(0, KNOWN), whole.part(KNOWN), 0.2 * torch.randn(BATCH, JOINTS, 3)


def ours(model: PredictorNetwork, known: MotionState, truth: MotionState, offsets: Tensor) -> Tensor:
    assert model.delta is not None
    predicted = roll_out(model.delta, known, FRAMES)
    weights = frame_weights(torch.ones(BATCH, FRAMES, dtype=torch.bool), 0.0)
    last = known.part(KNOWN - 1)
    frames = Frames(predicted, truth, last, weights, offsets, *torch.ones(2, BATCH, dtype=torch.bool))
    joint = JointLoss(LossSettings(), Skeleton(PARENTS, {}, None, 30.0, torch.ones(4)))
    return torch.stack(list(joint(frames, WEIGHTS).values())).sum()


def plain(model: PredictorNetwork, known: MotionState, truth: MotionState, offsets: Tensor) -> Tensor:
    """A batch of frames at a time, one joint at a time: Gram-Schmidt, turn, angle, forward kinematics."""
    delta = model.delta
    assert delta is not None
    parents = torch.tensor(PARENTS)
    total = torch.zeros(())
    rows = [_row(known, frame) for frame in range(KNOWN)]
    pose = [known.rotations[:, -1, joint] for joint in range(JOINTS)]
    for frame in range(FRAMES):
        earlier = torch.stack([rows[-1 - lag] for lag in delta.lags], dim=1)
        output = delta(rows[-1][:, None], earlier[:, None], None, None)
        pose = [_turn(output.residual[:, 0, joint]) @ pose[joint] for joint in range(JOINTS)]
        root = rows[-1][:, 6 * JOINTS : 6 * JOINTS + 4] + output.root[:, 0]
        rows.append(torch.cat([_columns(pose), root, output.contacts[:, 0]], dim=-1))
        true = [truth.rotations[:, frame, joint] for joint in range(JOINTS)]
        there, where = _positions(pose, offsets, parents), _positions(true, offsets, parents)
        for joint in range(JOINTS):
            if joint:
                chord = (pose[joint] - true[joint]).square().sum((-1, -2)) / 8
                angle = 2 * torch.asin(chord.sqrt().clamp_max(1 - 1e-7))
                total = total + angle.mean() / (JOINTS - 1)
            total = total + torch.nn.functional.smooth_l1_loss(there[joint], where[joint], beta=0.05) / JOINTS
    return total / FRAMES


def _columns(pose: list[Tensor]) -> Tensor:
    return torch.cat([torch.cat([rotation[:, :, 0], rotation[:, :, 1]], dim=-1) for rotation in pose], dim=-1)


def _row(state: MotionState, frame: int) -> Tensor:
    six = _columns([state.rotations[:, frame, joint] for joint in range(JOINTS)])
    return torch.cat([six, state.steps[:, frame] * 30.0, state.heights[:, frame, None], state.contacts[:, frame]], -1)


def _turn(residual: Tensor) -> Tensor:
    first = residual[:, :3] + torch.tensor([1.0, 0, 0])
    second = residual[:, 3:] + torch.tensor([0.0, 1, 0])
    first = first / first.norm(dim=-1, keepdim=True)
    second = second - (first * second).sum(-1, keepdim=True) * first
    second = second / second.norm(dim=-1, keepdim=True)
    return torch.stack([first, second, torch.linalg.cross(first, second)], dim=-1)


def _positions(pose: list[Tensor], offsets: Tensor, parents: Tensor) -> list[Tensor]:
    world, places = [torch.eye(3).expand(len(offsets), 3, 3)], [torch.zeros(len(offsets), 3)]
    for joint in range(1, JOINTS):
        parent = int(parents[joint].item())
        world.append(world[parent] @ pose[joint])
        places.append(places[parent] + (world[parent] @ offsets[:, joint, :, None])[..., 0])
    return places


@pytest.mark.benchmark(group="predictor")
@pytest.mark.parametrize("way", ["plain, joint by joint", "motionkit"])
def test_an_update(benchmark, ratios: Ratios, way: str) -> None:
    model, (known, truth, offsets) = network(), windows()
    run = ours if way == "motionkit" else plain

    def update() -> float:
        model.zero_grad()
        loss = run(model, known, truth, offsets)
        loss.backward()
        return float(loss.detach())

    value = benchmark.pedantic(update, rounds=15, warmup_rounds=2)
    ratios.add(GROUP, way, benchmark.stats.stats.min)
    if way == "motionkit":
        assert value == pytest.approx(float(plain(model, known, truth, offsets).detach()), rel=1e-4)
        ratios.tell(GROUP, f"goal {GOAL:g}x")


@pytest.mark.benchmark
@pytest.mark.parametrize(("head", "told"), [("delta", False), ("both", False), ("both", True)])
def test_the_runtime_of_numpy(tmp_path: Path, ratios: Ratios, head: str, told: bool) -> None:
    settings = PredictorSettings.model_validate({"head": head})
    made = PredictorNetwork(settings, RUNTIME_JOINTS, 30.0, Statistics.neutral(RUNTIME_JOINTS))
    names = [f"joint{joint}" for joint in range(RUNTIME_JOINTS)]
    MplPredictor(
        settings, made, names=names, parents=PARENTS[:RUNTIME_JOINTS], offsets=torch.zeros(RUNTIME_JOINTS, 3)
    ).save(tmp_path)
    plain_numpy = Predictor.open(tmp_path)
    known = (
        np.tile(np.eye(3, dtype=np.float32), (KNOWN, RUNTIME_JOINTS, 1, 1)), np.zeros((KNOWN, 3), np.float32),
        np.ones(KNOWN, np.float32), np.zeros((KNOWN, 2), np.float32),
    )  # fmt: skip
    path = np.tile([[0.0, 0.04, 0.02]], (900, 1)) if told else None
    plain_numpy.predict(*known, frames=30, path=path)
    begun = time.process_time()
    plain_numpy.predict(*known, frames=900, path=path)
    goal = 0.5 if told else MILLISECONDS
    took = 1000 * (time.process_time() - begun) / 900
    what = f"{head}, along a path" if told else head
    line = f"{what}: {took:.3f} ms of CPU time a frame, {RUNTIME_JOINTS} joints (goal {goal})"
    ratios.tell("the runtime that needs numpy alone", line)
    assert took < 10 * goal
