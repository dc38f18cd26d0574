"""`g1-balance`: the robot file, the zero-moment point by hand, the hull, free fall, the gradient; refusals."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path

import numpy as np
import pytest
import roma
import torch
from torch import Tensor
from torch.testing import assert_close
from typer.testing import Result

from motionkit.errors import MotionkitError
from motionkit.geometry import matrix_from_quaternion
from motionkit.motion import MotionBatch
from motionkit.text import Prompt
from motionkit.text_to_motion.rewards.ask import ask
from motionkit_policy_kimodo.balance import GRAVITY, balance, outside
from motionkit_policy_kimodo.mjcf import Robot, read_robot
from motionkit_policy_kimodo.qpos import TO_MUJOCO, from_angles, hinges, on_robot, robot_axes
from motionkit_policy_kimodo.representation import KimodoRepresentation
from motionkit_policy_kimodo.rewards import G1Balance
from motionkit_policy_kimodo.settings import BalanceOptions, KimodoOptions
from motionkit_policy_kimodo.skeletons import body

Tensors = Callable[[str], dict[str, Tensor]]

_AXES = torch.tensor(TO_MUJOCO).double()
_FPS = 30.0


def test_a_robot_by_hand(write_robot: Callable[..., Path]) -> None:
    """Every shape and both ways to write an inertia; classes of defaults, and a body that is fixed to a foot."""
    plain = ("", 'mass="2" diaginertia="1 1 1"')
    full = ("", 'pos="1 2 3" mass="5" fullinertia="2 3 4 0.1 0.2 0.3"')
    turned = ("", 'mass="7" diaginertia="1 2 3" quat="0.70710678 0 0 0.70710678"')
    foot = """
        <geom class="visual" size="9"/>
        <geom class="ball" pos="1 0 0"/>
        <geom type="capsule" fromto="0 0 0 0 4 0" size="0.5"/>
        <geom type="box" size="1 2 3" pos="0 0 1"/>
        <body name="toe" pos="10 0 0" quat="0.70710678 0 0 0.70710678">
            <inertial pos="1 0 0" mass="3" diaginertia="1 2 3"/>
            <geom type="cylinder" size="2 1"/>
        </body>"""
    defaults = (
        '<geom contype="1"/><default class="visual"><geom contype="0" conaffinity="0"/></default>'
        '<default class="ball"><geom size="0.25"/></default>'
    )
    robot = read_robot(write_robot([full, turned, *[plain] * 28], foot, defaults))

    assert robot.masses.sum() == 5 + 7 + 28 * 2 + 2 * 3
    assert robot.joints[:2] == (0, 1)
    assert robot.centres[0].tolist() == [2.0, 3.0, 1.0]  # x, y, z in MuJoCo are z, x, y here
    assert_close(robot.inertias[0], torch.tensor([[3, 0.3, 0.1], [0.3, 4, 0.2], [0.1, 0.2, 2]]).double())
    assert_close(robot.inertias[1], torch.tensor([1.0, 3.0, 2.0]).double().diag(), atol=1e-7, rtol=0)
    toe = next(row for row, mass in enumerate(robot.masses.tolist()) if mass == 3)
    assert robot.joints[toe] == body("g1").feet[0]
    assert_close(robot.centres[toe], torch.tensor([1.0, 0.0, 10.0]).double(), atol=1e-7, rtol=0)
    assert_close(robot.inertias[toe], torch.tensor([1.0, 3.0, 2.0]).double().diag(), atol=1e-7, rtol=0)

    # A ball, the ends of a capsule, the corners of a box, the rim of a cylinder: of either foot.
    count = 1 + 2 + 8 + 32
    assert len(robot.foot_joints) == 2 * count
    assert set(robot.foot_joints) == {body("g1").feet[0], body("g1").feet[2]}
    points, radii = robot.foot_points[:count] @ _AXES.mT, robot.foot_radii[:count]
    assert radii.tolist() == [0.25, 0.5, 0.5, *[0.0] * 40]
    assert_close(points[:3], torch.tensor([[1.0, 0, 0], [0, 0, 0], [0, 4, 0]]).double(), atol=1e-9, rtol=0)
    assert_close(points[3:11].amax(0), torch.tensor([1.0, 2.0, 4.0]).double())
    assert_close(points[3:11].amin(0), torch.tensor([-1.0, -2.0, -2.0]).double())
    assert_close((points[11:, :2] - torch.tensor([10.0, 0.0])).norm(dim=-1), torch.full((32,), 2.0).double())
    assert_close(points[11:, 2].abs(), torch.ones(32).double())


def test_the_recorded_robot(tensors: Tensors, recorded: Path, recorded_robot: Path) -> None:
    robot, made = read_robot(recorded_robot), body("g1")
    known = np.load(recorded / "g1_body.npz")
    assert_close(robot.masses, torch.tensor(known["mass"]))
    assert len(robot.foot_joints) == 28
    # Links are where MuJoCo has them, by the places, rests and axes of its own file.
    axes = tensors("g1_qpos.npz")["axis_mujoco"].double()
    low, high = hinges()[3].unbind(-1)
    angles = low + (high - low) * torch.rand(29, generator=torch.Generator().manual_seed(0)).double()
    turns, places = [torch.eye(3).double()], [torch.zeros(3).double()]
    for row in range(1, 30):
        above = int(known["parent"][row]) - 1
        places.append(places[above] + turns[above] @ torch.tensor(known["pos"][row]))
        rest = matrix_from_quaternion(torch.tensor(known["quat"][row]))
        turns.append(turns[above] @ rest @ roma.rotvec_to_rotmat(angles[row - 1] * axes[row - 1]))
    local = from_angles(angles, torch.eye(3).double(), robot=True)
    world = made.world(local)
    rows = [0, *hinges()[0]]
    assert list(robot.joints) == rows
    assert_close(made.joints(world, torch.zeros(3).double())[rows], torch.stack(places) @ _AXES, atol=1e-6, rtol=0)
    assert_close(world[rows], _AXES.mT @ torch.stack(turns) @ _AXES, atol=1e-6, rtol=0)
    assert_close(on_robot(local), local, atol=1e-6, rtol=0)
    tilted = (robot_axes() - hinges()[2]).norm(dim=-1) > 0.01
    assert int(tilted.sum()) == 4


def _point(path: Tensor, *, foot: float = 0.0) -> tuple[Robot, Tensor, Tensor, Tensor]:
    """Return a mass of a point that moves along ``[T, 3]``, over a square foot of 20 cm at height `foot`."""
    corners = torch.tensor([[x, foot, z] for x in (-0.1, 0.1) for z in (-0.1, 0.1)]).double()
    one = torch.ones(1).double()
    robot = Robot(
        (0,), one, torch.zeros(1, 3).double(), torch.zeros(1, 3, 3).double(), (1,) * 4, corners, torch.zeros(4)
    )
    joints = torch.stack([path, torch.zeros_like(path)], dim=1)[None]
    return robot, torch.eye(3).double().expand(1, len(path), 2, 3, 3), joints, torch.tensor([len(path)])


def test_a_point_on_a_circle() -> None:
    """The zero-moment point of a mass at height h on a circle is on a circle ``1 + h w^2 / g`` as large."""
    time, height, speed = torch.arange(120).double() / _FPS, 0.8, 1.5
    circle = torch.stack([(speed * time).cos(), torch.full_like(time, height), (speed * time).sin()], dim=-1)
    path = circle * torch.tensor([0.05, 1.0, 0.05])
    found = balance(*_point(path), _FPS)
    expected = path[:, [0, 2]] * (1 + height * speed**2 / GRAVITY)
    assert_close(found.point[0, 10:-10], expected[10:-10], atol=1e-4, rtol=0)
    assert bool(found.balanced.all())
    wide = balance(*_point(circle * torch.tensor([0.2, 1.0, 0.2])), _FPS)
    off = 0.2 * (1 + height * speed**2 / GRAVITY)
    # Where the circle crosses the x axis, the edge of the foot is 10 cm from the centre.
    crossing = int((path[30:90, 2].abs()).argmin()) + 30
    assert abs(float(wide.outside[0, crossing]) - (off - 0.1)) < 2e-3
    assert not wide.balanced.any()


def test_a_turning_body() -> None:
    """A body that turns faster and faster about z, at rest otherwise, is pushed on at ``x = I w' / (m g)``."""
    time = torch.arange(60).double() / _FPS
    faster = 0.7  # rad/s^2
    robot, turns, joints, lengths = _point(torch.tensor([[0.0, 1.0, 0.0]]).double().expand(60, 3))
    robot = Robot(
        robot.joints, 2 * robot.masses, robot.centres, torch.eye(3).double()[None] * 3, *(robot.foot_joints,),
        robot.foot_points, robot.foot_radii,
    )  # fmt: skip
    vectors = torch.stack([torch.zeros_like(time), torch.zeros_like(time), faster * time.square() / 2], dim=-1)
    turned = roma.rotvec_to_rotmat(vectors)[None, :, None].expand_as(turns)
    found = balance(robot, turned, joints, lengths, _FPS)
    expected = torch.tensor([3 * faster / (2 * GRAVITY), 0.0]).double()
    assert_close(found.point[0], expected.expand(60, 2), atol=1e-3, rtol=0)


