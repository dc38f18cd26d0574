"""The protocol of region policies: open one, measure both loops, write a folder with ``--out``."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import torch

from motionkit import runs
from motionkit.config import Chosen, choose_from_file, choose_one
from motionkit.contracts.console import Console
from motionkit.contracts.dataset import called
from motionkit.contracts.device import resolve_device, set_threads
from motionkit.contracts.evaluation import claim, tell_test_split, write_evaluation
from motionkit.contracts.open_model import STARTER, FoundModel, open_giving, trained_on
from motionkit.contracts.protocol import Result
from motionkit.errors import MotionkitError
from motionkit.tracking import table_of
from motionkit.training.base import inputs_of
from motionkit_regions.datasets.base import RegionDataset, untrained_regions
from motionkit_regions.evaluation.gallery import GALLERY, write_gallery
from motionkit_regions.evaluation.known import look_up
from motionkit_regions.evaluation.result import (
    describe_sampled,
    explained,
    limits_of,
    of_data,
    side_effects,
    summarise,
    tables,
    verdict,
)
from motionkit_regions.evaluation.settings import Sa2vaSettings
from motionkit_regions.evaluation.split import measure_equal_entropy, measure_split
from motionkit_regions.pages import evaluation_page
from motionkit_regions.policy import RegionPolicy

PROTOCOL = "sa2va"
_OURS, _SHAPES = "tiny-sa2va", "shapes"


class Sa2va:
    """``eval sa2va``."""

    name = "sa2va"

    def __init__(self, settings: Sa2vaSettings, *, console: Console) -> None:
        self.settings, self.console = settings, console

    @staticmethod
    def explain() -> Result:
        """Return the meaning of each figure."""
        rows = explained()
        return Result({"figures": dict(rows)}, tables=[table_of("", ["figure", "what it says"], rows, ())])

    def measure(self, model: str) -> Result:
        """Measure a region policy, by default the starter's."""
        settings, console = self.settings, self.console
        if settings.out is not None:
            claim(settings.out, PROTOCOL, overwrite=settings.overwrite)
        device = resolve_device(settings.device)
        set_threads(settings.threads, device, small=True)
        model = model or (STARTER if settings.policy is None else "")
        chosen, data = open_region_data(model or STARTER, settings.dataset)
        label = called(chosen.label, chosen.options)
        count = data.count(settings.split)
        if not count:
            raise MotionkitError(
                f"the {settings.split} split of {label} has no regions.",
                fix=f"--split {'test' if settings.split == 'val' else 'val'}, or another --dataset.",
            )
        models = open_region_models(model, settings.policy, settings.base, data=data, device=device)
        typed = "" if settings.policy is None else str(settings.policy.get("checkpoint", ""))
        trained = trained_on(model or typed)
        if settings.base:
            trained |= trained_on(settings.base)
        index, kept = untrained_regions(trained, data, settings.split, settings.regions or count)
        kept.require("regions", f"the {settings.split} split of {label}", "give --dataset with other pictures.")
        tell_test_split(settings.split, [models.run], console)
        known = look_up(data, settings.split, index)
        policies = [models.policy, *([] if models.start is None else [models.start])]
        # The policy, the one before it, and that one again at the temperature of equal entropy
        sides = 1 if models.start is None else 3
        with console.working(sides * len(index)) as step:
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
        figures = summarise(after, before, equal, data=of_data(after.references, known), seed=settings.seed)
        equal_temperature = None if equal is None else equal.temperature
        effects = [f"Worse: {text}" for text in side_effects(figures)] if before is not None else []
        notes = [
            *filter(None, [kept.sentence("regions")]), *effects, *_notes(settings, len(index), count - kept.left_out),
            describe_sampled(settings.temperature, equal_temperature, 0.0 if equal is None else equal.nats, len(index)),
            *known.notes(label), *limits_of(models.policy, after.references),
        ]  # fmt: skip
        sentence = verdict(figures, compared=before is not None, equal=equal_temperature)
        title = f"{models.label}: {len(index):,} regions of the {settings.split} split of {label}"
        document = {
            "model": models.label,
            "base": models.base or None,
            "dataset": chosen.label,
            "split": settings.split,
            "regions": len(index),
            "temperature": settings.temperature,
            "seed": settings.seed,
            "equal_entropy": None if equal is None else {"temperature": equal.temperature, "nats": equal.nats},
            "no_target": "absent" if known.certain else "other images",
            "inputs": inputs_of({"dataset": data, "policy": models.policy}),
            "figures": figures,
            "notes": notes,
            "verdict": sentence,
        }
        shown = tables(figures, title, compared=before is not None, equal=equal_temperature)
        result = Result(document, tables=shown, closing=[*notes, sentence])
        if (out := settings.out) is None:
            return result
        start = None if before is None else before.greedy
        return write_evaluation(
            out,
            PROTOCOL,
            result,
            lambda: evaluation_page(out, {**document, "table": shown, "called": label}),
            beside=lambda: write_gallery(out / GALLERY, data, settings.split, index, after.greedy, start),
        )


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


