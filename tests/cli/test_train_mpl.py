"""``motionkit train-mpl``: what it says before it starts."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import torch
from typer.testing import Result

Run = Callable[..., Result]


def test_a_file_of_weights_cannot_be_resumed(cli: Run) -> None:
    torch.save({"model_state_dict": {"a": torch.zeros(2)}}, "checkpoint_epoch_10.pt")
    result = cli("train-mpl", "--resume", "checkpoint_epoch_10.pt")
    assert result.exit_code == 2
    assert "cannot be resumed" in result.stderr
    assert "--init checkpoint_epoch_10.pt" in result.stderr
    assert [path.name for path in Path.cwd().iterdir()] == ["checkpoint_epoch_10.pt"]
    assert "--init" not in cli("grpo", "--resume", "checkpoint_epoch_10.pt").stderr
