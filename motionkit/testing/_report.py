"""Violations of a contract, collected and raised together."""

from __future__ import annotations

from typing import Any

from motionkit import plugins
from motionkit.plugins import Component


class Findings:
    """Violations that a check found, as sentences about `subject`."""

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
    """Return the component that a check was given by name or directly."""
    return plugins.get(kind, subject, typed=True) if isinstance(subject, str) else subject


def options_of(component: Component, options: dict[str, Any] | None) -> Any:
    """Return the component's options with `options` filled in."""
    return component.options.model_validate(options or {})
