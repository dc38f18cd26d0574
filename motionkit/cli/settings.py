"""Commands whose options are settings: files, variables, ``--set``, plugins and their options, ``--dry-run``.

A command has one option for each marked field of its settings and for each option of a chosen plugin (`Flag`). Every
option is text for Typer: pydantic parses it later, together with what files and variables hold, so that all problems
are reported at once. An option that is not given is None, so that the values of lower layers count.
"""

from __future__ import annotations

import inspect
import re
import shlex
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from types import GenericAlias
from typing import Annotated, Any, TypeVar

import typer
from typer.core import TyperCommand

from motionkit import plugins
from motionkit.cli import output, raw_arguments
from motionkit.config import Draft, Given, Group, Leaf, Resolved, Settings, Slot, dotted, leaves, read_layers, slots_of
from motionkit.errors import MotionkitError

S = TypeVar("S", bound=Group)

models: dict[str, type[Group]] = {}
"""Settings of every command built so far, by its name, for `motionkit config`."""

_ELSEWHERE = "Settings from elsewhere"
"""Heading of ``--config`` and ``--set`` in help."""

_WEIGHTS = (".pt", ".pth", ".ckpt", ".tar", ".safetensors")
"""Endings of files of weights."""


@dataclass(frozen=True)
class Flag:
    """One option of a command."""

    names: tuple[str, ...]  # Its spellings, the first shown first
    path: tuple[str, ...]  # Key it sets
    # Type for Typer: ``str``, ``list[str]`` for a repeatable option, ``bool`` for a switch, a tuple for several words.
    kind: Any
    help: str  # Description with limits and default, plain text
    metavar: str  # Placeholder of its value
    panel: str  # Help panel
    hidden: bool = False  # Keep it out of help (it still works)
    words: tuple[str, ...] = ()  # Completions of its value

    @property
    def spellings(self) -> set[str]:
        """Every name, both ``--lora`` and ``--no-lora``."""
        return {part for name in self.names for part in name.split("/")}

    def parameter(self, index: int) -> inspect.Parameter:
        """Return it as a keyword-only parameter of a Typer callback."""
        option = typer.Option(
            *self.names,
            help=self.help.replace("[", "\\["),
            metavar=self.metavar,
            show_default=False,
            rich_help_panel=self.panel,
            hidden=self.hidden,
            autocompletion=self._complete if self.words else None,
        )
        name = f"p{index}_{re.sub(r'[^a-z0-9]+', '_', '_'.join(self.path).lower())}"
        return inspect.Parameter(
            name, inspect.Parameter.KEYWORD_ONLY, default=None, annotation=Annotated[self.kind | None, option]
        )

    def _complete(self, incomplete: str) -> list[str]:
        return [word for word in self.words if word.startswith(incomplete)]


def flags(draft: Draft[Any]) -> list[Flag]:
    """Return the options of a command whose plugins are chosen.

    Raises:
        TypeError: Two settings of the model have one flag.
    """
    prefixed = {name for name, slot in draft.picks.slots.items() if not slot.spread}
    listed = [_choice(draft, name, slot) for name, slot in draft.picks.slots.items()]
    options: list[Leaf] = []
    for leaf in leaves(draft.model):
        if leaf.cli is not None and leaf.cli.hidden:
            continue
        if leaf.path[0] in prefixed and len(leaf.path) > 1:
            options.append(leaf)
        elif leaf.cli is not None:
            panel = leaf.path[0].replace("_", " ").capitalize() if len(leaf.path) > 1 else "Settings"
            listed.append(_flag(leaf, (leaf.flag,), leaf.path, leaf.cli.panel or panel))
    owners: dict[str, tuple[str, ...]] = {}
    for flag in listed:
        for name in flag.spellings:
            if name in owners:
                raise TypeError(f"{'.'.join(owners[name])} and {'.'.join(flag.path)} both have the flag {name}")
            owners[name] = flag.path
    for flag in _option_flags(draft, options):
        names = tuple(name for name in flag.names if not owners.keys() & set(name.split("/")))
        owners |= dict.fromkeys(flag.spellings, flag.path)
        listed += [replace(flag, names=names)] if names else []
    return listed


def _choice(draft: Draft[Any], name: str, slot: Slot) -> Flag:
    """Return the flag that chooses the plugin of a slot."""
    names = tuple(plugins.fitting(slot.kind, gives=slot.gives, reads=slot.reads))
    description = draft.declared.model_fields[name].description
    text = description or plugins.KINDS[slot.kind].question or f"Which {name.replace('_', ' ')} to use."
    listed = f" One of: {', '.join(names)}; or DIST:NAME, ./file.py:obj." if names else ""
    help_text = f"{text}{listed} (default: {', '.join(slot.default) or 'none'})"
    kind, metavar = (list[str], "NAME[=WEIGHT]") if slot.many else (str, "NAME")
    return Flag((dotted((name,)),), (name,), kind, help_text, metavar, "What", words=names)


