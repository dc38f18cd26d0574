#!/usr/bin/env bash
# torch.nn.TransformerEncoder: what stands at padded frames depends on how the same weights are called.
#
# Motion networks (MDM, TMR) give a batch of clips with a mask of padded frames to a TransformerEncoder. One would guess
# that the same weights give the same tensor in training and in evaluation when dropout is 0. At valid frames they do.
# At padded frames they do not: with batch_first=True, eval() and no_grad(), a fast path leaves out padding and writes
# zeros there; with gradients, or with batch_first=False, padded frames hold ordinary numbers. So a mean over all
# frames, or a loss without the mask, changes between training and evaluation, and only there. There is a warning about
# nested tensors and none about the zeros. Masking after the network is what helps, in both modes.
set -euo pipefail
folder="$(mktemp -d)"
trap 'rm -rf "$folder"' EXIT
python3 -m venv "$folder/venv"
"$folder/venv/bin/pip" install --quiet torch==2.13.0 numpy==2.4.6
"$folder/venv/bin/python" -W ignore - <<'PYTHON'
import torch

print("torch", torch.__version__)
torch.manual_seed(0)
x = torch.randn(2, 6, 16)
padded = torch.tensor([[0, 0, 0, 1, 1, 1], [0, 0, 0, 0, 1, 1]]).bool()


def outputs(batch_first: bool) -> tuple[torch.Tensor, torch.Tensor]:
    torch.manual_seed(1)
    layer = torch.nn.TransformerEncoderLayer(16, 4, 32, dropout=0.0, batch_first=batch_first)
    network = torch.nn.TransformerEncoder(layer, 2).eval()
    given = x if batch_first else x.transpose(0, 1)
    with_gradient = network(given, src_key_padding_mask=padded)
    with torch.no_grad():
        without = network(given, src_key_padding_mask=padded)
    both = with_gradient.detach(), without
    return both if batch_first else tuple(one.transpose(0, 1) for one in both)


for batch_first in (True, False):
    graded, free = outputs(batch_first)
    at_valid = (graded - free)[~padded].abs().max().item()
    zeros = bool((free[padded] == 0).all())
    print(f"batch_first={batch_first}: largest difference at valid frames {at_valid:.1e}; padded frames are zero", end=" ")
    print(f"with gradients: {bool((graded[padded] == 0).all())}, without: {zeros}; mean over all frames", end=" ")
    print(f"{graded.abs().mean():.4f} and {free.abs().mean():.4f}")
    assert at_valid < 1e-5
    assert not (graded[padded] == 0).any()
    assert zeros == batch_first
PYTHON
# Seen: batch_first=True: 7.2e-07; zero with gradients: False, without: True; the means differ by a third.
#       batch_first=False: 0; False, False; the means are equal.
