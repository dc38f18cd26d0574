"""The predictor that is trained: its statistics, its encoder, and where its weights begin."""

from __future__ import annotations

import torch

from motionkit.datasets.motions._clips import ClipSet
from motionkit.encoders.mpl._find import COMMAND, newest_encoder_run, open_encoder
from motionkit.encoders.mpl._network import MotionEncoder
from motionkit.errors import MotionkitError
from motionkit.policies.mpl._features import Statistics
from motionkit.policies.mpl._network import PredictorNetwork
from motionkit.policies.mpl._policy import MplPredictor
from motionkit.runs import fingerprint_files, fingerprint_tensors
from motionkit.trainers.train_mpl._data import TrainingData
from motionkit.trainers.train_mpl._initialise import initialise, weights_file
from motionkit.trainers.train_mpl._norm_template import read_template, take_turn_scale
from motionkit.trainers.train_mpl._settings import TrainMplSettings

_WINDOWS, _FRAMES = 512, 512 * 128
"""Windows that are gathered at a time to measure their ways, and frames of these."""


def new_predictor(
    settings: TrainMplSettings, data: TrainingData, encoder: MotionEncoder | None
) -> tuple[MplPredictor, list[str]]:
    """Build a predictor for clips.

    Args:
        settings: All settings.
        data: Clips and windows, whose statistics it takes.
        encoder: Frozen encoder whose soft period it reads.

    Returns:
        The predictor, and what a person should know of it, a sentence each.

    Raises:
        MotionkitError: The settings' ``bundle`` or ``init`` cannot be read or does not fit.
    """
    clips, windows = data.clips, data.train
    train = clips.split("train")
    model = settings.model.for_frames(sum(clip.state.frames for clip in train))
    statistics = Statistics.of([clip.state for clip in train], clips.fps, model.lag_frames(clips.fps))
    said = []
    fresh = settings.run.resume is None  # a resumed run has its own weights and statistics
    if settings.bundle is not None and fresh:
        statistics, what = take_turn_scale(statistics, read_template(settings.bundle), len(clips.names))
        said.append(what)
    torch.manual_seed(settings.seed)
    network = PredictorNetwork(model, len(clips.names), clips.fps, statistics, encoder)
    if network.shot is not None:
        whole = windows.whole()
        chosen = whole if len(whole) else torch.arange(len(windows))
        size = max(1, min(_WINDOWS, _FRAMES // windows.future))
        network.shot.measure((windows.last(index), windows.following(index)) for index in chosen.split(size))
    if settings.init is not None and fresh:
        said.append(initialise(network, settings.init).sentence())
    offsets = torch.stack([clip.offsets for clip in train]).mean(0)
    # Not the largest step of all: that one may be a glitch.
    fastest = clips.fps * max(float(clip.state.steps[:, :2].norm(dim=-1).quantile(0.9)) for clip in train)
    predictor = MplPredictor(
        model, network, names=clips.names, parents=clips.parents, offsets=offsets, fastest=fastest or None
    )  # fmt: skip
    return predictor, said


def model_inputs(settings: TrainMplSettings, encoder: MotionEncoder | None) -> dict[str, str]:
    """Return the fingerprints of what the predictor is made of, by setting, after it was made.

    Those of ``init`` and ``bundle`` are not compared on resume, since they are read at the beginning alone.
    """
    found = {"encoder": "none" if encoder is None else fingerprint_tensors(encoder.state_dict())}
    if settings.run.resume is None:
        files = {"init": settings.init and weights_file(settings.init), "bundle": settings.bundle}
        found |= {name: fingerprint_files(file, [file]) for name, file in files.items() if file is not None}
    return found


def find_encoder(name: str, clips: ClipSet) -> tuple[MotionEncoder | None, str, str]:
    """Open the encoder that ``--encoder`` names.

    Returns:
        The encoder, its path (empty without one), and where it is from, in words.

    Raises:
        MotionkitError: It was named, and is missing, damaged, or made for other clips.
    """
    if name == "none":
        return None, "", "none"
    if name != "auto":
        encoder = open_encoder(name)
        if why := encoder.misfit(clips.names, clips.fps):
            raise MotionkitError(
                f"{name} does not fit the clips.", why=why, fix=f"motionkit {COMMAND} --data with the same clips."
            )
        return encoder, name, name
    newest = newest_encoder_run()
    if newest is None:
        return None, "", f"none: there is no finished run of {COMMAND} under ./runs"
    encoder = open_encoder(newest)
    if why := encoder.misfit(clips.names, clips.fps):
        return None, "", f"none: the newest, {newest}, does not fit: {why}"
    return encoder, str(newest), f"{newest}, the newest finished run of {COMMAND}"
