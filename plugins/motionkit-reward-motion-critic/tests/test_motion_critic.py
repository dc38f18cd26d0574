"""The network against recorded scores and gradients, the rotations against forward kinematics, and the contract."""

from __future__ import annotations

import json
import math
from collections.abc import Callable
from functools import lru_cache
from pathlib import Path

import numpy as np
import pytest
import torch
from torch import Tensor, nn

from motionkit.errors import MotionkitError
from motionkit.geometry import accumulate_rotations, positions_from_bones
from motionkit.motion import HUMANML, KIT, MotionBatch, joints_to_features
from motionkit.rigs import default_rest
from motionkit.starter import generate
from motionkit.testing import check_reward, sample_motions
from motionkit.text import Prompt
from motionkit_reward_motion_critic import CriticOptions
from motionkit_reward_motion_critic.body import WINDOW, critic_input, windows
from motionkit_reward_motion_critic.network import CriticNetwork, read_critic
from motionkit_reward_motion_critic.reward import CriticReward

HEADS = 2


@pytest.fixture(scope="module")
def recorded() -> Path:
    folder = Path(__file__).parents[4] / "shared" / "fixtures" / "motion_critic"
    if not folder.is_dir():
        pytest.skip("../shared/fixtures/motion_critic (recorded outputs) is not here")
    return folder


@lru_cache(maxsize=1)
def _small() -> CriticNetwork:
    torch.manual_seed(0)
    network = CriticNetwork(depth=1, width=16, out=8, ratio=2, hidden=8, longest=64, heads=HEADS)
    for name, value in network.named_parameters():
        if "norm" not in name:
            nn.init.normal_(value, std=0.3)
    return network.eval()


@pytest.fixture
def weights(tmp_path: Path) -> Path:
    """A file as the authors' training writes it: names behind `module.`, an unused layer, an optimiser beside it."""
    tensors = {f"module.{name}": value for name, value in _small().state_dict().items()}
    tensors |= {"module.dstran.head.weight": torch.ones(3, 8), "module.dstran.head.bias": torch.ones(3)}
    path = tmp_path / "critic.pth"
    torch.save(
        {"epoch": 3, "model_state_dict": tensors, "optimizer_state_dict": {"state": {}}, "best_accuracy": 0.8}, path
    )
    return path


def _walk(frames: int = 60) -> Tensor:
    return torch.from_numpy(generate("walk", frames=frames).joints)


def _batch(*motions: Tensor) -> MotionBatch:
    features = [joints_to_features(joints.double(), HUMANML).float() for joints in motions]
    lengths = torch.tensor([len(each) for each in features])
    padded = nn.utils.rnn.pad_sequence(features, batch_first=True)
    return MotionBatch(padded, lengths, skeleton=HUMANML, fps=20.0)


def _prompts(motions: MotionBatch) -> list[Prompt]:
    return [Prompt(("a person walks.",), (length,)) for length in motions.lengths.tolist()]


# The network, against what the authors' code gave for the same weights.


def _formula(names: list[tuple[str, list[int]]]) -> dict[str, Tensor]:
    """Return the fixture's weights, which are a formula of a tensor's place among all names and of a number's place."""
    places = {name: place for place, name in enumerate(sorted(name for name, _ in names))}
    made = {}
    for name, shape in names:
        count = math.prod(shape)
        h = (np.arange(count, dtype=np.uint64) + np.uint64(1000003 * (places[name] + 1))) % 2**32
        for shift, factor in ((16, 0x85EBCA6B), (13, 0xC2B2AE35), (16, 1)):
            h = (h ^ (h >> np.uint64(shift))) * np.uint64(factor) % 2**32
        u = h.astype(np.float64) / 2**31 - 1
        if len(shape) == 2 and name.endswith("weight"):
            u = u * (6 if name.startswith("mlp.") else 2) / math.sqrt(shape[1])
        else:
            u = 1 + 0.1 * u if "norm" in name and name.endswith("weight") else 0.1 * u
        made[name] = torch.from_numpy(u.astype(np.float32).reshape(shape))
    return made


def _file_of(recorded: Path, size: str, folder: Path) -> Path:
    names = json.loads((recorded / "meta.json").read_text())[size]["keys"]
    torch.save({"model_state_dict": {f"module.{k}": v for k, v in _formula(names).items()}}, folder / f"{size}.pth")
    return folder / f"{size}.pth"


def _matrices(motion: Tensor) -> Tensor:
    """Return the rotations ``[B, T, 24, 3, 3]`` of MDM's layout ``[B, 25, 6, T]``, whose six numbers are two rows."""
    rows = motion[:, :24].permute(0, 3, 1, 2).unflatten(-1, (2, 3))
    first = nn.functional.normalize(rows[..., 0, :], dim=-1)
    second = rows[..., 1, :] - (first * rows[..., 1, :]).sum(-1, keepdim=True) * first
    second = nn.functional.normalize(second, dim=-1)
    return torch.stack([first, second, torch.linalg.cross(first, second, dim=-1)], dim=-2)


