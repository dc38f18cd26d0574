"""The result of a run of self-play, figures before and after with a verdict; and alarms while it trains."""

from __future__ import annotations

import logging
import math
from collections import deque
from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
import torch

from motionkit.tracking import Report
from motionkit.training.steps import State
from motionkit_regions.evaluation.known import Known
from motionkit_regions.evaluation.measure import RegionFigures, Task, Weights, as_it_is, change_of, measure
from motionkit_regions.evaluation.result import (
    GREEDY,
    LONGER,
    SAMPLED,
    attribute_table,
    describe_sampled,
    limits_of,
    of_data,
    sampled_table,
    side_effects,
    verdict,
)
from motionkit_regions.evaluation.split import equal_entropy, word_entropy
from motionkit_regions.policy import RegionPolicy

PATIENCE = 20
"""Steps of a moving window; an epoch if that is shorter."""

_COLLAPSE = 0.4  # collapse: distinct captions below this share of those of the first steps, while rewards do not rise
_DRIFT = 1.0  # drift: KL to the start in nats per word
_GAP = 0.1  # gap: gain of the policy's own cycle IoU minus that of the frozen judge

_WRONG, _ABSENT = 0.02, 0.03
"""Rise of the share of wrong attributes, and fall of the share of absent objects of which nothing is drawn; each must
also exceed the standard error of the share."""

_CYCLE, _JUDGE = "regions/cycle_iou_greedy", "regions/judge_iou_greedy"
_COUNT = "watched"
_WATCHED = ("attributes_wrong_greedy", "words_greedy", "no_target")

_ONCE = ("referring_iou", "no_target")  # figures that do not depend on the policy's captions

_logger = logging.getLogger("motionkit.sa2va_rl")


@dataclass(frozen=True)
class HeldOut:
    """A policy before and after training on the same regions, with the same draws."""

    greedy: tuple[RegionFigures, RegionFigures]  # before and after, captions of the likeliest words
    sampled: tuple[RegionFigures, RegionFigures]  # before and after, sampled captions
    equal: RegionFigures  # the policy before at the temperature of equal entropy
    temperature: float  # of the sampled captions
    equal_temperature: float  # that of equal entropy
    nats: float  # mean entropy of a word of both


@torch.no_grad()
def measure_both(policy: RegionPolicy, task: Task, start: Weights, known: Known, temperature: float) -> HeldOut:
    """Measure a trained policy, and the policy as it started."""

    def both(at: float) -> tuple[RegionFigures, RegionFigures]:
        after = measure(policy, task, start, known, temperature=at)
        with start():  # here the policy is the judge, and `start` must not be entered twice
            return measure(policy, task, as_it_is, known, temperature=at), after

    greedy, sampled = both(0.0), both(temperature)
    captions = [(task, sampled[1].captions)]
    entropy = word_entropy(policy, captions, temperature)
    with start():
        equal_temperature = equal_entropy(lambda value: word_entropy(policy, captions, value), entropy)
        nats = word_entropy(policy, captions, equal_temperature)
        equal = measure(policy, task, as_it_is, known, temperature=equal_temperature)
    return HeldOut(greedy, sampled, equal, temperature, equal_temperature, nats)


def summary_of(
    measured: HeldOut,  # what was measured
    policy: RegionPolicy,
    task: Task,  # the regions
    known: Known,  # what is known of them
    name: str,  # name of the data
    best_step: int,  # step of the policy that is kept
    seed: int,  # of the intervals
) -> dict[str, object]:
    """Return the parts of the summary document; see `motionkit.training.base.Trainer.train`."""
    blocks = _blocks(measured, seed)
    data = of_data(task.captions, known)
    blocks = {key: {**values, "data": data[key]} if key in data else values for key, values in blocks.items()}
    heldout = {key: blocks[key] for key in (*GREEDY, *_ONCE) if key in blocks}
    sampled = {key: blocks[key] for key in SAMPLED if key in blocks}
    attributes = {key: values for key, values in blocks.items() if key not in heldout and key not in sampled}
    sentence = verdict({**heldout, **sampled}, compared=True, equal=measured.equal_temperature, lead=False)
    for text in side_effects(heldout):
        _logger.warning("%s", text)
    notes = [*known.notes(name), *limits_of(policy, task.captions)]
    for text in notes:
        _logger.info("%s", text)
    _logger.info("%s", sentence)
    count = len(task)
    return {
        "heldout": heldout,
        "heldout_sampled": sampled,
        "attributes": attributes,
        "equal_entropy": {"temperature": measured.equal_temperature, "nats": measured.nats},
        "measured_on": f"{count:,} held-out regions: captions of the likeliest words, and masks at the policy's own "
        "threshold. Data: the captions of the data. The interval is a 95 % bootstrap over regions.",
        "notes": [describe_sampled(measured.temperature, measured.equal_temperature, measured.nats, count), *notes],
        "table": [
            Report(heldout).table(f"{count:,} held-out regions, captions of the likeliest words"),
            sampled_table(sampled, measured.equal_temperature),
            *attribute_table(attributes),
        ],
        "verdict": sentence,
        "best_step": best_step,
    }


def _blocks(measured: HeldOut, seed: int) -> dict[str, Mapping[str, object]]:
    """Return before, after and the change of every figure that some region has."""
    (before, after), blocks = measured.greedy, dict[str, Mapping[str, object]]()
    for name, scores in after.scores.items():
        if np.isfinite(scores).any():
            key = name if name in _ONCE else f"{name}_greedy"
            blocks[key] = change_of(before.scores[name], scores, seed)
    (before, after), equal = measured.sampled, measured.equal
    for name in SAMPLED:
        if name in after.scores:
            change = change_of(before.scores[name], after.scores[name], seed)
            at_equal = change_of(equal.scores[name], after.scores[name], seed)
            blocks[name] = {**change, "equal_entropy": {key: at_equal[key] for key in ("before", "delta", "ci95")}}
    return blocks


