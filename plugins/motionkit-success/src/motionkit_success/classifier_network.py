"""The network: an encoder per camera, and one head over all of them."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Literal

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from motionkit.errors import MotionkitError
from motionkit_success.resnet10 import ResNet10, SpatialLearnedEmbeddings, resnet_map

Architecture = Literal["small", "resnet10"]

_CHANNELS = (8, 16, 32)
_SMALL_WIDTH, _SMALL_HEAD = 88, 64
_QUARTER = 255 / 4  # dividing by it has the bits of dividing by 255 and multiplying by 4
_GRID = 8  # the small network halves an image until its longer side is at most this


class _Centred(nn.Module):
    """Maps 0 to 1 onto -2 to 2: the first layers learn several times as slowly from values of one sign."""

    def __init__(self) -> None:
        super().__init__()
        self._kept: Tensor | None = None

    def forward(self, images: Tensor) -> Tensor:
        """Map images in 0 to 1, or uint8 ones.

        Without gradients on a CPU the result lasts until the next call: new memory costs more than its numbers.
        """
        whole = images.dtype == torch.uint8
        if torch.is_grad_enabled() or torch.is_inference_mode_enabled() or images.device.type != "cpu":
            return (images.div(_QUARTER) if whole else images.mul(4)).sub_(2)
        kept, dtype = self._kept, torch.float32 if whole else images.dtype
        if kept is None or len(kept) < len(images) or kept.shape[1:] != images.shape[1:] or kept.dtype != dtype:
            self._kept = kept = torch.empty_like(images, dtype=dtype)
        out = kept[: len(images)].copy_(images)
        return (out.div_(_QUARTER) if whole else out.mul_(4)).sub_(2)


class _Halving(nn.Conv2d):
    """A convolution of stride 2 that, without gradients on a CPU, computes two neighbours at once.

    Sixteen channels take a CPU little longer than eight. The sums are the same: products with 0 are added.
    """

    def forward(self, images: Tensor) -> Tensor:
        padded = images.shape[-1] + 2 * int(self.padding[1]) - self.kernel_size[1]
        if torch.is_grad_enabled() or images.device.type != "cpu" or self.out_channels > 8 or padded // 2 % 2 == 0:
            return super().forward(images)
        assert self.bias is not None
        both = torch.cat([F.pad(self.weight, (0, 2)), F.pad(self.weight, (2, 0))])
        pairs = F.conv2d(images, both, self.bias.repeat(2), (2, 4), self.padding)
        # [N, 2 C, H, W / 2] -> [N, C, H, W]; where the channels are last in memory, nothing moves.
        result: Tensor = pairs.permute(0, 2, 3, 1).unflatten(3, (2, -1)).flatten(2, 3).permute(0, 3, 1, 2)
        return result


class SmallEncoder(nn.Module):
    """A few strided convolutions and a linear layer: 188,000 weights at 64x64, made for one core of a CPU."""

    def __init__(self, height: int, width: int) -> None:
        super().__init__()
        layers: list[nn.Module] = [_Centred()]
        inputs, place = 3, 0
        while place < len(_CHANNELS) or max(height, width) > _GRID:
            outputs, kernel = _CHANNELS[min(place, len(_CHANNELS) - 1)], 3 if place else 5
            layers += [_Halving(inputs, outputs, kernel, 2, kernel // 2), nn.ReLU(inplace=True)]
            inputs, place = outputs, place + 1
            height, width = (height + 1) // 2, (width + 1) // 2
        self.backbone = nn.Sequential(*layers)
        self.mlp = nn.Sequential(
            nn.Linear(inputs * height * width, _SMALL_WIDTH), nn.LayerNorm(_SMALL_WIDTH), nn.Tanh()
        )
        self.map, self.features = (inputs, height, width), _SMALL_WIDTH

    def pooled(self, features: Tensor) -> Tensor:
        """Return ``[N, features]`` of the backbone's map."""
        vector: Tensor = self.mlp(features.flatten(1))
        return vector


