"""The table of metrics that several systems log or print, defined once, and the lookup of a name.

Systems and plugins define further metrics in their `Component`; `definition` finds these too.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from contextlib import suppress
from functools import cache

from motionkit.errors import MotionkitError
from motionkit.plugins import FREE, Metric, builtin_metrics, declared, short_ones

_TABLE = (
    # one step of reinforcement learning
    Metric("loss/total", "1", "down", "What the optimiser minimised: the sum of the weighted losses."),
    Metric("loss/policy", "1", "down", "Policy-gradient surrogate alone; near zero by construction when on-policy."),
    Metric("loss/reward", "1", "down", "Minus the mean of the rewards that are followed by their gradient."),
    Metric("loss/kl", "1", "down", "KL penalty as it enters loss/total (coefficient included)."),
    Metric("reward/mean", "1", "up", "Weighted total reward, mean over the step's finite samples."),
    Metric("reward/std", "1", "none", "Standard deviation of the total reward over the step's samples."),
    Metric("reward/min", "1", "up", "Smallest total reward of the step."),
    Metric("reward/max", "1", "up", "Largest total reward of the step."),
    Metric(
        "reward/group_std", "1", "none", "Standard deviation within a group, mean over groups: what the advantage uses."
    ),
    Metric("reward/nan", "1", "down", "Samples whose reward was not finite; they carry no gradient."),
    Metric("reward/left_out", "1", "down", "Rewards without any finite score, left out of the step's total."),
    Metric(
        "reward/<name>/mean", "1", "up", "One reward's own score before weighting, mean over the step.", offset=True
    ),
    Metric("reward/<name>/std", "1", "none", "Standard deviation of one reward over the step's samples."),
    Metric(
        "reward/<name>/applies", "1", "none", "Share of the step's samples that a reward applies to, where it says so."
    ),
    Metric("reward/<name>/<part>", "1", "none", "A part that one reward reports, mean over the step."),
    Metric(
        "reward/correlation/<name>/<other>",
        "1",
        "none",
        "Pearson correlation of two rewards within the groups of the step; below 0 one is paid for with the other.",
    ),
    Metric("advantage/mean", "1", "none", "Mean advantage; zero up to rounding when nothing is clipped."),
    Metric("advantage/std", "1", "none", "Standard deviation of the advantages."),
    Metric(
        "logp/current_per_dim", "nats/dim", "none", "Log-probability of the trained steps, mean over valid dimensions."
    ),
    Metric("logp/reference_per_dim", "nats/dim", "none", "The same steps under the reference policy."),
    Metric("ratio/mean", "1", "none", "Mean probability ratio to the policy that sampled, as the objective uses it."),
    Metric("ratio/clip_fraction", "1", "none", "Share of (sample, timestep) pairs whose ratio was clipped."),
    Metric("ratio/log_nats", "nats", "none", "Largest absolute log-ratio, summed over a sample's valid dimensions."),
    Metric(
        "kl/nats_per_dim", "nats/dim", "down", "Closed-form KL to the reference, mean over valid dimensions and steps."
    ),
    Metric("kl/nats", "nats", "down", "Closed-form KL to the reference per timestep, summed over valid dimensions."),
    Metric("kl/coefficient", "1", "none", "Weight of the KL in the update, where it is adapted to a target."),
    Metric("grad/norm", "1", "none", "Norm of the gradient before clipping."),
    Metric(
        "grad/left_out", "1", "down", "Updates of the step that were left out because their gradient was not finite."
    ),
    Metric("optim/learning_rate", "1", "none", "Learning rate of the step."),
    Metric("group/zero_variance", "1", "down", "Share of groups whose samples all scored the same."),
    # held-out items, before and after training
    Metric(
        "heldout/reward/mean", "1", "up", "Reward on held-out prompts, evaluation sampler, paired noise.", offset=True
    ),
    Metric("heldout/reward/delta", "1", "up", "Reward on held-out prompts minus its value before training."),
    Metric("heldout/reward/<name>", "1", "up", "One reward's own score on held-out prompts."),
    Metric("heldout/<name>", "1", "none", "Another held-out figure, named by the evaluation."),
    # supervised training, and all training
    Metric("loss/<name>", "1", "down", "Another part of loss/total, named by its trainer."),
    Metric("val/loss", "1", "down", "The training loss on the validation split.", "held-out loss"),
    Metric("val/loss/<name>", "1", "down", "One part of the training loss on the validation split."),
    Metric("time/step", "s", "down", "Wall-clock seconds of the step."),
    Metric("time/cpu", "s", "down", "CPU seconds of the step, all threads."),
    Metric("time/rollout", "s", "down", "Seconds of sampling."),
    Metric("time/reward", "s", "down", "Seconds of scoring."),
    Metric("time/update", "s", "down", "Seconds of forward, backward and optimiser."),
    Metric("data/epoch", "epochs", "none", "Passes over the training split so far."),
    Metric(
        "tune/value", "1", "none", "What the trial of a search reached; its study.json says whether higher is better."
    ),
    Metric("tune/best", "1", "none", "The best that a search has reached so far."),
)

_OURS = {metric.name: metric for metric in _TABLE}


@cache
def all_metrics() -> Mapping[str, Metric]:
    """Return all definitions of motionkit by name, in the order of listings: this table, then the systems' own."""
    return {**_OURS, **builtin_metrics()}


