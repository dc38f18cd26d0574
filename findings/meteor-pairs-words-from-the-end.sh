#!/usr/bin/env bash
# METEOR of the caption "the cup" where the reference is "the cup on the table".
#
# One would guess: of all ways to pair equal words METEOR takes the one with the fewest chunks (Banerjee and Lavie,
# 2005; Denkowski and Lavie, 2014). "the cup" is one chunk: precision 1, recall 2/5, 10 P R / (R + 9 P) = 0.426, times
# 1 - 0.5 (1/2)^3 = 0.399.
# What happens: nltk pairs each word with the last free one that is equal, so "the" goes to "the table": two chunks, and
# 0.426 (1 - 0.5) = 0.213. A short caption that repeats the beginning of its reference gets half of its score.
set -euo pipefail
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
cd "$work"
python3 -m venv venv
venv/bin/pip install --quiet nltk==3.10.4

venv/bin/python - <<'PY'
import nltk
from nltk.translate.meteor_score import exact_match, single_meteor_score


class NoSynonyms:
    def synsets(self, word):
        return []


reference, caption = "the cup on the table".split(), "the cup".split()
pairs, _, _ = exact_match(caption, reference)
score = single_meteor_score(reference, caption, wordnet=NoSynonyms())
mean = 10 * 1 * 0.4 / (0.4 + 9 * 1)
print("nltk", nltk.__version__)
print("pairs (word of the caption, word of the reference):", sorted(pairs))
print(f"nltk {score:.3f}; by the fewest chunks {mean * (1 - 0.5 * (1 / 2) ** 3):.3f}")
assert sorted(pairs) == [(0, 3), (1, 1)] and abs(score - mean / 2) < 1e-9, "this is not what was found"
PY
