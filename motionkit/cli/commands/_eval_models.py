"""What ``motionkit eval`` does with predictors, success classifiers and region policies."""

from __future__ import annotations

import shlex
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from motionkit.cli._stop import working
from motionkit.cli.commands._eval_run import tell_test_split
from motionkit.cli.commands._eval_settings import MplSettings, RewardSettings, Sa2vaSettings
from motionkit.cli.commands._own_data import clips_of, retarget_of
from motionkit.contracts.dataset import untrained_regions
from motionkit.contracts.device import resolve_device, set_threads
from motionkit.contracts.evaluation import claim
from motionkit.contracts.open_model import trained_on
from motionkit.errors import MotionkitError
from motionkit.predictor.clips import set_fingerprint
from motionkit.predictor.evaluation.data import find_predictor, open_eval_data, open_predictor
from motionkit.predictor.evaluation.kept import Predictions
from motionkit.predictor.evaluation.long.measure import LongSettings
from motionkit.predictor.evaluation.measure import Horizons
from motionkit.predictor.evaluation.run import evaluate
from motionkit.regions.evaluation.known import limits_of, look_up
from motionkit.regions.evaluation.models import open_region_data, open_region_models
from motionkit.regions.evaluation.result import describe_sampled, explained, side_effects, tables, verdict
from motionkit.regions.evaluation.split import measure_equal_entropy, measure_split, of_data, summarise
from motionkit.report import write_evaluation, write_region_evaluation, write_reward_evaluation
from motionkit.success.classifier import SuccessClassifier, load_classifier, newest_classifier_run
from motionkit.success.evaluation.data import refuse_one_class
from motionkit.success.evaluation.report import measure_classifier
from motionkit.success.train_data import Source, held_out, reopen, run_of
from motionkit.training.base import inputs_of

_FPS = 30.0
_ROWS = 5


def run_mpl(settings: MplSettings, model: str) -> Mapping[str, Any]:
    """Measure a predictor or the baselines alone; returns the ``--json`` document with its tables."""
    if settings.out is not None:
        claim(settings.out, "mpl", overwrite=settings.overwrite)
    found = find_predictor(model) if model else None
    predictor = open_predictor(found, settings.policy, device=resolve_device(settings.device))
    fps = settings.fps or (_FPS if predictor is None else predictor.fps)
    if predictor is not None and fps != predictor.fps:
        raise MotionkitError(
            f"--fps {fps:g} does not fit: the predictor was made for {predictor.fps:g}.", fix="leave --fps out."
        )
    horizons = Horizons.at(settings.horizons, fps)
    future = settings.horizon or horizons.last
    if future < horizons.last:
        raise MotionkitError(
            f"--horizon {future} ends before {max(settings.horizons):g} ms, which is frame {horizons.last}.",
            fix="leave --horizon out, or ask for nearer --horizons.",
        )
    names = clips_of(model, settings.data, flag="--data")
    typed = "" if settings.policy is None else str(getattr(settings.policy.options, "checkpoint", ""))
    data = open_eval_data(
        names,
        settings.split,
        fps=fps,
        past=settings.warmup,
        future=future,
        stride=settings.stride,
        train_stride=settings.train_stride,
        joints=() if predictor is None else predictor.names,
        trained=None if predictor is None else trained_on(typed if found is None else found.path),
        retarget=retarget_of(model, settings.data),
    )
    if found is not None:
        tell_test_split(settings.split, [found.run])
    rows = _ROWS + (predictor is not None)
    title = (
        f"GeoDeg in degrees, {settings.split} split of {data.clips.name}: {len(data.windows)} windows at {fps:g} fps"
    )
    kept: list[Predictions] = []
    with working("eval mpl", rows * len(data.windows)) as step:
        result = evaluate(
            data,
            predictor,
            horizons,
            command=settings.command == "path",
            seed=settings.seed,
            title=title,
            progress=step,
            keep=None if settings.out is None else kept.append,
            long=LongSettings(settings.split, settings.long) if settings.long else None,
        )
    what = {
        "model": model or (settings.policy.label if settings.policy is not None else None),
        "data": list(names),
        "split": settings.split,
        "fps": fps,
        "warmup": settings.warmup,
        "horizon": future,
        "future_command": settings.command,
        "inputs": {"data": set_fingerprint(data.clips), **inputs_of({"policy": predictor})},
    }
    if settings.out is None:
        return {**what, **result}
    document = {**what, **result}
    page = write_evaluation(settings.out, document, kept[0])
    return {**document, "page": str(page), "closing": [*result["closing"], f"page: {page}"]}


