"""``plugins list --check`` and `doctor`: each plugin is imported, built and checked; faults are reported by name."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

import pytest
from typer.testing import Result

from . import broken_packages as broken

Cli = Callable[..., Result]


def test_check_survives_what_plugins_raise_and_prints_one_document(cli: Cli, site: Any) -> None:
    broken.install_raising(site)
    noisy = f"class Reward: ...\n{broken.NOISE}{broken.GOOD.format(module='noisy')}"
    broken.install(site, "noisy", noisy)
    done = cli("plugins", "list", "--check", "--json")
    assert done.exit_code == 1
    document = json.loads(done.stdout)
    assert (document["command"], document["status"], document["error"]["code"]) == ("plugins list", "failed", 1)
    assert {"noisy", "exits", "physics"} <= {row["name"] for row in document["plugins"]}
    problems = {text.partition(":")[0]: text for text in document["problems"]}
    assert problems.pop("broken-noisy") == (
        "broken-noisy: rewards 'noisy': noisy:Reward is not a reward: it has no score"
    )
    assert set(problems) == {f"broken-{name}" for name in broken.RAISING}
    for name, (_, said) in broken.RAISING.items():
        assert f"rewards {name!r}: " in problems[f"broken-{name}"]
        assert said in problems[f"broken-{name}"]


HALVES = """
from motionkit.config import Group
from motionkit.plugins import Component
class Options(Group):
    {option}
component = Component("It is tried.", Options, "{module}_heavy:Heavy"{more})
"""
SCORE = """
class Heavy:
    name = "tried"
    def __init__(self, options, *, dataset=None, device="cpu"):
        {start}
    def score(self, motions, prompts):
        import torch
        from motionkit.contracts.reward import RewardScores
        return RewardScores({total})
"""
GOOD = "torch.ones(len(motions))"
NEEDED = "x: int = __import__('pydantic').Field(description='Needed.')"
TRIED = {
    "lost": ("rewards", "import nonexistent_pkg\n",
             "cannot import lost_heavy:Heavy: No module named 'nonexistent_pkg'"),
    "wide": ("rewards", SCORE.format(start="pass", total="motions.features[..., 0]"),
             "It returns total [4, 48]; it must be [4]"),
    "narrow": (
        "rewards", SCORE.format(start="pass", total=GOOD).replace(', *, dataset=None, device="cpu"', ""),
        "narrow_heavy:Heavy cannot be called as motionkit calls it, (options, dataset=..., device=...)",
    ),
    "strange": (
        "policies", SCORE.format(start="pass", total=GOOD),
        "strange_heavy:Heavy is not a policy: it has no frames, condition, predict and 5 more; it looks like a reward, "
        "whose group is motionkit.rewards",
    ),
    "exiting": ("rewards", SCORE.format(start="raise SystemExit(0)", total=GOOD), "raised SystemExit: 0"),
    "sound": ("rewards", SCORE.format(start="dataset.physics_reference()", total=GOOD), ""),
    "needy": ("rewards", SCORE.format(start="pass", total=GOOD), ""),
}  # fmt: skip
"""Kind, heavy half, and what --check says."""


def test_check_builds_what_it_lists(cli: Cli, site: Any) -> None:
    for name, (kind, heavy, _) in TRIED.items():
        light = HALVES.format(module=name, option=NEEDED if name == "needy" else "pass", more="")
        modules = {name: light, f"{name}_heavy": heavy}
        site.install(f"tried-{name}", f"[motionkit.{kind}]\n{name} = {name}:component\n", **modules)
    site.install("tried-group", "[motionkit.reward]\nlost = lost:component\n[motionkit.x]\na = b:c\n")
    done = cli("plugins", "list", "--check", "--json")
    assert done.exit_code == 1, done.stderr
    document = json.loads(done.stdout)
    assert len(document["problems"]) == sum(bool(said) for *_, said in TRIED.values()) + 2
    problems = " ".join(document["problems"])
    for name, (kind, _, said) in TRIED.items():
        assert (f"tried-{name}: {kind} {name!r}: " in problems) == bool(said), problems
        assert said in problems
    assert "tried-group: its entry points have the group motionkit.reward, " in problems
    assert "motionkit does not read; did you mean motionkit.rewards?" in problems
    assert "the group motionkit.x, which motionkit does not read; one of: motionkit.rewards, " in problems
    assert any("tried-needy" in text and "default options" in text for text in document["warnings"])


def test_doctor_survives_too(cli: Cli, site: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    for slow in ("_torch", "_kernels"):
        monkeypatch.setattr(f"motionkit.cli.commands.doctor.{slow}", lambda: iter(()))
    source, said = broken.RAISING["exits"]
    broken.install(site, "exits", source)
    done = cli("doctor", "--json", env={"MOTIONKIT_SEED": "1"})
    assert done.exit_code == 1
    document = json.loads(done.stdout)
    assert document["status"] == "failed"
    (failed,) = [check["text"] for check in document["checks"] if check["state"] == "fail"]
    assert failed.startswith("broken-exits: rewards 'exits': ")
    assert said in failed
    assert {"name": "variable", "state": "ok", "text": "MOTIONKIT_SEED=1"} in document["checks"]
