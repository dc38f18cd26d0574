"""The contract that every policy keeps, and a checkpoint that comes back."""

from pathlib import Path

import torch
from motionkit.testing import check_policy


def test_contract() -> None:
    check_policy("demo")


def test_saved_weights_come_back(tmp_path: Path) -> None:
    from motionkit_policy_demo import Options
    from motionkit_policy_demo.policy import DemoPolicy

    policy = DemoPolicy(Options())
    with torch.no_grad():
        policy.network.linear1.weight.fill_(0.5)
    policy.save(tmp_path)
    again = DemoPolicy(Options(checkpoint=tmp_path / "policy.safetensors"))
    assert torch.equal(again.network.linear1.weight, policy.network.linear1.weight)
