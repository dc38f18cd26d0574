"""Sa2VA as a region policy."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import asdict, dataclass
from functools import partial
from pathlib import Path
from typing import Any, Literal

import numpy as np
import torch
import torch.nn.functional as F
from numpy.typing import NDArray
from pydantic import BaseModel, ConfigDict
from torch import Tensor, nn
from torch.utils.checkpoint import checkpoint

from motionkit.documents import as_model, read_model
from motionkit.errors import MotionkitError
from motionkit.nn.lora import names_by_group
from motionkit.rl import categorical
from motionkit.runs import write_model
from motionkit.training.world import World, all_done
from motionkit_regions.policy import Candidates, Captions, RegionPolicy, WordScores
from motionkit_regions.sa2va import Sa2vaOptions
from motionkit_regions.sa2va.inputs import Words, square_of, tiles_of
from motionkit_regions.sa2va.parts import Features, Parts

DOCUMENT, KIND = "policy.json", "sa2va"
_KEPT = ("lora_rank", "lora_alpha", "max_tiles", "max_words", "question", "seed")
"""Options that belong to the trained weights."""


@dataclass(frozen=True)
class Base:
    """Origin of a model."""

    place: str  # folder or hub id
    revision: str  # commit on the hub; empty for a folder
    mark: str  # hash of its configuration, tokenizer and code, and of the names and sizes of its weights
    code: str = ""  # hash of the code that ran; empty if none did


class Sa2vaDocument(BaseModel):
    """Content of policy.json; unknown keys (of later versions) are ignored."""

    model_config = ConfigDict(frozen=True, extra="ignore", allow_inf_nan=False)

    kind: Literal["sa2va"]
    base: Base
    options: dict[str, Any]


def read_document(path: Path) -> Sa2vaDocument:
    """Read policy.json."""
    document = read_model(path, Sa2vaDocument, KIND, f" policy, not {KIND}")
    as_model(path, Sa2vaOptions, {"checkpoint": document.base.place, **document.options})
    if wrong := document.options.keys() - set(_KEPT):
        raise MotionkitError(f"{path} is damaged.", why=f"options.{min(wrong)} is unknown.")
    return document


class Language:
    """A causal language model of transformers that reads embedded prompts.

    Prompts are padded on the left, so that all answers begin at one place; positions count from a prompt's own start,
    so that a prompt gives the same result alone and in a batch.
    """

    def __init__(self, model: Any, words: Words, world: World | None = None) -> None:
        self.model, self.words, self._world = model, words, world

    def embed(self, ids: Tensor) -> Tensor:
        """Return ``[..., D]`` of tokens."""
        embedded: Tensor = self.model.get_input_embeddings()(ids)
        return embedded

    def layers(self) -> list[nn.Module]:
        """Return the modules that can be sharded: layers, and embeddings if input and output do not share them."""
        ends = [self.model.get_input_embeddings(), self.model.get_output_embeddings()]
        tied = ends[0].weight is ends[1].weight
        return [*layers_of(self.model), *([] if tied else ends)]

    def last(self, prompts: Sequence[Tensor]) -> Tensor:
        """Return the state ``[N, D]`` at the last token of N prompts ``[T, D]``."""
        rows, mask = _padded(prompts)
        return self._states(rows, mask)[:, -1]

    @torch.no_grad()
    def sample(
        self,
        prompts: Sequence[Tensor],  # Q prompts [T, D], each of which is read once
        index: Tensor,  # [N] prompt that each sample continues
        temperature: float,  # 0 takes the likeliest token
        noise: Tensor,  # [N, longest] numbers from 0 to 1
    ) -> Tensor:
        """Continue prompts; returns ``[N, L]`` tokens, padded with the end token."""
        rows, mask = _padded(prompts)
        output = self._decoder(rows, mask, use_cache=True)
        cache, state = output.past_key_values, output.last_hidden_state[:, -1]
        # Prompts were read once each; from here on there is a row for each sample.
        cache = _selected(cache, index)
        state, mask = state[index], mask[index]
        ids = torch.zeros(len(index), 0, dtype=torch.int64, device=rows.device)
        ended = torch.zeros(len(index), dtype=torch.bool, device=rows.device)
        # One token per turn, of all samples at once.
        for place in range(self.words.longest):
            logits = self._logits(state)
            chosen = categorical(logits / temperature, noise[:, place]) if temperature else logits.argmax(-1)
            chosen = torch.where(ended, self.words.end, chosen)
            ids = torch.cat([ids, chosen[:, None]], 1)
            ended = ended | (chosen == self.words.end)
            # A sharded layer is gathered by all processes: one whose captions have ended goes on with the others.
            if place == self.words.longest - 1 or all_done(ended, self._world):
                break
            # The cache holds all tokens before, so that only the chosen one goes through the model.
            mask = F.pad(mask, (0, 1), value=1)
            output = self._decoder(self.embed(chosen[:, None]), mask, use_cache=True, past_key_values=cache)
            cache, state = output.past_key_values, output.last_hidden_state[:, -1]
        return ids

    def score(self, prompts: Sequence[Tensor], ids: Tensor, temperature: float, *, whole: bool = False) -> WordScores:
        """Score answers ``[N, L]`` to N prompts, from raw logits over the temperature."""
        rows, mask = _padded(prompts)
        # Answers follow their prompts; the state of the last token is not needed.
        states = self._states(
            torch.cat([rows, self.embed(ids[:, :-1]).to(rows.dtype)], 1), F.pad(mask, (0, ids.shape[1] - 1), value=1)
        )
        # [N, A, vocabulary]: the state before a token predicts it
        logits = self._logits(states[:, rows.shape[1] - 1 :]) / temperature
        log_probs = logits.log_softmax(-1)
        log_prob = log_probs.gather(-1, ids[..., None])[..., 0]
        # A barred token has log 0, and 0 times -inf would be NaN
        entropy = -(log_probs.exp() * log_probs.masked_fill(log_probs.isneginf(), 0.0)).sum(-1)
        # [N, A]: up to the end, that included
        inside = F.pad((ids == self.words.end).cumsum(1)[:, :-1], (1, 0)) == 0
        # A given caption may hold a barred token, such as that of a letter that the tokenizer does not know.
        inside &= ~self.words.barred.to(ids.device)[ids]
        log_prob, entropy = torch.where(inside, log_prob, 0.0), torch.where(inside, entropy, 0.0)
        return WordScores(log_prob, entropy, inside, log_probs if whole else None)

    def _states(self, rows: Tensor, mask: Tensor) -> Tensor:
        states: Tensor = self._decoder(rows, mask, use_cache=False).last_hidden_state
        return states

    def _decoder(self, rows: Tensor, mask: Tensor, **more: Any) -> Any:
        # Positions count from a prompt's own first token: padding on the left has none
        places = (mask.cumsum(1) - 1).clamp(min=0)[:, -rows.shape[1] :]
        return self.model.model(inputs_embeds=rows, attention_mask=mask, position_ids=places, **more)

    def _logits(self, states: Tensor) -> Tensor:
        logits: Tensor = self.model.get_output_embeddings()(states)
        return logits.float().masked_fill(self.words.barred.to(logits.device), -torch.inf)


def layers_of(module: nn.Module) -> list[nn.Module]:
    """Return the modules of the outermost lists below a module: the layers of a transformer."""
    found: list[nn.Module] = []
    for part in module.children():
        found += part if isinstance(part, nn.ModuleList) else layers_of(part)
    return found


def _selected(cache: Any, index: Tensor) -> Any:
    """Return the cache of the prompts that N samples continue; InternLM2's code has plain tuples."""
    if isinstance(cache, tuple):
        return tuple(tuple(tensor[index] for tensor in layer) for layer in cache)
    cache.batch_select_indices(index)
    return cache


