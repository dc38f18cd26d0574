"""The protocol of success classifiers: open one, measure it on held-out episodes, write a folder with ``--out``."""

from __future__ import annotations

import shlex
from collections.abc import Sequence
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from motionkit.contracts.console import Console
from motionkit.contracts.device import resolve_device, set_threads
from motionkit.contracts.evaluation import claim, write_evaluation
from motionkit.contracts.protocol import Result
from motionkit.errors import MotionkitError
from motionkit_success.classifier import SuccessClassifier, load_classifier, newest_classifier_run
from motionkit_success.evaluate_settings import RewardSettings
from motionkit_success.evaluation.data import refuse_one_class
from motionkit_success.evaluation.report import FILE, measure_classifier, save_strips
from motionkit_success.pages import evaluation_page
from motionkit_success.train_data import Source, held_out, reopen, run_of


class Reward:
    """``eval reward``."""

    name = "reward"

    def __init__(self, settings: RewardSettings, *, console: Console) -> None:
        self.settings, self.console = settings, console

    def measure(self, model: str, data: Sequence[str]) -> Result:
        """Measure a classifier, by default that of the newest run, on its held-out episodes or on `data`."""
        settings, console = self.settings, self.console
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
        with console.working(len(index)) as step:
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
        result = Result(document, tables=report.tables(title), closing=[*notes, report.sentence])
        if (out := settings.out) is None:
            return result
        return write_evaluation(
            out,
            "reward",
            result,
            lambda: evaluation_page(document, report),
            beside=lambda: save_strips(out / FILE, report.strips),
        )


def _newest() -> Path:
    newest = newest_classifier_run()
    if newest is None:
        raise MotionkitError(
            "there is no classifier to measure.",
            why="RUN was not given, and ./runs holds no finished run of reward-train.",
            fix="motionkit reward-train, or motionkit eval reward RUN",
        )
    return newest


def _data(
    place: Path, classifier: SuccessClassifier, data: Sequence[str]
) -> tuple[Source, NDArray[np.int64], list[str]]:
    """Return the episodes, the frames to measure on, and notes for the user."""
    run = run_of(place)
    if not data:
        if run is None:
            raise MotionkitError(
                f"{place} is not a run of reward-train, so it has no held-out episodes.",
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