@cache
def _patterns() -> tuple[tuple[re.Pattern[str], Metric], ...]:
    patterns = [(metric.pattern, metric) for metric in all_metrics().values() if "<" in metric.name]
    # Fewest free parts first: reward/<name>/mean before reward/<name>/<part>.
    return tuple(sorted(patterns, key=lambda item: item[1].name.count("<")))


def definition(name: str) -> Metric:
    """Return the definition of a logged name: motionkit's, or that of a plugin that was looked up in this process.

    Raises:
        KeyError: The name is not defined. A plugin names it in ``Component(metrics=...)``, or begins it with ``my/``.

    Example:
        >>> definition("reward/physics/mean").unit
        '1'
    """
    if name in all_metrics():
        return all_metrics()[name]
    known = declared(name)
    if known is not None and known.name == name:
        return known
    result = next((metric for pattern, metric in _patterns() if pattern.fullmatch(name)), known)
    if result is not None:
        return result
    raise KeyError(f"metric {name!r} is not defined by motionkit or a plugin")


def row_definition(name: str) -> Metric | None:
    """Return the definition of a row of results; None if there is none.

    Args:
        name: A logged name, or what follows ``heldout/``, ``val/`` or the first part of a metric that is `short`.

    Example:
        >>> row_definition("movement").name, row_definition("reward").name
        ('heldout/movement', 'heldout/reward/mean')
    """
    for key in (name, f"heldout/{name}/mean", f"heldout/physics/{name}", f"heldout/{name}", f"val/{name}"):
        if key in all_metrics():
            return all_metrics()[key]
    for metric in (*_short(), *short_ones()):
        if metric.pattern.fullmatch(f"{metric.name.partition('/')[0]}/{name}"):
            return metric
    with suppress(KeyError):
        return definition(name)
    return None


@cache
def _short() -> tuple[Metric, ...]:
    """Return motionkit's metrics with `Metric.short`; those without a free part first."""
    return tuple(sorted((m for m in all_metrics().values() if m.short), key=lambda metric: metric.name.count("<")))


def require_defined(names: Iterable[str]) -> None:
    """Refuse names that are not defined, before anything is written.

    Raises:
        MotionkitError: A name is not defined (exit code 1); the message says how a plugin defines it.
    """
    for name in names:
        try:
            definition(name)
        except KeyError:
            raise MotionkitError(
                f"metric {name!r} is not defined.",
                why="each metric has a unit, a direction and a meaning; pages and verdicts use them.",
                fix=f"log it as '{FREE}{name}', or define it in the plugin: Component(metrics=(Metric({name!r}, "
                "unit='1', better='down', meaning='What it measures.'),))",
                code=1,
            ) from None


def titled(*names: str) -> dict[str, str]:
    """Return names of metrics by their labels, as charts and tables show them."""
    return {definition(name).title(name): name for name in names}
