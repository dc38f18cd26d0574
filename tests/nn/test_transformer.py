"""Our transformer against torch's own; what padding must not do."""

from __future__ import annotations

import pytest
import torch
from torch import Tensor, nn

from motionkit.nn import TransformerDecoder, TransformerEncoder, native_keys, sinusoidal_table, stock_keys
from motionkit.nn._transformer import Activation, sinusoid

MASK = torch.arange(7) < torch.tensor([7, 4, 1])[:, None]


def _torch_encoder(activation: str = "gelu", *, norm_first: bool = False) -> nn.TransformerEncoder:
    layer = nn.TransformerEncoderLayer(16, 4, 32, 0.1, activation, norm_first=norm_first)
    return nn.TransformerEncoder(layer, 2, enable_nested_tensor=False).requires_grad_(False)


def _torch_decoder() -> nn.TransformerDecoder:
    return nn.TransformerDecoder(nn.TransformerDecoderLayer(16, 4, 32, 0.1, "gelu"), 2).requires_grad_(False)


def _randomise(module: nn.Module) -> None:
    for parameter in module.parameters():
        nn.init.normal_(parameter, std=0.3)


@pytest.mark.parametrize("mask", [None, MASK])
@pytest.mark.parametrize("norm_first", [False, True])
@pytest.mark.parametrize("activation", ["gelu", "relu"])
def test_encoder_equals_torch(activation: Activation, norm_first: bool, mask: Tensor | None) -> None:
    torch.manual_seed(0)
    theirs = _torch_encoder(activation, norm_first=norm_first)
    _randomise(theirs)
    ours = TransformerEncoder(16, 4, 32, 2, norm_first=norm_first, activation=activation).eval()
    ours.load_state_dict(native_keys(theirs.state_dict()))
    x = torch.randn(3, 7, 16)
    # torch's train mode with dropout 0 is its plain path, without the fused inference kernel.
    for module in theirs.modules():
        if isinstance(module, nn.Dropout):
            module.p = 0.0
        if isinstance(module, nn.MultiheadAttention):
            module.dropout = 0.0
    expected = theirs(x.transpose(0, 1), src_key_padding_mask=None if mask is None else ~mask).transpose(0, 1)
    valid = torch.ones(3, 7, dtype=torch.bool) if mask is None else mask
    assert torch.allclose(ours(x, mask)[valid], expected[valid], atol=5e-6)


def test_decoder_equals_torch() -> None:
    torch.manual_seed(0)
    theirs = _torch_decoder().eval()
    _randomise(theirs)
    ours = TransformerDecoder(16, 4, 32, 2).eval()
    ours.load_state_dict(native_keys(theirs.state_dict()))
    x, memory, memory_mask = (
        torch.randn(3, 7, 16),
        torch.randn(3, 5, 16),
        torch.arange(5) < torch.tensor([[5], [3], [1]]),
    )
    expected = theirs(
        x.transpose(0, 1), memory.transpose(0, 1), tgt_key_padding_mask=~MASK, memory_key_padding_mask=~memory_mask
    ).transpose(0, 1)
    assert torch.allclose(ours(x, memory, MASK, memory_mask)[MASK], expected[MASK], atol=5e-6)


@pytest.mark.parametrize("filling", [float("nan"), 1e30, -3.0])
def test_padding_changes_no_bit(filling: float) -> None:
    torch.manual_seed(1)
    encoder, decoder = TransformerEncoder(16, 2, 32, 2).eval(), TransformerDecoder(16, 2, 32, 2).eval()
    x, memory = torch.randn(3, 7, 16), torch.randn(3, 7, 16)
    dirty, dirty_memory = x.masked_fill(~MASK[..., None], filling), memory.masked_fill(~MASK[..., None], filling)
    assert torch.equal(encoder(x, MASK)[MASK], encoder(dirty, MASK)[MASK])
    out = decoder(dirty, dirty_memory, MASK, MASK)
    assert torch.equal(decoder(x, memory, MASK, MASK)[MASK], out[MASK])
    assert out.isfinite().all()


def test_gradients_survive_nan_padding() -> None:
    encoder = TransformerEncoder(8, 2, 16, 1).eval()
    x = torch.randn(3, 7, 8).masked_fill(~MASK[..., None], float("nan"))
    encoder(x, MASK)[MASK].square().sum().backward()
    assert all(parameter.grad is not None and parameter.grad.isfinite().all() for parameter in encoder.parameters())


@pytest.mark.parametrize("theirs", [_torch_encoder(), _torch_decoder()], ids=["encoder", "decoder"])
def test_key_renaming_round_trip(theirs: nn.Module) -> None:
    state = theirs.state_dict()
    back = stock_keys(native_keys(state))
    assert back.keys() == state.keys()
    assert all(torch.equal(back[name], state[name]) for name in state)


def test_initial_scale_is_torchs() -> None:
    torch.manual_seed(0)
    ours = stock_keys(TransformerDecoder(64, 4, 128, 1).state_dict())
    theirs = nn.TransformerDecoderLayer(64, 4, 128).state_dict()
    for name in ("self_attn.in_proj_weight", "multihead_attn.in_proj_weight", "linear1.weight"):
        assert ours[f"layers.0.{name}"].std() == pytest.approx(float(theirs[name].std()), rel=0.05)


def test_sinusoid_values() -> None:
    table = sinusoidal_table(11, 4)
    expected = torch.tensor([10.0, 10.0, 0.1, 0.1]).double()
    expected = torch.stack([expected[0].sin(), expected[1].cos(), expected[2].sin(), expected[3].cos()])
    assert torch.allclose(table[10].double(), expected, atol=1e-6)
    assert torch.equal(sinusoid(torch.tensor([[3, 7]]), 4)[0, 1], table[7])
