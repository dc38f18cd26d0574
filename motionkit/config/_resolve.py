"""One rule for every setting: command line > ``MOTIONKIT_*`` > ``--config`` files > defaults, origins kept."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, Generic, TypeVar

from pydantic import ValidationError

from motionkit.config._choose import fill
from motionkit.config._draft import Draft
from motionkit.config._group import Group
from motionkit.config._problems import Problem, SettingsError, from_validation
from motionkit.config._slots import Chosen, slot_of
from motionkit.config._sources import Layer, read_environment, read_file
from motionkit.config._tree import leaves
from motionkit.errors import MotionkitError

S = TypeVar("S", bound=Group)


@dataclass(frozen=True)
class Resolved(Generic[S]):
    """Settings and where each of them came from.

    Attributes:
        settings: The validated model.
        origins: Dotted key to ``default``, ``command line``, ``environment MOTIONKIT_X`` or a file's path.
        warnings: What is odd without being wrong.
    """

    settings: S
    origins: Mapping[str, str]
    warnings: tuple[str, ...] = ()

    def snapshot(self) -> dict[str, Any]:
        """Return the settings as nested JSON-able tables, which `resolve` accepts back as a file."""
        return self.settings.model_dump(mode="json")

    def rows(self) -> list[tuple[str, Any, str]]:
        """Return key, value and origin of every setting, in the order of declaration."""
        return [(key, value, self.origins.get(key, "default")) for key, value in _flat(self.snapshot(), self.origins)]


@dataclass(frozen=True)
class Given:
    """What the command line gave.

    Attributes:
        flags: Path of a key to its value (text, or a list of texts for a flag that repeats).
        sets: ``key=value`` strings of ``--set``.
        files: Files of ``--config``, lowest first.
    """

    flags: Mapping[tuple[str, ...], Any] = field(default_factory=dict)
    sets: Sequence[str] = ()
    files: Sequence[Path] = ()


def resolve(model: type[S], given: Given | None = None, *, command: str = "") -> Resolved[S]:
    """Lay defaults, files, variables and the command line over each other and validate the result.

    Args:
        model: Settings model.
        given: What the command line gave.
        command: Name of the command, for the hint in errors.

    Raises:
        MotionkitError: A file cannot be read, or a plugin cannot be found.
        SettingsError: One or several settings are wrong; all of them are named, with their origins.
    """
    given = given or Given()
    layers, warnings = gather(model, given)
    draft = Draft(model)
    for layer in layers:
        draft.lay(layer)
    problems, errors = list(draft.problems), []
    for name, declared in model.model_fields.items():
        if (slot := slot_of(declared)) is None:
            continue
        filled = fill(name, slot, layers)
        draft.origins |= filled.origins
        problems += filled.problems
        errors += filled.errors
        warnings += filled.warnings
        if filled.value is None and slot.default:
            # A slot that failed is reported already; an empty stand-in lets the rest be validated in the same pass.
            stand_in = Chosen(slot.kind, slot.default[0], Group())
            filled.value = (stand_in,) if slot.many else stand_in
        draft.values[name] = filled.value
    try:
        settings = model.model_validate(draft.values)
    except ValidationError as error:
        problems += from_validation(error, draft.origins)
    if errors and not problems:
        raise errors[0]
    problems += [Problem(error.message, error.why or error.fix, fix=error.fix if error.why else "") for error in errors]
    if problems:
        raise SettingsError([_by_flag(problem, model, given) for problem in problems], command)
    return Resolved(settings, draft.origins, tuple(warnings))


def _by_flag(problem: Problem, model: type[Group], given: Given) -> Problem:
    """Name a value that was given by a flag as the user wrote it."""
    for path in given.flags:
        if problem.key == (key := ".".join(path)):
            marks = [leaf.cli for leaf in leaves(model) if leaf.path == path]
            own = marks[0].flag if marks and marks[0] is not None else ""
            return replace(problem, flag=own or "--" + key.replace("_", "-"))
    return problem


def gather(model: type[Group], given: Given) -> tuple[list[Layer], list[str]]:
    """Return the layers, lowest first, and warnings about variables that name no setting."""
    files = [read_file(path) for path in given.files]
    environment, warnings = read_environment(model)
    sets: dict[str, Any] = {}
    for text in given.sets:
        key, separator, value = text.partition("=")
        if not separator or not key.strip():
            raise MotionkitError(f"--set {text!r} is not key=value.", fix="--set optim.learning_rate=1e-4")
        _put(sets, tuple(key.strip().split(".")), value, model)
    flags: dict[str, Any] = {}
    for path, value in given.flags.items():
        _put(flags, path, value, model)
    return [*files, environment, Layer("command line", sets), Layer("command line", flags)], warnings


def _put(table: dict[str, Any], path: tuple[str, ...], value: Any, model: type[Group]) -> None:
    declared = model.model_fields.get(path[0])
    if len(path) == 1 and declared is not None and slot_of(declared) is not None:
        path = (path[0], "")  # the choice itself, beside the options in the same table
    for part in path[:-1]:
        nested = table.setdefault(part, {})
        if not isinstance(nested, dict):
            nested = table[part] = {}
        table = nested
    table[path[-1]] = value


def _flat(table: Mapping[str, Any], origins: Mapping[str, str], path: tuple[str, ...] = ()) -> list[tuple[str, Any]]:
    rows: list[tuple[str, Any]] = []
    for name, value in table.items():
        key = ".".join((*path, name))
        if isinstance(value, Mapping) and value and key not in origins:
            rows += _flat(value, origins, (*path, name))
        else:
            rows.append((key, value))
    return rows
