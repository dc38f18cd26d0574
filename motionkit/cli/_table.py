"""The commands that are not trainers: name, where they are, one line, panel. Nothing here is imported to list them."""

from __future__ import annotations

import importlib.util
from dataclasses import dataclass
from pathlib import Path

MOTION, TRAIN, LOOK = "Motion", "Train", "Look and check"
PANELS = (TRAIN, MOTION, LOOK)


@dataclass(frozen=True)
class CommandRow:
    """One command."""

    name: str  # Its name
    target: str  # ``module:register``; ``register(app)`` adds the command to a Typer app of its own
    summary: str  # One line for the list of commands
    panel: str  # Heading it stands under
    hidden: bool = False  # Keep it out of the list, because another command does the same


def _own(name: str, summary: str, panel: str, *, hidden: bool = False) -> CommandRow:
    return CommandRow(name, f"motionkit.cli.commands.{name.replace('-', '_')}:register", summary, panel, hidden)


ROWS = (
    _own("tune", "Search a trainer's settings (--bayes, or tune-bayes), or adjust them by a run.", TRAIN),
    _own("tune-bayes", "Search a trainer's settings with Optuna: the same as tune --bayes.", TRAIN, hidden=True),
    _own("generate", "Make motions from text with a policy.", MOTION),
    _own("predict", "Continue a motion with a predictor, freely or along a path.", MOTION),
    _own("convert", "Convert motions between formats; build datasets.", MOTION),
    _own("compose", "Join single clips into prompts of several actions.", MOTION),
    _own("profile", "Measure a dataset; suggest settings for it.", MOTION),
    _own("eval", "Measure a policy or a run by a named protocol.", MOTION),
    _own("export", "Write a run's model, or its episodes, for another tool.", MOTION),
    _own("runs", "List runs, show one, compare several.", LOOK),
    _own("report", "Make the page of a run, or of several to compare.", LOOK),
    _own("config", "Show every setting of a command, or explain one.", LOOK),
    _own("plugins", "List, show, check and start plugins.", LOOK),
    _own("doctor", "Check this installation; the output fits into a bug report.", LOOK),
)

# Our own trainers' lines, so that the list of commands imports none of them; others use their package's summary.
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


def rows() -> list[CommandRow]:
    """Return the commands whose module is there."""
    return [row for row in ROWS if module_exists(row.target.partition(":")[0])]


ELSEWHERE = {
    "cut": "motionkit.read(FILE).cut(START, STOP) cuts a clip in Python, in frames",
    "end": "motionkit.read(FILE).cut(START, STOP) cuts a clip in Python, in frames",
    "in-place": "no command takes the path out of a motion",
    "loop": "no command makes a motion loop",
    "play": "motionkit convert FILE PAGE.html makes a page that plays it",
    "retarget": "no command puts a motion on another rig",
    "start": "motionkit.read(FILE).cut(START, STOP) cuts a clip in Python, in frames",
    "trim": "motionkit.read(FILE).cut(START, STOP) cuts a clip in Python, in frames",
    "view": "motionkit convert FILE PAGE.html makes a page that plays it",
}
"""Words that are looked for as commands or options and are neither: what there is instead."""

DEFAULTS = {"pretrain": "mpl-encoder"}
"""Trainers that a prefix alone means, as the training guides do."""


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
