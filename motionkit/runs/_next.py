"""Commands to type after a run or a conversion. What a system's own are, its components say."""

from __future__ import annotations

import shlex
from collections.abc import Iterator, Sequence
from contextlib import suppress
from pathlib import Path

from motionkit import plugins
from motionkit.errors import MotionkitError
from motionkit.runs._listing import RunInfo
from motionkit.runs._model import find_model
from motionkit.runs._resume import resume_line
from motionkit.runs.forms import POLICY, POLICY_DOCUMENT, forms_for, kind_of
from motionkit.runs.words import typed_flags


def next_commands(info: RunInfo) -> list[str]:
    """Return shell lines to type after a run: use its model, train on, show it again."""
    folder = str(info.directory)
    if info.status == "running":
        return _lines([["report", folder, "--watch"], ["runs", "show", folder]])
    if info.status != "done":
        saved = (info.directory / "checkpoints" / "last").is_file()
        made = _use_policy(info) if saved else []  # with the weights of the last checkpoint
        return _lines([resumed(info), *made, ["report", folder], ["runs", "show", folder]])
    if (trainer := info.trainer) is not None and trainer.next:
        return _lines(trainer.after(info))
    longer = [[*resumed(info), "--num-steps", str(2 * info.steps)]] if info.steps else []
    return _lines([*_use_policy(info), *longer, ["runs", "show", folder]])


def conversion_lines(to: str, out: Path, *, captions: bool) -> list[str]:
    """Return shell lines to type after a conversion to a folder.

    Args:
        to: Format written.
        out: The folder.
        captions: Whether any clip has a caption, which training on text needs.
    """
    for component in plugins.own("trainers"):
        if to in component.converted:
            return _lines(component.imported(component.converted[to])(out, to=to, captions=captions))
    return _lines([["view", str(out)]])


def resumed(info: RunInfo) -> list[str]:
    """Return the words of the command that continues a run; trusted code is typed again."""
    line = resume_line(info.command, info.directory)
    return [*shlex.split(line)[1:], *shlex.split(typed_flags(info.config, info.command))]


def _lines(commands: Sequence[Sequence[str]]) -> list[str]:
    return [shlex.join(["motionkit", *words]) for words in commands]


def _use_policy(info: RunInfo) -> list[list[str]]:
    """Return the commands of the plugin that opens a run's policy, else of motionkit's own that gives the same."""
    with suppress(MotionkitError):  # no policy, or of a plugin that is not here
        for component in _openers(info.directory):
            if component.next:
                return component.after(info)
    return []


def _openers(folder: Path) -> Iterator[plugins.Component]:
    """Yield the plugin that opens a run's policy, then motionkit's own policies that give the same."""
    saved = find_model(folder, POLICY, POLICY_DOCUMENT)
    if saved is None:
        return
    kind = kind_of(saved)
    known = (form.plugin for form in forms_for(folder) if form.plugin and form.word == kind)
    opener = plugins.get(*next(known, ("policies", kind)))
    yield opener
    gives = plugins.gives_of("policies", opener)
    yield from (own for own in plugins.own("policies") if plugins.gives_of("policies", own) == gives)
