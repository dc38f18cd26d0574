#!/usr/bin/env bash
# Two light steps of a program that only converts a file: `import roma`, and a network on the meta device.
#
# One would guess: a package of a few rotations imports what torch imports; a network on the meta device, which has no
# values, costs nothing.
# What happens: roma from 1.6.1 on loads torch._dynamo when it is imported, 1 to 1.5 CPU-seconds; 1.5.7 does not. And
# normal_ on a meta tensor loads it too (uniform_ and zeros do not), so that looking at the shapes of a network
# whose weights are initialised by normal_ (an embedding, randn) takes longer than to build a small one.
set -euo pipefail
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
cd "$work"
python3 -m venv venv
venv/bin/pip install --quiet torch==2.13.0 numpy==2.4.6

look='
import sys, time
import torch
before = "torch._dynamo" in sys.modules
start = time.process_time()
exec(sys.argv[1])
loaded = "torch._dynamo" in sys.modules
print(f"{sys.argv[1]}: torch._dynamo before {before}, after {loaded}, {time.process_time() - start:.1f} CPU-seconds")
assert not before and loaded == (sys.argv[2] == "loads"), "this is not what was found"
'
venv/bin/python -c 'import torch; print("torch", torch.__version__)'
venv/bin/python -c "$look" 'torch.empty(4, device="meta").uniform_()' nothing
venv/bin/python -c "$look" 'torch.empty(4, device="meta").normal_()' loads
for version in 1.5.7 1.8.0; do
    venv/bin/pip install --quiet "roma==$version"
    echo "roma $version"
    venv/bin/python -c "$look" 'import roma' "$([ "$version" = 1.5.7 ] && echo nothing || echo loads)"
done
