"""Sa2VA as a region policy."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch
import torch.nn.functional as F
from numpy.typing import NDArray
from torch import Tensor, nn
from torch.utils.checkpoint import checkpoint

from motionkit.policies.base import Candidates, Captions, WordScores
from motionkit.policies.groups import names_by_group
from motionkit.policies.sa2va import Sa2vaOptions
from motionkit.policies.sa2va._document import Base, write_document
from motionkit.policies.sa2va._language import Language
from motionkit.policies.sa2va._parts import Features, Parts
from motionkit.policies.sa2va._pixels import square_of, tiles_of
from motionkit.policies.sa2va._words import Words

_SURE = 1e-4
"""Expected IoUs are kept so far from 0 and 1: their logits stay finite."""


@dataclass(frozen=True, eq=False)
class SeenImages:
    """What the frozen encoders saw of N images; see `motionkit.policies.base.RegionPolicy.see`.

    Attributes:
        tiles: Of each of M images ``[T * V, C]``: the tokens of its tiles, before the projector, which is trained.
        drawn: ``[M, C, y, x]`` maps that masks are drawn from.
        rows: ``[N]`` which of the M images each row is; images are not copied for their samples.
    """

    tiles: tuple[Tensor, ...]
    drawn: Features
    rows: Tensor

    def __len__(self) -> int:
        return len(self.rows)

    def select(self, index: Tensor) -> SeenImages:
        """Return some rows, repeats allowed."""
        return SeenImages(self.tiles, self.drawn, self.rows[index])


class Sa2vaPolicy:
    """See `motionkit.policies.base.RegionPolicy`.

    Args:
        parts: The model.
        tokenizer: Its tokenizer.
        options: How prompts are made, and how many rows go through the language model at once.
        base: Where the model came from.
        device: Where it is.
    """

    groups: Mapping[str, tuple[str, ...]] = {
        "projector": ("mlp1.*",),
        "language model (LoRA)": ("language_model.*lora_*",),
        "text to prompt": ("text_hidden_fcs.*",),
        # Two convolutions of the decoder, conv_s0 and conv_s1, are part of what the frozen encoder sees.
        "mask decoder": (
            "grounding_encoder.mask_decoder.[!c]*", "grounding_encoder.sam2_model.sam_mask_decoder.[!c]*",
        ),
    }  # fmt: skip

    def __init__(
        self, parts: Parts, tokenizer: Any, options: Sa2vaOptions, base: Base, *, device: torch.device | str = "cpu"
    ) -> None:
        self.parts, self.options, self.base = parts, options, base
        self.device = torch.device(device)
        if not options.lora_rank:
            self.groups = {name: own for name, own in self.groups.items() if "LoRA" not in name}
        network: Any = parts.network  # its parts are known by name alone
        self._network, model = network, network.language_model
        rows = model.get_output_embeddings().weight.shape[0]
        self.words = Words(tokenizer, parts.template, rows, options.max_words)
        self.language = Language(model, self.words)
        self.mask_size = (parts.sizes.mask, parts.sizes.mask)
        self.action_size, self.longest = parts.sizes.prompt, options.max_words
        told = {"checkpoint": base.mark, "revision": base.revision, "trust_remote_code": base.code}
        self.inputs = {name: mark for name, mark in told.items() if mark}

    @property
    def network(self) -> nn.Module:
        """All of its weights, in eval mode."""
        return self.parts.network

    @torch.no_grad()
    def see(self, images: Sequence[NDArray[np.uint8]]) -> SeenImages:
        """See `RegionPolicy.see`."""
        tiles, drawn = [], []
        dtype = next(self._network.vision_model.parameters()).dtype
        with self._precision():
            for image in images:  # one at a time: images have numbers of tiles of their own, and encoders are large
                cut = tiles_of(image, self.parts.sizes.tile, self.options.max_tiles)
                tiles.append(self.parts.look(cut.to(self.device, dtype)).flatten(0, 1))
                whole = square_of(image, self.parts.sizes.grounding)
                drawn.append(self.parts.ground(whole[None].to(self.device, dtype)))
        maps = tuple(torch.cat(level) for level in zip(*drawn, strict=True))
        return SeenImages(tuple(tiles), maps, torch.arange(len(tiles), device=self.device))

    @torch.no_grad()
    def sample_captions(
        self, seen: SeenImages, masks: Tensor, *, temperature: float = 1.0, noise: Tensor | None = None
    ) -> Captions:
        """See `RegionPolicy.sample_captions`."""
        if noise is None:
            noise = torch.rand(len(seen), self.longest, device=self.device)
        found = []
        for part in self._parts_of(len(seen)):
            # Samples of one region stand side by side: their prompt is read once.
            first, index = _runs(seen.rows[part], masks[part])
            with self._precision():
                prompts = self._about_regions(seen.select(part).select(first), masks[part][first])
                ids = self.language.sample(prompts, index, temperature, noise[part])
            found.append(F.pad(ids, (0, self.longest - ids.shape[1]), value=self.words.end))
        ids = torch.cat(found)
        longest = int((ids != self.words.end).sum(1).max()) + 1
        ids = ids[:, : min(longest, self.longest)]
        return Captions(ids, self.words.decode(ids), (ids == self.words.end).any(1))

    def score_words(
        self, seen: SeenImages, masks: Tensor, ids: Tensor, *, temperature: float = 1.0, whole: bool = False
    ) -> WordScores:
        """See `RegionPolicy.score_words`."""

        def scored(part: Tensor) -> tuple[Tensor, ...]:
            with self._precision():
                prompts = self._about_regions(seen.select(part), masks[part])
                found = self.language.score(prompts, ids[part], temperature, whole=whole)
            every = () if found.whole is None else (found.whole,)
            return found.log_prob, found.entropy, found.mask, *every

        return WordScores(*self._in_parts(scored, len(seen)))

    def encode(self, texts: Sequence[str]) -> Tensor:
        """See `RegionPolicy.encode`."""
        return self.words.encode(texts).to(self.device)

    def prompts(self, seen: SeenImages, texts: Sequence[str]) -> Tensor:
        """See `RegionPolicy.prompts`."""

        def prompted(part: Tensor) -> tuple[Tensor]:
            some = seen.select(part)
            pictures = self._pictures(some)
            rows = []
            for row, place in zip(some.rows.tolist(), part.tolist(), strict=True):
                ids = torch.tensor(self.words.about_mask(len(pictures[row]), texts[place]), device=self.device)
                rows.append(_filled(self.language.embed(ids), ids == self.words.image, pictures[row]))
            return (self._network.text_hidden_fcs(self.language.last(rows)).float(),)

        with self._precision():
            return self._in_parts(prompted, len(seen))[0]

    def draw(self, seen: SeenImages, prompts: Tensor) -> Tensor:
        """See `RegionPolicy.draw`."""
        return self._decoded(seen, prompts, several=False)[0][:, 0]

    def candidates(self, seen: SeenImages, prompts: Tensor) -> Candidates:
        """See `motionkit.policies.base.OffersMasks`."""
        logits, scores = self._decoded(seen, prompts, several=True)
        return Candidates(logits, scores.clamp(_SURE, 1 - _SURE).logit())

    def _decoded(self, seen: SeenImages, prompts: Tensor, *, several: bool) -> tuple[Tensor, Tensor]:
        def decoded(part: Tensor) -> tuple[Tensor, Tensor]:
            features = tuple(level[seen.rows[part]] for level in seen.drawn)
            with self._precision():
                logits, scores = self.parts.decode(features, prompts[part], several=several)
            return logits.float(), scores.float()

        logits, scores = self._in_parts(decoded, len(seen))
        return logits, scores

    def _about_regions(self, seen: SeenImages, masks: Tensor) -> list[Tensor]:
        """Return the embedded prompt ``[T, D]`` for a caption of each row."""
        pictures, side = self._pictures(seen), self.parts.sizes.cells
        inside = on_cells(masks.to(self.device), side).flatten(1)
        rows = []
        for row, cells in zip(seen.rows.tolist(), inside, strict=True):
            picture = pictures[row]
            region = picture[-side * side :][cells]  # cells of the thumbnail, the last tile
            asked = self.words.about_region(len(picture), len(region), self.options.question)
            ids = torch.tensor(asked, device=self.device)
            rows.append(_filled(self.language.embed(ids), ids == self.words.image, torch.cat([picture, region])))
        return rows

    def _pictures(self, seen: SeenImages) -> dict[int, Tensor]:
        """Return the tokens ``[T * V, D]`` of each image that a row is of."""
        return {row: self._network.mlp1(seen.tiles[row]) for row in seen.rows.unique().tolist()}

    def _parts_of(self, count: int) -> Sequence[Tensor]:
        parts: Sequence[Tensor] = torch.arange(count, device=self.device).split(self.options.rows)
        return parts

    def _in_parts(self, compute: Callable[[Tensor], tuple[Tensor, ...]], count: int) -> tuple[Tensor, ...]:
        """Return what `compute` gives of all rows, some rows at a time."""
        again = self.options.gradient_checkpointing and torch.is_grad_enabled()
        found = [
            checkpoint(compute, part, use_reentrant=False) if again else compute(part)
            for part in self._parts_of(count)
        ]  # fmt: skip
        return tuple(torch.cat(rows) for rows in zip(*found, strict=True))

    def _precision(self) -> AbstractContextManager[Any]:
        """Compute in the precision of the frozen weights; what is trained is float32."""
        dtype = next(self._network.vision_model.parameters()).dtype
        return nullcontext() if dtype == torch.float32 else torch.autocast(self.device.type, dtype)

    def checks(self) -> list[tuple[str, bool, str]]:
        """See `motionkit.policies.base.ChecksItself`."""
        base, ids = self.base, self.words.spelled("[SEG]")
        code = f"; its code {base.code} ran" if base.code else ""
        where = f"{base.place} {base.revision}".strip()
        return [
            ("model", True, f"{where}, files {base.mark}{code}"),
            ("[SEG] is one token", ids == [self.words.seg], f"read as {len(ids)}"),
        ]

    def tensors(self) -> dict[str, Tensor]:
        """Return the weights of the parts in `groups`."""
        tensors = self.network.state_dict()
        chosen = {name for own in names_by_group(self.groups, tensors).values() for name in own}
        return {name: tensor for name, tensor in tensors.items() if name in chosen}

    def load_tensors(self, tensors: Mapping[str, Tensor]) -> None:
        """Put those weights back; strict."""
        if wrong := tensors.keys() ^ self.tensors().keys():
            raise KeyError(f"{min(wrong)} is not in both")
        self.network.load_state_dict(dict(tensors), strict=False)

    def save(self, folder: Path, *, tensors: Mapping[str, Tensor] | None) -> None:
        """See `RegionPolicy.save`."""
        write_document(folder, self.base, self.options, tensors)


def on_cells(masks: Tensor, side: int) -> Tensor:
    """Return masks ``[N, h, w]`` bool on ``side * side`` cells, as Sa2VA puts them there: by nearest pixels.

    A region that no cell's pixel meets takes every cell that it touches: it does not vanish.
    """
    near = F.interpolate(masks[:, None].float(), (side, side), mode="nearest")[:, 0] > 0
    touched = F.adaptive_max_pool2d(masks[:, None].float(), (side, side))[:, 0] > 0
    return torch.where(near.flatten(1).any(1)[:, None, None], near, touched)


def _filled(embedded: Tensor, where: Tensor, cells: Tensor) -> Tensor:
    """Return ``[T, D]`` embedded tokens with cells ``[K, D]`` in the K places of `where`."""
    return embedded.masked_scatter(where[:, None], cells.to(embedded.dtype))


def _runs(rows: Tensor, masks: Tensor) -> tuple[Tensor, Tensor]:
    """Return the first of each run of equal images and masks, and ``[N]`` the run that each row is in."""
    same = (rows[1:] == rows[:-1]) & (masks[1:] == masks[:-1]).flatten(1).all(1)
    starts = F.pad(~same, (1, 0), value=True)
    return starts.nonzero()[:, 0], starts.cumsum(0) - 1
