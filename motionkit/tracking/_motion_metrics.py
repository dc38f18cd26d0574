"""Metrics of text-to-motion policies: those of ``motionkit eval text-to-motion``, and of held-out prompts in a run."""

from __future__ import annotations

from motionkit.plugins import Direction

Rows = tuple[tuple[str, str, Direction, str], ...]

EVALUATION: Rows = (
    (
        "eval/r_precision_1",
        "1",
        "up",
        "Texts whose own motion is the nearest of 32 (euclidean); a tie counts by its expectation.",
    ),
    ("eval/r_precision_2", "1", "up", "Texts whose own motion is among the 2 nearest of 32."),
    ("eval/r_precision_3", "1", "up", "Texts whose own motion is among the 3 nearest of 32."),
    ("eval/mm_dist", "1", "down", "Distance of a text to its own motion, mean over whole batches of 32."),
    ("eval/fid", "1", "down", "Frechet distance of the motions to the real ones of the split, both as Gaussians."),
    (
        "eval/kid",
        "1",
        "down",
        "Unbiased kernel distance to the real motions (cubic kernel), beside a FID of too few motions.",
    ),
    (
        "eval/fid_guide",
        "1",
        "down",
        "Frechet distance of composite motions to single clips, as the guide has it: different by construction.",
    ),
    ("eval/diversity", "1", "none", "Distance of 300 random pairs of motions; best near that of real motions."),
    ("eval/multimodality", "1", "none", "Distance of random pairs of motions of one text; more is more varied."),
    (
        "eval/movement",
        "1",
        "one",
        "Swing from 0.5 to 5 Hz of the joint that moves most in real clips of the action, as a share of theirs.",
    ),
    (
        "eval/statues",
        "1",
        "down",
        "Share of motions in which no joint moves 10 cm, relative to root and heading, where real ones do.",
    ),
    ("eval/side", "1", "up", "Share of motions whose caption names a limb's side in which that limb moves more."),
    (
        "eval/kinetic_fid",
        "1",
        "down",
        "Frechet distance of kinetic features to real motions (energies and accelerations of joints, AIST++'s FID_k), "
        "each feature in standard deviations of the real ones.",
    ),
    (
        "eval/npss",
        "1",
        "down",
        "Distance of the power spectra of joint positions, relative to root and heading, to those of the real motion "
        "of the prompt (Gopalakrishnan 2019).",
    ),
)
"""Figures of an evaluation: name, unit, direction, meaning."""

HELD_OUT: Rows = (
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
        "Third derivative of joint positions of held-out samples; neither far above nor below real motion.",
    ),
    (
        "heldout/diversity",
        "1",
        "up",
        "Standard deviation over the samples of one prompt, mean over normalised features and prompts.",
    ),
    ("heldout/speed", "m/s", "none", "Mean speed of the joints of held-out samples; a fall is slower motion."),
    ("heldout/path", "m", "none", "Way of the root over the ground in held-out samples."),
    ("heldout/movement", "1", "one", "eval/movement of held-out samples, mean over their segments."),
    ("heldout/statues", "1", "down", "eval/statues of the segments of held-out samples."),
    ("heldout/side", "1", "up", "eval/side of the segments of held-out samples."),
    (
        "heldout/kinetic_fid",
        "1",
        "down",
        "Distance of speeds and accelerations of the joints from those of real clips, by segment: eval/kinetic_fid.",
    ),
    (
        "heldout/npss",
        "1",
        "down",
        "Distance of the power spectra of joints from those of the segments' own real clips: eval/npss.",
    ),
    ("heldout/fid", "1", "down", "Frechet distance of generated to real clips in the space of the judge."),
    ("heldout/<name>", "1", "none", "Another held-out figure, named by the evaluation."),
)
"""Figures of the same held-out prompts with the same noise, before and after training."""
