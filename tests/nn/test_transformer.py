"""Our layers against torch's own: transformer, layers of several depths, ResNet-10; what padding must not do."""

from __future__ import annotations

import copy

import pytest
import torch
from torch import Tensor, nn
from torch.nn import functional as F

from motionkit.nn import (
    ResNet10,
    SpatialLearnedEmbeddings,
    TransformerDecoder,
    TransformerEncoder,
    UnrolledLinear,
    native_keys,
    resnet_map,
    sinusoidal_table,
    stock_keys,
    unrolled,
)
from motionkit.nn._transformer import sinusoid

MASK = torch.arange(7) < torch.tensor([7, 4, 1])[:, None]


def _torch_encoder() -> nn.TransformerEncoder:
    layer = nn.TransformerEncoderLayer(16, 4, 32, 0.1, "gelu")
    return nn.TransformerEncoder(layer, 2, enable_nested_tensor=False).requires_grad_(False)


def _torch_decoder() -> nn.TransformerDecoder:
    return nn.TransformerDecoder(nn.TransformerDecoderLayer(16, 4, 32, 0.1, "gelu"), 2).requires_grad_(False)


def _randomise(module: nn.Module) -> None:
    for parameter in module.parameters():
        nn.init.normal_(parameter, std=0.3)


@pytest.mark.parametrize("mask", [None, MASK])
def test_encoder_equals_torch(mask: Tensor | None) -> None:
    torch.manual_seed(0)
    theirs = _torch_encoder()
    _randomise(theirs)
    ours = TransformerEncoder(16, 4, 32, 2).eval()
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


def model() -> nn.Sequential:
    torch.manual_seed(0)
    return nn.Sequential(UnrolledLinear(5, 7), nn.Tanh(), UnrolledLinear(7, 5, bias=False)).double()


def run(network: nn.Module, rows: Tensor, steps: int, gathered: int) -> list[Tensor]:
    """Each step reads the one before; every other one is cut off from it."""
    made = []
    with unrolled(network, gathered):
        for step in range(steps):
            rows = network(rows.detach() if step % 2 else rows)
            made.append(rows)
    return made


@pytest.mark.parametrize("gathered", [6, 4, 9])  # as many steps as there are, fewer, more
def test_outputs_and_gradients_are_those_of_plain_layers(gathered: int) -> None:
    one, other = model(), model()
    rows = torch.randn(3, 1, 5, dtype=torch.float64)
    found = []
    for network, inside in ((one, gathered), (other, 0)):
        start = rows.clone().requires_grad_()
        made = run(network, start, 6, inside)
        torch.stack(made).square().sum().backward()
        found.append([torch.stack(made), start.grad, *(parameter.grad for parameter in network.parameters())])
    for mine, theirs in zip(*found, strict=True):
        assert mine is not None
        assert theirs is not None
        assert torch.allclose(mine, theirs, rtol=1e-12, atol=1e-14)


def test_the_graph_can_be_asked_twice_and_in_part() -> None:
    """As adaptive weights do: gradients of single losses for the last layer, then those of all for all layers."""
    one, other = model(), model()
    rows = torch.randn(3, 5, dtype=torch.float64)
    found = []
    for network, inside in ((one, 4), (other, 0)):
        made = run(network, rows, 4, inside)
        last = [torch.autograd.grad(step.sum(), network[2].weight, retain_graph=True)[0] for step in made]
        sum(step.square().sum() for step in made).backward()
        found.append([*last, *(parameter.grad for parameter in network.parameters())])
    for mine, theirs in zip(*found, strict=True):
        assert torch.allclose(mine, theirs, rtol=1e-12, atol=1e-14)


def test_other_calls_are_plain() -> None:
    network = model()
    twin = copy.deepcopy(network)
    rows = torch.randn(2, 5, dtype=torch.float64)
    with unrolled(network, 3):
        total = network(rows).sum() + network(rows[:1]).sum()  # rows of another number
    (total + network(rows).sum()).backward()
    (2 * twin(rows).sum() + twin(rows[:1]).sum()).backward()
    for mine, theirs in zip(network.parameters(), twin.parameters(), strict=True):
        assert mine.grad is not None
        assert theirs.grad is not None
        assert torch.allclose(mine.grad, theirs.grad)


