"""How long an action takes that is done once, from the words of its text."""

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
"""Seconds of actions by their verb, some with a word that must follow: who stands does so for any time, who stands up
does it once. At least the 2 s of the shortest clips that the starter policy was trained on."""

_SECONDS = {
    verb.partition(" ")[0]: (seconds, verb.partition(" ")[2]) for seconds, verbs in _ONCE.items() for verb in verbs
}

_GOES_ON = {
    "walk", "run", "jog", "march", "sneak", "skip", "hop", "dance", "limp", "stagger", "stumble", "wave",
    "clap", "twist", "swing", "stretch", "balance", "look", "drink", "scratch", "hold", "flap", "circle",
    "bounce", "play", "swim", "climb", "crawl", "stroll", "pace", "wander", "exercise",
}  # fmt: skip
"""Verbs of what goes on: a text whose first known verb is one of them takes the time that there is."""

_AGAIN = re.compile(
    r"\b(times|twice|thrice|repeatedly|again|keeps?|continues?|continuously|several|many|jacks|rope|in turn|and)\b"
)
"""Words by which something is done more than once, or more than one thing is."""

_WORD = re.compile(r"[a-z]+")


def usual_seconds(text: str) -> float | None:
    """Return how long one action takes that is done once; None for what goes on, is repeated, or is not known.

    The first verb that is known decides.

    Example:
        >>> usual_seconds("a person jumps forward"), usual_seconds("a person walks and jumps")
        (2.0, None)
        >>> usual_seconds("a man kicks three times")
    """
    lower = text.lower()
    if _AGAIN.search(lower):
        return None
    words = _WORD.findall(lower)
    for place, word in enumerate(words):
        for verb in _stems(word):
            if verb in _GOES_ON:
                return None
            if verb in _SECONDS:
                seconds, needed = _SECONDS[verb]
                return seconds if not needed or needed in words[place:] else None
    return None


def _stems(word: str) -> tuple[str, ...]:
    """Return a word, and what it may be the -s, -es or -ing form of."""
    stems = [word]
    for ending in ("s", "es", "ing"):
        if word.endswith(ending) and len(word) > len(ending) + 2:
            stem = word.removesuffix(ending)
            stems += [stem, f"{stem}e"]
            if ending == "ing" and len(stem) > 2 and stem[-1] == stem[-2]:
                stems.append(stem[:-1])
    return tuple(stems)
