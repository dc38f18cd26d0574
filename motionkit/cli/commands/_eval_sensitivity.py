"""What ``motionkit eval sensitivity`` does: open, change, score, print, and write the page."""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, cast

import torch

from motionkit import plugins
from motionkit.cli._stop import working
from motionkit.cli.commands._eval_run import tell_test_split
from motionkit.cli.commands._eval_settings import SensitivitySettings
from motionkit.cli.output import say
from motionkit.config import Chosen, choose_one
from motionkit.contracts.dataset import TextMotionDataset
from motionkit.contracts.device import resolve_device, set_threads
from motionkit.contracts.evaluation import claim, dataset_for
from motionkit.contracts.open_model import FoundModel, open_model
from motionkit.errors import MotionkitError
from motionkit.report import write_sensitivity
from motionkit.runs import folder_of
from motionkit.text_to_motion.evaluation.judge import open_judge, open_reward
from motionkit.text_to_motion.evaluation.quality import real_motions
from motionkit.text_to_motion.evaluation.sensitivity.audit import audit
from motionkit.text_to_motion.evaluation.sensitivity.bench import (
    SOURCES,
    Audited,
    Clips,
    kinds_of_reward,
    trained_kinds,
)
from motionkit.text_to_motion.evaluation.sensitivity.words import document, tables, verdict
from motionkit.text_to_motion.rewards.ask import try_reward

_STARTER, _NONE, _AUTO = "starter", "none", "auto"
_EVALUATOR = "mdm-matching"


def run_sensitivity(settings: SensitivitySettings) -> Mapping[str, Any]:
    """Audit rewards and print the result; returns the ``--json`` document with its tables."""
    out = settings.out or folder_of("eval sensitivity", "runs", None, None)
    claim(out, "sensitivity", overwrite=settings.overwrite)
    device = resolve_device(settings.device)
    set_threads(settings.threads, device, small=True)
    found = _found(settings)
    chosen = _data(settings, found)
    dataset = cast("TextMotionDataset", chosen.build())
    with plugins.catching():
        audited, notes = _audited(settings, dataset, device)
        _try_rewards(audited, dataset, settings, device)
    clips = Clips(dataset, settings.split, seed=settings.seed)
    tell_test_split(settings.split, [one.run for one in found])
    say(f"{len(clips)} clips of the {settings.split} split of {chosen.label}; {', '.join(one.name for one in audited)}")
    begun = time.process_time()
    with working("eval sensitivity", len(SOURCES)) as step:
        result = audit(
            clips, audited, device=device, limit=settings.clips, seed=settings.seed, classify=True, progress=step
        )
    verdicts = [verdict(result, name) for name in result.names]
    sentences = [one.sentence for one in verdicts]
    how: dict[str, Any] = {
        "dataset": chosen.label,
        "split": settings.split,
        "clips": len(clips),
        "most_clips_a_change": settings.clips,
        "seed": settings.seed,
    }
    notes += list(result.notes)
    title = f"Seen, in percent of what an unrelated caption costs (95 %): {settings.split} split of {chosen.label}"
    how["cpu_seconds"] = round(time.process_time() - begun, 1)
    made = {**how, "opened_test": settings.split == "test", **document(result), "notes": notes}
    names = [chosen.label for chosen in settings.reward]
    page = write_sensitivity(out, made, result, clips)
    closing = [*notes, _LEGEND, *sentences, f"{how['cpu_seconds']:.0f} CPU-seconds; page: {page}"]
    return {**made, "page": str(page), "table": tables(result, title, names), "closing": closing}


def _try_rewards(
    audited: Sequence[Audited], dataset: TextMotionDataset, settings: SensitivitySettings, device: torch.device
) -> None:
    """Let each reward of another package or file score two clips, so that what is wrong is said before anything starts.

    Raises:
        MotionkitError: It returns something else than scores (exit code 2).
        PluginError: It raised something.
    """
    foreign = [one.reward for one in audited if not one.own]
    found = real_motions(dataset, settings.split, 2, device=device) if foreign else None
    if found is not None:
        for reward in foreign:
            try_reward(reward, *found)


_LEGEND = (
    "* trained against this change. A reward that reads no text, or tells no captions apart: the fall in "
    "standard deviations over real clips. "
    "Of captions also how often the right one scores higher; chance is 50 %. Told alone: how often a classifier tells "
    "the change by the motion without its caption, or by the caption without its motion; chance is 50 %."
)


def _found(settings: SensitivitySettings) -> list[FoundModel]:
    """Return the models that rewards, judge and evaluator name by a path; released ones are made by no run."""
    chosen = [*settings.reward, *([settings.judge] if settings.judge is not None else [])]
    places = [str(getattr(one.options, "weights", _STARTER)) for one in chosen]
    if settings.evaluator.weights not in (_AUTO, _NONE):
        places.append(settings.evaluator.weights)
    found = []
    for place in dict.fromkeys(places):
        if place.partition(":")[0] == _STARTER:
            continue
        try:
            found.append(open_model(place))
        except MotionkitError:
            if not Path(place).expanduser().exists():
                raise
            found.append(FoundModel(place, "rewards", _EVALUATOR, "a released model"))
    return found


def _data(settings: SensitivitySettings, found: list[FoundModel]) -> Chosen:
    """Return the dataset that was asked for, else that of the first run that made a reward, else the starter's."""
    made = next((one for one in found if one.run is not None), None)
    model = made or (found[0] if found else FoundModel(_STARTER, "rewards", "tmr-dense", "the starter's TMR"))
    return dataset_for(model, settings.dataset)


def _audited(
    settings: SensitivitySettings, dataset: TextMotionDataset, device: torch.device
) -> tuple[list[Audited], list[str]]:
    """Open what is audited; returns it with what a reader should know."""
    notes: list[str] = []
    rewards = [(chosen, open_reward(chosen, dataset, device=device)) for chosen in settings.reward]
    audited = [
        Audited(
            chosen.label,
            reward,
            chosen.weight,
            kinds=kinds_of_reward(chosen.label, chosen.options),
            own=plugins.is_own(chosen.kind, chosen.name),
        )
        for chosen, reward in rewards
    ]
    judge, why = open_judge(settings.judge, dataset, device=device, trained=rewards)
    if judge is not None and all(judge is not reward for _, reward in rewards):
        named = settings.judge
        kinds = kinds_of_reward(named.label, named.options) if named is not None else trained_kinds(f"{_STARTER}:judge")
        own = named is None or plugins.is_own(named.kind, named.name)
        audited.append(Audited("judge", judge, summed=False, kinds=kinds, own=own))
    elif why:
        notes.append(why if judge is not None else f"no judge: {why}")
    weights = settings.evaluator.weights
    if weights == _AUTO:
        weights = _STARTER if _STARTER in (dataset.name, getattr(dataset, "source_name", "")) else _NONE
    if weights != _NONE:
        options = {"weights": weights, "glove": settings.evaluator.glove, "stats": settings.evaluator.stats}
        chosen = choose_one("rewards", _EVALUATOR, options)
        kinds = kinds_of_reward(_EVALUATOR, chosen.options)
        audited.append(Audited("evaluator", open_reward(chosen, dataset, device=device), summed=False, kinds=kinds))
    return audited, notes
