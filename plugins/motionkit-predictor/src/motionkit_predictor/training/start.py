"""A new predictor for training: its statistics, its encoder and its first weights."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

import torch
from torch import Tensor, nn

from motionkit import weights
from motionkit.errors import MotionkitError
from motionkit.runs import find_model, fingerprint_files, fingerprint_tensors
from motionkit_predictor.data.clips import ClipSet, Windows
from motionkit_predictor.data.files import TrainingData
from motionkit_predictor.encoder.network import COMMAND, MotionEncoder, newest_encoder_run, open_encoder
from motionkit_predictor.network.features import Statistics
from motionkit_predictor.network.predictor import PredictorNetwork
from motionkit_predictor.policy import ARTIFACT, DOCUMENT, MplPredictor
from motionkit_predictor.settings import PredictorSettings
from motionkit_predictor.training.norm_template import read_template, take_turn_scale
from motionkit_predictor.training.settings import TrainMplSettings

_LISTED = 3


@dataclass(frozen=True)
class Initialised:
    """Tensors that were taken from a file."""

    source: str  # the file
    taken: tuple[str, ...]  # names of the tensors that were taken
    other_shape: tuple[str, ...]  # names that the file has as well, with another shape
    missing: tuple[str, ...]  # names that the file lacks
    unused: int  # number of tensors in the file that the network lacks

    def sentence(self) -> str:
        """Return it in words."""
        total = len(self.taken) + len(self.other_shape) + len(self.missing)
        parts = [f"{len(self.taken)} of {total} tensors of the network are from {self.source}"]
        if self.other_shape:
            parts.append(f"{len(self.other_shape)} have another shape there: {_listed(self.other_shape)}")
        if self.missing:
            parts.append(f"{len(self.missing)} are not there: {_listed(self.missing)}")
        if self.unused:
            parts.append(f"{self.unused} of its tensors have no place here")
        return "; ".join(parts) + "."


def initialise(network: nn.Module, source: Path) -> Initialised:
    """Take every tensor of the same name and shape from a run, a checkpoint or a file of weights.

    Statistics are taken like weights, since these were learned with inputs of that scale. The encoder is not: it is the
    one that the settings name. `source` is a run of train-mpl, one of its checkpoints, an exported folder, or a file
    such as the guide's ``best_model.pt`` with ``model_state_dict``.
    """
    stored = _read(source)
    tensors = {name: value for name, value in network.state_dict().items() if "encoder" not in name.split(".")}
    fits = {
        name: stored[name]
        for name, value in tensors.items()
        if name in stored and stored[name].shape == value.shape
        and stored[name].is_floating_point() == value.is_floating_point()
    }  # fmt: skip
    if not fits:
        theirs, ours = (
            ", ".join(f"{name} {list(table[name].shape)}" for name in list(table)[:_LISTED])
            for table in (stored, tensors)
        )
        raise MotionkitError(
            f"nothing in {source} fits this network.",
            why=f"it has {len(stored)} tensors, such as {theirs}; the network has {len(tensors)}, such as {ours}.",
            fix="give a run of train-mpl of the same --model.head and --model.width; weights of the guide's own code "
            "are of another network: train one here.",
        )
    broken = [name for name, value in fits.items() if value.is_floating_point() and not bool(value.isfinite().all())]
    if broken:
        raise MotionkitError(f"{source} has values that are not finite, in {_listed(broken)}.")
    with torch.no_grad():
        for name, value in fits.items():
            tensors[name].copy_(value)
    shared = [name for name in tensors if name in stored]
    return Initialised(
        str(source),
        tuple(fits),
        tuple(name for name in shared if name not in fits),
        tuple(name for name in tensors if name not in stored),
        sum(name not in tensors and "encoder" not in name.split(".") for name in stored),
    )


def weights_file(source: Path) -> Path:
    """Return the file of weights of a run, a checkpoint or a folder; a file itself."""
    if not source.is_dir():
        return source
    if (model := find_model(source, ARTIFACT, DOCUMENT)) is None:
        raise MotionkitError(f"{source} is not a run of train-mpl.", fix="--init RUN, or a file of weights.")
    return model.tensors


def _read(source: Path) -> Mapping[str, Tensor]:
    content = weights.read(weights_file(source))
    tensors = weights.find_tensors(content)
    if not tensors:
        raise MotionkitError(f"{source} holds no weights: it is {weights.describe(content)}.")
    return tensors


def _listed(names: tuple[str, ...] | list[str]) -> str:
    more = f" and {len(names) - _LISTED} more" if len(names) > _LISTED else ""
    return ", ".join(names[:_LISTED]) + more


_WINDOWS, _FRAMES = 512, 512 * 128
"""Windows that are gathered at a time to measure their ways, and frames of these."""


def new_network(
    clips: ClipSet,  # whose training clips give the statistics
    windows: Windows,  # training windows, which give the scale of the one-shot head's coefficients
    model: PredictorSettings | None = None,  # its shape
    *,
    statistics: Statistics | None = None,  # None: those of the training clips
    encoder: MotionEncoder | None = None,  # frozen encoder whose soft period it reads
    seed: int = 0,  # of the weights, by torch's global generator
) -> PredictorNetwork:
    """Build a network with random weights."""
    states = [clip.state for clip in clips.split("train")]
    model = (model or PredictorSettings()).for_frames(sum(state.frames for state in states))
    statistics = statistics or Statistics.of(states, clips.fps, model.lag_frames(clips.fps))
    torch.manual_seed(seed)
    network = PredictorNetwork(model, len(clips.names), clips.fps, statistics, encoder)
    if network.shot is not None:
        complete = windows.whole()
        chosen = complete if len(complete) else torch.arange(len(windows))
        size = max(1, min(_WINDOWS, _FRAMES // windows.future))
        network.shot.measure((windows.last(index), windows.following(index)) for index in chosen.split(size))
    return network


def new_predictor(
    settings: TrainMplSettings,
    data: TrainingData,  # clips and windows, whose statistics it takes
    encoder: MotionEncoder | None,  # frozen encoder whose soft period it reads
) -> tuple[MplPredictor, list[str]]:
    """Build a predictor for clips; returns it and notes for the user."""
    clips, windows = data.clips, data.train
    train = clips.split("train")
    model = settings.model.for_frames(sum(clip.state.frames for clip in train))
    statistics = Statistics.of([clip.state for clip in train], clips.fps, model.lag_frames(clips.fps))
    notes = []
    fresh = settings.run.resume is None  # a resumed run has its own weights and statistics
    if settings.bundle is not None and fresh:
        statistics, note = take_turn_scale(statistics, read_template(settings.bundle), len(clips.names))
        notes.append(note)
    network = new_network(clips, windows, model, statistics=statistics, encoder=encoder, seed=settings.seed)
    if settings.init is not None and fresh:
        notes.append(initialise(network, settings.init).sentence())
    offsets = torch.stack([clip.offsets for clip in train]).mean(0)
    # A quantile, since the largest step may be a glitch.
    fastest = clips.fps * max(float(clip.state.steps[:, :2].norm(dim=-1).quantile(0.9)) for clip in train)
    predictor = MplPredictor(
        model, network, names=clips.names, parents=clips.parents, offsets=offsets, fastest=fastest or None
    )  # fmt: skip
    return predictor, notes


def model_inputs(settings: TrainMplSettings, encoder: MotionEncoder | None) -> dict[str, str]:
    """Return the fingerprints of encoder, ``init`` and ``bundle``, by setting.

    Those of ``init`` and ``bundle`` are not compared on resume, since they are read at the beginning alone.
    """
    inputs = {"encoder": "none" if encoder is None else fingerprint_tensors(encoder.state_dict())}
    if settings.run.resume is None:
        files = {"init": settings.init and weights_file(settings.init), "bundle": settings.bundle}
        inputs |= {name: fingerprint_files(file, [file]) for name, file in files.items() if file is not None}
    return inputs


def find_encoder(name: str, clips: ClipSet) -> tuple[MotionEncoder | None, str, str]:
    """Open the encoder of ``--encoder``; returns it, its path (empty without one), and a description of its origin."""
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
