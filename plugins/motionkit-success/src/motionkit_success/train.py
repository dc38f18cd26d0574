"""`motionkit reward-train`: the trainer, its loss, and the choice of calibration and threshold."""

from __future__ import annotations

import json
import logging
import shutil
from collections.abc import Mapping
from dataclasses import dataclass
from typing import ClassVar

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor
from torch.nn import functional as F

from motionkit.runs import Run, TrainedOn, write_bytes_atomic
from motionkit.tracking import finite
from motionkit.training.base import LOSS, Figure
from motionkit.training.device import describe_device, set_up
from motionkit.training.learner import out_of_range
from motionkit.training.supervised import fit
from motionkit.training.world import OneProcess, World, share_of
from motionkit_success.classification import (
    AtThreshold,
    Calibration,
    average_precision,
    calibration_error,
    classifier_auroc,
    fit_calibration,
    threshold_for_f,
    threshold_for_precision,
)
from motionkit_success.classifier import ARTIFACT, Card, SuccessClassifier, read_pretrained, save_classifier, start_from
from motionkit_success.evaluation.data import Split, refuse_one_class
from motionkit_success.evaluation.report import FILE, RewardReport, measure_classifier, save_strips
from motionkit_success.step import ClassifierTraining
from motionkit_success.train_data import (
    RECORD,
    Augmentation,
    FrameBatches,
    Images,
    Seen,
    all_logits,
    cache_features,
    cameras_of,
    counts_of,
    open_source,
    write_record,
)
from motionkit_success.train_settings import RewardTrainSettings, ThresholdSettings

LAST, FIGURES, CACHE = "classifier-last", "figures", "features"
REPORT = "report.json"
_logger = logging.getLogger("motionkit.reward_train")


@dataclass(frozen=True)
class Choice:
    """Calibration and threshold, with figures on the episodes that they were chosen on."""

    calibration: Calibration  # temperature and bias
    threshold: float  # probability from which a frame is a success
    reached: bool  # whether the precision that was asked for was reached
    figures: dict[str, float]  # metrics by name, ``classifier/...``


def choose(logits: Tensor, labels: Tensor, settings: ThresholdSettings, *, learning_rate: float) -> Choice:
    """Fit the calibration, choose the threshold, and measure."""
    if not bool(logits.isfinite().all()):
        raise out_of_range(
            "the classifier's output on the validation episodes is not finite.",
            "its network gives no number", learning_rate,
        )  # fmt: skip
    calibration = fit_calibration(logits, labels)
    # [N] probabilities: the threshold is chosen on them, AUROC on the logits, whose order is the same
    p = calibration(logits)
    by_precision = settings.rule == "precision"
    precise = threshold_for_precision(p, labels, settings.precision) if by_precision else None
    threshold = threshold_for_f(p, labels, settings.beta) if precise is None else precise
    at = AtThreshold.of(p, labels, threshold)
    figures = {
        "classifier/auroc": classifier_auroc(logits, labels),
        "classifier/average_precision": average_precision(logits, labels),
        "classifier/loss": float(F.binary_cross_entropy(p.double(), labels.double())),
        "classifier/precision": at.precision,
        "classifier/recall": at.recall,
        "classifier/ece": calibration_error(p, labels),
        "classifier/threshold": threshold,
        "classifier/temperature": calibration.temperature,
    }
    return Choice(calibration, threshold, not by_precision or precise is not None, figures)


