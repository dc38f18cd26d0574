"""Measures of feet: against the recorded ones, and by hand."""

from __future__ import annotations

from collections.abc import Callable

import torch
from torch import Tensor
from torch.testing import assert_close

from motionkit_policy_kimodo.metrics import foot_metrics
from motionkit_policy_kimodo.representation import KimodoRepresentation
from motionkit_policy_kimodo.skeletons import body

SOMA = KimodoRepresentation(body("soma30"))
NAMES = {
    "skate_height": "foot_skate_from_height", "skate_contacts": "foot_skate_from_pred_contacts",
    "skate_most": "foot_skate_max_vel", "skate_ratio": "foot_skate_ratio", "consistency": "foot_contact_consistency",
}  # fmt: skip


def test_recorded(tensors: Callable[[str], dict[str, Tensor]]) -> None:
    known = tensors("metrics.npz")
    joints, lengths = known["posed_joints"], known["lengths"]
    joints[1, int(lengths[1]) :] = 100.0
    made = foot_metrics(joints, known["foot_contacts"].bool(), lengths, SOMA)
    assert made.keys() == NAMES.keys()
    for name, theirs in NAMES.items():
        assert_close(made[name], known[f"foot.{theirs}"], atol=1e-6, rtol=0)


def test_a_sliding_body() -> None:
    joints = torch.zeros(1, 11, 30, 3)
    joints[0, :, :, 2] = torch.linspace(0, 0.1, 11)[:, None]  # 0.3 m/s
    made = foot_metrics(joints, torch.ones(1, 11, 4, dtype=torch.bool), torch.tensor([11]), SOMA)
    for name in ("skate_height", "skate_contacts", "skate_most"):
        assert_close(made[name], torch.tensor([0.3]), atol=1e-4, rtol=0)
    assert made["skate_ratio"].item() == 1
    assert made["consistency"].item() == 0  # too fast to be a contact
    high = foot_metrics(joints + 1.0, torch.zeros(1, 11, 4, dtype=torch.bool), torch.tensor([11]), SOMA)
    assert [value.item() for value in high.values()] == [0, 0, 0, 0, 1]
