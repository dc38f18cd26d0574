"""`motionkit train-mpl`: the trainer, and its validation.

`Validation` measures free runs on the validation clips while training; the best weights are chosen by them.
"""

from __future__ import annotations

import logging
import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, ClassVar

import torch

from motionkit.contracts.open_model import trained_on
from motionkit.errors import MotionkitError
from motionkit.rigs import GAITS
from motionkit.runs import Run, TrainedOn
from motionkit.tracking import entry_of
from motionkit.training.base import LOSS, Figure
from motionkit.training.device import describe_device, set_up
from motionkit.training.learner import Best
from motionkit.training.supervised import fit
from motionkit.training.world import OneProcess, World
from motionkit_predictor.data.clips import ClipSet, Windows, cut_windows
from motionkit_predictor.data.files import TrainingData, open_data
from motionkit_predictor.evaluation.data import EvalData
from motionkit_predictor.evaluation.guide import evaluate_teacher, free_figures
from motionkit_predictor.evaluation.long.measure import LongSettings
from motionkit_predictor.evaluation.long.result import long_metrics
from motionkit_predictor.evaluation.measure import Body, Horizons, Measured, Row, fit_baselines, measure, measure_row
from motionkit_predictor.evaluation.run import evaluate
from motionkit_predictor.policy import ARTIFACT, Predictor
from motionkit_predictor.training.batches import WindowBatches
from motionkit_predictor.training.checklist import DataFacts, as_lines, checklist
from motionkit_predictor.training.guide_figures import cut_back, write_epoch
from motionkit_predictor.training.losses import share_warnings
from motionkit_predictor.training.norm_template import FILE as TEMPLATE
from motionkit_predictor.training.norm_template import write_template
from motionkit_predictor.training.settings import TrainMplSettings
from motionkit_predictor.training.start import find_encoder, model_inputs, new_predictor
from motionkit_predictor.training.step import MplTraining

MILLISECONDS = (100.0, 200.0, 400.0, 1000.0)

_LONG_CLIPS, _LONG_STARTS = 8, 2
"""Clips that long runs begin from, and those of each drawn path: 9 CPU-seconds at 30 s, model and baselines."""

_logger = logging.getLogger("motionkit.train_mpl")