class SelfPlayAlarms:
    """Watches the metrics of a run; each alarm is given once.

    Alarms are of rewards without variance, collapse, drift, a private code of policy and partner; and on watched
    regions of wrong attributes, longer captions, masks of absent objects.
    """

    def __init__(self, patience: int = PATIENCE) -> None:
        self._patience = max(1, patience)
        self._recent: deque[Mapping[str, float]] = deque(maxlen=self._patience)
        self._first: dict[str, float] = {}
        self._reported: list[str] = []

    def begin(self, watched: Mapping[str, float], count: int) -> None:
        """Take in the metrics of `count` watched regions before training."""
        self._first |= {**watched, _COUNT: float(count)}

    def look(self, metrics: Mapping[str, float]) -> list[str]:
        """Take in the metrics of a step; return new alarms."""
        kept = ("zero_std_frac", "reward_mean", "distinct", "kl_div")
        self._recent.append({name: value for name, value in metrics.items() if name.rpartition("/")[2] in kept})
        texts = {**self._gap(metrics), **self._worse(metrics)}
        if len(self._recent) == self._patience:
            for loop in sorted({name.partition("/")[0] for name in self._recent[-1]}):
                texts |= {**self._flat(loop), **self._collapse(loop), **self._drift(loop)}
        fresh = {key: text for key, text in texts.items() if key not in self._reported}
        self._reported += fresh
        return list(fresh.values())

    def _mean(self, name: str) -> float | None:
        """Return the mean over the newest steps; None if one of them lacks the metric."""
        values = [metrics[name] for metrics in self._recent if name in metrics]
        return sum(values) / len(values) if len(values) == self._patience else None

    def _flat(self, loop: str) -> dict[str, str]:
        if self._mean(f"{loop}/zero_std_frac") != 1.0:
            return {}
        reward = self._mean(f"{loop}/reward_mean")
        text = (
            f"all samples of a region have had the same reward in {loop} for {self._patience} steps (mean {reward:.3g})"
        )
        fix = "a larger --loop2.sigma" if loop == "loop2" else "a higher rollout.temperature"
        return {f"{loop}/flat": f"{text}: nothing is learned there; try {fix}, more --group-size, or another reward"}

    def _collapse(self, loop: str) -> dict[str, str]:
        now, paid = (self._mean(f"{loop}/{name}") for name in ("distinct", "reward_mean"))
        if now is None or paid is None:
            return {}
        first = self._first.setdefault(f"{loop}/distinct", now)
        if paid > self._first.setdefault(f"{loop}/reward_mean", paid) or now >= _COLLAPSE * first:
            return {}
        text = (
            f"the distinct captions of {loop} fell from {first:.0%} to {now:.0%} of a step and its reward did not rise"
        )
        return {f"{loop}/collapse": f"{text}: the policy collapses; raise --kl-coef, or lower --learning-rate"}

    def _drift(self, loop: str) -> dict[str, str]:
        now = self._mean(f"{loop}/kl_div")
        if now is None or now < _DRIFT:
            return {}
        return {
            f"{loop}/drift": f"the KL of {loop} to the start is {now:.2g}: raise --kl-coef, or lower --learning-rate"
        }

    def _gap(self, metrics: Mapping[str, float]) -> dict[str, str]:
        if _CYCLE not in metrics:
            return {}
        cycle, judge = (metrics[name] - self._first.setdefault(name, metrics[name]) for name in (_CYCLE, _JUDGE))
        if cycle - judge <= _GAP:
            return {}
        text = f"the policy's own cycle IoU rose by {cycle:.2f}, by the frozen judge {judge:.2f}"
        return {"gap": f"{text}: captions and masks agree on a code of their own"}

    def _worse(self, metrics: Mapping[str, float]) -> dict[str, str]:
        """Check the side effects of rewards: wrong words, many words, masks of absent objects."""
        pairs = {name: (self._first.get(f"regions/{name}"), metrics.get(f"regions/{name}")) for name in _WATCHED}
        texts = {}
        count = self._first.get(_COUNT, 1.0)
        for name, (first, now) in pairs.items():
            if first is None or now is None:
                continue
            chance = math.sqrt(max(0.0, first * (1 - first)) / count)  # standard error of a share; of few it is large
            if name == "attributes_wrong_greedy" and now - first > max(_WRONG, chance):
                texts[name] = (
                    f"captions of watched regions name {now:.1%} of the attributes wrongly, {first:.1%} before: what "
                    "pays the captions does not see it; add a reward that does, or raise --kl-coef"
                )
            if name == "words_greedy" and now > (1 + LONGER) * first:
                texts[name] = (
                    f"captions of watched regions grew from {first:.1f} to {now:.1f} words: the rewards pay for words; "
                    "--loop1-reward length --loop1-reward.longest N lets them cost something"
                )
            if name == "no_target" and first - now > max(_ABSENT, chance):
                texts[name] = (
                    f"nothing is drawn of {now:.0%} of absent objects, {first:.0%} before: masks get worse where the "
                    "loops do not look"
                )
        return texts

    def state(self) -> State:
        """Return the window, the first values and the alarms given."""
        if not self._recent and not self._first:
            return State()
        return State(
            values={"recent": [dict(metrics) for metrics in self._recent], "first": self._first, "said": self._reported}
        )

    def load_state(self, state: State) -> None:
        """Put it back."""
        self._recent.extend(state.values.get("recent", []))
        self._first = dict(state.values.get("first", {}))
        self._reported = list(state.values.get("said", []))
