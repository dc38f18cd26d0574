#!/usr/bin/env bash
# A region of COCO as a list of rings, one of which has two points only (annotation tools leave such scraps).
#
# One would guess: a ring of two points has no area and adds nothing, wherever it stands.
# What happens: frPyObjects looks at the length of the first ring alone. Behind another ring the scrap adds nothing.
# As the first of a list its four numbers are taken for a box, and the call fails with a TypeError about "bb". As an
# array it is a box in silence: [12, 7, 13, 8] is 13 wide and 8 high, 104 pixels.
# So rings of fewer than three points are left out before the call.
set -euo pipefail
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
cd "$work"
python3 -m venv venv
venv/bin/pip install --quiet pycocotools==2.0.11 numpy==2.4.6

venv/bin/python - <<'PY'
from importlib.metadata import version

import numpy as np
from pycocotools import mask


def area(rings):
    try:
        return int(mask.area(mask.merge(mask.frPyObjects(rings, 32, 32))))
    except TypeError as error:
        return f"TypeError: {error}"


square, scrap = [10, 5, 30, 5, 30, 25, 10, 25], [12, 7, 13, 8]
print("pycocotools", version("pycocotools"))
found = {
    "square, scrap": area([square, scrap]),
    "scrap, square": area([scrap, square]),
    "scrap as an array": area(np.array([scrap], dtype=np.float64)),
}
for what, value in found.items():
    print(f"{what}: {value}")
assert found["square, scrap"] == 400, "this is not what was found"
assert str(found["scrap, square"]).startswith("TypeError"), "this is not what was found"
assert found["scrap as an array"] == 104, "this is not what was found"
PY
