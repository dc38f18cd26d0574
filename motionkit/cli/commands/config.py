"""`motionkit config`: every setting of a command, or one of them explained."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Annotated, Any

import typer

from motionkit.cli.output import JsonFlag, emit, table, warn, write
from motionkit.cli.unknown import key_of
from motionkit.errors import MotionkitError
from motionkit.plugins.packages import words as words_of

CommandWords = Annotated[list[str], typer.Argument(help=f"The command{words_of('a command')}.", metavar="COMMAND...")]


def register(app: typer.Typer) -> None:
    """Add the group."""

    @app.callback()
    def group() -> None:
        """Show every setting of a command, or explain one."""

    app.command("show")(show_settings)
    # A flag is a word here: config explain grpo --learning-rate.
    app.command("explain", context_settings={"ignore_unknown_options": True})(explain_setting)


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
    """Print every setting of a command with its value and its origin."""
    from motionkit.cli.settings import show
    from motionkit.config import resolve

    name = " ".join(command)
    resolved = resolve(_model(command), sets=sets or (), files=config or (), command=name)
    for text in resolved.warnings:
        warn(text)
    if json:
        document = {"settings": resolved.snapshot(), "origins": dict(resolved.origins)}
        emit({"command": f"config show {name}", **document}, json=True)
        return
    table("", ["setting", "value", "from"], [[key, show(value), origin] for key, value, origin in resolved.rows()])


def explain_setting(
    words: Annotated[
        list[str],
        typer.Argument(help=f"The command and a key{words_of('a command and a key')}.", metavar="COMMAND... KEY"),
    ],
    json: JsonFlag = False,
) -> None:
    """Explain one setting: type, default, limits, flag, variable, meaning.

    It may be given by its key (optim.learning_rate), its flag (--learning-rate) or a short name (learning-rate).
    """
    if len(words) < 2:
        raise MotionkitError(
            "a command and a key are needed.", fix=words_of("explain a key") or "motionkit config explain COMMAND KEY"
        )
    *command, key = words
    facts = explain(_model(command), key, " ".join(command))
    if json:
        emit({"command": "config explain", **facts}, json=True)
        return
    width = max(len(name) for name in facts)
    for name, value in facts.items():
        if value:
            write(f"{name:<{width}}  {value}")


def explain(model: Any, key: str, command: str = "") -> dict[str, str]:
    """Return the facts about one setting of `model`, by name.

    Args:
        model: Settings of a command.
        key: Key, flag or short name.
        command: Name of the command, for the hint; what a package knows by that word is understood.
    """
    from motionkit.config import variable, which_setting
    from motionkit.plugins import either

    facts_of = _known(model)
    keys = _keys_called(key, facts_of)
    if not keys:
        known = key_of(key, command)
        hint = f"did you mean {known}?" if known in facts_of else which_setting(key, facts_of)
        lists = f"motionkit config show {command or 'COMMAND'} lists them."
        raise MotionkitError(f"there is no setting {key!r}.", fix=hint or lists, choices=facts_of)
    first, *synonyms = keys
    facts = facts_of[first]
    if any(facts_of[synonym]["meaning"] != facts["meaning"] for synonym in synonyms):
        raise MotionkitError(f"{key!r} may be {either(keys)}.", fix="give the whole key.")
    flag = facts["flag"] or f"--set {first}=..."
    also = {"also": ", ".join(synonyms)} if synonyms else {}
    return {"key": first, **facts, "flag": flag, "variable": variable(first.split(".")), **also}


def _known(model: Any) -> dict[str, dict[str, str]]:
    """Return the facts of every key; for one that plugins share, with its plugins and their different defaults."""
    every: dict[str, list[dict[str, str]]] = {}
    for key, facts in _facts(model):
        every.setdefault(key, []).append(facts)
    return {key: _together(rows) for key, rows in every.items()}


def _together(rows: list[dict[str, str]]) -> dict[str, str]:
    """Return one row for a key that the command itself (then the first row) or plugins have."""
    from motionkit.plugins import either

    first, names = rows[0], [row["for"] for row in rows if row["for"]]
    has_own = not first["for"]
    by_default: dict[str, list[str]] = {} if has_own else {first["default"]: []}
    for row in rows[has_own:]:
        if not has_own or row["default"] != first["default"]:
            by_default.setdefault(row["default"], []).append(row["for"])
    several = [f"{default} ({', '.join(of)})" for default, of in by_default.items()]
    default = "; ".join(
        [first["default"], *several] if has_own else several if len(several) > 1 else [first["default"]]
    )
    return {**first, "default": default, "for": "" if has_own else either(names)}


def _keys_called(word: str, known: Mapping[str, Mapping[str, str]]) -> list[str]:
    """Return the keys for a key, a flag, a key without the plugin's name, or a last part; the first match counts."""
    flag = f"--{word.lstrip('-').removeprefix('no-').replace('_', '-')}"
    plain = word.lstrip("-").replace("-", "_")
    ways: tuple[Callable[[str], bool], ...] = (
        lambda key: key == word or key.replace("-", "_") == plain,
        lambda key: known[key]["flag"].partition(" ")[0] == flag and "." not in known[key]["flag"].partition(" ")[2],
        lambda key: known[key]["short"] == plain,
        lambda key: key.rpartition(".")[2] == plain,
    )
    return next((keys for fits in ways if (keys := [key for key in known if fits(key)])), [])


