"""`motionkit pretrain tmr`: losses and trainer.

The losses are those of Petrovich et al., "TMR: Text-to-Motion Retrieval" (ICCV 2023), section 3.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence, Set
from typing import ClassVar

import torch
from torch import Tensor

from motionkit.contracts.dataset import TextClip
from motionkit.errors import MotionkitError
from motionkit.runs import Run
from motionkit.text import CachedEncoder, StoredEncoder, TextEncoder, proof
from motionkit.text_to_motion.init import differing, for_training
from motionkit.text_to_motion.pairs.train import (
    PairTrainer,
    retrieval_figures,
    short_crops,
)
from motionkit.text_to_motion.tmr.files import open_tmr, save_tmr, text_table
from motionkit.text_to_motion.tmr.model import (
    TMR,
    ActorSizes,
    encode_captions,
    encode_clips,
    new_tmr,
    open_text_model,
)
from motionkit.text_to_motion.tmr.settings import PretrainTMRSettings
from motionkit.text_to_motion.tmr.step import TMRTraining

FOLDER = "tmr"
_GROUPS = 4


def text_scale(text_model: TextEncoder, clips: Sequence[TextClip]) -> float:
    """Root mean square of the features of up to 256 first captions; also loads the text model."""
    stride = max(1, len(clips) // 256)
    features = text_model.encode([clip.captions[0] for clip in clips[::stride]])
    return max(float(features.tokens[features.mask].square().mean().sqrt()), 1e-6)


def readable(text_model: TextEncoder, texts: Sequence[str]) -> frozenset[str]:
    """Return those of `texts` that a text model can encode: a table whose model is not installed lacks others."""
    table = text_model.encoder if isinstance(text_model, CachedEncoder) else text_model
    # None is encoded here: that would be a forward pass for every caption of the dataset.
    if isinstance(table, StoredEncoder) and any(text not in table for text in texts) and table.alone:
        return frozenset(text for text in texts if text in table)
    return frozenset(texts)


@torch.no_grad()
def retrieval_metrics(tmr: TMR, clips: Sequence[TextClip], *, short: int) -> dict[str, float]:
    """Return `retrieval_figures` by latent means, of each clip with its first caption.

    The order of the clips matters for the batches of 32; `short` is the length of the short crops in frames.
    """
    texts, sentences = encode_captions(tmr, [clip.captions[0] for clip in clips])
    motions = [clip.features for clip in clips]
    similarities = texts @ encode_clips(tmr, motions).T
    cut = texts @ encode_clips(tmr, motions, short_crops(clips, short)).T
    return retrieval_figures(similarities, cut, sentences=sentences)


class PretrainTMR(PairTrainer[PretrainTMRSettings]):
    """Trains a TMR, from scratch or from another one; see `motionkit.training.base.Trainer`.

    Losses of TMR with filtered negatives, AdamW with warm-up and cosine decay, one random caption per motion, random
    crops. TMR's statistics are computed from the training clips. The model becomes ``RUN/tmr``.
    """

    shape_keys: ClassVar[tuple[str, ...]] = (
        "init",
        "dataset",
        "model",
        "text",
        "loss",
        "train",
        "optim",
        "seed",
        "run.num_steps",
    )

    stream, folder = "tmr", FOLDER
    typed: Collection[str] = ()

    @property
    def model(self) -> TMR:
        """The trained model."""
        return self.tmr

    def prepare(self) -> None:
        """Open dataset and text encoder and build the networks."""
        settings = self.settings
        dataset, mean, std = self.open_clips(settings.init)
        self.tmr: TMR = self._new(dataset.name, mean, std) if not settings.init else self._given(settings.init)
        assert self.tmr.text_model is not None
        if mark := proof(self.tmr.text_model.fingerprint):
            self.inputs["text.model"] = mark
        self.open_negatives(dataset, self._readable)
        self.training = TMRTraining(self.tmr, self.settings.loss, **self.common())

    def _new(self, dataset: str, mean: Tensor, std: Tensor) -> TMR:
        """Build a TMR with random weights."""
        settings, model = self.settings, self.settings.model
        name = settings.text.encoder
        if name == "auto":
            name = "stored" if dataset == "starter" else "minilm"
        text_model = open_text_model(settings.text.model or name, kind=name, table=text_table(), device=self.device)
        sizes = ActorSizes(
            len(mean) * model.patch_size,
            model.latent_dim,
            model.ff_size,
            model.layers,
            model.num_heads,
            model.variational,
            model.dropout,
        )
        return new_tmr(
            sizes,
            mean,
            std,
            text_model,
            decoder=settings.loss.recons > 0,
            text_scale=text_scale(text_model, self.train_clips),
            seed=settings.seed,
        ).to(self.device)

    def _given(self, init: str) -> TMR:
        """Open the TMR from which training starts, with its shape, text model and statistics."""
        settings = self.settings
        text = settings.text.model or settings.text.encoder
        try:
            tmr = open_tmr(init, text_model="" if text == "auto" else text, device=self.device)
            tmr.check_width(self.train_clips[0].features)
        except MotionkitError as error:
            raise for_training(error) from error
        self.inputs["init"] = tmr.fingerprint()
        sizes = tmr.motion_encoder.sizes
        theirs = {
            "latent_dim": sizes.latent,
            "layers": sizes.layers,
            "patch_size": tmr.patch,
            "num_heads": sizes.heads,
            "ff_size": sizes.feedforward,
            "dropout": sizes.dropout,
            "variational": sizes.variational,
        }
        if odd := differing(settings.model, theirs, self.typed):
            name, value = odd
            raise MotionkitError(
                f"--init {init}: the {name} of this TMR is {value}, not {getattr(settings.model, name)}.",
                why="training keeps its shape.",
                fix=f"leave model.{name} out, or train from random weights.",
            )
        if settings.loss.recons and tmr.motion_decoder is None:
            raise MotionkitError(
                f"--init {init}: this TMR has no decoder, which loss.recons needs.", fix="--set loss.recons=0"
            )
        if not settings.loss.recons:
            tmr.motion_decoder = None  # it would not be trained with the encoders
        return tmr

    def _readable(self, texts: Sequence[str]) -> Set[str]:
        assert self.tmr.text_model is not None
        return readable(self.tmr.text_model, texts)

    def describe(self) -> Mapping[str, object]:
        """Return the plan."""
        assert self.tmr.text_model is not None
        return {"model": "tmr", "text_encoder": self.tmr.text_model.name, **self.plan()}

    def save(self, run: Run, provenance: Mapping[str, object], *, tensors: bool = True) -> None:
        """Write ``RUN/tmr``."""
        half = self.settings.train.save_half
        save_tmr(run.artifact(FOLDER), self.tmr, half=half, extra=provenance, weights=tensors)

    def validate(self) -> dict[str, float]:
        """Measure retrieval on the held-out clips."""
        return retrieval_metrics(self.tmr.eval(), self.val_clips, short=self.settings.train.short)