@dataclass(frozen=True)
class RegionModels:
    """Policies to measure."""

    policy: RegionPolicy
    start: RegionPolicy | None  # what it is compared with and judged by; None: there is nothing, and it judges itself
    label: str  # the policy in words
    base: str  # the other one in words; empty without one
    run: runs.RunInfo | None  # the run that made the policy, if one did


def open_region_data(model: str, chosen: Chosen | None) -> tuple[Chosen, RegionDataset]:
    """Return the data and their choice: those asked for, those of the model's run, else the built-in shapes."""
    if chosen is None:
        info = None if model == STARTER else _find_model(model).run
        table = info.config.get("dataset") if info is not None else None
        chosen = choose_from_file("datasets", table) or choose_one("datasets", _SHAPES, {})
    return chosen, chosen.build()


def open_region_models(
    model: str,  # ``starter``, a run, or a folder of a policy; empty if `chosen` names its own
    chosen: Chosen | None,  # ``--policy``; None takes that of the run or the folder
    base: str,  # what to compare with, named as `model`; empty: what the run started from
    *,
    data: RegionDataset,  # the data, for policies that ask for them
    device: torch.device,
) -> RegionModels:
    """Open the policies."""
    if not model and chosen is not None:
        policy = chosen.build(device=device, dataset=data)
        start = _open(base, None, data, device) if base else None
        return RegionModels(policy, start, chosen.label, base, None)
    info = None if model == STARTER else _find_model(model).run
    policy = _open(model, chosen, data, device)
    if base:
        return RegionModels(policy, _open(base, None, data, device), model, base, info)
    table = info.config.get("policy") if info is not None else None
    if chosen is not None and isinstance(table, Mapping) and table.get("name") == chosen.name:
        # Typed options hold, such as that code is trusted; the checkpoint is the one that the run started from.
        started = {**chosen.options.model_dump(mode="json"), "checkpoint": str(table.get("checkpoint", ""))}
        begun: Chosen | None = choose_one("policies", chosen.name, started, typed=True)
    else:
        begun = choose_from_file("policies", table)
    if begun is None:
        return RegionModels(policy, None, model, "", info)
    words = str(begun.get("checkpoint", "") or begun.label)
    return RegionModels(policy, begun.build(device=device, dataset=data), model, words, info)


def _open(model: str, chosen: Chosen | None, data: RegionDataset, device: torch.device) -> RegionPolicy:
    if chosen is None and model != STARTER:
        located = _find_model(model)
        table = located.run.config.get("policy") if located.run is not None else None
        chosen = choose_from_file("policies", table) or choose_one("policies", located.plugin, {})
    if chosen is None:
        chosen = choose_one("policies", _OURS, {})
    options = {**chosen.options.model_dump(mode="json"), "checkpoint": model}
    named = choose_one("policies", chosen.name, options, typed=True)
    policy: RegionPolicy = named.build(device=device, dataset=data)
    return policy


def _find_model(model: str) -> FoundModel:
    return open_giving(
        model,
        "regions",
        measures="eval sa2va measures policies of regions",
        fix="give a run of sa2va-rl or pretrain regions, a folder of such a policy, or starter.",
    )