def test_free_fall_is_flight() -> None:
    time = torch.arange(20).double() / _FPS
    height = 1.0 + 2.0 * time - GRAVITY / 2 * time.square()
    path = torch.stack([0.3 * time, height, torch.zeros_like(time)], dim=-1)
    found = balance(*_point(path, foot=0.3), _FPS)
    assert bool((found.airborne == 1).all())
    assert float(found.error.max()) < 1e-6
    assert bool(found.balanced.all())
    hovers = balance(*_point(path * torch.tensor([1.0, 0.0, 1.0]) + torch.tensor([0.0, 1.0, 0.0]), foot=0.3), _FPS)
    assert_close(hovers.error, torch.ones_like(hovers.error), atol=2e-3, rtol=0)
    assert not hovers.balanced.any()
    # The same fall with a foot on the ground needs no push, and is asked where it is.
    assert bool((balance(*_point(path), _FPS).airborne == 0).all())


def test_the_hull() -> None:
    corners = torch.tensor([[0.0, 0.0], [0.2, 0.0], [0.2, 0.1], [0.0, 0.1], [0.1, 0.05]]).double()
    points = torch.tensor([[0.1, 0.02], [0.3, 0.05], [0.1, -0.07], [0.5, 0.5], [0.0, 0.0]]).double()
    found = outside(points, corners.expand(5, 5, 2), torch.zeros(5, 5).double())
    assert_close(found, torch.tensor([0.0, 0.1, 0.07, 0.5, 0.0]).double(), atol=3e-3, rtol=0)
    assert found[[0, 4]].tolist() == [0.0, 0.0]
    # Only one side is on the ground.
    lifted = torch.tensor([0.0, 1.0, 1.0, 0.0, 1.0]).double()
    found = outside(points[:2], corners.expand(2, 5, 2), lifted.expand(2, 5))
    assert_close(found, torch.tensor([0.1, 0.3]).double(), atol=3e-3, rtol=0)


