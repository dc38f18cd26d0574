"""The kinds of plugins: one row each. Protocols, checks and templates are named, not imported, so this stays light.

To add a kind, add a row: discovery, lookup, help, `motionkit plugins` and `motionkit.testing` read it from here.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field


@dataclass(frozen=True)
class Kind:
    """One kind of plugin."""

    name: str  # Its name, plural; the entry-point group is ``motionkit.NAME``
    singular: str  # One of them, as in messages and in ``plugins new SINGULAR``
    # What components of this kind can give, each word with its protocol as ``module:Class``; the protocol is empty
    # until the first system that needs it defines it. A component that names no word gives the first.
    gives: Mapping[str, str] = field(default_factory=dict)
    # What components can read, each word with the class of the record they are given. The first is the default, too.
    reads: Mapping[str, str] = field(default_factory=dict)
    runtime: tuple[str, ...] = ()  # Names of the keyword arguments that the factory is called with, after the options
    check: str = ""  # The contract check as ``module:function``; empty when there is none but `check_component`
    alone: bool = False  # Whether `check` can build a plugin from its name and its default options
    scaffold: str = ""  # Templates of ``motionkit plugins new`` as ``module:NAME``; empty when there are none
    # Those of plugins that give something else than the first of `gives`, by that word.
    scaffolds: Mapping[str, str] = field(default_factory=dict)
    weighted: bool = False  # Whether several can be chosen together, each with a weight
    question: str = ""  # Help of a slot of this kind; empty for "Which NAME to use."
    note: str = ""  # Why no plugin of this kind can be written yet; empty for all others


_ROWS = (
    Kind(
        "rewards",
        "reward",
        gives={"reward": "motionkit.contracts.reward:Reward"},
        reads={
            "motion": "motionkit.motion:MotionBatch",
            "image": "motionkit.contracts.reward:FrameBatch",
            "mask": "motionkit.contracts.reward:MaskBatch",
            "text": "motionkit.contracts.reward:TextBatch",
            "step": "motionkit.contracts.reward:StepBatch",
        },
        runtime=("dataset", "device"),
        check="motionkit.testing:check_reward",
        alone=True,
        scaffold="motionkit.plugins._templates.reward:FILES",
        weighted=True,
        question="What to reward, repeatable.",
    ),
    Kind(
        "trainers",
        "trainer",
        gives={"trainer": "motionkit.training.base:Trainer"},
        check="motionkit.testing:check_trainer",
        scaffold="motionkit.plugins._templates.trainer:FILES",
    ),
    Kind(
        "algorithms",
        "algorithm",
        gives={"algorithm": "motionkit.text_to_motion.grpo.algorithms.base:Algorithm"},
        runtime=("policy", "reference", "rewards", "seed", "precision", "shuffle", "world"),
        check="motionkit.testing:check_algorithm",
    ),
    Kind(
        "loops",
        "loop",
        gives={"loop": "motionkit.regions.self_play.loop:Loop"},
        runtime=("policy",),
        check="motionkit.testing:check_loop",
        question="Which loop to play.",
    ),
    Kind(
        "datasets",
        "dataset",
        gives={
            "text-motion": "motionkit.contracts.dataset:TextMotionDataset",
            "composite": "motionkit.contracts.dataset:TextMotionDataset",  # clips and prompts of several actions
            "frames": "",
            "regions": "motionkit.contracts.dataset:RegionDataset",
            "transitions": "",
        },
        check="motionkit.testing:check_dataset",
        alone=True,
        scaffold="motionkit.plugins._templates.dataset:FILES",
        scaffolds={"regions": "motionkit.plugins._templates.regions:FILES"},
    ),
    Kind(
        "environments",
        "environment",
        gives={"episodes": "motionkit.contracts.environment:Environment"},
        runtime=("num_envs",),
        check="motionkit.testing:check_environment",
        alone=True,
        scaffold="motionkit.plugins._templates.environment:FILES",
    ),
    Kind(
        "policies",
        "policy",
        gives={
            "diffusion": "motionkit.contracts.policy:DiffusionPolicy",
            "regions": "motionkit.contracts.policy:RegionPolicy",
            "actor": "",
            "predictor": "motionkit.contracts.policy:Predictor",
        },
        runtime=("device", "dataset"),
        check="motionkit.testing:check_policy",
        alone=True,
        scaffold="motionkit.plugins._templates.policy:FILES",
    ),
)

KINDS: Mapping[str, Kind] = {row.name: row for row in _ROWS}
"""Every kind by its name, in the order of listings."""


def either(words: Iterable[str]) -> str:
    """Return words as a choice: ``a, b or c``.

    Example:
        >>> either(["motion", "mask", "text"])
        'motion, mask or text'
    """
    *most, last = [*words] or [""]
    return f"{', '.join(most)} or {last}" if most else last
