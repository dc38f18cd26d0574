"""The smoke set: every module imports, each system trains a step, and commands work on what came of it.

``pytest -m smoke`` runs it alone, in one process, in about a minute: for who has just installed motionkit.
"""

from __future__ import annotations

import importlib
import pkgutil
import shlex
from collections.abc import Iterator
from pathlib import Path

import pytest
from typer.testing import CliRunner, Result

import motionkit
from motionkit.cli import get_app
from motionkit.formats.mpl import write_mpl_npz
from motionkit.motion import Clip
from motionkit.starter import Order, perform
from motionkit_predictor.data.files import _motion as motion

pytestmark = pytest.mark.smoke

STARTER = (
    "--dataset.clips", "144", "--dataset.val-clips", "48", "--dataset.test-clips", "48", "--dataset.prompts", "8",
)  # fmt: skip
# One line each, in this order: later ones read what earlier ones wrote.
MADE = (
    "train-mpl --data clips --encoder none --epochs 1 --batch-size 64 --set model.width=32 --set train.stride=16 "
    "--set train.val_stride=64 --set train.long=[] --out predictor",
    "grpo --reward tmr-dense --algorithm reward-gradient --num-steps 1 --batch-size 2 --set heldout.prompts=0 "
    f"--inference-timesteps 2 {' '.join(STARTER)} --out tuned",
    "reward-collect --policy scripted --num-steps 1 --set episodes.num_envs=8 --set episodes.steps=64 --out episodes",
    "reward-train --data episodes --num-steps 1 --out classifier",
    "sa2va-rl --num-steps 1 --batch-size 2 --group-size 2 --set heldout.regions=2 --set heldout.every=0 --out played",
    "generate 'a person walks' walk.npz --policy.checkpoint tuned --inference-timesteps 2",
    "convert walk.npz walk.bvh",
)
LOOKED_AT = (
    "predict predictor next.bvh --start walk.bvh --seconds 0.5",
    "profile walk.bvh",
    "export tuned model --to mdm",
    "report tuned",
    "runs list",
    "runs show tuned",
    "config show grpo",
    "plugins list",
    "doctor",
)
DRY = (
    *(f"pretrain {name} --dry-run {' '.join(STARTER)}" for name in ("mdm", "tmr", "t2m-evaluator")),
    "pretrain regions --dry-run",
    "pretrain mpl-encoder --data clips --dry-run",
    "ppo --reward env --dry-run",
    "tune-bayes --data clips --dry-run",
    "eval text-to-motion starter --dry-run",
)


def names() -> list[str]:
    """Return the name of every module of the package."""
    found = pkgutil.walk_packages(motionkit.__path__, "motionkit.")
    return [module.name for module in found if "__main__" not in module.name]


def test_every_module_imports() -> None:
    found = names()
    assert len(found) > 300
    for name in found:
        importlib.import_module(name)


def run(line: str) -> Result:
    """Run a command line in process."""
    return CliRunner().invoke(get_app(), shlex.split(line))


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """A folder for all commands of this file, with a cache of its own."""
    made = tmp_path_factory.mktemp("smoke")
    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(made)
        patch.setenv("XDG_CACHE_HOME", str(made / "cache"))
        patch.setenv("COLUMNS", "200")
        yield made


@pytest.fixture(scope="module")
def trained(folder: Path) -> Path:
    """A step of each system that trains."""
    (folder / "clips").mkdir()
    for number in range(8):
        clip = motion(perform([Order("walk/normal", 100, number)], fps=30.0)[0])
        made = Clip(clip, split="val" if number > 5 else "train")
        write_mpl_npz(folder / "clips" / f"clip{number}.npz", made, source_hash="")
    for line in MADE:
        done = run(line)
        assert done.exit_code == 0, f"{line}\n{done.stderr}"
    return folder


@pytest.mark.parametrize("line", [*LOOKED_AT, *DRY], ids=lambda line: " ".join(line.split()[:4]))
def test_commands_work_on_what_a_step_made(line: str, trained: Path) -> None:
    done = run(line)
    assert done.exit_code == 0, done.stderr
