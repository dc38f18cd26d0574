"""The table of commands: those that are not trainers, with their modules; nothing is imported to list them."""

from __future__ import annotations

import importlib.util
from dataclasses import dataclass
from functools import cache
from pathlib import Path

MOTION, TRAIN, LOOK = "Motion", "Train", "Look and check"
"""Headings of the list of commands."""


@dataclass(frozen=True)
class CommandRow:
    """One command."""

    name: str  # Its name
    target: str  # ``module:name`` of a `Command`, or of ``register(app)``, which adds it to a Typer app of its own
    summary: str  # One line for the list of commands
    panel: str  # Its heading in the list
    hidden: bool = False  # Keep it out of the list, because another command does the same


def _own(name: str, summary: str, panel: str, target: str = "", *, hidden: bool = False) -> CommandRow:
    here = f"cli.commands.{name.replace('-', '_')}:register"
    return CommandRow(name, f"motionkit.{target or here}", summary, panel, hidden)


ROWS = (
    _own("tune", "Search a trainer's settings (--bayes, or tune-bayes), or adjust them by a run.", TRAIN),
    _own("tune-bayes", "Search a trainer's settings with Optuna: the same as tune --bayes.", TRAIN, hidden=True),
    _own("generate", "Make motions from text with a policy.", MOTION, "text_to_motion.commands:GENERATE"),
    _own(
        "predict", "Continue a motion with a predictor, freely or along a path.", MOTION, "predictor.commands:PREDICT"
    ),
    _own("view", "Look at motions in a browser: files, folders, datasets.", MOTION, "cli.commands.view:VIEW"),
    _own("convert", "Convert motions between formats; build datasets.", MOTION, "cli.commands.convert:CONVERT"),
    _own("compose", "Join single clips into prompts of several actions.", MOTION, "text_to_motion.commands:COMPOSE"),
    _own("profile", "Measure a dataset; suggest settings for it.", MOTION, "cli.commands.profile:PROFILE"),
    _own("eval", "Measure a policy or a run by a named protocol.", MOTION),
    _own("export", "Write a run's model, or its episodes, for another tool.", MOTION, "cli.commands.export:EXPORT"),
    _own("push", "Send an exported model to the Hugging Face hub.", MOTION, "cli.commands.push:PUSH"),
    _own("runs", "List runs, show, open, compare, tag and remove them.", LOOK),
    _own("report", "Make the page of a run, or of several to compare.", LOOK),
    _own("config", "Show every setting of a command, or explain one.", LOOK),
    _own("plugins", "List, show, check and start plugins.", LOOK),
    _own("doctor", "Check this installation; the output fits into a bug report.", LOOK),
)

TRAINER_SUMMARIES = {
    "grpo": "Fine-tune a text-to-motion diffusion model against rewards.",
    "train-mpl": "Train a motion predictor, from teacher forcing to free runs.",
    "reward-collect": "Collect camera images of episodes with and without success.",
    "reward-train": "Train a success classifier on collected episodes.",
    "ppo": "Train a policy on a learned reward, or on the environment's own.",
    "sa2va-rl": "Train captions of regions and masks of captions on each other.",
    "pretrain": "Train a model from data.",
    "pretrain.mpl-encoder": "Train a motion encoder for the motion predictor.",
    "pretrain.mdm": "Train a motion diffusion model.",
    "pretrain.tmr": "Train a text-motion retrieval model.",
    "pretrain.regions": "Train a small region policy for sa2va-rl.",
    "pretrain.t2m-evaluator": "Train an evaluator of text-to-motion.",
}
"""Our own trainers' lines, so that the list of commands imports none of them; others use their package's summary."""

ELSEWHERE = {
    "cut": "motionkit convert FILE OUT --start S --end S cuts a clip",
    "end": "motionkit convert FILE OUT --end S cuts a clip",
    "in-place": "motionkit convert FILE OUT --in-place takes the path out of a motion",
    "loop": "motionkit convert FILE OUT --loop makes a motion loop",
    "play": "motionkit view FILE plays it",
    "retarget": "motionkit convert FILE OUT --rig RIG puts a motion on another rig",
    "start": "motionkit convert FILE OUT --start S cuts a clip",
    "trim": "motionkit convert FILE OUT --start S --end S cuts a clip",
}
"""Words that users try as commands or options, to what there is instead."""

DEFAULTS = {"pretrain": "mpl-encoder"}
"""Default trainers of prefixes, as in the training guides."""


@cache
def rows() -> tuple[CommandRow, ...]:
    """Return the commands whose module is there."""
    return tuple(row for row in ROWS if module_exists(row.target.partition(":")[0]))


def module_exists(name: str) -> bool:
    """Whether a module is there, without importing it or its parents."""
    top, *rest = name.split(".")
    try:
        spec = importlib.util.find_spec(top)
    except (ImportError, ValueError):
        return False
    if spec is None:
        return False
    if not rest or not spec.submodule_search_locations:
        return not rest
    for folder in spec.submodule_search_locations:
        place = Path(folder).joinpath(*rest)
        if (
            place.with_suffix(".py").is_file()
            or (place / "__init__.py").is_file()
            or list(place.parent.glob(f"{place.name}.*.so"))
        ):
            return True
    return False
