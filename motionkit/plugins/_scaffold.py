"""Start a plugin package: a pip package with one plugin that works, its tests and its README."""

from __future__ import annotations

import importlib
import re
from collections.abc import Mapping
from pathlib import Path
from string import Template

from motionkit.errors import MotionkitError
from motionkit.plugins._kinds import KINDS, Kind

REWARD: Mapping[str, str] = {
    "pyproject.toml": """\
[build-system]
requires = ["setuptools>=77"]
build-backend = "setuptools.build_meta"

[project]
name = "$package"
version = "0.1.0"
description = "Reward '$name' for motionkit."
requires-python = ">=3.11"
dependencies = ["motionkit"]

[project.entry-points."motionkit.rewards"]
$name = "$module:component"

[tool.setuptools.packages.find]
where = ["src"]
""",
    "README.md": """\
# $package

Reward `$name` for motionkit.

    pip install -e .
    motionkit plugins show rewards $name
    motionkit grpo --reward tmr-dense --reward $name=0.1 --reward.$name.scale 2
""",
    "src/$module/__init__.py": '''\
"""Reward '$name': the light half. It imports no torch, so that listings and help stay quick."""

from __future__ import annotations

from motionkit.config import Group
from motionkit.plugins import Component
from pydantic import Field


class Options(Group):
    """Options of reward '$name'; each becomes a flag, such as --reward.scale."""

    scale: float = Field(1.0, gt=0, description="Metres from the start at which the score has fallen to 1/e.")


component = Component(
    summary="Stay near the place where the motion began.", options=Options, factory="$module.reward:$cls"
)
''',
    "src/$module/reward.py": '''\
"""Reward '$name': the heavy half."""

from __future__ import annotations

from collections.abc import Sequence

import torch
from motionkit.motion import MotionBatch
from motionkit.rewards.base import RewardScores
from motionkit.text import Prompt

from $module import Options


class $cls:
    """Scores how near the root stays to where it began: 1 when it never leaves."""

    name = "$name"

    def __init__(self, options: Options, *, dataset: object = None, device: torch.device | str = "cpu") -> None:
        self.options = options

    def score(self, motions: MotionBatch, prompts: Sequence[Prompt]) -> RewardScores:
        """Score N motions in one pass; padding never counts."""
        root = motions.joints[..., 0, :]
        away = (root - root[:, :1])[..., [0, 2]].norm(dim=-1)
        away = torch.where(motions.mask, away, torch.zeros_like(away))
        mean = away.sum(dim=1) / motions.lengths
        return RewardScores(total=torch.exp(-mean / self.options.scale))
''',
    "tests/test_$module.py": '''\
"""The contract that every reward keeps."""

from motionkit.testing import check_reward


def test_contract() -> None:
    check_reward("$name")
''',
}


def new_plugin(package: str, parent: Path, *, singular: str = "") -> list[Path]:
    """Write a new plugin package.

    Args:
        package: Name of the package, such as ``motionkit-reward-bounce``; the plugin is called by its last part.
        parent: Folder to make it in.
        singular: Kind of the plugin, such as ``reward``; empty takes it from the name of the package.

    Returns:
        The files written.

    Raises:
        MotionkitError: The name is no package name, there are no templates for that kind, or the folder exists.
    """
    kind = _kind(singular or _singular_in(package))
    if not re.fullmatch(r"[a-z][a-z0-9]*(-[a-z0-9]+)*", package):
        raise MotionkitError(
            f"{package!r} is not a package name.", fix="small letters, digits and dashes: motionkit-reward-bounce"
        )
    folder = parent / package
    if folder.exists():
        raise MotionkitError(f"{folder} exists already.", fix="choose another name, or remove it.")
    name = package.removeprefix("motionkit-").removeprefix(f"{kind.singular}-")
    words = {
        "package": package,
        "module": package.replace("-", "_"),
        "name": name,
        "cls": "".join(part.capitalize() for part in name.split("-")) + kind.singular.capitalize(),
    }
    module, _, attribute = kind.scaffold.partition(":")
    files: Mapping[str, str] = getattr(importlib.import_module(module), attribute)
    written = []
    for path, text in files.items():
        file = folder / Template(path).substitute(words)
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(Template(text).substitute(words), encoding="utf-8")
        written.append(file)
    return written


def _singular_in(package: str) -> str:
    """Return the kind in ``motionkit-KIND-NAME``; a reward when the name holds none."""
    second = package.split("-")[1:2]
    return next((row.singular for row in KINDS.values() if [row.singular] == second), KINDS["rewards"].singular)


def _kind(singular: str) -> Kind:
    kind = next((row for row in KINDS.values() if row.singular == singular), None)
    have = ", ".join(row.singular for row in KINDS.values() if row.scaffold)
    if kind is None:
        raise MotionkitError(f"there is no plugin kind {singular!r}.", fix=f"kinds that can be started: {have}.")
    if not kind.scaffold:
        raise MotionkitError(
            f"there are no templates for a new {singular}.",
            why=kind.note or f"plugins new starts: {have}.",
            fix="" if kind.note else f"copy a built-in: motionkit plugins list {kind.name} names them.",
        )
    return kind
