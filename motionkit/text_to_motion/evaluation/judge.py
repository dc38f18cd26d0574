"""What a run settles before training: prompts that fit the policy, its rewards and judge, held-out data kept apart.

`calibrate` scores samples and reference motions by every reward: scale, ties
and spread within groups.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, dataclass
from typing import Any

import torch
from torch import Tensor

from motionkit.config import Chosen, choose_one
from motionkit.contracts.dataset import TextMotionDataset
from motionkit.contracts.device import resolve_device
from motionkit.contracts.reward import Reward
from motionkit.errors import MotionkitError
from motionkit.motion import MotionBatch
from motionkit.page.wording import count
from motionkit.rl import DDIM, NoiseSource, StepPlan
from motionkit.text import Prompt
from motionkit.text_to_motion.data.joined import MIN_SEGMENT, shared_motions
from motionkit.text_to_motion.generating import sample
from motionkit.text_to_motion.policy import DiffusionPolicy, refuse_extras
from motionkit.text_to_motion.rewards.ask import Elsewhere
from motionkit.text_to_motion.rewards.mix import RewardMix, Scored
from motionkit.tracking import table_of

_CHUNK = 64  # motions sampled and scored at a time
_DROWNED = 10.0  # ratio of the effects of two rewards from which a warning is given
_TIED = 0.5  # share of tied pairs from which a warning is given
_EQUAL = 1e-6  # scores are tied if they differ by less than this share of the largest

Trained = Sequence[tuple[Chosen, Reward]]  # the rewards of a run: as chosen, and opened


def require_rate(policy: DiffusionPolicy, *, fps: float, label: str) -> None:
    """Refuse prompts of another frame rate than the policy's."""
    if abs(policy.fps - fps) > 1e-6:
        raise MotionkitError(
            f"{label} has {fps:g} frames per second, the policy {policy.fps:g}.",
            why="a prompt's length in frames would be another duration.",
            fix="choose a dataset and a checkpoint of the same rate, or a dataset of prompts alone; motionkit convert "
            "writes humanml at 20 and kit at 12.5 frames per second.",
        )


def require_fit(policy: DiffusionPolicy, prompts: Sequence[Prompt], *, fps: float, label: str) -> None:
    """Refuse prompts that are too long for the policy, of another frame rate, or with extras that it does not read."""
    require_rate(policy, fps=fps, label=label)
    refuse_extras(policy, prompts)
    longest = max(prompts, key=lambda prompt: prompt.length, default=None)
    if longest is not None and longest.length > policy.max_length:
        raise MotionkitError(
            f"{label} asks for {longest.length} frames ({longest.text!r}), the policy makes at most "
            f"{policy.max_length}.",
            fix=f"use prompts of at most {policy.max_length} frames ({_compose(longest, policy.max_length)}), or a "
            "policy of longer motions.",
        )


def _compose(prompt: Prompt, most: int) -> str:
    """Return a command that makes prompts that fit: shorter ones, or with fewer segments."""
    command, fitting = f"motionkit compose --target-length {most}", most // MIN_SEGMENT
    if len(prompt.segments) <= fitting:
        return command
    return f"{command} --k-segments {fitting}: {len(prompt.segments)} segments of {MIN_SEGMENT} frames are longer"


def open_reward(chosen: Chosen, dataset: TextMotionDataset, *, device: torch.device) -> Reward:
    """Open a reward on the device of its option ``device``, by default on that of the samples."""
    named = chosen.get("device", "")
    place = resolve_device(named, flag=f"--reward.{chosen.label}.device") if named else device
    reward: Reward = chosen.build(dataset=dataset, device=place)
    return reward if place == device else Elsewhere(reward, place)


def open_judge(
    chosen: Chosen | None, dataset: TextMotionDataset, *, device: torch.device, trained: Trained = ()
) -> tuple[Reward | None, str]:
    """Open the judge.

    Args:
        chosen: Any reward with its options. None takes the starter's judge on starter data, elsewhere the twin that one
            of the rewards names (`motionkit.plugins.Component.twin`).
        dataset: Training data.
        device: Where the samples are.
        trained: The rewards of the run; a judge that is one of them is not opened twice.

    Returns:
        The judge and a warning, which may be empty; or None and the reason.
    """
    if chosen is None:
        # Prompts composed of the starter's clips are the starter's captions.
        source = dataset.source_name
        if source != "starter":
            return _twin(trained, dataset, device, source)
        chosen = choose_one("rewards", "tmr-dense", {"weights": "starter:judge"})
    for other, reward in trained:
        if (other.name, other.options) == (chosen.name, chosen.options):
            return reward, f"the judge is the reward {reward.name} itself, so it cannot tell whether that is gamed"
    return open_reward(chosen, dataset, device=device), ""


