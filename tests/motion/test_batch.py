"""Headings of a batch, and the limbs of both bodies by the side that they are on."""

from __future__ import annotations

import pytest
import torch

from motionkit.metrics import body_positions
from motionkit.motion import HUMANML, KIT, MotionBatch, Skeleton, feature_layout, joints_to_features
from motionkit.starter import generate


def test_headings_undo_the_turns_of_the_joints() -> None:
    clip = torch.from_numpy(generate("turn/around-left", frames=61).joints)
    features = joints_to_features(clip, HUMANML, target=False).float()
    padded = torch.cat([features, torch.full((7, 263), torch.nan)])[None]
    batch = MotionBatch(padded, torch.tensor([60]), skeleton=HUMANML, fps=20.0)
    assert float(batch.headings[0, :60].max() - batch.headings[0, :60].min()) > 2.5
    layout = feature_layout(HUMANML)
    stored = features[:, layout.positions].unflatten(-1, (21, 3)).clone()
    stored[..., 1] -= features[:, layout.root_height]
    found = body_positions(batch.joints, batch.headings)[0, :60, 1:]
    torch.testing.assert_close(found, stored, atol=1e-5, rtol=0)


@pytest.mark.parametrize(("skeleton", "names"), [(HUMANML, ("wrist", "foot")), (KIT, ("W", "F"))])
def test_limbs_end_in_wrists_and_feet(skeleton: Skeleton, names: tuple[str, str]) -> None:
    for (left, right), name in zip(skeleton.limbs.values(), names, strict=True):
        assert skeleton.joint_names[left].endswith(name)
        assert skeleton.mirror_order[left] == right


def test_the_left_limbs_are_at_positive_x_of_a_body_that_faces_ahead() -> None:
    pose = torch.from_numpy(generate("walk", frames=20).joints)[0]
    left, right = HUMANML.limbs["arm"]
    assert pose[left, 0] > pose[right, 0]
    # The names of KIT's joints say the other side, see `motionkit.rigs`.
    assert [KIT.joint_names[joint] for joint in KIT.limbs["arm"]] == ["RW", "LW"]
