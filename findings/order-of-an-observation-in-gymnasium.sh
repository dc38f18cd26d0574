#!/usr/bin/env bash
# One environment's observation space, written in two ways: Dict({...}) and Dict(key=...).
#
# One would guess: the two are the same space, and flatten puts the parts in the order in which they were written.
# What happens: keys of a plain dict are sorted, those given as arguments (or in an OrderedDict) are not. The spaces are
# equal by ==, yet flatten gives the numbers in another order, so that a policy trained on one reads the other's
# numbers in the wrong places, and no width differs.
set -euo pipefail
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
cd "$work"
python3 -m venv venv
venv/bin/pip install --quiet gymnasium==1.4.0 numpy==2.4.6

venv/bin/python - <<'PY'
import gymnasium
import numpy as np
from gymnasium.spaces import Box, Dict, flatten

box = {"target": Box(-1, 1, (1,)), "arm": Box(-1, 1, (2,))}
braces, arguments = Dict(box), Dict(**box)
seen = {"target": np.array([0.9], np.float32), "arm": np.array([0.1, 0.2], np.float32)}
print("gymnasium", gymnasium.__version__)
print("Dict({...})", list(braces.spaces), flatten(braces, seen))
print("Dict(key=...)", list(arguments.spaces), flatten(arguments, seen))
print("equal:", braces == arguments)
assert list(braces.spaces) == ["arm", "target"] and list(arguments.spaces) == ["target", "arm"], "this is not what was found"
assert not np.array_equal(flatten(braces, seen), flatten(arguments, seen)), "this is not what was found"
assert braces == arguments, "this is not what was found"
PY
