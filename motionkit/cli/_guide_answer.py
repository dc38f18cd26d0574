"""The answer to a command of the training guides: the motionkit command that means the same, and what differs."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence

from motionkit.cli._guide import is_dotted, row_of, script_in
from motionkit.cli._translate import Draft, read, rename
from motionkit.cli._translate_rules import apply
from motionkit.errors import MotionkitError

_VARIABLE = re.compile(r"[A-Z_]+=")
"""The shell's ``NAME=value`` before a command."""

_ONE_FILE = {"ppo", "reward-collect"}
"""Commands that one settings file of the guide, with one set of names, is for."""

_LAUNCHER = "torchrun"
_SHARED = {"grpo", "sa2va-rl", "train-mpl", "reward-train", "pretrain mpl-encoder"}
"""Commands for scripts of the guides that several processes can run together; see docs/several-gpus.md."""


def refuse_old_options(command: str, words: Sequence[str], options: Mapping[str, bool]) -> None:
    """Refuse a command that has options of the guides.

    Args:
        command: The command, such as ``pretrain mdm``.
        words: The words after it.
        options: Its options, each with whether it takes a value.
    """
    if old := old_options(command, words, options):
        message = f"motionkit {command}: no such option: {', '.join(old)}"
        raise _error(translate(command, words, options), message, count=len(old))


def old_options(command: str, words: Sequence[str], options: Mapping[str, bool]) -> list[str]:
    """Return the options that the command does not have, a guide has, and that have another name in the command."""
    found, rest = [], list(words[: words.index("--")] if "--" in words else words)
    while rest:
        name, equals, _ = rest.pop(0).partition("=")
        if options.get(name) and not equals:
            rest[:1] = []
        elif _is_old(name, command, options) or (equals and _is_hydra(name, command)):
            found.append(name)
    return list(dict.fromkeys(found))


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


def translate(command: str, words: Sequence[str], options: Mapping[str, bool], *, script: bool = False) -> Draft:
    """Translate the words after a command; see `Draft`."""
    draft = read(command, words, options, script=script)
    apply(draft)
    rename(draft)
    draft.dropped += [f"{name}: motionkit {command} has nothing like it" for name in draft.old]
    return draft


def answer_script(words: Sequence[str], options_of: Callable[[str], Mapping[str, bool]]) -> MotionkitError | None:
    """Return the answer to a whole line of a guide, such as ``python -m train.train_grpo --model_path ...``.

    Args:
        words: The line.
        options_of: Returns the options of a command, as in `refuse_old_options`.

    Returns:
        The error that says what to type instead; None when no script of the guides is in the line.
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
    """Keep the launcher of the guide's line, and what it was given, where the command can be shared."""
    if _LAUNCHER not in before:
        return
    words = tuple(before[before.index(_LAUNCHER) :])
    if draft.command in _SHARED:
        draft.launcher = words
    else:
        draft.dropped.append(f"{' '.join(words)}: motionkit {draft.command} is one process")


def _error(draft: Draft, message: str, *, count: int = 0) -> MotionkitError:
    if draft.changes:
        why = [
            "options have new names; the command keeps your values (defaults: right):",
            *_table(draft.changes),
        ]
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
