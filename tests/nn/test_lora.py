"""Adapters (test 20 of the RL sheet), and the moving average of weights."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from torch import Tensor, nn

from motionkit.errors import MotionkitError
from motionkit.nn import (
    EMA,
    TransformerDecoder,
    TransformerEncoder,
    adapter_parameters,
    adapters_merged,
    adapters_off,
    add_adapters,
    has_adapters,
    merged_state,
)


class Net(nn.Module):
    """Encoder and decoder with a text projection, small."""

    def __init__(self) -> None:
        super().__init__()
        torch.manual_seed(0)
        self.embed_text = nn.Linear(6, 16)
        self.encoder = TransformerEncoder(16, 2, 32, 1)
        self.decoder = TransformerDecoder(16, 2, 32, 1)
        self.eval()

    def forward(self, x: Tensor) -> Tensor:
        memory = self.embed_text(x)
        out: Tensor = self.decoder(self.encoder(memory), memory)
        return out


X = torch.randn(2, 5, 6, generator=torch.Generator().manual_seed(3))


def _train(net: Net) -> None:
    optimizer = torch.optim.SGD(adapter_parameters(net), lr=0.5)
    for _ in range(3):
        optimizer.zero_grad()
        net(X).square().sum().backward()
        optimizer.step()


def test_zero_start_is_bit_equal_and_only_adapters_train() -> None:
    base = Net()(X)
    net = Net()
    add_adapters(net, r=4, alpha=8.0)
    assert torch.equal(net(X), base)
    trainable = {name for name, parameter in net.named_parameters() if parameter.requires_grad}
    assert trainable == {name for name, _ in net.named_parameters() if ".lora_" in name}
    assert len(trainable) == 2 * (1 + 2 + 2 + 3 + 2 + 2)  # text; self, self and cross attention; feed-forwards


def test_every_adapter_gets_a_gradient() -> None:
    net = Net()
    add_adapters(net, r=2, alpha=2.0)
    _train(net)
    net(X).square().sum().backward()
    assert all(parameter.grad is not None and parameter.grad.abs().sum() > 0 for parameter in adapter_parameters(net))


def test_off_restores_the_base_bit_for_bit() -> None:
    base = Net()(X)
    net = Net()
    add_adapters(net, r=4, alpha=8.0)
    _train(net)
    tuned = net(X)
    assert not torch.allclose(tuned, base, atol=1e-3)
    with adapters_off(net):
        assert torch.equal(net(X), base)
    assert torch.equal(net(X), tuned)
    assert all(parameter.requires_grad for parameter in adapter_parameters(net))


def test_merged_weights_are_the_same_function() -> None:
    net = Net()
    add_adapters(net, r=4, alpha=8.0)
    _train(net)
    plain = Net()
    plain.load_state_dict(merged_state(net))
    assert (plain(X) - net(X)).abs().max() <= 1e-5
    assert not has_adapters(plain)


def test_seed_alone_draws_the_adapters() -> None:
    states = []
    for noise in (0, 1):
        torch.manual_seed(noise)
        net = Net()
        torch.manual_seed(noise)
        before = torch.get_rng_state()
        add_adapters(net, r=4, alpha=8.0, seed=7)
        assert torch.equal(torch.get_rng_state(), before)
        states.append(adapter_parameters(net))
    assert all(torch.equal(one, other) for one, other in zip(*states, strict=True))


@pytest.mark.parametrize(("targets", "count"), [(("attn",), 7), (("ffn",), 4), (("text",), 1)])
def test_targets(targets: tuple[str, ...], count: int) -> None:
    net = Net()
    add_adapters(net, r=2, alpha=2.0, targets=targets)
    assert len(adapter_parameters(net)) == 2 * count


def test_refusals() -> None:
    adapted, other = Net(), Net()
    add_adapters(adapted)
    other.embed_text = nn.Bilinear(6, 6, 16)  # type: ignore[assignment]
    cases: tuple[tuple[nn.Module, dict[str, Any], str], ...] = (
        (Net(), {"targets": ("attention",)}, "unknown LoRA target"),
        (Net(), {"targets": ()}, "at least one target"),
        (Net(), {"r": 0}, "rank of LoRA is 0"),
        (nn.Linear(2, 2), {}, "nothing to adapt"),
        (other, {}, "cannot adapt embed_text"),
        (adapted, {}, "already"),
    )
    for module, options, word in cases:
        with pytest.raises(MotionkitError, match=word):
            add_adapters(module, **options)
    assert not has_adapters(other)
    assert all(parameter.requires_grad for parameter in other.parameters())


@pytest.mark.parametrize("dropout", [0.0, 0.3])
def test_adapters_are_those_of_peft_bit_for_bit(dropout: float) -> None:
    """Names in their order, draws, flags, output and gradients, so that runs of peft's adapters go on."""
    import peft  # costs more than torch: only in the process that runs this test

    ours, theirs = Net(), Net()
    add_adapters(ours, r=3, alpha=5.0, dropout=dropout, targets=["attn", "text"], seed=4)
    torch.manual_seed(4)
    names = r"(?:.*\.)?(?:(?:in_proj|out_proj|q_proj|kv_proj)|embed_text)"
    config = peft.LoraConfig(r=3, lora_alpha=5.0, lora_dropout=dropout, target_modules=names)
    peft.inject_adapter_in_model(config, theirs)
    for (name, mine), (like, other) in zip(ours.named_parameters(), theirs.named_parameters(), strict=True):
        assert (name, mine.requires_grad) == (like, other.requires_grad)
        assert torch.equal(mine, other)
    found = []
    for net in (ours, theirs):
        net.train(dropout > 0)
        draw = torch.Generator().manual_seed(1)
        with torch.no_grad():
            for parameter in adapter_parameters(net):
                parameter.copy_(torch.randn(parameter.shape, generator=draw))
        torch.manual_seed(2)
        x = X.clone().requires_grad_()
        out = net(x)
        found.append([out, *torch.autograd.grad(out.square().sum(), [x, *adapter_parameters(net)])])
        with adapters_off(net):
            found[-1].append(net(X))
        found[-1] += merged_state(net).values()
    assert all(torch.equal(mine, other) for mine, other in zip(*found, strict=True))


