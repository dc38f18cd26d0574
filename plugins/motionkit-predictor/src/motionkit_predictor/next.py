"""Commands to type next: after the encoder, after the predictor, and after a conversion to its clips."""

from __future__ import annotations

from pathlib import Path

from motionkit import plugins
from motionkit.runs import RunInfo
from motionkit.runs.words import words_for


def after_encoder(info: RunInfo) -> list[list[str]]:
    """Return the commands after `pretrain mpl-encoder`."""
    folder = str(info.directory)
    model = plugins.get("trainers", "train-mpl").options
    return [
        ["train-mpl", "--encoder", folder, *words_for(model, info.config, ("data", "fps"))],
        ["runs", "show", folder],
    ]


def after_predictor(info: RunInfo) -> list[list[str]]:
    """Return the commands after `train-mpl`.

    Its schedules span the epochs of the run, so that a longer run is a new one with the same settings.
    """
    folder = str(info.directory)
    again = ["--config", f"{folder}/config.json"]
    lines = [["eval", "mpl", folder], ["predict", folder, "motion.html"]]
    epochs = info.last().get("data/epoch")
    if isinstance(epochs, (int, float)) and epochs >= 1:
        lines.append(["train-mpl", *again, "--epochs", str(2 * round(epochs))])
    return [*lines, ["tune-bayes", "--base", f"{folder}/config.json"], ["report", folder]]


def after_conversion(out: Path, *, to: str, captions: bool) -> list[list[str]]:
    """Return the commands after a conversion; of several skeletons each has a folder, and the largest is taken."""
    parts = [part for part in sorted(out.iterdir()) if part.is_dir() and any(part.glob("*.npz"))]
    folder = str(max(parts, key=lambda part: len([*part.glob("*.npz")]), default=out))
    return [["train-mpl", "--data", folder], ["profile", folder]]