class TrainMpl:
    """Trains a motion predictor; see `motionkit.training.base.Trainer`.

    An update has two passes: teacher forcing over a few frames, and a free run whose gradients flow back through all
    of its frames. The weights that are kept are the moving average that was best in free runs on the validation clips.
    """

    shape_keys: ClassVar[tuple[str, ...]] = (
        "data", "fps", "encoder", "init", "bundle", "model", "train", "teacher", "freerun", "stages", "loss",
        "adaptive", "augmentation", "optim", "seed", "run.epochs", "run.num_steps",
    )  # fmt: skip

    figures: ClassVar[tuple[Figure, ...]] = (
        Figure("skill", ("mpl/skill",), instead_of=("loss",)),
        LOSS,
        Figure("horizon", ("freerun/horizon",), count=True),  # as it grows, so does the loss
    )

    def __init__(self, settings: TrainMplSettings) -> None:
        self.settings = settings
        self.world: World = OneProcess()

    def prepare(self) -> None:
        """Read the clips and build the network."""
        settings = self.settings
        if self.world.size > 1:
            _require_shareable(settings, self.world)
        self.device = set_up(settings)
        self.data = open_data(
            settings.data, settings.fps, settings.train, settings.model, furthest=MILLISECONDS[-1] / 1000,
            retarget=settings.retarget,
        )  # fmt: skip
        _logger.info(
            "%d clips at %g fps: %s windows of %d frames to train on, %s to validate on",
            len(self.data.clips.clips), self.data.clips.fps, f"{len(self.data.train):,}",
            self.data.train.past + self.data.train.future, f"{len(self.data.val or ()):,}",
        )  # fmt: skip
        self.batches = WindowBatches(
            self.data.train, batch_size=settings.train.batch_size, accumulate=settings.train.accumulation_steps,
            seed=settings.seed, device=self.device, further=_further(settings, self.data),
            last=max(1, round(self.data.clips.fps)),
        )  # fmt: skip
        epochs = settings.epochs(self.batches.per_epoch)
        steps = settings.run.num_steps or epochs * self.batches.per_epoch
        lasts = {"epochs": epochs, "num_steps": steps}
        self.settings = settings.model_copy(update={"run": settings.run.model_copy(update=lasts)})
        clips = self.data.clips
        self._body = Body.of(clips.names, clips.parents, clips.fps)
        encoder, place, self._encoder_from = find_encoder(settings.encoder, clips)
        self.predictor, notes = new_predictor(self.settings, self.data, encoder)
        self.inputs = {**self.data.inputs, **model_inputs(self.settings, encoder)}
        self._items = self.data.items | (trained_on(place) if encoder is not None else TrainedOn())
        if settings.init is not None:
            self._items |= trained_on(str(settings.init))
        self.predictor.to(self.device)
        self._notes = [*self.data.notes, f"encoder: {self._encoder_from}.", *notes]
        self._warnings = []
        if encoder is None and settings.weighs("latent_consistency"):
            self._warnings.append(
                "the weight of latent_consistency (w_latent_consistency) has no effect: there is no encoder. "
                "motionkit pretrain mpl-encoder on the same --data makes one."
            )

    def describe(self) -> Mapping[str, object]:
        """Return the plan."""
        train, network = self.data.train, self.predictor.network
        encoder = "" if network.encoder is None else self._encoder_from
        return {
            "policy": "mpl",
            "parameters": sum(parameter.numel() for parameter in network.parameters()),
            "clips": f"{len(train.offsets)} to train on, {0 if self.data.val is None else len(self.data.val.offsets)} "
            f"to validate, {len(self.predictor.names)} joints, {self.predictor.fps:g} fps",
            "windows": len(train),
            "epochs": self.settings.run.epochs,
            "updates": f"{self.settings.run.num_steps}, {self.batches.per_epoch} an epoch",
            "dropout": self.predictor.settings.dropout,
            "encoder": self._encoder_from,
            "device": describe_device(self.device),
            "notes": [*self._notes, *self._warnings],
            "checklist": as_lines(checklist(self.settings, data_facts(self.data.clips, encoder))),
        }

    def train(self, run: Run) -> Mapping[str, object]:
        """Train; see `motionkit.training.base.Trainer.train`."""
        settings = self.settings
        for note in self._notes:
            _logger.info("%s", note)
        for warning in self._warnings:
            _logger.warning("%s", warning)
        if not (template := run.artifact(TEMPLATE)).exists():
            clips = self.data.clips
            turns = self.predictor.network.statistics.turn_std
            write_template(template, [clip.state for clip in clips.split("train")], clips.names, clips.fps, turns)
        training = MplTraining(settings, self.predictor, self.data.clips, self.batches, world=self.world)
        learner = training.learner
        validation = None if self.data.val is None else Validation.of(self.data.clips, self.data.val)
        metrics: dict[str, float] = {}  # of the newest step; none if a run is resumed after its last one

        def step_fn(step: int) -> Mapping[str, float]:
            nonlocal metrics
            metrics = {**training.step(step), "data/epoch": step / self.batches.per_epoch}
            return metrics

        def measured(step: int) -> Mapping[str, float]:
            assert validation is not None
            validated = self._measure(validation)
            if metrics:
                self._write_epoch(run, self.batches.epoch_of(step), validated, metrics)
            return logged(validated)

        def before() -> Mapping[str, float]:
            assert validation is not None
            _logger.info(
                "measuring %d validation windows before training, %d frames ahead",
                len(validation.windows), validation.windows.future,
            )  # fmt: skip
            with learner.averaged():
                return logged(self._measure(validation))

        def begin() -> None:
            if run.checkpoint() is not None:
                self._items |= TrainedOn.read(run.artifact(ARTIFACT))
                cut_back(run.artifact("metrics"), run.start_step // self.batches.per_epoch)
            if self.world.main:
                self.predictor.save(run.artifact(ARTIFACT), tensors=False)
                self._items.write(run.artifact(ARTIFACT))

        done = fit(
            run, settings, learner, step_fn, measure=None if validation is None else measured,
            every=settings.train.val_every * self.batches.per_epoch,
            worth=lambda figures: figures.get("mpl/skill", math.nan), before=None if validation is None else before,
            begin=begin, parts=training.objective.parts(),
        )  # fmt: skip
        if done is None:
            return {}
        best, shares = done.best, _group(metrics, "loss_group")
        encoder = self.predictor.network.encoder is not None
        for warning in share_warnings(shares, encoder=encoder) if shares else ():
            _logger.warning("%s", warning)
        with learner.averaged():
            final = {name: tensor.clone() for name, tensor in self.predictor.tensors().items()}
        self.predictor.load_tensors(best.tensors or final)
        if self.world.main:
            self.predictor.save(run.artifact(ARTIFACT))
        return self._finish(run, done.before, best)

    def _measure(self, validation: Validation) -> Measured:
        self.predictor.network.eval()
        return validation.measure(self.predictor, command=self.settings.model.command == "path")

    def _write_epoch(self, run: Run, epoch: int, measured: Measured, metrics: Mapping[str, float]) -> None:
        """Write the guide's files of an epoch into ``RUN/metrics``."""
        assert self.data.val is not None
        command = self.settings.model.command == "path"
        taught = evaluate_teacher(self.predictor, self.data.val, body=self._body, command=command)
        write_epoch(
            run.artifact("metrics"), epoch, teacher=taught, free=free_figures(measured),
            shares=_group(metrics, "loss_group"), adaptive=_group(metrics, "adaptive_loss"),
        )  # fmt: skip

    def _finish(self, run: Run, before: Mapping[str, Any], best: Best) -> dict[str, object]:
        """Measure the kept weights and all baselines, and keep some predictions to look at."""
        windows = self.data.val
        if windows is None:
            return {"table": []}
        _logger.info("measuring the best weights and the baselines on %d validation windows", len(windows))
        self.predictor.network.eval()
        # Baselines look as far ahead as the validation does, which may be further than training windows reach.
        fitting = cut_windows(
            self.data.clips.split("train"), past=windows.past, future=windows.future, stride=self.settings.train.stride
        )
        data = EvalData(self.data.clips, windows, fitting, self.data.notes)
        validation = Validation.of(self.data.clips, windows)
        command = self.settings.model.command == "path"
        long = self.settings.train.long
        title = f"GeoDeg in degrees, free runs on {len(windows.offsets)} validation clips, {len(windows)} windows"
        document = evaluate(
            data, self.predictor, validation.horizons, command=command, seed=self.settings.seed, title=title,
            keep=lambda shown: shown.keep(run),
            long=LongSettings(seconds=long, clips=_LONG_CLIPS, starts=_LONG_STARTS) if long else None,
        )  # fmt: skip
        # Mean over horizons, as while training; a horizon that no clip reaches has no figure.
        skills = [value for value in document["rows"]["model"]["skill"].values() if value is not None]
        skill = sum(skills) / len(skills) if skills else 0.0
        _logger.info("%s", document["closing"][-1])
        lasting = document["long"] or {}
        for alarm in lasting.get("alarms", ()):
            _logger.warning("%s", alarm)
        count = len(windows.takes.unique())
        heldout = {"skill": entry_of(before.get("mpl/skill", 0.0), skill, count)}
        for key, value in document["rows"]["model"]["geo_deg"].items():
            if value is None:
                continue
            heldout[f"mpl/geo_deg/{key}"] = entry_of(before.get(f"mpl/geo_deg/{key}", float("nan")), value, count)
        return {
            "heldout": heldout,
            "metrics": {"mpl/skill": skill, **(long_metrics(lasting) if lasting else {})},
            "table": document["table"],
            "rows": document["rows"],
            "long": document["long"],
            "free_teacher_ratio": document["free_teacher_ratio"],
            "worst_clips": document["worst_clips"],
            "best_baseline": document["best_baseline"],
            "verdict": document["closing"][-1],
            "best_step": best.step,
        }


def _further(settings: TrainMplSettings, data: TrainingData) -> int:
    """Return the frames beyond a window that its path and a faster resampling need."""
    if not settings.conditioned:
        return 0
    ahead = max(settings.model.ahead_frames(data.clips.fps))
    fastest = max(1.0, settings.augmentation.speed_scale_range[1])
    return math.ceil((data.train.future + ahead) * fastest) - data.train.future


def _require_shareable(settings: TrainMplSettings, world: World) -> None:
    """Refuse settings that processes cannot share: they divide the batches of an update."""
    count = settings.train.accumulation_steps
    if count % world.size:
        raise MotionkitError(
            f"an update of {count} {'batch' if count == 1 else 'batches'} cannot be shared by {world.size} processes.",
            why="each process takes whole batches.",
            fix=f"--set train.accumulation_steps={world.size}, with a --batch-size that is {world.size} times smaller "
            "for the same update.",
        )
    if settings.adaptive.method != "none":
        raise MotionkitError(
            f"--adaptive-loss {settings.adaptive.method} cannot be shared by {world.size} processes.",
            why="its weights follow from the losses of one process.",
            fix="--adaptive-loss none, or one process.",
        )


def _group(metrics: Mapping[str, float], group: str) -> dict[str, float]:
    """Return the metrics below a name, without it."""
    return {name.removeprefix(f"{group}/"): value for name, value in metrics.items() if name.startswith(f"{group}/")}


@dataclass(frozen=True)
class Validation:
    """Validation windows with the baseline that skill is measured against."""

    windows: Windows  # windows of the validation clips
    body: Body  # the skeleton
    horizons: Horizons  # frames that are measured
    hold: Row  # figures of the last pose held

    @classmethod
    def of(cls, clips: ClipSet, windows: Windows) -> Validation:
        """Measure the baseline once."""
        body = Body.of(clips.names, clips.parents, clips.fps)
        horizons = near_horizons(clips.fps, windows.future)
        hold = measure_row(fit_baselines(clips, None)["hold"], windows, body, horizons)
        return cls(windows, body, horizons, hold)

    def measure(self, predictor: Predictor, *, command: bool = False) -> Measured:
        """Measure a predictor; rows ``model`` and ``hold``."""
        row = measure_row(predictor, self.windows, self.body, self.horizons, command=command)
        return measure({"model": row, "hold": self.hold}, self.windows.takes, self.horizons)


def near_horizons(fps: float, furthest: int) -> Horizons:
    """Return the frames nearest to 100, 200, 400 and 1000 ms that are not beyond frame `furthest`."""
    frames = {f"{ms:g}": max(1, round(ms * fps / 1000)) for ms in MILLISECONDS}
    kept = {key: frame for key, frame in frames.items() if frame <= furthest} or {"100": furthest}
    return Horizons(tuple(kept), tuple(kept.values()))


def skill_of(measured: Measured) -> float:
    """Return the mean over the horizons of 1 - GeoDeg / GeoDeg of the last pose held."""
    return float(measured.values["model"]["skill"].nanmean())


def logged(measured: Measured) -> Mapping[str, float]:
    """Return the figures of a validation as metrics: each at its horizon, ``mpl/geo_deg/400``, and ``mpl/skill``."""
    metrics = {"mpl/skill": skill_of(measured)}
    for figure in ("geo_deg", "teacher_geo_deg"):
        values = measured.values["model"][figure]
        metrics |= {
            f"mpl/{figure}/{key}": float(value) for key, value in zip(measured.horizons.keys, values, strict=True)
        }
    # A horizon that no clip reaches has no figure.
    return {name: value for name, value in metrics.items() if math.isfinite(value)}


def data_facts(clips: ClipSet, encoder: str = "") -> DataFacts:
    """Count frames, gaits and contacts of the clips."""
    train = [clip for clip in clips.clips if clip.split == "train"]
    gaits = torch.stack([clips.gait_of(clip).sum(0) for clip in train]).sum(0)
    known = float(gaits.sum())
    return DataFacts(
        frames=sum(clip.state.frames for clip in train),
        clips=len(train),
        gaits=dict(zip(GAITS, (gaits / known).tolist(), strict=True)) if known else {},
        contacts=sum(clip.contacts_known for clip in train),
        validation=sum(clip.split == "val" for clip in clips.clips),
        encoder=encoder,
    )
