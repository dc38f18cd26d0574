#!/usr/bin/env bash
# torch CPU autocast: a log-probability by log_softmax is bfloat16, one by cross_entropy is float32.
#
# On CUDA, autocast lists log_softmax, softmax and cross_entropy among the operations that run in float32. One would
# guess the same for device type "cpu". There, only cross_entropy does: log_softmax of bfloat16 logits stays bfloat16, so
# that a policy's log-probabilities are off in the third digit, and ratios of new and old ones (PPO, GRPO) with them.
# The two ways to write one loss then disagree. Calling .float() on the logits first is what helps.
set -euo pipefail
folder="$(mktemp -d)"
trap 'rm -rf "$folder"' EXIT
python3 -m venv "$folder/venv"
"$folder/venv/bin/pip" install --quiet torch==2.13.0 numpy==2.4.6
"$folder/venv/bin/python" - <<'PYTHON'
import torch
from torch.nn.functional import cross_entropy

print("torch", torch.__version__)
torch.manual_seed(0)
network = torch.nn.Linear(64, 1000)
x, chosen = 3 * torch.randn(256, 64), torch.randint(1000, (256,))
with torch.no_grad(), torch.autocast("cpu", torch.bfloat16):
    logits = network(x)
    taken = torch.log_softmax(logits, -1).gather(1, chosen[:, None])[:, 0]
    loss = cross_entropy(logits, chosen, reduction="none")
    truth = torch.log_softmax(logits.float(), -1).gather(1, chosen[:, None])[:, 0]
error = [(one.float() - truth.float()).abs().max().item() for one in (taken, -loss)]
print(f"logits {logits.dtype}, log_softmax {taken.dtype}, off by {error[0]:.1e}; cross_entropy {loss.dtype}, off by {error[1]:.1e}")
assert logits.dtype == taken.dtype == torch.bfloat16 and loss.dtype == torch.float32
assert error[0] > 1e-2 and error[1] < 1e-5
PYTHON
# Seen: log_softmax torch.bfloat16, off by about 3e-02; cross_entropy torch.float32, off by 0.
