"""The rules of examples/pages: short programs of public names, from top to bottom."""

from __future__ import annotations

import ast
from pathlib import Path

import pytest

from .pages import PAGES

MOST = 150
FILES = sorted(PAGES.glob("*.py"))

# What samples, scores and descends in one call, or says how by options.
WHOLE = {"GRPO", "Learner", "Context", "Objective", "RewardMix", "SelfPlay", "Sb3Ppo", "PPO", "fit", "run_steps"}
ENDINGS = ("Settings", "Options", "Trainer", "Training", "Step")


def names(tree: ast.AST) -> list[str]:
    """Return every name of a program: of modules, of what is imported, read, set and looked up in an object."""
    found: list[str] = []
    for node in ast.walk(tree):
        if isinstance(node, ast.ImportFrom):
            found += (node.module or "").split(".")
        if isinstance(node, ast.alias):
            found += node.name.split(".")
        if isinstance(node, ast.Attribute):
            found.append(node.attr)
        if isinstance(node, ast.Name):
            found.append(node.id)
    return found


def faults(source: str) -> list[str]:
    tree = ast.parse(source)
    found = names(tree)
    private = [name for name in found if name.startswith("_") and name != "_"]
    whole = [name for name in found if name in WHOLE or name.endswith(ENDINGS)]
    classes = [node.name for node in ast.walk(tree) if isinstance(node, ast.ClassDef)]
    parsers = [name for name in found if name in ("argparse", "typer", "click", "argv", "environ")]
    long = [f"{count} lines"] if (count := len(source.splitlines())) > MOST else []
    return private + whole + classes + parsers + long


@pytest.mark.parametrize("file", FILES, ids=lambda file: file.stem)
def test_a_page_is_short_and_made_of_public_pieces(file: Path) -> None:
    source = file.read_text(encoding="utf-8")
    assert faults(source) == []
    assert ast.get_docstring(ast.parse(source))
    assert f"python examples/pages/{file.name}" in source


@pytest.mark.parametrize(
    "source",
    ["from motionkit import GRPO", "from motionkit.rl._plan import DDIM", "x._network", "class Trainer: ...",
     "import argparse", "from motionkit.text_to_motion.settings import LoraSettings", "\n" * 151],
)  # fmt: skip
def test_a_page_that_hides_something_would_be_noticed(source: str) -> None:
    assert faults(source)


def test_every_page_is_listed() -> None:
    """README, the index of the documentation and the layout link to the pages."""
    root = PAGES.parents[1]
    for place in ("README.md", "README.zh-CN.md", "docs/README.md", "docs/architecture.md"):
        assert "examples/pages" in (root / place).read_text(encoding="utf-8"), place
    told = (PAGES / "README.md").read_text(encoding="utf-8")
    assert [file.name for file in FILES if f"({file.name})" not in told] == []
