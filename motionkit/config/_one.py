"""One plugin and its options, chosen from Python or named by a file."""

from __future__ import annotations

import shlex
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any

from pydantic import BaseModel, ValidationError

from motionkit import plugins
from motionkit.config._choose import typed_again
from motionkit.config._group import Cli, Group
from motionkit.config._slots import Chosen
from motionkit.config._tree import leaves
from motionkit.errors import MotionkitError
from motionkit.errors._near import did_you_mean


def choose_one(kind: str, name: str, options: Mapping[str, Any], *, typed: bool = False) -> Chosen:
    """Choose a plugin from Python.

    Logs a warning when another package brings a plugin of the same name as a built-in.

    Args:
        kind: Plugin kind.
        name: Name of the plugin.
        options: Its options.
        typed: Whether the user typed the name or wrote it in Python, so that it may be a Python file.

    Raises:
        MotionkitError: There is no such plugin, or an option is wrong.
    """
    plugins.warn_hidden(kind, name)
    # A path is a path, whether the option holds one or a word such as "starter" as well.
    plain = {key: str(value) if isinstance(value, Path) else value for key, value in options.items()}
    model = plugins.get(kind, name, typed=typed).options
    try:
        return Chosen(kind, name, model.model_validate(plain))
    except ValidationError as error:
        known = [leaf.key for leaf in leaves(model)]
        problems = "; ".join(_problem(item["loc"], item["type"], item["msg"], known) for item in error.errors())
        raise MotionkitError(f"{name}: {problems}", fix=f"motionkit plugins show {kind} {name}") from error


def choose_from_file(kind: str, table: object) -> Chosen | None:
    """Choose the plugin that a file names, such as the settings of a run; nothing that the file says may run code.

    Args:
        kind: Plugin kind.
        table: Content of the file: ``name`` beside the options.

    Returns:
        The plugin; None where `table` names none.

    Raises:
        MotionkitError: It names a file of code, or an option makes code run; or as `choose_one`.
    """
    if not isinstance(table, Mapping) or not isinstance(table.get("name"), str):
        return None
    flag = "--" + plugins.KINDS[kind].singular
    name = str(table["name"])
    chosen = choose_one(kind, name, {str(key): value for key, value in table.items() if key != "name"})
    for option, why, words in code_words(chosen.options, flag[2:]):
        raise MotionkitError(
            f"the file sets {option}, which counts only where it is typed.",
            why=why,
            fix=f"if you trust it, add to the command: {flag} {name} {words}",
        )
    return chosen


def typed_flags(snapshot: Mapping[str, Any]) -> str:
    """Return the flags that must be typed again to use these settings, since they make code run; empty for most.

    Args:
        snapshot: Settings as `Resolved.snapshot` returns them; what has another form is passed over.
    """
    kinds = {row.singular: kind for kind, row in plugins.KINDS.items()}
    found = []
    for name, value in snapshot.items():
        table = value if isinstance(value, Mapping) else {"name": value}
        one = table.get("name")
        words = [one] if isinstance(one, str) else [word for word, inner in table.items() if isinstance(inner, Mapping)]
        if any(plugins.is_file(word) for word in words):
            found.append(shlex.join(typed_again(name, words)))
        elif isinstance(one, str) and name in kinds:
            options = {key: inner for key, inner in table.items() if key != "name"}
            with suppress(MotionkitError, ValidationError):  # a plugin may be gone, or another version
                model = plugins.get(kinds[name], one).options
                found += [words for *_, words in code_words(model.model_validate(options), name)]
    return " ".join(found)


def code_words(options: BaseModel, prefix: str) -> Iterator[tuple[str, str, str]]:
    """Yield each option whose value makes code run, why, and what is typed to give it that value.

    Args:
        options: Of a plugin.
        prefix: Dotted place of `options`.
    """
    for option, why in options.code().items() if isinstance(options, Group) else ():
        value = getattr(options, option)
        marks = (mark.flag for mark in type(options).model_fields[option].metadata if isinstance(mark, Cli))
        flag = next(marks, "") or f"--{prefix}.{option.replace('_', '-')}"
        yield option, why, flag if value is True else shlex.join((flag, str(value)))


def _problem(path: Sequence[int | str], kind: str, message: str, known: Sequence[str]) -> str:
    """Return one finding of pydantic in words; an unknown option comes with the known one that is spelled alike."""
    key = ".".join(map(str, path))
    if kind != "extra_forbidden":
        return f"{key}: {message}"
    hint = did_you_mean(key, known)
    return f"there is no option {key!r}" + (f"; {hint}" if hint else "")
