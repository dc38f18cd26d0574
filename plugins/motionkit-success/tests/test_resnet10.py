"""ResNet10 and its pooling against slow versions."""

from __future__ import annotations

import torch
from torch.nn import functional as F

from motionkit_success.resnet10 import ResNet10, SpatialLearnedEmbeddings, resnet_map


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
