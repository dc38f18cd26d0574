"""Metrics of text to motion: of its policies, of models that score texts and motions, and of ``motionkit eval``."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from motionkit.plugins import Metric
from motionkit.tracking import table_of

_TABLE = (
    # one step of reinforcement learning
    Metric(
        "loss/anchor",
        "1",
        "down",
        "Roughness over time of the difference to the reference's predictions, as it enters loss/total.",
    ),
    Metric("loss/physics", "1", "down", "Jerk and skate as they enter loss/total; with a physics reward, -log R_phy."),
    Metric("loss/hold", "1", "down", "Distance to the reference's predictions, as it enters loss/total."),
    Metric("loss/data", "1", "down", "Supervised loss on the dataset's own clips, as it enters loss/total."),
    Metric(
        "loss/diversity", "1", "down", "Minus the log of the spread of a prompt's motions, as it enters loss/total."
    ),
    Metric(
        "audit/first_ratio_per_dim", "nats/dim", "none", "Largest |mean log-ratio| before the first update; 0 if sound."
    ),
    Metric("match/error", "1", "none", "Mean squared error of predictions to noised samples, normalised features."),
    Metric(
        "pair/gap",
        "1",
        "none",
        "Reward of the better sample minus that of the worse, mean over the pairs that are kept.",
    ),
    Metric("pair/left_out", "1", "down", "Share of pairs whose rewards are too close to tell which is better."),
    Metric("pair/accuracy", "1", "up", "Share of pairs that the policy tells apart better than the reference does."),
    # physics of motions
    Metric("physics/skate", "m/s", "down", "Horizontal foot speed while in contact, mean over samples."),
    Metric(
        "physics/jerk",
        "m/s^3",
        "none",
        "Third derivative of joint positions; neither far above nor below that of reference clips.",
        matched=True,
    ),
    Metric(
        "physics/penetration",
        "m",
        "down",
        "How far the lowest joint is below the floor, frames within 5 mm counted as 0; mean over frames and samples.",
    ),
    Metric(
        "physics/float",
        "m",
        "none",
        "How far the lowest joint is above the floor, frames within 5 mm counted as 0; mean over frames and samples.",
    ),
    # motionkit eval text-to-motion
    Metric(
        "eval/r_precision_1",
        "1",
        "up",
        "Texts whose own motion is the nearest of 32 (euclidean); a tie counts by its expectation.",
        "R@1",
    ),
    Metric("eval/r_precision_2", "1", "up", "Texts whose own motion is among the 2 nearest of 32.", "R@2"),
    Metric("eval/r_precision_3", "1", "up", "Texts whose own motion is among the 3 nearest of 32.", "R@3"),
    Metric(
        "eval/style",
        "1",
        "up",
        "Of captions that name a style: motions that are nearest to their own caption among those of the same content "
        "in all styles.",
        "style accuracy",
    ),
    Metric(
        "eval/mm_dist", "1", "down", "Distance of a text to its own motion, mean over whole batches of 32.", "MM-Dist"
    ),
    Metric(
        "eval/fid",
        "1",
        "down",
        "Frechet distance of the motions to the reference motions of the split, both as Gaussians.",
        "FID",
    ),
    Metric(
        "eval/kid",
        "1",
        "down",
        "Unbiased kernel distance to the reference motions (cubic kernel), beside a FID of too few motions.",
        "KID",
    ),
    Metric(
        "eval/fid_guide",
        "1",
        "down",
        "Frechet distance of composite motions to single clips, as the guide has it: different by construction.",
        "FID to single clips (guide)",
    ),
    Metric(
        "eval/diversity",
        "1",
        "none",
        "Distance of 300 random pairs of motions; best near that of reference motions.",
        "Diversity",
    ),
    Metric(
        "eval/multimodality",
        "1",
        "none",
        "Distance of random pairs of motions of one text; more is more varied.",
        "MultiModality",
    ),
    Metric(
        "eval/movement",
        "1",
        "one",
        "Swing from 0.5 to 5 Hz of the joint that moves most in reference clips of the action, as a share of theirs.",
        "movement, share of reference",
    ),
    Metric(
        "eval/statues",
        "1",
        "down",
        "Share of motions in which no joint moves 10 cm, relative to root and heading, where reference ones do.",
    ),
    Metric(
        "eval/side",
        "1",
        "up",
        "Share of motions whose caption names a limb's side in which that limb moves more.",
        "named side right",
    ),
    Metric(
        "eval/kinetic_fid",
        "1",
        "down",
        "Frechet distance of kinetic features to reference clips (energies and accelerations of joints, AIST++'s "
        "FID_k), each feature in standard deviations of the reference ones.",
        "kinetic FID",
    ),
    Metric(
        "eval/npss",
        "1",
        "down",
        "Distance of the power spectra of joint positions, relative to root and heading, to those of the reference "
        "motion of the prompt (Gopalakrishnan 2019).",
        "NPSS",
    ),
    # the same held-out prompts with the same noise, before and after training
    Metric(
        "heldout/judge/mean",
        "1",
        "up",
        "Score of the judge, which is never a reward, on held-out prompts.",
        offset=True,
    ),
    Metric("heldout/judge/delta", "1", "up", "Score of the judge on held-out prompts minus its value before training."),
    Metric("heldout/judge/<name>", "1", "up", "One figure of the judge on held-out prompts."),
    Metric("heldout/physics/skate", "m/s", "down", "Speed of the feet along the floor while they touch it, held out."),
    Metric(
        "heldout/physics/jerk",
        "m/s^3",
        "none",
        "Third derivative of joint positions of held-out samples; neither far above nor below that of reference clips.",
        matched=True,
        words=("smoother", "rougher"),
    ),
    Metric(
        "heldout/diversity",
        "1",
        "up",
        "Standard deviation over the samples of one prompt, mean over normalised features and prompts.",
    ),
    Metric(
        "heldout/speed",
        "m/s",
        "none",
        "Mean speed of the joints of held-out samples; a fall is slower motion.",
        words=("slower", "faster"),
    ),
    Metric(
        "heldout/path", "m", "none", "Way of the root over the ground in held-out samples.", words=("shorter", "longer")
    ),
    Metric(
        "heldout/movement",
        "1",
        "one",
        "eval/movement of held-out samples, mean over their segments.",
        "movement, share of reference",
    ),
    Metric("heldout/statues", "1", "down", "eval/statues of the segments of held-out samples."),
    Metric("heldout/side", "1", "up", "eval/side of the segments of held-out samples."),
    Metric(
        "heldout/kinetic_fid",
        "1",
        "down",
        "Distance of speeds and accelerations of joints from those of reference clips, by segment: eval/kinetic_fid.",
        "kinetic FID",
    ),
    Metric(
        "heldout/npss",
        "1",
        "down",
        "Distance of the power spectra of joints from those of the segments' own reference clips: eval/npss.",
        "NPSS",
    ),
    Metric(
        "heldout/r_precision_3",
        "1",
        "up",
        "Segments whose motion is among the 3 nearest of 32 to their text, by an evaluator that no training read.",
        "R@3",
    ),
    Metric("heldout/style", "1", "up", "eval/style of the segments of held-out samples.", "style accuracy"),
    Metric(
        "heldout/kid",
        "1",
        "down",
        "Kernel distance of held-out segments to the clips of the split, by an evaluator that no training read; "
        "unbiased for few motions, 0 for equal distributions.",
        "KID",
    ),
    Metric(
        "heldout/fid",
        "1",
        "down",
        "Frechet distance of generated to reference clips in the space of judge or evaluator.",
    ),
    # supervised training
    Metric("loss/diffusion", "1", "down", "Masked mean squared error of predicted x0, normalised features."),
    Metric("loss/velocity", "1", "down", "Masked mean squared error of predicted frame-to-frame differences."),
    Metric("loss/recons", "1", "down", "Smooth L1 between decoded and true motions, normalised features."),
    Metric(
        "loss/kl_latent", "nats", "down", "KL of the latents to the prior and between the text and motion encoders."
    ),
    Metric("loss/latent", "1", "down", "Smooth L1 between text and motion latents."),
    Metric("loss/contrastive", "nats", "down", "InfoNCE over the batch, false negatives filtered."),
    Metric(
        "loss/negatives", "nats", "down", "Softplus of what changed copies of a clip or caption score above their pair."
    ),
    Metric(
        "loss/hinge",
        "1",
        "down",
        "Evaluator: squared distance of true pairs, and of false ones what they lack to the margin.",
    ),
    Metric("loss/nce", "nats", "down", "Evaluator: InfoNCE of distances over the batch, equal captions left out."),
    Metric(
        "retrieval/<direction>/<name>",
        "1",
        "none",
        "Another retrieval figure; those that end in _chance are what guessing reaches.",
    ),
)


_WAYS = {"t2m": ("Text to motion", "motion"), "m2t": ("Motion to text", "text")}
_SETS = {
    "": ("among all clips", "all", "all clips"),
    "_same": (
        "among all clips, captions that say the same count as right",
        "all, same captions right",
        "all, the same caption is a hit",
    ),
    "_32": ("in batches of 32", "32", "32 at a time"),
    "_32_short": (
        "in batches of 32, motions cropped to the length of a segment", "32, short crops", "32, short crops",
    ),
}  # fmt: skip
"""Sets among which retrieval ranks, by the ending of the metric: in its meaning, in its label and in a table."""

_FIRST = (1, 2, 3, 10)


def _retrieval() -> Iterator[Metric]:
    for way, (title, truth) in _WAYS.items():
        for tag, (where, few, _) in _SETS.items():
            for first in _FIRST:
                meaning = f"{title} retrieval {where}: true {truth} ranked in the first {first}."
                yield Metric(f"retrieval/{way}/r{first}{tag}", "%", "up", meaning, f"R@{first} of {few}")
            meaning = f"{title} retrieval {where}: median rank."
            yield Metric(f"retrieval/{way}/medr{tag}", "rank", "down", meaning, f"median rank of {few}")


METRICS = (*_TABLE, *_retrieval())


def retrieval_table(metrics: Mapping[str, Any], title: str = "") -> dict[str, Any] | None:
    """Return ``retrieval/...`` metrics as a trainer's ``table``; None if there are none.

    Example:
        >>> table = retrieval_table({"retrieval/t2m/r1_32": 25.0, "retrieval/t2m/medr_32": 3.0}, "held out")
        >>> table["rows"]
        [('text to motion, 32 at a time', '25.0', '', '', '', '3.0')]
    """
    rows = []
    ways = [(words.lower(), way, "") for way, (words, _) in _WAYS.items()]
    for words, way, ending in (*ways, ("chance", "t2m", "_chance")):
        for tag, (*_, among) in _SETS.items():
            ranks = (*(f"r{first}" for first in _FIRST), "medr")
            values = [metrics.get(f"retrieval/{way}/{rank}{tag}{ending}") for rank in ranks]
            if any(value is not None for value in values):
                rows.append((f"{words}, {among}", *("" if v is None else f"{float(v):.1f}" for v in values)))
    return table_of(title, ["", *(f"R@{first}" for first in _FIRST), "median rank"], rows) if rows else None
