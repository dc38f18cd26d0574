"""``motionkit eval sa2va``: a region policy measured."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Annotated, Any, Literal

import typer
from pydantic import Field

from motionkit.config import Chosen, Cli, Settings, slot
from motionkit.contracts.command import Command, Console
from motionkit.contracts.evaluation import dataset_plan
from motionkit.errors import MotionkitError

_STARTER = "starter"
Split = Annotated[Literal["val", "test"], Cli("--split", panel="What")]
_SPLIT = "Split to measure on; that test was opened is noted in the run."
_DEVICE = "auto, cpu, mps, cuda, cuda:N or N."


class Sa2vaSettings(Settings):
    """Settings of `motionkit eval sa2va`."""

    policy: Chosen | None = slot(
        "policies", None, description="Region policy to measure; default: that of the run.", gives="regions"
    )
    dataset: Chosen | None = slot(
        "datasets", None, description="Where regions come from; default: that of the run, or shapes.", gives="regions"
    )
    split: Split = Field("val", description=_SPLIT)
    regions: Annotated[int, Cli("--regions", panel="What")] = Field(
        200, ge=0, description="Regions to measure, the first of the split; 0: all of them."
    )
    base: Annotated[str, Cli("--base", panel="What")] = Field(
        "", description="Run, folder or starter to compare with, which also judges; default: what the run started from."
    )
    temperature: Annotated[float, Cli("--temperature", panel="Sampler")] = Field(
        1.0, gt=0, le=10, description="Temperature of sampled captions."
    )
    batch_size: Annotated[int, Cli("--batch-size", panel="Sampler")] = Field(
        32, ge=1, le=10_000, description="Regions at once; changes memory and time only."
    )
    seed: Annotated[int, Cli("--seed", panel="Sampler")] = Field(
        0, ge=0, lt=2**31, description="Seed of sampled captions and of the intervals."
    )
    out: Annotated[Path | None, Cli("--out", panel="Run")] = Field(
        None, description="Folder for the result, its pictures and its page evaluation.html; default: none."
    )
    overwrite: Annotated[bool, Cli("--overwrite", panel="Run")] = Field(
        False, description="Replace an evaluation in that folder."
    )
    device: Annotated[str, Cli("--device", panel="Run")] = Field("auto", description=_DEVICE)
    threads: Annotated[int, Cli("--threads", panel="Run")] = Field(
        0, ge=0, le=1024, description="CPU threads; 0: one on a small machine, else torch's choice."
    )


def eval_sa2va(
    settings: Sa2vaSettings,
    console: Console,
    model: Annotated[
        str,
        typer.Argument(
            metavar="RUN", help="Run of sa2va-rl or pretrain regions, or a policy folder; default: the starter's."
        ),
    ] = "",
    explain: Annotated[
        bool, typer.Option("--explain", help="Print what each figure means, and exit.", metavar="")
    ] = False,
) -> Mapping[str, Any]:
    """Measure a region policy: cIoU, gIoU, precision, METEOR, both loops closed, and absent objects.

    A run is compared with the policy that it started from, which also judges its captions.
    """
    from motionkit.contracts.dataset import untrained_regions
    from motionkit.contracts.device import resolve_device, set_threads
    from motionkit.contracts.evaluation import claim, tell_test_split, write_evaluation
    from motionkit.contracts.open_model import trained_on
    from motionkit.regions.evaluation.gallery import GALLERY, write_gallery
    from motionkit.regions.evaluation.known import limits_of, look_up
    from motionkit.regions.evaluation.models import open_region_data, open_region_models
    from motionkit.regions.evaluation.result import describe_sampled, explained, side_effects, tables, verdict
    from motionkit.regions.evaluation.split import measure_equal_entropy, measure_split, of_data, summarise
    from motionkit.regions.pages import evaluation_page
    from motionkit.training.base import inputs_of

    if explain:
        return {"figures": dict(explained()),
                "table": [{"title": "", "columns": ["figure", "what it says"], "rows": explained()}]}  # fmt: skip
    console.say("eval sa2va: loading torch, data and weights")
    if settings.out is not None:
        claim(settings.out, "sa2va", overwrite=settings.overwrite)
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
    tell_test_split(console, settings.split, [models.run])
    known = look_up(data, settings.split, index)
    policies = [models.policy, *([] if models.start is None else [models.start])]
    sides = 1 if models.start is None else 3
    with console.working("eval sa2va", sides * len(index)) as step:
        after, *others = measure_split(
            policies, models.start or models.policy, data, settings.split, index, known, batch=settings.batch_size,
            temperature=settings.temperature, seed=settings.seed, progress=step,
        )  # fmt: skip
        equal = None
        if models.start is not None:
            equal = measure_equal_entropy(
                models.start, models.policy, after.sampled.captions, data, settings.split, index, known,
                batch=settings.batch_size, temperature=settings.temperature, seed=settings.seed, progress=step,
            )  # fmt: skip
    before = others[0] if others else None
    figures = summarise(after, before, equal, data=of_data(after.wanted, known), seed=settings.seed)
    found = None if equal is None else equal.temperature
    effects = [f"Worse: {text}" for text in side_effects(figures)] if before is not None else []
    notes = [
        *filter(None, [kept.sentence("regions")]), *effects, *_notes(settings, len(index), count - kept.left_out),
        describe_sampled(settings.temperature, found, 0.0 if equal is None else equal.nats, len(index)),
        *known.notes(label), *limits_of(models.policy, after.wanted),
    ]  # fmt: skip
    said = verdict(figures, compared=before is not None, equal=found)
    title = f"{models.label}: {len(index):,} regions of the {settings.split} split of {label}"
    document = {
        "model": models.label,
        "base": models.base or None,
        "dataset": label,
        "split": settings.split,
        "regions": len(index),
        "temperature": settings.temperature,
        "seed": settings.seed,
        "equal_entropy": None if equal is None else {"temperature": equal.temperature, "nats": equal.nats},
        "no_target": "absent" if known.certain else "other images",
        "inputs": inputs_of({"dataset": data, "policy": models.policy}),
        "figures": figures,
        "notes": notes,
        "verdict": said,
    }
    result = {
        **document,
        "table": tables(figures, title, compared=before is not None, equal=found),
        "closing": [*notes, said],
    }
    if settings.out is None:
        return result
    out, start = settings.out, None if before is None else before.greedy
    page = write_evaluation(
        out,
        "sa2va",
        result,
        lambda: evaluation_page(out, result),
        beside=lambda: write_gallery(out / GALLERY, data, settings.split, index, after.greedy, start),
    )
    return {**result, "page": str(page), "closing": [*notes, said, f"page: {page}"]}


def _notes(settings: Sa2vaSettings, number: int, count: int) -> list[str]:
    part = f"the first {number:,} of {count:,} regions" if number < count else f"all {count:,} regions"
    return [
        f"{part} of the {settings.split} split; masks are compared at the size that they have in the data, and both "
        "empty is an IoU of 1.",
        "captions are of the likeliest words, except where it says sampled; masks are what the policy draws at its own "
        "threshold. gIoU, cIoU and precision: masks of the data's captions.",
        "METEOR is nltk's with WordNet 3.0, not the Java METEOR 1.5 of published tables: the two do not compare. "
        "CIDEr-D weights words by how many of these captions hold them, so that only equal sets of regions compare.",
    ]


EVAL_SA2VA = Command(
    eval_sa2va,
    Sa2vaSettings,
    name="eval sa2va",
    plan=lambda settings, model, explain: dataset_plan(model, settings.dataset),
)
