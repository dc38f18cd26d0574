"""The base class of every settings group and the marks its fields carry."""

from __future__ import annotations

from dataclasses import dataclass

from pydantic import BaseModel, ConfigDict


class Group(BaseModel):
    """A named set of settings: unknown keys are errors, defaults are validated too."""

    model_config = ConfigDict(extra="forbid", validate_default=True, frozen=True)


@dataclass(frozen=True)
class Cli:
    """Makes a settings field a command-line flag.

    A field of a trainer's settings without this mark is reached by `--set key=value` or a file only. Every field
    of a plugin's options is a flag already (`--reward.alpha`), unless it is marked `hidden`.

    Attributes:
        flag: The flag, such as ``--batch-size``; empty for the dotted default.
        panel: Help panel; empty for the group's own.
        hidden: Keep the field out of the flags (plugin options only).
    """

    flag: str = ""
    panel: str = ""
    hidden: bool = False
