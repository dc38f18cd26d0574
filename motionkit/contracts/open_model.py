"""The model of a path (a run, a checkpoint, a folder or a file), for `export` and `eval`, and its training data."""

from __future__ import annotations

import shlex
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from torch import Tensor

from motionkit import plugins, runs, weights
from motionkit.documents import read_json
from motionkit.errors import MotionkitError
from motionkit.runs import TrainedOn

STARTER = "starter"
_POLICY, _DOCUMENT = "policy", "policy.json"
_PLUGINS = {"regions": "tiny-sa2va"}  # plugins of policies whose documents name another word
_AS_TMR = ("rewards", "tmr-dense")
_AS_EVALUATOR = ("rewards", "mdm-matching")
_ENCODERS = {
    "motionkit-tmr": ("tmr", _AS_TMR, "a TMR"),
    "motionkit-t2m-evaluator": ("evaluator", _AS_EVALUATOR, "a text-to-motion evaluator"),
}
"""Encoders by the format in their config.json: folder in a run, plugin that reads them, description."""

CONFIG, WEIGHTS = "config.json", "model.safetensors"  # files of an encoder's folder

_PARTS = ("policy", "tmr", "evaluator", "encoder", "")
"""Folders of a run that hold a model; an empty name is a model's own folder."""


@dataclass(frozen=True)
class FoundModel:
    """A model whose weights are not read yet."""

    path: str  # as given, which the options of the policy or reward accept
    kind: str  # plugin kind that reads it: ``policies``, or ``rewards`` for a TMR and an evaluator
    plugin: str  # name of the plugin that reads it
    what: str  # description
    run: runs.RunInfo | None = None  # the run that made it, if it is part of one

    def describe(self) -> str:
        """Return one sentence: what it is, and which run made it."""
        if self.run is None:
            return f"{self.path} is {self.what}"
        return f"{self.path} is {self.what}, made by `motionkit {self.run.command}` ({self.run.status})"


def open_model(path: str) -> FoundModel:
    """Return the model of a path.

    Args:
        path: Run folder, checkpoint folder, model folder, its id on the hub, weights file, or ``starter`` for the
            starter policy.
    """
    if path == STARTER:
        return FoundModel(path, "policies", "mdm", "the starter policy")
    place = weights.located(path)
    if not place.exists():
        run = next((info for info in runs.find() if info.directory.name == path), None)
        raise MotionkitError(
            f"{path} does not exist.",
            fix=f"give {run.directory}, the run that is called so."
            if run
            else "give a run folder, a checkpoint, a policy folder or a file.",
        )
    if not place.is_dir():
        return _file(path, place)
    if (result := runs.find_model(place, _POLICY, _DOCUMENT)) is not None:
        kind = str(read_json(result.document, dict, fix="copy the folder again.").get("kind", ""))[:40]
        plugin = _PLUGINS.get(kind, kind)
        step = f" at step {result.step}" if result.step else ""
        return FoundModel(path, "policies", plugin, f"a policy of kind {plugin}{step}", _run(result.run))
    for form, (part, reader, what) in _ENCODERS.items():
        for folder in (place / part, place):
            if encoder_format(folder) == form:
                return FoundModel(path, *reader, what, _run(folder.parent))
    if (info := _run(place)) is not None:
        going_on = info.status in ("running", "interrupted")
        raise MotionkitError(
            f"{path} is a run of `motionkit {info.command}` ({info.status}) that holds no policy of motions or regions "
            "and no text-motion model.",
            fix="wait until it ends, or resume it." if going_on else "give another run.",
        )
    raise MotionkitError(
        f"{path} is neither a model's folder nor a run that trains one.",
        fix="give a run folder, a checkpoint in it, a policy folder, or the model%09d.pt itself.",
    )


def gives_of_model(model: FoundModel) -> str:
    """Return what the plugin of a model gives, such as ``predictor``."""
    return plugins.gives_of(model.kind, plugins.get(model.kind, model.plugin))


def open_giving(path: str, gives: str, *, measures: str, fix: str) -> FoundModel:
    """Return the model of a path for a command that takes one kind.

    Args:
        path: See `open_model`.
        gives: What its plugin must give, such as ``predictor``.
        measures: The command and what it takes, for the message: ``eval mpl measures motion predictors``.
        fix: What to give instead, for the message.
    """
    model = open_model(path)
    if gives_of_model(model) != gives:
        raise MotionkitError(f"{model.describe()}; {measures}.", fix=fix)
    return model