def _padded(prompts: Sequence[Tensor]) -> tuple[Tensor, Tensor]:
    """Return N prompts ``[T, D]`` as ``[N, T, D]``, zeros on the left, and ``[N, T]`` int64, 1 where a token is."""
    longest = max(map(len, prompts))
    rows = torch.stack([F.pad(prompt, (0, 0, longest - len(prompt), 0)) for prompt in prompts])
    lengths = torch.tensor([len(prompt) for prompt in prompts], device=rows.device)
    mask = torch.arange(longest, device=rows.device) >= longest - lengths[:, None]
    return rows, mask.long()


_SURE = 1e-4  # expected IoUs are clamped so far from 0 and 1 that their logits stay finite


@dataclass(frozen=True, eq=False)
class SeenImages:
    """Features of the frozen encoders for N images; see `motionkit_regions.policy.RegionPolicy.see`."""

    tiles: tuple[
        Tensor, ...
    ]  # [T * V, C] of each of M images: tokens of its tiles before the projector, which is trained
    drawn: Features  # [M, C, y, x] maps that masks are drawn from
    rows: Tensor  # [N] which of the M images each row is; images are not copied for their samples

    def __len__(self) -> int:
        return len(self.rows)

    def select(self, index: Tensor) -> SeenImages:
        """Return some rows, repeats allowed."""
        return SeenImages(self.tiles, self.drawn, self.rows[index])


