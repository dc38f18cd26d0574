"""All errors of commands, as one message (what, why, fix), one JSON document and one exit code."""

from __future__ import annotations

import contextlib
import errno
import traceback
from collections.abc import Mapping, Sequence
from typing import Any

import typer

from motionkit.cli import _streams
from motionkit.cli.output import as_json, marked, printable, wrapped
from motionkit.cli.table import ELSEWHERE, example
from motionkit.errors import MotionkitError, nearest
from motionkit.plugins import INSTALL_FIX, in_use, in_words, packages


def as_motionkit_error(error: BaseException) -> MotionkitError | None:
    """Turn an exception of a command into a `MotionkitError`; None for a bug, which gets a traceback."""
    if isinstance(error, MotionkitError):  # of a plugin whose import such a library stopped
        return error if error.__cause__ is None else _malformed_package(error.__cause__) or error
    if isinstance(error, typer.TyperException):
        return _usage(error)
    if isinstance(error, OSError):
        return _operating_system(error)
    return _malformed_package(error)


def _malformed_package(error: BaseException) -> MotionkitError | None:
    """Return the error if a library, such as torch or pydantic, failed to read the entry points of all packages."""
    if not any(
        frame.f_globals.get("__name__") == "importlib.metadata" for frame, _ in traceback.walk_tb(error.__traceback__)
    ):
        return None
    from motionkit.plugins.check import second_reading

    for finding in second_reading()[1]:
        return MotionkitError(
            f"the entry points of the package {finding.package!r} are malformed: {finding.text}.",
            why="torch and pydantic read those of all packages.",
            fix=f"pip install --force-reinstall {finding.package}, or remove it.",
        )
    return None


def bug(error: BaseException) -> MotionkitError:
    """Return the error that is shown for an exception that is not a `MotionkitError`."""
    return MotionkitError(
        in_words(error),
        why=f"this is a bug in {', or in '.join(['motionkit', *in_use()])}.",
        fix="report it with the lines above and the output of motionkit doctor.",
        code=1,
    )


def report(error: BaseException, *, json_wanted: bool, traceback_wanted: bool, quiet: bool = False) -> int:
    """Print `error` and return the exit code: 1 or 2, whatever code a plugin's error has.

    The traceback is printed for a bug and on demand. A plugin's error has its place in the plugin's code.

    Args:
        error: The exception.
        json_wanted: Also print a document.
        traceback_wanted: Print the traceback in any case.
        quiet: Another process of this machine prints the same error; a bug is still printed.
    """
    known = as_motionkit_error(error)
    if quiet and known is not None:
        return known.code if known.code in (1, 2) else 1
    if known is None or traceback_wanted:
        _tell_traceback(error)
    if known is None:
        known = bug(error)
    if json_wanted:
        print_json({"error": known.document()})
    _streams.tell(marked(wrapped(printable(as_text(known))), "error:", red=True))
    return known.code if known.code in (1, 2) else 1


def print_json(document: Mapping[str, Any]) -> None:
    """Print the last document of a failing command; if that is impossible, only the message on stderr is left."""
    with contextlib.suppress(MotionkitError, OSError):
        _streams.write(as_json({"schema": 1, **document}))
    _streams.flush_or_drop()


def as_text(error: MotionkitError) -> str:
    """Return the message as text."""
    lines = [f"error: {error.message}"]
    if error.why:
        lines.append(f"  why  {error.why}")
    if error.fix:
        lines.append(f"  fix  {error.fix}")
    return "\n".join(lines)


def _tell_traceback(error: BaseException) -> None:
    _streams.tell("".join(traceback.format_exception(error)).rstrip())


def _usage(error: typer.TyperException) -> MotionkitError:
    # Only some of typer's errors have a context and an option; `others` is set in motionkit.cli._app.
    context = getattr(error, "ctx", None)
    path = context.command_path if context is not None else "motionkit"
    option = getattr(error, "option_name", "")
    message = error.message if option else error.format_message()
    if option and type(error).__name__ == "NoSuchOption":
        command = path.removeprefix("motionkit ")
        owner = packages.owner_of_setting(option.lstrip("-").replace("-", "_"))
        if owner and not packages.module_exists(owner.replace("-", "_")):
            why = f"the package {owner} has it, and is not installed."
            return MotionkitError(f"{path}: no such option: {option}", why=why, fix=INSTALL_FIX)
        if other := _of_another_choice(option, command) or _setting(option, command):
            return MotionkitError(f"{path}: no such option: {option}", why=other[0], fix=other[1])
        return _no_option(option, path, context, getattr(error, "others", ()))
    if type(error).__name__ == "NoArgsIsHelpError":  # its help is already printed
        typed = example(path.removeprefix("motionkit").strip()) or packages.words("first command") or f"{path} --help"
        return MotionkitError(f"{path}: no command was given.", fix=f"name one of the commands above: {typed}")
    text = " ".join(message.split())
    return MotionkitError(f"{path}: {text[:1].lower()}{text[1:]}", fix=f"{path} --help", code=error.exit_code)


