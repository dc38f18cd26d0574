"""`motionkit train-mpl`: the trainer."""

from __future__ import annotations

import logging
from collections.abc import Mapping
from typing import Any, ClassVar

import torch

from motionkit.datasets.motions import ClipSet, cut_windows
from motionkit.encoders.mpl import COMMAND, MotionEncoder, newest_encoder_run, open_encoder
from motionkit.errors import MotionkitError
from motionkit.evaluation.mpl import Body, EvalData, Measured, evaluate, evaluate_teacher, free_figures
from motionkit.policies.mpl.api import ARTIFACT, MplPredictor, PredictorNetwork, Statistics
from motionkit.runs import Run
from motionkit.trainers._best import Best
from motionkit.trainers._device import describe_device, set_up
from motionkit.trainers._learner import Learner, Rate, cosine_rate
from motionkit.trainers._loop import run_steps
from motionkit.trainers._state import Kept, Parts, restore
from motionkit.trainers.train_mpl._augment import Augmentation
from motionkit.trainers.train_mpl._batches import WindowBatches
from motionkit.trainers.train_mpl._checklist import as_lines, checklist
from motionkit.trainers.train_mpl._data import TrainingData, open_data
from motionkit.trainers.train_mpl._facts import data_facts
from motionkit.trainers.train_mpl._metrics_files import cut_back, write_epoch
from motionkit.trainers.train_mpl._objective import Objective
from motionkit.trainers.train_mpl._settings import TrainMplSettings
from motionkit.trainers.train_mpl._validate import MILLISECONDS, Validation, logged, skill_of
from motionkit.trainers.train_mpl._values import values_at
from motionkit.trainers.train_mpl.losses import share_warnings

_logger = logging.getLogger("motionkit.train_mpl")


