"""The table of metrics that several systems log or print, defined once, and the lookup of a name.

A row has the name, unit, direction and meaning; then the label for people, if that is not the last part of the name,
and the number of decimals in tables, if that is fixed. See `motionkit.plugins.Metric`. Systems and plugins define
further metrics in their `Component`; `definition` finds these too.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping
from contextlib import suppress
from functools import cache

from motionkit.errors import MotionkitError
from motionkit.plugins import FREE, Direction, Metric, builtin_metrics, declared, short_ones

Row = tuple[str, str, Direction, str] | tuple[str, str, Direction, str, str] | tuple[str, str, Direction, str, str, int]
Rows = tuple[Row, ...]
"""Name, unit, direction and meaning; then label and digits, see `motionkit.plugins.Metric`."""

_EVALUATION: Rows = (
    (
        "eval/r_precision_1",
        "1",
        "up",
        "Texts whose own motion is the nearest of 32 (euclidean); a tie counts by its expectation.",
        "R@1",
    ),
    ("eval/r_precision_2", "1", "up", "Texts whose own motion is among the 2 nearest of 32.", "R@2"),
    ("eval/r_precision_3", "1", "up", "Texts whose own motion is among the 3 nearest of 32.", "R@3"),
    (
        "eval/style",
        "1",
        "up",
        "Of captions that name a style: motions that are nearest to their own caption among those of the same content "
        "in all styles.",
        "style accuracy",
    ),
    ("eval/mm_dist", "1", "down", "Distance of a text to its own motion, mean over whole batches of 32.", "MM-Dist"),
    (
        "eval/fid",
        "1",
        "down",
        "Frechet distance of the motions to the reference motions of the split, both as Gaussians.",
        "FID",
    ),
    (
        "eval/kid",
        "1",
        "down",
        "Unbiased kernel distance to the reference motions (cubic kernel), beside a FID of too few motions.",
        "KID",
    ),
    (
        "eval/fid_guide",
        "1",
        "down",
        "Frechet distance of composite motions to single clips, as the guide has it: different by construction.",
        "FID to single clips (guide)",
    ),
    (
        "eval/diversity",
        "1",
        "none",
        "Distance of 300 random pairs of motions; best near that of reference motions.",
        "Diversity",
    ),
    (
        "eval/multimodality",
        "1",
        "none",
        "Distance of random pairs of motions of one text; more is more varied.",
        "MultiModality",
    ),
    (
        "eval/movement",
        "1",
        "one",
        "Swing from 0.5 to 5 Hz of the joint that moves most in reference clips of the action, as a share of theirs.",
        "movement, share of reference",
    ),
    (
        "eval/statues",
        "1",
        "down",
        "Share of motions in which no joint moves 10 cm, relative to root and heading, where reference ones do.",
    ),
    (
        "eval/side",
        "1",
        "up",
        "Share of motions whose caption names a limb's side in which that limb moves more.",
        "named side right",
    ),
    (
        "eval/kinetic_fid",
        "1",
        "down",
        "Frechet distance of kinetic features to reference clips (energies and accelerations of joints, AIST++'s "
        "FID_k), each feature in standard deviations of the reference ones.",
        "kinetic FID",
    ),
    (
        "eval/npss",
        "1",
        "down",
        "Distance of the power spectra of joint positions, relative to root and heading, to those of the reference "
        "motion of the prompt (Gopalakrishnan 2019).",
        "NPSS",
    ),
)
"""Figures of ``motionkit eval text-to-motion``."""

_HELD_OUT: Rows = (
    ("heldout/reward/mean", "1", "up", "Reward on held-out prompts, evaluation sampler, paired noise."),
    ("heldout/reward/delta", "1", "up", "Reward on held-out prompts minus its value before training."),
    ("heldout/reward/<name>", "1", "up", "One reward's own score on held-out prompts."),
    ("heldout/judge/mean", "1", "up", "Score of the judge, which is never a reward, on held-out prompts."),
    ("heldout/judge/delta", "1", "up", "Score of the judge on held-out prompts minus its value before training."),
    ("heldout/judge/<name>", "1", "up", "One figure of the judge on held-out prompts."),
    ("heldout/physics/skate", "m/s", "down", "Speed of the feet along the floor while they touch it, held out."),
    (
        "heldout/physics/jerk",
        "m/s^3",
        "none",
        "Third derivative of joint positions of held-out samples; neither far above nor below that of reference clips.",
    ),
    (
        "heldout/diversity",
        "1",
        "up",
        "Standard deviation over the samples of one prompt, mean over normalised features and prompts.",
    ),
    ("heldout/speed", "m/s", "none", "Mean speed of the joints of held-out samples; a fall is slower motion."),
    ("heldout/path", "m", "none", "Way of the root over the ground in held-out samples."),
    (
        "heldout/movement",
        "1",
        "one",
        "eval/movement of held-out samples, mean over their segments.",
        "movement, share of reference",
    ),
    ("heldout/statues", "1", "down", "eval/statues of the segments of held-out samples."),
    ("heldout/side", "1", "up", "eval/side of the segments of held-out samples."),
    (
        "heldout/kinetic_fid",
        "1",
        "down",
        "Distance of speeds and accelerations of joints from those of reference clips, by segment: eval/kinetic_fid.",
        "kinetic FID",
    ),
    (
        "heldout/npss",
        "1",
        "down",
        "Distance of the power spectra of joints from those of the segments' own reference clips: eval/npss.",
        "NPSS",
    ),
    (
        "heldout/r_precision_3",
        "1",
        "up",
        "Segments whose motion is among the 3 nearest of 32 to their text, by an evaluator that no training read.",
        "R@3",
    ),
    ("heldout/style", "1", "up", "eval/style of the segments of held-out samples.", "style accuracy"),
    (
        "heldout/kid",
        "1",
        "down",
        "Kernel distance of held-out segments to the clips of the split, by an evaluator that no training read; "
        "unbiased for few motions, 0 for equal distributions.",
        "KID",
    ),
    (
        "heldout/fid",
        "1",
        "down",
        "Frechet distance of generated to reference clips in the space of judge or evaluator.",
    ),
    ("heldout/<name>", "1", "none", "Another held-out figure, named by the evaluation."),
)
"""Figures of text-to-motion policies on the same held-out prompts with the same noise, before and after training."""

_TABLE: Rows = (
    # one step of reinforcement learning
    ("loss/total", "1", "down", "What the optimiser minimised: the sum of the weighted losses."),
    ("loss/policy", "1", "down", "Policy-gradient surrogate alone; near zero by construction when on-policy."),
    ("loss/reward", "1", "down", "Minus the mean of the rewards that are followed by their gradient."),
    ("loss/kl", "1", "down", "KL penalty as it enters loss/total (coefficient included)."),
    (
        "loss/anchor",
        "1",
        "down",
        "Roughness over time of the difference to the reference's predictions, as it enters loss/total.",
    ),
    ("loss/physics", "1", "down", "Jerk and skate as they enter loss/total; with a physics reward, -log R_phy."),
    ("loss/hold", "1", "down", "Distance to the reference's predictions, as it enters loss/total."),
    ("loss/data", "1", "down", "Supervised loss on the dataset's own clips, as it enters loss/total."),
    ("loss/diversity", "1", "down", "Minus the log of the spread of a prompt's motions, as it enters loss/total."),
    ("reward/mean", "1", "up", "Weighted total reward, mean over the step's finite samples."),
    ("reward/std", "1", "none", "Standard deviation of the total reward over the step's samples."),
    ("reward/min", "1", "up", "Smallest total reward of the step."),
    ("reward/max", "1", "up", "Largest total reward of the step."),
    ("reward/group_std", "1", "none", "Standard deviation within a group, mean over groups: what the advantage uses."),
    ("reward/nan", "1", "down", "Samples whose reward was not finite; they carry no gradient."),
    ("reward/left_out", "1", "down", "Rewards without any finite score, left out of the step's total."),
    ("reward/<name>/mean", "1", "up", "One reward's own score before weighting, mean over the step."),
    ("reward/<name>/std", "1", "none", "Standard deviation of one reward over the step's samples."),
    ("reward/<name>/applies", "1", "none", "Share of the step's samples that a reward applies to, where it says so."),
    ("reward/<name>/<part>", "1", "none", "A part that one reward reports, mean over the step."),
    (
        "reward/correlation/<name>/<other>",
        "1",
        "none",
        "Pearson correlation of two rewards within the groups of the step; below 0 one is paid for with the other.",
    ),
    ("advantage/mean", "1", "none", "Mean advantage; zero up to rounding when nothing is clipped."),
    ("advantage/std", "1", "none", "Standard deviation of the advantages."),
    ("logp/current_per_dim", "nats/dim", "none", "Log-probability of the trained steps, mean over valid dimensions."),
    ("logp/reference_per_dim", "nats/dim", "none", "The same steps under the reference policy."),
    ("ratio/mean", "1", "none", "Mean probability ratio to the policy that sampled, as the objective uses it."),
    ("ratio/clip_fraction", "1", "none", "Share of (sample, timestep) pairs whose ratio was clipped."),
    ("ratio/log_nats", "nats", "none", "Largest absolute log-ratio, summed over a sample's valid dimensions."),
    ("audit/first_ratio_per_dim", "nats/dim", "none", "Largest |mean log-ratio| before the first update; 0 if sound."),
    ("kl/nats_per_dim", "nats/dim", "down", "Closed-form KL to the reference, mean over valid dimensions and steps."),
    ("kl/nats", "nats", "down", "Closed-form KL to the reference per timestep, summed over valid dimensions."),
    ("kl/coefficient", "1", "none", "Weight of the KL in the update, where it is adapted to a target."),
    ("grad/norm", "1", "none", "Norm of the gradient before clipping."),
    ("grad/left_out", "1", "down", "Updates of the step that were left out because their gradient was not finite."),
    ("optim/learning_rate", "1", "none", "Learning rate of the step."),
    ("group/zero_variance", "1", "down", "Share of groups whose samples all scored the same."),
    ("match/error", "1", "none", "Mean squared error of predictions to noised samples, normalised features."),
    (
        "pair/gap",
        "1",
        "none",
        "Reward of the better sample minus that of the worse, mean over the pairs that are kept.",
    ),
    ("pair/left_out", "1", "down", "Share of pairs whose rewards are too close to tell which is better."),
    ("pair/accuracy", "1", "up", "Share of pairs that the policy tells apart better than the reference does."),
    # physics of motions, everywhere
    ("physics/skate", "m/s", "down", "Horizontal foot speed while in contact, mean over samples."),
    (
        "physics/jerk",
        "m/s^3",
        "none",
        "Third derivative of joint positions; neither far above nor below that of reference clips.",
    ),
    (
        "physics/penetration",
        "m",
        "down",
        "How far the lowest joint is below the floor, frames within 5 mm counted as 0; mean over frames and samples.",
    ),
    (
        "physics/float",
        "m",
        "none",
        "How far the lowest joint is above the floor, frames within 5 mm counted as 0; mean over frames and samples.",
    ),
    *_EVALUATION,
    *_HELD_OUT,
    # supervised training
    ("loss/diffusion", "1", "down", "Masked mean squared error of predicted x0, normalised features."),
    ("loss/velocity", "1", "down", "Masked mean squared error of predicted frame-to-frame differences."),
    ("loss/recons", "1", "down", "Smooth L1 between decoded and true motions, normalised features."),
    ("loss/kl_latent", "nats", "down", "KL of the latents to the prior and between the text and motion encoders."),
    ("loss/latent", "1", "down", "Smooth L1 between text and motion latents."),
    ("loss/contrastive", "nats", "down", "InfoNCE over the batch, false negatives filtered."),
    ("loss/negatives", "nats", "down", "Softplus of what changed copies of a clip or caption score above their pair."),
    (
        "loss/hinge",
        "1",
        "down",
        "Evaluator: squared distance of true pairs, and of false ones what they lack to the margin.",
    ),
    ("loss/nce", "nats", "down", "Evaluator: InfoNCE of distances over the batch, equal captions left out."),
    ("loss/period", "1", "down", "Squares of the soft period's errors, weighed by its confidence."),
    ("loss/gait", "nats", "down", "Cross-entropy of the soft gait, rare gaits weighed up."),
    ("loss/pose", "1", "down", "Smooth L1 of the turns to the pose ahead, in deviations."),
    ("loss/<name>", "1", "down", "Another part of loss/total, named by its trainer."),
    ("val/loss", "1", "down", "The training loss on the validation split.", "held-out loss"),
    ("val/loss/<name>", "1", "down", "One part of the training loss on the validation split."),
    (
        "retrieval/<direction>/<name>",
        "1",
        "none",
        "Another retrieval figure; those that end in _chance are what guessing reaches.",
    ),
    ("time/step", "s", "down", "Wall-clock seconds of the step."),
    ("time/cpu", "s", "down", "CPU seconds of the step, all threads."),
    ("time/rollout", "s", "down", "Seconds of sampling."),
    ("time/reward", "s", "down", "Seconds of scoring."),
    ("time/update", "s", "down", "Seconds of forward, backward and optimiser."),
    ("data/epoch", "epochs", "none", "Passes over the training split so far."),
    ("tune/value", "1", "none", "What the trial of a search reached; its study.json says whether higher is better."),
    ("tune/best", "1", "none", "The best that a search has reached so far."),
)


def _retrieval() -> Iterator[Metric]:
    ways = {"t2m": ("Text to motion", "motion"), "m2t": ("Motion to text", "text")}
    sets = {
        "": ("among all clips", "all"),
        "_same": ("among all clips, captions that say the same count as right", "all, same captions right"),
        "_32": ("in batches of 32", "32"),
        "_32_short": ("in batches of 32, motions cropped to the length of a segment", "32, short crops"),
    }
    for way, (title, truth) in ways.items():
        for tag, (where, few) in sets.items():
            for first in (1, 2, 3, 10):
                meaning = f"{title} retrieval {where}: true {truth} ranked in the first {first}."
                yield Metric(f"retrieval/{way}/r{first}{tag}", "%", "up", meaning, f"R@{first} of {few}")
            meaning = f"{title} retrieval {where}: median rank."
            yield Metric(f"retrieval/{way}/medr{tag}", "rank", "down", meaning, f"median rank of {few}")


_OURS = {metric.name: metric for metric in (*(Metric(*row) for row in _TABLE), *_retrieval())}


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
