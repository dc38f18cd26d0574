"""Commands whose options are settings: files, variables, ``--set``, plugins and their options, ``--dry-run``.

A command has one option for each marked field of its settings and for each option of a chosen plugin (`options`). Every
option is text for Typer: pydantic parses it later, together with what files and variables hold, so that all problems
are reported at once. An option that is not given is None, so that the values of lower layers count.

A command is built before Typer parses its words, but its options depend on the plugins that these choose. `add_command`
reads the choices from the raw words, which is enough for the options (`motionkit.config.concrete`). Once the words are
parsed, `motionkit.config.resolve_layers` picks the plugins by what Typer found, and makes the settings.
"""

from __future__ import annotations

import inspect
import shlex
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from types import GenericAlias
from typing import Annotated, Any, TypeVar

import typer
from pydantic import BaseModel
from typer.core import TyperCommand

from motionkit import plugins
from motionkit.cli import output, raw_arguments
from motionkit.config import (
    Layer,
    Leaf,
    Resolved,
    Settings,
    Slot,
    concrete,
    dotted,
    flag_layer,
    leaves,
    read_layers,
    resolve_layers,
    slots_of,
)
from motionkit.errors import MotionkitError

S = TypeVar("S", bound=Settings)

models: dict[str, type[Settings]] = {}
"""Settings of every command built so far, by its name, for `motionkit config`."""

_ELSEWHERE = "Settings from elsewhere"
"""Heading of ``--config`` and ``--set`` in help."""

_WEIGHTS = (".pt", ".pth", ".ckpt", ".tar", ".safetensors")
"""Endings of files of weights."""


Key = tuple[str, ...]
"""Path of a setting."""


def options(model: type[BaseModel], shape: type[BaseModel]) -> dict[Key, Any]:
    """Return the options of a command by the key that each sets, as annotations of Typer parameters.

    Their types are ``str``, ``list[str]`` for a repeatable option, ``bool`` for a switch, a tuple for several words.

    Args:
        model: Settings.
        shape: The settings with the options of the chosen plugins (`motionkit.config.concrete`).

    Raises:
        TypeError: Two settings of the model have one flag.
    """
    slots = slots_of(model)
    found: dict[Key, Any] = {(name,): _choice(model, name, slot) for name, slot in slots.items()}
    owners = {dotted(key): key for key in found}
    of_plugins: list[Leaf] = []
    for leaf in leaves(shape):
        if leaf.cli is not None and leaf.cli.hidden:
            continue
        if len(leaf.path) > 1 and leaf.path[0] in slots:
            of_plugins.append(leaf)
        elif leaf.cli is not None:
            panel = leaf.path[0].replace("_", " ").capitalize() if len(leaf.path) > 1 else "Settings"
            for name in _spellings(leaf, leaf.flag):
                if name in owners:
                    raise TypeError(f"{'.'.join(owners[name])} and {leaf.key} both have the flag {name}")
                owners[name] = leaf.path
            found[leaf.path] = _option_of(leaf, [leaf.flag], leaf.cli.panel or panel)
    for key, leaf, flags, panel, hidden in _of_plugins(shape, slots, of_plugins):
        free = [flag for flag in flags if not owners.keys() & _spellings(leaf, flag)]
        owners |= {name: key for flag in flags for name in _spellings(leaf, flag)}
        if free:
            found[key] = _option_of(leaf, free, panel, hidden=hidden)
    return found


def _choice(model: type[BaseModel], name: str, slot: Slot) -> Any:
    """Return the option that chooses the plugin of a slot."""
    names = plugins.fitting(slot.kind, gives=slot.gives, reads=slot.reads)
    description = model.model_fields[name].description
    text = description or plugins.KINDS[slot.kind].question or f"Which {name.replace('_', ' ')} to use."
    listed = f" One of: {', '.join(names)}; or DIST:NAME, ./file.py:obj." if names else ""
    help_text = f"{text}{listed} (default: {', '.join(slot.default) or 'none'})"
    kind, metavar = (list[str], "NAME[=WEIGHT]") if slot.many else (str, "NAME")
    return _option([dotted((name,))], kind, metavar, help_text, "What", words=names)


def _of_plugins(
    shape: type[BaseModel], slots: Mapping[str, Slot], found: Sequence[Leaf]
) -> Iterator[tuple[Key, Leaf, list[str], str, bool]]:
    """Yield key, setting, flags, panel and whether it is hidden for the options of plugins.

    One of a slot for several has two: ``--reward.alpha`` and ``--reward.tmr-dense.alpha``. The short one is shown if
    only one chosen plugin has the option. If several have it the short one is hidden, and refused with an explanation
    when it is used.
    """
    owners: dict[Key, list[str]] = {}
    for leaf in found:
        if slots[leaf.path[0]].many:
            owners.setdefault((leaf.path[0], *leaf.path[2:]), []).append(leaf.path[1])
    for leaf in found:
        slot, (name, *rest) = slots[leaf.path[0]], leaf.path
        alias = [leaf.cli.flag] if leaf.cli is not None and leaf.cli.flag else []
        title = plugins.KINDS[slot.kind].singular.capitalize()
        if not slot.many:
            panel = f"{title} {plugins.label(shape.model_fields[name].title or '')}"
            yield leaf.path, leaf, [dotted(leaf.path), *alias], panel, False
            continue
        label, short = plugins.label(rest[0]), (name, *rest[1:])
        shared, panel = len(owners[short]) > 1, f"{title} {label}"
        yield leaf.path, leaf, [dotted((name, label, *rest[1:]))], panel, not shared
        if owners[short][0] == rest[0]:
            yield short, leaf, [dotted(short), *alias], panel, shared


