"""``motionkit eval reward``: a success classifier measured."""

from __future__ import annotations

import shlex
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer
from pydantic import Field

from motionkit.config import Cli, Settings
from motionkit.contracts.command import Command, Console
from motionkit.errors import MotionkitError
from motionkit.runs import made_by

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    from motionkit.success.classifier import SuccessClassifier
    from motionkit.success.train_data import Source

_DEVICE = "auto, cpu, mps, cuda, cuda:N or N."


class RewardSettings(Settings):
    """Settings of `motionkit eval reward`."""

    threshold: Annotated[float | None, Cli("--threshold", panel="What")] = Field(
        None, ge=0, le=1, description="Probability from which a frame is a success; default: the classifier's own."
    )
    out: Annotated[Path | None, Cli("--out", panel="Run")] = Field(
        None, description="Folder for the result and its page evaluation.html; default: none."
    )
    overwrite: Annotated[bool, Cli("--overwrite", panel="Run")] = Field(
        False, description="Replace an evaluation in that folder."
    )
    seed: Annotated[int, Cli("--seed", panel="Run")] = Field(0, ge=0, lt=2**63, description="Seed of the intervals.")
    device: Annotated[str, Cli("--device", panel="Run")] = Field("auto", description=_DEVICE)
    threads: Annotated[int, Cli("--threads", panel="Run")] = Field(
        0, ge=0, le=1024, description="CPU threads; 0: one on a small machine, else torch's choice."
    )


def eval_reward(
    settings: RewardSettings,
    console: Console,
    model: Annotated[
        str,
        typer.Argument(
            metavar="RUN",
            help="Run of reward-train, a checkpoint, or the guide's checkpoint.pt; default: the newest finished run.",
        ),
    ] = "",
    data: Annotated[
        list[str] | None,
        typer.Argument(
            metavar="DATA...",
            help="Runs of reward-collect or folders of episodes; default: the held-out episodes of the run.",
        ),
    ] = None,
) -> Mapping[str, Any]:
    """Measure a success classifier: AUROC, precision, recall, calibration, and checks of what ruins a reward.

    Without DATA the run's own held-out episodes are measured again.
    """
    from motionkit.contracts.device import resolve_device, set_threads
    from motionkit.contracts.evaluation import claim, write_evaluation
    from motionkit.success.classifier import load_classifier
    from motionkit.success.evaluation.checks import FILE, save_strips
    from motionkit.success.evaluation.data import refuse_one_class
    from motionkit.success.evaluation.report import measure_classifier
    from motionkit.success.pages import evaluation_page

    console.say("eval reward: loading torch and data")
    if settings.out is not None:
        claim(settings.out, "reward", overwrite=settings.overwrite)
    device = resolve_device(settings.device)
    set_threads(settings.threads, device, small=True)
    place = Path(model) if model else _newest()
    classifier = load_classifier(place, device=device)
    if settings.threshold is not None:
        classifier.update(threshold=settings.threshold)
    source, index, notes = _measured(place, classifier, data or ())
    episodes = source.episodes
    refuse_one_class(episodes.labels[index])
    with console.working("eval reward", len(index)) as step:
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
        strips = settings.out / FILE
        page = write_evaluation(
            settings.out,
            "reward",
            document,
            lambda: evaluation_page(document, report),
            beside=lambda: save_strips(strips, report.strips),
        )
        document["page"] = str(page)
        closing.append(f"page: {page}")
    return {**document, "table": report.tables(title), "closing": closing}


def _newest() -> Path:
    from motionkit.success.classifier import newest_classifier_run

    found = newest_classifier_run()
    if found is None:
        raise MotionkitError(
            "there is no classifier to measure.",
            why="RUN was not given, and ./runs holds no finished run of reward-train.",
            fix="motionkit reward-train, or motionkit eval reward RUN",
        )
    return found


def _measured(
    place: Path, classifier: SuccessClassifier, data: Sequence[str]
) -> tuple[Source, NDArray[np.int64], list[str]]:
    """Return what to measure on, which frames of it, and what the user should know."""
    import numpy as np

    from motionkit.success.train_episodes import held_out, open_places, run_of

    run = run_of(place)
    if not data:
        if run is None:
            raise MotionkitError(
                f"{place} is no run of reward-train, so it has no held-out episodes.",
                fix=f"name the data: motionkit eval reward {shlex.quote(str(place))} DATA",
            )
        source, index = held_out(run, classifier.card.dataset)
        return source, index, ["measured on the run's own held-out episodes"]
    source = open_places(data)
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


def _plan(_: RewardSettings, model: str, data: Sequence[str] | None) -> dict[str, object]:
    """Return the line of a dry run that says which episodes a classifier will be measured on."""
    run = made_by(model) if model and not data else None
    table = run.config.get("data") if run is not None else None
    places = table.get("path") if isinstance(table, Mapping) else None
    return {"data": f"held-out episodes of {', '.join(map(str, places))}"} if places else {}


EVAL_REWARD = Command(eval_reward, RewardSettings, name="eval reward", plan=_plan)