def test_merged_is_the_same_function_with_the_same_gradient() -> None:
    net = Net()
    add_adapters(net, r=4, alpha=8.0)
    draw = torch.Generator().manual_seed(1)
    with torch.no_grad():
        for parameter in adapter_parameters(net):
            parameter.copy_(0.3 * torch.randn(parameter.shape, generator=draw))

    def found() -> tuple[Tensor, list[Tensor]]:
        x = X.clone().requires_grad_()
        out = net(x)
        wanted = [x, *adapter_parameters(net)]
        return out.detach(), list(torch.autograd.grad(out[..., 0].sum(), wanted))

    plain, gradients = found()
    with adapters_off(net):
        base = net(X)
    assert not torch.allclose(plain, base, atol=1e-2)
    with adapters_merged(net):
        merged, others = found()
        with adapters_off(net):
            assert torch.equal(net(X), base)
    torch.testing.assert_close(merged, plain, rtol=1e-4, atol=1e-5)
    torch.testing.assert_close(others, gradients, rtol=1e-3, atol=1e-4)
    assert torch.equal(found()[0], plain)
    assert all(parameter.requires_grad for parameter in adapter_parameters(net))


@pytest.mark.parametrize("autocast", [False, True])
def test_the_gradient_of_a_merged_layer_is_that_of_its_formula(autocast: bool) -> None:
    """The low-rank products against autograd through ``W + s B A``, which builds the gradient of the whole matrix."""
    net = Net()
    add_adapters(net, r=3, alpha=6.0, targets=["attn"])
    layer = next(child for child in net.modules() if hasattr(child, "lora_A"))
    a, b, base = layer.lora_A["default"].weight, layer.lora_B["default"].weight, layer.base_layer
    draw = torch.Generator().manual_seed(2)
    with torch.no_grad():
        b.copy_(torch.randn(b.shape, generator=draw))
    x = torch.randn(5, 4, base.in_features, generator=draw).requires_grad_()
    wanted = torch.randn(5, 4, base.out_features, generator=draw)
    with torch.autocast("cpu", torch.bfloat16, enabled=autocast):
        with adapters_merged(net):
            out = layer(x)
        plain = torch.nn.functional.linear(x, base.weight + 2.0 * (b @ a), base.bias)
    assert out.dtype == plain.dtype
    error = 0.03 if autocast else 1e-5
    found = torch.autograd.grad((out.float() * wanted).sum(), [x, a, b])
    expected = torch.autograd.grad((plain.float() * wanted).sum(), [x, a, b])
    for one, two in zip((out, *found), (plain, *expected), strict=True):
        assert one.shape == two.shape
        assert float((one - two).detach().norm() / two.detach().norm()) < error