def _option_flags(draft: Draft[Any], options: Sequence[Leaf]) -> Iterator[Flag]:
    """Yield the flags of plugin options: ``--reward.alpha`` and ``--reward.tmr-dense.alpha``.

    The short one is shown if only one chosen plugin has the option. If several have it the short one is hidden, and
    refused with an explanation when it is used.
    """
    slots, owners = draft.picks.slots, dict[tuple[str, ...], list[str]]()
    for leaf in options:
        if slots[leaf.path[0]].many:
            owners.setdefault((leaf.path[0], *leaf.path[2:]), []).append(leaf.path[1])
    for leaf in options:
        slot, (name, *rest) = slots[leaf.path[0]], leaf.path
        alias = (leaf.cli.flag,) if leaf.cli is not None and leaf.cli.flag else ()
        title = plugins.KINDS[slot.kind].singular.capitalize()
        if not slot.many:
            yield _flag(
                leaf, (dotted(leaf.path), *alias), leaf.path, f"{title} {plugins.label(draft.picks.of[name][0].name)}"
            )
            continue
        label, short = plugins.label(rest[0]), (name, *rest[1:])
        shared, panel = len(owners[short]) > 1, f"{title} {label}"
        yield _flag(leaf, (dotted((name, label, *rest[1:])),), leaf.path, panel, hidden=not shared)
        if owners[short][0] == rest[0]:
            yield _flag(leaf, (dotted(short), *alias), short, panel, hidden=shared)


def _flag(leaf: Leaf, names: tuple[str, ...], path: tuple[str, ...], panel: str, *, hidden: bool = False) -> Flag:
    default = f"default: {leaf.default_text}" if leaf.default_text not in ("", "required") else leaf.default_text
    facts = "; ".join(part for part in (leaf.limits, default) if part)
    words = leaf.cli.values if leaf.cli is not None else 1
    return Flag(
        names=tuple(_switch(name) if leaf.is_switch else name for name in names),
        path=path,
        kind=_kind(leaf, words),
        help=f"{leaf.help} ({facts})" if facts else leaf.help,
        metavar=_metavar(leaf, words),
        panel=panel,
        hidden=hidden,
        words=leaf.choices,
    )


def _kind(leaf: Leaf, words: int) -> Any:
    if words > 1:
        return GenericAlias(tuple, (str,) * words)
    return bool if leaf.is_switch else list[str] if leaf.is_many else str


def _metavar(leaf: Leaf, words: int) -> str:
    if leaf.is_switch:
        return ""
    if words > 1:
        return leaf.type_name.replace(",", " ")
    return f"<{leaf.type_name}>" if leaf.choices else leaf.type_name


def _switch(name: str) -> str:
    positive = "--" + name.removeprefix("--no-") if name.startswith("--no-") else name
    return f"{positive}/--no-{positive.removeprefix('--')}"


def add_command(
    app: typer.Typer,
    model: type[S],
    run: Callable[[Resolved[S], bool, bool, dict[str, Any]], None],
    name: str,
    *,
    like: Callable[..., Any] | None = None,
    help: str | None = None,
    words: Callable[[list[str]], list[str]] | None = None,
) -> None:
    """Register `run(resolved, dry_run, as_json, arguments)` with the options of `model`.

    Args:
        app: The Typer app.
        model: Settings.
        run: Called with the resolved settings.
        name: Name of the command, for hints.
        like: Function with its other parameters, after ``settings`` and ``console``; its docstring is the help.
        help: Help, instead of that docstring.
        words: Changes what was typed before it is parsed.
    """
    models[name] = model
    draft, unreadable = _draft(model, raw_arguments.get(), name)
    options = flags(draft)
    like_parameters = inspect.signature(like, eval_str=True).parameters.values() if like is not None else ()
    others = [parameter for parameter in like_parameters if parameter.name not in ("settings", "console")]
    parameters = [option.parameter(index) for index, option in enumerate(options)]
    paths = {parameter.name: option.path for parameter, option in zip(parameters, options, strict=True)}

    def callback(**values: Any) -> None:
        typed = dict(zip(paths.values(), map(values.get, paths), strict=True))  # None where a flag was not given
        if unreadable is not None:
            raise unreadable
        with plugins.catching():  # options may have validators
            resolved = draft.resolve(typed, command=name)
        for warning in resolved.warnings:
            output.warn(warning)
        for note in resolved.notes:
            output.say(note)
        arguments = {parameter.name: values[parameter.name] for parameter in others}
        run(resolved, values["dry_run"], values["as_json"], arguments)

    common = [
        _option("config_files", list[Path], "FILE", "Settings file (TOML, JSON, YAML) or a run folder; repeatable, "
                "the last wins.", _ELSEWHERE, "--config"),
        _option("set_values", list[str], "KEY=VALUE", "Any setting by its key, flag or not; repeatable.",
                _ELSEWHERE, "--set"),
        _option("dry_run", bool, "", "Show every setting and where it comes from; do nothing.", "Output", "--dry-run"),
        _option("as_json", bool, "", "Print one JSON document on stdout.", "Output", "--json"),
    ]  # fmt: skip
    merged = [parameter.replace(kind=inspect.Parameter.KEYWORD_ONLY) for parameter in others] + parameters + common
    # setattr: a function's signature is not an attribute that type checkers know
    setattr(callback, "__signature__", inspect.Signature(merged))  # noqa: B010
    callback.__annotations__ = {parameter.name: parameter.annotation for parameter in merged}
    callback.__doc__ = help or inspect.getdoc(like) or inspect.getdoc(model)
    app.command(name.rpartition(" ")[2], cls=_reading(words) if words is not None else None)(callback)


