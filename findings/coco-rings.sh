#!/usr/bin/env bash
# pycocotools.frPyObjects: the first ring of a region decides how all of them are read, and four numbers are a box.
#
# A region of COCO is a list of rings "[x, y, x, y, ...]". Tools that trace masks leave rings of two points, which have no
# area. One would guess that such a ring adds nothing wherever it stands in the list. Behind a proper ring it has area 0.
# As the first ring it makes the whole list be read as boxes "[x, y, width, height]", and the call fails with a TypeError
# about an argument 'bb' that the caller never gave; given as a numpy array, the same four numbers become a box of
# 13 x 8 pixels without a word. Rings of fewer than three points are to be left out before the call.
set -euo pipefail
folder="$(mktemp -d)"
trap 'rm -rf "$folder"' EXIT
python3 -m venv "$folder/venv"
"$folder/venv/bin/pip" install --quiet pycocotools==2.0.11 numpy==2.4.6
"$folder/venv/bin/python" - <<'PYTHON'
from importlib.metadata import version

import numpy as np
from pycocotools import mask

print("pycocotools", version("pycocotools"))
ring, line = [10.0, 5, 30, 5, 30, 25, 10, 25], [12.0, 7, 13, 8]


def areas(rings: object) -> str:
    try:
        return str([int(area) for area in mask.area(mask.frPyObjects(rings, 40, 60))])
    except TypeError as error:
        return f"TypeError: {error}"


seen = [areas([ring, line]), areas([line, ring]), areas(np.array([line]))]
print("ring, then two points:", seen[0])
print("two points, then ring:", seen[1])
print("two points as an array:", seen[2])
assert seen[0] == "[400, 0]" and seen[1].startswith("TypeError: Argument 'bb'") and seen[2] == "[104]"
PYTHON
# Seen: [400, 0]; TypeError: Argument 'bb' has incorrect type (expected numpy.ndarray, got list); [104].
