"""What `pretrain mdm` and `pretrain tmr` share where they go on from another model (``--init``)."""

from __future__ import annotations

from collections.abc import Collection, Mapping

from motionkit.config import Group
from motionkit.errors import MotionkitError
from motionkit.text import TEXT_OPTIONS


def differing(model: Group, theirs: Mapping[str, object], typed: Collection[str] = ()) -> tuple[str, object] | None:
    """Return the first setting that was given and differs from a model's, with the model's value; None if all agree.

    A default value counts only if it was typed: a run's ``config.json`` contains every setting.

    Args:
        model: Settings of the shape, the group ``model``.
        theirs: The shape of the model that training starts from.
        typed: Keys of the settings that were typed, such as ``model.layers``.
    """
    defaults = type(model)()
    for name, value in theirs.items():
        wanted = getattr(model, name)
        if wanted != value and (f"model.{name}" in typed or wanted != getattr(defaults, name)):
            return name, value
    return None


def for_training(error: MotionkitError) -> MotionkitError:
    """Return an error of opening a policy or a reward with the names that its options have in `pretrain`."""
    fix = error.fix.rpartition("for a TMR ")[2].replace("leave --reward.weights at 'starter'", "'starter'")
    fix = fix.partition(", or --policy.stats")[0].replace(TEXT_OPTIONS, "--text.model DIR")
    for name in ("policy", "reward"):
        fix = fix.replace(f"--{name}.text-model", "--text.model")
    for name in ("policy.checkpoint", "reward.weights"):
        fix = fix.replace(f"--{name}", "--init")
    fix = fix.replace("choose a dataset and a checkpoint", "leave --init out, or choose a dataset and a policy")
    if "--reward.stats" in fix:
        fix = "put TMR's mean.pt and std.pt into the folder of the weights."
    return MotionkitError(error.message, why=error.why, fix=fix)