def _angles(matrix: Tensor) -> Tensor:
    """Return axis times angle by the sizes of a quaternion's parts, as recorded: 0 where they round to 0."""
    d0, d1, d2 = matrix.diagonal(dim1=-2, dim2=-1).unbind(-1)
    squares = torch.stack([1 + d0 + d1 + d2, 1 + d0 - d1 - d2, 1 - d0 + d1 - d2, 1 - d0 - d1 + d2], dim=-1)
    sizes = torch.where(squares > 0, squares.where(squares > 0, 1.0).sqrt() / 2, 0.0)
    signs = torch.stack([matrix[..., i, j] - matrix[..., j, i] for i, j in ((2, 1), (0, 2), (1, 0))], dim=-1).sign()
    way = sizes[..., 1:] * signs
    size = way.norm(dim=-1, keepdim=True)
    return way * 2 * torch.atan2(size, sizes[..., :1]) / size


def _input(motion: Tensor, angles: Callable[[Tensor], Tensor]) -> Tensor:
    return torch.cat([angles(_matrices(motion)), motion[:, 24:, :3].permute(0, 3, 1, 2)], dim=2)


@pytest.mark.parametrize("frames", [60, 41])
@pytest.mark.parametrize(("size", "heads"), [("tiny", 2), ("small", 8)])
def test_scores_are_the_recorded_ones(recorded: Path, tmp_path: Path, size: str, heads: int, frames: int) -> None:
    io = np.load(recorded / "io.npz")
    network = read_critic(_file_of(recorded, size, tmp_path), heads)
    with torch.no_grad():
        scores = network(torch.from_numpy(io[f"critic_input_T{frames}"]))
    assert scores.numpy() == pytest.approx(io[f"{size}_score64_T{frames}"][:, 0], abs=2e-5)


def test_score_and_gradient_of_the_released_size_are_the_recorded_ones(recorded: Path, tmp_path: Path) -> None:
    io = np.load(recorded / "io.npz")
    network = read_critic(_file_of(recorded, "full", tmp_path))
    assert sum(value.numel() for value in network.parameters()) == 22_791_175
    motion = torch.from_numpy(io["motion_T60"])[:1].requires_grad_(True)
    score = network(_input(motion, _angles))
    assert score.item() == pytest.approx(io["full_score64_T60"][0, 0], abs=2e-5)
    score.sum().backward()
    wanted = torch.from_numpy(io["full_grad_sum_T60"])[:1]
    assert motion.grad is not None
    assert float((motion.grad - wanted).abs().max()) < 1e-4 * float(wanted.abs().max())


# Rotations.


def test_axis_angles_are_the_recorded_ones(recorded: Path) -> None:
    """They agree to what float32 leaves of the recorded ones where an angle is small."""
    import roma

    io = np.load(recorded / "io.npz")
    for frames in (60, 41):
        own = _input(torch.from_numpy(io[f"motion_T{frames}"]), roma.rotmat_to_rotvec)
        assert float((own - torch.from_numpy(io[f"critic_input_T{frames}"])).abs().max()) < 5e-4


def test_smpls_zero_pose_has_no_rotation() -> None:
    rest = positions_from_bones(default_rest(), HUMANML.parents)
    found = critic_input(rest.expand(4, -1, -1))
    assert float(found.abs().max()) < 1e-5


def test_the_rotations_put_smpls_body_where_the_joints_are() -> None:
    import roma

    joints = _walk()
    bones = joints[0, 1:] - joints[0, list(HUMANML.parents[1:])]
    rest = default_rest()
    rest[1:] = nn.functional.normalize(rest[1:], dim=-1) * bones.norm(dim=-1, keepdim=True)
    found = critic_input(joints).double()
    world = accumulate_rotations(roma.rotvec_to_rotmat(found[:, :22]), HUMANML.parents)
    parents = list(HUMANML.parents[1:])
    placed = torch.cat([joints[:, :1], (world[:, parents] @ rest[1:, :, None])[..., 0]], dim=1)
    off = (positions_from_bones(placed, HUMANML.parents) - joints).norm(dim=-1)
    # Joints with one bone fit exactly; hips and collars of the two bodies differ by some millimetres.
    assert float(off.max()) < 0.03
    assert torch.allclose(found[:, 24], (joints - joints[:1])[:, 0].double(), atol=1e-6)
    assert float(found[:, 22:24].abs().max()) == 0.0