def _option_of(leaf: Leaf, flags: Sequence[str], panel: str, *, hidden: bool = False) -> Any:
    """Return the option of a setting."""
    default = f"default: {leaf.default_text}" if leaf.default_text not in ("", "required") else leaf.default_text
    facts = "; ".join(part for part in (leaf.limits, default) if part)
    words = leaf.cli.values if leaf.cli is not None else 1
    kind: Any = str
    metavar = f"<{leaf.type_name}>" if leaf.choices else leaf.type_name
    if words > 1:
        kind, metavar = GenericAlias(tuple, (str,) * words), leaf.type_name.replace(",", " ")
    elif leaf.is_switch:
        kind, metavar = bool, ""
    elif leaf.is_many:
        kind = list[str]
    names = ["/".join(sorted(_spellings(leaf, flag), key=len)) for flag in flags]
    text = f"{leaf.help} ({facts})" if facts else leaf.help
    return _option(names, kind, metavar, text, panel, hidden=hidden, words=leaf.choices)


def _spellings(leaf: Leaf, flag: str) -> set[str]:
    """Return a flag, and for a switch both forms: ``--lora`` and ``--no-lora``."""
    bare = flag.removeprefix("--no-").removeprefix("--")
    return {f"--{bare}", f"--no-{bare}"} if leaf.is_switch else {flag}


def _option(
    names: Sequence[str],
    kind: Any,
    metavar: str,
    help: str,
    panel: str,
    *,
    hidden: bool = False,
    words: Sequence[str] = (),
) -> Any:
    """Return the annotation of an option; None is its value if it is not given.

    Args:
        names: Its spellings, the first shown first.
        kind: Its type.
        metavar: Placeholder of its value.
        help: Description, plain text.
        panel: Help panel.
        hidden: Keep it out of help (it still works).
        words: Completions of its value.
    """

    def complete(incomplete: str) -> list[str]:
        return [word for word in words if word.startswith(incomplete)]

    # Types, not their names, which Typer would compile for every option.
    complete.__annotations__ = {"incomplete": str, "return": list[str]}
    option = typer.Option(
        *names,
        help=help.replace("[", "\\["),
        metavar=metavar,
        show_default=False,
        rich_help_panel=panel,
        hidden=hidden,
        autocompletion=complete if words else None,
    )
    return Annotated[kind | None, option]


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
    typed = _typed(raw_arguments.get())
    layers, unreadable = _read(model, typed, name)
    found = options(model, concrete(model, layers, [] if unreadable else list(typed)))
    keys = {f"p{number}": key for number, key in enumerate(found)}
    like_parameters = inspect.signature(like, eval_str=True).parameters.values() if like is not None else ()
    others = [parameter for parameter in like_parameters if parameter.name not in ("settings", "console")]

    def callback(**values: Any) -> None:
        if unreadable is not None:
            raise unreadable
        given = flag_layer(model, {key: values[parameter] for parameter, key in keys.items()})
        with plugins.catching():  # options may have validators
            resolved = resolve_layers(model, [*layers[:-1], given], command=name)
        for warning in resolved.warnings:
            output.warn(warning)
        for note in resolved.notes:
            output.say(note)
        arguments = {parameter.name: values[parameter.name] for parameter in others}
        run(resolved, values["dry_run"], values["as_json"], arguments)

    parameters = [
        *(_parameter(parameter, annotation) for parameter, annotation in zip(keys, found.values(), strict=True)),
        _parameter("config_files", _option(["--config"], list[Path], "FILE", "Settings file (TOML, JSON, YAML) or a "
                   "run folder; repeatable, the last wins.", _ELSEWHERE)),
        _parameter("set_values", _option(["--set"], list[str], "KEY=VALUE", "Any setting by its key, flag or not; "
                   "repeatable.", _ELSEWHERE)),
        _parameter("dry_run", _option(["--dry-run"], bool, "", "Show every setting and where it comes from; do "
                   "nothing.", "Output"), False),
        _parameter("as_json", _option(["--json"], bool, "", "Print one JSON document on stdout.", "Output"), False),
    ]  # fmt: skip
    merged = [parameter.replace(kind=inspect.Parameter.KEYWORD_ONLY) for parameter in others] + parameters
    # setattr: a function's signature is not an attribute that type checkers know
    setattr(callback, "__signature__", inspect.Signature(merged))  # noqa: B010
    callback.__annotations__ = {}  # the signature has them; Typer would resolve them once more
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


def _read(
    model: type[Settings], typed: Mapping[str, Sequence[str]], command: str
) -> tuple[list[Layer], MotionkitError | None]:
    """Read files and variables, with the plugins that the raw arguments choose in place of the flags.

    Returns:
        The layers, and an error of reading; it is raised when the arguments are parsed, so that help works.
    """
    chosen: dict[Key, Any] = {}
    for name, slot in slots_of(model).items():
        if words := typed.get(dotted((name,))):
            chosen[name,] = words if slot.many else words[-1]
    files = [Path(item) for item in typed.get("--config", ())]
    try:
        for resumed in typed.get("--resume", ())[-1:]:
            files.insert(0, _config_of(resumed, command, init="init" in model.model_fields))
        layers = read_layers(model, chosen, typed.get("--set", ()), files)
        if (below := model.inherited(layers, typed)) is not None:
            layers.insert(0, below)
    except MotionkitError as error:
        return read_layers(model, chosen), error
    return layers, None


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


def _parameter(name: str, annotation: Any, default: Any = None) -> inspect.Parameter:
    return inspect.Parameter(name, inspect.Parameter.KEYWORD_ONLY, default=default, annotation=annotation)
