"""`motionkit config`: every setting of a command, or one of them explained."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any

import typer

from motionkit.cli.output import JsonFlag, emit, table, write
from motionkit.errors import MotionkitError

CommandWords = Annotated[
    list[str], typer.Argument(help="The command, such as grpo or pretrain mdm.", metavar="COMMAND...")
]


def register(app: typer.Typer) -> None:
    """Add the group."""

    @app.callback()
    def group() -> None:
        """Show every setting of a command, or explain one."""

    app.command("show")(show_settings)
    app.command("explain")(explain_setting)


def show_settings(
    command: CommandWords,
    config: Annotated[
        list[Path] | None, typer.Option("--config", help="Settings file; repeatable.", metavar="FILE")
    ] = None,
    sets: Annotated[
        list[str] | None, typer.Option("--set", help="Any setting; repeatable.", metavar="KEY=VALUE")
    ] = None,
    json: JsonFlag = False,
) -> None:
    """Print every setting of a command with its value and where that comes from."""
    from motionkit.cli.settings import show
    from motionkit.config import Given, resolve

    name = " ".join(command)
    resolved = resolve(_model(command), Given(sets=tuple(sets or ()), files=tuple(config or ())), command=name)
    if json:
        document = {"settings": resolved.snapshot(), "origins": dict(resolved.origins)}
        emit({"command": f"config show {name}", **document}, json=True)
        return
    table("", ["setting", "value", "from"], [[key, show(value), origin] for key, value, origin in resolved.rows()])


def explain_setting(
    words: Annotated[
        list[str], typer.Argument(help="The command and a key: grpo optim.learning_rate.", metavar="COMMAND... KEY")
    ],
    json: JsonFlag = False,
) -> None:
    """Explain one setting: type, default, limits, flag, variable, meaning."""
    from motionkit import plugins

    if len(words) < 2:
        raise MotionkitError("a command and a key are needed.", fix="motionkit config explain grpo optim.learning_rate")
    *command, key = words
    weighted = {kind.singular for kind in plugins.KINDS.values() if kind.weighted}  # their keys hold plugin names
    facts = explain(_model(command), key if key.partition(".")[0] in weighted else key.replace("-", "_"))
    if json:
        emit({"command": "config explain", **facts}, json=True)
        return
    width = max(len(name) for name in facts)
    for name, value in facts.items():
        if value:
            write(f"{name:<{width}}  {value}")


def explain(model: Any, key: str) -> dict[str, str]:
    """Return what is known about one setting of `model`, by the name of the fact.

    Raises:
        MotionkitError: There is no such setting; the nearest key is suggested.
    """
    from motionkit import plugins
    from motionkit.cli._flags import _default, dotted
    from motionkit.config import leaves
    from motionkit.config._problems import suggest
    from motionkit.config._sources import variable
    from motionkit.config._tree import limits, type_name

    known = {}
    for leaf in leaves(model):
        known[leaf.key] = (leaf, leaf.cli.flag or dotted(leaf.path) if leaf.cli is not None else "")
        if leaf.slot is not None:
            part = "weight" if leaf.slot.many else "name"
            known[leaf.key] = known[f"{leaf.key}.{part}"] = (leaf, dotted(leaf.path))
            for entry in plugins.available(leaf.slot.kind):
                if not entry.builtin:  # explaining a setting imports nothing foreign
                    continue
                try:
                    options = plugins.get(leaf.slot.kind, f"{entry.distribution}:{entry.name}").options
                except MotionkitError:
                    continue
                if leaf.slot.many:
                    known[f"{leaf.key}.{entry.name}.weight"] = (leaf, f"{dotted(leaf.path)} {entry.name}=WEIGHT")
                for option in leaves(options):
                    full = (*leaf.path, entry.name, *option.path) if leaf.slot.many else (*leaf.path, *option.path)
                    known[".".join(full)] = (option, dotted(full))
    if key not in known:
        hint = suggest(key, known)
        raise MotionkitError(f"there is no setting {key!r}.", fix=hint or "motionkit config show COMMAND lists them.")
    leaf, flag = known[key]
    return {
        "key": key,
        "meaning": leaf.help,
        "type": f"any of the {leaf.slot.kind}" if leaf.slot is not None else type_name(leaf.field.annotation),
        "default": ", ".join(leaf.slot.default) if leaf.slot else _default(leaf.default).removeprefix("default: "),
        "limits": limits(leaf.field),
        "flag": flag or f"--set {key}=...",
        "variable": variable(tuple(key.split("."))),
    }


def _model(command: list[str]) -> Any:
    from motionkit import plugins
    from motionkit.cli import settings
    from motionkit.cli._lazy import load_register
    from motionkit.cli._table import rows

    for row in rows():
        if command == [row.name]:
            load_register(row.target)(typer.Typer())
            if row.name not in settings.models:
                raise MotionkitError(f"'motionkit {row.name}' has no settings.", fix=f"motionkit {row.name} --help")
            return settings.models[row.name]
    return plugins.get("trainers", ".".join(command)).options
