"""The built-in region policy: captions of regions, and masks of captions."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import torch
import torch.nn.functional as F
from numpy.typing import NDArray
from torch import Tensor

from motionkit.errors import MotionkitError
from motionkit.policies.base import Captions, WordScores
from motionkit.policies.regions._document import write_regions
from motionkit.policies.regions._network import Read, RegionNetwork
from motionkit.policies.regions._settings import RegionSettings
from motionkit.policies.regions._words import END, PAD, SEG, UNKNOWN, Words
from motionkit.rl import categorical
from motionkit.runs import fingerprint, fingerprint_tensors

_NEVER = (PAD, SEG, UNKNOWN)
"""Words that no caption may hold."""


@dataclass(frozen=True, eq=False)
class SeenImages:
    """What the encoders saw of N images; see `motionkit.policies.base.RegionPolicy.see`.

    The projector is not part of it: it is trained, while the encoders are not.
    """

    cells: Tensor
    regions: Tensor
    drawn: Tensor

    def __len__(self) -> int:
        return len(self.cells)

    def select(self, index: Tensor) -> SeenImages:
        """Return some of them, repeats allowed."""
        return SeenImages(self.cells[index], self.regions[index], self.drawn[index])


class ShapesPolicy:
    """See `motionkit.policies.base.RegionPolicy`.

    Args:
        settings: Sizes.
        words: Vocabulary.
        network: The network; a new one by default.
        device: Where it goes.
    """

    groups: Mapping[str, tuple[str, ...]] = {
        "projector": ("mlp1.*",),
        "language model": ("language_model.*",),
        "text to prompt": ("text_hidden_fcs.*",),
        "mask decoder": ("grounding_encoder.mask_decoder.*",),
    }

    def __init__(
        self, settings: RegionSettings, words: Sequence[str], *, network: RegionNetwork | None = None,
        device: torch.device | str = "cpu",
    ) -> None:  # fmt: skip
        self.settings, self.words = settings, Words(words)
        self.network: RegionNetwork = (network or RegionNetwork(settings, len(self.words))).to(device).eval()
        self.device = torch.device(device)
        self.mask_size = (settings.mask_size, settings.mask_size)
        self.action_size, self.longest = settings.prompt, settings.max_words

    @property
    def sees(self) -> str:
        """See `motionkit.policies.base.HasLimits`."""
        side = self.settings.image_size
        whole = "every image squeezed to " if self.settings.resize else ""
        return f"{whole}{side} x {side} pixels, masks of {self.settings.mask_size} x {self.settings.mask_size}"

    def known_words(self, texts: Sequence[str]) -> float:
        """See `motionkit.policies.base.HasLimits`."""
        return self.words.share(texts)

    @property
    def inputs(self) -> dict[str, str]:
        """Fingerprints of what options name: of its weights and words, as they are now."""
        return {"checkpoint": fingerprint(fingerprint_tensors(self.network.state_dict()), *self.words.words)}

    def see(self, images: Sequence[NDArray[np.uint8]]) -> SeenImages:
        """See `RegionPolicy.see`.

        Raises:
            MotionkitError: An image has another size than the network's, and is not to be squeezed (exit code 2).
        """
        side = self.settings.image_size
        images = self.sized(images)
        if wrong := [one.shape for one in images if one.shape != (side, side, 3)]:
            raise MotionkitError(
                f"this policy sees images of {side} x {side} pixels, and one is {wrong[0][1]} x {wrong[0][0]}.",
                why="it is the small one for the built-in shapes.",
                fix=f"--policy.resize squeezes every image to {side} x {side}; --policy sa2va sees every size.",
            )
        return SeenImages(*self.network.see(torch.from_numpy(np.stack(images)).to(self.device)))

    def sized(self, images: Sequence[NDArray[np.uint8]]) -> Sequence[NDArray[np.uint8]]:
        """Return images as the policy sees them: squeezed where it does so, else as they are."""
        side = self.settings.image_size
        return [_squeezed(one, side) for one in images] if self.settings.resize else images

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
            if bool(ended.all()) or last:
                break
            words = model.embed_tokens(ids[:, -1:])
        return Captions(ids, self.words.decode(ids), ended)

    def score_words(
        self, seen: SeenImages, masks: Tensor, ids: Tensor, *, temperature: float = 1.0, whole: bool = False
    ) -> WordScores:
        """See `RegionPolicy.score_words`."""
        model = self.network.language_model
        prompt = self._caption_prompt(seen, masks)
        embedded = torch.cat([prompt, model.embed_tokens(ids[:, :-1])], 1)
        states = model(embedded)[:, prompt.shape[1] - 1 :]  # the state before a word says that word
        logits = self._allowed(model.lm_head(states)) / temperature
        every = logits.log_softmax(-1)
        log_prob = every.gather(-1, ids[..., None])[..., 0]
        entropy = -(every.exp() * every.masked_fill(every.isneginf(), 0.0)).sum(-1)
        after = F.pad((ids == END).cumsum(1)[:, :-1], (1, 0)) > 0  # words behind the end are none
        mask = ~after & (ids != PAD)
        log_prob, entropy = torch.where(mask, log_prob, 0.0), torch.where(mask, entropy, 0.0)
        return WordScores(log_prob, entropy, mask, every if whole else None)

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
        ids[rows, place] = SEG  # the answer to a caption is the word [SEG] behind it
        words = self.network.mlp1(seen.cells)
        found = model(torch.cat([words, model.embed_tokens(ids)], 1))
        states = found[rows, words.shape[1] + place]
        prompts: Tensor = self.network.text_hidden_fcs(states)
        return prompts

    def point(self, seen: SeenImages, masks: Tensor, shown: SeenImages | None = None) -> Tensor:
        """Return the prompts ``[N, Z]`` of regions that are pointed at instead of named, with graph.

        Args:
            seen: N images.
            masks: ``[N, h, w]`` bool, regions.
            shown: N images that the regions are of; by default the same.
        """
        model = self.network.language_model
        region = self.network.region_word((shown or seen).regions, masks.to(self.device))
        answer = model.embed_tokens(torch.full((len(seen), 1), SEG, device=self.device))
        states = model(torch.cat([self.network.mlp1(seen.cells), region, answer], 1))[:, -1]
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
        write_regions(folder, self.settings, self.words.words, tensors)


def _squeezed(image: NDArray[np.uint8], side: int) -> NDArray[np.uint8]:
    """Return an image ``[H, W, 3]`` as ``[side, side, 3]``: all of it, stretched, as masks are."""
    if image.shape == (side, side, 3):
        return image
    from PIL import Image

    return np.asarray(
        Image.fromarray(image).resize((side, side), Image.Resampling.BILINEAR)
    )  # averages what it shrinks