def _no_option(option: str, path: str, context: Any, others: Sequence[str]) -> MotionkitError:
    """Return the error for an unknown option, with the most similar option, or else the panels of options."""
    from motionkit.config import other_words

    options = (
        [item for item in context.command.params if item.param_type_name == "option"] if context is not None else []
    )
    hidden = {name for item in options if item.hidden for name in item.opts}
    names = [name for item in options for name in (*item.opts, *item.secondary_opts) if name.startswith("--")]
    group = option.partition(".")[0]
    shown = [name for name in names if name not in hidden or "." in option]
    near = nearest(option, shown, synonyms=other_words())
    if "." in option:
        near = [name for name in near if name.startswith(f"{group}.")]
    if near:
        fix = f"did you mean {near[0]}? {path} --help"
    else:
        panels = list(
            dict.fromkeys(item.rich_help_panel for item in options if item.rich_help_panel and not item.hidden)
        )
        of_group = [panel for panel in panels if "." in option and f"--{panel.split()[0].lower()}" == group]
        panel_names = ", ".join(of_group or panels)
        fix = f"options of {path.removeprefix('motionkit ')}: {path} --help"
        fix += f", panel{'s' if ',' in panel_names else ''} {panel_names}" if panel_names else ""
    why = ELSEWHERE.get(option.lstrip("-").replace("_", "-"), "")
    if others:
        why = f"{', '.join(others)} {'has' if len(others) == 1 else 'have'} it"
    shown = [name for name in names if name not in hidden]
    return MotionkitError(f"{path}: no such option: {option}", why=f"{why}." if why else "", fix=fix, choices=shown)


def _setting(option: str, command: str) -> tuple[str, str] | None:
    """Return why `option` is missing and what to type, if it has the name of a setting of the command."""
    from motionkit.cli.settings import models
    from motionkit.config import leaves

    key = option.lstrip("-").replace("-", "_")
    leaf = next((leaf for leaf in leaves(models[command]) if leaf.key == key), None) if command in models else None
    if leaf is None or (leaf.cli is not None and leaf.cli.hidden):
        return None
    if leaf.cli is not None:
        return f"the flag of {key} is {leaf.flag}.", leaf.flag
    return f"{key} is a setting without a flag.", f"--set {key}=VALUE"


def _of_another_choice(option: str, command: str) -> tuple[str, str] | None:
    """Return why `option` is missing and what to add, if another plugin that the command may choose has it."""
    from motionkit.cli.settings import models
    from motionkit.config import dotted, owners_of, slots_of

    for name, slot in slots_of(models[command]).items() if command in models else ():
        if slot.spread and (owners := owners_of(slot, flag=option)):
            return f"it is an option of {name} {_listed(owners, 'and')}.", f"{dotted((name,))} {_listed(owners, 'or')}"
        start, _, rest = option.partition(".")
        path = tuple(rest.replace("-", "_").split("."))
        if rest and start == dotted((name,)) and (owners := owners_of(slot, path) or owners_of(slot, path[1:] or path)):
            return (
                f"{path[-1].replace('_', '-')} belongs to {_listed(owners, 'and')}.",
                f"{start} {_listed(owners, 'or')}",
            )
    return None


def _listed(names: Sequence[str], last: str) -> str:
    return f" {last} ".join(filter(None, (", ".join(names[:-1]), names[-1])))


def unreadable(error: OSError) -> MotionkitError:
    """Return the error for an input that cannot be read, before anything was started (code 2)."""
    known = _operating_system(error)
    return MotionkitError(known.message, why=known.why, fix=known.fix)


def _operating_system(error: OSError) -> MotionkitError:
    path = error.filename if error.filename is not None else ""
    what = error.strerror or str(error) or type(error).__name__
    head = f"{path}: {what}." if path else f"{what}."
    fix = {
        errno.ENOSPC: "free some space, or write elsewhere with --out DIR.",
        errno.EACCES: "check the permissions, or use --out DIR.",
        errno.ENAMETOOLONG: "choose a shorter name.",
    }
    # A name that is too long is refused before anything is written.
    code = 2 if error.errno == errno.ENAMETOOLONG else 1
    return MotionkitError(head, fix=fix.get(error.errno or 0, ""), code=code)
