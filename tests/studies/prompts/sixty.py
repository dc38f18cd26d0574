"""The sixty prompts with which free text is tried: thirty drawn from descriptions of captured clips, thirty written.

    python tests/studies/prompts/sixty.py INDEX.csv > prompts.txt

INDEX.csv is a table of captured clips with a column ``description``. The drawn ones are chosen by seed 0 among its
different descriptions. The written ones (``written.txt``) are by somebody who knew only that there is "a model that
makes a person move from a sentence", and were committed before any change that they are to judge.
"""

from __future__ import annotations

import csv
import sys
from pathlib import Path

import numpy as np

DRAWN = 30


def drawn(index: Path) -> list[str]:
    """Return `DRAWN` different descriptions of a table of clips, chosen by seed 0."""
    with index.open(encoding="utf-8", newline="") as lines:
        descriptions = sorted({row["description"].strip() for row in csv.DictReader(lines)} - {""})
    return [descriptions[place] for place in np.random.default_rng(0).permutation(len(descriptions))[:DRAWN]]


def written() -> list[str]:
    """Return the prompts that were written."""
    return (Path(__file__).parent / "written.txt").read_text(encoding="utf-8").splitlines()


if __name__ == "__main__":
    print("\n".join(drawn(Path(sys.argv[1])) + written()))