def _facts(model: Any) -> Iterator[tuple[str, dict[str, str]]]:
    """Yield every key of `model` with its facts, including the options of motionkit's plugins."""
    from motionkit.config import Leaf, dotted, installed, leaves, slots_of

    def facts(leaf: Leaf, flag: str, short: str = "", plugin: str = "") -> dict[str, str]:
        return {
            "for": plugin, "short": short, "meaning": leaf.help, "type": leaf.type_name, "default": leaf.default_text,
            "limits": leaf.limits, "flag": flag,
        }  # fmt: skip

    chosen = slots_of(model)
    for leaf in leaves(model):
        if leaf.path[0] not in chosen:
            yield leaf.key, facts(leaf, leaf.flag if leaf.cli is not None else "")
    for name, slot in chosen.items():
        choice = {
            "for": "", "short": "", "meaning": model.model_fields[name].description or "",
            "type": f"any of the {slot.kind}", "default": ", ".join(slot.default), "limits": "",
            "flag": dotted((name,)),
        }  # fmt: skip
        yield name, choice
        yield f"{name}.{'weight' if slot.many else 'name'}", choice
        # No plugin of another package is imported; of an option that several have, the default's comes first.
        for plugin, options in sorted(installed(slot, builtin=True), key=lambda item: item[0] not in slot.default):
            prefix = (name, plugin) if slot.many else () if slot.spread else (name,)
            if slot.many:
                yield f"{name}.{plugin}.weight", {**choice, "flag": f"{dotted((name,))} {plugin}=WEIGHT"}
            for leaf in leaves(options):
                path = (*prefix, *leaf.path)
                flag = (leaf.flag if leaf.cli else "") if slot.spread else dotted(path)
                short = f"{name}.{leaf.key}" if slot.many else ""
                of = plugin if slot.spread else ""
                yield ".".join(path), facts(leaf, dotted((name, *leaf.path)) if slot.many else flag, short, of)


def _model(command: list[str]) -> Any:
    from motionkit import plugins
    from motionkit.cli import settings
    from motionkit.cli._app import load_register
    from motionkit.cli.table import rows

    name = " ".join(command)
    for row in rows():
        if command[:1] == [row.name]:
            load_register(row)(typer.Typer())
            if row.name == "eval" and command[1:] and name not in settings.models:  # of another package
                return plugins.get("protocols", " ".join(command[1:]), typed=True).options
            if name not in settings.models:
                raise MotionkitError(f"'motionkit {name}' has no settings.", fix=f"motionkit {row.name} --help")
            return settings.models[name]
    return plugins.get("trainers", ".".join(command)).options