class TrainMpl:
    """Trains a motion predictor; see `motionkit.trainers.base.Trainer`.

    An update has two passes: teacher forcing over a few frames, and a free run whose gradients flow back through all
    of its frames. The weights that are kept are the moving average that was best in free runs on the validation clips.

    Args:
        settings: All settings.
    """

    shape_keys: ClassVar[tuple[str, ...]] = (
        "data", "fps", "encoder", "init", "model", "train", "teacher", "freerun", "stages", "loss", "adaptive",
        "augmentation", "optim", "seed", "run.epochs", "run.num_steps",
    )  # fmt: skip

    def __init__(self, settings: TrainMplSettings) -> None:
        self.settings = settings

    def prepare(self) -> None:
        """Read the clips and build the network.

        Raises:
            MotionkitError: An input is missing or unusable.
        """
        settings = self.settings
        self.device = set_up(settings)
        self.data = open_data(settings.data, settings.fps, settings.train, furthest=MILLISECONDS[-1] / 1000)
        self.batches = WindowBatches(
            self.data.train, batch_size=settings.train.batch_size, accumulate=settings.train.accumulation_steps,
            seed=settings.seed, device=self.device,
        )  # fmt: skip
        epochs = settings.epochs(self.batches.per_epoch)
        steps = settings.run.num_steps or epochs * self.batches.per_epoch
        lasts = {"epochs": epochs, "num_steps": steps}
        self.settings = settings.model_copy(update={"run": settings.run.model_copy(update=lasts)})
        clips = self.data.clips
        self._augment = Augmentation(settings.augmentation, clips.names)
        self._body = Body.of(clips.names, clips.parents, clips.fps)
        self._encoder, self._encoder_from = _open_encoder(settings.encoder, clips)
        self.predictor = _new_predictor(settings, self.data, self._encoder).to(self.device)

    def describe(self) -> Mapping[str, object]:
        """Return the plan."""
        train, network = self.data.train, self.predictor.network
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
            "notes": list(self.data.notes),
            "checklist": as_lines(checklist(self.settings, data_facts(self.data.clips, self._encoder_from))),
        }

    def train(self, run: Run) -> Mapping[str, object]:
        """Train; see `motionkit.trainers.base.Trainer.train`."""
        settings = self.settings
        for note in (*self.data.notes, f"encoder: {self._encoder_from}."):
            _logger.info("%s", note)
        total = settings.run.num_steps
        network = self.predictor.network
        learner = Learner(
            self.predictor, settings.optim, self._rate(), ema=settings.train.ema, frozen=network.encoder
        )  # fmt: skip
        objective = Objective(settings, self._body, network, self.batches)
        validation = None if self.data.val is None else Validation.of(self.data.clips, self.data.val)
        best, start = Best(), Kept()
        parts: Parts = {**learner.parts(), **objective.parts(), "best": best, "before": start}
        if (checkpoint := run.checkpoint()) is not None:
            restore(parts, checkpoint)
            cut_back(run.artifact("metrics"), run.start_step // self.batches.per_epoch)
        elif validation is not None:
            start.values = dict(logged(self._measure(validation, learner)))
        self.predictor.save(run.artifact(ARTIFACT), tensors=False)

        def step_fn(step: int) -> Mapping[str, float]:
            epoch = self.batches.epoch_of(step)
            metrics = {**self._step(objective, learner, step), "data/epoch": step / self.batches.per_epoch}
            last = step == total or step % self.batches.per_epoch == 0
            every = settings.train.val_every
            if last and validation is not None and (step == total or (every and epoch % every == 0)):
                measured = self._measure(validation, learner)
                metrics |= logged(measured)
                self._write_epoch(run, learner, epoch, measured, metrics)
                with learner.averaged():
                    if best.offer(skill_of(measured), step, self.predictor.tensors()):
                        _logger.info("epoch %d: skill %.3f, the best so far", epoch, best.value)
            return metrics

        shares: dict[str, float] = {}

        def step_and_keep(step: int) -> Mapping[str, float]:
            nonlocal shares
            metrics = step_fn(step)
            shares = _group(metrics, "loss_group")
            return metrics

        if not run_steps(run, settings, step_and_keep, parts):
            return {}
        for warning in share_warnings(shares) if shares else ():
            _logger.warning("%s", warning)
        with learner.averaged():
            final = {name: tensor.clone() for name, tensor in self.predictor.tensors().items()}
        self.predictor.load_tensors(best.tensors or final)
        self.predictor.save(run.artifact(ARTIFACT))
        return self._finish(run, start.values, best)

    def _rate(self) -> Rate:
        """Return the learning rate by update: warm-up and cosine, times what a stage sets."""
        settings, per_epoch = self.settings, self.batches.per_epoch
        optim = settings.optim
        base = cosine_rate(optim.learning_rate, optim.warmup_steps, settings.run.num_steps, settings.train.final_rate)
        return lambda update: base(update) * values_at(settings, update / per_epoch).rate

    def _step(self, objective: Objective, learner: Learner, step: int) -> dict[str, float]:
        learner.zero_grad()
        self.predictor.network.train()
        batches = self.batches(step)
        total: dict[str, float] = {}
        draws = self.batches.generator("augmentation", step)
        for number, batch in enumerate(batches):
            shots = self.batches.drawn(self.settings.train.shot_batches, draws) if self.predictor.network.shot else None
            metrics = objective.backward(
                self._augment(batch, draws), step, number,
                shots=None if shots is None else self._augment(shots, draws), share=1 / len(batches),
            )  # fmt: skip
            total = {name: total.get(name, 0.0) + value / len(batches) for name, value in metrics.items()}
        return total | objective.settle() | learner.descend(step - 1)

    def _measure(self, validation: Validation, learner: Learner) -> Measured:
        self.predictor.network.eval()
        with learner.averaged():
            return validation.measure(self.predictor, command=self.settings.model.command == "path")

    def _write_epoch(
        self, run: Run, learner: Learner, epoch: int, measured: Measured, metrics: Mapping[str, float]
    ) -> None:
        """Write the guide's files of an epoch into ``RUN/metrics``."""
        if self.data.val is None:
            return
        command = self.settings.model.command == "path"
        with learner.averaged():
            taught = evaluate_teacher(self.predictor, self.data.val, body=self._body, command=command)
        write_epoch(
            run.artifact("metrics"), epoch, teacher=taught, free=free_figures(measured),
            shares=_group(metrics, "loss_group"), adaptive=_group(metrics, "adaptive_loss"),
        )  # fmt: skip

    def _finish(self, run: Run, before: Mapping[str, Any], best: Best) -> dict[str, object]:
        """Measure the kept weights beside all baselines, and keep some predictions to look at."""
        windows = self.data.val
        if windows is None:
            return {"table": []}
        self.predictor.network.eval()
        # Baselines look as far ahead as the validation does, which may be further than training windows reach.
        fitting = cut_windows(
            self.data.clips.split("train"), past=windows.past, future=windows.future, stride=self.settings.train.stride
        )
        data = EvalData(self.data.clips, windows, fitting, self.data.notes)
        validation = Validation.of(self.data.clips, windows)
        command = self.settings.model.command == "path"
        title = f"GeoDeg in degrees, free runs on {len(windows.offsets)} validation clips, {len(windows)} windows"
        found = evaluate(
            data, self.predictor, validation.horizons, command=command, seed=self.settings.seed, title=title,
            keep=lambda shown: shown.keep(run),
        )  # fmt: skip
        skill = sum(found["rows"]["model"]["skill"].values()) / len(validation.horizons.keys)
        _logger.info("%s", found["closing"][-1])
        count = len(windows.offsets)
        heldout = {"skill": _change(before.get("mpl/skill", 0.0), skill, count)}
        for key, value in found["rows"]["model"]["geo_deg"].items():
            heldout[f"mpl/geo_deg/{key}"] = _change(before.get(f"mpl/geo_deg/{key}", float("nan")), value, count)
        return {
            "heldout": heldout,
            "metrics": {"mpl/skill": skill},
            "table": found["table"],
            "rows": found["rows"],
            "free_teacher_ratio": found["free_teacher_ratio"],
            "worst_clips": found["worst_clips"],
            "best_baseline": found["best_baseline"],
            "verdict": found["closing"][-1],
            "best_step": best.step,
        }


def _group(metrics: Mapping[str, float], group: str) -> dict[str, float]:
    """Return the metrics below a name, without it."""
    return {name.removeprefix(f"{group}/"): value for name, value in metrics.items() if name.startswith(f"{group}/")}


def _change(before: float, after: float, count: int) -> dict[str, float | int]:
    return {"before": before, "after": after, "delta": after - before, "n": count}


def _new_predictor(settings: TrainMplSettings, data: TrainingData, encoder: MotionEncoder | None) -> MplPredictor:
    clips, windows = data.clips, data.train
    train = clips.split("train")
    model = settings.model.for_frames(sum(clip.state.frames for clip in train))
    statistics = Statistics.of([clip.state for clip in train], clips.fps, model.lag_frames(clips.fps))
    torch.manual_seed(settings.seed)
    network = PredictorNetwork(model, len(clips.names), clips.fps, statistics, encoder)
    if network.shot is not None:
        whole = windows.whole()
        chosen = whole if len(whole) else torch.arange(len(windows))
        network.shot.measure([(windows.known(index), windows.following(index)) for index in chosen.split(512)])
    return MplPredictor(
        model, network, names=clips.names, parents=clips.parents,
        offsets=torch.stack([clip.offsets for clip in train]).mean(0),
    )  # fmt: skip


def _open_encoder(name: str, clips: ClipSet) -> tuple[MotionEncoder | None, str]:
    """Open the encoder that ``--encoder`` names.

    Returns:
        The encoder, and where it is from, in words.

    Raises:
        MotionkitError: It was named, and is missing, damaged, or made for other clips.
    """
    if name == "none":
        return None, "none"
    if name != "auto":
        encoder = open_encoder(name)
        if why := encoder.misfit(clips.names, clips.fps):
            raise MotionkitError(
                f"{name} does not fit the clips.", why=why, fix=f"motionkit {COMMAND} --data with the same clips."
            )
        return encoder, name
    newest = newest_encoder_run()
    if newest is None:
        return None, f"none: there is no finished run of {COMMAND} under ./runs"
    encoder = open_encoder(newest)
    if why := encoder.misfit(clips.names, clips.fps):
        return None, f"none: the newest, {newest}, does not fit: {why}"
    return encoder, f"{newest}, the newest finished run of {COMMAND}"
