"""The root command: options that work anywhere on the line, the tree of commands, and exit codes.

A row of the table (`motionkit.cli.table`), or a trainer's entry point, becomes a `LazyCommand` in the `CommandTree`.
"""

from __future__ import annotations

import importlib
import logging
import os
import sys
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import Annotated, Any

import typer
from typer.core import TyperCommand, TyperGroup
from typer.main import get_command as build_command

from motionkit import plugins
from motionkit.cli import _streams, command_line, output, raw_arguments
from motionkit.cli._errors import report
from motionkit.cli._help import import_rich_utils, one_style, put_example, show_whole_names
from motionkit.cli._stop import hearing_signals, refuse_copies, report_stop
from motionkit.cli._streams import aside
from motionkit.cli.table import ELSEWHERE, TRAIN, CommandRow, rows, summary_of
from motionkit.errors import MotionkitError
from motionkit.plugins import packages
from motionkit.plugins.packages import module_exists
from motionkit.training.launch import launch_of
from motionkit.version import __version__

Register = Callable[[typer.Typer], None]
"""Adds a command to an app."""


class LazyCommand(TyperCommand):
    """A command in listings: a name, a summary and a panel. Its module is imported when it runs.

    The real command is built in `make_context`, when the raw arguments are known, because the flags of a settings
    command follow the plugins that those arguments choose. Its module exposes a `motionkit.contracts.console.Command`,
    or ``register(app: typer.Typer) -> None`` if a command has no settings or several are a group.
    """

    def __init__(
        self, name: str, summary: str, panel: str, load: Callable[[], Register], path: str = "", *, hidden: bool = False
    ) -> None:
        super().__init__(name=name, help=summary, short_help=summary, rich_help_panel=panel, add_help_option=False)
        self.hidden = hidden
        self._load = load
        self._path = path or name

    def make_context(self, info_name: str | None, args: list[str], parent: Any = None, **extra: Any) -> Any:
        """Build the real command for `args` and return its context."""
        from motionkit.cli._command import Terminal

        wants_help = "--help" in args or "-h" in args
        if wants_help:
            show_whole_names()
        command = self.build(args)
        part, words = command, args
        path = f"{parent.command_path} {self.name}" if parent is not None else f"motionkit {self.name}"
        if args and args[0] in _below(command):
            part, words, path = command.commands[args[0]], args[1:], f"{path} {args[0]}"
        if not (wants_help or extra.get("resilient_parsing") or _below(part)):
            options = options_of(part)
            # Packages are asked only if there is something to look up.
            if any(_is_foreign(word, options) for word in words):
                from motionkit.cli.unknown import answer_options

                if answer := answer_options(path.removeprefix("motionkit "), words, options):
                    raise answer
        try:
            return command.make_context(info_name, args, parent, obj=Terminal(self.name or ""), **extra)
        except typer.TyperException as error:
            # Only errors of options have one.
            if option := getattr(error, "option_name", ""):
                # setattr: a name of motionkit, for the message
                setattr(error, "others", _commands_with(option))  # noqa: B010
            raise

    def build(self, args: Sequence[str] = ()) -> Any:
        """Return the real command; its options follow the plugins that `args` choose."""
        token = raw_arguments.set(tuple(args))
        try:
            app = typer.Typer(name=self.name, add_completion=False, pretty_exceptions_enable=False)
            with aside(), plugins.catching():
                self._load()(app)
            command = build_command(app)
        finally:
            raw_arguments.reset(token)
        command.name = self.name
        self._describe(command)
        for part in (command, *_below(command).values()):
            if part.callback is not None:
                part.callback = aside()(part.callback)
        return command

    def _describe(self, command: Any) -> None:
        """Add an example and how to list all settings to the help of a command, or of each command of a group."""
        from motionkit.cli.settings import models

        for name, part in {"": command, **_below(command)}.items():
            path = f"{self._path} {name}".strip()
            put_example(part, path, settings=path in models)
            for item in part.params:
                one_style(item, panel="Settings" if path in models else None)
            part.get_help_option = partial(_help_option, part, part.get_help_option)


def _below(command: Any) -> Mapping[str, Any]:
    """Return the commands of a group by name; none of a single command, which click gives no such attribute."""
    found: Mapping[str, Any] = getattr(command, "commands", {})
    return found


def _is_foreign(word: str, options: Mapping[str, bool]) -> bool:
    """Whether a word is an option that the command does not have, or one of Hydra's, ``a.b=c``."""
    name, equals, _ = word.partition("=")
    return (word.startswith("--") and name not in options) or (bool(equals) and "." in name and word[0] != "-")


def _help_option(command: Any, make: Callable[[Any], Any], ctx: Any) -> Any:
    """Return the option ``--help`` in the style of the others: no type, and in an existing panel."""
    option = make(ctx)
    if option is not None:
        # Parameters of click alone have none.
        panels = {getattr(item, "rich_help_panel", None) for item in command.params}
        option.metavar, option.help = "", "Show this help."
        option.rich_help_panel = "Output" if "Output" in panels else None
    return option


