"""The protocol a trainer follows: opened first, described for a dry run, then run."""

from __future__ import annotations

import re
from abc import abstractmethod
from collections.abc import Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import ClassVar, Protocol

from motionkit.config import Chosen
from motionkit.contracts.dataset import Dataset
from motionkit.runs import Run, fingerprint, fingerprint_files
from motionkit.training.settings import TrainerSettings
from motionkit.training.world import World


@dataclass(frozen=True)
class Figure:
    """A value on a trainer's progress line."""

    label: str
    metrics: tuple[str, ...]  # names of metrics; the mean of those that a line of metrics.jsonl has
    smooth: bool = False  # show the mean over the newest 20 lines, not the newest value
    change: bool = False  # a difference, shown with its sign
    count: bool = False  # a whole number
    instead_of: tuple[str, ...] = ()  # labels of figures that are shown only until this one has a value


REWARD = Figure("reward", ("reward/mean",), smooth=True, instead_of=("loss",))
LOSS = Figure("loss", ("loss/total",), smooth=True)


_NOT_FINITE = re.compile(r"(?<![\w.])[-+]?(nan|inf)(?![\w.])", re.IGNORECASE)
"""A figure in words that is not a number, or infinite, as Python prints it."""


@dataclass(frozen=True)
class Checked:
    """The result of a check before a run; one whose figures are not finite has failed, whatever it compares."""

    name: str  # of the check
    ok: bool  # whether the run can start
    said: str  # the result, in one line, with its figures

    def __post_init__(self) -> None:
        if _NOT_FINITE.search(self.said):  # comparisons with NaN are False, also those that look for a fault
            object.__setattr__(self, "ok", False)
            object.__setattr__(self, "said", f"{self.said}: not finite")


class Trainer(Protocol):
    """A command that trains something; an entry of the group ``motionkit.trainers``.

    A trainer is built from its settings alone (``factory(settings)``), and built cheaply: files are read in
    `prepare`, so that a bad input is refused before a run folder exists.

    Only `settings`, `shape_keys`, `prepare`, `describe` and `train` need be there.

    Attributes:
        figures: The values on its progress line. The line's length comes from ``settings.run.num_steps`` as `prepare`
            leaves it.
        typed: Dotted settings that were given on the command line or in a variable; set before `prepare`.
        given: These and those of files; set before `prepare`.
        settled: After `prepare`, by dotted setting the origin of a value that it found, such as a model of another run.
            config.json then holds that value, as `settings` does.
        inputs: After `prepare`, for dotted settings that name a path, such as ``policy.text_model``, a fingerprint of
            the data or weights at that path. ``--resume`` accepts another path with the same fingerprint, and refuses
            the same path with another one. See `inputs_of`.
        world: The processes that share it, set before `prepare`: it takes its share of each batch, gives `world` to
            `Learner` and `run_steps`, and lets all processes decide alike. It begins as a `OneProcess`. None for a
            trainer that cannot be shared, which is refused under torchrun.
        unshared: Why it cannot be shared.
    """

    # Dotted settings (or whole groups) that a checkpoint depends on: tensor shapes, data order, meaning of counters.
    # Changing one of them on ``--resume`` is refused by name.
    shape_keys: ClassVar[tuple[str, ...]]
    settings: TrainerSettings
    figures: ClassVar[tuple[Figure, ...]] = (REWARD, LOSS)
    typed: Collection[str] = ()
    given: Collection[str] = ()
    settled: Mapping[str, str] = {}
    inputs: Mapping[str, str] | None = None
    world: World | None = None
    unshared: str = ""

    @abstractmethod
    def prepare(self) -> None:
        """Open every input: data, weights, reward models. A refused one ends with exit code 2, without a run folder."""
        ...

    @abstractmethod
    def describe(self) -> Mapping[str, object]:
        """Return the plan that ``--dry-run`` prints; JSON-able, called after `prepare`."""
        ...

    @abstractmethod
    def train(self, run: Run) -> Mapping[str, object]:
        """Train from ``run.start_step`` to the end, or until ``run.stop_requested``.

        Returns:
            Parts of the summary document: ``heldout``, ``metrics`` and ``table``, each optional.
        """
        ...

    def check(self) -> Iterable[Checked]:
        """Yield the results of checks of its own; with the setting ``check`` the command prints them and ends.

        Called after `prepare`.
        """
        return ()


def inputs_of(parts: Mapping[str, object], chosen: Mapping[str, Chosen] | None = None) -> dict[str, str]:
    """Collect the fingerprints of the files that components read.

    Args:
        parts: Components by dotted setting, such as ``policy`` or ``reward.tmr-dense``. They may have ``inputs:
            Mapping[str, str]``, fingerprints by the name of the option.
        chosen: How the components were chosen. Of one without ``inputs`` the files that its options name are read.
    """
    result: dict[str, str] = {}
    for key, part in parts.items():
        # Components of all kinds, before they are completed.
        inputs = getattr(part, "inputs", None)
        if isinstance(inputs, Mapping):
            result |= {f"{key}.{name}": str(mark) for name, mark in inputs.items()}
        elif chosen and key in chosen:
            for name, path in _paths(chosen[key]):
                if path.is_file():
                    result[f"{key}.{name}"] = fingerprint_files(path, [path])
    return result


def dataset_inputs(chosen: Chosen, dataset: Dataset, *content: str) -> dict[str, str]:
    """Return the fingerprints of a dataset by setting: its ``inputs``, else one of its content.

    Args:
        chosen: ``dataset``; the fingerprint counts for each of its options that names a path.
        dataset: The dataset that was built of it.
        content: Fingerprints of the parts of it that were read.
    """
    if dataset.inputs is not None:
        return inputs_of({"dataset": dataset})
    names = [f"dataset.{name}" for name, _ in _paths(chosen)]
    return dict.fromkeys(dict.fromkeys(names or ["dataset"]), fingerprint(*content))


def _paths(chosen: Chosen) -> Iterator[tuple[str, Path]]:
    """Yield the options that are paths."""
    for name in type(chosen.options).model_fields:
        value = getattr(chosen.options, name)
        for item in value if isinstance(value, tuple) else (value,):
            if isinstance(item, Path):
                yield name, item.expanduser()
