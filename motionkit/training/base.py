"""The protocol a trainer follows: opened first, described for a dry run, then run."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import ClassVar, Protocol

from motionkit.config import Chosen, TrainerSettings
from motionkit.runs import Run, fingerprint, fingerprint_files


@dataclass(frozen=True)
class Figure:
    """What a trainer's progress line shows of its metrics."""

    label: str  # the word in front of it
    metrics: tuple[str, ...]  # names of metrics; of those that a line of metrics.jsonl has, the mean is taken
    smooth: bool = False  # show the mean over the newest 20 lines; otherwise the newest value is shown
    change: bool = False  # it is a difference, shown with its sign
    count: bool = False  # it is a whole number
    instead_of: tuple[str, ...] = ()  # labels of figures that are shown only until this one has a value


REWARD = Figure("reward", ("reward/mean",), smooth=True, instead_of=("loss",))
LOSS = Figure("loss", ("loss/total",), smooth=True)


class Trainer(Protocol):
    """A command that trains something; an entry of the group ``motionkit.trainers``.

    A trainer is built from its settings alone (``factory(settings)``), and built cheaply: files are read in
    `prepare`, so that a bad input is refused before a run folder exists.

    Attributes:
        settings: What it was built from.
        shape_keys: Dotted settings (or whole groups) that a checkpoint depends on: tensor shapes, data order, the
            meaning of counters. Changing one of them on ``--resume`` is refused by name.

    A trainer may also have ``typed: Collection[str]``: the command line puts the dotted settings there that were typed,
    on the command line or in a variable, before `prepare`.

    After `prepare` a trainer may also have ``inputs: Mapping[str, str]``: for dotted settings that name a place, such
    as ``policy.text_model``, a fingerprint of what was found there: data, weights, judges. ``--resume`` takes another
    place with the same fingerprint, and refuses the same place with another one. See `inputs_of`.

    A trainer may have ``figures: tuple[Figure, ...]``, what its progress line shows; others show the reward, else the
    loss. Its length comes from ``settings.run.num_steps`` as `prepare` leaves it.

    A trainer that several processes may share has ``world: World``, a `OneProcess` by itself, which is set before
    `prepare`: it takes its share of each batch, gives ``world`` to `Learner` and `run_steps`, and lets all processes
    decide alike. Others are refused under torchrun, for the reason in ``unshared: str`` where they have one.
    """

    shape_keys: ClassVar[tuple[str, ...]]
    settings: TrainerSettings

    def prepare(self) -> None:
        """Open every input: data, weights, reward models.

        Raises:
            MotionkitError: An input is missing, unreadable or refused (exit code 2: no run folder was made).
        """
        ...

    def describe(self) -> Mapping[str, object]:
        """Return the plan that ``--dry-run`` prints; JSON-able, called after `prepare`."""
        ...

    def train(self, run: Run) -> Mapping[str, object]:
        """Train from ``run.start_step`` to the end, or until ``run.stop_requested``.

        Returns:
            Parts of the summary document: ``heldout``, ``metrics`` and ``table``, each optional.
        """
        ...


@dataclass(frozen=True)
class Checked:
    """What a check found before a run."""

    name: str  # of the check
    ok: bool  # whether the run can go on
    said: str  # what was found, in one line


class Checks(Protocol):
    """A trainer that checks itself where its settings have ``check``: the command prints what it finds and ends."""

    def check(self) -> Iterable[Checked]:
        """Yield one finding after the other; called after `prepare`."""
        ...


def figures_of(trainer: object) -> Sequence[Figure]:
    """Return what the progress line of a trainer shows."""
    result: Sequence[Figure] = getattr(trainer, "figures", (REWARD, LOSS))
    return result


def inputs_of(parts: Mapping[str, object], chosen: Mapping[str, Chosen] | None = None) -> dict[str, str]:
    """Collect the fingerprints of inputs that components found at the places their options name.

    Args:
        parts: Components by dotted setting, such as ``policy`` or ``reward.tmr-dense``; those that have something to
            tell have ``inputs: Mapping[str, str]``, fingerprints by the name of the option.
        chosen: How the components were chosen. Of one without ``inputs`` the files that its options name are read.
    """
    result: dict[str, str] = {}
    for place, part in parts.items():
        inputs = getattr(part, "inputs", None)
        if isinstance(inputs, Mapping):
            result |= {f"{place}.{name}": str(mark) for name, mark in inputs.items()}
        elif chosen and place in chosen:
            for name, path in _places(chosen[place]):
                if path.is_file():
                    result[f"{place}.{name}"] = fingerprint_files(path, [path])
    return result


def dataset_inputs(chosen: Chosen, dataset: object, *content: str) -> dict[str, str]:
    """Return the fingerprints of a dataset by setting: those that it tells itself, else that of what was read of it.

    Args:
        chosen: ``dataset``; the fingerprint counts for each of its options that names a place.
        dataset: The dataset that was built of it.
        content: Fingerprints of what was read.
    """
    if isinstance(getattr(dataset, "inputs", None), Mapping):
        return inputs_of({"dataset": dataset})
    names = [f"dataset.{name}" for name, _ in _places(chosen)]
    return dict.fromkeys(dict.fromkeys(names or ["dataset"]), fingerprint(*content))


def _places(chosen: Chosen) -> Iterator[tuple[str, Path]]:
    """Yield the options that are paths."""
    for name in type(chosen.options).model_fields:
        value = getattr(chosen.options, name)
        for item in value if isinstance(value, tuple) else (value,):
            if isinstance(item, Path):
                yield name, item.expanduser()
