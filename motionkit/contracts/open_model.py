"""The model of a path (a run, a checkpoint, a folder or a file), for `export` and `eval`, and its training data."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any

from motionkit import plugins, runs, starter, weights
from motionkit.errors import MotionkitError
from motionkit.runs import TrainedOn
from motionkit.runs.forms import POLICY, POLICY_DOCUMENT, forms_for, kind_of, model_forms

STARTER = "starter"


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
        return FoundModel(path, "policies", starter.POLICY, "the starter policy")
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
    for form in forms_for(place):
        if form.plugin is not None and (saved := form.find(place)) is not None:
            what = form.called or _policy(form.plugin[1], saved)
            return FoundModel(path, *form.plugin, what, _run(saved.run))
    if (saved := runs.find_model(place, POLICY, POLICY_DOCUMENT)) is not None:
        kind = kind_of(saved)
        return FoundModel(path, "policies", kind, _policy(kind, saved), _run(saved.run))
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
    whole = place.is_dir()
    place = place if whole else place.parent
    if (place / "state.json").is_file() and place.parent.name == "checkpoints":
        place, whole = place.parent.parent, True
    parts = [POLICY, *(form.artifact for form in model_forms()), ""] if whole else [""]
    folders = [place / part for part in parts if (place / part / runs.TRAINED_ON).is_file()]
    return TrainedOn.read(folders[0] if folders else None)


def _policy(plugin: str, saved: runs.SavedModel) -> str:
    return f"a policy of kind {plugin}" + (f" at step {saved.step}" if saved.step else "")


def _file(path: str, place: Path) -> FoundModel:
    """Recognise a file by its tensors; an unknown one is passed to the starter's policy, which says what is wrong."""
    what = weights.describe(weights.read(place))
    for form in model_forms():
        if form.plugin is not None and form.described and form.described in what:
            return FoundModel(path, *form.plugin, what)
    return FoundModel(path, "policies", starter.POLICY, what)


def _run(folder: Path | None) -> runs.RunInfo | None:
    if folder is None or not (folder / "run.json").is_file():
        return None
    return runs.load(folder)
