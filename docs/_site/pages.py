"""Pages that code makes: commands, the options of plugins, and the API reference. Imports no torch and no MkDocs."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from typer.main import get_command

from motionkit import plugins
from motionkit.cli._app import app
from motionkit.cli.settings import models
from motionkit.config import leaves, slots_of

ROOT = Path(__file__).resolve().parents[2]
_HIDDEN = {"cli", "__main__.py"}
"""Parts of the package that have pages of commands instead, or that nobody imports by name."""

_OTHER_KINDS = {
    "datasets": "What `--dataset` names.",
    "policies": "What `--policy` names.",
    "environments": "What `--env` names.",
    "loops": "What `sa2va-rl` plays.",
}


# Markdown.


def cell(text: object) -> str:
    """Return a text as the content of a table's cell."""
    return re.sub(r"\s+", " ", str(text)).replace("|", "\\|").replace("<", "&lt;").replace("*", "\\*").strip()


def code(text: object) -> str:
    """Return a text as code in a cell; empty for an empty one."""
    shown = re.sub(r"\s+", " ", str(text)).replace("|", " | ")  # so that long choices wrap
    return f"`{shown}`" if shown else ""


def table(head: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    """Return a table."""
    lines = [head, ["---"] * len(head), *rows]
    return "\n".join(f"| {' | '.join(line)} |" for line in lines) + "\n"


# Commands, from the tree that runs them.


@dataclass(frozen=True)
class Command:
    """One command: its words, such as ``pretrain mdm``, and what builds it."""

    words: str
    summary: str
    built: Any

    @property
    def page(self) -> str:
        """Its page below ``commands/``."""
        return f"commands/{self.words.replace(' ', '-')}.md"


def commands() -> Iterator[Command]:
    """Yield every command in the order of ``motionkit --help``."""
    root: Any = get_command(app)
    for name in root.list_commands(None):
        yield from _below(root.get_command(None, name), name)


def _below(command: Any, path: str) -> Iterator[Command]:
    if hasattr(command, "list_commands") and not hasattr(command, "build"):  # a prefix of trainers
        for name in command.list_commands(None):
            yield from _below(command.get_command(None, name), f"{path} {name}")
        return
    built = command.build([])
    parts = getattr(built, "commands", None)
    for name, part in (
        {path: built} if parts is None else {f"{path} {word}": one for word, one in parts.items()}
    ).items():
        first = (part.help or "").split("\n\n")[0].split("Example:")[0]
        yield Command(name, re.sub(r"\s+", " ", first).strip(), part)


def command_page(command: Command) -> str:
    """Return the page of a command: usage, arguments, options by panel, and the settings that have no flag."""
    built = command.built
    arguments = [item for item in built.params if item.param_type_name == "argument"]
    options = [item for item in built.params if item.param_type_name == "option" and not item.hidden]
    said, _, example = (built.help or "").partition("Example:")
    example = example.strip() or next(iter(re.findall(r"Example: (.*)", built.epilog or "")), "")
    usage = " ".join(["motionkit", command.words, "[OPTIONS]", *(_word(item) for item in arguments)])
    parts = [f"# motionkit {command.words}\n", _prose(said) + "\n", f"```text\n{usage}\n```\n"]
    if example:
        parts.append(f"For example:\n\n```bash\n{example}\n```\n")
    if arguments:
        rows = [[code(_word(item)), cell(item.help or "")] for item in arguments]
        parts.append("## Arguments\n\n" + table(["argument", "meaning"], rows))
    panels: dict[str, list[Any]] = {}
    for item in options:
        panels.setdefault(getattr(item, "rich_help_panel", None) or "Options", []).append(item)
    for panel, items in panels.items():
        rows = [[_names(item), code(_metavar(item)), cell(_plain(item.help or ""))] for item in items]
        parts.append(f"## {panel}\n\n" + table(["option", "value", "meaning"], rows))
    if (model := models.get(command.words)) is not None:
        shown = {name for item in options for name in item.opts}
        slots = slots_of(model)
        rest = [leaf for leaf in leaves(model) if leaf.flag not in shown and leaf.path[0] not in slots]
        if rest:
            parts.append(
                "## Settings without a flag\n\nThey are given in a settings file or with `--set KEY=VALUE`; "
                f"`motionkit config explain {command.words} KEY` explains one.\n\n" + _leaves(rest)
            )
    return "\n".join(parts)


def command_index() -> str:
    """Return the page that lists the commands."""
    rows = [[f"[`motionkit {one.words}`]({Path(one.page).name})", cell(one.summary)] for one in commands()]
    return "# Commands\n\nMade from the program itself: what `--help` says, with every setting.\n\n" + table(
        ["command", "does"], rows
    )


def _word(argument: Any) -> str:
    name = argument.metavar or argument.name.upper()
    many = "..." if argument.nargs != 1 and "..." not in name else ""
    return f"{name}{many}" if argument.required else f"[{name}{many}]"


def _names(option: Any) -> str:
    return "<br>".join(code(name) for name in (*option.opts, *option.secondary_opts))


def _kind(option: Any) -> str:
    """Return what an option without a name for its value takes: its choices, or TEXT."""
    kind = option.type_descriptor
    return "|".join(map(str, kind.choices)) if kind.is_choice else "TEXT"


def _metavar(option: Any) -> str:
    own = option.metavar
    return own if own is not None else "" if option.is_flag else _kind(option)


def _plain(text: str) -> str:
    return text.replace("\\[", "[")


def _prose(text: str) -> str:
    return "\n\n".join(re.sub(r"\s+", " ", part).strip() for part in text.split("\n\n")).strip()


# Options of plugins.


def _leaves(found: Iterable[Any]) -> str:
    rows = [
        [code(leaf.key), cell(leaf.type_name), cell(leaf.default_text), cell(leaf.limits), cell(leaf.help)]
        for leaf in found
    ]
    return table(["setting", "type", "default", "limits", "meaning"], rows)


def component(kind: str, name: str) -> plugins.Component:
    """Return one of motionkit's own plugins.

    Raises:
        MotionkitError: There is none of that name.
    """
    return plugins.get(kind, f"motionkit:{name}")


def names(kind: str) -> list[str]:
    """Return the names of motionkit's own plugins of a kind."""
    return [entry.name for entry in plugins.available(kind) if entry.builtin]


def options_table(kind: str, name: str) -> str:
    """Return the options of a plugin as a table; a sentence where it has none."""
    options = component(kind, name).options
    own = (leaf for leaf in leaves(options) if leaf.path[0] not in slots_of(options))
    found = [leaf for leaf in own if leaf.path[0] != "run" or leaf.key == "run.num_steps"]  # those of every command
    return _leaves(found) if found else "It has no options.\n"


def kind_page(kind: str) -> str:
    """Return the page of a kind of plugins whose members have no page of their own."""
    parts = [f"# {kind.capitalize()}\n\n{_OTHER_KINDS[kind]} Made from the settings of each.\n"]
    for name in names(kind):
        parts.append(f"## {name}\n\n{component(kind, name).summary}\n\n{options_table(kind, name)}")
    return "\n".join(parts)


def plugin_tail(kind: str, name: str) -> str:
    """Return what a page of an algorithm or a reward ends with: what it is given and its options."""
    found = component(kind, name)
    flag = {"algorithms": f"`--algorithm {name}`", "rewards": f"`--reward {name}`"}[kind]
    parts = []
    if kind == "rewards":
        words = plugins.reads_of(kind, found)
        parts.append(f"It reads: {words or 'motion'}. Gradient: {'yes' if found.gradient else 'no'}.\n")
    parts.append(f"\n## Settings\n\nOptions of {flag}, from its settings.\n\n{options_table(kind, name)}")
    module, _, attribute = found.factory.partition(":")
    if module in {one.name for one in modules()}:
        target = f"../api/{module}.md#{module}.{attribute}"
        parts.append(f"\nThe code: [`{module}.{attribute}`]({target}).\n")
    return "\n".join(parts)


def audit_table(rewards: str, name: str) -> str:
    """Return the column of a reward in the tables of ``docs/rewards.md`` that say what it does not see; empty without.

    Args:
        rewards: Text of that page.
        name: The reward.
    """
    for block in re.findall(r"(?:^\|.*\n)+", rewards, re.M):
        lines = [[part.strip() for part in line.strip().strip("|").split("|")] for line in block.splitlines()]
        head = lines[0]
        if head[0] != "change" or f"`{name}`" not in head:
            continue
        at = head.index(f"`{name}`")
        return table(["change", "clips", "seen"], [[line[0], line[1], line[at]] for line in lines[2:] if line[at]])
    return ""


# The API reference: a page for each module that has something public.


@dataclass(frozen=True)
class Module:
    """One module: its dotted name and the first line of its docstring."""

    name: str
    summary: str
    passes_on: frozenset[str]  # Names of `__all__`
    defines: frozenset[str]  # Public classes and functions of its own

    @property
    def page(self) -> str:
        """Its page."""
        return f"api/{self.name}.md"


def modules() -> list[Module]:
    """Return the modules of the reference, in the order of their names; none whose names its package passes on."""
    if not _modules:
        read = (_module(package, path) for package in _documented() for path in sorted(package.rglob("*.py")))
        found = {one.name: one for one in read if one is not None}
        for name, one in sorted(found.items()):
            door = found.get(name.rpartition(".")[0])
            if door is None or one.passes_on or not one.defines <= door.passes_on:
                _modules.append(one)
    return _modules


_modules: list[Module] = []


def _documented() -> list[Path]:
    """Return the folders of motionkit and of its own packages, which packages.txt installs."""
    lines = (ROOT / "packages.txt").read_text(encoding="utf-8").splitlines()
    folders = [ROOT / line.removeprefix("-e ") for line in lines if line.startswith("-e plugins/")]
    return [ROOT / "motionkit", *(next(folder.glob("src/motionkit_*/__init__.py")).parent for folder in folders)]


def _module(package: Path, path: Path) -> Module | None:
    inside = path.relative_to(package)
    if (
        inside.parts[0] in _HIDDEN
        or "templates" in inside.parts
        or any(part.startswith("_") and part != "__init__.py" for part in inside.parts)
    ):
        return None
    tree = ast.parse(path.read_text(encoding="utf-8"))
    words = [package.name, *inside.with_suffix("").parts]
    name = ".".join(words[:-1] if words[-1] == "__init__" else words)
    listed = next((node.value for node in tree.body if isinstance(node, ast.Assign) and _assigns_all(node)), None)
    passes_on = frozenset(ast.literal_eval(listed)) if listed is not None else frozenset()
    kinds = ast.ClassDef | ast.FunctionDef
    defines = frozenset(
        node.name
        for node in tree.body
        if isinstance(node, kinds) and not node.name.startswith("_") and ast.get_docstring(node)
    )
    if not passes_on and not defines:
        return None
    return Module(name, (ast.get_docstring(tree) or "").partition("\n")[0], passes_on, defines)


def _assigns_all(node: ast.Assign) -> bool:
    return any(isinstance(target, ast.Name) and target.id == "__all__" for target in node.targets)


def api_page(module: Module) -> str:
    """Return the page of a module; mkdocstrings fills it."""
    return f"# {module.name}\n\n::: {module.name}\n"


def api_index() -> str:
    """Return the page that lists the modules by package."""
    rows = [[f"[`{one.name}`]({one.name}.md)", cell(one.summary)] for one in modules()]
    return (
        "# API reference\n\nEvery public class and function, from its docstring. Start with "
        "[`motionkit`](motionkit.md), what `import motionkit` offers.\n\n" + table(["module", "holds"], rows)
    )


def api_nav() -> list[Any]:
    """Return the navigation of the reference: a section for each folder of ``motionkit``, and for each package."""
    tree: dict[str, list[Any]] = {}
    for one in modules():
        words = one.name.split(".")
        words = words[1:] if words[0] == "motionkit" else words
        tree.setdefault(words[0] if words else "", []).append({".".join(words[1:]) or one.name: one.page})
    top = tree.pop("", [])
    sections = [{name: next(iter(found[0].values())) if len(found) == 1 else found} for name, found in tree.items()]
    return ["api/index.md", *top, *sections]


def generated() -> Mapping[str, str]:
    """Return every page that code makes, by its place in the site."""
    pages = {"commands/index.md": command_index()}
    pages |= {one.page: command_page(one) for one in commands()}
    pages |= {f"plugins/{kind}.md": kind_page(kind) for kind in _OTHER_KINDS}
    pages |= {"api/index.md": api_index()} | {one.page: api_page(one) for one in modules()}
    return pages