def test_without_a_graph_nothing_is_kept() -> None:
    network = model()
    with torch.no_grad(), unrolled(network, 2):
        assert not network(torch.randn(2, 5, dtype=torch.float64)).requires_grad
    network[0].requires_grad_(False)
    with unrolled(network, 2):
        network(torch.randn(2, 5, dtype=torch.float64)).sum().backward()
    assert network[0].weight.grad is None
    assert network[2].weight.grad is not None


def test_names_are_those_of_linear_layers() -> None:
    assert list(model().state_dict()) == ["0.weight", "0.bias", "2.weight"]


def names():
    """The 36 used names of resnet10_pretrained.pt with their shapes."""
    found = {"conv1.weight": [64, 3, 7, 7], "bn1.weight": [64], "bn1.bias": [64]}
    width = 64
    for place, out in enumerate((64, 128, 256, 512), start=1):
        block = f"layer{place}.0."
        found |= {f"{block}conv1.weight": [out, width, 3, 3], f"{block}conv2.weight": [out, out, 3, 3]}
        found |= {f"{block}bn{n}.{kind}": [out] for n in (1, 2) for kind in ("weight", "bias")}
        if place > 1:
            found |= {f"{block}downsample.0.weight": [out, width, 1, 1]}
            found |= {f"{block}downsample.1.{kind}": [out] for kind in ("weight", "bias")}
        width = out
    return found


def slow(state, images):
    def norm(x, name):
        n, c, h, w = x.shape
        groups = x.reshape(n, 4, c // 4 * h * w)
        mean, var = groups.mean(-1, keepdim=True), groups.var(-1, keepdim=True, unbiased=False)
        x = ((groups - mean) / (var + 1e-5).sqrt()).reshape(n, c, h, w)
        return x * state[f"{name}.weight"][:, None, None] + state[f"{name}.bias"][:, None, None]

    x = F.relu(norm(F.conv2d(images, state["conv1.weight"], stride=2, padding=3), "bn1"))
    x = F.max_pool2d(F.pad(x, (1, 1, 1, 1), value=-torch.inf), 3, 2)
    for place in (1, 2, 3, 4):
        stride, block = 1 if place == 1 else 2, f"layer{place}.0."
        y = F.relu(norm(F.conv2d(x, state[f"{block}conv1.weight"], stride=stride, padding=1), f"{block}bn1"))
        y = norm(F.conv2d(y, state[f"{block}conv2.weight"], padding=1), f"{block}bn2")
        if place > 1:
            x = norm(F.conv2d(x, state[f"{block}downsample.0.weight"], stride=2), f"{block}downsample.1")
        x = F.relu(x + y)
    return x


def test_names_shapes_and_size_are_those_of_the_guides_file():
    state = ResNet10().state_dict()
    assert {name: list(value.shape) for name, value in state.items()} == names()
    assert len(state) == 36
    assert sum(value.numel() for value in state.values()) == 4_905_792


def test_it_computes_what_the_slow_version_does():
    torch.manual_seed(0)
    network = ResNet10().double()
    for parameter in network.parameters():  # so that scale and shift of the norms matter
        parameter.data += 0.1 * torch.randn_like(parameter)
    images = torch.rand(2, 3, 50, 64, dtype=torch.float64)
    found = network(images)
    assert found.shape == (2, 512, *resnet_map(50, 64))
    torch.testing.assert_close(found, slow(network.state_dict(), images))


def test_spatial_pooling_is_a_weighted_sum_over_places():
    torch.manual_seed(0)
    pooling = SpatialLearnedEmbeddings(5, 2, 3, 4, dropout=0.0)
    features = torch.randn(2, 5, 2, 3)
    expected = torch.zeros(2, 5, 4)
    for y in range(2):
        for x in range(3):
            expected += features[:, :, y, x, None] * pooling.kernel[:, y, x]
    torch.testing.assert_close(pooling(features), expected.reshape(2, 20))
