"""FID and judge's score of samples: zero and the real clips' own where the policy makes the clips themselves."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import pytest
import torch
from torch import Tensor

from motionkit import load_dataset, load_policy
from motionkit.contracts.generating import plan_steps
from motionkit.motion import RealActions
from motionkit.text import Prompt
from motionkit.text_to_motion.evaluation.judge import open_judge
from motionkit.text_to_motion.evaluation.quality import measure_quality


class Oracle:
    """A policy that knows the clip behind each prompt, and adds an offset to it."""

    def __init__(self, policy: Any, clips: Sequence[Any], offset: float = 0.0) -> None:
        self._policy, self._offset = policy, offset
        self._clips = {clip.key: clip.features for clip in clips}

    def __getattr__(self, name: str) -> Any:
        return getattr(self._policy, name)

    def condition(self, prompts: Sequence[Prompt]) -> Any:
        self._asked = list(prompts)
        return self._policy.condition(prompts)

    def predict(self, x: Tensor, t: Tensor, condition: Any, lengths: Tensor, *, guidance: float) -> Tensor:
        out = torch.zeros_like(x)
        for row, prompt in enumerate(self._asked):
            normal = self._policy.normalizer.normalize(self._clips[prompt.key][: prompt.length])
            out[row, : prompt.length] = normal + self._offset * torch.randn(
                normal.shape, generator=torch.Generator().manual_seed(row)
            )
        return out


@pytest.fixture(scope="module")
def parts() -> tuple[Any, list[Any], Any]:
    dataset = load_dataset("starter", clips=144, val_clips=96, test_clips=48, prompts=8)
    judge, _ = open_judge(None, dataset, device=torch.device("cpu"))
    return load_policy("starter", dataset=dataset), list(dataset.clips("val"))[:80], judge


def test_clips_themselves_have_distance_zero(parts: tuple[Any, list[Any], Any]) -> None:
    policy, clips, judge = parts
    actions = RealActions(clips, policy.skeleton, policy.fps)
    same = measure_quality(
        Oracle(policy, clips),  # type: ignore[arg-type]
        clips,
        judge,
        judge.space,
        plan=plan_steps(policy, "ddim", 3),
        guidance=1.0,
        actions=actions,
    )
    for name, (made, real) in same.moving.items():
        assert made == pytest.approx(real, abs=1e-3), name
    assert set(same.moving) == {"movement", "statues", "side"}
    assert same.moving["movement"][1] == pytest.approx(1.0, abs=0.1)
    assert same.fid == pytest.approx(0.0, abs=1e-3)
    assert same.score == pytest.approx(same.real, abs=1e-4)
    assert same.count == 80
    assert len(same.shown.texts) == 12


def test_spoilt_clips_are_farther_and_score_less(parts: tuple[Any, list[Any], Any]) -> None:
    policy, clips, judge = parts
    plan = plan_steps(policy, "ddim", 3)
    found = [
        measure_quality(Oracle(policy, clips, offset), clips, judge, judge.space, plan=plan, guidance=1.0)  # type: ignore[arg-type]
        for offset in (0.3, 1.0)
    ]
    assert 0.01 < found[0].fid < found[1].fid
    assert found[1].score < found[0].score < found[0].real
