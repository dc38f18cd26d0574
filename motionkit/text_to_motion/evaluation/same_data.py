"""Models of text and motion that finished runs trained on given data: the default reward, judge and evaluator.

Data are the same by content, wherever their folder was moved to: by the fingerprint of their statistics, which a model
keeps (`motionkit.motion.DataRecord`), if the model was trained on none of the clips that are measured (`TrainedOn`). A
second folder that is still there and has other captions of the same motions is another one.
"""

from __future__ import annotations

import logging
import shlex
from collections.abc import Collection, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

import torch

from motionkit.config import Chosen
from motionkit.contracts.dataset import TextMotionDataset, called, is_generated, record_of
from motionkit.errors import MotionkitError
from motionkit.motion import DataRecord, tag_caption
from motionkit.motion.corpus.ids import Split
from motionkit.runs import RunInfo, TrainedOn, find
from motionkit.runs.forms import encoder_config
from motionkit.runs.words import slot_words
from motionkit.text_to_motion.evaluation.real_motions import single_clips
from motionkit.text_to_motion.evaluation.settings import AUTO, NONE, EvaluatorSettings
from motionkit.text_to_motion.evaluator.files import RUN_PART, open_evaluator
from motionkit.text_to_motion.evaluator.model import MAX_WORDS, T2MEvaluator
from motionkit.text_to_motion.trained import clip_fingerprint

TMR = "tmr"
"""Folder of the model in a run of `pretrain tmr`."""

STARTER = "starter"
_logger = logging.getLogger("motionkit.evaluation")
FEW_WORDS = 0.9
"""Share of the words of captions below which an evaluator is said to know few of them."""

LOW_R3 = 0.5
"""R@3 of reference clips below which an evaluator is said to tell captions apart badly."""

_OF_STARTER = "of the starter pack"
"""What is said of the starter's evaluator on the starter's data."""

_TEXTS = 16  # files of captions that are compared
_CAPTIONS = 512  # captions whose words are looked up


def is_starter(dataset: TextMotionDataset, label: str = "") -> bool:
    """Whether data are the starter's, composites of its clips included."""
    return STARTER in (label, dataset.source_name)


class SameData:
    """The finished runs that trained on the data that are measured.

    Args:
        dataset: The data.
        split: The split that is measured.
    """

    def __init__(self, dataset: TextMotionDataset, split: Split) -> None:
        self.dataset, self.split = dataset, split

    @cached_property
    def record(self) -> DataRecord:
        """The record of the data."""
        # It is read when it is asked for: the starter makes its clips for it, which takes seconds.
        return record_of(self.dataset)

    @cached_property
    def measured(self) -> frozenset[str]:
        """Fingerprints of the clips that are measured."""
        singles = single_clips(self.dataset) or self.dataset
        if is_generated(singles):
            return frozenset()
        try:
            return frozenset(map(clip_fingerprint, singles.clips(self.split)))
        except MotionkitError:  # the folder of the single clips has no such split
            return frozenset()

    def runs(self, part: str) -> list[RunInfo]:
        """Return the finished runs below ``runs``, and beside it, whose model was trained on these data, newest first.

        Args:
            part: Folder of the model in a run.
        """
        every = {info.directory: info for info in [*find(None), *find(None, ".")] if info.status == "done"}
        found = [
            info
            for info in every.values()
            if info.command.startswith("pretrain") and (info.directory / part).is_dir() and self._fits(info, part)
        ]
        return sorted(found, key=lambda info: info.created, reverse=True)

    def _fits(self, info: RunInfo, part: str) -> bool:
        folder = info.directory / part
        try:
            record, items = DataRecord.read(encoder_config(folder)), TrainedOn.read(folder).items
        except MotionkitError:  # damaged
            return False
        return (
            record is not None
            and not record.differs(self.record)
            and not self._is_another(record)
            and not self.seen(items)
        )

    def _is_another(self, record: DataRecord) -> bool:
        """Whether the folder that a model was trained on is still there and has other captions of the same clips."""
        here, there = (Path(root) / "texts" for root in (self.record.root, record.root))
        if not (self.record.root and record.root) or here == there:
            return False
        names = sorted(file.name for file in here.glob("*.txt"))[:_TEXTS]
        try:
            return any(
                (there / name).read_bytes() != (here / name).read_bytes() for name in names if (there / name).is_file()
            )
        except OSError:
            return False

    def seen(self, items: Collection[str]) -> int:
        """Return how many of the clips that are measured a model was trained on."""
        return len(self.measured.intersection(items)) if items else 0


@dataclass(frozen=True)
class Named:
    """An evaluator, and what is said of it."""

    evaluator: T2MEvaluator
    name: str  # ``starter`` or a path
    said: str  # which one it is and on what it was trained, for captions of tables

    @property
    def words(self) -> str:
        """``evaluator NAME``, its width and its data."""
        return f"evaluator {self.said}, {self.evaluator.latent} wide"


