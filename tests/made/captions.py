"""Caption pairs of WordNet's words, and nltk's reader of the WordNet files of the distribution."""

from __future__ import annotations

import random
import warnings
from pathlib import Path
from typing import TYPE_CHECKING

from motionkit_regions.meteor.score import load_lexicon

if TYPE_CHECKING:
    from nltk.corpus.reader.wordnet import WordNetCorpusReader

DEBIAN = Path("/usr/share/wordnet")
"""Where the package wordnet-base of Debian puts WordNet 3.0."""

_LEXNAMES = "\n".join(f"{number:02d}\tfile{number}\t1" for number in range(45)) + "\n"
_SMALL = [
    "a", "the", "of", "in", "on", "at", "near", "left", "right", "small", "large", "red", "blue", "dark", "with",
    "and", "two", "is", "not",
]  # fmt: skip


def wordnet_reader(root: Path) -> WordNetCorpusReader:
    """Return nltk's reader of the distribution's files, with the two that the distribution leaves out.

    Args:
        root: An empty folder; nltk reads below the folders of ``nltk.data.path`` only, so it is put there.
    """
    import nltk
    from nltk.corpus.reader.wordnet import WordNetCorpusReader

    folder = root / "corpora/wordnet"
    folder.mkdir(parents=True)
    for file in filter(Path.is_file, DEBIAN.iterdir()):
        (folder / file.name).write_bytes(file.read_bytes())
    (folder / "lexnames").write_text(_LEXNAMES)
    (folder / "index.sense").write_text("")
    nltk.data.path.insert(0, str(root))
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # of languages that no one asks for
        return WordNetCorpusReader(nltk.data.find("corpora/wordnet"), None)


def caption_pairs(count: int, seed: int = 0, vocabulary: int = 3000) -> list[tuple[str, str]]:
    """Return pairs of a caption and a reference, of 1 to 20 words.

    The words are WordNet's, with irregular and regular inflections, some of them in capitals, some repeated, with and
    without punctuation. The caption keeps about half of the reference's words, in their order or shuffled, and has
    synonyms in place of some; one in fifty is empty.

    Args:
        count: Pairs.
        seed: Chooses them.
        vocabulary: Base words that they are made of.
    """
    rng, lexicon = random.Random(seed), load_lexicon()
    words = sorted({word for part in lexicon.synsets.values() for synset in part for word in synset})
    forms = [form for table in lexicon.exceptions.values() for form in table]
    rare = rng.sample(words, vocabulary) + rng.sample(forms, vocabulary // 6)
    rare += [word + end for word in rng.sample(words, vocabulary // 20) for end in ("s", "es", "ed", "ing", "er", "'s")]

    def drawn() -> str:
        word = rng.choice(_SMALL if rng.random() < 0.4 else rare)
        return word.upper() if rng.random() < 0.03 else word

    def other(word: str) -> str:
        chance = rng.random()
        if chance < 0.5:
            return word
        if chance < 0.65:
            return rng.choice(sorted(lexicon.synonyms(word)) or [word])
        return word + rng.choice(["s", "ing"]) if chance < 0.75 else drawn()

    pairs = []
    for _ in range(count):
        reference = [drawn() for _ in range(rng.randint(1, 20))]
        text = [other(word) for word in reference]
        text += rng.choices(text, k=rng.randint(0, 3))
        if rng.random() < 0.2:
            rng.shuffle(text)
        marked = [word + rng.choice([" .", " ,", ".", "!"]) if rng.random() < 0.06 else word for word in text]
        pairs.append(("" if rng.random() < 0.02 else " ".join(marked), " ".join(reference)))
    return pairs
