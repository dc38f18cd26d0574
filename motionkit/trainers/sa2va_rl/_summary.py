"""What a run found: figures before and after, and a verdict."""

from __future__ import annotations

import logging
from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
import torch

from motionkit.evaluation.regions._entropy import equal_entropy, word_entropy
from motionkit.evaluation.regions._figures import GREEDY, SAMPLED, of_data
from motionkit.evaluation.regions._known import Known, limits_of
from motionkit.evaluation.regions._measure import RegionFigures, as_it_is, change_of, measure
from motionkit.evaluation.regions._result import attribute_table, describe_sampled, sampled_table, side_effects, verdict
from motionkit.evaluation.regions._task import Task, Weights
from motionkit.policies.base import RegionPolicy
from motionkit.tracking import result_table, results

_logger = logging.getLogger("motionkit.sa2va_rl")
_ONCE = ("referring_iou", "no_target")
"""Figures of no caption of the policy's own."""


@dataclass(frozen=True)
class HeldOut:
    """A policy before and after training on the same regions, with the same draws.

    Attributes:
        greedy: Before and after, captions of the likeliest words.
        sampled: Before and after, sampled captions.
        equal: The policy before at the temperature of equal entropy.
        temperature: Of the sampled captions.
        equal_temperature: That of equal entropy.
        nats: Mean entropy of a word that both have then.
    """

    greedy: tuple[RegionFigures, RegionFigures]
    sampled: tuple[RegionFigures, RegionFigures]
    equal: RegionFigures
    temperature: float
    equal_temperature: float
    nats: float


@torch.no_grad()
def measure_both(policy: RegionPolicy, task: Task, start: Weights, known: Known, temperature: float) -> HeldOut:
    """Measure a trained policy, and the policy as it started.

    Args:
        policy: The policy with its trained weights.
        task: Held-out regions.
        start: Puts the weights of the start in place.
        known: What is known of the regions.
        temperature: Of sampled captions.
    """

    def both(at: float) -> tuple[RegionFigures, RegionFigures]:
        after = measure(policy, task, start, known, temperature=at)
        with start():  # the policy is the judge then: weights that are in place must not be put in place again
            return measure(policy, task, as_it_is, known, temperature=at), after

    greedy, sampled = both(0.0), both(temperature)
    said = [(task, sampled[1].captions)]
    wanted = word_entropy(policy, said, temperature)
    with start():
        own = equal_entropy(lambda value: word_entropy(policy, said, value), wanted)
        nats = word_entropy(policy, said, own)
        equal = measure(policy, task, as_it_is, known, temperature=own)
    return HeldOut(greedy, sampled, equal, temperature, own, nats)


def summary_of(
    found: HeldOut, policy: RegionPolicy, task: Task, known: Known, name: str, best_step: int, seed: int
) -> dict[str, object]:
    """Return the parts of the summary document; see `motionkit.trainers.base.Trainer.train`.

    Args:
        found: What was measured.
        policy: The policy.
        task: The regions.
        known: What is known of them.
        name: Name of the data.
        best_step: Step of the policy that is kept.
        seed: Of the intervals.
    """
    blocks = _blocks(found, seed)
    data = of_data(task.captions, known)
    blocks = {key: {**one, "data": data[key]} if key in data else one for key, one in blocks.items()}
    heldout = {key: blocks[key] for key in (*GREEDY, *_ONCE) if key in blocks}
    sampled = {key: blocks[key] for key in SAMPLED if key in blocks}
    attributes = {key: one for key, one in blocks.items() if key not in heldout and key not in sampled}
    said = verdict({**heldout, **sampled}, compared=True, equal=found.equal_temperature, lead=False)
    for text in side_effects(heldout):
        _logger.warning("%s", text)
    notes = [*known.notes(name), *limits_of(policy, task.captions)]
    for text in notes:
        _logger.info("%s", text)
    _logger.info("%s", said)
    count = len(task)
    return {
        "heldout": heldout,
        "heldout_sampled": sampled,
        "attributes": attributes,
        "equal_entropy": {"temperature": found.equal_temperature, "nats": found.nats},
        "measured_on": f"{count:,} held-out regions: captions of the likeliest words, and masks at the policy's own "
        "threshold. Data: the captions of the data. The interval is a 95 % bootstrap over regions.",
        "notes": [describe_sampled(found.temperature, found.equal_temperature, found.nats, count), *notes],
        "table": [
            result_table(results(heldout), f"{count:,} held-out regions, captions of the likeliest words"),
            sampled_table(sampled, found.equal_temperature),
            *attribute_table(attributes),
        ],
        "verdict": said,
        "best_step": best_step,
    }


def _blocks(found: HeldOut, seed: int) -> dict[str, Mapping[str, object]]:
    """Return before, after and the change of every figure that some region has."""
    (before, after), blocks = found.greedy, dict[str, Mapping[str, object]]()
    for name, own in after.scores.items():
        if np.isfinite(own).any():
            key = name if name in _ONCE else f"{name}_greedy"
            blocks[key] = change_of(before.scores[name], own, seed)
    (before, after), equal = found.sampled, found.equal
    for name in SAMPLED:
        if name in after.scores:
            one = change_of(before.scores[name], after.scores[name], seed)
            beside = change_of(equal.scores[name], after.scores[name], seed)
            blocks[name] = {**one, "equal_entropy": {key: beside[key] for key in ("before", "delta", "ci95")}}
    return blocks