class RewardTrain:
    """Trains a success classifier; see `motionkit.training.base.Trainer`.

    Episodes, not frames, are split: some train, some choose weights, calibration and threshold, and some are measured
    on once, at the end. The best classifier becomes ``RUN/classifier``, the last one ``RUN/classifier-last``.
    """

    shape_keys: ClassVar[tuple[str, ...]] = (
        "data", "model", "train", "augment", "threshold", "control", "optim", "seed", "run.epochs", "run.num_steps",
    )  # fmt: skip

    figures: ClassVar[tuple[Figure, ...]] = (Figure("AUROC", ("classifier/auroc",), instead_of=("loss",)), LOSS)

    def __init__(self, settings: RewardTrainSettings) -> None:
        self.settings = settings
        self.world: World = OneProcess()

    def prepare(self) -> None:
        """Read the episodes and build the classifier."""
        settings = self.settings
        self.device = set_up(settings, small=True)
        model, train = settings.model, settings.train
        pretrained = None if model.pretrained is None else read_pretrained(model.pretrained)
        self.source = source = open_source(settings.data, settings.run.resume)
        self.episodes = episodes = source.episodes
        refuse_one_class(episodes.labels)
        self.split = split = Split.of(
            episodes, val=settings.data.val_share, test=settings.data.test_share, seed=settings.seed
        )
        self.parts = {
            name: split.frames(episodes, ids)
            for name, ids in (("train", split.train), ("val", split.val), ("test", split.test))
        }
        # The first weights depend on the seed alone.
        torch.manual_seed(settings.seed)
        card = Card(
            architecture=model.chosen, cameras=cameras_of(episodes, settings.data), hidden=model.hidden,
            blocks=model.blocks, environment=dict(episodes.environment), label_rule=episodes.label_rule,
            dataset=episodes.fingerprint, frozen=model.frozen, pretrained=None if pretrained is None else pretrained[1],
        )  # fmt: skip
        self.classifier = SuccessClassifier.make(card)
        self.classifier.trained_on = TrainedOn.of((*split.train, *split.val))
        if pretrained is not None:
            start_from(self.classifier.network, pretrained[0])
        self.classifier.to(self.device)
        self.labels = np.array(episodes.labels)
        if settings.control.shuffle:  # not those of test, on which the report measures what was learned
            rng = np.random.default_rng(settings.seed)
            for part in ("train", "val"):
                self.labels[self.parts[part]] = rng.permutation(self.labels[self.parts[part]])
        training = self.parts["train"]
        size = min(train.batch_size, len(training))
        share_of(size, self.world, what="frames", flag="--batch-size")
        self.batches = FrameBatches(
            training, self.labels[training], train.batch_size, negatives=train.negatives, seed=settings.seed
        )
        steps = settings.run.num_steps or settings.epochs(self.batches.per_epoch) * self.batches.per_epoch
        self.settings = settings.model_copy(update={"run": settings.run.model_copy(update={"num_steps": steps})})
        self.inputs = {"data.positive_dir" if source.trajectories else "data.path": episodes.fingerprint}
        if pretrained is not None:
            self.inputs["model.pretrained"] = pretrained[1].sha256
        self.notes = [note for note in (source.note, *counts_of(episodes), *episodes.notes) if note]
        if settings.control.shuffle:
            self.notes.append("negative control: labels are shuffled, nothing should be learned")
        if pretrained is not None:
            self.notes.append(f"encoder: {pretrained[1].name}, sha256 {pretrained[1].sha256}")
        for note in self.notes:
            _logger.info("%s", note)

    def describe(self) -> Mapping[str, object]:
        """Return the plan."""
        network = self.classifier.network
        frozen = sum(value.numel() for part in network.backbones() for value in part.parameters())
        total = sum(value.numel() for value in network.parameters())
        trained = total - frozen if self.settings.model.frozen else total
        sizes = ", ".join(f"{len(frames):,} to {name}" for name, frames in self.parts.items())
        return {
            "model": f"{self.classifier.card.architecture}, {self.classifier.card.seen()}",
            "parameters": f"{total:,}, {trained:,} of them trained",
            "frames": sizes,
            "episodes": f"{len(self.split.train)}, {len(self.split.val)}, {len(self.split.test)}",
            "steps": f"{self.settings.run.num_steps}, {self.batches.per_epoch} an epoch",
            "device": describe_device(self.device),
            "notes": list(self.notes),
        }

    def train(self, run: Run) -> Mapping[str, object]:
        """Train; see `motionkit.training.base.Trainer.train`."""
        settings, classifier = self.settings, self.classifier
        write_record(run.artifact(RECORD), self.source, self.split)
        run.annotate(environment=dict(self.episodes.environment))
        total, interval = settings.run.num_steps, settings.train.val_every
        training = ClassifierTraining(
            classifier, torch.from_numpy(self.labels), self.batches, optim=settings.optim, updates=total,
            final=settings.train.final_rate, precision=settings.precision, world=self.world,
        )  # fmt: skip
        seen: Seen

        def begin() -> None:
            nonlocal seen
            save_classifier(run.artifact(ARTIFACT), classifier, tensors=False)
            seen = self._seen(run)

        done = fit(
            run, settings, training.learner, lambda step: self._step(training, seen, step),
            measure=lambda step: self._validate(seen, step), every=interval * self.batches.per_epoch,
            worth=lambda figures: figures["classifier/average_precision"], begin=begin,
        )  # fmt: skip
        if done is None:
            return {}
        best = done.best
        classifier.update(step=total)
        save_classifier(run.artifact(LAST), classifier)
        classifier.load_tensors(best.tensors)
        choice = self._choose(seen)
        if not choice.reached:
            _logger.warning(
                "no threshold reaches a precision of %g on the validation episodes; the best F-measure chose %.3f, "
                "with a precision of %.3f",
                settings.threshold.precision, choice.threshold, choice.figures["classifier/precision"],
            )  # fmt: skip
        _logger.info("measuring %s frames of held-out episodes", f"{len(self.parts['test']):,}")
        report = measure_classifier(classifier, self.episodes, self.parts["test"], seed=settings.seed)
        classifier.update(checks=report.checks, heldout=dict(report.heldout), step=best.step)
        save_classifier(run.artifact(ARTIFACT), classifier)
        shutil.rmtree(run.directory / CACHE, ignore_errors=True)
        return self._finish(run, report, best.step)

    def _seen(self, run: Run) -> Seen:
        network = self.classifier.network
        if self.settings.model.frozen:
            _logger.info(
                "the encoder is frozen: its features of %s frames are computed once", f"{len(self.episodes):,}"
            )
            return cache_features(run.artifact(CACHE), network.eval(), self.episodes, self.device)
        augment = self.settings.augment
        changes = Augmentation(augment.shift, augment.brightness, self.settings.seed, self.world)
        return Images(network, self.episodes, changes, self.device)

    def _labels(self, index: NDArray[np.int64]) -> torch.Tensor:
        return torch.from_numpy(self.labels[index])

    def _step(self, training: ClassifierTraining, seen: Seen, step: int) -> dict[str, float]:
        return {**training.step(seen, step), "data/epoch": step / self.batches.per_epoch}

    def _choose(self, seen: Seen) -> Choice:
        self.classifier.network.eval()
        index = self.parts["val"]
        settings = self.settings
        logits, labels = all_logits(seen, index), self._labels(index)
        return choose(logits, labels, settings.threshold, learning_rate=settings.optim.learning_rate)

    def _validate(self, seen: Seen, step: int) -> dict[str, float]:
        """Measure on the validation episodes; a checkpoint keeps the calibration and threshold chosen here."""
        choice = self._choose(seen)
        calibration = choice.calibration
        self.classifier.update(
            threshold=choice.threshold, temperature=calibration.temperature, bias=calibration.bias, step=step
        )
        return choice.figures

    def _finish(self, run: Run, report: RewardReport, step: int) -> dict[str, object]:
        folder = run.artifact(FIGURES)
        folder.mkdir(exist_ok=True)
        document = {name: finite(value) for name, value in report.document().items()}
        write_bytes_atomic(folder / REPORT, (json.dumps(document, allow_nan=False) + "\n").encode())
        save_strips(folder / FILE, report.strips)
        _logger.info("%s", report.sentence)
        title = f"{report.heldout['n']:,} frames of {report.heldout['episodes']} held-out episodes"
        return {
            "heldout": dict(report.heldout),
            "ci95": dict(report.ci95),
            "checks": [check.model_dump() for check in report.checks],
            "data": {"sources": counts_of(self.episodes), "notes": list(self.episodes.notes)},
            "table": report.tables(title),
            "verdict": report.sentence,
            "best_step": step,
        }
