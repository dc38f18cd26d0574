"""What the commands of ``motionkit eval`` do with policies: open, measure, print."""

from __future__ import annotations

import shlex
from collections.abc import Mapping
from typing import Any, cast

from motionkit.cli import command_line
from motionkit.cli._stop import working
from motionkit.cli.commands._eval_settings import MotionSettings, TextToMotionSettings
from motionkit.cli.output import say, warn
from motionkit.datasets.base import TextMotionDataset
from motionkit.errors import MotionkitError
from motionkit.evaluation import FoundModel, dataset_for, open_test_split
from motionkit.evaluation.text_to_motion import (
    amount_of,
    evaluate,
    explain,
    find_policy,
    open_all,
    open_policy,
    sampling_of,
)
from motionkit.policies.device import resolve_device
from motionkit.runs import folder_of

_STARTER = "starter"


def explained() -> Mapping[str, Any]:
    """Return the definition of every figure, as a table."""
    rows = explain()
    metrics = {name: {"unit": unit, "better": better, "meaning": text} for name, unit, better, text in rows}
    return {
        "definitions": metrics,
        "table": {"title": "", "columns": ["figure", "unit", "better", "meaning"], "rows": rows},
    }


def run_text_to_motion(settings: TextToMotionSettings, path: str) -> Mapping[str, Any]:
    """Measure a policy and print the result; returns the ``--json`` document with its table."""
    device = resolve_device(settings.device)
    found = find_policy(chosen_path(settings, path))
    label, dataset = open_data(settings, found)
    policy = open_policy(found, settings.policy, dataset, full=settings.protocol == "mdm", device=device)
    opened = open_all(
        dataset,
        settings.split,
        {found.path: policy},
        label=label,
        evaluator=settings.evaluator.weights,
        glove=settings.evaluator.glove,
        stats=settings.evaluator.stats,
        k_segments=settings.prompts.k_segments,
        seed=settings.seed,
        device=device,
    )
    starter = is_starter(label, dataset)
    mode, amount = amount_of(
        settings.mode,
        settings.protocol,
        starter=starter,
        available=opened.questions.count,
        replications=settings.replications,
        limit=settings.prompts.limit,
    )
    sampler = settings.sampler
    how = sampling_of(
        found,
        policy,
        starter=starter,
        kind=sampler.kind,
        steps=sampler.inference_timesteps,
        guidance=sampler.guidance_scale,
    )
    out = settings.out or folder_of("eval text-to-motion", "runs", None, None)
    say(f"{amount.prompts} prompts x {amount.replications} of the {settings.split} split of {label}; {how.words}")
    tell_test_split(settings, [found])
    total = amount.motions * amount.replications
    with working("eval text-to-motion", total, after=f"the same command with --out {out} goes on from there") as step:
        outcome = evaluate(
            found,
            policy,
            opened,
            how,
            amount,
            out,
            protocol=settings.protocol,
            mode=mode,
            seed=settings.seed,
            batch=settings.batch_size,
            overwrite=settings.overwrite,
            progress=step,
        )
    closing = [*outcome.notes, outcome.sentence, f"page: {outcome.document['page']}", *next_lines(found)]
    return {**outcome.document, "table": outcome.table, "closing": closing}


def chosen_path(settings: MotionSettings, path: str) -> str:
    """Return the policy that is meant: the argument, or ``--policy.checkpoint``.

    Raises:
        MotionkitError: Both were given, and differ.
    """
    option = str(getattr(settings.policy.options, "checkpoint", _STARTER))
    if path != _STARTER and option not in (_STARTER, path):
        raise MotionkitError(
            f"POLICY ({path}) and --policy.checkpoint ({option}) were both given.", fix="leave one of them out."
        )
    return option if path == _STARTER else path


def open_data(settings: MotionSettings, found: FoundModel) -> tuple[str, TextMotionDataset]:
    """Return the name of the data and the data."""
    chosen = dataset_for(found, settings.dataset)
    return chosen.label, cast("TextMotionDataset", chosen.build())


def is_starter(label: str, dataset: TextMotionDataset) -> bool:
    """Whether data are the starter's, composites of its clips included."""
    return _STARTER in (label, getattr(dataset, "source_name", label))


def tell_test_split(settings: MotionSettings, models: list[FoundModel]) -> None:
    """Note in the runs of models that the test split is opened, and say so."""
    command = shlex.join(["motionkit", *command_line.get()])
    for found in models:
        if note := open_test_split(settings.split, found, command):
            (say if "noted in " in note else warn)(note)


def next_lines(found: FoundModel) -> list[str]:
    """Return commands that make sense next."""
    lines = [["motionkit", "eval", "compare", found.path, _STARTER]] if found.path != _STARTER else []
    lines.append(["motionkit", "generate", "a person walks", "motions", "--policy.checkpoint", found.path])
    lines.append(["motionkit", "eval", "text-to-motion", "--explain"])
    return [f"{'next:' if not place else '     '} {shlex.join(line)}" for place, line in enumerate(lines)]