def find_evaluator(
    settings: EvaluatorSettings,
    same: SameData,
    *,
    device: torch.device | str = "cpu",
    fallback: str = NONE,  # where there is none of these data: ``starter``, or none
    without: Collection[str] = (),  # fingerprints of networks that training reads: none of them is found
) -> Named | None:
    """Open the evaluator that was named, else the one of these data: the starter's, or of the newest finished run.

    Returns:
        None if there is none, or ``none`` was named.
    """
    if settings.weights != AUTO:
        places: Sequence[str] = [] if settings.weights == NONE else [settings.weights]
    elif is_starter(same.dataset):
        places = [STARTER]
    else:
        places = [str(info.directory) for info in same.runs(RUN_PART)] or ([] if fallback == NONE else [fallback])
    for place in places:
        try:
            model = open_evaluator(place, glove=settings.glove, stats=settings.stats, device=device)
        except MotionkitError as error:
            if place == settings.weights:
                raise
            _logger.warning("the evaluator of %s is not used: %s", place, error.sentence())
            continue
        if settings.weights != AUTO or model.fingerprint() not in without:
            return Named(model, place, _said(model, place, same))
    return None


def _said(model: T2MEvaluator, place: str, same: SameData) -> str:
    if place == STARTER:
        return _OF_STARTER + ("" if is_starter(same.dataset) else ", trained on other data than these")
    name = Path(place).name if Path(place).is_absolute() else place
    if model.trained_on is None:
        return f"{name}, trained on data that are not known"
    if model.trained_on.differs(same.record):
        theirs = called(model.trained_on.name, {"root": model.trained_on.root})
        return f"{name}, trained on other data than these: {theirs}"
    folder = Path(model.origin)
    seen = same.seen(TrainedOn.read(folder if folder.is_dir() else folder.parent).items)
    return f"{name}, trained on {seen} of the clips that are measured" if seen else f"{name}, trained on these data"


def better_evaluator(same: SameData, named: Named, chosen: Chosen) -> str:
    """Return the option that names a finished run's evaluator of these data, else the command that trains one."""
    own = named.evaluator.trained_on
    found = [] if own is not None and not own.differs(same.record) else same.runs(RUN_PART)
    if found:
        return shlex.join(["--evaluator", str(found[0].directory)])
    return training_command("t2m-evaluator", chosen)


def evaluator_notes(named: Named, captions: Sequence[str], real_r3: float | None, command: str) -> list[str]:
    """Return why an evaluator's figures say little, in sentences; empty if nothing speaks against them.

    Args:
        named: The evaluator.
        captions: Captions that are asked.
        real_r3: Its R@3 of reference clips; None if it is not known.
        command: Words that give an evaluator of these data (`better_evaluator`).
    """
    notes, fix = [], f"An evaluator of these data: {command}" if command else ""
    known = words_known(named.evaluator, captions)
    if known < FEW_WORDS:
        notes.append(f"the evaluator knows {100 * known:.0f} % of the words of these captions. {fix}".strip())
    if real_r3 is not None and real_r3 < LOW_R3:
        notes.append(
            f"the evaluator finds the text of reference clips among 32 with R@3 {real_r3:.2f} (chance 0.09): it tells "
            f"these captions apart badly, its other figures say little, and none of them has a verdict. {fix}".strip()
        )
    return notes


def evaluator_doubt(named: Named, captions: Sequence[str], real_r3: float | None) -> str:
    """Return why no verdict is read off an evaluator's figures, in short; empty if they may be read.

    Its R@3 of reference clips decides; where that is not known, nobody can say what the figures are worth, but for the
    starter's evaluator on the starter's data.

    Args:
        named: The evaluator.
        captions: Captions that are asked.
        real_r3: Its R@3 of reference clips; None if it is not known.
    """
    if real_r3 is not None:
        return f"the evaluator finds the text of reference clips with R@3 {real_r3:.2f}" if real_r3 < LOW_R3 else ""
    known = words_known(named.evaluator, captions)
    if known < FEW_WORDS:
        return f"the evaluator knows {100 * known:.0f} % of the words of these captions"
    if named.said == _OF_STARTER:  # R@3 0.88 of reference clips (README.md)
        return ""
    return "there are too few prompts to measure whether the evaluator tells the texts of reference clips apart"


def words_known(evaluator: T2MEvaluator, captions: Sequence[str]) -> float:
    """Return the share of the words of captions, as the evaluator reads them, that are in its vocabulary."""
    builtin = evaluator.tagger == "built-in"
    asked = list(dict.fromkeys(captions))
    found = [
        token.rpartition("/")[0] in evaluator.words.rows
        for text in asked[:: max(1, len(asked) // _CAPTIONS)]
        for token in (evaluator.tokens.get(text) or tag_caption(text, builtin=builtin))[:MAX_WORDS]
    ]
    return sum(found) / len(found) if found else 1.0


def training_command(model: str, dataset: Chosen, *more: str) -> str:
    """Return the command that trains a model of text and motion on data.

    Args:
        model: ``tmr`` or ``t2m-evaluator``.
        dataset: The data.
        more: Further words.
    """
    table: dict[str, Any] = {"name": dataset.name, **dataset.options.model_dump(mode="json")}
    words = slot_words("dataset", table, "datasets", default=STARTER)
    return shlex.join(["motionkit", "pretrain", model, *more, *words])
