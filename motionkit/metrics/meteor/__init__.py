"""METEOR of captions: nltk's score with a WordNet 3.0 lexicon that is part of the package.

The lexicon is always the same one, so that scores do not differ by machine. ``python -m motionkit.metrics.meteor.build
DIR`` makes it from the WordNet files; its licence is ``WORDNET-LICENSE`` beside it.
"""

from motionkit.metrics.meteor._lexicon import Lexicon, load_lexicon, read_wordnet
from motionkit.metrics.meteor._score import Meteor, Tokenizer

__all__ = ["Lexicon", "Meteor", "Tokenizer", "load_lexicon", "read_wordnet"]
