"""What an evaluation protocol is: settings, and `measure`, which returns a `Result`. Imports no torch."""

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
from motionkit.tracking import definition, require_defined

Split = Annotated[Literal["val", "test"], Cli("--split", panel="What")]
"""Split that is measured on; a protocol that opens ``test`` notes it in the run, see `evaluation.tell_test_split`."""

SPLIT_HELP = "Split to measure on; that test was opened is noted in the run."
DATA_HELP = "Dataset; default: that of the run, or the starter's."
DEVICE_HELP = "auto, cpu, mps, cuda, cuda:N or N."


@dataclass(frozen=True)
class Argument:
    """A word of the command line that is not an option, such as the model."""

    metavar: str  # Its name in help, such as ``MODEL``
    help: str  # What it is, in one line
    default: str | None = None  # What stands for it where it is left out; None: it must be given
    many: bool = False  # Whether it takes all words that are left; `measure` gets a list of them
    required: bool = True  # Of one that takes many: whether there must be one


class ProtocolSettings(Settings):
    """Base of the settings of every protocol. The docstring of a subclass is the help of its command.

    Attributes:
        arguments: The words that its command takes beside options, in the order in which `measure` gets them.
        explains: Whether the class of the protocol has ``explain() -> Result``, which ``--explain`` prints.
    """

    arguments: ClassVar[tuple[Argument, ...]] = (Argument("MODEL", "Run, policy folder or file."),)
    explains: ClassVar[bool] = False

    def plan(self, *words: Any, **more: Any) -> Mapping[str, object]:
        """Return what a dry run adds to the settings, such as data that follow from a run.

        Args:
            words: A value for each of `arguments`.
            more: Nothing; a subclass gives its words names.
        """
        return {}


@dataclass(frozen=True)
class Result:
    """What a protocol measured: a document for ``--json``, and tables and lines for people.

    Attributes:
        document: JSON-able; printed after ``schema``, ``command`` and ``status``.
        figures: Measured values by metric; each is defined by `motionkit.tracking` or by the protocol's `Component`.
            They are in the document as ``figures``, and in a table of their own where `tables` is empty.
        tables: Each with ``title``, ``columns``, ``rows`` and ``numbers`` (the columns that are right-aligned).
        text: Printed on stdout instead of tables.
        closing: Lines that are printed on stderr at the end: notes, the verdict in a sentence.
        next: Commands that make sense next.
    """

    document: Mapping[str, Any] = field(default_factory=dict)
    figures: Mapping[str, float] = field(default_factory=dict)
    tables: Sequence[Mapping[str, Any]] = ()
    text: str = ""
    closing: Sequence[str] = ()
    next: Sequence[str] = ()


class EvaluationProtocol(Protocol):
    """A named way to measure a model; an entry of the group ``motionkit.protocols``, a command of ``motionkit eval``.

    It is built as ``factory(settings, console=console)``, cheaply: it opens its inputs in `measure`.

    Attributes:
        name: The name under which results are recorded, as that of the entry.
    """

    name: str

    def measure(self, *words: Any, **more: Any) -> Result:
        """Measure a model.

        Args:
            words: A value for each of the settings' `ProtocolSettings.arguments`: with the default ones, the model.
            more: Nothing; a protocol gives its words names.

        Raises:
            MotionkitError: An input is wrong (exit code 2), or measuring it failed (1).
        """


class ProtocolError(MotionkitError):
    """A protocol does not keep its contract."""


def build_protocol(name: str, component: Component, settings: ProtocolSettings, console: Console) -> EvaluationProtocol:
    """Build a protocol and see that it can be asked.

    Raises:
        ProtocolError: It has no `measure` or no `name` (exit code 2).
        MotionkitError: As `Component.build`.
    """
    protocol: EvaluationProtocol = component.build(settings, console=console)
    lacking = [] if callable(getattr(protocol, "measure", None)) else ["measure()"]
    own = getattr(protocol, "name", None)
    lacking += [] if isinstance(own, str) and own else ["name"]
    if lacking:
        raise ProtocolError(
            f"protocol {name!r} has no {' and no '.join(lacking)}.",
            why=f"{component.factory} is to follow motionkit.contracts.protocol.EvaluationProtocol.",
            fix=f"add {'it' if len(lacking) == 1 else 'them'}; motionkit plugins new protocol NAME writes one that "
            "works.",
        )
    return protocol


def measured(name: str, protocol: EvaluationProtocol, words: Sequence[Any]) -> Result:
    """Let a protocol measure, and refuse what is not a result.

    Raises:
        ProtocolError: It returned something else than a `Result`, a figure that is not a number or is not defined, or a
            document that JSON cannot hold (exit code 1).
    """
    with plugins.catching(type(protocol).__module__, code=1):
        found: object = protocol.measure(*words)
    return _checked(name, found)


def explained(name: str, component: Component) -> Result:
    """Return what the class of a protocol says of its figures.

    Raises:
        ProtocolError: It has no `explain`, or that returns no `Result`; or as `Component.load`.
    """
    explain = getattr(component.load(), "explain", None)
    if not callable(explain):
        raise ProtocolError(
            f"protocol {name!r} has no explain().",
            why="its settings have explains = True.",
            fix="add it as a static method, or leave explains out.",
        )
    with plugins.catching(component.factory.partition(":")[0]):
        found: object = explain()
    return _checked(name, found)


def _checked(name: str, found: object) -> Result:
    if not isinstance(found, Result):
        raise _wrong(name, f"returned {type(found).__name__}", "return motionkit.contracts.protocol.Result(...)")
    try:
        require_defined(found.figures)
    except MotionkitError as error:
        raise ProtocolError(error.message, why=error.why, fix=error.fix, code=1) from None
    for metric, value in found.figures.items():
        if not isinstance(value, Real) or isinstance(value, bool):
            raise _wrong(name, f"returned {value!r:.60} as {metric!r}", "figures are numbers: call float() on them.")
    try:
        json.dumps(dict(found.document))
    except (TypeError, ValueError) as error:
        raise _wrong(name, f"returned a document that is not JSON: {error}", "use texts, numbers and lists.") from error
    return found


def figure_table(figures: Mapping[str, float], title: str = "") -> dict[str, Any]:
    """Return figures as a table: what each is called, its value, which way is better, and what it says.

    Args:
        figures: By metric; each is defined.
        title: Of the table.
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
    return {"title": title, "columns": ["", "value", "better", "what it says"], "rows": rows, "numbers": [1]}


_BETTER = {"up": "higher", "down": "lower", "one": "near 1", "none": ""}


def _wrong(name: str, what: str, fix: str) -> ProtocolError:
    return ProtocolError(f"protocol {name!r} {what}.", why="a protocol returns a Result.", fix=fix, code=1)