def _twin(trained: Trained, dataset: TextMotionDataset, device: torch.device, source: str) -> tuple[Reward | None, str]:
    why = f"none is known for {source} data; --judge tmr-dense --judge.weights DIR gives a second TMR"
    for chosen, _ in trained:
        name = chosen.component.twin
        if name and name not in {other.label for other, _ in trained}:
            try:
                return open_reward(choose_one("rewards", name, {}), dataset, device=device), ""
            except MotionkitError as error:  # the twin is a default: its error must not stop the run
                why = f"{name}, which {chosen.label} names as its twin, cannot be used: {error.message}"
    return None, why


def refuse_one_split(trained: str, measured: str) -> None:
    """Refuse to measure on the split that is trained on."""
    if trained == measured:
        raise MotionkitError(
            f"prompts.split and heldout.split are both {trained}.",
            why="held-out scores would be measured on training data.",
            fix="--set prompts.split=train, or --set heldout.prompts=0 to measure nothing.",
        )


def shared_sources(
    trained: Sequence[Prompt],
    asked: Sequence[Prompt],  # prompts that are measured
    *,
    allowed: bool,  # ``heldout.allow_shared``
    what: str,  # both sides, for the message, such as ``the train and the val prompts of humanml``
) -> list[str]:
    """Return the motions that both sides have in common, a motion and its mirror image counted as one; sorted."""
    names = [{name for prompt in prompts for name in prompt.source_ids} for prompts in (trained, asked)]
    shared = shared_motions(*names)
    if shared and not allowed:
        raise MotionkitError(
            f"{what} share {len(shared)} of {len(names[1])} motions, such as {shared[0]}.",
            why="held-out scores would partly be measured on training data.",
            fix="make splits that share no motion, or --set heldout.prompts=0 to measure nothing; "
            "--set heldout.allow_shared=true measures them anyway and notes it in the run.",
        )
    return shared


def describe_shared(shared: Sequence[str]) -> str:
    """Return the warning of a run with shared motions."""
    return (
        f"both trained on and measured (heldout.allow_shared): {count(len(shared), 'motion')}, such as {shared[0]}; "
        "held-out scores will be optimistic."
    )


@dataclass(frozen=True)
class RewardFigures:
    """One reward of a mix, in its own units."""

    name: str
    weight: float
    mean: float  # mean over samples of the policy as it starts
    std: float  # their standard deviation
    group_std: float  # standard deviation within a group, mean over groups: the signal of group-relative algorithms
    ties: float  # share of the pairs within groups with equal scores
    # Mean over reference motions with their own texts, a reference for a perfect policy; NaN if there are none.
    real: float
    applies: float  # share of the samples that it applies to

    @property
    def effect(self) -> float:
        """Contribution to the differences within a group: weight times spread."""
        return abs(self.weight) * self.group_std

    def document(self) -> dict[str, object]:
        """Return the figures, JSON-able; NaN becomes None."""
        result = asdict(self) | {"effect": self.effect}
        return {key: None if value != value else value for key, value in result.items()}