def test_windows_cover_a_motion_once_and_start_at_the_origin() -> None:
    motion = torch.zeros(150, 25, 3)
    motion[:, 0, 0] = torch.arange(150)
    motion[:, 24, 1] = 5.0
    parts = windows(motion)
    assert [int(part[0, 0, 0]) for part in parts] == [0, 45, 90]
    assert {len(part) for part in parts} == {WINDOW}
    assert all(float(part[0, 24].abs().max()) == 0.0 for part in parts)
    short = windows(motion[:10])
    assert len(short) == 1
    assert float(short[0][-1, 0, 0]) == 9.0


# The reward.


def test_contract(weights: Path) -> None:
    check_reward("motion-critic", options={"weights": weights, "heads": HEADS})


def test_a_motions_score_is_the_mean_over_its_windows(weights: Path) -> None:
    motions = _batch(_walk(101), _walk(61))
    reward = CriticReward(CriticOptions(weights=weights, heads=HEADS))
    scores = reward.score(motions, _prompts(motions))
    parts = windows(critic_input(motions.joints[0, :100]))
    with torch.no_grad():
        wanted = torch.stack([_small()(part[None])[0] for part in parts]).mean()
    assert len(parts) == 2
    assert scores.total[0].item() == pytest.approx(wanted.item(), abs=1e-5)


def test_scores_end_at_the_cap_and_the_sigmoid_is_of_them(weights: Path) -> None:
    motions = _batch(_walk(61))
    plain = CriticReward(CriticOptions(weights=weights, heads=HEADS, cap=100.0))
    score = plain.score(motions, _prompts(motions)).total.item()
    with torch.no_grad():
        plain.network.mlp.fc2.bias += 20.0 - score
    assert plain.score(motions, _prompts(motions)).total.item() == pytest.approx(20.0, abs=1e-4)
    plain.options = CriticOptions(weights=weights, heads=HEADS)
    capped = plain.score(motions, _prompts(motions))
    assert capped.total.item() == 12.0
    assert capped.parts["critic"].item() == pytest.approx(20.0, abs=1e-4)
    plain.options = CriticOptions(weights=weights, heads=HEADS, form="sigmoid", cap=1.0)
    total = plain.score(motions, _prompts(motions)).total.item()
    assert total == pytest.approx(1 / (1 + math.exp(-1.0)))


def test_what_it_cannot_see_changes_nothing(weights: Path) -> None:
    """The text, and how high the whole body is: windows start at the origin."""
    walk = _walk(60)
    reward = CriticReward(CriticOptions(weights=weights, heads=HEADS))
    higher = walk + torch.tensor([0.0, 0.3, 0.0])
    assert torch.allclose(critic_input(walk), critic_input(higher), atol=1e-5)
    motions = _batch(_walk(61))
    other = [Prompt(("a person sits down.",), (60,))]
    assert torch.equal(reward.score(motions, _prompts(motions)).total, reward.score(motions, other).total)


# What is refused.


def test_no_weights_are_asked_for() -> None:
    with pytest.raises(MotionkitError, match="has no weights"):
        CriticReward(CriticOptions())


@pytest.mark.parametrize(
    ("change", "heads", "word"),
    [
        (lambda tensors: tensors, 3, "do not divide"),
        (lambda tensors: {"layer.weight": torch.ones(2, 2)}, HEADS, "no MotionCritic"),
        (lambda tensors: {n: value for n, value in tensors.items() if n != "dstran.norm.bias"}, HEADS, "norm.bias"),
        (lambda tensors: tensors | {"dstran.norm.bias": torch.full((16,), math.nan)}, HEADS, "not finite"),
    ],
)
def test_other_weights_are_refused_by_name(
    tmp_path: Path, change: Callable[[dict[str, torch.Tensor]], dict[str, torch.Tensor]], heads: int, word: str
) -> None:
    torch.save(change(_small().state_dict()), tmp_path / "other.pth")
    with pytest.raises(MotionkitError) as caught:
        read_critic(tmp_path / "other.pth", heads)
    assert word in caught.value.sentence()


class _Runs:
    def __reduce__(self) -> tuple[object, tuple[str]]:
        return print, ("it ran",)


def test_a_file_with_code_is_refused_and_not_run(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    torch.save({"model_state_dict": _small().state_dict(), "more": _Runs()}, tmp_path / "code.pth")
    with pytest.raises(MotionkitError):
        read_critic(tmp_path / "code.pth", HEADS)
    assert "it ran" not in capsys.readouterr().out


def test_other_bodies_are_refused(weights: Path) -> None:
    reward = CriticReward(CriticOptions(weights=weights, heads=HEADS))
    motions = sample_motions(count=1, skeleton=KIT, fps=12.5)
    with pytest.raises(MotionkitError, match="22 joints"):
        reward.score(motions, _prompts(motions))
