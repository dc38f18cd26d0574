"""The contract of a light half."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Callable
from typing import Any

from pydantic import BaseModel

from motionkit import plugins
from motionkit.config import leaves, slots_of
from motionkit.plugins import Component
from motionkit.tracking import all_metrics

HEAVY = ("torch", "transformers", "peft", "accelerate")
"""Packages that no light half imports."""


class Findings:
    """Violations of a contract, as sentences about `subject`, which are raised together."""

    def __init__(self, subject: str) -> None:
        self.subject = subject
        self.sentences: list[str] = []

    def expect(self, fine: bool, sentence: str) -> bool:
        """Add `sentence` unless `fine`; return `fine`."""
        if not fine:
            self.sentences.append(sentence)
        return fine

    def close(self) -> None:
        """Raise all violations in one error.

        Raises:
            AssertionError: There is at least one.
        """
        if self.sentences:
            raise AssertionError(f"{self.subject} breaks its contract:\n" + "\n".join(f"- {s}" for s in self.sentences))


def component_of(kind: str, subject: str | Component) -> Component:
    """Return the component that a check got by name or directly."""
    return plugins.get(kind, subject, typed=True) if isinstance(subject, str) else subject


def other_check(kind: str, gives: str) -> Callable[..., None] | None:
    """Return the check of plugins that give a word, if it is not that of their kind; None if it is."""
    name = plugins.KINDS[kind].checks.get(gives, "")
    check: Callable[..., None] | None = plugins.attribute_of(name) if name else None
    return check


def options_of(component: Component, options: dict[str, Any] | None) -> Any:
    """Return the component's options with `options` filled in."""
    return component.options.model_validate(options or {})


def check_component(kind: str, name: str) -> Component:
    """Check the contract of every plugin before it is built.

    It can be found by name, has a one-line summary, describes each option, has valid defaults, names a factory that
    imports, gives and reads words of its kind, and listing it imports no torch.

    Args:
        kind: Plugin kind, such as ``rewards``.
        name: Name of the plugin.

    Returns:
        The component.

    Raises:
        AssertionError: Lists all violations, a sentence each.
        MotionkitError: There is no such plugin, or it does not import.

    Example:
        >>> check_component("policies", "mdm").gives  # empty: the first of its kind, diffusion
        ''
    """
    component = plugins.get(kind, name, typed=True)
    findings = Findings(f"{kind} plugin {name!r}")
    summary = component.summary.strip()
    findings.expect(bool(summary) and "\n" not in summary, "Its summary must be one line that says what it does.")
    findings.expect(
        ":" in component.factory, f"Its factory {component.factory!r} must have the form 'module:attribute'."
    )
    row = plugins.KINDS[kind]
    for verb, word, words_of_kind in (("gives", component.gives, row.gives), ("reads", component.reads, row.reads)):
        words = plugins.either(words_of_kind) or "nothing"
        findings.expect(not word or word in words_of_kind, f"It {verb} {word!r}; {kind} {verb.rstrip('s')} {words}.")
    if component.twin:
        names = {entry.name for entry in plugins.available(kind)} - {name}
        findings.expect(
            component.twin in names, f"Its twin {component.twin!r} is not another installed {row.singular}."
        )
    for metric in component.own_metrics():
        ours = all_metrics().get(metric.name) not in (None, metric)
        findings.expect(not ours, f"The metric {metric.name!r} is motionkit's own; its definition counts.")
    slots = slots_of(component.options)
    for leaf in leaves(component.options):
        findings.expect(
            bool(leaf.help) or leaf.path[0] in slots,
            f"Option {leaf.key!r} needs a description: it becomes the flag's help.",
        )
    defaults = {key: _plain(f.default) for key, f in component.options.model_fields.items() if not f.is_required()}
    try:
        if len(defaults) == len(component.options.model_fields):
            component.options.model_validate(defaults)
    except ValueError as error:
        findings.expect(False, f"Its own defaults are refused by its options: {error}")
    if not component.missing():
        component.load()
    if heavy := _imports_of(kind, name):
        findings.expect(False, f"Finding it imports {', '.join(heavy)}; the light half must leave that to the factory.")
    findings.close()
    return component


def _plain(default: Any) -> Any:
    """Return a group as the values set in it: an algorithm's group of that name has other defaults."""
    return default.model_dump(exclude_unset=True) if isinstance(default, BaseModel) else default


def _imports_of(kind: str, name: str) -> list[str]:
    code = (
        "import sys; from motionkit import plugins; plugins.get(sys.argv[1], sys.argv[2], typed=True); "
        f"print(); print(*[m for m in {HEAVY!r} if m in sys.modules])"
    )
    done = subprocess.run([sys.executable, "-c", code, kind, name], capture_output=True, text=True, check=False)
    return done.stdout.splitlines()[-1].split() if done.stdout else []  # a plugin may have printed before
