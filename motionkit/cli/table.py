"""The table of commands, those that are not trainers; nothing is imported to list them.

Commands of packages are entry points of the group ``motionkit.commands``, each a `motionkit.contracts.console.Command`;
motionkit's own are modules of this folder.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache
from importlib import metadata

from motionkit.plugins import Entry, packages, scan

MOTION, TRAIN, LOOK, OTHERS = "Motion", "Train", "Look and check", "Of other packages"
"""Headings of the list of commands."""


@dataclass(frozen=True)
class CommandRow:
    """One command."""

    name: str  # Its name
    target: str  # ``module:name`` of a `Command`, or of ``register(app)``, which adds it to a Typer app of its own
    summary: str  # One line for the list of commands
    panel: str  # Its heading in the list
    hidden: bool = False  # Keep it out of the list, because another command does the same
    package: str = "motionkit"  # The distribution that brings it
    entry: Entry | None = None  # Its entry point; None for those of this folder

    @property
    def builtin(self) -> bool:
        """Whether it is part of motionkit."""
        return self.entry is None or self.entry.builtin


def _own(name: str, summary: str, panel: str, attribute: str = "register", *, hidden: bool = False) -> CommandRow:
    return CommandRow(name, f"motionkit.cli.commands.{name.replace('-', '_')}:{attribute}", summary, panel, hidden)


_OWN = (
    _own("tune", "Search a trainer's settings (--bayes, or tune-bayes), or adjust them by a run.", TRAIN),
    _own("tune-bayes", "Search a trainer's settings with Optuna: the same as tune --bayes.", TRAIN, hidden=True),
    _own("view", "Look at motions in a browser: files, folders, datasets.", MOTION, "VIEW"),
    _own("convert", "Convert motions between formats; build datasets.", MOTION, "CONVERT"),
    _own("profile", "Measure a dataset; suggest settings for it.", MOTION, "PROFILE"),
    _own("eval", "Measure a policy or a run by a named protocol.", MOTION),
    _own("export", "Write a run's model, or its episodes, for another tool.", MOTION, "EXPORT"),
    _own("push", "Send an exported model to the Hugging Face hub.", MOTION, "PUSH"),
    _own("runs", "List runs, show, open, compare, tag and remove them.", LOOK),
    _own("report", "Make the page of a run, or of several to compare.", LOOK),
    _own("config", "Show every setting of a command, or explain one.", LOOK),
    _own("plugins", "List, show, check and start plugins.", LOOK),
    _own("doctor", "Check this installation; the output fits into a bug report.", LOOK),
)

_EXAMPLES = {
    "convert": "motionkit convert bvh/ data/mine --to humanml --captions clips.csv",
    "profile": "motionkit profile data/mine --html profile.html",
    "tune": "motionkit tune --bayes --trials 50",
    "push": "motionkit push model/ ORG/NAME",
    "runs": "motionkit runs list",
    "plugins": "motionkit plugins list --check",
    "plugins list": "motionkit plugins list rewards",
    "plugins new": "motionkit plugins new reward bounce",
    "doctor": "motionkit doctor",
}

ELSEWHERE = {
    "cut": "motionkit convert FILE OUT --start S --end S cuts a clip",
    "end": "motionkit convert FILE OUT --end S cuts a clip",
    "in-place": "motionkit convert FILE OUT --in-place takes the path out of a motion",
    "loop": "motionkit convert FILE OUT --loop makes a motion loop",
    "play": "motionkit view FILE plays it",
    "retarget": "motionkit convert FILE OUT --rig RIG puts a motion on another rig",
    "start": "motionkit convert FILE OUT --start S cuts a clip",
    "trim": "motionkit convert FILE OUT --start S --end S cuts a clip",
}
"""Words that users try as commands or options, to what there is instead."""


def rows() -> tuple[CommandRow, ...]:
    """Return the commands whose module is there, in the order of the list; those of other packages come last."""
    installed = scan()
    return _rows(tuple(installed.of("commands")), tuple(installed.of("trainers")))


def example(path: str) -> str:
    """Return an example of a command; empty if there is none."""
    return packages.example(path) or _EXAMPLES.get(path, "")


@lru_cache(maxsize=8)
def _rows(commands: tuple[Entry, ...], trainers: tuple[Entry, ...]) -> tuple[CommandRow, ...]:
    entries = [entry for entry in commands if packages.module_exists(entry.value.partition(":")[0])]
    found = list(_OWN)
    listed = packages.commands()
    ours = {entry.name: entry for entry in entries if entry.builtin}
    for name in sorted(ours, key=lambda name: listed.index(name) if name in listed else len(listed)):
        names = [row.name for row in found]
        before = packages.about(name, "before")
        place = names.index(before) if before in names else len(names)
        found.insert(place, _row(ours[name], packages.about(name, "summary"), packages.about(name, "panel") or MOTION))
    taken = {row.name for row in found}
    taken |= {entry.name.partition(".")[0] for entry in trainers if entry.builtin}
    for entry in sorted(entries, key=lambda entry: (entry.name, entry.distribution)):
        if entry.name not in taken:
            taken.add(entry.name)
            found.append(_row(entry, summary_of(entry.distribution) or f"A command of {entry.distribution}.", OTHERS))
    return tuple(found)


def _row(entry: Entry, summary: str, panel: str) -> CommandRow:
    return CommandRow(entry.name, entry.value, summary, panel, package=entry.distribution, entry=entry)


def summary_of(distribution: str) -> str:
    """Return the summary of a package's metadata; empty if it has none."""
    try:
        return str(metadata.metadata(distribution)["Summary"] or "")
    except metadata.PackageNotFoundError:  # its folder has another name than its metadata
        return ""
