"""Opens a motion predictor from its options."""

from __future__ import annotations

from pathlib import Path

import torch

from motionkit import weights
from motionkit.encoders.mpl._network import EncoderSizes, MotionEncoder
from motionkit.encoders.mpl._scales import Scales
from motionkit.errors import MotionkitError
from motionkit.policies.mpl import MplOptions
from motionkit.policies.mpl._features import Statistics
from motionkit.policies.mpl._network import PredictorNetwork
from motionkit.policies.mpl._policy import MplPredictor
from motionkit.policies.mpl._store import ARTIFACT, DOCUMENT, read_document
from motionkit.runs import find_model


def open_predictor(options: MplOptions, *, device: torch.device | str = "cpu", dataset: object = None) -> MplPredictor:
    """Open the predictor that `options` names.

    Args:
        options: Where it is.
        device: Where it goes.
        dataset: Not used: a predictor brings its own statistics and skeleton.

    Raises:
        MotionkitError: Nothing was named, or it is missing, damaged or another kind of model.
    """
    if not options.checkpoint:
        raise MotionkitError("no motion predictor was named.", fix="--policy.checkpoint RUN, a run of train-mpl.")
    found = find_model(Path(options.checkpoint).expanduser(), ARTIFACT, DOCUMENT)
    if found is None:
        raise MotionkitError(
            f"{options.checkpoint} is no motion predictor.",
            fix="give a run of train-mpl, or a folder with policy.json.",
        )
    document = read_document(found.document)
    joints = len(document.names)
    # Statistics are made outside: they are loaded into, and may not be on the meta device.
    neutral, scales = Statistics.neutral(joints), Scales.neutral(joints)

    def make() -> PredictorNetwork:
        encoder = None
        if document.encoder is not None:
            sizes = EncoderSizes(**document.encoder.model_dump())
            encoder = MotionEncoder(sizes, document.names, document.fps, scales)
        return PredictorNetwork(document.settings, joints, document.fps, neutral, encoder)

    network = weights.build(make, weights.read(found.tensors), str(found.tensors))
    predictor = MplPredictor(
        document.settings, network, names=document.names, parents=document.parents,
        offsets=torch.tensor(document.offsets, dtype=torch.float64), fastest=document.fastest,
    )  # fmt: skip
    return predictor.to(device)
