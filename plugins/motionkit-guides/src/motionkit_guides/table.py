"""The training guides' commands and options: the table of their names here, and a command that is read by it.

The table (`guide_options`, `guide_scripts`) is the same for answers, tests and the documentation. `read` takes the old
options out of a command as a `Draft`; `rename` gives them the names of the table. What the table cannot tell is in
`motionkit_guides.translate`.
"""

from __future__ import annotations

import json
import re
import shlex
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import lru_cache
from importlib.resources import files
from typing import Any

SWITCHES = frozenset(
    f"--{name}"
    for name in (
        "use_dense_reward", "use_physics_reward", "use_lora", "disable_random_crop", "use_composite_dataset",
        "compute_b_matrix", "profile", "bayes_opt", "tune",
    )
)  # fmt: skip
"""Options of the guides that take no value."""

_REQUIRED = {
    "grpo": {"--model_path", "--save_dir"}, "compose": {"--output_dir"}, "eval text-to-motion": {"--model_path"},
}  # fmt: skip
"""Required options of a guide's command; a command that has them and nothing new is a guide's."""

_SHARED = ("grpo", "eval text-to-motion")
"""Commands whose rules read options with the same name in the guides."""

_NEUTRAL = ("--json", "--dry-run")
"""New options that a guide's command may have too."""

_ORDER = (
    "algorithm", "policy", "dataset", "prompts", "reward", "run.num_steps", "rollout", "optim", "objective", "sampler",
    "lora", "run", "split", "evaluator", "mode", "device", "seed",
)  # fmt: skip
"""Order of the options of a translated command, by key or its first part."""

_FEW, _LINE = 3, 76
"""Most flags, and characters, of a command on one line."""

_DOTTED = re.compile(r"[a-z_]+(\.[a-z_]+)+(=|$)")
"""One of Hydra's words, such as ``reward.num_epochs=50``."""


@dataclass(frozen=True)
class GuideScript:
    """A script of the guides."""

    names: tuple[str, ...]  # Its names, without folder and suffix
    command: str  # motionkit's command
    needs: str  # Word in the call that selects this command; empty for all other calls


@dataclass(frozen=True)
class GuideOption:
    """An option of the guides."""

    guide: tuple[str, ...]  # Names in the guides
    flag: str  # motionkit's flag, with its value
    key: str  # The dotted setting; empty if there is only the flag
    note: str  # Differences
    command: str  # Command that has the flag
    default: str  # The guide's default if it differs from motionkit's


@lru_cache(maxsize=1)
def _file() -> dict[str, list[dict[str, Any]]]:
    tables: dict[str, list[dict[str, Any]]] = json.loads(
        (files("motionkit_guides") / "options.json").read_text(encoding="utf-8")
    )
    return tables


@lru_cache(maxsize=1)
def guide_options() -> tuple[GuideOption, ...]:
    """Return the table of options."""
    return tuple(
        GuideOption(
            tuple(row["guide"]),
            row["flag"],
            row.get("key", ""),
            row.get("note", ""),
            row.get("command", "grpo"),
            row.get("default", ""),
        )
        for row in _file()["options"]
    )


@lru_cache(maxsize=1)
def guide_scripts() -> tuple[GuideScript, ...]:
    """Return the table of scripts; of rows for the same script, those that need a word come first."""
    return tuple(GuideScript(tuple(row["names"]), row["command"], row.get("with", "")) for row in _file()["scripts"])


def script_in(words: Sequence[str]) -> tuple[int, str]:
    """Return the place of a guide's script among `words` (``-m train.train_grpo``, ``a/b.py``), and its command.

    The place is -1 if there is none.
    """
    for index, word in enumerate(words):
        stem = word.rpartition("/")[2].removesuffix(".py").removesuffix(".sh").rpartition(".")[2]
        for row in guide_scripts():
            if stem in row.names and (not row.needs or row.needs in words):
                return index, row.command
    return -1, ""


def as_guide_name(word: str) -> str:
    """Return how the guides would spell an option: ``--model_path`` for ``--model-path=x``.

    A dotted name without dashes, as Hydra has it (``reward.num_epochs=50``), stays as it is.
    """
    if is_dotted(word):
        return word.partition("=")[0]
    return "--" + word.lstrip("-").partition("=")[0].replace("-", "_")


def is_dotted(word: str) -> bool:
    """Whether a word is one of Hydra's: ``reward.num_epochs=50``, or its name alone."""
    return _DOTTED.match(word) is not None


def row_of(word: str, command: str) -> GuideOption | None:
    """Return the row of a guide's option, or None if no guide has it.

    Scripts of the guides use one name for different things; the meaning for `command` is preferred.
    """
    name = as_guide_name(word)
    rows = sorted((row for row in guide_options() if name in row.guide), key=lambda row: row.command != command)
    return rows[0] if rows else None


