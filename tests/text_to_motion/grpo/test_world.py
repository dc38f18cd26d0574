"""Two processes with half the prompts each do the update that one process does with all of them."""

from __future__ import annotations

from collections.abc import Callable

import pytest
import torch
from torch import Tensor

from motionkit.errors import MotionkitError
from motionkit.text_to_motion.grpo.algorithms.options import GrpoObjective, GrpoRollout, GrpoSampler
from motionkit.text_to_motion.grpo.settings import GrpoOptimSettings
from motionkit.text_to_motion.grpo.step import GRPO
from motionkit.text_to_motion.grpo.train import PromptCursor

from ...made.threads import Meeting, in_threads
from .matching import make
from .toy import PROMPTS, engine, make_policy


def train(grpo: GRPO, steps: int) -> list[dict[str, float]]:
    cursor = PromptCursor(PROMPTS, 4, 0, grpo.world)
    return [grpo.step(cursor.at(step)) for step in range(steps)]


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
    build: Callable[..., GRPO], steps: int = 2, compared: Callable[[str], bool] = lambda name: name.startswith("loss/")
) -> None:
    """Two processes end in the same bits, with the metrics of one process and nearly its weights; see `Meeting`."""
    alone = build()
    start = flat(alone)
    expected = train(alone, steps)
    meeting = Meeting(2)
    # Built one after the other: drawing weights uses torch's global generator, which threads share.
    members = [build(world=meeting.world(rank)) for rank in range(2)]
    for metrics in in_threads(2, lambda world: train(members[world.rank], steps), meeting):
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
    shares = [PromptCursor(PROMPTS, 4, 3, Meeting(2).world(rank)) for rank in range(2)]
    for step in range(3):
        assert [prompt for share in shares for prompt in share.at(step)] == alone.at(step)
    with pytest.raises(MotionkitError, match="cannot be shared"):
        PromptCursor(PROMPTS, 3, 0, Meeting(2).world(0))
