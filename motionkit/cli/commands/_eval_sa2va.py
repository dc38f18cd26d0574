"""What ``motionkit eval sa2va`` does: open, measure, print, and write a folder where one is asked for."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from motionkit.cli._stop import working
from motionkit.cli.commands._eval_settings import Sa2vaSettings
from motionkit.cli.commands._test_split import tell_test_split
from motionkit.datasets.pictures import untrained_regions
from motionkit.errors import MotionkitError
from motionkit.evaluation import claim, trained_on
from motionkit.evaluation.regions import (
    absent_captions,
    explained,
    measure_split,
    open_region_data,
    open_region_models,
    summarise,
    tables,
    verdict,
)
from motionkit.policies.device import resolve_device, set_threads
from motionkit.report import write_region_evaluation
from motionkit.trainers.base import inputs_of

PROTOCOL = "sa2va"
_STARTER = "starter"


def explained_figures() -> Mapping[str, Any]:
    """Return the table of what each figure means."""
    return {"figures": dict(explained()),
            "table": [{"title": "", "columns": ["figure", "what it says"], "rows": explained()}]}  # fmt: skip


def run_sa2va(settings: Sa2vaSettings, model: str) -> Mapping[str, Any]:
    """Measure a region policy; returns the ``--json`` document with its tables."""
    if settings.out is not None:
        claim(settings.out, PROTOCOL, overwrite=settings.overwrite)
    device = resolve_device(settings.device)
    set_threads(settings.threads, device, small=True)
    model = model or (_STARTER if settings.policy is None else "")
    label, data = open_region_data(model or _STARTER, settings.dataset)
    count = data.count(settings.split)
    if not count:
        raise MotionkitError(
            f"the {settings.split} split of {label} has no regions.",
            fix=f"--split {'test' if settings.split == 'val' else 'val'}, or another --dataset.",
        )
    models = open_region_models(model, settings.policy, settings.base, data=data, device=device)
    typed = "" if settings.policy is None else str(getattr(settings.policy.options, "checkpoint", ""))
    trained = trained_on(model or typed)
    if settings.base:
        trained |= trained_on(settings.base)
    index, kept = untrained_regions(trained, data, settings.split, settings.regions or count)
    kept.require("regions", f"the {settings.split} split of {label}", "give --dataset with other pictures.")
    tell_test_split(settings.split, [models.run])
    absent, certain = absent_captions(data, settings.split, index)
    policies = [models.policy, *([] if models.start is None else [models.start])]
    with working("eval sa2va", len(policies) * len(index)) as step:
        after, *others = measure_split(
            policies, models.start or models.policy, data, settings.split, index, absent, batch=settings.batch_size,
            temperature=settings.temperature, seed=settings.seed, progress=step,
        )  # fmt: skip
    before = others[0] if others else None
    figures = summarise(after, before, seed=settings.seed)
    notes = [*filter(None, [kept.sentence("regions")]), *_notes(settings, label, len(index), len(kept.places), certain)]
    said = verdict(figures, compared=before is not None)
    title = f"{models.label}: {len(index):,} regions of the {settings.split} split of {label}"
    document = {
        "model": models.label,
        "base": models.base or None,
        "dataset": label,
        "split": settings.split,
        "regions": len(index),
        "temperature": settings.temperature,
        "seed": settings.seed,
        "no_target": "absent" if certain else "other images",
        "inputs": inputs_of({"dataset": data, "policy": models.policy}),
        "figures": figures,
        "notes": notes,
        "verdict": said,
    }
    result = {**document, "table": tables(figures, title, compared=before is not None), "closing": [*notes, said]}
    if settings.out is None:
        return result
    page = write_region_evaluation(
        settings.out, result, data, index, after.sampled, None if before is None else before.sampled
    )
    return {**result, "page": str(page), "closing": [*notes, said, f"page: {page}"]}


def _notes(settings: Sa2vaSettings, label: str, number: int, count: int, certain: bool) -> list[str]:
    part = f"the first {number:,} of {count:,} regions" if number < count else f"all {count:,} regions"
    notes = [
        f"{part} of the {settings.split} split; masks are compared at the size that they have in the data, and both "
        "empty is an IoU of 1.",
        f"cIoU, gIoU and precision: masks of the data's captions. METEOR and cycle IoU: one caption of each region, "
        f"sampled at temperature {settings.temperature:g} with seed {settings.seed}, or of the likeliest words.",
        "METEOR is nltk's with WordNet 3.0, not the Java METEOR 1.5 of published tables: the two do not compare.",
    ]
    if not certain:
        notes.append(
            f"no-target is an approximation: {label} does not say what an image lacks, so captions of other images "
            "are asked for, which may fit by chance."
        )
    return notes
