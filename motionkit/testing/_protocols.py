"""The contract of an evaluation protocol."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from motionkit.contracts.console import Quiet
from motionkit.contracts.protocol import (
    ProtocolError,
    ProtocolSettings,
    Result,
    build_protocol,
    explained,
    measured,
)
from motionkit.plugins import Component
from motionkit.testing._component import Findings, check_component, options_of


def check_protocol(name: str, *words: Any, settings: dict[str, Any] | None = None) -> Result:
    """Check what ``motionkit eval`` relies on in every protocol, by measuring with it.

    Its settings extend `ProtocolSettings` and have a docstring, the help of its command; it has a name and `measure`,
    which returns a `Result`; its figures are finite and defined; its document is JSON-able; each row of a table has as
    many cells as there are columns; measuring again gives the same figures.

    Args:
        name: Name of the protocol.
        words: Positional arguments of its command, such as the model.
        settings: Settings that make it quick.

    Returns:
        Its result.

    Raises:
        AssertionError: Lists all violations, a sentence each.
        MotionkitError: It refused its inputs.
    """
    component = check_component("protocols", name)
    findings = Findings(f"protocol {name!r}")
    model = component.options
    if not issubclass(model, ProtocolSettings):
        raise AssertionError(f"the settings of protocol {name!r} must extend ProtocolSettings.")
    findings.expect(bool(vars(model).get("__doc__")), "Its settings need a docstring: it is the help of the command.")
    chosen = options_of(component, settings)
    count = len(model.arguments)
    findings.expect(len(words) == count, f"Its command takes {count} words beside options; the check got {len(words)}.")
    findings.close()
    findings.expect(isinstance(chosen.plan(*words), Mapping), "The plan of its settings must be a mapping.")
    if model.explains:
        _expect(findings, lambda: explained(name, component))
    results = [_measured(findings, name, component, chosen, words) for _ in range(2)]
    first = results[0]
    for metric, value in first.figures.items():
        findings.expect(math.isfinite(value), f"The figure {metric!r} is {value}.")
    for table in first.tables:
        rows, width = table.get("rows", ()), len(table.get("columns", ()))
        fits = all(len(row) == width for row in rows)
        findings.expect(fits, f"The table {table.get('title', '')!r} has a row of another width than its columns.")
    findings.expect(dict(results[1].figures) == dict(first.figures), "Measuring again gives other figures; use a seed.")
    findings.close()
    return first


def _measured(findings: Findings, name: str, component: Component, settings: Any, words: Sequence[Any]) -> Result:
    return _expect(findings, lambda: measured(name, build_protocol(name, component, settings, Quiet()), words))


def _expect(findings: Findings, make: Callable[[], Result]) -> Result:
    try:
        return make()
    except ProtocolError as error:
        findings.expect(False, f"{error.message[:1].upper()}{error.message[1:]}")
        findings.close()
        raise
