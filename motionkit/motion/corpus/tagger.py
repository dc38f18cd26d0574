"""Part-of-speech tags for captions: by spaCy or nltk if their data are installed, else by word lists and suffixes."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import lru_cache
from importlib.resources import files
from typing import Any

_ORDER = ("DET", "PRON", "AUX", "CCONJ", "SCONJ", "PART", "NUM", "ADV", "ADJ", "VERB", "NOUN", "ADP")


@dataclass(frozen=True)
class Lexicon:
    """Word tables, all in lower case."""

    tags: dict[str, str]  # Word to its most frequent universal tag, by the order of `_ORDER`
    both: frozenset[str]  # Words that are verbs or nouns by their place in the sentence
    bases: dict[str, str]  # Irregular forms and their base (``left`` stays ``left``, as in HumanML3D's script)
    known: frozenset[str]  # Base forms that stripping a suffix may give
    # The five word lists of the text-to-motion evaluator (Guo et al., CVPR 2022), by name.
    evaluator: dict[str, tuple[str, ...]]


@lru_cache(maxsize=1)
def lexicon() -> Lexicon:
    """Read the tables once."""
    data = json.loads(files("motionkit.motion.corpus").joinpath("lexicon.json").read_text(encoding="utf-8"))
    classes = {tag: words.split() for tag, words in data["classes"].items()}
    evaluator = {name: tuple(words.split()) for name, words in data["evaluator"].items()}
    tags = dict.fromkeys(data["always_adp"].split(), "ADP")
    for tag in _ORDER:
        for word in classes[tag]:
            tags.setdefault(word, tag)
    for name, tag in (("body", "NOUN"), ("object", "NOUN"), ("action", "VERB"), ("description", "ADV")):
        for word in evaluator[name]:
            tags.setdefault(word, tag)
    known = frozenset(classes["VERB"]) | frozenset(classes["NOUN"]) | frozenset(evaluator["action"])
    return Lexicon(tags, frozenset(data["verb_or_noun"].split()), data["bases"], known, evaluator)


def evaluator_words(name: str) -> tuple[str, ...]:
    """Return one of the five word lists of the text-to-motion evaluator, in its order.

    Args:
        name: ``location``, ``body``, ``object``, ``action`` or ``description``.
    """
    return lexicon().evaluator[name]


_WORD = re.compile(r"[^\W\d_]+", re.UNICODE)
_WORD_OR_STOP = re.compile(rf"{_WORD.pattern}|\d+|[,.;:!?/()]", re.UNICODE)
_STOP = "STOP"
_PEOPLE = frozenset(
    ("person", "man", "woman", "guy", "figure", "human", "boy", "girl", "character", "he", "she", "it", "someone")
)
_RELATIVE = frozenset(("that", "who", "which"))
_ADJECTIVE = ("able", "ible", "ful", "less", "ous", "ive", "ish", "est")
_NOUN = ("tion", "sion", "ment", "ness", "ity", "ance", "ence", "ship", "ist", "ball")


def tag_caption(text: str, *, builtin: bool = False) -> tuple[str, ...]:
    """Return the ``word/POS`` tokens of a caption, as HumanML3D's texts hold them.

    HumanML3D's rules: hyphens are removed first, tokens that are not alphabetic are dropped, nouns and verbs are
    reduced to their base form except the word ``left``. Tags are universal parts of speech; possessives (his, their)
    are DET, as the spaCy of HumanML3D's time had them. spaCy's ``en_core_web_sm`` is used if both are installed, else
    nltk if the data of its tagger are, else the built-in tagger (`tag_words`).

    Args:
        text: The caption.
        builtin: Use the built-in tagger whatever is installed: the same tokens on every machine.
    """
    tagger = tag_words if builtin else _spacy() or _nltk() or tag_words
    return tagger(text.replace("-", ""))


def tag_words(text: str) -> tuple[str, ...]:
    """Tag with the built-in word lists and suffixes only: the same on every machine.

    Example:
        >>> tag_words("a man is walking")
        ('a/DET', 'man/NOUN', 'is/AUX', 'walk/VERB')
    """
    found = [word.lower() for word in _WORD_OR_STOP.findall(text)]
    words = [*filter(str.isalpha, found), ""]
    tagged: list[tuple[str, str]] = []
    previous, place = "", 0
    for word in found:
        if not word.isalpha():  # it is no token, but says what the next word is
            tagged.append((word, "NUM" if word.isdecimal() else _STOP))
            previous = "NUM" if word.isdecimal() else previous if previous == "ADJ" else ""
            continue
        place += 1
        previous = _tag(word, previous, words[place])
        if previous == "NOUN" and _is_third_person(word, tagged, words[place]):
            previous = "VERB"
        tagged.append((word, previous))
    return tuple(f"{_base(word, tag)}/{tag}" for word, tag in tagged if word.isalpha())


def _tag(word: str, previous: str, following: str) -> str:
    """Choose a tag from the word, the tag before it and the word after it."""
    words, stem = lexicon(), _strip(word)
    after = words.tags.get(following) or words.tags.get(_strip(following), "")
    if word == "that" and previous in ("NOUN", "VERB"):
        return "PRON"
    if word == "her" and after in ("NOUN", "ADJ", "NUM"):
        return "DET"
    if word == "to":
        return "PART" if after == "VERB" and following not in words.both else "ADP"
    if word == "one":
        return "NUM" if after in ("NOUN", "ADJ", "NUM") or following in words.both else "PRON"
    if word in ("left", "right") and previous in ("DET", "PRON", "ADP") and after != "NOUN":
        return "NOUN"
    if word == "back" and previous in ("DET", "PRON", "ADJ"):
        return "NOUN"
    if word in words.both or stem in words.both:
        # "throws punches", "performs jump", "does squats"; but "goes jumping", "does jump".
        thing = previous in ("DET", "ADJ", "NUM", "ADP", "VERB") or (previous == "AUX" and word.endswith("s"))
        if "hand" in (word, stem):  # "hands on the hips", but "a person hands a ball over"
            thing = previous not in ("NOUN", "PRON", "PART", "AUX")
        nominal = thing and not word.endswith(("ing",) if previous != "VERB" else ("ing", "ed"))
        return "NOUN" if nominal else "VERB"
    return words.tags.get(word) or words.tags.get(stem) or _by_ending(word, previous)


def _is_third_person(word: str, before: Sequence[tuple[str, str]], following: str) -> bool:
    """Return whether a word that is a noun by itself, such as ``dashes``, is the verb of the words before it.

    It is if it follows a subject that has no verb yet, or goes on from a verb after ``and`` or a comma. A word that is
    known as a noun has to follow a word for a person.
    """
    words = lexicon()
    if len(word) < 4 or not word.endswith("s") or word.endswith(("ss", "us", "is")):
        return False
    known = "NOUN" in (words.tags.get(word), words.tags.get(_strip(word)))
    rest = [*before]
    while rest and rest[-1][1] == "ADV":
        rest.pop()
    if not rest:
        return not known and words.tags.get(following) in ("ADV", "ADP", "DET", "PART")
    last, tag = rest.pop()
    if tag in ("NOUN", "PRON"):
        if (known and last not in _PEOPLE) or (tag == "NOUN" and _strip(last) != last):
            return False
        if last in _RELATIVE:
            return True
        for earlier, its in reversed(rest):
            if its in ("CCONJ", "SCONJ", _STOP) or earlier in _RELATIVE:
                break
            if _is_finite(earlier, its):
                return False
        return True
    if known or tag not in ("CCONJ", _STOP) or not any(_is_finite(*pair) for pair in rest):
        return False
    noun, its = rest[-1]
    return its != "NOUN" or _strip(noun) == noun


def _is_finite(word: str, tag: str) -> bool:
    return tag == "AUX" or (tag == "VERB" and not word.endswith("ing"))


def _by_ending(word: str, previous: str) -> str:
    """Guess the tag of an unknown word."""
    if (word.endswith("ly") and len(word) > 4) or word.endswith(("ward", "wards", "wise")):
        return "ADV"
    if word.endswith(_NOUN):
        return "NOUN"
    if word.endswith(_ADJECTIVE):
        return "ADJ"
    if word.endswith(("ing", "ed")) and len(word) > 4:
        return "VERB" if previous not in ("DET", "ADJ") else "NOUN"
    if previous in ("PART", "AUX"):
        return "VERB"
    return "NOUN"


def _base(word: str, tag: str) -> str:
    """Return the base form of a noun or verb, other words unchanged."""
    if tag not in ("NOUN", "VERB") or word == "left":
        return word
    return _strip(word)


@lru_cache(maxsize=4096)
def _strip(word: str) -> str:
    """Return the base form that stripping a suffix gives, or the word itself."""
    words = lexicon()
    if word in words.bases:
        return words.bases[word]
    if word in words.tags or len(word) < 4:
        return word
    candidates: list[str] = []
    if word.endswith("ies") and len(word) > 4:
        candidates = [word[:-3] + "y"]
    elif word.endswith("es") and word[:-2].endswith(("ss", "x", "zz", "ch", "sh", "o")):
        candidates = [word[:-2], word[:-1]]
    elif word.endswith("s") and not word.endswith(("ss", "us", "is")):
        candidates = [word[:-1]]
    elif word.endswith("ied"):
        candidates = [word[:-3] + "y"]
    elif word.endswith("ed"):
        candidates = [*_undouble(word[:-2]), *_with_e(word[:-2]), word[:-2], word[:-1]]
    elif word.endswith("ing") and len(word) > 4:
        candidates = [*_undouble(word[:-3]), *_with_e(word[:-3]), word[:-3], word[:-3] + "e"]
    if word.endswith("ied"):
        candidates.append(word)
    for candidate in candidates:
        if candidate in words.known or candidate in words.tags:
            return candidate
    return candidates[0] if candidates else word


def _undouble(stem: str) -> list[str]:
    """Return the stem with a single last consonant if that is doubled."""
    doubled = len(stem) > 3 and stem[-1] == stem[-2] and stem[-1] not in "aeiouls"
    return [stem[:-1]] if doubled else []


def _with_e(stem: str) -> list[str]:
    """Return the stem with the e that no verb lacks behind such a letter: ``paus``, ``bounc``, ``wav``."""
    return [f"{stem}e"] if stem.endswith(("c", "s", "u", "v", "z")) and not stem.endswith(("ss", "zz")) else []


@lru_cache(maxsize=1)
def _spacy() -> Callable[[str], tuple[str, ...]] | None:
    """Return a tagger on spaCy's small English model, or None if either is not installed."""
    try:
        import spacy

        model: Any = spacy.load("en_core_web_sm", disable=["parser", "ner"])
    except (ImportError, OSError):
        return None

    def tag(text: str) -> tuple[str, ...]:
        tokens = []
        for token in model(text):
            word = token.text.lower()
            if not word.isalpha():
                continue
            base = token.lemma_ if token.pos_ in ("NOUN", "VERB") and word != "left" else word
            tokens.append(f"{base}/{'DET' if token.tag_ == 'PRP$' else token.pos_}")
        return tuple(tokens)

    return tag


