"""With ``--precision bf16`` the body computes in bfloat16, and every logarithm of a probability in float32."""

from __future__ import annotations

import shlex
from pathlib import Path

import pytest
import torch
import torch.nn.functional as F

from ..made.logs import Logs
from ..made.own_runs import RUNS, typed

GRPO = RUNS["grpo"].replace("--set sampler.window_size=2", "")
LINES = {
    **{name: RUNS[name] for name in ("pretrain tmr", "pretrain mdm", "pretrain t2m-evaluator", "pretrain mpl-encoder",
                                     "reward-train")},
    **{f"grpo, {name}": f"{GRPO} --algorithm {name}" for name in ("grpo", "dpo", "nft", "awm", "mixed")},
    "grpo, flow-grpo": RUNS["grpo"] + " --algorithm flow-grpo --set sampler.ode_steps=1",
    "grpo, reward-gradient": GRPO.replace("--group-size 2", "") + " --algorithm reward-gradient",
}  # fmt: skip


def test_the_note_is_right() -> None:
    """Under autocast log_softmax of a bfloat16 tensor stays bfloat16: that is what is looked for."""
    layer, given = torch.nn.Linear(4, 8), torch.randn(3, 4)
    with Logs() as logs, torch.autocast("cpu", torch.bfloat16):
        layer(given).log_softmax(-1)
    assert logs.half
    assert logs.rough == ["aten::_log_softmax"]
    with Logs() as logs, torch.autocast("cpu", torch.bfloat16):
        hidden = layer(given)
        hidden.float().log_softmax(-1)
        F.cross_entropy(hidden, torch.zeros(3, dtype=torch.int64))
    assert logs.half
    assert logs.rough == []
    assert logs.types["aten::_log_softmax"] == {torch.float32}


@pytest.mark.parametrize("name", LINES)
def test_logarithms_of_probabilities_are_float32(own_runs: Path, clip: Path, name: str, tmp_path: Path) -> None:
    line = LINES[name].format(text=shlex.quote(str(clip)))
    with Logs() as logs:
        done = typed(line, "--precision", "bf16", "--out", str(tmp_path / "run"))
    assert done.exit_code == 0, f"{line}\n{done.stderr}"
    assert logs.half
    assert logs.rough == []
