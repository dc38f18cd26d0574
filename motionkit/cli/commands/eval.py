"""``motionkit eval PROTOCOL ...``: a model measured by a protocol, an entry of the group ``motionkit.protocols``."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from functools import partial
from typing import Annotated, Any

import typer
from typer.core import TyperGroup

from motionkit import plugins
from motionkit.cli import output
from motionkit.cli._app import LazyCommand
from motionkit.cli._command import Terminal, present
from motionkit.cli._places import require_places
from motionkit.cli.settings import add_command, show_plan
from motionkit.config import Resolved
from motionkit.contracts.protocol import (
    Argument,
    ProtocolSettings,
    Result,
    build_protocol,
    explained,
    figure_table,
    measured,
)
from motionkit.errors import MotionkitError
from motionkit.plugins import packages


def _place(name: str) -> int:
    """Return the place of a protocol in help; those of other packages come last."""
    listed = packages.commands()
    return listed.index(f"eval {name}") if f"eval {name}" in listed else len(listed)


class Protocols(TyperGroup):
    """The protocols; a model in place of a name selects its protocol, and no word at all the usual one.

    Those of other packages are imported on use: help must not run code that may hang or exit.
    """

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        """Insert the protocol if it was left out."""
        if not args or (args[0].startswith("-") and args[0] not in ("-h", "--help")):
            usual = packages.default("eval")
            args = [usual, *args] if usual else args
        elif not (args[0].startswith("-") or ctx.resilient_parsing or _is_protocol(args[0])):
            from motionkit.contracts.evaluation import protocol_of

            args = [protocol_of(args[0], self.list_commands(ctx)), *args]
        return super().parse_args(ctx, args)

    def list_commands(self, ctx: Any) -> list[str]:
        """Return the names: those of motionkit first."""
        others = (entry.name for entry in plugins.scan().of("protocols") if not entry.builtin)
        return list(dict.fromkeys([*self.commands, *others]))

    def get_command(self, ctx: Any, cmd_name: str) -> Any:
        """Return the command of a protocol; that of another package is built when it runs."""
        if cmd_name in self.commands:
            return self.commands[cmd_name]
        if not _is_protocol(cmd_name):
            return None
        path = f"eval {cmd_name}"
        return LazyCommand(cmd_name, _summary(cmd_name), "", lambda: partial(protocol_command, cmd_name), path)


def _is_protocol(name: str) -> bool:
    entries = plugins.scan().of("protocols")
    known = {name for entry in entries for name in (entry.name, f"{entry.distribution}:{entry.name}")}
    return plugins.is_file(name) or name in known


def _summary(name: str) -> str:
    match = next((entry for entry in plugins.scan().of("protocols") if entry.name == name), None)
    return f"A protocol of {match.distribution}." if match is not None else ""


def register(app: typer.Typer) -> None:
    """Add the group, with the protocols of motionkit."""

    @app.callback(cls=Protocols)
    def group() -> None:
        """Measure a model by a named protocol; without a name, by the one that suits the model.

        Example: motionkit eval runs/grpo/first
        """

    names = [entry.name for entry in plugins.available("protocols") if entry.builtin]
    for name in sorted(names, key=_place):
        protocol_command(name, app)


def protocol_command(name: str, app: typer.Typer) -> None:
    """Register the protocol called `name` on `app`."""
    component = plugins.get("protocols", name, typed=True)
    model = component.options
    label = f"eval {plugins.label(name)}"
    if not issubclass(model, ProtocolSettings):
        raise MotionkitError(
            f"the settings of protocol {name!r} are not ProtocolSettings.",
            fix="class MySettings(motionkit.contracts.protocol.ProtocolSettings): ...",
        )

    def run(resolved: Resolved[ProtocolSettings], dry_run: bool, as_json: bool, given: dict[str, Any]) -> None:
        settings = resolved.settings
        require_places(settings)
        words = [
            given[_name(place)] or [] if argument.many else given[_name(place)]
            for place, argument in enumerate(model.arguments)
        ]
        if dry_run:
            with plugins.catching(component.factory.partition(":")[0]):
                plan = dict(settings.plan(*words))
            show_plan(label, resolved, plan, as_json=as_json)
            return
        if given.get("explain"):
            _show(label, explained(plugins.label(name), component), as_json=as_json)
            return
        output.say(f"{label}: loading torch, data and weights")
        protocol = build_protocol(plugins.label(name), component, settings, Terminal(label))
        _show(label, measured(plugins.label(name), protocol, words), as_json=as_json)

    add_command(
        app,
        model,
        run,
        label,
        like=_like(model),
        help=inspect.cleandoc(vars(model).get("__doc__") or component.summary),
    )


def _name(place: int) -> str:
    return f"word{place}"


def _like(model: type[ProtocolSettings]) -> Callable[..., None]:
    """Return a function with the arguments and switches of a protocol's command besides settings."""

    def like(settings: ProtocolSettings) -> None: ...

    parameters = [*inspect.signature(like).parameters.values()]
    parameters += [_word(place, argument) for place, argument in enumerate(model.arguments)]
    if model.explains:
        option = typer.Option("--explain", help="Print what each figure means, and exit.", metavar="")
        parameters.append(_parameter("explain", bool, option, False))
    # setattr: a function's signature is not an attribute that type checkers know
    setattr(like, "__signature__", inspect.Signature(parameters))  # noqa: B010
    return like


def _word(place: int, argument: Argument) -> inspect.Parameter:
    option = typer.Argument(metavar=argument.metavar, help=argument.help)
    if argument.many:
        needed = argument.required
        return _parameter(_name(place), list[str] if needed else list[str] | None, option, ... if needed else None)
    return _parameter(_name(place), str, option, ... if argument.default is None else argument.default)


def _parameter(name: str, kind: Any, option: Any, default: Any) -> inspect.Parameter:
    empty = inspect.Parameter.empty if default is ... else default
    keyword = inspect.Parameter.POSITIONAL_OR_KEYWORD
    return inspect.Parameter(name, keyword, default=empty, annotation=Annotated[kind, option])


def _show(label: str, result: Result, *, as_json: bool) -> None:
    """Print a result: the document alone, or text or tables, then closing lines and commands to type next."""
    document = dict(result.document)
    tables = list(result.tables)
    if result.figures:
        document["figures"] = dict(result.figures)
        tables = tables or [figure_table(result.figures)]
    shown = {"text": result.text} if result.text else {"table": tables}
    present(label, {**document, **shown, "closing": result.closing, "next": result.next}, as_json=as_json)
