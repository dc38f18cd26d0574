"""Settings that formats declare, as options of the commands that read or write motions."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Annotated, Any, TypeVar

from pydantic import Field, create_model

from motionkit.config import Cli, Group
from motionkit.errors import MotionkitError
from motionkit.formats import table
from motionkit.plugins import INSTALL_FIX, packages


class FormatSettings(Group):
    """A group of settings to which formats add theirs; see `with_format_settings`."""

    def of_formats(self) -> dict[str, str]:
        """Return the settings of formats by name; those that are empty are left out."""
        names = table.settings()
        return {name: value for name, value in self if name in names and value}

    def code(self) -> Mapping[str, str]:
        """Such as a program that is started; see `Group.code`."""
        given = self.of_formats()
        return {name: one.code for name, one in table.settings().items() if one.code and name in given}


Model = TypeVar("Model", bound=FormatSettings)


def with_format_settings(panel: str, *, writing: bool = False) -> Callable[[type[Model]], type[Model]]:
    """Add the settings that formats need to a group, after its own fields.

    Args:
        panel: Heading of the options in the help of the command.
        writing: Whether the command writes files and reads none.
    """

    def extended(model: type[Model]) -> type[Model]:
        fields: dict[str, Any] = {
            name: (
                Annotated[str, Cli(f"--{name.replace('_', '-')}", panel)],
                Field("", description=(writing and one.writing) or one.help),
            )
            for name, one in table.settings().items()
            if name not in model.model_fields
        }
        module, about = model.__module__, model.__doc__
        return create_model(model.__name__, __base__=model, __module__=module, __doc__=about, **fields)

    return extended


def as_texts(settings: Mapping[str, object]) -> dict[str, str]:
    """Return settings of formats that were given in Python as texts.

    Raises:
        MotionkitError: No format has a setting of such a name.
    """
    known = table.settings()
    for name in settings:
        if name not in known:
            absent = packages.owner_of_setting(name)
            raise MotionkitError(
                f"no format has the setting {name!r}.",
                why=f"the package {absent} has it, and is not installed." if absent else "",
                fix=INSTALL_FIX if absent else f"settings of formats: {', '.join(known) or 'none'}.",
            )
    return {name: str(value) for name, value in settings.items() if str(value)}
