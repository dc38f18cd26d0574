"""From a command of the training guides to the motionkit command that means the same.

A guide's whole command becomes one with the guide's own values: where its defaults differ from motionkit's they are
written out and listed. In a motionkit command with some old names only these are replaced.
"""

from __future__ import annotations

import shlex
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from motionkit.cli._guide import GuideOption, as_guide_name, guide_options, is_dotted, row_of

SWITCHES = frozenset(
    f"--{name}"
    for name in (
        "use_dense_reward", "use_physics_reward", "use_lora", "disable_random_crop", "use_composite_dataset",
        "compute_b_matrix", "profile", "bayes_opt", "tune",
    )
)  # fmt: skip
"""Options of the guides that take no value."""

_NAMES = frozenset(name for row in guide_options() for name in row.guide)
_REQUIRED = {
    "grpo": {"--model_path", "--save_dir"}, "compose": {"--output_dir"}, "eval text-to-motion": {"--model_path"},
}  # fmt: skip
"""Options that a guide's command cannot do without; a command that has them and nothing new is a guide's."""

_SHARED = ("grpo", "eval text-to-motion")
"""Commands whose rules read options that are called the same in the guides."""

_NEUTRAL = ("--json", "--dry-run")
_ORDER = (
    "algorithm", "policy", "dataset", "prompts", "reward", "run.num_steps", "rollout", "optim", "objective", "sampler",
    "lora", "run", "split", "evaluator", "mode", "device", "seed",
)  # fmt: skip
_FEW, _LINE = 3, 76
"""Flags, and characters, of a command that still stands on one line."""


@dataclass
class Draft:
    """A translation while it is made."""

    command: str  # Command here
    whole: bool = False  # Whether it is a guide's whole command, whose defaults count
    # What is left of the old options, by name; the value of a switch is empty.
    old: dict[str, str] = field(default_factory=dict)
    # The new options: key, by which they are put in order, and words.
    flags: list[tuple[str, tuple[str, ...]]] = field(default_factory=list)
    places: list[str] = field(default_factory=list)  # The arguments without a flag
    # What differs: name, the guide's value, motionkit's default.
    changes: list[tuple[str, str, str]] = field(default_factory=list)
    dropped: list[str] = field(default_factory=list)  # What was left out, and why
    before: tuple[str, ...] = ()  # Variables of the shell before the command, ``NAME=value``
    # What starts several processes of it: ``torchrun`` with its options; empty for one process.
    launcher: tuple[str, ...] = ()

    def add(self, key: str, *words: str) -> None:
        """Add an option; one that is there already is not added again."""
        if (key, words) not in self.flags:
            self.flags.append((key, words))

    def words(self) -> list[str]:
        """Return the command's words after ``motionkit``."""
        return [*self.command.split(), *self.places, *(word for _, words in self._sorted() for word in words)]

    def text(self) -> str:
        """Return the command as it is pasted into a shell, on several lines when it is long."""
        start = [*self.launcher, "-m"] if self.launcher else []
        head = " ".join([*self.before, shlex.join([*start, "motionkit", *self.command.split(), *self.places])])
        lines = [shlex.join(words) for _, words in self._sorted()]
        one = " ".join([head, *lines])
        return one if len(lines) <= _FEW and len(one) <= _LINE else " \\\n    ".join([head, *lines])

    def _sorted(self) -> list[tuple[str, tuple[str, ...]]]:
        rank = {name: place for place, name in enumerate(_ORDER)}
        last = len(_ORDER)
        return sorted(self.flags, key=lambda item: rank.get(item[0], rank.get(item[0].partition(".")[0], last)))


def read(command: str, words: Sequence[str], known: Mapping[str, bool], *, script: bool) -> Draft:
    """Read the words of a command whose options are old ones, new ones or both.

    Args:
        command: The command here.
        words: The words after it.
        known: Options that it has, each with whether it takes a value.
        script: Whether the words are those of a guide's script.
    """
    draft = Draft(command)
    new = False
    rest = [word.strip() for word in words if word.strip(" \\\n")]  # a space after a backslash leaves " --x"
    while rest:
        word = rest.pop(0)
        if f"--{word}" in _NAMES and "_" in word:
            word = f"--{word}"  # a slip in a guide: lora_alpha 16
        name, equals, value = word.partition("=")
        old = as_guide_name(name)
        if equals and is_dotted(name) and old in _NAMES:
            draft.old[old] = value
            continue
        if not name.startswith("--"):
            draft.places.append(word)
            continue
        is_old = old in _NAMES and (name not in known or (command in _SHARED and name == old))
        takes = old not in SWITCHES if is_old else known.get(name, True)
        if takes and not equals and rest and not _is_option(rest[0]):
            value = rest.pop(0)
        if is_old:
            draft.old[old] = value
        else:
            new |= name not in _NEUTRAL and not script
            draft.add(name[2:].replace("-", "_"), *([name, value] if takes else [name]))
    draft.whole = script or (not new and command in _REQUIRED and draft.old.keys() >= _REQUIRED[command])
    return draft


def rename(draft: Draft) -> None:
    """Give every old option that is left its new name, in the order of the table."""
    for row in guide_options():
        for name in row.guide:
            if name in draft.old and row_of(name, draft.command) is row:
                words = new_words(row, draft.old.pop(name))
                if words[0].startswith("--"):
                    draft.add(row.key or words[0][2:], *words)
                else:
                    draft.places.append(words[0])


def new_words(row: GuideOption, value: str) -> tuple[str, ...]:
    """Return the new option with its value, or with a place holder where none was given."""
    head = row.flag.split(" or ")[0].partition(",")[0]
    *fixed, last = head.split()
    if not head.startswith("--"):
        return (value or head.split()[0],)
    if last.startswith("--"):
        return (*fixed, last)
    left, equals, holder = last.partition("=")
    return (*fixed, f"{left}={value or holder}" if equals else value or last)


def _is_option(word: str) -> bool:
    return word.startswith("--") or (f"--{word}" in _NAMES and "_" in word)
