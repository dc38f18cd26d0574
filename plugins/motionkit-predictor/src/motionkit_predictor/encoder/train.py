"""`motionkit pretrain mpl-encoder`: batches of frames, the losses of the three heads, and the trainer."""

from __future__ import annotations

import logging
from collections.abc import Mapping
from dataclasses import dataclass
from typing import ClassVar

import torch
from torch import Tensor

from motionkit import weights
from motionkit.rl import stable_hash
from motionkit.runs import Run
from motionkit.tracking import entry_of
from motionkit.training.base import LOSS, Figure
from motionkit.training.device import autocast, describe_device, set_up
from motionkit.training.learner import Learner, cosine_rate
from motionkit.training.supervised import fit
from motionkit.training.world import OneProcess, World, joined_all, share_of
from motionkit_predictor.data.files import open_training_clips
from motionkit_predictor.encoder.network import ARTIFACT, FEET, EncoderSizes, MotionEncoder, Scales, save_encoder
from motionkit_predictor.encoder.probe import Baseline, Frames, Probe, frames_of, measure, probe_table, probe_verdict
from motionkit_predictor.encoder.settings import PretrainEncoderSettings

LAST = "encoder-last"
HEADLINES = tuple(f"encoder/{name}" for name in ("skill", "period_deg", "gait_accuracy", "gait_balanced", "pose_deg"))
"""The encoder's own figures, without those of the baselines."""

_UNKNOWN = 0.5

_RARE = 0.02  # least share that a gait is weighed by: a single odd frame must not dominate

_logger = logging.getLogger("motionkit.pretrain.mpl_encoder")


@dataclass(frozen=True)
class Draw:
    """One step's draws."""

    index: Tensor  # [N] int64 frames
    hidden: Tensor  # [N] bool: frames whose contacts are hidden
    noise: Tensor | None  # [N, D] added to the inputs, in deviations; None: none