class CommandTree(TyperGroup):
    """The commands under one prefix: rows of the table (at the root) and trainers, whose dots nest."""

    prefix = ""  # Dotted prefix of the trainers below; empty at the root
    default = ""  # The trainer that runs if none is named; empty: help is shown

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        """Put the default trainer before options without one; ``--help`` alone is the group's.

        Of unknown options before any command a package may know what was meant.
        """
        named = bool(args) and not args[0].startswith("-")
        if self.default and not named and args not in (["--help"], ["-h"]) and not ctx.resilient_parsing:
            args = [self.default, *args]
        try:
            return super().parse_args(ctx, list(args))
        except typer.TyperException as error:
            if not self.prefix and args and args[0].startswith("--") and (answer := _answer(args)):
                raise answer from error
            raise

    def format_help(self, ctx: Any, formatter: Any) -> None:
        """Print the list of commands."""
        import_rich_utils()
        show_whole_names()
        super().format_help(ctx, formatter)

    def list_commands(self, ctx: Any) -> list[str]:
        """Return the names, trainers first."""
        fixed = [row.name for row in rows()] if not self.prefix else []
        return [*(name for name in self._trainers() if name not in fixed), *fixed]

    def get_command(self, ctx: Any, cmd_name: str) -> Any:
        """Return the command called `cmd_name`, or None."""
        if not self.prefix:
            for row in rows():
                if row.name == cmd_name:
                    return LazyCommand(row.name, row.summary, row.panel, partial(load_register, row), hidden=row.hidden)
        full = f"{self.prefix}{cmd_name}"
        names = self._trainers()
        if full.partition(":")[2] or cmd_name in names:
            entries = _trainer_entries()
            if any(name.startswith(f"{full}.") for name in entries):
                return _subtree(full, cmd_name)
            if full in entries or ":" in full:
                return LazyCommand(cmd_name, _summary(full), TRAIN, partial(_trainer, full), full.replace(".", " "))
        return None

    def resolve_command(self, ctx: Any, args: list[str]) -> tuple[str | None, Any, list[str]]:
        """Find the command that `args` begin with.

        Raises:
            MotionkitError: There is none; the nearest name is suggested, or what a package knows is meant. Or a
                launcher started several processes of a command that is not a trainer.
        """
        command = self.get_command(ctx, args[0])
        if not self.prefix and not ctx.resilient_parsing and any(row.name == args[0] for row in rows()):
            refuse_copies(args[0])
        if command is None and not ctx.resilient_parsing and not self.prefix and (answer := _answer(args)):
            raise answer
        if command is None and not ctx.resilient_parsing and not args[0].startswith("-"):
            from motionkit.config import which_setting

            plugins.available("trainers")  # raises when motionkit runs from a checkout that is not installed
            names = self.list_commands(ctx)
            why, hint = ELSEWHERE.get(args[0], ""), which_setting(args[0], names)
            if owner := packages.owner_of(f"{self.prefix}{args[0]}".replace(".", " ")):
                why, hint = f"the package {owner} has it, and is not installed", f"{plugins.INSTALL_FIX};"
            raise MotionkitError(
                f"there is no command '{ctx.command_path} {args[0]}'.",
                why=f"{why}." if why else "",
                fix=f"{hint} {ctx.command_path} --help".strip(),
                choices=names,
            )
        if command is None:
            return super().resolve_command(ctx, args)
        return args[0], command, args[1:]

    def _trainers(self) -> list[str]:
        names = dict.fromkeys(
            name.removeprefix(self.prefix).partition(".")[0]
            for name in _trainer_entries()
            if name.startswith(self.prefix)
        )
        return list(names)


def options_of(command: Any) -> dict[str, bool]:
    """Return the options of a command, each with whether it takes a value."""
    options = [item for item in command.params if item.param_type_name == "option"]
    return {name: not item.is_flag for item in options for name in (*item.opts, *item.secondary_opts)}


def _commands_with(option: str) -> list[str]:
    """Return the names of motionkit's commands that have an option, with the plugins that they choose by default."""
    names = {option, option.replace("_", "-")}
    commands = {name: built_in(name) for name in _single_names()} | _evaluations()
    return [name for name, command in commands.items() if names & options_of(command).keys()]


def command_names() -> list[str]:
    """Return the names of motionkit's commands; of groups only those of `eval`, which take models as others do."""
    return [*_single_names(), *_evaluations()]


def _single_names() -> list[str]:
    trainers = [entry.name.replace(".", " ") for entry in plugins.scan().of("trainers") if entry.builtin]
    ours = [row.name for row in rows() if row.builtin]
    return [*trainers, *(name for name in ours if name not in ("runs", "config", "plugins", "eval"))]


def _evaluations() -> dict[str, Any]:
    return {f"eval {kind}": command for kind, command in _below(built_in("eval")).items()}


def built_in(name: str) -> Any:
    """Return motionkit's command called `name` (``pretrain mdm``) with its default options; None if there is none."""
    first, _, kind = name.partition(" ")
    for row in rows():
        if row.name == first:
            command = LazyCommand(first, "", "", partial(load_register, row)).build()
            return _below(command).get(kind) if kind else command
    for entry in plugins.scan().of("trainers"):
        if entry.builtin and entry.name == name.replace(" ", "."):
            return LazyCommand(name, "", "", partial(_trainer, f"motionkit:{entry.name}")).build()
    return None