def _stance(frames: int = 30, *, lean: float = 0.0) -> Tensor:
    """Return features ``[T, 417]`` of the robot that stands still, turned about its ankles by `lean` radians."""
    made = body("g1")
    angles = torch.zeros(frames, 29)
    angles[:, [4, 10]] = -lean  # ankle pitch
    turn = roma.rotvec_to_rotmat(torch.tensor([lean, 0.0, 0.0])).expand(frames, 3, 3)
    world = made.world(from_angles(angles, turn, robot=True))
    joints = made.joints(world, torch.zeros(frames, 3))
    ankle = (joints[:, made.feet[0]] + joints[:, made.feet[2]]) / 2
    root = torch.tensor([0.0, 0.035, 0.0]) - ankle
    return KimodoRepresentation(made).encode(world, root)


def _batch(features: Tensor, lengths: Sequence[int]) -> MotionBatch:
    return MotionBatch(features, torch.tensor(lengths), skeleton=KimodoRepresentation(body("g1")), fps=_FPS)


def _asked(count: int) -> list[Prompt]:
    return [Prompt(("A robot stands still.",), (30,), f"{row}") for row in range(count)]


@pytest.mark.parametrize("file", ["robot_file", "recorded_robot"])
def test_a_stance(file: str, request: pytest.FixtureRequest) -> None:
    """A robot that stands is balanced; leaned past its toes it is not, by what its centre of mass is past them."""
    reward = G1Balance(BalanceOptions(mjcf=request.getfixturevalue(file)))
    features = torch.stack([_stance(), _stance(lean=0.05), _stance(lean=0.4), _stance(lean=0.6)])
    features[1, 20:] = torch.nan
    scores = ask(reward, _batch(features, [30, 20, 30, 30]), _asked(4))
    assert_close(scores.total[:2], torch.zeros(2), atol=1e-6, rtol=0)
    assert scores.parts["balanced"].tolist() == [1, 1, 0, 0]
    assert not scores.parts["airborne"].any()
    # By hand: all is still, so that the point is below the centre of mass; the toe's ball ends the hull.
    robot, made = reward.robot, KimodoRepresentation(body("g1"))
    rotations = made.rotations(features[2:])
    joints = made.positions(features[2:])
    rows, feet = list(robot.joints), list(robot.foot_joints)
    centres = joints[..., rows, :] + (rotations[..., rows, :, :] @ robot.centres.float()[..., None]).squeeze(-1)
    centre = (centres * robot.masses.float()[:, None]).sum(-2) / robot.masses.sum()
    soles = joints[..., feet, :] + (rotations[..., feet, :, :] @ robot.foot_points.float()[..., None]).squeeze(-1)
    past = centre[:, 0, 2] - soles[:, 0, :, 2].amax(-1)
    assert float(past.min()) > 0.05
    assert_close(scores.total[2:], -past, atol=2e-3, rtol=0)