class FrameBatches:
    """Endless shuffled batches; each frame once per epoch, the last batch of an epoch filled from its beginning."""

    def __init__(
        self,
        frames: int,  # of training
        size: int,  # frames per batch; fewer when there are fewer
        width: int,  # D, numbers that the encoder reads of a frame
        *,
        noise: float,  # its std, in deviations
        hide: float,  # share of frames whose contacts are hidden
        seed: int,
    ) -> None:
        self._frames, self._size, self._width = frames, min(size, frames), width
        self._noise, self._hide, self._seed = noise, hide, seed
        self._epoch: tuple[int, Tensor] = (-1, torch.empty(0))

    @property
    def per_epoch(self) -> int:
        """Steps in one epoch."""
        return -(-self._frames // self._size)

    def __call__(self, step: int) -> Draw:
        """Return the draws of step number `step` (1-based)."""
        epoch, position = divmod(step - 1, self.per_epoch)
        if self._epoch[0] != epoch:
            self._epoch = (epoch, torch.randperm(self._frames, generator=self._generator("epoch", epoch)))
        places = torch.arange(position * self._size, (position + 1) * self._size) % self._frames
        generator = self._generator("step", step)
        hidden = torch.rand(self._size, generator=generator) < self._hide
        noise = None
        if self._noise:
            noise = self._noise * torch.randn(self._size, self._width, generator=generator)
        return Draw(self._epoch[1][places], hidden, noise)

    def _generator(self, purpose: str, number: int) -> torch.Generator:
        return torch.Generator().manual_seed(stable_hash(f"mpl-encoder/{purpose}/{self._seed}/{number}") % 2**63)


def period_loss(predicted: Tensor, period: Tensor, confidence: Tensor) -> Tensor:
    """Return the mean square of the soft period's errors, weighed by its confidence.

    A mean of squares makes the length of a foot's (sine, cosine) fall where the phase cannot be known.

    Args:
        predicted: ``[N, 4]`` sine left, sine right, cosine left, cosine right.
        period: ``[N, 4]``.
        confidence: ``[N, 2]`` left and right; 0 leaves a foot out.
    """
    weight = confidence.repeat(1, 2)
    return (weight * (predicted - period).square()).sum() / weight.sum().clamp_min(1e-6)


def gait_weights(
    gait: Tensor,  # [F, 4] of the training frames; rows of zeros are not known
) -> Tensor:
    """Return ``[4]`` weights of the gaits, ``1 / sqrt(share of the frames)``, whose mean over the frames is 1."""
    total = gait.sum()
    if not total > 0:
        return torch.ones_like(gait[0])
    share = gait.sum(0) / total
    weight = share.clamp_min(_RARE).rsqrt()
    return weight / (weight * share).sum()


def gait_loss(
    logits: Tensor,  # [N, 4]
    gait: Tensor,  # [N, 4]; rows sum to 1, or to 0 where it is not known
    weights: Tensor,  # [4] of `gait_weights`
) -> Tensor:
    """Return the weighted cross-entropy with soft labels, in nats, mean over the frames whose gait is known."""
    losses = -(weights * gait * logits.log_softmax(-1)).sum(-1)
    return losses.sum() / gait.sum().clamp_min(1e-6)


def pose_loss(
    predicted: Tensor,  # [N, J, 6] in deviations, as the pose head gives them
    turns: Tensor,  # [N, J, 6] true turns in 6D minus the identity
    scale: Tensor,  # [6 J] the deviations
    has_pose: Tensor,  # [N] bool: the clip goes on that far
) -> Tensor:
    """Return the smooth L1 between predicted and true turns to the pose ahead, in deviations."""
    true = turns / scale.view_as(turns[0])
    errors = torch.nn.functional.smooth_l1_loss(predicted, true, reduction="none").mean((-2, -1))
    return (errors * has_pose).sum() / has_pose.sum().clamp_min(1)


@dataclass(frozen=True)
class _Model:
    """The encoder as a `Learner` trains it."""

    network: MotionEncoder

    def tensors(self) -> dict[str, Tensor]:
        return dict(self.network.state_dict())

    def load_tensors(self, tensors: Mapping[str, Tensor]) -> None:
        weights.load_strict(self.network, dict(tensors), "the checkpoint")


class PretrainEncoder:
    """Trains a motion encoder; see `motionkit.training.base.Trainer`.

    Frames are drawn from all training clips. The encoder that was best on the validation clips becomes
    ``RUN/encoder``, the last one ``RUN/encoder-last``.
    """

    shape_keys: ClassVar[tuple[str, ...]] = (
        "data", "fps", "model", "train", "loss", "optim", "seed", "run.epochs", "run.num_steps",
    )  # fmt: skip

    figures: ClassVar[tuple[Figure, ...]] = (Figure("skill", ("encoder/skill",), instead_of=("loss",)), LOSS)

    def __init__(self, settings: PretrainEncoderSettings) -> None:
        self.settings = settings
        self.world: World = OneProcess()

    def prepare(self) -> None:
        """Read the clips and build the encoder."""
        settings = self.settings
        self.device = set_up(settings)
        clips, self.notes, self._items, self.inputs = open_training_clips(
            settings.data, settings.fps, settings.retarget
        )
        self.clips, chosen = clips, clips.split("train")
        held_out = [clip for clip in clips.clips if clip.split == "val"]
        model, train = settings.model, settings.train
        ahead = max(1, round(train.ahead * clips.fps))
        sizes = EncoderSizes(
            width=model.width, layers=model.layers, history=model.history, ahead=ahead, dropout=model.dropout
        )
        frames = frames_of(clips, chosen, history=sizes.history, ahead=ahead, period=train.period)
        self.frames = frames.to(self.device)
        self.held_out: Frames | None = None
        if held_out:
            frames_val = frames_of(clips, held_out, history=sizes.history, ahead=ahead, period=train.period)
            self.held_out = frames_val.to(self.device)
        else:
            self.notes.append("no clip is for validation: the last encoder is kept, and nothing is measured.")
        if not bool(frames.confidence.any()):
            self.notes.append("no training clip has foot contacts: there is no period to learn.")
        self.counts = len(chosen), len(held_out)
        self.labelled = sum(clip.gait is not None for clip in chosen)
        torch.manual_seed(settings.seed)
        rotations = [clip.state.rotations for clip in chosen]
        scales = Scales.of([frames.features], rotations, ahead)
        self.encoder = MotionEncoder(sizes, clips.names, clips.fps, scales).to(self.device)
        size = min(train.batch_size * train.stretch, len(frames))
        self.share = share_of(size, self.world, what="frames", flag="--batch-size")
        self.batches = FrameBatches(
            len(frames), size, self.encoder.inputs,
            noise=train.noise_std, hide=train.hide_contacts, seed=settings.seed,
        )  # fmt: skip
        steps = settings.run.num_steps or settings.run.epochs * self.batches.per_epoch
        self.settings = settings.model_copy(update={"run": settings.run.model_copy(update={"num_steps": steps})})

    def describe(self) -> Mapping[str, object]:
        """Return the plan."""
        return {
            "model": "mpl-encoder",
            "parameters": sum(parameter.numel() for parameter in self.encoder.parameters()),
            "clips": f"{self.counts[0]} to train on, {self.counts[1]} to validate, {self.encoder.joints} joints, "
            f"{self.clips.fps:g} fps",
            "frames": len(self.frames),
            "gait": f"{self.labelled} clips have labels" if self.labelled else "of contacts and speed",
            "steps": f"{self.settings.run.num_steps}, {self.batches.per_epoch} an epoch",
            "device": describe_device(self.device),
            "notes": list(self.notes),
        }

    def train(self, run: Run) -> Mapping[str, object]:
        """Train; see `motionkit.training.base.Trainer.train`."""
        settings, encoder = self.settings, self.encoder
        for note in self.notes:
            _logger.info("%s", note)
        total, interval = settings.run.num_steps, settings.train.val_every
        optim = settings.optim
        rate = cosine_rate(optim.learning_rate, optim.warmup_steps, total, settings.train.final_rate)
        learner = Learner(_Model(encoder), optim, rate, world=self.world)
        self.baseline = Baseline.of(self.frames)
        self.gait_weights = gait_weights(self.frames.gait)

        def begin() -> None:
            if self.world.main:
                save_encoder(run.artifact(ARTIFACT), encoder, tensors=False)
                self._items.write(run.artifact(ARTIFACT))

        held_out = self.held_out is not None
        done = fit(
            run, settings, learner, lambda step: self._step(learner, step),
            measure=(lambda _: self._probe()) if held_out else None, every=interval * self.batches.per_epoch,
            worth=lambda figures: figures["encoder/skill"], before=self._probe if held_out else None, begin=begin,
        )  # fmt: skip
        if done is None:
            return {}
        best = done.best
        if self.world.main:
            save_encoder(run.artifact(LAST), encoder, extra={"step": total})
        if best.tensors:
            encoder.load_state_dict(best.tensors)
        final = measure(encoder.eval(), self.held_out, self.baseline) if self.held_out is not None else None
        heldout = {} if final is None else final.figures()
        kept = {"step": best.step or total, "heldout": {name: round(value, 4) for name, value in heldout.items()}}
        if self.world.main:
            save_encoder(run.artifact(ARTIFACT), encoder, extra=kept)
        return self._finish(done.before, final, heldout, best.step or total)

    def _probe(self) -> dict[str, float]:
        assert self.held_out is not None
        return measure(self.encoder.eval(), self.held_out, self.baseline).figures()

    def _step(self, learner: Learner, step: int) -> dict[str, float]:
        learner.zero_grad()
        encoder, frames, loss = self.encoder.train(), self.frames, self.settings.loss
        draw = self.batches(step)
        index = draw.index.to(self.device)
        inputs = frames.inputs(index)
        inputs[:, :FEET] = inputs[:, :FEET].masked_fill(draw.hidden.to(self.device)[:, None], _UNKNOWN)
        noise = None if draw.noise is None else draw.noise[self.share].to(self.device)
        with autocast(self.device, self.settings.precision):
            hidden = encoder(inputs[self.share], noise=noise)
            outputs = encoder.period(hidden), encoder.gait(hidden), encoder.turns(hidden)
        # The losses are means over the whole batch, so the outputs of all processes are needed.
        period, gait, turns = joined_all([output.float() for output in outputs], self.world)
        parts = {
            "period": period_loss(period, frames.period[index], frames.confidence[index]),
            "gait": gait_loss(gait, frames.gait[index], self.gait_weights),
            "pose": pose_loss(turns, frames.turns[index], encoder.turn_std, frames.has_pose[index]),
        }
        total = torch.stack([value * float(getattr(loss, name)) for name, value in parts.items()]).sum()
        (total / self.world.size).backward()
        moved = learner.descend(step - 1)
        named = {f"loss/{name}": float(value.detach()) for name, value in parts.items()}
        return {
            "loss/total": float(total.detach()), **named, **moved, "data/epoch": step / self.batches.per_epoch,
        }  # fmt: skip

    def _finish(
        self, before: Mapping[str, float], final: Probe | None, heldout: Mapping[str, float], step: int
    ) -> dict[str, object]:
        if final is None:
            return {"table": [], "best_step": step}
        intervals = final.intervals()
        verdict = probe_verdict(heldout, intervals, final.takes)
        _logger.info("%s", verdict)
        count, takes = self.counts[1], final.takes
        names = [name for name in HEADLINES if name in heldout]
        title = f"Probes on {count} validation clips, {0 if self.held_out is None else len(self.held_out)} frames"
        return {
            "heldout": {name: entry_of(before[name], heldout[name], takes) for name in names},
            "metrics": dict(heldout),
            "table": probe_table(heldout, intervals, final.takes, title),
            "verdict": verdict,
            "best_step": step,
        }
