"""Other tools' words for settings, options and commands here, for the hint of an error."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from motionkit.errors import did_you_mean

OTHER_WORDS: Mapping[str, tuple[str, ...]] = {
    "batch": ("batch-size", "prompts"),
    "bs": ("batch-size", "prompts"),
    "cfg": ("guidance-scale",),
    "checkpoint-dir": ("out",),
    "ckpt": ("checkpoint",),
    "clip": ("clip-range",),
    "clip-eps": ("clip-range",),
    "cuda": ("device",),
    "duration": ("durations", "seconds"),
    "epoch": ("epochs",),
    "evaluate": ("eval",),
    "finetune": ("grpo",),
    "force": ("overwrite",),
    "gpu": ("device",),
    "guidance": ("guidance-scale",),
    "iterations": ("num-steps",),
    "iters": ("num-steps",),
    "kl": ("kl-coef",),
    "length": ("durations", "max-length", "seconds"),
    "lr": ("learning-rate",),
    "max-steps": ("num-steps",),
    "model": ("checkpoint",),
    "n-samples": ("num-samples",),
    "num-workers": ("jobs", "workers"),
    "output": ("out",),
    "path": ("root",),
    "rank": ("r",),
    "rate": ("learning-rate",),
    "sample": ("generate",),
    "samples": ("num-samples", "group-size"),
    "step-size": ("learning-rate",),
    "steps": ("num-steps", "inference-timesteps"),
    "temp": ("temperature",),
    "train": ("grpo", "train-mpl"),
    "wd": ("weight-decay",),
    "workers": ("jobs",),
}
"""Only those that a command has are suggested; of a dotted key the last part counts."""


def which_setting(word: str, names: Iterable[str]) -> str:
    """Return ``did you mean ...?`` for the setting, option or command that is meant, or nothing.

    Example:
        >>> which_setting("lr", ["optim.learning_rate", "seed"])
        'did you mean optim.learning_rate?'
    """
    return did_you_mean(word, names, synonyms=OTHER_WORDS)
