"""The usual duration of an action that is done once, from its text."""

from __future__ import annotations

import re

_ONCE = {
    2.0: ("jump", "leap", "kick", "punch", "nod", "shrug", "step", "stomp"),
    2.5: ("throw", "toss", "bow", "squat", "lunge", "raise", "point", "salute", "turn", "duck", "catch"),
    3.0: (
        "pick up", "put down", "sit", "stand up", "rise", "get up", "kneel", "crouch", "touch", "push", "pull", "bend",
        "lift", "grab",
    ),
}  # fmt: skip
"""Verbs by seconds, some with a word that must follow ("stand up" has a duration, "stand" has none). At least 2 s, the
shortest clips that the starter policy was trained on."""

_SECONDS = {
    verb.partition(" ")[0]: (seconds, verb.partition(" ")[2]) for seconds, verbs in _ONCE.items() for verb in verbs
}

_GOES_ON = {
    "walk", "run", "jog", "march", "sneak", "skip", "hop", "dance", "limp", "stagger", "stumble", "wave",
    "clap", "twist", "swing", "stretch", "balance", "look", "drink", "scratch", "hold", "flap", "circle",
    "bounce", "play", "swim", "climb", "crawl", "stroll", "pace", "wander", "exercise",
}  # fmt: skip
"""Verbs of continuing actions: a text whose first known verb is one of them has no usual duration."""

_AGAIN = re.compile(
    r"\b(times|twice|thrice|repeatedly|again|keeps?|continues?|continuously|several|many|jacks|rope|in turn|and)\b"
)
"""Words for repetition, or for more than one action."""

_WORD = re.compile(r"[a-z]+")


def usual_seconds(text: str) -> float | None:
    """Return the seconds of an action that is done once; None if it continues, is repeated, or is not known.

    The first known verb decides.

    Example:
        >>> usual_seconds("a person jumps forward"), usual_seconds("a person walks and jumps")
        (2.0, None)
        >>> usual_seconds("a man kicks three times")
    """
    lower = text.lower()
    if _AGAIN.search(lower):
        return None
    words = _WORD.findall(lower)
    for position, word in enumerate(words):
        for verb in _stems(word):
            if verb in _GOES_ON:
                return None
            if verb in _SECONDS:
                seconds, particle = _SECONDS[verb]
                return seconds if not particle or particle in words[position:] else None
    return None


def _stems(word: str) -> tuple[str, ...]:
    """Return a word, and the stems of which it may be the -s, -es or -ing form."""
    stems = [word]
    for ending in ("s", "es", "ing"):
        if word.endswith(ending) and len(word) > len(ending) + 2:
            stem = word.removesuffix(ending)
            stems += [stem, f"{stem}e"]
            if ending == "ing" and len(stem) > 2 and stem[-1] == stem[-2]:
                stems.append(stem[:-1])
    return tuple(stems)
