"""What a caption names besides the action: limbs, tempo, direction, travel, count, order; and swaps of those words.

`usual_seconds` reads the usual duration of the action itself. Except for limbs the tables are English: a caption in
another language names nothing here (`is_english`). Sides are swapped in `motionkit.text.mirror_text`, in English and
Chinese.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import Literal, NamedTuple

Limb = Literal["arm", "leg"]
Side = Literal["left", "right"]

_LIMB_WORDS: dict[Limb, tuple[str, ...]] = {
    "arm": ("arm", "hand", "wrist", "fist", "elbow", "forearm", "palm", "punch", "jab", "hook", "uppercut"),
    "leg": ("leg", "foot", "knee", "ankle", "heel", "toe", "thigh", "shin", "kick", "lunge"),
}
_CHINESE: dict[Limb, str] = {"arm": "手|臂|胳膊|拳|肘|腕", "leg": "腿|脚|足|膝"}
_KIND: dict[str, Limb] = {word: limb for limb, words in _LIMB_WORDS.items() for word in words}

_WORDS = "|".join(_KIND)
# "left hand", "left high kick"; a plural names both.
_ENGLISH = re.compile(
    rf"(?:\b(on|from|off|left and|right and|left or|right or)\s+(?:\w+\s+)?)?"
    rf"\b(left|right)(?:\s+\w+)?\s+({_WORDS})\b(?!\s+side\b)",
    re.IGNORECASE,
)
_HAN_LIMBS = re.compile("([左右])(?:边|侧|邊|側)?的?(" + "|".join(_CHINESE.values()) + ")")

Tempo = Literal["fast", "slow", ""]

_TEMPO: tuple[tuple[str, str, str], ...] = (
    # (tempo, pattern, replacement); the first that matches at a position is taken
    ("fast", r"(?<=\ba )(?:fast|quick|rapid|brisk|swift|hurried)", "slow"),
    ("fast", r"(?<=\bat )full speed", "low speed"),
    ("fast", r"in a (?:hurry|rush)", "at leisure"),
    ("fast", r"(?:fast|quick|rapid|brisk|swift)(?= (?:steps?|pace|movements?|motions?|walk|run))", "slow"),
    ("fast", r"(?:fast|quickly|quick|rapidly|briskly|swiftly|hurriedly|speedily)", "slowly"),
    ("fast", r"faster|more quickly", "slower"),
    ("fast", r"(?:sprints|dashes|rushes|hurries)", "strolls"),
    ("fast", r"(?:sprint|dash|rush|hurry)", "stroll"),
    ("fast", r"(?:sprinting|dashing|rushing|hurrying)", "strolling"),
    ("slow", r"(?<=\ba )(?:slow|leisurely|unhurried)", "fast"),
    ("slow", r"(?<=\ban )easy(?= pace)", "urgent"),
    ("slow", r"(?:slow|leisurely|unhurried)(?= (?:steps?|pace|movements?|motions?|walk|run))", "fast"),
    ("slow", r"(?:(?<=does )|(?<=makes )|(?<=takes )|(?<=with ))slow", "fast"),
    ("slow", r"(?:slowly|slow|leisurely|lazily)", "quickly"),
    ("slow", r"slower|more slowly", "faster"),
    ("slow", r"strolls", "hurries"),
    ("slow", r"stroll", "hurry"),
    ("slow", r"strolling", "hurrying"),
)

_DIRECTIONS = {
    "forwards": "backwards",
    "forward": "backward",
    "backwards": "forwards",
    "backward": "forward",
    "ahead": "backward",
    "in reverse": "forward",
    "to the front": "to the rear",
    "to the rear": "to the front",
    "step back": "step forward",
    "steps back": "steps forward",
    "stepping back": "stepping forward",
    "jumps back": "jumps forward",
    "hops back": "hops forward",
    "walks back": "walks forward",
    "moves back": "moves forward",
    "backs away": "comes closer",
    "backs up": "moves forward",
    "away from": "towards",
    "towards": "away from",
    "toward": "away from",
    "upwards": "downwards",
    "upward": "downward",
    "downwards": "upwards",
    "downward": "upward",
    "stands up": "sits down",
    "stand up": "sit down",
    "sits down": "stands up",
    "sit down": "stand up",
    "gets up": "gets down",
    "gets down": "gets up",
    "looks up": "looks down",
    "looks down": "looks up",
    "goes up": "goes down",
    "goes down": "goes up",
}

_TO_AND_FRO = (
    r"back and forth|forwards? and backwards?|backwards? and forwards?|up and down|upwards? and downwards?|"
    r"without \w+ (?:forward|backward|ahead|back)s?"
)

_TRAVEL_DIRECTION = (
    r"forwards?|backwards?|ahead|in reverse|sideways|side[- ]?steps?|to the (?:front|rear|left|right|side)|"
    r"(?:steps?|stepping|jumps|hops|leaps|walks|moves|runs) back|backs away|backs up|away|towards?"
)

_TRAVEL = (
    r"walk(?:s|ed|ing)?|run(?:s|ning)?|jog(?:s|ging)?|sprint(?:s|ing)?|dash(?:es|ing)?|march(?:es|ing)?|"
    r"strolls?|strolling|strides?|striding|tiptoes?|tiptoeing|sneaks?|sneaking|creeps?|creeping|prowls?|prowling|"
    r"limps?|limping|hobbles?|hobbling|staggers?|staggering|stumbles?|stumbling|wanders?|wandering|shuffles?|"
    r"shuffling|side[- ]?steps?|side[- ]?stepping|crawls?|crawling|hurries|hurrying|paces|pacing|parades?|parading|"
    r"rush(?:es|ing)?|travels?|travelling|traveling|steps?|stepping|backs away|backs up|"
    r"(?:mov|go|com|jump|leap|hop|danc|slid|glid|charg|skip)(?:e|es|s|ing)?(?: \w+)? (?:forwards?|ahead|backwards?|"
    r"back|sideways|along|away|to the (?:left|right|front|rear|side))"
)
_NO_TRAVEL = r"(?:in place|on the spot|without (?:moving|going)|stationary|in (?:the same|one) (?:place|spot))"

_NUMBERS = r"(?:two|three|four|five|six|several|many|multiple|some|a few|a couple of)"
_COUNTED = (
    r"(?:steps|jumps|hops|kicks|punches|claps|turns|squats|lunges|circles|waves|paces|strides|spins|hands|arms|feet|"
    r"legs|knees|fists|palms)"
)
_LIMBS = ("hand", "arm", "foot", "leg", "knee")
_ONE_OF = {"feet": "foot", "punches": "punch"}
_MANY_OF = {"foot": "feet", "punch": "punches"}

_SUBJECT = re.compile(
    r"^(?P<subject>(?:(?:a|an|the|this|that|one|another) (?:\w+ ){0,2}?(?:person|man|woman|figure|character|boy|girl|"
    r"child|kid|human|guy|actor|subject|dancer|robot|player)|someone|somebody|he|she|they|i|you|people)\b,?\s*)?(?P<rest>.*?)"
    r"(?P<end>[.!]?)\s*$",
    re.IGNORECASE,
)
_THEN = re.compile(r"\s*(?:,\s*(?:and\s+)?(?:then|afterwards|after that)\s+|\s(?:and\s+)?then\s+)", re.IGNORECASE)
_BEFORE_AFTER = re.compile(r"\b(before|after)(?= \w+ing\b| (?:he|she|they|it)\b)", re.IGNORECASE)

_FOREIGN_WORDS = """
der das und mit eine einen einem eines dem den ist sich nach links rechts vorne geht une des avec vers et est le la les
il elle el los las una con hacia que su un di lo gli della na para com uma em um os de en se och med ett som een het van
naar
"""
_FOREIGN = frozenset(_FOREIGN_WORDS.split())  # frequent words of other European languages that are not English words

_FAMILIAR_WORDS = """
the and of to with his her their from at is are then while over up down out forward forwards backward backwards left
right front back leg legs foot feet knee knees head hip hips body air above around one two both slowly quickly does
"""
_FAMILIAR = frozenset(_FAMILIAR_WORDS.split())  # frequent words of captions that those languages do not have


def _words(pattern: str) -> re.Pattern[str]:
    return re.compile(rf"\b(?:{pattern})\b", re.IGNORECASE | re.ASCII)


def any_of(words: Iterable[str]) -> str:
    """Return a pattern of alternatives, the longest first."""
    return "|".join(sorted(map(re.escape, words), key=len, reverse=True))


_HAN = re.compile("[\u4e00-\u9fff]")
_TEMPO_WORDS = tuple((tempo, _words(pattern), replacement) for tempo, pattern, replacement in _TEMPO)
_DIRECTION_WORDS = _words(f"{_TO_AND_FRO}|{any_of(_DIRECTIONS)}")
_FIXED = _words(_TO_AND_FRO)
_TRAVEL_DIRECTION_WORDS = _words(_TRAVEL_DIRECTION)
_TRAVEL_WORDS, _NO_TRAVEL_WORDS = _words(_TRAVEL), _words(_NO_TRAVEL)
_COUNT_WORDS = _words(
    rf"once|twice|thrice|{_NUMBERS} times|(?:(?:the )?{_NUMBERS}|both)(?: \w+)? {_COUNTED}|"
    r"(?:a single|one)(?: \w+)? (?:step|jump|hop|kick|punch|clap|turn|squat|lunge|circle)|"
    # "one knee after the other" and "on one leg, the left one" are not counts
    r"one (?:hand|arm|foot|leg|knee)(?!,? (?:the|after))"
)

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

_VERB = _words(rf"(?:{any_of({*_SECONDS, *_GOES_ON})})(?:s|es|d|ed|ing)?")

_AGAIN = re.compile(
    r"\b(times|twice|thrice|repeatedly|again|keeps?|continues?|continuously|several|many|jacks|rope|in turn|and)\b"
)
"""Words for repetition, or for more than one action."""


def is_english(text: str) -> bool:
    """Whether a caption is English: Latin letters, and no more frequent words of other languages than English ones.

    Terms of dance are in French, so one word says little.

    Example:
        >>> is_english("a person walks"), is_english("eine Person geht"), is_english("一个人走路")
        (True, False, False)
        >>> is_english("dance - rond de jambe in the air, jete, turn"), is_english("il fait un rond de jambe")
        (True, False)
    """
    words = re.findall(r"[^\W\d_]+", text.lower())
    if not words or not all(word.isascii() for word in words):
        return False
    foreign = sum(word in _FOREIGN for word in words)
    return foreign == 0 or foreign <= sum(word in _FAMILIAR or bool(_VERB.fullmatch(word)) for word in words)


def reads_sides(text: str) -> bool:
    """Whether a caption is in a language in which sides are recognised: English or Chinese.

    Example:
        >>> reads_sides("a person waves"), reads_sides("eine Person winkt mit der linken Hand"), reads_sides("挥左手")
        (True, False, True)
    """
    return is_english(text) or bool(_HAN.search(text))


class NamedLimb(NamedTuple):
    """A limb and the side that a caption gives it."""

    limb: Limb
    side: Side


def named_limbs(caption: str) -> tuple[NamedLimb, ...]:
    """Return the moving limbs that an English or Chinese caption names with a side.

    The supporting limb (``on the left leg``) is left out, and so are limbs that are named with both sides.

    Example:
        >>> named_limbs("A man waves with the left hand.")
        (NamedLimb(limb='arm', side='left'),)
        >>> named_limbs("he hops on the right leg"), named_limbs("steps left"), named_limbs("left arm, then right arm")
        ((), (), ())
    """
    named: dict[NamedLimb, None] = {}
    for match in _ENGLISH.finditer(caption):
        if not match[1]:
            side: Side = "left" if match[2].lower() == "left" else "right"
            named[NamedLimb(_KIND[match[3].lower()], side)] = None
    for match in _HAN_LIMBS.finditer(caption):
        limb: Limb = "arm" if re.fullmatch(_CHINESE["arm"], match[2]) else "leg"
        named[NamedLimb(limb, "left" if match[1] == "左" else "right")] = None
    limbs = [limb_side.limb for limb_side in named]
    return tuple(limb_side for limb_side in named if limbs.count(limb_side.limb) == 1)


def tempo_of(text: str) -> Tempo:
    """Return whether a caption asks for a ``fast`` or a ``slow`` movement, or for neither (or both).

    Example:
        >>> tempo_of("walks at a slow pace"), tempo_of("runs as fast as possible"), tempo_of("walks")
        ('slow', 'fast', '')
    """
    if not is_english(text):
        return ""
    tempos = {which for which, words, _ in _TEMPO_WORDS if words.search(text)}
    return "fast" if tempos == {"fast"} else "slow" if tempos == {"slow"} else ""


def names_direction(text: str) -> bool:
    """Whether a caption names a direction: forward, backward, ahead, sideways, to the left.

    Example:
        >>> names_direction("steps back"), names_direction("swings the arms back and forth")
        (True, False)
    """
    return is_english(text) and bool(_TRAVEL_DIRECTION_WORDS.search(_FIXED.sub(" ", text)))


def names_travel(text: str) -> bool:
    """Whether a caption asks the body to change its place.

    Example:
        >>> names_travel("walks"), names_travel("jogs on the spot"), names_travel("waves")
        (True, False, False)
    """
    return is_english(text) and bool(_TRAVEL_WORDS.search(text)) and not _NO_TRAVEL_WORDS.search(text)


def names_count(text: str) -> bool:
    """Whether a caption has a count, of repetitions or limbs."""
    return swap_count(text) != text


def names_order(text: str) -> bool:
    """Whether a caption orders events, by "then", "before" or "after"."""
    return swap_order(text) != text


def swap_tempo(text: str) -> str:
    """Return a caption with fast for slow and slow for fast; unchanged if it names no tempo.

    Example:
        >>> swap_tempo("a person slowly walks ahead.")
        'a person quickly walks ahead.'
    """
    if not is_english(text):
        return text
    places: dict[int, tuple[int, str]] = {}
    for _, words, opposite in _TEMPO_WORDS:
        for match in words.finditer(text):
            if not any(start < match.end() and match.start() < end for start, (end, _) in places.items()):
                places[match.start()] = (match.end(), opposite)
    for start in sorted(places, reverse=True):
        end, opposite = places[start]
        text = text[:start] + _as_written(text[start:end], opposite) + text[end:]
    return text


def swap_direction(text: str) -> str:
    """Return a caption with forward for backward, down for up and so on; unchanged if it names none of them.

    Example:
        >>> swap_direction("takes a step back"), swap_direction("jumps up and down")
        ('takes a step forward', 'jumps up and down')
    """
    if not is_english(text):
        return text
    return _DIRECTION_WORDS.sub(
        lambda match: _as_written(match.group(), _DIRECTIONS.get(match.group().lower(), match.group())), text
    )


def swap_count(text: str) -> str:
    """Return a caption with another count: one for many, three for one.

    Example:
        >>> swap_count("jumps twice"), swap_count("claps with both hands"), swap_count("takes one step")
        ('jumps once', 'claps with one hand', 'takes three steps')
    """
    if not is_english(text):
        return text

    def swap(match: re.Match[str]) -> str:
        words = match.group().split()
        low = words[0].lower()
        if low == "once":
            return _as_written(match.group(), "three times")
        if low in ("twice", "thrice") or words[-1].lower() == "times":
            return _as_written(match.group(), "once")
        noun = words[-1].lower()
        if low == "one" and noun in _LIMBS:
            return f"both {_MANY_OF.get(noun, noun + 's')}"
        if low == "one" or [word.lower() for word in words[:2]] == ["a", "single"]:
            between = words[2 if low == "a" else 1 : -1]
            return " ".join(["three", *between, _MANY_OF.get(noun, noun + "s")])
        numbers = ("two", "three", "four", "five", "six", "few", "couple", "of")
        between = [word for word in words[1:-1] if word.lower() not in numbers]
        return " ".join(["one", *between, _ONE_OF.get(noun, noun.removesuffix("s"))])

    return _COUNT_WORDS.sub(swap, text)


def events_of(text: str) -> tuple[str, ...]:
    """Return the events of a caption that are joined by "then", without their subject; one event otherwise.

    Example:
        >>> events_of("a person walks forward, then turns left.")
        ('walks forward', 'turns left')
    """
    if not is_english(text):
        return (text,)
    match = _SUBJECT.match(text.strip())
    events = match["rest"] if match else text
    return tuple(part.strip(" ,") for part in _THEN.split(events) if part.strip(" ,"))


def swap_order(text: str) -> str:
    """Return a compound caption with its events in the opposite order; unchanged if it names no order.

    Events joined by "then" change places; "before" becomes "after" (like CAR's shuffled events, Fujiwara et al., ECCV
    2024).

    Example:
        >>> swap_order("A person walks forward and then turns left.")
        'A person turns left, then walks forward.'
    """
    if not is_english(text):
        return text
    events = events_of(text)
    if len(events) > 1:
        match = _SUBJECT.match(text.strip())
        assert match is not None
        subject, end = match["subject"] or "", match["end"]
        return subject + ", then ".join(reversed(events)) + end
    return _BEFORE_AFTER.sub(
        lambda match: _as_written(match.group(), "after" if match.group().lower() == "before" else "before"), text
    )


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
    words = re.findall(r"[a-z]+", lower)
    for position, word in enumerate(words):
        for verb in _stems(word):
            if verb in _GOES_ON:
                return None
            if verb in _SECONDS:
                seconds, particle = _SECONDS[verb]
                return seconds if not particle or particle in words[position:] else None
    return None


def _as_written(word: str, replacement: str) -> str:
    """Return `replacement`, with a capital if `word` has one."""
    return replacement.capitalize() if word[:1].isupper() else replacement


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
