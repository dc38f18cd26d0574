"""The contract that every policy keeps, and a checkpoint that comes back."""

from pathlib import Path

import torch
from motionkit.testing import check_policy
from motionkit.text import Prompt


def test_contract() -> None:
    check_policy("demo")


def test_saved_weights_come_back(tmp_path: Path) -> None:
    from motionkit_policy_demo import Options
    from motionkit_policy_demo.policy import DemoPolicy

    policy = DemoPolicy(Options())
    policy.adapt(r=2, alpha=4.0, dropout=0.0, targets=["ffn"], seed=0)  # as a run of grpo does
    with torch.no_grad():
        for values in policy.network.parameters():
            values.add_(0.1)
    policy.save(tmp_path)
    again = DemoPolicy(Options(checkpoint=tmp_path / "policy.safetensors"))
    prompts, lengths = [Prompt(("walk",), (8,))], torch.tensor([8])
    x, steps = torch.ones(1, 8, policy.skeleton.width), torch.tensor([3])
    one, other = (each.predict(x, steps, each.condition(prompts), lengths) for each in (policy, again))
    torch.testing.assert_close(one, other)
