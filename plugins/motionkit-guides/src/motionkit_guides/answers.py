"""Answers to commands, options and settings of the training guides: the motionkit command to type instead.

The command line asks `ANSWERS` about what it does not know; see `motionkit.cli.unknown.Answers`.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence

from motionkit.errors import MotionkitError
from motionkit_guides.table import Draft, is_dotted, row_of, script_in
from motionkit_guides.translate import translate

_VARIABLE = re.compile(r"[A-Z_]+=")
"""The shell's ``NAME=value`` before a command."""

_ONE_FILE = {"ppo", "reward-collect"}
"""Commands that share a settings file, and its names, in the guide."""

_LAUNCHER = "torchrun"

_COMMON = {"grpo", "sa2va-rl", "train-mpl", "reward-train", "pretrain mpl-encoder"}
"""Commands for scripts of the guides that several processes can run together; see docs/several-gpus.md."""


class GuideAnswers:
    """Answers what the guides have and motionkit has not."""

    def line(self, words: Sequence[str], options_of: Callable[[str], Mapping[str, bool]]) -> MotionkitError | None:
        """Return the answer to a script of the guides with its options, or to old options without a command."""
        if not words[0].startswith("--"):
            return answer_script(words, options_of)
        row = row_of(words[0], "grpo")
        return self.options(row.command, words, options_of(row.command)) if row is not None else None

    def options(self, command: str, words: Sequence[str], options: Mapping[str, bool]) -> MotionkitError | None:
        """Return the answer to old options of a command."""
        if not (old := old_options(command, words, options)):
            return None
        message = f"motionkit {command}: no such option: {', '.join(old)}"
        return _error(translate(command, words, options), message, count=len(old))

    def key(self, word: str, command: str) -> str:
        """Return the key of the setting that an old option of a command became."""
        row = row_of(word, command)
        return row.key if row is not None else ""


ANSWERS = GuideAnswers()


def old_options(command: str, words: Sequence[str], options: Mapping[str, bool]) -> list[str]:
    """Return options of the guides that have another name in the command."""
    names, rest = [], list(words[: words.index("--")] if "--" in words else words)
    while rest:
        name, equals, _ = rest.pop(0).partition("=")
        if options.get(name) and not equals:
            rest[:1] = []
        elif _is_old(name, command, options) or (equals and _is_hydra(name, command)):
            names.append(name)
    return list(dict.fromkeys(names))


def _is_old(name: str, command: str, options: Mapping[str, bool]) -> bool:
    return name.startswith("--") and name not in options and _is_here(name, command, options)


def _is_hydra(name: str, command: str) -> bool:
    """Whether the table has a name of Hydra's, such as ``reward.num_epochs``, for this command."""
    row = row_of(name, command) if is_dotted(name) else None
    return row is not None and (row.command == command or {row.command, command} == _ONE_FILE)


def _is_here(name: str, command: str, options: Mapping[str, bool]) -> bool:
    """Whether the table has a name for an old option that this command has."""
    row = row_of(name, command)
    if row is None:
        return False
    flags = [word for word in row.flag.split() if word.startswith("--")]
    # A choice such as tmr-cosine|tmr-dense needs the rules of its own command.
    here = bool(flags) and "--set" not in flags and "|" not in row.flag and options.keys() >= {*flags}
    return name not in flags and (here or row.command == command)


def answer_script(words: Sequence[str], options_of: Callable[[str], Mapping[str, bool]]) -> MotionkitError | None:
    """Return the answer to a whole line of a guide, such as ``python -m train.train_grpo --model_path ...``.

    Args:
        words: The line.
        options_of: Returns the options of a command, as in `refuse_old_options`.

    Returns:
        The error with the command to type instead; None if no script of the guides is in the line.
    """
    place, command = script_in(words)
    if place < 0:
        return None
    name = words[place].rpartition("/")[2]
    message = f"{name} is a script of the training guides; nothing was started."
    draft = translate(command, words[place + 1 :], options_of(command), script=True)
    draft.before = tuple(word for word in words[:place] if _VARIABLE.match(word))
    _launch(draft, words[:place])
    return _error(draft, message)


def _launch(draft: Draft, before: Sequence[str]) -> None:
    """Keep the launcher of the guide's line with its options, if processes can share the command."""
    if _LAUNCHER not in before:
        return
    words = tuple(before[before.index(_LAUNCHER) :])
    if draft.command in _COMMON:
        draft.launcher = words
    else:
        draft.dropped.append(f"{' '.join(words)}: motionkit {draft.command} is one process")


def _error(draft: Draft, message: str, *, count: int = 0) -> MotionkitError:
    if draft.changes:
        why = ["options have new names; the command keeps your values (defaults: right):", *_table(draft.changes)]
    else:
        old = ["", "that is an old name, from the training guides.", "those are old names, from the training guides."]
        why = [old[min(count, 2)]] if count else []
    why += [f"left out: {text}." for text in draft.dropped]
    return MotionkitError(message, why="\n       ".join(why), fix=draft.text().replace("\n    ", "\n         "))


def _table(rows: Sequence[tuple[str, str, str]]) -> list[str]:
    """Return the lines of a table: name, the guide's value (which the command keeps), motionkit's default."""
    lines = [("", "guide", "motionkit's default"), *rows]
    widths = [max(len(row[column]) for row in lines) for column in (0, 1)]
    return [f"  {name:<{widths[0]}}  {theirs:<{widths[1]}}  {ours}".rstrip() for name, theirs, ours in lines]
