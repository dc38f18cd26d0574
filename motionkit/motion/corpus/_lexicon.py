"""Words whose part of speech or base form no ending tells (``lexicon.json``), as tables."""

from __future__ import annotations

import json
from dataclasses import dataclass
from functools import lru_cache
from importlib.resources import files

_ORDER = ("DET", "PRON", "AUX", "CCONJ", "SCONJ", "PART", "NUM", "ADV", "ADJ", "VERB", "NOUN", "ADP")


@dataclass(frozen=True)
class Lexicon:
    """Word tables, all in lower case.

    Attributes:
        tags: Word to its most frequent universal tag; where two classes list a word, the earlier of `_ORDER` wins.
        both: Words that are verbs or nouns by their place in the sentence.
        bases: Irregular forms and their base (``left`` stays ``left``, as HumanML3D's own script keeps it).
        known: Base forms that a stripped ending may lead to.
        evaluator: The five word lists of the text-to-motion evaluator (Guo et al., CVPR 2022), by name.
    """

    tags: dict[str, str]
    both: frozenset[str]
    bases: dict[str, str]
    known: frozenset[str]
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
