#!/usr/bin/env bash
# The log-probability of a token, under autocast to bfloat16 on a CPU, in two ways: log_softmax and cross_entropy.
#
# One would guess: both are computed in float32, as autocast does on CUDA (there log_softmax is in the list of float32),
# or at least in the same precision.
# What happens: on a CPU log_softmax of bfloat16 logits stays bfloat16, 0.03 off, while cross_entropy of the same
# logits is float32. A ratio of policies whose two sides are computed in the two ways is 3 % off before any update.
# So autocast is left where log-probabilities are taken, or the logits are made float32 first.
set -euo pipefail
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
cd "$work"
python3 -m venv venv
venv/bin/pip install --quiet torch==2.13.0 numpy==2.4.6

venv/bin/python - <<'PY'
import torch

logits = torch.linspace(-8, 8, 50)[None].bfloat16()
token = torch.tensor([0])
with torch.autocast("cpu", dtype=torch.bfloat16):
    first = torch.log_softmax(logits, dim=-1)[0, token]
    second = -torch.nn.functional.cross_entropy(logits, token)
exact = torch.log_softmax(logits.float(), dim=-1)[0, token]
print("torch", torch.__version__)
print("log_softmax", first.dtype, float(first), "off by", float(first - exact))
print("cross_entropy", second.dtype, float(second), "off by", float(second - exact))
print("ratio of the two:", float(torch.exp(first.float() - second)))
assert first.dtype == torch.bfloat16 and second.dtype == torch.float32, "this is not what was found"
assert abs(float(first - exact)) > 0.01 > abs(float(second - exact)), "this is not what was found"
PY
