"""A trainer that opens and trains nothing."""

from __future__ import annotations

from typing import Any


class Idle:
    """Stands for a trainer whose inputs are not here."""

    settings: Any = None
    shape_keys: tuple[str, ...] = ()

    def prepare(self) -> None:
        """Open nothing."""

    def describe(self) -> dict[str, object]:
        """Plan nothing."""
        return {}

    def train(self, run: object) -> dict[str, object]:
        """Train nothing."""
        return {}