def test_the_gradient(robot_file: Path) -> None:
    """Of the reward by the features, against differences; a step along it helps; padding has none."""
    reward = G1Balance(BalanceOptions(mjcf=robot_file))
    draw = torch.Generator().manual_seed(0)
    features = _stance(12, lean=0.5).double().repeat(2, 1, 1)
    features[:, :, 5:-4] += 0.01 * torch.randn(features[:, :, 5:-4].shape, generator=draw).double()
    features[1, 9:] = torch.nan
    features.requires_grad_()
    motions = _batch(features, [12, 9])
    total = reward.score(motions, _asked(2)).total
    (gradient,) = torch.autograd.grad(total.sum(), features)
    assert not gradient[1, 9:].any()
    assert bool(gradient.isfinite().all())
    way = torch.randn(features.shape, generator=draw).double()
    step = 1e-6 * way
    ahead, behind = (
        reward.score(_batch(features.detach() + sign * step, [12, 9]), _asked(2)).total.sum() for sign in (1, -1)
    )
    assert_close((ahead - behind) / 2e-6, (gradient * torch.where(gradient != 0, way, 0.0)).sum(), rtol=1e-3, atol=1e-6)
    better = features.detach() + 1e-3 * gradient / gradient.norm()
    assert bool((reward.score(_batch(better, [12, 9]), _asked(2)).total > total).all())