# What ``motionkit eval reward`` does: open, measure, print, and write a folder where one is asked for.


def run_reward(settings: RewardSettings, model: str, data: Sequence[str]) -> Mapping[str, Any]:
    """Measure a classifier; returns the ``--json`` document with its tables."""
    if settings.out is not None:
        claim(settings.out, "reward", overwrite=settings.overwrite)
    device = resolve_device(settings.device)
    set_threads(settings.threads, device, small=True)
    place = Path(model) if model else _newest()
    classifier = load_classifier(place, device=device)
    if settings.threshold is not None:
        classifier.update(threshold=settings.threshold)
    source, index, notes = _data(place, classifier, data)
    episodes = source.episodes
    refuse_one_class(episodes.labels[index])
    with working("eval reward", len(index)) as step:
        report = measure_classifier(classifier, episodes, index, seed=settings.seed, progress=step)
    title = f"{place}: {report.heldout['n']:,} frames of {report.heldout['episodes']} episodes"
    document = {
        "model": str(place),
        "architecture": classifier.card.architecture,
        "cameras": classifier.card.seen(),
        "data": list(source.places),
        "inputs": {"model": classifier.fingerprint(), "data": episodes.fingerprint},
        "notes": notes,
        **report.document(),
    }
    closing = [*notes, report.sentence]
    if settings.out is not None:
        page = write_reward_evaluation(settings.out, document, report)
        document["page"] = str(page)
        closing.append(f"page: {page}")
    return {**document, "table": report.tables(title), "closing": closing}


def _newest() -> Path:
    found = newest_classifier_run()
    if found is None:
        raise MotionkitError(
            "there is no classifier to measure.",
            why="RUN was not given, and ./runs holds no finished run of reward-train.",
            fix="motionkit reward-train, or motionkit eval reward RUN",
        )
    return found


def _data(
    place: Path, classifier: SuccessClassifier, data: Sequence[str]
) -> tuple[Source, NDArray[np.int64], list[str]]:
    """Return what to measure on, which frames of it, and what the user should know."""
    run = run_of(place)
    if not data:
        if run is None:
            raise MotionkitError(
                f"{place} is no run of reward-train, so it has no held-out episodes.",
                fix=f"name the data: motionkit eval reward {shlex.quote(str(place))} DATA",
            )
        source, index = held_out(run, classifier.card.dataset)
        return source, index, ["measured on the run's own held-out episodes"]
    source = reopen(data, trajectories=False)
    if run is not None and source.episodes.fingerprint == classifier.card.dataset:
        source, index = held_out(run, classifier.card.dataset)
        return source, index, ["these are the data of the run: only its held-out episodes are measured"]
    episodes = source.episodes
    kept = classifier.trained_on.leave_out([record.content for record in episodes.records])
    kept.require(
        "episodes", ", ".join(data), "give other episodes, or leave DATA out: a run measures on its held-out ones then."
    )
    index = np.flatnonzero(np.isin(episodes.episode, kept.places))
    return source, index, [note for note in (*episodes.notes, kept.sentence("episodes")) if note]


# What ``motionkit eval sa2va`` does: open, measure, print, and write a folder where one is asked for.


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
    known = look_up(data, settings.split, index)
    policies = [models.policy, *([] if models.start is None else [models.start])]
    sides = 1 if models.start is None else 3
    with working("eval sa2va", sides * len(index)) as step:
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
    page = write_region_evaluation(
        settings.out, result, data, index, after.greedy, None if before is None else before.greedy
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
