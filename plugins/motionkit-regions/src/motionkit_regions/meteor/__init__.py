"""METEOR of captions: nltk's score with a WordNet 3.0 lexicon that is part of the package.

The lexicon is always the same one, so that scores do not differ by machine. ``python -m motionkit_regions.meteor.build
DIR`` makes it from the WordNet files; its licence is ``WORDNET-LICENSE`` beside it.
"""
