"""Passes over rows, against torch's own operations and by finite differences."""

from __future__ import annotations

import pytest
import torch
from torch.autograd import gradcheck, gradgradcheck

from motionkit.nn import TransformerEncoder, differences, squared_length, zeroed

_DRAW = torch.Generator().manual_seed(0)


def _numbers(*shape: int) -> torch.Tensor:
    return torch.randn(*shape, generator=_DRAW, dtype=torch.float64).requires_grad_()


@pytest.mark.parametrize("shape", [(2, 5, 3), (2, 5, 4, 3), (2, 5)])
def test_zeroed_is_masked_fill(shape: tuple[int, ...]) -> None:
    x, mask = _numbers(*shape), torch.arange(5) < torch.tensor([[5], [2]])
    wide = mask.view(*mask.shape, *[1] * (len(shape) - 2))
    wanted = x.masked_fill(~wide, 0.0)
    assert torch.equal(zeroed(x, mask), wanted)
    weight = torch.randn(shape, generator=_DRAW, dtype=torch.float64)
    found = torch.autograd.grad((zeroed(x, mask) * weight).sum(), x)[0]
    assert torch.equal(found, torch.autograd.grad((wanted * weight).sum(), x)[0])


def test_zeroed_takes_nan_out_of_value_and_gradient() -> None:
    x = torch.tensor([[[1.0, 2.0], [torch.nan, torch.inf]]], requires_grad=True)
    out = zeroed(x, torch.tensor([[True, False]])).square()
    out.sum().backward()
    assert out.tolist() == [[[1.0, 4.0], [0.0, 0.0]]]
    assert x.grad is not None
    assert x.grad.tolist() == [[[2.0, 4.0], [0.0, 0.0]]]


def test_zeroed_takes_what_is_not_contiguous_and_leaves_it_alone() -> None:
    x = torch.ones(3, 4, 2).transpose(0, 1)
    out = zeroed(x, torch.zeros(4, 3, dtype=torch.bool))
    assert out.shape == x.shape
    assert not out.any()
    assert x.all()
    assert zeroed(x, torch.ones(4, 3, dtype=torch.bool)) is x  # nothing to do


@pytest.mark.parametrize("frames", [1, 2, 3, 6])
def test_differences_and_their_gradients(frames: int) -> None:
    x = _numbers(2, frames, 3)
    assert torch.equal(differences(x), x.diff(dim=1))
    (found,) = torch.autograd.grad(differences(x).square().sum(), x)
    (wanted,) = torch.autograd.grad(x.diff(dim=1).square().sum(), x)
    torch.testing.assert_close(found, wanted)
    if frames > 1:  # finite differences of nothing are nothing
        assert gradcheck(differences, (x,))
        assert gradgradcheck(differences, (x,))


def test_squared_length_and_its_gradients() -> None:
    x = _numbers(2, 4, 3)
    assert torch.equal(squared_length(x), x.square().sum(-1))
    assert gradcheck(squared_length, (x,))
    assert gradgradcheck(squared_length, (x,))


def test_an_encoder_that_is_told_of_finite_padding_gives_the_same() -> None:
    encoder = TransformerEncoder(8, 2, 16, 2).eval()
    mask = torch.arange(6) < torch.tensor([[6], [3]])
    x = torch.randn(2, 6, 8, generator=_DRAW)
    torch.testing.assert_close(encoder(x, mask, finite=True)[mask], encoder(x, mask)[mask])