@dataclass(frozen=True)
class Calibration:
    """The figures of a mix."""

    rewards: tuple[RewardFigures, ...]  # one row per reward
    samples: int  # samples per prompt
    prompts: int
    normalized: bool = False  # whether the mix standardises its rewards, so that only weights count

    def table(self) -> dict[str, Any]:
        """Return the figures as a table of a summary."""
        columns = ["reward", "weight", "mean", "std", "std in group", "x weight", "ties", "reference motions"]
        rows = [
            [row.name, f"{row.weight:g}", *map(_shown, (row.mean, row.std, row.group_std, row.effect)),
             _percent(row.ties), _shown(row.real)]
            for row in self.rewards
        ]  # fmt: skip
        title = f"Rewards before training: {self.prompts} prompts x {self.samples} samples"
        return table_of(title, columns, rows)

    def lines(self) -> list[str]:
        """Return the table as lines of text, its columns aligned."""
        table = self.table()
        head, body = table["columns"], table["rows"]
        widths = [max(map(len, column)) for column in zip(head, *body, strict=True)]
        rows = ["  ".join(f"{cell:>{width}}" for cell, width in zip(row, widths, strict=True)) for row in [head, *body]]
        return [f"{table['title']}:", *rows]

    def warnings(self) -> list[str]:
        """Return the warnings, a sentence each."""
        result = [
            f"the reward {row.name} is the same for all samples of a prompt: it cannot be learnt by comparing them"
            if row.ties == 1.0
            else f"{row.ties:.0%} of the pairs of samples of one prompt have the same {row.name}: it says little"
            for row in self.rewards
            if row.ties >= _TIED
        ]
        heard = [row for row in self.rewards if row.effect > 0]
        if heard and not self.normalized:
            loudest = max(heard, key=lambda row: row.effect)
            result += [
                f"the reward {loudest.name} drowns {row.name}: weight x spread within a group is {loudest.effect:.2g} "
                f"against {row.effect:.2g}; --reward {row.name}={_rounded(row.weight * loudest.effect / row.effect)} "
                "would make them equal; algorithms that compare samples can also --set reward_mix.normalize=group"
                for row in heard
                if _DROWNED * row.effect < loudest.effect
            ]
        return result


@torch.no_grad()
def calibrate(
    policy: DiffusionPolicy,
    prompts: Sequence[Prompt],
    rewards: RewardMix,
    real: tuple[MotionBatch, Sequence[Prompt]] | None,
    *,
    samples: int,
    steps: Sequence[int],
    guidance: float,
) -> Calibration:
    """Score samples of a policy and reference motions by every reward of a mix."""
    plan = StepPlan.build(policy.schedule, DDIM(0.0), steps=steps)
    size = max(1, _CHUNK // samples)
    scored = []
    for start in range(0, len(prompts), size):
        chunk = prompts[start : start + size]
        done = sample(policy, chunk, plan, NoiseSource(0), samples=samples, guidance=guidance, step=-1)
        scored.append(rewards.score(done.motions, done.prompts))
    truth = None if real is None else rewards.score(*real)
    rows = []
    for number, (reward, weight) in enumerate(rewards.terms):
        total, applies = _column(scored, number)
        known = torch.where(applies & total.isfinite(), total, torch.nan).view(-1, samples)
        ceiling = float("nan")
        if truth is not None:
            real_scores, applying = _column([truth], number)
            real_scores = real_scores[applying & real_scores.isfinite()]
            ceiling = float(real_scores.mean()) if len(real_scores) else ceiling
        finite = known[known.isfinite()]
        nan = float("nan")
        rows.append(
            RewardFigures(
                name=reward.name,
                weight=weight,
                mean=float(finite.mean()) if len(finite) else nan,
                std=float(finite.std()) if len(finite) > 1 else nan,
                group_std=_within(known),
                ties=_ties(known),
                real=ceiling,
                applies=float(applies.double().mean()),
            )
        )
    return Calibration(tuple(rows), samples, len(prompts), rewards.normalize == "group")


def _column(scored: Sequence[Scored], number: int) -> tuple[Tensor, Tensor]:
    """Return all scores of one reward ``[N]`` and which samples it applies to, in double precision."""
    parts = [part.terms[number].scores for part in scored]
    return torch.cat([scores.total for scores in parts]).double(), torch.cat([scores.applying for scores in parts])


def _within(known: Tensor) -> float:
    """Return the standard deviation within rows of ``[P, S]``, mean over rows; NaN is ignored."""
    spreads = [float(row[row.isfinite()].std()) for row in known if int(row.isfinite().sum()) > 1]
    return sum(spreads) / len(spreads) if spreads else float("nan")


def _ties(known: Tensor) -> float:
    """Return the share of pairs within rows of ``[P, S]`` with equal scores."""
    first, second = torch.triu_indices(known.shape[1], known.shape[1], 1)
    gap = (known[:, first] - known[:, second]).abs()
    gap = gap[gap.isfinite()]
    largest = float(known[known.isfinite()].abs().max()) if bool(known.isfinite().any()) else 0.0
    return float((gap <= _EQUAL * largest).double().mean()) if len(gap) else float("nan")


def _shown(value: float) -> str:
    return "n/a" if value != value else f"{value:.3g}"


def _rounded(weight: float) -> str:
    return f"{float(f'{weight:.2g}'):g}"


def _percent(value: float) -> str:
    return "n/a" if value != value else f"{value:.0%}"