def _reading(words: Callable[[list[str]], list[str]]) -> type[TyperCommand]:
    """Return the class of a command that reads what `words` makes of the words that were typed."""

    class Reading(TyperCommand):
        def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
            return super().parse_args(ctx, words(args))

    return Reading


def show_plan(name: str, resolved: Resolved[Any], plan: Mapping[str, Any], *, as_json: bool) -> None:
    """Print the result of a dry run: every setting with its origin, and the plan of the command."""
    if as_json:
        document = {
            "command": name,
            "dry_run": True,
            "settings": resolved.snapshot(),
            "origins": dict(resolved.origins),
        }
        output.emit({**document, "plan": dict(plan)}, json=True)
        return
    rows = resolved.rows()
    width = max((len(key) for key, _, _ in rows), default=0)
    for key, value, origin in rows:
        output.write(f"{key:<{width}} = {show(value)}  ({origin})")
    for key, value in plan.items():
        numbers = isinstance(value, list) and all(isinstance(item, (int, float)) for item in value)
        for line in value if isinstance(value, list) and not numbers else [value]:
            output.write(f"plan: {key} = {show(line)}")


def show(value: Any) -> str:
    """Return a setting's value as written in ``--set``."""
    if isinstance(value, (list, tuple)):
        return ",".join(show(item) for item in value)
    if value is None or isinstance(value, bool):
        return {None: "none", True: "true", False: "false"}[value]
    return str(value) if value != "" else '""'


def _draft(model: type[S], raw: Sequence[str], command: str) -> tuple[Draft[S], MotionkitError | None]:
    """Read files and variables, and choose the plugins, from the raw arguments.

    Returns:
        The draft, and an error of reading; it is raised when the arguments are parsed, so that help works.
    """
    typed = _typed(raw)
    chosen: dict[tuple[str, ...], Any] = {}
    for name, slot in slots_of(model).items():
        if words := typed.get(dotted((name,))):
            chosen[name,] = words if slot.many else words[-1]
    files = [Path(item) for item in typed.get("--config", ())]
    try:
        files[:0] = [
            _config_of(resumed, command, init="init" in model.model_fields)
            for resumed in typed.get("--resume", ())[-1:]
        ]
        layers = read_layers(model, Given(chosen, typed.get("--set", ()), files))
        if issubclass(model, Settings) and (below := model.inherited(layers, typed)) is not None:
            layers.insert(0, below)
    except MotionkitError as error:
        return Draft(model, read_layers(model, Given(chosen))), error
    return Draft(model, layers, list(typed)), None


def _typed(raw: Sequence[str]) -> dict[str, list[str]]:
    """Return the options of a command line, each with its values."""
    options: dict[str, list[str]] = {}
    for index, item in enumerate(raw):
        if item == "--":
            break
        flag, equals, value = item.partition("=")
        if flag.startswith("--"):
            options.setdefault(flag, []).extend([value] if equals else raw[index + 1 : index + 2])
    return options


def _config_of(name: str, command: str, *, init: bool) -> Path:
    """Return the settings file of the run that is resumed: the lowest layer, so that flags and files win.

    Args:
        name: The run: its folder, a checkpoint in it, or its whole name.
        command: Name of the command.
        init: Whether the command can start from the weights in a file.
    """
    from motionkit.runs import locate, refuse_command, to_change

    path = Path(name)
    if path.suffix.lower() in _WEIGHTS and path.is_file():
        raise MotionkitError(
            f"{path} is a file of weights, which cannot be resumed.",
            why="a run continues with its optimiser, learning rate, step and random numbers; the file lacks them.",
            fix=f"--init {shlex.quote(str(path))} starts from what fits of it, --resume RUN continues a run."
            if init
            else "--resume RUN continues a run.",
        )
    to_change(name, checkpoint=True)
    directory, _, record, _ = locate(path)
    refuse_command(record, command, directory)
    return directory / "config.json"


def _option(name: str, kind: Any, metavar: str, help: str, panel: str, flag: str) -> inspect.Parameter:
    option = typer.Option(flag, help=help, metavar=metavar, show_default=False, rich_help_panel=panel)
    default, kind = (False, bool) if kind is bool else (None, kind | None)
    return inspect.Parameter(name, inspect.Parameter.KEYWORD_ONLY, default=default, annotation=Annotated[kind, option])