def _answer(args: Sequence[str]) -> MotionkitError | None:
    """Return what a package knows of a line that begins with no command."""
    from motionkit.cli.unknown import answer_line

    return answer_line(args, lambda name: options_of(found) if (found := built_in(name)) is not None else {})


def load_register(row: CommandRow) -> Register:
    """Import a command's module and return what registers the command."""
    from motionkit.cli._command import register_command
    from motionkit.contracts.console import Command

    module, _, attribute = row.target.partition(":")
    found = plugins.load(row.entry) if row.entry is not None else getattr(importlib.import_module(module), attribute)
    if isinstance(found, Command):
        return partial(register_command, found)
    if not callable(found):
        raise MotionkitError(
            f"{row.target} of package {row.package!r} is a {type(found).__name__}, not a motionkit Command.",
            fix="NAME = motionkit.contracts.console.Command(function, Settings)",
        )
    registered: Register = found
    return registered


def _trainer(name: str) -> Register:
    from motionkit.cli._trainer import trainer_command

    return partial(trainer_command, name)


def _subtree(prefix: str, name: str) -> TyperGroup:
    default = packages.default(prefix)
    if f"{prefix}.{default}" not in _trainer_entries():
        default = ""
    app = typer.Typer(
        name=name,
        cls=type("Tree", (CommandTree,), {"prefix": f"{prefix}.", "default": default}),
        add_completion=False,
        no_args_is_help=not default,
    )
    summary = _summary(prefix)
    text = f"{summary}\n\nWithout a model it is motionkit {prefix} {default}." if default else summary

    @app.callback(help=text)
    def group() -> None: ...

    command = build_command(app)
    assert isinstance(command, TyperGroup)
    command.name, command.short_help, command.rich_help_panel = name, summary, TRAIN
    return command


def _trainer_entries() -> list[str]:
    """Return the names of installed trainers whose module exists, without names of fixed commands."""
    fixed = {row.name for row in rows()}
    entries = plugins.scan().of("trainers")
    return [e.name for e in entries if e.name not in fixed and module_exists(e.value.partition(":")[0])]


def shadowed() -> list[str]:
    """Return a sentence for each trainer and command that is ignored, because its name is taken."""
    used = {row.entry for row in rows()}
    taken = {row.name: row.package for row in rows()}
    trainers = plugins.scan().of("trainers")
    ours = {entry.name.partition(".")[0]: entry.distribution for entry in trainers if entry.builtin}
    ignored = [(entry, {**ours, **taken}.get(entry.name, "")) for entry in plugins.scan().of("commands")]
    ignored = [(entry, owner) for entry, owner in ignored if entry not in used]
    for entry in trainers:
        below = [other for other in trainers if other.name.startswith(f"{entry.name}.")]
        # Packages may add to a group of motionkit's, such as pretrain, which stays motionkit's.
        owner = max(below, key=lambda other: other.builtin).distribution if below else taken.get(entry.name, "")
        ignored.append((entry, owner))
    return [
        f"{entry.kind.removesuffix('s')} {entry.name!r} of package {entry.distribution!r} is ignored: "
        f"{owner} has that command"
        for entry, owner in ignored
        if owner
    ]


def _summary(name: str) -> str:
    fixed = packages.about(name.replace(".", " "), "summary")
    entries = [e for e in plugins.scan().of("trainers") if e.name == name or e.name.startswith(f"{name}.")]
    if fixed and any(entry.builtin for entry in entries):
        return fixed
    for entry in entries:
        if not entry.builtin:
            return summary_of(entry.distribution) or f"A trainer of {entry.distribution}."
    return fixed


def debug() -> bool:
    """Whether the user asked for tracebacks by MOTIONKIT_DEBUG."""
    return os.environ.get("MOTIONKIT_DEBUG", "") not in ("", "0")


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
            # An error before processes join is the same in all of them: one per machine prints it.
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


@app.callback(epilog="-q, -v, --color and --traceback work after any command too." + packages.words("other lines"))
def root(
    context: typer.Context,
    version: Annotated[
        bool, typer.Option("--version", help="Print the version.", metavar="", is_eager=True, callback=_version)
    ] = False,
    quiet: Annotated[bool, typer.Option("--quiet", "-q", help="Only errors and warnings.", metavar="")] = False,
    verbose: Annotated[
        int,
        typer.Option(
            "--verbose", "-v", count=True, help="More messages; -vv: libraries' too.", metavar="", show_default=False
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
    if launch_of().quiet:  # process 0 prints for all of them
        level, verbose = logging.CRITICAL, 0
    output.set_up(level=level, colour=color)
    reported = context.invoked_subcommand in ("plugins", "doctor")  # they name broken packages themselves
    for text in (*(() if reported else map(str, plugins.scan().broken)), *plugins.hidden().values(), *shadowed()):
        output.warn(text)
    if verbose > 1:
        logging.basicConfig(level=logging.DEBUG, stream=sys.stderr)
