"""``motionkit eval`` of policies, retrieval models and rewards."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, Any

import typer

from motionkit.contracts.command import Command, Console
from motionkit.contracts.evaluation import dataset_plan
from motionkit.text_to_motion.evaluation.settings import (
    CompareSettings,
    RetrievalSettings,
    SensitivitySettings,
    TextToMotionSettings,
)

_STARTER = "starter"


def eval_text_to_motion(
    settings: TextToMotionSettings,
    console: Console,
    policy: Annotated[
        str, typer.Argument(metavar="POLICY", help="Run, policy folder or model%09d.pt; default: the starter's.")
    ] = "",
    explain: Annotated[
        bool, typer.Option("--explain", help="Print what each figure means, and exit.", metavar="")
    ] = False,
) -> Mapping[str, Any]:
    """Measure a policy as the field does: R-precision, MM-Dist, FID, Diversity, MultiModality, and physics.

    A folder gets a file per replication and evaluation.html. Without POLICY the starter's policy is measured.
    """
    from motionkit.text_to_motion.evaluation.run import explained, run_text_to_motion

    if explain:
        return explained()
    console.say("eval text-to-motion: loading torch, data and weights")
    return run_text_to_motion(settings, console, policy or _STARTER)


def eval_compare(
    settings: CompareSettings,
    console: Console,
    policies: Annotated[
        list[str], typer.Argument(metavar="POLICY...", help="Runs, policy folders, files, or starter; first: base.")
    ],
) -> Mapping[str, Any]:
    """Ask several policies the same prompts with the same noise, and compare each with the first.

    The interval of a difference is a bootstrap over prompts; "no difference" where it holds 0.
    """
    from motionkit.text_to_motion.evaluation.run import run_compare

    console.say("eval compare: loading torch, data and weights")
    return run_compare(settings, console, policies)


def eval_retrieval(
    settings: RetrievalSettings,
    console: Console,
    model: Annotated[
        str, typer.Argument(metavar="TMR", help="Run of pretrain tmr, TMR folder or file; default: the starter's.")
    ] = _STARTER,
) -> Mapping[str, Any]:
    """Measure a text-motion retrieval model by TMR's four protocols, both directions, both conventions of ties."""
    from motionkit.contracts.dataset import clips_fingerprint, leave_out_clips
    from motionkit.contracts.device import resolve_device
    from motionkit.contracts.evaluation import dataset_for, tell_test_split
    from motionkit.contracts.open_model import trained_on
    from motionkit.motion import HasActions
    from motionkit.text_to_motion.evaluation.retrieval import measure_retrieval, open_retrieval, read_nsim

    nsim = read_nsim(settings.nsim) if settings.nsim is not None else ()
    found, tmr = open_retrieval(
        model, stats=settings.stats, text_model=settings.text_model, device=resolve_device(settings.device)
    )
    chosen = dataset_for(found, settings.dataset)
    dataset = chosen.build()
    clips = dataset.clips(settings.split)
    kept = leave_out_clips(trained_on(found.path), dataset, clips)
    kept.require("clips", f"the {settings.split} split of {chosen.label}", "give --dataset with other clips.")
    clips = [clips[place] for place in kept.places]
    tell_test_split(console, settings.split, [found.run])
    with console.working("eval retrieval", len(clips)) as step:
        action = dataset.action if isinstance(dataset, HasActions) else None
        result = measure_retrieval(tmr, clips, threshold=settings.threshold, nsim=nsim, action=action, progress=step)
    notes = [*filter(None, [kept.sentence("clips")]), *result.notes]
    return {
        "model": found.path,
        "dataset": chosen.label,
        "split": settings.split,
        "inputs": {"model": tmr.fingerprint(), "dataset": clips_fingerprint(clips)},
        "candidates": result.candidates,
        "protocols": result.protocols,
        "right_action": dict(result.right_action),
        "notes": notes,
        "closing": notes,
        "table": result.table(f"{found.path}, {settings.split} split of {chosen.label}: retrieval in percent"),
    }


def eval_sensitivity(settings: SensitivitySettings, console: Console) -> Mapping[str, Any]:
    """Say what a reward does not see: real clips are changed, each in one way, and scored again.

    Seen is what a change costs, as a share of what an unrelated caption costs. A folder gets the figures and
    sensitivity.html.
    """
    from motionkit.text_to_motion.evaluation.run import run_sensitivity

    console.say("eval sensitivity: loading torch, data and weights")
    return run_sensitivity(settings, console)


EVALS = (
    Command(
        eval_text_to_motion,
        TextToMotionSettings,
        name="eval text-to-motion",
        plan=lambda settings, policy, explain: dataset_plan(policy, settings.dataset),
    ),
    Command(
        eval_compare,
        CompareSettings,
        name="eval compare",
        plan=lambda settings, policies: dataset_plan(policies[0], settings.dataset),
    ),
    Command(
        eval_retrieval,
        RetrievalSettings,
        name="eval retrieval",
        plan=lambda settings, model: dataset_plan(model, settings.dataset),
    ),
    Command(eval_sensitivity, SensitivitySettings, name="eval sensitivity"),
)
