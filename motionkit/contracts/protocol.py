"""Evaluation protocols: settings, and `measure`, which returns a `Result`. Imports no torch."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from numbers import Real
from typing import Annotated, Any, ClassVar, Literal, Protocol

from motionkit import plugins
from motionkit.config import Cli, Settings
from motionkit.contracts.console import Console
from motionkit.errors import MotionkitError
from motionkit.plugins import Component
from motionkit.runs import made_by
from motionkit.runs.words import slot_words
from motionkit.tracking import definition, require_defined, table_of

Split = Annotated[Literal["val", "test"], Cli("--split", panel="What")]
"""Split to measure on; a protocol that opens ``test`` records it in the run, see `evaluation.tell_test_split`."""

SPLIT_HELP = "Split to measure on; that test was opened is noted in the run."
DATA_HELP = "Dataset; default: that of the run, or the starter's."
DEVICE_HELP = "auto, cpu, mps, cuda, cuda:N or N."
_BETTER = {"up": "higher", "down": "lower", "one": "near 1", "none": ""}


@dataclass(frozen=True)
class Argument:
    """A positional argument of the command line, such as the model."""

    metavar: str  # Its name in help, such as ``MODEL``
    help: str  # Help text, one line
    default: str | None = None  # Default value; None if it is required
    many: bool = False  # Whether it takes all remaining words; `measure` gets a list of them
    required: bool = True  # With `many`: whether at least one word is required


class ProtocolSettings(Settings):
    """Base of the settings of every protocol. The docstring of a subclass is the help of its command.

    Attributes:
        arguments: Positional arguments of its command, in the order in which `measure` gets them.
        explains: Whether the class of the protocol has ``explain() -> Result``, which ``--explain`` prints.
    """

    arguments: ClassVar[tuple[Argument, ...]] = (Argument("MODEL", "Run, policy folder or file."),)
    explains: ClassVar[bool] = False

    def plan(self, *words: Any, **more: Any) -> Mapping[str, object]:
        """Return what a dry run adds to the settings, such as data that follow from a run.

        Args:
            words: A value for each of `arguments`.
            more: Unused; a subclass gives its words names.
        """
        return {}


@dataclass(frozen=True)
class Result:
    """The result of a protocol: a document for ``--json``, and tables and lines for people."""

    document: Mapping[str, Any] = field(
        default_factory=dict
    )  # JSON-able; ``schema``, ``command``, ``status`` are added
    # Measured values by metric, each defined by `motionkit.tracking` or by the protocol's `Component`. They are in the
    # document as ``figures``, and shown in a table if `tables` is empty.
    figures: Mapping[str, float] = field(default_factory=dict)
    tables: Sequence[Mapping[str, Any]] = ()  # Each with title, columns, rows and numbers (the right-aligned columns)
    text: str = ""  # Printed on stdout instead of tables
    closing: Sequence[str] = ()  # Lines printed on stderr at the end: notes, and the verdict in a sentence
    next: Sequence[str] = ()  # Commands that make sense next


class EvaluationProtocol(Protocol):
    """A named way to measure a model; an entry of the group ``motionkit.protocols``, a command of ``motionkit eval``.

    It is built as ``factory(settings, console=console)``, which is cheap: inputs are opened in `measure`.

    Attributes:
        name: The name under which results are recorded; that of the entry.
    """

    name: str

    def measure(self, *words: Any, **more: Any) -> Result:
        """Measure a model.

        Args:
            words: A value for each of the settings' `ProtocolSettings.arguments`: with the default ones, the model.
            more: Unused; a protocol gives its words names.

        Raises:
            MotionkitError: An input is wrong (exit code 2), or measuring it failed (1).
        """


class ProtocolError(MotionkitError):
    """A protocol breaks its contract."""


def build_protocol(name: str, component: Component, settings: ProtocolSettings, console: Console) -> EvaluationProtocol:
    """Build a protocol and check that it has `measure` and `name`.

    Raises:
        ProtocolError: It has no `measure` or no `name` (exit code 2).
        MotionkitError: As `Component.build`.
    """
    protocol: EvaluationProtocol = component.build(settings, console=console)
    lacking = plugins.missing(protocol, ("measure",), ("name",))
    if "name" not in lacking and not (isinstance(protocol.name, str) and protocol.name):
        lacking.append("name")
    if lacking:
        raise ProtocolError(
            f"protocol {name!r} has no {' and no '.join(lacking)}.",
            why=f"{component.factory} must follow motionkit.contracts.protocol.EvaluationProtocol.",
            fix=f"add {'it' if len(lacking) == 1 else 'them'}; motionkit plugins new protocol NAME writes one that "
            "works.",
        )
    return protocol


def measured(name: str, protocol: EvaluationProtocol, words: Sequence[Any]) -> Result:
    """Run a protocol, and refuse an invalid result.

    Raises:
        ProtocolError: It returned no `Result`, a figure that is not a number or not defined, or a document that is not
            JSON-able (exit code 1).
    """
    with plugins.catching(type(protocol).__module__, code=1):
        result: object = protocol.measure(*words)
    return _checked(name, result)


def explained(name: str, component: Component) -> Result:
    """Return a protocol's explanation of its figures.

    Raises:
        ProtocolError: It has no `explain`, or that returns no `Result`; or as `Component.load`.
    """
    # A protocol's module or class is a stranger's, before anything was completed.
    explain = getattr(component.load(), "explain", None)
    if not callable(explain):
        raise ProtocolError(
            f"protocol {name!r} has no explain().",
            why="its settings have explains = True.",
            fix="add it as a static method, or leave explains out.",
        )
    with plugins.catching(component.factory.partition(":")[0]):
        result: object = explain()
    return _checked(name, result)


def _checked(name: str, result: object) -> Result:
    if not isinstance(result, Result):
        raise _wrong(name, f"returned {type(result).__name__}", "return motionkit.contracts.protocol.Result(...)")
    try:
        require_defined(result.figures)
    except MotionkitError as error:
        raise ProtocolError(error.message, why=error.why, fix=error.fix, code=1) from None
    for metric, value in result.figures.items():
        if not isinstance(value, Real) or isinstance(value, bool):
            raise _wrong(name, f"returned {value!r:.60} as {metric!r}", "figures are numbers: call float() on them.")
    try:
        json.dumps(dict(result.document))
    except (TypeError, ValueError) as error:
        raise _wrong(name, f"returned a document that is not JSON: {error}", "use texts, numbers and lists.") from error
    return result


def figure_table(figures: Mapping[str, float], title: str = "") -> dict[str, Any]:
    """Return figures as a table: title, value, direction of improvement, and meaning of each.

    Args:
        figures: By metric; each is defined.
        title: Title of the table.
    """
    rows = [
        (
            f"{metric.title(name)} {metric.shown_unit}".strip(),
            metric.text(value),
            _BETTER[metric.better],
            metric.meaning,
        )
        for name, value in figures.items()
        for metric in (definition(name),)
    ]
    return table_of(title, ["", "value", "better", "what it says"], rows, (1,))


def _wrong(name: str, what: str, fix: str) -> ProtocolError:
    return ProtocolError(f"protocol {name!r} {what}.", why="a protocol returns a Result.", fix=fix, code=1)


def dataset_plan(model: str, chosen: object) -> dict[str, object]:
    """Return the line of a dry run about the dataset to measure a model on: its run's, if it has one.

    Args:
        model: Run, checkpoint or folder of the model.
        chosen: ``--dataset``, if given.
    """
    run = made_by(model) if model and chosen is None else None
    table: Any = run.config.get("dataset") if run is not None else None
    words = slot_words("dataset", table, "datasets")
    return {"data": f"{' '.join(words)} (of the run)"} if words else {}