class ResNetEncoder(nn.Module):
    """ResNet10, learned spatial pooling and a layer, under the names of the reward-model guide's checkpoints."""

    def __init__(self, height: int, width: int, hidden: int, blocks: int) -> None:
        super().__init__()
        self.resnet_backbone = ResNet10()
        grid = resnet_map(height, width)
        self.pooling_layer = SpatialLearnedEmbeddings(512, *grid, blocks)
        self.mlp = nn.Sequential(nn.Linear(512 * blocks, hidden), nn.LayerNorm(hidden), nn.Tanh())
        self.map, self.features = (512, *grid), hidden

    @property
    def backbone(self) -> nn.Module:
        """The part that a pretrained file holds, and that may be frozen."""
        return self.resnet_backbone

    def pooled(self, features: Tensor) -> Tensor:
        """Return ``[N, features]`` of the backbone's map."""
        vector: Tensor = self.mlp(self.pooling_layer(features))
        return vector


class SuccessNetwork(nn.Module):
    """Turns one frame of each camera into a logit of success."""

    def __init__(
        self,
        architecture: Architecture,  # ``small`` or ``resnet10``
        cameras: Mapping[str, tuple[int, int]],  # (height, width) in pixels by name
        hidden: int = 256,  # width of the head, and of each encoder of ``resnet10``
        blocks: int = 8,  # spatial sums of ``resnet10``
    ) -> None:
        super().__init__()
        if not cameras:
            raise MotionkitError("a success classifier needs a camera, and there is none.")
        self.names = {camera: camera.replace(".", "_") for camera in cameras}  # a module's name has no dots
        if len(set(self.names.values())) < len(cameras):
            raise MotionkitError(f"two cameras have one name: {', '.join(cameras)}.", fix="rename one of them.")
        for camera, size in cameras.items():
            if min(size) < _GRID:
                raise MotionkitError(
                    f"images of {camera} are {size[0]}x{size[1]} pixels.", fix=f"use {_GRID}x{_GRID} or more."
                )
        self.architecture = architecture
        self.encoders = nn.ModuleDict(
            {
                self.names[camera]: SmallEncoder(*size)
                if architecture == "small"
                else ResNetEncoder(*size, hidden, blocks)
                for camera, size in cameras.items()
            }
        )
        features = sum(self._encoder(camera).features for camera in cameras)
        head = _SMALL_HEAD if architecture == "small" else hidden
        self.classifier = nn.Sequential(
            nn.Linear(features, head), nn.Dropout(0.1), nn.LayerNorm(head), nn.ReLU(), nn.Linear(head, 1)
        )

    def backbones(self) -> list[nn.Module]:
        """Return the backbone of each camera."""
        return [self._encoder(camera).backbone for camera in self.names]

    def maps(self) -> dict[str, tuple[int, int, int]]:
        """Return channels, height and width of each camera's feature map."""
        return {camera: self._encoder(camera).map for camera in self.names}

    def features(self, images: Mapping[str, Tensor]) -> dict[str, Tensor]:
        """Return each camera's feature map ``[N, C, h, w]`` of ``[N, 3, H, W]`` in 0 to 1."""
        return {camera: self._encoder(camera).backbone(images[camera]) for camera in self.names}

    def head(self, features: Mapping[str, Tensor]) -> Tensor:
        """Return logits ``[N]`` of feature maps."""
        pooled = [self._encoder(camera).pooled(features[camera]) for camera in self.names]
        logits: Tensor = self.classifier(torch.cat(pooled, -1)).squeeze(-1)
        return logits

    def forward(self, images: Mapping[str, Tensor]) -> Tensor:
        """Return logits ``[N]`` of images ``[N, 3, H, W]`` by camera, in 0 to 1; those of `small` may be uint8."""
        return self.head(self.features(images))

    def _encoder(self, camera: str) -> SmallEncoder | ResNetEncoder:
        encoder: SmallEncoder | ResNetEncoder = self.encoders[self.names[camera]]  # type: ignore[assignment]
        return encoder


def as_images(frames: Tensor) -> Tensor:
    """Return ``[N, 3, H, W]`` in 0 to 1 of uint8 RGB ``[N, H, W, 3]``.

    The result keeps the channels last in memory, for which convolutions on a CPU are fastest.
    """
    return frames.float().div_(255.0).permute(0, 3, 1, 2)
