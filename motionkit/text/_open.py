"""Opens a transformers model of a given family: type and size are checked before it is built."""

from __future__ import annotations

import os
import re
import zipfile
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch

from motionkit import weights
from motionkit.documents import read_json
from motionkit.errors import MotionkitError
from motionkit.plugins import install_line

# Policies, rewards and compose open text models, each with its own option.
OPTIONS = "--policy.text-model DIR, --reward.text-model DIR; of compose: --text-model DIR"

_CONFIG = "config.json"
_PICKLED = "pytorch_model.bin"
_FILES = ["*.json", "*.txt", "*.safetensors"]
_HUB_ID = re.compile(r"[\w-][\w.-]*(/[\w.-]+)?")
_MOST_LAYERS = 200  # the largest text model in use (CLIP bigG) has 32
_MOST = 2_000_000  # entries of a vocabulary, the largest number in a config.json


@dataclass(frozen=True)
class Family:
    """The models that an encoder accepts.

    Attributes:
        name: The encoder's name, such as ``clip``.
        default: Hub id of the published model.
        types: Accepted values of ``model_type`` in config.json.
        model: Name of the class in transformers.
    """

    name: str
    default: str
    types: tuple[str, ...]
    model: str


def open_model(family: Family, source: str, *, local: bool) -> tuple[Any, Any]:
    """Open tokenizer and model, in float32.

    Args:
        family: Required family of the model.
        source: Folder, or hub id.
        local: Look for a hub id in the local cache only.

    Raises:
        MotionkitError: There is no such folder or model, it is of another type, its weights are incomplete, or its
            config.json describes a larger model than its weight files hold.
    """
    path = Path(source).expanduser()
    if path.is_file():
        raise _not_a_folder(path, family)
    if not path.is_dir() and not _HUB_ID.fullmatch(source):
        raise MotionkitError(f"there is no folder {source}.", fix=f"give the text model's folder ({OPTIONS}).")
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
        here = "" if path.is_dir() else f", and there is no folder {source}"
        raise MotionkitError(
            f"cannot open the text model {source!r}: {_first_line(error)}",
            why=f"the {family.name} encoder needs a transformers folder with tokenizer, config and weights{here}.",
            fix=f"give its folder as the text model ({OPTIONS}), or download it once: hf download {family.default}",
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
    """Return the folder of a hub id in the local cache, filled from the network where that is allowed."""
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
    if (found := content.get("model_type")) not in family.types:
        raise MotionkitError(
            f"{folder} holds a model of type {str(found)[:40]}, the {family.name} encoder runs {family.types[0]}.",
            why="the features of another model mean something else to what was trained with this one.",
            fix=f"give the folder of {family.default} ({OPTIONS}).",
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
    held = sum(file.stat().st_size for file in folder.iterdir() if file.suffix in (".safetensors", ".bin"))
    if described > held:
        raise MotionkitError(
            f"{_CONFIG} of {folder} describes {described:,} weights, its weight files have {held:,} bytes.",
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


def _first_line(error: Exception) -> str:
    return str(error).strip().partition("\n")[0] or type(error).__name__


def _not_a_folder(path: Path, family: Family) -> MotionkitError:
    what, fix = "a file, not a transformers folder", "give the folder."
    if zipfile.is_zipfile(path):
        try:
            with path.open("rb") as file, weights.open_zip(file, path) as archive:
                names = archive.namelist()
        except (MotionkitError, OSError):  # a damaged archive is not recognised as TorchScript
            names = []
        if any("/code/" in name or name.endswith("constants.pkl") for name in names):
            what = "a TorchScript archive (such as OpenAI's ViT-B-32.pt)"
            fix = f"use the same weights as a transformers folder: hf download {family.default}, then {OPTIONS}"
    return MotionkitError(f"{path} is {what}.", why="loading TorchScript would run code from the file.", fix=fix)
