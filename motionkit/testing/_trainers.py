"""The contracts of a trainer, of an algorithm of `grpo`, and of a loop of self-play."""

from __future__ import annotations

import json
import math
from collections.abc import Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor

from motionkit.config import Resolved, TrainerSettings, choose_one
from motionkit.contracts.reward import RewardScores
from motionkit.motion import MotionBatch
from motionkit.regions.evaluation.measure import Task, open_task
from motionkit.regions.policy import RegionPolicy
from motionkit.regions.self_play.loop import Played, Turn
from motionkit.rl import RowNoise
from motionkit.runs import Run
from motionkit.testing._component import Findings, check_component, options_of
from motionkit.testing._rewards import TEXTS
from motionkit.text import Prompt
from motionkit.text_to_motion.grpo.api import GRPO
from motionkit.tracking import definition
from motionkit.training.execute import build_trainer, run_trainer

_PROMPTS = [Prompt((text,), (40,), key=text) for text in TEXTS[:2]]
_REGIONS, _GROUP = 2, 4  # regions of a task of self-play, samples of each


def check_trainer(name: str, folder: Path, *, settings: dict[str, Any] | None = None) -> Mapping[str, Any]:
    """Check what ``motionkit <trainer>`` relies on, by a run with `settings`.

    Its settings extend `TrainerSettings`; preparing creates no run folder; its plan and its result are JSON-able; it
    logs every step under defined names and leaves a checkpoint of the last step.

    Args:
        name: Name of the trainer.
        folder: Empty folder to run in.
        settings: Settings that make it quick.

    Returns:
        The summary document of the run.

    Raises:
        AssertionError: Lists all violations, a sentence each.
    """
    component = check_component("trainers", name)
    findings = Findings(f"trainer {name!r}")
    if not findings.expect(issubclass(component.options, TrainerSettings), "Its settings must extend TrainerSettings."):
        findings.close()
    chosen = options_of(component, settings)
    trainer = build_trainer(name, component, chosen)
    findings.expect(
        isinstance(getattr(trainer, "shape_keys", None), tuple), "It needs 'shape_keys', a tuple of settings."
    )
    trainer.prepare()
    findings.expect(not any(folder.iterdir()), "prepare() must not write anything.")
    try:
        json.dumps(dict(trainer.describe()))
    except TypeError as error:
        findings.expect(False, f"describe() is not JSON-able: {error}")
    placed = chosen.model_copy(update={"run": chosen.run.model_copy(update={"out": folder / "run"})})
    steps: list[int] = []

    def watch(run: Run) -> AbstractContextManager[None]:
        run.listeners.append(lambda step, metrics: steps.append(step))
        return nullcontext()

    outcome = run_trainer(name.replace(".", " "), trainer, Resolved(placed, {}), component=component, watch=watch)
    findings.expect(not component.page or outcome.page is not None, "Its page could not be written; see the warning.")
    total = chosen.run.num_steps
    findings.expect(
        bool(steps) and max(steps) == total, f"It was asked for {total} steps and logged up to {max(steps, default=0)}."
    )
    findings.expect((folder / "run" / "checkpoints" / "last").is_file(), "It leaves no checkpoint.")
    findings.close()
    return outcome.document


class _Height:
    """Mean height of the root: a reward with a gradient."""

    name = "height"

    def score(self, motions: MotionBatch, prompts: Sequence[Prompt]) -> RewardScores:
        height = torch.where(motions.mask, motions.joints[..., 0, 1], 0.0)  # [N, T]
        return RewardScores(total=height.sum(1) / motions.lengths)