def export_model(
    path: str, to: str | None, out: Path, *, overwrite: bool = False
) -> tuple[FoundModel, str, Path, list[str]]:
    """Write a model for another tool.

    Args:
        path: See `open_model`.
        to: A format of the model's plugin (`motionkit.plugins.Component.exports`); None for the first of them.
        out: Folder to create.
        overwrite: Replace an earlier export there.

    Returns:
        The model, the format, the file, and what the other tool cannot read (empty if it can read all of it).
    """
    opened = open_model(path)
    component = plugins.get(opened.kind, opened.plugin)
    to = to or next(iter(component.exports), "")
    write: Any = component.exporter(to)
    if write is None:
        formats = ", ".join(component.exports)
        raise MotionkitError(
            f"{opened.describe()}; it cannot be exported{to and f' to {to}'}.",
            fix=f"formats it has: {formats}." if formats else "--to hub writes it with a model card.",
        )
    file, obstacles = write(path, out, overwrite=overwrite)
    return opened, to, file, obstacles


def formats_of(path: str) -> tuple[str, ...]:
    """Return the formats of other tools that the model at a path can be written in, the usual one first."""
    opened = open_model(path)
    return tuple(plugins.get(opened.kind, opened.plugin).exports)


def trained_on(path: str) -> TrainedOn:
    """Return the training data of the model at a path, which evaluations leave out.

    Args:
        path: ``starter``, whose generated clips are never left out; a run, one of its checkpoints, a model's folder or
            a file in it.
    """
    if path.partition(":")[0] == STARTER:
        return TrainedOn()
    place = weights.located(path)
    if not path or not place.exists():
        return TrainedOn.unknown()
    parts: tuple[str, ...] = _PARTS
    if not place.is_dir():
        place, parts = place.parent, ("",)
    if (place / "state.json").is_file() and place.parent.name == "checkpoints":
        place, parts = place.parent.parent, _PARTS
    folders = [place / part for part in parts if (place / part / runs.TRAINED_ON).is_file()]
    return TrainedOn.read(folders[0] if folders else None)


def encoder_config(folder: Path) -> dict[str, Any]:
    """Return the config.json of a folder; empty if there is none."""
    config = folder / CONFIG
    return read_json(config, dict, fix="copy it again.") if config.is_file() else {}


def encoder_format(folder: Path) -> object:
    """Return the format that an encoder's folder names; None if it is not such a folder."""
    return encoder_config(folder).get("format") if encoder_weights(folder) is not None else None


def encoder_weights(folder: Path) -> Path | None:
    """Return the weights of an encoder's folder; None if it has none.

    A run writes the folder's config.json at its start and the weights at its end. Until then they are those of the
    run's last checkpoint.
    """
    if (folder / WEIGHTS).is_file():
        return folder / WEIGHTS
    last = runs.last_checkpoint(folder.parent / "checkpoints") if (folder / CONFIG).is_file() else None
    return None if last is None else last / WEIGHTS


def without_encoder(run: Path, what: str, command: str, fix: str) -> MotionkitError:
    """Return the error for a run that holds no encoder.

    Args:
        run: Its folder.
        what: The encoder, such as ``TMR``.
        command: The command whose runs have one from their first checkpoint on.
        fix: Advice for a run of another command.
    """
    info = runs.load(run)
    if info.command != command:
        return MotionkitError(f"{run} is a run of `motionkit {info.command}`, which trains no {what}.", fix=fix)
    return MotionkitError(
        f"the run {run} has no {what} yet.",
        why="it has no checkpoint.",
        fix=f"motionkit {command} --resume {shlex.quote(str(run))}",
    )


def read_encoder(folder: Path) -> dict[str, dict[str, Tensor]]:
    """Return the tensors of an encoder's folder, float32, by component: the first part of their names."""
    parts: dict[str, dict[str, Tensor]] = {}
    for key, value in (weights.find_tensors(weights.read(encoder_weights(folder) or folder / WEIGHTS)) or {}).items():
        name, _, tensor = key.partition(".")
        parts.setdefault(name, {})[tensor] = value.float()
    return parts


def _file(path: str, place: Path) -> FoundModel:
    """Recognise a file by its tensors; an unknown one is passed to the policy, which refuses it with a reason."""
    description = weights.describe(weights.read(place))
    result = _AS_TMR if "TMR" in description else _AS_EVALUATOR if "Guo" in description else ("policies", "mdm")
    return FoundModel(path, *result, description)


def _run(folder: Path | None) -> runs.RunInfo | None:
    if folder is None or not (folder / "run.json").is_file():
        return None
    return runs.load(folder)
