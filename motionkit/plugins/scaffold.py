"""Create a plugin package: a copy of a template, which is a pip package with one working plugin, tests and a README."""

from __future__ import annotations

import re
from collections.abc import Collection, Mapping
from importlib.resources import files
from pathlib import Path

from motionkit.errors import MotionkitError
from motionkit.plugins._discovery import KINDS, OBJECTS, Kind, either, normalise, scan


def new_plugin(
    package: str, parent: Path, *, singular: str = "", gives: str = "", taken: Collection[str] = ()
) -> list[Path]:
    """Write a new plugin package.

    Args:
        package: Name of the plugin, such as ``bounce``, or of its package, ``motionkit-reward-bounce``.
        parent: Folder to make it in.
        singular: Kind of the plugin, such as ``reward``; empty takes it from the name of the package.
        gives: What it gives, such as ``regions``; empty for the first word of its kind.
        taken: Names of other commands, which a trainer cannot have.

    Returns:
        The files written.
    """
    kind = _kind(singular or _singular_in(package))
    if not re.fullmatch(r"[a-z][a-z0-9]*(-[a-z0-9]+)*", package):
        raise MotionkitError(
            f"{package!r} is not a package name.", fix="small letters, digits and dashes: motionkit-reward-bounce"
        )
    if singular and not package.startswith("motionkit-"):
        package = f"motionkit-{singular}-{package}"
    folder = parent / package
    if folder.exists():
        raise MotionkitError(f"{folder} exists already.", fix="choose another name, or remove it.")
    *_, name = _names(package, kind)
    _refuse_known(kind, name, package, taken)
    template = template_folder(_template(kind, gives))
    names = dict(zip(_names(template.name, kind), _names(package, kind), strict=True))
    written = []
    for source in sorted(template.rglob("*")):
        if source.is_file() and source.suffix != ".pyc":
            file = folder / _renamed(source.relative_to(template).as_posix(), names)
            file.parent.mkdir(parents=True, exist_ok=True)
            file.write_text(_renamed(source.read_text(encoding="utf-8"), names), encoding="utf-8")
            written.append(file)
    return written


def template_folder(template: str) -> Path:
    """Return the folder of a template.

    Args:
        template: ``MODULE:PACKAGE``, a whole package in ``templates/`` beside a module.
    """
    module, _, package = template.partition(":")
    return Path(str(files(module))) / "templates" / package


def startable() -> list[Kind]:
    """Return the kinds that have a template."""
    return [row for row in _rows() if row.scaffold]


def _rows() -> list[Kind]:
    return [*KINDS.values(), *OBJECTS.values()]


def _names(package: str, kind: Kind) -> tuple[str, str, str, str]:
    """Return the four names of a package: its own, its module's, its class's, its plugin's.

    Example:
        >>> _names("motionkit-reward-far-off", KINDS["rewards"])
        ('motionkit-reward-far-off', 'motionkit_reward_far_off', 'FarOffReward', 'far-off')
    """
    name = package.removeprefix("motionkit-").removeprefix(f"{kind.singular}-")
    return package, package.replace("-", "_"), "".join(map(str.capitalize, (*name.split("-"), kind.singular))), name


def _renamed(text: str, names: Mapping[str, str]) -> str:
    """Put other names in place of whole words."""
    return re.sub(rf"(?<![a-zA-Z])({'|'.join(names)})(?![a-zA-Z])", lambda word: names[word[0]], text)


def _refuse_known(kind: Kind, name: str, package: str, taken: Collection[str]) -> None:
    """Refuse a name that is taken by another plugin of the kind, or by a command."""
    same_name = [entry for entry in scan().of(kind.name) if entry.name == name]
    foreign = [entry for entry in same_name if normalise(entry.distribution) != normalise(package)]
    if not foreign and not (kind.name == "trainers" and name in taken):
        return
    whose = f"{kind.singular} of {foreign[0].distribution}" if foreign else "command of motionkit"
    raise MotionkitError(
        f"{name!r} is the name of a {whose}.",
        why="the new one could not be called by its name.",
        fix=f"choose another name, such as motionkit plugins new {kind.singular} my-{name}",
    )


def _template(kind: Kind, gives: str) -> str:
    """Return the template of a kind, for plugins that give `gives`."""
    by_word = {next(iter(kind.gives), ""): kind.scaffold, **kind.scaffolds}
    if gives and gives not in by_word:
        raise MotionkitError(
            f"there are no templates for a {kind.singular} that gives {gives!r}.",
            fix=f"--gives {either(by_word)}" if len(by_word) > 1 else "leave --gives out.",
        )
    return by_word[gives] if gives else kind.scaffold


def _singular_in(package: str) -> str:
    """Return the kind in ``motionkit-KIND-NAME``."""
    second = package.split("-")[1:2]
    singular = next((row.singular for row in _rows() if [row.singular] == second), "")
    if not singular:
        kinds = "|".join(row.singular for row in startable())
        raise MotionkitError(
            f"{package!r} does not say what kind of plugin it is.", fix=f"motionkit plugins new {kinds} NAME"
        )
    return singular


def _kind(singular: str) -> Kind:
    kind = next((row for row in _rows() if row.singular == singular), None)
    have = ", ".join(row.singular for row in startable())
    if kind is None:
        raise MotionkitError(f"there is no plugin kind {singular!r}.", fix=f"kinds that can be started: {have}.")
    if not kind.scaffold:
        raise MotionkitError(
            f"there are no templates for a new {singular}.",
            why=kind.note or f"plugins new starts: {have}.",
            fix="" if kind.note else f"copy a built-in: motionkit plugins list {kind.name} names them.",
        )
    return kind
