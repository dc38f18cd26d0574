"""Two processes with half the prompts each do the update that one process does with all of them."""

from __future__ import annotations

import threading
from collections.abc import Callable, Sequence

import pytest
import torch
from torch import Tensor

from motionkit.errors import MotionkitError
from motionkit.text_to_motion.grpo.algorithms.options import GrpoObjective, GrpoRollout, GrpoSampler
from motionkit.text_to_motion.grpo.settings import GrpoOptimSettings
from motionkit.text_to_motion.grpo.step import GRPO
from motionkit.text_to_motion.grpo.train import PromptCursor

from .matching import make
from .toy import PROMPTS, engine, make_policy


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


def train(grpo: GRPO, steps: int) -> list[dict[str, float]]:
    cursor = PromptCursor(PROMPTS, 4, 0, grpo.world)
    return [grpo.step(cursor.at(step)) for step in range(steps)]


def train_together(members: Sequence[GRPO], steps: int) -> list[list[dict[str, float]]]:
    """Train in one thread each; an error in one of them ends the others."""
    found: list[list[dict[str, float]] | BaseException] = [[] for _ in members]

    def work(rank: int, grpo: GRPO) -> None:
        try:
            found[rank] = train(grpo, steps)
        except BaseException as error:
            found[rank] = error
            grpo.world.meeting.barrier.abort()  # type: ignore[attr-defined]

    threads = [threading.Thread(target=work, args=item) for item in enumerate(members)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    for outcome in found:
        if isinstance(outcome, BaseException):
            raise outcome
    return found  # type: ignore[return-value]


@pytest.mark.parametrize(
    ("objective", "shuffle"),
    [
        (GrpoObjective(), False),
        (GrpoObjective(credit="sample", advantage="group-std", inner_epochs=2, kl_coef=0.1), False),
        (GrpoObjective(advantage="global-std"), True),
    ],
    ids=["segments", "epochs and KL", "shuffled"],
)
def test_two_processes_do_what_one_does(objective: GrpoObjective, shuffle: bool) -> None:
    groups: dict[str, object] = {
        "rollout": GrpoRollout(prompts=4, group_size=8),
        "sampler": GrpoSampler(spacing="even", window_size=4),
        "objective": objective,
        "optim": GrpoOptimSettings(learning_rate=1e-2),
    }
    two_do_as_one(
        lambda **world: engine(make_policy(), shuffle=shuffle, **groups, **world),  # type: ignore[arg-type]
        compared=lambda name: not name.startswith(("time/", "audit/", "kl/", "logp/reference")),
    )


@pytest.mark.parametrize(
    ("name", "options", "shuffle"),
    [
        ("awm", {"kl_coef": 0.1}, True),
        ("nft", {"inner_epochs": 2, "credit": "sample"}, False),
        ("dpo", {"min_gap": 0.05, "sync_every": 1}, False),
        ("dpo", {"credit": "sample"}, True),
    ],
)
def test_two_processes_match_finished_samples_as_one_does(name: str, options: dict[str, object], shuffle: bool) -> None:
    """The processes' prompts have different numbers of segments, and frames."""
    own = {"anchor": 20.0, "hold": 8.0, **options}
    two_do_as_one(
        lambda **world: make(name, make_policy(), options=own, rate=1e-2, shuffle=shuffle, **world),
        compared=lambda metric: not metric.startswith("time/"),
    )


def two_do_as_one(
    build: Callable[..., GRPO],
    steps: int = 2,
    compared: Callable[[str], bool] = lambda name: name.startswith("loss/"),
) -> None:
    """Two processes end in the same bits, with the metrics of one process and nearly its weights; see `ThreadWorld`."""
    alone = build()
    start = flat(alone)
    expected = train(alone, steps)
    meeting = Meeting(2)
    # Built one after the other: drawing weights uses torch's global generator, which threads share.
    members = [build(world=ThreadWorld(rank, meeting)) for rank in range(2)]
    for metrics in train_together(members, steps):
        for mine, theirs in zip(metrics, expected, strict=True):
            assert mine.keys() == theirs.keys()
            for name in filter(compared, theirs):
                assert mine[name] == pytest.approx(theirs[name], rel=2e-3, abs=1e-5), name
    one, two = (flat(member) for member in members)
    assert torch.equal(one, two)
    # Not to the last bit: Adam turns the rounding of gradients that are 0 (the bias of keys) into small moves.
    assert (one - flat(alone)).norm() < 0.02 * (flat(alone) - start).norm()


def flat(grpo: GRPO) -> Tensor:
    """Return all weights in one vector."""
    return torch.cat([value.detach().flatten() for value in grpo.policy.network.parameters()])


def test_prompts_are_shared_and_together_are_those_of_one_process() -> None:
    alone = PromptCursor(PROMPTS, 4, 3)
    shares = [PromptCursor(PROMPTS, 4, 3, ThreadWorld(rank, Meeting(2))) for rank in range(2)]
    for step in range(3):
        assert [prompt for share in shares for prompt in share.at(step)] == alone.at(step)
    with pytest.raises(MotionkitError, match="cannot be shared"):
        PromptCursor(PROMPTS, 3, 0, ThreadWorld(0, Meeting(2)))
