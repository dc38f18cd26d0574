"""The built-in region policy: captions of regions, and masks of captions."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any, Literal

import numpy as np
import torch
import torch.nn.functional as F
from numpy.typing import NDArray
from pydantic import BaseModel, ConfigDict, Field, field_validator
from torch import Tensor, nn

from motionkit import starter, weights
from motionkit.documents import read_model
from motionkit.errors import MotionkitError
from motionkit.nn.sharding import shard
from motionkit.rl import categorical
from motionkit.runs import find_model, fingerprint, fingerprint_tensors, write_model
from motionkit.training.world import World, all_done
from motionkit_regions.policy import REGION_ARTIFACT, Captions, RegionPolicy, WordScores
from motionkit_regions.small_settings import BEFORE, RegionOptions, RegionSettings

DOCUMENT, KIND = "policy.json", "regions"

_Word = Annotated[str, Field(pattern=r"^[a-z]{1,40}$")]

_WAVES = 3  # frequencies of the position encoding along each side
_CELLS = 8  # pixels along a cell of the vision encoder

PAD, END, SEG, UNKNOWN = 0, 1, 2, 3
SPECIAL = ("<pad>", "<end>", "[SEG]", "<unknown>")
_TOKEN = re.compile(r"[a-z]+")

_NEVER = (PAD, SEG, UNKNOWN)  # words that no caption may hold

STARTER = Path(starter.__file__).parent / "weights" / "regions"


class RegionDocument(BaseModel):
    """Content of policy.json; unknown keys (of later versions) are ignored."""

    model_config = ConfigDict(frozen=True, extra="ignore", allow_inf_nan=False)

    kind: Literal["regions"]
    settings: RegionSettings
    words: Annotated[tuple[_Word, ...], Field(min_length=1, max_length=65_536)]

    @field_validator("settings", mode="before")
    @classmethod
    def _later(cls, settings: Any) -> Any:
        """Fill in settings that were added later, with the values of the time before."""
        return {**BEFORE, **settings} if isinstance(settings, Mapping) else settings


class RegionNetwork(nn.Module):
    """Images, regions and words.

    ``mlp1`` projects the features of ``vision_model`` to the width of ``language_model``; ``text_hidden_fcs`` turns its
    state at the word [SEG] into a prompt for ``grounding_encoder.mask_decoder``.
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
        """Initialise so that prompts differ: if they are nearly equal, every object of an image is drawn."""
        with torch.no_grad():
            for layer in (*self.text_hidden_fcs, *self.grounding_encoder.mask_decoder.modulate):
                if isinstance(layer, nn.Linear):
                    nn.init.normal_(layer.weight, std=(2.0 / layer.in_features) ** 0.5)
                    nn.init.zeros_(layer.bias)
            nn.init.normal_(self.language_model.positions, std=0.3)
            nn.init.normal_(self.language_model.region, std=0.3)
            nn.init.normal_(self.language_model.begin, std=0.3)

    def layers(self) -> list[nn.Module]:
        """Return the modules that can be sharded."""
        language, drawer = self.language_model, self.grounding_encoder
        ends = [language.embed_tokens, language.lm_head]
        return [self.vision_model, self.mlp1, *language.layers, *ends, self.text_hidden_fcs, *drawer.children()]

    def see(self, images: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        """Encode images ``[N, H, W, 3]`` uint8.

        Returns the inputs of `mlp1` ``[N, V, 4 C]``, features of the regions ``[N, C, H / 8, W / 8]``, and the features
        that masks are drawn from ``[N, c, h, w]``.
        """
        pixels = images.permute(0, 3, 1, 2).float() / 127.5 - 1.0
        pixels = torch.cat([pixels, _places(pixels)], 1)  # with the position as two more channels
        features = self.vision_model(pixels)
        drawn = self.grounding_encoder.sam_encoder(pixels)
        if self.settings.places:
            where = F.adaptive_avg_pool2d(pixels[:, -2:], (drawn.shape[-2], drawn.shape[-1]))
            waves = torch.cat([where * (torch.pi / 2 * times) for times in range(1, _WAVES + 1)], 1)
            drawn = torch.cat([drawn, waves.sin(), waves.cos()], 1)  # weighted sums of these can peak anywhere
        return _four_as_one(features), features, drawn

    def region_word(
        self,
        features: Tensor,  # [N, C, y, x] of `see`
        masks: Tensor,  # [N, h, w] bool; an empty one gives zeros
    ) -> Tensor:
        """Return ``[N, 1, D]``: the region as a word for the language model."""
        if self.settings.region == "word":
            words = _four_as_one(features)
            share = F.adaptive_avg_pool2d(
                masks[:, None].to(features.dtype), (features.shape[-2] // 2, features.shape[-1] // 2)
            )
            share = share.flatten(2) / share.sum((2, 3)).clamp(min=1e-6)[..., None]  # [N, 1, V]
            places = self.language_model.positions[: words.shape[1]]  # positions of the image's words
            seen: Tensor = self.mlp1(share @ words) + share @ places
            return seen + self.language_model.region
        cells = F.adaptive_avg_pool2d(masks[:, None].to(features.dtype), (features.shape[-2], features.shape[-1]))
        weight = cells / cells.sum((2, 3), keepdim=True).clamp(min=1e-6)
        pooled = (features * weight).sum((2, 3))
        # In the form of an image word of four cells, as mlp1 reads both.
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
        features: Tensor = self.layers(pixels)
        return features


class LanguageModel(nn.Module):
    """A causal transformer over image words, a region word and written words."""

    def __init__(self, s: RegionSettings, vocabulary: int) -> None:
        super().__init__()
        seen = (s.image_size // _CELLS // 2) ** 2
        self._prefix = s.attention == "prefix"
        self.embed_tokens = nn.Embedding(vocabulary, s.width)
        self.positions = nn.Parameter(torch.randn(seen + 1 + s.max_words + 2, s.width) * 0.02)
        self.region = nn.Parameter(torch.randn(s.width) * 0.02)
        self.begin = nn.Parameter(torch.randn(s.width) * 0.02)
        self.layers = nn.ModuleList(Layer(s.width, s.heads) for _ in range(s.layers))
        self.norm = nn.LayerNorm(s.width)
        self.lm_head = nn.Linear(s.width, vocabulary, bias=False)

    def forward(self, embedded: Tensor, read: list[Read] | None = None, *, given: Tensor | int = 0) -> Tensor:
        """Return the states ``[N, T, D]`` of words; outside of the prefix no word reads a later one.

        Args:
            embedded: ``[N, T, D]`` the words.
            read: Keys and values of the words before, per layer, to which these are added: empty for the first call,
                after which there is one word in a call.
            given: Length of the prefix, of all rows or of each ``[N]``, with full attention if so set.
        """
        before = read[0].keys.shape[2] if read else 0
        count = embedded.shape[1]
        states = embedded + self.positions[before : before + count]
        past = read or [Read() for _ in self.layers]
        mask = None if before else self._mask(count, given)  # a single word after others reads all of them
        for layer, layer_read in zip(self.layers, past, strict=True):
            states = layer(states, layer_read, mask)
        if read is not None and not read:
            read.extend(past)
        normed: Tensor = self.norm(states)
        return normed

    def _mask(self, count: int, given: Tensor | int) -> Tensor:
        """Return ``[T, T]`` or ``[N or 1, 1, T, T]`` bool: whether a word (row) reads another one (column)."""
        device = self.positions.device
        at = torch.arange(count, device=device)
        mask = at <= at[:, None]
        return mask | (at < torch.as_tensor(given, device=device).view(-1, 1, 1, 1)) if self._prefix else mask


class Read:
    """Keys and values ``[N, heads, T, D / heads]`` of the words that a layer has read."""

    def __init__(self) -> None:
        self.keys, self.values = torch.empty(0), torch.empty(0)


class Layer(nn.Module):
    """Self-attention and a feed-forward network, each after a norm."""

    def __init__(self, width: int, heads: int) -> None:
        super().__init__()
        self.heads = heads
        self.norm1, self.norm2 = nn.LayerNorm(width), nn.LayerNorm(width)
        self.qkv_proj, self.out_proj = nn.Linear(width, 3 * width), nn.Linear(width, width)
        self.linear1, self.linear2 = nn.Linear(width, 4 * width), nn.Linear(4 * width, width)

    def forward(
        self,
        states: Tensor,  # the words
        read: Read,  # keys and values of the words before, to which these are added
        mask: Tensor | None,  # [..., T, T] bool, whether a word reads another one; None: all
    ) -> Tensor:
        """Return ``[N, T, D]``."""
        n, t, d = states.shape
        q, k, v = self.qkv_proj(self.norm1(states)).view(n, t, 3, self.heads, d // self.heads).permute(2, 0, 3, 1, 4)
        if not read.keys.numel():
            read.keys, read.values = k, v
        else:  # one word, which reads all
            read.keys, read.values = torch.cat([read.keys, k], 2), torch.cat([read.values, v], 2)
        mixed = F.scaled_dot_product_attention(q, read.keys, read.values, attn_mask=mask)
        states = states + self.out_proj(mixed.transpose(1, 2).reshape(n, t, d))
        output: Tensor = states + self.linear2(F.gelu(self.linear1(self.norm2(states))))
        return output


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
    """A prompt modulates the features of the image, which give the logit of each pixel."""

    def __init__(self, s: RegionSettings) -> None:
        super().__init__()
        c = s.channels
        self._layers = 2 if s.places else 1  # two for the conjunction of place and appearance
        wide = (2 * self._layers + 1) * c + 1
        self.modulate = nn.Sequential(nn.Linear(s.prompt, 2 * c), nn.GELU(), nn.Linear(2 * c, wide))
        self.first = nn.Conv2d(c + 4 * _WAVES * s.places, c, 1)
        if s.places:
            self.second = nn.Conv2d(c, c, 1)

    def forward(
        self,
        features: Tensor,  # [N, C, h, w], with the position encoding if so set
        prompts: Tensor,  # [N, Z]
    ) -> Tensor:
        """Return logits ``[N, h, w]``."""
        c = self.first.out_channels
        *modulation, weight, bias = self.modulate(prompts).split([*[c] * (2 * self._layers + 1), 1], 1)
        hidden = features
        for place, layer in enumerate([self.first, self.second] if self._layers == 2 else [self.first]):
            scale, shift = (part[..., None, None] for part in modulation[2 * place : 2 * place + 2])
            hidden = F.gelu(layer(hidden) * (1 + scale) + shift)
        logits: Tensor = torch.einsum("nchw,nc->nhw", hidden, weight) / c**0.5 + bias[..., None]
        return logits


def _convolution(
    inputs: int, outputs: int, size: int, stride: int, padding: int, *, dilation: int = 1
) -> tuple[nn.Module, ...]:
    """Return a convolution, a group norm, without which the signal of an image fades, and GELU."""
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


class Words:
    """The vocabulary of a region policy: special words, then `words` in order."""

    def __init__(self, words: Sequence[str]) -> None:
        self.words = tuple(words)
        self._all = (*SPECIAL, *self.words)
        self._numbers = {word: number for number, word in enumerate(self._all) if number >= len(SPECIAL)}

    def __len__(self) -> int:
        return len(self._all)

    def encode(self, texts: Sequence[str], longest: int) -> Tensor:
        """Return ``[N, L]`` int64: the words and END, then PAD; words that do not fit are cut off.

        Special words are removed, so that a caption cannot put ``[SEG]`` into a prompt.
        """
        rows = [[self._numbers.get(word, UNKNOWN) for word in _TOKEN.findall(text.lower().replace("[seg]", " "))]
                for text in texts]  # fmt: skip
        rows = [[*row[: longest - 1], END] for row in rows]
        width = max(map(len, rows), default=1)
        return torch.tensor([[*row, *[PAD] * (width - len(row))] for row in rows], dtype=torch.int64)

    def share(self, texts: Sequence[str]) -> float:
        """Return the share of known words in texts; 1 if there are no words."""
        flags = [word in self._numbers for text in texts for word in _TOKEN.findall(text.lower())]
        return sum(flags) / len(flags) if flags else 1.0

    def decode(self, ids: Tensor) -> list[str]:
        """Return the texts of ``[N, L]`` ids, each up to its END."""
        texts = []
        for row in ids.tolist():
            row = row[: row.index(END)] if END in row else row
            texts.append(" ".join(self._all[number] for number in row if number >= len(SPECIAL)))
        return texts


@dataclass(frozen=True, eq=False)
class SeenImages:
    """Features of the frozen encoders for N images, before the projector, which is trained; see `RegionPolicy.see`."""

    cells: Tensor
    regions: Tensor
    drawn: Tensor

    def __len__(self) -> int:
        return len(self.cells)

    def select(self, index: Tensor) -> SeenImages:
        """Return some of them, repeats allowed."""
        return SeenImages(self.cells[index], self.regions[index], self.drawn[index])


class ShapesPolicy(RegionPolicy):
    """See `motionkit_regions.policy.RegionPolicy`."""

    groups: Mapping[str, tuple[str, ...]] = {
        "projector": ("mlp1.*",),
        "language model": ("language_model.*",),
        "text to prompt": ("text_hidden_fcs.*",),
        "mask decoder": ("grounding_encoder.mask_decoder.*",),
    }

    def __init__(
        self, settings: RegionSettings, words: Sequence[str], *, network: RegionNetwork | None = None,
        device: torch.device | str = "cpu",
        world: World | None = None,  # processes that its layers are sharded over
    ) -> None:  # fmt: skip
        self.settings, self.words, self._world = settings, Words(words), world
        self.network: RegionNetwork = (network or RegionNetwork(settings, len(self.words))).eval()
        self._mark = fingerprint(fingerprint_tensors(self.network.state_dict()), *self.words.words)
        if world is None:
            self.network.to(device)
        else:
            shard(self.network, self.network.layers(), torch.device(device))
        self.device = torch.device(device)
        self.mask_size = (settings.mask_size, settings.mask_size)
        self.action_size, self.longest = settings.prompt, settings.max_words

    @property
    def sees(self) -> str:
        """See `motionkit_regions.policy.RegionPolicy`."""
        side = self.settings.image_size
        squeezed = "every image squeezed to " if self.settings.resize else ""
        return f"{squeezed}{side} x {side} pixels, masks of {self.settings.mask_size} x {self.settings.mask_size}"

    def known_words(self, texts: Sequence[str]) -> float:
        """See `motionkit_regions.policy.RegionPolicy`."""
        return self.words.share(texts)

    @property
    def inputs(self) -> dict[str, str]:
        """Fingerprint of the weights and words that it began with, by option."""
        return {"checkpoint": self._mark}

    def see(self, images: Sequence[NDArray[np.uint8]]) -> SeenImages:
        """See `RegionPolicy.see`."""
        side = self.settings.image_size
        images = self.sized(images)
        if wrong := [image.shape for image in images if image.shape != (side, side, 3)]:
            raise MotionkitError(
                f"this policy sees images of {side} x {side} pixels, and one is {wrong[0][1]} x {wrong[0][0]}.",
                why="it is the small one for the built-in shapes.",
                fix=f"--policy.resize squeezes every image to {side} x {side}; --policy sa2va sees every size.",
            )
        return SeenImages(*self.network.see(torch.from_numpy(np.stack(images)).to(self.device)))

    def sized(self, images: Sequence[NDArray[np.uint8]]) -> Sequence[NDArray[np.uint8]]:
        """Return images at the policy's size if it resizes, else unchanged."""
        side = self.settings.image_size
        return [_squeezed(image, side) for image in images] if self.settings.resize else images

    @torch.no_grad()
    def sample_captions(
        self, seen: SeenImages, masks: Tensor, *, temperature: float = 1.0, noise: Tensor | None = None
    ) -> Captions:
        """See `RegionPolicy.sample_captions`."""
        model = self.network.language_model
        prompt = self._caption_prompt(seen, masks)
        ids = torch.zeros(len(seen), 0, dtype=torch.int64, device=self.device)
        ended = torch.zeros(len(seen), dtype=torch.bool, device=self.device)
        if noise is None:
            noise = torch.rand(len(seen), self.longest, device=self.device)
        read: list[Read] = []
        words = prompt
        for place in range(self.longest):
            last = place == self.longest - 1
            states = model(words, read)[:, -1]
            logits = self._allowed(model.lm_head(states))
            if temperature > 0:
                chosen = categorical(logits / temperature, noise[:, place])
            else:
                chosen = logits.argmax(-1)
            ids = torch.cat([ids, torch.where(ended, PAD, chosen)[:, None]], 1)
            ended = ended | (chosen == END)
            # A sharded layer is gathered by all processes: one whose captions have ended goes on with the others.
            if last or all_done(ended, self._world):
                break
            words = model.embed_tokens(ids[:, -1:])
        ids = ids[:, : int((ids != PAD).sum(1).max())]
        return Captions(ids, self.words.decode(ids), ended)

    def score_words(
        self, seen: SeenImages, masks: Tensor, ids: Tensor, *, temperature: float = 1.0, whole: bool = False
    ) -> WordScores:
        """See `RegionPolicy.score_words`."""
        model = self.network.language_model
        prompt = self._caption_prompt(seen, masks)
        embedded = torch.cat([prompt, model.embed_tokens(ids[:, :-1])], 1)
        states = model(embedded)[:, prompt.shape[1] - 1 :]  # the state before a word predicts it
        logits = self._allowed(model.lm_head(states)) / temperature
        log_probs = logits.log_softmax(-1)
        log_prob = log_probs.gather(-1, ids[..., None])[..., 0]
        entropy = -(log_probs.exp() * log_probs.masked_fill(log_probs.isneginf(), 0.0)).sum(-1)
        after = F.pad((ids == END).cumsum(1)[:, :-1], (1, 0)) > 0  # words after the end do not count
        mask = ~after & (ids != PAD) & (ids != UNKNOWN)  # a caption of the data may hold words that are not known
        log_prob, entropy = torch.where(mask, log_prob, 0.0), torch.where(mask, entropy, 0.0)
        return WordScores(log_prob, entropy, mask, log_probs if whole else None)

    def encode(self, texts: Sequence[str]) -> Tensor:
        """See `RegionPolicy.encode`."""
        return self.words.encode(texts, self.settings.max_words).to(self.device)

    def prompts(self, seen: SeenImages, texts: Sequence[str]) -> Tensor:
        """See `RegionPolicy.prompts`."""
        model = self.network.language_model
        ids = self.encode(texts)
        ids = torch.cat([ids, torch.full_like(ids[:, :1], PAD)], 1)
        rows = torch.arange(len(ids), device=self.device)
        place = (ids == END).int().argmax(1) + 1
        ids[rows, place] = SEG  # the answer to a caption is the word [SEG] after it
        words = self.network.mlp1(seen.cells)
        outputs = model(torch.cat([words, model.embed_tokens(ids)], 1), given=words.shape[1] + place + 1)
        states = outputs[rows, words.shape[1] + place]
        prompts: Tensor = self.network.text_hidden_fcs(states)
        return prompts

    def draw(self, seen: SeenImages, prompts: Tensor) -> Tensor:
        """See `RegionPolicy.draw`."""
        logits: Tensor = self.network.grounding_encoder.mask_decoder(seen.drawn, prompts)
        return logits

    def _caption_prompt(self, seen: SeenImages, masks: Tensor) -> Tensor:
        model = self.network.language_model
        region = self.network.region_word(seen.regions, masks.to(self.device))
        begin = model.begin.expand(len(seen), 1, -1)
        return torch.cat([self.network.mlp1(seen.cells), region, begin], 1)

    def _allowed(self, logits: Tensor) -> Tensor:
        barred = torch.zeros(logits.shape[-1], dtype=torch.bool, device=logits.device)
        barred[list(_NEVER)] = True
        return logits.masked_fill(barred, -torch.inf)

    def tensors(self) -> dict[str, Tensor]:
        """Return all weights by name."""
        return self.network.state_dict()

    def load_tensors(self, tensors: Mapping[str, Tensor]) -> None:
        """Put weights back; strict."""
        self.network.load_state_dict(dict(tensors))

    def save(self, folder: Path, *, tensors: Mapping[str, Tensor] | None) -> None:
        """See `RegionPolicy.save`."""
        document = {"kind": KIND, "settings": self.settings.model_dump(mode="json"), "words": list(self.words.words)}
        write_model(folder, DOCUMENT, document, tensors)


def _squeezed(image: NDArray[np.uint8], side: int) -> NDArray[np.uint8]:
    """Resize an image ``[H, W, 3]`` to ``[side, side, 3]`` without keeping its aspect, as masks are."""
    if image.shape == (side, side, 3):
        return image
    from PIL import Image

    return np.asarray(Image.fromarray(image).resize((side, side), Image.Resampling.BILINEAR))  # antialiased


def open_regions(
    options: RegionOptions,
    *,
    device: torch.device | str = "cpu",
    dataset: object = None,
    world: World | None = None,
) -> ShapesPolicy:
    """Open the policy that `options` names on `device`: whole, or its share of `world`."""
    place = STARTER if options.checkpoint == "starter" else weights.located(options.checkpoint)
    model = find_model(place, REGION_ARTIFACT, DOCUMENT)
    if model is None:
        raise MotionkitError(
            f"{options.checkpoint} is not a region policy.",
            fix="give a run of sa2va-rl or pretrain regions, or starter.",
        )
    document = read_model(model.document, RegionDocument, KIND, f" policy, not {KIND}")
    network = weights.build(
        lambda: RegionNetwork(document.settings, len(SPECIAL) + len(document.words)),
        {name: value.float() for name, value in weights.read(model.tensors).items()}, str(model.tensors),
    )  # fmt: skip
    resize = document.settings.resize or options.resize  # a policy that was trained so needs no option
    settings = document.settings.model_copy(update={"resize": resize})
    return ShapesPolicy(settings, document.words, network=network, device=device, world=world)