def as_markdown(headings: tuple[str, str, str, str] = ("guide", "motionkit", "key", "note")) -> str:
    """Return the table of `docs/from-the-guides.md`, which a test compares with the file."""
    lines = [f"| {' | '.join(headings)} |", "|---|---|---|---|"]
    for row in guide_options():
        guide = ", ".join(f"`{name}`" for name in row.guide)
        flag, key = row.flag.replace("|", "\\|"), f"`{row.key}`" if row.key else ""
        lines.append(f"| {guide} | `{flag}` | {key} | {row.note} |")
    return "\n".join(lines) + "\n"


@dataclass
class Draft:
    """A translation in progress."""

    command: str  # motionkit's command
    whole: bool = False  # Whether it is a guide's whole command, whose defaults count
    # The old options that are not translated yet, by name; the value of a switch is empty.
    old: dict[str, str] = field(default_factory=dict)
    # The new options: key, by which they are sorted, and words.
    flags: list[tuple[str, tuple[str, ...]]] = field(default_factory=list)
    places: list[str] = field(default_factory=list)  # The arguments without a flag
    # Differences: name, the guide's value, motionkit's default.
    changes: list[tuple[str, str, str]] = field(default_factory=list)
    dropped: list[str] = field(default_factory=list)  # Options that were left out, and why
    before: tuple[str, ...] = ()  # Variables of the shell before the command, ``NAME=value``
    launcher: tuple[str, ...] = ()  # ``torchrun`` with its options; empty for one process

    def add(self, key: str, *words: str) -> None:
        """Add an option, unless it is there already."""
        if (key, words) not in self.flags:
            self.flags.append((key, words))

    def words(self) -> list[str]:
        """Return the command's words after ``motionkit``."""
        return [*self.command.split(), *self.places, *(word for _, words in self._sorted() for word in words)]

    def text(self) -> str:
        """Return the command for a shell, on several lines if it is long."""
        start = [*self.launcher, "-m"] if self.launcher else []
        head = " ".join([*self.before, shlex.join([*start, "motionkit", *self.command.split(), *self.places])])
        lines = [shlex.join(words) for _, words in self._sorted()]
        line = " ".join([head, *lines])
        return line if len(lines) <= _FEW and len(line) <= _LINE else " \\\n    ".join([head, *lines])

    def _sorted(self) -> list[tuple[str, tuple[str, ...]]]:
        rank = {name: place for place, name in enumerate(_ORDER)}
        last = len(_ORDER)
        return sorted(self.flags, key=lambda item: rank.get(item[0], rank.get(item[0].partition(".")[0], last)))


def read(command: str, words: Sequence[str], known: Mapping[str, bool], *, script: bool) -> Draft:
    """Read the words of a command whose options are old ones, new ones or both.

    Args:
        command: motionkit's command.
        words: The words after it.
        known: Its options, each with whether it takes a value.
        script: Whether the words are those of a guide's script.
    """
    draft = Draft(command)
    new = False
    rest = [word.strip() for word in words if word.strip(" \\\n")]  # a space after a backslash leaves " --x"
    while rest:
        word = rest.pop(0)
        if f"--{word}" in _names() and "_" in word:
            word = f"--{word}"  # a slip in a guide: lora_alpha 16
        name, equals, value = word.partition("=")
        old = as_guide_name(name)
        if equals and is_dotted(name) and old in _names():
            draft.old[old] = value
            continue
        if not name.startswith("--"):
            draft.places.append(word)
            continue
        is_old = old in _names() and (name not in known or (command in _SHARED and name == old))
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
    """Give every remaining old option its new name, in the order of the table."""
    for row in guide_options():
        for name in row.guide:
            if name in draft.old and row_of(name, draft.command) is row:
                words = new_words(row, draft.old.pop(name))
                if words[0].startswith("--"):
                    draft.add(row.key or words[0][2:], *words)
                else:
                    draft.places.append(words[0])


def new_words(row: GuideOption, value: str) -> tuple[str, ...]:
    """Return the new option with its value, or with a placeholder if none was given."""
    head = row.flag.split(" or ")[0].partition(",")[0]
    *fixed, last = head.split()
    if not head.startswith("--"):
        return (value or head.split()[0],)
    if last.startswith("--"):
        return (*fixed, last)
    left, equals, holder = last.partition("=")
    return (*fixed, f"{left}={value or holder}" if equals else value or last)


def _is_option(word: str) -> bool:
    return word.startswith("--") or (f"--{word}" in _names() and "_" in word)


@lru_cache(maxsize=1)
def _names() -> frozenset[str]:
    """Return the names of all options in the guides."""
    return frozenset(name for row in guide_options() for name in row.guide)
