"""ResNet10 with group normalisation, and the learned spatial pooling that goes with it.

Both as in SERL and HIL-SERL (Luo et al., 2024) in RLinf's PyTorch version, whose ``resnet10_pretrained.pt`` loads by
name. Input is RGB in 0 to 1, neither resized nor normalised by ImageNet's statistics, as there.
"""

from __future__ import annotations

import torch
from torch import Tensor, nn

CHANNELS = 512  # channels of the last stage
_GROUPS = 4
_STAGES = (64, 128, 256, 512)


class _Block(nn.Module):
    """Two 3x3 convolutions with a shortcut (torchvision's ``BasicBlock``)."""

    def __init__(self, inputs: int, outputs: int, stride: int) -> None:
        super().__init__()
        self.conv1 = nn.Conv2d(inputs, outputs, 3, stride, 1, bias=False)
        self.bn1 = nn.GroupNorm(_GROUPS, outputs)
        self.conv2 = nn.Conv2d(outputs, outputs, 3, 1, 1, bias=False)
        self.bn2 = nn.GroupNorm(_GROUPS, outputs)
        self.downsample: nn.Sequential | None = None
        if stride != 1 or inputs != outputs:
            self.downsample = nn.Sequential(
                nn.Conv2d(inputs, outputs, 1, stride, bias=False), nn.GroupNorm(_GROUPS, outputs)
            )

    def forward(self, x: Tensor) -> Tensor:
        hidden = torch.relu(self.bn1(self.conv1(x)))
        hidden = self.bn2(self.conv2(hidden))
        return torch.relu(hidden + (x if self.downsample is None else self.downsample(x)))


class ResNet10(nn.Module):
    """ResNet with one block per stage up to the last feature map, 4,905,792 weights; no pooling, no ``fc``."""

    def __init__(self) -> None:
        super().__init__()
        self.conv1 = nn.Conv2d(3, _STAGES[0], 7, 2, 3, bias=False)
        self.bn1 = nn.GroupNorm(_GROUPS, _STAGES[0])
        self.maxpool = nn.MaxPool2d(3, 2, 1)
        inputs = _STAGES[0]
        for stage, outputs in enumerate(_STAGES, start=1):
            # One block a stage; a Sequential keeps the names layer1.0, layer2.0, ...
            setattr(self, f"layer{stage}", nn.Sequential(_Block(inputs, outputs, 1 if stage == 1 else 2)))
            inputs = outputs
        for module in self.modules():
            if isinstance(module, nn.Conv2d):
                nn.init.kaiming_normal_(module.weight, mode="fan_out", nonlinearity="relu")

    def forward(self, images: Tensor) -> Tensor:
        """Return the last feature map ``[N, 512, h, w]`` of ``[N, 3, H, W]`` in 0 to 1; see `resnet_map`."""
        x: Tensor = self.maxpool(torch.relu(self.bn1(self.conv1(images))))
        for stage in range(1, len(_STAGES) + 1):
            x = getattr(self, f"layer{stage}")(x)
        return x


def resnet_map(height: int, width: int) -> tuple[int, int]:
    """Return the size (h, w) of `ResNet10`'s feature map: half of the size, rounded up, five times.

    Example:
        >>> resnet_map(64, 64), resnet_map(128, 100)
        ((2, 2), (4, 4))
    """
    for _ in range(5):
        height, width = (height + 1) // 2, (width + 1) // 2
    return height, width


class SpatialLearnedEmbeddings(nn.Module):
    """Pools a feature map by learned weights of positions: ``F`` weighted sums of each channel."""

    def __init__(self, channels: int, height: int, width: int, features: int = 8, dropout: float = 0.1) -> None:
        super().__init__()
        # Each sum is over h * w positions, so this scale keeps the variance.
        self.kernel = nn.Parameter(torch.randn(channels, height, width, features) / (height * width) ** 0.5)
        self.dropout = nn.Dropout(dropout)

    def forward(self, features: Tensor) -> Tensor:
        """Return ``[N, C * F]`` of ``[N, C, h, w]``."""
        pooled: Tensor = self.dropout(torch.einsum("nchw,chwf->ncf", features, self.kernel).flatten(1))
        return pooled
