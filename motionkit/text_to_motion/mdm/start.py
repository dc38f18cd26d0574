"""The policy that `motionkit pretrain mdm --init` starts from: what is kept, and what must agree with the data."""

from __future__ import annotations

from collections.abc import Collection
from typing import cast

import torch

from motionkit.contracts.dataset import TextMotionDataset
from motionkit.errors import MotionkitError
from motionkit.text import CachedEncoder
from motionkit.text_to_motion.evaluation.judge import require_rate
from motionkit.text_to_motion.generating import refuse_blocks
from motionkit.text_to_motion.init import differing, for_training
from motionkit.text_to_motion.mdm.open import open_encoder, open_policy
from motionkit.text_to_motion.mdm.policy import MDMPolicy
from motionkit.text_to_motion.mdm.settings import MdmModelSettings, MDMOptions, MDMSettings, PretrainMDMSettings
from motionkit.text_to_motion.policy import DiffusionPolicy

_TRAINING = {"dropout", "noise_shift"}
"""Settings that no tensor depends on: they are free."""

_STORED, _MINILM = "stored", "minilm"


def open_start(settings: PretrainMDMSettings, dataset: TextMotionDataset, device: torch.device) -> MDMPolicy:
    """Open the policy of ``--init``, which must have the body and the frame rate of the dataset."""
    options = MDMOptions(checkpoint=settings.init, text_model=settings.text.model)
    try:
        policy = open_policy(options, device=device, dataset=dataset)
        refuse_blocks(cast(DiffusionPolicy, policy))
        require_rate(cast(DiffusionPolicy, policy), fps=dataset.fps, label=settings.dataset.label)
    except MotionkitError as error:
        raise for_training(error) from error
    return policy


def shape_of(model: MdmModelSettings, start: MDMPolicy, *, init: str, typed: Collection[str] = ()) -> MDMSettings:
    """Return the shape of a policy that starts from another: that policy's.

    Args:
        model: The settings; one that was given and differs is refused.
        start: The policy.
        init: Its name, for messages.
        typed: Keys of the settings that were typed; see `differing`.
    """
    shape = start.settings
    theirs = {name: getattr(shape, name) for name in MdmModelSettings.model_fields if name not in _TRAINING}
    if odd := differing(model, theirs, typed):
        name, value = odd
        raise MotionkitError(
            f"--init {init}: the {name} of this policy is {value}, not {getattr(model, name)}.",
            why="training keeps its shape.",
            fix=f"leave model.{name} out, or train from random weights.",
        )
    shift = shape.noise_shift if model.noise_shift is None else model.noise_shift
    # Frames past a motion's end are never attended to in this training.
    return shape.model_copy(update={"dropout": model.dropout, "noise_shift": shift, "mask_frames": True})


def encoder_of(
    settings: PretrainMDMSettings, start: MDMPolicy, dataset: TextMotionDataset, device: torch.device
) -> CachedEncoder:
    """Return the text encoder of a policy that starts from another: that policy's.

    The starter's stored table holds MiniLM's output, so a policy that reads it goes on with MiniLM on other data, whose
    captions the table does not have.
    """
    theirs, asked = start.encoder.name, str(settings.text.encoder)
    if asked == "auto":
        asked = _MINILM if theirs == _STORED and dataset.name != "starter" else theirs
    if asked == theirs:
        return cast(CachedEncoder, start.encoder)
    if {asked, theirs} != {_STORED, _MINILM}:
        raise MotionkitError(
            f"--init {settings.init}: this policy reads the features of {theirs}, not of {asked}.",
            fix=f"leave text.encoder out (it is {theirs}), or train from random weights.",
        )
    return open_encoder(asked, settings.text.model, device=device)