class Sa2vaPolicy(RegionPolicy):
    """See `motionkit_regions.policy.RegionPolicy`."""

    groups: Mapping[str, tuple[str, ...]] = {
        "projector": ("mlp1.*",),
        "language model (LoRA)": ("language_model.*lora_*",),
        "text to prompt": ("text_hidden_fcs.*",),
        # Two convolutions of the decoder, conv_s0 and conv_s1, belong to the features of the frozen encoder.
        "mask decoder": (
            "grounding_encoder.mask_decoder.[!c]*", "grounding_encoder.sam2_model.sam_mask_decoder.[!c]*",
        ),
    }  # fmt: skip

    def __init__(
        self,
        parts: Parts,  # the model
        tokenizer: Any,
        options: Sa2vaOptions,  # how prompts are made, and how many rows go through the language model at once
        base: Base,  # where the model came from
        *,
        device: torch.device | str = "cpu",  # where it is
        world: World | None = None,  # processes that its layers are sharded over
    ) -> None:
        self.parts, self.options, self.base = parts, options, base
        self.device = torch.device(device)
        if not options.lora_rank:
            self.groups = {name: patterns for name, patterns in self.groups.items() if "LoRA" not in name}
        network: Any = parts.network
        self.network, self._network, model = parts.network, network, network.language_model
        rows = model.get_output_embeddings().weight.shape[0]
        self.words = Words(tokenizer, parts.template, rows, options.max_words)
        self.language = Language(model, self.words, world)
        # Of a sharded model layer by layer: a pass over some rows would gather all layers to go back through one.
        self._again = options.gradient_checkpointing and world is None
        if options.gradient_checkpointing and world is not None:
            for layer in layers_of(model):
                layer.forward = partial(checkpoint, layer.forward, use_reentrant=False, preserve_rng_state=False)
        self.mask_size = (parts.sizes.mask, parts.sizes.mask)
        self.action_size, self.longest = parts.sizes.prompt, options.max_words

    @property
    def inputs(self) -> dict[str, str]:
        """Fingerprints of the model, its revision and its code, by option."""
        marks = {"checkpoint": self.base.mark, "revision": self.base.revision, "trust_remote_code": self.base.code}
        return {name: mark for name, mark in marks.items() if mark}

    def layers(self) -> list[nn.Module]:
        """Return the modules that can be sharded: the grounding encoder is small beside the others, and stays whole."""
        network = self._network
        return [
            *layers_of(network.vision_model), network.mlp1, *self.language.layers(), network.text_hidden_fcs
        ]  # fmt: skip

    @torch.no_grad()
    def see(self, images: Sequence[NDArray[np.uint8]]) -> SeenImages:
        """See `RegionPolicy.see`."""
        tiles, drawn = [], []
        dtype = next(self._network.vision_model.parameters()).dtype
        with self._precision():
            for image in images:  # one at a time: the number of tiles differs, and encoders are large
                cut = tiles_of(image, self.parts.sizes.tile, self.options.max_tiles)
                tiles.append(self.parts.look(cut.to(self.device, dtype)).flatten(0, 1))
                square = square_of(image, self.parts.sizes.grounding)
                drawn.append(self.parts.ground(square[None].to(self.device, dtype)))
        # A list of levels for each image becomes a batch for each level
        maps = tuple(torch.cat(level) for level in zip(*drawn, strict=True))
        return SeenImages(tuple(tiles), maps, torch.arange(len(tiles), device=self.device))

    @torch.no_grad()
    def sample_captions(
        self, seen: SeenImages, masks: Tensor, *, temperature: float = 1.0, noise: Tensor | None = None
    ) -> Captions:
        """See `RegionPolicy.sample_captions`."""
        if noise is None:
            noise = torch.rand(len(seen), self.longest, device=self.device)
        parts = []
        for part in self._parts_of(len(seen)):
            # Samples of one region are adjacent: their prompt is read once.
            first, index = _runs(seen.rows[part], masks[part])
            with self._precision():
                prompts = self._about_regions(seen.select(part).select(first), masks[part][first])
                ids = self.language.sample(prompts, index, temperature, noise[part])
            parts.append(F.pad(ids, (0, self.longest - ids.shape[1]), value=self.words.end))
        ids = torch.cat(parts)
        # Columns in which all captions have ended are cut off; one end token stays.
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
                scores = self.language.score(prompts, ids[part], temperature, whole=whole)
            every = () if scores.whole is None else (scores.whole,)
            return scores.log_prob, scores.entropy, scores.mask, *every

        return WordScores(*self._in_parts(scored, len(seen)))

    def encode(self, texts: Sequence[str]) -> Tensor:
        """See `RegionPolicy.encode`."""
        return self.words.encode(texts).to(self.device)

    def prompts(self, seen: SeenImages, texts: Sequence[str]) -> Tensor:
        """See `RegionPolicy.prompts`."""

        def prompted(part: Tensor) -> tuple[Tensor]:
            selected = seen.select(part)
            pictures = self._pictures(selected)
            cells = [pictures[row] for row in selected.rows.tolist()]
            tokens = [
                self.words.about_mask(len(picture), texts[place])
                for picture, place in zip(cells, part.tolist(), strict=True)
            ]
            return (self._network.text_hidden_fcs(self.language.last(self._filled(tokens, cells))).float(),)

        with self._precision():
            return self._in_parts(prompted, len(seen))[0]

    def draw(self, seen: SeenImages, prompts: Tensor) -> Tensor:
        """See `RegionPolicy.draw`."""
        return self._decoded(seen, prompts, several=False)[0][:, 0]

    def candidates(self, seen: SeenImages, prompts: Tensor) -> Candidates:
        """See `motionkit_regions.policy.OffersMasks`."""
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
        tokens, filling = [], []
        for row, cells in zip(seen.rows.tolist(), inside, strict=True):
            picture = pictures[row]
            region = picture[-side * side :][cells]  # cells of the thumbnail, the last tile
            tokens.append(self.words.about_region(len(picture), len(region), self.options.question))
            filling.append(torch.cat([picture, region]))
        return self._filled(tokens, filling)

    def _pictures(self, seen: SeenImages) -> dict[int, Tensor]:
        """Return the tokens ``[T * V, D]`` of each image that a row is of; in one call, however many there are."""
        rows = seen.rows.unique().tolist()
        projected = self._network.mlp1(torch.cat([seen.tiles[row] for row in rows]))
        return dict(zip(rows, projected.split([len(seen.tiles[row]) for row in rows]), strict=True))

    def _filled(self, tokens: Sequence[Sequence[int]], cells: Sequence[Tensor]) -> list[Tensor]:
        """Return N prompts ``[T, D]``: tokens, embedded in one call, with cells ``[K, D]`` in place of the image's."""
        ids = torch.tensor([token for row in tokens for token in row], device=self.device)
        embedded, image = self.language.embed(ids), (ids == self.words.image)[:, None]
        filled = embedded.masked_scatter(image, torch.cat(list(cells)).to(embedded.dtype))
        return list(filled.split([len(row) for row in tokens]))

    def _parts_of(self, count: int) -> Sequence[Tensor]:
        parts: Sequence[Tensor] = torch.arange(count, device=self.device).split(self.options.rows)
        return parts

    def _in_parts(self, compute: Callable[[Tensor], tuple[Tensor, ...]], count: int) -> tuple[Tensor, ...]:
        """Return `compute` of all rows, some rows at a time."""
        again = self._again and torch.is_grad_enabled()
        results = [
            checkpoint(compute, part, use_reentrant=False) if again else compute(part)
            for part in self._parts_of(count)
        ]  # fmt: skip
        return tuple(torch.cat(rows) for rows in zip(*results, strict=True))

    def _precision(self) -> AbstractContextManager[Any]:
        """Compute in the precision of the frozen weights; trained weights are float32."""
        dtype = next(self._network.vision_model.parameters()).dtype
        return nullcontext() if dtype == torch.float32 else torch.autocast(self.device.type, dtype)

    def checks(self) -> list[tuple[str, bool, str]]:
        """See `RegionPolicy.checks`."""
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
        chosen = {name for names in names_by_group(self.groups, tensors).values() for name in names}
        return {name: tensor for name, tensor in tensors.items() if name in chosen}

    def load_tensors(self, tensors: Mapping[str, Tensor]) -> None:
        """Put those weights back; strict."""
        if wrong := tensors.keys() ^ self.tensors().keys():
            raise KeyError(f"{min(wrong)} is not in both")
        self.network.load_state_dict(dict(tensors), strict=False)

    def save(self, folder: Path, *, tensors: Mapping[str, Tensor] | None) -> None:
        """See `RegionPolicy.save`."""
        kept = {name: getattr(self.options, name) for name in _KEPT}
        write_model(folder, DOCUMENT, {"kind": KIND, "base": asdict(self.base), "options": kept}, tensors)


def on_cells(masks: Tensor, side: int) -> Tensor:
    """Return masks ``[N, h, w]`` bool on ``side * side`` cells by nearest neighbour, as Sa2VA does.

    A region that would vanish takes every cell that it touches.
    """
    near = F.interpolate(masks[:, None].float(), (side, side), mode="nearest")[:, 0] > 0
    touched = F.adaptive_max_pool2d(masks[:, None].float(), (side, side))[:, 0] > 0
    return torch.where(near.flatten(1).any(1)[:, None, None], near, touched)


def _runs(rows: Tensor, masks: Tensor) -> tuple[Tensor, Tensor]:
    """Return the first of each run of equal images and masks, and ``[N]`` the run that each row is in."""
    # [N - 1]: whether a row is of the same region as the one above it
    same = (rows[1:] == rows[:-1]) & (masks[1:] == masks[:-1]).flatten(1).all(1)
    starts = F.pad(~same, (1, 0), value=True)
    return starts.nonzero()[:, 0], starts.cumsum(0) - 1