_PENN = {"MD": "AUX", "TO": "PART", "RP": "ADP", "PRP$": "DET", "CC": "CCONJ", "CD": "NUM", "EX": "PRON", "UH": "INTJ"}
_PENN_BEGIN = {
    "VB": "VERB",
    "NN": "NOUN",
    "JJ": "ADJ",
    "RB": "ADV",
    "DT": "DET",
    "PD": "DET",
    "PR": "PRON",
    "WP": "PRON",
}


@lru_cache(maxsize=1)
def _nltk() -> Callable[[str], tuple[str, ...]] | None:
    """Return a tagger on nltk's perceptron, or None if it or its data are not installed."""
    try:
        from nltk import pos_tag

        pos_tag(["walk"])
    except (ImportError, LookupError):
        return None

    def tag(text: str) -> tuple[str, ...]:
        tokens = []
        for word, penn in pos_tag([word.lower() for word in _WORD.findall(text)]):
            part = _universal(word, penn)
            tokens.append(f"{_base(word, part)}/{part}")
        return tuple(tokens)

    return tag


def _universal(word: str, penn: str) -> str:
    """Return the universal tag of a Penn Treebank tag, whose classes of closed words are coarser."""
    listed = lexicon().tags.get(word, "")
    if penn.startswith("VB") and listed == "AUX":
        return "AUX"
    if penn == "IN" and listed in ("ADP", "SCONJ"):
        return listed
    return _PENN.get(penn) or _PENN_BEGIN.get(penn[:2]) or ("ADV" if penn == "WRB" else "ADP")
