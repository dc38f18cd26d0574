"""Settings while layers are laid over each other: values, origins, and what is wrong so far."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from pydantic import BaseModel

from motionkit.config._problems import Problem, suggest
from motionkit.config._slots import slot_of
from motionkit.config._sources import Layer
from motionkit.config._tree import default_table, from_text, group_of, leaves


@dataclass
class Draft:
    """One model's values, built from the defaults upward.

    Attributes:
        model: Settings model.
        prefix: Key of the model in the whole.
        values: Nested tables, the input of validation.
        origins: Dotted key (with the prefix) to the place its value came from.
        problems: Unknown keys found on the way.
    """

    model: type[BaseModel]
    prefix: tuple[str, ...] = ()
    values: dict[str, Any] = field(default_factory=dict)
    origins: dict[str, str] = field(default_factory=dict)
    problems: list[Problem] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.values = default_table(self.model)
        for leaf in leaves(self.model):
            if leaf.slot is None:
                self.origins[self._key(leaf.path)] = "default"

    def lay(self, layer: Layer) -> None:
        """Lay `layer` over what is there; slots are left to others."""
        self._lay(self.model, layer.table, layer, (), self.values)

    def _lay(
        self,
        model: type[BaseModel],
        table: Mapping[str, Any],
        layer: Layer,
        path: tuple[str, ...],
        into: dict[str, Any],
    ) -> None:
        for name, value in table.items():
            here = (*path, str(name))
            declared = model.model_fields.get(str(name))
            if declared is None:
                self._unknown(here, value, layer)
                continue
            if slot_of(declared) is not None:
                continue
            group = group_of(declared)
            if group is not None and isinstance(value, Mapping):
                nested = into.setdefault(str(name), {})
                if isinstance(nested, dict):
                    self._lay(group, value, layer, here, nested)
                    continue
            into[str(name)] = from_text(declared.annotation, value)
            self.origins[self._key(here)] = layer.origin_of((*self.prefix, *here))

    def _unknown(self, path: tuple[str, ...], value: Any, layer: Layer) -> None:
        known = [self._key(leaf.path) for leaf in leaves(self.model)]
        key = self._key(path)
        shown = "" if isinstance(value, Mapping) else repr(value)
        self.problems.append(
            Problem(key, "unknown setting", layer.origin_of((*self.prefix, *path)), shown, suggest(key, known))
        )

    def _key(self, path: tuple[str, ...]) -> str:
        return ".".join((*self.prefix, *path))
