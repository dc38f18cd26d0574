"""The built-in region policy's network: a small model with the parts, and the names of the parts, of Sa2VA."""

from __future__ import annotations

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from motionkit.policies.regions._settings import RegionSettings

_CELLS = 8  # pixels of an image along one of the vision encoder's cells


class RegionNetwork(nn.Module):
    """Images, regions and words.

    ``vision_model`` sees the image, ``mlp1`` brings what it sees to the width of ``language_model``, whose state at
    the word [SEG] ``text_hidden_fcs`` turns into a prompt for ``grounding_encoder.mask_decoder``.

    Args:
        settings: Sizes.
        vocabulary: Words, special ones included.
    """

    def __init__(self, settings: RegionSettings, vocabulary: int) -> None:
        super().__init__()
        s = self.settings = settings
        self.vision_model = VisionModel(s.vision)
        self.mlp1 = nn.Sequential(
            nn.LayerNorm(4 * 2 * s.vision), nn.Linear(4 * 2 * s.vision, s.width), nn.GELU(), nn.Linear(s.width, s.width)
        )
        self.language_model = LanguageModel(s, vocabulary)
        self.text_hidden_fcs = nn.Sequential(nn.Linear(s.width, s.width), nn.GELU(), nn.Linear(s.width, s.prompt))
        self.grounding_encoder = GroundingEncoder(s)
        self._spread_prompts()

    def _spread_prompts(self) -> None:
        """Let prompts differ from the start; where they are nearly one, every object of an image is drawn."""
        with torch.no_grad():
            for layer in (*self.text_hidden_fcs, *self.grounding_encoder.mask_decoder.modulate):
                if isinstance(layer, nn.Linear):
                    nn.init.normal_(layer.weight, std=(2.0 / layer.in_features) ** 0.5)
                    nn.init.zeros_(layer.bias)
            nn.init.normal_(self.language_model.positions, std=0.3)
            nn.init.normal_(self.language_model.region, std=0.3)
            nn.init.normal_(self.language_model.begin, std=0.3)

    def see(self, images: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        """Look at images.

        Args:
            images: ``[N, H, W, 3]`` uint8.

        Returns:
            What `mlp1` reads of them ``[N, V, 4 C]``, features of the regions ``[N, C, H / 8, W / 8]``, and the
            features that masks are drawn from ``[N, c, h, w]``.
        """
        pixels = images.permute(0, 3, 1, 2).float() / 127.5 - 1.0
        pixels = torch.cat([pixels, _places(pixels)], 1)  # where a pixel is, as two more channels
        found = self.vision_model(pixels)
        drawn = self.grounding_encoder.sam_encoder(pixels)
        if self.settings.places:
            where = F.adaptive_avg_pool2d(pixels[:, -2:], (drawn.shape[-2], drawn.shape[-1]))
            drawn = torch.cat([drawn, where, where.square()], 1)  # of which a distance is a weighted sum
        return _four_as_one(found), found, drawn

    def region_word(self, features: Tensor, masks: Tensor) -> Tensor:
        """Return ``[N, 1, D]``: the region as a word that the language model reads.

        Args:
            features: ``[N, C, y, x]`` of `see`.
            masks: ``[N, h, w]`` bool; an empty one is read as nothing.
        """
        if self.settings.region == "word":
            words = _four_as_one(features)
            share = F.adaptive_avg_pool2d(
                masks[:, None].to(features.dtype), (features.shape[-2] // 2, features.shape[-1] // 2)
            )
            share = share.flatten(2) / share.sum((2, 3)).clamp(min=1e-6)[..., None]  # [N, 1, V]
            places = self.language_model.positions[: words.shape[1]]  # where its words stand among those of the image
            seen: Tensor = self.mlp1(share @ words) + share @ places
            return seen + self.language_model.region
        cells = F.adaptive_avg_pool2d(masks[:, None].to(features.dtype), (features.shape[-2], features.shape[-1]))
        weight = cells / cells.sum((2, 3), keepdim=True).clamp(min=1e-6)
        pooled = (features * weight).sum((2, 3))
        # As one of four cells of an image word: mlp1 reads both.
        word: Tensor = self.mlp1(pooled.repeat_interleave(4, 1))  # in the order of `_four_as_one`
        return word[:, None] + self.language_model.region


class VisionModel(nn.Module):
    """Three strided convolutions: ``[N, 5, H, W]`` to ``[N, 2 C, H / 8, W / 8]``."""

    def __init__(self, channels: int) -> None:
        super().__init__()
        wide = 2 * channels
        self.layers = nn.Sequential(
            *_convolution(5, channels, 4, 2, 1), *_convolution(channels, wide, 4, 2, 1),
            *_convolution(wide, wide, 4, 2, 1), nn.Conv2d(wide, wide, 1),
        )  # fmt: skip

    def forward(self, pixels: Tensor) -> Tensor:
        """Return the features."""
        found: Tensor = self.layers(pixels)
        return found


class LanguageModel(nn.Module):
    """A causal transformer over image words, a region word and written words."""

    def __init__(self, s: RegionSettings, vocabulary: int) -> None:
        super().__init__()
        seen = (s.image_size // _CELLS // 2) ** 2
        self.embed_tokens = nn.Embedding(vocabulary, s.width)
        self.positions = nn.Parameter(torch.randn(seen + 1 + s.max_words + 2, s.width) * 0.02)
        self.region = nn.Parameter(torch.randn(s.width) * 0.02)
        self.begin = nn.Parameter(torch.randn(s.width) * 0.02)
        self.layers = nn.ModuleList(Layer(s.width, s.heads) for _ in range(s.layers))
        self.norm = nn.LayerNorm(s.width)
        self.lm_head = nn.Linear(s.width, vocabulary, bias=False)

    def forward(self, embedded: Tensor, read: list[Read] | None = None) -> Tensor:
        """Return the states ``[N, T, D]`` of embedded words ``[N, T, D]``; no word reads a later one.

        Args:
            embedded: The words.
            read: What was read before them, of each layer, which grows by these words: empty for the first call, after
                which there is one word in a call.
        """
        before = read[0].keys.shape[2] if read else 0
        states = embedded + self.positions[before : before + embedded.shape[1]]
        past = read or [Read() for _ in self.layers]
        for layer, own in zip(self.layers, past, strict=True):
            states = layer(states, own)
        if read is not None and not read:
            read.extend(past)
        found: Tensor = self.norm(states)
        return found


class Read:
    """Keys and values ``[N, heads, T, D / heads]`` of the words that a layer has read."""

    def __init__(self) -> None:
        self.keys, self.values = torch.empty(0), torch.empty(0)


class Layer(nn.Module):
    """Causal self-attention and a feed-forward network, each after a norm."""

    def __init__(self, width: int, heads: int) -> None:
        super().__init__()
        self.heads = heads
        self.norm1, self.norm2 = nn.LayerNorm(width), nn.LayerNorm(width)
        self.qkv_proj, self.out_proj = nn.Linear(width, 3 * width), nn.Linear(width, width)
        self.linear1, self.linear2 = nn.Linear(width, 4 * width), nn.Linear(4 * width, width)

    def forward(self, states: Tensor, read: Read) -> Tensor:
        """Return ``[N, T, D]``; the words come behind those that were read, and are read now."""
        n, t, d = states.shape
        q, k, v = self.qkv_proj(self.norm1(states)).view(n, t, 3, self.heads, d // self.heads).permute(2, 0, 3, 1, 4)
        if first := not read.keys.numel():
            read.keys, read.values = k, v
        else:  # one word, which reads all
            read.keys, read.values = torch.cat([read.keys, k], 2), torch.cat([read.values, v], 2)
        mixed = F.scaled_dot_product_attention(q, read.keys, read.values, is_causal=first)
        states = states + self.out_proj(mixed.transpose(1, 2).reshape(n, t, d))
        found: Tensor = states + self.linear2(F.gelu(self.linear1(self.norm2(states))))
        return found


class GroundingEncoder(nn.Module):
    """Draws masks: ``sam_encoder`` sees the image, ``mask_decoder`` reads a prompt."""

    def __init__(self, s: RegionSettings) -> None:
        super().__init__()
        stride, c = s.image_size // s.mask_size, s.channels
        self.sam_encoder = nn.Sequential(
            *_convolution(5, c, 2 * stride + 1, stride, stride), *_convolution(c, c, 3, 1, 1),
            *_convolution(c, c, 3, 1, 2, dilation=2), nn.Conv2d(c, c, 1),
        )  # fmt: skip
        self.mask_decoder = MaskDecoder(s)


class MaskDecoder(nn.Module):
    """A prompt modulates the features of the image; a pixel's logit and a confidence come out."""

    def __init__(self, s: RegionSettings) -> None:
        super().__init__()
        c = s.channels
        self.modulate = nn.Sequential(nn.Linear(s.prompt, 2 * c), nn.GELU(), nn.Linear(2 * c, 3 * c + 1))
        self.first = nn.Conv2d(c + 4 * s.places, c, 1)

    def forward(self, features: Tensor, prompts: Tensor) -> Tensor:
        """Return logits ``[N, h, w]``.

        Args:
            features: ``[N, C, h, w]``, where a pixel is among them if settings say so.
            prompts: ``[N, Z]``.
        """
        c = self.first.out_channels
        scale, shift, weight, bias = self.modulate(prompts).split([c, c, c, 1], 1)
        found = F.gelu(self.first(features) * (1 + scale[..., None, None]) + shift[..., None, None])
        logits: Tensor = torch.einsum("nchw,nc->nhw", found, weight) / c**0.5 + bias[..., None]
        return logits


def _convolution(
    inputs: int, outputs: int, size: int, stride: int, padding: int, *, dilation: int = 1
) -> tuple[nn.Module, ...]:
    """Return a convolution, a norm over groups of channels, without which little of an image gets through, and GELU."""
    layer = nn.Conv2d(inputs, outputs, size, stride, padding, dilation)
    nn.init.kaiming_normal_(layer.weight, nonlinearity="relu")
    return layer, nn.GroupNorm(4, outputs), nn.GELU()


def _places(pixels: Tensor) -> Tensor:
    """Return ``[N, 2, H, W]``: row and column from -1 to 1."""
    n, _, height, width = pixels.shape
    rows = torch.linspace(-1, 1, height, device=pixels.device)[:, None].expand(height, width)
    columns = torch.linspace(-1, 1, width, device=pixels.device).expand(height, width)
    return torch.stack([rows, columns]).expand(n, 2, height, width)


def _four_as_one(features: Tensor) -> Tensor:
    """Return ``[N, Y X / 4, 4 C]``: squares of four cells as one word each (pixel shuffle)."""
    return F.pixel_unshuffle(features, 2).flatten(2).transpose(1, 2)
