"""Every way a command can end badly, as one message (what, why, fix), one JSON document and one exit code."""

from __future__ import annotations

import errno
import sys
import traceback

import typer

from motionkit.cli._guide import translate
from motionkit.cli.output import as_json, printable, wrapped
from motionkit.errors import MotionkitError


def as_motionkit_error(error: BaseException) -> MotionkitError | None:
    """Turn what a command raised into a `MotionkitError`; None for what is a bug and deserves a traceback."""
    if isinstance(error, MotionkitError):
        return error
    if isinstance(error, typer.TyperException):
        return _usage(error)
    if isinstance(error, OSError):
        return _operating_system(error)
    return None


def report(error: BaseException, *, json_wanted: bool, traceback_wanted: bool) -> int:
    """Print `error` and return the exit code."""
    known = as_motionkit_error(error)
    if known is None or traceback_wanted:
        traceback.print_exception(error)
    if known is None:
        known = MotionkitError(
            f"{type(error).__name__}: {error}",
            why="this is a bug in motionkit or in one of its plugins.",
            fix="report it with the lines above and the output of motionkit doctor.",
            code=1,
        )
    if json_wanted:
        print(as_json({"schema": 1, "error": known.document()}))
    print(wrapped(printable(as_text(known))), file=sys.stderr)
    return known.code


def as_text(error: MotionkitError) -> str:
    """Return the message as people read it."""
    lines = [f"error: {error.message}"]
    if error.why:
        lines.append(f"  why  {error.why}")
    if error.fix:
        lines.append(f"  fix  {error.fix}")
    return "\n".join(lines)


def _usage(error: typer.TyperException) -> MotionkitError:
    context = getattr(error, "ctx", None)
    path = context.command_path if context is not None else "motionkit"
    option = getattr(error, "option_name", "")
    message = error.message if option else error.format_message()
    if option and type(error).__name__ == "NoSuchOption":
        if instead := translate(option, path.removeprefix("motionkit ")):
            return MotionkitError(
                f"{path}: no such option: {option}", why="it is an option of the guides.", fix=instead
            )
        near = ", ".join(sorted(getattr(error, "possibilities", None) or ()))
        fix = f"did you mean {near}? " if near else ""
        return MotionkitError(f"{path}: no such option: {option}", fix=f"{fix}{path} --help; or --set KEY=VALUE")
    text = " ".join(message.split())
    return MotionkitError(f"{path}: {text[:1].lower()}{text[1:]}", fix=f"{path} --help", code=error.exit_code)


def unreadable(error: OSError) -> MotionkitError:
    """Return the error for an input that the operating system refuses, before anything was started (code 2)."""
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
    # A name that is too long is refused when it is first looked at, before anything is made of it.
    code = 2 if error.errno == errno.ENAMETOOLONG else 1
    return MotionkitError(head, fix=fix.get(error.errno or 0, ""), code=code)
