"""MuJoCo's qpos of the G1: against the recorded ones, back and forth, and the CSV."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest
import roma
import torch
from torch import Tensor
from torch.testing import assert_close

from motionkit.errors import MotionkitError
from motionkit_policy_kimodo.qpos import (
    from_angles,
    from_qpos,
    hinge_angles,
    hinges,
    projected,
    read_qpos,
    to_qpos,
    write_qpos,
)
from motionkit_policy_kimodo.skeletons import body

Tensors = Callable[[str], dict[str, Tensor]]


def test_table(tensors: Tensors) -> None:
    known = tensors("g1_qpos.npz")
    joints, mounts, axes, limits = hinges()
    assert joints == known["joint_of_dof"].tolist()
    assert_close(mounts.float(), known["offsets_f2q"][joints], atol=1e-7, rtol=0)
    assert_close(axes.float(), known["axis_f2q"], atol=1e-7, rtol=0)
    assert_close(limits.float(), torch.stack([known["limits_min"], known["limits_max"]], dim=1), atol=1e-6, rtol=0)


def test_recorded(tensors: Tensors) -> None:
    known, made = tensors("g1_qpos.npz"), body("g1")
    local, root = known["local_rot_mats"], known["root_positions"]
    assert_close(to_qpos(local, root), known["qpos"], atol=1e-6, rtol=0)
    for clamp, name in ((False, "projected_joints"), (True, "projected_joints_clamped")):
        joints = made.joints(made.world(projected(local[:8], clamp=clamp)), root[:8])
        assert_close(joints, known[name], atol=1e-5, rtol=0)
    free = made.joints(made.world(local[:8]), root[:8])
    off = (free - known["projected_joints"]).norm(dim=-1).max()
    assert 0.1 < float(off) < 0.2  # free rotations are not what the robot can take


def _angles(rows: int = 20) -> tuple[Tensor, Tensor]:
    generator = torch.Generator().manual_seed(0)
    low, high = hinges()[3].unbind(-1)
    angles = low + (high - low) * torch.rand(rows, 29, generator=generator, dtype=torch.float64)
    turn = roma.rotvec_to_rotmat(torch.randn(rows, 3, generator=generator, dtype=torch.float64))
    return angles, turn


def test_hinges_go_back_and_forth() -> None:
    angles, turn = _angles()
    local = from_angles(angles, turn)
    assert_close(hinge_angles(local), angles, atol=1e-9, rtol=0)
    assert_close(projected(local), local, atol=1e-9, rtol=0)
    assert_close(projected(local, clamp=True), local, atol=1e-9, rtol=0)
    clamped = projected(from_angles(angles + 10.0, turn), clamp=True)
    low, high = hinges()[3].unbind(-1)
    assert (hinge_angles(clamped) >= low - 1e-9).all()
    assert (hinge_angles(clamped) <= high + 1e-9).all()


def test_the_exported_form_is_off_for_tilted_axes() -> None:
    angles, turn = _angles()
    tilted = hinges()[2].amax(-1) < 0.999
    off = (hinge_angles(from_angles(angles, turn), exported=True) - angles).abs().amax(0)
    assert float(off[~tilted].max()) < 1e-9
    assert float(off[tilted].max()) > 1e-3


def test_qpos_goes_back_and_forth() -> None:
    angles, turn = _angles()
    places = torch.randn(20, 3, dtype=torch.float64)
    qpos = to_qpos(from_angles(angles, turn), places, exported=False)
    local, root = from_qpos(qpos)
    assert_close(local, from_angles(angles, turn), atol=1e-9, rtol=0)
    assert_close(root, places)
    up = to_qpos(torch.eye(3).repeat(1, 34, 1, 1), torch.tensor([[1.0, 2.0, 3.0]]))
    assert up[0, :7].tolist() == [3.0, 1.0, 2.0, 1.0, 0.0, 0.0, 0.0]  # z is forward in Kimodo, x in MuJoCo; y is z


def test_angles_have_a_gradient() -> None:
    generator = torch.Generator().manual_seed(0)
    vectors = torch.randn(34, 3, generator=generator, dtype=torch.float64).requires_grad_()
    assert torch.autograd.gradcheck(lambda v: hinge_angles(roma.rotvec_to_rotmat(v)), vectors)


def test_csv(tmp_path: Path) -> None:
    angles, turn = _angles()
    qpos = to_qpos(from_angles(angles, turn), torch.zeros(20, 3, dtype=torch.float64), exported=False)
    write_qpos(tmp_path / "g1.csv", qpos)
    assert_close(read_qpos(tmp_path / "g1.csv"), qpos, atol=1e-8, rtol=0)


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("", "is empty"),
        (",".join(["0"] * 35), "line 1 has 35 columns"),
        (",".join(["1"] * 36) + "\n" + ",".join(["x"] * 36), "line 2"),
        (",".join(["nan"] * 36), "line 1"),
        (",".join(["0"] * 36), "quaternion of length 0"),
    ],
)
def test_bad_files_are_refused(text: str, said: str, tmp_path: Path) -> None:
    path = tmp_path / "g1.csv"
    path.write_text(text)
    with pytest.raises(MotionkitError, match=said):
        read_qpos(path)