def check_algorithm(name: str, *, options: Mapping[str, Any] | None = None) -> None:
    """Check what `grpo` relies on in every algorithm, by two updates of the starter policy.

    Each update changes the trained parameters and returns finite losses under metrics that `motionkit.tracking`
    defines; the same seed gives a bitwise equal update.

    Args:
        name: Name of the algorithm.
        options: Its options, by group: ``{"objective": {"inner_epochs": 2}}``.

    Raises:
        AssertionError: Lists all violations, a sentence each.
    """
    check_component("algorithms", name)
    findings = Findings(f"algorithm {name!r}")
    engine = _engine(name, options or {})
    rule = engine.algorithm
    findings.expect(rule.passes >= 1, f"passes must be at least 1, is {rule.passes}.")
    findings.expect(rule.samples >= 1, f"samples must be at least 1, is {rule.samples}.")
    findings.close()
    before = _weights(engine)
    metrics = engine.step(_PROMPTS) | engine.step(_PROMPTS)
    for metric, value in metrics.items():
        findings.expect(_is_defined(metric), f"The metric {metric!r} is not defined in motionkit.tracking.")
        loss = metric.startswith("loss/")
        findings.expect(not loss or math.isfinite(value), f"{metric} is {value} after two updates.")
    after = _weights(engine)
    findings.expect(not torch.equal(before, after), "Two updates leave all trained parameters as they were.")
    again = _engine(name, options or {})
    for _ in range(2):
        again.step(_PROMPTS)
    findings.expect(torch.equal(_weights(again), after), "The same seed gives other parameters after two updates.")
    findings.close()


def _engine(name: str, options: Mapping[str, Any]) -> GRPO:
    policy = choose_one("policies", "mdm", {"checkpoint": "starter"}).build()
    return GRPO(policy, _Height(), algorithm=choose_one("algorithms", name, options), seed=0)


def _weights(engine: GRPO) -> Tensor:
    """Return all trained parameters as one vector."""
    return torch.cat([parameter.detach().flatten() for _, parameter in engine.learner.trained])


def _is_defined(metric: str) -> bool:
    try:
        definition(metric)
    except KeyError:
        return False
    return True


def check_loop(name: str, *, options: Mapping[str, Any] | None = None) -> None:
    """Check what `sa2va-rl` relies on in every loop, by playing it with the starter's policy on drawn shapes.

    Its results have a row for each sample; before any update every ratio is 1 and every KL 0; the log-ratios have a
    gradient; the same noise gives the same samples.

    Args:
        name: Name of the loop.
        options: Its options.

    Raises:
        AssertionError: Lists all violations, a sentence each.
    """
    check_component("loops", name)
    findings = Findings(f"loop {name!r}")
    policy: RegionPolicy = choose_one("policies", "tiny-sa2va", {}).build(device="cpu", dataset=None)
    loop = choose_one("loops", name, dict(options or {})).build(policy=policy)
    task = _task(policy)
    measured = loop.measure(task)

    def play() -> Played:
        noise = RowNoise((0,), len(task.captions))
        played: Played = loop.play(task, Turn(nullcontext, nullcontext, noise, 1.0, measured))
        return played

    played = play()
    count = len(task.captions)
    findings.expect(len(played.made.masks) == count, f"made.masks has {len(played.made.masks)} rows, not {count}.")
    findings.expect(len(played.made.texts) == count, f"made.texts has {len(played.made.texts)} rows, not {count}.")
    findings.close()
    again = play()
    same = torch.equal(again.made.masks.masks, played.made.masks.masks)
    same = same and list(again.made.texts.texts) == list(played.made.texts.texts)
    findings.expect(same, "The same noise gives other samples; draw from turn.noise alone.")
    for parameter in policy.network.parameters():
        parameter.requires_grad_(True)
    if played.direct is not None:
        loss = played.direct(torch.zeros(count))
        findings.expect(tuple(loss.shape) == (count,), f"direct gives {tuple(loss.shape)}, not ({count},).")
    else:
        terms = played.terms()
        shape = tuple(terms.log_ratio.shape)
        findings.expect(shape[:1] == (count,) and len(shape) == 2, f"log_ratio is {shape}, not ({count}, S).")
        for part in (terms.kl, terms.mask):
            findings.expect(tuple(part.shape) == shape, f"a term is {tuple(part.shape)}, log_ratio {shape}.")
        off = float(terms.log_ratio.detach()[terms.mask].abs().max())
        findings.expect(off < 1e-4, f"Before any update the log-ratio is {off}, not 0.")
        findings.expect(float(terms.kl.detach()[terms.mask].abs().max()) < 1e-4, "Before any update the KL is not 0.")
        loss = terms.log_ratio.sum()
    findings.expect(loss.requires_grad, "The log-ratios have no gradient; compute them anew in terms().")
    findings.close()


def _task(policy: RegionPolicy) -> Task:
    data = choose_one("datasets", "shapes", {}).build()
    return open_task(policy, data.regions("train", np.arange(_REGIONS))).repeated(_GROUP)
