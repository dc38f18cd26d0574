"""One plugin chosen by its name, with its options: from Python (`choose_one`) or from a file (`choose_from_file`)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from pydantic import ValidationError

from motionkit import plugins
from motionkit.config._code import code_in
from motionkit.config._problems import which_setting
from motionkit.config._slots import Chosen
from motionkit.config._tree import leaves
from motionkit.errors import MotionkitError


def choose_one(kind: str, name: str, options: Mapping[str, Any], *, typed: bool = False) -> Chosen:
    """Choose a plugin from Python.

    Logs a warning if another package has a plugin of the same name as a built-in.

    Args:
        kind: Plugin kind.
        name: Name of the plugin.
        options: Its options.
        typed: Whether the user typed the name or wrote it in Python, so that it may be a Python file.
    """
    plugins.warn_hidden(kind, name)
    # Paths as text: an option may take words such as "starter" as well as paths.
    plain = {key: str(value) if isinstance(value, Path) else value for key, value in options.items()}
    model = plugins.get(kind, name, typed=typed).options
    try:
        return Chosen(kind, name, model.model_validate(plain))
    except ValidationError as error:
        known = [leaf.key for leaf in leaves(model)]
        problems = "; ".join(_problem(item["loc"], item["type"], item["msg"], known) for item in error.errors())
        raise MotionkitError(f"{name}: {problems}", fix=f"motionkit plugins show {kind} {name}") from error


def choose_from_file(kind: str, table: object) -> Chosen | None:
    """Choose the plugin that a run or a model's file recorded; options that run code are refused.

    Args:
        kind: Plugin kind.
        table: Content of the file: ``name`` and the options.

    Returns:
        The plugin; None if `table` names none.
    """
    if not isinstance(table, Mapping) or not isinstance(table.get("name"), str):
        return None
    singular, name = plugins.KINDS[kind].singular, str(table["name"])
    options = {str(key): value for key, value in table.items() if key != "name"}
    chosen = choose_one(kind, name, plugins.recorded(kind, name, options))
    for found in code_in(chosen.options, singular, plugin=True):
        raise MotionkitError(
            f"the file sets {found.key.removeprefix(f'{singular}.')}, which counts only where it is typed.",
            why=found.why,
            fix=f"if you trust it, add to the command: --{singular} {name} {found.words}",
        )
    return chosen


def _problem(path: Sequence[int | str], kind: str, message: str, known: Sequence[str]) -> str:
    """Return one pydantic error in words; an unknown option comes with a similar known one."""
    key = ".".join(map(str, path))
    if kind != "extra_forbidden":
        return f"{key}: {message}"
    hint = which_setting(key, known)
    return f"there is no option {key!r}" + (f"; {hint}" if hint else "")
