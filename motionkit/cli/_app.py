"""The root command: options that work anywhere on the line, the tree of commands, and how everything ends."""

from __future__ import annotations

import logging
import sys
from collections.abc import Sequence
from typing import Annotated, Any

import typer

from motionkit import plugins
from motionkit.cli import _streams, command_line, output
from motionkit.cli._errors import report
from motionkit.cli._lazy import CommandTree, debug, shadowed
from motionkit.cli._stop import hearing_signals, report_stop
from motionkit.errors import MotionkitError
from motionkit.training.launch import launch_of
from motionkit.version import __version__

ANYWHERE = ("-q", "--quiet", "-v", "--verbose", "-vv", "--traceback")


class Root(CommandTree):
    """Runs a command and turns whatever it raises into a message and an exit code."""

    def main(
        self,
        args: Sequence[str] | None = None,
        prog_name: str | None = None,
        complete_var: str | None = None,
        standalone_mode: bool = True,
        windows_expand_args: bool = True,
        **extra: Any,
    ) -> Any:
        """Parse `args`, run the command, exit with 0, 1, 2, 130 or 143."""
        typed = list(sys.argv[1:] if args is None else args)
        command_line.set(tuple(typed))
        line = hoist(typed)
        options = line[: line.index("--")] if "--" in line else line
        try:
            with hearing_signals():
                code = super().main(line, "motionkit", complete_var, False, windows_expand_args, **extra)
                _streams.flush()
        except SystemExit:  # typer's own: completions, and a pipe that was closed
            raise
        except BrokenPipeError:
            code = 1
        except (KeyboardInterrupt, typer.Abort):
            code = 130
        except BaseException as error:
            wanted = "--traceback" in options or debug()
            # What fails before processes meet fails alike in all of them: one on each machine says so.
            quiet = launch_of().local_rank > 0
            code = report(error, json_wanted="--json" in options, traceback_wanted=wanted, quiet=quiet)
        _streams.flush_or_drop()
        sys.exit(code if isinstance(code, int) else 0)

    def invoke(self, ctx: Any) -> Any:
        """Run the command that the line names; report how far a stopped one came."""
        try:
            with plugins.catching(code=1):
                return super().invoke(ctx)
        except KeyboardInterrupt as error:
            raise typer.Exit(report_stop(error, command_line.get())) from error
        except SystemExit as error:
            if isinstance(error.__context__, BrokenPipeError):  # how rich ends when a pipe was closed
                raise
            message = f"something in this process asked Python to exit with {error.code!r}."
            raise MotionkitError(message, why="the command had not come to its end.", code=1) from error


def hoist(args: list[str]) -> list[str]:
    """Move the options that work anywhere (``-q -v --color X --traceback``) to the front, where the root reads them."""
    front: list[str] = []
    rest: list[str] = []
    end = args.index("--") if "--" in args else len(args)
    skip = False
    for index, item in enumerate(args[:end]):
        if skip:
            skip = False
        elif item in ANYWHERE or item.startswith("--color="):
            front.append(item)
        elif item == "--color" and index + 1 < end:
            front += [item, args[index + 1]]
            skip = True
        else:
            rest.append(item)
    return [*front, *rest, *args[end:]]


app = typer.Typer(
    name="motionkit",
    cls=Root,
    add_completion=True,
    no_args_is_help=True,
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"]},
)


def _version(wanted: bool) -> None:
    if wanted:
        output.write(f"motionkit {__version__}")
        raise typer.Exit


@app.callback(
    epilog="-q, -v, --color and --traceback work after any command too. A command of the training guides can be pasted "
    "after motionkit: motionkit python -m train.train_grpo ... prints the same one with motionkit's names."
)
def root(
    context: typer.Context,
    version: Annotated[
        bool, typer.Option("--version", help="Print the version.", metavar="", is_eager=True, callback=_version)
    ] = False,
    quiet: Annotated[bool, typer.Option("--quiet", "-q", help="Only errors and warnings.", metavar="")] = False,
    verbose: Annotated[
        int,
        typer.Option(
            "--verbose",
            "-v",
            count=True,
            help="More messages; -vv: libraries' too.",
            metavar="",
            show_default=False,
        ),
    ] = 0,
    color: Annotated[
        str, typer.Option("--color", help="auto, always or never. (default: auto)", metavar="WHEN", show_default=False)
    ] = "auto",
    traceback: Annotated[
        bool, typer.Option("--traceback", help="Show where an error was raised (or MOTIONKIT_DEBUG=1).", metavar="")
    ] = False,
) -> None:
    """Teach human-motion models with rewards."""
    if color not in ("auto", "always", "never"):
        raise typer.BadParameter("must be auto, always or never.", param_hint="--color")
    level = logging.WARNING if quiet else logging.DEBUG if verbose else logging.INFO
    if launch_of().quiet:  # process 0 talks for all of them
        level, verbose = logging.CRITICAL, 0
    output.set_up(level=level, colour=color)
    reported = context.invoked_subcommand in ("plugins", "doctor")  # they name broken packages themselves
    for text in (*(() if reported else map(str, plugins.scan().broken)), *plugins.hidden().values(), *shadowed()):
        output.warn(text)
    if verbose > 1:
        logging.basicConfig(level=logging.DEBUG, stream=sys.stderr)
