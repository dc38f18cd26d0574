"""The base class of every settings group and the marks its fields carry."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from pydantic import BaseModel, ConfigDict, field_validator


class Group(BaseModel):
    """A named set of settings: unknown keys are errors, numbers are finite, defaults are validated too."""

    model_config = ConfigDict(extra="forbid", validate_default=True, frozen=True, allow_inf_nan=False, defer_build=True)

    def idle(self) -> Mapping[str, str]:
        """Return the options that have no effect, given the others, each with the reason.

        One that differs from its default is refused; one that was given as it is by default is worth a line. Settings
        may name options of their groups and plugins as well, by dotted key: ``reward.success-classifier.mode``.
        """
        return {}

    def code(self) -> Mapping[str, str]:
        """Return the options of a plugin whose values make code run, each with the reason.

        They count only where they were typed: on the command line or in a ``MOTIONKIT_*`` variable, never in a file.
        """
        return {}

    @field_validator("*")
    @classmethod
    def _not_huge(cls, value: Any) -> Any:
        if isinstance(value, int) and not -(2**63) <= value < 2**63:
            raise ValueError("must be a whole number of at most 64 bits")
        return value


@dataclass(frozen=True)
class Cli:
    """Makes a settings field a command-line flag.

    A field of a trainer's settings without this mark is reached by `--set key=value` or a file only. Every field
    of a plugin's options is a flag already (`--reward.alpha`), unless it is marked `hidden`.
    """

    flag: str = ""  # The flag, such as ``--batch-size``; empty for the dotted default
    panel: str = ""  # Help panel; empty for the group's own
    hidden: bool = False  # Keep the field out of the flags (plugin options only)
    values: int = 1  # Words that the flag takes; more than one for a field that is a tuple of so many
