"""The kinds of plugins, and the discovery of plugins by entry points, so that a broken one does not hide the others.

`KINDS` has a row for each kind. `scan` reads the entry points of one distribution at a time: ``entry_points()`` of the
standard library loses the entries of all packages if the metadata of one is malformed. Reading each distribution
separately turns that into one warning that names the package and the file.
"""

from __future__ import annotations

import os
import re
import sys
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from functools import lru_cache
from importlib import metadata
from pathlib import Path

HOME = "motionkit"
LIMIT_VARIABLE = "MOTIONKIT_PLUGINS"
_FILE = "entry_points.txt"


@dataclass(frozen=True)
class Kind:
    """One kind of plugin: a row of the table that discovery, lookup, help and `motionkit plugins` use.

    Protocols and checks are named, not imported, so that this module stays light.
    """

    name: str  # Its name, plural; the entry-point group is ``motionkit.NAME``
    singular: str  # Its name, singular, in messages and in ``plugins new SINGULAR``
    # What components of this kind can give, each word with its protocol as ``module:Class``; empty if no protocol is
    # defined. A component that names no word gives the first.
    gives: Mapping[str, str] = field(default_factory=dict)
    # What components can read, each word with the class of that record. The first is the default here, too.
    reads: Mapping[str, str] = field(default_factory=dict)
    runtime: tuple[str, ...] = ()  # Names of the factory's keyword arguments, after the options
    check: str = ""  # The contract check as ``module:function``; empty if there is only `check_component`
    alone: bool = False  # Whether `check` can build a plugin from its name and its default options
    scaffold: str = ""  # The package in ``templates/`` that ``motionkit plugins new`` copies; empty if there is none
    # Those of plugins that give another word than the first of `gives`, by that word.
    scaffolds: Mapping[str, str] = field(default_factory=dict)
    # Turns a plain function ``./file.py:name`` into a plugin, as ``module:attribute``; empty if not supported.
    function: str = ""
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
        scaffold="motionkit-reward-demo",
        function="motionkit.text_to_motion.rewards.function_reward:of_file",
        weighted=True,
        question="What to reward, repeatable.",
    ),
    Kind(
        "trainers",
        "trainer",
        gives={"trainer": "motionkit.training.base:Trainer"},
        check="motionkit.testing:check_trainer",
        scaffold="motionkit-trainer-demo",
    ),
    Kind(
        "algorithms",
        "algorithm",
        gives={"algorithm": "motionkit.text_to_motion.grpo.algorithms.base:Algorithm"},
        runtime=("policy", "reference", "rewards", "seed", "precision", "shuffle", "world"),
        check="motionkit.testing:check_algorithm",
        scaffold="motionkit-algorithm-demo",
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
            "regions": "motionkit.regions.datasets.base:RegionDataset",
            "transitions": "",
        },
        check="motionkit.testing:check_dataset",
        alone=True,
        scaffold="motionkit-dataset-demo",
        scaffolds={"regions": "motionkit-dataset-demo-regions"},
    ),
    Kind(
        "environments",
        "environment",
        gives={"episodes": "motionkit.success.environments.base:Environment"},
        runtime=("num_envs",),
        check="motionkit.testing:check_environment",
        alone=True,
        scaffold="motionkit-environment-demo",
    ),
    Kind(
        "protocols",
        "protocol",
        gives={"result": "motionkit.contracts.protocol:EvaluationProtocol"},
        reads={
            "model": "",  # any argument of its command; the protocol opens it
            "diffusion": "motionkit.text_to_motion.policy:DiffusionPolicy",
            "several": "",  # several policies
            "retrieval": "",
            "reward": "motionkit.contracts.reward:Reward",
            "predictor": "motionkit.predictor.policy:Predictor",
            "regions": "motionkit.regions.policy:RegionPolicy",
            "classifier": "",
        },
        runtime=("console",),
        check="motionkit.testing:check_protocol",
        scaffold="motionkit-protocol-demo",
        question="Which protocol to measure by.",
    ),
    Kind(
        "policies",
        "policy",
        gives={
            "diffusion": "motionkit.text_to_motion.policy:DiffusionPolicy",
            "regions": "motionkit.regions.policy:RegionPolicy",
            "actor": "",
            "predictor": "motionkit.predictor.policy:Predictor",
        },
        runtime=("device", "dataset"),
        check="motionkit.testing:check_policy",
        alone=True,
        scaffold="motionkit-policy-demo",
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


@dataclass(frozen=True)
class Entry:
    """One line of a distribution's entry points."""

    kind: str  # One of `KINDS`
    name: str  # Name of the plugin, unique in its distribution and kind
    value: str  # ``module:attribute`` of the `Component`
    distribution: str  # Name of its package
    version: str  # Version of that package

    @property
    def builtin(self) -> bool:
        """Whether it is part of motionkit."""
        return self.distribution == HOME


@dataclass(frozen=True)
class Broken:
    """A distribution whose entry points cannot be read."""

    distribution: str  # Name of the package
    file: str  # Its malformed file
    problem: str  # Description of the fault

    def __str__(self) -> str:
        return f"package {self.distribution!r} is ignored: {self.problem} ({self.file})"


@dataclass(frozen=True)
class Scan:
    """Installed plugins: every entry, and every package that could not be read."""

    entries: tuple[Entry, ...]
    broken: tuple[Broken, ...]

    def of(self, kind: str) -> list[Entry]:
        """Return the entries of `kind`, built-ins first, then by name."""
        return sorted((e for e in self.entries if e.kind == kind), key=lambda e: (not e.builtin, e.name))


def normalise(name: str) -> str:
    """Return a distribution name in normalised form (PEP 503)."""
    return re.sub(r"[-_.]+", "-", name).lower()


def scan() -> Scan:
    """Read the entry points of every installed distribution that mentions motionkit; cached per environment."""
    return _scan(os.environ.get(LIMIT_VARIABLE), tuple(sys.path))


def forget() -> None:
    """Clear the cache of `scan`, after this process has installed a package."""
    _scan.cache_clear()


@lru_cache(maxsize=8)
def _scan(limit: str | None, path: tuple[str, ...]) -> Scan:
    allowed = None if limit is None else {normalise(part.strip()) for part in limit.split(",") if part.strip()}
    entries: list[Entry] = []
    broken: list[Broken] = []
    seen: set[str] = set()
    for distribution in metadata.distributions():
        folder = Path(str(getattr(distribution, "_path", "")))  # NAME-VERSION.dist-info; there is no public attribute
        name, text, parsed, problem = normalise(folder.name.partition("-")[0]) or "unknown", "", [], ""
        try:
            text = distribution.read_text(_FILE) or ""
            if HOME not in text:
                continue
            name = distribution.metadata["Name"] or name
            parsed = _entries(distribution, name, distribution.metadata["Version"] or "?")
        except Exception as error:  # malformed metadata of one package must not affect the others
            problem = _problem(error, text)
        if normalise(name) in seen or (allowed is not None and name != HOME and normalise(name) not in allowed):
            continue
        seen.add(normalise(name))
        entries += parsed
        if problem:
            broken.append(Broken(name, str(folder / _FILE), problem))
    return Scan(tuple(entries), tuple(broken))


def _entries(distribution: metadata.Distribution, name: str, version: str) -> list[Entry]:
    entries = []
    for point in distribution.entry_points:
        group, _, kind = point.group.partition(".")
        if group == HOME and kind in KINDS:
            entries.append(Entry(kind, point.name, point.value, name, version))
    return entries


def _problem(error: Exception, text: str) -> str:
    for number, line in enumerate(text.splitlines(), 1):
        bare = line.strip()
        if bare and not bare.startswith(("#", ";", "[")) and "=" not in bare:
            return f"line {number} of its entry points is not 'name = module:attribute': {bare!r}"
    return f"its entry points cannot be read: {error}"
