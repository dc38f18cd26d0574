#!/usr/bin/env bash
# torch's compiler is imported by things that compile nothing: a normal_ on the meta device, and roma from 1.6.1 on.
#
# torch 2 imports its compiler (torch._dynamo) when it is first needed, since that takes one to two CPU-seconds: most of
# the start of a small command-line tool. One would guess that only torch.compile needs it.
# - To look at a network's shapes one builds it on device "meta", where nothing is computed. Its random initialisation
#   (Tensor.normal_) goes by a reference implementation there and imports compiler and code generator.
# - roma, which motion code uses for rotations, decorates functions so that importing it imports torch._dynamo.
#   roma 1.5.7 does not.
set -euo pipefail
folder="$(mktemp -d)"
trap 'rm -rf "$folder"' EXIT
python3 -m venv "$folder/venv"
"$folder/venv/bin/pip" install --quiet torch==2.13.0 numpy==2.4.6 roma==1.8.0
look() {
  "$folder/venv/bin/python" - "$1" "$2" "$3" <<'PYTHON'
import sys
import time

import torch

what, code, wanted = sys.argv[1:]
assert "torch._dynamo" not in sys.modules
start = time.process_time()
exec(code)
print(f"{what}: {time.process_time() - start:.2f} CPU-seconds, torch._dynamo imported: {'torch._dynamo' in sys.modules}")
assert ("torch._dynamo" in sys.modules) == (wanted == "yes")
PYTHON
}
"$folder/venv/bin/pip" list 2>/dev/null | grep -E '^(torch|roma) '
look "normal_ on the CPU" "torch.empty(3).normal_()" no
look "empty on meta" "torch.empty(3, device='meta')" no
look "normal_ on meta" "torch.empty(3, device='meta').normal_()" yes
look "import roma 1.8.0" "import roma" yes
"$folder/venv/bin/pip" install --quiet roma==1.5.7
look "import roma 1.5.7" "import roma" no
# Seen: 0.00 no; 0.00 no; about 1.5 yes; about 1.2 yes; 0.01 no.