def test_recorded_motion(tensors: Tensors, recorded_robot: Path) -> None:
    """A motion of the released model: the robot's own hinges move it less than Kimodo's, and it is mostly balanced."""
    known, made = tensors("g1_qpos.npz"), KimodoRepresentation(body("g1"))
    local, root = known["local_rot_mats"], known["root_positions"]
    free, robot = (made.body.joints(made.body.world(turns), root) for turns in (local, on_robot(local)))
    off = (robot - free).norm(dim=-1)
    assert float(off.max()) < 0.06
    assert float(off.mean()) < 0.005
    features = made.encode(made.body.world(local), root)[None]
    scores = ask(G1Balance(BalanceOptions(mjcf=recorded_robot)), _batch(features, [50]), _asked(1))
    assert 0.05 < -float(scores.total[0]) < 0.15
    assert 0.3 < float(scores.parts["balanced"][0]) < 0.7
    assert 0 < float(scores.parts["airborne"][0]) < 0.02


@pytest.mark.parametrize(
    ("change", "said"),
    [
        (("<mujoco>", "<mujoco"), "no XML"),
        (("<mujoco>", '<!DOCTYPE m [<!ENTITY a "1"><!ENTITY b "&a;&a;">]><mujoco>'), "document type"),
        (("mujoco>", "robot>"), "no robot for MuJoCo"),
        (("<worldbody>", '<worldbody><include file="x.xml"/>'), "element include"),
        (("left_knee_joint", "left_knee"), "no joint left_knee_joint"),
        (('mass="1"', ""), "no mass of 1 numbers"),
        (('mass="1"', 'mass="nan"'), "no mass of 1 numbers"),
        (('mass="1"', 'mass="-1"'), "is negative"),
        (('mass="1"', 'mass="1" euler="1 0 0"'), "turned by euler"),
        (('mass="1"', 'mass="1" quat="0 0 0 0"'), "quaternion of length 0"),
        (("inertial", "inertia"), "has no inertial"),
        (("geom size", 'geom type="mesh" size'), "foot without a shape"),
        (('<geom class="foot"', '<geom class="feet"'), "no default class feet"),
        (("<worldbody>", "<worldbody>" + "<body>" * 500 + "</body>" * 500), ""),
    ],
)
def test_robots_that_are_refused(change: tuple[str, str], said: str, robot_file: Path) -> None:
    robot_file.write_text(robot_file.read_text().replace(*change))
    if not said:  # other bodies, however deep, are passed over
        read_robot(robot_file)
        return
    with pytest.raises(MotionkitError) as refused:
        read_robot(robot_file)
    assert said in refused.value.sentence()


def test_a_deep_file_is_refused(robot_file: Path) -> None:
    foot, deep = '<geom class="foot"', '<body><inertial mass="1" diaginertia="1 1 1"/>' * 3000 + "</body>" * 3000
    robot_file.write_text(robot_file.read_text().replace(foot, deep + foot))
    with pytest.raises(MotionkitError, match="within each other"):
        read_robot(robot_file)


def test_a_run(
    cli: Callable[..., Result],
    checkpoint: Path,
    make_table: Callable[..., Path],
    texts: Path,
    soma: KimodoOptions,
    robot_file: Path,
) -> None:
    words = ("--dataset", "kimodo-prompts", "--dataset.path", str(texts), "--batch-size", "2", "--reward", "g1-balance")
    g1 = ("--policy.checkpoint", str(checkpoint), "--policy.embeddings", str(make_table(8, name="g1.safetensors")))
    lacking = cli("grpo", "--policy", "kimodo", *g1, *words, "--num-steps", "2", "--out", "run")
    assert lacking.exit_code == 2
    assert "--reward.mjcf" in lacking.output
    words = (*words, "--reward.mjcf", str(robot_file), "--num-steps", "2")
    done = cli("grpo", "--policy", "kimodo", *g1, *words, "--out", "run")
    assert done.exit_code == 0, done.output
    assert "reward-gradient" in done.output
    human = ("--policy.checkpoint", soma.checkpoint, "--policy.embeddings", str(make_table(16)))
    refused = cli("grpo", "--policy", "kimodo", *human, *words, "--out", "other")
    assert refused.exit_code == 2
    assert "of the g1 body" in " ".join(refused.output.split())
