#!/usr/bin/env bash
# gymnasium.spaces.Dict sorts its keys if it is given a dict, and keeps them if it is given keyword arguments.
#
# An observation of several parts is flattened to one vector for a policy. One would guess that the vector has the parts
# in the order in which the environment's author wrote them, as dicts of Python keep it. A Dict space made of a dict is
# sorted by name; the same parts as keywords, or as an OrderedDict, keep their order. Code that joins
# observation.values() of an environment's own dict has another vector than gymnasium.spaces.flatten.
set -euo pipefail
folder="$(mktemp -d)"
trap 'rm -rf "$folder"' EXIT
python3 -m venv "$folder/venv"
"$folder/venv/bin/pip" install --quiet gymnasium==1.4.0 numpy==2.4.6
"$folder/venv/bin/python" - <<'PYTHON'
from collections import OrderedDict

import gymnasium
import numpy as np
from gymnasium.spaces import Box, Dict, Discrete, flatten

print("gymnasium", gymnasium.__version__)
parts = {"goal": Discrete(3), "arm": Box(0, 1, (2,), np.float32)}
seen = {"goal": 1, "arm": np.array([0.25, 0.5], np.float32)}
vectors = {}
for name, space in {"a dict": Dict(parts), "keywords": Dict(**parts), "an OrderedDict": Dict(OrderedDict(parts))}.items():
    vectors[name] = flatten(space, seen).tolist()
    print(f"Dict of {name}: {list(space)} {vectors[name]}")
assert vectors["a dict"] == [0.25, 0.5, 0, 1, 0]
assert vectors["keywords"] == vectors["an OrderedDict"] == [0, 1, 0, 0.25, 0.5]
PYTHON
# Seen: ['arm', 'goal'] for a dict; ['goal', 'arm'] for keywords and for an OrderedDict.
