"""Two processes with half the prompts each do the update that one process does with all of them."""

from __future__ import annotations

import threading
from collections.abc import Callable

import pytest
import torch
from torch import Tensor

from motionkit.config import LoraSettings
from motionkit.errors import MotionkitError
from motionkit.trainers._world import OneProcess, World
from motionkit.trainers.grpo._cursor import PromptCursor
from motionkit.trainers.grpo._engine import GRPO
from motionkit.trainers.grpo._settings import (
    ControlSettings,
    EmaSettings,
    GrpoOptimSettings,
    ObjectiveSettings,
    RolloutSettings,
    SamplerSettings,
)

from .toy import PROMPTS, Height, make_policy


class Meeting:
    """Where the threads of a world exchange tensors."""

    def __init__(self, size: int) -> None:
        self.rows: list[Tensor] = [torch.empty(0)] * size
        self.barrier = threading.Barrier(size, timeout=60)

    def exchange(self, rank: int, tensor: Tensor) -> list[Tensor]:
        self.rows[rank] = tensor.clone()
        self.barrier.wait()
        found = list(self.rows)
        self.barrier.wait()
        return found


class ThreadWorld:
    """A world of threads."""

    def __init__(self, rank: int, meeting: Meeting) -> None:
        self.rank, self.size, self.meeting = rank, len(meeting.rows), meeting

    @property
    def main(self) -> bool:
        return self.rank == 0

    def sum(self, tensor: Tensor) -> Tensor:
        return torch.stack(self.meeting.exchange(self.rank, tensor)).sum(0)

    def gather(self, tensor: Tensor) -> Tensor:
        return torch.cat(self.meeting.exchange(self.rank, tensor))


def train(
    world: World, steps: int, objective: ObjectiveSettings, *, shuffle: bool
) -> tuple[GRPO, list[dict[str, float]]]:
    grpo = GRPO(
        make_policy(),
        Height(),
        rollout=RolloutSettings(prompts=4, group_size=8),
        sampler=SamplerSettings(spacing="even", window_size=4),
        objective=objective,
        optim=GrpoOptimSettings(learning_rate=1e-2),
        lora=LoraSettings(),
        ema=EmaSettings(),
        control=ControlSettings(shuffle_advantages=shuffle),
        world=world,
    )
    cursor = PromptCursor(PROMPTS, 4, 0, world)
    return grpo, [grpo.step(cursor.at(step)) for step in range(steps)]


def together(size: int, work: Callable[[World], object]) -> list[object]:
    meeting, found = Meeting(size), list[object]([None] * size)

    def one(rank: int) -> None:
        try:
            found[rank] = work(ThreadWorld(rank, meeting))
        except BaseException as error:
            found[rank] = error
            meeting.barrier.abort()

    threads = [threading.Thread(target=one, args=(rank,)) for rank in range(size)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    for outcome in found:
        if isinstance(outcome, BaseException):
            raise outcome
    return found


@pytest.mark.parametrize(
    ("objective", "shuffle"),
    [
        (ObjectiveSettings(), False),
        (ObjectiveSettings(credit="sample", advantage="group-std", inner_epochs=2, kl_coef=0.1), False),
        (ObjectiveSettings(advantage="global-std"), True),
    ],
    ids=["segments", "epochs and KL", "shuffled"],
)
def test_two_processes_do_what_one_does(objective: ObjectiveSettings, shuffle: bool) -> None:
    alone, expected = train(OneProcess(), 3, objective, shuffle=shuffle)
    both = together(2, lambda world: train(world, 3, objective, shuffle=shuffle))
    for grpo, metrics in both:  # type: ignore[misc]
        for name, value in alone.policy.tensors().items():
            # Adam turns rounding of tiny gradients into moves; three steps of 1e-2 bound a real difference from below.
            torch.testing.assert_close(grpo.policy.tensors()[name], value, rtol=0.0, atol=2e-4)  # type: ignore[has-type]
        for mine, theirs in zip(metrics, expected, strict=True):  # type: ignore[has-type]
            assert mine.keys() == theirs.keys()
            for name in theirs:
                if not name.startswith(("time/", "audit/", "kl/", "logp/reference")):
                    assert mine[name] == pytest.approx(theirs[name], rel=1e-3, abs=1e-5), name
    (one, _), (two, _) = both  # type: ignore[misc]
    first, second = one.policy.tensors(), two.policy.tensors()  # type: ignore[has-type]
    assert all(torch.equal(first[name], second[name]) for name in first)


def test_prompts_are_shared_and_together_are_those_of_one_process() -> None:
    alone = PromptCursor(PROMPTS, 4, 3)
    shares = [PromptCursor(PROMPTS, 4, 3, ThreadWorld(rank, Meeting(2))) for rank in range(2)]
    for step in range(3):
        assert [prompt for share in shares for prompt in share.at(step)] == alone.at(step)
    with pytest.raises(MotionkitError, match="cannot be shared"):
        PromptCursor(PROMPTS, 3, 0, ThreadWorld(0, Meeting(2)))