def test_merged_leaves_a_network_without_adapters_alone() -> None:
    net = Net()
    out = net(X)
    with adapters_merged(net):
        assert torch.equal(net(X), out)


def _move(module: nn.Module, amount: float) -> None:
    with torch.no_grad():
        for parameter in module.parameters():
            parameter.add_(amount)


def test_average_follows_the_formula() -> None:
    module = nn.Linear(1, 1, bias=False)
    nn.init.constant_(module.weight, 1.0)
    ema = EMA(module.named_parameters(), 0.75)
    _move(module, 1.0)
    ema.update()
    _move(module, 1.0)
    ema.update()
    assert ema.tensors()["weight"].item() == pytest.approx(0.75 * (0.75 * 1 + 0.25 * 2) + 0.25 * 3)


def test_warmup_forgets_the_start() -> None:
    module = nn.Linear(1, 1, bias=False)
    ema = EMA(module.named_parameters(), 0.999, warmup=True)
    nn.init.constant_(module.weight, 5.0)
    for _ in range(50):
        ema.update()
    assert ema.tensors()["weight"].item() == pytest.approx(5.0, abs=1e-3)


def test_weights_come_back_bit_for_bit() -> None:
    torch.manual_seed(0)
    module = nn.Linear(5, 3)
    ema = EMA(module.named_parameters(), 0.9)
    _move(module, 0.123)
    ema.update()
    live = {name: value.clone() for name, value in module.state_dict().items()}
    average = {name: value.clone() for name, value in ema.tensors().items()}

    def interrupted() -> None:
        with ema.applied():
            assert all(torch.equal(module.state_dict()[name], average[name]) for name in average)
            raise RuntimeError

    with pytest.raises(RuntimeError):
        interrupted()
    assert not torch.equal(live["weight"], average["weight"])
    assert all(torch.equal(module.state_dict()[name], live[name]) for name in live)
    assert all(torch.equal(ema.tensors()[name], average[name]) for name in average)


def test_optimizer_keeps_training_the_live_weights() -> None:
    module = nn.Linear(2, 1)
    ema = EMA(module.named_parameters(), 0.5)
    optimizer = torch.optim.SGD(module.parameters(), lr=1.0)
    with ema.applied():
        pass
    before = module.weight.detach().clone()
    module(torch.ones(1, 2)).sum().backward()
    optimizer.step()
    assert torch.allclose(module.weight, before - 1.0)


def test_restore_refuses_another_model() -> None:
    ema = EMA(nn.Linear(2, 1).named_parameters(), 0.5)
    for tensors, word in (
        ({"weight": torch.zeros(1, 2)}, "bias"),
        ({"weight": torch.zeros(1, 3), "bias": torch.zeros(1)}, "shape"),
    ):
        with pytest.raises(MotionkitError, match=word):
            ema.load(tensors)
