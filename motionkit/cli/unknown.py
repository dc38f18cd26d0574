"""Commands, options and settings that motionkit does not know: packages may say what was meant.

Such a package has an entry point in the group ``motionkit.answers``, which names an object like `Answers`. It is
imported only when there is something to ask.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Protocol, TypeVar

from motionkit import plugins
from motionkit.errors import MotionkitError

Answer = TypeVar("Answer", MotionkitError, str)

OptionsOf = Callable[[str], Mapping[str, bool]]
"""Returns the options of a command of motionkit, each with whether it takes a value; none if there is no such one."""


class Answers(Protocol):
    """What a package knows of other names than motionkit's."""

    def line(self, words: Sequence[str], options_of: OptionsOf) -> MotionkitError | None:
        """Return the answer to a command line that begins with neither a command nor a known option.

        Args:
            words: The line, without ``motionkit``.
            options_of: Gives the options of a command.
        """

    def options(self, command: str, words: Sequence[str], options: Mapping[str, bool]) -> MotionkitError | None:
        """Return the answer to a command that has options which it does not know.

        Args:
            command: The command, such as ``runs list``.
            words: The words after it.
            options: Its options, each with whether it takes a value.
        """

    def key(self, word: str, command: str) -> str:
        """Return the key of the setting of a command that a word means; empty if it is none of theirs."""


def answer_line(words: Sequence[str], options_of: OptionsOf) -> MotionkitError | None:
    """Return the first answer to a line; see `Answers.line`."""
    return _ask(lambda answers: answers.line(words, options_of))


def answer_options(command: str, words: Sequence[str], options: Mapping[str, bool]) -> MotionkitError | None:
    """Return the first answer to unknown options; see `Answers.options`."""
    return _ask(lambda answers: answers.options(command, words, options))


def key_of(word: str, command: str) -> str:
    """Return the key that a word means to a package; empty if none knows it."""
    return _ask(lambda answers: answers.key(word, command)) or ""


def _ask(question: Callable[[Answers], Answer | None]) -> Answer | None:
    for entry in plugins.scan().of("answers"):
        with plugins.catching(entry.value.partition(":")[0]):
            if answer := question(plugins.load(entry)):
                return answer
    return None
