"""The platform names no system: what its rooms know of one, they ask its components.

Imports are checked by import-linter (`pyproject.toml`); this is about texts, such as ``"grpo"`` in a table of commands.

A text names a system where it holds the name of one of its plugins or commands, or of its folder, as a word: ``mpl``
in ``"mpl/"``, ``pretrain tmr`` in a sentence. Some of these names are also words of English or of the field. They may
be in sentences, and name a system only where nothing else can be meant: the whole text, in quotes, as a module
(``motionkit_regions``) or as a command (``motionkit ppo``, ``motionkit eval retrieval``).
"""

from __future__ import annotations

import ast
import re
import tomllib
from collections.abc import Iterator
from functools import cache
from pathlib import Path

import pytest

ROOMS = ("cli", "config", "contracts", "plugins", "report", "runs", "testing", "tracking", "training", "tuning")
"""Rooms of the platform."""

PACKAGES = ("predictor", "success", "regions", "fbx", "lerobot")
SYSTEMS = ("text_to_motion", *PACKAGES)

WORDS = {
    "brevity", "contrast", "distinct", "length", "mixed", "physics", "predictor",
    "reach", "regions", "retrieval", "rule", "sensitivity", "shapes", "success", "text-to-motion",
}  # fmt: skip
"""Names that are also words of English or of the field."""

PLATFORM = {
    "compare": "a subcommand of runs",
    "composite": "what a dataset can give",
    "env": "a setting of several commands",
    "format": "what an encoder's config.json and a dataset's description call their kind",
    "push": "a command of motionkit's own",
    "reward": "a kind of plugin, and a row of results",
    "starter": "the starter pack, which all commands take",
}
"""Names that are the platform's own words, too, and why. Only a module of that name counts."""


FORMATS = {"cli/commands/convert.py": {"humanml", "kit", "mpl"}, "cli/table.py": {"humanml"}}
"""Names of data that are also formats of `convert`, a command of motionkit's own, and where they may stand."""


@cache
def names(root: Path) -> frozenset[str]:
    """Return the names of systems: their folders, plugins and commands, also ``mdm`` of ``pretrain.mdm``."""
    files = [root / "pyproject.toml", *(root / "plugins" / f"motionkit-{name}" / "pyproject.toml" for name in PACKAGES)]
    projects = [tomllib.loads(file.read_text())["project"]["entry-points"] for file in files]
    plugins = {name for groups in projects for group in groups.values() for name in group} - {"motionkit"}
    return frozenset({*SYSTEMS, *plugins, *(name.rpartition(".")[2] for name in plugins)})


def named(text: str, known: frozenset[str]) -> list[str]:
    """Return the names of systems in a text."""

    def found(pattern: str, some: frozenset[str]) -> list[str]:
        choice = "|".join(sorted(map(re.escape, some), key=len, reverse=True))
        return re.findall(pattern.replace("NAME", f"({choice})(?![\\w-])"), text)

    alone = known - PLATFORM.keys()
    return [
        *found(r"(?<![\w-])NAME", alone - WORDS),
        *found(r"^NAME$", alone & WORDS),
        *found(r"['`\"]NAME(?=['`\"])", alone & WORDS),
        *found(r"\bmotionkit NAME", alone),
        *found(r"\bmotionkit(?:[._]| eval )NAME", known),
    ]


def texts(path: Path) -> Iterator[tuple[int, str]]:
    """Yield line and content of each text of a module but the docstrings."""
    tree = ast.parse(path.read_text(encoding="utf-8"))
    alone = {id(node.value) for node in ast.walk(tree) if isinstance(node, ast.Expr)}
    for node in ast.walk(tree):
        if isinstance(node, ast.Constant) and isinstance(node.value, str) and id(node) not in alone:
            yield node.lineno, node.value


@pytest.mark.parametrize("room", ROOMS)
def test_no_text_of_the_platform_names_a_system(room: str, root: Path) -> None:
    found = [
        f"{path.relative_to(root)}:{line}: {text[:80]!r} names {', '.join(sorted(words))}"
        for path in sorted((root / "motionkit" / room).rglob("*.py"))
        if "templates" not in path.parts
        for line, text in texts(path)
        if (words := set(named(text, names(root))) - FORMATS.get(f"{path.relative_to(root / 'motionkit')}", set()))
    ]
    assert found == []


@pytest.mark.parametrize(
    ("text", "name"),
    [
        ("grpo", "grpo"), ("pretrain.tmr", "pretrain.tmr"), ("pretrain tmr", "tmr"), ("mpl/", "mpl"),
        ("for grpo, which", "grpo"), ("--dataset humanml", "humanml"), ("regions", "regions"),
        ("no 'regions' here", "regions"), ("motionkit eval retrieval RUN", "retrieval"),
        ("motionkit eval reward RUN", "reward"), ("motionkit_success.next:after", "success"),
        ("`motionkit ppo`", "ppo"), ("text_to_motion", "text_to_motion"),
    ],
)  # fmt: skip
def test_a_name_is_seen(text: str, name: str, root: Path) -> None:
    assert set(named(text, names(root))) == {name}


@pytest.mark.parametrize(
    "text",
    ["captions of regions", "success of a run", "reward", "env", "regions/unique", "a text-to-motion policy", "my-grpo",
     "humanmlx", "motionkit export RUN"],
)  # fmt: skip
def test_a_word_is_no_name(text: str, root: Path) -> None:
    assert named(text, names(root)) == []


def test_the_lists_name_what_is_there(root: Path) -> None:
    assert WORDS | PLATFORM.keys() <= names(root)
    assert not WORDS & PLATFORM.keys()
    assert all((root / "motionkit" / name).is_dir() for name in ("text_to_motion", *ROOMS))
    assert all((root / "plugins" / f"motionkit-{name}").is_dir() for name in PACKAGES)
